"""Candidates become suggestions: read, held against made-up rows, freed of repetition, and put in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ..rules import Rule, holds, in_words, parse
from ..schema import Natural, Schema
from .chance import LEAST_SHARE
from .columns import Bools, Column, made_up, pairs_of
from .suggestion import Candidate, Suggestion

# Rows made up to see how much a rule forbids.
ROWS = 20_000
# The strongest candidates that are read, in all and on the same features.
MOST, MOST_OF_PAIR = 600, 40
# A rule of which less than this part is new beside stronger ones on the same features says the same again.
NEW = 0.25
# The most rules between two features that both have an order: more are stairs along a slope.
STAIRS = 4
# A rule follows from others if they forbid all that it does, but for so small a part.
LEFT = 0.01
# What each level in a list, and each bound or "not", leaves of a rule's weight: what reads easily goes first. A bound
# also speaks of values that were never seen, where a value that is named was.
LENGTH, BOUND = 0.9, 0.97
_BOUNDS = frozenset({"!=", "<", "<=", ">", ">=", "not"})


@dataclass(frozen=True)
class _Weighed:
    """A suggestion, the made-up rows that break it, and what it adds to stronger ones on the same features."""

    suggestion: Suggestion
    features: frozenset[str]
    breaks: Bools
    gain: float


def weighed_rows(
    candidates: Iterable[Candidate], columns: Mapping[str, Column], schema: Schema, seed: int
) -> list[tuple[float, Suggestion]]:
    """Suggestions from rules that no row breaks, with their weights, strongest first and implied ones last."""
    rows = made_up(columns, ROWS, (seed,))
    by_pair: dict[frozenset[str], list[Candidate]] = defaultdict(list)
    strongest = sorted(candidates, key=lambda c: (-_plain(c) * c.share, c.text))
    read = 0
    for candidate in strongest:
        if read < MOST and len(by_pair[candidate.features]) < MOST_OF_PAIR:
            by_pair[candidate.features].append(candidate)
            read += 1
    found = []
    for names, some in by_pair.items():
        most = STAIRS if all(columns[name].is_ordered for name in names) else MOST_OF_PAIR
        found += list(islice(_adding(some, rows, schema), most))
    return _implied_last(sorted(found, key=lambda w: (-_rough(w.gain), w.suggestion.rule.text)))


def _rough(gain: float) -> float:
    """Two digits: what made-up rows tell apart."""
    return float(f"{gain:.2g}")


def _plain(candidate: Candidate) -> float:
    """How sharp a rule is and how easily it reads, from 0 to 1."""
    bounds = sum(word in _BOUNDS for word in candidate.text.split())
    return candidate.sharp * LENGTH ** candidate.text.count(",") * BOUND**bounds


def _adding(candidates: list[Candidate], rows: Natural, schema: Schema) -> Iterator[_Weighed]:
    """Of candidates on the same features those that forbid something new, the one that adds most first."""
    rules = [parse(c.text, schema) for c in candidates]
    left = [~holds(rule, rows, rows) for rule in rules]
    breaks = list(left)
    factors = np.asarray([_plain(c) for c in candidates])
    open_ones = list(range(len(candidates)))
    while open_ones:
        gains = {i: float(left[i].mean()) * factors[i] for i in open_ones}
        best = max(open_ones, key=lambda i: gains[i])
        if left[best].mean() >= max(LEAST_SHARE / 2, NEW * breaks[best].mean()):
            made = _suggestion(candidates[best], rules[best], schema, breaks[best])
            yield _Weighed(made, candidates[best].features, breaks[best], gains[best])
            for i in open_ones:
                left[i] = left[i] & ~breaks[best]
        open_ones.remove(best)


def _implied_last(found: list[_Weighed]) -> list[tuple[float, Suggestion]]:
    """In order, but for rules that follow from stronger ones through a third feature: they go to the end."""
    forbidden: dict[frozenset[str], Bools] = {}
    first, last = [], []
    for weighed in found:
        if _follows(weighed, forbidden):
            last.append((0.0, weighed.suggestion))
            continue
        first.append((weighed.gain, weighed.suggestion))
        forbidden[weighed.features] = forbidden.get(weighed.features, False) | weighed.breaks
    return first + last


def _follows(weighed: _Weighed, forbidden: Mapping[frozenset[str], Bools]) -> bool:
    """Whether rules that join both features to a third one forbid the same."""
    a, b = weighed.features
    thirds = {name for pair in forbidden for name in pair} - weighed.features
    for third in thirds:
        pairs = forbidden.get(frozenset((a, third))), forbidden.get(frozenset((b, third)))
        if pairs[0] is not None and pairs[1] is not None:
            rest = weighed.breaks & ~(pairs[0] | pairs[1])
            if rest.mean() <= LEFT * weighed.breaks.mean():
                return True
    return False


def _suggestion(candidate: Candidate, rule: Rule, schema: Schema, breaks: NDArray[np.bool_]) -> Suggestion:
    words, share = in_words(rule, schema), float(breaks.mean())
    said = f"none of the {candidate.support:,} rows that it speaks of breaks it"
    chance = f"if the features had nothing to do with each other, about {candidate.expected:,.0f} would"
    return Suggestion(rule, words, candidate.kind, candidate.support, 0, share, f"{said}; {chance}")


def weighed_changes(
    candidates: Iterable[tuple[Candidate, str]], columns: Mapping[str, Column], schema: Schema, seed: int
) -> list[Suggestion]:
    """Suggestions from rules about change, strongest first; each comes with its reason."""
    found = []
    for candidate, why in candidates:
        rule = parse(candidate.text, schema)
        mine = {name: columns[name] for name in sorted(candidate.features)}
        broken, strength = _broken_pairs(rule, mine, seed)
        is_seen = candidate.support > 0
        found.append(
            Suggestion(
                rule,
                in_words(rule, schema),
                candidate.kind,
                candidate.support,
                int(broken.sum()) if is_seen else 0,
                strength - (float(broken.mean()) if is_seen else 0.0),
                why,
            )
        )
    return sorted(found, key=lambda s: (-s.strength, s.rule.text))


def _broken_pairs(rule: Rule, columns: Mapping[str, Column], seed: int) -> tuple[Bools, float]:
    """Which pairs of rows break a rule, and the share of made-up pairs that do."""
    before, after = (made_up(columns, ROWS, (seed, side)) for side in (0, 1))
    return ~holds(rule, *pairs_of(columns, seed)), float((~holds(rule, before, after)).mean())
