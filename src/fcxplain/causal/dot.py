"""A causal graph as DOT, the language of Graphviz.

What we write is read back exactly. Of what others write, nodes, edges, chains and attributes are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..errors import FormatError
from .exchange import Parts, Row, check_size, parts_of

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)|(?P<quoted>"(?:[^"\\]|\\.)*")
    |(?P<sign>->|--|[{}\[\]=;,:])|(?P<word>[^\W\d]\w*|-?(?:\.\d+|\d+(?:\.\d*)?))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "\n": ""}


@dataclass(frozen=True)
class Token:
    """A piece of DOT; `kind` is sign, word or quoted (`text` is then without its quotes)."""

    text: str
    kind: str
    line: int

    @property
    def is_name(self) -> bool:
        """Whether this may name a node."""
        return self.kind != "sign"

    def is_sign(self, *signs: str) -> bool:
        """Whether this is one of these signs."""
        return self.kind == "sign" and self.text in signs

    def is_word(self, *words: str) -> bool:
        """Whether this is one of the language's words; in quotes it is a name."""
        return self.kind == "word" and self.text.casefold() in words


def to_dot(parts: Parts) -> str:
    """A digraph in which undirected edges have no arrowhead and support is written on the edge."""
    lines = [f"  {_quoted(n)};" for n in parts.nodes]
    for (a, b), kind, share in parts.rows():
        marks = ["dir=none"] if kind == "undirected" else []
        marks += [] if share is None else [f'support="{float(share)!r}"', f'label="{share:.0%}"']
        written = f" [{', '.join(marks)}]" if marks else ""
        lines.append(f"  {_quoted(a)} -> {_quoted(b)}{written};")
    return "\n".join(["digraph causal {", *lines, "}", ""])


def _quoted(name: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        name = name.replace(plain, escaped)
    return f'"{name}"'


def from_dot(text: str, place: str) -> Parts:
    """The inverse of `to_dot`; graphs by hand are read too, but no subgraphs and no ports."""
    check_size(text, place)
    tokens = list(_tokens(text, place))
    start = next((i for i, t in enumerate(tokens) if t.is_sign("{")), None)
    words = [t.text.casefold() for t in tokens[:start]]
    if start is None or not any(w in words[:2] for w in ("digraph", "graph")) or not tokens[-1].is_sign("}"):
        raise FormatError(f"{place} is not a DOT graph; it should read: digraph {{ a -> b; b -> c [dir=none]; }}")
    rows, at, body = list[Row](), 0, tokens[start + 1 : -1]
    while at < len(body):
        new, at = _statement(body, at, place)
        rows += new
    return parts_of(rows, place, None, [])


def _tokens(text: str, place: str) -> Iterator[Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise FormatError(f"{place}, line {line}: cannot read {text[at : at + 20]!r}. Put names in double quotes.")
        piece, kind = found.group(), found.lastgroup
        if kind == "quoted":
            yield Token(re.sub(r"\\(.)", _unescaped, piece[1:-1], flags=re.DOTALL), kind, line)
        elif kind != "space":
            yield Token(piece, kind or "sign", line)
        at, line = found.end(), line + piece.count("\n")


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[0])


def _statement(body: list[Token], at: int, place: str) -> tuple[list[Row], int]:
    """The edges or the node of one statement, and where the next one begins."""
    first = body[at]
    if first.is_sign(";"):
        return [], at + 1
    if not first.is_name or first.is_word("subgraph", "strict"):
        raise FormatError(f"{place}, line {first.line}: cannot read {first.text!r} here. Subgraphs are not read.")
    chain, signs, at = [first.text], list[str](), at + 1
    while at + 1 < len(body) and body[at].is_sign("->", "--") and body[at + 1].is_name:
        signs.append(body[at].text)
        chain.append(body[at + 1].text)
        at += 2
    if at < len(body) and body[at].is_sign("=") and not signs:  # a setting of the whole graph
        return [], at + 2
    marks, at = _marks(body, at, place)
    if at < len(body) and body[at].is_sign("->", "--", "{", "}", "=", "]", ":", ","):
        raise FormatError(f"{place}, line {body[at].line}: cannot read {body[at].text!r} after {chain[-1]!r:.80}")
    spot = f"line {first.line}"
    if not signs:
        is_default = first.is_word("node", "edge", "graph") and marks
        return [] if is_default else [Row(spot, first.text, "", "node")], at
    return list(_links(spot, chain, signs, marks)), at


def _links(spot: str, chain: list[str], signs: list[str], marks: Mapping[str, str]) -> Iterator[Row]:
    for a, sign, b in zip(chain, signs, chain[1:], strict=False):
        way = marks.get("dir", "forward") if sign == "->" else "none"
        kind = {"forward": "directed", "back": "directed", "none": "undirected", "both": "undirected"}.get(way, way)
        yield Row(spot, *((b, a) if way == "back" else (a, b)), kind, marks.get("support"))


def _marks(body: list[Token], at: int, place: str) -> tuple[dict[str, str], int]:
    """The attributes in square brackets, if any."""
    marks: dict[str, str] = {}
    while at < len(body) and body[at].is_sign("["):
        line, at = body[at].line, at + 1
        while at < len(body) and not body[at].is_sign("]"):
            if body[at].is_sign(",", ";"):
                at += 1
                continue
            if at + 2 >= len(body) or not (body[at].is_name and body[at + 1].is_sign("=") and body[at + 2].is_name):
                raise FormatError(f"{place}, line {line}: an attribute is written name=value")
            marks[body[at].text] = body[at + 2].text
            at += 3
        if at >= len(body):
            raise FormatError(f"{place}, line {line}: the bracket [ is never closed")
        at += 1
    return marks, at
