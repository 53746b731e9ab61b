"""Values that the shell completes. They are written out here, since asking for them would load torch at each tab key.

Where nothing is offered, the shell completes names of files. A test holds these lists against what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

DATA_SETS = ("adult", "adult-authors", "census", "law", "folktables")
RULES = ("unary", "binary")
CLASSIFIERS = ("paper", "mlp", "logistic", "boosting")
PREFERENCES = ("fewest", "sparse", "balanced", "plausible")
CONVENTIONS = ("ours", "authors")
METHODS = (
    *("fcx", "fcx-fewest", "fcx-sparse", "fcx-plausible", "fcx-u", "fcx-b"),
    *("mahajan-unary", "mahajan-binary", "revise", "cchvae", "cem", "dice-random", "face", "vcnet", "fcegan", "ceils"),
)
STUDIES = ("latent", "lof-k", "pc-alpha", "hyperparameters", "components", "curves")
SPEEDS = ("tables", "training", "growth", "explaining", "streaming", "compare", "memory")
METRICS = (
    *("validity", "validity_soft", "feasibility", "success", "success_possible"),
    *("continuous_proximity", "categorical_proximity", "sparsity"),
    *("lof", "outliers", "lof_raw", "lof_to_data", "outliers_to_data", "supported"),
    *("diversity", "diversity_pairs", "optimality_gap", "rows_per_second", "calls_per_row"),
)

Completer = Callable[[str], list[str]]


def one_of(names: Sequence[str]) -> Completer:
    """Completes one name."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def several_of(names: Sequence[str]) -> Completer:
    """Completes the last of several names with commas between them."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in given]

    return complete


data_sets, some_data_sets = one_of(DATA_SETS), several_of(DATA_SETS)
rules = one_of(RULES)
classifiers, some_classifiers = one_of(CLASSIFIERS), several_of(CLASSIFIERS)
preferences = one_of(PREFERENCES)
conventions = one_of(CONVENTIONS)
methods = several_of((*METHODS, "all"))
studies = several_of(STUDIES)
speeds = several_of(SPEEDS)
metrics = several_of(METRICS)
