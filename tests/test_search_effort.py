"""What the search may spend, what it does when that ends, and what a model that misbehaves costs."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import loans
from fcxplain import Task
from fcxplain.classifier import differentiable
from fcxplain.classifier.imitation import imitating_trees
from fcxplain.errors import ClassifierError, DataError
from fcxplain.search import Budget, Search, as_budget
from fcxplain.search.oracles.oracle import Memory, Replies
from fcxplain.search.oracles.tables import TableOracle
from test_search import SCHEMA, refused, table
from test_search import task as trained

pytestmark = pytest.mark.filterwarnings("ignore:the classifier predicts the target")


def chance(rows: pd.DataFrame) -> np.ndarray:
    return 1 / (1 + np.exp(-(rows["income"].to_numpy() - 60) / 10))


def problem(model: object) -> Task:
    return Task(people(300), model, schema=SCHEMA, rules="age' == age", target="yes", classes=("no", "yes"))


def people(rows: int) -> pd.DataFrame:
    """Refused ones, those born elsewhere last."""
    found = table(2 * rows).drop(columns="good")
    return found[found["income"] < 60].head(rows).assign(born="here")


def test_a_budget_is_read_from_all_that_stands_for_one():
    assert as_budget(None) == Budget(calls=1_000, seconds=None)
    assert as_budget(50) == Budget(calls=50)
    assert as_budget({"seconds": 0.5}) == Budget(seconds=0.5)
    assert as_budget(Budget(7, 2.0)) == Budget(7, 2.0)


def test_who_is_answered_before_the_budget_ends_is_said_to_be_cut_short():
    task, rows = loans.task(), loans.table(60, seed=5)
    little, plenty = (Search(task, budget=calls, oracle="model").explain(rows) for calls in (20, 1_000))
    assert little.counts == plenty.counts == {"verified": 33, "already": 27}
    assert np.array_equal(little.cut_short, little.asked)
    assert not plenty.cut_short.any()
    assert (plenty.calls < 1_000).all()
    assert "search budget ran out before the search was finished" in str(little.certificates[0])
    assert "budget" not in str(plenty.certificates[0])
    assert [c.to_dict()["cut_short"] for c in (little.certificates[0], plenty.certificates[0])] == [True, False]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (0, "calls: is 0"),
        (True, "True: is a bool"),
        (1.5, "1.5: is a float"),
        ("many", "'many': is a str"),
        ({"call": 3}, "Did you mean 'calls'"),
        ({"calls": 2.5}, "calls: is 2.5"),
        ({"seconds": 0}, "seconds: is 0"),
        ({"seconds": float("nan")}, "seconds: is nan"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused_by_name(given, told):
    with pytest.raises(DataError, match=told):
        as_budget(given)


def test_every_fault_of_a_budget_is_told_at_once():
    with pytest.raises(DataError, match=r"(?s)calls.*seconds"):
        Budget(calls=0, seconds=-1.0)


@pytest.mark.parametrize("kind", ["boosting", "mlp"])
@pytest.mark.parametrize("calls", [1, 5, 50])
def test_a_row_whose_calls_end_keeps_what_was_verified_and_else_is_timed_out(kind, calls):
    rows = refused(trained(kind), 12)
    answer = Search(trained(kind), prefer="sparse", budget=calls).explain(rows)
    assert set(answer.counts) <= {"verified", "timed_out"}
    assert answer.checks.passed.all()
    assert ((answer.row_status == "verified") == np.isin(np.arange(len(rows)), answer.place)).all()
    if kind == "boosting":
        assert (answer.calls <= calls).all()


def test_more_calls_never_lose_an_answer():
    rows, answered = refused(trained("boosting"), 15), []
    for calls in (5, 50, 500):
        answer = Search(trained("boosting"), prefer="sparse", budget=calls, oracle="model").explain(rows)
        answered.append(set(answer.place.tolist()))
    assert answered[0] <= answered[1] <= answered[2]
    assert answered[0] < answered[2]


@pytest.mark.parametrize("kind", ["boosting", "mlp"])
def test_calls_are_counted_for_each_row_whatever_the_rows_beside_it(kind):
    rows = pd.concat([refused(trained(kind), 6), table(40, seed=5).drop(columns="good").tail(10)], ignore_index=True)
    search = Search(trained(kind), prefer="sparse")
    answer = search.explain(rows)
    assert ((answer.calls > 0) == (answer.row_status != "already")).all()
    alone = [int(search.explain(rows.iloc[[i]]).calls[0]) for i in range(6)]
    assert answer.calls[:6].tolist() == alone
    assert answer.effort.calls >= len(rows)


def test_draws_are_told_only_where_somebody_draws():
    task = trained("mlp")
    donors = task.encoder.codes(task.train[~task.refused(task.train)])
    rows, seen = refused(task, 4), []

    def draws(codes, wanted, count):
        seen.append(count)
        return np.broadcast_to(donors[:count], (len(codes), count, len(SCHEMA)))

    assert Search(task, draws=draws, n_draws=5).explain(rows).draws == 5
    assert seen == [5]
    assert Search(task, draws=draws, n_draws=0).explain(rows).draws == 0
    assert Search(task, n_draws=5).explain(rows).draws == 0
    with pytest.raises(DataError, match="n_draws"):
        Search(task, n_draws=-1)


def test_a_single_good_draw_is_handed_out_as_it_is_and_a_bad_one_is_searched():
    task, rows = trained("mlp"), refused(trained("mlp"), 8)
    best = Search(task, prefer="sparse", weights={"change": 1e3}).explain(rows, k=1)
    good = task.encoder.codes(best.answers)
    good[4:] = task.encoder.codes(rows)[4:]

    def draws(codes, wanted, count):
        places = [np.flatnonzero((task.encoder.codes(rows) == line).all(axis=1))[0] for line in codes]
        return good[places][:, None]

    answer = Search(task, draws=draws, n_draws=1).explain(rows)
    assert answer.checks.passed.all()
    assert answer.counts == {"verified": 8}
    assert (answer.found_by == "draw").tolist()[:4] == [True] * 4
    assert (task.encoder.codes(answer.answers)[:4] == good[:4]).all()
    assert "draw" not in answer.found_by[4:]


@pytest.mark.parametrize("kind", ["boosting", "mlp"])
def test_in_one_pass_the_cheapest_good_draw_is_shown_alone(kind):
    task, rows = trained(kind), refused(trained(kind), 8)
    donors = task.encoder.codes(task.train[~task.refused(task.train)])

    def draws(codes, wanted, count):
        return np.broadcast_to(donors[:count], (len(codes), count, len(SCHEMA)))

    one = Search(task, prefer="fewest", draws=draws, n_draws=1).explain(rows)
    best = Search(task, prefer="fewest", draws=draws, n_draws=4, quick=True).explain(rows)
    assert set(best.found_by) == {"draw"}
    assert best.calls.tolist() == [1] * 8
    changes = [(e.answers.to_numpy() != rows.to_numpy()).sum() for e in (one, best)]
    assert changes[1] < changes[0]


def test_where_each_query_counts_a_draw_comes_first_and_more_budget_is_never_worse():
    task, rows = trained("boosting"), refused(trained("boosting"), 8)
    donors = task.encoder.codes(task.train[~task.refused(task.train)])

    def draws(codes, wanted, count):
        return np.broadcast_to(donors[:count], (len(codes), count, len(SCHEMA)))

    found = [
        Search(task, prefer="fewest", draws=draws, oracle="model", budget=b).explain(rows) for b in (1, 2, 4, 8, 100)
    ]
    assert set(found[0].found_by) == {"draw"}
    assert all(answer.counts == {"verified": 8} for answer in found)
    changes = np.array([(answer.answers.to_numpy() != rows.to_numpy()).sum(axis=1) for answer in found])
    assert (np.diff(changes, axis=0) <= 0).all()
    assert changes[-1].sum() < changes[0].sum()


@pytest.mark.parametrize("make", [lambda: trained("boosting"), lambda: loans.task()])
def test_a_larger_budget_never_gives_a_costlier_answer(make):
    task = make()
    rows = task.train[task.refused(task.train)].head(40)
    before, last = task.schema.natural(rows), np.full(len(rows), np.inf)
    for budget in (2, 8, 30, 31, 32, 60, 90, 125, 126, 200, 499, 501, 700, 1_000, 1_500):
        answer = Search(task, prefer="fewest", oracle="model", budget=budget).explain(rows)
        cost, found = np.full(len(rows), np.inf), answer.row_status == "verified"
        after = task.schema.natural(answer.answers)
        cost[found] = answer.costs.total(task, {n: v[found] for n, v in before.items()}, after)
        assert (cost <= np.where(np.isfinite(last), last + 1e-9, np.inf)).all()
        last = cost
    assert np.isfinite(last).all()


@pytest.mark.parametrize("budget", [1, 31, 32, 1_000])
def test_a_row_that_the_rules_leave_nothing_is_impossible_whatever_the_budget(budget):
    task = Task(people(300), chance, schema=SCHEMA, rules="age' >= age + 40", target="yes", classes=("no", "yes"))
    rows = people(300)
    answer = Search(task, oracle="model", budget=budget).explain(rows)
    stuck = rows["age"] + 40 > SCHEMA["age"].high
    assert 0 < stuck.sum() < len(rows)
    assert (answer.row_status[stuck] == "impossible").all()


def test_a_later_stage_recalls_the_replies_of_earlier_ones_and_nothing_else():
    rng = np.random.default_rng(0)
    row, codes = rng.integers(0, 5, 300), rng.integers(-1, 4, (300, 4))
    margin = (np.column_stack([row, codes]) @ [1, 10, 100, 1_000, 10_000]).astype(np.float64)
    memory, refused = Memory(4), np.arange(300) % 7 == 0
    memory.note(row, codes, Replies(np.where(refused, -np.inf, margin), margin > 0))
    assert len(memory.recalled(row, codes)[1]) == 300
    memory.next_stage()
    replies, new = memory.recalled(row, codes)
    known = np.setdiff1d(np.arange(300), new)
    assert np.array_equal(replies.margin[known], margin[known])
    assert np.array_equal(replies.valid[known], margin[known] > 0)
    asked = {tuple(line) for line in np.column_stack([row, codes])[~refused]}
    assert [tuple(line) not in asked for line in np.column_stack([row, codes])] == np.isin(np.arange(300), new).tolist()


class Sleepy:
    """A model that takes its time on people born elsewhere."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.calls = seconds, 0

    def __call__(self, rows: pd.DataFrame) -> np.ndarray:
        self.calls += 1
        if (rows["born"] == "there").any():
            time.sleep(self.seconds)
        return chance(rows)


def test_after_the_deadline_a_slow_model_is_asked_no_more_and_finished_rows_keep_their_answers():
    model = Sleepy(0.3)
    task = problem(model)
    rows = people(TableOracle.rows_at_once + 6)
    rows.iloc[TableOracle.rows_at_once :, rows.columns.get_loc("born")] = "there"
    search = Search(task, prefer="sparse", budget={"seconds": 0.03})
    search.explain(rows.head(2))
    model.calls = 0
    answer = search.explain(rows.tail(6))
    # Six rows have 0.18 seconds: no more than one slow question, after the one about the rows as they are.
    assert model.calls <= 3
    assert answer.counts["timed_out"] > 0
    whole = search.explain(rows)
    assert (whole.row_status[: TableOracle.rows_at_once] == "verified").all()
    assert set(whole.row_status[TableOracle.rows_at_once :]) <= {"timed_out", "verified"}
    assert whole.checks.passed.all()


def test_no_time_at_all_is_no_answer_and_no_search():
    model = Sleepy(0.0)
    search = Search(problem(model), prefer="sparse", budget=Budget(seconds=1e-9))
    rows = people(5)
    model.calls = 0
    assert search.explain(rows).counts == {"timed_out": 5}
    assert model.calls == 1


class Breaking:
    """A model that breaks down for good as soon as it is asked about many people born elsewhere."""

    def __init__(self) -> None:
        self.is_down = False

    def __call__(self, rows: pd.DataFrame) -> np.ndarray:
        self.is_down |= bool((rows["born"] == "there").sum() > 50)
        if self.is_down:
            raise RuntimeError("the line is dead")
        return chance(rows)


def test_a_model_that_breaks_down_half_way_costs_only_the_rows_still_to_come():
    rows = people(TableOracle.rows_at_once + 6)
    rows.iloc[TableOracle.rows_at_once :, rows.columns.get_loc("born")] = "there"
    answer = Search(problem(Breaking()), prefer="sparse").explain(rows)
    assert (answer.row_status == "verified").tolist() == [True] * TableOracle.rows_at_once + [False] * 6
    assert set(answer.row_status[TableOracle.rows_at_once :]) == {"not_found"}
    assert "failed on 6 rows" in answer.notes[0]
    assert "the line is dead" in answer.notes[0]
    assert repr(int(rows.index[TableOracle.rows_at_once])) in answer.notes[0]


class Choosy:
    """A model that refuses to speak of some people at all."""

    def __call__(self, rows: pd.DataFrame) -> np.ndarray:
        p = chance(rows)
        return np.where(rows["age"] == 33, np.nan, p)


def test_rows_that_the_model_does_not_answer_as_they_are_cost_no_other_its_answer():
    task = problem(chance)
    rows = people(20).assign(age=[33, 44] * 10)
    choosy = Task(
        people(60).assign(age=44), Choosy(), schema=SCHEMA, rules="age' == age", target="yes", classes=("no", "yes")
    )
    answer = Search(choosy, prefer="sparse").explain(rows)
    unanswered = rows["age"] == 33
    assert answer.row_status.tolist() == np.where(unanswered, "unreadable", "verified").tolist()
    assert list(answer.reasons) == np.flatnonzero(unanswered).tolist()
    assert all("returned NaN or infinity" in reason.words for reason in answer.reasons.values())
    assert (answer.calls[unanswered] == 0).all()
    with pytest.raises(ClassifierError):
        Search(choosy, prefer="sparse").explain(rows[unanswered])
    assert Search(task, prefer="sparse").explain(rows).counts == {"verified": 20}


class Forgetful:
    """A model that denies what it said of people with an even number of hours."""

    def __init__(self) -> None:
        self.seen: Counter[tuple] = Counter()

    def __call__(self, rows: pd.DataFrame) -> np.ndarray:
        keys = [tuple(line) for line in rows.itertuples(index=False, name=None)]
        again = np.array([self.seen[key] > 0 for key in keys])
        self.seen.update(keys)
        return np.where(again & (rows["hours"] % 2 == 0).to_numpy() & (chance(rows) > 0.5), 0.1, chance(rows))


def test_what_the_model_denies_when_asked_again_is_never_handed_out():
    rows = people(20)
    answer = Search(problem(Forgetful()), prefer="sparse").explain(rows, k=2)
    assert answer.checks.passed.all()
    assert (answer.answers["hours"] % 2 == 1).all()
    assert "changed its answer when queried again" in answer.notes[0]
    assert len(answer.answers)
    assert set(answer.rank) <= {1, 2}


def test_a_narrower_search_answers_as_one_made_anew():
    task, rows = trained("mlp"), refused(trained("mlp"), 12)
    search = Search(task, prefer="balanced")
    search.explain(rows.head(2))
    stricter = task.relaxed(rules=(*task.rules, *trained("mlp", "hours' <= hours\njob' == job").rules))
    for other, difficulty in ((stricter, None), (task, {"income": 9.0}), (task.relaxed(target=0), None)):
        expected = Search(other, prefer="balanced", difficulty=difficulty).explain(rows)
        found = search.narrowed(other, difficulty).explain(rows)
        assert found.row_status.tolist() == expected.row_status.tolist()
        pd.testing.assert_frame_equal(found.answers, expected.answers)
    assert search.narrowed(stricter).context.shared is search.context.shared


def test_a_search_for_other_bounds_shares_nothing_it_should_not():
    task = trained("mlp")
    search = Search(task, prefer="sparse")
    wider = task.relaxed(schema=task.schema.replace("hours", high=70))
    answer = search.narrowed(wider).explain(refused(task, 6))
    assert search.narrowed(wider).context.shared is not search.context.shared
    assert answer.checks.passed.all()


@pytest.mark.parametrize("kind", ["surrogate", "imitation"])
def test_queries_that_measure_an_imitation_are_counted_in_the_effort_that_they_belong_to(kind):
    task, rows = problem(chance), people(3)
    if kind == "surrogate":
        nobody = lambda codes, wanted, count: np.repeat(codes[:, None], count, axis=1)  # noqa: E731
        search = Search(task, draws=nobody, surrogate=differentiable(task.classifier, task), oracle="model")
    else:
        search = Search(task, imitation=imitating_trees(task))
    first, again = (search.explain(rows).effort.calls for _ in range(2))
    assert first == again + 3 * len(task.train)
