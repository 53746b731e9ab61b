"""DiCE random: its rounds of random changes, its options, and the package it follows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loans
from effort import examples
from fcxplain import Explanation
from fcxplain.errors import DataError, NotFittedError
from fcxplain.methods.base import asked
from fcxplain.methods.dice import DiCERandom
from fcxplain.methods.grid import CodeGrid, distinct

TASK = loans.task(rules=())
ROWS = loans.table(60, seed=5)


def cost(explanation):
    return explanation.checks.cost[explanation.rank == 1]


def test_random_changes_flip_every_row():
    explanation = DiCERandom().fit(TASK).explain(ROWS)
    assert explanation.checks.valid.all()
    assert len(explanation.answers) == TASK.refused(ROWS).sum()
    assert explanation.method == "DiCE random"


def test_every_round_adds_at_most_one_change_to_each_copy():
    method = DiCERandom(samples=50, posthoc_sparsity=None).fit(TASK)
    grid = CodeGrid(asked(TASK, ROWS))
    # So many are never found, so that every round is played and all that flip are answers.
    explanation = method.explain(ROWS, k=10**6)
    row, codes = np.searchsorted(grid.question.place, explanation.place), TASK.encoder.codes(explanation.answers)
    after, bank = {}, np.zeros((50, codes.shape[1]), dtype=np.int64)
    for i, choices in method.choices_.items():
        category = TASK.schema.features[i].is_category
        every = choices if category else np.arange(choices[0], choices[1] + 1)
        bank[:, i] = every[(method.shares_[:, i] * len(every)).astype(int)]
    for turns in range(1, len(method.turns_) + 1):
        copies = np.repeat(grid.now[:, None], 50, axis=1)
        for feature in method.turns_[:turns]:
            copies[:, np.arange(50), feature] = bank[np.arange(50), feature]
        assert ((copies != grid.now[:, None]).sum(axis=2) <= turns).all()
        lines = copies.reshape(-1, codes.shape[1])
        flips = grid.flips(np.repeat(np.arange(len(grid)), 50), lines)
        after |= {
            (r, *line): True
            for r, line in zip(np.repeat(np.arange(len(grid)), 50)[flips], lines[flips].tolist(), strict=True)
        }
    assert {(int(r), *line) for r, line in zip(row, codes.tolist(), strict=True)} == {
        tuple(map(int, key)) for key in after
    }


def test_k_answers_are_distinct():
    explanation = DiCERandom().fit(TASK).explain(ROWS, k=4)
    assert (np.bincount(explanation.place)[asked(TASK, ROWS).place] == 4).all()
    answers = explanation.answers.assign(place=explanation.place)
    assert not answers.duplicated().any()


def test_only_features_to_vary_change():
    explanation = DiCERandom(features_to_vary=["income", "born"]).fit(TASK).explain(ROWS, k=3)
    names = np.asarray(TASK.schema.names)
    assert set(names[explanation.checks.changed.any(axis=0)]) == {"income"}


def test_new_values_stay_in_the_permitted_range():
    permitted = {"income": (2000.25, 2600), "degree": ["college"], "age": (60, 70)}
    explanation = DiCERandom(permitted_range=permitted, posthoc_sparsity=None).fit(TASK).explain(ROWS, k=5)
    after, changed = explanation.answers, explanation.checks.changed
    assert after["income"][changed[:, 1]].between(2000.5, 2600).all()
    assert set(after["degree"][changed[:, 2]]) <= {"college"}
    assert after["age"][changed[:, 0]].between(60, 70).all()


def test_rules_narrow_the_permitted_range_of_each_row():
    ruled = loans.task(rules="age' >= age\nincome' <= income + 500\ndegree' > degree => age' > age")
    explanation = DiCERandom(samples=200).fit(ruled).explain(ROWS, k=3)
    before, after = explanation.before, explanation.answers
    assert len(after)
    assert (after["age"].to_numpy() >= before["age"].to_numpy()).all()
    assert (after["income"].to_numpy() <= before["income"].to_numpy() + 500).all()
    # A rule that joins two features is no range, unless every rule is to be kept.
    assert not explanation.checks.feasible.all()
    assert DiCERandom(samples=200, every_rule=True).fit(ruled).explain(ROWS, k=3).checks.feasible.all()


def test_rows_that_nothing_flips_say_so():
    explanation = DiCERandom(features_to_vary=["job"]).fit(TASK).explain(ROWS)
    assert not len(explanation.answers)
    assert all("random changes" in why.words for why in explanation.reasons.values())
    assert set(explanation.reasons) == set(asked(TASK, ROWS).place.tolist())


def test_stepping_back_brings_numbers_nearer_and_stops_at_the_border():
    far = DiCERandom(posthoc_sparsity=None, features_to_vary=["age"]).fit(TASK).explain(ROWS)
    near = DiCERandom(posthoc_sparsity="all", features_to_vary=["age"]).fit(TASK).explain(ROWS)
    assert near.checks.valid.all()
    assert (cost(near) <= cost(far)).all()
    one_back = near.answers.assign(
        age=near.answers["age"] + np.sign(near.before["age"].to_numpy() - near.answers["age"])
    )
    assert (TASK.predict(one_back) == "no").all()


def test_only_small_changes_are_stepped_back_by_default():
    whole = DiCERandom().fit(TASK)
    limits = {TASK.schema.names[i]: limit for i, limit in whole.limits_.items()}
    ages, incomes = TASK.train["age"], TASK.train["income"]
    deviation = np.abs(np.unique(ages) - np.median(np.unique(ages)))
    assert limits["age"] == min(np.quantile(deviation, 0.1), np.median(np.abs(ages - ages.median())))
    assert list(limits) == ["income", "age"]
    assert limits["income"] <= np.median(np.abs(incomes - incomes.median()))


def test_an_answer_depends_on_its_row_alone_and_on_the_seed():
    method = DiCERandom(seed=3).fit(TASK)
    whole, some = method.explain(ROWS, k=2), method.explain(ROWS.iloc[::-3], k=2)
    first = whole.answers.set_index([whole.rows.index[whole.place], whole.rank])
    second = some.answers.set_index([some.rows.index[some.place], some.rank])
    pd.testing.assert_frame_equal(first.loc[second.index], second)
    other = DiCERandom(seed=4).fit(TASK).explain(ROWS, k=2)
    assert not other.answers.equals(whole.answers)


def test_a_value_off_the_grid_stays_as_it_is_where_it_does_not_change():
    rows = ROWS.assign(income=ROWS["income"] + 0.1)
    explanation = DiCERandom(features_to_vary=["age"]).fit(TASK).explain(rows)
    assert len(explanation.answers)
    assert explanation.answers["income"].to_numpy().tolist() == explanation.before["income"].to_numpy().tolist()


def test_the_model_is_asked_about_each_distinct_row_once():
    seen = []

    def model(rows):
        seen.append(rows)
        return loans.chance(rows)

    task = loans.Task(loans.table(), model, schema=loans.SCHEMA, target="yes", classes=("no", "yes"))
    grid = CodeGrid(asked(task, ROWS.iloc[:8]))
    seen.clear()
    grid.flips(np.repeat(np.arange(len(grid)), 3), np.repeat(grid.now, 3, axis=0))
    assert (
        [len(rows) for rows in seen]
        == [grid.calls]
        == [len(ROWS.iloc[:8][task.refused(ROWS.iloc[:8])].drop_duplicates())]
    )


@given(st.lists(st.lists(st.integers(-3, 2**40), min_size=4, max_size=4), max_size=12), st.integers(0, 3))
@examples(60)
def test_distinct_lines_are_numpys(lines, repeated):
    codes = np.asarray([*lines, *lines[:repeated]], dtype=np.int64).reshape(-1, 4)
    first, inverse = distinct(codes)
    expected = np.unique(codes, axis=0, return_index=True)
    assert sorted(first.tolist()) == sorted(expected[1].tolist())
    assert (codes[first][inverse] == codes).all()


def test_settings_that_make_no_sense_are_refused_together():
    method = DiCERandom(
        samples=0,
        features_to_vary=["incme"],
        permitted_range={"age": (200, 300), "job": ["smiht"], "income": 3},
        posthoc_sparsity=2.0,
    )
    with pytest.raises(DataError, match="DiCERandom") as told:
        method.fit(TASK)
    assert len(told.value.faults) == 6
    assert "'income'" in str(told.value)
    with pytest.raises(DataError, match="frozen"):
        DiCERandom(features_to_vary=["born"]).fit(TASK)
    with pytest.raises(NotFittedError):
        DiCERandom().explain(ROWS)
    with pytest.raises(DataError, match="k"):
        DiCERandom().fit(TASK).explain(ROWS, k=0)


def whole_incomes(rows):
    """Loans with incomes in whole hundreds, since the package walks back in the smallest steps, one call each."""
    return rows.assign(income=(rows["income"] // 100).astype(int))


def richer(rows):
    """The loans' model on such rows, moved a little, since the package and a task part where the chance is just 0.5."""
    return loans.chance(rows.assign(age=rows["age"].astype(float), income=rows["income"].astype(float) * 100 + 3.7))


class Approval:
    """The model as dice-ml wants a scikit-learn model to look."""

    classes_ = np.array([0, 1])

    def predict_proba(self, rows):
        return np.stack([1 - richer(rows), richer(rows)], axis=1)


def test_validity_and_cost_agree_with_the_dice_package():
    dice_ml = pytest.importorskip("dice_ml", reason="the package dice-ml is not installed")
    schema = loans.Schema(
        tuple(loans.Feature("income", "integer", low=0, high=90) if f.name == "income" else f for f in loans.SCHEMA)
    )
    task = loans.Task(whole_incomes(loans.table()), richer, schema=schema, target="yes", classes=("no", "yes"))
    rows = whole_incomes(loans.table(80, seed=5))
    rows = rows[task.refused(rows)].iloc[:30]

    data = dice_ml.Data(
        dataframe=task.train.assign(loan=(richer(task.train) >= 0.5).astype(int)),
        continuous_features=["age", "income"],
        outcome_name="loan",
    )
    package = dice_ml.Dice(data, dice_ml.Model(model=Approval(), backend="sklearn"), method="random")
    varied = ["age", "income", "degree", "job"]
    found = package.generate_counterfactuals(
        rows, total_CFs=4, desired_class=1, features_to_vary=varied
    ).cf_examples_list
    tables = [example.final_cfs_df_sparse[list(schema.names)].astype({"age": int, "income": int}) for example in found]
    place, wanted = np.repeat(np.arange(len(rows)), [len(t) for t in tables]), np.full(len(rows), "yes", dtype=object)
    table = pd.concat(tables, ignore_index=True)
    theirs = Explanation.of(task, rows, table, place, method="dice-ml", wanted=wanted)

    ours = DiCERandom().fit(task).explain(rows, k=4)
    assert theirs.checks.valid.mean() == ours.checks.valid.mean() == 1.0
    for measure in ("cost", "changes"):
        a, b = (getattr(e.checks, measure).astype(float) for e in (theirs, ours))
        noise = np.hypot(a.std() / np.sqrt(len(a)), b.std() / np.sqrt(len(b)))
        assert abs(a.mean() - b.mean()) < 4 * noise, (measure, a.mean(), b.mean(), noise)
