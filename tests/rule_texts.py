"""Hypothesis strategies for small schemas, their legal rows, and rule texts over them."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from fcxplain.schema import Feature, Schema

OPS = st.sampled_from(["<", "<=", "==", "!=", ">=", ">"])


@st.composite
def small_schemas(draw: st.DrawFn) -> Schema:
    """Two numbers, two nominal and two ordinal features, with few legal values each."""
    mutable = [draw(st.sampled_from([True, True, True, False])) for _ in range(6)]
    low = draw(st.integers(-2, 1))
    step = draw(st.sampled_from([0.25, 0.5]))
    ranks = draw(st.sampled_from([(0, 1, 1, 2), (0, 1, 2, 3), (1, 0, 0, 5)]))
    return Schema(
        (
            Feature("a", "integer", low=low, high=low + draw(st.integers(0, 4)), mutable=mutable[0]),
            Feature("b b", "continuous", low=0, high=draw(st.sampled_from([0.5, 1.0])), step=step, mutable=mutable[1]),
            Feature("c", "categorical", levels=tuple("xyz"[: draw(st.integers(1, 3))]), mutable=mutable[2]),
            Feature("d", "categorical", levels=("y", "x", "w w"), mutable=mutable[3]),
            Feature("o", "ordinal", levels=("lo", "mid", "also-mid", "hi"), ranks=ranks, mutable=mutable[4]),
            Feature("p", "ordinal", levels=("lo", "hi"), mutable=mutable[5]),
        )
    )


def every_row(schema: Schema) -> pd.DataFrame:
    """All legal rows of a small schema."""
    grids = [f.at(np.arange((f.top or 0) + 1)) for f in schema]
    rows = np.asarray(list(itertools.product(*grids)))
    return schema.table(
        {f.name: rows[:, i] if f.is_number else rows[:, i].astype(np.int64) for i, f in enumerate(schema)}
    )


@st.composite
def off_grid_rows(draw: st.DrawFn, schema: Schema) -> dict[str, np.ndarray]:
    """One row, as natural columns, whose numbers lie anywhere between their bounds."""
    row = {}
    for f in schema:
        value = draw(st.integers(0, f.top or 0))
        if f.is_number and draw(st.booleans()):
            value = draw(st.integers(int(f.low * 20), int(f.high * 20))) / 20
        elif f.is_number:
            value = f.at(np.asarray(value))
        row[f.name] = np.asarray([value], dtype=np.float64 if f.is_number else np.int64)
    return row


def all_legal(schema: Schema, present: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All that a row may become, as natural columns: what changes lands on the grid."""
    choices = [np.union1d(f.at(np.arange((f.top or 0) + 1)), present[f.name]) for f in schema]
    choices = [c if f.mutable else present[f.name] for f, c in zip(schema, choices, strict=True)]
    return {f.name: c.ravel() for f, c in zip(schema, np.meshgrid(*choices, indexing="ij"), strict=True)}


def _numbers() -> st.SearchStrategy[str]:
    name = st.sampled_from(["a", "a'", "`b b`", "`b b`'"])
    constant = st.sampled_from(["0", "1", "2.5", "0.1"])
    return st.one_of(
        name,
        name,
        st.builds(lambda w, n: f"{w} * {n}", st.sampled_from(["2", "0.1", "-3"]), name),
        st.builds(lambda n, m: f"{n} - {m}", name, st.one_of(name, constant)),
        st.builds(lambda n, m: f"{n} + {m}", name, st.one_of(name, constant)),
        st.builds(lambda n, m: f"abs({n} - {m})", name, st.one_of(name, constant)),
        # Too many of them to be taken apart by sign.
        st.builds(
            lambda n, m, w: f"abs({n} - {m}) + {w} * abs(a' - a) + abs(abs(`b b`' - 0.5) - 0.25) + abs({m} - a')",
            name,
            name,
            st.sampled_from(["1", "2", "-1"]),
        ),
    )


@st.composite
def atoms(draw: st.DrawFn, schema: Schema) -> str:
    """One comparison or membership."""
    op = draw(OPS)
    kind = draw(st.integers(0, 6))
    if kind <= 1:
        left = draw(_numbers())
        right = draw(st.one_of(_numbers(), st.sampled_from(["0", "1", "-0.5"])))
        # A weight that no other term has, so that the features never cancel out.
        return f"{left} + 0.37 * {draw(st.sampled_from(['a', chr(97) + chr(39)]))} {op} {right}"
    if kind == 2:
        return f"a' {op} a"
    if kind == 3:
        sides = draw(st.lists(st.sampled_from(["c", "c'", "d", "d'"]), min_size=2, max_size=2))
        return f"{sides[0]} {draw(st.sampled_from(['==', '!=']))} {sides[1]}"
    if kind == 4:
        name = draw(st.sampled_from(["c", "d"]))
        chosen = draw(st.lists(st.sampled_from(schema[name].levels), min_size=1, max_size=3))
        return f"{name}' {draw(st.sampled_from(['in', 'not in']))} {{{', '.join(map(str, chosen))}}}"
    if kind == 5:
        return f"o' {op} {draw(st.sampled_from(['o', 'p', 'o + 1', 'also-mid', 'hi']))}"
    return f"a' {draw(st.sampled_from(['in', 'not in']))} {{{draw(st.integers(-1, 2))}, 1}}"


@st.composite
def rule_texts(draw: st.DrawFn, schema: Schema, depth: int = 0) -> str:
    """A rule with some logic around its comparisons."""
    kind = draw(st.integers(0, 7)) if depth < 3 else 0
    if kind <= 3:
        return draw(atoms(schema))
    first = draw(rule_texts(schema, depth + 1))
    if kind == 7:
        return f"not ({first})"
    word = {4: "and", 5: "or", 6: "=>"}[kind]
    return f"({first}) {word} ({draw(rule_texts(schema, depth + 1))})"
