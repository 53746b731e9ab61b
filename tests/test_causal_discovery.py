"""Discovery (causal.discovery, independence, covariance, orientation), against oracles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from effort import examples
from fcxplain.causal import CausalGraph, Knowledge, chi_square, discover, pc, wilks
from fcxplain.errors import DataError, SchemaError
from fcxplain.progress import Progress
from fcxplain.schema import Feature, Schema
from test_causal_graph import dags


class DSeparation:
    """The perfect test: independence is d-separation in the true DAG."""

    def __init__(self, dag: CausalGraph) -> None:
        self.dag = dag

    def __call__(self, a: str, b: str, given: Sequence[str] = ()) -> float:
        return 1.0 if self.dag.d_separated(a, b, given) else 0.0


def number(name: str) -> Feature:
    return Feature(name, "continuous", low=-1e6, high=1e6, step=1e-6)


def gaussian(seed: int, n: int = 1_000, nodes: int = 7) -> tuple[dict[str, NDArray[np.float64]], Schema, CausalGraph]:
    """Rows of a random linear model with Gaussian noise."""
    rng = np.random.default_rng(seed)
    a = np.triu(rng.random((nodes, nodes)) < 0.4, 1)
    weights = a * rng.uniform(0.5, 1.5, a.shape) * rng.choice([-1, 1], a.shape)
    x = rng.normal(size=(n, nodes)) @ np.linalg.inv(np.eye(nodes) - weights)
    names = [f"x{i}" for i in range(nodes)]
    return dict(zip(names, x.T, strict=True)), Schema(tuple(map(number, names))), CausalGraph.from_matrix(a, names)


def mixed(seed: int, n: int, nodes: int = 10) -> tuple[dict[str, NDArray[np.float64]], Schema, CausalGraph]:
    """Rows of a random graph whose features are numbers, ordinals, yes or no, and categories of five levels."""
    rng = np.random.default_rng(seed)
    a = np.triu(rng.random((nodes, nodes)) < 2.5 / (nodes - 1), 1)
    columns, features, scores = {}, [], []
    for j in range(nodes):
        noise = rng.normal(size=n)
        cause = sum((rng.choice([-1, 1]) * rng.uniform(0.4, 1.2) * scores[i] for i in np.flatnonzero(a[:, j])), noise)
        feature, values, score = made(f"f{j}", int(rng.integers(4)), cause, rng)
        features.append(feature)
        columns[feature.name] = values
        scores.append((score - score.mean()) / score.std())
    return columns, Schema(tuple(features)), CausalGraph.from_matrix(a, [f.name for f in features])


def made(name: str, kind: int, cause: NDArray[np.float64], rng: np.random.Generator):
    if kind == 0:
        return number(name), cause, cause
    if kind == 1:
        ranks = np.digitize(cause, np.quantile(cause, [0.2, 0.5, 0.8]))
        return Feature(name, "ordinal", levels=tuple("abcd")), ranks, ranks.astype(float)
    if kind == 2:
        yes = (cause > np.quantile(cause, 0.6)).astype(int)
        return Feature(name, "categorical", levels=("no", "yes")), yes, yes.astype(float)
    level = (np.outer(cause, 1.5 * rng.normal(size=5)) + rng.gumbel(size=(len(cause), 5))).argmax(axis=1)
    return Feature(name, "categorical", levels=tuple("abcde")), level, rng.normal(size=5)[level]


def joined(graph: CausalGraph) -> set[frozenset[str]]:
    return {frozenset(e) for e in graph.edges}


# PC itself


@examples(120)
@given(dags(most=8))
def test_with_a_perfect_test_pc_returns_the_cpdag(dag: CausalGraph):
    assert pc(dag.nodes, DSeparation(dag)) == dag.cpdag()


@examples(60)
@given(dags(most=7), st.data())
def test_true_knowledge_adds_directions_and_changes_no_adjacency(dag: CausalGraph, data: st.DataObject):
    some = tuple(e for e in dag.directed if data.draw(st.booleans()))
    order = dag.order()
    cut = data.draw(st.integers(0, len(order)))
    graph = pc(dag.nodes, DSeparation(dag), knowledge=Knowledge(required=some, tiers=(order[:cut], order[cut:])))
    assert joined(graph) == joined(dag)
    assert set(some) | set(dag.cpdag().directed) <= set(graph.directed) <= set(dag.directed)


@examples(60)
@given(dags(most=7), st.integers(0, 2**32 - 1), st.data())
def test_the_worst_of_tests_and_any_knowledge_still_give_a_graph_without_cycles(
    dag: CausalGraph, seed: int, data: st.DataObject
):
    rng, pairs = np.random.default_rng(seed), [(a, b) for a in dag.nodes for b in dag.nodes if a != b]
    forbidden = tuple(p for p in pairs if data.draw(st.integers(0, 3)) == 0)
    required = tuple(e for e in dag.directed if e not in forbidden and data.draw(st.booleans()))
    known = Knowledge(required, forbidden)
    graph = pc(dag.nodes, lambda a, b, given: float(rng.random() ** 5), significance=0.05, knowledge=known)
    assert set(required) <= set(graph.directed)
    assert not set(forbidden) & set(graph.directed)
    assert not any(graph.adjacent(a, b) for a, b in forbidden if (b, a) in forbidden)


def test_a_forbidden_pair_is_apart_and_a_required_edge_stays():
    columns, schema, _ = gaussian(0)
    known = Knowledge(required=(("x0", "x6"),), forbidden=(("x1", "x2"), ("x2", "x1")), roots=("x3",))
    graph = discover(columns, schema, knowledge=known)
    assert ("x0", "x6") in graph.directed
    assert not graph.adjacent("x1", "x2")
    assert graph.parents("x3") == graph.neighbours("x3") == ()


def test_two_roots_with_one_effect_are_a_collider():
    dag = CausalGraph(("a", "b", "c"), (("a", "c"), ("b", "c")))
    assert pc(dag.nodes, DSeparation(dag), knowledge=Knowledge(roots=("a", "b"))) == dag


def test_a_limit_on_conditions_keeps_what_larger_sets_would_part():
    dag = CausalGraph(("a", "b", "c"), (("a", "b"), ("b", "c")))
    assert len(pc(dag.nodes, DSeparation(dag), max_condition=0).edges) == 3
    assert len(pc(dag.nodes, DSeparation(dag), max_condition=1).edges) == 2


def test_a_test_that_cannot_tell_joins_nothing():
    assert pc(("a", "b"), lambda a, b, given: float("nan")).edges == ()


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_columns_changes_nothing(seed: int):
    columns, schema, _ = mixed(seed, 800)
    turned = Schema(schema.features[::-1])
    one, other = discover(columns, schema), discover(columns, turned)
    assert other.nodes == one.nodes[::-1]
    assert set(one.directed) == set(other.directed)
    assert {frozenset(e) for e in one.undirected} == {frozenset(e) for e in other.undirected}


# Wilks


def by_regression(x: NDArray[np.float64], y: NDArray[np.float64], z: NDArray[np.float64]) -> float:
    """The p-value from residual determinants of two regressions, without any covariance matrix of ours."""
    n, base = len(x), np.column_stack([np.ones(len(x)), z])

    def residual(design: NDArray[np.float64]) -> float:
        rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
        return float(np.linalg.slogdet(rest.T @ rest)[1])

    log_lambda = residual(np.column_stack([base, x])) - residual(base)
    scale = n - 1 - z.shape[1] - (x.shape[1] + y.shape[1] + 1) / 2
    return float(scipy.stats.chi2.sf(-scale * log_lambda, x.shape[1] * y.shape[1]))


def encoded(schema: Schema, columns: dict[str, NDArray[np.float64]], names: Sequence[str]) -> NDArray[np.float64]:
    """One column for numbers and ordinals, all levels but one for categories."""
    parts = [np.zeros((len(next(iter(columns.values()))), 0))]
    for name in names:
        values = columns[name]
        is_wide = schema[name].kind == "categorical"
        parts.append(np.eye(len(schema[name].levels))[values][:, 1:] if is_wide else values[:, None].astype(float))
    return np.column_stack(parts)


@pytest.mark.parametrize("seed", range(4))
def test_wilks_is_the_likelihood_ratio_of_two_regressions(seed: int):
    columns, schema, _ = mixed(seed, 600, nodes=7)
    test = wilks(columns, schema, None, 600)
    a, b, c, d, e, *_ = np.random.default_rng(seed).permutation(schema.names).tolist()
    for given_ in ((), (c,), (c, d), (c, d, e)):
        wanted = by_regression(*(encoded(schema, columns, group) for group in ((a,), (b,), given_)))
        assert test(a, b, given_) == pytest.approx(wanted, rel=1e-6, abs=1e-12)
        assert test(b, a, given_[::-1]) == pytest.approx(wanted, rel=1e-6, abs=1e-12)


def fisher_z(data: NDArray[np.float64], i: int, j: int, given_: tuple[int, ...]) -> float:
    precision = np.linalg.inv(np.corrcoef(data[:, [i, j, *given_]].T))
    r = -precision[0, 1] / np.sqrt(precision[0, 0] * precision[1, 1])
    return float(2 * scipy.stats.norm.sf(np.sqrt(len(data) - len(given_) - 3) * abs(np.arctanh(r))))


def test_wilks_decides_as_fisher_z_on_single_columns():
    for seed in range(5):
        columns, schema, _ = gaussian(seed)
        data, test = np.column_stack(list(columns.values())), wilks(columns, schema, None, 1_000)
        for given_ in ((), (2,), (2, 3), (4, 5, 6)):
            p = fisher_z(data, 0, 1, given_)
            assert test("x0", "x1", [f"x{k}" for k in given_]) == pytest.approx(p, rel=0.05, abs=1e-4)


def test_constant_and_copied_columns_raise_nothing():
    rng = np.random.default_rng(0)
    x, level = rng.normal(size=500), rng.integers(3, size=500)
    schema = Schema(
        (
            *map(number, ("x", "copy", "constant")),
            Feature("c", "categorical", levels=tuple("abcz")),
            Feature("d", "categorical", levels=tuple("xyz")),
        )
    )
    columns = {"x": x, "copy": 3 * x + 1, "constant": np.full(500, 7.1), "c": level, "d": 2 - level}
    graph = discover(columns, schema)
    assert joined(graph) == {frozenset(("x", "copy")), frozenset(("c", "d"))}


def test_far_and_huge_numbers_lose_nothing():
    columns, schema, _ = gaussian(1)
    moved = {n: 1e9 + v if i % 2 else v * 1e300 for i, (n, v) in enumerate(columns.items())}
    free = Schema(tuple(Feature(n, "continuous") for n in schema.names))
    assert discover(moved, free) == discover(columns, schema)


def test_chunks_add_up_to_the_whole():
    columns, schema, _ = gaussian(2, n=20_001)
    data, test = np.column_stack(list(columns.values())), wilks(columns, schema, None, 1_000)
    few = fisher_z(data, 0, 1, (2,))
    assert (few < 0.01) == (wilks(columns, schema, None, 20_001)("x0", "x1", ["x2"]) < 0.01)
    wanted = np.corrcoef(data[:, 0], data[:, 3])[0, 1]
    scale = 1_000 - 1 - 1.5
    assert test("x0", "x3", []) == pytest.approx(scipy.stats.chi2.sf(-scale * np.log1p(-(wanted**2)), 1), rel=1e-6)


# Chi-squared


def categories(seed: int, n: int = 2_000) -> tuple[dict[str, NDArray[np.int64]], Schema]:
    rng = np.random.default_rng(seed)
    a = rng.integers(3, size=n)
    b = np.where(rng.random(n) < 0.2, a, rng.integers(3, size=n))
    c = np.where(rng.random(n) < 0.6, b, rng.integers(3, size=n))
    schema = Schema(tuple(Feature(name, "categorical", levels=tuple("xyz")) for name in "abc"))
    return {"a": a, "b": b, "c": c}, schema


def test_chi_square_agrees_with_scipy():
    for seed in range(5):
        columns, schema = categories(seed)
        table = np.zeros((3, 3))
        np.add.at(table, (columns["a"], columns["b"]), 1)
        wanted = scipy.stats.chi2_contingency(table, correction=False).pvalue
        assert chi_square(columns, schema, None, 2_000)("a", "b", []) == pytest.approx(wanted, rel=1e-9)


def test_chi_square_given_others_adds_up_the_strata():
    columns, schema = categories(1)
    statistic = 0.0
    for level in range(3):
        table = np.zeros((3, 3))
        rows = columns["b"] == level
        np.add.at(table, (columns["a"][rows], columns["c"][rows]), 1)
        statistic += scipy.stats.chi2_contingency(table, correction=False).statistic
    assert chi_square(columns, schema, None, 2_000)("a", "c", ["b"]) == pytest.approx(
        scipy.stats.chi2.sf(statistic, 12)
    )


def test_too_few_rows_for_the_cells_are_no_evidence():
    columns, schema = categories(0, n=30)
    assert chi_square(columns, schema, None, 30)("b", "c", []) == 1.0


def test_auto_counts_cells_where_all_features_are_small_categories():
    rng = np.random.default_rng(0)
    a, b = rng.integers(3, size=3_000), rng.integers(3, size=3_000)
    # The rank of o does not rise with any level of a: only a table of cells sees that they go together.
    kinds = {"a": "categorical", "b": "categorical", "o": "ordinal"}
    schema = Schema(tuple(Feature(name, kind, levels=tuple("xyz")) for name, kind in kinds.items()))
    columns = {"a": a, "b": b, "o": np.where(a == 1, 1, rng.choice([0, 2], 3_000))}
    assert discover(columns, schema).adjacent("a", "o")
    assert not discover(columns, schema).adjacent("a", "b")
    assert discover(columns, schema) == discover(columns, schema, test="chi_square")


# The whole


def test_a_table_and_its_natural_columns_give_the_same_graph():
    columns, schema, _ = mixed(3, 700)
    table = schema.table(columns)
    assert discover(table, schema) == discover(columns, schema)
    with pytest.raises(SchemaError):
        discover(table.drop(columns="f0"), schema)


def test_mixed_graphs_are_found():
    found = [discover(c, s).compare(truth.cpdag()) for c, s, truth in (mixed(seed, 20_000) for seed in range(6))]
    assert np.mean([f.f1 for f in found]) > 0.9
    assert np.mean([f.arrow_f1 for f in found]) > 0.7


def test_a_cap_on_the_rows_that_count_drops_trifles():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40_000)
    columns = {"x": x, "y": 0.02 * x + rng.normal(size=40_000)}
    schema = Schema((number("x"), number("y")))
    assert discover(columns, schema, n_effective=None).adjacent("x", "y")
    assert not discover(columns, schema).adjacent("x", "y")


def test_support_is_a_share_of_resamples_and_follows_the_seed():
    columns, schema, _ = mixed(4, 500, nodes=6)
    seen: list[Progress] = []
    graph = discover(columns, schema, bootstrap=8, seed=1, on_progress=seen.append)
    assert seen == [Progress("resampling", done, 8) for done in range(1, 9)]
    plain = discover(columns, schema)
    assert (graph.directed, graph.undirected) == (plain.directed, plain.undirected)
    assert plain.support == ()
    assert len(graph.support) == len(graph.edges)
    assert all(share * 8 == round(share * 8) for _, share in graph.support)
    assert max(share for _, share in graph.support) == 1
    assert discover(columns, schema, bootstrap=8, seed=1) == graph


def test_global_random_state_is_left_alone():
    columns, schema, _ = gaussian(0)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    discover(columns, schema, bootstrap=2)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_a_test_of_ones_own_is_used():
    columns, schema, dag = gaussian(5)
    assert discover(columns, schema, test=DSeparation(dag)) == dag.cpdag()
    with pytest.raises(DataError, match="by its name"):
        discover(columns, schema, test=DSeparation(dag), bootstrap=3)


def test_every_wrong_setting_is_named_at_once():
    columns, schema, _ = gaussian(0)
    with pytest.raises(DataError) as caught:
        discover(
            {n: v[:5] for n, v in columns.items()},
            schema,
            significance=1.0,
            max_condition=-1,
            n_effective=3,
            bootstrap=1.5,
        )
    assert {f.place for f in caught.value.faults} == {
        "significance",
        "max_condition",
        "n_effective",
        "bootstrap",
        "table",
    }


def test_unknown_tests_and_features_are_named_with_the_nearest():
    columns, schema, _ = gaussian(0)
    with pytest.raises(DataError, match="Did you mean 'wilks'"):
        discover(columns, schema, test="wilk")
    with pytest.raises(DataError, match="Did you mean 'x1'"):
        discover(columns, schema, knowledge=Knowledge(roots=("x11",)))


@pytest.mark.parametrize("test", ["chi_square"])
def test_a_test_that_does_not_fit_the_features_says_so(test: str):
    columns, schema, _ = gaussian(0)
    with pytest.raises(DataError, match="wilks"):
        discover(columns, schema, test=test)


def test_natural_columns_that_are_not_natural_are_refused():
    columns, schema, _ = mixed(0, 50)
    for wrong in ({"f0": columns["f0"][:-1]}, {"f0": np.full(50, np.nan)}, {"f0": np.array(["x"] * 50)}):
        with pytest.raises(DataError):
            discover(columns | wrong, schema)
    with pytest.raises(DataError, match="'f1'"):
        discover({n: v for n, v in columns.items() if n != "f1"}, schema)


def test_text_columns_are_read_as_levels():
    rng = np.random.default_rng(0)
    job = rng.choice(["cook", "clerk"], 300)
    table = pd.DataFrame(
        {"job": job, "pay": np.where(job == "cook", 1, 2) + rng.normal(size=300) / 5, "luck": rng.normal(size=300)}
    )
    graph = discover(table, Schema.infer(table))
    assert joined(graph) == {frozenset(("job", "pay"))}


# Against causal-learn


@pytest.mark.parametrize("seed", range(5))
def test_skeletons_agree_with_causal_learn(seed: int):
    pytest.importorskip("causallearn")
    from causallearn.search.ConstraintBased.PC import pc as other

    columns, schema, _ = gaussian(seed)
    theirs = other(np.column_stack(list(columns.values())), alpha=0.01, indep_test="fisherz", show_progress=False)
    a = theirs.G.graph != 0
    wanted = {frozenset((schema.names[i], schema.names[j])) for i, j in np.argwhere(a)}
    assert joined(discover(columns, schema)) == wanted
    assert joined(discover(columns, schema, test="fisherz")) == wanted


def test_causal_learn_is_asked_for_where_it_is_absent_and_refuses_nominal_features():
    columns, schema = categories(0)
    with pytest.raises(DataError, match=r"causal|no order"):
        discover(columns, schema, test="fisherz")


def test_a_table_with_levels_that_the_schema_lacks_is_refused_by_name() -> None:
    table = pd.DataFrame({"job": ["clerk", "cook", "smith"] * 20, "age": range(60)})
    with pytest.raises(DataError, match="column 'job': has missing values, or levels that the schema lacks"):
        discover(table.assign(job=["clerk", "cook", "baker"] * 20), Schema.infer(table))
