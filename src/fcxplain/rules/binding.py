"""Binding names to features: what a parsed rule means in a schema. Collects every mistake of a rule, with a remedy."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from lark import Token, Tree

from ..errors import did_you_mean, some
from ..schema import Feature, Schema, dates
from .nodes import (
    MIRRORED,
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

ORDERED = (
    'Use ==, != or in; or, if its levels have an order, make it kind = "ordinal" in the schema, '
    "with its levels from lowest to highest."
)

EXAMPLE = (
    "Write a comparison, => and a comparison, e.g. age' > age => income' >= income: a prime marks the value after."
)

# Our own arrow, =>, is not among them.
_ARROW = re.compile(r"[-–—]+>|={2,}>|→|⟶|➔")
# Two points are a range, one is a decimal mark.
_COMMA = re.compile(r"(?<![\w,])(?<!(?<!\.)\.)\d+,\d+(?!\w|,|\.(?!\.))")
_SPOKEN = re.compile(r"if\b(?P<condition>.+?)\bthen\b(?P<consequence>.+)", re.IGNORECASE)


def spoken(text: str) -> str:
    """A rule in words, 'if a then b', written with an arrow, valid or not. Empty for any other text."""
    found = _SPOKEN.fullmatch(text.strip())
    return f"{found['condition'].strip(' ,')} => {found['consequence'].strip()}" if found else ""


def mistyped(text: str, column: int) -> str:
    """For an arrow of another language, or a number with a comma, at this column (from 1): what to write."""
    for arrow in _ARROW.finditer(text):
        if arrow.start() < column <= arrow.end():
            return f"Write => instead of {arrow[0]}"
    for number in _COMMA.finditer(text):
        if number.start() < column <= number.end():
            return decimal_comma(number[0])
    return ""


def decimal_comma(text: str) -> str:
    """How to write the first number with a comma in the text; empty if there is none."""
    found = _COMMA.search(text)
    if found is None:
        return ""
    whole, part = found[0].split(",")
    thousand = f" If it separates thousands: {whole}{part}." if len(part) == 3 else ""
    return f"If the comma in {found[0]} is a decimal mark, write {whole}.{part}.{thousand}"


def multiplied(quotient: str, op: Op, other: str, divisor: Feature) -> str:
    """For `a / b <= c` the same without a division; `other` is a number or a sum of numbers."""
    first, last = (part.strip() for part in quotient.rsplit("/", 1))
    factor = f"({other})" if re.search(r"[-+−]", other) else other
    only = "" if divisor.low is not None and divisor.low >= 0 else f", which is the same where {last} is above 0"
    return f"Write {first} {op} {factor} * {last}{only}."


MAX_DEPTH = 60
MAX_NUMBER = 1e15
_SIGNS: dict[str, Op] = {"≤": "<=", "≥": ">=", "≠": "!="}
_TEST = {"<": operator.lt, "<=": operator.le, ">=": operator.ge, ">": operator.gt}


class Mistake(Exception):
    """A mistake in a rule, with its column; raised by what makes no sense, and never leaves this package."""

    def __init__(self, column: int, problem: str, remedy: str = "") -> None:
        self.column, self.problem, self.remedy = column, problem, remedy


@dataclass(frozen=True)
class Word:
    """A side of a comparison that may be a level: quoted text, a bare word, a number or `HS-grad`."""

    text: str
    column: int
    quoted: bool = False


class Binder:
    """Turns the syntax tree of one rule into its formula; what makes no sense goes to `mistakes`."""

    def __init__(self, schema: Schema, text: str) -> None:
        self.schema, self.text = schema, text
        self.mistakes: list[Mistake] = []

    def bind(self, tree: Tree[Token]) -> Formula:
        """The formula of a whole rule; it means something only if `mistakes` stays empty."""
        return _frozen_at_top(self._formula(tree.children[0], 0))

    def _formula(self, tree: Any, depth: int) -> Formula:
        if depth > MAX_DEPTH:
            self.mistakes.append(_mistaken(tree, f"is nested deeper than {MAX_DEPTH} levels"))
            return And(())
        match tree.data:
            case "comparison":
                return self._chain(tree)
            case "member" | "not_member":
                return self._attempt(lambda: self._member(tree, negated=tree.data == "not_member"))
            case "not_":
                *nots, inner = tree.children
                item = self._formula(inner, depth + 1)
                return item if len(nots) % 2 == 0 else Not(item)
        items = tuple(self._formula(child, depth + 1) for child in tree.children)
        if tree.data == "implies":
            return Implies(items[0], items[1])
        return And(items) if tree.data == "and_" else Or(items)

    def _chain(self, tree: Any) -> Formula:
        """`a <= b <= c` means that both comparisons hold."""
        sides, signs = tree.children[::2], [str(sign) for sign in tree.children[1::2]]
        items = tuple(
            self._attempt(partial(self._compare, left, _SIGNS.get(sign, cast(Op, sign)), right))
            for left, sign, right in zip(sides, signs, sides[1:], strict=False)
        )
        return items[0] if len(items) == 1 else And(items)

    def _attempt(self, reading: Callable[[], Formula]) -> Formula:
        """The formula, or a note of what is wrong, so that the rest of the rule is read too."""
        try:
            return reading()
        except Mistake as mistake:
            self.mistakes.append(mistake)
            return And(())

    def _compare(self, left: Any, op: Op, right: Any) -> Formula:
        self._check_quotients(left, op, right)
        for side, other, sign in ((left, right, op), (right, left, MIRRORED[op])):
            if (ref := self._category(side)) and (word := self._word(other)) and not self._is_feature(other, word):
                return self._against_level(ref, sign, word)
        first, second = self._category(left), self._category(right)
        if first and second and "categorical" in (first.feature.kind, second.feature.kind):
            if op not in ("==", "!="):
                name = first.name if first.feature.kind == "categorical" else second.name
                raise _mistaken(left, f"{name!r} is categorical: it has no order", ORDERED)
            return Same(first, second, negated=op == "!=")
        comparison = Compare(self._affine(left, 0), op, self._affine(right, 0))
        _check_kinds(left, comparison)
        _check_dates(left, right, comparison)
        return comparison

    def _check_quotients(self, left: Any, op: Op, right: Any) -> None:
        """A side that is divided by a feature is not a sum of features, but can often be rewritten as one."""
        for side, other, sign in ((left, right, op), (right, left, MIRRORED[op])):
            last = side.children[-1] if side.data == "product" and str(side.children[-2]) == "/" else None
            name = _name(last)[0] if last is not None and last.data in ("name", "primed") else None
            if name in self.schema:
                is_number = not any(t.data in ("name", "primed") for t in other.iter_subtrees())
                written = multiplied(self._slice(side), sign, self._slice(other), self.schema[str(name)])
                raise _mistaken(last, f"a rule cannot divide by a feature, {name!r}", written if is_number else "")

    def _against_level(self, ref: Ref, op: Op, word: Word) -> Formula:
        self._check_misspelt_feature(ref.feature, word)
        code = _code(ref.feature, word)
        if op in ("==", "!="):
            return Member(ref, (code,), negated=op == "!=")
        if ref.feature.kind == "categorical":
            raise Mistake(word.column, f"{ref.name!r} is categorical: it has no order", ORDERED)
        ranks = ref.feature.ranks
        return Member(ref, tuple(i for i, rank in enumerate(ranks) if _TEST[op](rank, ranks[code])))

    def _check_misspelt_feature(self, feature: Feature, word: Word) -> None:
        """A bare word that is near a feature's name, and near no level, was meant as that name."""
        known = word.text in feature.level_of_text or did_you_mean(word.text, feature.levels)
        near = "" if known or word.quoted else did_you_mean(word.text, self.schema.names)
        if near:
            raise Mistake(word.column, f"no feature {word.text!r}", near)

    def _member(self, tree: Any, *, negated: bool) -> Formula:
        subject, items = tree.children[0], [c for c in tree.children[-1].children if c is not None]
        if not items:
            raise _mistaken(tree.children[-1], "the set is empty", "Name at least one value.")
        ref = self._affine(subject, 0, alone=True).ref
        if ref is None:
            raise _mistaken(subject, "only a feature can be in a set")
        read = _code if ref.feature.is_category else _number
        values = {read(ref.feature, _item(item.children[0])) for item in items}
        return Member(ref, tuple(sorted(values)), negated)

    def _affine(self, tree: Any, depth: int, *, alone: bool = False) -> Affine:
        """A linear expression; `alone` allows a category, which arithmetic does not."""
        if depth > MAX_DEPTH:
            raise _mistaken(tree, f"is nested deeper than {MAX_DEPTH} levels")
        match tree.data:
            case "number":
                return _bounded(tree, Affine(constant=float(tree.children[0])))
            case "name" | "primed":
                return Affine(((1.0, self._named(tree, alone)),))
            case "date" | "string" if text := _date(tree):
                try:
                    return Affine(constant=dates.day_of(text))
                except ValueError as error:
                    raise _mistaken(tree, f"{text} is not a calendar date") from error
            case "string":
                raise _mistaken(tree, "quoted text stands for a level and can only be compared with a category")
            case "signed":
                *signs, value = tree.children
                return self._affine(value, depth + 1) * (-1.0) ** sum(str(s) != "+" for s in signs)
            case "absolute":
                return Affine(((1.0, Abs(self._affine(tree.children[0], depth + 1))),))
        parts = [self._affine(child, depth + 1) for child in tree.children[::2]]
        signs = [str(sign) for sign in tree.children[1::2]]
        if tree.data == "sum":
            signed = (part if sign == "+" else part * -1.0 for sign, part in zip(signs, parts[1:], strict=True))
            return _bounded(tree, Affine.total((parts[0], *signed)))
        total = parts[0]
        for sign, part in zip(signs, parts[1:], strict=True):
            total = _bounded(tree, _multiplied(tree, total, sign, part))
        return total

    def _named(self, tree: Any, alone: bool) -> Ref:
        name, primed = _name(tree)
        if name not in self.schema:
            near = did_you_mean(name, self.schema.names) or f"There are {some(self.schema.names)}."
            raise _mistaken(tree, f"no feature {name!r}", near)
        feature = self.schema[name]
        if feature.kind == "categorical" and not alone:
            problem = f"{name!r} is categorical: it cannot be used in arithmetic or compared by order"
            raise _mistaken(tree, problem, ORDERED)
        return Ref(feature, primed)

    def _category(self, tree: Any) -> Ref | None:
        """The category that a side names, if it is nothing else."""
        if tree.data not in ("name", "primed"):
            return None
        name, primed = _name(tree)
        known = name in self.schema and self.schema[name].is_category
        return Ref(self.schema[name], primed) if known else None

    def _word(self, tree: Any) -> Word | None:
        """The side as the name of a level: quoted, a bare word, a number, or a bare run such as `HS-grad`."""
        column = int(tree.meta.column)
        match tree.data:
            case "string":
                return Word(str(tree.children[0])[1:-1], column, quoted=True)
            case "name" if not str(tree.children[0]).startswith("`"):
                return Word(str(tree.children[0]), column)
            case "number" | "signed" | "date":
                return Word(self._slice(tree), column)
            case "sum" | "product" if not any(r.data == "primed" for r in tree.iter_subtrees()):
                names = [_name(t)[0] for t in tree.iter_subtrees() if t.data == "name"]
                return None if any(n in self.schema for n in names) else Word(self._slice(tree), column)
        return None

    def _is_feature(self, tree: Any, word: Word) -> bool:
        """Whether a bare word is a feature's name; if it could be either, say so."""
        if word.quoted or tree.data != "name" or word.text not in self.schema:
            return False
        owners = [f.name for f in self.schema if word.text in f.level_of_text]
        if owners:
            remedy = f'Quote the level ("{word.text}") or put the feature in backticks (`{word.text}`).'
            problem = f"{word.text!r} is a feature and also a level of {owners[0]!r}"
            raise Mistake(word.column, problem, remedy)
        return True

    def _slice(self, tree: Any) -> str:
        return self.text[tree.meta.start_pos : tree.meta.end_pos]


def _check_kinds(tree: Any, comparison: Compare) -> None:
    kinds = {ref.feature.is_number: ref.name for ref in refs_of(comparison)}
    if len(kinds) == 2:
        problem = f"{kinds[False]!r} is a category and {kinds[True]!r} a number: they cannot be compared"
        raise _mistaken(tree, problem)
    if not kinds:
        raise _mistaken(tree, "only constants are left to compare")


def _check_dates(left: Any, right: Any, comparison: Compare) -> None:
    """Compare dates with dates, and differences of dates with a number of days."""
    dated = [ref.name for ref in refs_of(comparison) if ref.feature.kind == "date"]
    is_date = any(_date(tree) for side in (left, right) for tree in side.iter_subtrees())
    terms = comparison.difference.terms
    days = sum(weight for weight, ref in terms if isinstance(ref, Ref) and ref.name in dated)
    if days and not is_date:
        remedy = f"Write e.g. {dated[0]}' <= 2026-12-31, or {dated[0]}' >= {dated[0]} + 30 (in days)."
        raise _mistaken(left, f"{dated[0]!r} is a date, but is not compared with one", remedy)
    if is_date and not dated:
        names = some(sorted({ref.name for ref in refs_of(comparison)}))
        raise _mistaken(right, f"a date is compared with {names}, which is not a date")


def _date(tree: Any) -> str:
    """A date as it is written, with or without quotes; empty if it is none."""
    text = str(tree.children[0]) if tree.data in ("date", "string") else ""
    text = text[1:-1] if tree.data == "string" else text
    return text if dates.ISO.fullmatch(text) else ""


def _multiplied(tree: Any, total: Affine, sign: str, part: Affine) -> Affine:
    if sign == "/":
        if part.terms or not part.constant:
            remedy = "Multiply instead: a <= 3 * b means the same as a / b <= 3." if part.terms else ""
            raise _mistaken(tree, "only division by a number other than 0 is possible", remedy)
        return total * (1.0 / part.constant)
    if part.terms and total.terms:
        raise _mistaken(tree, "two features are multiplied", "One factor must be a number.")
    return part * total.constant if part.terms else total * part.constant


def _bounded(tree: Any, total: Affine) -> Affine:
    largest = max([abs(total.constant), *(abs(w) for w, _ in total.terms)])
    if not largest <= MAX_NUMBER:
        raise _mistaken(tree, f"reaches numbers beyond {MAX_NUMBER:g}")
    return total


def _code(feature: Feature, word: Word) -> int:
    """The level that a word names."""
    found = feature.level_of_text.get(word.text)
    if found is None and not word.quoted:
        found = _as_plain_level(feature, word.text)
    if found is None:
        levels = f"Its levels are {some(map(str, feature.levels))}."
        hint = did_you_mean(word.text, feature.levels) or levels
        raise Mistake(word.column, f"{feature.name!r} has no level {word.text!r}", hint)
    return found


def _number(feature: Feature, word: Word) -> float:
    """The number, or the day, that an item of a set names."""
    is_date = feature.kind == "date"
    try:
        value = dates.day_of(word.text) if is_date else float(word.text)
    except ValueError:
        value = math.nan
    if not abs(value) <= MAX_NUMBER or (not is_date and (word.quoted or "_" in word.text)):
        problem = f"{word.text!r} is not a {'date' if is_date else 'number'}, as {feature.name!r} needs"
        raise Mistake(word.column, problem, "Write it as 2026-12-31." if is_date else "")
    return value


def _mistaken(tree: Any, problem: str, remedy: str = "") -> Mistake:
    return Mistake(int(getattr(tree.meta, "column", 1)), problem, remedy)


def _frozen_at_top(formula: Formula) -> Formula:
    """At the top of a rule `f' == f` freezes an ordinal's level; elsewhere ordinals compare by rank."""
    match formula:
        case And(items=items):
            return And(tuple(_frozen_at_top(i) for i in items))
        case Compare(left=a, op="==", right=b) if a.ref and b.ref and a.ref.feature.kind == "ordinal":
            same = Same(a.ref, b.ref)
            return same if frozen_by(same) else formula
    return formula


def _name(tree: Any) -> tuple[str, bool]:
    token = str(tree.children[0])
    primed = tree.data == "primed"
    return (token[:-1] if primed else token).strip("`"), primed


def _item(token: Token) -> Word:
    text = str(token)
    quoted = token.type == "STRING"
    return Word(text[1:-1] if quoted else text.rstrip(), int(token.column or 1), quoted)


def _as_plain_level(feature: Feature, text: str) -> int | None:
    """A level in another notation: true for True, 3 for 3.0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    for code, level in enumerate(feature.levels):
        is_meant = text == str(level).lower() if isinstance(level, bool) else number == level
        if is_meant:
            return code
    return None
