"""Verification: compare a file of answers with its rows, model and rules, field by field."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ...classifier.protocol import Predictions
from ...errors import ClassifierError
from ...outcome import Outcome
from ...overrides import Overrides, as_table
from ...progress import OnProgress, Progress, no_progress
from ...task import Task
from ...text import counted
from ..certificate import model_id, rules_id
from ..frame import column_named
from ..reasons import Status
from .digest import DigestCheck, checked_key
from .loading import AnswerFile, AnswerLines, classes, explained, reading
from .parquet import arrow_table, asked_for, label_column

# Probabilities and LOFs of one model may differ by this much between machines, the latter in relation to their size.
PROBABILITY, LOF = 1e-5, 1e-3
ABSENT = "(absent)"
SCORES = ("probability", "probability_now", "output", "output_now")


def certificate_of(text: Any) -> dict[str, Any]:
    """A stored certificate; empty if it cannot be read."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def certificate_differences(stored: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    """The fields in which a certificate differs from the expected one, both as text: name, stored, found."""
    if found is None:
        yield "whole", stored, ABSENT
        return
    first, second = certificate_of(stored), json.loads(found)
    if not first:
        yield "whole", stored, "a certificate in JSON"
        return
    for name in dict.fromkeys([*second, *first]):
        a, b = first.get(name, ABSENT), second.get(name, ABSENT)
        if not _same(name, a, b):
            yield name, a, b


def same_score(stored: Any, found: Any) -> bool:
    """Equal up to the last digits; outputs of a regressor may be large."""
    size = abs(found) if isinstance(found, float) and found == found else 1.0
    return _near(stored, found, PROBABILITY * max(1.0, size))


def _same(name: str, stored: Any, found: Any) -> bool:
    if name in (*SCORES, "predicted"):
        return same_score(stored, found)
    if name == "lof":
        # Without a LOF there is nothing to compare; these are counted.
        return stored is None or _near(stored, found, LOF * abs(found or 0))
    return _equal(stored, found)


def _near(stored: Any, found: Any, most: float) -> bool:
    if not all(isinstance(v, float | int) and not isinstance(v, bool) for v in (stored, found)):
        return _equal(stored, found)
    return bool(abs(stored - found) <= most)


def _equal(stored: Any, found: Any) -> bool:
    """Exactly equal; a number may be written as 1 or as 1.0, but not as true."""
    if isinstance(stored, dict) and isinstance(found, dict):
        return stored.keys() == found.keys() and all(_equal(stored[name], found[name]) for name in found)
    if isinstance(stored, list) and isinstance(found, list):
        return len(stored) == len(found) and all(map(_equal, stored, found))
    return bool(stored == found) and isinstance(stored, bool) == isinstance(found, bool)


# Differences that are stored; all are counted.
SHOWN = 100
# Statuses that a row without an answer may claim, unless it already has the target class.
CLAIMS = (Status.NOT_FOUND, Status.IMPOSSIBLE, Status.TIMED_OUT)


@dataclass(frozen=True)
class Difference:
    """A stored value that is not as it should be."""

    row: Any
    rank: int | None
    field: str
    stored: Any
    found: Any

    def __str__(self) -> str:
        answer = "" if self.rank is None else f", answer {self.rank}"
        return f"row {self.row}{answer}, {self.field}: the file says {self.stored!r}, it is {self.found!r}"


@dataclass(frozen=True)
class Verification:
    """The result of verifying a file of answers.

    Attributes
    ----------
    passed : bool
        Whether everything recomputed agrees with the file, and its digest shows no changes.
    rows, answers : int
        Their numbers.
    counts : dict
        The number of rows by status, according to the file.
    differences : tuple of Difference
        The first differences; `total` is their number and `fields` the number per field.
    unproved : int
        Proofs of impossibility that were not repeated; see `notes`.
    without_lof : int
        Certificates without a LOF to compare.
    digest : DigestCheck
        Whether the file was edited.
    overrides : bool
        Whether the file was checked against given overrides.
    asked : str
        The target of the file, if it is not the task's.
    """

    path: Path | str
    rows: int
    answers: int
    counts: Mapping[str, int]
    differences: tuple[Difference, ...]
    total: int
    fields: Mapping[str, int]
    unproved: int
    without_lof: int
    digest: DigestCheck
    overrides: bool
    asked: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything recomputed agrees with the file, and its digest shows no changes."""
        return self.total == 0 and self.digest.holds

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found = [json.loads(json.dumps(vars(difference), default=str)) for difference in self.differences]
        known = vars(self) | {"path": str(self.path), "counts": dict(self.counts), "fields": dict(self.fields)}
        return {"passed": self.passed, **known, "digest": self.digest.to_dict(), "differences": found}

    def __str__(self) -> str:
        verdict = counted(self.total, "difference").upper() if self.total else "everything that was recomputed agrees"
        lines = [f"{self.path}: {counted(self.rows, 'row')}, {counted(self.answers, 'answer')}: {verdict}"]
        lines += [f"  {difference}" for difference in self.differences[:10]]
        lines += [f"  ... and {self.total - 10:,} more"] if self.total > 10 else []
        return "\n".join([*lines, f"  digest: {self.digest.words}", *(f"  {note}" for note in self.notes)])

    @property
    def notes(self) -> list[str]:
        """What was not checked."""
        own = "" if self.overrides else " overrides,"
        notes = [f"not recomputed: rows without (further) answers, why_not,{own} found_by, calls, effort"]
        if self.asked:
            notes.insert(0, f"target, other than the one that the model was fitted for: {self.asked}")
        if self.unproved:
            notes.append(f"not proved again: {self.unproved:,} said to be impossible")
        if self.without_lof:
            notes.append(f"certificates without a LOF to compare: {self.without_lof:,}")
        return notes


def verify(
    task: Task,
    rows: pd.DataFrame,
    path: str | Path,
    *,
    overrides: pd.DataFrame | Mapping[Any, Mapping[str, Any]] | None = None,
    target: Any = None,
    target_probability: float | None = None,
    key: bytes | None = None,
    on_progress: OnProgress = no_progress,
) -> Verification:
    """Check a file of answers against its rows, model, rules and digest.

    Every certificate is built again from the decoded counterfactual. Results that only a new search could confirm are
    taken as written; only the digest shows whether they were edited.

    Parameters
    ----------
    task : Task
        The model and the rules.
    rows : DataFrame
        The explained rows.
    path : str or Path
        The file of answers (parquet), or the folder.
    overrides : DataFrame or mapping, optional
        The overrides passed to `explain`, or `{}` for none; by default the file's own are used.
    target, target_probability : optional
        The targets passed to `explain`, which the file must have too. By default the file's own are used, and named in
        `notes` if the task has others.
    key : bytes, optional
        The key that the file was written with. A digest without a key detects accidental damage and careless edits;
        only a key proves who wrote the file.
    on_progress : callable, optional
        Called repeatedly with a `Progress`: rows `done` of `total`.

    Returns
    -------
    Verification
        Every difference; `passed` says whether there are none.

    Raises
    ------
    FormatError
        If the file cannot be read at all. Any other fault is a difference.

    Examples
    --------
    >>> print(verify(task, rows, "answers.parquet"))  # doctest: +SKIP
    """
    key = checked_key(key)
    table, reasons = task.readable(rows)
    rows = table if reasons else task.read(rows)[0]
    own = None if overrides is None else Overrides.read(as_table(overrides), rows, task)
    given = {"target": target, "target_probability": target_probability}
    asked = {n: v for n, v in asked_for(task.relaxed(**given)).items() if given[n] is not None}
    audit = _Audit(AnswerFile(path, task), rows, own, frozenset(reasons), asked)
    for table in audit.file.batches():
        audit.look_at(table)
        on_progress(Progress("checking answers", audit.done, len(rows)))
    return audit.result(key)


@dataclass
class _Audit:
    """A running verification: what was read of the file, and its faults."""

    file: AnswerFile
    rows: pd.DataFrame
    own: Overrides | None
    """The given overrides; None to use the file's own."""
    unreadable: frozenset[int]
    """Positions of rows that do not fit the schema."""
    asked: Mapping[str, Any]
    """The target that the file must have."""
    differences: list[Difference] = field(default_factory=list)
    fields: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    without_lof: int = 0

    def __post_init__(self) -> None:
        # In the stored form, so that labels of any type can be compared.
        self.labels = pd.Index(label_column(self.rows.index)[1].to_pylist(), tupleize_cols=False)
        self.seen = np.zeros(len(self.rows), dtype=bool)
        self.last, self.done = -1, 0

    def look_at(self, table: pa.Table) -> None:
        """Check some lines, all of a row together."""
        lines = self.file.lines(table)
        place = self._places(table, lines)
        # The status of a row is that of its best answer.
        statuses = np.array(lines.of_row("status"), dtype=object)
        statuses[lines.position[(lines.said["status"] == str(Status.VERIFIED)).to_numpy(dtype=bool)]] = Status.VERIFIED
        self.counts.update(map(str, statuses))
        known = place[lines.position] >= 0
        if known.any():
            self._compare(table.filter(pa.array(known)), lines.take(known), place[place >= 0])

    def _places(self, table: pa.Table, lines: AnswerLines) -> NDArray[np.int64]:
        """The position of each row of the file in the given rows; -1 for unknown and repeated ones."""
        stored = table.column(column_named("row", self.file.task)).filter(pa.array(lines.first)).to_pylist()
        if self.labels.is_unique:
            place = self.labels.get_indexer(pd.Index(stored, tupleize_cols=False))
        else:
            place = np.arange(self.done, self.done + len(stored))
            place[place >= len(self.rows)] = -1
        self.done += len(stored)
        for i, (label, where) in enumerate(zip(stored, place.tolist(), strict=True)):
            if where < 0:
                self._differ(label, None, "row", label, ABSENT)
            elif self.seen[where]:
                self._differ(label, None, "row", "a second time", "once")
                place[i] = -1
            else:
                if where < self.last:
                    self._differ(label, None, "order", f"after row {self.labels[self.last]}", "before it")
                self.last = max(self.last, where)
                self.seen[where] = True
        return np.asarray(place, dtype=np.int64)

    def _compare(self, table: pa.Table, lines: AnswerLines, place: NDArray[np.int64]) -> None:
        """Compare the lines with those that an explanation with these answers writes."""
        rows, task = self.rows.iloc[place], self.file.task
        certificates = [certificate_of(text) for text in lines.said["certificate"][lines.answered]]
        with reading(self.file.path):
            own = lines.own() if self.own is None else self.own.take(place)
        unreadable = self._unreadable(lines.of_row("status"), place)
        which = np.flatnonzero(~unreadable)
        targets = partial(_wanted, task, None if own is None else own.take(which))
        found = task.classifier.decide(rows.iloc[which], wanted=lambda found: task.outcomes(targets(found)))
        wanted = targets(found)
        # A row without an answer may have the claimed status if that cannot be refuted.
        status = [str(s) if s in CLAIMS else str(Status.NOT_FOUND) for s in lines.of_row("status")]
        without = np.array(status, dtype=object)
        without[which[task.outcomes(wanted).met(found.probabilities, found.choice)]] = str(Status.ALREADY)
        without[unreadable] = str(Status.UNREADABLE)
        if unreadable.any():
            readable, wanted = wanted, classes([task.target] * len(rows))
            wanted[which] = readable
        again = explained(
            self.file,
            lines,
            rows,
            wanted,
            without=without.tolist(),
            found_by=[str(c.get("found_by")) for c in certificates],
            certificates=certificates,
            own=own,
        )
        self.answers += len(certificates)
        self.without_lof += sum(c.get("lof") is None for c in certificates)
        rebuilt = arrow_table(again)
        for name in self.file.columns:
            self._compare_column(name, lines, table.column(name).combine_chunks(), rebuilt.column(name))

    def _unreadable(self, stored: Sequence[Any], place: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Rows that do not fit the schema, or that the model rejects as claimed."""
        found = np.array([p in self.unreadable for p in place.tolist()], dtype=bool)
        for i in np.flatnonzero(~found & [str(status) == Status.UNREADABLE for status in stored]).tolist():
            try:
                self.file.task.predict(self.rows.iloc[[place[i]]])
            except ClassifierError:
                found[i] = True
        return found

    def _compare_column(self, name: str, lines: AnswerLines, stored: pa.Array, found: pa.ChunkedArray) -> None:
        if stored.equals(found.combine_chunks()):
            return
        pairs = list(zip(stored.to_pylist(), found.to_pylist(), strict=True))
        scores = [column_named(n, self.file.task) for n in SCORES]
        for i in (i for i, (a, b) in enumerate(pairs) if a != b):
            row, rank = lines.said["row"].iloc[i], lines.said["rank"].iloc[i]
            where = row, None if pd.isna(rank) else int(rank)
            if name == column_named("certificate", self.file.task):
                for part, a, b in certificate_differences(*pairs[i]):
                    self._differ(*where, f"certificate: {part}", a, b)
            elif name not in scores or not same_score(*pairs[i]):
                self._differ(*where, name, *pairs[i])

    def _differ(self, row: Any, rank: int | None, name: str, stored: Any, found: Any) -> None:
        self.fields[name] += 1
        if len(self.differences) < SHOWN:
            self.differences.append(Difference(row, rank, name, stored, found))

    def result(self, key: bytes | None) -> Verification:
        """The result, once every line was checked."""
        for label in self.labels[~self.seen]:
            self._differ(label, None, "row", ABSENT, label)
        about = {
            "rows": self.done,
            "counts": dict(self.counts),
            "model": model_id(self.file.task),
            "rules": rules_id(self.file.task.schema, [rule.text for rule in self.file.task.rules]),
            **self.asked,
        }
        for name, value in about.items():
            if self.file.about.get(name, ABSENT) != value:
                self._differ("(all)", None, name, self.file.about.get(name, ABSENT), value)
        return Verification(
            path=self.file.path,
            rows=self.done,
            answers=self.answers,
            counts=dict(self.counts),
            differences=tuple(self.differences),
            total=sum(self.fields.values()),
            fields=dict(self.fields),
            unproved=self.counts[str(Status.IMPOSSIBLE)],
            without_lof=self.without_lof,
            digest=self.file.check_digest(key),
            overrides=self.own is not None,
            asked=self.file.asked,
        )


def _wanted(task: Task, own: Overrides | None, found: Predictions) -> NDArray[Any]:
    """The target of each row: its own, or the task's."""
    predicted = task.classifier.named(found)
    wanted = task.wanted(predicted)
    if own is None:
        return wanted
    triples = zip(wanted.tolist(), own.targets, predicted.tolist(), strict=True)
    return classes([w if t is None else t.of_row(now) if isinstance(t, Outcome) else t for w, t, now in triples])
