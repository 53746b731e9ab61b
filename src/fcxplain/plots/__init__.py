"""The library's plots, as matplotlib figures, and how to save them."""

from .answers import change_frequencies, distribution_shift, path, success_by_changes
from .comparison import bars, trade_off
from .curves import cost_per_row, loss_curves, study
from .graph import causal_graph
from .style import save

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
