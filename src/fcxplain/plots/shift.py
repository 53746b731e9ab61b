"""How answers move a feature: its training rows, the rows that have an answer, and their answers, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from ..errors import Fault, did_you_mean
from ..explanation import Explanation
from ..explanation.page.tally import feature_counts, first_answers
from ..schema import Feature, Natural
from .frame import add_key, add_title, settle
from .lettering import shortened
from .style import COLOURS, figure_of, new_figure, our_style
from .subject import nothing, with_answers

ACROSS, PANELS = 3, 12
"""So many panels stand side by side, and so many are drawn where no features are named."""
BINS, LEVELS = 24, 7
TAIL = 0.005
"""So much at either end of a number is put into the last bar."""
GROUPS = ("training rows", "rows as they are", "their answers")
LOOKS: tuple[dict[str, Any], ...] = (
    {"facecolor": "#CCCCCC", "edgecolor": "#AAAAAA", "linewidth": 0.5},
    {"facecolor": "none", "edgecolor": COLOURS[0], "linewidth": 1.5},
    {"facecolor": "none", "edgecolor": COLOURS[1], "linewidth": 1.3, "linestyle": "--", "hatch": "////"},
)


def distribution_shift(
    explanation: Explanation,
    features: str | Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Draw a panel for each feature: the training rows, the rows that have an answer, and their first answers.

    features: a name or names; by default the features that the answers change, most often first, twelve at most (the
        title says so where there are more).
    ax: axes of your own, for one feature; where none is named, the one that changes most often.

    Levels are drawn as per cent of each group, the rarest of many together. Numbers are drawn by 24 bars at most, as
    high as they are beside the highest of their own group, so that one answer and thousands can be told apart; what
    lies far out is in the last bars.
    """
    names = _names(with_answers(explanation), features, ax)
    groups = _groups(explanation, names)
    with our_style():
        panels = _panels(len(names)) if ax is None else [ax]
        for panel, name in zip(panels, names, strict=True):
            _draw(panel, explanation.task.schema[name], [group[name] for group in groups])
        key = [(Patch(**look), words) for look, words in zip(LOOKS, GROUPS, strict=True)]
        add_key(panels, key, own=ax is None)
        add_title(panels[0], title or _left_out(explanation, features, ax), own=ax is None)
        if ax is None:
            settle(figure_of(panels[0]))
        return figure_of(panels[0])


def _names(e: Explanation, asked: str | Sequence[str] | None, ax: Axes | None) -> list[str]:
    if asked is None:
        usual = [count.feature.name for count in feature_counts(e)] or list(e.task.schema.mutable)
        return (usual or list(e.task.schema.names))[: PANELS if ax is None else 1]
    names, known = [asked] if isinstance(asked, str) else list(asked), e.task.schema.names
    faults = [Fault(f"feature {n!r}", "is not known", did_you_mean(n, known)) for n in names if n not in known]
    if not names:
        faults.append(Fault("features", "names none", "Leave it out, or name one."))
    if ax is not None and len(names) > 1:
        faults.append(Fault("ax", f"is one axis for {len(names)} features", "Leave it out, or draw one at a time."))
    if faults:
        raise nothing(faults)
    return names


def _left_out(e: Explanation, asked: str | Sequence[str] | None, ax: Axes | None) -> str | None:
    """What to say where not every feature that changes is drawn."""
    changing = int(e.checks.changed[first_answers(e)].any(axis=0).sum())
    if asked is not None or ax is not None or changing <= PANELS:
        return None
    return f"the {PANELS} features that change most often, of {changing} that change"


def _groups(e: Explanation, names: list[str]) -> list[Natural]:
    first, schema = first_answers(e), e.task.schema
    return [schema.natural(t, names) for t in (e.task.train, e.rows.iloc[e.place[first]], e.answers.iloc[first])]


def _panels(count: int) -> list[Axes]:
    across = min(count, ACROSS)
    down = ceil(count / across)
    figure = new_figure(5.2 if across == 1 else 3.3 * across, 2.2 * down + 0.6, layout="constrained")
    return [figure.add_subplot(down, across, i + 1) for i in range(count)]


def _draw(ax: Axes, feature: Feature, groups: Sequence[NDArray[Any]]) -> None:
    ax.set_title(shortened(feature.title, 28))
    if feature.is_number:
        ax.set_xlabel(shortened(feature.unit, 28) if feature.unit else "")
        _draw_number(ax, feature, [values[np.isfinite(values)] for values in groups])
    else:
        _draw_levels(ax, feature, [values[values >= 0] for values in groups])


# Numbers


def _draw_number(ax: Axes, feature: Feature, groups: Sequence[NDArray[np.float64]]) -> None:
    bins = _bins(float(feature.step or 1), groups)
    for values, look in zip(groups, LOOKS, strict=True):
        heights = np.bincount(np.searchsorted(bins.inner, values, side="right"), minlength=bins.count)
        ax.stairs(heights / max(1, heights.max()), bins.edges, fill=True, **look)
    ax.set_ylim(0, 1.08)
    ax.set_yticks([])
    ax.set_ylabel("relative frequency", fontsize=7.5)
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=feature.kind == "integer"))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}".replace("-", "\N{MINUS SIGN}")))


@dataclass(frozen=True)
class _Bins:
    start: float
    width: float
    count: int

    @property
    def edges(self) -> NDArray[np.float64]:
        return np.asarray(self.start + self.width * np.arange(self.count + 1), dtype=np.float64)

    @property
    def inner(self) -> NDArray[np.float64]:
        return self.edges[1:-1]


def _bins(step: float, groups: Sequence[NDArray[np.float64]]) -> _Bins:
    """Bars a whole number of steps wide, so that none has more values to hold than its neighbour."""
    ends = [np.quantile(v, [TAIL, 1 - TAIL], method="nearest") for v in groups if len(v)] or [np.zeros(2)]
    low, high = min(float(e[0]) for e in ends), max(float(e[1]) for e in ends)
    width = step * max(1, ceil(((high - low) / step + 1) / BINS))
    return _Bins(low - step / 2, width, max(1, ceil((high - low + step) / width - 1e-9)))


# Levels


def _draw_levels(ax: Axes, feature: Feature, groups: Sequence[NDArray[np.int64]]) -> None:
    counts = [np.bincount(codes, minlength=len(feature.levels)) for codes in groups]
    shares = np.array([100 * found / max(1, found.sum()) for found in counts])
    shown, names = _shown(feature, shares)
    if len(shown) < shares.shape[1]:
        shares = np.column_stack([shares[:, shown], shares.sum(axis=1) - shares[:, shown].sum(axis=1)])
    places = np.arange(shares.shape[1])
    for number, look in enumerate(LOOKS):
        ax.barh(places + (number - 1) * 0.27, shares[number], height=0.22, zorder=2, **look)
    ax.set_yticks(places, names)
    ax.set_ylim(len(places) - 0.45, -0.55)
    ax.set_xlim(0, 105)
    ax.set_xlabel("per cent")
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")


def _shown(feature: Feature, shares: NDArray[np.float64]) -> tuple[NDArray[np.int64], list[str]]:
    """Codes of the levels that get a place of their own, in the schema's order, and the names of all places."""
    codes = np.arange(len(feature.levels))
    if len(codes) > LEVELS:
        codes = np.sort(np.argsort(-shares.max(axis=0), kind="stable")[: LEVELS - 1])
    names = [shortened(feature.levels[code], 22) for code in codes]
    return codes, names if len(codes) == len(feature.levels) else [*names, f"{len(feature.levels) - len(codes)} others"]
