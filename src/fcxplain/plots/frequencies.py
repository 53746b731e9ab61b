"""What answers change, how often, and which way: a bar for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..explanation import Explanation
from ..explanation.page.tally import FeatureCount, feature_counts, first_answers
from .frame import add_key, add_title, settle
from .lettering import shortened
from .style import FILLS, HATCHES, QUIET, figure_of, new_figure, our_style
from .subject import with_answers

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
        ways = _draw(panel, shown, answers)
        panel.set_xlabel(_below(explanation, counts, answers))
        add_key([panel], [(Patch(linewidth=0.7, **_look(w)), WAYS[w]) for w in ways], own=ax is None)
        add_title(panel, title, own=ax is None)
        if ax is None:
            settle(figure_of(panel))
        return figure_of(panel)


def _draw(ax: Axes, counts: Sequence[FeatureCount], answers: int) -> list[int]:
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
