"""What schema.inference guesses from a table, and what it refuses."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from fcxplain.errors import FcxWarning, SchemaError
from fcxplain.schema import Feature, Schema


def inferred(column: Any) -> Feature:
    """The feature guessed from one column; a guess must fit the values that it was made from."""
    table = pd.DataFrame({"x": column})
    before = table.copy(deep=True)
    schema = Schema.infer(table)
    schema.validate(table.dropna())
    pd.testing.assert_frame_equal(table, before)
    return schema["x"]


def refusal(column: Any) -> str:
    with pytest.raises(SchemaError) as caught:
        Schema.infer(pd.DataFrame({"x": column}))
    return str(caught.value)


@pytest.mark.parametrize(
    ("column", "feature"),
    [
        ([3, -1, 2], Feature("x", "integer", low=-1, high=3)),
        ([3.0, np.nan, 1.0, 2.0], Feature("x", "integer", low=1, high=3)),
        ([5, 5], Feature("x", "integer", low=5, high=5)),
        ([0.0, 0.0], Feature("x", "integer", low=0, high=0)),
        ([0, 1, 1], Feature("x", "categorical", levels=(0, 1))),
        ([1.5, 0.25, -3.0], Feature("x", "continuous", low=-3, high=1.5, decimals=2)),
        ([0.1, 0.1], Feature("x", "continuous", low=0.1, high=0.1, decimals=1)),
        (np.array([0.1, 0.2, 0.7], dtype="float32"), Feature("x", "continuous", low=0.1, high=0.7, decimals=1)),
        (pd.array([0.1, None, 0.7], dtype="Float32"), Feature("x", "continuous", low=0.1, high=0.7, decimals=1)),
        (pd.array([7, None, 9, 8], dtype="Int64"), Feature("x", "integer", low=7, high=9)),
        (pd.array([7, 9, 8], dtype="int8[pyarrow]"), Feature("x", "integer", low=7, high=9)),
        (pd.Series([1, 2, 4], dtype=object), Feature("x", "integer", low=1, high=4)),
        (pd.Series([1, 2.5, 4], dtype=object), Feature("x", "continuous", low=1, high=4, decimals=1)),
        ([Decimal("0.1"), Decimal("0.35")], Feature("x", "continuous", low=0.1, high=0.35, decimals=2)),
        ([True, True], Feature("x", "categorical", levels=(False, True))),
        (pd.array([True, None], dtype="boolean"), Feature("x", "categorical", levels=(False, True))),
        (pd.Series([True, None], dtype=object), Feature("x", "categorical", levels=(False, True))),
        (["b", "a", None], Feature("x", "categorical", levels=("a", "b"))),
        (pd.Series(["b", "a"], dtype="string[pyarrow]"), Feature("x", "categorical", levels=("a", "b"))),
        (["", "😀", "a\nb"], Feature("x", "categorical", levels=("", "a\nb", "😀"))),
        (["2", "1", "3"], Feature("x", "categorical", levels=("1", "2", "3"))),
        (pd.Categorical(["b"], ["b", "a"]), Feature("x", "categorical", levels=("b", "a"))),
        (pd.Categorical(["b"], ["b", "a"], ordered=True), Feature("x", "ordinal", levels=("b", "a"))),
        (pd.Categorical([3, 1]), Feature("x", "categorical", levels=(1, 3))),
    ],
)
def test_kinds_bounds_and_levels_are_guessed(column: Any, feature: Feature) -> None:
    assert inferred(column) == feature


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.to_datetime(["2020-01-01 12:30"]), "has a time of day"),
        (pd.to_timedelta([1], "D"), "holds times"),
        (pd.period_range("2020", periods=2, freq="M"), "holds times"),
        ([datetime.time(12, 30)], "holds times"),
        ([f"0{i}.01.2020" for i in range(1, 7)], "not in ISO format"),
        (pd.Categorical(pd.to_datetime(["2020-01-01"])), "Convert it to text"),
        (pd.cut([1, 2, 3], 2), "Convert it to text"),
        ([str(i) for i in range(50)], "numbers stored as text, e.g. '0'"),
        ([*(str(i) for i in range(50)), "n/a"], "numbers stored as text, but also 'n/a'"),
        (pd.Series(["a", 1], dtype=object), "mixes values of type int and str"),
        (pd.Series([Decimal(1), 0.5], dtype=object), "mixes values of type Decimal and float"),
        (pd.Series([b"a"], dtype=object), "holds values of type bytes"),
        ([1j, 2], "holds values of type complex"),
        (pd.Series([[1], [2]], dtype=object), "not levels"),
        ([np.nan, np.nan], "has no values at all"),
        (pd.Series([None, None], dtype=object), "has no values at all"),
        ([1.0, np.inf, -np.inf], "is infinite (2 rows, first at index 1)"),
        ([2**60, 2**60 + 1, 5], "whole numbers up to 1.15292e+18"),
        ([2**70, 1, 2], "Drop it if it is an identifier"),
        ([1e300, 1.5, 2], "rescale the column"),
        ([1.7e308, -1.7e308, 0.5], "rescale the column"),
        ([1e-300, 2e-300, 3e-300], "rescale the column"),
        ([5e-324, 1e-323, 0.0], "rescale the column"),
        ([f"v{i}" for i in range(5000)], "has 5,000 different values"),
        (["\ud800", "a"], "valid text"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_cannot_be_a_feature_is_refused_with_a_reason(column: Any, message: str) -> None:
    text = refusal(pd.Series(column, dtype=object) if message == "valid text" else column)
    assert message in text
    assert "'x'" in text


def test_five_thousand_levels_of_a_category_are_taken() -> None:
    levels = [f"v{i:04}" for i in range(5000)]
    assert inferred(pd.Categorical(levels)).levels == tuple(levels)


def test_values_with_many_decimals_get_a_default_step_and_hold_every_row() -> None:
    values = np.random.default_rng(0).normal(size=200)
    feature = inferred(values)
    assert feature.low is not None
    assert feature.high is not None
    assert feature.low <= values.min() <= values.max() <= feature.high
    assert 100_000 <= (feature.top or 0) <= 1_100_000
    assert np.abs(feature.at(feature.codes(values)) - values).max() <= (feature.step or 0) / 2 * 1.001


@pytest.mark.parametrize("base", [0.0, 1e6, 1e12, -1e12])
def test_a_narrow_range_far_from_zero_can_be_guessed(base: float) -> None:
    feature = inferred(base + np.array([0.001, 0.0125, 1 / 3]))
    assert feature.kind == "continuous"
    assert (feature.top or 0) >= 1


def test_every_bad_column_is_reported_at_once() -> None:
    table = pd.DataFrame({"ok": [1, 2], "bad": [np.inf, 1], "worse": pd.to_timedelta([1, 2], "D")})
    with pytest.raises(SchemaError) as caught:
        Schema.infer(table)
    assert [f.place for f in caught.value.faults] == ["column 'bad'", "column 'worse'"]


def test_label_and_immutables_are_taken_by_name() -> None:
    table = pd.DataFrame({"age": [1, 2, 3], "race": ["a", "b", "a"], "y": [0, 1, 0]})
    schema = Schema.infer(table, label="y", immutable=["race"])
    assert schema.names == ("age", "race")
    assert schema.immutable == ("race",)
    with pytest.raises(SchemaError) as caught:
        Schema.infer(table, label="z", immutable=["rase"])
    assert "Did you mean 'race'?" in str(caught.value)
    assert len(caught.value.faults) == 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "not a pandas DataFrame"),
        (pd.DataFrame(), "no rows"),
        (pd.DataFrame({"a": []}), "no rows"),
        (pd.DataFrame(index=[0, 1]), "no feature columns"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than once"),
        (pd.DataFrame([[1, 2]]), "has a int for a name"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), "has a tuple for a name"),
        (pd.DataFrame({"a\nb": [1, 2, 3]}), "line breaks"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(table: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.infer(table)


def test_the_report_says_what_was_guessed_and_why() -> None:
    table = pd.DataFrame(
        {
            "income": [1_234_567, 20, 30],
            "flag": [0, 1, 0],
            "score": [0.5, 0.25, 1],
            "fixed": [3, 3, 3],
            "job": ["a", "b", "a"],
        }
    )
    report = Schema.infer(table).report().splitlines()
    assert report == [
        "income  integer from 20 to 1234567: every value is a whole number.",
        "flag    categorical with 2 levels: only two whole numbers occur, 0 and 1. "
        "Make it an integer if it is a count.",
        "score   continuous from 0.25 to 1.0 by 0.01: values have 2 decimals.",
        "fixed   integer from 3 to 3: every value is a whole number. It is constant and cannot change.",
        "job     categorical with 2 levels: the values are text.",
    ]


@given(st.data())
def test_a_guess_holds_every_row_it_was_made_from(data: st.DataObject) -> None:
    table = data.draw(strategies.tables(data.draw(strategies.schemas()), min_rows=2))
    try:
        schema = Schema.infer(table)
    except SchemaError:
        return  # some texts look like dates
    schema.validate(table)
    assert Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (range(1000, 30_000, 100), 100),
        ([100 * i for i in (1, 2, 4, 7, 11, 12, 14, 15, 18, 20)], 100),
        (range(0, 60, 5), 5),
        (range(99, 5099, 100), 100),
        (range(-40, 44, 4), 4),
        (range(0, 42, 2), 2),
        (range(0, 90, 10), 1),
        (range(0, 40, 2), 1),
        ([*range(1000, 30_000, 100), 1001], 1),
        (range(50), 1),
        ([i / 4 for i in range(1, 60)], 0.25),
        ([i / 2 for i in range(1, 60)], 0.5),
        ([i * 0.05 for i in range(1, 60)], 0.05),
        ([0.1 + i / 2 for i in range(60)], 0.1),
        ([0.5, 1.0, 2.5], 0.1),
    ],
)
def test_the_step_is_the_common_divisor_where_enough_values_share_it(values: Any, step: float) -> None:
    values = [round(v, 10) for v in values]
    feature = inferred(values)
    assert feature.step == step
    assert feature.on_grid(np.asarray(values, dtype=np.float64)).all()


@given(st.lists(st.integers(-10_000, 10_000), min_size=3, max_size=40, unique=True), st.integers(1, 250))
def test_every_row_lies_on_the_grid_that_was_guessed_of_it(parts: list[int], factor: int) -> None:
    values = np.asarray(parts, dtype=np.float64) * factor
    for column in (values, values / 100):
        feature = inferred(column)
        assert feature.is_category or feature.on_grid(column).all()


def test_a_step_that_was_guessed_is_reported_with_the_way_to_a_finer_one() -> None:
    schema = Schema.infer(
        pd.DataFrame({"sum": range(0, 5000, 50), "odd": range(7, 707, 7), "rate": np.arange(100) / 4})
    )
    report = schema.report()
    assert "integer from 0 to 4950 by 50: every value is a multiple of 50" in report
    assert "integer from 7 to 700 by 7" in report
    assert "set step = 1 in the schema if values between are possible" in report
    assert "continuous from 0.0 to 24.75 by 0.25: every value is a multiple of 0.25" in report
    assert "set step = 0.01 in the schema" in report
    assert Schema.from_toml(schema.to_toml()) == schema
    assert schema.replace("sum", step=1)["sum"].top == 4950


def people(rows: int, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"age": [20 + i % 50 for i in range(rows)], **columns})


@pytest.mark.parametrize("rows", [21, 3000])
def test_a_column_of_text_in_which_all_rows_differ_is_left_out_with_a_warning(rows: int) -> None:
    table = people(rows, id=[f"C{i}" for i in range(rows)])
    with pytest.warns(FcxWarning) as caught:
        schema = Schema.infer(table)
    assert schema.names == ("age",)
    (told,) = (str(w.message) for w in caught)
    assert f"column 'id' is left out, since it has {rows:,} different values in {rows:,} rows" in told
    assert "ignore=['id']" in told


@pytest.mark.filterwarnings("error")
def test_columns_to_ignore_are_no_features_and_cause_no_warning() -> None:
    table = people(30, id=[f"C{i}" for i in range(30)], day=pd.to_datetime(["2020"] * 30))
    assert Schema.infer(table, ignore=["id", "day"]).names == ("age",)
    assert Schema.infer(table.drop(columns="day"), ignore="id").names == ("age",)


@pytest.mark.filterwarnings("error")
def test_few_rows_and_columns_with_equal_rows_are_no_identifiers() -> None:
    assert Schema.infer(people(20, id=[f"C{i}" for i in range(20)])).names == ("age", "id")
    assert Schema.infer(people(400, town=[f"T{i // 2}" for i in range(400)])).names == ("age", "town")


@pytest.mark.filterwarnings("error")
def test_an_identifier_that_is_named_as_a_feature_is_one() -> None:
    table = people(30, id=[f"C{i}" for i in range(30)])
    assert Schema.infer(table, immutable=["id"]).immutable == ("id",)


def test_a_thousand_levels_that_rows_share_may_not_change_unless_a_person_says_so() -> None:
    table = people(5000, postcode=[f"v{i % 1500}" for i in range(5000)])
    with pytest.warns(FcxWarning, match="'postcode' has 1,500 levels.*mutable = true"):
        schema = Schema.infer(table)
    assert schema.immutable == ("postcode",)
    assert "mutable = true" in schema.report()
    assert schema.replace("postcode", mutable=True).mutable == ("age", "postcode")


def test_more_levels_than_any_category_has_are_an_error() -> None:
    table = people(21_000, code=[f"v{i % 10_100}" for i in range(21_000)])
    with pytest.raises(SchemaError, match="'code': has 10,100 different values"):
        Schema.infer(table)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("customer_id", [7 * i for i in range(60)]),
        ("orderId", [1000 - i // 2 * 2 + i % 2 for i in range(60)]),
        ("Unnamed: 0", list(range(60))),
        ("comment", [f"called {i} times about the loan" if i % 3 else "nothing to say here" for i in range(60)]),
    ],
)
def test_identifiers_and_free_text_are_told_by_name_and_content(name: str, values: list[Any]) -> None:
    with pytest.warns(FcxWarning, match=f"column '{name}' is left out"):
        assert Schema.infer(people(60, **{name: values})).names == ("age",)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["n", "income", "paid", "kids", "number"])
def test_a_number_is_no_identifier_only_because_no_two_rows_are_equal(name: str) -> None:
    assert Schema.infer(people(60, **{name: [17 * i for i in range(60)]})).names == ("age", name)


def test_columns_that_cannot_be_features_are_named_with_the_way_to_leave_them_out() -> None:
    table = people(3, day=pd.to_timedelta([1, 2, 3], "D"), bad=[np.inf, 1, 2])
    with pytest.raises(SchemaError, match=r"leave them out with ignore=\['day', 'bad'\]"):
        Schema.infer(table)


def test_names_to_ignore_that_make_no_sense_are_refused() -> None:
    table = people(3, y=[0, 1, 0])
    with pytest.raises(SchemaError, match="Did you mean 'age'"):
        Schema.infer(table, ignore=["aeg"])
    with pytest.raises(SchemaError, match="is to be ignored, but is also named as a feature or as the label") as caught:
        Schema.infer(table, label="y", immutable=["age"], ignore=["y", "age"])
    assert len(caught.value.faults) == 2
