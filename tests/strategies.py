"""Random schemas and random legal tables for property tests.

All four kinds: negative bounds, decimal and coarse steps, ties in ranks, levels of every type, a single level,
constant numbers; any feature may be immutable.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from fcxplain.schema import Feature, Schema

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\n\r`"), min_size=1, max_size=12).filter(
    lambda name: bool(name.strip())
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)


def _distinct_as_text(levels: list[Any]) -> bool:
    return len({str(level) for level in levels}) == len(levels)


def levels(max_size: int = 6) -> st.SearchStrategy[tuple[Any, ...]]:
    """Levels of one type: text of any letters, whole numbers, or booleans."""
    texts = st.lists(TEXTS, min_size=1, max_size=max_size, unique=True)
    wholes = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=max_size, unique=True)
    bools = st.permutations([False, True])
    return st.one_of(texts, wholes, bools).filter(_distinct_as_text).map(tuple)


@st.composite
def numbers(draw: st.DrawFn, name: str = "number", *, most: int = 10**6) -> Feature:
    """An integer or continuous feature whose grid has up to `most` values beside the first."""
    kind = draw(st.sampled_from(["integer", "continuous"]))
    decimals = draw(st.integers(0, 6)) if kind == "continuous" else 0
    multiple = draw(st.sampled_from([1, 1, 2, 5, 7, 25]))
    low = draw(st.integers(-most, most))
    high = low + draw(st.one_of(st.just(0), st.integers(0, most)))
    one = 10**decimals
    step = multiple / one if decimals else multiple
    mutable = draw(st.booleans())
    return Feature(name, kind, low=low / one, high=high / one, step=step, mutable=mutable)


@st.composite
def categories(draw: st.DrawFn, name: str = "category") -> Feature:
    """A categorical or ordinal feature, with ties among the ranks."""
    kind = draw(st.sampled_from(["categorical", "ordinal"]))
    chosen, mutable = draw(levels()), draw(st.booleans())
    size = len(chosen)
    ranks = draw(st.one_of(st.just([]), st.lists(st.integers(-3, 3), min_size=size, max_size=size)))
    return Feature(name, kind, levels=chosen, ranks=tuple(ranks) if kind == "ordinal" else (), mutable=mutable)


@st.composite
def schemas(draw: st.DrawFn, *, max_features: int = 5, most: int = 10**6, names: Any = None) -> Schema:
    """A complete schema; `names` draws the features' names (plain ones by default)."""
    count = draw(st.integers(1, max_features))
    plain = [f"f{i}" for i in range(count)]
    chosen = plain if names is None else draw(st.lists(names, min_size=count, max_size=count, unique=True))
    return Schema(tuple(draw(st.one_of(numbers(n, most=most), categories(n))) for n in chosen))


@st.composite
def codes(draw: st.DrawFn, schema: Schema, *, min_rows: int = 1, max_rows: int = 8) -> np.ndarray:
    """Grid codes of legal rows, `n x features`; the ends of each grid come often."""
    rows = draw(st.integers(min_rows, max_rows))
    columns = []
    for feature in schema:
        top = feature.top or 0
        cell = st.one_of(st.sampled_from([0, top]), st.integers(0, top))
        columns.append(draw(st.lists(cell, min_size=rows, max_size=rows)))
    return np.array(columns, dtype=np.int64).T.reshape(rows, len(schema))


@st.composite
def tables(draw: st.DrawFn, schema: Schema, *, min_rows: int = 1, max_rows: int = 8) -> pd.DataFrame:
    """Legal rows of a schema, in dtypes that users bring."""
    drawn = draw(codes(schema, min_rows=min_rows, max_rows=max_rows))
    natural = {f.name: f.at(drawn[:, i]) for i, f in enumerate(schema)}
    return schema.table(natural, dtypes={f.name: draw(dtypes(f)) for f in schema})


def dtypes(feature: Feature) -> st.SearchStrategy[Any]:
    """Dtypes in which a column of this feature may arrive."""
    if feature.kind == "integer":
        return st.sampled_from(["int64", "int32", "int8", "float64", "Int64", "int64[pyarrow]", "object"])
    if feature.kind == "continuous":
        return st.sampled_from(["float64", "float32", "Float64", "double[pyarrow]", "int64", "object"])
    category = pd.CategoricalDtype(list(feature.levels), ordered=feature.kind == "ordinal")
    if isinstance(feature.levels[0], bool):
        return st.sampled_from(["bool", "boolean", "bool[pyarrow]", "object", category])
    if isinstance(feature.levels[0], int):
        return st.sampled_from(["int64", "Int64", "int64[pyarrow]", "object", category])
    return st.sampled_from([None, "str", "string", "string[pyarrow]", "object", category])
