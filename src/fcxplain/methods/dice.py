"""DiCE in its model-agnostic form: random changes, one more feature per round, until enough of them flip the class.

Mothilal, Sharma and Tan (2020), after the `random` method of the `dice-ml` package. It needs no gradients: the user's
own model is queried on legal rows, once for each distinct row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault, between, did_you_mean
from ..explanation import Explanation
from ..generator.view import codes_between, layout
from ..hashing import row_noise
from ..schema import Feature, level_named
from ..task import Task
from .base import BaseMethod, Count, Outputs, answered, in_parts
from .grid import CodeGrid, Codes

# Candidates per query of the model.
CHUNK = 200_000
# The most equal parts in which a change is stepped back; the package takes the smallest steps, at most 10,000.
STEPS = 64
# Rounds before the search may stop.
ROUNDS = 2


@dataclass(kw_only=True, eq=False, repr=False)
class DiCERandom(BaseMethod):
    """Try random changes of 1, 2, 3, ... features, and return `k` random ones of those that get the target class.

    The random values are shares of a row's permitted range. They are drawn once and are the same for every row; a row
    chooses among the candidates that flip it by a hash of its values.

    Parameters
    ----------
    samples : int
        Copies of each row; every round changes one random feature of each copy.
    features_to_vary : list of str or "all"
        The features that may change; never one that the task freezes.
    permitted_range : mapping, optional
        New values that are permitted: (low, high) for a number, a list of levels for a category; by default the range
        of the training rows, and every level. The task's rules narrow the range of each row further.
    posthoc_sparsity : float, "all" or None
        Numbers that changed by at most this quantile of the distances between training values and their median, and at
        most by the MAD, are stepped back towards the row while the prediction stays the same. "all" steps every number
        back, None steps none back.
    every_rule : bool
        Whether a candidate must also satisfy the rules that cannot be expressed as ranges of single features.
    seed : int
        Seed of all randomness.

    Notes
    -----
    | topic | the original (`dice-ml`, method `random`) | here |
    |---|---|---|
    | constraints | `permitted_range` of each feature, given separately for each row; `features_to_vary` | the same; the ranges of a row come from the task's rules |
    | other rules | none | none, unless `every_rule` |
    | random values | drawn separately for each row | the same shares of the permitted range for every row |
    | stepping back | linear, in the smallest steps, up to 10,000 | in at most 64 equal parts, within the permitted range |
    """  # noqa: E501

    reads_rules = True

    samples: Count = 1000
    features_to_vary: Sequence[str] | Literal["all"] = "all"
    permitted_range: Mapping[str, Sequence[Any]] | None = None
    posthoc_sparsity: float | Literal["all"] | None = 0.1
    every_rule: bool = False

    def fit(self, task: Task) -> Self:
        """Draw the random values, and learn the largest change of each number that is stepped back."""
        self._check_for(task)
        random = np.random.default_rng(self.seed)
        may = layout(task).mutable_features
        varied = [i for i in may if self.features_to_vary == "all" or task.schema.names[i] in self.features_to_vary]
        if not varied:
            raise DataError("DiCERandom: every feature of features_to_vary is frozen by the schema or the rules")
        self.shares_ = random.random((self.samples, len(task.schema)))
        self.choices_ = {i: self._choices(task, task.schema.features[i]) for i in varied}
        self.turns_ = random.choice(np.asarray(varied), (len(varied), self.samples))
        self.limits_ = _limits(task, varied, self.posthoc_sparsity)
        self.task_ = task
        return self

    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """Find at most `k` different answers for each row that does not have the target class."""
        grid = CodeGrid(self._asked(rows, k), every_rule=self.every_rule)
        everyone, parts = np.arange(len(grid)), in_parts(len(grid), max(1, CHUNK // self.samples))
        found = [self._chosen(grid, everyone[part], k) for part in parts]
        row, codes = (np.concatenate(columns) for columns in zip(*found, strict=True))
        kept = np.sort(grid.first(row, codes))
        row, codes = row[kept], codes[kept]
        tried = f"none of {self.samples:,} random changes of up to {len(self.turns_)} features got the target class"
        missing = np.setdiff1d(np.arange(len(grid)), row).tolist()
        x_cf = self.task_.encoder.encode_natural(grid.natural(row, codes))
        outputs = Outputs(x_cf, row, reasons=dict.fromkeys(missing, tried), calls=grid.calls)
        return answered(grid.question, outputs, "DiCE random")

    def _chosen(self, grid: CodeGrid, part: Codes, k: int) -> tuple[Codes, Codes]:
        """At most `k` candidates that flip each of some rows, with numbers stepped back."""
        row, codes, luck = self._flipped(grid, part, k)
        order = np.lexsort((luck, row))
        order = order[_within(row[order]) < k]
        return row[order], self._stepped_back(grid, row[order], codes[order])

    def _flipped(self, grid: CodeGrid, part: Codes, k: int) -> tuple[Codes, Codes, NDArray[np.float64]]:
        """Distinct candidates that flip their row, and the random numbers by which the row chooses among them."""
        tried = np.repeat(grid.now[part, None], self.samples, axis=1)
        open_ = np.ones(len(part), dtype=bool)
        row, codes, luck = np.empty(0, dtype=np.int64), np.empty((0, tried.shape[2]), dtype=np.int64), np.empty(0)
        for turn, feature in enumerate(self.turns_):
            for i in np.unique(feature).tolist():
                tried[:, feature == i, i] = self._drawn(grid, part, i, self.shares_[feature == i, i])
            lines = tried[open_].reshape(-1, tried.shape[2])
            here = np.repeat(part[open_], self.samples)
            flips = grid.flips(here, lines)
            drawn = row_noise(grid.now[part[open_]], self.samples, self.seed, draw=turn).reshape(-1)
            row = np.concatenate([row, here[flips]])
            codes, luck = np.concatenate([codes, lines[flips]]), np.concatenate([luck, drawn[flips]])
            kept = np.sort(grid.first(row, codes))
            row, codes, luck = row[kept], codes[kept], luck[kept]
            if turn + 1 >= ROUNDS:
                open_ = np.bincount(row, minlength=len(grid))[part] < k
            if not open_.any():
                break
        return row, codes, luck

    def _stepped_back(self, grid: CodeGrid, row: Codes, codes: Codes) -> Codes:
        """Undo small changes of numbers step by step while the prediction stays, feature by feature."""
        codes = codes.copy()
        for i, limit in self.limits_.items():
            away = grid.now[row, i] - codes[:, i]
            size = np.abs(grid.natural(row, codes)[grid.names[i]] - grid.present[grid.names[i]][row])
            line = np.flatnonzero((away != 0) & (size <= limit))
            if not len(line):
                continue
            parts = np.minimum(np.abs(away[line]), STEPS)
            which, step = np.repeat(np.arange(len(line)), parts), _within(np.repeat(np.arange(len(line)), parts))
            steps = codes[line[which]]
            steps[:, i] += np.rint(away[line[which]] * ((step + 1) / parts[which])).astype(np.int64)
            stays = np.zeros((len(line), STEPS), dtype=bool)
            stays[which, step] = grid.flips(row[line[which]], steps) & self._permits(grid, i, row[line[which]], steps)
            walked = np.logical_and.accumulate(stays, axis=1).sum(axis=1)
            codes[line, i] += np.rint(away[line] * (walked / parts)).astype(np.int64)
        return codes

    def _choices(self, task: Task, feature: Feature) -> Codes:
        """Codes of the new values permitted to all rows: every level of a category, the ends of a number's range."""
        given = (self.permitted_range or {}).get(feature.name)
        if feature.is_category:
            levels = feature.levels if given is None else [level_named(v, feature.levels) for v in given]
            return np.unique([feature.code_of_level[level] for level in levels])
        least, spread = task.encoder.scale_[feature.name]
        first, last = codes_between(feature, *((least, least + spread) if given is None else given))
        # If the training rows have a single, off-grid value, only the nearest legal one is left.
        return np.asarray([first, max(first, last)])

    def _drawn(self, grid: CodeGrid, part: Codes, i: int, shares: NDArray[np.float64]) -> Codes:
        """New codes of a feature, `rows x shares`, at shares of the permitted range; present codes if it is empty."""
        choices, rules = self.choices_[i], grid.permitted.get(grid.names[i])
        if grid.is_category(i):
            may = np.ones((len(part), len(choices)), dtype=bool)
            if rules is not None and rules.levels is not None:
                may = rules.levels[part][:, choices]
            count = may.sum(axis=1)
            places = np.argsort(~may, axis=1, kind="stable")
            found = choices[np.take_along_axis(places, (shares * count[:, None]).astype(np.int64), axis=1)]
        else:
            low, high = np.full(len(part), choices[0]), np.full(len(part), choices[1])
            if rules is not None:
                low, high = np.maximum(low, rules.low[part]), np.minimum(high, rules.high[part])
            count = np.maximum(high - low + 1, 0)
            found = low[:, None] + (shares * count[:, None]).astype(np.int64)
        return np.where(count[:, None] > 0, found, grid.now[part, i, None])

    def _permits(self, grid: CodeGrid, i: int, row: Codes, codes: Codes) -> NDArray[np.bool_]:
        """Whether a number of each candidate lies in the range that the rules permit, or is unchanged."""
        rules, value = grid.permitted.get(grid.names[i]), codes[:, i]
        if rules is None:
            return np.ones(len(row), dtype=bool)
        inside = (value >= rules.low[row]) & (value <= rules.high[row])
        return np.asarray(inside | (value == grid.now[row, i]))

    def _check_for(self, task: Task) -> None:
        names, vary, sparsity = task.schema.names, self.features_to_vary, self.posthoc_sparsity
        varied = list(names) if vary == "all" else [vary] if isinstance(vary, str) else list(vary)
        ranges = self.permitted_range or {}
        faults = [] if sparsity in (None, "all") else between("posthoc_sparsity", sparsity, 0, 1)
        if not varied:
            faults.append(Fault("features_to_vary", "is empty", "Name a feature, or pass 'all'."))
        for place, given in (("features_to_vary", varied), ("permitted_range", ranges)):
            unknown = [name for name in given if name not in names]
            faults += [Fault(f"{place}: {n!r}", "is not a feature", did_you_mean(n, names)) for n in unknown]
        for name in (name for name in ranges if name in names):
            faults += _range_faults(task.schema[name], ranges[name])
        self._check(*faults)


def _limits(task: Task, varied: Sequence[int], quantile: float | str | None) -> dict[int, float]:
    """The largest change of each number that is stepped back, in descending order."""
    limits = {}
    for i in varied if quantile is not None else ():
        name = task.schema.names[i]
        if task.schema[name].is_number:
            values = task.schema.natural(task.train, [name])[name]
            distinct_values = np.unique(values)
            away = np.abs(distinct_values - np.median(distinct_values))
            # The package replaces a MAD of 0 by 1.
            mad = float(np.median(np.abs(values - np.median(values)))) or 1.0
            limits[i] = min(float(np.quantile(away, quantile)), mad) if isinstance(quantile, float | int) else np.inf
    return dict(sorted(limits.items(), key=lambda item: -item[1]))


def _range_faults(feature: Feature, given: Any) -> list[Fault]:
    place = f"permitted_range: {feature.name!r}"
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        return [Fault(place, f"is {given!r}", "Give the lowest and the highest number, or a list of levels.")]
    if feature.is_category:
        unknown = [v for v in given if level_named(v, feature.levels) is None]
        faults = [Fault(place, f"no level {v!r}", did_you_mean(v, feature.levels)) for v in unknown]
        return faults or ([] if len(given) else [Fault(place, "is empty", "Name the levels that are allowed.")])
    if len(given) != 2 or not all(isinstance(v, int | float | np.number) and np.isfinite(v) for v in given):
        return [Fault(place, f"is {given!r}", "Give two numbers, the lowest and the highest.")]
    first, last = codes_between(feature, *map(float, given))
    if first > last:
        inside = f"from {feature.low:g} to {feature.high:g} by {feature.step:g}"
        return [Fault(place, f"holds no legal value between {given[0]} and {given[1]}", f"Legal values go {inside}.")]
    return []


def _within(sorted_: Codes) -> Codes:
    """0, 1, 2, ... within each run of equal values."""
    return np.arange(len(sorted_)) - np.searchsorted(sorted_, sorted_, side="left")
