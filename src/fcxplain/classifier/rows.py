"""Rows as a model gets to see them, and rows made up to ask it about.

A model sees a fresh table with the schema's columns and no index of the caller's, so that nothing it does to
its input reaches the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..encoding import TableEncoder
from ..schema import Schema, validation


def model_rows(rows: pd.DataFrame, schema: Schema, encoder: TableEncoder | None) -> pd.DataFrame:
    """The schema's columns in their order, as a new table.

    Models trained on category columns refuse text, so columns get back the categories that the encoder saw.
    """
    validation.raise_on_faults(validation.column_faults(schema.features, rows))
    names = list(schema.names)
    frame = (rows if rows.columns.tolist() == names else rows[names]).reset_index(drop=True)
    dtypes = {} if encoder is None else encoder.dtypes_
    trained = {n: dtypes[n] for n in schema.categories if isinstance(dtypes.get(n), pd.CategoricalDtype)}
    changed = {n: _as_trained(frame[n], dtype) for n, dtype in trained.items() if frame[n].dtype != dtype}
    return frame.assign(**changed) if changed else frame


def _as_trained(column: pd.Series, dtype: pd.CategoricalDtype) -> pd.Series:
    known = set(dtype.categories)
    new = [v for v in column.dropna().unique().tolist() if v not in known]
    if new:
        # Values outside the dtype would silently become missing.
        dtype = pd.CategoricalDtype([*dtype.categories, *new], dtype.ordered)
    return column.astype(dtype)


def matched(wanted: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """The feature behind each name that a model asks for; names without one are left out.

    LightGBM and ONNX tools write `_` for what is no letter or digit, so names are also compared that way.
    """
    exact = {str(n): n for n in names}
    folded: dict[str, list[str]] = {}
    for name in exact:
        folded.setdefault(re.sub(r"\W", "_", name), []).append(name)
    found = {}
    for name in map(str, wanted):
        near = folded.get(re.sub(r"\W", "_", name), [])
        if name in exact or len(near) == 1:
            found[name] = exact.get(name) or near[0]
    return found


def legal_codes(schema: Schema, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Grid codes of legal rows drawn uniformly, `count x features`."""
    tops = [f.top or 0 for f in schema]
    return np.stack([generator.integers(0, top, count, endpoint=True) for top in tops], axis=1)


def legal_rows(schema: Schema, count: int, *, seed: int, dtypes: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Legal rows drawn uniformly from a complete schema."""
    codes = legal_codes(schema, count, np.random.default_rng(seed))
    natural = {f.name: f.at(codes[:, i]) for i, f in enumerate(schema)}
    return schema.table(natural, dtypes=dtypes)
