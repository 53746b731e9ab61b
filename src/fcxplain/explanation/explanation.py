"""Explanation: checked answers for a table of rows, and how to save them."""

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


# The longest file name made from a row's label.
LONGEST_NAME = 80


@dataclass(frozen=True)
class Effort:
    """The effort of explaining: wall and CPU seconds, threads, and model queries."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    threads: int = 1
    calls: int = 0

    @classmethod
    def since(cls, wall: float, cpu: float, calls: int) -> Effort:
        """The effort since two clock readings, `time.perf_counter()` and `time.process_time()`."""
        torch = sys.modules.get("torch")
        threads = 1 if torch is None else torch.get_num_threads()
        return cls(time.perf_counter() - wall, time.process_time() - cpu, threads, calls)

    @classmethod
    def together(cls, parts: Iterable[Effort]) -> Effort:
        """The sum of several parts."""
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

    `FCx.explain` returns one; `Explanation.of` makes one from your own counterfactuals.

    Attributes
    ----------
    task : Task
        The model and rules that the answers were checked with.
    method : str
        The name of the method.
    rows : DataFrame
        The explained rows, with their index.
    answers : DataFrame
        One line per counterfactual.
    place, rank : ndarray of int
        For each answer, the position of its row, and which of that row's answers it is, from 1.
    checks : Checks
        The checks of each answer.
    wanted, row_status : ndarray
        For each row, the target (a class, or an `Outcome`) and the status.
    score_now, known_now : ndarray of float
        For each present row, the probability of the target, or a regressor's output; NaN where the model failed.
        `known_now` is None if they are computed on first use.
    reasons : dict of int to WhyNot
        Why rows have no answer, by position, if requested.
    found_by : ndarray of str
        For each answer, the step that found it.
    soft_valid : ndarray of bool or None
        Whether a generator's raw output had the target class before decoding.
    raw : ndarray of float or None
        Raw outputs in the encoder's columns, one line per answer; not saved to files.
    own : Overrides or None
        Rules of single rows.
    calls, cut_short : ndarray or None
        For each row, the number of model queries, and whether the budget ran out before the search was finished.
    costs : ChangeCosts or None
        The costs that answers were chosen by, if they do not need training rows.
    draws : int
        Proposals of the network for each row.
    notes : tuple of str
        Remarks of the method.
    effort : Effort
        Time, threads and model queries.
    frame, status, why_not, counts, certificates, lof
        The same as tables, counts and certificates, computed on first use.

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
    raw: NDArray[np.float64] | None = None
    effort: Effort = Effort()
    notes: tuple[str, ...] = field(default=())
    own: Overrides | None = None
    reasons: Mapping[int, WhyNot] = field(default_factory=dict)
    calls: NDArray[np.int64] | None = None
    cut_short: NDArray[np.bool_] | None = None
    draws: int = 0
    costs: ChangeCosts | None = None
    known_now: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        # Objects, since numpy truncates text that is longer than the array's dtype.
        for name in ("row_status", "found_by"):
            texts = list(getattr(self, name))
            known = {text: str(text) for text in set(texts)}
            object.__setattr__(self, name, np.fromiter(map(known.__getitem__, texts), object, len(texts)))

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
        """Check counterfactuals from any source.

        Parameters
        ----------
        task : Task
            The model and rules to check with.
        rows : DataFrame
            The explained rows.
        answers : DataFrame
            One line per counterfactual.
        place : ndarray of int
            For each counterfactual, the position of its row in `rows`.
        method : str
            The name of the method.
        wanted : ndarray
            For each row, the target class.
        without : ndarray of str, optional
            For each row, its status if it has no answer; "not_found" by default.
        rank : ndarray of int, optional
            Which of its row's answers each is, from 1; by default, their order.
        found_by : str or ndarray, default="draw"
            The step that found them.
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
        if rank is None:
            rank = np.asarray(pd.Series(place).groupby(place).cumcount() + 1, dtype=np.int64)
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
        """The status of each row, by the index of the rows; see `Status`."""
        return pd.Series(self.row_status, index=self.rows.index, name="status", dtype=str)

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows by status."""
        return dict(Counter(self.row_status.tolist()))

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Rows that needed an answer: all but those that already have the target class or cannot be read."""
        return ~np.isin(self.row_status, [str(Status.ALREADY), str(Status.UNREADABLE)])

    @property
    def all_wanted(self) -> bool:
        """Whether the target of every row is known; an unreadable row may not have one."""
        return self.task.target is not None or not (self.row_status == Status.UNREADABLE).any()

    @cached_property
    def score_now(self) -> NDArray[np.float64]:
        """For each present row, the probability of the target, or a regressor's output; NaN if the model failed."""
        if self.known_now is not None:
            return self.known_now
        found, which = np.full(len(self), np.nan), np.flatnonzero(self.row_status != Status.UNREADABLE)
        found[which] = scores_now(self.task, self.rows.iloc[which], self.wanted[which])
        return found

    @cached_property
    def predicted_now(self) -> NDArray[np.object_]:
        """The model's answer to each present row; None where it failed."""
        found, which = np.full(len(self), None, dtype=object), np.flatnonzero(~np.isnan(self.score_now))
        found[which] = self.task.predict(self.rows.iloc[which]) if len(which) else []
        return found

    @property
    def before(self) -> pd.DataFrame:
        """The row of each answer, line by line."""
        return self.rows.iloc[self.place]

    @cached_property
    def noted(self) -> dict[int, tuple[str, ...]]:
        """What is unusual about the present rows, by position: values that no training row has, and gaps."""
        return unusual(self.task.schema, self.rows, self.row_status != Status.UNREADABLE)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One line per row and rank: results and checks, then the counterfactual's features.

        A row without an answer has one line with its status and nothing else. If a feature has the name of one of
        the first columns, that column is called `fcx_...` instead. `why_not` appears if there are reasons.

        The dtypes depend on the task alone, not on whether some row has no answer. Integers are `Int64` and
        booleans `boolean`, both nullable; all other columns are as in the training rows. `row` has the dtype of the
        labels and `wanted` that of the classes, since neither is ever missing. Only a value that the dtype cannot hold,
        such as a level that does not exist, changes the dtype of its column.
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
        """The name of a column of `frame` that is not a feature.

        Parameters
        ----------
        about : str
            E.g. "status".

        Returns
        -------
        str
            The name; `fcx_...` if a feature has this name.
        """
        return column_named(about, self.task)

    @property
    def why_not(self) -> pd.Series:
        """Why there is no answer, in words, by the index of the rows; None where no reason is known."""
        words = np.full(len(self), None, dtype=object)
        for position, reason in self.reasons.items():
            words[position] = reason.words
        return pd.Series(words, index=self.rows.index, name="why_not", dtype=object)

    @cached_property
    def lof(self) -> NDArray[np.float64]:
        """Local outlier factor of each answer against the training rows; NaN if not available.

        Computed on first use, here or for certificates.
        """
        return lof_of(self, np.arange(len(self.answers)))

    @cached_property
    def certificates(self) -> list[Certificate]:
        """One certificate for each answer, in the order of `answers`."""
        return issued(self, np.arange(len(self.answers)), self.lof)

    def certificate(self, which: Hashable) -> Certificate:
        """The certificate of one answer, computed alone.

        Parameters
        ----------
        which : int or label
            A whole number is the position in `answers`; anything else is a row's label and means its first answer.

        Returns
        -------
        Certificate

        Raises
        ------
        DataError
            If there is no such answer; the message says what the row has instead. Also an `IndexError` for a number.
        """
        i = answer_number(self, which)
        if "certificates" in vars(self):
            return self.certificates[i]
        one = np.array([i])
        return issued(self, one, self.lof[one] if "lof" in vars(self) else lof_of(self, one))[0]

    def changes(self, which: Hashable) -> tuple[Change, ...]:
        """The differences between an answer and its row.

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
        """The same for a larger table: `which` are these rows; all others are unreadable.

        Parameters
        ----------
        rows : DataFrame
            All rows.
        which : ndarray of int
            Positions of these rows.
        unreadable : mapping
            The faults of each of the others, by position.

        Returns
        -------
        Explanation
        """

        def spread(values: NDArray[Any], fill: Any) -> NDArray[Any]:
            whole = np.full(len(rows), fill, dtype=object if fill is None else values.dtype)
            whole[which] = values
            return whole

        names = labels(rows.index)
        reasons = {int(which[i]): reason for i, reason in self.reasons.items()}
        reasons |= {i: WhyNot.unreadable(names[i], *said) for i, said in unreadable.items()}
        return replace(
            self,
            rows=rows[list(self.task.schema.names)],
            wanted=spread(self.wanted, self.task.target),
            known_now=None if self.known_now is None else spread(self.known_now, np.nan),
            row_status=spread(self.row_status, str(Status.UNREADABLE)),
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
            Rows stay proved impossible only if the proof carries over: the same model and features, and at least the
            same rules.

        Raises
        ------
        DataError
            If the task has other features.
        """
        if task is self.task:
            return self
        if task.schema.names != self.task.schema.names:
            raise DataError("the task has other features than these answers")
        own = self.own
        if own is not None and task.schema != self.task.schema:
            own = replace(own, rules=parse_rules(own.rules, task.schema))
        checks = check(task, self.before, self.answers, self.wanted[self.place], own, self.place)
        now = self.known_now if task.classifier is self.task.classifier else None
        status = self.row_status.copy()
        same = task.classifier is self.task.classifier and task.schema == self.task.schema
        before, after = ({rule.text for rule in made.rules} for made in (self.task, task))
        if not (same and before <= after):
            status[status == Status.IMPOSSIBLE] = Status.NOT_FOUND
        reasons = self.reasons if same and before == after else {}
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
        about = {"method": self.method, "notes": list(self.notes), "counts": self.counts}
        return about | {"rows": rows, "answers": answers}

    def to_json(self, path: str | Path | None = None) -> str:
        """`to_dict` as JSON text, with null for NaN.

        Parameters
        ----------
        path : str or Path, optional
            A file to write, as a whole or not at all.

        Returns
        -------
        str
        """
        text = json.dumps(written(self.to_dict()), indent=2, ensure_ascii=False, allow_nan=False)
        if path is not None:
            write_whole(path, text + "\n")
        return text

    def to_csv(self, path: str | Path) -> None:
        """`frame` as a CSV file that is safe from formula injection in spreadsheets; our own readers undo the guards.

        Parameters
        ----------
        path : str or Path
            The file to write, as a whole or not at all.
        """
        safe = self.frame.apply(lambda column: column if is_numeric_dtype(column) else column.map(guarded))
        write_whole(path, str(safe.rename(columns=guarded).to_csv(index=False, lineterminator="\n")))

    def to_html(self, path: str | Path | None = None, *, title: str | None = None, group: str | None = None) -> str:
        """Everything as one self-contained HTML page.

        Parameters
        ----------
        path : str or Path, optional
            A file to write, as a whole or not at all.
        title : str, optional
            The heading of the page.
        group : str, optional
            A feature whose values are compared in the summary.

        Returns
        -------
        str

        Raises
        ------
        SchemaError
            If there is no such feature.
        """
        # Imported here, since the page depends on explanations.
        from .page import render

        text = render(self, title=title, group=group)
        if path is not None:
            write_whole(Path(path), text)
        return text

    def letter(self, row: Hashable, path: str | Path | None = None, *, language: str = "en") -> str:
        """A letter for one person: what could change, or why nothing can, in plain words on one printable page.

        It contains only verified answers, and never advises on frozen or protected features, such as sex.

        Parameters
        ----------
        row : label
            The row's label in the index of the rows asked.
        path : str or Path, optional
            A file to write, as a whole or not at all.
        language : str, default="en"
            "en", "de", or the path of a TOML file with the texts of another language.

        Returns
        -------
        str
            HTML without scripts that fetches nothing; a browser prints it, or saves it as PDF.

        Raises
        ------
        DataError
            If no row or several rows have this label, or the language is not known.
        """
        from .page.letter import letter_of

        text = letter_of(self, row_position(self, row), language)
        if path is not None:
            write_whole(Path(path), text)
        return text

    def letters(self, folder: str | Path, *, language: str = "en") -> list[Path]:
        """A letter for every row, each in a file named after the row.

        Parameters
        ----------
        folder : str or Path
            The folder to write to; created if it does not exist.
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
        """Everything as a parquet file, including the present rows; see `read_answers`.

        Parameters
        ----------
        path : str or Path
            The file to write, as a whole or not at all.
        key : bytes, optional
            16 secret bytes or more. With them, the file's digest proves to `verify(..., key=key)` that the file
            was written with this key and not altered; without a key, it detects only accidental changes.

        Raises
        ------
        DataError
            If a value does not fit its column, two columns have the same name, or the key is too short.
        """
        write_answers(self, path, key=key)


def file_names(index: pd.Index) -> list[str]:
    """A file name for each label: its letters and digits, numbered to be unique."""
    found, names = Counter[str](), []
    for label in index.tolist():
        name = re.sub(r"[^\w-]+", "-", label_text(label)).strip("-")[:LONGEST_NAME] or "letter"
        found[name.casefold()] += 1
        count = found[name.casefold()]
        names.append(f"{name}.html" if count == 1 else f"{name}--{count}.html")
    return names


Part = tuple[NDArray[np.int64], Explanation]
"""Positions of rows in the whole table, and their explanation."""


def joined(task: Task, rows: pd.DataFrame, parts: Sequence[Part], own: Overrides) -> Explanation:
    """Join parts into one explanation of `task`. Nothing is checked again; each row is in one part.

    Every part was explained under the task's rules followed by those of its rows, `own`.
    """

    def of_rows(name: str) -> NDArray[Any]:
        """A field of the parts, in the order of all rows; 0 where a part has none."""
        values = [0 if getattr(part, name) is None else getattr(part, name) for _, part in parts]
        kinds = {np.asarray(value).dtype for value in values}
        whole = np.empty(len(rows), dtype=kinds.pop() if len(kinds) == 1 else object)
        for (where, _), value in zip(parts, values, strict=True):
            whole[where] = value
        return whole

    found = [part for _, part in parts]
    if any((part.row_status == Status.UNREADABLE).any() for part in found):
        # The rows as far as they can be read.
        in_order = np.argsort(np.concatenate([where for where, _ in parts]))
        rows = pd.concat([part.rows for part in found]).iloc[in_order]
    place = np.concatenate([where[part.place] for where, part in parts])
    order = np.argsort(place, kind="stable")
    tables = [part.answers for part in found if len(part.answers)] or [found[0].answers]
    kept = np.concatenate([_kept(task, where, part, own) for where, part in parts])
    names = [f.name for f in fields(Checks) if f.name != "kept"]
    checks = Checks(kept=kept, **{n: np.concatenate([getattr(part.checks, n) for part in found]) for n in names})
    return Explanation(
        task=task,
        method=found[0].method,
        rows=rows[list(task.schema.names)],
        wanted=of_rows("wanted"),
        known_now=of_rows("score_now"),
        row_status=of_rows("row_status"),
        answers=pd.concat(tables, ignore_index=True).iloc[order].reset_index(drop=True),
        place=place[order],
        rank=np.concatenate([part.rank for part in found])[order],
        checks=checks.take(order),
        found_by=np.concatenate([part.found_by for part in found])[order],
        effort=Effort.together(part.effort for part in found),
        notes=tuple(dict.fromkeys(note for part in found for note in part.notes)),
        own=own,
        reasons={int(where[i]): reason for where, part in parts for i, reason in part.reasons.items()},
        calls=of_rows("calls"),
        cut_short=None if any(part.cut_short is None for part in found) else of_rows("cut_short"),
        draws=max(part.draws for part in found),
    )


def _kept(task: Task, where: NDArray[np.int64], part: Explanation, own: Overrides) -> Bools:
    """Which rules a part's answers keep: the task's, then those of single rows."""
    common = len(task.rules)
    kept = np.ones((len(part.checks), common + len(own.rules)), dtype=bool)
    kept[:, :common] = part.checks.kept[:, :common]
    for column, rule in enumerate(own.of_row[where[0]]):
        kept[:, common + rule] = part.checks.kept[:, common + column]
    return kept


def _without(given: NDArray[Any] | None, rows: int) -> NDArray[np.object_]:
    """Statuses of rows as if none had an answer; those that claim one count as not found."""
    if given is None:
        return np.full(rows, Status.NOT_FOUND, dtype=object)
    if len(given) != rows:
        raise DataError(f"{len(given):,} statuses for {rows:,} rows: there must be one for each")
    unknown = sorted(str(s) for s in set(np.asarray(given).tolist()) if s not in STATUSES)
    if unknown:
        raise DataError(f"{some(unknown)} is not a status. The statuses are {some(STATUSES, len(STATUSES))}.")
    status = np.asarray(given).astype(object)
    status[np.isin(status, ANSWERED)] = Status.NOT_FOUND
    return status


def _judged(status: NDArray[np.object_], place: NDArray[np.int64], checks: Checks) -> NDArray[np.object_]:
    """Statuses in which each row has that of its best answer."""
    status[place] = Status.BEST_EFFORT
    status[place[checks.passed]] = Status.VERIFIED
    return status
