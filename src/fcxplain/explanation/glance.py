"""An explanation at a glance: how the rows fared, how much has to change, the first answers, and who has none."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ..text import Glance, Overview, counted, cut, remainder
from .wording import answered, as_written, change_line, headline, marked

if TYPE_CHECKING:
    from .certificate import Certificate
    from .explanation import Explanation
    from .reasons import WhyNot

FEW = 5
LABEL, CLASS = 40, 30
"""Letters that the label of a row and the name of a class may have."""
ANSWERED = ("verified", "best_effort", "already")
UNLIMITED = "no rules were given and nothing is fixed"


def glance(explanation: Explanation, few: int = FEW) -> Glance:
    """Statuses and notes; with some answers to show, also how many changes they need, and the first few of them."""
    e = explanation
    statuses = ", ".join(f"{count:,} {marked(status)}" for status, count in sorted(e.counts.items()))
    said = f"Explanation by {e.method}: {counted(len(e), 'row')} ({statuses or 'none'})"
    if not few:
        return Glance(said, e.notes)
    without = np.flatnonzero(~np.isin(e.row_status, ANSWERED)).tolist()
    facts = [("note", f"{UNLIMITED}; an answer may not be possible for a person")] if unlimited(e) else []
    facts += [("changes per answer", _changes(e))] if len(e.answers) else []
    facts += [("no answer", _named(e, without, few))] if without and not e.reasons else []
    grids = [_answers(e, few)] if len(e.answers) else []
    grids += [_reasons(e, without, few)] if without and e.reasons else []
    return Glance(said, e.notes, tuple(facts), tuple(grids))


def unlimited(e: Explanation) -> bool:
    """Whether there are answers, and nothing but legal values and the model was asked of them."""
    own = e.own is not None and len(e.own.rules) > 0
    return len(e.answers) > 0 and not (own or e.task.rules or e.task.schema.immutable)


def certificate_glance(c: Certificate) -> Glance:
    """One answer: what changes, what the model says, and what holds of the rules."""
    changes = tuple(
        (x.title or x.feature, as_written(x.now), f"{as_written(x.then)} {x.unit}".rstrip()) for x in c.changes
    )
    rules = tuple(("kept" if rule.kept else "BROKEN", rule.words) for rule in c.rules)
    grids = (Overview(("feature", "now", "then"), changes), Overview(("verdict", "rule"), rules))
    return Glance(headline(c), facts=(("then", answered(c)),), grids=grids)


def _changes(e: Explanation) -> str:
    counts = sorted(Counter(e.checks.changes.tolist()).items())
    return ", ".join(f"{changes} in {counted(answers, 'answer')}" for changes, answers in counts)


def _answers(e: Explanation, few: int) -> Overview:
    """The first answers, row by row and best first; what changes stands last, since it may be long."""
    first = np.lexsort((e.rank, e.place))[:few].tolist()
    classes = dict.fromkeys(e.checks.wanted.tolist())
    wanted = cut(next(iter(classes)), CLASS) if len(classes) == 1 else ""
    head = ("row", "answer", f"probability of {wanted}" if wanted else "probability", "what changes")
    rest = remainder(len(e.answers) - few, "answer")
    lines = tuple(_line(e, i, bool(wanted)) for i in first)
    return Overview(head, lines, f"{rest}; see .frame and .certificates" if rest else "")


def _line(e: Explanation, i: int, same: bool) -> tuple[str, ...]:
    said = "; ".join(map(change_line, e.changes(i))) or "nothing"
    status = "" if e.checks.passed[i] else f" {marked('best_effort')}"
    chance = e.checks.probability[i]
    told = "not asked" if np.isnan(chance) else f"{chance:.3f}"
    if not same and not np.isnan(chance):
        told = f"{cut(e.checks.wanted[i], CLASS)}: {told}"
    return _label(e, int(e.place[i])), f"{e.rank[i]}{status}", told, said


def _named(e: Explanation, without: list[int], few: int) -> str:
    more = f" and {len(without) - few:,} more" if len(without) > few else ""
    return ", ".join(f"{_label(e, i)} ({e.row_status[i]})" for i in without[:few]) + more


def _reasons(e: Explanation, without: list[int], few: int) -> Overview:
    rows = tuple((_label(e, i), str(e.row_status[i]), _why(e.reasons.get(i))) for i in without[:few])
    rest = remainder(len(without) - few, "row")
    return Overview(("row", "no answer", "why"), rows, f"{rest}; see .why_not" if rest else "")


def _why(reason: WhyNot | None) -> str:
    """The obstacles, or what is said in their place."""
    if reason is None or not reason.blockers:
        return "" if reason is None else reason.words
    sets = [" and ".join(obstacle.words for obstacle in together) for together in reason.blockers]
    if reason.status == "impossible" and len(sets) == 1:
        return f"blocked by: {sets[0]}"
    return f"would work without: {' / '.join(sets)}"


def _label(e: Explanation, position: int) -> str:
    return cut(e.rows.index[position], LABEL)
