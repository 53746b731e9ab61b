"""The feasible region against brute force over small domains: what it contains, counts and lists, and its codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

import loans
from effort import THOROUGH, examples
from fcxplain.errors import RuleError
from fcxplain.region.codes import code_region
from fcxplain.region.region import Region
from fcxplain.region.repair import Repairer
from fcxplain.rules import Rule, holds, parse_rules
from fcxplain.schema import Feature, Natural, Schema
from fcxplain.search.space import Codes, SearchSpace
from rule_texts import every_row, rule_texts, small_schemas

# Some rules have no nearest row in closed form, and each candidate under them is an integer program.
CANDIDATES = 120 if THOROUGH else 40
calm = examples(80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def natural_of(schema: Schema, codes: Codes) -> Natural:
    return {f.name: f.at(codes[:, i]) for i, f in enumerate(schema)}


def drawn_rules(data: st.DataObject, schema: Schema) -> tuple[Rule, ...]:
    try:
        return parse_rules(data.draw(st.lists(rule_texts(schema), max_size=3)), schema)
    except RuleError:
        assume(False)
        raise


@calm
@given(st.data())
def test_codes_say_what_the_rules_and_their_repair_say(data: st.DataObject) -> None:
    schema = data.draw(small_schemas())
    rules = drawn_rules(data, schema)
    assume(rules)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    every = np.stack(
        [f.codes(v) for f, v in zip(schema, schema.natural(every_row(schema)).values(), strict=True)], axis=1
    )
    rows = every[random.integers(len(every), size=6)]
    natural = natural_of(schema, rows)
    repairer = Repairer(rules, schema)
    region = code_region(repairer, natural, [False] * len(schema))
    assume(region is not None)
    assert region is not None
    row = random.integers(6, size=CANDIDATES)
    still = [i for i, f in enumerate(schema) if f.name in repairer.frozen]
    codes = every[random.integers(len(every), size=CANDIDATES)]
    codes[:, still] = rows[row][:, still]
    before, wanted = natural_of(schema, rows[row]), natural_of(schema, codes)
    assert (region.keeps(row, codes) == holds(rules, before, wanted)).all()
    expected = repairer.nearest(before, wanted)
    mended, found = region.mend(row, codes)
    assert (found == expected.found).all()
    for i, feature in enumerate(schema):
        assert (mended[found, i] == feature.codes(expected.natural[feature.name])[found]).all(), feature.name
    some = np.array([1, 4])
    mine = np.flatnonzero(np.isin(row, some))
    part = region.take(some).keeps(np.searchsorted(some, row[mine]), codes[mine])
    assert (part == region.keeps(row, codes)[mine]).all()


@calm
@given(st.data())
def test_points_are_all_rows_that_the_region_contains(data: st.DataObject) -> None:
    schema = data.draw(small_schemas())
    rules = drawn_rules(data, schema)
    every = schema.natural(every_row(schema))
    size = len(every[schema.names[0]])
    places = np.random.default_rng(data.draw(st.integers(0, 99))).integers(size, size=3)
    region = Region(Repairer(rules, schema), {n: v[places] for n, v in every.items()})
    there = []
    for row, place in enumerate(places.tolist()):
        now = {n: np.full(size, v[place]) for n, v in every.items()}
        legal = holds(rules, now, every)
        for name in schema.immutable:
            legal &= every[name] == now[name]
        assert (region.contains(every, np.full(size, row)) == legal).all()
        found = region.points(row).legal()
        listed = sorted(zip(*(found[n].tolist() for n in schema.names), strict=True))
        assert listed == sorted(zip(*(every[n][legal].tolist() for n in schema.names), strict=True))
        assert region.count[row] >= legal.sum()
        there.append(bool(legal.any()))
    assert not (region.nothing & there).any()
    nearest = region.nearest(region.before)
    assert region.contains(nearest.natural)[nearest.found].all()
    assert ((nearest.found == there) | nearest.undecided).all()


def test_a_value_off_the_grid_may_stay_but_nothing_else_may_go_there() -> None:
    schema = Schema((Feature("a", "integer", low=0, high=4), Feature("b", "categorical", levels=("x", "y"))))
    rules = parse_rules(["a' <= 2"], schema)
    region = Region(Repairer(rules, schema), {"a": np.array([1.5, 3.5]), "b": np.array([0, 0])})
    assert [sorted(set(region.points(row).legal()["a"].tolist())) for row in (0, 1)] == [[0, 1, 1.5, 2], [0, 1, 2]]
    assert region.count.tolist() == [8, 6]
    candidates = {"a": np.array([1.5, 2.5, 1.5, 3.5]), "b": np.zeros(4, dtype=np.int64)}
    assert region.contains(candidates, np.array([0, 0, 1, 1])).tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("rules", "shift", "told"),
    [
        ("age' >= age", 0.0, True),
        ("age' >= age", 0.3, True),
        ("income' >= income", 0.3, False),
        ("income' + 100 * age' <= 9000", 0.0, False),
    ],
)
def test_codes_cannot_tell_of_sums_nor_of_ruled_values_off_the_grid(rules: str, shift: float, told: bool) -> None:
    task = loans.task(rules)
    rows = loans.table(5).assign(income=lambda t: t["income"] + shift)
    present = SearchSpace(task).present(
        task.schema.checked(rows), task.outcomes(task.class_names[np.ones(5, dtype=np.int64)])
    )
    assert (code_region(task.repairer, present.natural, present.off_grid_features) is not None) == told
