"""What holds for single rows only becomes rules, and the answers keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import loans
from fcxplain import Explanation, Feature, Schema, Task
from fcxplain.errors import DataError, FormatError
from fcxplain.overrides import Overrides, read_overrides
from fcxplain.rules import holds, in_words, parse_rules
from fcxplain.search import Search
from strategies import NAMES, schemas, tables

pytestmark = pytest.mark.filterwarnings("ignore::fcxplain.errors.FcxWarning")
TASK = loans.task()
ROWS = loans.table(40, seed=1)


def read(rows: pd.DataFrame = ROWS, task: Task = TASK, index: Any = None, **columns: list[Any]) -> Overrides:
    """Overrides of the first rows, from columns by name."""
    length = len(next(iter(columns.values())))
    return Overrides.read(pd.DataFrame(columns, index=rows.index[:length] if index is None else index), rows, task)


def texts(**cell: Any) -> list[str]:
    """The rules that one row's cells make."""
    return [rule.text for rule in read(**{name: [value] for name, value in cell.items()}).rules]


def faults(**columns: list[Any]) -> list[str]:
    """What is said of columns that cannot be read."""
    with pytest.raises(DataError) as caught:
        read(**columns)
    return [str(fault) for fault in caught.value.faults]


def odd_task(schema: Schema, rows: pd.DataFrame, classes: tuple[Any, ...] = ("no", "yes")) -> Task:
    return Task(rows, lambda t: np.full((len(t), len(classes)), 1 / len(classes)), schema=schema, target=classes[-1],
                classes=classes)  # fmt: skip


@pytest.mark.parametrize("value", [["job", "age"], ("age", "job"), {"age", "job"}, "age, job", "['age', 'job']",
                                   np.array(["job", "age"]), " job,age, ", "`age`, job"])  # fmt: skip
def test_a_freeze_may_be_written_in_many_ways(value):
    assert texts(freeze=value) == ["age' == age", "job' == job"]
    assert [rule.freezes for rule in read(freeze=[value]).rules] == ["age", "job"]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ((20, 40), "20 <= income' <= 40"),
        ([20.5, np.float64(40)], "20.5 <= income' <= 40"),
        (np.array([20, 40]), "20 <= income' <= 40"),
        ((None, 40), "income' <= 40"),
        ((-np.inf, 40), "income' <= 40"),
        ((20, np.inf), "income' >= 20"),
        ((20, np.nan), "income' >= 20"),
        (pd.Interval(20, 40), "20 < income' <= 40"),
        (pd.Interval(20, 40, closed="both"), "20 <= income' <= 40"),
        (pd.Interval(20, np.inf, closed="neither"), "income' > 20"),
        (pd.Interval(-np.inf, 40, closed="left"), "income' < 40"),
        ((20, 20), "income' == 20"),
        (20, "income' == 20"),
        (np.int8(20), "income' == 20"),
        ({30, 20}, "income' in {20, 30}"),
        ("20..40", "20 <= income' <= 40"),
        (" 20 .. 40 ", "20 <= income' <= 40"),
        ("-1.5e3..-.5", "-1500 <= income' <= -0.5"),
        ("20..", "income' >= 20"),
        ("..40", "income' <= 40"),
        ("<= 40", "income' <= 40"),
        (">=20", "income' >= 20"),
        ("≥ 20", "income' >= 20"),
        ("< 40", "income' < 40"),
        ("= 40", "income' == 40"),
        ("40", "income' == 40"),
        ("{20, 30}", "income' in {20, 30}"),
        ("[20, 40]", "20 <= income' <= 40"),
    ],
)
def test_allowed_numbers_may_be_written_in_many_ways(value, rule):
    assert texts(income=value) == [rule]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("cook", """job' == "cook\""""),
        ("COOK", """job' == "cook\""""),
        (["smith", "cook"], """job' in {"cook", "smith"}"""),
        ({"smith", "cook"}, """job' in {"cook", "smith"}"""),
        ("{smith, cook}", """job' in {"cook", "smith"}"""),
        ("smith, 'cook'", """job' in {"cook", "smith"}"""),
    ],
)
def test_allowed_levels_may_be_written_in_many_ways(value, rule):
    assert texts(job=value) == [rule]


def test_ordinals_may_be_compared():
    assert texts(degree=">= school") == ["""degree' >= "school\""""]
    assert in_words(read(degree=[">= school"]).rules[0]) == "degree must be at least school"


@pytest.mark.parametrize("value", [None, np.nan, pd.NA, pd.NaT, "", "  ", np.float32("nan")])
def test_an_empty_cell_says_nothing(value):
    found = read(freeze=[value], income=[value], job=[value], rules=[value], target=[value], difficulty=[value])
    assert (found.rules, set(found.targets), found.to_json()) == ((), {None}, [""] * len(ROWS))


def test_an_interval_without_ends_and_an_empty_freeze_forbid_nothing():
    assert texts(income=(None, None), freeze=[]) == []


def test_rules_stand_a_line_each_or_behind_semicolons_outside_quotes():
    wanted = ["age' <= 50", """job' != "cook\""""]
    assert texts(rules="age' <= 50; job' != \"cook\"  # not; this") == wanted
    assert texts(rules="age' <= 50\njob' != \"cook\"") == wanted
    assert texts(rules=["age' <= 50", 'job\' != "cook"']) == wanted
    assert texts(rules=list(parse_rules(wanted, TASK.schema))) == wanted


def test_semicolons_in_names_and_levels_end_no_rule():
    schema = Schema((Feature("a;b", "categorical", levels=("x;y", "z;", "it's; so")), Feature("n", "integer", 0, 9)))
    rows = pd.DataFrame({"a;b": ["x;y", "z;", "it's; so"], "n": [0, 1, 2]})
    text = "`a;b`' == \"x;y\"; n' >= n; `a;b`' != 'z;'; `a;b`' in {\"it's; so\"}"
    found = read(rows, odd_task(schema, rows), rules=[text])
    assert len(found.rules) == 4


def test_targets_and_difficulties_are_read_from_text_and_from_data():
    found = read(
        target=["yes", "NO", None], difficulty=["age=2, `income`: .5", {"job": np.int64(3), "age": None}, None]
    )
    assert found.targets[:4] == ("yes", "no", None, None)
    assert found.difficulty[:3] == ({"age": 2.0, "income": 0.5}, {"job": 3.0}, {})


def test_numbers_with_gaps_still_name_classes_and_levels():
    schema = Schema((Feature("code", "categorical", levels=(1, 2)), Feature("text", "categorical", levels=("1", "2"))))
    rows = pd.DataFrame({"code": [1, 2, 1], "text": ["1", "2", "1"]})
    task = odd_task(schema, rows, classes=(0, 1, 2))
    found = read(rows, task, target=[2.0, np.nan, "1.0"], code=[1.0, np.nan, "2"], text=["1.0", np.nan, 2.0])
    assert found.targets == (2, None, 1)
    assert [[r.text for r in row.rules] for row in found] == [
        ["""code' == "1\"""", """text' == "1\""""], [], ["""code' == "2\"""", """text' == "2\""""]
    ]  # fmt: skip


def test_distinct_rules_are_kept_once_and_in_an_order_of_their_own():
    found = read(freeze=["job", "age", "age, job"], rules=[None, "job' == job", None])
    assert [rule.text for rule in found.rules] == ["age' == age", "job' == job"]
    assert found.of_row[:4] == ((1,), (0, 1), (0, 1), ())
    assert found.applies(np.array([3, 2, 0])).tolist() == [[False, False], [True, True], [False, True]]


def test_rows_that_share_everything_are_one_group():
    found = read(freeze=["age", None, "age", "age"], difficulty=["job=2", None, {"job": 2}, {"job": 3}])
    groups = found.groups()
    assert [rows.tolist() for rows, *_ in groups] == [[0, 2], [1, *range(4, 40)], [3]]
    assert [([r.text for r in own], target, dict(hard)) for _, own, target, hard in groups] == [
        (["age' == age"], None, {"job": 2.0}),
        ([], None, {}),
        (["age' == age"], None, {"job": 3.0}),
    ]


def test_some_rows_keep_the_layout_of_the_rules():
    found = read(freeze=["age", "job", None], target=["yes", None, "no"])
    some = found.take(np.array([2, 1]))
    assert (some.rules, some.of_row, some.targets) == (found.rules, ((), (1,)), ("no", None))
    assert len(some) == 2


def test_labels_find_their_rows_whatever_their_order():
    found = Overrides.read(pd.DataFrame({"freeze": ["age", "job"]}, index=ROWS.index[[7, 2]]), ROWS, TASK)
    assert {i: [r.text for r in row.rules] for i, row in enumerate(found) if row.rules} == {
        7: ["age' == age"], 2: ["job' == job"],
    }  # fmt: skip


def test_labels_that_are_numbers_are_found_by_their_text():
    rows = ROWS.set_axis(np.arange(40) * 2 + 100, axis=0)
    found = Overrides.read(pd.DataFrame({"freeze": ["age", "job"]}, index=["104", "102"]), rows, TASK)
    assert found.of_row[:3] == ((), (1,), (0,))


def test_days_are_found_by_their_text():
    rows = ROWS.set_axis(pd.date_range("2024-01-01", periods=40), axis=0)
    found = Overrides.read(pd.DataFrame({"freeze": ["age"]}, index=["2024-01-03"]), rows, TASK)
    assert found.of_row[:4] == ((), (), (0,), ())


def test_rows_of_several_index_levels_are_found():
    rows = ROWS.set_axis(pd.MultiIndex.from_product([["a", "b"], range(20)]), axis=0)
    found = Overrides.read(pd.DataFrame({"freeze": ["age"]}, index=rows.index[[21]]), rows, TASK)
    assert np.flatnonzero(found.applies(np.arange(40))[:, 0]).tolist() == [21]


def test_every_fault_is_told_at_once_with_its_row_and_column():
    told = faults(
        frezze=[1, 2],
        freeze=["agee", 5],
        income=["20-40", (3, 1)],
        rules=["age' >< 3; foo' == 3", 3],
        target=["maybe", None],
        job=[["kook", "cook"], ">= cook"],
        difficulty=["age", {"age": -1, "jobb": 2}],
    )
    one, two = "row 'row 0', column", "row 'row 1', column"
    assert told[0] == "column 'frezze': is neither a feature nor an override. Did you mean 'freeze'?"
    starts = [f"{one} 'freeze': no feature 'agee'. Did you mean 'age'?", f"{two} 'freeze': 5 does not name features",
              f"{one} 'income': '20-40' cannot be read", f"{two} 'income': no number lies between 3 and 1",
              f"{one} 'rules', line 1, column 7", f"{one} 'rules', line 2, column 1: no feature 'foo'",
              f"{two} 'rules': 3 is not text", f"{one} 'target': 'maybe' is not one of the classes",
              f"{one} 'job': 'job' has no level 'kook'. Did you mean 'cook'?", f"{two} 'job': 'job' is categorical",
              f"{one} 'difficulty': 'age' does not assign a number", f"{two} 'difficulty': no feature 'jobb'",
              f"{two} 'difficulty': the difficulty of 'age' is -1"]  # fmt: skip
    assert len(told) == len(starts) + 1
    assert all(fault.startswith(start) for fault, start in zip(told[1:], starts, strict=True)), told


@pytest.mark.parametrize(
    "value", ["20, 40", "(20, 40)", "abc", True, (1, 2, 3), [5], ("a", 3), {"a"}, set(), {"low": 1}, 1e300, 10**400,
              pd.Timestamp("2024-01-01"), pd.Interval(3, 3, closed="left"), "{}", "..", np.inf]
)  # fmt: skip
def test_what_is_no_range_of_numbers_is_refused(value):
    # As an object: pandas 2 has no column for a whole number beyond every float.
    cell = pd.Series([value], ROWS.index[:1], dtype=object)
    assert faults(income=cell)[0].startswith("row 'row 0', column 'income': ")


@pytest.mark.parametrize("value", ["6,5", "<= 6,5", "6,5..8", "3..6,5"])
def test_a_number_with_a_decimal_comma_is_answered_with_the_point(value):
    assert "If the comma in 6,5 is a decimal mark, write 6.5. Write a range as" in faults(income=[value])[0]


@pytest.mark.parametrize("value", [[], set(), 5, ["cook", 5], {"cook": 1}, [["cook"]], "{}", [np.array(["a", "b"])]])
def test_what_is_no_level_is_refused(value):
    assert faults(job=[value])[0].startswith("row 'row 0', column 'job': ")


@pytest.mark.parametrize("value", ["age=0", "age=inf", {"age": np.inf}, {"age": "2"}, {"age": True}, "age=1, age=2", 3])
def test_what_is_no_difficulty_is_refused(value):
    assert faults(difficulty=[value])[0].startswith("row 'row 0', column 'difficulty': ")


def test_labels_without_a_row_and_labels_twice_are_all_listed():
    with pytest.raises(DataError) as caught:
        read(freeze=["age", "age", "agee", "job"], index=["row 3", "rwo 4", "row 3", "nobody"])
    assert [fault.place for fault in caught.value.faults] == [
        "row 'rwo 4'", "row 'row 3'", "row 'nobody'", "row 'row 3', column 'freeze'",
    ]  # fmt: skip
    assert "Did you mean 'row 4'?" in str(caught.value)


def test_a_label_of_several_rows_is_refused():
    rows = ROWS.set_axis(["a", "a", *ROWS.index[2:]], axis=0)
    with pytest.raises(DataError, match=r"row 'a': is the label of 2 of the rows to explain"):
        Overrides.read(pd.DataFrame({"freeze": ["age"]}, index=["a"]), rows, TASK)


@pytest.mark.parametrize("index", [ROWS.index, np.arange(40)[::-1]])
def test_a_table_that_only_counts_its_rows_is_not_guessed_at(index):
    with pytest.raises(DataError, match=r"overrides.index = rows.index") as caught:
        Overrides.read(pd.DataFrame({"freeze": ["age"] * 40}), ROWS.set_axis(index, axis=0), TASK)
    assert len(caught.value.faults) == 1
    counted = Overrides.read(pd.DataFrame({"freeze": ["age"] * 40}), ROWS.reset_index(drop=True), TASK)
    assert counted.of_row == ((0,),) * 40


def test_what_is_no_table_is_refused():
    with pytest.raises(DataError, match="dict"):
        Overrides.read({"freeze": ["age"]}, ROWS, TASK)  # type: ignore[arg-type]


def test_features_called_like_a_special_column_are_meant_by_a_prefix():
    schema = Schema((Feature("target", "integer", 0, 9), Feature("allow_target", "integer", 0, 9)))
    rows = pd.DataFrame({"target": [1, 2], "allow_target": [3, 4]})
    task = odd_task(schema, rows)
    found = read(rows, task, target=["no"], allow_target=["..5"], allow_allow_target=[7])
    assert [r.text for r in found.rules] == ["allow_target' == 7", "target' <= 5"]
    assert found.targets == ("no", None)
    with pytest.raises(DataError, match=r"To limit the feature 'target', name the column 'allow_target'"):
        read(rows, task, target=["..5"])


def test_a_column_that_is_there_twice_is_refused():
    table = pd.DataFrame([["age", "job", 1, 2]], columns=["freeze", "freeze", "age", "allow_age"], index=ROWS.index[:1])
    with pytest.raises(DataError) as caught:
        Overrides.read(table, ROWS, TASK)
    assert [fault.place for fault in caught.value.faults] == ["column 'freeze'", "column 'allow_age'"]


def test_a_level_that_no_rule_can_name_is_told():
    schema = Schema((Feature("a", "categorical", levels=("x\ny", "z")),))
    rows = pd.DataFrame({"a": ["x\ny", "z"]})
    with pytest.raises(DataError, match="cannot be written in a rule"):
        read(rows, odd_task(schema, rows), a=["x\ny"])


def test_contradictions_are_left_to_the_proof():
    found = read(age=["..17"], rules=["age' > 70 and age' < 60"])
    assert len(found.rules) == 2


@given(st.data())
def test_rules_made_of_cells_say_what_the_cells_say(data):
    """Whatever the names and levels: brute force over the legal values of a feature agrees."""
    schema = data.draw(schemas(max_features=3, most=20, names=NAMES))
    rows = data.draw(tables(schema, min_rows=1, max_rows=2))
    task = odd_task(schema, rows)
    feature = data.draw(st.sampled_from(schema.features))
    codes = np.arange((feature.top or 0) + 1)
    chosen = data.draw(st.lists(st.integers(0, feature.top or 0), min_size=1, max_size=4))
    values = feature.at(codes)
    if feature.is_number:
        low, high = float(min(values[chosen])), float(max(values[chosen]))
        cell, inside = data.draw(st.sampled_from([(low, high), f"{low}..{high}", pd.Interval(low, high, closed="both")])
                                 ), (values >= low) & (values <= high)  # fmt: skip
    else:
        cell, inside = [feature.levels[i] for i in chosen], np.isin(codes, chosen)
    # Line breaks have no place in a rule.
    assume(not any("\n" in str(feature.levels[i]) for i in chosen if feature.is_category))
    found = read(rows, task, **{f"allow_{feature.name}": [cell], "freeze": [[feature.name]]})
    own = [rule for rule in found.rules if not rule.freezes]
    natural = {feature.name: values}
    assert holds(own, {feature.name: np.repeat(values[:1], len(values))}, natural).tolist() == inside.tolist()
    assert [rule.freezes for rule in found.rules if rule.freezes] == [feature.name]


CELLS: dict[str, Any] = {
    "freeze": st.lists(st.sampled_from(loans.SCHEMA.names)),
    "income": st.one_of(st.none(), st.tuples(st.floats(-1e3, 0), st.floats(0, 1e6))),
    "job": st.one_of(st.none(), st.sets(st.sampled_from(["clerk", "cook", "smith"]), min_size=1)),
    "target": st.sampled_from([None, "no", "yes"]),
    "rules": st.lists(st.sampled_from(["age' > age", "`age`' <= 40 or job' == job", 'job\' != "cook"'])),
    "difficulty": st.dictionaries(st.sampled_from(loans.SCHEMA.names), st.floats(1e-3, 1e3)),
}


@settings(max_examples=25)
@given(st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_files_hold_all_of_it_and_no_row_depends_on_another(cells, order):
    columns = {name: pd.Series([cell[name] for cell in cells], dtype=object) for name in CELLS}
    table = pd.DataFrame(columns).set_axis(ROWS.index[: len(cells)], axis=0)
    found = Overrides.read(table, ROWS.head(len(cells)), TASK)
    again = Overrides.from_json(found.to_json(), TASK)
    assert (again.rules, again.of_row, again.targets) == (found.rules, found.of_row, found.targets)
    assert list(map(dict, again.difficulty)) == list(map(dict, found.difficulty))
    which = order.sample(range(len(cells)), len(cells))
    shuffled = Overrides.read(table.iloc[which], ROWS.head(len(cells)), TASK)
    assert shuffled.to_json() == found.to_json()
    alone = [Overrides.read(table.iloc[[i]], ROWS.iloc[[i]], TASK).to_json()[0] for i in range(len(cells))]
    assert alone == found.to_json()
    grouped = {i: g for g, (rows, *_) in enumerate(found.groups()) for i in rows.tolist()}
    same = [[grouped[i] == grouped[j] for j in grouped] for i in grouped]
    lines = found.to_json()
    assert same == [[lines[i] == lines[j] for j in grouped] for i in grouped]


def test_damaged_lines_are_told_by_their_number():
    lines = [
        "{",
        "[1]",
        '{"rulez": []}',
        '{"rules": ["agee\' > 3"], "target": "x"}',
        '{"difficulty": {"age": NaN}}',
        "",
    ]
    with pytest.raises(FormatError) as caught:
        Overrides.from_json(lines, TASK)
    places = [fault.place.split(",")[0] for fault in caught.value.faults]
    assert places == [f"overrides of row {i}" for i in (1, 2, 3, 4, 4)]


def test_an_empty_line_is_a_row_without_overrides():
    assert Overrides.from_json(["", ""], TASK).groups()[0][0].tolist() == [0, 1]


RECORDS = [
    {"row": 7, "freeze": ["age", "job"], "income": [20, 40], "target": "no", "difficulty": {"age": 2}},
    {"row": 3, "job": ["cook", "clerk"], "rules": "age' > age; income' <= 3000"},
]
WRITTEN = ['{"rules": ["age\' > age", "income\' <= 3000", "job\' in {\\"clerk\\", \\"cook\\"}"]}',
           '{"rules": ["20 <= income\' <= 40", "age\' == age", "job\' == job"], "target": "no", '
           '"difficulty": {"age": 2.0}}']  # fmt: skip


def read_file(path: Path) -> list[str]:
    rows = ROWS.head(10).reset_index(drop=True)
    found = Overrides.read(read_overrides(path), rows, TASK).to_json()
    assert [i for i, line in enumerate(found) if line] == [3, 7]
    return [found[3], found[7]]


def test_overrides_come_from_json_by_row_or_by_label(tmp_path: Path):
    (tmp_path / "a.json").write_text(json.dumps(RECORDS))
    named = {str(r["row"]): {k: v for k, v in r.items() if k != "row"} for r in RECORDS}
    (tmp_path / "b.json").write_text(json.dumps(named))
    assert read_file(tmp_path / "a.json") == read_file(tmp_path / "b.json") == WRITTEN


def test_overrides_come_from_csv(tmp_path: Path):
    path = tmp_path / "own.csv"
    path.write_text(
        "row,freeze,income,job,target,difficulty,rules\n"
        '7,"age, job",20..40,,no,age=2,\n'
        '3,,,"{cook, clerk}",,,"age\' > age; income\' <= 3000"\n'
    )
    assert read_file(path) == WRITTEN


@pytest.mark.parametrize("indexed", [True, False])
def test_overrides_come_from_parquet(tmp_path: Path, indexed):
    table = pd.DataFrame(RECORDS)
    (table.set_index("row") if indexed else table).to_parquet(tmp_path / "own.parquet")
    assert read_file(tmp_path / "own.parquet") == WRITTEN


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.json", "[1]", "neither a list of objects"),
        ("a.json", "{", "cannot be read as JSON"),
        ("a.json", '[{"freeze": "age"}]', "column 'row': is missing"),
        ("a.json", '[{"row": null}, {"row": 1}, {}]', "entry 3"),
        ("a.csv", "Row,freeze\n1,age\n", "Did you mean 'Row'"),
        ("a.parquet", "no parquet", "cannot be read as parquet"),
    ],
)
def test_files_that_cannot_be_used_are_refused(tmp_path: Path, name, content, told):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=told):
        read_overrides(tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    (tmp_path / "own.csv").write_text("row\n1\n")
    with pytest.raises(DataError, match=r"Did you mean 'own.csv'\?"):
        read_overrides(tmp_path / "owm.csv")


def explained(task: Task, rows: pd.DataFrame, own: Overrides) -> list[tuple[np.ndarray, Explanation]]:
    """The answers of each group, searched with its own rules, target and difficulties."""
    return [
        (which, Search(task.relaxed(rules=(*task.rules, *rules), target=target), difficulty=hard).explain(rows.iloc[which]))
        for which, rules, target, hard in own.groups()
    ]  # fmt: skip


@pytest.fixture(scope="module")
def refused() -> pd.DataFrame:
    return ROWS[TASK.refused(ROWS)].head(12)


def test_frozen_features_stay_and_ranges_and_levels_hold(refused: pd.DataFrame):
    cells = {
        "freeze": [["income"], None, "age, degree", None] * 3,
        "income": [None, "..3000", None, None] * 3,
        "job": [None, None, ["cook"], {"clerk", "smith"}] * 3,
    }
    own = read(refused, **cells)
    status = np.full(len(refused), "", dtype=object)
    for which, answer in explained(TASK, refused, own):
        status[which] = answer.status
        before, after = refused.iloc[which[answer.place]].reset_index(drop=True), answer.answers
        kind = which[0] % 4
        if kind == 0:
            assert (after["income"] == before["income"]).all()
        elif kind == 1:
            assert (after["income"] <= 3000).all()
        elif kind == 2:
            assert (after[["age", "degree"]] == before[["age", "degree"]]).all(axis=None)
            assert (after["job"] == "cook").all()
        else:
            assert after["job"].isin(["clerk", "smith"]).all()
    assert (status == "verified").sum() >= 9
    assert set(status) <= {"verified", "impossible"}


def test_a_row_whose_own_rules_contradict_the_others_is_proved_impossible(refused: pd.DataFrame):
    own = read(refused.head(2), rules=["age' < age", "age' >= age"])
    status = [answer.status.iloc[0] for _, answer in explained(TASK, refused.head(2), own)]
    assert status == ["impossible", "verified"]


def test_what_is_difficult_for_a_row_is_left_alone(refused: pd.DataFrame):
    usual = explained(TASK, refused, read(refused, freeze=[None]))[0][1]
    hard = explained(TASK, refused, read(refused, difficulty=["income=100"] * len(refused)))[0][1]
    place = loans.SCHEMA.names.index("income")
    moved = [int(answer.checks.changed[:, place].sum()) for answer in (usual, hard)]
    assert moved[1] < moved[0]


def three_classes(rows: pd.DataFrame) -> np.ndarray:
    """Small, medium or large loans, by income alone."""
    bands = np.stack([rows["income"] < 1000, rows["income"].between(1000, 2500), rows["income"] > 2500], axis=1)
    return np.where(bands, 0.8, 0.1)


def test_rows_may_want_different_classes_of_several():
    task = Task(loans.table(), three_classes, schema=loans.SCHEMA, target="large", classes=("small", "medium", "large"))
    rows = loans.table(12, seed=2)
    wanted = ["small", "medium", "large", None] * 3
    own = read(rows, task, target=wanted)
    asked = np.array([w or "large" for w in wanted])
    now = task.predict(rows)
    for which, answer in explained(task, rows, own):
        assert (answer.status == np.where(now[which] == asked[which], "already", "verified")).all()
        assert (task.predict(answer.answers) == asked[which][now[which] != asked[which]]).all()


def test_rows_may_want_different_classes_at_another_threshold():
    task = loans.task(threshold=0.8)
    rows = loans.table(12, seed=2)
    own = read(rows, task, target=["no", "yes"] * 6)
    for which, answer in explained(task, rows, own):
        wanted = "no" if which[0] % 2 == 0 else "yes"
        now = (loans.chance(rows.iloc[which]) >= 0.8) == (wanted == "yes")
        assert (answer.status[now] == "already").all()
        after = loans.chance(answer.answers) >= 0.8
        assert len(after)
        assert (after == (wanted == "yes")).all()


def test_a_mapping_by_label_says_the_same_as_a_table():
    first, second = ROWS.index[:2]
    mapping = {first: {"freeze": ["age", "job"], "income": (20, 40)}, second: {"target": "no", "age": 30}}
    table = pd.DataFrame(
        {"freeze": [["age", "job"], None], "income": [(20, 40), None], "target": [None, "no"], "age": [None, 30]},
        index=[first, second],
        dtype=object,
    )
    assert Overrides.read(mapping, ROWS, TASK).to_json() == Overrides.read(table, ROWS, TASK).to_json()


def test_labels_of_a_mapping_may_be_counted():
    rows = ROWS.reset_index(drop=True)
    own = Overrides.read({0: {"freeze": "age"}, 1: {"freeze": "job"}}, rows, TASK)
    assert [rule.text for rule in own.rules] == ["age' == age", "job' == job"]


@pytest.mark.parametrize("given", [["age"], "age", {"freeze": "age"}, 3])
def test_what_is_no_table_of_overrides_is_refused_with_the_way_to_one(given):
    with pytest.raises(
        DataError, match=r"DataFrame with the rows' labels as its index, or a mapping \{label: \{column"
    ):
        Overrides.read(given, ROWS, TASK)


@pytest.mark.parametrize(("column", "cell"), [("difficulty", "a" + " " * 10**6 + "x"), ("rules", "“" * 10**6)])
def test_a_long_cell_that_says_nothing_is_refused_in_one_pass(column, cell):
    # Read as often as it has characters, it would take days.
    assert len(faults(**{column: [cell]})) == 1


@pytest.mark.parametrize(("text", "name"), [("a==2", "a="), ("a:b = 2", "a:b"), ("a \t: -2", "a"), ("`a`=2", "a")])
def test_the_last_sign_parts_a_feature_from_its_difficulty(text, name):
    assert any(repr(name) in told for told in faults(difficulty=[text]))
