"""Wording for people: values in their own decimals and units, certificates, explanations at a glance."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..rules.rule import COUNTED
from ..schema import Feature, Schema
from ..schema.dates import day_of, iso
from ..schema.definition import is_missing
from ..schema.feature import plain
from ..text import Glance, Overview, counted, cut, remainder

if TYPE_CHECKING:
    from .certificate import Certificate, Change
    from .explanation import Explanation
    from .reasons import WhyNot

# Longer texts are cut for display; the certificate has them in full.
LONGEST = 120
MISSING = "missing"


def short(text: object, longest: int = LONGEST) -> str:
    """The text, cut if it is too long."""
    whole = str(text)
    return whole if len(whole) <= longest else f"{whole[: longest - 1].rstrip()}…"


def amount(feature: Feature, value: Any) -> str:
    """A value with its unit, in the feature's own decimals."""
    if is_missing(value):
        return MISSING
    if feature.is_category:
        return short(feature.level_title(value))
    if feature.kind == "date":
        return iso(day_of(value))
    return with_unit(_number(feature, float(value)), feature.unit)


@dataclass(frozen=True)
class ChangeTexts:
    """One changed feature in words."""

    title: str
    now: str
    then: str
    difference: str


def change_texts(feature: Feature, now: Any, then: Any) -> ChangeTexts:
    """A change as cards and pages show it."""
    values = amount(feature, now), amount(feature, then)
    return ChangeTexts(short(feature.title), *values, difference(feature, now, then))


def difference(feature: Feature, now: Any, then: Any) -> str:
    """How far a value moved; empty for unordered levels and missing values."""
    moved, levels = distance(feature, now, then), feature.code_of_level
    if moved is not None:
        sign = "+" if moved > 0 else "−" if moved < 0 else ""
        unit = feature.unit or ("days" if feature.kind == "date" else "")
        return with_unit(f"{sign}{_number(feature, abs(moved))}", unit)
    if feature.kind != "ordinal" or now not in levels or then not in levels:
        return ""
    steps = sorted(set(feature.ranks))
    up = steps.index(feature.ranks[levels[then]]) - steps.index(feature.ranks[levels[now]])
    if len(steps) < len(feature.levels):
        # Levels that share a rank have separate bars in the picture: a count of ranks would contradict it.
        return "higher" if up > 0 else "lower" if up < 0 else "same rank"
    return f"{'one level' if abs(up) == 1 else f'{abs(up)} levels'} {'up' if up > 0 else 'down'}"


def distance(feature: Feature, now: Any, then: Any) -> float | None:
    """How far a number moved, a date in days; None for categories and missing values."""
    if not feature.is_number or is_missing(now) or is_missing(then):
        return None
    # The difference of two values with few decimals has no more decimals than they have.
    return round(as_number(feature, then) - as_number(feature, now), 12)


def as_number(feature: Feature, value: Any) -> float:
    """The value of a number as a float; a date in days."""
    return day_of(value) if feature.kind == "date" else float(value)


def with_unit(text: str, unit: str) -> str:
    """A number with its unit, in the singular for 1."""
    single = text.lstrip("+−-") == "1" and unit in COUNTED
    return f"{text} {unit.removesuffix('s') if single else short(unit, 20)}".rstrip()


def move_line(feature: Feature, now: Any, then: Any) -> str:
    """A change in plain text; a unit that the title names is left out."""
    return f"{feature.title} {plain_amount(feature, now, unit=False)} -> {plain_amount(feature, then)}"


def plain_amount(feature: Feature, value: Any, *, unit: bool = True) -> str:
    """A value for display next to its feature's title, in ASCII signs."""
    if is_missing(value) or feature.is_category or feature.kind == "date":
        return amount(feature, value)
    text = _number(feature, float(value)).replace("−", "-")
    # A title such as "hours per week" names the unit.
    is_named = feature.unit.casefold() in feature.title.casefold().split()
    return with_unit(text, feature.unit) if unit and not is_named else text


def _number(feature: Feature, value: float) -> str:
    decimals = feature.decimals or 0
    text = f"{value:,.{decimals}f}"
    if float(text.replace(",", "")) != value:
        text = f"{value:,.12g}"
    elif decimals > 2:
        text = text.rstrip("0").rstrip(".")
    # A whole number without a unit, always between 1000 and 3000, looks like a year.
    within = all(bound is not None and 1000 <= bound < 3000 for bound in (feature.low, feature.high))
    is_year = feature.kind == "integer" and not feature.unit and within
    return text.replace(",", "") if is_year else text.replace("-", "−")


# Half a surrogate pair, which UTF-8 cannot encode.
LONE = re.compile("[\ud800-\udfff]")


def label_text(label: Any) -> str:
    """A row's label; the parts of a compound label are joined."""
    return short(", ".join(map(str, label)) if isinstance(label, tuple) else plain(label))


def percent(share: float) -> str:
    """A share in percent; only exact 0 and 1 are shown as 0% and 100%."""
    if 0 < share < 0.01:
        return "under 1%"
    if 0.99 < share < 1:
        return "over 99%"
    return f"{share:.0%}"


# The one status that must not be overlooked.
MARKED = "best_effort"
CUT_SHORT = "the search budget ran out before the search was finished: a larger one may lead to something better"


def marked(status: str) -> str:
    """A status as shown."""
    return status.upper() if status == MARKED else status


def headline(c: Certificate) -> str:
    """Row, rank and status of an answer."""
    return f"row {c.row}, answer {c.rank}: {marked(c.status)}"


def stated(c: Certificate) -> str:
    """The whole certificate, line by line."""
    changes = [change_line(change, c.schema) for change in c.changes] or ["nothing changes"]
    rules = [f"{'kept' if rule.kept else 'BROKEN'}: {rule.words}" for rule in c.rules]
    parts = {
        ("target range" if c.is_number else "target class"): c.valid,
        "every rule" if c.rules else "no rules": c.feasible,
        "values in their domain": c.in_domain,
        "immutable features": c.immutables_kept,
    }
    checked = "checked: " + ", ".join(name if holds else f"{name} (FAILED)" for name, holds in parts.items())
    prints = f"model {c.model or 'without fingerprint'}, rules {c.rules_id or 'without fingerprint'}"
    return "\n  ".join([headline(c), *changes, answered(c), *rules, checked, *_facts(c), prints])


def change_line(change: Change, schema: Schema | None) -> str:
    """A change in one line."""
    title, now, then = change_cells(change, schema)
    return f"{title}: {now} -> {then}"


def change_cells(change: Change, schema: Schema | None) -> tuple[str, str, str]:
    """Title of a feature, and its values now and then; levels by their labels."""
    known = schema[change.feature] if schema is not None and change.feature in schema else None
    says = as_written if known is None or known.is_number else known.level_title
    now, then = (MISSING if is_missing(v) else says(v) for v in (change.now, change.then))
    return change.title or change.feature, now, f"{then} {change.unit}".rstrip()


def class_words(schema: Schema | None, name: Any) -> str:
    """A class or target in words."""
    return str(name) if schema is None else schema.class_title(name)


def as_written(value: Any) -> str:
    """A value as text: numbers without trailing zeros."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def answered(c: Certificate) -> str:
    """The model's answer in words."""
    if not c.in_domain:
        return "the model was NOT QUERIED, since a value is outside its domain"
    said, wanted = class_words(c.schema, c.predicted), class_words(c.schema, c.wanted)
    verdict = "as wanted" if c.valid else f"NOT {wanted} as wanted"
    if c.is_number:
        return f"the model answers {number(c.score)}, {verdict} ({scores(c)})"
    return f"the model answers {said}, {verdict} (probability of {wanted}: {scores(c)})"


def scores(c: Certificate) -> str:
    """The present and the new score, and the one that is needed."""
    needed = str(c.wanted) if c.is_number else "" if c.needed is None else chance(c.needed)
    show = number if c.is_number else chance
    now = "unknown" if math.isnan(c.score_now) else show(c.score_now)
    return f"{now} now, {show(c.score)} then" + (f"; needed: {needed}" if needed else "")


def short_scores(c: Certificate) -> str:
    """The present and the new score, in short form."""
    show = number if c.is_number else "{:.2f}".format
    return show(c.score) if math.isnan(c.score_now) else f"{show(c.score_now)}->{show(c.score)}"


def number(output: float) -> str:
    """A regressor's output, with few digits."""
    return f"{output:,.6g}" if abs(output) < 1e6 else f"{output:,.12g}"


def chance(probability: float) -> str:
    """A probability; only exact 0 and 1 are shown as such."""
    return f"{min(max(probability, 0.001), 0.999):.3f}" if 0 < probability < 1 else f"{probability:g}"


def _facts(c: Certificate) -> Iterator[str]:
    cost = "cost unknown" if math.isnan(c.cost) else f"cost {c.cost:.3f}"
    yield cost if c.lof is None else f"{cost}, lof {c.lof:.3f} (1: as dense as around its neighbours)"
    effort = [f"{c.draws:,} draws"] if c.draws else []
    effort += [f"{counted(c.calls, 'candidate')} shown to the model"] if c.calls is not None else []
    yield f"found by {c.found_by}" + (f" ({', '.join(effort)})" if effort else "")
    if c.cut_short:
        yield CUT_SHORT
    yield from (f"note: {said}" for said in c.noted)


# An explanation at a glance.
FEW = 5
LABEL, CLASS = 40, 30
"""Maximum length of a row's label and of a class name."""
ANSWERED = ("verified", "best_effort", "already")
UNLIMITED = "no rules were given and nothing is fixed"


def glance(explanation: Explanation, few: int = FEW) -> Glance:
    """Statuses and notes; with `few`, also the number of changes and the first few answers."""
    e = explanation
    statuses = ", ".join(f"{count:,} {marked(status)}" for status, count in sorted(e.counts.items()))
    said = f"Explanation by {e.method}: {counted(len(e), 'row')} ({statuses or 'none'})"
    if not few:
        return Glance(said, e.notes)
    without = np.flatnonzero(~np.isin(e.row_status, ANSWERED)).tolist()
    facts = [("note", f"{UNLIMITED}; an answer may not be possible for a person")] if unlimited(e) else []
    if len(e.answers):
        counts = sorted(Counter(e.checks.changes.tolist()).items())
        said_of = ", ".join(f"{changes} in {counted(answers, 'answer')}" for changes, answers in counts)
        facts.append(("changes per answer", said_of))
    if without and not e.reasons:
        more = f" and {len(without) - few:,} more" if len(without) > few else ""
        named = ", ".join(f"{_label(e, i)} ({e.row_status[i]})" for i in without[:few])
        facts.append(("no answer", named + more))
    grids = [_answers(e, few)] if len(e.answers) else []
    grids += [_reasons(e, without, few)] if without and e.reasons else []
    return Glance(said, e.notes, tuple(facts), tuple(grids))


def unlimited(e: Explanation) -> bool:
    """Whether there are answers that only had to use legal values and satisfy the model."""
    own = e.own is not None and len(e.own.rules) > 0
    return len(e.answers) > 0 and not (own or e.task.rules or e.task.schema.immutable)


def certificate_glance(c: Certificate) -> Glance:
    """One answer: its changes, the model's answer, and the rules."""
    changes = tuple(change_cells(x, c.schema) for x in c.changes)
    rules = tuple(("kept" if rule.kept else "BROKEN", rule.words) for rule in c.rules)
    grids = (Overview(("feature", "now", "then"), changes), Overview(("verdict", "rule"), rules))
    return Glance(headline(c), facts=(("then", answered(c)),), grids=grids)


def _answers(e: Explanation, few: int) -> Overview:
    """The first answers, row by row and best first; the changes come last, since they may be long."""
    first = np.lexsort((e.rank, e.place))[:few].tolist()
    classes = dict.fromkeys(e.checks.wanted.tolist())
    wanted = cut(class_words(e.task.schema, next(iter(classes))), CLASS) if len(classes) == 1 else ""
    score, joins = ("probability", " of ") if e.task.classes else ("output", ", wanted ")
    head = ("row", "answer", f"{score}{joins}{wanted}" if wanted else score, "what changes")
    rest = remainder(len(e.answers) - few, "answer")
    lines = tuple(_line(e, i, bool(wanted)) for i in first)
    return Overview(head, lines, f"{rest}; see .frame and .certificates" if rest else "")


def _line(e: Explanation, i: int, same: bool) -> tuple[str, ...]:
    said = "; ".join(change_line(change, e.task.schema) for change in e.changes(i)) or "nothing"
    status = "" if e.checks.passed[i] else f" {marked('best_effort')}"
    then, now = float(e.checks.score[i]), float(e.score_now[e.place[i]])
    show = chance if e.task.classes else number
    score = "not asked" if math.isnan(then) else show(then)
    score = score if math.isnan(now) or math.isnan(then) else f"{show(now)} -> {score}"
    if not same and not math.isnan(then):
        score = f"{cut(class_words(e.task.schema, e.checks.wanted[i]), CLASS)}: {score}"
    return _label(e, int(e.place[i])), f"{e.rank[i]}{status}", score, said


def _reasons(e: Explanation, without: list[int], few: int) -> Overview:
    rows = tuple((_label(e, i), str(e.row_status[i]), _why(e.reasons.get(i))) for i in without[:few])
    rest = remainder(len(without) - few, "row")
    return Overview(("row", "no answer", "why"), rows, f"{rest}; see .why_not" if rest else "")


def _why(reason: WhyNot | None) -> str:
    """The obstacles, or the reason in words."""
    if reason is None or not reason.blockers:
        return "" if reason is None else reason.words
    sets = [" and ".join(obstacle.words for obstacle in together) for together in reason.blockers]
    if reason.status == "impossible" and len(sets) == 1:
        return f"blocked by: {sets[0]}"
    return f"would work without: {' / '.join(sets)}"


def _label(e: Explanation, position: int) -> str:
    return cut(e.rows.index[position], LABEL)
