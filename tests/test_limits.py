"""What any method could reach: fronts against plain enumeration, and the linear program against cases worked by hand."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from commands import run
from fcxplain import Feature, Schema, Task
from fcxplain.benchmark import limits as making
from fcxplain.benchmark.limits import Fronts, Limit, Wish, fronts, limit, limits, paper_wishes
from fcxplain.errors import DataError
from fcxplain.rules import holds
from random_models import model_of

SCHEMA = Schema(
    (
        Feature("age", "integer", low=20, high=29),
        Feature("hours", "integer", low=0, high=6),
        Feature("job", "categorical", levels=("clerk", "cook", "smith")),
        Feature("house", "categorical", levels=("own", "rent")),
        Feature("sex", "categorical", levels=("f", "m"), mutable=False),
    )
)
NAMES = list(SCHEMA.names)
EVERY = pd.DataFrame(
    itertools.product(range(20, 30), range(7), ("clerk", "cook", "smith"), ("own", "rent"), ("f", "m")), columns=NAMES
)
RULES = "age' >= age\nhours' > hours => age' > age"


def task_of(kind: str, seed: int, rules: str = RULES) -> Task:
    model = model_of(kind, SCHEMA, EVERY, seed=seed, classes=("no", "yes"), bias=1.0)
    return Task(EVERY, model.given, schema=SCHEMA, rules=rules, target="yes", classes=("no", "yes"))


def refused(task: Task, seed: int, count: int = 4) -> pd.DataFrame:
    rows = EVERY[task.refused(EVERY)]
    return rows.iloc[np.random.default_rng(seed).permutation(len(rows))[:count]]


def least_by_hand(task: Task, row: pd.Series) -> np.ndarray:
    """Every legal row looked at, one after the other."""
    found = np.full((4, 3), np.inf)
    now = pd.DataFrame([row] * len(EVERY)).reset_index(drop=True).astype(EVERY.dtypes)
    legal = holds(task.rules, now, EVERY) & (EVERY["sex"] == row["sex"]).to_numpy() & (task.predict(EVERY) == "yes")
    for _, then in EVERY[legal].iterrows():
        categories = sum(then[n] != row[n] for n in ("job", "house", "sex"))
        numbers = sum(then[n] != row[n] for n in ("age", "hours"))
        far = sum(abs(then[n] - row[n]) / task.units[n] for n in ("age", "hours"))
        found[categories, numbers] = min(found[categories, numbers], far)
    return found


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(["linear", "tree", "lookup"]), st.integers(0, 1000))
def test_fronts_are_what_plain_enumeration_finds(kind, seed):
    task = task_of(kind, seed)
    rows = refused(task, seed)
    found = fronts(task, rows)
    assert found.is_exact
    for i in range(len(rows)):
        assert found.least[i] == pytest.approx(least_by_hand(task, rows.iloc[i]))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000))
def test_the_bound_of_a_linear_score_is_never_passed(seed):
    task = task_of("linear", seed)
    rows = refused(task, seed)
    assume(len(rows))
    exact = fronts(task, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "LEGAL_ROWS", 0)
        bound = fronts(task, rows)
    assert not bound.is_exact
    reached = np.minimum.accumulate(np.stack([exact.least[:, :, 0], exact.least[:, :, 1:].min(axis=2)], axis=2), axis=1)
    assert (bound.least.min(axis=2) <= reached.min(axis=2) + 1e-9).all()
    assert (bound.least[:, :, 0] <= reached[:, :, 0]).all()


def test_without_rules_and_with_free_numbers_the_bound_is_tight():
    task = task_of("linear", 4, rules="")
    rows = refused(task, 4, 8)
    exact = fronts(task, rows).least.min(axis=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "LEGAL_ROWS", 0)
        bound = fronts(task, rows).least.min(axis=2)
    # Whole numbers cost at most a step of each more than any.
    step = 1 / task.units["age"] + 1 / task.units["hours"]
    assert np.isfinite(exact).any()
    both = np.isfinite(exact)
    assert (np.minimum.accumulate(exact, axis=1)[both] - bound[both] <= step + 1e-9).all()


def test_a_model_that_is_not_linear_has_no_limits_on_a_wide_table(monkeypatch):
    task = task_of("tree", 0)
    monkeypatch.setattr(making, "LEGAL_ROWS", 0)
    with pytest.raises(DataError, match="not linear"):
        fronts(task, refused(task, 0))


# Two rows: the first changes one category, or a number by 4; the second one category and a number by 1, or two
# categories, or three and nothing else.
LEAST = np.full((2, 4, 2), np.inf)
LEAST[0, 1, 0], LEAST[0, 0, 1] = 0.0, 4.0
LEAST[1, 1, 1], LEAST[1, 2, 0], LEAST[1, 3, 0] = 1.0, 0.0, 0.0
TWO_ROWS = Fronts(LEAST, is_exact=True)


@pytest.mark.parametrize(
    ("wish", "categories", "reachable", "two"),
    [
        (Wish("anything"), 0.5, True, 100.0),
        (Wish("no number", continuous=0.0), 1.5, True, 100.0),
        (Wish("no number, one category", continuous=0.0, categorical=1.0), 1.5, False, None),
        (Wish("both", continuous=2.5, categorical=0.5), 0.5, True, 100.0),
        # Between them lies a mixture: the first row's number half the time.
        (Wish("half", continuous=1.5), 0.75, True, 100.0),
        (Wish("one change", changes=0.9), None, False, None),
    ],
)
def test_limits_of_two_rows_are_what_the_hand_computes(wish, categories, reachable, two):
    found = limit(TWO_ROWS, wish)
    assert found.categories == (None if categories is None else pytest.approx(categories, abs=0.01))
    assert found.reachable == reachable
    assert found.two_changes == (None if two is None else pytest.approx(two))


def test_two_changes_give_way_where_the_wish_wants_it():
    least = np.full((1, 4, 3), np.inf)
    least[0, 0, 2], least[0, 3, 0] = 5.0, 0.0
    found = Fronts(least, is_exact=True)
    assert limit(found, Wish("anything")).two_changes == pytest.approx(100)
    assert limit(found, Wish("near", continuous=0.0)).two_changes == pytest.approx(0, abs=0.2)
    assert limit(found, Wish("half", continuous=2.5)).two_changes == pytest.approx(50, abs=0.2)


def test_one_change_may_have_to_come_first():
    least = np.full((1, 3, 2), np.inf)
    least[0, 0, 1], least[0, 2, 0] = 7.0, 0.0
    found = Fronts(least, is_exact=True)
    assert limit(found, Wish("near", continuous=1.0, one_first=False)).categories == pytest.approx(2 * 6 / 7, abs=0.01)
    assert limit(found, Wish("near", continuous=1.0, one_first=True)) == Limit(
        Wish("near", continuous=1.0, one_first=True), None, reachable=False, two_changes=None
    )


def test_rows_without_an_answer_do_not_count():
    least = np.concatenate([LEAST, np.full((1, 4, 2), np.inf)])
    found = Fronts(least, is_exact=True)
    assert found.possible.tolist() == [True, True, False]
    assert limit(found, Wish("no number", continuous=0.0)) == limit(TWO_ROWS, Wish("no number", continuous=0.0))


def test_the_papers_rows_are_wished_for_where_they_are_valid_enough():
    wishes = {wish.name: wish for wish in paper_wishes("census")}
    assert "cem" not in wishes
    assert wishes["dice-random"] == Wish("dice-random", 9.41, 4.24, 1.58)
    assert wishes["all of them at once"] == Wish("all of them at once", 8.61, 1.56, 1.58)


def test_limits_of_the_embedded_data_by_command(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "LEGAL_ROWS", 0)
    command = "bench limits --data adult --rows 3000 --limit-rows 20 --continuous 50 --json"
    done = run(*command.split(), folder=tmp_path)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert not found["is_exact"]
    assert found["lines"][0]["wish"] == {"name": "yours", "changes": None, "continuous": 50.0, "categorical": None} | {
        "one_first": False
    }


def test_an_unknown_set_of_rules_is_refused():
    with pytest.raises(DataError, match=r"'binery': is no set of rules\. Did you mean 'binary'"):
        limits("adult", "binery")
