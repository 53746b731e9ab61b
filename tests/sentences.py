"""Random rules over any schema, as sentences that are read twice (see `second_reading`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fcxplain.schema import Feature, Schema
from second_reading import OPS, Alike, Among, Comparison, Level, Logic, Name, Ranks, Sentence, Sum, grid, units

WEIGHTS = (100, 100, 100, 200, 10, 37, -300, -50)
CONSTANTS = (0, 100, -50, 25, 300)
# Most rules that people write speak of one feature, and compare what it becomes with what it is.
EVERYDAY = (">=", "<=", ">=", "!=", "==")


def some_rules(schema: Schema, rng: np.random.Generator, most: int = 3) -> tuple[Sentence, ...]:
    """None to `most` rules."""
    return tuple(_sentence(schema, rng) for _ in range(rng.integers(most + 1)))


def one_of(rng: np.random.Generator, items: Sequence[Any]) -> Any:
    """One of some things, as it is: numpy's own choice would make arrays of them."""
    return items[int(rng.integers(len(items)))]


def _sentence(schema: Schema, rng: np.random.Generator) -> Sentence:
    """A rule: a plain one often, else some logic around its comparisons."""
    if rng.random() < 0.5:
        return _atom(schema, rng)
    if rng.random() < 0.5:
        return _inner(schema, rng)
    return Logic(one_of(rng, ["and", "or", "=>"]), (_inner(schema, rng), _inner(schema, rng)))


def _inner(schema: Schema, rng: np.random.Generator) -> Sentence:
    word = one_of(rng, ["", "and", "or", "=>", "not"])
    if not word:
        return _atom(schema, rng)
    return Logic(word, tuple(_atom(schema, rng) for _ in range(1 if word == "not" else 2)))


def _atom(schema: Schema, rng: np.random.Generator) -> Sentence:
    numbers = [f for f in schema if f.is_number]
    ordinals = [f for f in schema if f.kind == "ordinal"]
    nominal = [f for f in schema if f.kind == "categorical"]
    kinds: list[Callable[[], Sentence]] = [lambda: _among(list(schema), rng)]
    if numbers:
        kinds += [lambda: _everyday(numbers, rng), *[lambda: _sums(numbers, rng)] * 2]
    if ordinals:
        kinds += [
            lambda: _ranks(ordinals, rng),
            lambda: _level(ordinals, rng),
            lambda: _sums(ordinals, rng, ranks=True),
        ]
    if nominal:
        kinds.append(lambda: _alike(nominal, nominal + ordinals, rng))
    made: Sentence = one_of(rng, kinds)()
    return made


def _name(features: list[Feature], rng: np.random.Generator) -> Name:
    return Name(one_of(rng, features), bool(rng.random() < 2 / 3))


def _everyday(features: list[Feature], rng: np.random.Generator) -> Sentence:
    """`f' >= f`, and the like."""
    feature = one_of(rng, features)
    sides = [Sum(((100, Name(feature, primed)),)) for primed in (True, False)]
    return Comparison(sides[0], one_of(rng, EVERYDAY), sides[1])


def _sums(features: list[Feature], rng: np.random.Generator, *, ranks: bool = False) -> Sentence:
    """Up to three names with weights against the rest of them; each stands once, so that nothing cancels out."""
    every = [Name(f, primed) for f in features for primed in (True, False)]
    size = rng.integers(2 if ranks else 1, min(3, len(every)) + 1)
    terms = [(one_of(rng, WEIGHTS), every[i]) for i in rng.permutation(len(every))[:size]]
    cut = int(rng.integers(1, len(terms) + (0 if ranks else 1)))
    left = Sum(tuple(terms[:cut]), one_of(rng, CONSTANTS), bool(rng.random() < 0.5))
    return Comparison(left, one_of(rng, sorted(OPS)), Sum(tuple(terms[cut:]), one_of(rng, CONSTANTS)))


def _ranks(features: list[Feature], rng: np.random.Generator) -> Sentence:
    first = one_of(rng, features)
    second = first if rng.random() < 0.5 else one_of(rng, features)
    primed = bool(rng.random() < 0.5)
    return Ranks(Name(first, primed), one_of(rng, sorted(OPS)), Name(second, not primed))


def _level(features: list[Feature], rng: np.random.Generator) -> Sentence:
    name = _name(features, rng)
    return Level(name, one_of(rng, sorted(OPS)), int(rng.integers(len(name.feature.levels))))


def _among(features: list[Feature], rng: np.random.Generator) -> Sentence:
    name = _name(features, rng)
    known = rng.permutation(grid(name.feature))[: rng.integers(1, 4)]
    members = [int(v) // (units(0.01) if name.feature.is_number else 1) for v in known]
    return Among(name, tuple(members), bool(rng.random() < 0.5))


def _alike(first: list[Feature], second: list[Feature], rng: np.random.Generator) -> Sentence:
    one = one_of(rng, first)
    other = one if rng.random() < 0.5 else one_of(rng, second)
    primed = bool(rng.random() < 0.5)
    return Alike(Name(one, primed), Name(other, not primed), bool(rng.random() < 0.5))
