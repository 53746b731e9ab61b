"""Rows in the form that a model gets, and generated rows to query it on or to imitate it from.

A model gets a new table with the schema's columns and a new index, so that nothing it does to its input affects the
caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_float_dtype, is_integer_dtype

from ..encoding import TableEncoder
from ..errors import ClassifierError, Fault, some
from ..schema import Feature, Schema, validation
from ..schema.column import column_of
from ..schema.feature import plain

if TYPE_CHECKING:
    from torch import Tensor


def model_rows(rows: pd.DataFrame, schema: Schema, encoder: TableEncoder | None) -> pd.DataFrame:
    """The schema's columns in their order and in the dtypes that the encoder learnt, as a new table.

    So the input of a model for a row never depends on other rows or on the caller.
    """
    validation.raise_on_faults(validation.column_faults(schema.features, rows))
    names = list(schema.names)
    frame = (rows if rows.columns.tolist() == names else rows[names]).reset_index(drop=True)
    dtypes = {} if encoder is None else encoder.dtypes_
    given = dict(zip(names, frame.dtypes.tolist(), strict=True))
    other = [n for n in names if n in dtypes and given[n] != dtypes[n]]
    return frame.assign(**{n: _as_trained(schema[n], frame[n], dtypes[n]) for n in other}) if other else frame


def parts_as_trained(
    frame: pd.DataFrame, schema: Schema, encoder: TableEncoder | None
) -> list[tuple[NDArray[np.int64], pd.DataFrame]]:
    """Split the result of `model_rows` into parts that share dtypes: indices, and rows to query together.

    An off-grid fraction turns an integer column into floats for its own row only; other rows keep integers.
    """
    dtypes = {} if encoder is None else encoder.dtypes_
    given = dict(zip(frame.columns, frame.dtypes.tolist(), strict=True))
    mixed = [n for n in schema.numbers if is_integer_dtype(dtypes.get(n)) and is_float_dtype(given[n])]
    if not mixed:
        return [(np.arange(len(frame)), frame)]
    whole = np.stack([_is_whole(frame[n], dtypes[n]) for n in mixed], axis=1)
    kinds, kind = np.unique(whole, axis=0, return_inverse=True)
    places = [np.flatnonzero(kind.reshape(-1) == i) for i in range(len(kinds))]
    own = [{n: dtypes[n] for n, yes in zip(mixed, line, strict=True) if yes} for line in kinds]
    return [(p, frame.iloc[p].reset_index(drop=True).astype(d)) for p, d in zip(places, own, strict=True)]


def _is_whole(column: pd.Series, dtype: Any) -> NDArray[np.bool_]:
    """Which numbers fit an integer dtype."""
    values, limits = column.to_numpy(dtype=np.float64, na_value=np.nan), np.iinfo(getattr(dtype, "numpy_dtype", dtype))
    return np.asarray((values == np.rint(values)) & (values >= limits.min) & (values <= limits.max))


def _as_trained(feature: Feature, column: pd.Series, dtype: Any) -> Any:
    """A column in a dtype; if the dtype cannot hold its values, the column stays as it is, or gets more categories."""
    if isinstance(dtype, pd.CategoricalDtype):
        known = set(dtype.categories)
        new = [v for v in column.dropna().unique().tolist() if v not in known]
        # Values outside the dtype would silently become missing.
        return column.astype(pd.CategoricalDtype([*dtype.categories, *new], dtype.ordered) if new else dtype)
    values, faults = validation.read_column(feature, column)
    return column if faults else column_of(feature, values, column.index, dtype)


def encoded(rows: pd.DataFrame, encoder: TableEncoder, name: str) -> Tensor:
    """Rows in an encoder's columns, for a model that reads these; values that cannot be encoded raise an error."""
    natural, faults = validation.read(encoder.schema_.features, rows)
    if faults:
        raise ClassifierError(f"{name} cannot read these rows", faults)
    for feature in encoder.schema_:
        others = ~feature.on_grid(natural[feature.name]) if feature.is_category else np.isnan(natural[feature.name])
        if others.any():
            value = rows[feature.name].iloc[int(others.argmax())]
            problem = f"reads encoded columns, which have none for {some([plain(value)])} in column {feature.name!r}"
            faults.append(Fault(name, problem))
    if faults:
        raise ClassifierError("", faults)
    return encoder.encode_natural(natural)


def matched(wanted: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """The feature for each column name of a model; names without a feature are left out.

    LightGBM and ONNX tools write `_` for characters other than letters and digits, so names are also compared that way.
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


# The most features changed at once in a training row.
CHANGES = 4


def made_up_rows(
    codes: NDArray[np.int64], schema: Schema, changed: int, random: int, draws: np.random.Generator
) -> NDArray[np.int64]:
    """At most `changed` rows near the training rows, and at most `random` legal rows; fewer for few training rows."""
    near, far = min(changed, max(2_000, 8 * len(codes))), min(random, max(1_000, 2 * len(codes)))
    return np.concatenate([changed_rows(codes, schema, near, draws), random_rows(codes, schema, far, draws)])


def random_rows(codes: NDArray[np.int64], schema: Schema, count: int, draws: np.random.Generator) -> NDArray[np.int64]:
    """Legal rows drawn uniformly, but only with levels of training rows: models may refuse others."""
    drawn = legal_codes(schema, count, draws)
    for j, feature in enumerate(schema):
        if feature.is_category:
            drawn[:, j] = draws.choice(np.unique(codes[:, j]), count)
    return drawn


def changed_rows(codes: NDArray[np.int64], schema: Schema, count: int, draws: np.random.Generator) -> NDArray[np.int64]:
    """Training rows in which one to `CHANGES` features have the value of another row, or any legal one."""
    rows = codes[draws.integers(0, len(codes), count)]
    width = rows.shape[1]
    others = np.stack([codes[draws.integers(0, len(codes), count), j] for j in range(width)], axis=1)
    anything = random_rows(codes, schema, count, draws)
    # Counterfactuals differ in mutable features, so the imitation must be good there.
    may = np.asarray([f.mutable for f in schema])
    chances = draws.random((count, width)) + ~(may if may.any() else np.ones(width, dtype=bool))
    touched = chances.argsort(axis=1).argsort(axis=1) < draws.integers(1, CHANGES + 1, (count, 1))
    touched &= chances < 1
    return np.where(touched, np.where(draws.random((count, width)) < 0.5, others, anything), rows)
