"""Contract items for rules, models and answers, and their results: as data, as a table, and as one error."""

from __future__ import annotations

import inspect
import random
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..classifier.protocol import chosen
from ..errors import Fault, FcxError, some
from ..explanation import Explanation, Status
from ..region.conflict import breakage, contradiction
from ..rules import holds, in_words
from ..schema.feature import plain
from ..task import Task

WIDTH = 100


class ContractError(FcxError):
    """A model, rules or an explainer break the contract; `faults` lists each failed item."""


@dataclass(frozen=True)
class Item:
    """One test of the contract. `passed` is None for information, and for tests that could not run."""

    name: str
    passed: bool | None
    detail: str
    remedy: str = ""

    def lines(self, width: int) -> list[str]:
        """The lines of the table, with names of this width."""
        said = [self.detail, *([self.remedy] if self.remedy and not self.passed else [])]
        room, mark = max(30, WIDTH - width - 12), {True: "passed", False: "FAILED", None: "note"}[self.passed]
        first, *rest = (line for text in said for line in textwrap.wrap(text, room, break_long_words=False) or [""])
        return [f"  {mark:<6}  {self.name:<{width}}  {first}", *(f"{'':{width + 12}}{line}" for line in rest)]


@dataclass(frozen=True)
class ContractReport:
    """The result of every item; printed, it is a table."""

    explainer: str
    task: str
    items: tuple[Item, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Item, ...]:
        """The items that failed."""
        return tuple(item for item in self.items if item.passed is False)

    def __getitem__(self, name: str) -> Item:
        return {item.name: item for item in self.items}[name]

    def __str__(self) -> str:
        width = max((len(item.name) for item in self.items), default=0)
        lines = [line for item in self.items for line in item.lines(width)]
        tried = sum(item.passed is not None for item in self.items)
        verdict = "all passed" if self.passed else f"{len(self.failures)} FAILED"
        return "\n".join([self.explainer, f"on {self.task}", *lines, f"{tried} items tried, {verdict}"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"passed": self.passed, **asdict(self)}

    def raise_for_failures(self) -> None:
        """Raise one `ContractError` that lists every failed item, if there are any."""
        if not self.passed:
            faults = [Fault(item.name, item.detail, item.remedy) for item in self.failures]
            raise ContractError(f"{self.explainer} breaks the contract", faults)


def held(detail: str) -> Item:
    """A trial that passed."""
    return Item("", True, detail)


def broken(detail: str, remedy: str) -> Item:
    """A trial that failed."""
    return Item("", False, detail, remedy)


def noted(detail: str) -> Item:
    """A trial that only informs, and cannot fail."""
    return Item("", None, detail)


def tried(trials: Mapping[str, Callable[[], Item]], remedy: str) -> Iterator[Item]:
    """Run trials by name. Any exception is a failure too: a user's code may raise anything."""
    for name, trial in trials.items():
        try:
            found = trial()
        except Exception as error:
            found = broken(error_text(error), remedy)
        yield replace(found, name=name)


def error_text(error: Exception) -> str:
    """An error as text, with its type unless it is one of ours."""
    said = str(error).strip() or "no message"
    return said if isinstance(error, FcxError) else f"{type(error).__name__}: {said}"


def rule_items(task: Task) -> Iterator[Item]:
    """Every item about the rules."""
    trials = {"rules: can be kept": partial(_kept, task), "rules: rows that break them": partial(_broken, task)}
    return tried(trials, "Look at the rules one by one with `fcxplain rules check`.")


def _kept(task: Task) -> Item:
    core = contradiction(task.rules, task.schema)
    if core:
        said = "; ".join(in_words(rule) for rule in core)
        return broken(f"no legal row keeps all of: {said}", "Drop or loosen one of them.")
    return held(f"{len(task.rules):,} rules, and some legal row keeps them all" if task.rules else "no rules")


def _broken(task: Task) -> Item:
    found = [b for b in breakage(task.rules, task.train, pairs=1) if b.rows_broken]
    if not found:
        return noted(f"none of {len(task.train):,} training rows breaks a rule as it is")
    rows = int((~holds(task.rules, task.train, task.train)).sum())
    worst = max(found, key=lambda b: b.rows_broken)
    said = f"{rows:,} of {len(task.train):,} training rows break a rule as they are and must change to keep it"
    return noted(f"{said}; most often, {worst.rows_broken:,} times: {in_words(worst.rule)}")


Floats = NDArray[np.float64]
# Batches of other sizes round differently; more than this is another answer.
SAME = 1e-5
SUM = 1e-4
# Rows that are passed to the model one at a time.
ASKED_ALONE = 10
SEEDED = "Fix its seed, or put it into evaluation mode."
BY_ROW = "It must keep the order of the rows and use each row alone, without means over the batch."


def model_items(task: Task, rows: pd.DataFrame, seed: int) -> Iterator[Item]:
    """Every item about the model, tested on some training rows."""
    trials: dict[str, Callable[[], Item]] = {
        "model: probabilities": partial(_proper, task, rows),
        "model: same answer twice": partial(_deterministic, task, rows),
        "model: order of rows": partial(_unordered, task, rows, seed),
        "model: rows beside a row": partial(_alone, task, rows),
        "model: its table": partial(_model_untouched, task, rows),
        "model: class wanted": partial(_wanted, task, rows),
        "model: legal rows": partial(_accepts, task, len(rows), seed),
    }
    return tried(trials, "Query your model with these rows by hand; it has to answer every legal row.")


def _ask(task: Task, rows: pd.DataFrame) -> Floats:
    """The model's answer to a copy of the rows, so that changes it makes to them do not affect other items."""
    return np.asarray(task.classifier.probabilities(rows.copy(deep=True)), dtype=np.float64)


def _proper(task: Task, rows: pd.DataFrame) -> Item:
    found, classes = _ask(task, rows), len(task.classes)
    size = (len(rows), classes or 1)
    if found.shape != size:
        remedy = "Return one probability for each row and class, or one number for each row."
        return broken(f"the answer has the shape {found.shape}, not {size}", remedy)
    wrong = ~np.isfinite(found).all(axis=1)
    if not classes:
        if wrong.any():
            first = f"{wrong.sum():,} of {len(rows):,} rows, first at index {rows.index[wrong][0]!r}"
            return broken(f"no finite number for {first}", "Return a number for every row.")
        return held(f"{len(rows):,} training rows get a number each")
    wrong |= (found < 0).any(axis=1) | (found > 1).any(axis=1)
    wrong |= np.abs(found.sum(axis=1) - 1) > SUM
    if wrong.any():
        first = f"{wrong.sum():,} of {len(rows):,} rows, first at index {rows.index[wrong][0]!r}: {found[wrong][0]}"
        return broken(f"no probabilities that sum to 1 for {first}", "Divide each row by its sum.")
    return held(f"{len(rows):,} training rows get {classes} probabilities each, which sum to 1")


def _deterministic(task: Task, rows: pd.DataFrame) -> Item:
    answers = [_ask(task, rows) for _ in range(3)]
    gap = max(_gap(task, answers[0], other) for other in answers[1:])
    if gap > SAME:
        return broken(f"queried three times with the same rows, its answers differ by up to {gap:.2g}", SEEDED)
    return held(f"queried three times with {len(rows):,} rows, it gives the same answers")


def _unordered(task: Task, rows: pd.DataFrame, seed: int) -> Item:
    usual = _ask(task, rows)
    orders = [np.arange(len(rows))[::-1], np.random.default_rng(seed).permutation(len(rows))]
    gap = max(_gap(task, usual[order], _ask(task, rows.iloc[order])) for order in orders)
    if gap > SAME:
        return broken(f"in another order, the same rows get answers that differ by up to {gap:.2g}", BY_ROW)
    return held("reversed and shuffled, every row gets the same answer")


def _alone(task: Task, rows: pd.DataFrame) -> Item:
    usual, few = _ask(task, rows), range(min(ASKED_ALONE, len(rows)))
    alone = np.concatenate([_ask(task, rows.iloc[[i]]) for i in few])
    half = len(rows) // 2
    parts = np.concatenate([_ask(task, part) for part in (rows.iloc[:half], rows.iloc[half:])])
    gap = max(_gap(task, usual[: len(alone)], alone), _gap(task, usual, parts))
    if gap > SAME:
        return broken(f"an answer depends on the other rows of the batch, by up to {gap:.2g}", BY_ROW)
    return held("a row gets the same answer alone, in halves and in the whole table")


def _gap(task: Task, one: Floats, other: Floats) -> float:
    """How far two answers are apart; a different class always counts."""
    if one.shape != other.shape:
        return float("inf")
    if not len(one):
        return 0.0
    gap = float(np.abs(one - other).max()) / (1.0 if task.classes else max(1.0, float(np.abs(one).max())))
    threshold = task.classifier.threshold
    # A class on the very edge flips by rounding alone, and no search can prevent that.
    return gap if (chosen(one, threshold) == chosen(other, threshold)).all() else max(gap, 2 * SAME)


def _model_untouched(task: Task, rows: pd.DataFrame) -> Item:
    given = rows.copy(deep=True)
    task.classifier.probabilities(given)
    if not given.equals(rows) or list(given.columns) != list(rows.columns) or not given.index.equals(rows.index):
        return broken("the model changes the table that is passed to it", "Let it work on a copy.")
    return held("the table passed to it is unchanged")


def _wanted(task: Task, rows: pd.DataFrame) -> Item:
    have = int((~task.refused(rows.copy(deep=True))).sum())
    return noted(f"the target is {task.outcome_words}; {have:,} of {len(rows):,} training rows have it already")


def _accepts(task: Task, count: int, seed: int) -> Item:
    corners = task.table({f.name: f.at(np.array([0, f.top or 0])) for f in task.schema})
    rows = pd.concat([corners, task.legal_rows(count, seed=seed)], ignore_index=True)
    try:
        _ask(task, rows)
    except Exception as error:
        bad = [i for i in range(len(rows)) if not _answers(task, rows.iloc[[i]])]
        shown = f", e.g. {rows.iloc[bad[0]].to_dict()}" if bad else ""
        problem = f"{len(bad):,} of {len(rows):,} rows inside the schema's bounds get no answer{shown}"
        remedy = "Narrow the schema to what the model knows, or make it answer these rows."
        return broken(f"{problem}. {error_text(error)}", remedy)
    return held(f"{len(rows):,} rows from all over the schema's bounds and levels get an answer")


def _answers(task: Task, row: pd.DataFrame) -> bool:
    try:
        return len(_ask(task, row)) == 1
    except Exception:
        # The error itself is reported for the whole table.
        return False


# Rows that are explained one at a time.
ALONE = 3
SAVING = "Fix `save` and `load`, or leave both out."
OWN = "An answer may depend only on its row, the model, the rules and the seed: seed each row by its own values."


@dataclass(frozen=True, eq=False)
class Trial:
    """An explainer, the rows it explained, its answers, and how long that took."""

    task: Task
    explainer: Any
    rows: pd.DataFrame
    answer: Explanation
    seconds: float


def answer_items(trial: Trial) -> Iterator[Item]:
    """Every item about the answers of one explainer."""
    trials: dict[str, Callable[[Trial], Item]] = {
        "answers: a status for every row": _statuses,
        "answers: rows that need none": _already,
        "answers: verified ones hold": _verified,
        "answers: frozen features": _frozen,
        "answers: rows as they were": _rows_untouched,
        "answers: the same again": _again,
        "answers: the same in any batch": _in_batches,
        "answers: random state": _undisturbed,
        "answers: cost": _cost,
    }
    remedy = "The explainer failed where it had answered before; explain the same rows by hand."
    yield from tried({name: partial(run, trial) for name, run in trials.items()}, remedy)
    yield from tried({"explainer: save and load": partial(_saved, trial)}, SAVING)


def _statuses(trial: Trial) -> Item:
    answer, count = trial.answer, len(trial.rows)
    if len(answer.row_status) != count:
        problem = f"{len(answer.row_status):,} statuses for {count:,} rows"
        return broken(problem, "Give every row one status, in the same order.")
    unknown = sorted(set(answer.row_status.tolist()) - {str(s) for s in Status})
    has = np.isin(np.arange(count), answer.place)
    promised = np.isin(answer.row_status, [str(Status.VERIFIED), str(Status.BEST_EFFORT)])
    odd = int((has != promised).sum())
    if unknown or odd:
        problem = f"unknown statuses {unknown}" if unknown else f"{odd:,} rows have an answer without its status"
        return broken(problem, "Make it with `Explanation.of`, which derives statuses from the answers.")
    counted = ", ".join(f"{n:,} {status}" for status, n in sorted(answer.counts.items()))
    return held(f"{count:,} rows: {counted}")


def _already(trial: Trial) -> Item:
    truly = ~trial.task.refused(trial.rows.copy(deep=True))
    said = trial.answer.row_status == Status.ALREADY
    if (truly != said).any():
        problem = f"{int((truly != said).sum()):,} rows have a wrong status for already having the target class"
        return broken(problem, "Use `task.refused(rows)` to see which rows need an answer.")
    return held(f"{int(said.sum()):,} rows already have the target class, and are marked so")


def _verified(trial: Trial) -> Item:
    """Check every verified answer again, independently of the explainer."""
    which = np.flatnonzero(trial.answer.row_status[trial.answer.place] == Status.VERIFIED)
    problems: list[str] = []
    for i in which.tolist():
        before, after = trial.rows.iloc[[trial.answer.place[i]]], trial.answer.answers.iloc[[i]]
        said = _faults_of(trial.task, before, after, trial.answer.wanted[trial.answer.place[i]])
        problems += [f"row {before.index[0]!r}: {text}" for text in said]
    if problems:
        more = f" (and {len(problems) - 1:,} more faults)" if len(problems) > 1 else ""
        return broken(problems[0] + more, "Return only answers that pass `fcxplain.explanation.check`.")
    return held(f"{len(which):,} answers checked again, one by one, with model, rules and schema")


def _faults_of(task: Task, before: pd.DataFrame, after: pd.DataFrame, wanted: Any) -> list[str]:
    """What is wrong with one answer; rows of one line each."""
    task.schema.checked(after)
    before, after = before.reset_index(drop=True), after.reset_index(drop=True)
    found = [f"breaks a rule: {in_words(rule)}" for rule in task.rules if not holds(rule, before, after)[0]]
    said, outcome = plain(task.predict(after)[0]), np.empty(1, dtype=object)
    outcome[0] = wanted
    choice = np.array([task.classes.index(said) if task.classes else 0])
    if not task.outcomes(outcome).met(_ask(task, after), choice)[0]:
        found.append(f"the model answers {said!r}, not {str(wanted)!r}")
    now, then = task.schema.natural(before), task.schema.natural(after)
    off_grid = [f.name for f in task.schema if not f.on_grid(then[f.name])[0] and now[f.name][0] != then[f.name][0]]
    return found + [f"{n!r} becomes {plain(after[n].iloc[0])!r}, which is off its grid" for n in off_grid]


def _frozen(trial: Trial) -> Item:
    frozen = trial.task.frozen
    now, then = trial.task.schema.natural(trial.answer.before), trial.task.schema.natural(trial.answer.answers)
    moved = {n: int((now[n] != then[n]).sum()) for n in sorted(frozen)}
    if any(moved.values()):
        said = ", ".join(f"{n!r} in {count:,}" for n, count in moved.items() if count)
        return broken(f"of {len(trial.answer.answers):,} answers, some change {said}", "Put the values back.")
    return held(f"no answer changes {some(sorted(frozen))}" if frozen else "every feature may change")


def _rows_untouched(trial: Trial) -> Item:
    given = trial.rows.copy(deep=True)
    answer = trial.explainer.explain(given)
    if not given.equals(trial.rows) or not given.index.equals(trial.rows.index):
        return broken("explaining changes the table of rows", "Work on a copy.")
    if not answer.status.index.equals(trial.rows.index):
        return broken("the statuses have another index than the rows", "Keep the index of the rows.")
    return held("rows and index are unchanged")


def _again(trial: Trial) -> Item:
    return _compared(trial, [np.arange(len(trial.rows))], "explained again, every row gets the same answer")


def _in_batches(trial: Trial) -> Item:
    count = len(trial.rows)
    order = np.arange(count)[::-1]
    alone = [np.array([i]) for i in range(min(ALONE, count))]
    parts = [order[: count // 3], order[count // 3 :], np.repeat(order[:2], 2), *alone]
    said = "reversed, in parts, duplicated and alone, every row gets the same answer"
    return _compared(trial, [p for p in parts if len(p)], said)


def _compared(trial: Trial, parts: list[NDArray[np.int64]], said: str) -> Item:
    usual, differ = _by_row(trial.answer), set()
    for part in parts:
        found = _by_row(trial.explainer.explain(trial.rows.iloc[part].copy(deep=True)))
        differ |= {int(i) for i, one in zip(part, found, strict=True) if one != usual[i]}
    if differ:
        first = trial.rows.index[min(differ)]
        return broken(f"{len(differ):,} rows get a different answer, first at index {first!r}", OWN)
    return held(said)


def _by_row(answer: Explanation) -> list[tuple[Any, ...]]:
    """Status and answers of each row, as plain values that can be compared."""
    columns = [[plain(v) for v in answer.answers[n].tolist()] for n in answer.task.schema.names]
    lines: list[list[Any]] = [[] for _ in range(len(answer))]
    for i in np.lexsort((answer.rank, answer.place)).tolist():
        lines[answer.place[i]].append(tuple(column[i] for column in columns))
    return [(str(status), *own) for status, own in zip(answer.row_status, lines, strict=True)]


def _undisturbed(trial: Trial) -> Item:
    before = _random_state()
    trial.explainer.explain(trial.rows.head(2).copy(deep=True))
    moved = [kind for kind, state in _random_state().items() if state != before[kind]]
    if moved:
        remedy = "Draw from your own generator: np.random.default_rng(seed), torch.Generator()."
        return broken(f"explaining changes the global random state of {', '.join(moved)}", remedy)
    return held("the global random state of Python, numpy and torch is unchanged")


def _random_state() -> dict[str, bytes | str]:
    import torch

    # Only numpy's old global state shows whether something has changed it.
    return {
        "random": repr(random.getstate()),
        "numpy": repr(np.random.get_state(legacy=False)),  # noqa: NPY002
        "torch": torch.get_rng_state().numpy().tobytes(),
    }


def _cost(trial: Trial) -> Item:
    asked = max(1, int(trial.answer.asked.sum()))
    calls = trial.answer.effort.calls / asked
    speed = f"{1000 * trial.seconds / asked:,.1f} ms for each row that needs an answer"
    return noted(f"{speed}; {calls:,.0f} model queries for each")


def _saved(trial: Trial) -> Item:
    """Whether the explainer gives the same answers after saving and loading."""
    explainer = trial.explainer
    if not (hasattr(explainer, "save") and hasattr(type(explainer), "load")):
        return noted("it has no save and load, so this was not tested")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "explainer"
        try:
            explainer.save(folder)
            load = type(explainer).load
            takes_model = "classifier" in inspect.signature(load).parameters
            again = load(folder, classifier=trial.task.classifier) if takes_model else load(folder)
        except FcxError as error:
            return broken(error_text(error), SAVING)
        other = again.explain(trial.rows)
    parts = ("row_status", "place", "rank")
    alike = all(np.array_equal(getattr(trial.answer, part), getattr(other, part)) for part in parts)
    if not alike or not trial.answer.answers.astype(object).equals(other.answers.astype(object)):
        return broken("the loaded explainer gives other answers", "Save everything that an answer depends on.")
    return held("the loaded explainer gives the same answers")
