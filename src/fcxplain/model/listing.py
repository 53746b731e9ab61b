"""An explainer for people to look over: its settings, what it was fitted to, and how its training went."""

from __future__ import annotations

from ..causal import CausalGraph
from ..markup import Glance, counted
from ..task import Task
from .cvae import Architecture
from .history import History
from .training import Schedule


def glance(
    settings: tuple[Architecture, Schedule, int],
    fitted: tuple[Task, CausalGraph, History] | None,
    preference: str,
) -> Glance:
    """A line of settings; of a fitted explainer also the task, the graph and the losses."""
    network, schedule, seed = settings
    rate = f"{schedule.epochs} epochs at {schedule.learning_rate:g}"
    state = "not fitted" if fitted is None else "fitted"
    headline = f"FCx({state}, latent {network.latent}, {rate}, seed {seed})"
    return Glance(headline) if fitted is None else Glance(headline, facts=_facts(*fitted, preference))


def _facts(task: Task, graph: CausalGraph, history: History, preference: str) -> tuple[tuple[str, str], ...]:
    wanted = "the other class" if task.target is None else repr(task.target)
    edges = counted(len(graph.directed) + len(graph.undirected), "edge")
    return (
        ("fitted to", f"{counted(len(task.train), 'row')}, {task.schema.summary}"),
        ("wanted", f"{wanted} from {getattr(task.classifier, 'name', 'the model')}"),
        ("rules", f"{len(task.rules):,}" if task.rules else "none"),
        ("causal graph", edges),
        ("training", history.told),
        ("answers", preference),
    )
