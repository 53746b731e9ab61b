"""Why there is no answer: the obstacles named are the ones that matter, and what is said to help is verified."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import nn

from fcxplain import Feature, Schema, Task
from fcxplain.errors import RuleError
from fcxplain.explanation import Explanation, Obstacle, Relaxation, WhyNot
from fcxplain.explanation.amounts import move_line
from fcxplain.explanation.blocked import Blocked, blocked
from fcxplain.rules import holds
from fcxplain.search.obstacles import obstacles, without
from fcxplain.search.prove import prove
from fcxplain.search.whynot import why_not
from rule_texts import every_row

pytestmark = pytest.mark.filterwarnings("ignore::fcxplain.errors.FcxWarning")

SCHEMA = Schema(
    (
        Feature("age", "integer", low=2, high=6, unit="years"),
        Feature("hours", "integer", low=0, high=4, label="hours per week"),
        Feature("school", "ordinal", levels=("none", "some", "much")),
        Feature("sex", "categorical", levels=("f", "m"), mutable=False),
    )
)


rows_of = functools.lru_cache(every_row)


def a_task(score: Callable[[pd.DataFrame], np.ndarray], rules=(), schema: Schema = SCHEMA, **more) -> Task:
    """A model that says 1 where the score is above 0."""
    return Task(
        rows_of(schema), lambda rows: (np.asarray(score(rows)) > 0) * 0.8 + 0.1, schema=schema, rules=rules, **more
    )


def brute(task: Task, rows: pd.DataFrame, depth: int = 3) -> Explanation:
    """The cheapest counterfactual of each row, if there is any, by trying every legal row."""
    table = rows_of(task.schema)
    wanted = task.wanted(task.predict(rows))
    table = table[np.isin(task.predict(table), wanted)].reset_index(drop=True)
    classes = task.predict(table)
    found, place = [], []
    for i in range(len(rows)):
        row = rows.iloc[np.full(len(table), i)].reset_index(drop=True)
        legal = holds(task.rules, row, table) & (classes == wanted[i])
        for name in task.schema.immutable:
            legal &= (table[name] == row[name]).to_numpy()
        cost = sum(
            (table[f.name] != row[f.name])
            + (abs(table[f.name] - row[f.name]) / task.units[f.name] if f.is_number else 0)
            for f in task.schema
        )
        if legal.any():
            found.append(table.iloc[[int(cost[legal].idxmin())]])
            place.append(i)
    answers = pd.concat(found) if found else table.iloc[:0]
    return Explanation.of(task, rows, answers, np.array(place, dtype=np.int64), method="brute", wanted=wanted)


def person(age: int = 4, hours: int = 2, school: str = "none", sex: str = "f") -> pd.DataFrame:
    return pd.DataFrame({"age": [age], "hours": [hours], "school": [school], "sex": [sex]}, index=["Ada"])


def asked(task: Task, rows: pd.DataFrame, **more) -> WhyNot:
    return why_not(task, rows, np.ones(len(rows), dtype=int), brute, **more)[0]


def names(told: WhyNot) -> list[list[str]]:
    return [[o.name for o in together] for together in told.blockers]


def test_a_rule_in_the_way_is_named_in_words_and_as_data():
    task = a_task(lambda rows: 3.5 - rows["age"], "age' >= age", target=1)
    told = asked(task, person(age=6))
    assert told.row == "Ada"
    assert told.status == "impossible"
    assert names(told) == [["age' >= age"]]
    assert told.words == "Blocked by: age must not decrease. Without that, the way would be: age 6 -> 3 years."
    assert told.relaxation.counterfactual == {"age": 3, "hours": 2, "school": "none", "sex": "f"}
    assert told.relaxation.cost == pytest.approx(1 + 3 / task.units["age"])


def test_a_bound_gives_way_only_as_far_as_the_answer_needs():
    told = asked(a_task(lambda rows: rows["hours"] - 4.5, "age' >= age", target=1), person())
    assert told.words == (
        "Blocked by: hours per week cannot be above 4 (upper bound). "
        "Without that, the way would be: hours per week 2 -> 5."
    )
    (bound,) = told.relaxation.gone
    assert (bound.kind, bound.feature, bound.side, bound.limit) == ("bound", "hours", "high", 4)


def test_a_rule_that_is_a_limit_says_so_as_data():
    told = asked(a_task(lambda rows: rows["hours"] - 2.5, "hours' <= 2\nage' >= age", target=1), person())
    assert told.words == (
        "Blocked by: hours per week must be at most 2. Without that, the way would be: hours per week 2 -> 3."
    )
    (rule,) = told.relaxation.gone
    assert (rule.kind, rule.feature, rule.side, rule.limit) == ("rule", "hours", "high", 2)


def test_what_is_fixed_is_reported_but_is_no_advice():
    told = asked(a_task(lambda rows: (rows["sex"] == "m") - 0.5, "age' >= age", target=1), person())
    assert names(told) == [["sex"]]
    assert not told.relaxation.is_advice
    assert told.words == (
        "Blocked by: sex cannot be changed. Without that, the way would be: sex f -> m. "
        "That is no advice, since sex cannot be changed; it only shows what the model's answer hangs on."
    )


def test_a_feature_frozen_twice_is_one_obstacle():
    task = a_task(lambda rows: (rows["sex"] == "m") - 0.5, "sex' == sex", target=1)
    assert names(asked(task, person())) == [["sex"]]


def test_a_longer_way_is_looked_for_where_the_short_one_is_no_advice():
    def score(rows: pd.DataFrame) -> pd.Series:
        return (rows["sex"] == "m") + (rows["age"] < 4) * (rows["hours"] > 2) - 0.5

    told = asked(a_task(score, "age' >= age\nhours' <= hours", target=1), person())
    assert names(told) == [["sex"]]
    assert [o.name for o in told.relaxation.gone] == ["age' >= age", "hours' <= hours"]
    assert told.relaxation.is_advice
    assert told.words == (
        "Blocked by: sex cannot be changed. Without “age must not decrease” and “hours per week must not increase”, "
        "the way would be: age 4 -> 3 years; hours per week 2 -> 3."
    )


def test_every_single_obstacle_that_would_do_is_named():
    def score(rows: pd.DataFrame) -> pd.Series:
        return (rows["age"] < 4) + (rows["school"] == "much") - 0.5

    told = asked(a_task(score, "age' >= age\nschool' == school", target=1), person())
    assert sorted(names(told)) == [["age' >= age"], ["school' == school"]]
    assert told.words == (
        "Blocked, but would work without any one of these: (1) school must not change; (2) age must not decrease. "
        "In the first case, the way would be: school none -> much."
    )
    assert told.relaxation.gone[0].name == "school' == school"
    assert told.relaxation.cost == 1


def test_two_obstacles_are_named_together_where_neither_alone_helps():
    def score(rows: pd.DataFrame) -> pd.Series:
        return (rows["age"] < 4) * (rows["school"] == "much") - 0.5

    task = a_task(score, "age' >= age\nschool' == school\nhours' >= 0", target=1)
    told = asked(task, person())
    assert names(told) == [["age' >= age", "school' == school"]]
    assert told.words == (
        "Blocked by both of these: (1) age must not decrease; (2) school must not change. "
        "Without both, the way would be: age 4 -> 3 years; school none -> much."
    )
    assert asked(task, person(), most=1).relaxation is None


def test_where_nothing_helps_that_is_said():
    told = asked(a_task(lambda rows: np.full(len(rows), -1.0), "age' >= age", target=1), person())
    assert told.blockers == ()
    assert told.relaxation is None
    assert told.words.startswith("Nothing that was tried helps")


def test_an_answer_that_needs_nothing_gone_is_said_to_be_one():
    """The search missed it at first; no rule is blamed for that."""
    task = a_task(lambda rows: rows["hours"] - 3.5, "age' >= age", target=1)
    told = asked(task, person())
    assert told.blockers == ()
    assert told.status == "not_found"
    assert told.words == "Nothing stands in the way: a second look found an answer, hours per week 2 -> 4."


def test_each_row_is_told_for_the_class_it_wants():
    task = a_task(lambda rows: 3.5 - rows["age"], "age' == age")
    rows = pd.concat([person(age=6), person(age=2)]).set_axis([(1, "a"), (2, "b")])
    told = why_not(task, rows, np.array([1, 0]), brute)
    assert [t.relaxation.counterfactual["age"] for t in told] == [3, 4]
    assert [t.row for t in told] == [(1, "a"), (2, "b")]


def test_how_far_it_is_rises_to_the_whole():
    task, seen = a_task(lambda rows: 3.5 - rows["age"], "age' == age"), []
    rows = pd.concat([person(age=6), person(age=2)])
    plain = why_not(task, rows, np.array([1, 0]), brute)
    assert why_not(task, rows, np.array([1, 0]), brute, on_share=seen.append) == plain
    assert seen == sorted(seen)
    assert seen[0] < 0.5 < seen[-2]
    assert seen[-1] == pytest.approx(1.0)


def test_a_model_that_refuses_values_beyond_its_bounds_is_not_asked_about_them():
    def score(rows: pd.DataFrame) -> np.ndarray:
        if not rows["hours"].between(0, 4).all():
            raise ValueError("hours out of range")
        return np.full(len(rows), -1.0)

    told = asked(a_task(score, target=1), person())
    assert told.words.endswith(
        "Beyond the bounds of hours per week the model gives no answer, so these were left alone."
    )


def test_a_reason_is_plain_data():
    told = asked(a_task(lambda rows: rows["hours"] - 4.5, target=1), person())
    read = json.loads(json.dumps(told.to_dict()))
    assert read["relaxation"]["changes"] == [
        {"feature": "hours", "now": 2, "then": 5, "title": "hours per week", "unit": ""}
    ]
    assert read["blockers"][0][0]["can_give_way"] is True


def reason(status: str, *sets: tuple[Obstacle, ...]) -> Blocked:
    said = blocked(WhyNot("Ada", status, sets, Relaxation(sets[0], {}, (), 1.0, 0.6), ""), SCHEMA)
    assert said is not None
    return said


def test_what_is_not_proved_to_block_is_only_what_it_would_work_without():
    a, b, c, d = (Obstacle("rule", name, name) for name in "abcd")
    titles = {
        ("Blocked by:", "Would work without:"): [(a,)],
        ("Blocked by both of these:", "Would work without both of these:"): [(a, b)],
        ("Blocked by all of these:", "Would work without all of these:"): [(a, b, c)],
        ("Blocked, but would work without any one of these:", "Would work without any one of these:"): [(a,), (b,)],
        ("Blocked, but would work without any one of these pairs:", "Would work without any one of these pairs:"): [
            (a, b), (c, d),
        ],
    }  # fmt: skip
    for told, sets in titles.items():
        assert (reason("impossible", *sets).title, reason("not_found", *sets).title) == told


def test_what_every_set_shares_is_said_once():
    a, b, c = (Obstacle("rule", name, f"{name} must not change") for name in "abc")
    said = reason("not_found", (a, b), (a, c))
    assert said.sentences("age 4 -> 3") == (
        "Would work without “a must not change” and any one of these: (1) b must not change; (2) c must not change. "
        "In the first case, the way would be: age 4 -> 3."
    )


@pytest.mark.parametrize(
    ("feature", "now", "then", "words"),
    [
        (Feature("pay", "continuous", low=0, high=9e6, decimals=2, unit="€"), 1053.53, 2000.0, "pay 1,053.53 -> 2,000.00 €"),
        (Feature("years_employed", "integer", low=0, high=40, unit="years"), 2.0, 13, "years employed 2 -> 13"),
        (Feature("age", "integer", low=0, high=99, unit="years"), 2, 1, "age 2 -> 1 year"),
        (Feature("months", "integer", low=-6, high=72, unit="months"), -1, 72, "months -1 -> 72"),
        (Feature("limit", "integer", low=1000, high=2000, unit="€"), 1000, 1500, "limit 1,000 -> 1,500 €"),
        (Feature("built", "integer", low=1900, high=2025), 1994, 2001, "built 1994 -> 2001"),
        (SCHEMA["school"], "none", "much", "school none -> much"),
    ],
)  # fmt: skip
def test_values_in_reasons_are_written_as_on_cards(feature, now, then, words):
    assert move_line(feature, now, then) == words


@pytest.mark.parametrize("name", ["months", "age"])
def test_bounds_are_worded_alike_for_names_of_one_thing_and_of_many(name):
    schema = Schema((Feature(name, "integer", low=10, high=1200, unit="months"),))
    task = Task(pd.DataFrame({name: [10, 1200]}), lambda rows: rows[name].to_numpy() / 1200, schema=schema, target=1)
    unit = "" if name == "months" else " months"
    assert [o.words for o in obstacles(task)] == [
        f"{name} cannot be below 10{unit} (lower bound)",
        f"{name} cannot be above 1,200{unit} (upper bound)",
    ]


def test_no_rows_are_no_trouble():
    task = a_task(lambda rows: rows["hours"] - 4.5, target=1)
    assert why_not(task, person().iloc[:0], np.array([], dtype=int), brute) == []


def test_what_was_never_negative_does_not_become_so():
    task = a_task(lambda rows: rows["age"] - 3, target=1)
    assert not [o for o in obstacles(task) if o.kind == "bound" and (o.name, o.side) == ("hours", "low")]
    low = next(o for o in obstacles(task) if (o.name, o.side) == ("age", "low"))
    looser = without(task, [low])
    assert (looser.schema["age"].low, looser.schema["age"].high) == (0, 6)


RULES = [
    "age' >= age",
    "age' <= 5",
    "hours' <= hours",
    "school' > school => age' > age",
    "school' == school",
    "hours' + age' <= 7",
]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(RULES), min_size=1, max_size=3, unique=True), st.integers(0, 10**6))
def test_single_obstacles_are_those_whose_removal_helps_and_answers_need_them_gone(rules, seed):
    generator = np.random.default_rng(seed)
    weights = generator.normal(size=4)

    def score(rows: pd.DataFrame) -> np.ndarray:
        school = rows["school"].map({"none": 0, "some": 1, "much": 2}).to_numpy(dtype=float)
        return (
            np.stack([rows["age"] - 4, rows["hours"] - 2, school, rows["sex"] == "m"], axis=1).astype(float) @ weights
            - 3
        )

    try:
        task = a_task(score, rules, target=1)
    except RuleError:
        assume(False)
    rows = every_row(SCHEMA).iloc[generator.integers(150, size=3)]
    rows = rows[~prove(task, rows, np.ones(3, dtype=int)).possible]
    for told, i in zip(why_not(task, rows, np.ones(len(rows), dtype=int), brute, most=1), itertools.count()):
        row = rows.iloc[[i]]
        helping = {o for o in obstacles(task) if len(brute(without(task, [o]), row).answers)}
        singles = {together[0] for together in told.blockers if len(together) == 1}
        assert singles == helping
        if told.relaxation is not None:
            then = pd.DataFrame([told.relaxation.counterfactual])
            broken = {r.text for r in task.rules if not holds(r, row.reset_index(drop=True), then)[0]}
            assert broken == {o.name for o in told.relaxation.gone if o.kind == "rule"}
            assert task.predict(then)[0] == 1


def test_a_network_is_asked_beyond_its_bounds_through_a_wider_encoder():
    layer = nn.Linear(7, 1)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[0, 1] = 4.0
        layer.bias.fill_(-4.9)
    task = Task(every_row(SCHEMA), layer, schema=SCHEMA, target=1)
    told = asked(task, person())
    assert told.status == "impossible"
    assert names(told) == [["hours"]]
    assert told.relaxation.counterfactual["hours"] == 5
