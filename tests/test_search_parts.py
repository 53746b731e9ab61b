"""The parts of the search, each against an oracle of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import LocalOutlierFactor

from fcxplain import Feature, Schema, Task
from fcxplain.hashing import distinct
from fcxplain.search import Search
from fcxplain.search.batch import Legal
from fcxplain.search.candidates import Candidates, diverse, undominated, within
from fcxplain.search.cost import PREFERENCES, incoherence, price
from fcxplain.search.density import Density
from fcxplain.search.oracles.networks import NetworkCodes
from fcxplain.search.propose.combine import first_at_least
from fcxplain.search.propose.few import few_first
from fcxplain.search.space import Grids, SearchSpace, moves_of
from fcxplain.search.spending import Spending
from fcxplain.search.steps import StepRunner
from loans import SCHEMA, chance, table, task
from test_search import task as trained


@given(st.integers(1, 40), st.integers(0, 10**6))
def test_first_at_least_counts_what_lies_below(length, seed):
    rng = np.random.default_rng(seed)
    rising = np.sort(rng.integers(0, 9, (4, length)).astype(float), axis=1)
    need = rng.integers(-1, 11, (4, 6)).astype(float)
    assert (first_at_least(rising, need) == (rising[:, None] < need[:, :, None]).sum(axis=2)).all()


@given(st.lists(st.integers(0, 5), max_size=30))
def test_within_counts_the_candidates_of_each_row(rows):
    seen: dict[int, int] = {}
    expected = [seen.update({r: seen.get(r, -1) + 1}) or seen[r] for r in rows]
    assert within(np.array(rows, dtype=np.int64)).tolist() == expected


@given(st.integers(0, 10**6), st.booleans())
def test_distinct_lines_are_found_whatever_the_size_of_the_grid(seed, large):
    codes = np.random.default_rng(seed).integers(-1, 2, (30, 4)) * (2**55 if large else 1)
    first, inverse = distinct(codes)
    assert (codes[first][inverse] == codes).all()
    assert len(first) == len({tuple(line) for line in codes.tolist()})


def test_price_of_a_pool_is_the_cost_that_the_check_tells():
    problem = task()
    space, rows = SearchSpace(problem), table(20)
    present = space.present(
        problem.schema.checked(rows), problem.outcomes(problem.class_names[np.ones(20, dtype=np.int64)])
    )
    after = problem.encoder.codes(table(20, seed=3))
    mine = price(space, PREFERENCES["balanced"].__class__(), present, np.arange(20), after)
    from fcxplain.explanation import check

    told = check(problem, rows, problem.encoder.from_codes(after), np.full(20, "yes"))
    assert mine == pytest.approx(told.cost)


@pytest.mark.parametrize("kind", ["paper", "mlp"])
def test_the_network_asked_by_codes_answers_as_it_does_by_tables(kind):
    problem = trained(kind)
    space = SearchSpace(problem)
    oracle = Search(problem).context.oracle
    assert isinstance(oracle.model, NetworkCodes)
    rows = problem.train.head(200)
    present = space.present(
        problem.schema.checked(rows), problem.outcomes(problem.class_names[np.ones(len(rows), dtype=np.int64)])
    )
    asked = oracle.query(present, np.arange(200), present.codes, Spending.start(np.full(200, 10)))
    p = problem.classifier.probabilities(rows)
    assert asked.margin == pytest.approx(np.log(p[:, 1] / p[:, 0]), abs=1e-3)
    assert (asked.valid == (problem.predict(rows) == 1)).all()


def test_lof_is_that_of_scikit_learn_where_no_two_distances_are_equal():
    rng = np.random.default_rng(0)
    rows = table(400).assign(income=rng.permutation(18_000)[:400] / 2)
    problem = Task(rows, chance, schema=SCHEMA, target="yes", classes=("no", "yes"))
    space = SearchSpace(problem)
    density = Density(space, problem.encoder.codes(rows), 0)
    asked = table(60, seed=9).assign(income=rng.permutation(18_000)[:60] / 2)
    encoder = problem.encoder
    points = encoder.encode(encoder.from_codes(density.points)).double().numpy()
    expected = -LocalOutlierFactor(20, novelty=True).fit(points).score_samples(encoder.encode(asked).double().numpy())
    assert density.lof(encoder.codes(asked)) == pytest.approx(expected, rel=1e-3)


def test_support_counts_training_rows_with_the_same_categories():
    problem = task()
    density = Density(SearchSpace(problem), problem.encoder.codes(problem.train), 0)
    names = ["degree", "job", "born"]
    counts = problem.train.groupby(names)["age"].transform("size")
    assert density.count(problem.encoder.codes(problem.train)).tolist() == counts.tolist()
    strange = problem.encoder.codes(problem.train.head(1))
    assert (density.count(strange) > 0).all()


def test_moves_are_thinned_until_they_are_few_and_keep_every_level():
    problem = task()
    space = SearchSpace(problem)
    moves = moves_of(space, Grids(space, problem.encoder.codes(problem.train)), 120)
    assert len(moves) <= 120
    for name in ("degree", "job"):
        place = problem.schema.names.index(name)
        assert moves.code[moves.feature == place].tolist() == [0, 1, 2]
    assert not moves.whole[problem.schema.names.index("income")]
    assert problem.schema.names.index("born") not in moves.feature


def test_repair_keeps_the_rules_or_says_that_it_cannot():
    problem = task("age' >= age + 30\ndegree' > degree => age' > age")
    space = SearchSpace(problem)
    legal = Legal(space)
    rows = table(50)
    present = space.present(
        problem.schema.checked(rows), problem.outcomes(problem.class_names[np.ones(50, dtype=np.int64)])
    )
    codes, kept = legal.mend(present, np.arange(50), problem.encoder.codes(table(50, seed=4)))
    assert kept.tolist() == (rows["age"] <= 50).tolist()
    assert legal.keeps(present, np.arange(50)[kept], codes[kept]).all()


def test_diverse_answers_change_other_features_before_more_of_the_same():
    present = np.zeros((1, 3), dtype=np.int64)
    codes = np.array([[1, 0, 0], [2, 0, 0], [1, 1, 0], [0, 0, 1]])
    pool = Candidates(np.zeros(4, dtype=np.int64), codes, np.array([1.0, 1.1, 1.2, 9.0]), np.zeros(4, dtype=np.int64))
    assert diverse(pool, present, 4).codes.tolist() == [[1, 0, 0], [0, 0, 1], [1, 1, 0], [2, 0, 0]]


def test_effects_that_stay_behind_their_cause_are_counted():
    effects = np.array([[False, True, True], [False, False, False], [False, False, False]])
    changed = np.array([[True, False, False], [True, True, False], [False, True, True]])
    assert incoherence(changed, effects).tolist() == [2.0, 1.0, 0.0]


def test_an_answer_that_does_all_that_another_does_and_more_is_left_out():
    present = np.array([[0, 0, 0], [5, 5, 5]])
    codes = np.array([[0, 2, 0], [1, 2, 0], [1, 3, 0], [5, 6, 5]])
    pool = Candidates(np.array([0, 0, 0, 1]), codes, np.arange(4.0), np.zeros(4, dtype=np.int64))
    kept = undominated(pool, present)
    assert kept.codes.tolist() == [[0, 2, 0], [1, 3, 0], [5, 6, 5]]


def test_a_value_off_the_grid_that_must_change_goes_to_the_nearest_on_it():
    schema = Schema((Feature("a", "continuous", low=0, high=0.4, step=0.1), Feature("s", "integer", low=3, high=7)))
    train = pd.DataFrame({"a": [0.0, 0.1, 0.2, 0.3, 0.4] * 4, "s": [3, 4, 5, 6, 7] * 4})

    def model(rows: pd.DataFrame) -> np.ndarray:
        return np.where((rows["s"] <= 5) & (rows["a"] > 0.05), 0.9, 0.1)

    answer = Search(Task(train, model, schema=schema, rules="a' != a", target=1)).explain(
        pd.DataFrame({"a": [0.14], "s": [6]})
    )
    assert answer.answers.to_dict("records") == [{"a": 0.1, "s": 5}]


@pytest.mark.parametrize(("times", "changes"), [(0.0, 3), (3.0, 3), (5.0, 2)])
def test_many_changes_come_first_unless_few_are_not_much_farther(times, changes):
    problem = task()
    context = Search(problem, prefer="sparse", weights={"times": times}).context
    present = context.space.present(
        problem.schema.checked(table(1)), problem.outcomes(problem.class_names[np.ones(1, dtype=np.int64)])
    )
    age, income, job = (problem.schema.names.index(n) for n in ("age", "income", "job"))
    few, many = present.codes.copy(), present.codes.copy()
    # Both numbers move by four values each, or by one each and the job with them: a fourth of the way.
    few[0, [age, income]] += 4
    many[0, [age, income]] += 1
    many[0, job] = (many[0, job] + 1) % 3
    pool = Candidates(np.zeros(2, np.int64), np.concatenate([few, many]), np.array([9.0, 1.0]), np.zeros(2, np.int64))
    best = few_first(StepRunner(context, 1).batch(present), pool).best(1)
    assert (best.codes != present.codes).sum() == changes
