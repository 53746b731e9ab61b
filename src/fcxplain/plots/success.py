"""Success against changes: how many rows have a verified way with no more than so many changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ..errors import Fault
from ..explanation import Explanation
from .frame import add_key, add_title, settle
from .lettering import shortened
from .style import COLOURS, MARKERS, STROKES, figure_of, new_figure, our_style
from .subject import explained, nothing

MOST = len(COLOURS)
"""So many lines can be told apart."""


def success_by_changes(
    explanations: Explanation | Mapping[str, Explanation], *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the share of the rows asked that have a verified answer with at most so many changes.

    explanations: one, or several by name (of several methods, or preferences), a line each. Rows that have the class
        wanted already are not asked; a row without a verified answer never counts as a success.
    """
    named = explanations if isinstance(explanations, Mapping) else {"": explanations}
    curves = _curves({name: explained(e) for name, e in named.items()})
    with our_style():
        panel = new_figure(4.6, 3.2, layout="constrained").add_subplot() if ax is None else ax
        reach = max(len(curve) for curve in curves.values())
        for number, curve in enumerate(curves.values()):
            whole = np.concatenate([curve, np.full(reach - len(curve), curve[-1])])
            panel.plot(np.arange(reach), whole, drawstyle="steps-post", clip_on=False, **_look(number))
        panel.set_xlabel("features changed, at most")
        panel.set_ylabel("rows verified, per cent")
        panel.set_ylim(0, 105)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        add_key([panel], _key(list(curves)), own=ax is None)
        add_title(panel, title, own=ax is None)
        if ax is None:
            settle(figure_of(panel))
        return figure_of(panel)


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
    """Per cent of the rows asked that have a verified answer with at most 0, 1, 2, ... changes."""
    passed = e.checks.passed
    fewest = np.full(len(e), np.iinfo(np.int64).max)
    np.minimum.at(fewest, e.place[passed], e.checks.changes[passed])
    fewest = fewest[e.asked]
    most = int(e.checks.changes[passed].max(initial=1))
    return np.array([100 * float(np.mean(fewest <= count)) for count in range(most + 1)])


def _key(names: Sequence[str]) -> list[tuple[Line2D, str]]:
    lines = [(Line2D([], [], **_look(i)), shortened(name, 30)) for i, name in enumerate(names)]
    return lines if len(lines) > 1 or names[0] else []


def _look(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number], "linestyle": STROKES[number], "marker": MARKERS[number]}
