"""TableEncoder: conversion between tables and tensors (or arrays, where torch is not needed).

Numbers are scaled by the minimum and maximum of the training rows, categories become one-hot spans. It converts between
three views of the same rows: natural values, grid codes (integers, see `schema.feature`) and the encoded tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .errors import DataError, Fault
from .schema import Feature, Natural, Schema, fitting_dtype
from .schema.column import own_dtype

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Single precision cannot distinguish the values of grids larger than this.
SINGLE_PRECISION = 2**21
# Rows encoded at a time, so that the data of one feature stays in the processor's cache.
CHUNK = 16_384


class Columns(Mapping[str, "Tensor"]):
    """Differentiable columns of an encoded tensor, in natural units.

    `columns[name]` is `n` for a number (its own units) and for an ordinal (its expected rank), and
    `n x levels` for a categorical feature; `columns.levels(name)` is `n x levels` for both kinds of category.
    """

    def __init__(self, encoder: TableEncoder, x: Tensor) -> None:
        self._encoder, self._x = encoder, x

    def __getitem__(self, name: str) -> Tensor:
        feature = self._encoder.schema_[name]
        if feature.kind == "categorical":
            return self.levels(name)
        if feature.kind == "ordinal":
            return self.levels(name) @ self._x.new_tensor(feature.rank_of_level)
        low, spread = self._encoder.scale_[name]
        return self._x[..., self._encoder.spans_[name].start] * spread + low

    def levels(self, name: str) -> Tensor:
        """The span of a category, one column per level."""
        return self._x[..., self._encoder.span(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._encoder.spans_

    def __iter__(self) -> Iterator[str]:
        return iter(self._encoder.spans_)

    def __len__(self) -> int:
        return len(self._encoder.spans_)


class TableEncoder:
    """Min-max and one-hot encoding with named spans; every statistic comes from the training part.

    Attributes
    ----------
    schema_ : Schema
        The features.
    spans_ : dict of slice
        The encoded columns of each feature.
    scale_ : dict of pairs
        Minimum and range of each number.
    units_ : dict of float
        See `Schema.units`.
    usual_ : dict
        A typical value of each feature, natural: the median, or the most common level. It replaces values that cannot
        be encoded: missing ones, and levels that are not in the schema.
    dtypes_ : dict
        The dtypes of the training columns, or wider ones if these cannot hold every legal value; used by `decode`.
    is_single_ : bool
        Whether encoded rows are float32; otherwise a grid is too fine, and they are float64.
    dtype_ : torch.dtype
        The dtype of encoded rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from fcxplain import Schema, TableEncoder
    >>> rows = pd.DataFrame({"age": [20, 30, 40], "job": ["cook", "clerk", "cook"]})
    >>> encoder = TableEncoder().fit(Schema.infer(rows), rows)
    >>> encoder.encode(rows).tolist()
    [[0.0, 0.0, 1.0], [0.5, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """

    def fit(self, schema: Schema, train: pd.DataFrame) -> Self:
        """Learn ranges, units and dtypes from the training rows.

        Parameters
        ----------
        schema : Schema
            The features.
        train : DataFrame
            The training rows.

        Returns
        -------
        TableEncoder
            Itself.
        """
        if isinstance(train, pd.DataFrame) and not len(train):
            raise DataError("an encoder cannot be fitted on a table without rows")
        schema = schema.complete(train)
        natural = schema.checked(train)
        extremes = {n: (float(np.nanmin(natural[n])), float(np.nanmax(natural[n]))) for n in schema.numbers}
        scale = {name: (low, high - low or 1.0) for name, (low, high) in extremes.items()}
        usual = {f.name: _usual(f, natural[f.name]) for f in schema}
        dtypes = {f.name: own_dtype(f, train[f.name]) for f in schema}
        return self.restore(schema, scale, schema.units(train), dtypes, usual)

    def restore(
        self,
        schema: Schema,
        scale: Mapping[str, tuple[float, float]],
        units: Mapping[str, float],
        dtypes: Mapping[str, Any],
        usual: Mapping[str, Any] | None = None,
    ) -> Self:
        """Set the learned state directly, e.g. when a saved model is loaded.

        Parameters
        ----------
        schema : Schema
            The features.
        scale, units, dtypes, usual : mapping
            See the attributes; `usual` defaults to the first legal values.

        Returns
        -------
        TableEncoder
            Itself.
        """
        self.schema_, self.scale_, self.units_ = schema, dict(scale), dict(units)
        first = {f.name: f.at(np.zeros(1, dtype=np.int64))[0].item() for f in schema}
        self.usual_ = first | dict(usual or {})
        self.dtypes_ = {name: fitting_dtype(schema[name], dtype) for name, dtype in dtypes.items()}
        self.spans_, start = {}, 0
        for feature in schema:
            self.spans_[feature.name] = slice(start, start + feature.width)
            start += feature.width
        self.width_ = start
        self.is_single_ = all(self._is_coarse(f) for f in schema)
        return self

    @property
    def dtype_(self) -> torch.dtype:
        """The dtype of encoded tensors."""
        import torch

        return torch.float32 if self.is_single_ else torch.float64

    def _is_coarse(self, feature: Feature) -> bool:
        if feature.is_category:
            return True
        low, spread = self.scale_[feature.name]
        reach = max(abs(feature.low or 0), abs(feature.high or 0), abs(low), spread)
        # Rounding grows with the distance from the training range, not only with the number of values.
        return reach / (feature.step or 1) < SINGLE_PRECISION

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns, `feature` or `feature=level`."""
        schema = self._fitted()
        return tuple(
            f.name if f.is_number else f"{f.name}={level}"
            for f in schema
            for level in (f.levels if f.is_category else ("",))
        )

    def span(self, name: str) -> slice:
        """The encoded columns of a feature.

        Parameters
        ----------
        name : str
            The feature.

        Returns
        -------
        slice

        Raises
        ------
        SchemaError
            If there is no such feature; the nearest one is suggested.
        """
        return self.spans_[self._fitted()[name].name]

    def encode(self, table: pd.DataFrame) -> Tensor:
        """The table as a tensor.

        Parameters
        ----------
        table : DataFrame
            Rows that fit the schema.

        Returns
        -------
        Tensor
            `n x width_`.

        Raises
        ------
        SchemaError
            If the rows do not fit.
        """
        return self.encode_natural(self._fitted().checked(table))

    def encode_natural(self, natural: Natural) -> Tensor:
        """Natural columns as a tensor, without checks.

        Parameters
        ----------
        natural : mapping of arrays
            By name.

        Returns
        -------
        Tensor
            `n x width_`.
        """
        import torch

        x = torch.zeros((self._rows(natural), self.width_), dtype=self.dtype_)
        self._fill(x.numpy(), natural)
        return x

    def encode_array(self, natural: Natural) -> NDArray[Any]:
        """Natural columns as an array; does not need torch.

        Parameters
        ----------
        natural : mapping of arrays
            By name.

        Returns
        -------
        array of float
            `n x width_`.
        """
        x = np.zeros((self._rows(natural), self.width_), dtype=np.float32 if self.is_single_ else np.float64)
        self._fill(x, natural)
        return x

    def _rows(self, natural: Natural) -> int:
        return len(natural[self._fitted().names[0]])

    def _fill(self, out: NDArray[Any], natural: Natural) -> None:
        for begin in range(0, len(out), CHUNK):
            part = out[begin : begin + CHUNK]
            rows, line = np.arange(len(part)) * self.width_, part.reshape(-1)
            for feature in self.schema_:
                start = self.spans_[feature.name].start
                values = self.known(feature, natural[feature.name][begin : begin + CHUNK])
                if feature.is_category:
                    line[rows + start + values] = 1
                else:
                    low, spread = self.scale_[feature.name]
                    part[:, start] = (values - low) / spread

    def filled(self, natural: Natural) -> dict[str, NDArray[Any]]:
        """Natural columns with typical values in place of missing values and unknown levels.

        Parameters
        ----------
        natural : mapping of arrays
            By name.

        Returns
        -------
        dict of arrays
            By name.
        """
        return {f.name: self.known(f, natural[f.name]) for f in self._fitted()}

    def known(self, feature: Feature, values: NDArray[Any]) -> NDArray[Any]:
        """A feature's natural values, with a typical one in place of missing values and unknown levels.

        Parameters
        ----------
        feature : Feature
            One of the schema's.
        values : array
            Of any length.

        Returns
        -------
        array
        """
        others = np.isnan(values) if feature.is_number else values < 0
        return np.where(others, self.usual_[feature.name], values) if others.any() else values

    def decode(self, x: Tensor, index: pd.Index | None = None) -> pd.DataFrame:
        """The legal rows nearest to an encoded tensor: numbers on their grid, the level with the largest column.

        Parameters
        ----------
        x : Tensor
            `n x width_`.
        index : Index, optional
            The row labels.

        Returns
        -------
        DataFrame
            In the training rows' dtypes.
        """
        schema = self._fitted()
        return schema.table(self.decode_natural(x), index, self.dtypes_)

    def decode_natural(self, x: Tensor) -> dict[str, NDArray[Any]]:
        """Natural columns of the legal rows nearest to an encoded tensor.

        Parameters
        ----------
        x : Tensor
            `n x width_`.

        Returns
        -------
        dict of arrays
            By name.
        """
        schema, x = self._fitted(), x.detach().cpu()
        self._check(x)
        return {f.name: f.at(self._nearest(f, x[:, self.spans_[f.name]])) for f in schema}

    def _nearest(self, feature: Feature, columns: Tensor) -> NDArray[np.int64]:
        """The nearest codes of a feature, from its encoded columns."""
        if feature.is_category:
            return columns.argmax(dim=1).numpy()
        low, spread = self.scale_[feature.name]
        with np.errstate(over="ignore"):
            return feature.codes(columns[:, 0].double().numpy() * spread + low)

    def _check(self, x: Tensor) -> None:
        if x.ndim != 2 or x.shape[1] != self.width_:
            shape = " x ".join(map(str, x.shape))
            raise DataError(f"encoded rows are n x {self.width_}, but this tensor is {shape or 'a single number'}")
        # A sum shows NaN without copying the tensor; opposite infinities give NaN too, so check again.
        if x.sum().isnan() and x.isnan().any():
            rows = x.isnan().any(dim=1).nonzero().flatten()
            count, first = len(rows), int(rows[0])
            raise DataError("decode", [Fault("encoded rows", "contain NaN", "Was training stable?", count, first)])

    def codes(self, table: pd.DataFrame) -> NDArray[np.int64]:
        """Nearest grid codes of a table.

        Parameters
        ----------
        table : DataFrame
            Rows that fit the schema.

        Returns
        -------
        array of int
            `n x features`.

        Raises
        ------
        SchemaError
            If the rows do not fit.
        """
        return self.codes_of_natural(self._fitted().checked(table))

    def codes_of_natural(self, natural: Natural) -> NDArray[np.int64]:
        """Nearest grid codes of natural columns, without checks.

        Parameters
        ----------
        natural : mapping of arrays
            By name.

        Returns
        -------
        array of int
            `n x features`.
        """
        return np.stack([f.codes(self.known(f, natural[f.name])) for f in self._fitted()], axis=1)

    def from_codes(self, codes: NDArray[np.int64], index: pd.Index | None = None) -> pd.DataFrame:
        """The table at grid codes; the inverse of `codes` on legal rows.

        Parameters
        ----------
        codes : array of int
            `n x features`.
        index : Index, optional
            The row labels.

        Returns
        -------
        DataFrame
        """
        schema = self._fitted()
        return schema.table(self.natural_of_codes(codes), index, self.dtypes_)

    def natural_of_codes(self, codes: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Natural columns at grid codes.

        Parameters
        ----------
        codes : array of int
            `n x features`.

        Returns
        -------
        dict of arrays
            By name.
        """
        return {f.name: f.at(codes[:, i]) for i, f in enumerate(self._fitted())}

    def columns(self, x: Tensor) -> Columns:
        """Differentiable columns of an encoded tensor, in natural units.

        Parameters
        ----------
        x : Tensor
            `n x width_`.

        Returns
        -------
        Columns
            A mapping from feature to tensor.
        """
        self._fitted()
        return Columns(self, x)

    def _fitted(self) -> Schema:
        if not hasattr(self, "schema_"):
            # Loads scikit-learn, since it is also that library's error.
            from .errors import NotFittedError

            raise NotFittedError("this TableEncoder is not fitted yet. Call fit(schema, train) first")
        return self.schema_


def _usual(feature: Feature, values: NDArray[Any]) -> float:
    """The lower median of a number, on its grid, or the most common level; adding it to the data does not change it."""
    if feature.is_category:
        return int(np.bincount(values[values >= 0], minlength=1).argmax())
    codes = np.sort(feature.codes(values[~np.isnan(values)]))
    return float(feature.at(codes[(len(codes) - 1) // 2]))
