"""The three heads of the default generator: a gate for each mutable feature, and a level or a value behind it; and the
rule layer, which keeps their outputs inside the rules.

A closed gate keeps the present value exactly; an open one replaces it by another level, or by a value of the number's
grid. Both are hard decisions with the gradient of soft ones (straight-through: Bengio et al. 2013). In training they
are drawn with logistic and Gumbel noise on the scores (Jang et al. 2017), in evaluation there is no noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from .settings import Layout

# Score of levels that may not be chosen; finite, so that a row without any permitted level gets no NaN.
NEVER = -1e9
SMALLEST = 1e-7
# How close to an end of its interval, as a share, a number's score of 0 may be: at the very end there is no gradient.
EDGE = 0.01
# Weight of a number that falls short of a known answer, relative to one that goes too far: answers are just sufficient,
# so a smaller change fails.
FALLS_SHORT = 2.0


# The rule layer: rules leave each row some boxes, computed once by `view`, and one must contain the counterfactual.
# A box allows an interval of each number and a set of levels of each category; a draw goes to the box nearest to it.


@dataclass(frozen=True)
class Boxes:
    """The boxes that a group of rules allows each of `n` rows: `k` boxes over `c` level columns and `m` numbers.

    `possible`, `n x k`, marks boxes that are not empty. A number may lie between `low` and `high`, or stay at its
    present value where `keeps`, `n x k x m`: off-grid values are legal if unchanged.
    """

    level_columns: Tensor
    number_columns: Tensor
    possible: Tensor
    levels: Tensor
    low: Tensor
    high: Tensor
    keeps: Tensor

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Boxes:
        """The boxes with a function applied to every tensor that has a line per row."""
        parts = ("possible", "levels", "low", "high", "keeps")
        return replace(self, **{name: change(getattr(self, name)) for name in parts})

    def to(self, device: torch.device) -> Boxes:
        """The same on a device."""
        columns = {name: getattr(self, name).to(device) for name in ("level_columns", "number_columns")}
        return replace(self.mapped(lambda t: t.to(device)), **columns)


@dataclass(frozen=True)
class Allowed:
    """The boxes of each group of rules; groups share no feature, so each is handled separately."""

    groups: tuple[Boxes, ...] = ()

    def take(self, places: Tensor) -> Allowed:
        """The boxes of some of the rows."""
        return Allowed(tuple(g.mapped(lambda t: t.index_select(0, places)) for g in self.groups))

    def to(self, device: torch.device) -> Allowed:
        """The same on a device."""
        return Allowed(tuple(g.to(device) for g in self.groups))


@dataclass(frozen=True)
class EncodedBox:
    """The one box of each row: levels `n x c`, and `low`, `high` and `keeps`, `n x m`."""

    levels: Tensor
    low: Tensor
    high: Tensor
    keeps: Tensor


@torch.no_grad()
def nearest_box(boxes: Boxes, x: Tensor, draft: Tensor) -> EncodedBox:
    """For each row, the possible box nearest to its draft; both are `n x d` encoded.

    A forbidden level counts 1, a number its distance in encoded units. A row without a possible box has no legal
    answer, and may change nothing.
    """
    cost = _level_cost(boxes, draft) + _number_cost(boxes, x, draft)
    best = cost.masked_fill(~boxes.possible, torch.inf).argmin(dim=1)
    rows = torch.arange(len(best), device=best.device)
    some = boxes.possible[rows, best][:, None]
    low, high = boxes.low[rows, best], boxes.high[rows, best]
    high = torch.where(some, high, low - 1)
    return EncodedBox(boxes.levels[rows, best] & some, low, high, boxes.keeps[rows, best] & some)


def hull(boxes: Boxes) -> EncodedBox:
    """For each row and feature, the values in any of its possible boxes."""
    possible = boxes.possible[:, :, None]
    some = possible & (boxes.low <= boxes.high)
    low = torch.where(some, boxes.low, torch.inf).amin(dim=1)
    high = torch.where(some, boxes.high, -torch.inf).amax(dim=1)
    none = low > high
    low, high = low.masked_fill(none, 1.0), high.masked_fill(none, 0.0)
    return EncodedBox((boxes.levels & possible).any(dim=1), low, high, (boxes.keeps & possible).any(dim=1))


def _level_cost(boxes: Boxes, draft: Tensor) -> Tensor:
    """The number of categories of the draft with a forbidden level, `n x k`."""
    drawn = draft.index_select(1, boxes.level_columns) > 0.5
    return (drawn[:, None, :] & ~boxes.levels).sum(dim=2)


def _number_cost(boxes: Boxes, x: Tensor, draft: Tensor) -> Tensor:
    """Distances of the draft's numbers from each box, `n x k`."""
    drawn = draft.index_select(1, boxes.number_columns)[:, None, :]
    present = x.index_select(1, boxes.number_columns)[:, None, :]
    outside = (boxes.low - drawn).relu() + (drawn - boxes.high).relu()
    outside = torch.where(boxes.low <= boxes.high, outside, torch.inf)
    staying = torch.where(boxes.keeps, (present - drawn).abs(), torch.inf)
    # An empty box may have neither, and infinities must not turn into NaN.
    return torch.minimum(outside, staying).sum(dim=2)


@dataclass(frozen=True)
class PresentColumns:
    """Present values of rows: levels `n x k x l`, padded with 0, and numbers `n x m`."""

    levels: Tensor
    numbers: Tensor


@dataclass(frozen=True)
class Choices:
    """Values that each row may take: levels `n x k x l`, and numbers between `low` and `high`, `n x m`.

    `must_open` and `must_close`, `n x features`, mark gates that are open or closed whatever their scores. Gates that
    are `stuck` are closed in every possible draw, so there is nothing to learn from them.
    """

    levels: Tensor
    low: Tensor
    high: Tensor
    must_open: Tensor
    must_close: Tensor
    stuck: Tensor


@dataclass(frozen=True)
class HeadScores:
    """Outputs of the decoder, noise included: gates `n x features`, levels `n x k x l`, values `n x m`."""

    gates: Tensor
    levels: Tensor
    values: Tensor

    def detached(self) -> HeadScores:
        """The same without gradient."""
        return HeadScores(self.gates.detach(), self.levels.detach(), self.values.detach())

    @property
    def learn(self) -> bool:
        """Whether gradients are needed."""
        return self.gates.requires_grad


class Heads(nn.Module):
    """Turn outputs of the decoder into counterfactuals; the module has no weights.

    Categories are handled as one padded block, `categories x most levels`.
    """

    level_columns: Tensor
    level_outputs: Tensor
    real: Tensor
    real_slots: Tensor
    slot_of_column: Tensor
    category_gates: Tensor
    number_columns: Tensor
    number_outputs: Tensor
    number_gates: Tensor
    number_of_column: Tensor
    changed_columns: Tensor
    gate_order: Tensor
    gate_of_column: Tensor

    def __init__(self, layout: Layout, temperature: float, generator: torch.Generator) -> None:
        super().__init__()
        if not layout.ranges:
            raise ValueError("a model with gates needs a layout with ranges, to tell numbers from categories")
        self.layout, self.temperature, self.generator = layout, temperature, generator
        self.features, self.width = len(layout.mutable_features), layout.head_width
        for name, tensor in _places(layout).items():
            self.register_buffer(name, tensor, persistent=False)
        # Not a buffer: it must stay in double precision whatever the precision of the weights, since grids may be fine.
        self.ranges = _ranges(layout)

    def forward(
        self, outputs: Tensor, x: Tensor, allowed: Allowed | None = None, jitter: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Counterfactuals `n x d`, and the probability of each gate to be open, `n x features`.

        `jitter`, of the shape of `outputs`, is added to the scores; in training it is drawn.
        """
        if jitter is None and self.training:
            jitter = self.drawn(len(x)).to(outputs)
        scores = self._scores(outputs if jitter is None else outputs + jitter)
        present = self._present(x)
        choices = self._choices(present)
        if allowed is not None and allowed.groups:
            choices = self._allowed(scores, choices, allowed, x, present)
        likely = self._likely(outputs[:, : self.features], scores, choices, allowed)
        return self._realised(scores, choices, x, present), likely

    def surprise(self, outputs: Tensor, x: Tensor, answers: Tensor, allowed: Allowed | None = None) -> Tensor:
        """Distance of the outputs from known answers, on average over rows whose answer is not the row itself.

        It is the cross entropy of gates, plus that of levels where a category changes, plus the distance of scores
        where a number changes.
        """
        scores, present, wanted = self._scores(outputs), self._present(x), self._present(answers)
        choices = self._choices(present)
        if allowed is not None and allowed.groups:
            boxes = [nearest_box(group, x, answers) for group in allowed.groups]
            choices = self._within(choices, boxes, allowed, present)
        new_level, new_value = (wanted.levels != present.levels).any(dim=2), wanted.numbers != present.numbers
        changed = torch.cat([new_level, new_value], dim=1).index_select(1, self.gate_order)
        gates = nn.functional.binary_cross_entropy_with_logits(
            scores.gates, changed.to(scores.gates.dtype), reduction="none"
        )
        gates = gates.masked_fill(choices.must_open | choices.must_close, 0.0)
        total = gates.sum(dim=1)
        if scores.levels.shape[2]:
            likely = scores.levels.masked_fill(~choices.levels, NEVER).log_softmax(dim=2)
            total = total - (likely * (wanted.levels * new_level[:, :, None])).sum(dim=(1, 2))
        goal = (_place(wanted.numbers, choices) - _place(present.numbers, choices)).to(scores.values)
        off = scores.values - goal
        off = off.abs() * torch.where(off * goal < 0, FALLS_SHORT, 1.0)
        total = total + (off * new_value).sum(dim=1)
        known = changed.any(dim=1)
        return (total * known).sum() / known.sum().clamp_min(1)

    def _allowed(
        self, scores: HeadScores, choices: Choices, allowed: Allowed, x: Tensor, present: PresentColumns
    ) -> Choices:
        """The choices inside the boxes nearest to the draft that the scores give without rules."""
        draft = self._realised(scores.detached(), choices, x, present)
        narrow = self._within(choices, [nearest_box(g, x, draft) for g in allowed.groups], allowed, present)
        if not scores.learn:
            return narrow
        wide = self._within(choices, [hull(g) for g in allowed.groups], allowed, present)
        return self._merged(narrow, wide, scores.gates)

    def _likely(self, logits: Tensor, scores: HeadScores, choices: Choices, allowed: Allowed | None) -> Tensor:
        """The probability of each gate to be open.

        A gate that is forced open is as likely as its cause: the likeliest of the open gates that share its rules.
        Otherwise a change that forces another would seem as cheap as one that does not.
        """
        likely = logits.sigmoid()
        forced = torch.ones_like(likely)
        free = (scores.gates > 0) & ~choices.must_open & ~choices.must_close
        for boxes in allowed.groups if allowed is not None and scores.learn else ():
            own = torch.zeros_like(free[0])
            own[self.gate_of_column[torch.cat([boxes.level_columns, boxes.number_columns])]] = True
            cause = torch.where(free & own, likely, 0.0).amax(dim=1, keepdim=True)
            forced = torch.where(own & (cause > 0), cause, forced)
        return torch.where(choices.must_open, forced, likely).masked_fill(choices.stuck, 0.0)

    def drawn(self, n: int) -> Tensor:
        """Noise for `n` rows from the module's own generator."""
        uniform = torch.rand((n, self.width), generator=self.generator, device=self.generator.device)
        return self.jitter(uniform)

    def jitter(self, uniform: Tensor) -> Tensor:
        """Logistic noise for gates, Gumbel noise for levels and none for values, from uniform draws, `n x width`."""
        noise = uniform.clamp(SMALLEST, 1 - SMALLEST)
        gates, columns = noise[:, : self.features], noise[:, self.features :]
        columns = -(-columns.log()).log()
        return torch.cat([gates.logit(), columns.index_fill(1, self.number_outputs.to(noise.device), 0.0)], dim=1)

    def _scores(self, noisy: Tensor) -> HeadScores:
        columns = noisy[:, self.features :]
        levels = columns.index_select(1, self.level_outputs).view(len(noisy), *self.real.shape)
        return HeadScores(noisy[:, : self.features], levels, columns.index_select(1, self.number_outputs))

    def _present(self, x: Tensor) -> PresentColumns:
        levels = x.index_select(1, self.level_columns).view(len(x), *self.real.shape)
        return PresentColumns(levels * self.real, x.index_select(1, self.number_columns))

    def _choices(self, present: PresentColumns) -> Choices:
        """The values that each row may take without rules: another level, a number in its range."""
        low, high = (end.expand_as(present.numbers) for end in self.ranges[:2].to(present.numbers))
        others = self.real & (present.levels < 0.5)
        stuck = _moveless(others, low, high, present)
        return self._settled(others, low, high, torch.zeros_like(stuck, dtype=torch.bool), stuck)

    def _settled(self, levels: Tensor, low: Tensor, high: Tensor, must_open: Tensor, must_close: Tensor) -> Choices:
        """Choices with gates in the order of the features, from gates of categories followed by those of numbers."""
        close = must_close.index_select(1, self.gate_order)
        return Choices(levels, low, high, must_open.index_select(1, self.gate_order) & ~close, close, close)

    def _within(self, choices: Choices, chosen: list[EncodedBox], allowed: Allowed, present: PresentColumns) -> Choices:
        """The choices that remain inside one box per group of rules."""
        may = torch.ones_like(present.levels, dtype=torch.bool).flatten(1)
        low, high, keeps = choices.low, choices.high, torch.ones_like(present.numbers, dtype=torch.bool)
        for boxes, box in zip(allowed.groups, chosen, strict=True):
            may = may.index_copy(1, self.slot_of_column[boxes.level_columns], box.levels)
            own = self.number_of_column[boxes.number_columns]
            low, high = low.index_copy(1, own, box.low.to(low)), high.index_copy(1, own, box.high.to(high))
            keeps = keeps.index_copy(1, own, box.keeps)
        permitted = may.view_as(present.levels)
        stays = torch.cat([(permitted & (present.levels > 0.5)).any(dim=2), keeps], dim=1)
        others = permitted & choices.levels
        return self._settled(others, low, high, ~stays, _moveless(others, low, high, present))

    def _merged(self, narrow: Choices, wide: Choices, scores: Tensor) -> Choices:
        """The narrow choices, extended by what the gradients need.

        The value behind a closed gate is not part of the draw; it only shows what opening the gate would give, in any
        box. A gate that opened by itself is not forced, even if the box that it led to requires it to be open.
        """
        must_open = narrow.must_open & ((scores <= 0) | wide.must_open)
        closed = ((scores <= 0) & ~must_open) | narrow.must_close
        own, other = closed.index_select(1, self.number_gates), closed.index_select(1, self.category_gates)
        return Choices(
            torch.where(other[:, :, None], wide.levels, narrow.levels),
            torch.where(own, wide.low, narrow.low),
            torch.where(own, wide.high, narrow.high),
            must_open,
            narrow.must_close,
            wide.must_close,
        )

    def _realised(self, scores: HeadScores, choices: Choices, x: Tensor, present: PresentColumns) -> Tensor:
        """The rows that the scores stand for, `n x d`."""
        gates = self._opened(scores.gates, choices).to(x.dtype)
        drawn = self._level(scores.levels, choices.levels).to(x.dtype)
        levels = _gated(gates.index_select(1, self.category_gates)[:, :, None], drawn, present.levels)
        values = self._value(scores.values.to(x.dtype), choices, present.numbers)
        numbers = _gated(gates.index_select(1, self.number_gates), values, present.numbers)
        changed = torch.cat([levels.flatten(1).index_select(1, self.real_slots), numbers], dim=1)
        return x.index_copy(1, self.changed_columns, changed)

    def _opened(self, scores: Tensor, choices: Choices) -> Tensor:
        hard = ((scores > 0) & ~choices.must_close | choices.must_open).to(scores.dtype)
        if not scores.requires_grad:
            return hard
        soft = (scores / self.temperature).sigmoid().masked_fill(choices.must_open | choices.stuck, 0.0)
        return hard + (soft - soft.detach())

    def _level(self, scores: Tensor, may: Tensor) -> Tensor:
        if not scores.shape[2]:
            # No category may change: there is nothing to choose from.
            return scores
        masked = scores.masked_fill(~may, NEVER)
        best = masked.argmax(dim=2, keepdim=True)
        hard = torch.zeros_like(scores).scatter(2, best, 1.0)
        if not scores.requires_grad:
            return hard
        soft = (masked / self.temperature).softmax(dim=2)
        return hard + (soft - soft.detach())

    def _value(self, scores: Tensor, choices: Choices, present: Tensor) -> Tensor:
        """A number squashed between its bounds and rounded to its grid; both bounds lie on the grid.

        A score of 0 means the present value, or the nearest allowed one, so that a change forced by another starts out
        as the smallest possible.
        """
        value: Tensor = choices.low + (choices.high - choices.low) * (scores + _place(present, choices)).sigmoid()
        origin, _, step = self.ranges.to(value)
        rounded: Tensor = origin + step * ((value - origin) / step).round()
        return value + (rounded - value).detach() if value.requires_grad else rounded


def _place(numbers: Tensor, choices: Choices) -> Tensor:
    """The positions of numbers between their bounds, as scores."""
    width = choices.high - choices.low
    share = (numbers - choices.low) / width.clamp_min(torch.finfo(width.dtype).tiny)
    return share.clamp(EDGE, 1 - EDGE).logit()


def _gated(gate: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """`new` where the gate is open, else `old`, to the last bit; the gate's gradient is that of a mixture."""
    mixed = torch.where(gate.detach() > 0.5, new, old)
    return mixed + (gate - gate.detach()) * (new - old).detach() if gate.requires_grad else mixed


def _moveless(others: Tensor, low: Tensor, high: Tensor, present: PresentColumns) -> Tensor:
    """Features without another value to change to, categories before numbers, `n x features`."""
    fixed = (low > high) | ((low == high) & (low == present.numbers))
    return torch.cat([~others.any(dim=2), fixed], dim=1)


def _places(layout: Layout) -> dict[str, Tensor]:
    """Index tensors: columns of encoded rows, outputs of the decoder, slots of the block of levels."""
    features, columns = layout.mutable_features, layout.mutable_columns
    output = {column: place for place, column in enumerate(columns)}
    categories = [f for f in features if layout.ranges[f] is None]
    numbers = [f for f in features if layout.ranges[f] is not None]
    spans = [list(range(*layout.spans[f])) for f in categories]
    most = max((len(s) for s in spans), default=0)
    padded = [s + [s[0]] * (most - len(s)) for s in spans]
    real = [[i < len(s) for i in range(most)] for s in spans]
    slots = {column: k * most + i for k, span in enumerate(spans) for i, column in enumerate(span)}
    starts = [layout.spans[f][0] for f in numbers]
    gates = [features.index(f) for f in (*categories, *numbers)]
    owners = {column: i for i, f in enumerate(features) for column in range(*layout.spans[f])}
    long, shape = torch.long, (len(spans), most)
    return {
        "level_columns": torch.tensor(padded, dtype=long).flatten(),
        "level_outputs": torch.tensor([[output[c] for c in s] for s in padded], dtype=long).flatten(),
        "real": torch.tensor(real, dtype=torch.bool).reshape(shape),
        "real_slots": torch.tensor(list(slots.values()), dtype=long),
        "slot_of_column": _lookup(slots, layout.width),
        "category_gates": torch.tensor(gates[: len(categories)], dtype=long),
        "number_columns": torch.tensor(starts, dtype=long),
        "number_outputs": torch.tensor([output[c] for c in starts], dtype=long),
        "number_gates": torch.tensor(gates[len(categories) :], dtype=long),
        "number_of_column": _lookup({c: i for i, c in enumerate(starts)}, layout.width),
        "changed_columns": torch.tensor([*slots, *starts], dtype=long),
        "gate_order": torch.tensor(gates, dtype=long).argsort(),
        "gate_of_column": _lookup(owners, layout.width),
    }


def _ranges(layout: Layout) -> Tensor:
    """Lowest value, highest value and step of each mutable number, `3 x m`."""
    found = [(r.low, r.high, r.step) for f in layout.mutable_features if (r := layout.ranges[f]) is not None]
    return torch.tensor(found, dtype=torch.double).reshape(-1, 3).T.contiguous()


def _lookup(places: dict[int, int], width: int) -> Tensor:
    return torch.tensor([places.get(column, 0) for column in range(width)], dtype=torch.long)
