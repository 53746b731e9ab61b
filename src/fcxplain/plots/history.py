"""The course of a training run: the paper's eight panels of losses, epoch by epoch."""

from __future__ import annotations

from math import nan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ..errors import DataError, Fault, did_you_mean, some
from ..training_loop import Epoch, History
from .style import COLOURS, MARKERS, QUIET, STROKES, add_key, add_title, figure_of, new_figure, our_style, plain, settle

# The paper's panels in the paper's order and words, and our names of their terms.
PANELS = {
    "total": "Training and validation loss",
    "hard": "Hard constraint loss",
    "kl": "KL component",
    "proximity": "Reconstruction loss",
    "density": "LOF loss",
    "soft": "Soft causal loss",
    "sparsity": "Sparsity loss",
    "validity": "Validity loss",
}
PARTS = ("train", "validation")
RING: dict[str, Any] = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "markeredgecolor": "black"}
MARGINS = {"left": 0.095, "right": 0.985, "bottom": 0.085, "wspace": 0.24, "hspace": 0.28}
MARKED = 12
"""So many points of a line get a marker, lest it becomes a string of beads."""


def loss_curves(
    history: History, term: str | None = None, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the total loss and its seven terms before weighing, on training and validation rows, over the epochs.

    term: draw this one alone (`total`, `hard`, `kl`, `proximity`, `density`, `soft`, `sparsity` or `validity`).
    ax: axes of your own, for one term; the total if none is named.

    The best epoch, by validation loss, is marked in every panel. A term that was not used has an empty panel.
    """
    best = history.best
    if best is None:
        raise DataError("the history has no epochs: train first, then draw")
    if term is not None and term not in PANELS:
        remedy = did_you_mean(term, PANELS) or f"There are {some(PANELS)}."
        raise DataError("loss_curves", [Fault(f"term {term!r}", "is not known", remedy)])
    with our_style():
        if term is None and ax is None:
            return _all_terms(history, best, title)
        return _one_term(history, best, term or "total", ax, title)


def _all_terms(history: History, best: Epoch, title: str | None) -> Figure:
    figure = new_figure(7.2, 8.6 if title else 8.3)
    panels = figure.subplots(4, 2, sharex=True, gridspec_kw=MARGINS | {"top": 0.925 if title else 0.965})
    for (term, words), letter, ax in zip(PANELS.items(), "abcdefgh", panels.flat, strict=True):
        ax.set_title(f"({letter}) {words}")
        ax.set_ylabel(term)
        _draw_term(ax, history, term, best)
    for ax in panels[-1]:
        _draw_epochs(ax, history)
    figure.legend(handles=_handles(best), loc="lower center", ncols=3, handlelength=3)
    if title:
        figure.suptitle(plain(title), fontsize=11, y=0.985)
    return figure


def _one_term(history: History, best: Epoch, term: str, ax: Axes | None, title: str | None) -> Figure:
    panel = new_figure(5.2, 3.2, layout="constrained").add_subplot() if ax is None else ax
    panel.set_ylabel(term)
    _draw_term(panel, history, term, best)
    _draw_epochs(panel, history)
    add_key([panel], [(line, str(line.get_label())) for line in _handles(best)], own=ax is None)
    add_title(panel, title or PANELS[term], own=ax is None)
    if ax is None:
        settle(figure_of(panel))
    return figure_of(panel)


def _draw_term(ax: Axes, history: History, term: str, best: Epoch) -> None:
    epochs = history.epochs
    if not any(term in getattr(epoch, part) for epoch in epochs for part in PARTS):
        ax.text(0.5, 0.5, "not used", transform=ax.transAxes, ha="center", va="center", color=QUIET, style="italic")
        ax.set_yticks([])
        ax.grid(False)
        return
    numbers = [epoch.number for epoch in epochs]
    ax.margins(y=0.08)
    ax.axvline(best.number, color=QUIET, linewidth=0.9, linestyle=":", zorder=1)
    for i, part in enumerate(PARTS):
        values = [getattr(epoch, part).get(term, nan) for epoch in epochs]
        ax.plot(numbers, values, markevery=max(1, len(epochs) // MARKED), **_look(i))
    lowest = best.validation.get(term, nan)
    ax.plot([best.number], [lowest], linestyle="none", **RING)


def _look(part: int) -> dict[str, Any]:
    return {"color": COLOURS[part], "linestyle": STROKES[part], "marker": MARKERS[part], "markersize": 3.5}


def _draw_epochs(ax: Axes, history: History) -> None:
    """Half an epoch of room at either side, so that a single epoch stands in the middle."""
    ax.set_xlabel("epoch")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    first, last = history.epochs[0].number, history.epochs[-1].number
    room = max(0.5, 0.03 * (last - first))
    ax.set_xlim(first - room, last + room)


def _handles(best: Epoch) -> list[Line2D]:
    lines = [Line2D([], [], label=words, **_look(i)) for i, words in enumerate(("training", "validation"))]
    return [*lines, Line2D([], [], color=QUIET, linestyle=":", label=f"best epoch ({best.number})", **RING)]
