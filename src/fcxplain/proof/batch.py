"""A batch of rows in the proofs: the region of each, the model as numbers, and the results so far.

The model is read once for all tasks that share it, and compared with it on every call: the numbers are kept as long as
they agree, since nothing may be claimed about a model that has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..classifier.checking import PROBE_ROWS
from ..classifier.reading.trees import TreeModel, agrees, compare, read_trees
from ..classifier.rows import legal_codes
from ..encoding import TableEncoder
from ..errors import ClassifierError
from ..explanation import check
from ..hashing import fingerprint
from ..region.region import Places
from ..rules.check import Bools
from ..schema import Natural
from ..schema.feature import MISSING
from ..task import Task
from .tree_cells import CellTrees, cell_trees

if TYPE_CHECKING:
    from ..classifier.reading.networks import ReluNetwork

# The number of training rows, and of random legal rows, on which a module must predict as its classifier does.
PROBES = 64
# Rows on which a model is compared whenever its trees are used: for its scores, and for its probabilities.
TO_READ = 2 * PROBE_ROWS
# Training rows and leaves on which trees are compared when they are read.
PROBED_ROWS, PROBED_LEAVES = 512, 2_048
# The share of missing values in some of these rows, for features that allow them.
GAPS = 0.25


class Reason(StrEnum):
    """How it was proved that a row has no counterfactual."""

    RULES = "rules"
    """The rules, bounds and immutables leave no legal row, whatever the model."""
    BOUND = "bound"
    """The model's score misses the target everywhere in the region."""
    TRIED = "tried"
    """The model was queried on every legal row."""


@dataclass(frozen=True)
class ProofLimits:
    """Limits on the effort for one row; see `prove`."""

    limit: int
    parts: int
    boxes: int
    asks: int
    until: float


class ProofBatch:
    """Rows, their targets, and what is proved about them; `witness` is in natural columns."""

    def __init__(
        self, task: Task, model: ModelReading, limits: ProofLimits, rows: pd.DataFrame, before: Natural, wanted: Any
    ) -> None:
        self.task, self.model, self.limits, self.rows, self.wanted = task, model, limits, rows, wanted
        self.outcomes = task.outcomes(wanted)
        self.region = task.region(before)
        self.uncertain = self.region.uncertain
        self.known = np.logical_and.reduce([f.is_number | (before[f.name] >= MISSING) for f in task.schema])
        """Rows without a level that is not in the schema."""
        self.whole = self.known & ~np.logical_or.reduce([f.is_missing(before[f.name]) for f in task.schema])
        """Of these, rows without missing values."""
        self.reason = np.full(len(wanted), "", dtype=object)
        self.possible, self.given_up = np.zeros((2, len(wanted)), dtype=bool)
        """Rows with a legal row that gets the class; and, where the model may not be asked, rows that may have one."""
        self.witness: dict[str, NDArray[Any]] = {n: v.copy() for n, v in before.items()}
        self.asked, self.calls = np.zeros(len(wanted), dtype=np.int64), 0
        self.notes: list[str] = []

    @property
    def open(self) -> Bools:
        """Rows about which nothing is known yet."""
        return np.asarray((self.reason == "") & ~self.possible & ~self.given_up)

    def spend(self, rows: Places, asked: Places, calls: int) -> None:
        """Count queries for some rows, and the rows that the model was shown."""
        self.asked[rows] += asked
        self.calls += calls

    def settle(self, rows: Places, reason: Reason) -> None:
        """Record that rows are proved to have no counterfactual."""
        self.reason[rows[~self.uncertain[rows]]] = reason

    def confirm(self, rows: Places, found: Bools, natural: Natural) -> None:
        """Record rows as possible if their witness passes every check, by the user's own model."""
        rows, natural = rows[found], {n: v[found] for n, v in natural.items()}
        if not self.limits.asks:
            self.given_up[rows] = True
            return
        if not len(rows):
            return
        checks = check(self.task, self.rows.iloc[rows], self.task.table(natural), self.wanted[rows])
        passed = checks.passed & checks.firm
        self.spend(rows, np.ones(len(rows), dtype=np.int64), len(rows))
        self.possible[rows[passed]] = True
        for name, values in natural.items():
            self.witness[name][rows[passed]] = values[passed]


@dataclass(frozen=True, eq=False)
class ModelReading:
    """A task's model as numbers: a network on an encoder's columns, or trees, or neither."""

    network: ReluNetwork | None
    encoder: TableEncoder
    trees: TreeModel | None
    notes: tuple[str, ...]
    """Why the model could not be read."""

    @classmethod
    def of(cls, task: Task, *, held: bool = True) -> ModelReading:
        """Read the model if possible. Without `held`, trees are not compared with the model again and prove nothing."""
        (network, encoder, notes), (trees, problems) = own_network(task), own_trees(task, held=held)
        return cls(network, encoder, trees, (*notes, *problems))

    def cells(self, task: Task, before: Natural) -> CellTrees:
        """The trees over the cells of a task's features, built once for all natural columns without off-grid values."""
        assert self.trees is not None
        columns = ((f, before[f.name]) for f in task.schema)
        key = (task.schema, *(np.unique(values[~f.on_grid(values)]).tobytes() for f, values in columns))
        model, known = task.readings.get("cells", (None, {}))
        if model is not self.trees or key not in known:
            # Rows with off-grid values have separate cells: only the last ones are cached.
            known = {k: v for k, v in known.items() if model is self.trees and not any(k[1:])}
            made = cell_trees(task, self.trees, before)
            task.readings["cells"] = self.trees, known | {key: made}
        found: CellTrees = task.readings["cells"][1][key]
        return found

    @property
    def shown(self) -> int:
        """The number of rows on which the model was queried to compare it with its trees."""
        return 0 if self.trees is None else TO_READ


def own_network(task: Task) -> tuple[ReluNetwork | None, TableEncoder, tuple[str, ...]]:
    """The classifier's module as numbers, if it can be read, the encoder of its columns, and otherwise the reasons."""
    classifier = task.classifier
    source = getattr(classifier, "encoder", None) or task.encoder
    encoder = TableEncoder().restore(task.schema, source.scale_, task.units, task.dtypes, source.usual_)
    if classifier.module is None or classifier.parts or source.names != encoder.names:
        return None, encoder, ()
    import torch

    from ..classifier.reading.networks import read_network

    numbers = [t.detach().double() for t in (*classifier.module.parameters(), *classifier.module.buffers())]
    mark = fingerprint(numbers, classifier.threshold, torch.get_float32_matmul_precision())
    if task.readings.get("network", ("",))[0] != mark:
        network = read_network(classifier.module, classifier.threshold, source.dtype_)
        network = network if network is not None and len(network.layers[-1].bias) == max(2, len(task.classes)) else None
        is_own = network is None or _is_own(network, task, encoder)
        problem = "the classifier's module predicts differently from the classifier, so it proves nothing"
        task.readings["network"] = mark, network if is_own else None, () if is_own else (problem,)
    _, known, notes = task.readings["network"]
    return known, encoder, notes


def _is_own(network: ReluNetwork, task: Task, encoder: TableEncoder) -> bool:
    """Whether module and classifier give rows the same class, except where rounding decides."""
    made_up = task.legal_rows(PROBES, seed=0)
    rows = pd.concat([task.read(task.train.iloc[:PROBES])[0], made_up], ignore_index=True)
    x = encoder.encode_array(task.schema.natural(rows)).astype(np.float64)
    logits = network.logits(x)
    size = max(network.sizes(row)[0].sum() + network.sizes(row)[1] for row in np.eye(logits.shape[1]))
    blurred = 2 * size * (1 + np.abs(x).max()) + network.slack
    if not task.classes:
        return bool((np.abs(logits[:, 1] - logits[:, 0] - task.predict(rows)) <= blurred).all())
    best = np.sort(logits, axis=1)
    clear = best[:, -1] - best[:, -2] > blurred
    return bool((task.class_names[logits.argmax(axis=1)] == task.predict(rows))[clear].all())


def own_trees(task: Task, *, held: bool = True) -> tuple[TreeModel | None, tuple[str, ...]]:
    """The trees of a task's classifier, if they can be read, and otherwise the reasons.

    They are compared with the model on a few rows each time, and when they are read on many rows in all its regions.
    """
    classifier = task.classifier
    if classifier.module is not None:
        return None, ()
    known: TreeModel | None = task.readings.get("trees")
    if known is not None and not held:
        return known, ()
    few = task.legal_rows(PROBE_ROWS, seed=0)
    if known is not None and agrees(classifier, known, few):
        return known, ()
    model, notes = read_trees(classifier, few)
    if model is None:
        return None, notes
    try:
        compare(classifier, model, _probes(task, model))
    except (ValueError, ClassifierError) as error:
        return None, (f"nothing is proved by the trees of {classifier.name}: {error}",)
    task.readings["trees"] = model
    return model, notes


def _probes(task: Task, model: TreeModel) -> pd.DataFrame:
    """Training rows, the same with one feature changed, and the same with values just inside the bounds of a leaf."""
    generator = np.random.default_rng(0)
    usual = task.sample[generator.permutation(len(task.sample))[:PROBED_ROWS]]
    beside, every = usual.copy(), np.arange(len(usual))
    feature = generator.integers(len(task.schema), size=len(usual))
    beside[every, feature] = legal_codes(task.schema, len(usual), generator)[every, feature]
    trees = cell_trees(task, model, {f.name: f.at(np.empty(0, dtype=np.int64)) for f in task.schema})
    leaves = generator.permutation(len(trees.uses))[:PROBED_LEAVES]
    inside = usual[generator.integers(len(usual), size=len(leaves))]
    for i, (grid, block, sets) in enumerate(zip(trees.grids, trees.blocks, trees.masks, strict=True)):
        for line, use in np.argwhere((trees.uses[leaves] >= block.start) & (trees.uses[leaves] < block.stop)).tolist():
            cells = np.flatnonzero(sets[trees.uses[leaves[line], use] - block.start])
            first, last = grid.first[cells], grid.last[cells]
            if not ((first <= inside[line, i]) & (inside[line, i] <= last)).any():
                inside[line, i] = generator.choice([first, last][generator.integers(2)])
    table = task.encoder.from_codes(np.concatenate([usual, beside, inside]))
    gaps = _with_gaps(task, task.encoder.natural_of_codes(usual), generator)
    return table if gaps is None else pd.concat([table, gaps], ignore_index=True)


def _with_gaps(task: Task, natural: dict[str, NDArray[Any]], generator: np.random.Generator) -> pd.DataFrame | None:
    """Rows with some values missing, for features that allow it."""
    features = [f for f in task.schema if f.missing in ("kept", "may_be_filled")]
    for feature in features:
        values = natural[feature.name]
        gap = np.nan if feature.is_number else MISSING
        natural[feature.name] = np.where(generator.random(len(values)) < GAPS, gap, values)
    return task.table(natural) if features else None
