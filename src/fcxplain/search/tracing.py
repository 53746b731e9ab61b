"""The parts of a torch module in the order in which a row goes through them.

Sequences are opened, and a module of the user's own is traced (torch.fx). A part that is not understood stays as it is,
so that whoever reads the parts sees that there is one.
"""

from __future__ import annotations

import itertools

import torch
import torch.fx
from torch import nn

from ..classifier.torch_modules import LogProbabilities, SecondLogit, evaluating

RELUS = (torch.relu, nn.functional.relu, "relu")
SIGMOIDS = (torch.sigmoid, nn.functional.sigmoid, "sigmoid")
SQUEEZES = (torch.squeeze, "squeeze")


def parts_of(module: nn.Module) -> list[nn.Module]:
    """The module as a list of parts, one after the other, as it computes in evaluation mode."""
    if is_hooked(module):
        return [module]
    if type(module) is nn.Sequential:
        return [part for child in module for part in parts_of(child)]
    if type(module) in (nn.Identity, nn.Dropout):
        return []
    is_known = type(module).__module__.startswith("torch.nn.") or isinstance(module, LogProbabilities | SecondLogit)
    traced = None if is_known else _traced(module)
    return [module] if traced is None else traced


def is_hooked(module: nn.Module) -> bool:
    """Whether something else is done whenever the module is called."""
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _traced(module: nn.Module) -> list[nn.Module] | None:
    """The parts of a module whose steps each take nothing but what the step before has made; else None."""
    try:
        with evaluating(module):
            graph = torch.fx.Tracer().trace(module)
    except Exception:
        # It is the user's code that runs here, with stand-ins for tensors: it may fail in any way.
        return None
    nodes = list(graph.nodes)
    if [n.op for n in nodes].count("placeholder") != 1 or nodes[0].op != "placeholder":
        return None
    parts: list[nn.Module] = []
    for previous, node in itertools.pairwise(nodes):
        if node.all_input_nodes != [previous] or not node.args or node.args[0] is not previous:
            return None
        if node.op == "output":
            return parts
        step = _step(node, module)
        if step is None:
            return None
        parts += step
    return None


def _step(node: torch.fx.Node, module: nn.Module) -> list[nn.Module] | None:
    if node.op == "call_module":
        return parts_of(module.get_submodule(str(node.target))) if len(node.args) == 1 and not node.kwargs else None
    more = [*node.args[1:], *node.kwargs.values()]
    if node.target in RELUS:
        return [nn.ReLU()]
    if node.target in SIGMOIDS and not more:
        return [nn.Sigmoid()]
    if node.target in SQUEEZES and more in ([1], [-1]):
        return [nn.Flatten(0)]
    is_off = node.target is nn.functional.dropout and node.kwargs.get("training") is False
    return [] if is_off else None
