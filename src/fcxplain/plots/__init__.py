"""The library's plots, as matplotlib figures, and how to save them."""

from .changes import change_frequencies, distribution_shift
from .comparison import bars, trade_off
from .graph import causal_graph
from .history import loss_curves
from .studies import cost_per_row, study
from .style import save
from .success import path, success_by_changes

__all__ = [
    "bars",
    "causal_graph",
    "change_frequencies",
    "cost_per_row",
    "distribution_shift",
    "loss_curves",
    "path",
    "save",
    "study",
    "success_by_changes",
    "trade_off",
]
