"""Values, differences, counts and certificates as people write them: in the feature's own decimals, with its unit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..rules.wording import COUNTED
from ..schema import Feature
from ..schema.feature import plain

if TYPE_CHECKING:
    from .certificate import Certificate, Change

# Longer texts are cut where they are shown; the certificate has them whole.
LONGEST = 120
MISSING = "missing"


def short(text: object, longest: int = LONGEST) -> str:
    """The text, cut where it is too long to be read in passing."""
    whole = str(text)
    return whole if len(whole) <= longest else f"{whole[: longest - 1].rstrip()}…"


def amount(feature: Feature, value: Any) -> str:
    """A value with its unit, in the feature's own decimals."""
    if is_missing(value):
        return MISSING
    if feature.is_category:
        return short(plain(value))
    return with_unit(_number(feature, float(value)), feature.unit)


def difference(feature: Feature, now: Any, then: Any) -> str:
    """How far a value moved; empty where there is no more to say than that it did."""
    if is_missing(now) or is_missing(then):
        return ""
    if feature.is_number:
        moved = float(then) - float(now)
        # Taken of two values with few decimals, a difference has no more than they.
        return with_unit(_signed(_number(feature, round(abs(moved), 12)), moved), feature.unit)
    return _levels_apart(feature, now, then) if feature.kind == "ordinal" else ""


def is_missing(value: Any) -> bool:
    """Whether there is no value, or none that is a number."""
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def with_unit(text: str, unit: str) -> str:
    """A number and what it counts, of which there may be a single one."""
    single = text.lstrip("+−-") == "1" and unit in COUNTED
    return f"{text} {unit.removesuffix('s') if single else short(unit, 20)}".rstrip()


def move_line(feature: Feature, now: Any, then: Any) -> str:
    """What a feature is now and then, for plain text; a unit that its title names is left out."""
    return f"{feature.title} {plain_amount(feature, now, unit=False)} -> {plain_amount(feature, then)}"


def plain_amount(feature: Feature, value: Any, *, unit: bool = True) -> str:
    """A value beside its feature's title, in signs that every terminal has."""
    if is_missing(value) or feature.is_category:
        return amount(feature, value)
    text = _number(feature, float(value)).replace("−", "-")
    return with_unit(text, feature.unit) if unit and not _names_unit(feature) else text


def _names_unit(feature: Feature) -> bool:
    """Whether the title says what is counted: "hours per week" are hours."""
    return feature.unit.casefold() in feature.title.casefold().split()


def _number(feature: Feature, value: float) -> str:
    decimals = feature.decimals or 0
    text = f"{value:,.{decimals}f}"
    if float(text.replace(",", "")) != value:
        text = f"{value:,.12g}"
    elif decimals > 2:
        text = text.rstrip("0").rstrip(".")
    return text.replace(",", "") if _is_year(feature) else text.replace("-", "−")


def _is_year(feature: Feature) -> bool:
    """A whole number without a unit that can only lie there is a year far more often than an amount."""
    bounds = (feature.low, feature.high)
    return feature.kind == "integer" and not feature.unit and all(b is not None and 1000 <= b < 3000 for b in bounds)


def _signed(text: str, moved: float) -> str:
    return f"+{text}" if moved > 0 else f"−{text}" if moved < 0 else text


def _levels_apart(feature: Feature, now: Any, then: Any) -> str:
    known = feature.code_of_level
    if now not in known or then not in known:
        return ""
    steps = sorted(set(feature.ranks))
    moved = steps.index(feature.ranks[known[then]]) - steps.index(feature.ranks[known[now]])
    if not moved:
        return "on the same level"
    far = "one level" if abs(moved) == 1 else f"{abs(moved)} levels"
    return f"{far} {'up' if moved > 0 else 'down'}"


# Half a pair of UTF-16, which no file in UTF-8 can hold.
LONE = re.compile("[\ud800-\udfff]")


def label_text(label: Any) -> str:
    """A row's label; the parts of a label with several are told one after the other."""
    return short(", ".join(map(str, label)) if isinstance(label, tuple) else plain(label))


def percent(share: float) -> str:
    """A share of one; what is not quite none or all is not rounded to it."""
    if 0 < share < 0.01:
        return "under 1%"
    if 0.99 < share < 1:
        return "over 99%"
    return f"{share:.0%}"


# The one status that must not be read over.
MARKED = "best_effort"
CUT_SHORT = "the budget of this row ended before the search did: with more, there may be a better answer"


def marked(status: str) -> str:
    """A status as people are shown it."""
    return status.upper() if status == MARKED else status


def headline(c: Certificate) -> str:
    """Which answer it is, and what came of it."""
    return f"row {c.row}, answer {c.rank}: {marked(c.status)}"


def stated(c: Certificate) -> str:
    """The whole certificate, a line for each thing."""
    return "\n  ".join([headline(c), *_changes(c), answered(c), *_rules(c), _checked(c), *_facts(c), _prints(c)])


def _changes(c: Certificate) -> list[str]:
    return [change_line(change) for change in c.changes] or ["nothing changes"]


def change_line(change: Change) -> str:
    """What a feature is now and then."""
    unit = f" {change.unit}" if change.unit else ""
    return f"{change.title or change.feature}: {as_written(change.now)} -> {as_written(change.then)}{unit}"


def as_written(value: Any) -> str:
    """A value as it is written: numbers without a tail of zeros."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def answered(c: Certificate) -> str:
    """What the model says of it."""
    if not c.in_domain:
        return "the model was NOT ASKED, since a value is outside its domain"
    verdict = "as wanted" if c.valid else f"NOT {c.wanted}, which is wanted"
    return f"the model answers {c.predicted}, {verdict} (probability of {c.wanted}: {c.probability:.3f})"


def _rules(c: Certificate) -> Iterator[str]:
    for rule in c.rules:
        yield f"{'kept' if rule.kept else 'BROKEN'}: {rule.words}"


def _checked(c: Certificate) -> str:
    parts = {
        "the class wanted": c.valid,
        "every rule" if c.rules else "no rules": c.feasible,
        "values in their domain": c.in_domain,
        "what may not change": c.immutables_kept,
    }
    return "checked: " + ", ".join(name if holds else f"{name} (FAILED)" for name, holds in parts.items())


def _facts(c: Certificate) -> Iterator[str]:
    cost = "cost unknown" if math.isnan(c.cost) else f"cost {c.cost:.3f}"
    yield cost if c.lof is None else f"{cost}, lof {c.lof:.3f} (1: as dense as around its neighbours)"
    effort = [f"{c.draws:,} draws"] if c.draws else []
    effort += [f"{c.calls:,} candidates shown to the model"] if c.calls is not None else []
    yield f"found by {c.found_by}" + (f" ({', '.join(effort)})" if effort else "")
    if c.cut_short:
        yield CUT_SHORT


def _prints(c: Certificate) -> str:
    return f"model {c.model or 'without fingerprint'}, rules {c.rules_id or 'without fingerprint'}"
