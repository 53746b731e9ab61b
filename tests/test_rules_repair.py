"""The nearest legal row (rules.repair, boxes, program), and what the linter finds (rules.conflict)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fcxplain.errors import DataError
from fcxplain.region.conflict import contradiction, lint
from fcxplain.region.repair import Repairer, repair
from fcxplain.rules import holds, parse_rules
from fcxplain.schema import Feature, Schema

SCHEMA = Schema(
    (
        Feature("age", "integer", low=17, high=90),
        Feature("loan", "continuous", low=0, high=100, step=0.5),
        Feature("income", "continuous", low=0, high=100, step=0.1),
        Feature("education", "ordinal", levels=("low", "middle", "also middle", "high"), ranks=(0, 1, 1, 2)),
        Feature("job", "categorical", levels=("a", "b", "c")),
        Feature("race", "categorical", levels=("x", "y"), mutable=False),
    )
)
ROW = {"age": 40, "loan": 50.0, "income": 20.0, "education": "middle", "job": "a", "race": "x"}


def table(**changes: object) -> pd.DataFrame:
    return pd.DataFrame([{**ROW, **changes}])


def repaired(rules: str, before: pd.DataFrame | None = None, schema: Schema = SCHEMA, **wanted: object) -> dict:
    before = table() if before is None else before
    found = repair(parse_rules(rules, schema), before, table(**wanted), schema)
    return found.iloc[0].to_dict()


def test_a_row_that_keeps_the_rules_is_left_as_it_is():
    assert repaired("age' >= age", age=50) == {**ROW, "age": 50}


def test_numbers_are_clamped_and_strict_means_one_step():
    assert repaired("age' >= age", age=30)["age"] == 40
    assert repaired("age' > age", age=30)["age"] == 41
    assert repaired("loan' < loan", loan=60.0)["loan"] == 49.5
    assert repaired("income' <= 0.1 * loan", income=30.0)["income"] == 5.0
    assert repaired("3 * income' >= 10", income=0.0)["income"] == 3.4


def test_values_off_the_grid_or_out_of_bounds_become_legal():
    found = repaired("", loan=50.3, age=200, income=-5.0)
    assert (found["loan"], found["age"], found["income"]) == (50.5, 90, 0.0)


def test_immutable_features_are_put_back():
    assert repaired("", race="y")["race"] == "x"
    assert repaired("job' == job", job="c")["job"] == "a"
    assert repaired("education' == education", education="also middle")["education"] == "middle"


def test_the_cheapest_way_out_of_an_implication_is_taken():
    rules = "education' > education => age' > age"
    # One year costs 1/73 of the range, another level 1.
    assert repaired(rules, education="high") == {**ROW, "education": "high", "age": 41}
    # At the upper bound no year is left, so the level must go back.
    old = table(age=90)
    found = repaired(rules, before=old, age=90, education="high")
    assert found["age"] == 90
    assert found["education"] in ("middle", "also middle")


def test_ordinals_go_to_the_nearest_allowed_rank():
    assert repaired("education' <= middle", education="high")["education"] == "middle"
    assert repaired("education' != middle", education="middle")["education"] == "also middle"


def test_wide_rules_are_solved_by_the_integer_program():
    found = repaired("loan' <= 2 * income'", loan=50.0, income=20.0)
    assert found["loan"] <= 2 * found["income"]
    # Five units of income do what ten units of loan do, and both have the same range.
    assert (found["loan"], found["income"]) == (50.0, 25.0)
    assert repaired("loan' + income' == 33.3", loan=33.0, income=0.0)["income"] == 0.3
    assert repaired("loan' < income'", loan=20.0, income=20.0)["income"] == 20.1


def test_wide_rules_with_alternatives_find_the_cheapest():
    rules = "loan' <= income' or age' >= 80"
    assert repaired(rules, age=79, loan=90.0, income=0.0)["age"] == 80
    assert repaired(rules, age=20, loan=20.0, income=19.9)["income"] == 20.0


def test_a_way_out_that_does_not_exist_is_said_row_by_row():
    before = pd.concat([table(age=90), table(age=30)], ignore_index=True)
    found = repair(parse_rules("age' > age", SCHEMA), before, before, SCHEMA)
    assert found.iloc[0].isna().all()
    assert found.iloc[1].to_dict() == {**ROW, "age": 31}


def test_too_many_alternatives_are_left_to_one_program_with_indicators():
    schema = Schema(tuple(Feature(f"n{i}", "integer", low=0, high=9) for i in range(16)))
    text = "\n".join(f"n{i}' >= n{i} + 1 or n{i + 1}' <= n{i + 1} - 1 or n{i}' + n{i + 1}' >= 17" for i in range(15))
    rules = parse_rules(text, schema)
    repairer = Repairer(rules, schema)
    assert any(group.disjuncts is None for group in repairer.groups)
    before = pd.DataFrame([dict.fromkeys(schema.names, 5)])
    found = repair(rules, before, before, schema)
    assert holds(rules, before, found).all()
    # A step up serves the rule of that feature, a step down the one before: 15 rules, 15 steps.
    assert (found - before).abs().sum().sum() == 15


def test_rules_that_share_nothing_are_repaired_apart():
    schema = Schema(tuple(Feature(f"n{i}", "integer", low=0, high=9) for i in range(30)))
    rules = parse_rules("\n".join(f"n{i}' != n{i}" for i in range(30)), schema)
    assert len(Repairer(rules, schema).groups) == 30
    before = pd.DataFrame([dict.fromkeys(schema.names, 5)])
    assert holds(rules, before, repair(rules, before, before, schema)).all()


def test_a_present_value_off_the_grid_may_stay():
    before = table(loan=50.3)
    assert repaired("loan' == loan", before=before, loan=70.0)["loan"] == 50.3
    assert repaired("loan' >= loan", before=before, loan=50.3)["loan"] == 50.3
    assert repaired("loan' > loan", before=before, loan=50.3)["loan"] == 50.5


def test_a_present_value_off_the_grid_may_stay_under_wide_rules():
    rules = parse_rules("loan' + income' == loan + income", SCHEMA)
    before, wanted = table(loan=50.3, income=20.05), table(loan=80.0, income=20.0)
    found = repair(rules, before, wanted, SCHEMA).iloc[0]
    # No two values on their grids make 70.35, and only 50.3 and 20.05 are legal beside them.
    assert (found["loan"], found["income"]) == (50.3, 20.05)


def test_the_grid_value_beside_a_present_value_off_the_grid_is_one_of_its_own():
    rules = parse_rules("loan' + income' > loan + income", SCHEMA)
    before = table(loan=50.3)
    assert repair(rules, before, before, SCHEMA).iloc[0]["income"] == 20.1
    frozen = parse_rules("loan' + income' > loan + income\nincome' <= income", SCHEMA)
    assert repair(frozen, before, before, SCHEMA).iloc[0]["loan"] == 50.5


def test_a_present_value_out_of_bounds_may_not_stay():
    before = table(loan=150.25)
    assert repaired("", before=before, loan=150.25)["loan"] == 100.0
    assert repaired("loan' <= loan", before=before, loan=150.25)["loan"] == 100.0


def test_numbers_without_bounds_are_repaired_too():
    schema = Schema((Feature("n", "integer"), Feature("m", "integer")))
    before = pd.DataFrame({"n": [3], "m": [0]})
    assert repair(parse_rules("n' >= 1000000", schema), before, before, schema)["n"].tolist() == [1000000]
    found = repair(parse_rules("n' + m' >= 10", schema), before, before, schema)
    assert found.to_numpy().sum() == 10


def test_two_categories_can_be_tied_together():
    schema = Schema(
        (Feature("first", "categorical", levels=("a", "b")), Feature("second", "categorical", levels=("b", "c")))
    )
    before = pd.DataFrame({"first": ["a"], "second": ["c"]})
    found = repair(parse_rules("first' == second'", schema), before, before, schema)
    assert found.iloc[0].tolist() == ["b", "b"]


def test_units_weigh_numbers_against_each_other():
    rules = parse_rules("age' > age or loan' < loan", SCHEMA)
    kinds = [repair(rules, table(), table(), SCHEMA, units=u).iloc[0] for u in ({"age": 1e-6}, {"loan": 1e-6})]
    assert kinds[0]["loan"] == 49.5
    assert kinds[1]["age"] == 41


def test_the_index_order_and_dtypes_of_the_wanted_rows_are_kept_and_nothing_is_changed():
    before = pd.concat([table(), table(age=50)]).set_axis(["p", "q"])
    after = before.assign(age=20, job=pd.Categorical(["b", "c"], categories=["c", "b", "a"]))[::-1]
    copies = before.copy(), after.copy()
    found = repair(parse_rules("age' >= 30", SCHEMA), before[::-1], after, SCHEMA)
    assert found.index.tolist() == ["q", "p"]
    assert (found.dtypes == after[list(SCHEMA.names)].dtypes).all()
    pd.testing.assert_frame_equal(before, copies[0])
    pd.testing.assert_frame_equal(after, copies[1])


def test_rows_that_cannot_be_read_are_named():
    with pytest.raises(DataError, match=r"after, column 'job'.*known level") as caught:
        repair([], table(age=np.nan), table(job="z"), SCHEMA)
    assert len(caught.value.faults) == 2
    with pytest.raises(DataError, match="must form pairs"):
        repair([], table(), pd.concat([table()] * 2), SCHEMA)


def test_the_order_and_the_batch_do_not_matter():
    rules = parse_rules("loan' <= 2 * income' or age' > age\neducation' > education => age' > age", SCHEMA)
    generator = np.random.default_rng(0)
    natural = {f.name: f.at(generator.integers(0, f.top + 1, size=40)) for f in SCHEMA}
    after = SCHEMA.table(natural)
    before = after.sample(frac=1, random_state=1).reset_index(drop=True)
    whole = repair(rules, before, after, SCHEMA)
    one_by_one = pd.concat([repair(rules, before[i : i + 1], after[i : i + 1], SCHEMA) for i in range(40)])
    pd.testing.assert_frame_equal(whole, one_by_one)


TWENTY = Schema(tuple(Feature(f"n{i}", "integer", low=0, high=100) for i in range(20)))
EFFORT = " + ".join(f"abs(n{i}' - n{i})" for i in range(20))


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        # All twenty are wanted 5 higher, each of which costs 0.05: 90 of the 100 points must go back.
        (f"{EFFORT} <= 10", 0.9),
        (f"{EFFORT} < 10", 0.91),
        (f"{EFFORT} == 10", 0.9),
        (f"{EFFORT} >= 103", 0.03),
        (f"not ({EFFORT} > 10)", 0.9),
        (f"n0' > 90 or {EFFORT} <= 10", 0.36),
        (f"3 * ({EFFORT}) <= n0 - 20", 0.9),
        # The last one gains two a step, as it goes back and away from 60; five are asked for.
        (f"{EFFORT} - abs(n19' - 60) <= 90", 0.03),
    ],
)
def test_a_sum_of_twenty_absolute_values_is_repaired_exactly(rule, cost):
    before = pd.DataFrame([dict.fromkeys(TWENTY.names, 50)])
    rules = parse_rules(rule, TWENTY)
    found = Repairer(rules, TWENTY).nearest(TWENTY.natural(before), TWENTY.natural(before + 5))
    assert found.found.all()
    assert found.cost == pytest.approx(cost)
    assert holds(rules, before, TWENTY.table(found.natural)).all()
    assert contradiction(rules, TWENTY) == ()


def test_twenty_nested_absolute_values_are_read_checked_and_repaired():
    text = "n0' - 50"
    for i in range(20):
        text = f"abs({text}) - {2 + i % 3}"
    rules = parse_rules(f"{text} <= -3", TWENTY)
    values = np.arange(101)
    every = pd.DataFrame({n: values if n == "n0" else 0 for n in TWENTY.names})
    kept = values[holds(rules, every, every)]
    assert 0 < len(kept) < 101
    before = pd.DataFrame([dict.fromkeys(TWENTY.names, v) for v in (0, 37, 50, 99)])
    found = repair(rules, before, before, TWENTY)
    nearest = [abs(kept - v).min() for v in before["n0"]]
    assert (found["n0"] - before["n0"]).abs().tolist() == nearest
    assert contradiction(rules, TWENTY) == ()


def test_rules_with_more_alternatives_than_can_be_listed_are_repaired():
    clauses = [f"(n{i % 20}' > n{i % 20} or n{(7 * i + 1) % 20}' < {50 - i} or n{i % 20}' == {i})" for i in range(60)]
    rules = parse_rules(" and ".join(clauses), TWENTY)
    before = pd.DataFrame([dict.fromkeys(TWENTY.names, 50)])
    assert holds(rules, before, repair(rules, before, before, TWENTY)).all()


@pytest.mark.parametrize("factor", [1_000, 1_000_000, 1_000_000_000])
def test_large_factors_beside_small_ones_contradict_nothing(factor):
    schema = Schema(tuple(Feature(n, "integer", low=0, high=9) for n in "xyz"))
    rules = parse_rules(f"x' + {factor} * y' >= {factor} * z + 5\ny' <= z", schema)
    assert contradiction(rules, schema) == ()
    before = pd.DataFrame({"x": [2, 7], "y": [3, 3], "z": [3, 3]})
    assert repair(rules, before, before, schema)["x"].tolist() == [5, 7]


def test_a_contradiction_with_large_factors_is_named_only_if_it_is_one():
    schema = Schema(tuple(Feature(n, "integer", low=0, high=9) for n in "xyz"))
    text = "x' + 100000 * y' >= 100000 * z + 5\nz >= 9\nx' <= "
    assert len(contradiction(parse_rules(f"{text}4", schema), schema)) == 3
    assert contradiction(parse_rules(f"{text}5", schema), schema) == ()


def findings(text: str, data: pd.DataFrame | None = None, schema: Schema = SCHEMA) -> list[tuple[str, str, list[int]]]:
    return [(f.severity, f.kind, [r.line for r in f.rules]) for f in lint(parse_rules(text, schema), schema, data)]


def test_lint_names_the_smallest_set_of_rules_in_contradiction():
    assert findings("age' >= age\nloan' > 5\nage' > 60\nage' < 50") == [("error", "contradiction", [3, 4])]
    assert contradiction(parse_rules("age' >= 3", SCHEMA), SCHEMA) == ()
    assert findings("race' != race\nage' > age") == [("error", "unsatisfiable", [1])]


def test_lint_names_rules_that_forbid_everything_or_nothing():
    assert findings("age' > 90") == [("error", "unsatisfiable", [1])]
    assert findings("education' > high") == [("error", "unsatisfiable", [1])]
    assert findings("age' >= 17") == [("warning", "tautology", [1])]
    assert findings("age >= 20") == [("warning", "no prime", [1])]
    assert findings("race' == race") == [("note", "redundant", [1])]
    assert findings("age' >= age\nage' >= age") == [("note", "redundant", [2])]
    assert findings("age' >= age\nloan' <= loan") == []
    assert findings("race' == x") == [("warning", "immutable", [1])]


def test_lint_looks_at_the_data():
    data = pd.concat([table(), table(age=50)])
    assert findings("age' > 45", data) == [("note", "broken already", [1])]
    assert findings("age' > age", data)[0] == ("note", "broken already", [1])
    assert ("warning", "never shown", [1]) in findings("age' > 60", data)


def test_an_empty_set_of_rules_has_nothing_wrong():
    assert findings("") == []
