"""Losses of a training run by epoch, in the paper's eight panels."""

from __future__ import annotations

from math import nan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ..errors import DataError, unknown
from ..training_loop import Epoch, History
from .style import QUIET, finished, line_look, new_figure, our_style, panels_of, plain

# The paper's panels in its order and wording, by our names of the terms.
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
"""The approximate number of markers on a line."""


@our_style()
def loss_curves(
    history: History, term: str | None = None, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the total loss and its seven unweighted terms, on training and validation rows, by epoch.

    The best epoch, by validation loss, is marked in every panel. A term that was not used has an empty panel.

    Parameters
    ----------
    history
        The losses of a training run, as in `fcx.history_`.
    term
        Draw only this term (`total`, `hard`, `kl`, `proximity`, `density`, `soft`, `sparsity` or `validity`).
    ax
        Your own axes, for one term; the total by default.
    title
        The title of the figure.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If the history has no epochs, or the term is unknown.

    Examples
    --------
    >>> from fcxplain import plots
    >>> figure = plots.loss_curves(fcx.history_)  # doctest: +SKIP
    >>> figure = plots.loss_curves(fcx.history_, "validity")  # doctest: +SKIP
    """
    best = history.best
    if best is None:
        raise DataError("the history has no epochs. Train first, then plot")
    faults = unknown("term", [] if term is None else [term], PANELS)
    if faults:
        raise DataError("loss_curves", faults)
    if term is None and ax is None:
        return _all_terms(history, best, title)
    term, (panel,) = term or "total", panels_of(ax, 5.2, 3.2)
    _draw_term(panel, history, term, best)
    _draw_epochs(panel, history)
    key = [(line, str(line.get_label())) for line in _handles(best)]
    return finished([panel], key, title or PANELS[term], ax=ax)


def _all_terms(history: History, best: Epoch, title: str | None) -> Figure:
    figure = new_figure(7.2, 8.6 if title else 8.3)
    panels = figure.subplots(4, 2, sharex=True, gridspec_kw=MARGINS | {"top": 0.925 if title else 0.965})
    for (term, words), letter, ax in zip(PANELS.items(), "abcdefgh", panels.flat, strict=True):
        ax.set_title(f"({letter}) {words}")
        _draw_term(ax, history, term, best)
    for ax in panels[-1]:
        _draw_epochs(ax, history)
    figure.legend(handles=_handles(best), loc="lower center", ncols=3, handlelength=3)
    if title:
        figure.suptitle(plain(title), fontsize=11, y=0.985)
    return figure


def _draw_term(ax: Axes, history: History, term: str, best: Epoch) -> None:
    epochs = history.epochs
    ax.set_ylabel(term)
    if not any(term in getattr(epoch, part) for epoch in epochs for part in PARTS):
        ax.text(0.5, 0.5, "not used", transform=ax.transAxes, ha="center", va="center", color=QUIET, style="italic")
        ax.set_yticks([])
        ax.grid(False)
        return
    ax.margins(y=0.08)
    ax.axvline(best.number, color=QUIET, linewidth=0.9, linestyle=":", zorder=1)
    for i, part in enumerate(PARTS):
        values = [getattr(epoch, part).get(term, nan) for epoch in epochs]
        every = max(1, len(epochs) // MARKED)
        ax.plot([epoch.number for epoch in epochs], values, markevery=every, markersize=3.5, **line_look(i))
    ax.plot([best.number], [best.validation.get(term, nan)], linestyle="none", **RING)


def _draw_epochs(ax: Axes, history: History) -> None:
    """Leave half an epoch of space on either side, so that a single epoch is centred."""
    ax.set_xlabel("epoch")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    first, last = history.epochs[0].number, history.epochs[-1].number
    room = max(0.5, 0.03 * (last - first))
    ax.set_xlim(first - room, last + room)


def _handles(best: Epoch) -> list[Line2D]:
    words = ("training", "validation")
    lines = [Line2D([], [], label=word, markersize=3.5, **line_look(i)) for i, word in enumerate(words)]
    return [*lines, Line2D([], [], color=QUIET, linestyle=":", label=f"best epoch ({best.number})", **RING)]
