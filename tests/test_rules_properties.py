"""Facts that hold for all rules: the readings agree with each other and with brute force."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import examples
from fcxplain.encoding import TableEncoder
from fcxplain.errors import RuleError
from fcxplain.region.conflict import contradiction
from fcxplain.region.repair import Repairer, repair
from fcxplain.rules import Rule, holds, in_words, parse, parse_rules, penalty
from fcxplain.rules.check import truth
from fcxplain.rules.nodes import And, Or
from fcxplain.rules.normal import disjuncts, normal_form
from fcxplain.schema import Feature, Schema
from rule_texts import all_legal, every_row, off_grid_rows, rule_texts, small_schemas

calm = examples(60)


@st.composite
def problems(draw: st.DrawFn, most: int = 3) -> tuple[Schema, tuple[Rule, ...], pd.DataFrame]:
    schema = draw(small_schemas())
    texts = draw(st.lists(rule_texts(schema), min_size=1, max_size=most))
    return schema, parse_rules(texts, schema), every_row(schema)


def pairs(table: pd.DataFrame, seed: int, count: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    generator = np.random.default_rng(seed)
    before, after = (table.iloc[generator.integers(len(table), size=count)] for _ in range(2))
    return before.reset_index(drop=True), after.reset_index(drop=True)


def repeated(row: pd.DataFrame, times: int) -> pd.DataFrame:
    return row.iloc[np.zeros(times, dtype=int)].reset_index(drop=True)


def cost_of(schema: Schema, table: pd.DataFrame, wanted: pd.DataFrame) -> np.ndarray:
    """Range for numbers, 1 per other level, written independently of the code under test."""
    cost = np.zeros(len(table))
    for feature in schema:
        goal = wanted[feature.name].iloc[0]
        if feature.is_number:
            span = (feature.high - feature.low) or feature.step
            cost += (table[feature.name] - goal).abs().to_numpy() / span
        else:
            cost += (table[feature.name] != goal).to_numpy()
    return cost


def legal_and_kept(schema: Schema, rules: tuple[Rule, ...], before: pd.DataFrame, table: pd.DataFrame) -> np.ndarray:
    kept = holds(rules, repeated(before, len(table)), table)
    for name in schema.immutable:
        kept &= (table[name] == before[name].iloc[0]).to_numpy()
    return kept


@calm
@given(problems(), st.integers(0, 1000))
def test_repair_is_as_near_as_brute_force(problem, seed):
    schema, rules, table = problem
    before, after = pairs(table, seed, 2)
    found = Repairer(rules, schema).nearest(schema.natural(before), schema.natural(after))
    assert not found.undecided.any()
    for row in range(2):
        kept = legal_and_kept(schema, rules, before.iloc[[row]], table)
        cost = cost_of(schema, table, after.iloc[[row]])
        assert found.found[row] == kept.any()
        if kept.any():
            assert found.cost[row] == pytest.approx(cost[kept].min())


@examples(150)
@given(st.data())
def test_repair_is_as_near_as_brute_force_off_the_grid(data):
    schema = data.draw(small_schemas())
    rules = parse_rules(data.draw(st.lists(rule_texts(schema), min_size=1, max_size=3)), schema)
    before, after = data.draw(off_grid_rows(schema)), data.draw(off_grid_rows(schema))
    repairer = Repairer(rules, schema)
    found, near = repairer.nearest(before, after), repairer.nearest(before, after, exact=False)
    table = all_legal(schema, before)
    size = len(next(iter(table.values())))
    kept = holds(rules, {n: np.repeat(v, size) for n, v in before.items()}, table)
    assert not found.undecided.any()
    assert found.found[0] == near.found[0] == kept.any()
    if kept.any():
        cost = cost_of(schema, pd.DataFrame(table), pd.DataFrame(after))
        assert found.cost[0] == pytest.approx(cost[kept].min())
        assert holds(rules, before, found.natural).all()
        assert holds(rules, before, near.natural).all()


@calm
@given(problems(), st.integers(0, 1000))
def test_a_repaired_row_keeps_the_rules_and_is_legal_or_is_missing(problem, seed):
    schema, rules, table = problem
    before, after = pairs(table, seed, 5)
    repaired = repair(rules, before, after, schema)
    missing = repaired.isna().all(axis=1).to_numpy()
    there, given_rows = repaired[~missing], before[~missing]
    schema.validate(there)
    assert holds(rules, given_rows, there).all()
    for name in schema.immutable:
        assert (there[name] == given_rows[name]).all()
    kept_already = holds(rules, before, after)
    for name in schema.immutable:
        kept_already &= (before[name] == after[name]).to_numpy()
    assert not (missing & kept_already).any()


@calm
@given(problems(), st.integers(0, 1000), st.sampled_from([None, 0.2, 1.0]))
def test_no_penalty_with_a_margin_means_that_the_rule_holds(problem, seed, margin):
    schema, rules, table = problem
    before, after = pairs(table, seed, 200)
    encoder = TableEncoder().fit(schema, table)
    columns = [encoder.columns(encoder.encode(t)) for t in (before, after)]
    for rule in rules:
        result = penalty(rule, *columns, margin=margin)
        assert (result >= 0).all()
        assert holds(rule, before, after)[(result == 0).numpy()].all()


@calm
@given(problems(most=2), st.integers(0, 1000))
def test_normal_forms_mean_the_same(problem, seed):
    schema, rules, table = problem
    before, after = pairs(table, seed, 200)
    first, second = schema.natural(before), schema.natural(after)
    for rule in rules:
        plain = np.broadcast_to(truth(rule.formula, first, second), (200,))
        assert (truth(normal_form(rule.formula), first, second) == plain).all()
        assert (truth(normal_form(rule.formula, wanted=False), first, second) == ~plain).all()
        alternatives = disjuncts(normal_form(rule.formula))
        assert alternatives is not None
        spelt_out = Or(tuple(And(d) for d in alternatives))
        assert (truth(spelt_out, first, second) == plain).all()


@examples(40)
@given(st.data())
def test_contradiction_agrees_with_brute_force(data):
    schema = data.draw(small_schemas())
    texts = data.draw(st.lists(rule_texts(schema), min_size=1, max_size=4))
    rules = parse_rules(texts, schema)
    core = contradiction(rules, schema)
    assert bool(core) == (not some_pair_keeps(schema, rules))
    if core:
        assert not some_pair_keeps(schema, core)
        for rule in core:
            assert some_pair_keeps(schema, tuple(r for r in core if r is not rule))


def some_pair_keeps(schema: Schema, rules: tuple[Rule, ...]) -> bool:
    """Every legal pair of rows, over the features that the rules name."""
    named = {n for rule in rules for n in rule.features}
    if not named:
        return True
    small = Schema(tuple(f for f in schema if f.name in named))
    table = every_row(small)
    return any(legal_and_kept(small, rules, table.iloc[[i]], table).any() for i in range(len(table)))


@calm
@given(problems())
def test_words_are_said_of_every_rule(problem):
    schema, rules, _ = problem
    for rule in rules:
        words = in_words(rule, schema)
        assert words
        assert "\n" not in words


@calm
@given(problems())
def test_reading_a_rule_again_gives_the_same_rule(problem):
    schema, rules, _ = problem
    assert parse_rules(rules, schema) == rules
    for rule in rules:
        assert parse(rule.text, schema).formula == rule.formula


SCHEMA = Schema((Feature("age", "integer", low=0, high=9), Feature("c", "categorical", levels=("x", "y"))))


@examples(300)
@given(st.one_of(st.text(max_size=60), st.text(alphabet="age' c{}()<>=!+-*/.0123eandortin`\"'’“”#,&", max_size=60)))
def test_any_text_is_a_rule_or_a_rule_error(text):
    try:
        rules = parse_rules(text, SCHEMA)
    except RuleError:
        return
    assert all(isinstance(r, Rule) for r in rules)
