"""What answers change, how often and in which direction; success by number of changes; the path of one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isnan
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from ..errors import DataError, Fault, did_you_mean
from ..explanation import Explanation, Step, Steps, steps_of
from ..explanation.page.summary import FeatureCount, feature_counts, first_answers
from ..explanation.wording import amount
from ..schema import Feature, Schema
from .style import (
    COLOURS,
    FILLS,
    HATCHES,
    QUIET,
    fill_look,
    finished,
    line_look,
    name_rows,
    our_style,
    panels_of,
    shortened,
)


def with_answers(given: Any) -> Explanation:
    """The explanation, if it has answers."""
    explanation = explained(given)
    if not len(explanation.answers):
        fared = ", ".join(f"{count:,} {status}" for status, count in sorted(explanation.counts.items()))
        problem = f"has no answers ({len(explanation):,} rows{': ' if fared else ''}{fared})"
        raise nothing([Fault("explanation", problem, "See .status, and the reasons if why_not was set.")])
    return explanation


def explained(given: Any) -> Explanation:
    """The argument, if it is an explanation."""
    if not isinstance(given, Explanation):
        raise nothing([Fault("explanation", f"is a {type(given).__name__}", "Give the result of explain(rows).")])
    return given


def nothing(faults: list[Fault]) -> DataError:
    """An error with these faults."""
    return DataError("nothing can be drawn", faults)


SHOWN = 40
"""Features with a bar; the rest is counted."""
WAYS = {"up": fill_look(1), "down": fill_look(0), "to another level": fill_look(2)}


@our_style()
def change_frequencies(explanation: Explanation, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw which features the answers change, most often first, as per cent of answers, split into up and down.

    The first answer of each row counts. Up and down differ in fill and hatching, so that prints need no colour. Beyond
    40 features, the rarest are only counted.

    Parameters
    ----------
    explanation
        The result of `explain`.
    ax, title
        Your own axes, and a title.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If there are no answers.

    Examples
    --------
    >>> from fcxplain import plots
    >>> figure = plots.change_frequencies(fcx.explain(rows))  # doctest: +SKIP
    """
    counts, answers = feature_counts(with_answers(explanation)), len(first_answers(explanation))
    shown = counts[:SHOWN]
    (panel,) = panels_of(ax, 6.4, 0.25 * max(len(shown), 2) + 1.2)
    ways = _draw_frequencies(panel, shown, answers)
    panel.set_xlabel(_below(explanation, counts, answers))
    return finished([panel], [(Patch(**WAYS[way]), way) for way in ways], title, ax=ax)


def _draw_frequencies(ax: Axes, counts: Sequence[FeatureCount], answers: int) -> list[str]:
    """Draw the bars from top to bottom; return the directions that occur."""
    parts = np.array([(c.up, c.down, c.count - c.up - c.down) for c in counts]).reshape(-1, len(WAYS))
    shares, rows, drawn = 100 * parts / answers, np.arange(len(counts)), []
    for number, (way, look) in enumerate(WAYS.items()):
        if parts[:, number].any():
            start = shares[:, :number].sum(axis=1)
            ax.barh(rows, shares[:, number], left=start, height=0.68, zorder=2, **look)
            drawn.append(way)
    for row, count in enumerate(counts):
        end = (100 * count.count / answers, row)
        ax.annotate(f"{count.count:,}", end, (4, 0), textcoords="offset points", fontsize=7, va="center")
    if not counts:
        ax.text(0.5, 0.5, "nothing changes", transform=ax.transAxes, ha="center", va="center", color=QUIET)
    name_rows(ax, rows, [shortened(c.feature.title, 40) for c in counts], (max(len(counts), 1) - 0.4, -0.6))
    # Space for a number after a full bar.
    ax.set_xlim(0, 1.13 * max((100 * count.count / answers for count in counts), default=100))
    return drawn


def _below(e: Explanation, counts: Sequence[FeatureCount], answers: int) -> str:
    words = f"per cent of {answers:,} answers that change it" if answers > 1 else "per cent of 1 answer that changes it"
    more, never = len(counts) - SHOWN, len(e.task.schema) - len(counts)
    rest = [f"{more:,} more change less often"] if more > 0 else []
    rest += [f"{never:,} feature{'s' * (never != 1)} never change{'s' * (never == 1)}"] if never else []
    return "\n".join([words, "; ".join(rest)] if rest else [words])


PANELS = 12
"""Panels drawn by default."""
BINS, LEVELS = 24, 7
TAIL = 0.005
"""The share at either end of a number that goes into the last bar."""
GROUPS: dict[str, dict[str, Any]] = {
    "training rows": {"facecolor": "#CCCCCC", "edgecolor": "#AAAAAA", "linewidth": 0.5},
    "rows as they are": {"facecolor": "none", "edgecolor": COLOURS[0], "linewidth": 1.5},
    "their answers": {"facecolor": "none", "edgecolor": COLOURS[1], "lw": 1.3, "ls": "--", "hatch": "////"},
}


@our_style()
def distribution_shift(
    explanation: Explanation,
    features: str | Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Draw one panel per feature with the distribution of training rows, of rows with an answer, and of their answers.

    Bars are per cent of each group, so that groups of different size can be compared. The rarest of many levels are
    merged. Numbers have at most 24 bars; extreme values are in the outermost.

    Parameters
    ----------
    explanation
        The result of `explain`.
    features
        A name or names; by default the features that the answers change, most often first, at most twelve (the title
        says so if there are more).
    ax
        Your own axes, for one feature; by default the one that changes most often.
    title
        The title of the figure.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If there are no answers, or a feature is unknown.

    Examples
    --------
    >>> from fcxplain import plots
    >>> figure = plots.distribution_shift(fcx.explain(rows), ["income", "amount"])  # doctest: +SKIP
    """
    names = _names(with_answers(explanation), features, ax)
    first, task = first_answers(explanation), explanation.task
    tables = (task.train, explanation.rows.iloc[explanation.place[first]], explanation.answers.iloc[first])
    groups = [task.schema.natural(table, names) for table in tables]
    panels = panels_of(ax, 5.2, 2.2, count=len(names), margin=0.6)
    for panel, name in zip(panels, names, strict=True):
        _draw_shift(panel, task.schema[name], [group[name] for group in groups])
    changing = int(explanation.checks.changed[first].any(axis=0).sum())
    if title is None and features is None and ax is None and changing > PANELS:
        title = f"the {PANELS} features that change most often, of {changing} that change"
    return finished(panels, [(Patch(**look), words) for words, look in GROUPS.items()], title, ax=ax)


def _names(e: Explanation, asked: str | Sequence[str] | None, ax: Axes | None) -> list[str]:
    if asked is None:
        usual = [count.feature.name for count in feature_counts(e)] or list(e.task.schema.mutable)
        return (usual or list(e.task.schema.names))[: PANELS if ax is None else 1]
    names, known = [asked] if isinstance(asked, str) else list(asked), e.task.schema.names
    faults = [Fault(f"feature {n!r}", "is not known", did_you_mean(n, known)) for n in names if n not in known]
    if not names:
        faults.append(Fault("features", "is empty", "Leave it out, or name one."))
    if ax is not None and len(names) > 1:
        faults.append(Fault("ax", f"is one axis for {len(names)} features", "Leave it out, or draw one at a time."))
    if faults:
        raise nothing(faults)
    return names


def _draw_shift(ax: Axes, feature: Feature, groups: Sequence[NDArray[Any]]) -> None:
    ax.set_title(shortened(feature.title, 28))
    if feature.is_number:
        ax.set_xlabel(shortened(feature.unit, 28) if feature.unit else "")
        _draw_number(ax, feature, [values[np.isfinite(values)] for values in groups])
    else:
        _draw_levels(ax, feature, [values[values >= 0] for values in groups])


def _draw_number(ax: Axes, feature: Feature, groups: Sequence[NDArray[np.float64]]) -> None:
    edges = _bar_edges(float(feature.step or 1), groups)
    for values, look in zip(groups, GROUPS.values(), strict=True):
        heights = np.bincount(np.searchsorted(edges[1:-1], values, side="right"), minlength=len(edges) - 1)
        ax.stairs(100 * heights / max(1, heights.sum()), edges, fill=True, **look)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.set_ylabel("per cent", fontsize=7.5)
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=feature.is_whole))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(feature, value)))


def _tick(feature: Feature, value: float) -> str:
    return feature.text(value) if feature.kind == "date" else f"{value:,.10g}".replace("-", "\N{MINUS SIGN}")


def _bar_edges(step: float, groups: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Edges of bars that are a whole number of steps wide, so that all hold the same number of values."""
    ends = [np.quantile(v, [TAIL, 1 - TAIL], method="nearest") for v in groups if len(v)] or [np.zeros(2)]
    low, high = min(float(e[0]) for e in ends), max(float(e[1]) for e in ends)
    width = step * max(1, ceil(((high - low) / step + 1) / BINS))
    count = max(1, ceil((high - low + step) / width - 1e-9))
    return np.asarray(low - step / 2 + width * np.arange(count + 1), dtype=np.float64)


def _draw_levels(ax: Axes, feature: Feature, groups: Sequence[NDArray[np.int64]]) -> None:
    counts = [np.bincount(codes, minlength=len(feature.levels)) for codes in groups]
    shares = np.array([100 * found / max(1, found.sum()) for found in counts])
    order = feature.order_of_levels(counts[0])
    common = set(np.argsort(-shares.max(axis=0), kind="stable")[: LEVELS - 1].tolist())
    shown = order if len(order) <= LEVELS else [code for code in order if code in common]
    names = [shortened(feature.level_title(feature.levels[code]), 22) for code in shown]
    others = len(feature.levels) - len(shown)
    rest = shares.sum(axis=1) - shares[:, shown].sum(axis=1)
    shares = np.column_stack([shares[:, shown], rest]) if others else shares[:, shown]
    names += [f"{others} others"] if others else []
    places = np.arange(len(names))
    for number, look in enumerate(GROUPS.values()):
        ax.barh(places + (number - 1) * 0.27, shares[number], height=0.22, zorder=2, **look)
    name_rows(ax, places, names, (len(places) - 0.45, -0.55))
    ax.set_xlim(0, 105)
    ax.set_xlabel("per cent")


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
