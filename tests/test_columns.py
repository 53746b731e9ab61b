"""Columns as people have them: dates, booleans, codes, nullable and arrow types, constants, many of them."""

from __future__ import annotations

import datetime
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fcxplain import Explanation, FCx, Feature, Schema, Task, load_table
from fcxplain.datasets import read_table
from fcxplain.errors import FcxWarning, RuleError, SchemaError
from fcxplain.explanation.files.loading import read_answers
from fcxplain.rules import holds, in_words, parse
from fcxplain.schema import natural_column
from fcxplain.schema.column import ROOM, UNSEEN

FIRST = 17_000  # 2016-07-18
ROWS = 120
DAYS = FIRST + np.arange(ROWS) * 37 % 1_000
MOMENTS = DAYS.astype("datetime64[D]")
COLUMNS = {
    "seconds": pd.Series(MOMENTS.astype("datetime64[s]")),
    "nanoseconds": pd.Series(MOMENTS.astype("datetime64[ns]")),
    "zone": pd.Series(MOMENTS.astype("datetime64[us]")).dt.tz_localize("Europe/Berlin"),
    "objects": pd.Series(MOMENTS.astype(object), dtype=object),
    "text": pd.Series(np.datetime_as_string(MOMENTS)),
    "arrow": pd.Series(MOMENTS.astype("datetime64[s]")).astype("date32[pyarrow]"),
    "arrow moments": pd.Series(MOMENTS.astype("datetime64[s]")).astype("timestamp[ms][pyarrow]"),
    "arrow text": pd.Series(np.datetime_as_string(MOMENTS)).astype("string[pyarrow]"),
}


def day(text: str) -> int:
    return int(np.datetime64(text, "D").astype(np.int64))


class Seeing:
    """A model that reads the dates of a table in whatever they come, and remembers the dtypes that it saw."""

    classes_ = np.array(["no", "yes"])

    def __init__(self) -> None:
        self.saw: set[tuple[str, type]] = set()

    def __call__(self, rows: pd.DataFrame) -> Any:
        column = rows["start"]
        self.saw.add((str(column.dtype), type(column.iloc[0])))
        days = np.array([day(str(value)[:10]) for value in column])
        return 1 / (1 + np.exp(-(days - FIRST - 700) / 50))


def asked(column: pd.Series, rules: Any = ()) -> tuple[Seeing, Task, Explanation]:
    model, table = Seeing(), pd.DataFrame({"start": column, "size": np.arange(ROWS) % 7})
    task = Task(table, model, target="yes", classes=("no", "yes"), rules=rules)
    refused = table[task.refused(table)].head(4)
    model.saw.clear()
    return model, task, FCx(generator=False, oracle="model").fit(task).explain(refused)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_date_of_any_dtype_is_explained_in_the_dtype_that_the_model_was_trained_on(name: str, tmp_path: Path) -> None:
    column = COLUMNS[name]
    model, task, found = asked(column, "start' >= start + 30\nstart' <= 2018-12-31")
    assert task.schema["start"] == Feature("start", "date", low="2016-07-18", high=MOMENTS.max().astype(object))
    assert set(found.status) == {"verified"}
    assert model.saw == {(str(column.dtype), type(column.iloc[0]))}
    assert found.frame["start"].dtype == column.dtype
    (change,) = found.certificates[0].changes
    assert day(change.then) >= day(change.now) + 30
    assert json.loads(found.to_json())["answers"][0]["counterfactual"]["start"] == change.then
    found.to_parquet(tmp_path / "a.parquet")
    kept = read_answers(tmp_path / "a.parquet", task)
    assert kept.certificates[0].changes == (change,)
    found.to_csv(tmp_path / "a.csv")
    assert change.then in (tmp_path / "a.csv").read_text()
    assert f"{change.then}" in found.to_html(group="start")


def test_dates_before_1900_are_dates() -> None:
    column = pd.Series(["1683-09-12", "1848-03-18", "1899-12-31"])
    for given in (column, column.astype("datetime64[s]")):
        schema = Schema.infer(pd.DataFrame({"start": given}))
        assert str(schema) == "start: date, 1683-09-12 to 1899-12-31 by 1 (bounds guessed)"
        natural = schema.natural(pd.DataFrame({"start": given}))
        assert natural["start"].tolist() == [day(text) for text in column]
        assert schema.table(natural, dtypes={"start": given.dtype})["start"].tolist() == given.tolist()
        assert Schema.from_toml(schema.to_toml()) == schema


def test_what_stands_in_the_way_is_found_beside_dates() -> None:
    _, task, _ = asked(COLUMNS["seconds"])
    narrow = Task(task.train, Seeing(), target="yes", classes=("no", "yes"), rules="start' <= start + 1\nsize' == size")
    rows = narrow.train[narrow.refused(narrow.train)].head(2)
    found = FCx(generator=False, oracle="model").fit(narrow).explain(rows, why_not=True)
    assert found.counts == {"impossible": 2}
    assert all("start must not increase by more than 1" in words for words in found.why_not)


def test_a_date_with_the_midnight_that_databases_write_is_that_date() -> None:
    start = Schema.infer(pd.DataFrame({"start": pd.date_range("2026-01-01", periods=9)}))["start"]
    given = pd.Series(["2026-01-03 00:00:00", "2026-01-04T00:00", "2026-01-05 00:00:00.000"])
    assert natural_column(start, given).tolist() == natural_column(start, pd.to_datetime(given.str[:10])).tolist()
    with pytest.raises(SchemaError, match="2026-01-03 08:30:00"):
        natural_column(start, pd.Series(["2026-01-03 08:30:00"]))


def test_a_date_that_nanoseconds_cannot_hold_is_kept_in_seconds() -> None:
    feature = Feature("start", "date", low="1066-10-14", high="2026-12-31")
    table = Schema((feature,)).table({"start": np.array([day("1066-10-14")])}, dtypes={"start": "datetime64[ns]"})
    assert str(table["start"].iloc[0])[:10] == "1066-10-14"


def test_toml_has_dates_as_text_and_reads_its_own_kind_too() -> None:
    schema = Schema((Feature("start", "date", low=datetime.date(2020, 1, 1), high="2026-12-31", step=7),))
    text = schema.to_toml()
    assert 'low = "2020-01-01"' in text
    assert Schema.from_toml(text) == schema
    assert Schema.from_toml(text.replace('"2020-01-01"', "2020-01-01")) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


@pytest.mark.parametrize("value", ["31.12.2026", "2026-02-30", 1e12, True, "2026"])
def test_a_bound_that_is_no_date_is_refused(value: Any) -> None:
    with pytest.raises(SchemaError, match=r"not a date\. Write it as 2026-12-31"):
        Feature("start", "date", low=value, high="2026-12-31")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pd.Series(["2020-01-01", "2020-13-01"]), "should be date but is str"),
        (pd.Series([1, 2]), "should be date but is int64"),
        (pd.to_datetime(pd.Series(["2020-01-01 00:00", "2020-01-01 08:30"])), "has a time of day"),
        (pd.Series(["2020-01-01", "2019-12-31"]), "is below 2020-01-01, e.g. 2019-12-31"),
        (pd.Series(["2020-01-01", None]), "is empty or marked as missing"),
    ],
)
def test_a_column_that_does_not_hold_the_dates_of_a_schema_is_refused(column: pd.Series, said: str) -> None:
    schema = Schema((Feature("start", "date", low="2020-01-01", high="2026-12-31"),))
    with pytest.raises(SchemaError, match=said):
        schema.validate(pd.DataFrame({"start": column}))


DATED = Schema(
    (
        Feature("start", "date", low="2020-01-01", high="2026-12-31"),
        Feature("end", "date", low="2020-01-01", high="2026-12-31"),
        Feature("size", "integer", low=0, high=3000),
        Feature("wave", "categorical", levels=("2020-01-01", "2021-01-01")),
    )
)


@pytest.mark.parametrize(
    ("text", "words", "kept"),
    [
        ("start' >= start + 30", "start must increase by at least 30 days", True),
        ("start' <= 2026-12-31", "start must be no later than 2026-12-31", True),
        ('start\' > "2024-03-01"', "start must be after 2024-03-01", False),
        ("2020-01-01 <= start' <= 2024-02-29", "start must be between 2020-01-01 and 2024-02-29", False),
        ("start' in {2024-03-01, 2024-04-01}", "start must be 2024-03-01 or 2024-04-01", True),
        ("end' - start' >= 30", "end - start must be at least 30", True),
        ("abs(start' - 2024-03-01) <= 10", "the size of (start - 19783) must be at most 10", True),
        ("wave' == 2020-01-01", "wave must be 2020-01-01", True),
    ],
)
def test_rules_compare_dates(text: str, words: str, kept: bool) -> None:
    rule = parse(text, DATED)
    now = {"start": np.array([day("2024-01-01")]), "end": np.array([day("2024-01-01")]), "wave": np.array([0])}
    then = now | {"start": np.array([day("2024-03-01")]), "end": np.array([day("2024-04-01")])}
    assert in_words(rule) == words or "abs" in text
    assert holds(rule, now, then).tolist() == [kept]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("start' <= 20000", "'start' is a date, but is not compared with one"),
        ("size' <= 2026-12-31", "a date is compared with 'size', which is not a date"),
        ("start' <= 2026-02-30", "2026-02-30 is not a calendar date"),
        ("start' in {soon}", "'soon' is not a date"),
    ],
)
def test_a_date_beside_what_is_none_is_a_mistake(text: str, said: str) -> None:
    with pytest.raises(RuleError, match=said):
        parse(text, DATED)


@pytest.mark.parametrize(
    "cell", [">= 2018-10-01", "2018-10-01..", "2018-10-01..2019-01-01", (datetime.date(2018, 10, 1), None)]
)
def test_dates_can_be_limited_for_single_rows(cell: Any) -> None:
    column = COLUMNS["text"]
    table = pd.DataFrame({"start": column, "size": np.arange(ROWS) % 7})
    task = Task(table, Seeing(), target="yes", classes=("no", "yes"))
    refused = table[task.refused(table)].head(2)
    own = pd.DataFrame({"start": [cell, None]}, index=refused.index)
    found = FCx(generator=False, oracle="model").fit(task).explain(refused, overrides=own)
    first, second = (c.changes[0].then for c in found.certificates)
    assert first >= "2018-10-01" > second


def test_dates_come_and_go_through_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    table = pd.DataFrame(
        {"start": COLUMNS["text"], "size": np.arange(ROWS) % 7, "y": np.where(DAYS > 17_600, "a", "b")}
    )
    table.to_csv(path, index=False)
    data = load_table(path, label="y")
    assert data.schema["start"].kind == "date"
    assert read_table(path, schema=data.schema)["start"].tolist() == table["start"].tolist()


BOOLEANS = {
    "plain": pd.Series([True, False] * 30),
    "nullable": pd.Series([True, False] * 30, dtype="boolean"),
    "arrow": pd.Series([True, False] * 30, dtype="bool[pyarrow]"),
    "objects": pd.Series([True, False] * 30, dtype=object),
}


@pytest.mark.parametrize("name", BOOLEANS)
def test_a_boolean_of_any_dtype_is_two_levels_and_the_model_sees_what_it_was_trained_on(name: str) -> None:
    table, saw = pd.DataFrame({"paid": BOOLEANS[name], "age": range(60)}), set()

    def model(rows: pd.DataFrame) -> Any:
        saw.add(str(rows["paid"].dtype))
        return np.where(rows["paid"].to_numpy(dtype=bool), 0.9, 0.1)

    task = Task(table, model, target=1, rules="age' == age")
    assert task.schema["paid"] == Feature("paid", "categorical", levels=(False, True))
    found = FCx(generator=False, oracle="model").fit(task).explain(table.iloc[[1]])
    assert found.certificates[0].changes[0].then is True
    assert saw == {str(BOOLEANS[name].dtype)}
    assert found.frame["paid"].tolist() == [True]


def test_arrow_and_nullable_types_are_explained_as_they_are() -> None:
    table = pd.DataFrame(
        {
            "whole": pd.Series(range(60), dtype="int64[pyarrow]"),
            "part": pd.Series(np.arange(60) / 4, dtype="double[pyarrow]"),
            "town": pd.Series(["Bonn", "Köln", "Ulm"] * 20, dtype="string[pyarrow]"),
            "count": pd.Series(np.arange(60) % 5, dtype="Int8"),
            "rate": pd.Series(np.arange(60) / 8, dtype="Float64"),
        }
    )
    saw = set()

    def model(rows: pd.DataFrame) -> Any:
        saw.add(tuple(map(str, rows.dtypes)))
        return rows["whole"].to_numpy(dtype=float) / 60

    task = Task(table, model, target=1)
    assert [f.kind for f in task.schema] == ["integer", "continuous", "categorical", "integer", "continuous"]
    found = FCx(generator=False, oracle="model").fit(task).explain(table.head(3))
    assert set(found.status) == {"verified"}
    assert saw == {tuple(map(str, table.dtypes))}


def test_constant_columns_are_kept_and_never_change() -> None:
    table = pd.DataFrame(
        {"x": range(40), "one": 7, "half": 0.5, "town": "Ulm", "yes": True, "day": pd.Timestamp("2020-01-01")}
    )
    task = Task(table, lambda rows: rows["x"].to_numpy() / 40, target=1)
    found = FCx(generator=False).fit(task).explain(table.head(2))
    assert set(found.status) == {"verified"}
    assert {c.feature for certificate in found.certificates for c in certificate.changes} == {"x"}
    assert "constant" in Schema.infer(table).report()


def test_an_infinite_value_is_named_with_its_row() -> None:
    table = pd.DataFrame({"x": [1.0, np.inf, 3.0], "y": [1, 2, 3]}, index=["a", "b", "c"])
    with pytest.raises(SchemaError, match=r"column 'x': is infinite \(1 row, first at index 'b'\)"):
        Schema.infer(table)


def test_leading_zeros_stay_text_through_a_csv_file(tmp_path: Path) -> None:
    path, codes = tmp_path / "t.csv", [f"{i % 45:05}" for i in range(200)]
    pd.DataFrame({"code": codes, "x": range(200), "y": ["a", "b"] * 100}).to_csv(path, index=False)
    data = load_table(path, label="y")
    assert data.schema["code"].levels[:2] == ("00000", "00001")
    assert read_table(path, schema=data.schema)["code"].tolist() == codes


def test_features_named_immutable_may_not_change_in_a_task() -> None:
    table = pd.DataFrame({"age": range(60), "wage": range(60), "id": [f"C{i}" for i in range(60)]})
    model = lambda rows: rows["wage"].to_numpy() / 60  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error", FcxWarning)
        task = Task(table, model, target=1, immutable=["age", "id"])
    assert task.schema.immutable == ("age", "id")
    assert Task(table, model, target=1, schema=Schema.infer(table[["age", "wage"]]), immutable="age").frozen == {"age"}
    for schema in (None, task.schema):
        with pytest.raises(SchemaError, match=r"'aeg'.*Did you mean 'age'\?(.|\n)*'wag'.*Did you mean 'wage'\?"):
            Task(table, model, target=1, schema=schema, immutable=["aeg", "wag"])


SHOP = Schema((Feature("shop", "categorical", levels=("here", "there"), guessed=("levels",)),))


def test_a_stream_of_unseen_levels_is_read_and_written_in_bounded_memory() -> None:
    size, in_use = 1_000, list[tuple[list[str], dict[str, Any]]]()
    for start in range(0, 3 * ROOM, size):
        texts = [f"shop {i}" for i in range(start, start + size)]
        in_use = [*in_use[-1:], (texts, SHOP.natural(pd.DataFrame({"shop": texts})))]
        assert [SHOP.table(natural)["shop"].tolist() for _, natural in in_use] == [given for given, _ in in_use]
    assert len(UNSEEN) < 2 * ROOM


def test_a_table_with_more_unseen_levels_than_usual_is_kept_as_a_whole() -> None:
    schema = Schema((Feature("place", "categorical", levels=("here", "there"), guessed=("levels",)),))
    texts = [f"place {i}" for i in range(2 * ROOM)]
    assert schema.table(schema.natural(pd.DataFrame({"place": texts})))["place"].tolist() == texts


def test_an_unseen_level_has_one_code_whenever_it_is_read() -> None:
    first = SHOP.natural(pd.DataFrame({"shop": ["where", "here"]}))
    for start in range(0, 2 * ROOM, 10_000):
        SHOP.natural(pd.DataFrame({"shop": [f"else {i}" for i in range(start, start + 10_000)]}))
    again = SHOP.natural(pd.DataFrame({"shop": ["here", "where", "elsewhere"]}))
    assert first["shop"].tolist() == again["shop"].tolist()[1::-1]
    assert -1 > again["shop"][2] != again["shop"][1]


def test_unseen_levels_of_different_types_have_different_codes() -> None:
    values = [1, 1.5, True, "1", "True", datetime.date(2026, 1, 1), "2026-01-01"]
    codes = [int(natural_column(SHOP["shop"], pd.Series([v], dtype=object))[0]) for v in values]
    assert len({code for code in codes if code < -1}) == len(values)


def test_an_unseen_level_that_was_forgotten_is_an_error_and_no_other_value() -> None:
    with pytest.raises(SchemaError, match=r"column 'shop'.*read too long ago"):
        SHOP.table({"shop": np.asarray([-12_345])})
