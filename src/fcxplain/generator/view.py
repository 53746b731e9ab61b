"""A task as the generator needs it: tensors, spans, masks, a penalty, and the boxes that rules leave to each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor, nn

from ..causal import CausalGraph
from ..encoding import TableEncoder
from ..errors import TrainingError
from ..explanation import Explanation
from ..region.boxes import BatchBoxes, Box, Interval
from ..region.repair import Repairer
from ..rules import Rule, penalty
from ..rules.nodes import Affine, Compare, Formula, Implies, Ref, refs_of
from ..rules.normal import Group
from ..schema import Feature, Natural
from ..task import Task
from .heads import Allowed, Boxes
from .losses import Objective, Penalty, binary_hinge, correlation, unary_hinge
from .settings import Hard, Layout, LossWeights, NumberUnit, Range, TermSettings, refuse_frozen
from .training import TrainingRows

# Log-odds per unit of a regressor's output beyond the target range; a unit is about the spread of outputs.
SURE = 4.0
# Rules with more alternatives than this are handled by the penalty: every row would carry all of them.
MAX_BOXES = 64
# The most rows from which a generator learns to imitate the search, since more help little; about how many values these
# may have in total, since answers take longer with more features; and the fewest rows all the same.
TAUGHT, TAUGHT_VALUES, TAUGHT_AT_LEAST = 2_000, 40_000, 400


@dataclass(frozen=True, eq=False)
class GroupColumns:
    """The features in a group of rules, and the positions of their encoded columns."""

    categories: tuple[Feature, ...]
    numbers: tuple[Feature, ...]
    level_columns: Tensor
    number_columns: Tensor


class RuleBoxes:
    """The rules of a task that become boxes once the present row is known.

    `rest` are the others: rules on sums of several counterfactual numbers, and rules with too many alternatives.
    """

    def __init__(self, task: Task) -> None:
        self.encoder, self.schema = task.encoder, task.schema
        freezing = [r for r in task.rules if r.freezes]
        narrow = [
            r for r in task.rules if not r.freezes and all(map(_fits, Repairer([*freezing, r], task.schema).groups))
        ]
        groups = Repairer([*freezing, *narrow], task.schema).groups
        self.groups = tuple(g for g in groups if _fits(g))
        self._sides = tuple(map(self._sides_of, self.groups))
        self._ends = {name: self._trained(name) for name in self.schema.numbers}
        # Rules that fit individually may have too many alternatives together.
        crowded = {name for g in groups if not _fits(g) for name in g.names}
        kept = {r for r in narrow if not crowded & {ref.name for ref in refs_of(r.formula) if ref.primed}}
        self.rest = tuple(r for r in task.rules if not r.freezes and r not in kept)

    def of(self, natural: Natural) -> Allowed:
        """The boxes that the rules allow rows, given as natural columns."""
        boxes, pairs = BatchBoxes(self.schema, natural), zip(self.groups, self._sides, strict=True)
        return Allowed(tuple(self._boxes([boxes.of(way) for way in group.ways], sides) for group, sides in pairs))

    def _boxes(self, boxes: Sequence[Box], sides: GroupColumns) -> Boxes:
        parts = [self._box(box, sides) for box in boxes]
        stacked = {name: np.stack([part[name] for part in parts], axis=1) for name in parts[0]}
        # Alternatives that are possible for none of these rows are dropped; the choice among the rest is the same.
        useful = np.asarray(stacked["possible"].any(axis=0))
        useful[0] |= not useful.any()
        tensors = {name: torch.from_numpy(np.ascontiguousarray(value[:, useful])) for name, value in stacked.items()}
        return Boxes(sides.level_columns, sides.number_columns, **tensors)

    def _sides_of(self, group: Group) -> GroupColumns:
        features = [self.schema[name] for name in group.names]
        categories, numbers = [f for f in features if f.is_category], [f for f in features if f.is_number]
        columns = [c for f in categories for c in range(*self._span(f))]
        return GroupColumns(
            tuple(categories), tuple(numbers), _long(columns), _long([self._span(f)[0] for f in numbers])
        )

    def _trained(self, name: str) -> tuple[int, int]:
        """The codes at the ends of a number's training range."""
        least, spread = self.encoder.scale_[name]
        first, last = self.schema[name].codes(np.asarray([least, least + spread])).tolist()
        return first, last

    def _box(self, box: Box, sides: GroupColumns) -> dict[str, NDArray[Any]]:
        """One alternative for all rows: its levels `n x c`, and `low`, `high` and `keeps`, `n x m`."""
        rows, masks = len(box.given), [box.levels[f.name] for f in sides.categories]
        limits = [self._limits(f, box.intervals[f.name]) for f in sides.numbers]
        low, high, keeps = (_columns([limit[i] for limit in limits], rows) for i in range(3))
        kind = np.float64 if self.encoder.dtype_ == torch.float64 else np.float32
        return {
            "possible": box.open,
            "levels": np.concatenate([np.empty((rows, 0), dtype=bool), *masks], axis=1),
            "low": low.astype(kind),
            "high": high.astype(kind),
            "keeps": keeps.astype(bool),
        }

    def _limits(self, feature: Feature, interval: Interval) -> tuple[NDArray[Any], ...]:
        """Encoded ends of a number's interval, inside the training range as far as the rules allow."""
        least, spread = self.encoder.scale_[feature.name]
        most = np.maximum(interval.low, interval.high)
        ends = (np.minimum(np.maximum(end, interval.low), most) for end in self._ends[feature.name])
        first, last = ((feature.at(codes) - least) / spread for codes in ends)
        return first, np.where(interval.low > interval.high, first - 1, last), interval.keeps

    def _span(self, feature: Feature) -> tuple[int, int]:
        span = self.encoder.spans_[feature.name]
        return span.start, span.stop


def _fits(group: Group) -> bool:
    return not group.wide and 0 < len(group.ways) <= MAX_BOXES and bool(group.names)


def _columns(parts: Sequence[NDArray[Any]], rows: int) -> NDArray[Any]:
    return np.stack(parts, axis=1) if parts else np.empty((rows, 0))


def _long(places: Sequence[int]) -> Tensor:
    return torch.tensor(places, dtype=torch.long)


VALIDATION_SHARE = 0.1


def layout(task: Task) -> Layout:
    """The spans of the features, and which may change; a feature that a rule freezes may not."""
    spans = tuple((s.start, s.stop) for s in (task.encoder.spans_[f.name] for f in task.schema))
    mutable = tuple(name not in task.frozen for name in task.schema.names)
    refuse_frozen(task)
    ranges = tuple(_range(task.encoder, f) if f.is_number else None for f in task.schema)
    # For a model without classes, the target range is the first of two.
    return Layout(spans, mutable, len(task.classes) or 2, ranges)


def _range(encoder: TableEncoder, feature: Feature) -> Range:
    """The part of a number's grid that lies in the range of the training rows, encoded."""
    least, spread = encoder.scale_[feature.name]
    first, last = codes_between(feature, least, least + spread)
    ends, one = feature.at(np.asarray([first, max(first, last)])), feature.at(np.asarray([0, 1]))
    low, high = ((ends - least) / spread).tolist()
    return Range(low, high, float(one[1] - one[0]) / spread)


def codes_between(feature: Feature, low: float, high: float) -> tuple[int, int]:
    """The first and the last code of the grid between two values; the last is below the first if there is none."""
    ends = np.asarray([low, high], dtype=np.float64)
    first, last = feature.codes(ends).tolist()
    # The values may be off-grid, with the nearest code outside.
    below, above = feature.at(np.asarray([first, last])) - ends
    return first + int(below < 0), last - int(above > 0)


Explain = Callable[[pd.DataFrame], Explanation]


def refused_rows(
    task: Task, table: pd.DataFrame, boxes: RuleBoxes | None = None, explain: Explain | None = None
) -> TrainingRows:
    """The encoded rows of a table that do not get their target class, with that class.

    With `boxes` they include what the rules allow, for a generator with a rule layer; with `explain`, their answers.
    """
    _, wanted, met = task.answered(table)
    refused = ~met
    rows = table[refused]
    allowed = None if boxes is None else boxes.of(task.encoder.filled(task.schema.natural(rows)))
    x = task.encoder.encode(rows)
    answers = None if explain is None else _answers(task, rows, x, explain)
    return TrainingRows(x, class_indices(task, wanted[refused]), allowed, answers)


def taught_rows(task: Task, seed: int) -> pd.DataFrame:
    """Training rows without their target class, at most `TAUGHT` of them, and fewer for a wide table."""
    refused = np.flatnonzero(task.refused(task.train))
    most = min(TAUGHT, max(TAUGHT_AT_LEAST, TAUGHT_VALUES // len(task.schema)))
    return task.train.iloc[np.sort(np.random.default_rng(seed).permutation(refused)[:most])]


def _answers(task: Task, rows: pd.DataFrame, x: Tensor, explain: Explain) -> Tensor:
    """Encoded answers for the rows; a row without an answer stays as it is."""
    found = explain(rows)
    return x.index_copy(0, torch.from_numpy(found.place), task.encoder.encode(found.answers))


def class_indices(task: Task, wanted: NDArray[Any]) -> Tensor:
    """Classes as indices in `task.classes`, `n`; 0 for ranges."""
    return torch.from_numpy(task.outcomes(wanted).places)


def shares_met(task: Task, said: NDArray[np.float64]) -> NDArray[np.float64]:
    """A model's outputs as probabilities to be inside and outside the target range, `n x 2`."""
    wanted = np.full(len(said), task.target, dtype=object)
    met = expit(SURE * task.outcomes(wanted).margin(said))
    return np.stack([met, 1 - met], axis=1)


def parted(rows: TrainingRows, seed: int) -> tuple[TrainingRows, TrainingRows]:
    """Training and validation rows; if there are too few to split, all rows serve as both."""
    count = int(len(rows) * VALIDATION_SHARE)
    if not len(rows):
        raise TrainingError("the classifier gives every training row the target class: there is nothing to explain")
    if not count:
        return rows, rows
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    here = rows.x.device
    return rows.take(order[count:], here), rows.take(order[:count], here)


def objective(
    task: Task, classifier: nn.Module, graph: CausalGraph, hard: Hard, weights: LossWeights, terms: TermSettings
) -> Objective:
    """The loss of a generator for this task."""
    joined, apart = causal_masks(graph, task, layout(task))
    spans = (task.encoder.spans_[name] for name in task.schema.categories)
    return Objective(
        classifier,
        rule_penalty(task, hard, terms.alpha, terms.beta),
        joined,
        apart,
        weights=weights,
        settings=terms,
        scale=proximity_scale(task, terms.number_unit),
        expected=expected_correlation(task) if terms.standardised else None,
        groups=tuple((span.start, span.stop) for span in spans),
    )


def causal_masks(graph: CausalGraph, task: Task, shape: Layout) -> tuple[Tensor, Tensor]:
    """Masks of the pairs of encoded columns of joined features, and of features apart, `d x d`, each pair once.

    Columns of the same feature, and of features that may not change, form no pairs.
    """
    joined = torch.zeros((shape.width, shape.width), dtype=torch.bool)
    apart = joined.clone()
    features = [f.name for f, may in zip(task.schema, shape.mutable, strict=True) if may]
    for i, a in enumerate(features):
        for b in features[i + 1 :]:
            known = a in graph.nodes and b in graph.nodes and graph.adjacent(a, b)
            (joined if known else apart)[task.encoder.spans_[a], task.encoder.spans_[b]] = True
    return joined, apart


def expected_correlation(task: Task) -> Tensor:
    """Absolute correlations between encoded columns in the training rows, `d x d`."""
    return correlation(task.encoder.encode(task.train)).abs()


def proximity_scale(task: Task, unit: NumberUnit) -> Tensor | None:
    """Weight of a difference of 1 in each encoded column, `d`: see `TermSettings.number_unit`."""
    if unit == "range":
        return None
    scale = torch.ones(task.encoder.width_, dtype=task.encoder.dtype_)
    for name, (_, spread) in task.encoder.scale_.items():
        scale[task.encoder.spans_[name].start] = spread / (task.units[name] if unit == "mad" else 1.0)
    return scale


def rule_penalty(task: Task, hard: Hard, alpha: float, beta: float) -> Penalty:
    """The violation of the rules by encoded counterfactuals.

    "rules" applies `rules.penalty` to every rule. "hinge" uses the paper's two forms for rules of their shape
    (`f' >= f`; `q' > q => p' > p`) and `rules.penalty` without a margin for all others. "layer" is "rules" for the
    rules that the rule layer cannot enforce. All use units of each feature's range in the training rows.
    """
    spreads = {name: spread for name, (_, spread) in task.encoder.scale_.items()}
    rules = RuleBoxes(task).rest if hard == "layer" else task.rules
    general = [r for r in rules if hard != "hinge" or published_form(r, task.encoder, alpha, beta) is None]
    special = [published_form(r, task.encoder, alpha, beta) for r in rules if r not in general]
    margin = 0.0 if hard == "hinge" else None

    def measured(x: Tensor, x_cf: Tensor) -> Tensor:
        before, after = task.encoder.columns(x), task.encoder.columns(x_cf)
        total = penalty(general, before, after, margin=margin, units=spreads)
        return total + sum(form(x, x_cf) for form in special if form is not None)

    return measured


def published_form(
    rule: Rule, encoder: TableEncoder, alpha: float, beta: float
) -> Callable[[Tensor, Tensor], Tensor] | None:
    """The paper's hinge for a rule of one of its shapes, on encoded columns, with one value per row; else None."""
    formula, cause, given = rule.formula, "", "=="
    if isinstance(formula, Implies):
        (cause, given), formula = _rise(formula.condition), formula.consequence
    name, then = _rise(formula)
    if then not in (">", ">=") or not given:
        return None
    return _unary(name, encoder) if given == "==" else _binary(name, cause, encoder, alpha, beta)


def _rise(formula: Formula) -> tuple[str, str]:
    """The feature whose counterfactual value a comparison compares with its present one, and by ">", ">=" or "==".

    Both are empty if it does anything else.
    """
    if not isinstance(formula, Compare):
        return "", ""
    difference: Affine = formula.left - formula.right
    weights = {(atom.name, atom.primed): w for w, atom in difference.terms if isinstance(atom, Ref)}
    names = {name for name, _ in weights}
    if len(difference.terms) != 2 or len(weights) != 2 or len(names) != 1 or difference.constant:
        return "", ""
    (name,) = names
    if weights[name, True] != -weights[name, False]:
        return "", ""
    upwards = weights[name, True] > 0
    op = formula.op if upwards else {"<": ">", "<=": ">=", "==": "=="}.get(formula.op, "")
    return (name, op) if op in (">", ">=", "==") else ("", "")


def _scaled(encoder: TableEncoder, name: str, x: Tensor) -> Tensor:
    """A number between 0 and 1, or an ordinal's expected rank as a share of the highest."""
    feature = encoder.schema_[name]
    if feature.is_number:
        return x[:, encoder.spans_[name].start]
    return encoder.columns(x)[name] / float(max(1.0, feature.rank_of_level.max()))


def _unary(name: str, encoder: TableEncoder) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, x_cf: unary_hinge(_scaled(encoder, name, x), _scaled(encoder, name, x_cf))


def _binary(p: str, q: str, encoder: TableEncoder, alpha: float, beta: float) -> Callable[[Tensor, Tensor], Tensor]:
    def form(x: Tensor, x_cf: Tensor) -> Tensor:
        change_p = _scaled(encoder, p, x_cf) - _scaled(encoder, p, x)
        change_q = _scaled(encoder, q, x_cf) - _scaled(encoder, q, x)
        return binary_hinge(change_p, change_q, alpha, beta)

    return form
