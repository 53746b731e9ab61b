"""Every picture that the library draws, as matplotlib figures, and how to save them."""

from .comparison import bars
from .graph import causal_graph
from .history import loss_curves
from .saving import save
from .studies import study
from .trade import trade_off

__all__ = ["bars", "causal_graph", "loss_curves", "save", "study", "trade_off"]
