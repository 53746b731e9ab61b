"""`suggest`: rules based on a table, its names and its causal graph, ranked for review."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault, did_you_mean
from ..rules import Rule, holds, in_words, parse
from ..schema import Feature, Natural, Schema
from ..schema.words import is_inborn, is_personal, says_nothing
from ..text import words_of
from .evidence import LEAST_SHARE, Bar, Bools, ValueColumn, columns_of, generator, made_up, pairs_of
from .patterns import level_rules, order_rules, range_rules
from .suggestion import Candidate, Suggestion, Writer

if TYPE_CHECKING:
    from ..causal import CausalGraph

# Synthetic rows that measure how much a rule forbids.
ROWS = 20_000
# The maximum number of candidates examined, in total and per pair of features.
MOST, MOST_OF_PAIR = 600, 40
# A rule with a smaller new fraction than this, next to stronger ones on the same features, is redundant.
NEW = 0.25
# The maximum number of rules between two ordered features: more would be steps along a slope.
STAIRS = 4
# A rule is implied by others if they forbid all but this fraction of what it forbids.
LEFT = 0.01
# Factors on a rule's weight for each level in a list, and for each bound or "not": rules that are easy to read come
# first, and a bound also covers values that never occurred.
LENGTH, BOUND = 0.9, 0.97
_BOUNDS = frozenset({"!=", "<", "<=", ">", ">=", "not"})


@dataclass(frozen=True)
class _Weighed:
    """A suggestion, the synthetic rows that break it, and what it adds to stronger ones on the same features."""

    suggestion: Suggestion
    features: frozenset[str]
    breaks: Bools
    gain: float


def weighed_rows(
    candidates: Iterable[Candidate], columns: Mapping[str, ValueColumn], schema: Schema, seed: int
) -> list[tuple[float, Suggestion]]:
    """Suggestions from rules that no row breaks, with their weights: strongest first, implied ones last."""
    rows = made_up(columns, ROWS, (seed,))
    by_pair: dict[frozenset[str], list[Candidate]] = defaultdict(list)
    read = 0
    for candidate in sorted(candidates, key=lambda c: (-_plain(c) * c.share, c.text)):
        if read < MOST and len(by_pair[candidate.features]) < MOST_OF_PAIR:
            by_pair[candidate.features].append(candidate)
            read += 1
    found = []
    for names, some in by_pair.items():
        most = STAIRS if all(columns[name].is_ordered for name in names) else MOST_OF_PAIR
        found += list(islice(_adding(some, rows, schema), most))
    # Synthetic rows determine a gain to about two digits.
    return _implied_last(sorted(found, key=lambda w: (-float(f"{w.gain:.2g}"), w.suggestion.rule.text)))


def _plain(candidate: Candidate) -> float:
    """How sharp and how readable a rule is, from 0 to 1."""
    bounds = sum(word in _BOUNDS for word in candidate.text.split())
    return candidate.sharp * LENGTH ** candidate.text.count(",") * BOUND**bounds


def _adding(candidates: list[Candidate], rows: Natural, schema: Schema) -> Iterator[_Weighed]:
    """The candidates on the same features that forbid something new, largest gain first."""
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
    """In order, with rules that stronger ones imply through a third feature at the end."""
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
    """Whether rules that link both features to a third one forbid the same."""
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
    said = f"none of the {candidate.support:,} rows that it applies to breaks it"
    chance = f"if the features were independent, about {candidate.expected:,.0f} would"
    return Suggestion(rule, words, candidate.kind, candidate.support, 0, share, f"{said}; {chance}")


def weighed_changes(
    candidates: Iterable[tuple[Candidate, str]], columns: Mapping[str, ValueColumn], schema: Schema, seed: int
) -> list[Suggestion]:
    """Suggestions from rules about change, strongest first."""
    found = []
    for candidate, why in candidates:
        rule = parse(candidate.text, schema)
        mine = {name: columns[name] for name in sorted(candidate.features)}
        made = (made_up(mine, ROWS, (seed, side)) for side in (0, 1))
        broken, strength = 0, float((~holds(rule, *made)).mean())
        if candidate.support:
            breaks = ~holds(rule, *pairs_of(mine, seed))
            broken, strength = int(breaks.sum()), strength - float(breaks.mean())
        words = in_words(rule, schema)
        found.append(Suggestion(rule, words, candidate.kind, candidate.support, broken, strength, why))
    return sorted(found, key=lambda s: (-s.strength, s.rule.text))


# Names of features, and edges of a graph

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
    written = [writer.level(str(level)) for level in feature.levels if says_nothing(level)]
    if not written or len(written) == len(feature.levels) or None in written:
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
        fixed = f"the name {f.name!r} suggests that it cannot be changed" if is_inborn(f) else is_personal(f)
        if fixed:
            yield Candidate(f"{new} == {old}", "frozen", frozenset({f.name})), f"{fixed}; {ONE_MOMENT}"
            continue
        beyond = _nothing_said(f, writer)
        if beyond:
            why = "this level means that nothing is known, so it is not advice; rows that have it may keep it"
            yield Candidate(f"{new} == {old} or {new} {beyond}", "never becomes", frozenset({f.name})), why
        is_time, lasts = only_grows(f), is_attained(f)
        if is_time or lasts:
            what = "time, which only increases" if is_time else "something that is not lost once attained"
            why = f"the name {f.name!r} suggests {what}; {ONE_MOMENT}"
            yield Candidate(f"{new} >= {old}", "never falls", frozenset({f.name})), why
    ages = [f for f in free if "age" in words_of(f.name) and only_grows(f)]
    for f, age in product([f for f in free if is_attained(f)], ages):
        why = f"the names suggest that {f.name!r} takes time to attain and that {age.name!r} is time; {ONE_MOMENT}"
        yield (
            Candidate(f"{writer.rise(f.name)} => {writer.rise(age.name)}", "takes time", frozenset({f.name, age.name})),
            why,
        )


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
                yield Candidate(text, "moves with", names, most), why


def _moves(cause: ValueColumn, effect: ValueColumn, seed: int) -> tuple[int, int]:
    """The number of pairs of rows in which cause and effect move in the same direction, and in opposite ones."""
    names = (cause.feature.name, effect.feature.name)
    drawn = generator("\n".join(names), seed).permutation(np.flatnonzero(cause.known & effect.known))
    first, second = drawn[: len(drawn) // 2 * 2].reshape(2, -1)
    steps = [np.sign(column.values[second] - column.values[first]) for column in (cause, effect)]
    return int((steps[0] * steps[1] > 0).sum()), int((steps[0] * steps[1] < 0).sum())


LEAST_SUPPORT = 30


def suggest(
    table: pd.DataFrame,
    schema: Schema | None = None,
    graph: CausalGraph | None = None,
    *,
    label: str | None = None,
    least_support: int = LEAST_SUPPORT,
    by_name: bool = False,
    seed: int = 0,
) -> tuple[Suggestion, ...]:
    """Suggest rules to review: from names, from the causal graph, and from patterns that no row of the table breaks.

    Nothing is applied: pass the rules that you accept to a task as `rules`.

    Parameters
    ----------
    table : DataFrame
        The rows; missing values are ignored.
    schema : Schema, optional
        The features; inferred by default.
    graph : CausalGraph, optional
        A causal graph over the features.
    label : str, optional
        A column that is not a feature.
    least_support : int, default=30
        The minimum number of rows that a rule applies to, and of rows that it would forbid.
    by_name : bool, default=False
        Use only names and levels of single features (immutable, never decreases, not a level to reach), which is
        instant: pairs of features are not examined.
    seed : int, default=0
        The seed of the synthetic rows.

    Returns
    -------
    tuple of Suggestion
        The strongest first.

    Raises
    ------
    DataError
        If the graph has nodes that are not features, or `least_support` is below 1.

    Examples
    --------
    >>> from fcxplain import load_dataset, suggest
    >>> data = load_dataset("loans")
    >>> for suggestion in suggest(data.train[data.features], data.schema, by_name=True):
    ...     print(suggestion)
    age' >= age  # age must not decrease
    """
    if schema is None:
        known = Schema.infer(table, label=label)
    else:
        known = Schema(tuple(f for f in schema if f.name != label)).complete(table)
    _check(known, graph, least_support)
    columns, writer = columns_of(table, known), Writer(known)
    named = weighed_changes(name_rules([c.feature for c in columns.values()], writer), columns, known, seed)
    if by_name:
        return tuple(named)
    moving = [] if graph is None else weighed_changes(edge_rules(graph, columns, writer, seed), columns, known, seed)
    seen = weighed_rows(_row_rules(columns, least_support, writer), columns, known, seed)
    known_texts = {s.rule.text for s in named}
    rest = [*seen, *((s.strength, s) for s in moving if s.rule.text not in known_texts)]
    return (*named, *(s for _, s in sorted(rest, key=lambda pair: -pair[0])))


def _check(schema: Schema, graph: CausalGraph | None, least_support: int) -> None:
    faults = [Fault("least_support", f"is {least_support}", "Give 1 or more.")] if least_support < 1 else []
    unknown = [] if graph is None else [name for name in graph.nodes if name not in schema]
    faults += [Fault(f"node {n!r}", "of the graph is not a feature", did_you_mean(n, schema.names)) for n in unknown]
    if faults:
        raise DataError("suggest", faults)


def _row_rules(columns: Mapping[str, ValueColumn], least_support: int, writer: Writer) -> Iterator[Candidate]:
    """Rules between two features that no row breaks and that chance does not explain."""
    usable = list(columns.values())
    fixed = {c.feature.name for c in usable if not c.feature.mutable or is_inborn(c.feature) or is_personal(c.feature)}
    pairs = [(a, b) for a, b in permutations(usable, 2) if not {a.feature.name, b.feature.name} <= fixed]
    # The number of rules tested, for the correction for multiple tests.
    looked_at = (
        len(a.conditions) * (1 if a.is_ordered else 2) * (2 if b.is_ordered else len(b.parts)) + 1 for a, b in pairs
    )
    bar = Bar(least_support, sum(looked_at))
    for first, second in pairs:
        if second.is_ordered:
            yield from range_rules(first, second, bar, writer)
        else:
            yield from level_rules(first, second, bar, writer)
        if first.feature.is_number and second.feature.is_number:
            yield from order_rules(first, second, bar, writer)
