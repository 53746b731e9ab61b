"""The paper's six ablation studies (its section 6.4), and the search for settings, each as a list of jobs.

A study varies one setting of FCx as published and leaves the rest unchanged; its points are the values it tries. The
weights are those of the authors' notebooks: with ours, most terms are so small a part of the loss that leaving one out,
or varying it, would have no visible effect. The share of each term is given next to the figures.

Tuning is a random search: the same number of tries for every method, including ours, judged on validation rows. A try
is a job like any other, with its own line in the results. The first try uses the default settings; the others draw each
setting from its range, by the seed, the method and the number of the try. The best try has the most success (valid,
feasible and legal, of rows to explain) and, among equals, the fewest changes; means over rule sets and seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets import DATASETS
from ..datasets.base import PublishedSettings
from ..errors import DataError, Fault, unknown
from .plan import Job, as_settings, check_names, entry, part_seed, unique
from .results import Result

Points = Mapping[str, Mapping[str, Any]]
"""The points of a study: changes to the method's parameters, by the name of the point."""

LATENT = (2, 5, 10, 20, 30, 40)
NEIGHBOURS = (5, 10, 15, 20, 30, 50, 70, 100)
ALPHAS = (0.001, 0.01, 0.05, 0.1)
RATES = (0.001, 0.01, 0.1)
EPOCHS = (25, 50)
BATCHES = (256, 2048)
# Success, and whether it comes from giving everyone the same few answers.
FEW = ("success", "diversity", "category_combinations")
SHARES = ("feasibility_soft", "feasibility", "validity_soft", "validity", *FEW)
# The share of each term in the loss.
LOSS = tuple(f"share_{n}" for n in ("proximity", "validity", "kl", "hard", "soft", "sparsity", "density", "sums"))


@dataclass(frozen=True)
class Study:
    """One study: its question, the paper's answer, the points it tries, and the figures that answer it.

    `points` derives the points from the paper's settings for a data set; `chosen` names the points that match the
    paper's final choice.
    """

    name: str
    title: str
    question: str
    paper: str
    points: Callable[[PublishedSettings], Points]
    figures: tuple[str, ...]
    chosen: Callable[[PublishedSettings], tuple[str, ...]] = lambda known: ()
    axis: str = ""
    """The quantity that the points vary, if they are numbers."""
    history: bool = False
    methods: tuple[str, ...] = ("fcx-b-authors",)
    neighbours: tuple[int, ...] = ()
    """Numbers of neighbours used in the metric."""


def _hyperparameters(known: PublishedSettings) -> Points:
    grid = [
        {"schedule__learning_rate": rate, "schedule__epochs": epochs, "schedule__batch": batch}
        for rate in sorted({*RATES, known.learning_rate})
        for epochs in EPOCHS
        for batch in BATCHES
    ]
    return {_schedule_name(*point.values()): point for point in grid}


def _schedule_name(rate: float, epochs: float, batch: float) -> str:
    return f"rate {rate:g}, {epochs} epochs, batch {batch}"


def _components(known: PublishedSettings) -> Points:
    """Points that leave out terms; the others keep their weights."""
    without = {
        "baseline": ("sparsity", "density", "soft"),
        "baseline+sparsity": ("density", "soft"),
        "baseline+lof": ("sparsity", "soft"),
        "baseline+sparsity+lof": ("soft",),
        "all": (),
    }
    return {name: {f"loss_weights__{term}": 0.0 for term in terms} for name, terms in without.items()}


STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Study(
            "latent",
            "Size of the latent space",
            "With how many dimensions are counterfactuals most often feasible?",
            "Best with 10 for Adult and Law, 30 for KDD-Census and 40 for Folktables (a figure without numbers).",
            lambda known: {str(n): {"architecture__latent": n} for n in sorted({*LATENT, known.latent})},
            SHARES,
            chosen=lambda known: (str(known.latent),),
            axis="dimensions of the latent space",
        ),
        Study(
            "lof-k-metric",
            "Neighbours in the LOF metric",
            "How do the LOF score and the number of outliers depend on the k that they are counted with?",
            "Its figure over k varies this k, not that of the training; it has no numbers.",
            lambda known: {"": {}},
            tuple(f"{name}_k{k}" for k in NEIGHBOURS for name in ("lof", "outliers")),
            neighbours=NEIGHBOURS,
        ),
        Study(
            "lof-k-loss",
            "Neighbours in the LOF term",
            "How do the LOF score and the number of outliers depend on the k that training uses?",
            "It chooses 20 for Adult, 50 for KDD-Census, 15 for Law and 70 for Folktables. "
            "Here the metric keeps its own k, 20, so that the points are comparable.",
            lambda known: {str(k): {"terms__lof_k": k} for k in sorted({*NEIGHBOURS, known.lof_k})},
            ("lof_authors", "outliers_authors", "lof_to_data", "outliers_to_data", "share_density", *SHARES),
            chosen=lambda known: (str(known.lof_k),),
            axis="k in the LOF term",
        ),
        Study(
            "pc-alpha",
            "Robustness to the PC algorithm's significance level",
            "How much does feasibility vary with the graph that discovery finds?",
            "The mean and the deviation of feasibility over the four levels, below each table; of which of its two "
            "models, it does not say.",
            lambda known: {f"{alpha:g}": {"significance": alpha} for alpha in ALPHAS},
            ("graph_edges", *SHARES, "share_soft"),
            axis="significance level alpha",
        ),
        Study(
            "hyperparameters",
            "Learning rate, epochs and batch size",
            "Which schedule trains best?",
            "The settings it chose (learning rates of 0.1 and 0.2, 25 or 50 epochs); the batch size is not given. "
            "In the pictures, 25 x 256 means 25 epochs with batches of 256 rows.",
            _hyperparameters,
            (*SHARES, "seconds_per_epoch"),
            chosen=lambda known: tuple(_schedule_name(known.learning_rate, known.epochs, b) for b in BATCHES),
        ),
        Study(
            "components",
            "Components of the loss",
            "What does each term contribute to feasibility, and what does it cost?",
            "Baseline is proximity, validity and the hard rules; the KL term belongs to the autoencoder and is always "
            "there, and so is the sum-to-one term of the authors' code. The paper gives no figures for the baseline "
            "alone. Its seconds are its own machine's; ours are CPU seconds on one thread.",
            _components,
            (*SHARES, *LOSS, "seconds_per_epoch"),
            chosen=lambda known: ("all",),
        ),
        Study(
            "curves",
            "Losses while training",
            "How do the loss and its terms develop on training and validation rows?",
            "Eight curves without numbers: the loss falls within 5 to 10 epochs and stays; KL rises, then settles.",
            lambda known: {"": {}},
            ("feasibility_soft", "validity_soft", "success"),
            history=True,
            methods=("fcx-u-authors", "fcx-b-authors"),
        ),
    )
}


def plan_studies(
    studies: Iterable[str],
    data: Iterable[str],
    seeds: Iterable[int] = (0,),
    *,
    methods: Iterable[str] | None = None,
    **sample: Any,
) -> list[Job]:
    """The jobs of some studies on some data sets; those that share a black box come one after the other.

    `sample` as in `plan`.
    """
    studies, data, seeds = unique(studies), unique(data), unique(seeds)
    methods = None if methods is None else unique(methods)
    if faults := unknown("study", studies, STUDIES):
        raise DataError("this cannot be studied", faults)
    check_names(data, methods or (), **sample)
    return [
        Job(
            name,
            method,
            rules,
            seed,
            as_settings(changes),
            history=study.history,
            neighbours=study.neighbours,
            study=study.name,
            point=point,
            **sample,
        )
        for name in data
        for seed in seeds
        for study in (STUDIES[chosen] for chosen in studies)
        for method in methods or study.methods
        for rules in entry(method).rules
        for point, changes in study.points(DATASETS[name].published[rules]).items()
    ]


TUNING = "tuning"
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
    random = np.random.default_rng(part_seed(seed, TUNING, method, str(number)))
    return {name: space.drawn(random) for name, space in SPACES[method].items()} if number else {}


def plan_tuning(
    data: Iterable[str],
    methods: Iterable[str] = tuple(SPACES),
    seeds: Iterable[int] = (0,),
    *,
    tries: int = TRIES,
    search_seed: int = 0,
    **sample: Any,
) -> list[Job]:
    """The tries of each method on each data set, on validation rows; `sample` as in `plan`."""
    data, methods, seeds = unique(data), unique(methods), unique(seeds)
    faults = unknown("method to tune", methods, SPACES)
    faults += [Fault("tries", f"are {tries}", "Give at least 2.")] if tries < 2 else []
    if faults:
        raise DataError("this cannot be tuned", faults)
    check_names(data, methods, **sample)
    return [
        Job(
            name,
            method,
            rules,
            seed,
            as_settings(settings_of(method, number, search_seed)),
            study=TUNING,
            point=str(number),
            part="validation",
            **sample,
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
        if result.job.study == TUNING:
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
    success, changes = (
        float(np.mean([line.figures.get(name, np.inf) for line in lines])) for name in ("success", "sparsity")
    )
    return success, changes
