"""Explanation: the answer to "what could change?" for a table of rows, checked, and ways to keep it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError
from ..schema.feature import plain
from ..task import Task
from ..writing import write_whole
from .certificate import Certificate, Change, Checks, check, verdict
from .parquet import write_frame

# What the frame says of each answer, before the features themselves.
ABOUT = ("row", "rank", "status", "wanted", "predicted", "probability", "cost", "changes", "changed")


class Status(StrEnum):
    """How a row fared."""

    VERIFIED = "verified"
    """It has an answer, and everything checked holds."""
    BEST_EFFORT = "best_effort"
    """It has an answer of which something does not hold; the certificate says what."""
    NOT_FOUND = "not_found"
    IMPOSSIBLE = "impossible"
    """Proved: no legal row that keeps the rules gets the class wanted."""
    TIMED_OUT = "timed_out"
    ALREADY = "already"
    """The row has the class wanted as it is."""


@dataclass(frozen=True)
class Effort:
    """What it took to explain: wall and CPU seconds, threads, and rows that the user's model was asked about."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    threads: int = 1
    calls: int = 0


@dataclass(frozen=True, eq=False)
class Explanation:
    """Answers for rows, each checked with the task's own model and rules.

    `rows` are the rows asked, index kept. `answers` has one line for each counterfactual, `place` says which
    row (by position) it is for and `rank` which of that row's answers it is, from 1. `soft_valid`, where the
    method has raw outputs, says whether these had the class wanted before they were decoded to legal values.
    """

    task: Task
    method: str
    rows: pd.DataFrame
    wanted: NDArray[Any]
    row_status: NDArray[np.str_]
    answers: pd.DataFrame
    place: NDArray[np.int64]
    rank: NDArray[np.int64]
    checks: Checks
    found_by: NDArray[np.str_]
    soft_valid: NDArray[np.bool_] | None = None
    effort: Effort = Effort()
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def of(
        cls,
        task: Task,
        rows: pd.DataFrame,
        answers: pd.DataFrame,
        place: NDArray[np.int64],
        *,
        method: str,
        wanted: NDArray[Any],
        without: dict[int, Status] | None = None,
        rank: NDArray[np.int64] | None = None,
        found_by: str | NDArray[np.str_] = "draw",
        **more: Any,
    ) -> Explanation:
        """Check answers and tell each row's status: of its best answer, or from `without` (by position)."""
        names = list(task.schema.names)
        rows, answers = rows[names], answers[names].reset_index(drop=True)
        rank = _ranks(place) if rank is None else rank
        checks = check(task, rows.iloc[place], answers, wanted[place])
        status = np.full(len(rows), Status.NOT_FOUND, dtype=object)
        for position, told in (without or {}).items():
            status[position] = told
        status[place] = Status.BEST_EFFORT
        status[place[checks.passed]] = Status.VERIFIED
        how = np.full(len(answers), found_by) if isinstance(found_by, str) else found_by
        return cls(task, method, rows, wanted, status.astype(str), answers, place, rank, checks, how, **more)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        counted = ", ".join(f"{count:,} {status}" for status, count in sorted(self.counts.items()))
        noted = "".join(f"\n  {note}" for note in self.notes)
        return f"Explanation by {self.method}: {len(self):,} rows ({counted or 'none'}){noted}"

    @property
    def status(self) -> pd.Series:
        """The status of each row, by the index of the rows asked."""
        return pd.Series(self.row_status, index=self.rows.index, name="status")

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have which status."""
        return dict(Counter(self.row_status.tolist()))

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Rows that needed an answer: all but those that have the class wanted already."""
        return np.asarray(self.row_status != Status.ALREADY)

    @property
    def before(self) -> pd.DataFrame:
        """The row that each answer is for, line by line."""
        return self.rows.iloc[self.place]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One line per row and rank: what was found and checked, then the counterfactual's features.

        A row without an answer has one line with its status and nothing else. Where a feature has the name of
        one of the first columns, that column is called `fcx_...` instead.
        """
        lines = pd.concat([self._about(), self.answers], axis=1)
        if len(self.bare):
            lines = self._with_bare(_nullable(lines))
        return lines.iloc[self.lines].reset_index(drop=True)

    @property
    def bare(self) -> NDArray[np.int64]:
        """Positions of the rows without an answer."""
        return np.setdiff1d(np.arange(len(self)), self.place)

    @property
    def lines(self) -> NDArray[np.int64]:
        """What stands on each line of `frame`: an answer by its number, or, counted on from these, a bare row."""
        place, rank = np.concatenate([self.place, self.bare]), np.concatenate([self.rank, np.ones(len(self.bare))])
        return np.lexsort((rank, place))

    def _about(self) -> pd.DataFrame:
        c, names = self.checks, np.asarray(self.task.schema.names, dtype=object)
        values = {
            "row": self.rows.index[self.place],
            "rank": self.rank,
            "status": np.where(c.passed, str(Status.VERIFIED), str(Status.BEST_EFFORT)),
            "wanted": c.wanted,
            "predicted": c.predicted,
            "probability": c.probability,
            "cost": c.cost,
            "changes": c.changes,
            "changed": [", ".join(map(str, names[line])) for line in c.changed],
        }
        return pd.DataFrame({self.column(k): v for k, v in values.items()})

    def _with_bare(self, lines: pd.DataFrame) -> pd.DataFrame:
        """A line at the end for each row without an answer, with its label, status and class wanted."""
        bare = self.bare
        told = {"row": self.rows.index[bare], "status": self.row_status[bare], "wanted": self.wanted[bare]}
        known = {self.column(name): values for name, values in told.items()}
        longer = lines.reindex(range(len(lines) + len(bare)))
        for name, values in known.items():
            longer[name] = pd.concat([lines[name], pd.Series(values).astype(lines[name].dtype)], ignore_index=True)
        return longer

    def column(self, about: str) -> str:
        """What a column of `frame` that is no feature is called there."""
        return f"fcx_{about}" if about in self.task.schema else about

    @cached_property
    def certificates(self) -> list[Certificate]:
        """One certificate for each answer, in the order of `answers`."""
        return [self.certificate(i) for i in range(len(self.answers))]

    def certificate(self, i: int) -> Certificate:
        """The certificate of the i-th answer."""
        c = self.checks
        # Column by column: a whole line of a frame would turn whole numbers into fractions.
        before = {n: plain(self.rows[n].iloc[self.place[i]]) for n in self.task.schema.names}
        after = {n: plain(self.answers[n].iloc[i]) for n in self.task.schema.names}
        moved = [n for n, yes in zip(self.task.schema.names, c.changed[i], strict=True) if yes]
        return Certificate(
            row=_plain_label(self.rows.index[self.place[i]]),
            rank=int(self.rank[i]),
            status=str(Status.VERIFIED if c.passed[i] else Status.BEST_EFFORT),
            method=self.method,
            found_by=str(self.found_by[i]),
            wanted=plain(c.wanted[i]),
            predicted=plain(c.predicted[i]),
            probability=float(c.probability[i]),
            valid=bool(c.valid[i]),
            feasible=bool(c.feasible[i]),
            in_domain=bool(c.in_domain[i]),
            immutables_kept=bool(c.immutables_kept[i]),
            cost=float(c.cost[i]),
            changes=tuple(Change(n, before[n], after[n]) for n in moved),
            rules=tuple(
                verdict(rule, kept, before, after) for rule, kept in zip(self.task.rules, c.kept[i], strict=True)
            ),
        )

    def under(self, task: Task) -> Explanation:
        """The same answers checked again under another task with the same features: other rules, another model.

        What was proved impossible stays so only where the proof carries over: the same model and features, and no
        rule fewer.
        """
        if task is self.task:
            return self
        if task.schema.names != self.task.schema.names:
            raise DataError("these answers are about other features than the task")
        checks = check(task, self.before, self.answers, self.wanted[self.place])
        status = self.row_status.astype(object)
        if not _proofs_hold(self.task, task):
            status[status == Status.IMPOSSIBLE] = str(Status.NOT_FOUND)
        status[self.place] = str(Status.BEST_EFFORT)
        status[self.place[checks.passed]] = str(Status.VERIFIED)
        return replace(self, task=task, checks=checks, row_status=status.astype(str))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data: notes, statuses, and the certificates with all values."""
        names = self.task.schema.names
        return {
            "method": self.method,
            "notes": list(self.notes),
            "counts": self.counts,
            "rows": [
                {"row": _plain_label(label), "status": str(status), "wanted": plain(wanted)}
                for label, status, wanted in zip(self.rows.index, self.row_status, self.wanted, strict=True)
            ],
            "answers": [
                c.to_dict() | {"counterfactual": dict(zip(names, map(plain, line), strict=True))}
                for c, line in zip(self.certificates, self.answers.itertuples(index=False, name=None), strict=True)
            ],
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """`to_dict` as JSON text, written to `path` if given."""
        text = json.dumps(_without_nan(self.to_dict()), indent=2, ensure_ascii=False, default=str, allow_nan=False)
        if path is not None:
            write_whole(Path(path), text + "\n")
        return text

    def to_parquet(self, path: str | Path) -> None:
        """The frame as a parquet file, with the rows as they were and a certificate in JSON; see `read_answers`."""
        frame = self.frame.copy()
        labels = frame[self.column("row")]
        if labels.map(lambda label: isinstance(label, tuple)).any():
            frame[self.column("row")] = labels.map(str)
        frame["certificate"] = self._beside([json.dumps(c.to_dict(), default=str) for c in self.certificates])
        if self.soft_valid is not None:
            frame["soft_valid"] = pd.array(self._beside(self.soft_valid.tolist()), dtype="boolean")
        now = self.rows.iloc[np.concatenate([self.place, self.bare])[self.lines]].reset_index(drop=True)
        about = {"method": self.method, "notes": list(self.notes), "effort": vars(self.effort)}
        write_frame(path, frame, now, about)

    def _beside(self, values: list[Any]) -> list[Any]:
        """A value for each answer on the lines of the frame, None where there is no answer."""
        return [values[i] if i < len(values) else None for i in self.lines]


def _ranks(place: NDArray[np.int64]) -> NDArray[np.int64]:
    """1, 2, ... within each row's answers, in their order."""
    if not len(place):
        return np.empty(0, dtype=np.int64)
    return np.asarray(pd.Series(place).groupby(place).cumcount() + 1, dtype=np.int64)


def _proofs_hold(made: Task, other: Task) -> bool:
    rules = {r.text for r in made.rules} <= {r.text for r in other.rules}
    return rules and made.classifier is other.classifier and made.schema == other.schema


def _without_nan(data: Any) -> Any:
    """Plain data in which what is no number is None, as JSON has it."""
    if isinstance(data, dict):
        return {key: _without_nan(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_nan(value) for value in data]
    return None if isinstance(data, float) and not np.isfinite(data) else data


def _nullable(lines: pd.DataFrame) -> pd.DataFrame:
    """Whole numbers that may be missing stay whole numbers."""
    whole = {c: "Int64" for c in lines.columns if isinstance(lines[c].dtype, np.dtype) and lines[c].dtype.kind in "iu"}
    return lines.astype(whole)


def _plain_label(label: Hashable) -> Any:
    return tuple(plain(v) for v in label) if isinstance(label, tuple) else plain(label)
