"""Random search for settings: the same number of tries for every method, including ours, judged on validation rows.

A try is a job like any other, with its own line in the results. The first try uses the default settings; the others
draw each setting from its range, by the seed, the method and the number of the try. The best try has the most success
(valid, feasible and legal, of rows to explain) and, among equals, the fewest changes; means over rule sets and seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DataError, Fault, unknown
from .plan import EXPLAINED, Job, as_settings, check_names, entry, part_seed, unique
from .results import Result

STUDY = "tuning"
TRIES = 20


@dataclass(frozen=True)
class SettingRange:
    """Values of a setting: between two bounds, uniform on a logarithmic scale; or some to choose from."""

    low: float = 0.0
    high: float = 0.0
    choices: tuple[Any, ...] = ()

    def drawn(self, random: np.random.Generator) -> Any:
        """Draw a value; it has three digits, so that it is easy to write down."""
        share = random.random()
        if self.choices:
            return self.choices[int(share * len(self.choices))]
        return float(f"{self.low * (self.high / self.low) ** share:.3g}")


PUBLISHED_WEIGHTS = {
    "loss_weights__proximity": SettingRange(0.3, 10.0),
    "loss_weights__validity": SettingRange(10.0, 300.0),
    "loss_weights__kl": SettingRange(0.1, 10.0),
    "loss_weights__hard": SettingRange(30.0, 1000.0),
    "loss_weights__soft": SettingRange(0.001, 10.0),
    "loss_weights__sparsity": SettingRange(0.3, 10.0),
    "loss_weights__density": SettingRange(0.01, 10.0),
    "terms__margin": SettingRange(0.1, 0.9),
}
# The settings to search, and their ranges, around each method's own settings.
SPACES: dict[str, dict[str, SettingRange]] = {
    "fcx-u": PUBLISHED_WEIGHTS,
    "fcx-b": PUBLISHED_WEIGHTS | {"terms__beta": SettingRange(1.0, 30.0)},
    "fcx-draw": {
        "loss_weights__proximity": SettingRange(0.1, 3.0),
        "loss_weights__validity": SettingRange(5.0, 100.0),
        "loss_weights__hard": SettingRange(3.0, 100.0),
        "loss_weights__soft": SettingRange(0.01, 1.0),
        "loss_weights__sparsity": SettingRange(0.5, 10.0),
        "loss_weights__density": SettingRange(0.001, 0.1),
        "loss_weights__imitation": SettingRange(1.0, 20.0),
    },
    "fcegan": {
        "divergence": SettingRange(0.3, 30.0),
        "classification": SettingRange(0.3, 10.0),
        "penalty": SettingRange(3.0, 30.0),
        "temperature": SettingRange(0.1, 1.0),
        "learning_rate": SettingRange(1e-4, 1e-3),
    },
    "vcnet": {
        "beta": SettingRange(0.01, 1.0),
        "latent": SettingRange(choices=(8, 12, 19, 30)),
        "learning_rate": SettingRange(3e-4, 3e-3),
        "steps": SettingRange(choices=(3000, 6000, 12000)),
        "immutable": SettingRange(choices=(True, False)),
    },
}


def settings_of(method: str, number: int, seed: int = 0) -> dict[str, Any]:
    """The settings of a try; try 0 changes nothing."""
    random = np.random.default_rng(part_seed(seed, STUDY, method, str(number)))
    return {name: space.drawn(random) for name, space in SPACES[method].items()} if number else {}


def plan_tuning(
    data: Iterable[str],
    methods: Iterable[str] = tuple(SPACES),
    seeds: Iterable[int] = (0,),
    *,
    tries: int = TRIES,
    search_seed: int = 0,
    rows: int | None = None,
    classifier: str = "paper",
    explained: int | None = EXPLAINED,
) -> list[Job]:
    """The tries of each method on each data set, on validation rows."""
    data, methods, seeds = unique(data), unique(methods), unique(seeds)
    faults = unknown("method to tune", methods, SPACES)
    faults += [Fault("tries", f"are {tries}", "Give at least 2.")] if tries < 2 else []
    if faults:
        raise DataError("this cannot be tuned", faults)
    check_names(data, methods, classifier, rows, explained)
    return [
        Job(
            name,
            method,
            rules,
            seed,
            as_settings(settings_of(method, number, search_seed)),
            rows=rows,
            classifier=classifier,
            explained=explained,
            study=STUDY,
            point=str(number),
            part="validation",
        )
        for name in data
        for seed in seeds
        for method in methods
        for number in range(tries)
        for rules in entry(method).rules
    ]


@dataclass(frozen=True)
class Tuned:
    """The best try of a method on a data set, and the success of the default settings."""

    data: str
    method: str
    tries: int
    settings: Mapping[str, Any]
    success: float
    changes: float
    before: float | None
    """The success of the first try."""


def best_tries(results: Iterable[Result]) -> list[Tuned]:
    """The best try of each method on each data set."""
    groups: dict[tuple[str, str], dict[str, list[Result]]] = {}
    for result in results:
        if result.job.study == STUDY:
            points = groups.setdefault((result.job.data, result.job.method), {})
            points.setdefault(result.job.point, []).append(result)
    return [_best(*named, points) for named, points in groups.items() if any(map(_judged, points.values()))]


def tuned_settings(results: Iterable[Result]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The settings changed by the best tries, by data set and method."""
    return {(best.data, best.method): best.settings for best in best_tries(results)}


def _best(data: str, method: str, points: Mapping[str, list[Result]]) -> Tuned:
    judged = {point: found for point, lines in points.items() if (found := _judged(lines))}
    # The earliest of equals, so that settings change only for a reason.
    point = min(judged, key=lambda p: (-judged[p][0], judged[p][1], int(p)))
    success, changes = judged[point]
    before = judged["0"][0] if "0" in judged else None
    return Tuned(data, method, len(points), dict(points[point][0].job.settings), success, changes, before)


def _judged(lines: list[Result]) -> tuple[float, float] | None:
    """Success and changes of a try, as means over rule sets and seeds; None if any of its runs failed."""
    if any(line.failure for line in lines):
        return None
    means = (float(np.mean([line.figures.get(name, np.inf) for line in lines])) for name in ("success", "sparsity"))
    success, changes = means
    return success, changes
