"""Rules that are sums of several numbers: their nearest rows against brute force and against the integer program."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

from effort import examples
from fcxplain import FCx, Task
from fcxplain.errors import RuleError
from fcxplain.region.knapsack import Knapsack, cheapest
from fcxplain.region.program import Program
from fcxplain.region.repair import Repaired, Repairer
from fcxplain.rules import holds, parse_rules
from fcxplain.rules.nodes import Ref
from fcxplain.schema import Feature, Natural, Schema
from rule_texts import all_legal

calm = examples(120)
NAMES = "abcd"


@st.composite
def knapsacks(draw: st.DrawFn) -> Knapsack:
    parts = draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    gains = random.integers(1, draw(st.sampled_from([2, 4, 8, 14])), parts)
    # Prices that are equal for what they bring, a few alike, or all different.
    each = draw(st.sampled_from([0.5 * gains, random.choice([1.0, 0.5, 3.0], parts), random.random(parts) + 0.05]))
    equal, shape = draw(st.booleans()), (6, parts)
    first_up, first_down = (each * np.where(random.random(shape) < 0.3, random.random(shape), 1.0) for _ in range(2))
    up, down = random.integers(0, 7, shape), random.integers(0, 4, shape) * equal
    need = random.integers(0, int((up @ gains).max()) + 3, 6)
    return Knapsack(need, gains, each, first_up, first_down, up, down, equal)


@calm
@given(knapsacks())
def test_cheapest_steps_are_those_of_brute_force(sack: Knapsack) -> None:
    steps, cost, bound = cheapest(sack)
    _, near, least = cheapest(sack, exact=False)
    for row in range(len(sack.need)):
        ranges = (range(-d, u + 1) for d, u in zip(sack.down[row], sack.up[row], strict=True))
        every = np.array(list(itertools.product(*ranges)))
        brought = every @ sack.gains
        kept = brought == sack.need[row] if sack.equal else brought >= sack.need[row]
        best = sack.take(np.full(len(every), row)).cost(every).sum(axis=1)[kept].min(initial=np.inf)
        assert cost[row] == bound[row] == pytest.approx(best)
        assert least[row] <= best * (1 + 1e-9)
        assert np.isfinite(near[row]) == np.isfinite(best)
        if kept.any():
            assert (every[kept] == steps[row]).all(axis=1).any()


@st.composite
def number_schemas(draw: st.DrawFn) -> Schema:
    """Two to four numbers with few values each, on coarse and on fine grids."""
    features = []
    for name in NAMES[: draw(st.integers(2, 4))]:
        step = draw(st.sampled_from([1.0, 1.0, 0.5, 0.01, 10.0, 0.25]))
        low = draw(st.sampled_from([0.0, -2.0, 1.0])) * step
        features.append(Feature(name, "continuous", low=low, high=low + draw(st.integers(1, 6)) * step, step=step))
    return Schema(tuple(features))


@st.composite
def sums(draw: st.DrawFn, schema: Schema) -> str:
    """One comparison of a sum, or of an effort."""
    names = draw(st.lists(st.sampled_from(schema.names), min_size=2, max_size=4, unique=True))
    factors = st.sampled_from(["", "", "", "2 * ", "3 * ", "5 * ", "-1 * ", "0.1 * ", "-2 * ", "100 * "])
    op = draw(st.sampled_from(["<=", "<=", ">=", "<", ">", "=="]))
    if draw(st.integers(0, 4)) == 0:
        left = " + ".join(f"{draw(factors).lstrip('-')}abs({n}' - {n})" for n in names)
        return f"{left} <= {draw(st.sampled_from(['1', '2.5', '10', '0.3']))}"
    left = " + ".join(f"{draw(factors)}{n}'{draw(st.sampled_from(['', '', ' / 3']))}" for n in names)
    right = draw(st.sampled_from(["0", "1", "7.5", "0.37", " + ".join(names), f"{names[0]} - 0.5"]))
    return f"{left} {op} {right}"


@st.composite
def sum_rules(draw: st.DrawFn, schema: Schema) -> str:
    """A sum alone, or with something beside it."""
    first, other = draw(sums(schema)), f"a' {draw(st.sampled_from(['>', '<=', '==']))} a"
    kind = draw(st.integers(0, 7))
    return {0: f"{first} or {other}", 1: f"{other} => {first}", 2: f"{first}\n{draw(sums(schema))}"}.get(kind, first)


@st.composite
def rows_of(draw: st.DrawFn, schema: Schema) -> dict[str, np.ndarray]:
    """One row; a value may lie off the grid."""
    row = {}
    for feature in schema:
        beside = draw(st.sampled_from([0.0, 0.0, 0.0, 0.3])) * feature.step
        row[feature.name] = np.asarray([min(feature.at(draw(st.integers(0, feature.top))) + beside, feature.high)])
    return row


def cost_of(after: Natural, wanted: Natural, units: dict[str, float]) -> np.ndarray:
    return sum(np.abs(v - wanted[n]) / units[n] for n, v in after.items())


def by_program(repairer: Repairer, before: Natural, wanted: Natural) -> float:
    """What the integer program says of all rules together."""
    assert len(repairer.groups) == 1
    formula = repairer.groups[0].formula
    program = Program({Ref(f, primed=False): float(before[f.name][0]) for f in repairer.schema})
    for feature in repairer.schema:
        if feature.name in repairer.groups[0].names:
            if not feature.on_grid(before[feature.name])[0]:
                program.keep(Ref(feature, primed=True), float(before[feature.name][0]))
            unit = repairer.units[feature.name]
            program.prefer(Ref(feature, primed=True), float(wanted[feature.name][0]), unit)
    program.require(formula)
    return program.solve(formula).cost


@examples(250)
@given(st.data())
def test_the_nearest_row_under_sums_is_that_of_brute_force(data: st.DataObject) -> None:
    schema = data.draw(number_schemas())
    try:
        rules = parse_rules(data.draw(sum_rules(schema)), schema)
    except RuleError:
        assume(False)
    units = {n: data.draw(st.sampled_from([1.0, 2.0, 5.0, 0.7])) for n in schema.names}
    before, wanted = data.draw(rows_of(schema)), data.draw(rows_of(schema))
    repairer = Repairer(rules, schema, units)
    found, near = repairer.nearest(before, wanted), repairer.nearest(before, wanted, exact=False)
    every = all_legal(schema, before)
    size = len(next(iter(every.values())))
    kept = holds(rules, {n: np.repeat(v, size) for n, v in before.items()}, every)
    assert not found.undecided.any()
    assert found.found[0] == near.found[0] == kept.any()
    if kept.any():
        assert found.cost[0] == pytest.approx(cost_of(every, wanted, units)[kept].min())
        for one in (found, near):
            assert holds(rules, before, one.natural).all()
            assert cost_of(one.natural, wanted, units)[0] == pytest.approx(one.cost[0])


@examples(40)
@given(st.data())
def test_the_nearest_row_under_a_sum_costs_what_the_integer_program_says(data: st.DataObject) -> None:
    schema = data.draw(number_schemas())
    try:
        rules = parse_rules(data.draw(sums(schema)), schema)
    except RuleError:
        assume(False)
    repairer = Repairer(rules, schema, {n: data.draw(st.sampled_from([1.0, 2.0, 0.7])) for n in schema.names})
    assume(repairer.groups)
    before, wanted = data.draw(rows_of(schema)), data.draw(rows_of(schema))
    free = [n for n in schema.names if n not in repairer.groups[0].names]
    wanted |= {n: before[n] for n in free}
    quick = repairer.nearest(before, wanted, seconds=0.0)
    assert not quick.undecided.any()
    assert quick.cost[0] == pytest.approx(by_program(repairer, before, wanted))


BUDGET = Schema(
    (
        Feature("income", "integer", low=0, high=9000, step=10),
        Feature("rent", "continuous", low=0, high=3000, step=0.5),
        Feature("food", "continuous", low=0, high=2000, step=0.01),
        Feature("total", "continuous", low=0, high=6000, step=0.01),
        Feature("a", "integer", low=0, high=100),
        Feature("b", "integer", low=0, high=100),
    )
)


def repaired(text: str, rows: int = 400, **how: float | bool) -> tuple[Repaired, np.ndarray]:
    """Rows at random repaired towards others, and which of them had to be."""
    random = np.random.default_rng(0)
    before, after = ({f.name: f.at(random.integers(0, f.top + 1, rows)) for f in BUDGET} for _ in range(2))
    rules = parse_rules(text, BUDGET)
    result = Repairer(rules, BUDGET).nearest(before, after, **how)
    assert holds(rules, {n: v[result.found] for n, v in before.items()}, _of(result)).all()
    return result, ~holds(rules, before, after)


def _of(result: Repaired) -> Natural:
    return {n: v[result.found] for n, v in result.natural.items()}


@pytest.mark.parametrize(
    "text",
    [
        "rent' + food' <= 1500",
        "rent' + food' + a' + b' <= 1700",
        "rent' + food' < rent + food",
        "income' <= 50 * b'",
        "3 * a' + 2 * b' <= 200",
        "total' == rent' + food'",
        "7 * a' + 5 * b' == 300",
        "a' <= b' / 3",
        "rent' + food' <= 1500 or a' >= 60",
        "abs(a' - a) + abs(b' - b) <= 10",
        "abs(rent' - food') <= 300",
    ],
)
def test_one_sum_is_never_left_to_the_integer_program(text: str) -> None:
    exact, broken = repaired(text, seconds=0.0)
    near, _ = repaired(text, seconds=0.0, exact=False)
    assert broken.sum() > 20
    assert exact.found.all()
    assert (near.cost >= exact.cost * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    "text",
    [
        "total' == rent' + food'\ntotal' + a' <= income'",
        "rent' + food' <= income'\ntotal' + rent' >= 500\nfood' + a' + b' <= 900",
        "total' == rent' + food'\n2 * rent' + a' == 2 * rent + a",
    ],
)
def test_sums_that_share_values_have_near_rows_without_the_integer_program(text: str) -> None:
    near, broken = repaired(text, rows=40, seconds=0.0, exact=False)
    exact, _ = repaired(text, rows=40)
    assert broken.sum() > 20
    assert near.found.mean() > 0.9
    assert exact.found[near.found].all()
    assert near.cost[near.found].mean() < 1.1 * exact.cost[near.found].mean()


def test_of_equally_near_rows_the_one_with_fewest_changes_is_taken() -> None:
    schema = Schema(tuple(Feature(n, "integer", low=0, high=100) for n in NAMES))
    row = {n: np.array([40.0]) for n in NAMES}
    found = Repairer(parse_rules("a' + b' + c' + d' <= 130", schema), schema).nearest(row, row)
    assert sorted(v[0] for v in found.natural.values()) == [10, 40, 40, 40]


# Gaps


GAPPY = ("a' + b' <= c", "a' + b' <= c'", "a' + b' + c' == 9", "a' + b' <= 3\nb' + c' <= 3", "a' - b' >= 2 or c' == c")


def ways_with_gaps(schema: Schema, row: dict[str, float], rule: str) -> Natural:
    """All that a row may become under a rule: a gap stays, or is filled where it may be."""
    choices = []
    for f in schema:
        legal = f.at(np.arange(f.top + 1)).tolist()
        gap = np.isnan(row[f.name])
        choices.append([row[f.name], *(legal if f.missing == "may_be_filled" else [])] if gap else legal)
    every = {f.name: c for f, c in zip(schema, np.array(list(itertools.product(*choices))).T, strict=True)}
    now = {n: np.full(len(every["a"]), v) for n, v in row.items()}
    keeps = np.logical_and.reduce([holds(r, now, every) for r in parse_rules(rule, schema)])
    return {n: v[keeps] for n, v in every.items()}


@pytest.mark.parametrize("rule", GAPPY)
@pytest.mark.parametrize("policy", ["kept", "may_be_filled"])
def test_rows_with_gaps_in_a_sum_are_repaired_as_by_brute_force(rule, policy):
    schema = Schema(tuple(Feature(n, "integer", low=0, high=5, missing=policy) for n in "abc"))
    random, rows = np.random.default_rng(0), 60
    before = {n: np.where(random.random(rows) < 0.3, np.nan, random.integers(0, 6, rows)) for n in "abc"}
    # What is wanted leaves gaps as they are, or fills some.
    drawn = {n: random.integers(0, 6, rows).astype(float) for n in "abc"}
    free = {n: ~np.isnan(v) | ((policy == "may_be_filled") & (random.random(rows) < 0.5)) for n, v in before.items()}
    wanted = {n: np.where(free[n], drawn[n], np.nan) for n in "abc"}
    found = Repairer(parse_rules(rule, schema), schema).nearest(before, wanted)
    for i in range(rows):
        ways = ways_with_gaps(schema, {n: float(v[i]) for n, v in before.items()}, rule)
        apart = [np.abs(v - wanted[n][i]) / 5 for n, v in ways.items()]
        one_gap = [np.isnan(v) != np.isnan(wanted[n][i]) for n, v in ways.items()]
        cost = sum(np.where(g, 1.0, np.nan_to_num(d)) for g, d in zip(one_gap, apart, strict=True))
        if len(cost):
            assert found.found[i] or found.undecided[i], (i, before, wanted)
            assert not found.found[i] or found.cost[i] == pytest.approx(cost.min(), abs=1e-6)
        else:
            assert not found.found[i]
    assert not found.undecided.any() or "\n" in rule


@pytest.mark.parametrize("policy", ["kept", "may_be_filled"])
def test_answers_under_a_sum_with_gaps_are_those_of_brute_force(policy):
    schema = Schema(tuple(Feature(n, "integer", low=0, high=3, missing=policy) for n in "abc"))
    random = np.random.default_rng(1)
    table = pd.DataFrame({n: random.integers(0, 4, 300).astype(float) for n in "abc"})
    table = table.mask(random.random(table.shape) < 0.2)
    model = HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=5, random_state=0)
    model.fit(table, (table.fillna(1.4) @ [2.0, 1.0, -1.0]) > 3.5)
    task = Task(table, model, schema=schema, rules="a' + b' <= c' + 2", target=True)
    answer = FCx(generator=False).fit(task).explain(rows := table.head(60))
    for i, status in enumerate(answer.row_status.tolist()):
        ways = pd.DataFrame(ways_with_gaps(schema, rows.iloc[i].to_dict(), "a' + b' <= c' + 2"))
        possible = len(ways) > 0 and model.predict(ways).any()
        already = model.predict(rows.iloc[[i]])[0]
        assert status == ("already" if already else "verified" if possible else "impossible"), (i, rows.iloc[i])
