"""A causal graph in other forms: a short text, plain data, CSV, networkx, and DOT, the language of Graphviz."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

from ..errors import DataError, Fault, FormatError, did_you_mean, reading_error, some
from ..files import write_whole
from ..text import Glance, Overview, counted, remainder
from .soundness import Edge, items

if TYPE_CHECKING:
    from .graph import CausalGraph

KINDS = ("node", "directed", "undirected")
COLUMNS = ("from", "to", "kind", "support")
# More than any table has; a graph is a matrix in memory.
MAX_CHARACTERS, MAX_NODES = 10_000_000, 2_000
# Spreadsheets read text that starts with these as a formula; a leading apostrophe prevents that.
_FORMULA = "=+-@\t\r'"
# Edges shown in the short text.
SHOWN = 10


Parts = tuple[tuple[str, ...], tuple[Edge, ...], tuple[Edge, ...], dict[Edge, float]]
"""Nodes, directed and undirected edges and their support, before they are checked as a graph."""


def _rows(graph: CausalGraph) -> Iterator[tuple[Edge, str, float | None]]:
    """Each edge with its kind and support."""
    support = dict(items(graph.support))
    for kind, edges in (("directed", graph.directed), ("undirected", graph.undirected)):
        for edge in edges:
            yield edge, kind, support.get(edge)


@dataclass(frozen=True)
class EdgeRow:
    """One line of a file: an edge, or a node if `target` is empty."""

    place: str
    source: Any
    target: Any
    kind: Any
    support: Any = None


def loaded(source: str | Path) -> tuple[str, str]:
    """The text of a file (a path) or the text itself (a string with a line break), and its name in messages."""
    if isinstance(source, str) and "\n" in source:
        return source, "text"
    try:
        # Line breaks inside a quoted name must not be converted.
        text = Path(source).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{source} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except (OSError, ValueError) as error:
        raise reading_error(DataError, error)(f"cannot read the causal graph {str(source)[:200]}: {error}") from error
    return text, str(source)


def saved(text: str, path: str | Path | None) -> str:
    """The text, written whole to a path if one is given."""
    if path is not None:
        try:
            write_whole(Path(path), text)
        except (OSError, ValueError) as error:
            raise DataError(f"cannot write the causal graph {path}: {error}") from error
    return text


# A short text


def glance(graph: CausalGraph) -> Glance:
    """The numbers of nodes and edges, and the edges with the most support; without support, the first ones."""
    rows = sorted(_rows(graph), key=lambda row: -1.0 if row[2] is None else row[2], reverse=True)
    undirected = f" ({len(graph.undirected):,} undirected)" if graph.undirected else ""
    title = f"CausalGraph: {counted(len(graph), 'feature')}, {counted(len(rows), 'edge')}{undirected}"
    alone = len(graph) - len({node for edge in graph.edges for node in edge})
    lines = (f"{counted(alone, 'feature')} joined to nothing",) if rows and alone else ()
    shown = [(f"{a} {'->' if kind == 'directed' else '--'} {b}", share) for (a, b), kind, share in rows[:SHOWN]]
    rest = remainder(len(rows) - SHOWN, "edge")
    if not graph.support:
        return Glance(title, lines, grids=(Overview(("edges",), tuple((edge,) for edge, _ in shown), rest),))
    cells = tuple((edge, "" if share is None else f"{share:.0%}") for edge, share in shown)
    return Glance(title, lines, grids=(Overview(("surest edges", "support"), cells, rest),))


# Plain data


def to_dict(graph: CausalGraph) -> dict[str, Any]:
    """Nodes and edges as lists and dictionaries."""
    edges = [
        {"from": a, "to": b, "kind": kind} | ({} if share is None else {"support": share})
        for (a, b), kind, share in _rows(graph)
    ]
    return {"nodes": list(graph.nodes), "edges": edges}


def from_dict(data: Any) -> Parts:
    """The inverse of `to_dict`."""
    if not isinstance(data, Mapping) or not isinstance(data.get("nodes"), list | tuple):
        raise FormatError('a causal graph is a dictionary with "nodes", a list of names, and "edges"')
    keys = ("nodes", "edges")
    faults = [Fault(f"key {k!r:.80}", "is not known", did_you_mean(k, keys)) for k in data if k not in keys]
    edges, rows = data.get("edges", []), []
    for i, edge in enumerate(edges if isinstance(edges, list | tuple) else [edges]):
        place = f"edge {i + 1}"
        if isinstance(edge, Mapping) and {"from", "to"} <= set(edge) <= set(COLUMNS):
            rows.append(EdgeRow(place, edge["from"], edge["to"], edge.get("kind", "directed"), edge.get("support")))
        else:
            faults.append(Fault(place, "is not a dictionary", f"Its keys are {', '.join(COLUMNS)}."))
    return parts_of(rows, "the causal graph", tuple(data["nodes"]), faults)


# CSV


def to_csv(graph: CausalGraph) -> str:
    """A row per node, then a row per edge."""
    rows = [COLUMNS, *((_cell(n), "", "node", "") for n in graph.nodes)]
    for (a, b), kind, share in _rows(graph):
        rows.append((_cell(a), _cell(b), kind, "" if share is None else repr(float(share))))
    return "".join(",".join(row) + "\n" for row in rows)


def _cell(name: str) -> str:
    """A name as one cell; the csv module of older Python versions does not quote a lone carriage return."""
    text = f"'{name}" if name[0] in _FORMULA else name
    is_plain = text.strip() == text and not set(text) & set(',"\r\n')
    return text if is_plain else '"{}"'.format(text.replace('"', '""'))


def _name(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and cell[1:2] and cell[1] in _FORMULA else cell


def from_csv(text: str, place: str, nodes: Sequence[str] | None = None) -> Parts:
    """The inverse of `to_csv`."""
    check_size(text, place)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [c.strip().casefold() for c in next(reader, [])]
        if tuple(header[:2]) != COLUMNS[:2] or not set(header) <= set(COLUMNS) or len(set(header)) < len(header):
            raise FormatError(f"{place}, line 1: the columns should be {','.join(COLUMNS)}, not {some(header)}")
        lines = [(reader.line_num, cells) for cells in reader if any(c.strip() for c in cells)]
    except csv.Error as error:
        raise FormatError(f"{place}, line {reader.line_num}: {error}. Is a quote left open?") from error
    faults = [
        Fault(f"line {n}", f"has {len(cells)} cells, not {len(header)}", "Quote names that hold a comma.")
        for n, cells in lines
        if len(cells) != len(header)
    ]
    whole = ((n, cells) for n, cells in lines if len(cells) == len(header))
    rows = [_csv_row(f"line {n}", dict(zip(header, cells, strict=True))) for n, cells in whole]
    return parts_of(rows, place, None if nodes is None else tuple(nodes), faults)


def _csv_row(place: str, cells: Mapping[str, str]) -> EdgeRow:
    kind = cells.get("kind", "").strip().casefold() or "directed"
    return EdgeRow(place, _name(cells["from"]), _name(cells["to"]), kind, cells.get("support", "").strip() or None)


# networkx


def to_networkx(graph: CausalGraph) -> Any:
    """A `networkx.DiGraph` with `kind` and `support` on its edges."""
    import networkx as nx

    found = nx.DiGraph()
    found.add_nodes_from(graph.nodes)
    for (a, b), kind, share in _rows(graph):
        marks = {"kind": kind} | ({} if share is None else {"support": share})
        found.add_edge(a, b, **marks)
        if kind == "undirected":
            found.add_edge(b, a, **marks)
    return found


def from_networkx(graph: Any) -> Parts:
    """Read any simple networkx graph; its nodes are converted to text."""
    if not hasattr(graph, "is_directed") or graph.is_multigraph():
        raise DataError(f"a causal graph comes from a networkx Graph or DiGraph, not from a {type(graph).__name__}")
    rows: dict[Edge, EdgeRow] = {}
    for a, b, marks in graph.edges(data=True):
        is_both = a != b and (not graph.is_directed() or graph.has_edge(b, a))
        if not is_both or (str(b), str(a)) not in rows:
            kind = "undirected" if is_both else "directed"
            place = f"edge {a!r:.80} to {b!r:.80}"
            rows[str(a), str(b)] = EdgeRow(place, str(a), str(b), kind, marks.get("support"))
    return parts_of(rows.values(), "the networkx graph", tuple(map(str, graph.nodes)), [])


# Shared by all formats


def check_size(text: str, place: str) -> None:
    """Refuse text that is too long to be a graph."""
    if len(text) > MAX_CHARACTERS:
        raise FormatError(f"{place} has {len(text):,} characters; a causal graph has at most {MAX_CHARACTERS:,}")


def parts_of(rows: Iterable[EdgeRow], place: str, nodes: tuple[str, ...] | None, faults: list[Fault]) -> Parts:
    """The parts from checked rows; without `nodes`, features are in the order of their first occurrence."""
    rows = list(rows)
    faults = faults + [fault for row in rows for fault in _row_faults(row)]
    if faults:
        raise FormatError(f"{place} has mistakes", faults)
    edges = [r for r in rows if r.kind != "node"]
    met = dict.fromkeys([r.source for r in rows if r.kind == "node"] + [n for r in edges for n in (r.source, r.target)])
    if len(met) > MAX_NODES:
        raise FormatError(f"{place} names {len(met):,} features; a causal graph has at most {MAX_NODES:,}")
    return (
        tuple(met) if nodes is None else nodes,
        tuple((r.source, r.target) for r in edges if r.kind == "directed"),
        tuple((r.source, r.target) for r in edges if r.kind == "undirected"),
        {(r.source, r.target): float(r.support) for r in edges if r.support is not None},
    )


def _row_faults(row: EdgeRow) -> Iterator[Fault]:
    if row.kind not in KINDS:
        yield Fault(row.place, f"no kind {row.kind!r:.80}", did_you_mean(row.kind, KINDS) or f"Write {some(KINDS)}.")
    elif row.kind != "node" and not (_is_name(row.source) and _is_name(row.target)):
        yield Fault(row.place, "an edge needs two names", "Fill in both from and to.")
    elif row.kind == "node" and not _is_name(row.source):
        yield Fault(row.place, "a node needs a name")
    try:
        float(0 if row.support is None else row.support)
    except (TypeError, ValueError):
        yield Fault(row.place, f"support is {row.support!r:.80}, not a number", "Write a share from 0 to 1.")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


# DOT, without subgraphs and ports

GRAMMAR = r"""
    start: STRICT? KIND _name* "{" (chain | setting | ";")* "}"
    chain: _name (ARROW _name)* ("[" (mark | "," | ";")* "]")*
    setting: _name "=" _name
    mark: _name "=" _name
    _name: WORD | QUOTED
    STRICT: /strict\b/i
    KIND: /(di)?graph\b/i
    ARROW: "->" | "--"
    WORD: /[^\W\d]\w*|-?(?:\.\d+|\d+(?:\.\d*)?)/
    QUOTED: /"(?:[^"\\]|\\.)*"/s
    %ignore /\s+|\/\/[^\n]*|\#[^\n]*/
    %ignore /\/\*.*?\*\//s
"""
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "\n": ""}
# Tokens expected before a graph has begun, or after it has ended.
_OUTSIDE = {"STRICT", "KIND", "LBRACE", "$END"}


def to_dot(graph: CausalGraph) -> str:
    """A digraph in which undirected edges have no arrowhead and edges are labelled with their support."""
    lines = [f"  {_quoted(n)};" for n in graph.nodes]
    for (a, b), kind, share in _rows(graph):
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
    """The inverse of `to_dot`; handwritten graphs are read too, but not subgraphs and ports."""
    check_size(text, place)
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise FormatError(_fault_in_dot(error, text, place)) from None
    return parts_of([row for chain in tree.find_data("chain") for row in _chain_rows(chain, place)], place, None, [])


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer_callbacks={"QUOTED": _unquoted})


def _unquoted(token: Token) -> Token:
    plain = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), token[1:-1], flags=re.DOTALL)
    return token.update(value=plain)


def _fault_in_dot(error: UnexpectedInput, text: str, place: str) -> str:
    """An error message with the place, the problem and the remedy."""
    here = f"{place}, line {error.line}"
    if not isinstance(error, UnexpectedToken):
        start = error.pos_in_stream or 0
        return f"{here}: cannot read {text[start : start + 20]!r}. Put names in double quotes."
    if error.token.type == "$END" or error.expected & _OUTSIDE:
        return f"{place} is not a DOT graph; it should read: digraph {{ a -> b; b -> c [dir=none]; }}"
    if "RSQB" in error.expected and error.token.type == "RBRACE":
        return f"{here}: the bracket [ is never closed"
    if "RSQB" in error.expected or error.expected == {"EQUAL"}:
        return f"{here}: an attribute is written name=value"
    return f"{here}: cannot read {str(error.token)!r:.80} here. Subgraphs and ports are not read."


def _chain_rows(chain: Tree[Token], place: str) -> Iterator[EdgeRow]:
    """The edges of one statement, or its node."""
    tokens = [part for part in chain.children if isinstance(part, Token)]
    marks = {str(mark.children[0]): str(mark.children[1]) for mark in chain.find_data("mark")}
    first, spot = tokens[0], f"line {tokens[0].line}"
    word = first.casefold() if first.type == "WORD" else ""
    if word in ("subgraph", "strict"):
        raise FormatError(f"{place}, {spot}: cannot read {str(first)!r} here. Subgraphs and ports are not read.")
    if len(tokens) == 1 and not (word in ("node", "edge", "graph") and marks):
        yield EdgeRow(spot, str(first), "", "node")
    for a, sign, b in zip(tokens[::2], tokens[1::2], tokens[2::2], strict=False):
        way = marks.get("dir", "forward") if sign == "->" else "none"
        kind = {"forward": "directed", "back": "directed", "none": "undirected", "both": "undirected"}.get(way, way)
        yield EdgeRow(spot, *((str(b), str(a)) if way == "back" else (str(a), str(b))), kind, marks.get("support"))
