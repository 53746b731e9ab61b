"""CEILS: F(U) rebuilds x, an intervention moves what it causes, and the search stays where training rows were."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loans
import small_problems
from effort import examples
from fcxplain import Feature, Schema, Task
from fcxplain.causal import CausalGraph
from fcxplain.encoding import TableEncoder
from fcxplain.errors import DataError
from fcxplain.methods.ceils import CEILS, Equations
from fcxplain.methods.encoded import ColumnLayout

ROWS = loans.table(60, seed=5)
NAMES = loans.SCHEMA.names
CHAIN = CausalGraph(NAMES, (("age", "income"), ("income", "degree"), ("born", "age")))
QUICK = {"epochs": 20, "hidden": (8,), "batch": 100}


@cache
def task(graph: CausalGraph | None = CHAIN) -> Task:
    schema, train = small_problems.problem("mixed")
    model = small_problems.linear(TableEncoder().fit(schema, train), -5.0)
    return Task(train, model, schema=schema, target="yes", classes=("no", "yes"), graph=graph)


@cache
def method() -> CEILS:
    return CEILS(**QUICK).fit(task())


def linear_task() -> tuple[Task, float]:
    """Years make pay, linearly and with noise; the model looks at pay alone. And by how much, encoded."""
    rng = np.random.default_rng(0)
    years = rng.integers(0, 41, 600)
    pay = np.round(1000 + 100 * years + rng.normal(0, 200, 600)).clip(0, 7000)
    schema = Schema((Feature("years", "integer", low=0, high=40), Feature("pay", "integer", low=0, high=7000)))
    train = pd.DataFrame({"years": years, "pay": pay.astype(int)})
    encoder = TableEncoder().fit(schema, train)
    model = torch.nn.Linear(2, 2).requires_grad_(False)
    model.weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 8.0]]))
    model.bias.copy_(torch.tensor([0.0, -5.0]))
    graph = CausalGraph(("years", "pay"), (("years", "pay"),))
    slope = 100 * encoder.scale_["years"][1] / encoder.scale_["pay"][1]
    return Task(train, model, schema=schema, target="yes", classes=("no", "yes"), graph=graph), slope


@cache
def linear() -> CEILS:
    return CEILS(hidden=(16,), epochs=60, batch=100, fit_rate=5e-3, theta=0.0).fit(linear_task()[0])


@given(st.integers(0, 2**5**2 - 1), st.integers(0, 99))
@examples(25)
def test_f_of_u_rebuilds_x_whatever_the_graph(edges, seed):
    bits = np.asarray([(edges >> i) & 1 for i in range(25)]).reshape(5, 5)
    order = np.random.default_rng(seed).permutation(5)
    graph = CausalGraph.from_matrix(np.triu(bits, 1)[np.ix_(order, order)], NAMES)
    # In causal order; what may not change has no equation. Exact whatever the networks have learnt: no training.
    places = {NAMES.index(name): tuple(map(NAMES.index, graph.parents(name))) for name in graph.order()}
    causes = {i: parents for i, parents in places.items() if parents and loans.SCHEMA.features[i].mutable}
    equations = Equations(causes, ColumnLayout(task()), (4,), torch.Generator().manual_seed(seed)).double()
    x = task().encoder.encode(ROWS).double()
    rebuilt = equations.rebuilt(equations.residuals(x)).detach()
    assert torch.allclose(rebuilt, x, atol=1e-12, rtol=0)
    pd.testing.assert_frame_equal(task().encoder.decode(rebuilt, ROWS.index), ROWS, check_dtype=False)


def test_an_intervention_moves_the_descendants_and_nothing_else():
    x = task().encoder.encode(ROWS).double()
    u = method().equations_.residuals(x)
    spans = task().encoder.spans_
    u[:, spans["age"]] += 0.3
    moved = method().equations_.rebuilt(u) - x
    assert torch.allclose(moved[:, spans["age"]], torch.full((len(x), 1), 0.3, dtype=torch.double))
    assert moved[:, spans["income"]].abs().min() > 0
    assert moved[:, spans["degree"]].abs().max() > 0
    assert not moved[:, spans["job"]].any()
    assert not moved[:, spans["born"]].any()


def test_an_effect_follows_its_cause_by_the_true_slope():
    fitted, slope = linear(), linear_task()[1]
    x = torch.tensor([[0.3, 0.3], [0.5, 0.45], [0.6, 0.7]], dtype=torch.double)
    u = fitted.equations_.residuals(x)
    u[:, 0] += 0.2
    moved = fitted.equations_.rebuilt(u) - x
    assert moved[:, 1].tolist() == pytest.approx([0.2 * slope] * 3, rel=0.15)


def test_answers_use_the_effect_of_causes():
    rows = pd.DataFrame({"years": [10, 14, 18], "pay": [1900, 2300, 2900]})
    explanation = linear().explain(rows)
    assert explanation.checks.valid.all()
    # The model does not read the years; they change because pay follows from them.
    assert (explanation.answers["years"].to_numpy() > rows["years"].to_numpy()).all()
    alone = CEILS(graph=CausalGraph(("years", "pay")), theta=0.0).fit(linear_task()[0]).explain(rows)
    assert alone.checks.valid.all()
    assert alone.answers["years"].tolist() == rows["years"].tolist()


def test_without_edges_the_answer_is_the_nearest_to_be_had():
    fitted = CEILS(graph=CausalGraph(NAMES), kappa=0.0, theta=0.0).fit(task())
    x = task().encoder.encode(ROWS).double()
    refused = torch.from_numpy(task().refused(ROWS))
    x, y_target = x[refused], torch.ones(int(refused.sum()), dtype=torch.long)
    found = fitted.search(x, y_target)
    # Each level, or none, with ages and incomes every twentieth: what the best of all these costs.
    line = torch.linspace(0, 1, 41, dtype=torch.double)
    ages, incomes = (m.flatten() for m in torch.meshgrid(line, line, indexing="ij"))
    best = torch.full((len(x),), torch.inf, dtype=torch.double)
    for degree in range(3):
        for job in range(3):
            legal = x[:, None].repeat(1, len(ages), 1)
            legal[:, :, 0], legal[:, :, 1] = ages, incomes
            legal[:, :, 2:8] = 0.0
            legal[:, :, 2 + degree] = legal[:, :, 5 + job] = 1.0
            away = legal - x[:, None]
            # A level is taken over as soon as its share leads: half a unit up and half a unit down.
            away[:, :, 2:8] /= 2
            cost = 0.5 * away.abs().sum(dim=2) + (away**2).sum(dim=2)
            valid = fitted.classifier_(legal).argmax(dim=2) == 1
            best = torch.minimum(best, cost.where(valid, torch.inf).amin(dim=1))
    assert found.cost.isfinite().all()
    assert (found.cost / best).median() < 1.15


def test_the_search_stays_in_the_box_of_training_rows_and_leaves_what_may_not_change():
    x = task().encoder.encode(ROWS).double()
    found = method().search(x, torch.ones(len(x), dtype=torch.long))
    start = method().equations_.residuals(x)
    assert (found.u <= torch.maximum(start, method().high_)).all()
    assert (found.u >= torch.minimum(start, method().low_)).all()
    born = task().encoder.spans_["born"]
    assert torch.equal(found.u[:, born], x[:, born])


def test_what_may_not_change_is_a_root_whatever_the_graph_says():
    graph = CausalGraph(NAMES, (("age", "born"), ("born", "income")))
    fitted = CEILS(graph=graph, **QUICK).fit(task())
    assert fitted.equations_.causes == {NAMES.index("income"): (NAMES.index("born"),)}
    explanation = fitted.explain(ROWS)
    assert explanation.checks.valid.mean() > 0.9
    assert explanation.checks.immutables_kept.all()


def test_the_graph_given_goes_before_the_tasks_and_that_before_a_discovered_one():
    other = CausalGraph(NAMES, (("job", "income"),))
    assert CEILS(graph=other, **QUICK).fit(task()).graph_ == other
    assert method().graph_ == CHAIN
    rng = np.random.default_rng(1)
    train = loans.table(400).assign(income=lambda t: (t["age"] * 50 + rng.integers(0, 200, 400)).astype(float))
    model = small_problems.linear(TableEncoder().fit(loans.SCHEMA, train), -5.0)
    bare = Task(train, model, schema=loans.SCHEMA, target="yes", classes=("no", "yes"))
    found = CEILS(**QUICK).fit(bare)
    assert found.graph_.adjacent("age", "income")
    assert len(found.equations_.causes) == 1


def test_edges_without_direction_get_one_that_closes_no_cycle():
    graph = CausalGraph(NAMES, (), (("age", "income"), ("income", "degree"), ("age", "degree"), ("degree", "job")))
    fits = [CEILS(graph=graph, **QUICK).fit(task()).equations_.causes for _ in range(2)]
    assert fits[0] == fits[1]
    assert sum(len(parents) for parents in fits[0].values()) == 4
    known: set[int] = set(range(5)) - set(fits[0])
    for place, parents in fits[0].items():
        assert set(parents) <= known
        known.add(place)


def test_features_that_the_graph_leaves_out_are_roots():
    fitted = CEILS(graph=CausalGraph(("age", "income"), (("age", "income"),)), **QUICK).fit(task())
    assert set(fitted.equations_.causes) == {NAMES.index("income")}


def test_learning_lowers_what_the_causes_leave_open():
    assert linear().losses_[-1] < linear().losses_[0] / 2


def test_there_is_one_answer_and_a_note_for_more():
    explanation = method().explain(ROWS, k=3)
    assert explanation.method == "CEILS"
    assert explanation.checks.valid.mean() > 0.95
    assert np.bincount(explanation.place).max() == 1
    assert "one answer" in explanation.notes[0]


def test_rows_that_no_step_flips_say_so():
    few = CEILS(steps=1, **QUICK).fit(task()).explain(ROWS)
    assert not len(few.answers)
    assert all("1 steps" in why.words for why in few.reasons.values())


def test_rules_bound_what_is_searched_and_a_prototype_draws_the_search():
    ruled = Task(
        task().train,
        task().classifier,
        schema=loans.SCHEMA,
        rules="degree' > degree => age' > age\ndegree' == degree => age' >= age\ndegree' >= degree\nincome' <= income",
        target="yes",
    )
    ceils = CEILS(**QUICK).fit(ruled)
    explanation = ceils.explain(ROWS)
    before, after, degree = explanation.before, explanation.answers, loans.SCHEMA["degree"]
    now, then = (
        degree.rank_of_level[loans.SCHEMA.natural(rows, ["degree"])["degree"].astype(int)] for rows in (before, after)
    )
    assert len(after)
    # Bounds say what follows for each feature alone, and the graph that was found lets nothing else move them.
    assert (after["age"].to_numpy() >= before["age"].to_numpy()).all()
    assert (after["income"].to_numpy() <= before["income"].to_numpy()).all()
    assert (then >= now).all()
    every = CEILS(**QUICK, every_rule=True).fit(ruled).explain(ROWS)
    assert every.checks.feasible.all()


def test_a_prototype_is_the_nearest_training_row_with_the_class_wanted():
    x = task().encoder.encode(ROWS).double()
    far, near = (CEILS(**QUICK, theta=theta, graph=CausalGraph(NAMES)).fit(task()) for theta in (0.0, 1e6))
    target = torch.ones(len(x), dtype=torch.long)
    known = task().encoder.encode(task().train[~task().refused(task().train)]).double()
    nearest = torch.cdist(x, known).amin(dim=1)
    drawn = near.search(x, target)
    found = drawn.cost.isfinite()
    # An overwhelming pull ends at the prototype, but for what may not change.
    may = near.columns_.mutable
    away = torch.cdist(drawn.u[found][:, may], known[:, may]).amin(dim=1)
    assert away.max() < nearest.max()
    assert far.search(x, target).cost[found].mean() <= drawn.cost[found].mean()


def test_settings_and_graphs_that_make_no_sense_are_refused():
    with pytest.raises(DataError, match="CEILS") as told:
        CEILS(significance=0, hidden=(), epochs=0, batch=1, beta=-1, theta=-1, steps=0, learning_rate=0, seed=-1).fit(
            task()
        )
    places = ["seed", "significance", "hidden", "epochs", "batch", "beta", "theta", "steps", "learning_rate"]
    assert [f.place for f in told.value.faults] == places
    with pytest.raises(DataError, match="'wage'"):
        CEILS(graph=CausalGraph(("age", "wage"), (("age", "wage"),))).fit(task())
