"""The top and the foot of the page, and the cards that are read without a script."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...rules import in_words
from ..glance import UNLIMITED, unlimited
from ..reasons import Status
from ..wording import counted, escaped, percent, short
from .cards import Answer, Card, Line
from .tally import (
    NO_ANSWER,
    FeatureCount,
    GroupCount,
    ObstacleCount,
    changes_per_answer,
    feature_counts,
    first_answers,
    group_counts,
    obstacle_counts,
)

if TYPE_CHECKING:
    from ..explanation import Explanation

# So many lines of a list are shown; the rest is counted.
SHOWN = 15
NAMED = 8


@dataclass(frozen=True)
class StatusWord:
    """A status for people: a sign, a name, and what it means."""

    sign: str
    name: str
    meaning: str


STATUSES = {
    Status.VERIFIED: StatusWord("✓", "verified", "an answer of which everything that was checked holds"),
    Status.BEST_EFFORT: StatusWord(
        "!", "fails a check", "an answer of which something does not hold; its card says what"
    ),
    Status.NOT_FOUND: StatusWord("?", "not found", "no answer was found, which does not prove that there is none"),
    Status.IMPOSSIBLE: StatusWord("✕", "impossible", "proved: no legal row that keeps the rules gets the class wanted"),
    Status.TIMED_OUT: StatusWord("…", "timed out", "the budget of the row was spent before an answer was found"),
    Status.ALREADY: StatusWord("=", "already there", "the row gets the class wanted as it is"),
}


# What is said of a row that is asked about alone.
ALONE = {
    Status.VERIFIED: "There is a verified way to {goal}.",
    Status.BEST_EFFORT: "No way to {goal} was found that passes every check.",
    Status.NOT_FOUND: "No way to {goal} was found.",
    Status.IMPOSSIBLE: "There is no way to {goal}. That is proved.",
    Status.TIMED_OUT: "No way to {goal} was found before the budget was spent.",
}


MAY_NOT_DO = (
    f"<strong>{UNLIMITED.capitalize()}:</strong> an answer is only known to have legal values and to get the class "
    "wanted. What it asks for may not be possible for a person."
)


def kicker(e: Explanation) -> str:
    """The line above the title."""
    rules = counted(len(e.task.rules), "rule") if e.task.rules else "no rules"
    return escaped(f"{short(e.method)} · {counted(len(e), 'row')} · {rules}")


def lead(e: Explanation) -> str:
    """The batch in a sentence."""
    wanted = sorted({short(w) for w in e.wanted.tolist()})
    goal = f"<strong>{escaped(wanted[0])}</strong>" if len(wanted) == 1 else "the class wanted"
    asked, found = int(e.asked.sum()), e.counts.get(Status.VERIFIED, 0)
    if not asked:
        return "No row needed an answer." if len(e) else "No rows were asked."
    if len(e) == 1:
        return ALONE[Status(e.row_status[0])].format(goal=goal)
    told = f"{found:,} of {counted(asked, 'row')} that wanted {goal} {'has' if found == 1 else 'have'} a verified way."
    there = len(e) - asked
    return f"{told} {counted(there, 'row')} {'is' if there == 1 else 'are'} there already." if there else told


def notes(e: Explanation) -> str:
    """What the method has to say, where it has."""
    warned = e.counts.get(Status.BEST_EFFORT, 0)
    said = [f"<p class='note'>{escaped(note)}</p>" for note in e.notes]
    if unlimited(e):
        said.insert(0, f"<p class='note care'>{MAY_NOT_DO}</p>")
    if warned:
        told = f"{counted(warned, 'row')} only {'has' if warned == 1 else 'have'} an answer that fails a check."
        where = "Its card is marked." if warned == 1 else "Their cards are marked."
        said.insert(0, f"<p class='note bad'><b aria-hidden='true'>!</b> {told} {where}</p>")
    return "\n".join(said)


def summary(e: Explanation, group: str | None) -> str:
    """The batch in panels. One row has none: its card says it all."""
    if group is not None:
        e.task.schema[group]  # refuses a feature that is not there
    if len(e) == 1:
        return ""
    title = "<h2 id='summary-title'>The batch</h2>"
    return f"<section id='summary' aria-labelledby='summary-title'>{title}{_panels(e, group)}</section>"


def _panels(e: Explanation, group: str | None) -> str:
    panels = [_statuses(e)]
    if len(e.answers):
        panels += [_features(feature_counts(e), len(first_answers(e))), _changes(changes_per_answer(e))]
    if e.reasons or set(e.row_status.tolist()) & set(NO_ANSWER):
        panels.append(_no_answer(e, obstacle_counts(e)))
    if group is not None:
        panels.append(_groups(e.task.schema[group].title, group_counts(e, group)))
    return "<div class='panels'>" + "\n".join(panels) + "</div>"


def _panel(title: str, body: str, kind: str = "") -> str:
    return f"<section class='panel {kind}'><h3>{escaped(title)}</h3>{body}</section>"


def _bar(share: float, kind: str = "") -> str:
    """A bar drawn without a style attribute, which the page's own policy forbids."""
    return (
        f"<svg class='bar {kind}' aria-hidden='true' preserveAspectRatio='none' viewBox='0 0 100 1'>"
        f"<rect width='{100 * share:.4g}' height='1'/></svg>"
    )


def _badge(status: str, word: StatusWord) -> str:
    return f"<span class='badge {status}'><b aria-hidden='true'>{word.sign}</b> {word.name}</span>"


def _statuses(e: Explanation) -> str:
    lines = [
        f"<tr><th scope='row'>{_badge(status, word)}</th>"
        f"<td class='n'>{e.counts[status]:,}</td><td class='wide'>{_bar(e.counts[status] / len(e), status)}</td>"
        f"<td class='n'>{percent(e.counts[status] / len(e))}</td></tr>"
        for status, word in STATUSES.items()
        if status in e.counts
    ]
    head = "<thead class='unseen'><tr><th>Status</th><th>Rows</th><td></td><th>Share</th></tr></thead>"
    return _panel("How the rows fared", f"<table>{head}<tbody>{''.join(lines)}</tbody></table>")


def _features(found: list[FeatureCount], answers: int) -> str:
    if not found:
        return _panel("What changes", "<p>Nothing changes in any answer.</p>")
    lines = "".join(_feature(f, answers) for f in found[:SHOWN])
    more = f"<p class='quiet'>and {counted(len(found) - SHOWN, 'feature')} more</p>" if len(found) > SHOWN else ""
    head = "<thead class='unseen'><tr><th>Feature</th><th>Changes</th><td></td></tr></thead>"
    told = f"<p class='quiet'>In the first answers of {counted(answers, 'row')}.</p>"
    return _panel("What changes", f"{told}<table>{head}<tbody>{lines}</tbody></table>{more}", "tall")


def _feature(f: FeatureCount, answers: int) -> str:
    ways = f"{f.up:,} up, {f.down:,} down" if f.up and f.down else ""
    usual = "; ".join(text for text in (f.usual, ways) if text)
    return (
        f"<tr><th scope='row'>{escaped(short(f.feature.title, 60))} <small>{escaped(short(usual, 80))}</small></th>"
        f"<td class='n'>{f.count:,} <small>({percent(f.count / answers)})</small></td>"
        f"<td class='wide'>{_bar(f.count / answers)}</td></tr>"
    )


def _changes(found: list[tuple[int, int]]) -> str:
    total = sum(count for _, count in found)
    mean = sum(changes * count for changes, count in found) / total
    lines = "".join(
        f"<tr><th scope='row'>{counted(changes, 'change')}</th><td class='n'>{count:,}</td>"
        f"<td class='wide'>{_bar(count / total)}</td><td class='n'>{percent(count / total)}</td></tr>"
        for changes, count in found[:SHOWN]
    )
    head = "<thead class='unseen'><tr><th>Changes</th><th>Answers</th><td></td><th>Share</th></tr></thead>"
    told = f"<p class='quiet'>{mean:.2f} on average.</p>"
    return _panel("Changes per answer", f"{told}<table>{head}<tbody>{lines}</tbody></table>")


def _no_answer(e: Explanation, found: list[ObstacleCount]) -> str:
    title, bare = "Who got no answer", sum(e.counts.get(status, 0) for status in NO_ANSWER)
    told = f"<p>{counted(bare, 'row')} {'has' if bare == 1 else 'have'} no answer."
    if not bare:
        told = "<p>Every row has an answer, but not every answer passes."
    if not e.reasons:
        return _panel(title, f"{told} What stands in the way was not asked (<code>why_not</code>).</p>")
    if not found:
        return _panel(title, f"{told} {'Its card says' if bare == 1 else 'Their cards say'} why.</p>")
    lines = "".join(
        f"<tr><th scope='row'>{escaped(short(o.words, 240))} <small>{escaped(_named(o.labels))}</small></th>"
        f"<td class='n'>{len(o.labels):,}</td></tr>"
        for o in found[:SHOWN]
    )
    proved = all(why.status == Status.IMPOSSIBLE for why in e.reasons.values() if why.blockers)
    stands = "stands" if proved else "may stand"
    head = f"<thead><tr><th>What {stands} in the way, and of which rows</th><th class='n'>Rows</th></tr></thead>"
    return _panel(title, f"{told}</p><table>{head}<tbody>{lines}</tbody></table>", "broad obstacles")


def _named(labels: tuple[str, ...]) -> str:
    """The first labels; a bare number is said to be a row's."""
    more = f" and {len(labels) - NAMED:,} more" if len(labels) > NAMED else ""
    bare = f"row{'s' * (len(labels) > 1)} " if all(label.isdigit() for label in labels) else ""
    return bare + ", ".join(short(label, 30) for label in labels[:NAMED]) + more


def _groups(title: str, found: list[GroupCount]) -> str:
    failing = any(g.best_effort for g in found)
    titles = ("Asked", "Verified", *(["Fail a check"] if failing else []), "No answer", "Changes")
    head = "".join(f"<th scope='col' class='n'>{t}</th>" for t in titles)
    head = f"<tr><th scope='col'>{escaped(short(title, 60))}</th>{head}</tr>"
    table = f"<table><thead>{head}</thead><tbody>{''.join(_group(g, failing) for g in found)}</tbody></table>"
    scroll = f"<div class='scroll' tabindex='0' role='region' aria-label='By group'>{table}</div>"
    told = "<p class='quiet'>Changes: on average in first answers.</p>"
    return _panel(f"By {short(title, 60)}", told + scroll, "broad groups")


def _group(g: GroupCount, failing: bool) -> str:
    parts = (g.verified, *([g.best_effort] if failing else []), g.no_answer)
    shares = "".join(f"<td class='n'>{percent(part / g.asked) if g.asked else '–'}</td>" for part in parts)
    changes = "–" if math.isnan(g.changes) else f"{g.changes:.2f}"
    name = f"<th scope='row'>{escaped(short(g.name, 60))}</th>"
    return f"<tr>{name}<td class='n'>{g.asked:,}</td>{shares}<td class='n'>{changes}</td></tr>"


def legend(e: Explanation) -> str:
    """What the statuses mean, the rules in words, and what a certificate is."""
    words = [f"<dt>{w.name}</dt><dd>{w.meaning}</dd>" for s, w in STATUSES.items() if s in e.counts]
    rules = "".join(f"<li>{escaped(short(in_words(rule), 400))}</li>" for rule in e.task.rules[: 2 * SHOWN])
    told = f"<h3>The rules</h3><ul>{rules}</ul>" if rules else ""
    return (
        f"<dl>{''.join(words)}</dl>"
        "<p>The bars beside each change show the training rows: a ring marks the value now, a dot the value then. "
        "A certificate holds everything that was checked, for people and for programs.</p>" + told
    )


def plain_cards(cards: Iterable[Card], more: int) -> str:
    """Cards for readers without a script."""
    shown = "\n".join(map(_plain_card, cards))
    left = f"<p class='note'>{counted(more, 'more row')} can be seen with JavaScript switched on.</p>" if more else ""
    return shown + left


def _plain_card(card: Card) -> str:
    badge = _badge(card.status, STATUSES[Status(card.status)])
    body = "".join(map(_plain_answer, card.answers)) + "".join(f"<p>{escaped(said)}</p>" for said in card.reason)
    body += _plain_blocked(card)
    return f"<article class='card {card.status}'><h3>{escaped(card.label)} {badge}</h3>{body}</article>"


def _plain_blocked(card: Card) -> str:
    if card.blocked is None:
        return ""
    things = "".join(f"<li>{escaped(said)}</li>" for said in card.blocked.things)
    things = f"<ol>{things}</ol>" if card.blocked.either else f"<ul>{things}</ul>"
    lines = "".join(map(_plain_line, card.relaxed))
    way = f"<p>{escaped(card.blocked.unless)}</p><ul>{lines}</ul><p>{escaped(card.blocked.remark)}</p>" if lines else ""
    return f"<p>{escaped(card.blocked.title)}</p>{things}{way}"


def _plain_answer(answer: Answer) -> str:
    failures = "".join(f"<li>{escaped(said)}</li>" for said in answer.failures)
    alarm = f"<div class='alarm'><p>This answer fails a check.</p><ul>{failures}</ul></div>" if failures else ""
    lines = "".join(map(_plain_line, answer.lines)) or "<li>Nothing changes.</li>"
    rules = "".join(
        f"<li>{'kept' if rule.kept else '<b>broken</b>'}: {escaped(short(rule.words, 400))}</li>"
        for rule in answer.certificate.rules[:SHOWN]
    )
    return f"{alarm}<ul>{lines}</ul><p>{escaped(answer.says)}</p><ul class='quiet'>{rules}</ul>"


def _plain_line(line: Line) -> str:
    moved = f" ({escaped(line.difference)})" if line.difference else ""
    return f"<li>{escaped(line.title)}: {escaped(line.now)} → <strong>{escaped(line.then)}</strong>{moved}</li>"
