"""Why a row has no counterfactual: which rules or bounds stand in the way, and what would help.

Obstacles are taken away one at a time, then in pairs, and the search is asked again. What it finds counts only if it
was verified, and only those obstacles count that the answer really needs gone. A pair is told only where neither half
would do, looked at as closely as the search can. What is fixed stays so, unless somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import ClassifierError, SchemaError
from ..explanation import Explanation, Status
from ..explanation.blocked import blocked, moves
from ..explanation.reasons import Obstacle, Relaxation, WhyNot
from ..schema.feature import plain
from ..task import Task
from .obstacles import needed, obstacles, without
from .prove import Proof, prove

Find = Callable[[Task, pd.DataFrame, int], Explanation]
"""A search: verified counterfactuals of rows under a task; the last is how deep it goes, 1 to 3."""

OnShare = Callable[[float], None]
"""Told how much of the work is done, from 0 to 1."""

# Looser tasks that are tried at most, with one obstacle gone and with several.
TRIES, TRIES_TOGETHER = 200, 60
# So many sets of obstacles are told of a row.
TOLD = 5


def why_not(
    task: Task,
    rows: pd.DataFrame,
    wanted: NDArray[Any],
    find: Find,
    *,
    most: int = 2,
    fixed: bool = False,
    on_share: OnShare | None = None,
) -> list[WhyNot]:
    """Say for each row what stands in the way of the class wanted.

    At most `most` obstacles, 1 or 2, are taken away at once. Features that may not change are among them only if it is
    asked what is `fixed`.
    """
    (rows, _), wanted = task.read(rows), np.asarray(wanted)
    answers: dict[int, WhyNot] = {}
    for name in dict.fromkeys(wanted.tolist()):
        own = np.flatnonzero(wanted == name)
        inquiry = _Inquiry(task.relaxed(target=name), rows.iloc[own], wanted[own], find, fixed=fixed)
        before, here = len(answers) / len(rows), len(own) / len(rows)
        tell = None if on_share is None else partial(_tell_part, on_share, before, here)
        answers |= dict(zip(own.tolist(), inquiry.run(most, tell), strict=True))
    return [answers[i] for i in range(len(rows))]


def _tell_part(on_share: OnShare, before: float, here: float, share: float) -> None:
    on_share(before + here * share)


class _Inquiry:
    """Rows with the same class wanted, and what was found out about each."""

    def __init__(self, task: Task, rows: pd.DataFrame, wanted: NDArray[Any], find: Find, *, fixed: bool) -> None:
        self.task, self.rows, self.wanted, self.find, self.fixed = task, rows, wanted, find, fixed
        self.every = obstacles(task, fixed=fixed)
        self.proof: Proof = prove(task, rows, wanted)
        self.helps: list[list[Relaxation]] = [[] for _ in range(len(rows))]
        self.all_tried = True
        self.unasked: list[Obstacle] = []
        """Bounds beyond which the model does not answer."""

    def run(self, most: int, on_share: OnShare | None) -> list[WhyNot]:
        every, tried, turns = self.every, 0, _turns(most)
        tries = [min(_tries(size), comb(len(every), size)) for size, _ in turns]
        self.all_tried = all(comb(len(every), size) <= _tries(size) for size, _ in turns)
        for size, depth in turns:
            # What asks for a fixed feature to change is no way out, so these rows are looked at further.
            known = [_fewest([r for r in found if r.is_advice]) for found in self.helps]
            for taken in islice(combinations([o for o in every if o not in self.unasked], size), _tries(size)):
                left = np.flatnonzero([_is_open(sets, taken) for sets in known])
                if len(left):
                    self._try(taken, left, depth)
                tried += 1
                if on_share is not None:
                    on_share(tried / sum(tries))
        return [self._told(i, most) for i in range(len(self.rows))]

    def _try(self, taken: Sequence[Obstacle], left: NDArray[np.int64], depth: int) -> None:
        """Search again without some obstacles, for the rows of which that is not known to be in vain."""
        try:
            looser = without(self.task, taken)
            hopeless = prove(looser, self.rows.iloc[left], self.wanted[left], limit=0).impossible
            left = left[~hopeless]
            answer = self.find(looser, self.rows.iloc[left], depth) if len(left) else None
        except (ClassifierError, SchemaError):
            # A model may refuse values beyond the bounds it knows.
            if len(taken) > 1 or taken[0].kind != "bound":
                raise
            self.unasked.append(taken[0])
            return
        if answer is not None:
            self._keep(answer, taken, left)

    def _keep(self, answer: Explanation, taken: Sequence[Obstacle], left: NDArray[np.int64]) -> None:
        need = np.stack([needed(self.task, o, answer.before, answer.answers) for o in taken], axis=1)
        for i in np.flatnonzero(answer.checks.passed):
            gone = tuple(o for o, yes in zip(taken, need[i], strict=True) if yes)
            self.helps[left[answer.place[i]]].append(_relaxation(answer, int(i), gone))

    def _told(self, i: int, most: int) -> WhyNot:
        found = sorted(self.helps[i], key=_order)
        sets = tuple(together for together in _fewest(found) if together)
        status = Status.IMPOSSIBLE if self.proof.impossible[i] else Status.NOT_FOUND
        label = self.rows.index[i]
        label = tuple(map(plain, label)) if isinstance(label, tuple) else plain(label)
        why = WhyNot(label, str(status), sets, found[0] if found else None, "")
        return replace(why, words=self._words(why, most))

    def _words(self, why: WhyNot, most: int) -> str:
        if why.relaxation is None:
            return " ".join(self._nothing(most))
        way, said = moves(why.relaxation, self.task.schema), blocked(why, self.task.schema)
        if said is None:
            return f"Nothing stands in the way: a second look found an answer, {way}."
        return said.sentences(way)

    def _nothing(self, most: int) -> Iterator[str]:
        kinds = "rule, fixed feature or bound" if self.fixed else "rule or bound"
        together = f", or up to {most} of them together" if most > 1 else ""
        yield "Nothing that was tried helps:" if self.fixed else "Nothing that may be changed was found to help:"
        if self.every:
            yield f"with any {kinds} gone{together}, no answer was found."
        else:
            yield f"there is no {kinds} that could give way."
        if len(obstacles(self.task, fixed=True)) > len(self.every):
            yield "What is fixed was left as it is."
        if not self.all_tried:
            yield "There are too many to try them all together; those that come first were tried."
        if self.unasked:
            titles = ", ".join(dict.fromkeys(self.task.schema[o.feature].title for o in self.unasked))
            yield f"Beyond the bounds of {titles} the model gives no answer, so these were left alone."


def _turns(most: int) -> list[tuple[int, int]]:
    """How many obstacles are taken away at once, and how deep the search then goes; single ones once more at last.

    So a pair is told only if the deepest search finds nothing with one of the two.
    """
    return [(1, 2), *((size, 1) for size in range(2, most + 1)), (1, 3)]


def _fewest(found: Sequence[Relaxation]) -> tuple[tuple[Obstacle, ...], ...]:
    """The smallest sets of obstacles among ways that were found, in order."""
    fewest = min((len(r.gone) for r in found), default=0)
    return tuple(dict.fromkeys(r.gone for r in sorted(found, key=_order) if len(r.gone) == fewest))[:TOLD]


def _order(way: Relaxation) -> tuple[bool, int, int, float]:
    """Advice first, then fewer obstacles, then rules, which somebody may loosen, before bounds, then the cheapest."""
    bounds = sum(obstacle.kind == "bound" for obstacle in way.gone)
    return not way.is_advice, len(way.gone), bounds, way.cost


def _is_open(sets: Sequence[tuple[Obstacle, ...]], taken: Sequence[Obstacle]) -> bool:
    """Whether obstacles are to be tried for a row that these sets are known of: all without any, else parts of them."""
    return not sets or any(set(taken) < set(together) for together in sets)


def _tries(size: int) -> int:
    return TRIES if size == 1 else TRIES_TOGETHER


def _relaxation(answer: Explanation, i: int, gone: tuple[Obstacle, ...]) -> Relaxation:
    then = {n: plain(answer.answers[n].iloc[i]) for n in answer.task.schema.names}
    checks = answer.checks
    return Relaxation(gone, then, answer.changes(i), float(checks.cost[i]), float(checks.probability[i]))
