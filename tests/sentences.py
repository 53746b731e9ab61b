"""Hypothesis strategies for rules over any schema, as sentences that are read twice (see `second_reading`)."""

from __future__ import annotations

from hypothesis import strategies as st

from fcxplain.schema import Feature, Schema
from second_reading import OPS, Alike, Among, Comparison, Level, Logic, Name, Ranks, Sentence, Sum, grid, units

SIGNS = st.sampled_from(sorted(OPS))
WEIGHTS = st.sampled_from([100, 100, 100, 200, 10, 37, -300, -50])
# Most rules that people write speak of one feature, and compare what it becomes with what it is.
EVERYDAY = st.sampled_from([">=", "<=", ">=", "!=", "=="])


def sentences(schema: Schema) -> st.SearchStrategy[Sentence]:
    """A rule: a plain one often, else some logic around its comparisons."""
    atom = _atoms(schema)
    two = st.tuples(atom, atom)
    inner = st.one_of(
        atom,
        st.builds(Logic, st.sampled_from(["and", "or", "=>"]), two),
        st.builds(Logic, st.just("not"), st.tuples(atom)),
    )
    outer = st.builds(Logic, st.sampled_from(["and", "or", "=>"]), st.tuples(inner, inner))
    return st.one_of(atom, atom, inner, outer)


def _atoms(schema: Schema) -> st.SearchStrategy[Sentence]:
    numbers = [f for f in schema if f.is_number]
    ordinals = [f for f in schema if f.kind == "ordinal"]
    nominal = [f for f in schema if f.kind == "categorical"]
    kinds: list[st.SearchStrategy[Sentence]] = [_among(st.sampled_from(list(schema)))]
    if numbers:
        kinds += [_everyday(st.sampled_from(numbers)), _sums(numbers), _sums(numbers)]
    if ordinals:
        kinds += [_ranks(st.sampled_from(ordinals)), _levels(st.sampled_from(ordinals)), _sums(ordinals, ranks=True)]
    if nominal:
        kinds.append(_alike(st.sampled_from(nominal), st.sampled_from(nominal + ordinals)))
    return st.one_of(kinds)


def _names(features: st.SearchStrategy[Feature]) -> st.SearchStrategy[Name]:
    return st.builds(Name, features, st.sampled_from([True, True, False]))


@st.composite
def _everyday(draw: st.DrawFn, features: st.SearchStrategy[Feature]) -> Sentence:
    """`f' >= f`, and the like."""
    feature = draw(features)
    sides = [Sum(((100, Name(feature, primed)),)) for primed in (True, False)]
    return Comparison(sides[0], draw(EVERYDAY), sides[1])


@st.composite
def _sums(draw: st.DrawFn, features: list[Feature], *, ranks: bool = False) -> Sentence:
    """Up to three names with weights against the rest of them; each stands once, so that nothing cancels out."""
    every = [Name(f, primed) for f in features for primed in (True, False)]
    chosen = draw(st.lists(st.sampled_from(every), min_size=2 if ranks else 1, max_size=3, unique=True))
    terms = [(draw(WEIGHTS), name) for name in chosen]
    cut = draw(st.integers(1, len(terms) - 1)) if ranks else draw(st.integers(1, len(terms)))
    constants = st.sampled_from([0, 100, -50, 25, 300])
    left = Sum(tuple(terms[:cut]), draw(constants), draw(st.booleans()))
    return Comparison(left, draw(SIGNS), Sum(tuple(terms[cut:]), draw(constants)))


@st.composite
def _ranks(draw: st.DrawFn, features: st.SearchStrategy[Feature]) -> Sentence:
    first = draw(features)
    second = draw(st.one_of(st.just(first), features))
    primed = draw(st.booleans())
    return Ranks(Name(first, primed), draw(SIGNS), Name(second, not primed))


@st.composite
def _levels(draw: st.DrawFn, features: st.SearchStrategy[Feature]) -> Sentence:
    name = draw(_names(features))
    return Level(name, draw(SIGNS), draw(st.integers(0, len(name.feature.levels) - 1)))


@st.composite
def _among(draw: st.DrawFn, features: st.SearchStrategy[Feature]) -> Sentence:
    name = draw(_names(features))
    known = [int(v) for v in grid(name.feature)]
    members = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
    if name.feature.is_number:
        members = [m // units(0.01) for m in members]
    return Among(name, tuple(members), draw(st.booleans()))


@st.composite
def _alike(draw: st.DrawFn, first: st.SearchStrategy[Feature], second: st.SearchStrategy[Feature]) -> Sentence:
    one = draw(first)
    primed = draw(st.booleans())
    return Alike(Name(one, primed), Name(draw(st.one_of(st.just(one), second)), not primed), draw(st.booleans()))
