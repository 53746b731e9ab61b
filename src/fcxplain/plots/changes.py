"""What answers change: how often and which way, and how they move one feature against the training rows."""

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

from ..errors import DataError, Fault, did_you_mean
from ..explanation import Explanation
from ..explanation.page.summary import FeatureCount, feature_counts, first_answers
from ..schema import Feature, Natural
from .style import (
    COLOURS,
    FILLS,
    HATCHES,
    QUIET,
    add_key,
    add_title,
    figure_of,
    new_figure,
    our_style,
    settle,
    shortened,
)


def with_answers(given: Any) -> Explanation:
    """The explanation given, if it has answers."""
    explanation = explained(given)
    if not len(explanation.answers):
        fared = ", ".join(f"{count:,} {status}" for status, count in sorted(explanation.counts.items()))
        problem = f"has no answers ({len(explanation):,} rows{': ' if fared else ''}{fared})"
        raise nothing([Fault("explanation", problem, "See .status, and .why_not if that was asked.")])
    return explanation


def explained(given: Any) -> Explanation:
    """The explanation given, if it is one."""
    if not isinstance(given, Explanation):
        raise nothing([Fault("explanation", f"is a {type(given).__name__}", "Give what explain(rows) returned.")])
    return given


def nothing(faults: list[Fault]) -> DataError:
    """What is wrong, for the user to read."""
    return DataError("nothing can be drawn", faults)


SHOWN = 40
"""So many features get a bar; the rest is counted."""
WAYS = ("up", "down", "to another level")


def change_frequencies(explanation: Explanation, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw which features the answers change, most often first: in how many per cent of them, numbers up or down.

    The first answer of each row counts. Up and down differ in fill and hatching, so print needs no colour. Beyond 40
    features, the rarest are counted below.
    """
    counts, answers = feature_counts(with_answers(explanation)), len(first_answers(explanation))
    shown = counts[:SHOWN]
    with our_style():
        size = (6.4, 0.25 * max(len(shown), 2) + 1.2)
        panel = new_figure(*size, layout="constrained").add_subplot() if ax is None else ax
        ways = _draw_frequencies(panel, shown, answers)
        panel.set_xlabel(_below(explanation, counts, answers))
        add_key([panel], [(Patch(linewidth=0.7, **_look(w)), WAYS[w]) for w in ways], own=ax is None)
        add_title(panel, title, own=ax is None)
        if ax is None:
            settle(figure_of(panel))
        return figure_of(panel)


def _draw_frequencies(ax: Axes, counts: Sequence[FeatureCount], answers: int) -> list[int]:
    """The bars, from the top down; gives the ways that were drawn."""
    parts = np.array([(c.up, c.down, c.count - c.up - c.down) for c in counts]).reshape(-1, len(WAYS))
    shares, rows = 100 * parts / answers, np.arange(len(counts))
    ways = np.flatnonzero(parts.any(axis=0)).tolist()
    for way in ways:
        start = shares[:, :way].sum(axis=1)
        ax.barh(rows, shares[:, way], left=start, height=0.68, linewidth=0.7, zorder=2, **_look(way))
    for row, count in enumerate(counts):
        end = (100 * count.count / answers, row)
        ax.annotate(f"{count.count:,}", end, (4, 0), textcoords="offset points", fontsize=7, va="center")
    if not counts:
        ax.text(0.5, 0.5, "nothing changes", transform=ax.transAxes, ha="center", va="center", color=QUIET)
    ax.set_yticks(rows, [shortened(count.feature.title, 40) for count in counts])
    ax.set_ylim(max(len(counts), 1) - 0.4, -0.6)
    # Room for a figure beyond a full bar.
    ax.set_xlim(0, 1.13 * max((100 * count.count / answers for count in counts), default=100))
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
    return ways


def _below(e: Explanation, counts: Sequence[FeatureCount], answers: int) -> str:
    words = f"per cent of {answers:,} answers that change it" if answers > 1 else "per cent of 1 answer that changes it"
    more, never = len(counts) - SHOWN, len(e.task.schema) - len(counts)
    rest = [f"{more:,} more change less often"] if more > 0 else []
    rest += [f"{never:,} feature{'s' * (never != 1)} never change{'s' * (never == 1)}"] if never else []
    return "\n".join([words, "; ".join(rest)] if rest else [words])


def _look(way: int) -> dict[str, Any]:
    fill, hatch = ((FILLS[1], HATCHES[1]), (FILLS[0], HATCHES[0]), (FILLS[2], HATCHES[2]))[way]
    return {"facecolor": fill, "hatch": hatch, "edgecolor": "black"}


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
            _draw_shift(panel, explanation.task.schema[name], [group[name] for group in groups])
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


def _draw_shift(ax: Axes, feature: Feature, groups: Sequence[NDArray[Any]]) -> None:
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
