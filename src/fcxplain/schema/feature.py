"""One feature: its kind, its grid of legal values, and conversion between a column and that grid.

Every feature lives on a grid. A number's code is (value - origin) / step, where the origin is the lower bound
rounded up to the step's decimals; a category's code is the index of its level. Grid values are computed in
whole numbers and divided once, so that 0.1 * 3 is the 0.3 of a file.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import Fault, SchemaError, did_you_mean
from . import dates, definition
from .definition import WHOLE, decimals_of, default_step, exact, is_too_fine

# Values nearer to each other than this share of a step are the same.
ROUNDING = 1e-6

Kind = Literal["integer", "continuous", "date", "categorical", "ordinal"]
KINDS: tuple[str, ...] = get_args(Kind)
Level = str | int | float | bool
Missing = Literal["kept", "may_be_filled", "never"]
# The code of a missing category; those of levels that are not in the schema lie below (see `column`).
MISSING = -1


@dataclass(frozen=True)
class Feature:
    """A column of the table: its kind, its legal values, and whether it may change.

    Parameters
    ----------
    name : str
        The column's name.
    kind : {"integer", "continuous", "date", "categorical", "ordinal"}
        What it holds. A date is a number of days, written 2026-12-31.
    low, high : float, optional
        The bounds of a number, both included; for a date, days since 1970, or dates (also as text).
    step : float, optional
        The distance between legal values; 1 for integers and dates.
    decimals : int, optional
        Instead of `step`: the number of digits after the decimal point.
    levels : tuple
        A category's values.
    ranks : tuple of int
        How an ordinal's levels compare, ties allowed; by default in the order of the levels.
    mutable : bool, default=True
        Whether it may change.
    label : str
        A readable name.
    unit : str
        The unit of a number.
    labels : mapping
        Readable names of a category's levels. Pages, letters and texts use them; tables, files and rules use the
        levels themselves.
    guessed : tuple of {"low", "high", "levels"}
        Which parts of the domain were inferred from a table and not confirmed: they limit what is proposed, not what a
        row may have. All others are binding. Ignored by equality.
    missing : {"kept", "may_be_filled", "never"}, optional
        How a missing value is handled: it stays missing, which is not a change; an answer may fill it, which is a
        change; or the row cannot be explained. By default, a `Task` decides from the training rows and the model.

    Raises
    ------
    SchemaError
        If the fields do not fit together; every fault is listed.

    Examples
    --------
    >>> from fcxplain import Feature
    >>> Feature("age", "integer", low=17, high=90, mutable=False).top
    73
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
    guessed: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    missing: Missing | None = None
    labels: Mapping[Any, str] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        settle = partial(object.__setattr__, self)
        for field in ("low", "high", "step", "decimals", "mutable"):
            settle(field, plain(getattr(self, field)))
        for field in ("levels", "ranks", "guessed"):
            value = getattr(self, field)
            if isinstance(value, list | tuple | np.ndarray | pd.Index):
                settle(field, tuple(plain(v) for v in value))
        if isinstance(self.labels, Mapping):
            settle("labels", {_meant(level, self.levels): label for level, label in self.labels.items()})
        if self.kind == "date":
            settle("low", _day(self.low))
            settle("high", _day(self.high))
        self._raise(definition.faults(vars(self), KINDS))
        if self.kind == "ordinal":
            settle("ranks", self.ranks or tuple(range(len(self.levels))))
        if self.is_number:
            whole = int if self.is_whole else float
            for field, value in (("low", self.low), ("high", self.high), ("step", self._settled_step())):
                settle(field, None if value is None else whole(value))
            settle("decimals", None if self.step is None else decimals_of(self.step))
            self._raise(self._grid_faults())

    def _raise(self, problems: list[tuple[str, str]]) -> None:
        if problems:
            faults = [Fault(f"feature {self.name!r}", problem, remedy) for problem, remedy in problems]
            raise SchemaError("feature", faults)

    def _settled_step(self) -> float | None:
        if self.is_whole:
            return self.step or 1
        if self.step is not None:
            return self.step
        if self.decimals is not None:
            return float(Decimal(1).scaleb(-self.decimals))
        if self.low is None or self.high is None:
            return None
        return default_step(self.low, self.high)

    def _grid_faults(self) -> list[tuple[str, str]]:
        if self.step is None:
            return []
        largest = max(abs(self.low or 0), abs(self.high or 0), self.step)
        if is_too_fine(largest, self.step):
            problem = f"values up to {largest:g} in steps of {self.step:g} cannot be kept exactly in a float"
            return [(problem, "Choose a larger step, or rescale the column.")]
        if self.top is not None and self.top < 0:
            problem = f"no legal value lies between {self.low:g} and {self.high:g} in steps of {self.step:g}"
            return [(problem, "Choose a smaller step or wider bounds.")]
        return []

    @cached_property
    def is_number(self) -> bool:
        """Whether the feature is an integer, continuous or a date."""
        return self.kind in (*WHOLE, "continuous")

    @property
    def is_whole(self) -> bool:
        """Whether every value is a whole number: an integer, or a date in days."""
        return self.kind in WHOLE

    @cached_property
    def is_category(self) -> bool:
        """Whether the feature is categorical or ordinal."""
        return not self.is_number

    def text(self, value: float | None) -> str:
        """A number as people write it; a date in ISO.

        Parameters
        ----------
        value : float or None
            A natural value, such as a bound.

        Returns
        -------
        str
        """
        if value is None:
            return "open"
        return dates.iso(value) if self.kind == "date" else f"{value:,.12g}"

    @property
    def title(self) -> str:
        """The readable name."""
        return self.label or self.name.replace("_", " ").replace("-", " ")

    def level_title(self, level: Any) -> str:
        """A category's level as people call it.

        Parameters
        ----------
        level : str, int, float or bool
            A level, or any other value.

        Returns
        -------
        str
            Its label, else the level itself as text.
        """
        return self.labels.get(plain(level)) or str(plain(level))

    def order_of_levels(self, counts: NDArray[np.int64]) -> list[int]:
        """The codes of a category's levels in the order in which they are shown.

        Parameters
        ----------
        counts : array of int
            How often each level occurs.

        Returns
        -------
        list of int
            By rank for an ordinal feature, else the most frequent first.
        """
        by = self.rank_of_level if self.kind == "ordinal" else -counts
        return [int(code) for code in np.argsort(by, kind="stable")]

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
        return math.floor((exact(self.high) * one - origin) / step)

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
    def by_dtype(self) -> dict[Any, Any]:
        """Results cached for columns of a dtype (see `column`).

        They are stored per feature, since equal features need not be identical: 1, 1.0 and True are equal levels.
        """
        return {}

    @cached_property
    def _grid(self) -> tuple[int, int, int]:
        """Origin and step in whole numbers, and what divides them back to natural units."""
        if self.step is None:
            self._raise([("has neither step nor bounds yet", "Give a step or decimals.")])
        assert self.step is not None
        one = 10 ** decimals_of(self.step)
        return math.ceil(exact(self.low or 0) * one), int(exact(self.step) * one), one

    def codes(self, natural: NDArray[Any]) -> NDArray[np.int64]:
        """Nearest grid codes of natural values.

        Parameters
        ----------
        natural : array
            A number's own values; a category's are codes already.

        Returns
        -------
        array of int
        """
        if self.is_category:
            return natural.astype(np.int64, copy=False)
        origin, step, one = self._grid
        nearest = np.nan_to_num(np.rint((natural - origin / one) / (step / one)))
        return np.asarray(np.clip(nearest, None if self.low is None else 0, self.top).astype(np.int64))

    def at(self, codes: NDArray[np.int64]) -> NDArray[Any]:
        """Natural values at grid codes; the inverse of `codes` on the grid.

        Parameters
        ----------
        codes : array of int
            Codes.

        Returns
        -------
        array
        """
        if self.is_category:
            return codes
        origin, step, one = self._grid
        return (origin + codes * step) / float(one)

    def on_grid(self, natural: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each value lies on the grid and within the bounds.

        Parameters
        ----------
        natural : array
            Values.

        Returns
        -------
        array of bool
        """
        if self.is_category:
            return (natural >= 0) & (natural < len(self.levels))
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        inside = (natural >= low) & (natural <= high)
        on = self.at(self.codes(np.where(inside, natural, self.low or 0))) == natural
        return np.asarray(inside & on)

    def is_missing(self, natural: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether each value is missing.

        Parameters
        ----------
        natural : array
            Values.

        Returns
        -------
        array of bool
        """
        return np.asarray(np.isnan(natural) if self.is_number else natural == MISSING)

    def may_stay(self, natural: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether a row may keep each value: guessed bounds and levels do not bind present values.

        Parameters
        ----------
        natural : array
            Present values.

        Returns
        -------
        array of bool
        """
        gaps = self.missing in ("kept", "may_be_filled")
        if self.is_category:
            return np.asarray((natural >= 0) | np.where(natural == MISSING, gaps, "levels" in self.guessed))
        low = -np.inf if self.low is None or "low" in self.guessed else self.low
        high = np.inf if self.high is None or "high" in self.guessed else self.high
        return np.asarray(np.isfinite(natural) & (natural >= low) & (natural <= high) | (gaps & np.isnan(natural)))

    def may_give_way(self, natural: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether a legal value may replace each present one; a gap that is kept may not be replaced.

        Parameters
        ----------
        natural : array
            Present values.

        Returns
        -------
        array of bool
        """
        return ~self.is_missing(natural) | (self.missing == "may_be_filled")

    def same(self, now: NDArray[Any], then: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether values are equal; two missing ones are.

        Parameters
        ----------
        now, then : array
            Natural values before and after.

        Returns
        -------
        array of bool
        """
        return np.asarray((now == then) | (self.is_missing(now) & self.is_missing(then)))

    def changed(self, now: NDArray[Any], then: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether values changed: by more than half a step, from off the grid to it, or to another level.

        Filling a missing value is a change; leaving it missing is not.

        Parameters
        ----------
        now, then : array
            Natural values before and after.

        Returns
        -------
        array of bool
        """
        if self.is_category:
            return np.asarray(now != then)
        moved, step = np.abs(then - now), float(self.step or 0)
        near = moved <= step / 2
        # Few values lie off the grid, and unmoved ones need no check.
        close = np.flatnonzero(near & (moved > ROUNDING * step))
        if len(close):
            near[close] = ~self.on_grid(np.broadcast_to(then, near.shape)[close])
        return np.asarray(~near & ~(np.isnan(now) & np.isnan(then)))

    def replace(self, **changes: Any) -> Feature:
        """A copy with some fields changed. Bounds and levels given here no longer count as guessed.

        Parameters
        ----------
        **changes
            New values by the fields' names.

        Returns
        -------
        Feature

        Raises
        ------
        SchemaError
            If a field does not exist, or the new values do not fit together.
        """
        fields = [f.name for f in dataclasses.fields(self)]
        unknown = [name for name in changes if name not in fields]
        self._raise([(f"no field {name!r}", did_you_mean(name, fields)) for name in unknown])
        if "step" in changes or "decimals" in changes:
            changes = {"step": None, "decimals": None, **changes}
        changes = {"guessed": tuple(field for field in self.guessed if field not in changes), **changes}
        return dataclasses.replace(self, **changes)


def level_named(value: Any, levels: Iterable[Any]) -> Any:
    """The level (or class) that a value means: an equal one, or the only one written the same; else None."""
    levels = tuple(levels)
    for level in levels:
        # True does not mean 1.
        if isinstance(value, bool) == isinstance(level, bool) and value == level:
            return level
    for written in (str, lambda v: str(v).casefold()):
        alike = [level for level in levels if written(level) == written(value)]
        if len(alike) == 1:
            return alike[0]
    return None


def _meant(value: Any, levels: Any) -> Any:
    """The level that a label is for, as files write every level as text. Unknown ones stay, and are refused later."""
    meant = level_named(value, levels) if isinstance(levels, tuple) else None
    return plain(value) if meant is None else meant


def _day(value: Any) -> Any:
    """A bound as a whole number of days; anything else stays as it is, and is refused later."""
    if value is None or isinstance(value, bool):
        return value
    try:
        day = dates.day_of(value)
    except (TypeError, ValueError, OverflowError):
        return value
    return int(day) if day.is_integer() and dates.FIRST <= day <= dates.LAST else str(value)


def in_order(values: Iterable[Any]) -> tuple[Any, ...]:
    """Levels or classes, sorted where they can be, else as text."""
    values = list(values)
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=str))


def plain(value: Any) -> Any:
    """A value as plain Python, so that files, rules and hashes agree on it."""
    return value.item() if isinstance(value, np.generic) else value
