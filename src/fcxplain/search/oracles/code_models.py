"""Models as functions of codes: what the values of features add up to is looked up, and scores are made of the sum.

That takes no table and no preprocessing. A linear model or a perceptron looks up what each value adds to its first
layer; trees look up a place in one table for each tree, in which every combination of cells has its leaf's score.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...classifier.estimators import Asking
from ...classifier.imitation import ImitatingTrees
from ...classifier.protocol import CheckedClassifier, Classifier
from ...classifier.reading.ensembles import Read, read, reader_of, refuse_replaced
from ...classifier.reading.layers import Layers, is_layered, read_layers
from ...classifier.reading.pipeline import ColumnValues, column_values, final_step
from ...classifier.reading.trees import UNREADABLE, Trees
from ...classifier.reading.trees import joined as joined_trees
from ...classifier.rows import model_rows
from ...errors import ClassifierError
from ...outcome import CERTAIN
from ...proof.tree_cells import MOST_VALUES, CellSides, cell_sides
from ...schema import Feature, Natural
from ...schema.feature import MISSING
from ..space import Bools, Codes, Floats, Rows, SearchSpace

CALIBRATED = "CalibratedClassifierCV"
# Entries of one table, and of all tables. A tree that would need more is cut in pieces, which are summed.
MOST_ENTRIES, ALL_ENTRIES = 2**15, 2**23
# Ensembles of more pieces, or more leaves to make them of, take longer to look up than they are worth.
MOST_PIECES, MOST_LEAVES = 1_000, 2**14
# Entries of the lines that features share which are looked up together, and places summed at a time.
GROUPED, LOOKED_UP = 2**19, 2**19
# Grids with more values than this have no line for each value.
TABLE = 4_096
# Batches of values off the grid whose columns are remembered.
REMEMBERED = 64
# Legal rows that say what a model's trees leave out: a score that all rows begin with.
PROBES = 64


class CodeModel(Protocol):
    """A model as a function of codes."""

    additive: bool
    """Whether the second class's lead is itself a sum over features."""

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """Logarithms of what classes score, `n x classes`, for candidates: the largest is the most probable."""


class SummedCodes(ABC):
    """A model that begins with a sum of what the value of each feature adds."""

    space: SearchSpace
    start: Floats
    """What every sum begins with."""

    @abstractmethod
    def of_values(self, i: int, values: NDArray[Any]) -> Floats:
        """What values of a feature add, `n x width`."""

    @abstractmethod
    def of_codes(self, i: int, codes: Codes) -> Floats:
        """The same for values of the grid, by their codes."""

    @abstractmethod
    def scores(self, sums: Floats) -> Floats:
        """Logits of the sums, `n x classes`."""

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """See `CodeModel`."""
        sums = np.tile(self.start, (len(row), 1))
        for i, name in enumerate(self.space.names):
            code, stays = codes[:, i], codes[:, i] > self.space.tops[i]
            if present.off_grid_features[i] and stays.any():
                part = self.of_codes(i, np.where(stays, 0, code))
                sums += np.where(stays[:, None], self.of_values(i, present.natural[name])[row], part)
            else:
                sums += self.of_codes(i, code)
        return self.scores(sums)


def read_code_model(space: SearchSpace) -> CodeModel | None:
    """The task's model as a function of codes, where it is one that can be read; whether it agrees is not asked."""
    classifier, asking = space.task.classifier, _asking(space.task.classifier)
    if asking is None:
        return None

    def shown(rows: pd.DataFrame) -> Any:
        return asking.shown(model_rows(rows, classifier.schema, classifier.encoder))

    try:
        return _Reader(space).of(asking.model, shown)
    except UNREADABLE:
        return None


def is_readable(classifier: Classifier) -> bool:
    """Whether a classifier is of a kind that is read: trees that are known, or a linear model or a perceptron."""
    asking = _asking(classifier)
    if asking is None:
        return False
    try:
        _, last = final_step(asking.model)
    except UNREADABLE:
        return False
    if type(last).__name__ == CALIBRATED:
        return True
    return reader_of(last) is not None or is_layered(last)


def _asking(classifier: Classifier) -> Asking | None:
    """How the estimator behind a classifier is asked, if there is one."""
    answer = classifier.answer if isinstance(classifier, CheckedClassifier) else None
    return answer if isinstance(answer, Asking) else None


def imitating_code_model(space: SearchSpace, found: ImitatingTrees) -> CodeModel:
    """Something that answers nearly as the task's model does, as a function of codes."""
    codes = space.task.encoder.codes
    return TreeCodes(space, found.trees, found.base, lambda rows: found.columns(codes(rows)), shares=False)


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads the models of one task."""

    space: SearchSpace

    def of(self, model: Any, shown: Callable[[pd.DataFrame], Any]) -> CodeModel | None:
        """A fitted estimator on what `shown` makes of rows."""
        transform, last = final_step(model)

        def given(rows: pd.DataFrame) -> Any:
            return transform(shown(rows))

        if type(last).__name__ == CALIBRATED:
            return self._calibrated(last, given)
        if reader_of(last) is not None:
            return self._trees(read(last), given)
        layers = read_layers(last)
        return None if layers is None else LayerCodes(self.space, layers, lambda rows: _matrix(given(rows)))

    def _trees(self, known: Read, given: Callable[[pd.DataFrame], Any]) -> CodeModel:
        trees, probe = joined_trees(known.trees), given(self.space.task.legal_rows(PROBES, seed=0))
        base = np.median(known.raw(probe) - trees.sums(known.matrix(probe)), axis=0)

        def columns(rows: pd.DataFrame) -> Floats:
            return known.matrix(given(rows))

        try:
            return TreeCodes(self.space, trees, base, columns, shares=known.shares)
        except ClassifierError:
            if known.walk is None or not known.shares:
                raise
            return WalkedCodes(self.space, known.walk, columns)

    def _calibrated(self, model: Any, shown: Callable[[pd.DataFrame], Any]) -> CodeModel | None:
        refuse_replaced(model)
        parts, made = model.calibrated_classifiers_, []
        for part in parts:
            own = self.of(part.estimator, shown)
            if own is None:
                return None
            made.append((own, part.calibrators, hasattr(part.estimator, "decision_function")))
        return CalibratedCodes(made)


def _matrix(x: Any) -> Floats:
    return np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float64)


def _grids(space: SearchSpace) -> dict[str, NDArray[Any]]:
    if int(space.tops.sum()) > MOST_VALUES:
        raise ClassifierError(f"the features have more than {MOST_VALUES:,} legal values together")
    return {f.name: f.at(np.arange(top + 1)) for f, top in zip(space.features, space.tops.tolist(), strict=True)}


class LayerCodes(SummedCodes):
    """Layers on columns, each of one feature: its values add to the first layer."""

    def __init__(self, space: SearchSpace, layers: Layers, columns: Callable[[pd.DataFrame], Floats]) -> None:
        self.space, self.layers, self._values = space, layers, _Values(space, columns)
        known, weight = self._values.known, layers.weights[0]
        free = np.setdiff1d(np.arange(len(known.base)), np.concatenate([np.empty(0, dtype=np.int64), *known.owned]))
        self.start = layers.biases[0] + known.base[free] @ weight[free]
        self.additive = len(layers.weights) == 1 and weight.shape[1] <= 2
        self._weights = [weight[own] for own in known.owned]
        # Of large grids, the columns are kept, and multiplied when they are needed.
        self._columns = [values[:, own] for values, own in zip(known.values, known.owned, strict=True)]
        self._lines = [x @ w if len(x) <= TABLE else None for x, w in zip(self._columns, self._weights, strict=True)]

    def of_values(self, i: int, values: NDArray[Any]) -> Floats:
        """See `SummedCodes`."""
        return np.asarray(self._values.of(i, values)[:, self._values.known.owned[i]] @ self._weights[i])

    def of_codes(self, i: int, codes: Codes) -> Floats:
        """See `SummedCodes`."""
        lines = self._lines[i]
        return lines.take(codes, axis=0) if lines is not None else self._columns[i][codes] @ self._weights[i]

    def scores(self, sums: Floats) -> Floats:
        """See `SummedCodes`."""
        return self.layers.after_first(sums)


class WalkedCodes(SummedCodes):
    """Trees too many for tables: the columns that they ask about are looked up, and their own library walks them."""

    additive = False

    def __init__(
        self, space: SearchSpace, walk: Callable[[Floats], Floats], columns: Callable[[pd.DataFrame], Floats]
    ) -> None:
        self.space, self._walk, self._values = space, walk, _Values(space, columns)
        known = self._values.known
        self.start = known.base.copy()
        self.start[np.concatenate(known.owned)] = 0.0
        self._lines = [self._alone(i, values) for i, values in enumerate(known.values)]

    def _alone(self, i: int, columns: Floats) -> Floats:
        """The columns of one feature, and 0 for all others."""
        alone, own = np.zeros_like(columns), self._values.known.owned[i]
        alone[:, own] = columns[:, own]
        return alone

    def of_values(self, i: int, values: NDArray[Any]) -> Floats:
        """See `SummedCodes`."""
        return self._alone(i, self._values.of(i, values))

    def of_codes(self, i: int, codes: Codes) -> Floats:
        """See `SummedCodes`."""
        return self._lines[i].take(codes, axis=0)

    def scores(self, sums: Floats) -> Floats:
        """See `SummedCodes`: the sum of all columns, each of which is one feature's."""
        return np.asarray(np.log(np.clip(self._walk(sums), CERTAIN, 1.0)))


class _Values:
    """What a model's last estimator sees of every legal value of each feature, and of others."""

    def __init__(self, space: SearchSpace, columns: Callable[[pd.DataFrame], Floats]) -> None:
        self._table, self._columns, self._grids = space.task.table, columns, _grids(space)
        self._names = space.names
        self.known: ColumnValues = column_values(self._table, columns, self._grids)
        # The same rows are asked about again and again.
        self._of = lru_cache(maxsize=REMEMBERED)(self._shown)

    def of(self, i: int, values: NDArray[Any]) -> Floats:
        """The columns of the first row with a number at other values."""
        return self._of(i, np.asarray(values, dtype=np.float64).tobytes())

    def _shown(self, i: int, held: bytes) -> Floats:
        values: NDArray[Any] = np.frombuffer(held)
        values = values.astype(np.int64) if self._grids[self._names[i]].dtype.kind == "i" else values
        others: Natural = {n: np.full(len(values), grid[0]) for n, grid in self._grids.items()}
        return self._columns(self._table({**others, self._names[i]: values}))


@dataclass(frozen=True, eq=False)
class _Piece:
    """A part of a tree in one table: the features that it asks about, and the place of each of their cells in it."""

    features: tuple[int, ...]
    places: tuple[Codes, ...]
    """For each feature, and each of its cells, what it adds to the place."""
    table: Floats
    score: int
    """The class whose score it adds to."""


class TreeCodes:
    """Trees over cells. Each piece of a tree has a place in its table, and a score is the sum of what stands there.

    `shares`: scores are probabilities, not log-odds.
    """

    additive = False

    def __init__(
        self,
        space: SearchSpace,
        trees: Trees,
        base: Floats,
        columns: Callable[[pd.DataFrame], Floats],
        *,
        shares: bool,
    ) -> None:
        self.space, self.trees, self.base, self.columns, self.shares = space, trees, base, columns, shares
        self._values = {f.name: _gaps(f) for f in space.features}
        self._build()

    def _build(self) -> None:
        if (self.trees.asked < 0).sum() > MOST_LEAVES:
            raise ClassifierError(f"its trees have more than {MOST_LEAVES:,} leaves")
        self.sides: CellSides = cell_sides(self.space.task, self.trees.questions, self.columns, self._values)
        leaves = self.trees.scores
        # Of two classes, only the lead counts.
        scores = [leaves[:, 1] - leaves[:, 0]] if leaves.shape[1] == 2 else list(leaves.T)
        pieces = list(itertools.islice(_pieces(self.trees, self.sides, scores), MOST_PIECES + 1))
        sizes = [p.table.size for p in pieces]
        if len(pieces) > MOST_PIECES or sum(sizes) > ALL_ENTRIES:
            raise ClassifierError(f"its trees need more than {MOST_PIECES:,} tables")
        pieces.sort(key=lambda piece: piece.score)
        self._ends = np.searchsorted([p.score for p in pieces], np.arange(len(scores) + 1))
        self._entries = np.concatenate([p.table.ravel() for p in pieces])
        self.pieces, self._groups = len(pieces), self._grouped(pieces)
        self._ones = np.ones(max(LOOKED_UP, self.pieces))
        self._cells = [np.repeat(np.arange(len(g)), np.maximum(g.last - g.first + 1, 0)) for g in self.sides.grids]

    def _grouped(self, pieces: list[_Piece]) -> list[_Group]:
        """Features in groups, so that few look-ups make the place of a candidate in every table."""
        most, sizes = GROUPED // max(len(pieces), 1), [len(grid) for grid in self.sides.grids]
        lines = [np.zeros((size, len(pieces)), dtype=np.int32) for size in sizes]
        for number, piece in enumerate(pieces):
            for i, places in zip(piece.features, piece.places, strict=True):
                lines[i][:, number] = places
        groups = list[_Group]()
        for i in sorted(range(len(sizes)), key=lambda i: sizes[i]):
            if groups and len(groups[-1].lines) * sizes[i] <= most:
                groups[-1] = groups[-1].joined(i, lines[i])
            else:
                groups.append(_Group((i,), lines[i]))
        groups[0].lines[:] += np.cumsum([0, *(p.table.size for p in pieces[:-1])], dtype=np.int32)
        return groups

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """See `CodeModel`."""
        cells = self._cells_of(present, row, codes)
        lines = np.stack([group.line(cells) for group in self._groups])
        # Neighbours on a grid are often in the same cell.
        new = np.append(True, (lines[:, 1:] != lines[:, :-1]).any(axis=0))
        found, size = lines[:, new], max(1, LOOKED_UP // self.pieces)
        parts = [self._scores(found[:, start : start + size]) for start in range(0, found.shape[1], size)]
        return np.asarray(np.concatenate(parts)[new.cumsum() - 1])

    def _cells_of(self, present: Rows, row: Codes, codes: Codes) -> list[Codes]:
        """The cell of each feature of candidates."""
        off_grid = {i: present.off_grid[:, i] for i, some in enumerate(present.off_grid_features) if some}
        values = {i: present.natural[self.space.names[i]][where] for i, where in off_grid.items()}
        self._learn(values)
        legal = codes if present.is_legal else np.minimum(codes, self.space.tops)
        cells = [own.take(legal[:, i]) for i, own in enumerate(self._cells)]
        for i, where in off_grid.items():
            some, back = np.unique(values[i], return_inverse=True)
            there = np.zeros(len(present), dtype=np.int64)
            there[where] = np.array([self.sides.grids[i].of(self.space.features[i], v) for v in some])[back]
            cells[i] = np.where(codes[:, i] > self.space.tops[i], there[row], cells[i])
        return cells

    def _learn(self, values: dict[int, NDArray[Any]]) -> None:
        """Make sure that values off the grid have their cells."""
        new = {i: own for i, own in values.items() if not all(map(self.sides.grids[i].knows, np.unique(own)))}
        for i, own in new.items():
            name = self.space.names[i]
            self._values[name] = np.unique(np.concatenate([self._values[name], own]))
        if new:
            self._build()

    def _scores(self, lines: Codes) -> Floats:
        """Logits of what stands at lines of the groups, `groups x n`."""
        places = self._groups[0].lines.take(lines[0], axis=0)
        for group, own in zip(self._groups[1:], lines[1:], strict=True):
            places += group.lines.take(own, axis=0)
        scores = [self._sum(places[:, a:b]) for a, b in itertools.pairwise(self._ends)]
        if len(scores) > 1:
            found = np.column_stack(scores) + self.base
            return np.asarray(np.log(np.clip(found, CERTAIN, 1.0))) if self.shares else found
        lead = scores[0] + (self.base[1] - self.base[0])
        if not self.shares:
            return np.column_stack([np.zeros(len(lead)), lead])
        return np.asarray(np.log(np.clip(np.column_stack([1 - lead, 1 + lead]) / 2, CERTAIN, 1.0)))

    def _sum(self, places: NDArray[np.int32]) -> Floats:
        """What stands at places, summed line by line: a sparse product does both at once."""
        rows, width = places.shape
        ends = np.arange(0, rows * width + 1, max(width, 1), dtype=np.int32)
        if not width:
            return np.zeros(rows)
        picked = csr_array((self._ones[: places.size], places.ravel(), ends), shape=(rows, len(self._entries)))
        return np.asarray(picked @ self._entries)


@dataclass(frozen=True, eq=False)
class _Group:
    """Features that are looked up together: for each combination of their cells, what it adds to all places."""

    features: tuple[int, ...]
    lines: NDArray[np.int32]
    sizes: tuple[int, ...] = ()
    """How many cells the features after the first have."""

    def joined(self, i: int, lines: NDArray[np.int32]) -> _Group:
        """With one more feature."""
        both = (self.lines[:, None] + lines).reshape(-1, lines.shape[1])
        return _Group((*self.features, i), both, (*self.sizes, len(lines)))

    def line(self, cells: list[Codes]) -> Codes:
        """The line of each candidate."""
        line = cells[self.features[0]]
        for i, size in zip(self.features[1:], self.sizes, strict=True):
            line = line * size + cells[i]
        return line


def _gaps(feature: Feature) -> NDArray[Any]:
    """The missing value of a feature that may have one, so that it is known before a row with it comes."""
    gap = np.array([np.nan]) if feature.is_number else np.array([MISSING])
    return gap[: int(feature.missing in ("kept", "may_be_filled"))]


def _pieces(trees: Trees, sides: CellSides, scores: list[Floats]) -> Iterator[_Piece]:
    """Every tree, or its parts, as tables of at most so many entries."""
    everywhere = [np.ones(len(grid), dtype=bool) for grid in sides.grids]
    for root in trees.roots.tolist():
        waiting = [(root, everywhere)]
        while waiting:
            node, alive = waiting.pop()
            places, size = _local(trees, sides, node, alive)
            if size <= MOST_ENTRIES or trees.asked[node] < 0:
                yield from _tabled(trees, sides, scores, node, alive, places)
            else:
                waiting += _halves(trees, sides, node, alive)


def _halves(trees: Trees, sides: CellSides, node: int, alive: list[Bools]) -> list[tuple[int, list[Bools]]]:
    """What follows on a node, and the cells that lead there."""
    question = trees.asked[node]
    i, left, right = sides.feature[question], int(trees.left[node]), int(trees.right[node])
    if i < 0:
        return [(left if sides.same[question] else right, alive)]
    goes, found = sides.cuts[i][sides.cut[question]], []
    for child, way in ((right, ~goes), (left, goes)):
        cells = alive[i] & way
        if cells.any():
            found.append((child, [*alive[:i], cells, *alive[i + 1 :]]))
    return found


def _local(trees: Trees, sides: CellSides, node: int, alive: list[Bools]) -> tuple[dict[int, Codes], int]:
    """Cells that a part of a tree tells apart, numbered by feature; those that do not lead to it come last."""
    waiting, asked = [node], []
    while waiting:
        here = waiting.pop()
        if trees.asked[here] >= 0:
            asked.append(int(trees.asked[here]))
            waiting += [int(trees.left[here]), int(trees.right[here])]
    questions = np.unique(np.asarray(asked, dtype=np.int64))
    numbers, size = {}, 1
    for i, cells in enumerate(alive):
        own = questions[sides.feature[questions] == i]
        if not len(own) and cells.all():
            continue
        keys = np.packbits(sides.cuts[i][np.unique(sides.cut[own])], axis=0).T
        marks = np.column_stack([~cells, keys * cells[:, None]])
        _, back = np.unique(marks, axis=0, return_inverse=True)
        numbers[i] = back.ravel()
        size *= int(numbers[i].max()) + 1
    return numbers, size


def _tabled(
    trees: Trees, sides: CellSides, scores: list[Floats], node: int, alive: list[Bools], numbers: dict[int, Codes]
) -> Iterator[_Piece]:
    """A part of a tree as a table for each class that it speaks of."""
    # The feature with the most cells comes last: its values then lie side by side.
    features = tuple(sorted(numbers, key=lambda i: int(numbers[i].max())))
    sizes = [int(numbers[i].max()) + 1 for i in features]
    first = [np.unique(numbers[i], return_index=True)[1] for i in features]
    tables = [np.zeros(sizes) for _ in scores]
    waiting = [(node, [alive[i][cells] for i, cells in zip(features, first, strict=True)])]
    while waiting:
        here, masks = waiting.pop()
        question = trees.asked[here]
        if question < 0:
            where = np.ix_(*masks)
            for table, own in zip(tables, scores, strict=True):
                table[where] = own[here]
            continue
        i, left, right = sides.feature[question], int(trees.left[here]), int(trees.right[here])
        if i < 0:
            waiting.append((left if sides.same[question] else right, masks))
            continue
        place = features.index(i)
        goes = sides.cuts[i][sides.cut[question]][first[place]]
        for child, way in ((left, goes), (right, ~goes)):
            mask = masks[place] & way
            if mask.any():
                waiting.append((child, [*masks[:place], mask, *masks[place + 1 :]]))
    strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    places = tuple(numbers[i] * stride for i, stride in zip(features, strides, strict=True))
    for k, table in enumerate(tables):
        if table.any():
            yield _Piece(features, places, table, k)


class CalibratedCodes:
    """The mean of several models' probabilities, each calibrated."""

    additive = False

    def __init__(self, parts: list[tuple[CodeModel, list[Any], bool]]) -> None:
        self.parts = parts

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """See `CodeModel`."""
        total: Any = sum(
            _calibrated(part.logits(present, row, codes), calibrators, by_score=by_score)
            for part, calibrators, by_score in self.parts
        )
        return np.asarray(np.log(np.clip(total / len(self.parts), CERTAIN, 1.0)))


def _calibrated(logits: Floats, calibrators: list[Any], *, by_score: bool) -> Floats:
    """Probabilities after calibration, of scores or, for models that have none, of probabilities."""
    is_pair = logits.shape[1] == 2
    lead = logits[:, 1:] - logits[:, :1] if is_pair else logits
    if not by_score:
        exp = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares = exp / exp.sum(axis=1, keepdims=True)
        lead = shares[:, 1:] if is_pair else shares
    found = np.column_stack([c.predict(own) for c, own in zip(calibrators, lead.T, strict=True)])
    if is_pair:
        return np.column_stack([1 - found, found])
    total = found.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(found, total, out=np.full(found.shape, 1 / found.shape[1]), where=total != 0))
