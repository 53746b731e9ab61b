"""Features (feature, definition, grid, column), and tables held against them (validation)."""

from __future__ import annotations

import copy
import datetime
import random
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import strategies
from fcxplain.errors import FcxWarning, SchemaError, some
from fcxplain.schema import Feature, Schema

AGE = Feature("age", "integer", low=18, high=90)
GPA = Feature("gpa", "continuous", low=0, high=4, decimals=1)
JOB = Feature("job", "categorical", levels=("clerk", "cook", "none"))
DEGREE = Feature("degree", "ordinal", levels=("school", "college", "master"), ranks=(0, 1, 1))
SCHEMA = Schema((AGE, GPA, JOB, DEGREE))


def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [18, 40, 90],
            "gpa": [0.0, 3.7, 4.0],
            "job": ["clerk", "none", "cook"],
            "degree": ["school", "master", "college"],
        }
    )


def faults_of(schema: Schema, table: object) -> list[str]:
    with pytest.raises(SchemaError) as caught:
        schema.validate(table)  # type: ignore[arg-type]
    return [str(fault) for fault in caught.value.faults]


# Features


def test_a_wrong_feature_lists_every_fault() -> None:
    with pytest.raises(SchemaError) as caught:
        Feature("a\nb", "integer", low=5.5, high=1, step=-1, levels=("x",), mutable="no", unit=3)  # type: ignore[arg-type]
    text = str(caught.value)
    for part in ("line breaks", "low 5.5 is above high 1", "step -1", "whole numbers", "levels", "mutable", "unit"):
        assert part in text
    assert len(caught.value.faults) == 7


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "intger"}, "Did you mean 'integer'?"),
        ({"kind": None}, "no kind None"),
        ({"kind": "integer", "low": "1"}, "low is '1', not a finite number"),
        ({"kind": "integer", "low": True}, "low is True"),
        ({"kind": "integer", "high": float("inf")}, "high is inf"),
        ({"kind": "integer", "high": 10**400}, "not a finite number"),
        ({"kind": "continuous", "low": [1]}, "low is [1]"),
        ({"kind": "continuous", "low": datetime.date(2020, 1, 1)}, "not a finite number"),
        ({"kind": "continuous", "decimals": 1.5}, "decimals is 1.5"),
        ({"kind": "continuous", "decimals": -1}, "not between 0 and 15"),
        ({"kind": "continuous", "decimals": 1, "step": 0.01}, "more than 1 decimals"),
        ({"kind": "integer", "decimals": 2}, "an integer has no decimals"),
        ({"kind": "integer", "step": 0.5}, "whole numbers"),
        ({"kind": "continuous", "low": 0.2, "high": 0.8, "step": 1}, "no legal value"),
        ({"kind": "continuous", "low": 0, "high": 1e300}, "cannot be kept exactly"),
        ({"kind": "continuous", "low": -1.7e308, "high": 1.7e308}, "cannot be kept exactly"),
        ({"kind": "continuous", "low": 0, "high": 1e-300}, "rescale the column"),
        ({"kind": "integer", "low": 0, "high": 2**60}, "cannot be kept exactly"),
        ({"kind": "categorical", "levels": "abc"}, "levels is 'abc', not a list"),
        ({"kind": "categorical", "levels": ("a", "a")}, "written alike: 'a'"),
        ({"kind": "categorical", "levels": (1, True)}, "levels that are equal"),
        ({"kind": "categorical", "levels": ("1", 1)}, "written alike: '1'"),
        ({"kind": "categorical", "levels": ("a", None)}, "a level is missing"),
        ({"kind": "categorical", "levels": ("a", float("nan"))}, "a level is missing"),
        ({"kind": "categorical", "levels": (pd.Timestamp(0),)}, "Convert it to text"),
        ({"kind": "categorical", "levels": ([1],)}, "but [1] is not"),
        ({"kind": "categorical", "levels": ("\ud800",)}, "valid text"),
        ({"kind": "categorical", "levels": ("a",), "ranks": (1,)}, "ranks are for ordinal"),
        ({"kind": "ordinal", "levels": ("a", "b"), "ranks": (1,)}, "2 levels but 1 ranks"),
        ({"kind": "ordinal", "levels": ("a",), "ranks": ("x",)}, "ranks are whole numbers"),
        ({"kind": "ordinal", "levels": ("a",), "low": 1, "decimals": 2}, "decimals is for numbers only"),
    ],
)
def test_what_makes_no_feature_is_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Feature("f", **fields)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "feature 'f'" in str(caught.value)


@pytest.mark.parametrize("name", ["", "  ", 3, None, "a`b", "a\rb", "\ud800"])
def test_a_name_is_one_line_of_text(name: object) -> None:
    with pytest.raises(SchemaError, match="name"):
        Feature(name, "integer")  # type: ignore[arg-type]


def test_decimals_and_step_say_the_same() -> None:
    assert Feature("f", "continuous", decimals=2) == Feature("f", "continuous", step=0.01)


def test_numpy_values_become_plain_ones() -> None:
    feature = Feature("f", "integer", low=np.int8(1), high=np.float64(9), step=np.int64(2))
    assert [type(v) for v in (feature.low, feature.high, feature.step)] == [int, int, int]
    levels = Feature("f", "categorical", levels=np.array(["a", "b"])).levels  # type: ignore[arg-type]
    assert levels == ("a", "b")
    assert type(levels[0]) is str


def test_grid_values_are_the_numbers_of_a_file() -> None:
    tenths = Feature("f", "continuous", low=-1, high=1, step=0.1)
    assert tenths.at(np.arange(21)).tolist() == [float(f"{v / 10:.1f}") for v in range(-10, 11)]


def test_a_coarse_step_starts_at_the_lower_bound_and_stops_below_the_upper() -> None:
    coarse = Feature("f", "integer", low=3, high=15, step=5)
    assert coarse.top == 2
    assert coarse.at(np.arange(3)).tolist() == [3, 8, 13]
    assert coarse.on_grid(np.array([3.0, 4, 13, 18])).tolist() == [True, False, True, False]


@given(strategies.numbers(most=2**46), st.data())
def test_codes_and_values_are_inverse_on_every_grid(feature: Feature, data: st.DataObject) -> None:
    codes = data.draw(strategies.codes(Schema((feature,))))[:, 0]
    values = feature.at(codes)
    assert (feature.codes(values) == codes).all()
    assert feature.on_grid(values).all()
    assert ((values >= feature.low) & (values <= feature.high)).all()


@given(strategies.schemas())
def test_features_can_be_copied_after_use(schema: Schema) -> None:
    schema.table({f.name: f.at(np.array([0])) for f in schema}, dtypes=dict.fromkeys(schema.names, object))
    assert copy.deepcopy(schema) == schema


def test_equal_features_with_levels_of_other_types_write_their_own() -> None:
    for levels in ((0, 1), (0.0, 1.0), (False, True)):
        schema = Schema((Feature("n", "categorical", levels=levels),))
        for rows in ([1], [0, 1]):
            (first, *_) = schema.table({"n": np.array(rows)})["n"].tolist()
            assert type(first) is type(levels[0])


def test_replace_names_an_unknown_field() -> None:
    with pytest.raises(SchemaError, match="Did you mean 'mutable'"):
        SCHEMA.replace("age", mutabel=False)


# Schemas


def test_a_schema_refuses_doubles_strangers_and_nothing() -> None:
    with pytest.raises(SchemaError, match="named twice"):
        Schema((AGE, AGE))
    with pytest.raises(SchemaError, match="at least one"):
        Schema(())
    with pytest.raises(SchemaError, match="Feature objects"):
        Schema(({"name": "age"},))  # type: ignore[arg-type]


def test_an_unknown_feature_is_offered_the_nearest_name() -> None:
    with pytest.raises(SchemaError, match="Did you mean 'degree'"):
        SCHEMA["degre"]
    with pytest.raises(SchemaError, match="Did you mean 'gpa'"):
        SCHEMA.freeze("gap", "age")


def test_freeze_makes_immutable_and_leaves_the_original() -> None:
    assert SCHEMA.freeze("age", "job").immutable == ("age", "job")
    assert SCHEMA.immutable == ()


def test_units_fall_back_from_mad_to_deviation_to_step() -> None:
    table = people()
    assert SCHEMA.units(table)["age"] == 22
    mostly = pd.concat([people().assign(age=18)] * 3 + [people()])
    assert SCHEMA.units(mostly)["age"] == pytest.approx(np.std(mostly.age))
    assert SCHEMA.units(table.assign(gpa=1.0))["gpa"] == 0.1


def test_complete_keeps_given_bounds_and_widens_those_of_the_data() -> None:
    loose = Schema((Feature("x", "continuous", low=-1, step=0.5), Feature("y", "continuous"), Feature("z", "integer")))
    table = pd.DataFrame({"x": [0.12, 0.37], "y": [1 / 3, 2 / 3], "z": [3, 8]})
    x, y, z = loose.complete(table).features
    assert (x.low, x.high, x.step) == (-1, 0.4, 0.5)
    assert y.low is not None
    assert y.high is not None
    assert y.low <= 1 / 3 < 2 / 3 <= y.high
    assert (z.low, z.high) == (3, 8)


def test_complete_takes_levels_and_lists_every_column_that_it_cannot() -> None:
    open_ones = Schema((Feature("a", "categorical"), Feature("b", "integer"), Feature("c", "continuous")))
    table = pd.DataFrame({"a": ["y", "x", "y"], "b": [1, 2, 3], "c": [0.5, 1, 2]})
    assert open_ones.complete(table)["a"].levels == ("x", "y")
    with pytest.raises(SchemaError) as caught:
        open_ones.complete(table.assign(b=["p", "q", "r"], c=np.inf))
    assert len(caught.value.faults) == 2


# Validation


def test_a_legal_table_passes_in_any_order_of_columns_and_unchanged() -> None:
    table = people()[["job", "degree", "gpa", "age"]]
    before = table.copy(deep=True)
    SCHEMA.validate(table)
    pd.testing.assert_frame_equal(table, before)


def test_every_fault_of_a_table_is_listed_at_once() -> None:
    table = pd.DataFrame(
        {
            "age": [17, 200, 30.5, np.nan],
            "gpa": [np.inf, 1, 5, 2],
            "jobb": "clerk",
            "degree": ["school", "phd", None, "phd"],
        },
        index=["r0", "r1", "r2", "r3"],
    )
    assert faults_of(SCHEMA, table) == [
        "column 'job': is not in the table. Did you mean 'jobb'?",
        "column 'age': is not a whole number, e.g. 30.5 (1 row, first at index 'r2'). "
        "Round it, or make the feature continuous.",
        "column 'age': is below 18, e.g. 17.0 (1 row, first at index 'r0'). "
        "Correct it, or widen 'low' in the schema and fit again.",
        "column 'age': is above 90, e.g. 200.0 (1 row, first at index 'r1'). "
        "Correct it, or widen 'high' in the schema and fit again.",
        "column 'age': is empty or marked as missing, e.g. n/a (1 row, first at index 'r3'). "
        "Fill it in or leave the row out, or give the model an imputer and fit it on rows with gaps.",
        "column 'gpa': is infinite, e.g. inf (1 row, first at index 'r0'). Replace it by a number.",
        "column 'gpa': is above 4.0, e.g. 5.0 (1 row, first at index 'r2'). "
        "Correct it, or widen 'high' in the schema and fit again.",
        "column 'degree': is empty or marked as missing, e.g. n/a (1 row, first at index 'r2'). "
        "Fill it in or leave the row out, or give the model an imputer and fit it on rows with gaps.",
        "column 'degree': is 'phd', which is not a known level (2 rows, first at index 'r1'). "
        "Legal: 'school', 'college', 'master'. Correct it, or add the level to the schema and fit again.",
    ]


def test_extra_columns_are_named_in_a_warning() -> None:
    table = people()
    table["zip"], table[3] = 1, 2
    with pytest.warns(FcxWarning, match="ignored: 'zip', 3"):
        SCHEMA.validate(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SCHEMA.validate(people())


def test_a_column_that_stands_twice_is_a_fault() -> None:
    table = people()
    doubled = pd.concat([table, table[["age"]]], axis=1)
    assert faults_of(SCHEMA, doubled) == ["column 'age': occurs in the table 2 times. Rename or drop one."]


@pytest.mark.parametrize("table", [None, [1, 2], {"age": [1]}, np.zeros((2, 2)), pd.Series([1])])
def test_what_is_no_table_is_named(table: object) -> None:
    assert "not a pandas DataFrame" in faults_of(SCHEMA, table)[0]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.Series(["ten", "40", "90"], dtype="string"), "should be integer but is string, e.g. 'ten'"),
        (pd.Series(["18 years", 40, 90], dtype=object), "should be integer but is object"),
        (pd.Series([True, 40, 90], dtype=object), "should be integer but is object"),
        (pd.to_datetime(["2020-01-01"] * 3), "should be integer but is datetime64"),
        ([1j, 2, 3], "should be integer but is complex128"),
        (pd.Series([[1], [2], [3]], dtype=object), "should be integer but is object"),
        ([2**60, 40, 50], "is above 90, e.g. 1152921504606846976"),
        ([1e300, 40, 50], "is above 90"),
        (pd.array([None, 40, 50], dtype="Int64"), "is empty or marked as missing, e.g. n/a (1 row, first at index 0)"),
    ],
)
def test_a_number_column_of_something_else_is_a_clear_fault(column: object, message: str) -> None:
    assert message in faults_of(SCHEMA, people().assign(age=column))[0]


def test_levels_of_another_type_are_told_apart() -> None:
    schema = Schema((Feature("n", "categorical", levels=(1, 2)), Feature("t", "categorical", levels=("1", "2"))))
    n, t = faults_of(schema, pd.DataFrame({"n": ["1"], "t": [2]}))
    assert "The level 1 is a int, not a str: convert the column" in n
    assert "The level '2' is a str, not a int: convert the column" in t


def test_values_that_are_no_levels_are_a_clear_fault() -> None:
    unhashable = pd.Series([["clerk"], "cook", "none"], dtype=object)
    assert "column 'job': holds values that are not levels" in faults_of(SCHEMA, people().assign(job=unhashable))[0]
    mixed = pd.Series(["clerk", 3, "none"], dtype=object)
    assert (
        "is 3, which is not a known level (1 row, first at index 1)" in faults_of(SCHEMA, people().assign(job=mixed))[0]
    )


def test_unknown_levels_are_counted_and_the_nearest_is_offered() -> None:
    fault = faults_of(SCHEMA, people().assign(job=["Clerc", "cook", "x"]))[0]
    assert fault.startswith("column 'job': has unknown levels 'Clerc', 'x' (2 rows, first at index 0).")
    assert fault.endswith("Did you mean 'clerk'?")


@pytest.mark.parametrize(
    ("index", "first"),
    [
        ([7, 7, 7], "7"),
        (pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]), "('a', 2)"),
        (pd.date_range("2020-01-01", periods=3), "Timestamp('2020-01-02 00:00:00')"),
        ([None, np.nan, "x"], "nan"),
    ],
)
def test_any_index_names_the_first_bad_row(index: object, first: str) -> None:
    table = people().set_axis(index, axis=0)
    SCHEMA.validate(table)
    assert f"first at index {first})" in faults_of(SCHEMA, table.assign(age=[20, 5, 5]))[0]


def test_a_very_long_level_is_cut_short_in_messages() -> None:
    assert len(some(["x" * 10**6])) < 100
    assert len(faults_of(SCHEMA, people().assign(job="x" * 10**6))[0]) < 400


def test_tables_without_rows_or_with_one_are_legal() -> None:
    SCHEMA.validate(people().iloc[:0])
    SCHEMA.validate(people().iloc[:1])
    SCHEMA.validate(pd.DataFrame(columns=list(SCHEMA.names), dtype=object))


# Columns in every dtype


@pytest.mark.parametrize(
    "dtype", ["int64", "int8", "uint8", "float64", "float32", "Int64", "UInt8", "Float32", "int32[pyarrow]", "object"]
)
def test_integers_are_read_and_written_in_every_dtype(dtype: str) -> None:
    table = people().astype({"age": dtype})
    natural = SCHEMA.checked(table)
    assert natural["age"].tolist() == [18, 40, 90]
    pd.testing.assert_frame_equal(SCHEMA.table(natural, table.index, table.dtypes), table, check_exact=True)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "Float64", "Float32", "double[pyarrow]", "float[pyarrow]", "object"]
)
def test_continuous_numbers_are_read_and_written_in_every_dtype(dtype: str) -> None:
    table = people().astype({"gpa": dtype})
    natural = SCHEMA.checked(table)
    assert natural["gpa"].tolist() == [0.0, 3.7, 4.0]
    pd.testing.assert_frame_equal(SCHEMA.table(natural, table.index, table.dtypes), table, check_exact=True)


@pytest.mark.parametrize("dtype", ["object", "str", "string", "string[pyarrow]", "category"])
def test_levels_are_read_and_written_in_every_dtype(dtype: str) -> None:
    table = people().astype({"job": dtype, "degree": dtype})
    natural = SCHEMA.checked(table)
    assert natural["job"].tolist() == [0, 2, 1]
    assert natural["degree"].tolist() == [0, 2, 1]
    pd.testing.assert_frame_equal(SCHEMA.table(natural, table.index, table.dtypes), table)


@pytest.mark.parametrize("dtype", ["bool", "boolean", "bool[pyarrow]", "object", "category"])
def test_booleans_are_levels_and_numbers(dtype: str) -> None:
    table = pd.DataFrame({"b": pd.Series([True, False, True], dtype=dtype)})
    as_levels = Schema((Feature("b", "categorical", levels=(False, True)),))
    assert as_levels.checked(table)["b"].tolist() == [1, 0, 1]
    pd.testing.assert_frame_equal(as_levels.table(as_levels.natural(table), dtypes=table.dtypes), table)
    if dtype not in ("object", "category"):
        assert Schema((Feature("b", "integer", low=0, high=1),)).checked(table)["b"].tolist() == [1, 0, 1]


def test_decimals_in_an_object_column_are_numbers() -> None:
    table = people().assign(gpa=pd.Series([Decimal("0.1"), Decimal("3.7"), Decimal(4)], dtype=object))
    assert SCHEMA.checked(table)["gpa"].tolist() == [0.1, 3.7, 4.0]


@pytest.mark.parametrize(
    ("feature", "narrow", "wide"),
    [
        (Feature("f", "integer", low=0, high=1000), "int8", "int64"),
        (Feature("f", "integer", low=-5, high=5), "uint8", "int64"),
        (Feature("f", "integer", low=0, high=5), "bool", "int64"),
        (Feature("f", "integer", low=0, high=10**6), "float16", "int64"),
        (Feature("f", "continuous", low=0, high=1, step=0.5), "int64", "float64"),
        (Feature("f", "continuous", low=0, high=10**6, step=0.001), "float32", "float64"),
        (Feature("f", "categorical", levels=(1, 1000)), "int8", "object"),
        (Feature("f", "categorical", levels=("a", 1)), "str", "object"),
        (Feature("f", "categorical", levels=("a", "b")), "int64", "object"),
    ],
)
def test_a_dtype_too_narrow_for_the_schema_gives_way(feature: Feature, narrow: str, wide: str) -> None:
    schema = Schema((feature,))
    codes = np.array([0, feature.top])
    table = schema.table({"f": feature.at(codes)}, dtypes={"f": np.dtype(narrow) if narrow != "str" else "str"})
    assert table["f"].dtype == wide
    assert feature.codes(schema.checked(table)["f"]).tolist() == codes.tolist()


def test_a_category_gains_the_levels_it_lacks_in_the_order_of_the_schema() -> None:
    ordered = pd.CategoricalDtype(["school", "master"], ordered=True)
    column = Schema((DEGREE,)).table({"degree": np.array([1, 2, 0])}, dtypes={"degree": ordered})["degree"]
    assert list(column) == ["college", "master", "school"]
    assert list(column.cat.categories) == ["school", "college", "master"]


def test_natural_names_the_column_that_holds_no_numbers() -> None:
    with pytest.raises(SchemaError, match="column 'age': should be integer"):
        SCHEMA.natural(people().assign(age="old"))


@given(st.data())
def test_tables_and_natural_columns_are_inverse(data: st.DataObject) -> None:
    schema = data.draw(strategies.schemas())
    table = data.draw(strategies.tables(schema, min_rows=0))
    before = table.copy(deep=True)
    again = schema.table(schema.checked(table), table.index, table.dtypes)
    pd.testing.assert_frame_equal(again, table, check_exact=True)
    pd.testing.assert_frame_equal(table, before, check_exact=True)


def test_global_random_state_is_left_alone() -> None:
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    schema = Schema.infer(people())
    schema.validate(people())
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    assert states == after
