"""Success by number of changes, and the path of one answer, change by change."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ..errors import Fault
from ..explanation import Explanation, Step, Steps, steps_of
from ..explanation.wording import amount
from ..schema import Schema
from .changes import explained, nothing, with_answers
from .style import (
    COLOURS,
    FILLS,
    HATCHES,
    finished,
    line_look,
    name_rows,
    our_style,
    panels_of,
    shortened,
)

MOST = len(COLOURS)
"""The maximum number of distinguishable lines."""


@our_style()
def success_by_changes(
    explanations: Explanation | Mapping[str, Explanation], *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the share of rows that have a verified answer with at most a given number of changes.

    Rows that already have the desired outcome do not count; a row without a verified answer never counts as a success.

    Parameters
    ----------
    explanations
        One explanation, or several by name (e.g. of methods or preferences), one line each.
    ax, title
        Your own axes, and a title.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If an explanation has no row that needed an answer.

    Examples
    --------
    >>> from fcxplain import plots
    >>> answers = {"balanced": fcx.explain(rows), "sparse": fcx.explain(rows, prefer="sparse")}  # doctest: +SKIP
    >>> figure = plots.success_by_changes(answers)  # doctest: +SKIP
    """
    named = explanations if isinstance(explanations, Mapping) else {"": explanations}
    curves = _curves({name: explained(e) for name, e in named.items()})
    (panel,) = panels_of(ax, 4.6, 3.2)
    longest = max(len(curve) for curve in curves.values())
    for number, curve in enumerate(curves.values()):
        whole = np.concatenate([curve, np.full(longest - len(curve), curve[-1])])
        panel.plot(np.arange(longest), whole, drawstyle="steps-post", clip_on=False, **line_look(number))
    panel.set_xlabel("features changed, at most")
    panel.set_ylabel("rows verified, per cent")
    panel.set_ylim(0, 105)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    key = [(Line2D([], [], **line_look(i)), shortened(name, 30)) for i, name in enumerate(curves)]
    return finished([panel], [] if list(curves) == [""] else key, title, ax=ax)


def _curves(explanations: Mapping[str, Explanation]) -> dict[str, NDArray[np.float64]]:
    faults = [
        Fault(f"explanation {name!r}" if name else "explanation", "has no row that needed an answer")
        for name, e in explanations.items()
        if not e.asked.any()
    ]
    if not 1 <= len(explanations) <= MOST:
        faults.append(Fault("explanations", f"are {len(explanations)}", f"Give 1 to {MOST}."))
    if faults:
        raise nothing(faults)
    return {name: _curve(e) for name, e in explanations.items()}


def _curve(e: Explanation) -> NDArray[np.float64]:
    """Per cent of rows that need an answer and have a verified one with at most 0, 1, 2, ... changes."""
    passed = e.checks.passed
    fewest = np.full(len(e), np.iinfo(np.int64).max)
    np.minimum.at(fewest, e.place[passed], e.checks.changes[passed])
    fewest = fewest[e.asked]
    most = int(e.checks.changes[passed].max(initial=1))
    return np.array([100 * float(np.mean(fewest <= count)) for count in range(most + 1)])


TITLE, VALUE = 34, 22
"""The maximum length of a feature's name and of a value."""
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


@our_style()
def path(explanation: Explanation, i: int = 0, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the path from a row to its answer: the probability of the desired class after each change.

    Changes are made one at a time, the most helpful first, and checked with the task's own model (the same as data:
    `fcxplain.explanation.steps_of`). Intermediate rows may break rules that the answer satisfies; a cross marks them.
    With two classes, a line marks the probability from which the desired class is predicted. A filled point means that
    the model predicts the desired class.

    Parameters
    ----------
    explanation
        The result of `explain`.
    i
        The number of the answer, as in `explanation.certificate(i)`.
    ax, title
        Your own axes, and a title.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If there are no answers, or none with this number.

    Examples
    --------
    >>> from fcxplain import plots
    >>> figure = plots.path(fcx.explain(rows), 0)  # doctest: +SKIP
    """
    way = steps_of(with_answers(explanation), i)
    (panel,) = panels_of(ax, 6.4, 0.44 * (len(way.steps) + 1) + 1.2)
    _draw_steps(panel, way)
    schema = explanation.task.schema
    names = ["as it is now", *(_name(number, step, schema) for number, step in enumerate(way.steps, start=1))]
    name_rows(panel, range(len(names)), names, (len(names) - 0.4, -0.6))
    if explanation.task.classes:
        # Space for a number beyond 1.
        panel.set_xlim(-0.03, 1.16)
        panel.set_xticks([0, 0.25, 0.5, 0.75, 1])
    score = "probability of" if explanation.task.classes else "the model's output; target:"
    wanted = schema.class_title(way.wanted)
    panel.set_xlabel(f"{score} {shortened(wanted, TITLE)}")
    return finished([panel], _path_key(way, shortened(wanted, VALUE)), title, ax=ax)


def _draw_steps(ax: Axes, way: Steps) -> None:
    if way.threshold is not None:
        ax.axvline(way.threshold, zorder=1, **THRESHOLD)
    _draw_point(ax, 0, way.probability, way.met, keeps_rules=True)
    before = way.probability
    for row, step in enumerate(way.steps, start=1):
        after = step.probability
        look = RISE if after >= before else FALL
        ax.barh(row, after - before, left=before, **BAR, **look)
        ax.plot([before, before], [row - 1, row + THICK / 2], color="black", linewidth=0.7, zorder=1.5)
        _draw_point(ax, row, after, step.met, keeps_rules=step.keeps_rules, past=before)
        before = after


def _draw_point(ax: Axes, row: int, at: float, reached: bool, *, keeps_rules: bool, past: float = 0.0) -> None:
    if isnan(at):
        ax.text(0.5, row, "not queried: outside its domain", ha="center", va="center", fontsize=7, style="italic")
        return
    ax.plot([at], [row], **POINT, **_mark(reached, keeps_rules))
    falls = at < past
    # Next to the point, away from the bar; near 0 there is no space to its left.
    left = falls and at > CRAMPED
    place, side = (past if falls and not left else at, row), "right" if left else "left"
    ax.annotate(f"{at:.3f}", place, (-7 if left else 7, 0), ha=side, **FIGURE)


def _mark(reached: bool, keeps_rules: bool) -> dict[str, Any]:
    return {"marker": "o" if keeps_rules else "X", "markerfacecolor": "black" if reached else "white"}


def _name(number: int, step: Step, schema: Schema) -> str:
    feature, change = schema[step.change.feature], step.change
    now, then = (shortened(amount(feature, value), VALUE) for value in (change.now, change.then))
    return f"{number}. {shortened(feature.title, TITLE)}\n{now} \N{RIGHTWARDS ARROW} {then}"


def _path_key(way: Steps, wanted: str) -> list[tuple[Artist, str]]:
    """Entries for the marks that occur."""
    reached = [way.met, *(step.met for step in way.steps)]
    key: list[tuple[Artist, str]] = []
    if way.threshold is not None:
        key.append((Line2D([], [], **THRESHOLD), f"threshold {way.threshold:.3g}"))
    if True in reached:
        key.append((_swatch(_mark(True, True)), f"the model predicts {wanted}"))
    if False in reached:
        key.append((_swatch(_mark(False, True)), "the model predicts otherwise"))
    if not all(step.keeps_rules for step in way.steps):
        key.append((_swatch(_mark(False, False)), "breaks a rule at this step"))
    return key


def _swatch(mark: dict[str, Any]) -> Line2D:
    return Line2D([], [], **POINT, **mark)
