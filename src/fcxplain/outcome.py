"""Outcome: what a model's output should be, whether an output meets it, and how far off it is.

An outcome is a class, several acceptable classes, a class with a minimum probability, or for regressors a range of the
output. Search, proofs, checks and pages all use this module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DataError, Fault, did_you_mean, some
from .hashing import fingerprint
from .schema import level_named
from .schema.feature import plain

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# Margins do not distinguish probabilities nearer to 0 than this.
CERTAIN = 1e-6
# Digits of a bound that is computed from a row's current output.
DIGITS = 12
# Hexadecimal digits of a fingerprint that fit in an integer.
HASHED = 15

_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_BOUND = re.compile(rf"\s*(>=|<=|>|<)\s*{_NUMBER}\s*")
_BETWEEN = re.compile(rf"\s*{_NUMBER}\s*\.\.\s*{_NUMBER}\s*")
_CHANGE = re.compile(r"\s*([-+])\s*(\d+\.?\d*|\.\d+)\s*%\s*")
RANGES = 'a range: ">= 700", "<= 0.05", "700..800", or "+10 %" relative to the current output'


@dataclass(frozen=True)
class Outcome:
    """An outcome other than a single class: several acceptable classes, or a range of a model's output.

    Attributes
    ----------
    classes : tuple
        The acceptable classes; empty for a range.
    low, high : float
        The bounds of a range, both included.
    change : float or None
        A range relative to the row's current output: 0.1 for a tenth more, -0.1 for a tenth less.
    """

    classes: tuple[Any, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    change: float | None = None

    def __str__(self) -> str:
        if self.classes:
            return " or ".join(map(str, self.classes))
        if self.change is not None:
            return f"{100 * self.change:+.12g} %"
        if self.low == -math.inf:
            return f"<= {_written(self.high)}"
        return f">= {_written(self.low)}" if self.high == math.inf else f"{_written(self.low)}..{_written(self.high)}"

    def to_data(self) -> Any:
        """The outcome as a target: a list of classes, or the text of a range."""
        return list(self.classes) if self.classes else str(self)

    def of_row(self, now: float) -> Outcome:
        """The range for a row with this output."""
        if self.change is None:
            return self
        bound = float(f"{now + self.change * abs(now):.{DIGITS}g}")
        return Outcome(low=bound) if self.change > 0 else Outcome(high=bound)


def _written(bound: float) -> str:
    return f"{bound:.0f}" if bound.is_integer() and abs(bound) < 1e15 else repr(bound)


def read_range(target: Any) -> Outcome | None:
    """The range described by a text, or None."""
    if isinstance(target, Outcome):
        return None if target.classes else target
    if not isinstance(target, str):
        return None
    if found := _BOUND.fullmatch(target):
        bound = float(found[2])
        # A strict bound is the next float.
        exact = {">": math.nextafter(bound, math.inf), "<": math.nextafter(bound, -math.inf)}.get(found[1], bound)
        return Outcome(low=exact) if ">" in found[1] else Outcome(high=exact)
    if found := _BETWEEN.fullmatch(target):
        low, high = float(found[1]), float(found[2])
        return Outcome(low=low, high=high) if low <= high else None
    if (found := _CHANGE.fullmatch(target)) and float(found[2]) > 0:
        return Outcome(change=float(found[1] + found[2]) / 100)
    return None


def as_target(target: Any, classes: tuple[Any, ...], remedy: str = "") -> Any:
    """A target as a class, an `Outcome`, or None if none is given.

    Text such as '1' finds the class 1, and 'gold, silver' both classes. A regressor needs a range. `remedy` is the
    advice for a name that is not a class.
    """
    if not classes:
        return _as_range(target)
    if target is None or (meant := level_named(target, classes)) is not None:
        return None if target is None else plain(meant)
    if isinstance(target, Outcome) and target.classes:
        target = target.classes
    if isinstance(target, str) and "," in target:
        target = [part.strip() for part in target.split(",")]
    if not isinstance(target, list | tuple | set | frozenset | np.ndarray) or not len(target):
        raise DataError("", [_no_class(target, classes, remedy)])
    found = {name: level_named(name, classes) for name in map(plain, target)}
    unknown = [_no_class(name, classes, remedy) for name, meant in found.items() if meant is None]
    if unknown:
        raise DataError("", unknown)
    accepted = tuple(name for name in classes if name in found.values())
    if len(accepted) == len(classes):
        fault = Fault(f"target {list(target)!r}", "names every class of the model", "Leave out the undesired ones.")
        raise DataError("", [fault])
    return plain(accepted[0]) if len(accepted) == 1 else Outcome(tuple(map(plain, accepted)))


def _as_range(target: Any) -> Outcome:
    found = read_range(target)
    if found is not None:
        return found
    problem = "is missing: the model predicts numbers, not classes" if target is None else "is not a range"
    place = "target" if target is None else f"target {target!r}"
    raise DataError("", [Fault(place, problem, f"The model predicts numbers. Give {RANGES}.")])


def _no_class(target: Any, classes: tuple[Any, ...], remedy: str) -> Fault:
    if not remedy:
        remedy = f"{did_you_mean(target, classes)} They are {some(classes)}.".strip()
        if read_range(target) is not None:
            remedy += " A range is for models without classes."
    return Fault(f"target {target!r}", "is not one of the classes", remedy)


@dataclass(frozen=True)
class Need:
    """A condition of an outcome on a model's scores: wherever it is met, `weights . scores + loose >= 0`.

    If all conditions of one alternative have `weights . scores + firm > 0`, it is met; in between, rounding decides.
    """

    weights: Floats
    loose: float
    firm: float


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The desired outcomes of rows: `code` is the index of each row's outcome in `names`.

    Classes come first, so that the code of a class is its position. A regressor has one output, and ranges only.
    """

    code: Codes
    names: tuple[Any, ...]
    """The outcomes: names of classes, or an `Outcome`."""
    classes: tuple[Any, ...]
    threshold: float | None = None
    """With two classes, the probability from which the second is predicted."""
    least: float | None = None
    """The minimum probability of the outcome."""
    unit: float = 1.0
    """The unit of a regressor's margins."""

    @classmethod
    def of(cls, wanted: Sequence[Any] | NDArray[Any], classes: tuple[Any, ...], **how: Any) -> Outcomes:
        """Outcomes of rows, given as names of classes or as `Outcome`s."""
        place: dict[Any, int] = {name: i for i, name in enumerate(classes)}
        listed = wanted.tolist() if isinstance(wanted, np.ndarray) else list(wanted)
        for name in dict.fromkeys(listed):
            place.setdefault(name, len(place))
        code = np.fromiter(map(place.__getitem__, listed), np.int64, len(listed))
        names = tuple(place)
        unknown = [n for n in names[len(classes) :] if not isinstance(n, Outcome) or bool(n.classes) != bool(classes)]
        if unknown:
            known = (
                f"not one of the classes: {some(classes)}" if classes else "not a range, and the model has no classes"
            )
            raise DataError(f"the target {some(sorted(map(str, unknown)))} is {known}")
        made = cls(code, names, classes, **how)
        # Computed once for all subsets of these rows.
        _ = made._keys, made._lead_bounds if len(classes) <= 2 else made._accepted
        return made

    def __len__(self) -> int:
        return len(self.code)

    def __getitem__(self, which: Any) -> Outcomes:
        # What is computed from the names is shared.
        other = object.__new__(Outcomes)
        other.__dict__.update(self.__dict__, code=self.code[which])
        return other

    @property
    def wanted(self) -> NDArray[Any]:
        """The outcome of each row, by name."""
        names = np.empty(len(self.names), dtype=object)
        names[:] = self.names
        return np.asarray(names[self.code])

    @property
    def places(self) -> Codes:
        """The position of each row's class: the first of several acceptable ones; 0 for ranges."""
        return np.asarray(self._accepted.argmax(axis=1)[self.code]) if self.classes else np.zeros_like(self.code)

    @property
    def accepted(self) -> Bools:
        """Which classes are acceptable for each row, `n x classes`."""
        return self._accepted[self.code]

    @property
    def bounds(self) -> Floats:
        """The interval of the second class's probability, or of the output, for each row, `n x 2`."""
        return self._bounds[self.code]

    @property
    def closed(self) -> Bools:
        """Whether a value on the boundary meets each row's outcome, as far as is known without the model."""
        return self._closed[self.code]

    @property
    def is_one_sided(self) -> bool:
        """Whether a higher score is always better or always worse, for every row; for two classes and ranges."""
        return not np.isfinite(self._bounds[self.code]).all(axis=1).any()

    @property
    def is_plain(self) -> bool:
        """Whether all outcomes are single classes, so that the model's own boundaries apply."""
        return self.least is None and bool((self.code < len(self.classes)).all())

    @property
    def keys(self) -> Codes:
        """A number for each row that depends on its outcome alone, for hashes."""
        return self._keys[self.code]

    @cached_property
    def _keys(self) -> Codes:
        others = [int(fingerprint(str(n))[:HASHED], 16) for n in self.names[len(self.classes) :]]
        return np.array([*range(len(self.classes)), *others], dtype=np.int64)

    @cached_property
    def _accepted(self) -> Bools:
        """`names x classes`."""
        each = [n.classes if isinstance(n, Outcome) else (n,) for n in self.names]
        return np.array([[c in own for c in self.classes] for own in each], dtype=bool)

    @cached_property
    def _bounds(self) -> Floats:
        """The interval of the second class's probability, or of the output: `names x 2`."""
        if not self.classes:
            return np.array([(n.low, n.high) for n in self.names], dtype=np.float64).reshape(-1, 2)
        edge, least = 0.5 if self.threshold is None else self.threshold, 0.0 if self.least is None else self.least
        sides = {(False, True): (max(edge, least), np.inf), (True, False): (-np.inf, min(edge, 1 - least))}
        return np.array([sides.get(tuple(own), (-np.inf, np.inf)) for own in self._accepted.tolist()])

    @cached_property
    def _closed(self) -> Bools:
        if not self.classes:
            return np.ones(len(self.names), dtype=bool)
        least, edge = self.least or 0.0, 0.5 if self.threshold is None else self.threshold
        # Of equally likely classes the first is predicted; from the threshold on, the second.
        wins = self._accepted[:, 0 if self.threshold is None else 1]
        return np.asarray(wins | (least > np.where(self._accepted[:, -1], edge, 1 - edge)))

    @cached_property
    def _lead_bounds(self) -> Floats:
        """The same for log-odds, or the output."""
        if not self.classes:
            return self._bounds
        edge = np.clip(self._bounds, CERTAIN, 1 - CERTAIN)
        return np.where(np.isfinite(self._bounds), np.log(edge / (1 - edge)), self._bounds)

    # By the model's own output: probabilities, `n x classes`, or numbers, `n x 1`

    def score(self, said: Floats) -> Floats:
        """The probability of the outcome, or the output."""
        if not self.classes:
            return said[:, 0]
        return np.asarray(np.where(self._accepted[self.code], said, 0.0).sum(axis=1))

    def met(self, said: Floats, choice: Codes) -> Bools:
        """Whether each row meets its outcome; `choice` is the position of the predicted class."""
        if not self.classes:
            low, high = self._bounds[self.code].T
            return np.asarray((low <= said[:, 0]) & (said[:, 0] <= high))
        answered = self._accepted[self.code, choice]
        return np.asarray(answered if self.least is None else answered & (self.score(said) >= self.least))

    def above(self, said: Floats) -> Floats:
        """How far each row is above what it needs, in probability or in units of the output; negative if below."""
        if said.shape[1] <= 2:
            low, high = self._bounds[self.code].T
            return np.asarray(np.minimum(said[:, -1] - low, high - said[:, -1]))
        accepted = self._accepted[self.code]
        ahead = _best(said, accepted) - _best(said, ~accepted)
        return np.asarray(ahead if self.least is None else np.minimum(ahead, self.score(said) - self.least))

    @property
    def needed(self) -> Floats:
        """The probability that each row's outcome needs; NaN if that alone does not decide, and for ranges."""
        if not self.classes or (len(self.classes) > 2 and self.least is None):
            return np.full(len(self), np.nan)
        if len(self.classes) > 2:
            return np.full(len(self), self.least)
        low, high = self._bounds[self.code].T
        return np.where(np.isfinite(low), low, np.where(np.isfinite(high), 1 - high, np.nan))

    def gap(self, said: Floats) -> Floats:
        """How far each row is from where the model's decision would change; see `class_gap`."""
        if not self.classes:
            return np.asarray(2 * np.abs(self.above(said)))
        gap: Floats = class_gap(said, self.threshold)
        if len(self.classes) > 2:
            accepted = self._accepted[self.code]
            ahead = np.abs(_best(said, accepted) - _best(said, ~accepted))
            gap = np.where(self.code < len(self.classes), gap, ahead)
        if self.least is None:
            return gap
        weight = 2.0 if self.threshold is None else min(1.0, 4 * self.threshold)
        return np.minimum(gap, weight * np.abs(self.score(said) - self.least))

    def margin(self, said: Floats) -> Floats:
        """How far each row is from its outcome, in log-odds or units of the output; positive if it is met."""
        return self.lead(np.log(np.clip(said, CERTAIN, 1.0)) if self.classes else said)

    # By scores: log-scores of classes, `n x classes`, or for a regressor 0 and the output, `n x 2`

    def lead(self, scores: Floats, built_in: float = 0.0) -> Floats:
        """`margin`, by scores; `built_in` is the shift that moved the boundary of two classes to 0 in them."""
        if scores.shape[1] > 2:
            return self._lead_of_several(scores)
        ahead = scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores[:, 0]
        low, high = (self._lead_bounds - built_in).T
        margin = np.minimum(ahead - low[self.code], high[self.code] - ahead)
        return np.asarray(margin if self.unit == 1.0 else margin / self.unit)

    def _lead_of_several(self, scores: Floats) -> Floats:
        accepted = self._accepted[self.code]
        ahead = _best(scores, accepted) - _best(scores, ~accepted)
        if self.least is None:
            return ahead
        odds = _logsum(scores, accepted) - _logsum(scores, ~accepted)
        return np.minimum(ahead, odds - _logit(self.least))

    def ways(self, code: int, *, shares: bool = False, room: float = 0.0, built_in: float = 0.0) -> list[list[Need]]:
        """The alternatives of an outcome, each a list of conditions on the scores; if it is met, those of one hold.

        `shares`: scores are probabilities. `room`: how far rounding may move a probability.
        """
        if len(self.classes) > 2:
            return self._ways_of_several(code, shares=shares, room=room)
        low, high = self._bounds[code].tolist()
        needs, towards = [], np.array([-1.0, 1.0])
        if low > -np.inf:
            loose, firm = (self._at(low, side, shares) - built_in for side in (-room, room))
            needs.append(Need(towards, -loose, -firm))
        if high < np.inf:
            loose, firm = (self._at(high, side, shares) - built_in for side in (room, -room))
            needs.append(Need(-towards, loose, firm))
        return [needs]

    def _at(self, bound: float, room: float, shares: bool) -> float:
        """The score at this distance from a bound."""
        if not self.classes:
            return bound + room * (1 + abs(bound))
        return 2 * (bound + room) - 1 if shares else _logit(bound + room)

    def _ways_of_several(self, code: int, *, shares: bool, room: float) -> list[list[Need]]:
        unit, accepted = np.eye(len(self.classes)), self._accepted[code]
        own, others = np.flatnonzero(accepted), np.flatnonzero(~accepted)
        loose = firm = 0.0
        together: list[Need] = []
        if self.least is not None and shares:
            together = [Need(accepted.astype(np.float64), room - self.least, -room - self.least)]
        elif self.least is not None:
            # The lead over each other class that the likeliest acceptable class needs, and the lead that is enough.
            loose = max(0.0, _logit(self.least - room) - math.log(len(own)))
            firm = max(0.0, _logit(self.least + room) + math.log(len(others)))
        return [[*(Need(unit[a] - unit[b], -loose, -firm) for b in others), *together] for a in own]

    def all_of(self, code: int) -> Outcomes:
        """The same rows, all with one of the outcomes."""
        return replace(self, code=np.full(len(self), code))


def class_gap(probabilities: Floats, threshold: float | None) -> Floats:
    """How far each row is from where another class would be predicted."""
    if threshold is not None:
        return np.asarray(np.abs(probabilities[:, 1] - threshold))
    best = np.partition(probabilities, -2, axis=1)
    return np.asarray(best[:, -1] - best[:, -2])


def _best(scores: Floats, which: Bools) -> Floats:
    return np.asarray(np.where(which, scores, -np.inf).max(axis=1))


def _logsum(scores: Floats, which: Bools) -> Floats:
    top = _best(scores, which)
    return np.asarray(top + np.log(np.where(which, np.exp(scores - top[:, None]), 0.0).sum(axis=1)))


def _logit(probability: float) -> float:
    if not 0 < probability < 1:
        return math.inf if probability >= 1 else -math.inf
    return math.log(probability / (1 - probability))


def checked_probability(least: Any, classes: Iterable[Any]) -> float | None:
    """The minimum probability of an outcome, checked for this model."""
    if least is None:
        return None
    place = f"target_probability={least!r}"
    if not tuple(classes):
        raise DataError(
            "", [Fault(place, "is for models with classes", "Put the requirement into the target's range.")]
        )
    if isinstance(least, bool) or not isinstance(least, int | float | np.number) or not 0 < least < 1:
        raise DataError("", [Fault(place, "is not a probability", "Give a number between 0 and 1, such as 0.8.")])
    return float(least)
