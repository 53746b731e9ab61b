"""Suggested rules: what is planted is found, what is chance is not, and nothing is applied unasked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from typer.testing import CliRunner

from effort import examples
from fcxplain import CausalGraph, Feature, Schema, load_dataset, parse_rules, suggest
from fcxplain.cli import app
from fcxplain.errors import DataError, SchemaError
from fcxplain.rules import holds
from fcxplain.schema.words import is_inborn
from fcxplain.suggestions.evidence import Bar, columns_of, highest_rate
from fcxplain.suggestions.patterns import extremes, meetings, pairs_above, roundest, sharpness
from fcxplain.suggestions.suggesting import edge_rules, is_attained, only_grows
from fcxplain.suggestions.suggestion import Writer

FROM_DATA = {"order", "levels", "range"}


def people(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    """A table in which four rules are never broken, two columns have suggestive names, and the rest is chance."""
    rng = np.random.default_rng(seed)
    limit = rng.integers(1, 60, rows) * 100
    work = rng.choice(["none", "part", "full"], rows, p=[0.3, 0.3, 0.4])
    age = rng.integers(1, 80, rows)
    pay = {"full": ["hourly", "monthly"], "part": ["hourly", "monthly", "daily"], "none": ["no pay"]}
    return pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], rows),
            "credit_limit": limit,
            "credit_used": np.floor(limit * rng.beta(2, 2, rows)),
            "work": work,
            "wage": np.where(work == "none", 0, rng.integers(900, 4000, rows)),
            "pay": [rng.choice(pay[w]) for w in work],
            "school": np.where(age < 18, "pupil", rng.choice(["basic", "college"], rows)),
            "luck": rng.normal(size=rows).round(2),
        }
    )


def chance(rows: int, seed: int) -> pd.DataFrame:
    """Numbers and categories of many shapes that have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {
        "bell": rng.normal(size=rows).round(2),
        "skewed": np.exp(rng.normal(size=rows) * 2).round(1),
        "often_zero": np.maximum(rng.normal(size=rows), 0).round(2),
        "count": rng.poisson(2, rows),
        "flat": rng.integers(0, 1000, rows),
        "like_flat": rng.integers(0, 1000, rows),
    }
    for levels in (2, 3, 5, 12, 30):
        shares = rng.dirichlet(np.full(levels, 0.7))
        columns[f"c{levels}"] = np.asarray([f"l{i}" for i in range(levels)])[rng.choice(levels, rows, p=shares)]
    return pd.DataFrame(columns)


def texts(found) -> list[str]:
    return [s.rule.text for s in found]


# What is found


def test_what_no_row_breaks_is_found():
    found = {s.rule.text: s for s in suggest(people())}
    assert found["credit_used' <= credit_limit'"].support == 600
    assert found["wage' == 0 => work' == none"].support == int((people()["wage"] == 0).sum())
    assert {"pay' == \"no pay\" => work' == none", "work' == none => pay' == \"no pay\""} <= set(found)
    assert {"age' < 18 => school' == pupil", "school' == pupil => age' <= 17"} <= set(found)
    assert "pay' == daily => work' == part" in found
    assert not [text for text in found if "luck" in text]


def test_suggestions_say_what_speaks_for_them():
    found = {s.rule.text: s for s in suggest(people())}
    order = found["credit_used' <= credit_limit'"]
    assert order.words == "credit used must be at most credit limit"
    assert order.why.startswith("none of the 600 rows that it applies to breaks it; ")
    assert (order.kind, order.broken) == ("order", 0)
    by_chance = (people()["credit_used"].to_numpy()[:, None] > people()["credit_limit"].to_numpy()).mean()
    assert order.strength == pytest.approx(by_chance, abs=0.01)


@given(st.integers(0, 10_000))
@examples(15)
def test_every_suggestion_from_data_holds_in_every_row(seed: int):
    table = people(300, seed)
    found = [s for s in suggest(table) if s.kind in FROM_DATA]
    assert found
    assert all(holds(s.rule, table, table).all() and s.broken == 0 < s.support for s in found)


def test_independent_columns_give_next_to_no_suggestion():
    counts = [len(suggest(chance(rows, seed))) for seed in range(12) for rows in (150, 1500)]
    assert sum(counts) <= 1


def test_a_tendency_is_no_rule():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    table = pd.DataFrame(
        {
            "x": x.round(2),
            "y": (0.7 * x + 0.7 * rng.normal(size=3000)).round(2),
            "group": np.where(x + rng.normal(size=3000) > 0, "high", "low"),
        }
    )
    assert suggest(table) == ()


def test_suggestions_are_the_same_each_time_and_owe_nothing_to_unrelated_columns():
    table = people()
    assert suggest(table) == suggest(table.copy())
    assert suggest(table) == suggest(table.drop(columns="luck"))


def test_the_strongest_come_first_and_nothing_is_said_twice():
    found = suggest(people())
    assert len(set(texts(found))) == len(found)
    named = [s.strength for s in found if s.kind not in FROM_DATA]
    assert named == sorted(named, reverse=True)


def test_a_rule_needs_the_support_asked_for():
    table = people()
    assert "credit_used' <= credit_limit'" not in texts(suggest(table, least_support=601))


def test_missing_values_say_nothing():
    table = people()
    table["credit_used"] = table["credit_used"].where(table.index % 3 > 0)
    table["work"] = table["work"].where(table.index % 5 > 0)
    found = {s.rule.text: s for s in suggest(table)}
    assert found["credit_used' <= credit_limit'"].support == 400
    assert found["wage' == 0 => work' == none"].support == int(((table["wage"] == 0) & table["work"].notna()).sum())


def test_levels_that_the_schema_lacks_say_nothing():
    table = people()
    schema = Schema.infer(table)
    odd = table.assign(pay=table["pay"].where(np.arange(len(table)) % 3 > 0, [f"in kind {i}" for i in table.index]))
    gaps = table.assign(pay=table["pay"].where(np.arange(len(table)) % 3 > 0))
    assert [str(s) for s in suggest(odd, schema)] == [str(s) for s in suggest(gaps, schema)]


def test_a_label_and_what_may_not_change_are_left_alone():
    table = people()
    schema = Schema.infer(table, label="work", immutable=("age", "sex", "school"))
    found = suggest(table, schema, label="work")
    assert not [s for s in found if set(s.rule.features) <= {"age", "sex", "school"}]
    assert not [s for s in found if "work" in s.rule.features]


def test_duplicated_numbers_are_told_once():
    table = people().assign(copy=lambda t: t["credit_limit"])
    assert "copy' == credit_limit'" in texts(suggest(table))
    assert "credit_limit' == copy'" not in texts(suggest(table))


def test_numbers_of_different_units_are_not_compared():
    schema = Schema.infer(people()).replace("credit_used", unit="EUR").replace("credit_limit", unit="days")
    assert "credit_used' <= credit_limit'" not in texts(suggest(people(), schema))


awkward = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=6)
names_of_features = awkward.filter(lambda name: "`" not in name and name.strip() == name)


@given(
    st.lists(awkward, min_size=2, max_size=4, unique=True),
    st.lists(names_of_features, min_size=2, max_size=2, unique=True),
)
@examples(40)
def test_any_name_and_level_is_written_so_that_it_can_be_read(levels: list[str], names: list[str]):
    first = np.repeat(np.arange(len(levels)), 80)
    schema = Schema(
        (
            Feature(names[0], "categorical", levels=tuple(levels)),
            Feature(names[1], "ordinal", levels=tuple(reversed(levels))),
        )
    )
    table = pd.DataFrame({names[0]: np.asarray(levels)[first], names[1]: np.asarray(levels)[first]})
    for s in suggest(table, schema):
        assert holds(parse_rules(s.rule.text, schema), table, table).all()


# Names


@pytest.mark.parametrize(
    ("name", "is_so"),
    [("age", True), ("Age_years", True), ("tenure", True), ("YearsAtCompany", True), ("months_employed", True),
     ("mean_age", False), ("percentage", False), ("year_of_build", False), ("loan_months", False), ("wage", False)],
)  # fmt: skip
def test_names_of_time_are_known(name: str, is_so: bool):
    assert only_grows(Feature(name, "integer", low=0, high=90)) is is_so


def test_only_ordered_features_can_be_attained():
    levels = ("school", "college", "master")
    assert is_attained(Feature("education", "ordinal", levels=levels))
    assert not is_attained(Feature("education", "categorical", levels=levels))


@pytest.mark.parametrize(
    ("name", "is_so"),
    [("sex", True), ("native-country", True), ("placeOfBirth", True), ("RACE", True), ("blood_pressure", False),
     ("trace", False), ("sector", False)],
)  # fmt: skip
def test_names_of_what_nobody_changes_are_known(name: str, is_so: bool):
    assert is_inborn(Feature(name, "categorical", levels=("a", "b"))) is is_so


def test_what_comes_from_a_name_says_so_and_claims_no_rows():
    found = {s.rule.text: s for s in suggest(people())}
    for text, kind in (("age' >= age", "never falls"), ("sex' == sex", "frozen")):
        assert found[text].kind == kind
        assert "the name" in found[text].why
        assert "a snapshot of rows cannot show it" in found[text].why
        assert (found[text].support, found[text].broken) == (0, 0)


# The causal graph


def ladder(seed: int = 0) -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=2000)
    table = pd.DataFrame(
        {
            "score": (10 * skill).round(),
            "tier": np.digitize(skill + rng.normal(size=2000), [-1, 0, 1]),
            "debt": (-50 * skill + 50 * rng.normal(size=2000)).round(),
            "height": rng.normal(size=2000).round(2),
        }
    )
    return table, Schema.infer(table)


def test_an_effect_that_rises_with_its_cause_asks_for_its_cause():
    table, schema = ladder()
    arrows = (("score", "tier"), ("score", "debt"), ("height", "tier"))
    found = {s.rule.text: s for s in suggest(table, schema, CausalGraph(schema.names, directed=arrows))}
    rule = found["tier' > tier => score' > score"]
    assert rule.kind == "moves with"
    assert rule.support > rule.broken > 0
    assert "the graph has score -> tier" in rule.why
    assert "debt' > debt => score' < score" in found
    assert not [text for text in found if "height" in text]


def test_an_edge_without_direction_claims_less():
    table, schema = ladder()
    found = texts(suggest(table, schema, CausalGraph(schema.names, undirected=(("score", "tier"),))))
    assert {"tier' > tier => score' >= score", "score' > score => tier' >= tier"} <= set(found)


def test_pairs_of_rows_are_counted_as_a_brute_force_counts_them():
    table, schema = ladder()
    columns = columns_of(table.head(300), schema)
    graph = CausalGraph(schema.names, directed=(("score", "tier"),))
    ((candidate, why),) = edge_rules(graph, columns, Writer(schema), seed=0)
    pairs = [
        np.sign(np.subtract.outer(v, v)) for v in (table["score"][:300].to_numpy(), table["tier"][:300].to_numpy())
    ]
    moved = pairs[0] * pairs[1]
    share = (moved > 0).sum() / (moved != 0).sum()
    assert candidate.support / 150 <= 1
    assert int(why.split(" of 100")[0].split()[-1]) == pytest.approx(100 * share, abs=8)


# The parts, against oracles


@pytest.mark.parametrize("rows", [1, 30, 1000])
def test_the_highest_rate_is_that_of_clopper_and_pearson(rows: int):
    oracle = binomtest(0, rows).proportion_ci(confidence_level=0.98, method="exact").high
    assert highest_rate(np.asarray([rows]), 0.01)[0] == pytest.approx(oracle)


def test_more_rules_looked_at_raise_the_bar():
    support, excluded = np.asarray([100]), np.asarray([200])
    assert Bar(30, 100).passes(support, excluded, 1000).all()
    assert not Bar(30, 10**6).passes(support, excluded, 1000).any()
    assert not Bar(101, 100).passes(support, excluded, 1000).any()


def columns_with_gaps(seed: int) -> tuple[pd.DataFrame, dict]:
    table = chance(200, seed).mask(np.random.default_rng(seed).random((200, 11)) < 0.2)
    return table, columns_of(table, Schema.infer(table))


@pytest.mark.parametrize("seed", range(3))
def test_meetings_are_those_of_a_cross_table(seed: int):
    table, columns = columns_with_gaps(seed)
    found = meetings(columns["c3"], columns["c5"])
    oracle = pd.crosstab(table["c3"], table["c5"]).reindex(
        index=columns["c3"].feature.levels, columns=columns["c5"].feature.levels, fill_value=0
    )
    assert (found == oracle.to_numpy()).all()


@pytest.mark.parametrize("seed", range(3))
def test_extremes_are_those_of_each_group(seed: int):
    table, columns = columns_with_gaps(seed)
    rows, low, high = extremes(columns["c12"], columns["bell"])
    groups = table.dropna(subset=["c12", "bell"]).groupby("c12")["bell"]
    for place, level in enumerate(columns["c12"].feature.levels):
        group = groups.get_group(level) if level in groups.groups else pd.Series(dtype=float)
        assert rows[place] == len(group)
        if len(group):
            assert (low[place], high[place]) == (group.min(), group.max())


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.lists(st.integers(0, 5), min_size=1, max_size=9))
def test_pairs_above_are_counted_one_by_one(x: list[int], y: list[int]):
    count = sum(a > b for a in x for b in y)
    assert pairs_above(np.asarray(x, float), np.asarray(y, float)) == count


def test_an_end_is_sharper_than_a_tail():
    everyone = np.linspace(0, 1, 1001)
    block = everyone[everyone >= 0.3]
    tail = np.repeat(everyone, (100 * everyone**4).astype(int))
    assert sharpness(everyone, block, 0.3) == 1.0
    assert sharpness(everyone, tail, float(tail.min())) < 0.15


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_round_numbers_stay_on_the_near_side(value: float, other: float):
    found = roundest(value, other)
    if value != other:
        assert min(value, other) <= found <= max(value, other)
        assert found != other


def test_round_numbers_are_round():
    assert roundest(699.9999805, 700.5) == 700
    assert roundest(18, 17) == 18
    assert roundest(0.4987, 0.2) == 0.4
    assert roundest(-0.051, -0.2) == -0.06


# Errors


def test_everything_wrong_is_told_at_once():
    table, schema = ladder()
    with pytest.raises(DataError) as caught:
        suggest(table, schema, CausalGraph(("scores",)), least_support=0)
    assert "Did you mean 'score'" in str(caught.value)
    assert len(caught.value.faults) == 2


def test_a_table_without_the_columns_of_its_schema_is_refused():
    table, schema = ladder()
    with pytest.raises(SchemaError, match="is not in the table"):
        suggest(table.drop(columns="tier"), schema)


# Real data


def test_the_rules_that_come_with_the_embedded_data_are_suggested():
    data = load_dataset("adult")
    found = texts(suggest(data.train, data.schema, label=data.label))
    assert {"age' >= age", "education' > education => age' > age", "education' >= education"} <= set(found)
    assert len(found) < 10


@pytest.mark.skipif(not os.environ.get("FCXPLAIN_DATA"), reason="FCXPLAIN_DATA does not name the folder of raw files")
def test_a_graph_from_score_to_school_gives_the_rule_of_the_paper():
    data = load_dataset("law")
    graph = CausalGraph(data.schema.names, directed=(("lsat", "tier"),))
    assert "tier' > tier => lsat' > lsat" in texts(suggest(data.train, data.schema, graph))[:20]


# The command


def command(folder: Path, *options: str):
    table = folder / "people.csv"
    people().to_csv(table, index=False)
    return CliRunner().invoke(app, ["rules", "suggest", "--data", str(table), *options])


def test_the_command_lists_and_applies_nothing(tmp_path: Path):
    done = command(tmp_path, "--limit", "2")
    assert done.exit_code == 0, done.output
    assert "age' >= age" in done.output
    assert "None is applied" in done.stderr
    assert "--accept 1,3 --out my.rules" in " ".join(done.stderr.split())
    assert [p.name for p in tmp_path.iterdir()] == ["people.csv"]


def test_accepted_rules_are_written_as_a_rule_file(tmp_path: Path):
    listed = json.loads(command(tmp_path, "--json").stdout)["suggestions"]
    target = tmp_path / "my.rules"
    done = command(tmp_path, "--accept", "3,1", "--out", str(target))
    assert done.exit_code == 0, done.output
    read = parse_rules(target, Schema.infer(people()))
    assert [rule.text for rule in read] == [listed[0]["rule"], listed[2]["rule"]]
    assert f"# {listed[2]['words']}" in target.read_text()


def test_all_means_all_that_are_shown(tmp_path: Path):
    target = tmp_path / "my.rules"
    assert command(tmp_path, "--accept", "all", "--limit", "2", "--out", str(target)).exit_code == 0
    assert len(parse_rules(target, Schema.infer(people()))) == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--accept", "1"), "Add --out"),
        (("--out", "new.rules"), "no rule is accepted"),
        (("--accept", "1,x,99", "--out", "new.rules"), "--accept 99"),
        (("--accept", "1", "--out", "new.pdf"), "Choose .txt or .rules"),
        (("--accept", "1", "--out", "old.rules"), "Pass --overwrite"),
    ],
)
def test_half_a_wish_and_a_file_that_is_there_are_refused(tmp_path: Path, monkeypatch, options, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.rules").write_text("age' >= age\n")
    done = command(tmp_path, *options)
    assert told in str(done.exception)
    assert (tmp_path / "old.rules").read_text() == "age' >= age\n"
    assert not (tmp_path / "new.rules").exists()


def test_a_file_is_replaced_when_told_so(tmp_path: Path):
    target = tmp_path / "my.rules"
    target.write_text("nonsense")
    assert command(tmp_path, "--accept", "1", "--out", str(target), "--force").exit_code == 0
    assert "nonsense" not in target.read_text()


# What names and levels speak for


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("nationality", ("de", "fr")),
        ("foreign_worker", ("no", "yes")),
        ("MaritalStatus", ("a", "b")),
        ("religion", ("a", "b")),
        ("has_disability", ("no", "yes")),
        ("birthplace", ("a", "b")),
        ("x1", ("Female", "Male", "unknown")),
        ("x2", ("Black", "Other", "White")),
        ("x3", ("Divorced", "Married", "Single")),
    ],
)
def test_what_nobody_should_be_advised_to_change_is_told_by_name_or_levels(name: str, levels: tuple[str, ...]):
    table = pd.DataFrame({name: np.resize(levels, 60), "income": range(60)})
    (found,) = suggest(table, by_name=True)
    assert (found.rule.text, found.kind) == (f"{name}' == {name}", "frozen")


@pytest.mark.parametrize(
    "levels", [("black", "green", "red", "white", "blue", "grey"), ("fixed", "male plug"), ("m", "s")]
)
def test_levels_of_other_things_are_not_taken_for_personal(levels: tuple[str, ...]):
    table = pd.DataFrame({"x": np.resize(levels, 60), "income": range(60)})
    assert suggest(table, by_name=True) == ()


def test_levels_that_say_nothing_are_nothing_to_become_but_may_be_kept():
    table = pd.DataFrame({"job": ["cook", "clerk", "unknown"] * 20, "town": ["Ulm", "n/a", "other"] * 20})
    found = {s.rule.text: s for s in suggest(table, by_name=True)}
    assert set(found) == {"job' == job or job' != unknown", "town' == town or town' not in {\"n/a\", other}"}
    (rule,) = (s.rule for text, s in found.items() if text.startswith("job"))
    now, then = (pd.DataFrame({"job": jobs}) for jobs in (["unknown", "cook", "cook"], ["unknown", "clerk", "unknown"]))
    assert holds(rule, now, then).tolist() == [True, True, False]


def test_nothing_is_suggested_of_what_may_not_change_anyway():
    table = pd.DataFrame({"sex": ["f", "m"] * 30, "income": range(60)})
    assert suggest(table, Schema.infer(table, immutable=["sex"]), by_name=True) == ()


@pytest.mark.parametrize(
    "levels",
    [
        ("primary", "secondary", "tertiary"),
        ("low", "medium", "high"),
        ("none", "some", "all"),
        ("Small", "Medium", "Large"),
        ("<100", "100-500", ">500"),
        ("<0", "0<=X<200", ">=200"),
        ("never", "rarely", "sometimes", "often", "always"),
        ("under 18", "18 to 65", "over 65"),
        ("18-25", "26-35", "36+"),
        ("unknown", "primary", "secondary", "tertiary"),
    ],
)
def test_a_likely_order_is_offered_with_the_line_to_write_and_not_applied(levels: tuple[str, ...]):
    schema = Schema.infer(pd.DataFrame({"x": np.resize(sorted(levels), 60)}))
    assert schema["x"].kind == "categorical"
    assert f'kind = "ordinal", levels = {json.dumps(levels)}'.replace("(", "[").replace(")", "]") in schema.report()


@pytest.mark.parametrize(
    "levels", [("no", "yes"), ("a", "b"), ("1", "2", "3"), ("10-20", "15-25"), ("A11", "A12"), ("low", "red")]
)
def test_levels_without_a_likely_order_are_left_alone(levels: tuple[str, ...]):
    assert "ordinal" not in Schema.infer(pd.DataFrame({"x": np.resize(levels, 60)})).report()
