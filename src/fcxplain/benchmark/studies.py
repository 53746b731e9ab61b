"""The paper's six ablation studies (its section 6.4), each as a list of jobs.

A study varies one setting of FCx as published and leaves the rest unchanged; its points are the values it tries. The
weights are those of the authors' notebooks: with ours, most terms are so small a part of the loss that leaving one out,
or varying it, would have no visible effect. The share of each term is given next to the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..datasets import DATASETS
from ..datasets.base import PublishedSettings
from ..errors import DataError, unknown
from .plan import EXPLAINED, Job, as_settings, check_names, entry, unique

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
    rows: int | None = None,
    classifier: str = "paper",
    explained: int | None = EXPLAINED,
) -> list[Job]:
    """The jobs of some studies on some data sets; those that share a black box come one after the other."""
    studies, data, seeds = unique(studies), unique(data), unique(seeds)
    methods = None if methods is None else unique(methods)
    faults = unknown("study", studies, STUDIES)
    if faults:
        raise DataError("this cannot be studied", faults)
    check_names(data, methods or (), classifier, rows, explained)
    return [
        Job(
            data=name,
            method=method,
            rules=rules,
            seed=seed,
            settings=as_settings(changes),
            rows=rows,
            classifier=classifier,
            explained=explained,
            history=STUDIES[study].history,
            neighbours=STUDIES[study].neighbours,
            study=study,
            point=point,
        )
        for name in data
        for seed in seeds
        for study in studies
        for method in methods or STUDIES[study].methods
        for rules in entry(method).rules
        for point, changes in STUDIES[study].points(DATASETS[name].published[rules]).items()
    ]
