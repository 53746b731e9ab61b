"""Why there is no answer: the obstacles named are the ones that matter, and what is said to help is verified."""

from __future__ import annotations

import functools
import itertools
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from commands import run
from effort import examples
from fcxplain import FCx, Feature, Schema, Task, read_answers
from fcxplain.errors import DataError, RuleError
from fcxplain.explanation import Explanation, Obstacle, Relaxation, WhyNot, check
from fcxplain.explanation.page.cards import Deck
from fcxplain.explanation.reasons import Blocked, blocked
from fcxplain.explanation.wording import move_line
from fcxplain.progress import WHY_NOT
from fcxplain.proof.proof import prove
from fcxplain.rules import holds
from fcxplain.search import Search
from fcxplain.search.why_not import needed, obstacles, why_not, without
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
    assert (
        told.words
        == "Blocked by: age must not decrease. Without that, these changes would be enough: age 6 -> 3 years."
    )
    assert told.relaxation.counterfactual == {"age": 3, "hours": 2, "school": "none", "sex": "f"}
    assert told.relaxation.cost == pytest.approx(1 + 3 / task.units["age"])


def test_a_bound_gives_way_only_as_far_as_the_answer_needs():
    told = asked(a_task(lambda rows: rows["hours"] - 4.5, "age' >= age", target=1), person())
    assert told.words == (
        "Blocked by: hours per week cannot be above 4 (upper bound). "
        "Without that, these changes would be enough: hours per week 2 -> 5."
    )
    (bound,) = told.relaxation.gone
    assert (bound.kind, bound.feature, bound.side, bound.limit) == ("bound", "hours", "high", 4)


def test_a_rule_that_is_a_limit_says_so_as_data():
    told = asked(a_task(lambda rows: rows["hours"] - 2.5, "hours' <= 2\nage' >= age", target=1), person())
    assert told.words == (
        "Blocked by: hours per week must be at most 2. Without that, these changes would be enough: hours per week 2 -> 3."
    )
    (rule,) = told.relaxation.gone
    assert (rule.kind, rule.feature, rule.side, rule.limit) == ("rule", "hours", "high", 2)


def test_what_is_fixed_is_reported_to_who_asks_for_it_but_is_no_advice():
    told = asked(a_task(lambda rows: (rows["sex"] == "m") - 0.5, "age' >= age", target=1), person(), fixed=True)
    assert names(told) == [["sex"]]
    assert not told.relaxation.is_advice
    assert told.words == (
        "Blocked by: sex cannot be changed. Without that, these changes would be enough: sex f -> m. "
        "This is not advice, since sex cannot be changed. It only shows what the model's answer depends on."
    )


def test_a_feature_frozen_twice_is_one_obstacle():
    task = a_task(lambda rows: (rows["sex"] == "m") - 0.5, "sex' == sex", target=1)
    assert names(asked(task, person(), fixed=True)) == [["sex"]]


def test_a_longer_way_is_looked_for_where_the_short_one_is_no_advice():
    def score(rows: pd.DataFrame) -> pd.Series:
        return (rows["sex"] == "m") + (rows["age"] < 4) * (rows["hours"] > 2) - 0.5

    task = a_task(score, "age' >= age\nhours' <= hours", target=1)
    assert names(asked(task, person())) == [["age' >= age", "hours' <= hours"]]
    told = asked(task, person(), fixed=True)
    assert names(told) == [["sex"]]
    assert [o.name for o in told.relaxation.gone] == ["age' >= age", "hours' <= hours"]
    assert told.relaxation.is_advice
    assert told.words == (
        "Blocked by: sex cannot be changed. Without “age must not decrease” and “hours per week must not increase”, "
        "these changes would be enough: age 4 -> 3 years; hours per week 2 -> 3."
    )


def test_every_single_obstacle_that_would_do_is_named():
    def score(rows: pd.DataFrame) -> pd.Series:
        return (rows["age"] < 4) + (rows["school"] == "much") - 0.5

    told = asked(a_task(score, "age' >= age\nschool' <= school", target=1), person())
    assert names(told) == [["school' <= school"], ["age' >= age"]]
    assert told.words == (
        "Blocked, but would work without any one of these: (1) school must not increase (it would take "
        "school much); (2) age must not decrease (it would take age 3 years). "
        "Without the first, these changes would be enough: school none -> much."
    )
    assert told.relaxation.gone[0].name == "school' <= school"
    assert told.relaxation.cost == 1


def test_two_obstacles_are_named_together_where_neither_alone_helps():
    def score(rows: pd.DataFrame) -> pd.Series:
        return (rows["age"] < 4) * (rows["school"] == "much") - 0.5

    task = a_task(score, "age' >= age\nschool' <= school\nhours' >= 0", target=1)
    told = asked(task, person())
    assert names(told) == [["age' >= age", "school' <= school"]]
    assert told.words == (
        "Blocked by both of these: (1) age must not decrease; (2) school must not increase. "
        "Without both, these changes would be enough: age 4 -> 3 years; school none -> much."
    )
    assert asked(task, person(), most=1).relaxation is None


def test_where_nothing_helps_that_is_said():
    told = asked(a_task(lambda rows: np.full(len(rows), -1.0), "age' >= age", target=1), person())
    assert told.blockers == ()
    assert told.relaxation is None
    assert told.words == (
        "Nothing was found that helps: relaxing any one rule or bound, or any 2 of them together, gave no option. "
        "Features that cannot be changed were kept."
    )


def test_an_answer_that_needs_nothing_gone_is_said_to_be_one():
    """The search missed it at first; no rule is blamed for that."""
    task = a_task(lambda rows: rows["hours"] - 3.5, "age' >= age", target=1)
    told = asked(task, person())
    assert told.blockers == ()
    assert told.status == "not_found"
    assert told.words == "Nothing blocks this case. A second search found this option: hours per week 2 -> 4."


def test_each_row_is_told_for_the_class_it_wants():
    task = a_task(lambda rows: 3.5 - rows["age"], "abs(age' - age) <= 1")
    rows = pd.concat([person(age=6), person(age=2)]).set_axis([(1, "a"), (2, "b")])
    told = why_not(task, rows, np.array([1, 0]), brute)
    assert [t.relaxation.counterfactual["age"] for t in told] == [3, 4]
    assert [t.row for t in told] == [(1, "a"), (2, "b")]


def test_how_far_it_is_rises_to_the_whole():
    task, seen = a_task(lambda rows: 3.5 - rows["age"], "abs(age' - age) <= 1"), []
    rows = pd.concat([person(age=6), person(age=2)])
    plain = why_not(task, rows, np.array([1, 0]), brute)
    assert why_not(task, rows, np.array([1, 0]), brute, on_progress=seen.append) == plain
    assert {(event.stage, event.total) for event in seen} == {(WHY_NOT, 2)}
    done = [event.done for event in seen]
    assert done == sorted(done)
    assert done[0] < 1 < done[-2]
    assert done[-1] == pytest.approx(2)


def test_a_model_that_refuses_values_beyond_its_bounds_is_not_asked_about_them():
    def score(rows: pd.DataFrame) -> np.ndarray:
        if not rows["hours"].between(0, 4).all():
            raise ValueError("hours out of range")
        return np.full(len(rows), -1.0)

    told = asked(a_task(score, target=1), person())
    assert told.words.endswith(
        "The model does not accept values beyond the bounds of hours per week, so these bounds were kept."
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
        "Without the first, these changes would be enough: age 4 -> 3."
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


@examples(6)
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
        assert singles <= helping
        assert len(singles) == min(5, len(helping))
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


# What is fixed


def found_in(told: WhyNot) -> str:
    """All that a reader of a reason may see of what would help."""
    return json.dumps(
        [told.words, told.to_dict()["blockers"], told.relaxation and told.relaxation.to_dict()["changes"]]
    )


FREEZES = {
    "by the schema": "age' >= age",
    "by a rule": "age' >= age\nschool' == school",
    "by a part of a rule": "age' >= age\nschool' == school and hours' <= 4",
    "by a limit of what is fixed": "age' >= age\nschool' == school\nschool' <= some",
}


@pytest.mark.parametrize("rules", FREEZES.values(), ids=FREEZES)
def test_what_is_fixed_is_never_named_as_what_would_help(rules: str):
    fixed = "sex" if "school" not in rules else "school"

    def score(rows: pd.DataFrame) -> pd.Series:
        return rows[fixed].isin(["m", "some", "much"]) - 0.5

    task = a_task(score, rules, target=1)
    told = asked(task, person())
    assert (told.status, told.blockers, told.relaxation) == ("impossible", (), None)
    assert told.words == (
        "Nothing was found that helps: relaxing any one rule or bound, or any 2 of them together, gave no option. "
        "Features that cannot be changed were kept."
    )
    everything = asked(task, person(), fixed=True)
    assert fixed in found_in(everything)
    assert fixed not in found_in(told)


def test_a_rule_that_fixes_more_than_a_feature_is_not_taken_away_unasked():
    task = a_task(lambda rows: rows["hours"] - 3.5, "sex' == sex and hours' <= 2", target=1)
    assert asked(task, person()).blockers == ()
    assert names(asked(task, person(), fixed=True)) == [["sex' == sex and hours' <= 2"]]


def test_where_nothing_could_give_way_that_is_said():
    schema = Schema((SCHEMA["school"], SCHEMA["sex"]))
    task = a_task(lambda rows: (rows["sex"] == "m") - 0.5, schema=schema, target=1)
    assert asked(task, person()[["school", "sex"]]).words == (
        "Nothing was found that helps: there is no rule or bound to relax. Features that cannot be changed were kept."
    )


# Which sets are told


def test_at_most_five_sets_are_told_the_cheapest_first():
    schema = Schema(tuple(Feature(name, "integer", low=0, high=2) for name in "abcdefg"))
    limits = dict(zip("abcdefg", (2, 1, 2, 1, 2, 1, 2), strict=True))

    def score(rows: pd.DataFrame) -> pd.Series:
        return sum((rows[name] >= limit) * 1 for name, limit in limits.items()) - 0.5

    task = a_task(score, [f"{name}' <= {name}" for name in "abcdefg"], schema=schema, target=1)
    row = pd.DataFrame({name: [0] for name in "abcdefg"})
    told = asked(task, row, most=1)
    assert names(told) == [["b' <= b"], ["d' <= d"], ["f' <= f"], ["a' <= a"], ["c' <= c"]]
    assert told.relaxation.gone == told.blockers[0]


def test_a_rule_that_somebody_may_loosen_is_told_before_a_bound():
    def score(rows: pd.DataFrame) -> pd.Series:
        return (rows["age"] > 6) + (rows["hours"] > 3) - 0.5

    told = asked(a_task(score, "hours' <= hours", target=1), person(age=6, hours=0))
    assert [together[0].kind for together in told.blockers] == ["rule", "bound"]
    assert told.relaxation.gone == told.blockers[0]


@examples(6)
@given(st.lists(st.sampled_from(RULES), min_size=2, max_size=4, unique=True), st.integers(0, 10**6))
def test_a_set_opens_a_way_and_no_part_of_it_does(rules, seed):
    generator = np.random.default_rng(seed)
    weights = generator.normal(size=3)

    def score(rows: pd.DataFrame) -> np.ndarray:
        school = rows["school"].map({"none": 0, "some": 1, "much": 2}).to_numpy(dtype=float)
        return np.stack([rows["age"] - 4, rows["hours"] - 2, school], axis=1).astype(float) @ weights - 3

    try:
        task = a_task(score, rules, target=1)
    except RuleError:
        assume(False)
    rows = every_row(SCHEMA).iloc[generator.integers(150, size=4)]
    rows = rows[~prove(task, rows, np.ones(4, dtype=int)).possible]
    reasons = why_not(task, rows, np.ones(len(rows), dtype=int), brute)
    for i, told in enumerate(reasons):
        assert len(told.blockers) <= 5
        for together in told.blockers:
            assert len(brute(without(task, together), rows.iloc[[i]]).answers)
            for size in range(len(together)):
                for part in itertools.combinations(together, size):
                    assert not len(brute(without(task, part), rows.iloc[[i]]).answers)


# By the library's own search


CREDIT = Schema(
    (
        Feature("income", "integer", low=0, high=17),
        Feature("debt", "integer", low=0, high=17),
        Feature("region", "categorical", levels=tuple("abcdefghijklmnopqr")),
        Feature("race", "categorical", levels=("blue", "green"), mutable=False),
        Feature("gender", "categorical", levels=("f", "m"), mutable=False),
    )
)


def granted(rows: pd.DataFrame) -> np.ndarray:
    """A model that looks at what it should not: 18 is beyond what an income may be."""
    earns, owes = rows["income"] - 3 * (rows["gender"] == "f"), rows["debt"] + 9 * (rows["race"] == "green")
    return np.where((earns > 14) & (owes < 3), 0.9, 0.1)


@pytest.fixture(scope="module")
def credit() -> tuple[FCx, pd.DataFrame]:
    """An explainer for a model that can only be asked, and people whom it refuses."""
    rng = np.random.default_rng(0)
    numbers = {name: rng.integers(0, 18, 300) for name in ("income", "debt")}
    levels = {f.name: rng.choice(f.levels, 300) for f in CREDIT if f.is_category}
    table = pd.DataFrame(numbers | levels)
    rules = "income' <= income + 9\ndebt' >= debt - 9"
    task = Task(table, granted, schema=CREDIT, rules=rules, target=1)
    fcx = FCx(generator=False, oracle="model").fit(task)
    # Some who would need two rules to give way, some for whom one would do, and some whom only another race would help.
    poor, owing, blue = table["income"] < 5, table["debt"] > 11, table["race"] == "blue"
    some = [table[blue & poor & owing], table[blue & poor & ~owing], table[~blue & ~poor & ~owing]]
    return fcx, pd.concat([part.iloc[:2] for part in some])


@pytest.fixture(scope="module")
def refused(credit: tuple[FCx, pd.DataFrame]) -> Explanation:
    fcx, rows = credit
    return fcx.explain(rows, why_not=True)


@pytest.fixture(scope="module")
def everything(credit: tuple[FCx, pd.DataFrame]) -> Explanation:
    fcx, rows = credit
    return fcx.explain(rows, why_not="all")


def test_no_text_of_a_status_is_cut_where_only_the_inquiry_finds_the_proof(credit, refused, tmp_path: Path):
    fcx, rows = credit
    first = fcx.explain(rows)
    later = refused.row_status[first.row_status == "not_found"]
    assert "impossible" in later.tolist()
    refused.to_parquet(tmp_path / "a.parquet")
    assert read_answers(tmp_path / "a.parquet", fcx).row_status.tolist() == refused.row_status.tolist()


def test_statuses_and_ways_of_finding_keep_texts_of_any_length():
    made = brute(a_task(lambda rows: rows["hours"] - 3.5, target=1), person())
    short = replace(made, row_status=np.array(["verified"]), found_by=np.array(["draw"]))
    short.row_status[0], short.found_by[0] = "impossible", "a way that nobody thought of"
    assert (short.row_status.tolist(), short.found_by.tolist()) == (["impossible"], ["a way that nobody thought of"])
    task = Task(
        rows_of(SCHEMA), lambda rows: rows["age"] / 6, schema=SCHEMA, classes=("no", "perhaps"), target="perhaps"
    )
    assert task.wanted(np.array(["no"])).tolist() == ["perhaps"]


def test_reasons_on_a_credit_table_name_nothing_protected(refused, everything):
    reasons = list(refused.reasons.values())
    assert len(reasons) > 5
    assert any(reason.blockers for reason in reasons)
    assert any(not reason.blockers for reason in reasons)
    for reason in reasons:
        assert not {"race", "gender"} & set(re.findall(r"\w+", found_in(reason)))
        assert len(reason.blockers) <= 5
    assert any("race" in found_in(reason) for reason in everything.reasons.values())
    assert everything.row_status.tolist() == refused.row_status.tolist()


def test_the_page_names_nothing_protected_among_what_stands_in_the_way(refused, everything):
    panel = re.compile(r'<section class="panel broad obstacles">.*?</section>', re.DOTALL)
    (shown,) = panel.findall(refused.to_html())
    assert "income" in shown
    assert not re.search("race|gender|blue|green", shown)
    assert "race cannot be changed" in panel.findall(everything.to_html())[0]
    for card in Deck(refused):
        assert not re.search("race|gender", repr((card.reason, card.blocked, card.relaxed)))


def test_what_a_row_freezes_for_itself_is_not_named_either(credit):
    fcx, _ = credit
    one = pd.DataFrame({"income": [8], "debt": [0], "region": ["e"], "race": ["blue"], "gender": ["m"]}, index=["Ada"])
    own = {"Ada": {"freeze": "income"}}
    told = fcx.explain(one, overrides=own, why_not=True)
    assert told.row_status.tolist() == ["impossible"]
    assert "income" not in found_in(told.reasons[0])
    assert told.reasons[0].words.startswith("Nothing was found that helps")
    everything = fcx.explain(one, overrides=own, why_not="all")
    assert "Blocked by: income cannot be changed." in everything.reasons[0].words


def test_sets_that_the_search_tells_are_minimal_for_the_search(credit, refused):
    fcx, rows = credit
    search, sizes = Search(fcx.task_, seed=fcx.seed), set()
    for place, told in refused.reasons.items():
        row = rows.iloc[[place]]
        for together in told.blockers:
            sizes.add(len(together))
            then = pd.DataFrame([told.relaxation.counterfactual], index=row.index)
            broken = [needed(fcx.task_, o, row, then)[0] for o in told.relaxation.gone]
            assert all(broken)
            assert check(without(fcx.task_, told.relaxation.gone), row, then, np.array([1])).passed.all()
            for part in itertools.combinations(together, len(together) - 1):
                assert not len(search.narrowed(without(fcx.task_, part)).explain(row).answers)
    assert sizes == {1, 2}


def test_why_not_is_yes_no_or_all(credit):
    fcx, rows = credit
    with pytest.raises(DataError, match="why_not: is 'everything'"):
        fcx.explain(rows, why_not="everything")


MODEL = """
import numpy as np

class Model:
    classes_ = np.array([0, 1])
    def predict_proba(self, rows):
        chance = np.where((rows["race"] == "White") & (rows["education"] == "Doctorate"), 0.9, 0.1)
        return np.column_stack([1 - chance, chance])

model = Model()
"""


def test_the_command_with_why_not_ends_well_and_its_file_can_be_read(tmp_path: Path, monkeypatch):
    (tmp_path / "census_model.py").write_text(MODEL)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame({"age": rng.integers(20, 40, 60), "hours": rng.integers(1, 20, 60)})
    levels = {"education": ["School", "Doctorate"], "race": ["White", "Other"], "gender": ["f", "m"]}
    table = numbers.assign(**{name: rng.choice(words, 60) for name, words in levels.items()})
    table.assign(paid=rng.integers(0, 2, 60)).to_csv(tmp_path / "census.csv", index=False)
    (tmp_path / "my.rules").write_text("age' >= age\nhours' <= hours + 5\n")
    table[table["education"] == "School"].iloc[:2].to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "own.csv").write_text("row,freeze\n0,education\n1,education\n")
    model, fixed = ("--classifier", "census_model:model"), ("--immutable", "race", "--immutable", "gender")
    small = ("--label", "paid", "--target", "1", "--no-generator", "--set", "oracle=model", *fixed)
    fitted = run(*("fit", "--data", "census.csv", "--rules", "my.rules", *model, *small, "--out", "m"), folder=tmp_path)
    assert fitted.code == 0, fitted.err
    asked = ("explain", "m", "rows.csv", "--overrides", "own.csv", *model)
    done = run(*asked, "--why-not", "--html", "report.html", "--out", "answers.parquet", folder=tmp_path)
    assert done.code == 0, done.err
    assert "2 impossible" in done.words
    assert not re.search("education|race|gender", done.out.split("2 rows, 0 answers")[0])
    checked = run("verify", "m", "rows.csv", "answers.parquet", *model, folder=tmp_path)
    assert checked.code == 0, checked.err
    everything = run(*asked, "--why-not-all", folder=tmp_path)
    assert "education cannot be changed" in everything.words
