"""Why a row has no counterfactual: which rules, fixed features or bounds stand in the way, and what would help.

Obstacles are taken away one at a time, then in pairs, and the search is asked again. What it finds counts only if it
was verified, and only those obstacles count that the answer really needs gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import ClassifierError, SchemaError
from ..explanation import Explanation, Status
from ..explanation.reasons import Obstacle, Relaxation, WhyNot
from ..schema.feature import plain
from ..task import Task
from .obstacles import given_way, needed, obstacles, without
from .prove import Proof, prove

Find = Callable[[Task, pd.DataFrame], Explanation]
"""A search: verified counterfactuals of rows under a task."""

# Looser tasks of one size that are tried at most.
TRIES = 200


def why_not(task: Task, rows: pd.DataFrame, wanted: NDArray[Any], find: Find, *, most: int = 2) -> list[WhyNot]:
    """Say for each row what stands in the way of the class wanted; at most `most` obstacles are taken away at once."""
    rows, wanted = rows[list(task.schema.names)], np.asarray(wanted)
    answers: dict[int, WhyNot] = {}
    for name in dict.fromkeys(wanted.tolist()):
        own = np.flatnonzero(wanted == name)
        inquiry = _Inquiry(task.relaxed(target=name), rows.iloc[own], wanted[own], find)
        answers |= dict(zip(own.tolist(), inquiry.run(most), strict=True))
    return [answers[i] for i in range(len(rows))]


class _Inquiry:
    """Rows with the same class wanted, and what was found out about each."""

    def __init__(self, task: Task, rows: pd.DataFrame, wanted: NDArray[Any], find: Find) -> None:
        self.task, self.rows, self.wanted, self.find = task, rows, wanted, find
        self.proof: Proof = prove(task, rows, wanted)
        self.helps: list[list[Relaxation]] = [[] for _ in range(len(rows))]
        self.unasked: list[Obstacle] = []
        """Bounds beyond which the model does not answer."""

    def run(self, most: int) -> list[WhyNot]:
        every = obstacles(self.task)
        for size in range(1, most + 1):
            # What asks for a fixed feature to change is no way out, so these rows are looked at further.
            left = np.flatnonzero([not any(r.is_advice for r in found) for found in self.helps])
            for taken in islice(combinations([o for o in every if o not in self.unasked], size), TRIES):
                if len(left):
                    self._try(taken, left)
        return [self._told(i, most) for i in range(len(self.rows))]

    def _try(self, taken: Sequence[Obstacle], left: NDArray[np.int64]) -> None:
        """Search again without some obstacles, for the rows of which that is not known to be in vain."""
        try:
            looser = without(self.task, taken)
            hopeless = prove(looser, self.rows.iloc[left], self.wanted[left], limit=0).impossible
            left = left[~hopeless]
            answer = self.find(looser, self.rows.iloc[left]) if len(left) else None
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
        found = sorted(self.helps[i], key=lambda r: (not r.is_advice, len(r.gone), r.cost))
        fewest = min((len(r.gone) for r in found), default=0)
        sets = tuple(dict.fromkeys(r.gone for r in found if len(r.gone) == fewest)) if fewest else ()
        status = Status.IMPOSSIBLE if self.proof.impossible[i] else Status.NOT_FOUND
        words = " ".join(_words(self.task, sets, found[0]) if found else self._nothing(most))
        label = self.rows.index[i]
        label = tuple(map(plain, label)) if isinstance(label, tuple) else plain(label)
        return WhyNot(label, str(status), sets, found[0] if found else None, words)

    def _nothing(self, most: int) -> Iterator[str]:
        together = f", or up to {most} of them together" if most > 1 else ""
        yield f"Nothing that was tried helps: with any rule, fixed feature or bound gone{together}, there is no answer."
        if self.unasked:
            titles = ", ".join(dict.fromkeys(self.task.schema[o.feature].title for o in self.unasked))
            yield f"Beyond the bounds of {titles} the model gives no answer, so these were left alone."


def _relaxation(answer: Explanation, i: int, gone: tuple[Obstacle, ...]) -> Relaxation:
    then = {n: plain(answer.answers[n].iloc[i]) for n in answer.task.schema.names}
    checks = answer.checks
    return Relaxation(gone, then, answer.changes(i), float(checks.cost[i]), float(checks.probability[i]))


def _words(task: Task, sets: tuple[tuple[Obstacle, ...], ...], best: Relaxation) -> Iterator[str]:
    if not best.gone:
        yield f"Nothing stands in the way: a second look found an answer, {_moves(task, best)}."
        return
    yield _blocked(sets)
    ways = " and ".join(given_way(o, task.schema, best.counterfactual.get(o.feature)) for o in best.gone)
    yield f"{ways[0].upper()}{ways[1:]} it would work: {_moves(task, best)}."
    if not best.is_advice:
        fixed = " and ".join(task.schema[o.name].title for o in best.gone if not o.can_give_way)
        yield f"That is no advice, since {fixed} cannot be changed; it only shows what the model's answer hangs on."


def _blocked(sets: tuple[tuple[Obstacle, ...], ...]) -> str:
    said = [" and ".join(o.words for o in together) for together in sets]
    if len(sets) == 1:
        return f"Blocked by: {said[0]}."
    together = "pairs" if len(sets[0]) == 2 else "sets" if len(sets[0]) > 2 else "things"
    return f"Blocked by these {together}, any one of which would do if it gave way: {'; '.join(said)}."


def _moves(task: Task, best: Relaxation) -> str:
    return ", ".join(f"{task.schema[c.feature].title} {c.now} -> {c.then}" for c in best.changes) or "nothing changes"
