"""Random problems, each told by a seed and a number alone: few legal rows, and every kind of column, rule and model.

All values are counted in whole units (see `second_reading`). Beside its grid, a number has up to two off-grid values that
present rows may have, so that every legal row of every row asked about is among a few thousand.

A number below zero tells a problem with a twist: gaps, values outside of bounds that were guessed, levels never seen, several
classes that will do, a probability that is asked for, or a model that answers numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from lightgbm.basic import LightGBMError
from xgboost.core import XGBoostError

from fcxplain import Schema, Task
from fcxplain.errors import RuleError
from fcxplain.schema import Feature
from random_models import (
    CLASSES,
    ESTIMATORS,
    REGRESSORS,
    Model,
    estimator_model,
    model_of,
    onnx_model,
    points_model,
    regressor_model,
    spelled_model,
    torch_model,
)
from second_reading import GAP, UNITS, UNSEEN, Columns, Comparison, Logic, Sentence, grid, take, units
from sentences import one_of, some_rules

NAMES = ("row", "status", "fcx_row", "and", "in", "a'b", "x y", "Ω", "1st", "age", "income", "job")
PREFER = ("sparse", "balanced", "plausible", "fewest")
TRAIN, ASKED, ASKED_SLOWLY, DOMAIN = 60, 300, 40, 3_000
CALLABLES = ("logistic", "tree", "forest", "lookup", "points", "spelled")
KINDS = (*(["network"] * 5), *ESTIMATORS, *ESTIMATORS, *CALLABLES, "onnx")
# Numbers that do not fit into a double's 53 bits are shown in single precision, or less, as near as these can.
SHORT = ("float32", "float16", "Float32", "float[pyarrow]")
WHOLE = ("int64", "int32", "int16", "int8", "uint8", "Int64", "Int8", "int64[pyarrow]")
# What models raise at columns or settings that they do not take.
REFUSED = (TypeError, ValueError, NotImplementedError, AttributeError, OverflowError, LightGBMError, XGBoostError)


@dataclass(frozen=True, eq=False)
class Problem:
    """A task, and all that the judge needs beside it."""

    seed: int
    number: int
    schema: Schema
    sentences: tuple[Sentence, ...]
    dtypes: Mapping[str, Any]
    values: Mapping[str, np.ndarray]
    """The values of each feature that any row may have, in units and in order."""
    train: pd.DataFrame
    now: Columns
    """The rows asked about."""
    model: Model
    task: Task
    kind: str
    k: int
    prefer: str
    targets: tuple[Any, ...] = ()
    """The classes that will do; none where it is the other of two, or a range."""
    least: float | None = None
    """The probability that they need at least."""
    bounds: tuple[float, float] = (-np.inf, np.inf)
    """Where a number has to lie."""

    def __repr__(self) -> str:
        rules = [s.text for s in self.sentences]
        dtypes = {name: str(d) for name, d in self.dtypes.items()}
        return (
            f"{self.kind}: {self.model.about}, threshold {self.model.threshold!r}, target {self.task.target!r}, "
            f"k={self.k}, prefer={self.prefer!r}\n{self.schema}\ndtypes {dtypes}\nrules {rules}"
        )

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The rows asked about as their owner has them: in the training dtypes, where these hold them all."""
        return table_of(self.schema, self.now, self.dtypes)

    @cached_property
    def domain(self) -> dict[str, np.ndarray]:
        """Every row that there can be, legal for some row asked about or not."""
        return domain_of(self.values)

    def answers(self, columns: Columns) -> np.ndarray:
        """The model's own answers to rows in a batch; a row is shown in the dtypes in which it is shown alone."""
        return self._shown(columns, lambda table: _objects(self.model.answers(table)))

    def meets(self, columns: Columns) -> np.ndarray:
        """Whether rows have what is wanted of all of them."""
        said = self.answers(columns)
        if not self.model.classes:
            return (self.bounds[0] <= said) & (said <= self.bounds[1])
        found = np.isin(np.array([self.model.classes.index(c) for c in said]), self._accepted)
        return found if self.least is None else found & (self._shown(columns, self._score) >= self.least)

    @property
    def _accepted(self) -> list[int]:
        return [self.model.classes.index(c) for c in self.targets]

    def _score(self, table: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.ask(table), dtype=np.float64)[:, self._accepted].sum(axis=1)

    @cached_property
    def unreadable(self) -> np.ndarray:
        """Which of the rows asked about have a gap that nobody may have."""
        return np.logical_or.reduce([(self.now[f.name] == GAP) & (f.missing == "never") for f in self.schema])

    def unsure(self, columns: Columns) -> np.ndarray:
        """Rows so near to the model's boundary that its own rounding decides."""
        near = np.zeros(count(columns), dtype=bool)
        if self.least is not None:
            near |= np.abs(self._shown(columns, self._score).astype(float) - self.least) < self.model.coarse
        if not self.model.classes:
            said = self.answers(columns).astype(float)
            near |= np.min([np.abs(said - b) for b in self.bounds], axis=0) <= 1e-9 * (1 + np.abs(said))
        return near if self.model.unsure is None else near | self._shown(columns, self.model.unsure).astype(bool)

    def _shown(self, columns: Columns, ask: Callable[[pd.DataFrame], np.ndarray]) -> np.ndarray:
        found = np.empty(count(columns), dtype=object)
        broken = np.zeros(count(columns), dtype=int)
        for i, name in enumerate(self.schema.names):
            if str(self.dtypes[name]) in WHOLE and self.schema[name].is_number:
                broken |= (np.asarray(columns[name]) % UNITS != 0).astype(int) << i
        for own in np.unique(broken):
            which = np.flatnonzero(broken == own)
            found[which] = ask(table_of(self.schema, take(columns, which), self.dtypes))
        return found


def count(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def domain_of(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    spread = np.meshgrid(*values.values(), indexing="ij")
    return {name: part.reshape(-1) for name, part in zip(values, spread, strict=True)}


def _objects(values: list[Any]) -> np.ndarray:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def table_of(schema: Schema, columns: Columns, dtypes: Mapping[str, Any]) -> pd.DataFrame:
    """A table in these dtypes; a column of whole numbers that cannot hold a value is one of doubles."""
    shown = {}
    for f in schema:
        own, place = np.unique(columns[f.name], return_inverse=True)
        shown[f.name] = _column(f, own, dtypes[f.name]).take(place).reset_index(drop=True)
    return pd.DataFrame(shown)


def _column(feature: Feature, own: np.ndarray, dtype: Any) -> pd.Series:
    if feature.is_category:
        levels = [*feature.levels, UNSEEN]
        values = pd.Series(_objects([None if v == GAP else levels[int(v)] for v in own]), dtype=object)
        return values if dtype == "object" else values.astype(dtype)
    if (own == GAP).any():
        return pd.Series([np.nan if v == GAP else int(v) / UNITS for v in own], dtype="float64")
    if feature.kind == "integer" and dtype == "object":
        return pd.Series(_objects([int(v) // UNITS for v in own]), dtype=object)
    values = pd.Series([int(v) / UNITS for v in own], dtype="float64")
    return values if str(dtype) in WHOLE and (own % UNITS).any() else values.astype(dtype)


def problem(seed: int, number: int, kind: str | None = None) -> Problem:
    """The problem of a seed and a number; always the same one."""
    rng = np.random.default_rng([seed, abs(number)] + [1] * (number < 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _made(seed, number, kind or one_of(rng, KINDS if number >= 0 else (*KINDS, *REGRESSORS)), rng)


def _made(seed: int, number: int, kind: str, rng: np.random.Generator) -> Problem:
    # Tools that make ONNX files rename inputs that begin with a digit.
    schema = _schema(rng, [n for n in NAMES if kind != "onnx" or n.isidentifier()])
    rules = some_rules(schema, rng)
    schema = _twisted(schema, kind, rules, rng) if number < 0 else schema
    classes = _classes(kind, rng)
    dtypes = {f.name: one_of(rng, _dtypes(f)) for f in schema}
    if rng.random() < 0.3:
        dtypes = plain(schema)
    if kind in ("xgboost", "lightgbm", "histogram boosting") and rng.random() < 0.7:
        # Without a pipeline, they take categories as pandas has them.
        dtypes |= {f.name: pd.CategoricalDtype(list(f.levels), f.kind == "ordinal") for f in schema if f.is_category}
        dtypes |= {f.name: "float64" for f in schema if f.is_number and dtypes[f.name] == "object"}
    # What has gaps, or more values than the bounds say, arrives in what can hold them.
    wide = {f.name: "float64" if f.is_number else "object" for f in schema if f.missing or f.guessed}
    dtypes |= {n: d for n, d in wide.items() if not isinstance(dtypes[n], pd.CategoricalDtype) or schema[n].guessed}
    off = {f.name: _off_grid(f, dtypes[f.name], rules, kind, rng) for f in schema}
    values = {f.name: np.union1d(grid(f), np.concatenate([off[f.name], _beyond(f)])) for f in schema}
    legal = {name: grid(schema[name]) for name in values}
    train = _rows({n: values[n] if rng.random() < 0.1 else legal[n] for n in values}, TRAIN, rng)
    if number < 0:
        # Of training rows only what the schema knows, and gaps; a few of the rows asked about have any gap.
        train = {
            f.name: np.where(np.isin(v, grid(f)), v, grid(f)[0]) for f, v in zip(schema, train.values(), strict=True)
        }
        train = {f.name: _gappy(f, train[f.name], (GAP in values[f.name]) * 0.2, rng) for f in schema}
    share = one_of(rng, [0.0, 0.1, 0.5])
    asked, strange = (_rows(own, 4 * ASKED, rng) for own in (legal, values))
    now = {n: np.where(rng.random(4 * ASKED) < share, strange[n], asked[n]) for n in values}
    now = {f.name: _gappy(f, now[f.name], 0.15 * (f.missing is not None), rng) for f in schema}
    every = domain_of(legal)
    some = take(every, rng.permutation(count(every))[:300])
    table, model, dtypes = _fitted(kind, schema, train, some, classes, dtypes, rng)
    outcome = _outcome(model, table_of(schema, some, dtypes), number < 0, rng)
    target = outcome.pop("target")
    more = {"classes": model.classes} if model.named else {}
    more |= {} if model.threshold is None else {"threshold": model.threshold}
    more |= {} if outcome.get("least") is None else {"target_probability": outcome["least"]}
    try:
        task = Task(table, model.given, schema=schema, rules=[s.text for s in rules], target=target, **more)
    except RuleError as error:
        # Rules that nothing can keep are rightly refused; any other fault would be the sentences' own.
        if "contradictory rules" not in str(error):
            raise
        rules = ()
        task = Task(table, model.given, schema=schema, target=target, **more)
    k, prefer = one_of(rng, [1, 1, 3]), one_of(rng, PREFER)
    made = Problem(seed, number, schema, rules, dtypes, values, table, now, model, task, kind, k, prefer, **outcome)
    return replace(made, now=take(now, _refused_first(made, rng)))


def _refused_first(made: Problem, rng: np.random.Generator) -> np.ndarray:
    """Places of rows to ask about, in any order: of those that have the class wanted only a few, if there are others."""
    has = made.unreadable | (rng.random(count(made.now)) < 0.02)
    has[~has] |= made.meets(take(made.now, np.flatnonzero(~has))) if made.task.target is not None else False
    later = has & (rng.random(len(has)) < 0.95)
    rows = ASKED_SLOWLY if any(_is_wide(s) for s in made.sentences) else ASKED
    return rng.permutation(np.argsort(later, kind="stable")[:rows])


def _is_wide(sentence: Sentence) -> bool:
    """Whether a comparison speaks of two values that may change: an integer program for each candidate."""
    if isinstance(sentence, Logic):
        return any(_is_wide(item) for item in sentence.items)
    if not isinstance(sentence, Comparison):
        return False
    return sum(name.primed for side in (sentence.left, sentence.right) for _, name in side.terms) > 1


def _fitted(
    kind: str,
    schema: Schema,
    train: Columns,
    legal: Columns,
    classes: tuple[Any, ...],
    dtypes: dict[str, Any],
    rng: np.random.Generator,
) -> tuple[pd.DataFrame, Model, dict[str, Any]]:
    """The training table, and a model of it.

    Where the model itself refuses such columns, plain ones are taken, and where it refuses its settings, others.
    """
    labels = np.array(_objects(list(classes))[_places(schema, train, len(classes), rng)].tolist())
    numbers = {n: d for n, d in plain(schema).items() if schema[n].is_number}
    for attempt in range(20):
        own = (dtypes, dtypes | numbers, plain(schema))[attempt % 3]
        table = table_of(schema, train, own)
        own = {name: own[name] if str(table[name].dtype) == str(own[name]) else table[name].dtype for name in own}
        try:
            model = _model(kind, schema, table, labels, table_of(schema, legal, own), classes, rng)
            model.answers(table)
            return table, model, own
        except REFUSED as error:
            refused = error
    raise refused


def _model(
    kind: str,
    schema: Schema,
    train: pd.DataFrame,
    labels: np.ndarray,
    legal: pd.DataFrame,
    classes: tuple[Any, ...],
    rng: np.random.Generator,
) -> Model:
    if kind == "network":
        return torch_model(schema, train, classes, legal, rng)
    if kind in ESTIMATORS:
        return estimator_model(kind, schema, train, labels, legal, rng)
    if kind in REGRESSORS:
        return regressor_model(kind, schema, train, labels, rng)
    if kind == "onnx":
        return onnx_model(schema, train, labels, rng)
    if kind in ("points", "spelled"):
        return (points_model if kind == "points" else spelled_model)(schema, classes, rng)
    threshold = one_of(rng, [None, None, 0.2, 0.9]) if len(classes) == 2 else None
    seed, bias = int(rng.integers(2**31)), one_of(rng, [0.0, 1.0, 2.0])
    return model_of(kind, schema, train, seed=seed, classes=classes, threshold=threshold, bias=bias)


def _places(schema: Schema, train: Columns, classes: int, rng: np.random.Generator) -> np.ndarray:
    """Classes that go by the values, with some noise; the last one is rarer or not. Each is there at least thrice."""
    score = rng.normal(size=TRAIN) * one_of(rng, [0.1, 0.5, 2.0])
    for f in schema:
        own, place = np.unique(train[f.name], return_inverse=True)
        score += rng.normal(size=len(own))[place]
    share = one_of(rng, [0.5, 0.3, 0.15])
    cuts = np.quantile(score, np.linspace(0, 1 - share, classes)[1:])
    found = np.searchsorted(cuts, score)
    found[: 3 * classes] = np.tile(np.arange(classes), 3)
    return found


def _classes(kind: str, rng: np.random.Generator) -> tuple[Any, ...]:
    known = [c for c in CLASSES if kind != "xgboost" or repr(c) == "(0, 1)"] + [(0, 1, 2)]
    # Estimators have their classes in order.
    ordered = [tuple(sorted(c)) for c in known] if kind in ESTIMATORS or kind == "onnx" else known
    chosen = one_of(rng, [*(c for c in ordered if len(c) == 2), *ordered])
    return ("no", "yes") if kind == "onnx" and isinstance(chosen[0], bool) else chosen


def _rows(values: Mapping[str, np.ndarray], rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {name: rng.choice(own, size=rows) for name, own in values.items()}


def _outcome(model: Model, legal: pd.DataFrame, twisted: bool, rng: np.random.Generator) -> dict[str, Any]:
    """What is wanted, as the task is told it and as the judge reads it."""
    if not model.classes:
        low, high = np.sort(rng.choice(np.asarray(model.ask(legal)), 2)).tolist()
        bounds = one_of(rng, [(low, np.inf), (high, np.inf), (-np.inf, low), (low, high)])
        text = f"{low!r}..{high!r}" if np.isfinite(bounds).all() else f">= {bounds[0]!r}"
        return {"target": text if bounds[0] > -np.inf else f"<= {bounds[1]!r}", "bounds": bounds}
    classes = model.classes
    target = one_of(rng, [classes[-1], classes[-1], classes[0], *[None] * (len(classes) == 2)])
    if twisted and len(classes) > 2 and rng.random() < 0.7:
        target = [classes[i] for i in rng.permutation(len(classes))[:2]]
    least = one_of(rng, [None, 0.5, 0.6, 0.75, 0.9]) if twisted and target is not None else None
    targets = () if target is None else tuple(target) if isinstance(target, list) else (target,)
    return {"target": target, "targets": targets, "least": least}


def _gappy(feature: Feature, values: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(len(values)) < share, GAP, values) if share else values


# Features


def _twisted(schema: Schema, kind: str, rules: tuple[Sentence, ...], rng: np.random.Generator) -> Schema:
    """The same features with gaps, with bounds that are only guessed, or with levels that are."""
    found = []
    for f in schema:
        piped = kind in ESTIMATORS or kind in REGRESSORS
        if piped and rng.random() < 0.5:
            f = f.replace(missing=one_of(rng, ["kept", "may_be_filled", "never"]))
        if f.is_number and rng.random() < 0.5:
            f = f.replace(guessed=("low", "high"))
        in_rules = any(f"`{f.name}`" in s.text for s in rules)
        if kind in REGRESSORS and f.is_category and isinstance(f.levels[0], str) and not in_rules:
            f = f.replace(guessed=("levels",))
        found.append(f)
    return Schema(tuple(found))


def _beyond(feature: Feature) -> np.ndarray:
    """What rows may have that no change may lead to: gaps, numbers outside of guessed bounds, a level never seen."""
    beyond = [GAP] * (feature.missing in ("kept", "may_be_filled"))
    if feature.is_category:
        return np.array(beyond + [len(feature.levels)] * ("levels" in feature.guessed), dtype=np.int64)
    outside = [units(feature.low) - 2 * units(feature.step), units(feature.high) + 3 * units(feature.step)]
    return np.array(beyond + outside * ("low" in feature.guessed), dtype=np.int64)


def _schema(rng: np.random.Generator, known: list[str]) -> Schema:
    """Two to five features of few values each, at least one of which may change, under odd names."""
    names = [known[i] for i in rng.permutation(len(known))[: rng.integers(2, 6)]]
    features = [_number(n, rng) if rng.random() < 0.6 else _category(n, rng) for n in names]
    while np.prod([len(grid(f)) + 2 * f.is_number for f in features]) > DOMAIN:
        features.pop()
    if not any(f.mutable for f in features):
        features[0] = features[0].replace(mutable=True)
    return Schema(tuple(features))


def _number(name: str, rng: np.random.Generator) -> Feature:
    """At most five values, whose upper bound may lie between two of them. In hundredths."""
    whole = rng.random() < 0.5
    step = one_of(rng, [100, 100, 200, 300, 10_000, 100_000, 100_000_000] if whole else [10, 25, 50, 150, 100])
    low = int(rng.integers(-3, 4)) * step if rng.random() < 0.5 else 0
    over = step // 200 * 100 if whole else step // 2
    high = low + step * one_of(rng, [0, 1, 2, 3, 3, 4, 4, 4]) + over * (rng.random() < 0.3)
    more = {"low": low / 100, "high": high / 100, "step": step / 100, "mutable": bool(rng.random() < 0.75)}
    return Feature(name, "integer" if whole else "continuous", **more)


def _category(name: str, rng: np.random.Generator) -> Feature:
    """At most four levels; ties among ranks are common."""
    texts = rng.permutation(["x", "y", "z z", "ß", "", "1", "None"])[: one_of(rng, [1, 2, 3, 3, 4, 4])].tolist()
    wholes = [int(v) for v in rng.permutation(np.arange(-3, 4))[: one_of(rng, [1, 2, 3, 4])]]
    levels = tuple(one_of(rng, [texts, texts, wholes, [False, True], [True, False], [0, 1]]))
    mutable = bool(rng.random() < 0.75)
    if rng.random() < 0.5:
        return Feature(name, "categorical", levels=levels, mutable=mutable)
    ranks = tuple(int(v) for v in rng.integers(-2, 3, size=len(levels)))
    return Feature(name, "ordinal", levels=levels, ranks=ranks, mutable=mutable)


def _dtypes(feature: Feature) -> list[Any]:
    """Dtypes in which a column of this feature may arrive, and which hold all of its legal values."""
    if feature.is_category:
        category = pd.CategoricalDtype(list(feature.levels), ordered=feature.kind == "ordinal")
        if isinstance(feature.levels[0], bool):
            return ["bool", "boolean", "bool[pyarrow]", "object", category]
        if isinstance(feature.levels[0], int):
            return ["int64", "int32", "int8", "Int64", "int64[pyarrow]", "object", category]
        return ["str", "string", "string[pyarrow]", pd.ArrowDtype(pa.string()), "object", category]
    low, high = float(feature.low or 0), float(feature.high or 0)
    found = ["float64", "float64", "Float64", "double[pyarrow]", "object", *(SHORT if abs(high) < 2e6 else ())]
    if max(abs(low), abs(high)) > 1_000 and "float16" in found:
        found.remove("float16")
    if units(float(feature.step or 1)) % UNITS or units(low) % UNITS:
        return found
    small = (["int8", "Int8"] if low >= -128 and high <= 127 else []) + (["uint8"] if low >= 0 and high <= 255 else [])
    return [*found, "int64", "int64", "int32", "Int64", "int64[pyarrow]", *small]


def plain(schema: Schema) -> dict[str, Any]:
    """The dtypes that reading a file of text gives."""
    given = {"integer": "int64", "continuous": "float64"}
    wide = {f.name: "float64" if f.is_number else "object" for f in schema if f.missing or f.guessed}
    return wide | {
        f.name: given.get(f.kind) or ("str" if isinstance(f.levels[0], str) else "object")
        for f in schema
        if f.name not in wide
    }


def _off_grid(
    feature: Feature, dtype: Any, rules: tuple[Sentence, ...], kind: str, rng: np.random.Generator
) -> np.ndarray:
    """Up to two values within the bounds that are not on the grid, in units."""
    if feature.is_category:
        return np.empty(0, dtype=np.int64)
    apart = UNITS if feature.kind == "integer" else UNITS // 100
    if str(dtype) in SHORT and any(f"`{feature.name}`" in s.text for s in rules):
        # A rule sees the very number, which single precision must then hold: a multiple of a sixteenth.
        apart = max(apart, UNITS // 16)
    if str(dtype) in WHOLE and kind == "spelled":
        apart = UNITS
    first, last = -(-units(feature.low) // apart), units(feature.high) // apart
    drawn = rng.integers(first, last + 1, size=2) * apart if last >= first else np.empty(0, dtype=np.int64)
    return np.setdiff1d(drawn, grid(feature))
