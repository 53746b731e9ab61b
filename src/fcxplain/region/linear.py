"""Nearest points of one sum in a box, vectorised over rows: `rent' + food' <= 900`, `abs(a' - a) + abs(b' - b) <= 10`.

From the nearest point of the box, the features that gain most for what they cost are moved first, as in a knapsack
that may be filled by fractions. Where no fraction is left over, no other point can be cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..rules.check import Bools, evaluate
from ..rules.nodes import Abs, Affine, Atom, Compare, Ref
from ..schema import Feature, Natural
from .boxes import Box, BoxSearch, Floats, Nearest

# A part of a step that is smaller than this is rounding.
SLIGHT = 1e-9


@dataclass(frozen=True)
class SumPart:
    """A counterfactual number in a sum that must not be above 0: `slope * value` or `slope * abs(value - anchor)`."""

    feature: Feature
    slope: float
    anchor: Affine | None


def slide(search: BoxSearch, box: Box, atom: Atom, start: Nearest) -> tuple[Nearest, Bools]:
    """Near points of a box that keep one wide atom, and where it is sure that nothing is nearer.

    `start` is the nearest point of the box without that atom.
    """
    natural, parts = dict(start.natural), _parts(atom)
    if parts is None or not isinstance(atom, Compare):
        nowhere = np.zeros(search.rows, dtype=bool)
        return Nearest(natural, np.full(search.rows, np.inf), nowhere), nowhere
    upper = atom.op == "<="
    value = np.broadcast_to(evaluate(atom.left, search.before, {**search.after, **natural})[0], search.rows)
    need, cost, sure = np.maximum(value if upper else -value, 0.0), start.cost.copy(), start.found.copy()
    for part in sorted(parts, key=lambda p: -abs(p.slope) * search.units[p.feature.name]):
        feature, name = part.feature, part.feature.name
        limits, now, step = box.intervals[name], start.natural[name], float(feature.step or 1)
        code = feature.codes(now)
        way, exact = _way(part, search, now)
        room = np.minimum(np.where(way > 0, limits.high - code, code - limits.low), np.floor(exact / step + SLIGHT))
        gain = abs(part.slope) * step
        asked = need / gain
        steps = np.minimum(np.ceil(asked - SLIGHT), np.maximum(room, 0)).astype(np.int64)
        last = asked <= room + SLIGHT
        # A fraction of a step left over, before the anchor or at the end, and other points might be nearer.
        whole = np.where(last, np.abs(asked - steps) <= SLIGHT * np.maximum(asked, 1.0), True)
        whole &= last | (room < np.floor(exact / step + SLIGHT)) | (np.abs(exact / step - room) <= SLIGHT)
        on_grid = feature.on_grid(now) & feature.on_grid(search.before[name])
        sure &= on_grid & (whole & ((search.after[name] - now) * way <= 0) | (need == 0))
        natural[name] = np.where(steps > 0, feature.at(code + (way * steps).astype(np.int64)), now)
        cost = cost + np.abs(natural[name] - search.after[name]) / search.units[name]
        cost = cost - np.abs(now - search.after[name]) / search.units[name]
        need = np.where(last, 0.0, need - steps * gain)
    found = start.found & (need == 0)
    return Nearest(natural, np.where(found, cost, np.inf), found), sure & found


def at_most(atom: Compare) -> list[Affine]:
    """The comparison as expressions that must not be above 0; a strict one is taken as not strict."""
    if atom.op in ("<", "<="):
        return [atom.left]
    return [atom.left * -1.0] if atom.op in (">", ">=") else [atom.left, atom.left * -1.0]


def parted(affine: Affine, before: Natural) -> tuple[list[tuple[float, Ref]], Floats, Floats]:
    """A sum without `abs` of counterfactual values: its counterfactual terms, and value and size of all the rest."""
    terms = [(weight, ref) for weight, ref in affine.terms if isinstance(ref, Ref) and ref.primed]
    present = Affine(tuple(t for t in affine.terms if t not in terms), affine.constant)
    return terms, *evaluate(present, before, before)


def _way(part: SumPart, search: BoxSearch, now: Floats) -> tuple[Floats, Floats]:
    """In which direction a value makes the sum smaller, and how far it may go there."""
    if part.anchor is None:
        return np.full(search.rows, -np.sign(part.slope)), np.full(search.rows, np.inf)
    far = evaluate(part.anchor, search.before, search.after)[0] - now
    return np.sign(far), np.abs(far)


def _parts(atom: Atom) -> list[SumPart] | None:
    """The counterfactual numbers of a sum, if each stands in it once, and alone or alone in an `abs`."""
    if not isinstance(atom, Compare) or atom.op not in ("<=", ">="):
        return None
    sign = 1.0 if atom.op == "<=" else -1.0
    parts = [_part(sign * weight, own) for weight, own in atom.left.terms if own.primed]
    found = [part for part in parts if part is not None]
    distinct = {part.feature.name for part in found}
    return found if len(parts) == len(found) == len(distinct) else None


def _part(weight: float, atom: Ref | Abs) -> SumPart | None:
    if isinstance(atom, Ref):
        return SumPart(atom.feature, weight, None) if atom.feature.is_number else None
    factor, own = next((w, own) for w, own in atom.inside.terms if own.primed)
    alone = sum(own.primed for _, own in atom.inside.terms) == 1
    if weight < 0 or not alone or not isinstance(own, Ref) or not own.feature.is_number:
        return None
    rest = Affine(tuple(t for t in atom.inside.terms if t[1] != own), atom.inside.constant)
    return SumPart(own.feature, weight * abs(factor), rest * (-1.0 / factor))
