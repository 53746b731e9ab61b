"""Tests of independence between features, from the correlations of their encoded columns (one block per feature)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from ..errors import DataError, Fault, did_you_mean
from ..schema import Feature, Natural, Schema

# Rows expanded to columns at a time.
CHUNK = 8_192
# Levels with fewer effective rows than this are merged: the approximation does not hold for them separately.
RARE = 10
# Directions of a block with less variance than this are rounding errors: relative to its largest, and to the range.
NEGLIGIBLE, ROUNDING = 1e-10, 1e-14


Rows = NDArray[np.int64]
Spans = dict[str, slice]
"""The columns of each feature in a matrix."""


@dataclass(frozen=True)
class EncodedColumn:
    """The encoding of a feature: a number is centred and scaled, a category's code selects a column.

    `table` has the value of each code (an ordinal's rank) or its column; it is empty for a number.
    """

    width: int
    table: NDArray[Any]
    centre: float = 0.0
    scale: float = 1.0

    def fill(self, out: NDArray[np.float64], values: NDArray[Any]) -> None:
        """Write the columns of some rows into `out`, which is filled with zeros."""
        if self.width > 1:
            out[np.arange(len(out)), self.table[values]] = 1.0
        elif self.width:
            numbers = self.table[values] if len(self.table) else values
            out[:, 0] = (numbers - self.centre) / self.scale


def correlation(columns: Natural, schema: Schema, rows: Rows | None, n: int) -> tuple[NDArray[np.float64], Spans]:
    """Correlations of all rows, or of the given ones (which may repeat); `n` is the effective sample size."""
    shapes = {f.name: _column(f, columns[f.name], n) for f in schema}
    spans = _spans({name: shape.width for name, shape in shapes.items()})
    return _whitened(_covariance(columns, shapes, spans, rows), spans)


def _spans(widths: dict[str, int]) -> Spans:
    ends = dict(zip(widths, np.cumsum([*widths.values()]).tolist(), strict=True))
    return {name: slice(end - widths[name], end) for name, end in ends.items()}


def _column(feature: Feature, values: NDArray[Any], n: int) -> EncodedColumn:
    if feature.kind == "categorical":
        return _levels(np.bincount(values, minlength=len(feature.levels)), n)
    table = feature.rank_of_level if feature.kind == "ordinal" else np.zeros(0)
    numbers = table[values] if len(table) else values
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        return EncodedColumn(0, table)
    # Halve first, so that the middle of the largest floats does not overflow.
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    return EncodedColumn(1, table, middle + half * float(np.mean((numbers - middle) / half)), half)


def _levels(counts: NDArray[np.int64], n: int) -> EncodedColumn:
    """One column per level that occurs often enough; all rare levels share one."""
    often = counts * (n / counts.sum()) >= RARE
    places = np.where(often, np.cumsum(often) - 1, often.sum())
    width = int(often.sum()) + bool(counts[~often].sum())
    return EncodedColumn(width if width > 1 else 0, places)


def _covariance(
    columns: Natural, shapes: dict[str, EncodedColumn], spans: Spans, rows: Rows | None
) -> NDArray[np.float64]:
    """Covariance about the mean; values are centred beforehand, so that no large numbers are subtracted."""
    width = sum(s.width for s in shapes.values())
    n = len(rows) if rows is not None else len(next(iter(columns.values())))
    total, squares, chunk = np.zeros(width), np.zeros((width, width)), np.zeros((CHUNK, width))
    for start in range(0, n, CHUNK):
        part: Any = slice(start, start + CHUNK) if rows is None else rows[start : start + CHUNK]
        x = chunk[: min(CHUNK, n - start)]
        x[:] = 0
        for name, shape in shapes.items():
            shape.fill(x[:, spans[name]], columns[name][part])
        total += x.sum(axis=0)
        squares += x.T @ x
    mean = total / n
    return np.asarray(squares / n - np.outer(mean, mean))


def _whitened(covariance: NDArray[np.float64], spans: Spans) -> tuple[NDArray[np.float64], Spans]:
    roots = {name: _root(covariance[span, span]) for name, span in spans.items()}
    kept = _spans({name: root.shape[1] for name, root in roots.items()})
    out = np.zeros((sum(root.shape[1] for root in roots.values()),) * 2)
    for a, b in product(spans, repeat=2):
        out[kept[a], kept[b]] = roots[a].T @ covariance[spans[a], spans[b]] @ roots[b]
    return out, kept


def _root(block: NDArray[np.float64]) -> NDArray[np.float64]:
    if not len(block):
        return np.zeros((0, 0))
    values, vectors = np.linalg.eigh(block)
    # One level's column follows from the others: that direction has no variance at all.
    used = values > max(NEGLIGIBLE * values[-1], ROUNDING)
    return np.asarray(vectors[:, used] / np.sqrt(values[used]))


# A direction with less than this share of its variance left counts as determined by the conditioning set.
DETERMINED = 1e-6
# The Cholesky factor is used only if no pivot is below this.
SAFE_PIVOT = 1e-3
# The number of conditioning sets whose residuals are cached; each is a matrix of all columns.
KEPT = 256
# Rows needed for each degree of freedom of a contingency table, as in pcalg.
ROWS_PER_DEGREE = 10
FEW_LEVELS = 10


class IndependenceTest(Protocol):
    """A test of conditional independence of two features: a small p-value is evidence against it."""

    def __call__(self, a: str, b: str, given: Sequence[str]) -> float:
        """The p-value, from 0 to 1; 1 if the data cannot decide."""


@dataclass(frozen=True)
class Rest:
    """The residuals of all columns given a set of features: `u.T @ u` is what the set explains."""

    u: NDArray[np.float64]
    whiteners: dict[str, NDArray[np.float64]] = field(default_factory=dict)


class WilksTest:
    """Wilks' lambda on a correlation matrix in which each feature's own columns are uncorrelated.

    `n` is the effective sample size. A feature that is constant, or determined by the conditioning set, is independent
    of everything.
    """

    def __init__(self, correlation: NDArray[np.float64], spans: Spans, n: int) -> None:
        self.n, self._r, self._spans = n, correlation, spans
        self._cached_rest = lru_cache(KEPT)(self._rest)

    def __call__(self, a: str, b: str, given: Sequence[str] = ()) -> float:
        """The p-value of independence."""
        squared, rank_a, rank_b, lost = self._canonical(a, b, tuple(sorted(given)))
        scale = self.n - 1 - lost - (rank_a + rank_b + 1) / 2
        if not rank_a or not rank_b or scale <= 0:
            return 1.0
        statistic = -scale * np.log1p(-np.minimum(squared, 1 - 1e-15)).sum()
        return float(chdtrc(rank_a * rank_b, max(statistic, 0.0)))

    def _canonical(self, a: str, b: str, given: tuple[str, ...]) -> tuple[NDArray[np.float64], int, int, int]:
        """Squared canonical correlations of the residuals, their two ranks, and the rank of the conditioning set."""
        rest = self._cached_rest(given)
        left, right = self._spans[a], self._spans[b]
        between = self._r[left, right] - rest.u[:, left].T @ rest.u[:, right]
        white_a, white_b = self._whitener(a, rest), self._whitener(b, rest)
        m = white_a.T @ between @ white_b
        gram = m @ m.T if len(m) <= m.shape[1] else m.T @ m
        squared = np.linalg.eigvalsh(gram) if gram.size > 1 else gram.ravel()
        return np.asarray(squared), white_a.shape[1], white_b.shape[1], len(rest.u)

    def _whitener(self, name: str, rest: Rest) -> NDArray[np.float64]:
        if name not in rest.whiteners:
            span = self._spans[name]
            u = rest.u[:, span]
            rest.whiteners[name] = _inverse_root(self._r[span, span] - u.T @ u)
        return rest.whiteners[name]

    def _rest(self, given: tuple[str, ...]) -> Rest:
        if not given:
            return Rest(np.zeros((0, len(self._r))))
        columns = np.concatenate([np.arange(self._spans[g].start, self._spans[g].stop) for g in given])
        rows = self._r[columns]
        return Rest(_inverse_root(rows[:, columns]).T @ rows)


def _inverse_root(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """`w` with `w.T @ matrix @ w = I`, with one column per direction that has variance left, so it never fails."""
    if matrix.size <= 1:
        return 1 / np.sqrt(matrix) if matrix.size and matrix[0, 0] > DETERMINED else np.zeros((len(matrix), 0))
    try:
        # Far quicker than eigenvectors, and as good wherever every pivot is far from zero.
        lower = np.linalg.cholesky(matrix)
        if lower.diagonal().min() ** 2 > SAFE_PIVOT:
            return np.asarray(np.linalg.inv(lower).T)
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    kept = values > DETERMINED
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


class ChiSquareTest:
    """Pearson's chi-squared over the cells of a contingency table, summed over the strata of the conditioning set."""

    def __init__(self, codes: dict[str, NDArray[np.int64]], counts: NDArray[np.float64], n: int) -> None:
        # Distinct rows and their counts: a million rows of few levels are a few thousand cells.
        self.n, self._codes, self._counts = n, codes, counts
        self._sizes = {name: int(c.max()) + 1 for name, c in codes.items()}
        self._cached_stratum = lru_cache(KEPT)(self._stratum)

    def __call__(self, a: str, b: str, given: Sequence[str] = ()) -> float:
        """The p-value of independence; 1 if there are too few rows for the number of cells."""
        stratum, strata = self._cached_stratum(tuple(sorted(given)))
        shape = strata, self._sizes[a], self._sizes[b]
        cell = (stratum * shape[1] + self._codes[a]) * shape[2] + self._codes[b]
        table = np.bincount(cell, self._counts, minlength=strata * shape[1] * shape[2]).reshape(shape)
        rows, columns = table.sum(axis=2), table.sum(axis=1)
        degrees = int(np.maximum(((rows > 0).sum(axis=1) - 1) * ((columns > 0).sum(axis=1) - 1), 0).sum())
        if not degrees or self.n < ROWS_PER_DEGREE * degrees:
            return 1.0
        expected = rows[:, :, None] * columns[:, None, :] / rows.sum(axis=1)[:, None, None]
        terms = np.divide((table - expected) ** 2, expected, out=np.zeros(shape), where=expected > 0)
        return float(chdtrc(degrees, terms.sum() * self.n / self._counts.sum()))

    def _stratum(self, given: tuple[str, ...]) -> tuple[NDArray[np.int64], int]:
        return _joint([self._codes[g] for g in given], len(self._counts))


def _joint(columns: Sequence[NDArray[np.int64]], n: int) -> tuple[NDArray[np.int64], int]:
    """One code per distinct combination, and their number."""
    code, count = np.zeros(n, dtype=np.int64), 1
    for column in columns:
        # Renumbering after each column keeps the codes below n times the levels.
        distinct, code = np.unique(code * (int(column.max()) + 1) + column, return_inverse=True)
        count = len(distinct)
    return code, count


class CausalLearnTest:
    """A test of the causal-learn library, on one column per feature."""

    def __init__(self, test: Any, names: Sequence[str]) -> None:
        self._test, self._place = test, {name: i for i, name in enumerate(names)}

    def __call__(self, a: str, b: str, given: Sequence[str] = ()) -> float:
        """The p-value of independence."""
        try:
            return float(self._test(self._place[a], self._place[b], [self._place[g] for g in given]))
        except ValueError as error:
            raise DataError(f"causal-learn cannot test {a!r} against {b!r}: {error}. Use test='wilks'.") from error


# A test is built from natural columns, a schema, the rows to use (None is all) and the effective sample size.
Maker = Callable[[Natural, Schema, Rows | None, int], IndependenceTest]


def wilks(columns: Natural, schema: Schema, rows: Rows | None, n: int) -> IndependenceTest:
    """Wilks' lambda: numbers by value, ordinals by rank, other categories by one column for each level but one."""
    return WilksTest(*correlation(columns, schema, rows, n), n)


def chi_square(columns: Natural, schema: Schema, rows: Rows | None, n: int) -> IndependenceTest:
    """Pearson's chi-squared; every feature must be a category."""
    numbers = [Fault(f"feature {name!r}", "is a number", "Use test='wilks'.") for name in schema.numbers]
    if numbers:
        raise DataError("chi_square needs categories", numbers)
    codes = [_level_codes(f, columns[f.name] if rows is None else columns[f.name][rows]) for f in schema]
    joint, _ = _joint(codes, len(codes[0]))
    _, first, counts = np.unique(joint, return_index=True, return_counts=True)
    distinct = {name: code[first] for name, code in zip(schema.names, codes, strict=True)}
    return ChiSquareTest(distinct, counts.astype(np.float64), n)


def _level_codes(feature: Feature, codes: NDArray[Any]) -> NDArray[np.int64]:
    """Merge levels of equal rank."""
    if feature.kind == "ordinal":
        return np.asarray(np.unique(feature.rank_of_level, return_inverse=True)[1][codes], dtype=np.int64)
    return codes.astype(np.int64, copy=False)


def causal_learn(method: str) -> Maker:
    """A builder of a causal-learn test (`pip install fcxplain[causal]`); it uses at most `n` rows, evenly spaced."""

    def make(columns: Natural, schema: Schema, rows: Rows | None, n: int) -> IndependenceTest:
        try:
            cit = importlib.import_module("causallearn.utils.cit")
        except ImportError as error:
            problem = f"test={method!r} needs causal-learn: pip install 'fcxplain[causal]', or use test='wilks'"
            raise DataError(problem) from error
        _check_method(method, schema)
        every = np.arange(len(columns[schema.names[0]])) if rows is None else rows
        taken = every[np.linspace(0, len(every) - 1, min(n, len(every))).astype(np.int64)]
        data = np.stack([_ranked(f, columns[f.name][taken]) for f in schema], axis=1)
        return CausalLearnTest(cit.CIT(data, method), schema.names)

    return make


def _ranked(feature: Feature, values: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(feature.rank_of_level[values] if feature.kind == "ordinal" else values, dtype=np.float64)


def _check_method(method: str, schema: Schema) -> None:
    if method in ("chisq", "gsq"):
        faults = [Fault(f"feature {n!r}", "is a number", "Use test='wilks'.") for n in schema.numbers]
    else:
        nominal = [f for f in schema if f.kind == "categorical" and len(f.levels) > 2]
        problem = "is categorical with {} levels, which have no order"
        faults = [Fault(f"feature {f.name!r}", problem.format(len(f.levels)), "Use test='wilks'.") for f in nominal]
    if faults:
        raise DataError(f"test={method!r} does not fit these features", faults)


TESTS: dict[str, Maker] = {
    "wilks": wilks,
    "chi_square": chi_square,
    "fisherz": causal_learn("fisherz"),
    "chisq": causal_learn("chisq"),
    "gsq": causal_learn("gsq"),
    "kci": causal_learn("kci"),
}


def maker(test: str, schema: Schema) -> Maker:
    """The builder of the test of this name; `auto` is `chi_square` for categories of few levels, else `wilks`."""
    if test == "auto":
        few = all(f.is_category and len(f.levels) <= FEW_LEVELS for f in schema)
        return chi_square if few else wilks
    if test not in TESTS:
        names = ("auto", *TESTS)
        remedy = did_you_mean(test, names) or f"Known: {', '.join(names)}."
        raise DataError("discover", [Fault("test", f"no test {test!r:.80}", remedy)])
    return TESTS[test]
