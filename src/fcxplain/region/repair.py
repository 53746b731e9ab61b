"""Repair: the nearest legal row that keeps all rules together.

Rules that share no counterfactual value are repaired apart. Boxes are solved in closed form for all rows at
once, and sums in a box where possible; only the rows that are left go to the integer program, one by one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault
from ..rules.check import Bools, truth
from ..rules.nodes import And, Atom, Formula, Ref, refs_of
from ..rules.normal import Disjunct, Group, frozen_names, grouped
from ..rules.rule import Rule
from ..schema import Feature, Natural, Schema, natural_column
from .boxes import BatchBoxes, Box, BoxSearch, Floats, Interval, Nearest, number_distance
from .knapsack import SAME
from .linear import BoxRows, slide
from .program import FEW, NONE, SECONDS, UNDECIDED, Program, Solution

# Rows repaired at a time, so that their arrays stay in the processor's cache.
CHUNK = 16_384
# Sums that share values are kept one after the other: how many are tried in every order, and for how many rounds.
FEW_SUMS, ROUNDS = 3, 8
# Moving a value that fills a gap is cheaper than any other move: filling a gap costs the same with any value.
ALIKE = 1e9


@dataclass(frozen=True)
class Repaired(Nearest):
    """Legal rows nearest to the requested ones; `undecided` where none was found before time ran out."""

    undecided: Bools


def repair(
    rules: Rule | Iterable[Rule],
    before: pd.DataFrame,
    after: pd.DataFrame,
    schema: Schema,
    *,
    units: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """The legal rows nearest to `after` that keep the rules with respect to `before`.

    Legal: on the grid and within the bounds, immutable features as before. Cost: distance over `units` for
    numbers (their range by default; `schema.units(train)` for MADs), 1 for each other level. A row for which
    there is no legal row is returned with every value missing.
    """
    result = Repairer(rules, schema, units).nearest(*_natural_pair(before, after, schema))
    table = schema.table(result.natural, after.index, after[list(schema.names)].dtypes)
    if result.found.all():
        return table
    # Whole numbers and booleans have no missing value in numpy, so they become pandas' nullable kind.
    nullable = {"i": "Int64", "u": "UInt64", "b": "boolean"}
    kinds = {name: nullable.get(getattr(dtype, "kind", "")) for name, dtype in table.dtypes.items()}
    table = table.astype({name: kind for name, kind in kinds.items() if kind})
    return table.mask(np.tile(~result.found[:, None], len(schema)))


class Repairer:
    """Rules prepared for repair on a schema; reuse it for every batch."""

    def __init__(self, rules: Rule | Iterable[Rule], schema: Schema, units: Mapping[str, float] | None = None) -> None:
        self.rules = (rules,) if isinstance(rules, Rule) else tuple(rules)
        self.schema = schema
        self.units = _default_units(schema) | dict(units or {})
        self.frozen = frozen_names(self.rules, schema)
        self.groups = grouped(self.rules, self.frozen)
        ruled = {name for group in self.groups for name in group.names}
        self.free = Disjunct(tuple(n for n in schema.names if n not in self.frozen and n not in ruled))
        self.each_free = tuple(Disjunct((name,)) for name in self.free.names)

    def nearest(self, before: Natural, after: Natural, *, seconds: float = SECONDS, exact: bool = True) -> Repaired:
        """The nearest legal rows, on natural columns; `seconds` bounds the integer programs of one row (0: none).

        Unless `exact`, sums of several values may be kept by one step more than necessary, which is quicker.
        """
        parts = []
        for start in range(0, max(len(after[self.schema.names[0]]), 1), CHUNK):
            first, second = ({n: v[start : start + CHUNK] for n, v in side.items()} for side in (before, after))
            parts.append(self.nearest_in(BatchBoxes(self.schema, first), second, seconds, exact))
        if len(parts) == 1:
            return parts[0]
        natural = {n: np.concatenate([part.natural[n] for part in parts]) for n in self.schema.names}
        joined = (np.concatenate([getattr(p, name) for p in parts]) for name in ("cost", "found", "undecided"))
        return Repaired(natural, *joined)

    def nearest_in(self, boxes: BatchBoxes, after: Natural, seconds: float = SECONDS, exact: bool = True) -> Repaired:
        """See `nearest`; the boxes of the present rows are known."""
        search = BoxSearch(boxes, after, self.units)
        free = search.nearest(boxes.of(self.free))
        natural, cost, found = dict(free.natural), free.cost, free.found
        undecided = np.zeros(search.rows, dtype=bool)
        for name in self.frozen:
            now = natural[name] = search.before[name]
            is_number = self.schema[name].is_number
            cost = cost + (number_distance(now, after[name], self.units[name]) if is_number else now != after[name])
        for group in self.groups:
            part, unknown = self._nearest_of(group, search, seconds, exact)
            natural |= part.natural
            cost, found, undecided = cost + part.cost, found & part.found, undecided | unknown
        undecided &= ~found
        return Repaired({n: natural[n] for n in self.schema.names}, np.where(found, cost, np.inf), found, undecided)

    def _nearest_of(self, group: Group, search: BoxSearch, seconds: float, exact: bool) -> tuple[Nearest, Bools]:
        """The nearest values that keep a group of rules, and where these or nearer ones may be missing."""
        best, bounds = Nearest.none({n: search.after[n] for n in group.names}, search.rows), []
        for way in group.ways:
            box = search.boxes.of(way)
            point = search.nearest(box)
            if group.wide:
                formula = group.formula if group.disjuncts is None else And(way.atoms)
                point, bound = _within_sums(search, formula, box, point, exact)
                bounds.append(bound)
            best = best.improve(point)
        left = np.zeros(search.rows, dtype=bool)
        for bound in bounds:
            left |= bound < best.cost * (1 - SAME)
        if not exact:
            left &= ~best.found
        if seconds <= 0 or not left.any():
            return best, left
        # The integer program cannot handle gaps.
        gaps = np.logical_or.reduce([self.schema[n].is_missing(search.before[n]) for n in group.names])
        undecided = left & gaps
        for row in np.flatnonzero(left & ~gaps).tolist():
            solution = self._solve_row(group, search, row, [float(b[row]) for b in bounds], best.cost[row], seconds)
            undecided[row] = solution.status == "undecided"
            if solution.cost < best.cost[row]:
                best.found[row], best.cost[row] = True, solution.cost
                for ref, value in solution.values.items():
                    best.natural[ref.name][row] = value
        return best, undecided

    def _solve_row(
        self, group: Group, search: BoxSearch, row: int, bounds: Sequence[float], known: float, seconds: float
    ) -> Solution:
        """The best over the group's disjuncts, or over its whole formula where those are many.

        `bounds` says for each disjunct what its solutions cost at least; only what costs less than `known` counts.
        """
        if group.disjuncts is None or np.isfinite(bounds).sum() > FEW:
            return self._solve_formula(group.formula, group, search, row, seconds)
        best, undecided, end = NONE, False, time.monotonic() + seconds
        for choice in np.argsort(bounds, kind="stable"):
            if bounds[choice] >= min(best.cost, known):
                break
            own, left = And(group.disjuncts[choice].atoms), end - time.monotonic()
            solution = self._solve_formula(own, group, search, row, left) if left > 0 else UNDECIDED
            undecided |= solution.status == "undecided"
            if solution.cost < best.cost:
                best = solution
        return UNDECIDED if undecided and best.status == "none" else best

    def _solve_formula(self, formula: Formula, group: Group, search: BoxSearch, row: int, seconds: float) -> Solution:
        names = {r.name for r in refs_of(group.formula) if not r.primed}
        program = Program({Ref(self.schema[n], primed=False): search.before[n][row].item() for n in names})
        for name in group.names:
            feature = self.schema[name]
            own, present = Ref(feature, primed=True), search.before[name][row]
            if feature.is_number and search.boxes.may_stay(feature)[row] and not feature.on_grid(present):
                program.keep(own, present.item())
            program.prefer(own, search.after[name][row].item(), self.units.get(name, 1.0))
        program.require(formula)
        return program.solve(group.formula, seconds)


def _within_sums(search: BoxSearch, formula: Formula, box: Box, start: Nearest, exact: bool) -> tuple[Nearest, Floats]:
    """Near points of a disjunct, found without a program, and what nearer ones cost at least (infinite: none are).

    `start` is the nearest point of its box. Wide atoms only take points away: where that point keeps the formula, or
    the nearest that keeps one more atom does, it is the answer, and elsewhere the answer is no nearer.
    """
    kept = start.found & truth(formula, search.before, {**search.after, **start.natural})
    nearest = Nearest(start.natural, np.where(kept, start.cost, np.inf), kept)
    names = {ref.name for ref in refs_of(formula)} | set(start.natural)
    before, after = ({n: side[n] for n in names} for side in (search.before, search.after))
    asked, bound = start.found & ~kept, np.full(search.rows, np.inf)
    gaps = _Gaps(search, box)
    # A gap that stays breaks every sum, and so a formula that consists of its atoms alone.
    if isinstance(formula, And) and formula.items == box.way.atoms:
        asked &= ~gaps.stay
    bound[asked & ~gaps.tried] = start.cost[asked & ~gaps.tried]
    for filled, rows in gaps.alike(asked & gaps.tried):
        box_rows, begin = BoxRows(before, after, search.units, box.intervals).take(rows), start.take(rows)
        for feature in filled:
            box_rows, begin = _filled(box_rows, begin, feature)
        if filled:
            # What fills the gaps may be enough.
            enough = _truth(formula, box_rows, begin)
            nearest = nearest.put(rows, replace(begin, found=begin.found & enough))
            rows, box_rows, begin = rows[~enough], box_rows.take(~enough), begin.take(~enough)
        point, least = _keeping_all(formula, box.way.wide, box_rows, begin, exact)
        nearest, bound[rows] = nearest.put(rows, point), np.where(least < point.cost * (1 - SAME), least, np.inf)
    return nearest, bound


class _Gaps:
    """Missing values in the sums of a box: `stay` where one cannot be filled, `tried` where all others are numbers."""

    def __init__(self, search: BoxSearch, box: Box) -> None:
        refs = [ref for atom in box.way.wide for ref in refs_of(atom)]
        self.features = list({ref.name: ref.feature for ref in refs if ref.primed}.values())
        self.stay, self.tried = np.zeros(search.rows, dtype=bool), np.ones(search.rows, dtype=bool)
        # For each row and feature: no gap, one to be filled near the requested value, or with anything.
        self.how = np.zeros((search.rows, len(self.features)), dtype=np.int64)
        for ref in (ref for ref in refs if not ref.primed):
            self.stay |= ref.feature.is_missing(search.before[ref.name])
        for i, f in enumerate(self.features):
            gap = f.is_missing(search.before[f.name])
            self.stay |= gap & ~f.may_give_way(search.before[f.name])
            self.tried &= ~gap | (f.is_number and box.intervals[f.name].low <= box.intervals[f.name].high)
            self.how[:, i] = gap * (1 + f.is_missing(search.after[f.name]))
        self.tried &= ~self.stay

    def alike(self, which: Bools) -> Iterator[tuple[list[Feature], NDArray[np.int64]]]:
        """Some rows, with the features to be filled, so that in all of them these are filled in one way."""
        rows = np.flatnonzero(which)
        if not self.how.any():
            yield from [([], rows)] * bool(len(rows))
            return
        ways, place = np.unique(self.how[rows], axis=0, return_inverse=True)
        for i, way in enumerate(ways):
            yield [f for f, gap in zip(self.features, way, strict=True) if gap], rows[place.reshape(-1) == i]


def _filled(box: BoxRows, start: Nearest, feature: Feature) -> tuple[BoxRows, Nearest]:
    """Rows in which a gap must be filled: with the requested value, or with any, as all cost the same."""
    name, limits, wanted = feature.name, box.intervals[feature.name], box.after[feature.name]
    any_will_do = bool(np.isnan(wanted).any())
    code = np.clip(feature.codes(np.nan_to_num(wanted)), limits.low, limits.high)
    value = feature.at(code)
    cost = start.cost - number_distance(start.natural[name], wanted, box.units[name])
    cost = cost + number_distance(value, wanted, box.units[name])
    intervals = {**box.intervals, name: Interval(limits.low, limits.high, np.zeros(len(cost), dtype=bool))}
    units = {**box.units, name: box.units[name] * (ALIKE if any_will_do else 1.0)}
    after = {**box.after, name: value if any_will_do else wanted}
    begin = replace(start, natural={**start.natural, name: value}, cost=cost)
    return BoxRows(box.before, after, units, intervals), begin


def _keeping_all(
    formula: Formula, wide: Sequence[Atom], box: BoxRows, start: Nearest, exact: bool
) -> tuple[Nearest, Floats]:
    """See `_within_sums`, for rows whose nearest point of the box breaks the formula."""
    best, bound = Nearest.none(start.natural, len(start.cost)), start.cost.copy()
    for atom in wide:
        which = np.flatnonzero((bound < best.cost) & ~_truth(atom, box, start))
        if len(which):
            rows = box.take(which)
            point, least = slide(rows, atom, start.take(which), exact)
            bound[which] = np.maximum(bound[which], least)
            best = best.put(which, replace(point, found=point.found & _truth(formula, rows, point)))
    left = np.flatnonzero(~best.found & np.isfinite(bound))
    if len(wide) > 1 and len(left):
        best = best.put(left, _in_turn(formula, wide, box.take(left), start.take(left)))
    return best, bound


def _in_turn(formula: Formula, wide: Sequence[Atom], box: BoxRows, start: Nearest) -> Nearest:
    """Points that keep sums which share values: from the nearest that keeps one of them to the next, in any order.

    Values of a sum that is kept already stay as they are. Where that leaves nothing, they take turns.
    """
    best = Nearest.none(start.natural, len(start.cost))
    for order in permutations(wide) if len(wide) <= FEW_SUMS else ([*wide[i:], *wide[:i]] for i in range(FEW_SUMS)):
        best = best.improve(_one_by_one(formula, order, box, start, stay=True))
    left = np.flatnonzero(~best.found)
    if len(left):
        turns = _one_by_one(formula, tuple(wide) * ROUNDS, box.take(left), start.take(left), stay=False)
        best = best.put(left, turns)
    return best


def _one_by_one(formula: Formula, atoms: Sequence[Atom], box: BoxRows, start: Nearest, *, stay: bool) -> Nearest:
    """From the start to the nearest point that keeps the first atom, and so on; `stay`: without moving it again."""
    natural, found, done = {n: v.copy() for n, v in start.natural.items()}, start.found.copy(), list[Feature]()
    for atom in atoms:
        point = Nearest(natural, np.zeros(len(found)), found)
        broken = np.flatnonzero(found & ~_truth(atom, box, point))
        if len(broken):
            here = point.take(broken)
            moved, _ = slide(box.take(broken).at(here.natural, done), atom, here, exact=False)
            found[broken] = moved.found
            for name, values in natural.items():
                values[broken] = moved.natural[name]
        done += atom.primed if stay else ()
    found &= _truth(formula, box, Nearest(natural, start.cost, found))
    cost = start.cost + sum(
        (np.abs(v - box.after[n]) - np.abs(start.natural[n] - box.after[n])) / box.units[n]
        for n, v in natural.items()
        if n in box.intervals and any(n == f.name for atom in atoms for f in atom.primed)
    )
    return Nearest(natural, np.where(found, cost, np.inf), found)


def _truth(formula: Formula, box: BoxRows, point: Nearest) -> Bools:
    return np.broadcast_to(truth(formula, box.before, {**box.after, **point.natural}), len(point.cost))


def _default_units(schema: Schema) -> dict[str, float]:
    """The range of each number (or its step, where it has no bounds)."""
    return {
        f.name: float((f.high - f.low if f.low is not None and f.high is not None else 0) or f.step or 1)
        for f in schema
        if f.is_number
    }


def _natural_pair(before: pd.DataFrame, after: pd.DataFrame, schema: Schema) -> list[dict[str, NDArray[Any]]]:
    """Both tables as natural columns; all values that cannot be read are reported at once."""
    if len(before) != len(after):
        raise DataError(f"before has {len(before):,} rows and after has {len(after):,}; they must form pairs")
    faults, pair = list[Fault](), []
    for place, table in (("before", before), ("after", after)):
        pair.append({f.name: natural_column(f, table[f.name]) for f in schema if f.name in table.columns})
        for feature in schema:
            where = f"{place}, column {feature.name!r}"
            values = pair[-1].get(feature.name)
            if values is None:
                faults.append(Fault(where, "is not in the table"))
                continue
            bad = (~np.isfinite(values) if feature.is_number else values < 0) & ~feature.may_stay(values)
            if bad.any():
                problem = "is missing, infinite or not a known level"
                faults.append(Fault(where, problem, "", int(bad.sum()), table.index[bad][0]))
    if faults:
        raise DataError("these rows cannot be repaired", faults)
    return pair
