"""FACE: the cheapest path of feasible steps over training rows, in its three forms."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.neighbors import KernelDensity, kneighbors_graph

import loans
from fcxplain.errors import DataError, NotFittedError
from fcxplain.explanation import Status
from fcxplain.methods.base import asked
from fcxplain.methods.face import FACE, NO_END, NO_PATH, NO_START, Kernel, Terrain
from fcxplain.rules import holds

TASK = loans.task(rules=(), rows=200)
ROWS = loans.table(40, seed=5)
FORMS = ("knn", "epsilon", "kde")


def first_steps(method, question):
    """What a step from each row asked to each node costs, 0 where there is none: where one was born stays the same."""
    row, node = ((table["born"] == "here").to_numpy(dtype=np.int64) for table in (question.rows, method.nodes_))
    x = question.x.double()
    steps = method.terrain_.steps(x, row, node)
    cost = np.zeros((len(x), len(node)))
    cost[steps[:2]] = method.terrain_.cost(x, steps)
    return cost


def brute_force(method, question, row):
    """The cheapest of all simple paths from a row to each endpoint that it can reach."""
    starts, edges = first_steps(method, question), method.edges_.toarray()
    ends = set(method.ends_[1].tolist())
    best = {}
    for length in range(1, len(edges) + 1):
        for path in itertools.permutations(range(len(edges)), length):
            steps = [starts[row, path[0]], *(edges[a, b] for a, b in itertools.pairwise(path))]
            if path[-1] in ends and all(step > 0 for step in steps):
                best[path[-1]] = min(best.get(path[-1], np.inf), sum(steps))
    return best


@pytest.mark.parametrize("graph", FORMS)
def test_the_path_is_the_cheapest_of_all(graph):
    few = loans.task(rules=(), rows=30)
    method = FACE(graph=graph, neighbours=2, max_nodes=7, density=0.0).fit(few)
    question = asked(few, ROWS)
    method.explain(ROWS)
    one = dict(method.paths_)
    method.explain(ROWS, k=3)
    found = 0
    for row in range(8):
        place, best = int(question.place[row]), brute_force(method, question, row)
        cheapest = sorted(best.items(), key=lambda item: item[1])[:3]
        assert ((place, 1) in one) == bool(best)
        for rank, (end, cost) in enumerate(cheapest, start=1):
            assert method.paths_[place, rank].nodes[-1] == end
            assert method.paths_[place, rank].cost == pytest.approx(cost)
            found += 1
        if best:
            assert one[place, 1].nodes[-1] == cheapest[0][0]
            assert one[place, 1].cost == pytest.approx(cheapest[0][1])
    assert found > 3


@pytest.mark.parametrize("graph", FORMS)
@pytest.mark.parametrize("k", [1, 3])
def test_every_path_runs_over_edges_only_and_costs_what_they_do(graph, k):
    method = FACE(graph=graph, neighbours=8).fit(TASK)
    explanation = method.explain(ROWS, k=k)
    question = asked(TASK, ROWS)
    starts, edges = first_steps(method, question), method.edges_.toarray()
    assert explanation.checks.valid.all()
    assert len(explanation.answers) == len(method.paths_) > 0
    for (position, rank), path in method.paths_.items():
        row = int(np.flatnonzero(question.place == position)[0])
        steps = [starts[row, path.nodes[0]], *(edges[a, b] for a, b in itertools.pairwise(path.nodes))]
        assert min(steps) > 0
        assert sum(steps) == pytest.approx(path.cost)
        shown = method.path(position, rank)
        assert set(shown["born"]) == {ROWS["born"].iloc[position]}
        answer = explanation.answers[(explanation.place == position) & (explanation.rank == rank)]
        assert shown.iloc[-1].to_dict() == answer.iloc[0].to_dict()


def test_answers_are_distinct_training_rows_the_cheapest_first():
    method = FACE(neighbours=8).fit(TASK)
    explanation = method.explain(ROWS, k=4)
    assert len(explanation.answers.merge(TASK.train.drop_duplicates())) == len(explanation.answers)
    assert not explanation.answers.assign(place=explanation.place).duplicated().any()
    costs = {key: path.cost for key, path in method.paths_.items()}
    assert all(costs[p, r] >= costs[p, r - 1] for p, r in costs if r > 1)


def test_joined_are_the_nearest_neighbours_of_either_as_scikit_learn_has_them():
    free = loans.Task(
        loans.table(),
        loans.chance,
        schema=loans.SCHEMA.replace("born", mutable=True),
        target="yes",
        classes=("no", "yes"),
    )
    method = FACE(neighbours=5).fit(free)
    near = kneighbors_graph(method.terrain_.x.numpy(), 5).toarray() > 0
    assert ((method.edges_.toarray() > 0) == (near | near.T)).all()


def test_within_epsilon_everything_is_joined_and_nothing_beyond():
    method = FACE(graph="epsilon", epsilon=1.0).fit(TASK)
    x, born = method.terrain_.x, method.nodes_["born"].to_numpy()
    apart = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").numpy()
    expected = (apart <= 1.0) & (born[:, None] == born) & ~np.eye(len(x), dtype=bool)
    assert ((method.edges_.toarray() > 0) == expected).all()


def test_the_density_halfway_is_scikit_learns_without_both_ends():
    x = torch.rand((40, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel = Kernel(x, 4, 0.3, seed=0)
    row, node = np.array([0, 5, 7]), np.array([3, 6, 30])
    length = (x[row] - x[node]).norm(dim=1).numpy()
    seen = kernel.halfway(x, (row, node, length), own=True)
    volume = 2 * np.log(2 * np.pi * 0.3**2)
    for i, (a, b) in enumerate(zip(row, node, strict=True)):
        others = np.setdiff1d(np.arange(40), [a, b])
        estimate = KernelDensity(bandwidth=0.3).fit(x[others].numpy())
        assert seen[i] == pytest.approx(estimate.score_samples(((x[a] + x[b]) / 2)[None].numpy())[0] + volume)
    alone = KernelDensity(bandwidth=0.3).fit(x[1:].numpy()).score_samples(x[:1].numpy())[0] + volume
    assert np.log(kernel.at_nodes[0]) == pytest.approx(alone)


def test_a_step_through_dense_ground_costs_less_than_one_of_the_same_length_elsewhere():
    # Two pairs, equally far apart; between the ends of the first lies a crowd.
    crowd = torch.linspace(0.2, 0.8, 30, dtype=torch.float64)
    x = torch.cat(
        [
            torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [1.0, 3.0]], dtype=torch.float64),
            torch.stack([crowd, 0 * crowd], 1),
        ]
    )
    terrain = Terrain(x, "kde", 3, 2.0, Kernel(x, 2, 0.3, seed=0))
    dense, lonely = terrain.cost(x, (np.array([0, 2]), np.array([1, 3]), np.array([1.0, 1.0])), own=True)
    assert 1.0 <= dense < lonely


def test_endpoints_have_the_class_enough_probability_and_density():
    method = FACE(neighbours=8, probability=0.8, density=0.3).fit(TASK)
    ends = method.ends_[1]
    assert (loans.chance(method.nodes_.iloc[ends]) >= 0.8).all()
    assert (method.terrain_.density[ends] >= np.quantile(method.terrain_.density, 0.3)).all()
    assert (method.explain(ROWS).checks.score >= 0.8).all()
    assert len(ends) < len(FACE(neighbours=8).fit(TASK).ends_[1])


def test_with_rules_every_step_keeps_them():
    ruled = loans.task(rules="age' >= age\ndegree' >= degree", rows=200)
    method = FACE(neighbours=20).fit(ruled)
    explanation = method.explain(ROWS)
    assert len(explanation.answers)
    # These rules pass from step to step, so that the whole path keeps them too.
    assert explanation.checks.feasible.all()
    for position, _ in method.paths_:
        way = pd.concat([ROWS.iloc[[position]], method.path(position)])
        assert holds(ruled.rules, way.iloc[:-1], way.iloc[1:]).all()
    unruled = FACE(neighbours=20).fit(loans.task(rules="", rows=200)).explain(ROWS)
    assert not unruled.under(ruled).checks.feasible.all()


def test_rows_without_a_path_say_why():
    refused = TASK.refused(ROWS)
    far = FACE(graph="epsilon", epsilon=1e-6).fit(TASK).explain(ROWS)
    assert {why.words for why in far.reasons.values()} == {NO_START}
    assert (far.row_status[refused] == Status.NOT_FOUND).all()
    nowhere = FACE(probability=1.0).fit(TASK).explain(ROWS)
    assert {why.words for why in nowhere.reasons.values()} == {NO_END}
    short = FACE(graph="epsilon", epsilon=0.2).fit(TASK).explain(ROWS)
    assert NO_PATH in {why.words for why in short.reasons.values()}


def test_a_training_row_starts_from_where_it_stands():
    method = FACE(neighbours=8).fit(TASK)
    rows = method.nodes_[TASK.refused(method.nodes_)].iloc[:10]
    explanation = method.explain(rows)
    assert explanation.checks.valid.all()
    own = {position: method.nodes_.index.get_loc(label) for position, label in enumerate(rows.index)}
    assert all(method.paths_[p, 1].nodes[0] in (own[p], *method.edges_[[own[p]]].indices) for p, _ in method.paths_)


def test_an_answer_depends_on_its_row_alone():
    for graph, k in itertools.product(FORMS, (1, 2)):
        method = FACE(graph=graph, neighbours=8).fit(TASK)
        whole, some = method.explain(ROWS, k=k), method.explain(ROWS.iloc[::-3], k=k)
        first = whole.answers.set_index([whole.rows.index[whole.place], whole.rank])
        second = some.answers.set_index([some.rows.index[some.place], some.rank])
        pd.testing.assert_frame_equal(first.loc[second.index], second)


def test_nodes_are_a_seeded_sample():
    one, same, other = (FACE(max_nodes=50, seed=seed).fit(TASK).nodes_ for seed in (1, 1, 2))
    assert len(one) == 50
    assert one.equals(same)
    assert not one.index.equals(other.index)


def test_settings_that_make_no_sense_are_refused_together():
    with pytest.raises(DataError, match="FACE") as told:
        FACE(graph="knnn", neighbours=0, epsilon=-1.0, probability=2.0, max_nodes=1).fit(TASK)
    assert len(told.value.faults) == 5
    with pytest.raises(NotFittedError):
        FACE().explain(ROWS)
    with pytest.raises(NotFittedError):
        FACE().fit(TASK).path(0)
