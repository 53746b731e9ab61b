"""Tree ensembles as functions of codes: a table for each tree holds the leaf score of every combination of cells.

A tree whose table would be too large is split into pieces. Features are looked up in groups, so that a few look-ups
give the position of a candidate in every table, and a sparse product sums the entries there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...classifier.reading.trees import Trees
from ...errors import ClassifierError
from ...outcome import CERTAIN
from ...proof.tree_cells import CellSides, cell_sides
from ...schema import Feature
from ...schema.feature import MISSING
from ..space import Bools, Codes, Floats, Rows, SearchSpace

# Entries of one table, and of all tables. A tree that needs more is split into pieces, which are summed.
MOST_ENTRIES, ALL_ENTRIES = 2**15, 2**23
# Ensembles with more pieces or leaves take longer to look up than they are worth.
MOST_PIECES, MOST_LEAVES = 1_000, 2**14
# Entries of the table of one group of features, and positions summed at a time.
GROUPED, LOOKED_UP = 2**19, 2**19


@dataclass(frozen=True, eq=False)
class _Piece:
    """A table for parts of trees: the features that they split on, and the position of each of their cells in it."""

    features: tuple[int, ...]
    places: tuple[Codes, ...]
    """For each feature, the offset of each of its cells."""
    table: Floats
    score: int
    """The index of the score that it contributes to."""


class TreeCodes:
    """Trees over cells. A candidate has a position in the table of each piece; a score is the sum of the entries there.

    `shares`: scores are probabilities, not log-odds.
    """

    additive, rows_at_once = False, 2_048

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
        # For two classes, only the lead matters.
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
        """Group features, so that a few look-ups give the position of a candidate in every table."""
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
        """The cells of candidates, for each feature."""
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
        """Make sure that off-grid values have cells."""
        new = {i: own for i, own in values.items() if not all(map(self.sides.grids[i].knows, np.unique(own)))}
        for i, own in new.items():
            name = self.space.names[i]
            self._values[name] = np.unique(np.concatenate([self._values[name], own]))
        if new:
            self._build()

    def _scores(self, lines: Codes) -> Floats:
        """Logits of candidates given by their lines in the groups, `groups x n`."""
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
        """The sums of the entries at `places`, line by line: a sparse product gathers and sums at once."""
        rows, width = places.shape
        ends = np.arange(0, rows * width + 1, max(width, 1), dtype=np.int32)
        if not width:
            return np.zeros(rows)
        picked = csr_array((self._ones[: places.size], places.ravel(), ends), shape=(rows, len(self._entries)))
        return np.asarray(picked @ self._entries)


@dataclass(frozen=True, eq=False)
class _Group:
    """Features that are looked up together: each combination of their cells has a line of offsets, one per table."""

    features: tuple[int, ...]
    lines: NDArray[np.int32]
    sizes: tuple[int, ...] = ()
    """The number of cells of each feature after the first."""

    def joined(self, i: int, lines: NDArray[np.int32]) -> _Group:
        """Add one more feature."""
        both = (self.lines[:, None] + lines).reshape(-1, lines.shape[1])
        return _Group((*self.features, i), both, (*self.sizes, len(lines)))

    def line(self, cells: list[Codes]) -> Codes:
        """The line of each candidate."""
        line = cells[self.features[0]]
        for i, size in zip(self.features[1:], self.sizes, strict=True):
            line = line * size + cells[i]
        return line


def _gaps(feature: Feature) -> NDArray[Any]:
    """The missing value of a feature that may have one, so that it has a cell from the start."""
    gap = np.array([np.nan]) if feature.is_number else np.array([MISSING])
    return gap[: int(feature.missing in ("kept", "may_be_filled"))]


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of a tree: its first node, and the cells of each feature that lead there."""

    node: int
    alive: list[Bools]
    cuts: Bools
    """The cuts that separate its leaves, and it from the rest of the tree."""
    classes: Bools
    """The classes that its leaves score."""


class _Cuts:
    """All cuts of all features in one sequence, and the cells that some of them separate."""

    def __init__(self, trees: Trees, sides: CellSides) -> None:
        self.trees, self.sides = trees, sides
        self.ends = np.cumsum([0, *map(len, sides.cuts)])
        self.of_question = np.where(sides.feature >= 0, self.ends[sides.feature] + sides.cut, -1)

    def below(self, node: int) -> tuple[Bools, Bools]:
        """The cuts below a node, and the classes that its leaves score."""
        waiting, found, asked = [node], np.zeros(self.ends[-1], dtype=bool), self.trees.asked
        classes = np.zeros(self.trees.scores.shape[1], dtype=bool)
        while waiting:
            here = waiting.pop()
            if asked[here] < 0:
                classes |= self.trees.scores[here] != 0
                continue
            waiting += [int(self.trees.left[here]), int(self.trees.right[here])]
            if self.of_question[asked[here]] >= 0:
                found[self.of_question[asked[here]]] = True
        return found, classes

    def sizes(self, cuts: Bools) -> Floats:
        """The size of a table for some cuts, `n`, if each cut adds one cell."""
        before = np.concatenate([np.zeros((len(cuts), 1), dtype=np.int64), cuts.cumsum(axis=1)], axis=1)
        return np.asarray((np.diff(before[:, self.ends], axis=1) + 1.0).prod(axis=1))

    def numbers(self, cuts: Bools) -> dict[int, Codes]:
        """The cells that some cuts separate, numbered for each feature."""
        found = {}
        for i, (start, end) in enumerate(itertools.pairwise(self.ends.tolist())):
            if cuts[start:end].any():
                keys = np.packbits(self.sides.cuts[i][cuts[start:end]], axis=0).T
                found[i] = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        return found


def _size(numbers: dict[int, Codes]) -> int:
    return math.prod(int(own.max()) + 1 for own in numbers.values())


def _pieces(trees: Trees, sides: CellSides, scores: list[Floats]) -> Iterator[_Piece]:
    """All trees, or parts of them, as tables of at most `MOST_ENTRIES` entries. Small parts share a table."""
    cuts = _Cuts(trees, sides)
    for together in _sharing(cuts, _parts(cuts)):
        numbers = cuts.numbers(np.any([part.cuts for part in together], axis=0))
        if _size(numbers) <= MOST_ENTRIES:
            yield from _tabled(trees, sides, scores, together, numbers)
        else:
            for part in together:
                yield from _tabled(trees, sides, scores, [part], cuts.numbers(part.cuts))


def _parts(cuts: _Cuts) -> list[_Part]:
    """Every tree, or its parts if its table would be too large."""
    found, everywhere = [], [np.ones(len(grid), dtype=bool) for grid in cuts.sides.grids]
    nowhere = np.zeros(cuts.ends[-1], dtype=bool)
    for root in cuts.trees.roots.tolist():
        waiting = [(root, everywhere, nowhere)]
        while waiting:
            node, alive, above = waiting.pop()
            below, classes = cuts.below(node)
            part = _Part(node, alive, above | below, classes)
            if cuts.trees.asked[node] < 0 or _size(cuts.numbers(part.cuts)) <= MOST_ENTRIES:
                found.append(part)
                if len(found) > 4 * MOST_PIECES:
                    raise ClassifierError(f"its trees need more than {4 * MOST_PIECES:,} tables")
                continue
            here = cuts.of_question[cuts.trees.asked[node]]
            above = above | (np.arange(len(above)) == here)
            waiting += [(child, cells, above) for child, cells in _halves(cuts.trees, cuts.sides, node, alive)]
    return found


def _sharing(cuts: _Cuts, parts: list[_Part]) -> list[list[_Part]]:
    """Group parts into shared tables, large ones first: each joins the table that grows least, if it fits."""
    size = cuts.sizes(np.array([part.cuts for part in parts]).reshape(len(parts), -1))
    tables, used = np.zeros((len(parts), cuts.ends[-1]), dtype=bool), np.zeros(len(parts))
    classes, found = np.zeros((len(parts), cuts.trees.scores.shape[1]), dtype=bool), list[list[_Part]]()
    for part in (parts[i] for i in np.argsort(-size, kind="stable")):
        n = len(found)
        joint = cuts.sizes(tables[:n] | part.cuts)
        fits = (joint <= MOST_ENTRIES) & (classes[:n] == part.classes).all(axis=1)
        place = int(np.where(fits, joint - used[:n], np.inf).argmin()) if fits.any() else n
        found[place : place + 1] = [[*(found[place] if place < n else []), part]]
        tables[place], classes[place] = tables[place] | part.cuts, part.classes
        used[place] = joint[place] if place < n else cuts.sizes(part.cuts[None])[0]
    return found


def _halves(trees: Trees, sides: CellSides, node: int, alive: list[Bools]) -> list[tuple[int, list[Bools]]]:
    """The children of a node, and the cells that lead to each."""
    question = trees.asked[node]
    i, left, right = sides.feature[question], int(trees.left[node]), int(trees.right[node])
    if i < 0:
        return [(left if sides.same[question] else right, alive)]
    goes, found = sides.cuts[i][sides.cut[question]], []
    for child, side in ((right, ~goes), (left, goes)):
        cells = alive[i] & side
        if cells.any():
            found.append((child, [*alive[:i], cells, *alive[i + 1 :]]))
    return found


def _tabled(
    trees: Trees, sides: CellSides, scores: list[Floats], parts: list[_Part], numbers: dict[int, Codes]
) -> Iterator[_Piece]:
    """Parts of trees as one table for each class that they score."""
    # The feature with the most cells comes last, so that its values are adjacent in memory.
    features = tuple(sorted(numbers, key=lambda i: int(numbers[i].max())))
    sizes = [int(numbers[i].max()) + 1 for i in features]
    first = [np.unique(numbers[i], return_index=True)[1] for i in features]
    tables = [np.zeros(sizes) for _ in scores]
    waiting = [(part.node, [part.alive[i][cells] for i, cells in zip(features, first, strict=True)]) for part in parts]
    while waiting:
        here, masks = waiting.pop()
        question = trees.asked[here]
        if question < 0:
            where = np.ix_(*masks)
            for table, own in zip(tables, scores, strict=True):
                table[where] += own[here]
            continue
        i, left, right = sides.feature[question], int(trees.left[here]), int(trees.right[here])
        if i < 0:
            waiting.append((left if sides.same[question] else right, masks))
            continue
        place = features.index(i)
        goes = sides.cuts[i][sides.cut[question]][first[place]]
        for child, side in ((left, goes), (right, ~goes)):
            mask = masks[place] & side
            if mask.any():
                waiting.append((child, [*masks[:place], mask, *masks[place + 1 :]]))
    strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    places = tuple(numbers[i] * stride for i, stride in zip(features, strides, strict=True))
    for k, table in enumerate(tables):
        if table.any():
            yield _Piece(features, places, table, k)
