"""A certificate as a case worker reads it: what would change, what the model says then, and what was checked.

Whatever failed stands in capitals, so that nobody takes a best effort for a promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .certificate import Certificate, Change

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
    return f"{change.title or change.feature}: {amount(change.now)} -> {amount(change.then)}{unit}"


def amount(value: Any) -> str:
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
    yield cost if c.density is None else f"{cost}, density {c.density:.3f} (1: as dense as around its neighbours)"
    effort = [f"{c.draws:,} draws"] if c.draws else []
    effort += [f"{c.calls:,} candidates shown to the model"] if c.calls is not None else []
    yield f"found by {c.found_by}" + (f" ({', '.join(effort)})" if effort else "")
    if c.cut_short:
        yield CUT_SHORT


def _prints(c: Certificate) -> str:
    return f"model {c.model or 'without fingerprint'}, rules {c.rules_id or 'without fingerprint'}"
