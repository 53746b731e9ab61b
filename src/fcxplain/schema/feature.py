"""One feature: its kind, its grid of legal values, and the way between a column and that grid.

Every feature lives on a grid. A number's code is (value - origin) / step, where the origin is the lower bound
rounded up to the step's decimals; a category's code is the index of its level. Grid values are computed in
whole numbers and divided once, so that 0.1 * 3 is the 0.3 of a file.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import Fault, SchemaError

Kind = Literal["integer", "continuous", "categorical", "ordinal"]
KINDS: tuple[str, ...] = get_args(Kind)
Level = str | int | float | bool

# A continuous feature without a step of its own is cut into at least this many values.
DEFAULT_CUTS = 100_000
# Whole numbers up to here are exact in a double.
EXACT = 2**53


@dataclass(frozen=True)
class Feature:
    """A column of the table.

    `low` and `high` are the legal bounds (both included), `step` the distance between legal values (or
    `decimals`, the number of digits behind the point). `levels` lists a category's values; an ordinal's
    `ranks` say how they compare, ties allowed, and default to the order of the levels.
    """

    name: str
    kind: Kind
    low: float | None = None
    high: float | None = None
    step: float | None = None
    decimals: int | None = None
    levels: tuple[Level, ...] = ()
    ranks: tuple[int, ...] = ()
    mutable: bool = True
    label: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        faults = list(_faults(self))
        if faults:
            raise SchemaError("feature", [Fault(f"feature {self.name!r}", f) for f in faults])
        settle = object.__setattr__
        settle(self, "levels", tuple(plain(level) for level in self.levels))
        if self.kind == "ordinal":
            settle(self, "ranks", tuple(int(r) for r in self.ranks) or tuple(range(len(self.levels))))
        if self.is_number:
            step = self._settled_step()
            settle(self, "step", step)
            settle(self, "decimals", None if step is None else _decimals(step))
            for bound in ("low", "high"):
                value = getattr(self, bound)
                if value is not None and self.kind == "integer":
                    settle(self, bound, int(value))
            self._check_grid()

    def _settled_step(self) -> float | None:
        if self.kind == "integer":
            return self.step or 1
        if self.step is not None:
            return float(self.step)
        if self.decimals is not None:
            return float(Decimal(1).scaleb(-self.decimals))
        if self.low is None or self.high is None:
            return None
        return default_step(self.low, self.high)

    def _check_grid(self) -> None:
        if self.step is None:
            return
        largest = max(abs(self.low or 0), abs(self.high or 0), self.step)
        if largest * 10.0 ** _decimals(self.step) >= EXACT:
            problem = (
                f"values up to {largest:g} in steps of {self.step:g} are more than a float can tell apart"
            )
            remedy = "Choose a larger step, or rescale the column."
            raise SchemaError("feature", [Fault(f"feature {self.name!r}", problem, remedy)])

    @property
    def is_number(self) -> bool:
        """Whether the feature is an integer or continuous."""
        return self.kind in ("integer", "continuous")

    @property
    def is_category(self) -> bool:
        """Whether the feature is categorical or ordinal."""
        return not self.is_number

    @property
    def title(self) -> str:
        """The readable name."""
        return self.label or self.name.replace("_", " ").replace("-", " ")

    @property
    def width(self) -> int:
        """Number of encoded columns: one for a number, one per level for a category."""
        return 1 if self.is_number else len(self.levels)

    @property
    def is_complete(self) -> bool:
        """Whether all legal values are known: bounds and step, or levels."""
        if self.is_category:
            return bool(self.levels)
        return None not in (self.low, self.high, self.step)

    @cached_property
    def top(self) -> int | None:
        """The highest code, or None for a number without bounds."""
        if self.is_category:
            return len(self.levels) - 1
        if self.low is None or self.high is None or self.step is None:
            return None
        origin, step, one = self._grid
        return max(0, math.floor((_exact(self.high) * one - origin) / step))

    @cached_property
    def rank_of_level(self) -> NDArray[np.float64]:
        """The rank of each level of an ordinal, in the order of `levels`."""
        return np.asarray(self.ranks, dtype=np.float64)

    @cached_property
    def code_of_level(self) -> dict[Any, int]:
        """The index of each level."""
        return {level: i for i, level in enumerate(self.levels)}

    @cached_property
    def level_of_text(self) -> dict[str, int]:
        """The index of each level by its written form, as rules and files name it."""
        return {str(level): i for i, level in enumerate(self.levels)}

    @cached_property
    def _grid(self) -> tuple[int, int, int]:
        """Origin and step in whole numbers, and what divides them back to natural units."""
        if self.step is None:
            problem = "has neither step nor bounds yet"
            raise SchemaError(
                "feature", [Fault(f"feature {self.name!r}", problem, "Give a step or decimals.")]
            )
        one = 10 ** _decimals(self.step)
        return math.ceil(_exact(self.low or 0) * one), int(_exact(self.step) * one), one

    def codes(self, natural: NDArray[Any]) -> NDArray[np.int64]:
        """Nearest grid codes of natural values (a number's own values; a category's are codes already)."""
        if self.is_category:
            return natural.astype(np.int64, copy=False)
        origin, step, one = self._grid
        nearest = np.rint((natural - origin / one) / (step / one))
        return np.clip(nearest, None if self.low is None else 0, self.top).astype(np.int64)

    def at(self, codes: NDArray[np.int64]) -> NDArray[Any]:
        """Natural values at grid codes; the inverse of `codes` on the grid."""
        if self.is_category:
            return codes
        origin, step, one = self._grid
        return (origin + codes * step) / one

    def on_grid(self, natural: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each value lies on the grid and within the bounds."""
        if self.is_category:
            return (natural >= 0) & (natural < len(self.levels))
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        inside = (natural >= low) & (natural <= high)
        on = self.at(self.codes(np.where(inside, natural, self.low or 0))) == natural
        return np.asarray(inside & on)

    def natural(self, column: pd.Series) -> NDArray[Any]:
        """The column as float64 (numbers; missing is NaN) or as level codes (missing or unknown is -1)."""
        if self.is_number:
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        if isinstance(column.dtype, pd.CategoricalDtype):
            found, values = column.cat.codes.to_numpy(), column.cat.categories
        else:
            found, values = pd.factorize(column)
        known = [self.code_of_level.get(v, -1) if not _is_missing(v) else -1 for v in values]
        return np.asarray([*known, -1], dtype=np.int64)[found]

    def column(self, natural: NDArray[Any], dtype: Any = None) -> Any:
        """Natural values as a table column of `dtype` (by default int64, float64 or object levels)."""
        if self.is_number:
            if dtype is None:
                dtype = np.int64 if self.kind == "integer" else np.float64
            rounds = pd.api.types.is_integer_dtype(dtype)
            return pd.array(np.rint(natural).astype(np.int64) if rounds else natural, dtype=dtype)
        if isinstance(dtype, pd.CategoricalDtype):
            places = {level: i for i, level in enumerate(dtype.categories)}
            missing = [level for level in self.levels if level not in places]
            if missing:
                dtype = pd.CategoricalDtype([*dtype.categories, *missing], dtype.ordered)
                places = {level: i for i, level in enumerate(dtype.categories)}
            lookup = np.asarray([places[level] for level in self.levels], dtype=np.int64)
            return pd.Categorical.from_codes(lookup[natural], dtype=dtype)
        levels = np.empty(len(self.levels), dtype=object)
        levels[:] = self.levels
        return pd.array(levels, dtype=dtype if dtype is not None else object).take(natural)

    def replace(self, **changes: Any) -> Feature:
        """A copy with some fields changed."""
        if "step" in changes or "decimals" in changes:
            changes = {"step": None, "decimals": None, **changes}
        return dataclasses.replace(self, **changes)


def default_step(low: float, high: float) -> float:
    """A power of ten that cuts the range into `DEFAULT_CUTS` values or more, if doubles allow it."""
    largest = max(abs(low), abs(high)) or 1.0
    finest = max((high - low or largest) / DEFAULT_CUTS, largest * 32 / EXACT)
    return float(Decimal(1).scaleb(math.floor(math.log10(finest))))


def plain(level: Any) -> Level:
    """A level as a plain Python value, so that files, rules and hashes agree on it."""
    return level.item() if isinstance(level, np.generic) else level  # type: ignore[no-any-return]


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or value != value


def _exact(value: float) -> Decimal:
    """The number as it is written, not as it is stored."""
    return Decimal(repr(float(value)))


def _decimals(value: float) -> int:
    """Number of digits behind the decimal point."""
    return max(0, -int(_exact(value).normalize().as_tuple().exponent))


def _faults(feature: Feature) -> list[str]:
    """Every reason why these fields make no feature."""
    f, faults = feature, []
    if not isinstance(f.name, str) or not f.name.strip() or "\n" in f.name or "`" in f.name:
        faults.append("a name is text without line breaks or backticks")
    if f.kind not in KINDS:
        return [*faults, f"no kind {f.kind!r}; choose one of {', '.join(KINDS)}"]
    numeric = {"low": f.low, "high": f.high, "step": f.step}
    for field, value in numeric.items():
        if value is not None and (isinstance(value, bool | str) or not math.isfinite(value)):
            faults.append(f"{field} is {value!r}, not a finite number")
            return faults
    if f.kind in ("categorical", "ordinal"):
        faults += [f"{field} is for numbers only" for field, value in numeric.items() if value is not None]
        return faults + _level_faults(f)
    if f.levels or f.ranks:
        faults.append("levels and ranks are for categorical and ordinal features only")
    if f.low is not None and f.high is not None and f.low > f.high:
        faults.append(f"low {f.low} is above high {f.high}")
    if f.step is not None and f.step <= 0:
        faults.append(f"step {f.step} is not positive")
    if f.kind == "integer" and any(v is not None and v != int(v) for v in numeric.values()):
        faults.append("bounds and step of an integer must be whole numbers")
    if f.decimals is not None and not 0 <= f.decimals <= 15:
        faults.append(f"decimals {f.decimals} is not between 0 and 15")
    return faults


def _level_faults(feature: Feature) -> list[str]:
    faults, texts = [], [str(level) for level in feature.levels]
    twice = sorted({t for t in texts if texts.count(t) > 1}) if len(set(texts)) < len(texts) else []
    if twice:
        faults.append(f"levels written alike: {', '.join(twice[:5])}")
    if any(_is_missing(level) for level in feature.levels):
        faults.append("a level is missing (NaN or None); name it, e.g. 'unknown'")
    if feature.ranks and feature.kind != "ordinal":
        faults.append("ranks are for ordinal features only")
    elif feature.ranks and len(feature.ranks) != len(feature.levels):
        faults.append(f"{len(feature.levels)} levels but {len(feature.ranks)} ranks")
    return faults
