"""One person's path: which change of an answer moves the probability how far."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..explanation import Explanation, Step, Steps, steps_of
from ..explanation.amounts import amount
from ..schema import Schema
from .frame import add_key, add_title, settle
from .lettering import shortened
from .style import COLOURS, FILLS, HATCHES, figure_of, new_figure, our_style
from .subject import with_answers

TITLE, VALUE = 34, 22
"""Letters of a feature's name and of a value."""
THICK = 0.42
BAR: dict[str, Any] = {"height": THICK, "edgecolor": "black", "linewidth": 0.7, "zorder": 2}
RISE: dict[str, Any] = {"facecolor": FILLS[1], "hatch": HATCHES[1]}
FALL: dict[str, Any] = {"facecolor": FILLS[0], "hatch": HATCHES[0]}
CRAMPED = 0.12
FIGURE: dict[str, Any] = {
    "textcoords": "offset points",
    "va": "center",
    "fontsize": 7,
    "bbox": {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
}
THRESHOLD: dict[str, Any] = {"color": COLOURS[1], "linestyle": "--", "linewidth": 1.2}
POINT: dict[str, Any] = {"linestyle": "none", "markeredgecolor": "black", "markersize": 7, "zorder": 4}


def path(explanation: Explanation, i: int = 0, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the way from a row to its answer: the probability of the class wanted after each change.

    i: the number of the answer, as in `explanation.certificate(i)`.

    The changes are made one at a time, each time the one that helps most (see `fcxplain.explanation.steps_of`, which
    gives the same as data); the task's own model is asked. Rows on the way may break rules that the answer keeps;
    they are marked by a cross. With two classes, the probability from which the class wanted is answered is marked;
    with more there is no such number. A filled point says that the model answers the class wanted.
    """
    way = steps_of(with_answers(explanation), i)
    with our_style():
        size = (6.4, 0.44 * (len(way.steps) + 1) + 1.2)
        panel = new_figure(*size, layout="constrained").add_subplot() if ax is None else ax
        _draw_steps(panel, way)
        _name_steps(panel, way, explanation.task.schema)
        add_key([panel], _key(way), own=ax is None)
        add_title(panel, title, own=ax is None)
        if ax is None:
            settle(figure_of(panel))
        return figure_of(panel)


def _draw_steps(ax: Axes, way: Steps) -> None:
    if way.threshold is not None:
        ax.axvline(way.threshold, zorder=1, **THRESHOLD)
    _draw_point(ax, 0, way.probability, way.predicted == way.wanted, keeps_rules=True)
    before = way.probability
    for row, step in enumerate(way.steps, start=1):
        after = step.probability
        look = RISE if after >= before else FALL
        ax.barh(row, after - before, left=before, **BAR, **look)
        ax.plot([before, before], [row - 1, row + THICK / 2], color="black", linewidth=0.7, zorder=1.5)
        _draw_point(ax, row, after, step.predicted == way.wanted, keeps_rules=step.keeps_rules, past=before)
        before = after


def _draw_point(ax: Axes, row: int, at: float, reached: bool, *, keeps_rules: bool, past: float = 0.0) -> None:
    if isnan(at):
        ax.text(0.5, row, "not asked: outside its domain", ha="center", va="center", fontsize=7, style="italic")
        return
    ax.plot([at], [row], **POINT, **_mark(reached, keeps_rules))
    falls = at < past
    # Beside the point, and away from the bar; near 0 there is no room left of it.
    left = falls and at > CRAMPED
    place, side = (past if falls and not left else at, row), "right" if left else "left"
    ax.annotate(f"{at:.3f}", place, (-7 if left else 7, 0), ha=side, **FIGURE)


def _mark(reached: bool, keeps_rules: bool) -> dict[str, Any]:
    return {"marker": "o" if keeps_rules else "X", "markerfacecolor": "black" if reached else "white"}


def _name_steps(ax: Axes, way: Steps, schema: Schema) -> None:
    names = ["as it is now", *(_name(i, step, schema) for i, step in enumerate(way.steps, start=1))]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    # Room for a figure beyond 1.
    ax.set_xlim(-0.03, 1.16)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
    ax.set_xlabel(f"probability of {shortened(way.wanted, TITLE)}")
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")


def _name(number: int, step: Step, schema: Schema) -> str:
    feature, change = schema[step.change.feature], step.change
    now, then = (shortened(amount(feature, value), VALUE) for value in (change.now, change.then))
    return f"{number}. {shortened(feature.title, TITLE)}\n{now} \N{RIGHTWARDS ARROW} {then}"


def _key(way: Steps) -> list[tuple[Artist, str]]:
    """What needs a word, and only of what is there."""
    wanted = shortened(way.wanted, VALUE)
    reached = [way.predicted == way.wanted, *(step.predicted == way.wanted for step in way.steps)]
    key: list[tuple[Artist, str]] = []
    if way.threshold is not None:
        key.append((Line2D([], [], **THRESHOLD), f"threshold {way.threshold:.3g}"))
    if True in reached:
        key.append((_swatch(_mark(True, True)), f"the model answers {wanted}"))
    if False in reached:
        key.append((_swatch(_mark(False, True)), "the model answers otherwise"))
    if _breaks(way.steps):
        key.append((_swatch(_mark(False, False)), "breaks a rule as it stands"))
    return key


def _breaks(steps: Sequence[Step]) -> bool:
    return not all(step.keeps_rules for step in steps)


def _swatch(mark: dict[str, Any]) -> Line2D:
    return Line2D([], [], **POINT, **mark)
