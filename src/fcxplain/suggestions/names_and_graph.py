"""Suggestions from feature names and from the edges of a causal graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from ..schema import Feature
from ..schema.orders import says_nothing
from ..schema.personal import is_inborn, is_personal
from ..text import words_of
from .evidence import ValueColumn, generator
from .suggestion import Candidate, Kind, Writer

if TYPE_CHECKING:
    from ..causal import CausalGraph

TIME = frozenset({"age", "tenure", "seniority", "experience"})
# "years at company", "months employed": time up to now, not an agreed period such as that of a loan.
STRETCHES = re.compile(
    r"\b(years|months|yrs) (at|in|of|with|since|employed|working|worked)\b|\b(working|service) (years|months|yrs)\b"
)
ATTAINED = frozenset({"education", "educational", "educ", "edu", "schooling", "degree", "qualification", "diploma"})
# Next to one of these, "age" or "education" means something else: an average, a limit.
NOT = frozenset({"average", "avg", "mean", "median", "min", "max", "minimum", "maximum", "std", "limit"})

ONE_MOMENT = "a snapshot of rows cannot show it"


def only_grows(feature: Feature) -> bool:
    """Whether the name suggests passing time: age, tenure, years at something."""
    words = words_of(feature.name)
    is_time = bool(TIME & set(words)) or STRETCHES.search(" ".join(words)) is not None
    return _is_ordered(feature) and is_time and not NOT & set(words)


def is_attained(feature: Feature) -> bool:
    """Whether the name suggests something that is not lost once attained."""
    words = set(words_of(feature.name))
    return _is_ordered(feature) and bool(ATTAINED & words) and not NOT & words


def _nothing_said(feature: Feature, writer: Writer) -> str:
    """Levels such as "unknown" that cannot be advice, as a condition on the feature; empty if there are none."""
    levels = [level for level in feature.levels if says_nothing(level)]
    if not levels or len(levels) == len(feature.levels):
        return ""
    written = [writer.level(str(level)) for level in levels]
    if None in written:
        return ""
    return f"!= {written[0]}" if len(written) == 1 else f"not in {{{', '.join(map(str, written))}}}"


def _is_ordered(feature: Feature) -> bool:
    values = len(set(feature.ranks)) if feature.is_category else (feature.top or 0) + 1
    return feature.kind != "categorical" and values > 2


def name_rules(features: Iterable[Feature], writer: Writer) -> Iterator[tuple[Candidate, str]]:
    """Rules that names suggest, each with the reason."""
    free = [f for f in features if f.mutable]
    for f in free:
        new, old = writer.name(f.name), writer.name(f.name, primed=False)
        personal = is_personal(f)
        if personal and not is_inborn(f):
            yield _from_name(f"{new} == {old}", "frozen", f), f"{personal}; {ONE_MOMENT}"
            continue
        beyond = _nothing_said(f, writer)
        if beyond and not is_inborn(f):
            why = "this level means that nothing is known, so it is not advice; rows that have it may keep it"
            yield _from_name(f"{new} == {old} or {new} {beyond}", "never becomes", f), why
        if is_inborn(f):
            why = f"the name {f.name!r} suggests that it cannot be changed; {ONE_MOMENT}"
            yield _from_name(f"{new} == {old}", "frozen", f), why
        elif only_grows(f):
            why = f"the name {f.name!r} suggests time, which only increases; {ONE_MOMENT}"
            yield _from_name(f"{new} >= {old}", "never falls", f), why
        elif is_attained(f):
            why = f"the name {f.name!r} suggests something that is not lost once attained; {ONE_MOMENT}"
            yield _from_name(f"{new} >= {old}", "never falls", f), why
    ages = [f for f in free if "age" in words_of(f.name) and only_grows(f)]
    for f, age in product([f for f in free if is_attained(f)], ages):
        why = f"the names suggest that {f.name!r} takes time to attain and that {age.name!r} is time; {ONE_MOMENT}"
        yield _from_name(f"{writer.rise(f.name)} => {writer.rise(age.name)}", "takes time", f, age), why


def _from_name(text: str, kind: Kind, *features: Feature) -> Candidate:
    names = frozenset(f.name for f in features)
    return Candidate(text, kind, names, support=0, expected=0.0, share=0.0)


# The share of pairs of rows, differing in both features, that must move in the same (or the opposite) direction.
LEAST_AGREEMENT = 0.6
# The number of standard errors by which agreement must differ from chance.
LEAST_SURPRISE = 5.0


def edge_rules(
    graph: CausalGraph, columns: Mapping[str, ValueColumn], writer: Writer, seed: int
) -> Iterator[tuple[Candidate, str]]:
    """Rules that edges between numbers and ordinals suggest, each with the reason."""
    known = {n: c for n, c in columns.items() if c.is_ordered and c.feature.mutable}
    both_ways = [(b, a) for a, b in graph.undirected]
    for cause, effect in (*graph.directed, *graph.undirected, *both_ways):
        if cause in known and effect in known:
            rising, falling = _moves(known[cause], known[effect], seed)
            both, most = rising + falling, max(rising, falling)
            # One direction is much more common than the other, and not by chance.
            is_surprising = abs(rising - falling) > LEAST_SURPRISE * both**0.5
            if is_surprising and most >= LEAST_AGREEMENT * both:
                is_arrow = (cause, effect) in graph.directed
                up = rising > falling
                # If the direction is unknown, claim less: only that the other feature does not move the opposite way.
                sign = (">" if up else "<") + "=" * (not is_arrow)
                moved = f"{writer.name(cause)} {sign} {writer.name(cause, primed=False)}"
                text, names = f"{writer.rise(effect)} => {moved}", frozenset((cause, effect))
                edge = f"{cause} -> {effect}" if is_arrow else f"{cause} -- {effect}, direction unknown"
                seen = f"{'more' if up else 'less'} {cause} in {100 * most / both:.0f} of 100 pairs"
                why = f"the graph has {edge}; of two rows, the one with more {effect} has {seen}"
                yield Candidate(text, "moves with", names, most, 0.0, 0.0), why


def _moves(cause: ValueColumn, effect: ValueColumn, seed: int) -> tuple[int, int]:
    """The number of pairs of rows in which cause and effect move in the same direction, and in opposite ones."""
    names = (cause.feature.name, effect.feature.name)
    drawn = generator("\n".join(names), seed).permutation(np.flatnonzero(cause.known & effect.known))
    first, second = drawn[: len(drawn) // 2 * 2].reshape(2, -1)
    steps = [np.sign(column.values[second] - column.values[first]) for column in (cause, effect)]
    return int((steps[0] * steps[1] > 0).sum()), int((steps[0] * steps[1] < 0).sum())
