"""The contract: what an explainer promises, tested on your own model, rules and table (`check_explainer`)."""

from .items import ContractError, ContractReport, Item
from .suite import check_explainer

__all__ = ["ContractError", "ContractReport", "Item", "check_explainer"]
