"""Why a row has no counterfactual: the rules, bounds or frozen features that block it, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import ClassifierError
from ..explanation import Explanation, Status
from ..explanation.certificate import cells
from ..explanation.reasons import Obstacle, Relaxation, Side, WhyNot, blocked, moves
from ..explanation.wording import plain_amount
from ..progress import WHY_NOT, OnProgress, Progress, no_progress
from ..proof.batch import ModelReading
from ..proof.proof import prove
from ..rules import Rule, holds, in_words, notation, parse_rules
from ..rules.nodes import MIRRORED, And, Compare, Formula, Ref, frozen_by
from ..schema import Feature, Schema
from ..schema.feature import plain
from ..task import Task

# A bound is relaxed by this share of the feature's range.
WIDER = 0.5


def obstacles(task: Task, *, fixed: bool = False) -> tuple[Obstacle, ...]:
    """All possible obstacles: rules, then bounds, then, with `fixed`, frozen features."""
    still = {*task.schema.immutable, *(name for rule in task.rules for name in _frozen(rule.formula))}
    open_rules = [r for r in task.rules if r.freezes is None and (fixed or _may_give_way(r, still))]
    bounds = [o for o in _bounds(task.schema) if o.name not in still]
    freezes = [_of_freeze(f) for f in task.schema if f.name in still]
    # The same rule written twice is one obstacle.
    return tuple(dict.fromkeys([*map(_of_rule, open_rules), *bounds, *(freezes if fixed else ())]))


def _frozen(formula: Formula) -> Iterator[str]:
    """Features that a rule freezes, whatever else it says."""
    for item in formula.items if isinstance(formula, And) else ():
        yield from _frozen(item)
    name = frozen_by(formula)
    if name is not None:
        yield name


def _may_give_way(rule: Rule, still: set[str]) -> bool:
    """Whether a rule freezes nothing, and is about a feature that may change."""
    primed = {ref.name for ref in rule.refs if ref.primed}
    return still.isdisjoint(_frozen(rule.formula)) and not (primed and primed <= still)


@dataclass(frozen=True, eq=False)
class Loosened:
    """A task on the widest features, with bounds and frozen features expressed as rules.

    Lifting obstacles then only removes rules, so all these tasks share one reading of the model.
    """

    task: Task
    owners: tuple[Obstacle | None, ...]
    """The obstacle behind each rule of the task; None if the rule stays."""

    @classmethod
    def of(cls, task: Task, every: Sequence[Obstacle], wide: Sequence[Obstacle]) -> Loosened:
        """Loosen a task: `every` obstacle can be lifted, and features are widened by `wide` bounds and freezes."""
        schema, texts, owners = task.schema, [], []
        rules, freezes = ({o.name: o for o in every if o.kind == kind} for kind in ("rule", "freeze"))
        for rule in task.rules:
            owners.append(rules.get(rule.text) if rule.freezes is None else freezes.get(rule.freezes))
        for obstacle in wide:
            name, feature = notation.name(obstacle.name, schema), task.schema[obstacle.name]
            owner = obstacle if obstacle in every else None
            if obstacle.kind == "bound" and obstacle.side is not None:
                wider = _widened(feature, obstacle.side)
                schema = schema.replace(obstacle.name, **{obstacle.side: wider}, guessed=feature.guessed)
                if feature.name not in task.frozen or feature.name in freezes:
                    written = feature.text(obstacle.limit) if feature.kind == "date" else repr(obstacle.limit)
                    bound = f"{name}' {'>=' if obstacle.side == 'low' else '<='} {written}"
                    # A present value may stay, whatever bound was guessed.
                    is_free = obstacle.side in feature.guessed or feature.missing in ("kept", "may_be_filled")
                    texts.append(f"{bound} or {name}' == {name}" if is_free else bound)
                    owners.append(owner)
            elif not feature.mutable:
                schema = schema.replace(obstacle.name, mutable=True)
                texts.append(f"{name}' == {name}")
                owners.append(owner)
        every_rule = (*task.rules, *parse_rules(texts, schema))
        return cls(task.relaxed(rules=every_rule, schema=schema), tuple(owners))

    def without(self, taken: Sequence[Obstacle]) -> Task:
        """The task with some obstacles lifted."""
        rules = [
            r for r, owner in zip(self.task.rules, self.owners, strict=True) if owner is None or owner not in taken
        ]
        return self.task.relaxed(rules=rules)


def without(task: Task, taken: Sequence[Obstacle]) -> Task:
    """The task with some obstacles lifted."""
    return Loosened.of(task, taken, [o for o in taken if o.kind != "rule"]).without(taken)


def needed(task: Task, obstacle: Obstacle, before: pd.DataFrame, after: pd.DataFrame) -> NDArray[np.bool_]:
    """Which answers the obstacle would forbid."""
    if obstacle.kind == "rule":
        rule = next(r for r in task.rules if r.text == obstacle.name)
        return ~holds(rule, before, after)
    if obstacle.kind == "freeze":
        return np.asarray(after[obstacle.name].to_numpy() != before[obstacle.name].to_numpy(), dtype=bool)
    values = task.schema.natural(after, [obstacle.name])[obstacle.name]
    beyond = values < obstacle.limit if obstacle.side == "low" else values > obstacle.limit
    return np.asarray(beyond, dtype=bool)


def _of_rule(rule: Rule) -> Obstacle:
    limit = _limit(rule)
    if limit is None:
        return Obstacle("rule", rule.text, in_words(rule))
    feature, side, value = limit
    return Obstacle("rule", rule.text, in_words(rule), feature, side, value)


def _limit(rule: Rule) -> tuple[str, Side, float] | None:
    """The feature, side and value of a rule that is a plain limit, such as `hours' <= 60`."""
    if not isinstance(rule.formula, Compare):
        return None
    difference = rule.formula.left - rule.formula.right
    if len(difference.terms) != 1 or rule.formula.op in ("==", "!="):
        return None
    weight, ref = difference.terms[0]
    if not isinstance(ref, Ref) or not ref.primed or not ref.feature.is_number:
        return None
    op = rule.formula.op if weight > 0 else MIRRORED[rule.formula.op]
    return ref.name, "high" if op in ("<", "<=") else "low", plain(-difference.constant / weight + 0.0)


def _of_bound(feature: Feature, side: Side) -> Obstacle:
    limit = feature.low if side == "low" else feature.high
    turn = "below {} (lower bound)" if side == "low" else "above {} (upper bound)"
    # "Cannot be" fits singular and plural names.
    words = f"{feature.title} cannot be {turn.format(plain_amount(feature, limit))}"
    return Obstacle("bound", feature.name, words, feature.name, side, limit)


def _of_freeze(feature: Feature) -> Obstacle:
    return Obstacle("freeze", feature.name, f"{feature.title} cannot be changed", feature.name)


def _bounds(schema: Schema) -> list[Obstacle]:
    """All bounds that can be relaxed."""
    sides: tuple[Side, ...] = ("low", "high")
    return [_of_bound(f, side) for f in schema if f.is_number for side in sides if _widened(f, side) is not None]


def _widened(feature: Feature, side: Side) -> float | None:
    """A bound moved outwards on the grid, but not past 0; None if it cannot move."""
    steps = max(1, round(WIDER * (feature.top or 0)))
    first, last = feature.at(np.array([0, feature.top or 0]))
    step = float(feature.step or 1)
    if feature.kind == "date":
        beyond = np.array([-steps if side == "low" else (feature.top or 0) + steps])
        return float(feature.at(beyond)[0])
    if side == "low":
        steps = steps if first < 0 else min(steps, int(np.floor(first / step + 1e-9)))
        return None if steps < 1 else plain(feature.at(np.array([-steps]))[0])
    steps = steps if last >= 0 else min(steps, int(np.floor(-last / step + 1e-9)))
    return None if steps < 1 else plain(feature.at(np.array([(feature.top or 0) + steps]))[0])


Find = Callable[[Task, pd.DataFrame, int], Explanation]
"""A search: verified counterfactuals of rows under a task; the last argument is the depth, 1 to 3."""
Reach = Callable[[Task, pd.DataFrame], NDArray[np.bool_]]
"""Rows for which a search under a task is known to be futile."""

# Limits on the number of relaxed tasks to try, with one obstacle lifted and with several.
TRIES, TRIES_TOGETHER = 200, 60
# Regions up to this size are enumerated, which is cheaper than a futile search.
FEW = 2_000
# Obstacles that are lifted together first, to see whether they help any row.
TOGETHER = 4
# The most sets of obstacles reported for a row.
REPORTED = 5


def why_not(
    task: Task,
    rows: pd.DataFrame,
    wanted: NDArray[Any],
    find: Find,
    *,
    most: int = 2,
    fixed: bool = False,
    impossible: NDArray[np.bool_] | None = None,
    in_vain: Reach | None = None,
    on_progress: OnProgress = no_progress,
) -> list[WhyNot]:
    """Say for each row which obstacles block the target class.

    At most `most` obstacles, 1 or 2, are lifted at once; frozen features only with `fixed`. Rows already proved
    `impossible` need no other proof, and rows for which a search is `in_vain` are not searched. `on_progress` counts
    fractions of rows, since all rows are searched together.
    """
    (rows, _), wanted = task.read(rows), np.asarray(wanted)
    proved = np.zeros(len(rows), dtype=bool) if impossible is None else impossible.copy()
    open_rows = np.flatnonzero(~proved)
    proved[open_rows] = prove(task, rows.iloc[open_rows], wanted[open_rows]).impossible
    answers: dict[int, WhyNot] = {}
    for name in dict.fromkeys(wanted.tolist()):
        own = np.flatnonzero(wanted == name)
        asked = _Asked(rows.iloc[own], wanted[own], proved[own])
        inquiry = _Inquiry(task.relaxed(target=name), asked, find, in_vain, fixed=fixed)
        begun = Progress(WHY_NOT, len(answers), len(rows))
        answers |= dict(zip(own.tolist(), inquiry.run(most, begun, on_progress), strict=True))
    return [answers[i] for i in range(len(rows))]


@dataclass(frozen=True, eq=False)
class _Asked:
    """Rows to find reasons for, their target classes, and which are proved impossible."""

    rows: pd.DataFrame
    wanted: NDArray[Any]
    impossible: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rows)


class _Inquiry:
    """Rows with the same target class, and the results for each."""

    def __init__(self, task: Task, asked: _Asked, find: Find, in_vain: Reach | None, *, fixed: bool) -> None:
        self.task, self.asked, self.find, self.in_vain, self.fixed = task, asked, find, in_vain, fixed
        self.every = obstacles(task, fixed=fixed)
        self.helps: list[list[Relaxation]] = [[] for _ in range(len(asked))]
        self.hopeless: dict[frozenset[Obstacle], set[int]] = {}
        self.hopeful: dict[frozenset[Obstacle], set[int]] = {}
        """For each set of lifted obstacles, rows known to have no answer, and rows that may have one."""
        self.all_tried = True
        self._loosen(_bounds(task.schema))
        if not self._has_answers(_bounds(task.schema)):
            self._loosen([o for o in _bounds(task.schema) if self._has_answers([o])])

    def _loosen(self, bounds: Sequence[Obstacle]) -> None:
        """Make the loosened task that all tries share."""
        freezes = [_of_freeze(f) for f in self.task.schema if not f.mutable] if self.fixed else []
        self.tried = tuple(o for o in self.every if o.kind != "bound" or o in bounds)
        self.unasked = [o for o in self.every if o not in self.tried]
        self.loosened = Loosened.of(self.task, self.tried, [*bounds, *freezes])
        self.__dict__.pop("reading", None)

    @cached_property
    def reading(self) -> ModelReading:
        """The model as numbers. It only rules out futile searches, so the reading need not be checked again."""
        return ModelReading.of(self.loosened.task, held=False)

    def _has_answers(self, bounds: Sequence[Obstacle]) -> bool:
        """Whether the model accepts the first row with features beyond their bounds; queried once for all rows."""
        task, known = self.loosened.task, self.task.readings.setdefault("has_answers", {})
        key = (self.task.schema, *bounds)
        if key not in known:
            _, now = task.read(self.asked.rows.iloc[np.zeros(len(bounds), dtype=np.int64)])
            beyond = {name: values.copy() for name, values in now.items()}
            for i, bound in enumerate(bounds):
                beyond[bound.name][i] = getattr(task.schema[bound.name], bound.side or "")
            try:
                task.classifier.decide(task.table(beyond))
                known[key] = True
            except ClassifierError:
                known[key] = False
        return bool(known[key])

    def run(self, most: int, begun: Progress, on_progress: OnProgress) -> list[WhyNot]:
        tried, turns = 0, _turns(most)
        tries = [min(_tries(size), comb(len(self.tried), size)) for size, _ in turns]
        self.all_tried = all(comb(len(self.tried), size) <= _tries(size) for size, _ in turns)
        for size, depth in turns:
            # A relaxation that changes a frozen feature is not advice, so the search continues for these rows.
            known = [_fewest([r for r in found if r.is_advice]) for found in self.helps]
            if size > 1:
                self._rule_out(np.flatnonzero([not sets for sets in known]))
            else:
                self._screen(np.arange(len(self.asked)))
            for taken in islice(combinations(self.tried, size), _tries(size)):
                left = np.flatnonzero([_is_open(sets, taken) for sets in known])
                if len(left) and set(taken) <= set(self.tried):
                    self._try(taken, left, depth)
                tried += 1
                on_progress(replace(begun, done=begun.done + len(self.asked) * tried / max(sum(tries), 1)))
        return [self._reason(i, most) for i in range(len(self.asked))]

    def _screen(self, left: NDArray[np.int64]) -> None:
        """Find obstacles that help no row, by groups: if lifting a whole group does not help, no part of it does."""
        groups = [list(self.tried[start : start + TOGETHER]) for start in range(0, len(self.tried), TOGETHER)]
        while groups:
            group = groups.pop()
            if len(group) > 1 and len(self._hopeful(group, left)):
                groups += [group[: len(group) // 2], group[len(group) // 2 :]]

    def _rule_out(self, left: NDArray[np.int64]) -> None:
        """Find rows that lifting all obstacles does not help, and obstacles that must be lifted in any case."""
        left = self._hopeful(self.tried, left)
        for stays in self.tried:
            self._hopeful([o for o in self.tried if o != stays], left)

    def _hopeful(self, taken: Sequence[Obstacle], left: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows that may have an answer with some obstacles lifted."""
        gone = frozenset(taken)
        never = set().union(*(rows for more, rows in self.hopeless.items() if gone <= more))
        left, known = left[[i not in never for i in left.tolist()]], self.hopeful.setdefault(gone, set())
        new = left[[i not in known for i in left.tolist()]]
        if len(new):
            vain = self._in_vain(self.loosened.without(taken), new)
            self.hopeless.setdefault(gone, set()).update(new[vain].tolist())
            known.update(new[~vain].tolist())
        return left[[i in known for i in left.tolist()]]

    def _in_vain(self, looser: Task, left: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Rows for which cheap proofs rule out any answer."""
        rows, wanted = self.asked.rows.iloc[left], self.asked.wanted[left]
        vain = np.zeros(len(left), dtype=bool) if self.in_vain is None else self.in_vain(looser, rows)
        open_rows = np.flatnonzero(~vain)
        if len(open_rows):
            some = rows.iloc[open_rows], wanted[open_rows]
            vain[open_rows] = prove(looser, *some, limit=FEW, asks=0, model=self.reading).impossible
        return vain

    def _try(self, taken: Sequence[Obstacle], left: NDArray[np.int64], depth: int) -> None:
        """Search again with some obstacles lifted, for rows where this may help."""
        try:
            left = self._hopeful(taken, left)
            answer = self.find(self.loosened.without(taken), self.asked.rows.iloc[left], depth) if len(left) else None
        except ClassifierError:
            if not any(o.kind == "bound" for o in self.tried):
                raise
            # The model accepts values beyond each single bound, but not everywhere.
            self._loosen([])
            return
        if answer is not None:
            self._keep(answer, taken, left)

    def _keep(self, answer: Explanation, taken: Sequence[Obstacle], left: NDArray[np.int64]) -> None:
        need = np.stack([needed(self.task, o, answer.before, answer.answers) for o in taken], axis=1)
        for i in np.flatnonzero(answer.checks.passed):
            gone = tuple(o for o, yes in zip(taken, need[i], strict=True) if yes)
            self.helps[left[answer.place[i]]].append(_relaxation(answer, int(i), gone))

    def _reason(self, i: int, most: int) -> WhyNot:
        found = sorted(self.helps[i], key=_order)
        ways = {way.gone: way for way in reversed(found)}
        sets = tuple(
            tuple(_taking(obstacle, ways[together], self.task.schema, self.task.rules) for obstacle in together)
            for together in _fewest(found)
            if together
        )
        status = Status.IMPOSSIBLE if self.asked.impossible[i] else Status.NOT_FOUND
        label = self.asked.rows.index[i]
        label = tuple(map(plain, label)) if isinstance(label, tuple) else plain(label)
        why = WhyNot(label, str(status), sets, found[0] if found else None, "")
        return replace(why, words=self._words(why, most))

    def _words(self, why: WhyNot, most: int) -> str:
        if why.relaxation is None:
            return " ".join(self._nothing(most))
        way, said = moves(why.relaxation, self.task.schema), blocked(why, self.task.schema)
        if said is None:
            return f"Nothing blocks this case. A second search found this option: {way}."
        return said.sentences(way)

    def _nothing(self, most: int) -> Iterator[str]:
        kinds = "rule, bound or fixed feature" if self.fixed else "rule or bound"
        together = f", or any {most} of them together," if most > 1 else ""
        yield "Nothing was found that helps:"
        if self.every:
            yield f"relaxing any one {kinds}{together} gave no option."
        else:
            yield f"there is no {kinds} to relax."
        if len(obstacles(self.task, fixed=True)) > len(self.every):
            yield "Features that cannot be changed were kept."
        if not self.all_tried:
            yield "There are too many to try them all; only the first ones were tried."
        if self.unasked:
            titles = ", ".join(dict.fromkeys(self.task.schema[o.feature].title for o in self.unasked))
            yield f"The model does not accept values beyond the bounds of {titles}, so these bounds were kept."


def _turns(most: int) -> list[tuple[int, int]]:
    """The number of obstacles lifted at once, with the depth of the search; single ones once more at the end.

    So a pair is reported only if the deepest search finds nothing with either one lifted.
    """
    return [(1, 2), *((size, 1) for size in range(2, most + 1)), (1, 3)]


def _fewest(found: Sequence[Relaxation]) -> tuple[tuple[Obstacle, ...], ...]:
    """The smallest sets of obstacles among the relaxations found, in order."""
    fewest = min((len(r.gone) for r in found), default=0)
    return tuple(dict.fromkeys(r.gone for r in sorted(found, key=_order) if len(r.gone) == fewest))[:REPORTED]


def _taking(obstacle: Obstacle, way: Relaxation, schema: Schema, rules: Sequence[Rule]) -> Obstacle:
    """The obstacle with the values that its features would need, from a relaxation that lifts it."""
    rule = next((r for r in rules if obstacle.kind == "rule" and r.text == obstacle.name), None)
    names = {obstacle.feature} if rule is None else {ref.name for ref in rule.refs if ref.primed}
    moved = [(schema[change.feature], change.then) for change in way.changes if change.feature in names]
    return replace(obstacle, takes=" and ".join(f"{f.title} {plain_amount(f, then)}" for f, then in moved))


def _order(way: Relaxation) -> tuple[bool, int, int, float]:
    """Sort key: advice first, then fewer obstacles, then rules before bounds, since rules can change, then cost."""
    bounds = sum(obstacle.kind == "bound" for obstacle in way.gone)
    return not way.is_advice, len(way.gone), bounds, way.cost


def _is_open(sets: Sequence[tuple[Obstacle, ...]], taken: Sequence[Obstacle]) -> bool:
    """Whether to try obstacles for a row with these known sets: all if there is none, else only proper subsets."""
    return not sets or any(set(taken) < set(together) for together in sets)


def _tries(size: int) -> int:
    return TRIES if size == 1 else TRIES_TOGETHER


def _relaxation(answer: Explanation, i: int, gone: tuple[Obstacle, ...]) -> Relaxation:
    then = {n: values[0] for n, values in cells(answer.answers.iloc[[i]], answer.task.schema).items()}
    checks = answer.checks
    return Relaxation(gone, then, answer.changes(i), float(checks.cost[i]), float(checks.score[i]))
