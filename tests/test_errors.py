"""Errors are fcxplain's own and also the built-in ones that people catch; importing them is light."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError as Unfitted

import loans
from fcxplain import (
    METHODS,
    CausalGraph,
    FCx,
    FcxError,
    Schema,
    TableEncoder,
    Task,
    as_classifier,
    evaluate,
    load_dataset,
    load_table,
    parse_rules,
    read_answers,
    read_overrides,
)
from fcxplain.errors import DataError, FormatError, NotFittedError, RuleError, SchemaError, also

TABLE = loans.table(20)


def test_every_error_is_a_value_error():
    with pytest.raises(ValueError, match="this task cannot work"):
        Task(TABLE, loans.chance, target="elsewhere", rules="income' >> 3")
    with pytest.raises(ValueError, match="feature 'agee': is not in the schema"):
        Schema.infer(TABLE).freeze("agee")
    for kind in (SchemaError, RuleError, DataError, FormatError, NotFittedError):
        assert issubclass(kind, FcxError)
        assert issubclass(kind, ValueError)


def test_a_name_that_is_not_there_is_a_key_error_with_its_words():
    task = loans.task()
    graph = CausalGraph(("age", "income"))
    for ask in (
        lambda: task.schema["agee"],
        lambda: load_dataset("agee"),
        lambda: METHODS["agee"],
        lambda: graph.parents("agee"),
        lambda: evaluate(FCx, task, metrics=["agee"]),
    ):
        with pytest.raises(KeyError) as error:
            ask()
        assert isinstance(error.value, FcxError)
        assert "'agee'" in str(error.value)
        assert not str(error.value).startswith(('"', "'"))


def test_a_file_that_is_not_there_is_a_file_not_found_error(tmp_path: Path):
    missing, task = tmp_path / "missing", loans.task()
    for ask in (
        lambda: load_table(missing, label="job"),
        lambda: read_overrides(missing),
        lambda: read_answers(missing, task),
        lambda: FCx.load(missing),
        lambda: Schema.from_toml(missing),
        lambda: parse_rules(missing, task.schema),
        lambda: CausalGraph.from_csv(missing),
        lambda: as_classifier(missing.with_suffix(".onnx"), schema=task.schema),
        lambda: task.schema.to_toml(missing / "schema.toml"),
    ):
        with pytest.raises(FileNotFoundError, match="missing") as error:
            ask()
        assert isinstance(error.value, FcxError)


def test_what_is_not_fitted_raises_scikit_learns_error():
    for ask in (
        lambda: FCx().explain(TABLE),
        lambda: TableEncoder().encode(TABLE),
        lambda: METHODS["face"]().explain(TABLE),
    ):
        with pytest.raises(Unfitted, match="not fitted yet"):
            ask()
        with pytest.raises(NotFittedError):
            ask()


def test_errors_survive_being_copied_to_another_process():
    for kind in (DataError, NotFittedError, also(DataError, KeyError), also(FormatError, FileNotFoundError)):
        error = kind("this cannot work", [])
        # A copy is made as another process would make it: by what `__reduce__` says.
        again = copy.deepcopy(error)
        assert type(again) is type(error)
        assert str(again) == "this cannot work"


def test_importing_the_errors_is_light():
    code = "import fcxplain.errors, sys; print([m for m in ('sklearn', 'numpy', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_attribute_that_is_no_error_is_said_so():
    import fcxplain.errors

    with pytest.raises(AttributeError, match="has no attribute 'NoSuchError'"):
        _ = fcxplain.errors.NoSuchError


def test_a_table_that_does_not_fit_is_caught_as_a_value_error():
    with pytest.raises(ValueError, match="column 'age': is not in the table"):
        loans.task().validate(pd.DataFrame({"income": [1.0]}))
