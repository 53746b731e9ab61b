"""Speed of encoding, decoding and repairing tables, compared with plain numpy and pandas that do the same work."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...encoding import TableEncoder
from ...errors import FcxError
from ...region.repair import Repairer, repair
from ...rules import parse_rules
from ...schema import Schema
from .timing import Timing, cpu_seconds, fastest, in_turns


def encoding(table: pd.DataFrame, schema: Schema, *, repeat: int = 5) -> list[Timing]:
    """Encode and decode a table, compared with plain numpy and pandas; both must give the same result."""
    encoder = TableEncoder().fit(schema, table)
    table = table[list(schema.names)]
    x = encoder.encode(table)
    flat = x.numpy()
    if not np.array_equal(flat, plain_encode(table, encoder)):
        raise FcxError("the plain encoding differs from ours: the comparison would be meaningless")
    pd.testing.assert_frame_equal(encoder.decode(x, table.index), plain_decode(flat, table, encoder))
    ways = {
        "encode": (lambda: encoder.encode(table), lambda: plain_encode(table, encoder)),
        "decode": (lambda: encoder.decode(x, table.index), lambda: plain_decode(flat, table, encoder)),
    }
    both = {
        job: in_turns({"ours": partial(cpu_seconds, ours), "plain": partial(cpu_seconds, plain)}, repeat)
        for job, (ours, plain) in ways.items()
    }
    return [Timing(job, len(table), best["ours"], best["plain"]) for job, best in both.items()]


def repairing(table: pd.DataFrame, schema: Schema, rules: str, *, seed: int = 0, repeat: int = 5) -> list[Timing]:
    """Repair each row towards a random other one, from tables and from natural columns."""
    parsed = parse_rules(rules, schema)
    before = table[list(schema.names)].reset_index(drop=True)
    after = before.iloc[np.random.default_rng(seed).permutation(len(before))].reset_index(drop=True)
    repairer, first, second = Repairer(parsed, schema), schema.natural(before), schema.natural(after)
    ways = (
        ("repair, table to table", lambda: repair(parsed, before, after, schema)),
        ("repair, natural columns", lambda: repairer.nearest(first, second)),
    )
    return [Timing(job, len(table), fastest(work, repeat)) for job, work in ways]


def plain_encode(table: pd.DataFrame, known: TableEncoder) -> NDArray[np.float32]:
    """Category codes (or factorize), scale, and one-hot scatter into single precision."""
    x = np.zeros((len(table), known.width_), dtype=np.float32)
    rows, start = np.arange(len(table)), 0
    for feature in known.schema_:
        column = table[feature.name]
        if feature.is_number:
            low, spread = known.scale_[feature.name]
            x[:, start] = (column.to_numpy() - low) / spread
        else:
            x[rows, start + _plain_codes(column, list(feature.levels))] = 1
        start += feature.width
    return x


def _plain_codes(column: pd.Series, levels: list[Any]) -> NDArray[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.asarray(pd.Index(levels).get_indexer(column.cat.categories)[column.cat.codes])
    found, values = pd.factorize(column)
    place = {level: i for i, level in enumerate(levels)}
    return np.asarray(np.asarray([place[v] for v in values])[found])


def plain_decode(x: NDArray[np.float32], like: pd.DataFrame, known: TableEncoder) -> pd.DataFrame:
    """Argmax per span, rescale, round, take the levels, and build the table."""
    columns: dict[str, Any] = {}
    start = 0
    for feature in known.schema_:
        column = like[feature.name]
        if feature.is_number:
            low, spread = known.scale_[feature.name]
            values = np.round(x[:, start].astype(np.float64) * spread + low, feature.decimals or 0)
            columns[feature.name] = values.astype(column.dtype)
        else:
            codes = x[:, start : start + feature.width].argmax(axis=1)
            columns[feature.name] = _plain_levels(codes, list(feature.levels), column.dtype)
        start += feature.width
    return pd.DataFrame(columns, index=like.index, copy=False)


def _plain_levels(codes: NDArray[Any], levels: list[Any], dtype: Any) -> Any:
    if isinstance(dtype, pd.CategoricalDtype):
        places = dtype.categories.get_indexer(levels)
        return pd.Categorical.from_codes(places[codes], dtype=dtype)
    return pd.array(levels, dtype=dtype).take(codes)
