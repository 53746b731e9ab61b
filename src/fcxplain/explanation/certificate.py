"""The certificate of a counterfactual: what was checked, with which model and rules, for people to read and for
programs to check again.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.resources import files
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..hashing import fingerprint
from ..outcome import Outcome
from ..rules import Rule, in_words
from ..schema import Feature, Schema
from ..schema.dates import days_in, iso
from ..schema.definition import is_missing
from ..schema.feature import plain
from ..task import Task
from .checks import Bools, lines_of, needed_scores
from .lof import lof_to_data, once_for_each, taken
from .wording import certificate_glance, headline, stated

if TYPE_CHECKING:
    from ..overrides import Overrides
    from .explanation import Explanation

logger = logging.getLogger(__name__)

# Rows for the fingerprint of a model, and its digits.
PROBES, DIGITS = 1_024, 16


@once_for_each
def model_id(task: Task) -> str | None:
    """A fingerprint of the model's classes, threshold and answers; None where it fails on rows of this schema."""
    # Labels and mutability do not matter to a model.
    grid = [[f.name, f.kind, f.low, f.high, f.step, list(map(str, f.levels))] for f in task.schema]
    rows = task.legal_rows(PROBES, seed=int(fingerprint(grid)[:DIGITS], 16))
    try:
        found = task.classifier.decide(rows)
    except Exception as error:  # a user's model may raise anything
        logger.info("no fingerprint of the model, since it does not answer %d legal rows: %s", PROBES, error)
        return None
    answers, outputs = found.choice, found.probabilities[:, 0]
    if not task.classes:
        # In steps of about a hundredth of their range, so that rounding does not show; the offset keeps round numbers
        # away from the borders.
        step = 10.0 ** (math.floor(math.log10(max(float(np.ptp(outputs)), 1e-300))) - 2)
        answers = np.floor(outputs / step + 0.382).astype(np.int64)
    return fingerprint([str(name) for name in task.classes], task.classifier.threshold, answers.tolist())[:DIGITS]


def rules_id(schema: Schema, rules: Sequence[str]) -> str:
    """A fingerprint of the features and of the rule texts, in any order."""
    # Readable labels do not count.
    features = json_text(Schema(tuple(f.replace(labels={}) for f in schema)).to_dict())
    return fingerprint(features, sorted(set(rules)))[:DIGITS]


def rules_ids(task: Task, own: Overrides | None, place: NDArray[np.int64]) -> list[str]:
    """`rules_id` for each of these rows (by position), their own rules included."""
    common = [rule.text for rule in task.rules]
    if own is None:
        return [rules_id(task.schema, common)] * len(place)
    sets = [own.of_row[i] for i in place.tolist()]
    known = {s: rules_id(task.schema, [*common, *(own.rules[r].text for r in s)]) for s in set(sets)}
    return [known[s] for s in sets]


# Fields of a certificate that are lists of other objects.
PARTS = ("changes", "rules")
# Types of values that are the same in JSON.
PLAIN = frozenset({str, int, bool, type(None)})


@dataclass(frozen=True)
class RuleVerdict:
    """One rule on one counterfactual, with the values that it is about."""

    rule: str
    words: str
    kept: bool
    now: dict[str, Any]
    then: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return vars(self) | {"now": written(self.now), "then": written(self.then)}


@dataclass(frozen=True)
class Change:
    """One feature that differs; `title` and `unit` are for display."""

    feature: str
    now: Any
    then: Any
    title: str = ""
    unit: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return vars(self) | {"now": written(self.now), "then": written(self.then)}


@dataclass(frozen=True, repr=False)
class Certificate:
    """What was checked of one counterfactual: `print` it, or take it as data with `to_dict`.

    Attributes
    ----------
    row : label
        The row's label in the index of the explained rows.
    rank : int
        Which of the row's answers it is, from 1.
    status : str
        "verified" if everything checked holds, else "best_effort".
    method, found_by : str
        The method, and the step that found the answer.
    wanted, predicted : class, or text and float
        The target, and the model's answer: a class, or a regressor's output; None if it was not queried.
    probability, probability_now : float or None
        The model's probability of the target, then and now; NaN if it was not queried. None for a regressor.
    output, output_now : float or None
        A regressor's output then and now, in its own units. None for models with classes.
    needed : float or None
        The probability needed for the target, by the model's threshold or by the task; None if one number cannot
        say it, and for a regressor, where `wanted` says it.
    valid, feasible, in_domain, immutables_kept, passed : bool
        Whether the target is met, every rule is kept, every value is legal, immutable features are unchanged; and
        all of that.
    cost : float
        Features changed, plus how far numbers moved in units of their spread.
    changes : tuple of Change
        The features that differ.
    rules : tuple of RuleVerdict
        Every rule that the row has to keep.
    lof : float or None
        Local outlier factor against the training rows: 1 is as dense as around its neighbours.
    draws, calls : int
        Proposals of the network for the row, and model queries (None: not counted).
    model, rules_id : str
        Fingerprints of the model's answers (None if there is none), and of features and rules.
    cut_short : bool or None
        Whether the row's budget ran out before the search was finished; None if unknown.
    noted : tuple of str
        What is unusual about the present row: values that no training row has, and missing ones.
    schema : Schema or None
        Labels of levels and classes, for the certificate as text. Not part of the data.

    Examples
    --------
    >>> certificate = fcx.explain(rows).certificate(0)  # doctest: +SKIP
    >>> print(certificate)  # doctest: +SKIP
    >>> certificate.passed  # doctest: +SKIP
    >>> [(change.feature, change.now, change.then) for change in certificate.changes]  # doctest: +SKIP
    """

    row: Any
    rank: int
    status: str
    method: str
    found_by: str
    wanted: Any
    predicted: Any
    probability: float | None
    valid: bool
    feasible: bool
    in_domain: bool
    immutables_kept: bool
    cost: float
    changes: tuple[Change, ...]
    rules: tuple[RuleVerdict, ...]
    lof: float | None = None
    draws: int = 0
    calls: int | None = None
    model: str | None = None
    rules_id: str = ""
    cut_short: bool | None = None
    probability_now: float | None = None
    output: float | None = None
    output_now: float | None = None
    needed: float | None = None
    noted: tuple[str, ...] = ()
    schema: Schema | None = field(default=None, compare=False)

    @property
    def score(self) -> float:
        """The probability of the target, or a regressor's output; NaN if the model was not queried."""
        found = self.probability if self.output is None else self.output
        return math.nan if found is None else found

    @property
    def score_now(self) -> float:
        """The same for the present row."""
        found = self.probability_now if self.output_now is None else self.output_now
        return math.nan if found is None else found

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return self.valid and self.feasible and self.in_domain and self.immutables_kept

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `certificate_schema` describes it.

        Returns
        -------
        dict
            What JSON can hold.
        """
        return self._scalars() | {name: [part.to_dict() for part in getattr(self, name)] for name in PARTS}

    def _scalars(self) -> dict[str, Any]:
        """Plain data but for the parts, whose places are empty."""
        # `asdict` would copy every value, which takes twenty times as long.
        data: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name == "schema":
                continue
            if name == "cost":
                data["passed"] = self.passed
            data[name] = [] if name in PARTS else written(value)
        absent = ["probability", "probability_now", "needed"] if self.is_number else ["output", "output_now"]
        absent += ["cut_short"] if self.cut_short is None else []
        for name in absent + ([] if self.noted else ["noted"]):
            del data[name]
        return data

    @property
    def is_number(self) -> bool:
        """Whether the model is a regressor."""
        return self.output_now is not None

    def __str__(self) -> str:
        return stated(self)

    def __repr__(self) -> str:
        return f"<{headline(self)}>"

    def _repr_html_(self) -> str:
        return certificate_glance(self).html()


def certificate_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `Certificate.to_dict()`."""
    found: dict[str, Any] = json.loads(files(__package__).joinpath("certificate.schema.json").read_text("utf-8"))
    return found


def json_texts(certificates: Sequence[Certificate]) -> list[str]:
    """Each certificate's `to_dict` as JSON. Parts that many rows have in common are encoded once."""
    known: dict[int, str] = {}

    def encoded(part: Change | RuleVerdict) -> str:
        if (text := known.get(id(part))) is None:
            text = known[id(part)] = json_text(part.to_dict())
        return text

    def filled(certificate: Certificate) -> str:
        text = json_text(certificate._scalars())
        for name in PARTS:
            parts = ", ".join(map(encoded, getattr(certificate, name)))
            # No value contains the empty place, since quotation marks within values are escaped.
            text = text.replace(f'"{name}": []', f'"{name}": [{parts}]', 1)
        return text

    return [filled(certificate) for certificate in certificates]


def json_text(data: Any) -> str:
    """Plain data as JSON; types that it does not know become text."""
    return json.dumps(data, ensure_ascii=False, default=str)


def written(value: Any) -> Any:
    """A value for JSON: NaN and missing become None, unknown types text."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, tuple | list):
        return [written(part) for part in value]
    if isinstance(value, dict):
        return {name: written(part) for name, part in value.items()}
    if isinstance(value, np.generic):
        return written(value.item())
    return None if value is pd.NA or value is pd.NaT else str(value)


def issued(explanation: Explanation, which: NDArray[np.int64], lof: NDArray[np.float64]) -> list[Certificate]:
    """The certificates of some answers; `lof` has one value for each, NaN if not available."""
    e, place, checks = explanation, explanation.place[which], explanation.checks.take(which)
    before, after = e.rows.iloc[place], e.answers.iloc[which]
    calls = repeat(None) if e.calls is None else e.calls[place].tolist()
    cut_short = repeat(None) if e.cut_short is None else e.cut_short[place].tolist()
    then, now = checks.score.tolist(), e.score_now[place].tolist()
    # In the order of the certificate's fields: by position is twice as fast as by name.
    return list(
        map(
            Certificate,
            labels(e.rows.index[place]),
            e.rank[which].tolist(),
            np.where(checks.passed, "verified", "best_effort").tolist(),
            repeat(e.method),
            e.found_by[which].tolist(),
            (str(w) if isinstance(w, Outcome) else plain(w) for w in checks.wanted.tolist()),
            map(plain, checks.predicted.tolist()),
            then if e.task.classes else repeat(None),
            checks.valid.tolist(),
            checks.feasible.tolist(),
            checks.in_domain.tolist(),
            checks.immutables_kept.tolist(),
            checks.cost.tolist(),
            changes_of(e.task.schema, before, after, checks.changed),
            _verdicts(e, place, before, after, checks.kept),
            (None if math.isnan(score) else score for score in lof.tolist()),
            repeat(e.draws),
            calls,
            repeat(model_id(e.task)),
            rules_ids(e.task, e.own, place),
            cut_short,
            now if e.task.classes else repeat(None),
            repeat(None) if e.task.classes else then,
            repeat(None) if e.task.classes else now,
            (None if math.isnan(score) else score for score in needed_scores(e.task, checks.wanted).tolist()),
            (e.noted.get(row, ()) for row in place.tolist()),
            repeat(e.task.schema),
        )
    )


def lof_of(explanation: Explanation, which: NDArray[np.int64]) -> NDArray[np.float64]:
    """LOF against the training rows for some answers; NaN where a value is outside its domain."""
    found = np.full(len(which), np.nan)
    legal = explanation.checks.in_domain[which]
    if legal.any():
        natural = explanation.task.schema.natural(explanation.answers.iloc[which])
        scores = lof_to_data(explanation.task, taken(natural, legal))
        found[legal] = np.nan if scores is None else scores
    return found


def changes_of(schema: Schema, before: pd.DataFrame, after: pd.DataFrame, changed: Bools) -> list[tuple[Change, ...]]:
    """The changes of each answer."""
    made: list[tuple[Change, ...]] = [()] * len(changed)
    for j, feature in enumerate(schema):
        lines = np.flatnonzero(changed[:, j])
        if not len(lines):
            continue
        now, then = (_plain_column(table[feature.name].take(lines), feature) for table in (before, after))
        change = lru_cache(maxsize=None, typed=True)(
            partial(Change, feature.name, title=feature.title, unit=feature.unit)
        )
        for i, one in zip(lines.tolist(), map(change, now, then), strict=True):
            made[i] += (one,)
    return made


def unusual(schema: Schema, rows: pd.DataFrame, which: Bools) -> dict[int, tuple[str, ...]]:
    """Values of some rows that are missing, outside guessed bounds or not known levels, in words, by position."""
    found: dict[int, tuple[str, ...]] = {}
    for feature, natural in ((f, schema.natural(rows, [f.name])[f.name]) for f in schema):
        low = 0 if feature.is_category else -np.inf if feature.low is None else feature.low
        known = (natural >= low) & (natural <= (np.inf if feature.high is None else feature.high))
        for i in np.flatnonzero(which & ~known).tolist():
            value = rows[feature.name].iloc[i]
            if is_missing(value):
                said = "missing"
            elif feature.is_category:
                said = f"{feature.level_title(value)}, which is new to the model"
            else:
                said = f"{plain(value)}, outside the range {feature.low} to {feature.high} that the model knows"
            found[i] = (*found.get(i, ()), f"{feature.title} is {said}")
    return dict(sorted(found.items()))


def labels(index: pd.Index) -> list[Any]:
    """Labels of rows as plain Python."""
    return [tuple(map(plain, v)) if isinstance(v, tuple) else plain(v) for v in index.tolist()]


def cells(table: pd.DataFrame, schema: Schema) -> dict[str, list[Any]]:
    """A table's columns as plain Python; dates are ISO text."""
    return {feature.name: _plain_column(table[feature.name], feature) for feature in schema}


def _plain_column(column: pd.Series, feature: Feature) -> list[Any]:
    if feature.kind == "date":
        return [None if day != day else iso(day) for day in days_in(column).tolist()]
    values: list[Any] = column.tolist()
    # Only object columns may hold something other than plain Python values.
    is_plain = isinstance(column.dtype, np.dtype | pd.StringDtype) and column.dtype != object
    return values if is_plain else [plain(v) for v in values]


def _verdicts(
    explanation: Explanation, place: NDArray[np.int64], before: pd.DataFrame, after: pd.DataFrame, kept: Bools
) -> Iterator[tuple[RuleVerdict, ...]]:
    """Every rule on each answer: the task's, then the row's own."""
    task, own, lines = explanation.task, explanation.own, np.arange(len(place))
    rules = (*task.rules, *(() if own is None else own.rules))
    refs = {(ref.primed, ref.name): ref.feature for rule in rules for ref in rule.refs}
    columns = {at: _plain_column((after if at[0] else before)[at[1]], feature) for at, feature in refs.items()}
    common = [_of_rule(rule, kept[:, j], lines, columns) for j, rule in enumerate(task.rules)]
    shared = zip(*common, strict=True) if common else repeat((), len(place))
    if own is None or not own.rules:
        return shared
    mine: list[tuple[RuleVerdict, ...]] = [()] * len(place)
    for j, (rule, where) in enumerate(zip(own.rules, lines_of(own.applies(place)), strict=True), start=len(common)):
        for i, verdict in zip(where.tolist(), _of_rule(rule, kept[where, j], where, columns), strict=True):
            mine[i] += (verdict,)
    return (of_task + of_row for of_task, of_row in zip(shared, mine, strict=True))


def _of_rule(
    rule: Rule, kept: Bools, lines: NDArray[np.int64], columns: dict[tuple[bool, str], list[Any]]
) -> list[RuleVerdict]:
    """One rule on some answers, with the values that it names; `columns` has those now (False) and then (True)."""
    text, words, which = rule.text, in_words(rule), lines.tolist()
    refs = sorted({(ref.primed, ref.name) for ref in rule.refs})
    now, then = ([name for primed, name in refs if primed == when] for when in (False, True))

    # Cached, since there are far fewer pairs of values than rows.
    @lru_cache(maxsize=None, typed=True)
    def verdict(holds: bool, *values: Any) -> RuleVerdict:
        first, second = values[: len(now)], values[len(now) :]
        return RuleVerdict(text, words, holds, dict(zip(now, first, strict=True)), dict(zip(then, second, strict=True)))

    return list(map(verdict, kept.tolist(), *([columns[at][i] for i in which] for at in refs)))
