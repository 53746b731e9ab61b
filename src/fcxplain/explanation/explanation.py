"""Explanation: the answer to "what could change?" for a table of rows, checked, and ways to save it."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from ..datasets.delimited import guarded
from ..errors import DataError, some
from ..files import write_whole
from ..rules import parse_rules
from ..task import Task
from .certificate import Certificate, Change, cells, changes_of, issued, labels, lof_of, unusual, written
from .checks import Bools, ChangeCosts, Checks, check, scores_now
from .files.parquet import write_answers
from .frame import answer_number, column_named, frame_of, row_position
from .reasons import ANSWERED, STATUSES, Status, WhyNot
from .wording import glance, label_text

if TYPE_CHECKING:
    from ..overrides import Overrides


# Letters of a row's label in the name of its file.
LONGEST_NAME = 80


@dataclass(frozen=True)
class Effort:
    """What it took to explain: wall and CPU seconds, threads, and rows that the user's model was asked about."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    threads: int = 1
    calls: int = 0

    @classmethod
    def since(cls, wall: float, cpu: float, calls: int) -> Effort:
        """What was spent since two readings of the clocks, `time.perf_counter()` and `time.process_time()`."""
        torch = sys.modules.get("torch")
        threads = 1 if torch is None else torch.get_num_threads()
        return cls(time.perf_counter() - wall, time.process_time() - cpu, threads, calls)

    @classmethod
    def together(cls, parts: Iterable[Effort]) -> Effort:
        """What several parts took, one after the other."""
        spent = list(parts)
        return cls(
            sum(e.seconds for e in spent),
            sum(e.cpu_seconds for e in spent),
            max((e.threads for e in spent), default=1),
            sum(e.calls for e in spent),
        )


@dataclass(frozen=True, eq=False)
class Explanation:
    """Answers for rows, each checked with the task's own model and rules.

    `FCx.explain` makes it; `Explanation.of` makes it of counterfactuals from anywhere.

    Attributes
    ----------
    task : Task
        What the answers were checked with.
    method : str
        Who answered.
    rows : DataFrame
        The rows asked, with their index.
    answers : DataFrame
        A line for each counterfactual.
    place, rank : ndarray of int
        For each answer, the position of its row, and which of that row's answers it is, from 1.
    checks : Checks
        What was found out about each answer.
    wanted, row_status : ndarray
        For each row, what is wanted (a class, or an `Outcome`) and the status.
    score_now, known_now : ndarray of float
        For each row as it is, the probability of what is wanted, or a regressor's output; NaN where the model failed.
        `known_now` is None where the model is asked for them when they are first wanted.
    reasons : dict of int to WhyNot
        Why rows have no answer, by position, where that was asked.
    found_by : ndarray of str
        For each answer, the step that found it.
    soft_valid : ndarray of bool or None
        Whether a generator's raw output had the class wanted, before it was decoded.
    raw : ndarray of float or None
        Raw outputs in the encoder's columns, a line for each answer; not kept in files.
    own : Overrides or None
        What holds for single rows.
    calls, cut_short : ndarray or None
        For each row, how often the model was queried, and whether its budget ended before the search did.
    costs : ChangeCosts or None
        What the answers were chosen by, where that needs no training rows.
    draws : int
        Proposals of the network for each row.
    notes : tuple of str
        What the method has to say.
    effort : Effort
        What it took.
    frame, status, why_not, counts, certificates, lof
        The same as tables, counts and certificates; made when they are first asked for.

    Examples
    --------
    >>> answer = FCx(seed=0).fit(task).explain(rows)  # doctest: +SKIP
    >>> answer.frame  # doctest: +SKIP
    >>> print(answer.certificate(0))  # doctest: +SKIP
    """

    task: Task
    method: str
    rows: pd.DataFrame
    wanted: NDArray[Any]
    row_status: NDArray[np.object_]
    answers: pd.DataFrame
    place: NDArray[np.int64]
    rank: NDArray[np.int64]
    checks: Checks
    found_by: NDArray[np.object_]
    soft_valid: NDArray[np.bool_] | None = None
    """Where the method has raw outputs: whether these had the class wanted before they were decoded."""
    raw: NDArray[np.float64] | None = None
    """Where the method has raw outputs: these, `answers x encoded columns`."""
    effort: Effort = Effort()
    notes: tuple[str, ...] = field(default=())
    own: Overrides | None = None
    """Rules of single rows, in the order of `rows`."""
    reasons: Mapping[int, WhyNot] = field(default_factory=dict)
    calls: NDArray[np.int64] | None = None
    """For each row, how many candidates the user's model was asked about."""
    cut_short: NDArray[np.bool_] | None = None
    """For each row, whether its budget ended before the search did; None where that is not known."""
    draws: int = 0
    """Proposals of the network for each row."""
    costs: ChangeCosts | None = None
    """What the answers were chosen by, where that needs no training rows."""
    known_now: NDArray[np.float64] | None = None
    """`score_now`, where the model was asked already."""

    def __post_init__(self) -> None:
        # Objects, since numpy cuts a text that is longer than those an array was made of.
        for name in ("row_status", "found_by"):
            texts = list(getattr(self, name))
            known = {text: str(text) for text in set(texts)}
            object.__setattr__(self, name, np.array([known[text] for text in texts], dtype=object))

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
        without: NDArray[Any] | None = None,
        rank: NDArray[np.int64] | None = None,
        found_by: str | NDArray[Any] = "draw",
        own: Overrides | None = None,
        **more: Any,
    ) -> Explanation:
        """Check counterfactuals that come from anywhere.

        Parameters
        ----------
        task : Task
            Whose model and rules they are checked with.
        rows : DataFrame
            The rows asked.
        answers : DataFrame
            A line for each counterfactual.
        place : ndarray of int
            For each counterfactual, the position of its row in `rows`.
        method : str
            Who made them.
        wanted : ndarray
            For each row, the class wanted.
        without : ndarray of str, optional
            For each row, the status that it has if it has no answer; by default, that none was found.
        rank : ndarray of int, optional
            Which of its row's answers each is, from 1; by default, their order.
        found_by : str or ndarray, default="draw"
            Where they come from.
        own : Overrides, optional
            Rules of single rows.
        **more
            Any other field of an explanation, such as `notes` or `effort`.

        Returns
        -------
        Explanation
            Each row has the status of its best answer.

        Raises
        ------
        DataError
            If the parts do not fit together, or a class or a status does not exist.
        """
        names = list(task.schema.names)
        rows, answers = rows[names], answers[names].reset_index(drop=True)
        rank = _ranks(place) if rank is None else rank
        checks = check(task, rows.iloc[place], answers, wanted[place], own, place)
        status = _judged(_without(without, len(rows)), place, checks)
        how = np.full(len(answers), found_by, dtype=object) if isinstance(found_by, str) else found_by
        return cls(task, method, rows, wanted, status, answers, place, rank, checks, how, own=own, **more)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return glance(self, few=0).text()

    def __repr__(self) -> str:
        return glance(self).text()

    def _repr_html_(self) -> str:
        return glance(self).html()

    @property
    def status(self) -> pd.Series:
        """The status of each row, by the index of the rows asked; see `Status`."""
        return pd.Series(self.row_status, index=self.rows.index, name="status", dtype=str)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have which status."""
        return dict(Counter(self.row_status.tolist()))

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Rows that needed an answer: all but those that have the class wanted already, or cannot be read."""
        return ~np.isin(self.row_status, [str(Status.ALREADY), str(Status.UNREADABLE)])

    @property
    def all_wanted(self) -> bool:
        """Whether the class wanted is known of every row: not of an unreadable one that might want either."""
        return self.task.target is not None or not (self.row_status == Status.UNREADABLE).any()

    @cached_property
    def score_now(self) -> NDArray[np.float64]:
        """For each row as it is, the probability of what is wanted, or a regressor's output; NaN: the model failed."""
        if self.known_now is not None:
            return self.known_now
        found, which = np.full(len(self), np.nan), np.flatnonzero(self.row_status != Status.UNREADABLE)
        found[which] = scores_now(self.task, self.rows.iloc[which], self.wanted[which])
        return found

    @cached_property
    def predicted_now(self) -> NDArray[np.object_]:
        """For each row as it is, what the model answers; None where it cannot be asked."""
        found, which = np.full(len(self), None, dtype=object), np.flatnonzero(~np.isnan(self.score_now))
        found[which] = self.task.predict(self.rows.iloc[which]) if len(which) else []
        return found

    @property
    def before(self) -> pd.DataFrame:
        """The row that each answer is for, line by line."""
        return self.rows.iloc[self.place]

    @cached_property
    def noted(self) -> dict[int, tuple[str, ...]]:
        """What is unusual about rows as they are, by position: values that no training row has, and gaps."""
        return unusual(self.task.schema, self.rows, self.row_status != Status.UNREADABLE)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One line per row and rank: what was found and checked, then the counterfactual's features.

        A row without an answer has one line with its status and nothing else. Where a feature has the name of
        one of the first columns, that column is called `fcx_...` instead. `why_not` is there if reasons are.

        The dtypes depend on the task alone, not on whether some row has no answer. Whole numbers are `Int64` and
        truths `boolean`, which may be missing; all else is as in the training rows, text as pandas has it. `row` has
        the dtype of the labels and `wanted` that of the classes, since neither is ever missing. Only a value that the
        dtype cannot hold, such as a level that does not exist, gives its column another one.
        """
        return frame_of(self)

    @property
    def lines(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each line of `frame`, the number of its answer (-1 for none) and the position of its row."""
        without = np.setdiff1d(np.arange(len(self)), self.place)
        row, rank = np.concatenate([self.place, without]), np.concatenate([self.rank, np.ones_like(without)])
        answer = np.concatenate([np.arange(len(self.place)), np.full_like(without, -1)])
        order = np.lexsort((rank, row))
        return answer[order], row[order]

    def column(self, about: str) -> str:
        """What a column of `frame` that is no feature is called there.

        Parameters
        ----------
        about : str
            E.g. "status".

        Returns
        -------
        str
            The name, `fcx_...` where a feature has it.
        """
        return column_named(about, self.task)

    @property
    def why_not(self) -> pd.Series:
        """Why there is no answer, in words, by the index of the rows asked; None where nothing is known."""
        words = np.full(len(self), None, dtype=object)
        for position, reason in self.reasons.items():
            words[position] = reason.words
        return pd.Series(words, index=self.rows.index, name="why_not", dtype=object)

    @cached_property
    def lof(self) -> NDArray[np.float64]:
        """Local outlier factor of each answer against the training rows; NaN where it cannot be had.

        Nothing is measured before somebody asks for this or for certificates.
        """
        return lof_of(self, np.arange(len(self.answers)))

    @cached_property
    def certificates(self) -> list[Certificate]:
        """One certificate for each answer, in the order of `answers`."""
        return issued(self, np.arange(len(self.answers)), self.lof)

    def certificate(self, which: Hashable) -> Certificate:
        """The certificate of one answer, without the work for all the others.

        Parameters
        ----------
        which : int or label
            A whole number is the answer's place in `answers`; anything else is a row's label, for its first answer.

        Returns
        -------
        Certificate

        Raises
        ------
        DataError
            If there is no such answer; the message says what the row has instead. An `IndexError` too for a number.
        """
        i = answer_number(self, which)
        if "certificates" in vars(self):
            return self.certificates[i]
        one = np.array([i])
        return issued(self, one, self.lof[one] if "lof" in vars(self) else lof_of(self, one))[0]

    def changes(self, which: Hashable) -> tuple[Change, ...]:
        """What differs between an answer and its row.

        Parameters
        ----------
        which : int or label
            As in `certificate`.

        Returns
        -------
        tuple of Change
            Feature by feature.
        """
        i = answer_number(self, which)
        before, after = self.rows.iloc[[self.place[i]]], self.answers.iloc[[i]]
        return changes_of(self.task.schema, before, after, self.checks.changed[[i]])[0]

    def among(
        self, rows: pd.DataFrame, which: NDArray[np.int64], unreadable: Mapping[int, Sequence[str]]
    ) -> Explanation:
        """The same for more rows, of which those asked are `which`; the others are unreadable.

        Parameters
        ----------
        rows : DataFrame
            All rows.
        which : ndarray of int
            Positions of those that were asked.
        unreadable : mapping
            What is wrong with each of the others, by position.

        Returns
        -------
        Explanation
        """

        def spread(values: NDArray[Any], fill: Any) -> NDArray[Any]:
            whole = np.full(len(rows), fill, dtype=object if fill is None else values.dtype)
            whole[which] = values
            return whole

        status = np.full(len(rows), str(Status.UNREADABLE), dtype=object)
        status[which] = self.row_status
        names = labels(rows.index)
        reasons = {int(which[i]): reason for i, reason in self.reasons.items()} | {
            i: WhyNot.unreadable(names[i], *said) for i, said in unreadable.items()
        }
        return replace(
            self,
            rows=rows[list(self.task.schema.names)],
            wanted=spread(self.wanted, self.task.target),
            known_now=None if self.known_now is None else spread(self.known_now, np.nan),
            row_status=status,
            place=which[self.place],
            reasons=dict(sorted(reasons.items())),
            calls=None if self.calls is None else spread(self.calls, 0),
            cut_short=None if self.cut_short is None else spread(self.cut_short, False),
        )

    def under(self, task: Task) -> Explanation:
        """The same answers checked again with other rules or another model.

        Parameters
        ----------
        task : Task
            One with the same features.

        Returns
        -------
        Explanation
            What was proved impossible stays so only where the proof carries over: the same model and features, and no
            rule fewer.

        Raises
        ------
        DataError
            If the task has other features.
        """
        if task is self.task:
            return self
        if task.schema.names != self.task.schema.names:
            raise DataError("these answers are about other features than the task")
        own = self.own
        if own is not None and task.schema != self.task.schema:
            own = replace(own, rules=parse_rules(own.rules, task.schema))
        checks = check(task, self.before, self.answers, self.wanted[self.place], own, self.place)
        now = self.known_now if task.classifier is self.task.classifier else None
        status = self.row_status.copy()
        if not _proofs_hold(self.task, task):
            status[status == Status.IMPOSSIBLE] = Status.NOT_FOUND
        # Why there is no answer is known for the rules and the model that were asked.
        reasons = self.reasons if _proofs_hold(self.task, task) and _proofs_hold(task, self.task) else {}
        status = _judged(status, self.place, checks)
        return replace(self, task=task, checks=checks, row_status=status, own=own, reasons=reasons, known_now=now)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data: notes, statuses, reasons, and the certificates with all values.

        Returns
        -------
        dict
            What JSON can hold.
        """
        lines = zip(labels(self.rows.index), self.row_status.tolist(), self.wanted.tolist(), strict=True)
        rows = [{"row": written(row), "status": status, "wanted": written(wanted)} for row, status, wanted in lines]
        for position, reason in self.reasons.items():
            rows[position]["why_not"] = reason.to_dict()
        columns = {name: map(written, values) for name, values in cells(self.answers, self.task.schema).items()}
        lines = zip(self.certificates, *columns.values(), strict=True)
        answers = [c.to_dict() | {"counterfactual": dict(zip(columns, v, strict=True))} for c, *v in lines]
        return {
            "method": self.method, "notes": list(self.notes), "counts": self.counts, "rows": rows, "answers": answers
        }  # fmt: skip

    def to_json(self, path: str | Path | None = None) -> str:
        """`to_dict` as JSON text, in which what is no number is null.

        Parameters
        ----------
        path : str or Path, optional
            A file to write it to, whole or not at all.

        Returns
        -------
        str
        """
        text = json.dumps(written(self.to_dict()), indent=2, ensure_ascii=False, allow_nan=False)
        if path is not None:
            write_whole(Path(path), text + "\n")
        return text

    def to_csv(self, path: str | Path) -> None:
        """`frame` as a CSV file that no spreadsheet takes for formulas; our own readers take the guards off again.

        Parameters
        ----------
        path : str or Path
            The file to write, whole or not at all.
        """
        safe = self.frame.apply(lambda column: column if is_numeric_dtype(column) else column.map(guarded))
        write_whole(path, str(safe.rename(columns=guarded).to_csv(index=False, lineterminator="\n")))

    def to_html(self, path: str | Path | None = None, *, title: str | None = None, group: str | None = None) -> str:
        """Everything as one HTML page that needs nothing from outside.

        Parameters
        ----------
        path : str or Path, optional
            A file to write it to, whole or not at all.
        title : str, optional
            What stands at the top.
        group : str, optional
            A feature whose values are compared.

        Returns
        -------
        str

        Raises
        ------
        SchemaError
            If there is no such feature.
        """
        # The page takes explanations apart, and so comes after them.
        from .page import render

        text = render(self, title=title, group=group)
        if path is not None:
            write_whole(Path(path), text)
        return text

    def letter(self, row: Hashable, path: str | Path | None = None, *, language: str = "en") -> str:
        """A letter for one person: what could change, or why nothing can, in plain words on one page for paper.

        It holds verified answers alone, and never advises on what is fixed or protected, such as sex or marital status.

        Parameters
        ----------
        row : label
            The row's label in the index of the rows asked.
        path : str or Path, optional
            A file to write it to, whole or not at all.
        language : str, default="en"
            "en", "de", or the path of a TOML file with the texts of another language.

        Returns
        -------
        str
            HTML without scripts that fetches nothing; a browser prints it, or saves it as PDF.

        Raises
        ------
        DataError
            If no row or several have this label, or the language is not known.
        """
        from .page.letter import letter_of

        text = letter_of(self, row_position(self, row), language)
        if path is not None:
            write_whole(Path(path), text)
        return text

    def letters(self, folder: str | Path, *, language: str = "en") -> list[Path]:
        """A letter for every row, each in a file of its own that is called after the row.

        Parameters
        ----------
        folder : str or Path
            Where to write them; it is made if it is not there.
        language : str, default="en"
            As in `letter`.

        Returns
        -------
        list of Path
            The files, in the order of the rows.
        """
        from .page.letter import letter_of

        paths = [Path(folder, name) for name in file_names(self.rows.index)]
        Path(folder).mkdir(parents=True, exist_ok=True)
        for position, path in enumerate(paths):
            write_whole(path, letter_of(self, position, language))
        return paths

    def to_parquet(self, path: str | Path, *, key: bytes | None = None) -> None:
        """Everything as a parquet file, the rows as they are now included; see `read_answers`.

        Parameters
        ----------
        path : str or Path
            The file, written whole or not at all.
        key : bytes, optional
            16 secret bytes or more. With them, the file's digest proves to `verify(..., key=key)` that somebody who has
            the key wrote the file as it is; without, it detects accidental damage and careless edits.

        Raises
        ------
        DataError
            If a value has no place in its column, two columns have one name, or the key is too short.
        """
        write_answers(self, path, key=key)


def file_names(index: pd.Index) -> list[str]:
    """A file name for each label: its letters and digits, numbered where two would be the same."""
    found: dict[str, int] = {}
    names = []
    for label in index.tolist():
        name = re.sub(r"[^\w-]+", "-", label_text(label)).strip("-")[:LONGEST_NAME] or "letter"
        found[name.casefold()] = found.get(name.casefold(), 0) + 1
        count = found[name.casefold()]
        names.append(f"{name}.html" if count == 1 else f"{name}--{count}.html")
    return names


Part = tuple[NDArray[np.int64], Explanation]
"""Positions of rows in the whole table, and what was found for them."""


def joined(task: Task, rows: pd.DataFrame, parts: Sequence[Part], own: Overrides) -> Explanation:
    """The parts as one explanation of `task`. Nothing is checked anew; each row is in one part.

    Every part was explained under the task's rules followed by those of its rows, `own`.
    """

    def of_rows(name: str, otherwise: Any) -> NDArray[Any]:
        """What the parts say of their rows, in the order of all rows."""
        values = [otherwise if getattr(part, name) is None else getattr(part, name) for _, part in parts]
        kinds = {np.asarray(value).dtype for value in values}
        whole = np.empty(len(rows), dtype=kinds.pop() if len(kinds) == 1 else object)
        for (where, _), value in zip(parts, values, strict=True):
            whole[where] = value
        return whole

    found = [part for _, part in parts]
    place = np.concatenate([where[part.place] for where, part in parts])
    order = np.argsort(place, kind="stable")
    tables = [part.answers for part in found if len(part.answers)] or [found[0].answers]
    kept = np.concatenate([_kept(task, where, part, own) for where, part in parts])
    names = [f.name for f in fields(Checks) if f.name != "kept"]
    checks = Checks(kept=kept, **{n: np.concatenate([getattr(part.checks, n) for part in found]) for n in names})
    return Explanation(
        task=task,
        method=found[0].method,
        rows=_rows_of(task, rows, parts),
        wanted=of_rows("wanted", None),
        known_now=of_rows("score_now", None),
        row_status=of_rows("row_status", None),
        answers=pd.concat(tables, ignore_index=True).iloc[order].reset_index(drop=True),
        place=place[order],
        rank=np.concatenate([part.rank for part in found])[order],
        checks=checks.take(order),
        found_by=np.concatenate([part.found_by for part in found])[order],
        effort=Effort.together(part.effort for part in found),
        notes=tuple(dict.fromkeys(note for part in found for note in part.notes)),
        own=own,
        reasons={int(where[i]): reason for where, part in parts for i, reason in part.reasons.items()},
        calls=of_rows("calls", 0),
        cut_short=None if any(part.cut_short is None for part in found) else of_rows("cut_short", False),
        draws=max(part.draws for part in found),
    )


def _rows_of(task: Task, rows: pd.DataFrame, parts: Sequence[Part]) -> pd.DataFrame:
    """The rows as they were given, or as far as they could be read."""
    if not any((part.row_status == Status.UNREADABLE).any() for _, part in parts):
        return rows[list(task.schema.names)]
    order = np.argsort(np.concatenate([where for where, _ in parts]))
    return pd.concat([part.rows for _, part in parts]).iloc[order]


def _kept(task: Task, where: NDArray[np.int64], part: Explanation, own: Overrides) -> Bools:
    """Which rules a part's answers keep: the task's, then all of single rows."""
    common = len(task.rules)
    kept = np.ones((len(part.checks), common + len(own.rules)), dtype=bool)
    kept[:, :common] = part.checks.kept[:, :common]
    for column, rule in enumerate(own.of_row[where[0]]):
        kept[:, common + rule] = part.checks.kept[:, common + column]
    return kept


def _ranks(place: NDArray[np.int64]) -> NDArray[np.int64]:
    """1, 2, ... within each row's answers, in their order."""
    if not len(place):
        return np.empty(0, dtype=np.int64)
    return np.asarray(pd.Series(place).groupby(place).cumcount() + 1, dtype=np.int64)


def _without(given: NDArray[Any] | None, rows: int) -> NDArray[np.object_]:
    """Statuses of rows as if none had an answer; one that claims an answer counts as not found."""
    if given is None:
        return np.full(rows, Status.NOT_FOUND, dtype=object)
    if len(given) != rows:
        raise DataError(f"{len(given):,} statuses for {rows:,} rows: there must be one for each")
    unknown = sorted(str(s) for s in set(np.asarray(given).tolist()) if s not in STATUSES)
    if unknown:
        raise DataError(f"{some(unknown)} is not a status. They are {some(STATUSES, len(STATUSES))}.")
    status = np.asarray(given).astype(object)
    status[np.isin(status, ANSWERED)] = Status.NOT_FOUND
    return status


def _judged(status: NDArray[np.object_], place: NDArray[np.int64], checks: Checks) -> NDArray[np.object_]:
    """Statuses in which rows with an answer have that of their best."""
    status[place] = Status.BEST_EFFORT
    status[place[checks.passed]] = Status.VERIFIED
    return status


def _proofs_hold(made: Task, other: Task) -> bool:
    rules = {r.text for r in made.rules} <= {r.text for r in other.rules}
    return rules and made.classifier is other.classifier and made.schema == other.schema
