"""The batch in figures: statuses, how often features change, changes per answer, obstacles, groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...schema import Feature
from ...schema.column import natural
from ..reasons import Status
from ..wording import amount, difference, label_text, short

if TYPE_CHECKING:
    from ..explanation import Explanation

NO_ANSWER = (Status.NOT_FOUND, Status.IMPOSSIBLE, Status.TIMED_OUT)
# Numbers with few distinct values have one group per value, others one per quarter of the rows.
FEW = 6
GROUPS = 20
# Labels that are listed.
NAMED = 8


@dataclass(frozen=True)
class FeatureCount:
    """How often a feature changes in first answers; `usual` is the typical new value or difference."""

    feature: Feature
    count: int
    up: int
    down: int
    usual: str

    @property
    def words(self) -> str:
        """The typical change, and how many go up or down where both occur."""
        ways = f"{self.up:,} up, {self.down:,} down" if self.up and self.down else ""
        return "; ".join(text for text in (self.usual, ways) if text)


@dataclass(frozen=True)
class ObstacleCount:
    """An obstacle, and the cases that it blocks."""

    words: str
    labels: tuple[str, ...]
    takes: tuple[str, ...] = ()
    """What it would take for each of them, where known."""

    @property
    def cases(self) -> str:
        """The first labels, each with what it would take; bare numbers follow the word "case"."""
        more = f" and {len(self.labels) - NAMED:,} more" if len(self.labels) > NAMED else ""
        bare = f"case{'s' * (len(self.labels) > 1)} " if all(label.isdigit() for label in self.labels) else ""
        known = zip(self.labels[:NAMED], self.takes or [""] * len(self.labels), strict=False)
        said = [short(label, 30) + (f" (would take {short(takes, 60)})" if takes else "") for label, takes in known]
        return bare + ", ".join(said) + more


@dataclass(frozen=True)
class GroupCount:
    """Results of a group of rows."""

    name: str
    asked: int
    verified: int
    best_effort: int
    no_answer: int
    changes: float
    """Mean over first answers; NaN if there are none."""


def first_answers(e: Explanation) -> NDArray[np.int64]:
    """The best-ranked answer of each row that has one."""
    order = np.lexsort((e.rank, e.place))
    return np.asarray(order[np.unique(e.place[order], return_index=True)[1]])


def feature_counts(e: Explanation) -> list[FeatureCount]:
    """Features that change in first answers, the most frequent first."""
    first = first_answers(e)
    before, after = e.rows.iloc[e.place[first]], e.answers.iloc[first]
    found = []
    for j, feature in enumerate(e.task.schema):
        lines = np.flatnonzero(e.checks.changed[first, j])
        if len(lines):
            found.append(_counted(feature, before[feature.name].iloc[lines], after[feature.name].iloc[lines]))
    return sorted(found, key=lambda f: -f.count)


def _counted(feature: Feature, now: pd.Series, then: pd.Series) -> FeatureCount:
    if feature.is_number:
        moved = natural(feature, then) - natural(feature, now)
        middle = float(np.nanquantile(moved, 0.5, method="nearest")) if not np.isnan(moved).all() else np.nan
        usual = f"{'median ' * (len(now) > 1)}{difference(feature, 0.0, middle)}" if middle == middle else ""
        return FeatureCount(feature, len(now), int((moved > 0).sum()), int((moved < 0).sum()), usual)
    level, times = Counter(amount(feature, v) for v in then.tolist()).most_common(1)[0]
    always = "" if len(then) == 1 else "always " if times == len(then) else "mostly "
    return FeatureCount(feature, len(now), 0, 0, f"{always}to {level}")


def changes_per_answer(e: Explanation) -> list[tuple[int, int]]:
    """How many first answers have each number of changes."""
    return sorted(Counter(e.checks.changes[first_answers(e)].tolist()).items())


def obstacle_counts(e: Explanation) -> list[ObstacleCount]:
    """Obstacles, those that block the most rows first."""
    rows: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for position, why in sorted(e.reasons.items()):
        found = {obstacle.words: obstacle.takes for together in reversed(why.blockers) for obstacle in together}
        for said, takes in found.items():
            rows[said].append((label_text(e.rows.index[position]), takes))
    counts = (ObstacleCount(words, *map(tuple, zip(*of, strict=True))) for words, of in rows.items())
    return sorted(counts, key=lambda o: -len(o.labels))


def group_counts(e: Explanation, name: str) -> list[GroupCount]:
    """Results by the values of one feature; numbers are grouped by quarters."""
    first, found = first_answers(e), []
    for text, members in _groups(e.task.schema[name], e.rows[name]):
        status, changes = e.row_status[members], e.checks.changes[first[members[e.place[first]]]]
        asked, without = int(e.asked[members].sum()), int(np.isin(status, NO_ANSWER).sum())
        verified, failing = (int((status == s).sum()) for s in (Status.VERIFIED, Status.BEST_EFFORT))
        mean = float(changes.mean()) if len(changes) else float("nan")
        found.append(GroupCount(text, asked, verified, failing, without, mean))
    return found


def _groups(feature: Feature, column: pd.Series) -> list[tuple[str, NDArray[np.bool_]]]:
    """Names of groups and their members."""
    if feature.is_number:
        numbers = natural(feature, column)
        distinct = np.unique(numbers)
        if len(distinct) <= FEW:
            return [(amount(feature, float(v)), numbers == v) for v in distinct]
        edges = np.unique(np.quantile(numbers, [0.25, 0.5, 0.75], method="nearest"))
        quarter, spans = np.searchsorted(edges, numbers, side="left"), []
        for members in (quarter == q for q in np.unique(quarter)):
            low, high = float(numbers[members].min()), float(numbers[members].max())
            start = "" if low == high else f"{amount(feature.replace(unit=''), low)} to "
            spans.append((start + amount(feature, high), members))
        return spans
    values = np.asarray([amount(feature, v) for v in column.tolist()], dtype=object)
    counts = Counter(values.tolist())
    order = [amount(feature, level) for level in feature.levels]
    shown = [v for v, _ in counts.most_common(GROUPS)]
    shown.sort(key=lambda v: order.index(v) if v in order else len(order))
    groups = [(v, values == v) for v in shown]
    left = ~np.isin(values, shown)
    return [*groups, ("others", left)] if left.any() else groups
