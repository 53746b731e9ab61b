"""Causal graphs: what they refuse (soundness), what they know, and their other forms (exchange, dot, given)."""

from __future__ import annotations

import contextlib
import json
from itertools import product
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import examples
from fcxplain.causal import CausalGraph, Knowledge, as_graph
from fcxplain.errors import DataError, FormatError

HOSTILE = (
    'a"]; evil [b="',
    "=1+1",
    "'=x",
    "'",
    "a,b\nc",
    "back\\",
    "\\n",
    "-> {",
    "ü",
    "digraph",
    "subgraph",
    "\r",
    "node",
)


@st.composite
def dags(draw: st.DrawFn, most: int = 7) -> CausalGraph:
    """A DAG whose nodes stand in any order."""
    n = draw(st.integers(1, most))
    bits = draw(st.lists(st.booleans(), min_size=n * n, max_size=n * n))
    place = draw(st.permutations(range(n)))
    a = np.triu(np.array(bits).reshape(n, n), 1)[np.ix_(place, place)]
    return CausalGraph.from_matrix(a, [f"n{i}" for i in range(n)])


@st.composite
def graphs(draw: st.DrawFn) -> CausalGraph:
    """A graph with edges of both kinds, some with support, and names that try to break out."""
    dag = draw(dags(most=6))
    names = draw(
        st.lists(
            st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8"), min_size=1),
            min_size=len(dag),
            max_size=len(dag),
            unique=True,
        )
    )
    named = dict(zip(dag.nodes, names, strict=True))
    edges = [(named[a], named[b]) for a, b in dag.directed]
    kinds = draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges)))
    shares = {e: draw(st.floats(0, 1)) for e in edges if draw(st.booleans())}
    directed = tuple(e for e, k in zip(edges, kinds, strict=True) if k)
    return CausalGraph(tuple(names), directed, tuple(e for e, k in zip(edges, kinds, strict=True) if not k), shares)


# What is refused


def test_every_fault_of_a_graph_is_listed():
    with pytest.raises(DataError) as caught:
        CausalGraph(
            ("age", "job", "job"),
            (("age", "jop"), ("age", "age"), ("age", "job")),
            (("job", "age"),),
            {("age", "x"): 2},
        )
    text = str(caught.value)
    for part in ("named twice", "Did you mean 'job'?", "with itself", "both directions", "no such edge", "not a share"):
        assert part in text
    assert len(caught.value.faults) == 6


def test_a_directed_cycle_is_named():
    with pytest.raises(DataError, match="cycle: b -> c -> a -> b"):
        CausalGraph(("a", "b", "c", "d"), (("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")))


def test_what_is_not_made_of_names_is_refused():
    with pytest.raises(DataError) as caught:
        CausalGraph(("a", 3, ""), (("a", 3), "ab", ("a", "b", "c")), (), {"ab": 1})
    assert len(caught.value.faults) == 6
    with pytest.raises(DataError, match="one text"):
        CausalGraph("ab")


def test_a_long_chain_is_ordered_and_a_file_of_too_many_features_refused():
    lines = [f"n{i},n{i + 1}" for i in range(1_500)]
    chain = CausalGraph.from_csv("\n".join(["from,to", *lines[::-1]]))
    assert chain.order()[:2] == ("n0", "n1")
    with pytest.raises(FormatError, match="at most 2,000"):
        CausalGraph.from_csv("\n".join(["from,to", *(f"a{i},b{i}" for i in range(1_500))]))


def test_an_undirected_edge_closes_no_cycle():
    assert CausalGraph(("a", "b", "c"), (("a", "b"), ("b", "c")), (("c", "a"),)).undirected == (("a", "c"),)


@pytest.mark.parametrize(
    "matrix", [[[0, 2], [0, 0]], [[0, 1]], [["x", 0], [0, 0]], [[1, 0], [0, 0]], 3, [[0, np.nan], [0, 0]]]
)
def test_a_matrix_that_is_no_adjacency_is_refused(matrix: object):
    with pytest.raises(DataError):
        CausalGraph.from_matrix(matrix, ["a", "b"])


def test_an_unknown_node_is_named_with_the_nearest():
    with pytest.raises(DataError, match="Did you mean 'age'"):
        CausalGraph(("age", "job")).parents("aeg")


# What it says


def test_relations_of_a_small_graph():
    graph = CausalGraph(("c", "a", "b", "d"), (("a", "c"), ("b", "c")), (("d", "b"),), {("b", "d"): 0.5, ("a", "c"): 1})
    assert graph.parents("c") == ("a", "b")
    assert graph.children("a") == ("c",)
    assert graph.neighbours("b") == ("d",)
    assert graph.adjacent("c", "a")
    assert not graph.adjacent("a", "b")
    assert graph.pairs().tolist() == [[0, 1], [0, 2], [1, 0], [2, 0], [2, 3], [3, 2]]
    assert graph.support_of("d", "b") == 0.5
    assert graph.support_of("b", "c") is None
    assert hash(graph) == hash(CausalGraph(graph.nodes, graph.directed[::-1], (("b", "d"),), graph.support))


@given(dags(), st.data())
def test_d_separation_agrees_with_networkx(dag: CausalGraph, data: st.DataObject):
    if len(dag) < 2:
        return
    a, b, *rest = data.draw(st.permutations(dag.nodes))
    given_ = set(rest[: data.draw(st.integers(0, len(rest)))])
    assert dag.d_separated(a, b, given_) == nx.is_d_separator(dag.to_networkx(), {a}, {b}, given_)


def equivalents(dag: CausalGraph) -> list[CausalGraph]:
    """Every DAG with the same adjacencies and colliders, by trying all directions."""
    found = []
    for turns in product((False, True), repeat=len(dag.directed)):
        edges = tuple((b, a) if t else (a, b) for (a, b), t in zip(dag.directed, turns, strict=True))
        try:
            other = CausalGraph(dag.nodes, edges)
        except DataError:
            continue
        if colliders(other) == colliders(dag):
            found.append(other)
    return found


def colliders(graph: CausalGraph) -> set[tuple[str, str, str]]:
    return {
        (a, k, b)
        for k in graph.nodes
        for a in graph.parents(k)
        for b in graph.parents(k)
        if a < b and not graph.adjacent(a, b)
    }


@examples(40)
@given(dags(most=4))
def test_a_cpdag_has_the_directions_that_all_equivalents_share(dag: CausalGraph):
    shared = set.intersection(*(set(g.directed) for g in equivalents(dag)))
    assert set(dag.cpdag().directed) == shared
    assert {frozenset(e) for e in dag.cpdag().edges} == {frozenset(e) for e in dag.edges}


@given(dags())
def test_the_extension_of_a_cpdag_is_an_equivalent_dag(dag: CausalGraph):
    again = dag.cpdag().dag()
    assert again.is_dag
    assert again.cpdag() == dag.cpdag()
    order = dag.cpdag().order()
    assert all(order.index(a) < order.index(b) for a, b in again.directed)


def test_a_graph_without_consistent_extension_still_has_an_order():
    ring = CausalGraph(("a", "b", "c", "d"), (), (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")))
    assert ring.order() == ("a", "b", "c", "d")
    assert ring.dag().is_dag
    with pytest.raises(DataError, match=r"graph.dag\(\)"):
        ring.cpdag()


def test_scores_count_adjacencies_and_arrowheads_apart():
    truth = CausalGraph(("a", "b", "c"), (("a", "b"), ("b", "c")))
    score = CausalGraph(("c", "b", "a"), (("b", "a"),), (("a", "c"),)).compare(truth)
    assert (score.precision, score.recall, score.f1) == (0.5, 0.5, 0.5)
    assert score.arrow_f1 == 0
    assert CausalGraph(("a",)).compare(CausalGraph(("a",))).f1 == 1
    with pytest.raises(DataError, match="different features"):
        truth.compare(CausalGraph(("a", "b")))


# Files and other forms


@given(graphs())
def test_every_form_gives_back_the_same_graph(graph: CausalGraph):
    assert CausalGraph.from_dict(json.loads(json.dumps(graph.to_dict()))) == graph
    assert CausalGraph.from_csv(graph.to_csv()) == graph
    assert CausalGraph.from_dot(graph.to_dot()) == graph
    assert CausalGraph.from_networkx(graph.to_networkx()) == graph
    bare = CausalGraph(graph.nodes, graph.directed, graph.undirected)
    assert CausalGraph.from_matrix(graph.to_matrix(), graph.nodes) == bare


def test_files_hold_the_graph_even_with_line_breaks_in_names(tmp_path: Path):
    graph = CausalGraph(
        HOSTILE, ((HOSTILE[0], HOSTILE[4]),), ((HOSTILE[11], HOSTILE[1]),), {(HOSTILE[0], HOSTILE[4]): 0.25}
    )
    graph.to_csv(tmp_path / "g.csv")
    graph.to_dot(tmp_path / "g.dot")
    assert CausalGraph.from_csv(tmp_path / "g.csv") == graph
    assert CausalGraph.from_dot(str(tmp_path / "g.dot")) == graph
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g.csv", "g.dot"]


def test_no_cell_of_a_csv_is_a_formula():
    text = CausalGraph(("=HYPERLINK(1)", "@x"), (("=HYPERLINK(1)", "@x"),)).to_csv()
    assert not any(cell.startswith(("=", "@", "+", "-")) for line in text.splitlines() for cell in line.split(","))


def test_a_plain_edge_list_is_read():
    graph = CausalGraph.from_csv("from,to\nage,job\njob,pay\n")
    assert graph.nodes == ("age", "job", "pay")
    assert CausalGraph.from_csv("from,to,kind\npay,job,undirected\n", nodes=("job", "pay", "age")).nodes == (
        "job",
        "pay",
        "age",
    )


def test_dot_by_hand_is_read():
    text = 'strict digraph g {\n rankdir=LR; node [shape=box] // comment\n a -> b -> "c d" [color=red];\n e -> a [dir=back]\n e -> b [dir=none]; lone }'
    graph = CausalGraph.from_dot(text)
    assert set(graph.directed) == {("a", "b"), ("b", "c d"), ("a", "e")}
    assert graph.undirected in {(("b", "e"),), (("e", "b"),)}
    assert "lone" in graph.nodes
    assert len(CausalGraph.from_dot("graph {\n a -- b }").undirected) == 1


def test_mistakes_in_a_csv_are_told_with_their_lines():
    with pytest.raises(FormatError) as caught:
        CausalGraph.from_csv("from,to,kind,support\na,b,directd,\na,,directed,\na,b\na,b,directed,much\n")
    text = str(caught.value)
    for part in ("line 2", "Did you mean 'directed'", "line 3", "line 4", "line 5", "'much'"):
        assert part in text


@pytest.mark.parametrize("text", ["\n", "cause,effect\na,b\n", 'from,to\n"a,b\n', "from,to,from\na,b,c\n"])
def test_text_that_is_no_edge_list_is_refused(text: str):
    with pytest.raises(FormatError):
        CausalGraph.from_csv(text)


@pytest.mark.parametrize(
    "text",
    [
        "\n",
        "digraph {\n",
        "digraph {\n a -> ; }",
        "digraph {\n a -> {b c} }",
        "digraph {\n subgraph x { a } }",
        "digraph {\n a -> b [dir= }",
        "digraph {\n <b>x</b> }",
        'digraph {\n "a }',
        "digraph {\n a -> b [support=much] }",
        "digraph {\n a:n -> b }",
    ],
)
def test_broken_dot_is_refused(text: str):
    with pytest.raises(FormatError):
        CausalGraph.from_dot(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("digraph {\n a;\n <b> }", ("line 3", "'<b> }'", "double quotes")),
        ("digraph {\n a -> b [dir=none }", ("line 2", "never closed")),
        ("digraph {\n a -> b [dir] }", ("line 2", "name=value")),
        ("digraph {\n a;\n\n subgraph x { b } }", ("line 4", "Subgraphs")),
        ("from,to\na,b\n", ("digraph { a -> b;",)),
    ],
)
def test_broken_dot_is_told_with_its_line_and_a_remedy(text: str, told: tuple[str, ...]):
    with pytest.raises(FormatError) as caught:
        CausalGraph.from_dot(text)
    assert all(part in str(caught.value) for part in told), str(caught.value)


@given(st.text(alphabet='digraph{}[]->-;=",:\\ \nab', max_size=60))
def test_any_text_is_read_or_refused_by_name(text: str):
    for read in (CausalGraph.from_dot, CausalGraph.from_csv):
        with contextlib.suppress(FormatError, DataError):
            read(f"digraph {{\n{text}}}")


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"nodes": "ab"},
        {"nodes": ["a"], "edges": 3},
        {"nodes": ["a"], "edge": []},
        {"nodes": ["a", "b"], "edges": [{"from": "a", "to": "b", "kind": ["x"]}]},
        {"nodes": [["a"]]},
    ],
)
def test_plain_data_that_is_no_graph_is_refused(data: object):
    with pytest.raises((FormatError, DataError)):
        CausalGraph.from_dict(data)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="cannot read"):
        CausalGraph.from_csv(tmp_path / "none.csv")
    (tmp_path / "odd.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="UTF-8"):
        CausalGraph.from_csv(tmp_path / "odd.csv")
    with pytest.raises(DataError, match="cannot write"):
        CausalGraph(("a",)).to_dot(tmp_path / "no" / "g.dot")


# Knowledge


def test_knowledge_that_contradicts_itself_is_refused_with_every_reason():
    with pytest.raises(DataError) as caught:
        Knowledge(
            required=(("job", "age"), ("a", "b"), ("b", "a"), ("x", "x")),
            forbidden=(("job", "age"),),
            tiers=(("age",), ("job", "age")),
            roots=("age",),
        )
    text = str(caught.value)
    for part in ("is forbidden", "is a root", "twice", "form a cycle", "with itself"):
        assert part in text


def test_tiers_and_roots_say_what_may_cause_what():
    known = Knowledge(required=(("c", "d"),), tiers=(("a", "b"), ("c",)), roots=("r", "s"))
    assert known.allows("a", "c")
    assert known.allows("a", "b")
    assert not known.allows("c", "a")
    assert not known.allows("d", "c")
    assert not known.allows("a", "r")
    assert known.allows("r", "a")
    assert not known.allows_joining("r", "s")
    assert not Knowledge(forbidden=(("a", "b"), ("b", "a"))).allows_joining("a", "b")


@pytest.mark.parametrize(
    "wrong", [{"roots": "age"}, {"tiers": ("age", "job")}, {"required": ("ab",)}, {"forbidden": (("a",),)}]
)
def test_knowledge_of_the_wrong_shape_is_refused(wrong: dict[str, object]):
    with pytest.raises(DataError):
        Knowledge(**wrong)


def test_unknown_features_of_knowledge_are_named():
    with pytest.raises(DataError, match="Did you mean 'age'"):
        Knowledge(roots=("aeg",)).check(("age", "job"))


def test_a_graph_may_be_given_in_any_form(tmp_path: Path):
    names = ("age", "income")
    graph = CausalGraph(names, directed=(("age", "income"),))
    graph.to_csv(tmp_path / "graph.csv")
    graph.to_dot(tmp_path / "graph.dot")
    matrix = graph.to_matrix()
    turned = pd.DataFrame(matrix[::-1, ::-1], columns=names[::-1])
    forms = [graph, tmp_path / "graph.csv", str(tmp_path / "graph.dot"), matrix, matrix.tolist(), turned]
    for form in [*forms, graph.to_networkx()]:
        assert as_graph(form, names).directed == graph.directed


def test_a_given_graph_with_a_strange_node_is_refused():
    with pytest.raises(DataError, match=r"'incme'.*not a feature of the table.*Did you mean 'income'"):
        as_graph(CausalGraph(("age", "incme")), ("age", "income"))
