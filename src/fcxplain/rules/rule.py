"""Rule: one line of a rule file, and in words: "if education increases, age must increase".

A clause is worded in one of two moods: as a demand ("must not decrease") or as a condition ("does not
decrease"). Everything else is worded as a comparison of two expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ..schema import Feature, Schema
from ..text import Glance, Overview, cut, grid
from .nodes import (
    MIRRORED,
    OPPOSITE,
    Abs,
    Affine,
    And,
    Compare,
    Formula,
    Implies,
    Member,
    Not,
    Op,
    Or,
    Ref,
    Same,
    frozen_by,
    refs_of,
)  # fmt: skip

Mood = Literal["must", "if"]
# Units with a singular without the last letter.
COUNTED = frozenset({"years", "months", "weeks", "days", "hours", "minutes", "seconds", "points", "persons", "miles"})

_MOVES: dict[Mood, dict[Op, str]] = {
    "must": {">=": "must not decrease", ">": "must increase", "<=": "must not increase", "<": "must decrease",
             "==": "must not change", "!=": "must change"},
    "if": {">=": "does not decrease", ">": "increases", "<=": "does not increase", "<": "decreases",
           "==": "stays the same", "!=": "changes"},
}  # fmt: skip
_RISES: dict[Mood, dict[Op, str]] = {
    "must": {">=": "must increase by at least {}", ">": "must increase by more than {}",
             "<=": "must not increase by more than {}", "<": "must increase by less than {}, if at all",
             "==": "must increase by exactly {}", "!=": "must not increase by exactly {}"},
    "if": {">=": "increases by at least {}", ">": "increases by more than {}",
           "<=": "does not increase by more than {}", "<": "increases by less than {}, if at all",
           "==": "increases by exactly {}", "!=": "does not increase by exactly {}"},
}  # fmt: skip
_TURNS = {"<=": "at most", "<": "less than", ">=": "at least", ">": "more than", "==": "exactly", "!=": "other than"}
_DATE_TURNS = {"<=": "no later than", "<": "before", ">=": "no earlier than", ">": "after", "==": "on", "!=": "not on"}


@dataclass(frozen=True)
class Rule:
    """One line of a rule file: its text, its meaning, and its line number.

    Parameters
    ----------
    text : str
        The rule as written.
    formula : Formula
        Its meaning in a schema.
    line : int, default=1
        The line of the file.

    Examples
    --------
    >>> from fcxplain import Feature, Schema, parse
    >>> rule = parse("age' >= age", Schema((Feature("age", "integer", low=18, high=90),)))
    >>> rule
    <rule age' >= age: age must not decrease>
    >>> rule.features
    ('age',)
    """

    text: str
    formula: Formula
    line: int = 1

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<rule {cut(self.text)}: {cut(in_words(self))}>"

    def _repr_html_(self) -> str:
        facts = (("in words", in_words(self)), ("about", ", ".join(self.features)))
        return Glance(self.text, facts=facts).html()

    @cached_property
    def refs(self) -> frozenset[Ref]:
        """Every name that the rule mentions."""
        return frozenset(refs_of(self.formula))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that the rule mentions, sorted."""
        return tuple(sorted({r.name for r in self.refs}))

    @property
    def freezes(self) -> str | None:
        """The feature that this rule freezes (`f' == f`), if it says nothing else."""
        return frozen_by(self.formula)


def rules_grid(rules: Sequence[Rule]) -> Overview:
    """A table with one line per rule."""
    return grid(("rule", "in words"), [(rule.text, in_words(rule)) for rule in rules], "rule")


def in_words(rule: Rule, schema: Schema | None = None) -> str:
    """The rule as a sentence for people, e.g. "age must not decrease".

    Parameters
    ----------
    rule
        The rule, which carries its features with labels and units.
    schema
        Features with other labels to use instead.

    Returns
    -------
    str
    """
    return _Speaker(schema).say(rule.formula, "must")


@dataclass(frozen=True)
class _Speaker:
    """One way of naming features."""

    schema: Schema | None

    def say(self, formula: Formula, mood: Mood, *, inside: bool = False) -> str:
        """A formula as a clause; `inside` another one, compounds stand in parentheses."""
        match formula:
            case Compare():
                return self._compare(formula, mood)
            case Member():
                return self._member(formula, mood)
            case Same():
                return self._same(formula, mood)
            case Not(item=Compare() as item):
                return self.say(Compare(item.left, OPPOSITE[item.op], item.right), mood)
            case Not(item=Member(ref=ref, values=values, negated=negated)):
                return self.say(Member(ref, values, not negated), mood)
            case Not(item=item):
                said = self.say(item, "if")
                return f"it must not be that {said}" if mood == "must" else f"it is not the case that {said}"
            case Implies(condition=condition, consequence=consequence):
                said = f"if {self.say(condition, 'if')}, then {self.say(consequence, mood)}"
            case And(items=items):
                said = self._between(formula, mood) or self._joined(items, " and ", mood)
            case Or(items=items):
                said = self._joined(items, " or ", mood)
        return f"({said})" if inside else said

    def _joined(self, items: tuple[Formula, ...], word: str, mood: Mood) -> str:
        return word.join(self.say(i, mood, inside=not isinstance(i, Compare | Member | Same)) for i in items)

    def _between(self, formula: And, mood: Mood) -> str | None:
        """`18 <= age' <= 70` as one clause."""
        bounds = [bound for item in formula.items if isinstance(item, Compare) and (bound := _bound(item))]
        refs, ends = {ref for ref, _, _ in bounds}, {op: value for _, op, value in bounds}
        if len(bounds) < len(formula.items) or len(refs) != 1 or set(ends) != {"<=", ">="}:
            return None
        ref = refs.pop()
        low, high = _value(ref.feature, ends[">="], unit=False), _value(ref.feature, ends["<="])
        return f"{self._name(ref)} {_be(mood)} between {low} and {high}"

    def _compare(self, formula: Compare, mood: Mood) -> str:
        difference, bound = formula.difference, _bound(formula)
        if bound is not None:
            ref, op, value = bound
            turn = (_DATE_TURNS if ref.feature.kind == "date" else _TURNS)[op]
            return f"{self._name(ref)} {_be(mood)} {turn} {_value(ref.feature, value)}"
        move = _move(difference, formula.op)
        if move is not None:
            return f"{self._title(move[0])} {self._moved(*move, mood)}"
        swing = _swing(difference, formula.op)
        if swing is not None:
            feature, op, value = swing
            how = {"<=": "by no more than", "<": "by less than", ">=": "by at least", ">": "by more than"}[op]
            verb = "may change" if op in ("<=", "<") else "must change"
            return f"{self._title(feature)} {verb if mood == 'must' else 'changes'} {how} {_amount(feature, value)}"
        left, right = self._expression(formula.left), self._expression(formula.right)
        return f"{left} {_be(mood)} {_TURNS[formula.op]} {right}"

    def _moved(self, feature: Feature, op: Op, delta: float, mood: Mood) -> str:
        has_ties = len(set(feature.ranks)) < len(feature.ranks)
        if has_ties and delta == 0 and op in ("==", "!="):
            verb = "keep" if op == "==" else "change"
            return f"must {verb} its rank" if mood == "must" else f"{verb}s its rank"
        if delta == 0:
            return _MOVES[mood][op]
        if delta > 0:
            return _RISES[mood][op].format(_amount(feature, delta))
        said = _RISES[mood][MIRRORED[op]].format(_amount(feature, -delta))
        return said.replace("increase", "decrease")

    def _member(self, formula: Member, mood: Mood) -> str:
        feature = self._known(formula.ref.feature)
        if feature.is_number:
            values = [_value(feature, v, unit=False) for v in formula.values]
        else:
            values = [feature.level_title(feature.levels[int(v)]) for v in formula.values]
        said = _span(feature, formula.values) or _listed(values)
        return f"{self._name(formula.ref)} {_be(mood, formula.negated)} {said}"

    def _same(self, formula: Same, mood: Mood) -> str:
        left, right = formula.left, formula.right
        if left.name == right.name:
            return f"{self._title(left.feature)} {_MOVES[mood]['!=' if formula.negated else '==']}"
        return f"{self._name(left)} {_be(mood, formula.negated)} the same as {self._name(right)}"

    def _expression(self, affine: Affine) -> str:
        said = ""
        for weight, atom in affine.terms:
            inner = f"the size of ({self._expression(atom.inside)})" if isinstance(atom, Abs) else self._name(atom)
            factor = "" if abs(weight) == 1 else f"{_number(abs(weight))} × "
            sign = (" - " if weight < 0 else " + ") if said else ("-" if weight < 0 else "")
            said += f"{sign}{factor}{inner}"
        if not said:
            return _number(affine.constant)
        if affine.constant:
            said += f" {'-' if affine.constant < 0 else '+'} {_number(abs(affine.constant))}"
        return said

    def _name(self, ref: Ref) -> str:
        return self._title(ref.feature) if ref.primed else f"the present {self._title(ref.feature)}"

    def _title(self, feature: Feature) -> str:
        return self._known(feature).title

    def _known(self, feature: Feature) -> Feature:
        return self.schema[feature.name] if self.schema is not None and feature.name in self.schema else feature


def _bound(formula: Compare) -> tuple[Ref, Op, float] | None:
    """A number against a constant, turned so that the number stands first."""
    difference = formula.difference
    match difference.terms:
        case ((weight, Ref() as ref),) if ref.feature.is_number:
            op = formula.op if weight > 0 else MIRRORED[formula.op]
            return ref, op, -difference.constant / weight + 0.0
    return None


def _move(difference: Affine, op: Op) -> tuple[Feature, Op, float] | None:
    """A feature against its own present value, as `f' op f + delta`."""
    refs = {atom: weight for weight, atom in difference.terms if isinstance(atom, Ref)}
    if len(refs) != 2 or len(difference.terms) != 2:
        return None
    new, old = sorted(refs, key=lambda r: not r.primed)
    if new.name != old.name or not new.primed or old.primed or refs[new] != -refs[old]:
        return None
    weight = refs[new]
    return new.feature, op if weight > 0 else MIRRORED[op], -difference.constant / weight + 0.0


def _swing(difference: Affine, op: Op) -> tuple[Feature, Op, float] | None:
    """`abs(f' - f)` against a constant."""
    match difference.terms:
        case ((weight, Abs() as absolute),) if abs(absolute.inside.terms[0][0]) == 1:
            move, turned = _move(absolute.inside, "<="), op if weight > 0 else MIRRORED[op]
            if move is not None and move[2] == 0 and turned not in ("==", "!="):
                return move[0], turned, -difference.constant / weight
    return None


def _span(feature: Feature, codes: tuple[float, ...]) -> str | None:
    """An ordinal's levels from a rank up or down, as "at least X"."""
    if feature.kind != "ordinal" or len(codes) < 2:
        return None
    ranks = feature.ranks
    chosen = {ranks[int(c)] for c in codes}
    if len(codes) != sum(r in chosen for r in ranks):
        return None
    low, high = min(chosen), max(chosen)
    if chosen == {r for r in ranks if r >= low}:
        turn, end = "at least", low
    elif chosen == {r for r in ranks if r <= high}:
        turn, end = "at most", high
    else:
        return None
    levels = (level for level, rank in zip(feature.levels, ranks, strict=True) if rank == end)
    return f"{turn} {_listed([feature.level_title(level) for level in levels])}"


def _be(mood: Mood, negated: bool = False) -> str:
    verb = "must be" if mood == "must" else "is"
    return verb.replace("must", "must not") if negated and mood == "must" else verb + " not" * negated


def _listed(items: list[str]) -> str:
    if not items:
        return "a level that does not exist"
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} or {items[-1]}"


def _value(feature: Feature, value: float, *, unit: bool = True) -> str:
    """A value of a feature, where `_amount` is a difference."""
    if feature.kind == "date" and value == round(value):
        return feature.text(value)
    return _amount(feature, value) if unit else _number(value)


def _amount(feature: Feature, value: float) -> str:
    if feature.kind == "ordinal":
        return f"{_number(value)} rank{'s' * (value != 1)}"
    unit = feature.unit or ("days" if feature.kind == "date" else "")
    unit = unit.removesuffix("s") if value == 1 and unit in COUNTED else unit
    return f"{_number(value)} {unit}".rstrip()


def _number(value: float) -> str:
    return f"{value:,.12g}"
