"""The axis of a setting: numbers, evenly or logarithmically, or words side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from numbers import Real
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from ..errors import DataError, some
from .lettering import shortened, text_width

LABEL = 8.0
LENGTH = 165.0
"""About how long the axis of a panel is, in points."""


@dataclass(frozen=True)
class Scale:
    """Where settings stand on the axis, and which of them are written below it."""

    settings: tuple[Any, ...]
    of_words: bool
    is_log: bool

    def place(self, setting: Any) -> float:
        """Where a setting stands: at itself if it is a number."""
        return float(self.settings.index(setting)) if self.of_words else float(setting)

    def apply(self, ax: Axes) -> None:
        """Set up the axis."""
        if self.is_log:
            ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
        shown = list(self.settings) if self.of_words else _spaced(self.settings, self._share)
        words = [shortened(_written(setting), 32) for setting in shown]
        ax.set_xticks([self.place(setting) for setting in shown], words)
        if self.of_words and sum(text_width(word, LABEL) + 6 for word in words) > LENGTH:
            ax.tick_params(axis="x", labelrotation=30)
            for label in ax.get_xticklabels():
                label.set_horizontalalignment("right")
                label.set_rotation_mode("anchor")

    def _share(self, setting: Any) -> float:
        """How far along the axis a setting stands, in points."""
        low, high, here = (self._even(s) for s in (self.settings[0], self.settings[-1], setting))
        return LENGTH * (here - low) / (high - low or 1.0)

    def _even(self, setting: Any) -> float:
        return log10(setting) if self.is_log else float(setting)


def scale_of(settings: Sequence[Any], is_log: bool) -> Scale:
    """A scale for these settings; numbers are put in order, words stay as they are."""
    unique = list(dict.fromkeys(settings))
    of_words = not all(isinstance(s, Real) and not isinstance(s, bool) for s in unique)
    low = [s for s in unique if not of_words and s <= 0]
    if is_log and (of_words or low):
        raise DataError(f"log_x needs settings above 0; there is {some(unique if of_words else low)}")
    return Scale(tuple(unique if of_words else sorted(unique)), of_words, is_log)


def _written(setting: Any) -> str:
    return f"{setting:g}" if isinstance(setting, Real) else str(setting)


def _spaced(settings: Sequence[Any], along: Any) -> list[Any]:
    """Settings whose words do not touch, from left to right."""
    shown: list[Any] = []
    end = float("-inf")
    for setting in settings:
        half = text_width(_written(setting), LABEL) / 2
        if along(setting) - half >= end + 4:
            shown.append(setting)
            end = along(setting) + half
    return shown
