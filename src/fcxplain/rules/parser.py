"""Reading rules: text to tree, with every mistake marked in its line. Text is parsed, never evaluated."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from ..errors import Fault, RuleError, reading_error
from ..schema import Schema
from . import notation
from .binding import EXAMPLE, Binder, Mistake, mistyped, spoken
from .rule import Rule

MAX_LENGTH = 10_000
MAX_RULES = 1_000
MAX_TEXT = 200_000
RuleSource = str | Rule | Path | Iterable["str | Rule"]

_WINDOW = 100
_HINTS = {
    "=": "Write == to compare and => for 'if ... then'.",
    "&": "Write 'and'.",
    "|": "Write 'or'.",
    "!": "Write 'not', or != for 'differs'.",
    "[": "Write sets in braces: {a, b}.",
    "%": "Write a factor, e.g. 0.5 *.",
    ";": "Write one rule per line.",
    "?": "Quote levels that are not plain words.",
}
_EXPECTED = {
    "NAME": "a name", "PRIMED": "a primed name", "NUMBER": "a number", "DATE": "a date", "STRING": "a quoted level",
    "COMPARATOR": "a comparison (<=, ==, ...)", "IN": "'in'", "NOT": "'not'", "SIGN": "+ or -", "TIMES": "*",
    "_ARROW": "=>", "_OR": "'or'", "_AND": "'and'", "_ABS": "abs(...)", "LPAR": "(", "RPAR": ")",
    "LBRACE": "{", "RBRACE": "}", "COMMA": "a comma", "BARE": "a level", "$END": "the end of the rule",
}  # fmt: skip


@dataclass(frozen=True)
class RuleFault(Fault):
    """A mistake in a rule, with its place in the text."""

    line: int = 1
    column: int = 1
    source: str = ""

    def __str__(self) -> str:
        return f"{super().__str__()}\n{_marked(self.source, self.column)}"


def parse(text: str, schema: Schema) -> Rule:
    """Read one rule.

    Parameters
    ----------
    text
        The rule, see `docs/rules.md`; a prime marks the counterfactual value.
    schema
        The features that it mentions.

    Returns
    -------
    Rule

    Raises
    ------
    RuleError
        With line, column, a marker under every mistake and a remedy.

    Examples
    --------
    >>> from fcxplain import load_dataset, parse
    >>> rule = parse("education' > education => age' > age", load_dataset("adult", rows=100).schema)
    >>> rule.text
    "education' > education => age' > age"
    """
    rules = parse_rules(text, schema)
    if len(rules) != 1:
        found = "no rule, only blanks or a comment" if not rules else f"{len(rules)} rules"
        raise RuleError(f"expected one rule, found {found}. Use parse_rules for several.")
    return rules[0]


def parse_rules(source: RuleSource, schema: Schema) -> tuple[Rule, ...]:
    """Read rules from text, from lines, or from a file.

    Parameters
    ----------
    source
        Text (one rule per line, `#` starts a comment), lines, or a `Path`. Parsed rules are bound again.
    schema
        The features that they mention.

    Returns
    -------
    tuple of Rule

    Raises
    ------
    RuleError
        With all mistakes of all lines at once.

    Examples
    --------
    >>> from fcxplain import load_dataset, parse_rules
    >>> for rule in parse_rules("age' >= age\\nincome' <= 1.25 * income", load_dataset("loans").schema):
    ...     print(rule)
    age' >= age
    income' <= 1.25 * income
    """
    rules, faults = read_rules(source, schema)
    if faults:
        raise RuleError("the rules cannot be read", faults)
    return rules


def read_rules(source: RuleSource, schema: Schema) -> tuple[tuple[Rule, ...], tuple[Fault, ...]]:
    """The rules that can be read, and all mistakes of those that cannot."""
    rules: list[Rule] = []
    faults: list[Fault] = []
    for number, line in _lines(source):
        text = line
        try:
            if len(line) > MAX_LENGTH:
                raise Mistake(1, f"has {len(line):,} characters; a rule has at most {MAX_LENGTH:,}")
            text = "".join(piece for piece in notation.PIECES.findall(line) if not piece.startswith("#")).rstrip()
            if not text:
                continue
            binder = Binder(schema, text)
            formula, mistakes = binder.bind(_tree(text)), binder.mistakes
        except Mistake as mistake:
            mistakes = [mistake]
        for found in mistakes:
            place = f"line {number}, column {found.column}"
            faults.append(RuleFault(place, found.problem, found.remedy, line=number, column=found.column, source=text))
        if not mistakes:
            rules.append(Rule(text.strip(), formula, number))
    return tuple(rules), tuple(faults)


def _lines(source: RuleSource) -> list[tuple[int, str]]:
    """The lines that are not blank, with their numbers; too many are refused."""
    if isinstance(source, Path):
        try:
            source = source.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise reading_error(RuleError, error)(f"cannot read the rule file {source}: {error}") from error
    if isinstance(source, Rule):
        source = [source]
    if isinstance(source, str):
        source = source.removeprefix("\ufeff").splitlines()
    kept, length = [], 0
    for number, line in enumerate(source, start=1):
        if not isinstance(line, str | Rule):
            raise RuleError(f"rule {number} is a {type(line).__name__}, not text")
        place, text = (number, line) if isinstance(line, str) else (line.line, line.text)
        kept += [(place, text)] if text.strip() else []
        length += len(text)
        if len(kept) > MAX_RULES or length > MAX_TEXT:
            limit = f"at most {MAX_RULES:,} lines and {MAX_TEXT:,} characters are read"
            raise RuleError(f"the rules are too many or too long; {limit}")
    return kept


@cache
def _lark() -> Lark:
    grammar = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", propagate_positions=True)


def _tree(text: str) -> Tree[Token]:
    try:
        return _lark().parse(text)
    except UnexpectedCharacters as error:
        raise _stray(text, error.column) from None
    except UnexpectedEOF:
        raise Mistake(len(text) + 1, "the rule ends too early") from None
    except UnexpectedToken as error:
        if error.token.type == "BARE":
            raise _stray(text, error.column) from None
        is_end = error.token.type == "$END"
        column, seen = (len(text) + 1, "the end") if is_end else (error.column, _shown(str(error.token)))
        wanted = sorted({_EXPECTED.get(t, t) for t in error.accepts or error.expected})
        problem = f"unexpected {seen}; expected {', '.join(wanted)}"
        raise Mistake(column, problem, _token_hint(error, text)) from None
    except UnexpectedInput as error:
        raise Mistake(error.column, "cannot be read") from None


def _stray(text: str, column: int) -> Mistake:
    """The mistake of a character that has no meaning outside quotes."""
    seen = text[column - 1]
    remedy = mistyped(text, column) or _HINTS.get(seen, "") or _wrapped(text)
    return Mistake(column, f"{_shown(seen)} is not understood here", remedy)


def _token_hint(error: UnexpectedToken, text: str) -> str:
    if spoken(text):
        return f"Write {spoken(text)}" if _is_rule(spoken(text)) else EXAMPLE
    if slip := mistyped(text, error.column):
        return slip
    if error.token.type in ("NAME", "PRIMED", "NUMBER"):
        return 'Quote a level that has blanks: "like this"; put a name with blanks in backticks: `like this`.'
    if error.token.type == "_ARROW":
        return "Put parentheses around the inner 'if ... then'."
    return _wrapped(text)


def _is_rule(text: str) -> bool:
    """Whether text has the form of a rule, regardless of names."""
    try:
        _lark().parse(text)
    except UnexpectedInput:
        return False
    return True


def _wrapped(text: str) -> str:
    stripped = text.strip()
    return "Remove the quotes around the whole rule." if len(stripped) > 1 and stripped[0] in "\"“'‘" else ""


def _marked(source: str, column: int) -> str:
    """The line, cut to a window around the column, with a marker below."""
    start = max(0, column - 1 - _WINDOW // 2)
    shown = source[start : start + _WINDOW]
    cut = "…" if start else ""
    under = "".join(_blank(c) for c in cut + source[start : column - 1])
    printable = "".join(c if c.isprintable() or c == "\t" else "�" for c in shown)
    return f"    {cut}{printable}\n    {under}^"


def _blank(character: str) -> str:
    """Blanks as wide as the character."""
    if character == "\t":
        return "\t"
    if unicodedata.combining(character):
        return ""
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")
