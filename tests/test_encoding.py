"""Tables to tensors and back, exactly."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import strategies
from fcxplain.encoding import TableEncoder
from fcxplain.errors import DataError, NotFittedError, SchemaError
from fcxplain.schema import Feature, Schema

SCHEMA = Schema(
    (
        Feature("age", "integer", low=0, high=100),
        Feature("gpa", "continuous", low=-1, high=4, step=0.1),
        Feature("job", "categorical", levels=("clerk", "cook", "none")),
        Feature("degree", "ordinal", levels=("school", "college", "master"), ranks=(0, 3, 3)),
    )
)


def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [20, 40, 60],
            "gpa": [0.5, 3.7, 2.0],
            "job": ["clerk", "none", "cook"],
            "degree": ["school", "master", "college"],
        }
    )


def fitted() -> TableEncoder:
    return TableEncoder().fit(SCHEMA, people())


@st.composite
def encoders(draw: st.DrawFn, most: int = 10**6) -> tuple[Schema, TableEncoder]:
    """An encoder fitted on rows that cover only a part of the schema's grids."""
    schema = draw(strategies.schemas(most=most))
    return schema, TableEncoder().fit(schema, draw(strategies.tables(schema)))


# Exact round trips


@given(encoders(), st.data())
def test_every_legal_row_survives_encoding_and_codes(made: tuple[Schema, TableEncoder], data: st.DataObject) -> None:
    schema, encoder = made
    codes = data.draw(strategies.codes(schema, min_rows=0))
    table = encoder.from_codes(codes)
    before = table.copy(deep=True)
    pd.testing.assert_frame_equal(encoder.decode(encoder.encode(table)), table, check_exact=True)
    assert (encoder.codes(table) == codes).all()
    assert encoder.codes(table).dtype == np.int64
    pd.testing.assert_frame_equal(table, before, check_exact=True)


@given(st.data())
def test_training_rows_come_back_in_their_own_dtypes(data: st.DataObject) -> None:
    schema = data.draw(strategies.schemas())
    train = data.draw(strategies.tables(schema))
    encoder = TableEncoder().fit(schema, train)
    again = encoder.decode(encoder.encode(train), train.index)
    pd.testing.assert_frame_equal(again, train, check_exact=True)
    pd.testing.assert_frame_equal(encoder.from_codes(encoder.codes(train), train.index), train, check_exact=True)


@given(encoders(most=2**46), st.data())
def test_grids_with_trillions_of_values_survive_in_double_precision(
    made: tuple[Schema, TableEncoder], data: st.DataObject
) -> None:
    schema, encoder = made
    codes = data.draw(strategies.codes(schema))
    natural = encoder.natural_of_codes(codes)
    again = encoder.decode_natural(encoder.encode_natural(natural))
    assert all((again[name] == natural[name]).all() for name in schema.names)


@pytest.mark.parametrize(("high", "dtype"), [(10**5, torch.float32), (10**7, torch.float64)])
def test_precision_follows_the_finest_grid(high: int, dtype: torch.dtype) -> None:
    schema = Schema((Feature("x", "integer", low=0, high=high),))
    encoder = TableEncoder().fit(schema, pd.DataFrame({"x": [3, 4]}))
    assert encoder.dtype_ == dtype
    every = pd.DataFrame({"x": np.linspace(0, high, 50_001).astype(int)})
    assert encoder.encode(every).dtype == dtype
    pd.testing.assert_frame_equal(encoder.decode(encoder.encode(every)), every)


# Whatever a network says


@given(encoders(), st.data())
def test_any_tensor_decodes_to_legal_rows(made: tuple[Schema, TableEncoder], data: st.DataObject) -> None:
    schema, encoder = made
    kind = data.draw(st.sampled_from([np.float32, np.float64]))
    rows = data.draw(st.integers(0, 4))
    x = data.draw(npst.arrays(kind, (rows, encoder.width_), elements={"allow_nan": False}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = encoder.decode(torch.from_numpy(x))
        schema.validate(table)
    assert len(table) == rows
    codes = encoder.codes(table)
    assert (encoder.codes(encoder.from_codes(codes)) == codes).all()


def test_infinities_decode_to_the_ends_of_the_grid() -> None:
    encoder = fitted()
    x = torch.zeros(2, encoder.width_)
    x[0], x[1] = torch.inf, -torch.inf
    x[0, 1] = -torch.inf
    table = encoder.decode(x)
    assert table.age.tolist() == [100, 0]
    assert table.gpa.tolist() == [-1.0, -1.0]


def test_nan_in_a_tensor_is_a_clear_error() -> None:
    encoder = fitted()
    x = encoder.encode(people())
    x[1, 3] = torch.nan
    x[2, 0] = torch.nan
    with pytest.raises(DataError, match=r"contain NaN \(2 rows, first at index 1\)"):
        encoder.decode(x)


@pytest.mark.parametrize("shape", [(3, 7), (8,), (2, 3, 8), (), (0,)])
def test_a_tensor_of_another_shape_is_a_clear_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="encoded rows are n x 8"):
        fitted().decode(torch.zeros(shape))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_tensors_of_any_float_and_with_gradients_decode(dtype: torch.dtype) -> None:
    x = fitted().encode(people()).to(dtype).requires_grad_()
    assert fitted().decode(x).job.tolist() == people().job.tolist()


# What was learned


def test_every_statistic_comes_from_the_training_rows() -> None:
    encoder = fitted()
    assert encoder.scale_ == {"age": (20.0, 40.0), "gpa": (0.5, 3.2)}
    assert encoder.units_ == SCHEMA.units(people())
    x = encoder.encode(people().assign(age=[0, 20, 100]))
    assert x[:, 0].tolist() == [-0.5, 0.0, 2.0]
    assert encoder.scale_ == fitted().scale_


def test_spans_and_names_follow_the_schema() -> None:
    encoder = fitted()
    assert encoder.spans_ == {"age": slice(0, 1), "gpa": slice(1, 2), "job": slice(2, 5), "degree": slice(5, 8)}
    assert encoder.names == (
        "age",
        "gpa",
        "job=clerk",
        "job=cook",
        "job=none",
        "degree=school",
        "degree=college",
        "degree=master",
    )
    assert encoder.span("job") == slice(2, 5)
    with pytest.raises(SchemaError, match="Did you mean 'job'"):
        encoder.span("jobs")


def test_encoding_matches_get_dummies_and_min_max() -> None:
    table, encoder = people(), fitted()
    dummies = pd.get_dummies(table[["job"]].astype(pd.CategoricalDtype(SCHEMA["job"].levels)))
    assert encoder.encode(table)[:, 2:5].tolist() == dummies.to_numpy(float).tolist()
    assert encoder.encode(table)[:, 0].tolist() == [0.0, 0.5, 1.0]


def test_a_constant_column_encodes_to_zero_and_comes_back() -> None:
    table = people().assign(age=7)
    encoder = TableEncoder().fit(SCHEMA, table)
    assert encoder.encode(table)[:, 0].tolist() == [0.0, 0.0, 0.0]
    pd.testing.assert_frame_equal(encoder.decode(encoder.encode(table)), table)


def test_an_open_schema_is_completed_from_the_training_rows() -> None:
    loose = Schema((Feature("age", "integer"), Feature("job", "categorical")))
    encoder = TableEncoder().fit(loose, people())
    assert encoder.schema_["age"].high == 60
    assert encoder.schema_["job"].levels == ("clerk", "cook", "none")


def test_a_restored_encoder_gives_the_same_tensor() -> None:
    one = fitted()
    other = TableEncoder().restore(one.schema_, one.scale_, one.units_, one.dtypes_)
    assert torch.equal(one.encode(people()), other.encode(people()))
    pd.testing.assert_frame_equal(other.decode(one.encode(people())), people())


# Columns in natural units


@given(encoders(), st.data())
def test_columns_are_natural_values_on_legal_rows(made: tuple[Schema, TableEncoder], data: st.DataObject) -> None:
    schema, encoder = made
    codes = data.draw(strategies.codes(schema))
    natural = encoder.natural_of_codes(codes)
    columns = encoder.columns(encoder.encode_natural(natural))
    assert list(columns) == list(schema.names)
    for i, feature in enumerate(schema):
        value = columns[feature.name].numpy()
        if feature.is_number:
            np.testing.assert_allclose(value, natural[feature.name], atol=float(feature.step or 1) / 2)
        elif feature.kind == "ordinal":
            assert value.tolist() == feature.rank_of_level[codes[:, i]].tolist()
        else:
            assert value.argmax(axis=1).tolist() == codes[:, i].tolist()
        if feature.is_category:
            assert columns.levels(feature.name).shape == (len(codes), len(feature.levels))


def test_columns_are_differentiable() -> None:
    encoder = fitted()
    x = torch.rand(4, encoder.width_, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def every_column(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(encoder.columns(x).values())

    assert torch.autograd.gradcheck(every_column, (x.requires_grad_(),))


def test_columns_work_on_batches_of_candidates_and_know_their_names() -> None:
    encoder = fitted()
    columns = encoder.columns(encoder.encode(people()).expand(5, 3, 8))
    assert columns["age"].shape == columns["degree"].shape == (5, 3)
    assert columns["job"].shape == (5, 3, 3)
    assert "age" in columns
    assert "agge" not in columns
    with pytest.raises(SchemaError, match="Did you mean 'age'"):
        columns["agge"]


# Tables as users bring them


def test_column_order_and_extra_columns_do_not_matter() -> None:
    encoder = fitted()
    table = people().assign(extra=1)[["degree", "extra", "gpa", "job", "age"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(encoder.encode(table), encoder.encode(people()))


@pytest.mark.parametrize(
    "index",
    [[5, 5, 5], ["a", "b", "c"], pd.date_range("2020", periods=3), pd.MultiIndex.from_tuples([(1, 2), (1, 2), (3, 4)])],
)
def test_any_index_is_kept(index: object) -> None:
    encoder, table = fitted(), people().set_axis(index, axis=0)
    pd.testing.assert_frame_equal(encoder.decode(encoder.encode(table), table.index), table)
    pd.testing.assert_frame_equal(encoder.from_codes(encoder.codes(table), table.index), table)


@pytest.mark.parametrize("method", ["encode", "codes"])
def test_rows_that_do_not_fit_are_refused_with_every_fault(method: str) -> None:
    bad = people().assign(age=[1, 500, 2], job=["clerk", "pilot", "cook"], gpa=[np.nan, 1, 2])
    with pytest.raises(SchemaError) as caught:
        getattr(fitted(), method)(bad.drop(columns="degree"))
    assert len(caught.value.faults) == 4


def test_no_rows_encode_and_decode() -> None:
    encoder = fitted()
    x = encoder.encode(people().iloc[:0])
    assert x.shape == (0, 8)
    pd.testing.assert_frame_equal(encoder.decode(x), people().iloc[:0].reset_index(drop=True))
    assert encoder.codes(people().iloc[:0]).shape == (0, 4)


def test_an_encoder_needs_rows_a_table_and_to_be_fitted() -> None:
    with pytest.raises(DataError, match="without rows"):
        TableEncoder().fit(SCHEMA, people().iloc[:0])
    with pytest.raises(SchemaError, match="not a pandas DataFrame"):
        TableEncoder().fit(SCHEMA, [[1, 2]])  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="column 'age'"):
        TableEncoder().fit(SCHEMA, people().assign(age=-1))
    with pytest.raises(NotFittedError, match="Call fit"):
        TableEncoder().encode(people())


def test_a_narrow_training_dtype_does_not_limit_the_answers() -> None:
    schema = Schema((Feature("n", "integer", low=0, high=1000), Feature("x", "continuous", low=0, high=2, step=0.5)))
    encoder = TableEncoder().fit(schema, pd.DataFrame({"n": np.array([1, 2], dtype="int8"), "x": [1, 2]}))
    table = encoder.from_codes(np.array([[1000, 3]]))
    assert table.loc[0].tolist() == [1000, 1.5]
    assert encoder.codes(table).tolist() == [[1000, 3]]


def test_five_thousand_levels_encode_and_decode() -> None:
    levels = tuple(f"v{i}" for i in range(5000))
    schema = Schema((Feature("f", "categorical", levels=levels),))
    table = pd.DataFrame({"f": levels[::50]})
    encoder = TableEncoder().fit(schema, table)
    assert encoder.encode(table).shape == (100, 5000)
    pd.testing.assert_frame_equal(encoder.decode(encoder.encode(table)), table)


def test_rows_past_one_chunk_are_encoded_alike() -> None:
    table = pd.concat([people()] * 12_000, ignore_index=True)
    x = fitted().encode(table)
    assert torch.equal(x.reshape(12_000, 3, 8), fitted().encode(people()).expand(12_000, 3, 8))


def test_global_random_state_is_left_alone() -> None:
    def states() -> tuple[object, ...]:
        return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002

    before = states()
    encoder = fitted()
    encoder.decode(encoder.encode(people()))
    assert states() == before
