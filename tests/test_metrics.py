"""Every metric by hand on a table small enough to follow, and against other ways to compute it."""

from __future__ import annotations

import gc
import itertools
import json
import math
import weakref
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import LocalOutlierFactor

from effort import examples
from fcxplain.errors import DataError
from fcxplain.explanation import Effort, Explanation, Status, check
from fcxplain.metrics import CONVENTIONS, METRICS, Figure, absent, evaluate
from fcxplain.metrics.optimum import optimality_gap
from fcxplain.schema import Feature, Schema
from fcxplain.task import Task

# A busy machine is slow, not wrong.
few = examples(15)

PEOPLE = Schema(
    (
        Feature("age", "integer", low=20, high=60),
        Feature("hours", "integer", low=20, high=60),
        Feature("job", "categorical", levels=("clerk", "cook", "smith")),
        Feature("sex", "categorical", levels=("f", "m"), mutable=False),
    )
)
NAMES = list(PEOPLE.names)
# Age is 30 or 40, so its median is 35 and its MAD 5. Hours are 40 in 36 rows and 48 in 12, so their MAD is 0 and
# their standard deviation 8 * sqrt(0.75 * 0.25) = sqrt(12). Clerk and f occur together in 21 rows, cook and f in
# 20, smith and m in 7.
TRAIN = pd.DataFrame(
    {
        "age": [30, 40] * 24,
        "hours": [40, 40, 40, 48] * 12,
        "job": ["clerk"] * 21 + ["cook"] * 20 + ["smith"] * 7,
        "sex": ["f"] * 41 + ["m"] * 7,
    }
)


def likely(yes: pd.Series) -> np.ndarray:
    return np.where(yes, 0.9, 0.1)


def long_hours_or_smith(rows: pd.DataFrame) -> np.ndarray:
    return likely((rows["hours"] >= 45) | (rows["job"] == "smith"))


def people(rules: str = "age' >= age", **more) -> Task:
    return Task(TRAIN, long_hours_or_smith, schema=PEOPLE, rules=rules, target="yes", classes=("no", "yes"), **more)


@pytest.fixture(scope="module")
def task() -> Task:
    return people()


def table(*lines: tuple, columns: list[str] = NAMES) -> pd.DataFrame:
    return pd.DataFrame(list(lines), columns=columns)


def answered(task: Task, rows: pd.DataFrame, answers: pd.DataFrame, place: list[int], **more) -> Explanation:
    wanted = np.full(len(rows), task.target, dtype=object)
    return Explanation.of(task, rows, answers, np.array(place, dtype=np.int64), method="test", wanted=wanted, **more)


ROWS = table(
    (30, 40, "clerk", "f"),
    (40, 40, "cook", "f"),
    (30, 40, "clerk", "f"),
    (30, 40, "clerk", "f"),
    (30, 40, "smith", "m"),
    (30, 40, "clerk", "f"),
)
# In order: a success; valid, but age falls; keeps the rule, but not valid; valid, but another sex. Row 3 is
# proved impossible, row 4 has the class wanted as it is. So five rows are asked and four have an answer.
ANSWERS = table((35, 45, "clerk", "f"), (30, 40, "smith", "f"), (30, 40, "cook", "f"), (30, 40, "smith", "m"))


def six_rows(task: Task, **more) -> Explanation:
    without = np.where(np.arange(6) == 3, "impossible", np.where(np.arange(6) == 4, "already", "not_found"))
    effort = Effort(seconds=0.5, cpu_seconds=0.5, threads=2, calls=40)
    return answered(task, ROWS, ANSWERS, [0, 1, 2, 5], without=without, effort=effort, **more)


def empty(task: Task, rows: pd.DataFrame = ROWS, **more) -> Explanation:
    return answered(task, rows, ANSWERS.iloc[:0], [], **more)


HOURS_UNIT = math.sqrt(12)
BY_HAND = {
    "validity": 60.0,  # 3 of 5
    "feasibility": 200 / 3,  # of the 3 valid ones, all but the one that grows younger
    "success": 20.0,  # 1 of 5
    "success_possible": 25.0,  # 1 of 4
    "continuous_proximity": -(5 / 5 + 5 / HOURS_UNIT + 10 / 5 + 0 + 0) / 4,
    "categorical_proximity": -(0 + 1 + 1 + 2) / 4,
    "sparsity": (2 + 2 + 1 + 2) / 4,
    "lof": 1.0,  # of two points each is as dense as the other
    "outliers": 0.0,
    "lof_raw": 1.0,
    "supported": 25.0,  # clerk and f 21 times, smith and f never, cook and f 20 times, smith and m 7 times
    "diversity": 100.0,
    # Row 0 alone has a success, for 2 + 5 / 5 + 5 / sqrt(12); to become a smith costs 1.
    "optimality_gap": 100 * (2 + 1 + 5 / HOURS_UNIT - 1) / 1,
    "rows_per_second": 10.0,  # 5 in half a second
    "calls_per_row": 8.0,  # 40 for 5
}


@pytest.mark.parametrize("name", BY_HAND)
def test_metric_is_what_the_hand_computes(task, name):
    assert METRICS[name](six_rows(task), task) == pytest.approx(BY_HAND[name], abs=1e-9)


def test_every_metric_of_the_design_is_in_the_registry():
    shares = {"validity", "validity_soft", "feasibility", "success", "success_possible", "supported"}
    distances = {"continuous_proximity", "categorical_proximity", "sparsity", "diversity", "diversity_pairs"}
    densities = {"lof", "outliers", "lof_raw", "lof_to_data", "outliers_to_data"}
    assert set(METRICS) == shares | distances | densities | {"optimality_gap", "rows_per_second", "calls_per_row"}
    assert all(metric.__doc__ for metric in METRICS.values())


def test_soft_validity_counts_raw_outputs_of_rows_asked(task):
    answer = six_rows(task, soft_valid=np.array([True, True, True, False]))
    assert METRICS["validity_soft"](answer, task) == pytest.approx(60)
    missing = METRICS["validity_soft"](six_rows(task), task)
    assert math.isnan(missing)
    assert missing.reason == "the method has no raw outputs, only legal rows"


def soft_rows(task: Task) -> Explanation:
    """The six rows with raw outputs. In columns: age of 30 to 40 and hours of 40 to 48 as shares, three jobs, two sexes.

    The first is 30.4 years old and works 40.8 hours, the second 39.8 and 40, the third 30 and 40, the last 30.1 and 44.
    """
    raw = np.array(
        [
            [0.04, 0.1, 0.5, 0.4, 0.1, 1.0, 0.0],
            [0.98, 0.0, 0.3, 0.3, 0.4, 1.0, 0.0],
            [0.00, 0.0, 0.2, 0.5, 0.3, 1.0, 0.0],
            [0.01, 0.5, 0.5, 0.4, 0.1, 1.0, 0.0],
        ]
    )
    return six_rows(task, raw=raw, soft_valid=np.array([True, True, False, True]))


BY_THE_AUTHORS = {
    "validity": 60.0,  # three raw outputs of five rows
    "feasibility": 200 / 3,  # of these three, all but the second, which is 0.2 years younger than 40
    "continuous_proximity": -(0.4 + 0.2 + 0 + 0.1) / 5 / 4,  # hours have a MAD of 0 and do not count
    "categorical_proximity": -(0 + 1 + 1 + 0) / 4,  # the cook is a smith now, and the second clerk a cook
    "sparsity": (2 + 2 + 1 + 2) / 4,  # both numbers of the first and last differ, if by little
    "lof": 1.0,  # of two points each is as dense as the other
    "outliers": 0.0,
}


@pytest.mark.parametrize("name", BY_THE_AUTHORS)
def test_the_authors_convention_is_what_the_hand_computes(task, name):
    found = evaluate(soft_rows(task), metrics=name, convention="authors")
    assert found.values[name] == pytest.approx(BY_THE_AUTHORS[name], abs=1e-9)


def test_a_number_that_a_raw_output_leaves_alone_has_not_changed():
    fine = Schema((Feature("gpa", "continuous", low=0, high=4), *PEOPLE.features[2:]))
    train = pd.DataFrame({"gpa": [0.1, 2.7, 3.3] * 16, "job": TRAIN["job"], "sex": TRAIN["sex"]})
    own = Task(
        train,
        lambda rows: likely(rows["job"] == "smith"),
        schema=fine,
        rules="gpa' >= gpa",
        target="yes",
        classes=("no", "yes"),
    )
    rows = train.iloc[:3].assign(job="clerk")
    raw = own.encoder.encode(rows).double().numpy()
    answer = answered(own, rows, rows.assign(job="smith"), [0, 1, 2], raw=raw, soft_valid=np.ones(3, dtype=bool))
    found = evaluate(answer, convention="authors", metrics=["feasibility", "sparsity", "continuous_proximity"])
    assert list(found.values.values()) == [100.0, 0.0, 0.0]


def test_the_authors_lof_is_scikit_learns_on_soft_columns_and_an_outlier_is_where_it_says_so(task):
    rng = np.random.default_rng(0)
    raw = np.hstack([rng.random((40, 2)), rng.dirichlet(np.ones(3), 40), np.tile([1.0, 0.0], (40, 1))])
    raw[0, :2] = 9.0
    rows = pd.concat([ROWS.iloc[:1]] * 40, ignore_index=True)
    answer = answered(task, rows, rows, list(range(40)), raw=raw, soft_valid=np.ones(40, dtype=bool))
    found = evaluate(answer, metrics=["lof", "outliers"], convention="authors").values
    model = LocalOutlierFactor(n_neighbors=20)
    assert found["outliers"] == (model.fit_predict(raw) == -1).sum() >= 1
    assert found["lof"] == pytest.approx(-model.negative_outlier_factor_.mean())


def test_a_method_of_legal_rows_is_counted_by_these_under_the_authors_convention(task):
    result = evaluate(six_rows(task), convention="authors")
    assert result.values["validity"] == pytest.approx(BY_HAND["validity"])
    assert result.values["sparsity"] == pytest.approx(BY_HAND["sparsity"])
    assert result.values["success"] == pytest.approx(20)
    assert any("convention authors" in note for note in result.notes)
    assert set(CONVENTIONS["authors"]) <= set(METRICS)
    # Raw outputs that were not kept leave only what was counted when they were there.
    lost = evaluate(replace(soft_rows(task), raw=None), convention="authors")
    assert lost.values["validity"] == 60
    assert set(lost.reasons) >= {"feasibility", "sparsity", "lof"}


def test_answers_with_illegal_values_count_as_failures_and_spoil_no_mean(task):
    answers = table(
        (35, 45, "clerk", "f"),  # a success
        (99, 45, "clerk", "f"),  # too old: 69 years older
        (np.nan, 45, "clerk", "f"),  # no age
        (30, 40, "pilot", "f"),  # no such job
    )
    answer = answered(task, ROWS.iloc[[0, 2, 3, 5]], answers, [0, 1, 2, 3])
    result = evaluate(answer)
    assert result.values["validity"] == result.values["success"] == 25
    assert result.values["feasibility"] == 100
    hours = 5 / HOURS_UNIT
    assert result.values["continuous_proximity"] == pytest.approx(-((1 + hours) + (69 / 5 + hours) + 0) / 3)
    assert "continuous_proximity: left out 1 of 4 answers, with a missing or infinite number" in result.notes
    assert result.values["categorical_proximity"] == -0.25
    assert result.values["sparsity"] == (2 + 2 + 2 + 1) / 4
    assert result.values["supported"] == 75
    assert result.values["diversity"] == 100
    assert "LOF to data: left out 3 of 4 answers, outside the domain" in result.notes
    assert result.values["lof"] == 1


def test_without_answers_shares_are_zero_and_means_are_absent_with_a_reason(task):
    result = evaluate(empty(task))
    there = {name: value for name, value in result.values.items() if not math.isnan(value)}
    assert there == {"validity": 0, "success": 0, "success_possible": 0}
    assert set(result.reasons) == set(METRICS) - set(there)
    assert all(result.reasons.values())
    assert result.reasons["sparsity"] == "no row to explain has an answer"
    assert (result.asked, result.answers) == (6, 0)


@pytest.mark.parametrize("rows", [ROWS.iloc[:0], ROWS])
def test_without_rows_asked_everything_is_absent(task, rows):
    answer = empty(task, rows, without=np.full(len(rows), Status.ALREADY), effort=Effort(1.0, calls=5))
    result = evaluate(answer)
    assert set(result.reasons) == set(METRICS)
    assert result.reasons["validity"] == result.reasons["calls_per_row"] == "no row needed an answer"
    assert result.asked == 0


def test_rows_all_impossible_leave_nothing_that_was_possible(task):
    answer = empty(task, ROWS.iloc[:2], without=np.full(2, Status.IMPOSSIBLE))
    assert METRICS["success"](answer, task) == 0
    assert METRICS["success_possible"](answer, task).reason == "every row to explain is proved impossible"


def test_an_answer_to_a_row_that_was_not_asked_counts_for_nothing(task):
    answer = six_rows(task)
    status = answer.row_status.astype(object)
    status[0] = "already"
    answer = replace(answer, row_status=status.astype(str))
    assert METRICS["success"](answer, task) == 0
    assert METRICS["validity"](answer, task) == 50
    assert METRICS["sparsity"](answer, task) == pytest.approx(5 / 3)
    assert evaluate(answer).answers == 3


def test_one_answer_has_every_metric_but_those_of_pairs(task):
    answer = answered(task, ROWS.iloc[:1], ANSWERS.iloc[:1], [0], effort=Effort(0.5, calls=3))
    result = evaluate(answer)
    assert set(result.reasons) == {"validity_soft", "diversity_pairs"}
    assert result.values["lof"] == result.values["lof_raw"] == 1
    assert result.values["diversity"] == 100


def test_a_row_without_a_change_has_proximity_zero_and_not_minus_zero(task):
    answer = answered(task, ROWS.iloc[:1], ROWS.iloc[:1], [0])
    for name in ("continuous_proximity", "categorical_proximity", "sparsity"):
        assert str(float(METRICS[name](answer, task))) == "0.0"


def three_each(task: Task) -> Explanation:
    rows = ROWS.iloc[[0, 1]]
    answers = table(
        (30, 40, "smith", "f"),  # row 0, rank 1
        (45, 40, "smith", "f"),  # row 1, rank 1
        (30, 45, "clerk", "f"),  # row 0, rank 2
        (35, 45, "clerk", "f"),  # row 0, rank 3
        (45, 40, "smith", "f"),  # row 1, rank 2
    )
    return answered(task, rows, answers, [0, 1, 0, 0, 1])


def test_with_several_answers_the_first_of_each_row_counts(task):
    answer = three_each(task)
    assert METRICS["validity"](answer, task) == 100
    assert METRICS["sparsity"](answer, task) == (1 + 2) / 2
    assert METRICS["continuous_proximity"](answer, task) == -(0 + 1) / 2
    assert evaluate(answer).answers == 5


def test_diversity_counts_every_rank(task):
    answer = three_each(task)
    assert METRICS["diversity"](answer, task) == 80
    # Row 0: 2, 3 and 1 of 4 features differ, so a half on average. Row 1: none of one pair.
    assert METRICS["diversity_pairs"](answer, task) == pytest.approx(100 * (0.5 + 0) / 2)


def test_answers_are_judged_under_the_rules_of_another_task(task):
    answer = six_rows(task)
    loose, strict = people(""), people("age' >= age\nhours' <= 40")
    assert METRICS["feasibility"](answer, loose) == 100
    assert METRICS["success"](answer, loose) == 40
    assert METRICS["feasibility"](answer, strict) == pytest.approx(100 / 3)
    assert math.isnan(METRICS["optimality_gap"](answer, strict))
    assert evaluate(answer, strict).rules == ("age' >= age", "hours' <= 40")


def test_a_proof_carries_over_to_more_rules_but_not_to_fewer(task):
    answer = six_rows(task)
    fewer, same = Task(TRAIN, task.classifier, schema=PEOPLE, target="yes"), people()
    more = Task(TRAIN, task.classifier, schema=PEOPLE, target="yes", rules="age' >= age\nhours' >= hours")
    assert METRICS["success_possible"](answer, fewer) == METRICS["success"](answer, fewer) == 40
    assert METRICS["success_possible"](answer, more) == 25
    assert METRICS["success_possible"](answer, same) == 20, "this is another model, as far as anyone can tell"


def test_soft_validity_of_another_model_is_noted(task):
    answer = six_rows(task, soft_valid=np.ones(4, dtype=bool))
    assert not any(n.startswith("validity_soft") for n in evaluate(answer).notes)
    other = evaluate(answer, people())
    assert "validity_soft: measured with the model that the answers were made for, not with the task's" in other.notes


def test_the_fallback_of_a_mad_of_zero_is_named(task):
    assert "hours: MAD is 0, standard deviation used" in evaluate(six_rows(task)).notes
    assert not any(note.startswith("age") for note in evaluate(six_rows(task)).notes)
    alike = TRAIN.assign(hours=40)
    other = Task(alike, long_hours_or_smith, schema=PEOPLE, target="yes", classes=("no", "yes"))
    assert "hours: MAD is 0, step used" in METRICS["continuous_proximity"](six_rows(other), other).notes


def test_speed_and_calls_that_nobody_measured_are_absent(task):
    answer = replace(six_rows(task), effort=Effort())
    assert METRICS["rows_per_second"](answer, task).reason == "the time was not measured"
    assert METRICS["calls_per_row"](answer, task).reason == "the calls were not counted"
    assert "speed: measured with 2 threads" in evaluate(six_rows(task)).notes


# Points on a line: one continuous feature, and the model answers yes to all from 0 on.
LINE = Schema((Feature("x", "continuous", low=-1000, high=1000, step=0.001),))


def line_task(train: list[float] | np.ndarray) -> Task:
    frame = pd.DataFrame({"x": [*train, -1.0]})
    return Task(frame, lambda rows: likely(rows["x"] >= 0), schema=LINE, target=1)


def on_line(task: Task, points: list[float] | np.ndarray) -> Explanation:
    rows = pd.DataFrame({"x": np.full(len(points), -1.0)})
    return answered(task, rows, pd.DataFrame({"x": points}), list(range(len(points))))


def test_lof_of_three_points_by_hand():
    # At 0, 1 and 10 with k = 2, distances to the second neighbour are 10, 9 and 10. Mean reachability is 9.5 for
    # the ends and 10 in the middle, so LOF is (9.5 / 10 + 1) / 2 = 0.975 at the ends and 10 / 9.5 in the middle.
    task = line_task([0.0, 5.0])
    assert METRICS["lof"](on_line(task, [0.0, 1.0, 10.0]), task) == pytest.approx((0.975 * 2 + 10 / 9.5) / 3)
    copies = on_line(task, [0.0, 10.0, 0.0, 1.0, 0.0])
    assert METRICS["lof"](copies, task) == pytest.approx((0.975 * 4 + 10 / 9.5) / 5), "copies share the score"


def test_lof_leaves_out_answers_that_fail():
    task = line_task([0.0, 5.0])
    answer = on_line(task, [0.0, -300.0, 1.0, 10.0, -500.0])
    assert METRICS["lof"](answer, task) == pytest.approx((0.975 * 2 + 10 / 9.5) / 3)


def test_outliers_are_counted_with_their_copies():
    task = line_task([0.0, 5.0])
    assert METRICS["outliers"](on_line(task, np.arange(25.0)), task) == 0
    answer = on_line(task, [*np.arange(25.0), 900.0, 900.0])
    assert METRICS["outliers"](answer, task) == 2


def test_an_outlier_begins_at_one_and_a_half():
    task = line_task([0.0, 5.0])
    crowd = np.arange(40.0)
    for away, expected in ((45.0, 1.488), (46.0, 1.540)):
        points = np.append(crowd, away)
        scores = -LocalOutlierFactor(20).fit(points[:, None]).negative_outlier_factor_
        assert scores.max() == pytest.approx(expected, abs=1e-3)
        assert METRICS["outliers"](on_line(task, points), task) == (expected > 1.5)


def test_lof_raw_takes_copies_for_points():
    task = line_task([0.0, 5.0])
    same = on_line(task, np.full(30, 3.0))
    assert METRICS["lof_raw"](same, task) == pytest.approx(1)
    points = np.repeat([0.0, 1.0, 3.0, 7.0, 20.0], 3)
    expected = -LocalOutlierFactor(14).fit((points[:, None] + 1) / 6).negative_outlier_factor_
    shuffled = np.random.default_rng(0).permutation(points)
    assert METRICS["lof_raw"](on_line(task, shuffled), task) == pytest.approx(expected.mean())


def test_lof_to_data_by_hand():
    # Training rows at 0, 1 and 10 as above (and the copies that are no points of their own). From 4 the two nearest
    # are 1 and 0, at reachability max(9, 3) and max(10, 4): LOF is (1 / 10 + 1 / 9.5) / 2 * 9.5 = 0.975.
    frame = pd.DataFrame({"x": [0.0, 1.0, 10.0, 10.0, 0.0]})
    task = Task(frame, lambda rows: likely(rows["x"] >= 0), schema=LINE, target=1)
    assert METRICS["lof_to_data"](on_line(task, [4.0]), task) == pytest.approx(0.975)
    # From 100: 10 and 1, at 90 and 99: (1 / 9.5 + 1 / 10) / 2 * 94.5 = 9.698.
    far = (1 / 9.5 + 1 / 10) / 2 * 94.5
    answer = on_line(task, [4.0, 100.0, 4.0, 4.0])
    assert METRICS["lof_to_data"](answer, task) == pytest.approx((3 * 0.975 + far) / 4)
    assert METRICS["outliers_to_data"](answer, task) == 25


def test_lof_to_data_needs_two_different_training_rows():
    task = Task(pd.DataFrame({"x": [1.0, 1.0]}), lambda rows: likely(rows["x"] > 0), schema=LINE, target=1)
    assert METRICS["lof_to_data"](on_line(task, [4.0]), task).reason == "the training rows are all equal"
    assert METRICS["supported"](on_line(task, [4.0]), task).reason == "the table has no categories"
    assert METRICS["categorical_proximity"](on_line(task, [4.0]), task).reason == "the table has no categories"


@few
@given(st.integers(0, 10**6), st.integers(2, 60))
def test_lof_matches_scikit_learn(seed, count):
    generator = np.random.default_rng(seed)
    schema = Schema(tuple(Feature(n, "continuous", low=0, high=1, step=1e-6) for n in "abc"))
    train, points = (pd.DataFrame(np.round(generator.random((n, 3)), 6), columns=list("abc")) for n in (80, count))
    task = Task(train, lambda rows: np.full(len(rows), 0.9), schema=schema, target=1)
    answer = answered(task, points, points, list(range(count)))
    encoded = task.encoder.encode(points).numpy().astype(float)
    expected = -LocalOutlierFactor(min(20, count - 1)).fit(encoded).negative_outlier_factor_
    assert METRICS["lof"](answer, task) == pytest.approx(expected.mean())
    assert METRICS["lof_raw"](answer, task) == pytest.approx(expected.mean())
    assert METRICS["outliers"](answer, task) == (expected > 1.5).sum()
    reference = LocalOutlierFactor(20, novelty=True).fit(task.encoder.encode(train).numpy().astype(float))
    expected = -reference.score_samples(encoded)
    assert METRICS["lof_to_data"](answer, task) == pytest.approx(expected.mean())
    assert METRICS["outliers_to_data"](answer, task) == pytest.approx(100 * (expected > 1.5).mean())


def test_more_points_than_lof_can_bear_are_sampled_and_that_is_noted():
    generator = np.random.default_rng(0)
    points = np.round(generator.normal(500, 100, 40_000).clip(0, 1000), 3)
    task = line_task(points)
    answer = on_line(task, points)
    result = evaluate(answer, metrics=["lof", "outliers", "lof_raw", "lof_to_data", "outliers_to_data"])
    distinct = len(np.unique(points))
    assert distinct > 20_000
    assert f"LOF: a sample of 20,000 of {distinct:,} distinct feasible answers" in result.notes
    assert "lof_raw: a sample of 20,000 of 40,000 feasible answers" in result.notes
    assert f"LOF to data: a sample of 20,000 of {distinct + 1:,} distinct training rows" in result.notes
    assert f"LOF to data: a sample of 20,000 of {distinct:,} distinct answers" in result.notes
    full = -LocalOutlierFactor(20).fit(np.unique(points)[:, None] / 1000).negative_outlier_factor_
    assert result.values["lof"] == pytest.approx(full.mean(), rel=0.01)
    assert evaluate(answer.under(task), metrics=["lof"]).values["lof"] == result.values["lof"]


def test_evaluating_keeps_no_task_alive():
    task = line_task(np.arange(50.0))
    answer = on_line(task, np.arange(10.0))
    evaluate(answer)
    gone = weakref.ref(task), weakref.ref(answer)
    del task, answer
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


# A world small enough to try every row: 5 * 5 * 3 * 3 * 2 legal rows, and a model that answers at random.
SMALL = Schema(
    (
        Feature("age", "integer", low=0, high=4),
        Feature("wage", "continuous", low=0, high=1, step=0.25),
        Feature("job", "categorical", levels=("a", "b", "c")),
        Feature("tier", "ordinal", levels=("low", "mid", "high"), ranks=(0, 1, 1)),
        Feature("sex", "categorical", levels=("f", "m"), mutable=False),
    )
)
RULES = ("", "age' >= age", "tier' > tier => age' > age", "tier' == tier\njob' == job", "age' + 4 * wage' <= age + 3")


class Lottery:
    """A model without sense: a probability for each cell of the grid, drawn once; three in ten say yes."""

    def __init__(self, seed: int) -> None:
        self.table = np.random.default_rng(seed).random((5, 5, 3, 3, 2)) ** 2

    def __call__(self, rows: pd.DataFrame) -> np.ndarray:
        natural = SMALL.natural(rows)
        natural["wage"] = np.floor(natural["wage"] / 0.25 + 1e-9)
        return self.table[tuple(natural[n].astype(int) for n in SMALL.names)]


def small_table(generator: np.random.Generator, rows: int, off_grid: bool = False) -> pd.DataFrame:
    codes = np.stack([generator.integers(0, (f.top or 0) + 1, rows) for f in SMALL], axis=1)
    found = SMALL.table({f.name: f.at(codes[:, i]) for i, f in enumerate(SMALL)})
    if off_grid:
        found.loc[::2, "wage"] = (found.loc[::2, "wage"] + 0.1).clip(upper=1)
    return found


def small_world(seed: int, rules: str, *, off_grid: bool = False, answers: int = 12) -> Explanation:
    """Random answers to random rows that the model refuses; some pass and some do not."""
    generator = np.random.default_rng(seed)
    task = Task(small_table(generator, 200), Lottery(seed), schema=SMALL, rules=rules, target=1)
    rows = small_table(generator, 20 * answers, off_grid)
    rows = rows[task.refused(rows)].head(answers).reset_index(drop=True)
    after = small_table(generator, answers).assign(sex=rows["sex"])
    keep = generator.random(after.shape) < 0.5
    return answered(task, rows, after.mask(keep, rows), list(range(answers)))


def brute_force(answer: Explanation) -> float:
    """The gap by trying every row for every row, with the checks of the certificate."""
    gaps = []
    for i in np.flatnonzero(answer.checks.passed):
        now = answer.rows.iloc[[answer.place[i]]]
        choices = [
            sorted({*f.at(np.arange((f.top or 0) + 1)).tolist(), now[f.name].iloc[0]}) if f.is_number else f.levels
            for f in SMALL
        ]
        after = pd.DataFrame(list(itertools.product(*choices)), columns=list(SMALL.names))
        before = now.loc[now.index.repeat(len(after))]
        checks = check(answer.task, before, after, np.full(len(after), 1, dtype=object))
        best = checks.cost[checks.passed].min()
        if best > 0:
            gaps.append((answer.checks.cost[i] - best) / best)
    return 100 * float(np.mean(gaps)) if gaps else math.nan


@few
@given(st.integers(0, 10**6), st.sampled_from(RULES), st.booleans())
def test_optimality_gap_matches_brute_force(seed, rules, off_grid):
    answer = small_world(seed, rules, off_grid=off_grid, answers=25)
    found = METRICS["optimality_gap"](answer, answer.task)
    assert found == pytest.approx(brute_force(answer), nan_ok=True)
    assert not found < 0


def test_optimality_gap_says_which_rows_it_leaves_out():
    answer = small_world(3, "age' >= age", answers=60)
    passed, rows = int(answer.checks.passed.sum()), 60
    figure = optimality_gap(answer, answer.task, rows=5)
    assert f"optimality_gap: left out {rows - passed} of 60 rows to explain, whose answer failed" in figure.notes
    assert f"optimality_gap: a sample of 5 of {passed} rows" in figure.notes
    assert figure == optimality_gap(answer, answer.task, rows=5)
    assert figure != optimality_gap(answer, answer.task)


def test_optimality_gap_is_absent_where_the_legal_rows_are_too_many():
    answer = small_world(3, "", answers=60)
    figure = optimality_gap(answer, answer.task, limit=449)
    assert figure.reason == "450 legal rows are too many to try them all (limit 449)"
    assert not math.isnan(optimality_gap(answer, answer.task, limit=450))
    wide = Schema(
        (Feature("x", "continuous", low=0, high=1, step=1e-12), Feature("y", "continuous", low=0, high=1, step=1e-12))
    )
    rows = pd.DataFrame({"x": [0.0, 0.5], "y": [0.0, 0.5]})
    task = Task(rows, lambda r: likely(r["x"] > 0.2), schema=wide, target=1)
    answer = answered(task, rows.iloc[:1], rows.iloc[1:], [0])
    assert METRICS["optimality_gap"](answer, task).reason.startswith("1.0e+24 legal rows are too many")


def test_the_optimum_is_found_among_hundreds_of_thousands_of_rows():
    # Both medians are 49.5 and both MADs 25. From (0, 0), a sum of 150 takes two changes and 150 / 25; the answer
    # takes two changes and 198 / 25. Most of the 300,000 legal rows are cheaper than that, and break the rule.
    tops = {"x": 99, "y": 99, "z": 29}
    schema = Schema(tuple(Feature(n, "integer", low=0, high=top) for n, top in tops.items()))
    train = pd.DataFrame({"x": np.arange(100), "y": np.arange(100), "z": np.arange(100) % 30})
    task = Task(train, lambda r: likely(r["x"] + r["y"] > 50), schema=schema, rules="x' + y' >= 150", target=1)
    rows, answers = (table(line, columns=list("xyz")) for line in ((0, 0, 0), (99, 99, 0)))
    found = METRICS["optimality_gap"](answered(task, rows, answers, [0]), task)
    assert found == pytest.approx(100 * (9.92 - 8) / 8)


def test_the_cheapest_answer_has_no_gap(task):
    answer = answered(task, ROWS.iloc[:1], table((30, 40, "smith", "f")), [0])
    assert METRICS["optimality_gap"](answer, task) == 0


def test_a_row_that_needs_no_change_has_no_gap(task):
    rows = table((30, 50, "clerk", "f"), (30, 40, "clerk", "f"))
    answer = answered(task, rows, table((30, 51, "clerk", "f"), (30, 40, "smith", "f")), [0, 1])
    figure = METRICS["optimality_gap"](answer, task)
    assert figure == 0
    assert "optimality_gap: left out 1 of 2 rows, which need no change" in figure.notes


@few
@given(st.integers(0, 10**6), st.sampled_from(RULES), st.integers(0, 40))
def test_shares_and_means_match_pandas(seed, rules, count):
    answer = small_world(seed, rules, answers=count)
    task, after = answer.task, answer.answers
    before = answer.rows.reset_index(drop=True)
    found = evaluate(answer).values
    if not count:
        assert all(math.isnan(v) for v in found.values())
        return
    moved = pd.DataFrame({n: (after[n] - before[n]).abs() for n in ("age", "wage")})
    spread = task.train[["age", "wage"]].pipe(lambda t: (t - t.median()).abs().median())
    assert found["continuous_proximity"] == pytest.approx(-(moved / spread).sum(axis=1).mean())
    differ = after.astype(object).ne(before.astype(object))
    assert found["categorical_proximity"] == pytest.approx(-differ[["job", "tier", "sex"]].sum(axis=1).mean())
    assert found["sparsity"] == pytest.approx(differ.sum(axis=1).mean())
    assert found["diversity"] == pytest.approx(100 * len(after.drop_duplicates()) / count)
    valid = task.predict(after) == 1
    assert found["validity"] == pytest.approx(100 * valid.mean())
    if valid.any():
        assert found["feasibility"] == pytest.approx(100 * answer.checks.kept.all(axis=1)[valid].mean())
        assert found["success"] <= found["validity"]


@few
@given(st.integers(0, 10**6), st.integers(1, 30))
def test_supported_matches_counting_one_by_one(seed, count):
    answer = small_world(seed, "", answers=count)
    names = ["job", "tier", "sex"]
    seen = [tuple(line) for line in answer.task.train[names].to_numpy()]
    often = [seen.count(tuple(line)) > 20 for line in answer.answers[names].to_numpy()]
    assert METRICS["supported"](answer, answer.task) == pytest.approx(100 * np.mean(often))


@few
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 4))
def test_pairs_match_combinations_one_by_one(seed, rows, most):
    generator = np.random.default_rng(seed)
    task = Task(small_table(generator, 50), Lottery(seed), schema=SMALL, target=1)
    place = np.repeat(np.arange(rows), generator.integers(0, most + 1, rows))
    place = generator.permutation(place)
    answer = answered(task, small_table(generator, rows), small_table(generator, len(place)), place.tolist())
    lines, means = answer.answers.to_numpy(), []
    for row in range(rows):
        pairs = list(itertools.combinations(np.flatnonzero(place == row), 2))
        if pairs:
            means.append(np.mean([np.mean(lines[a] != lines[b]) for a, b in pairs]))
    found = METRICS["diversity_pairs"](answer, task)
    assert found == pytest.approx(100 * np.mean(means) if means else math.nan, nan_ok=True)


@few
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_no_metric_depends_on_the_order_of_the_rows(seed, random):
    answer = small_world(seed, "age' >= age", answers=15)
    order = list(range(15))
    random.shuffle(order)
    other = answered(answer.task, answer.rows.iloc[order], answer.answers.iloc[order], list(range(15)))
    assert evaluate(other).values == pytest.approx(evaluate(answer).values, nan_ok=True)


def test_an_evaluation_can_be_read_by_people_and_programs(task):
    result = evaluate(six_rows(task), metrics=["validity", "validity_soft", "continuous_proximity"])
    text = str(result)
    assert text.startswith("test: 5 rows asked, 4 answers\n")
    assert "60.00" in text
    assert "absent: the method has no raw outputs, only legal rows" in text
    assert "note: hours: MAD is 0, standard deviation used" in text
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["values"] == {
        "validity": 60.0,
        "validity_soft": None,
        "continuous_proximity": result.values["continuous_proximity"],
    }
    assert data["absent"] == {"validity_soft": "the method has no raw outputs, only legal rows"}
    assert (data["asked"], data["answers"], data["rules"]) == (5, 4, ["age' >= age"])
    assert result.frame.loc["validity", "value"] == 60
    assert result.frame.loc["validity_soft", "absent"].startswith("the method")
    assert list(evaluate(six_rows(task), metrics="validity").values) == ["validity"]


def test_unknown_metrics_are_all_named_with_the_nearest(task):
    with pytest.raises(DataError) as caught:
        evaluate(six_rows(task), metrics=["validty", "lof", "beauty"], convention="author")
    assert [f.place for f in caught.value.faults] == ["metric 'validty'", "metric 'beauty'", "convention 'author'"]
    assert "Did you mean 'validity'?" in str(caught.value)
    assert "Did you mean 'authors'?" in str(caught.value)
    assert "There are 'validity', " in str(caught.value)


def test_a_figure_is_a_float_that_says_why_it_is_absent():
    figure = absent("nobody came", ["we waited"])
    assert math.isnan(figure)
    assert (figure.reason, figure.notes) == ("nobody came", ("we waited",))
    assert Figure(2.5) + 1 == 3.5
    assert Figure(2.5).reason == ""
