"""The judge of claims: rules and legal values by the second reading, classes by the model itself, all rows by brute force.

It shares no code with the library. A wrong claim is one that does not hold; a miss is a row that was left without an
answer although there is one, and without any claim that there is none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fcxplain import Explanation
from fcxplain.proof.proof import Proof
from random_problems import SHORT, Problem, count
from second_reading import GAP, UNSEEN, Columns, changes, grid, kept, legal, nudged, read, repeated, take

STATUSES = {"verified", "not_found", "impossible", "timed_out", "already", "unreadable"}
# Answers of each problem that the model is asked about alone: such questions are most of what judging costs.
ALONE = 24


@dataclass(frozen=True)
class Finding:
    """A claim that does not hold, and all that is needed to see it again."""

    seed: int
    number: int
    claim: str
    row: int
    told: str

    def __str__(self) -> str:
        return f"seed {self.seed}, problem {self.number}, row {self.row}: {self.claim}. {self.told}"


@dataclass
class Verdict:
    """What was claimed, how often, what of it does not hold, and what was missed."""

    claims: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    misses: list[Finding] = field(default_factory=list)


class Judge:
    """Judges answers to the rows of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.verdict = problem, Verdict()
        self.short = {name for name, dtype in problem.dtypes.items() if str(dtype) in SHORT}
        self.classes = problem.answers(problem.domain)
        sizes = [len(values) for values in problem.values.values()]
        self._strides = np.cumprod([1, *sizes[:0:-1]])[::-1]
        self._on_grid = {f.name: np.isin(problem.domain[f.name], grid(f)) for f in problem.schema}
        self.common = problem.task.target is not None
        """Whether all rows want the same; else each wants the other of two classes."""
        self.good = problem.meets(problem.domain) if self.common else np.zeros(len(self.classes), dtype=bool)
        # Rows that cannot be read stand anywhere.
        self.now = self.classes[self.places(problem.now) * ~problem.unreadable]

    def places(self, columns: Columns) -> np.ndarray:
        """Where rows stand in the domain."""
        at = [np.searchsorted(values, columns[name]) for name, values in self.problem.values.items()]
        return np.sum([a * stride for a, stride in zip(at, self._strides, strict=True)], axis=0)

    @cached_property
    def wanted(self) -> np.ndarray:
        """The class that each row wants: the target, or the other of two."""
        if self.common:
            wanted = np.empty(len(self.now), dtype=object)
            wanted[:] = [self.problem.task.target] * len(wanted)
            return wanted
        first, second = self.problem.model.classes
        return np.array([first if c == second else second for c in self.now], dtype=object)

    def meets(self, places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Whether what stands at places of the domain is what each of these rows wants."""
        return np.asarray(self.good[places] if self.common else self.classes[places] == self.wanted[rows], dtype=bool)

    @cached_property
    def has(self) -> np.ndarray:
        """Which rows have what they want."""
        return self.meets(self.places(self.problem.now) * ~self.problem.unreadable, np.arange(len(self.now)))

    @property
    def refused(self) -> np.ndarray:
        """The rows that want something, and can be read."""
        return np.flatnonzero(~self.has & ~self.problem.unreadable)

    def judge(self, answer: Explanation) -> Verdict:
        """Every claim of an answer to the problem's rows."""
        status = answer.row_status.tolist()
        if not self.common:
            # Of a row whose own class rounding decides, the other class may be either.
            near = self.problem.unsure(self.problem.now)
            self.wanted[near] = answer.wanted[near]
        self.verdict.claims.update(status)
        self._rows(answer, status)
        self._answers(answer)
        for row in np.flatnonzero(np.isin(answer.row_status, ["impossible", "not_found", "timed_out"])):
            self._none(int(row), status[row])
        if self.problem.prefer in ("sparse", "fewest"):
            self._few_changes(answer)
        return self.verdict

    def found(self, claim: str, row: int, told: object = "") -> None:
        self.verdict.findings.append(Finding(self.problem.seed, self.problem.number, claim, row, str(told)))

    def _rows(self, answer: Explanation, status: list[str]) -> None:
        unsure, wanted = None, self.wanted
        for row, said in enumerate(status):
            ranks = answer.rank[answer.place == row].tolist()
            if said not in STATUSES:
                self.found(f"there is no status {said!r}", row)
            if ranks != list(range(1, len(ranks) + 1)) or not (
                1 <= len(ranks) <= self.problem.k if said == "verified" else not ranks
            ):
                self.found(f"{said}, with answers of the ranks {ranks}", row)
            if (said == "unreadable") != self.problem.unreadable[row]:
                self.found(f"{said}, and it has {'a gap' if self.problem.unreadable[row] else 'no fault'}", row)
            if said == "unreadable":
                continue
            if (said == "already") != self.has[row] or answer.wanted[row] != wanted[row]:
                unsure = self.problem.unsure(self.problem.now) if unsure is None else unsure
                if not unsure[row]:
                    told = f"{_shown(self.problem, self.problem.now, row)} has {self.now[row]!r}, wants {wanted[row]!r}"
                    told += f", is told that {answer.wanted[row]!r} is wanted"
                    self.found(f"{said}, but the model gives the row another class", row, told)

    def _answers(self, answer: Explanation) -> None:
        problem = self.problem
        if not len(answer.answers):
            return
        now = take(problem.now, answer.place)
        try:
            then = read(problem.schema, answer.answers, self.short)
        except (AssertionError, KeyError) as error:
            self.found("verified, with a value that is none", int(answer.place[0]), error)
            return
        wanted = self.wanted[answer.place]
        inside = legal(problem.schema, now, then)
        given = np.full(len(inside), None, dtype=object)
        places = self.places(take(then, np.flatnonzero(inside)))
        given[inside], right = self.classes[places], inside.copy()
        right[inside] = self.meets(places, answer.place[inside])
        lines = pd.DataFrame(then).assign(**{"the row": answer.place})
        wrong = {
            "verified, but not legal": ~inside,
            "verified, but breaks a rule": ~kept(problem.sentences, now, then),
            "verified, but the model gives another class": inside & ~right,
            "verified twice": lines.duplicated().to_numpy(),
            "verified, but nothing is changed": changes(now, then) == 0,
            "verified, but the certificate fails": ~np.array([c.passed for c in answer.certificates], dtype=bool),
        }
        for claim, where in wrong.items():
            for i in np.flatnonzero(where):
                told = f"{_shown(problem, now, i)} -> {_shown(problem, then, i)}: {given[i]!r}, not {wanted[i]!r}"
                self.found(claim, int(answer.place[i]), told)
        self._alone(answer, take(then, np.flatnonzero(inside)), np.flatnonzero(inside))

    def _alone(self, answer: Explanation, then: Columns, which: np.ndarray) -> None:
        """The model is asked about answers one by one: first about those next to its boundary."""
        _, first = np.unique(self.places(then), return_index=True)
        near = self.problem.unsure(take(then, first))
        mixed = np.random.default_rng(abs(self.problem.number)).permutation(len(first))
        order = mixed[np.argsort(~near[mixed], kind="stable")]
        for i in first[order[:ALONE]]:
            alone, row = take(then, np.array([i])), int(answer.place[which[i]])
            given = self.problem.answers(alone)[0]
            if not (self.problem.meets(alone)[0] if self.common else given == self.wanted[row]):
                told = f"{_shown(self.problem, then, i)}: {given!r}, not {self.wanted[row]!r}"
                self.found("verified, but the model gives another class when it is asked alone", row, told)

    def ways(self, row: int) -> np.ndarray:
        """Places in the domain of all rows that one row may legally become to get the class that it wants."""
        problem = self.problem
        here = {name: values[row] for name, values in problem.now.items()}
        right = self.good.copy() if self.common else self.classes == self.wanted[row]
        for f in problem.schema:
            same = problem.domain[f.name] == here[f.name]
            free = f.mutable and (here[f.name] != GAP or f.missing == "may_be_filled")
            right &= (self._on_grid[f.name] | same) if free else same
        left = np.flatnonzero(right)
        then = take(problem.domain, left)
        return left[kept(problem.sentences, repeated(problem.now, row, len(left)), then)]

    def _none(self, row: int, said: str) -> None:
        there = self.ways(row)
        if not len(there):
            return
        ways = take(self.problem.domain, there)
        sure = np.flatnonzero(~self.problem.unsure(ways))
        if len(sure):
            told = f"{_shown(self.problem, self.problem.now, row)} -> {_shown(self.problem, ways, sure[0])}"
            finding = Finding(self.problem.seed, self.problem.number, f"{said}, but there is a way", row, told)
            proved = said.startswith("impossible")
            (self.verdict.findings if proved else self.verdict.misses).append(finding)

    def judge_proof(self, proof: Proof, rows: np.ndarray) -> None:
        """What was proved of some rows, whether or not the search has an answer for them."""
        self.verdict.claims["proved by bounds"] += int(proof.impossible.sum())
        for row in rows[proof.impossible]:
            self._none(int(row), "impossible by bounds")
        which = np.flatnonzero(proof.possible)
        now, then = (
            take(self.problem.now, rows[which]),
            read(self.problem.schema, proof.witness.iloc[which], self.short),
        )
        good = legal(self.problem.schema, now, then) & kept(self.problem.sentences, now, then)
        good[good] = self.meets(self.places(take(then, np.flatnonzero(good))), rows[which[good]])
        for i in np.flatnonzero(~good):
            told = f"{_shown(self.problem, now, i)} -> {_shown(self.problem, then, i)}"
            self.found("possible, but the witness is none", int(rows[which[i]]), told)

    def _few_changes(self, answer: Explanation) -> None:
        """What one change can do is answered with one."""
        for row in np.flatnonzero(answer.row_status == "verified"):
            i = int(np.flatnonzero((answer.place == row) & (answer.rank == 1))[0])
            here = repeated(self.problem.now, int(row), 1)
            try:
                then = read(self.problem.schema, answer.answers.iloc[[i]], self.short)
            except (AssertionError, KeyError):
                continue
            if changes(here, then)[0] > 1:
                ways = take(self.problem.domain, self.ways(int(row)))
                now = repeated(self.problem.now, int(row), count(ways))
                single = (changes(now, ways) == 1) & ~nudged(self.problem.schema, now, ways)
                single &= ~self.problem.unsure(ways)
                if single.any():
                    told = f"{_shown(self.problem, now, 0)} -> {_shown(self.problem, ways, int(single.argmax()))}"
                    self.found("more than one change, where one would do", int(row), told)


def _shown(problem: Problem, columns: Columns, row: int) -> list[Any]:
    """A row as people write it."""
    codes = [(f, int(columns[f.name][row])) for f in problem.schema]
    return [None if c == GAP else c / 10**4 if f.is_number else [*f.levels, UNSEEN][c] for f, c in codes]
