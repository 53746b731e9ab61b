"""Every picture that the library draws, as matplotlib figures, and how to save them."""

from .comparison import bars
from .frequencies import change_frequencies
from .graph import causal_graph
from .growth import cost_per_row
from .history import loss_curves
from .saving import save
from .shift import distribution_shift
from .studies import study
from .success import success_by_changes
from .trade import trade_off
from .waterfall import path

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
