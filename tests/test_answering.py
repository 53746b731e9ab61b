"""`FCx.explain` with all that it can be asked for: overrides, reasons, budgets, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import loans
from fcxplain import Budget, FCx, read_answers
from fcxplain.errors import DataError
from fcxplain.model.training import Schedule


@pytest.fixture(scope="module")
def fcx() -> FCx:
    return FCx(schedule=Schedule(epochs=1, steps=5)).fit(loans.task())


@pytest.fixture(scope="module")
def refused(fcx: FCx) -> pd.DataFrame:
    rows = loans.table(60, seed=5)
    return rows[fcx.task_.refused(rows)]


def test_what_holds_for_one_row_holds_for_it_alone(fcx: FCx, refused: pd.DataFrame):
    frozen, plain = refused.index[0], fcx.explain(refused)
    found = fcx.explain(refused, overrides=pd.DataFrame({"freeze": [["income", "job"]]}, index=[frozen]))
    assert found.counts == {"verified": len(refused)}
    first = found.certificates[0]
    assert first.row == frozen
    assert {c.feature for c in first.changes} <= {"age", "degree"}
    assert [r.rule for r in first.rules if "income" in r.rule] == ["income' == income"]
    pd.testing.assert_frame_equal(found.answers.iloc[1:], plain.answers.iloc[1:])
    assert not any("income" in r.rule for r in found.certificates[1].rules)


def test_who_cannot_is_told_why_not(fcx: FCx, refused: pd.DataFrame):
    one = refused.iloc[:1]
    told = pd.DataFrame({"freeze": [["age", "income", "degree"]]}, index=one.index)
    found = fcx.explain(one, overrides=told, why_not=True)
    assert found.row_status.tolist() == ["impossible"]
    reason = found.reasons[0]
    assert reason.relaxation is not None
    assert reason.relaxation.gone
    assert "Blocked by" in reason.words
    assert found.why_not.iloc[0] == reason.words


def test_a_file_gives_the_answers_of_its_table(fcx: FCx, refused: pd.DataFrame, tmp_path: Path):
    refused.to_parquet(tmp_path / "rows.parquet")
    done = fcx.explain(tmp_path / "rows.parquet", out=tmp_path / "answers.parquet", chunk=7, prefer="sparse")
    assert done.counts == {"verified": len(refused)}
    kept = read_answers(tmp_path / "answers.parquet", fcx.task_)
    pd.testing.assert_frame_equal(kept.answers, fcx.explain(refused, prefer="sparse").answers)


def test_a_file_needs_a_place_for_its_answers_and_a_table_none(fcx: FCx, refused: pd.DataFrame, tmp_path: Path):
    with pytest.raises(DataError, match="out: is not given"):
        fcx.explain(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="need a file of rows"):
        fcx.explain(refused, out=tmp_path / "answers.parquet")


def test_the_same_search_serves_until_something_else_is_wished(fcx: FCx, refused: pd.DataFrame):
    fcx.explain(refused.iloc[:1])
    kept = fcx._answering()._kept
    fcx.explain(refused.iloc[:2], k=2)
    assert fcx._answering()._kept is kept
    fcx.explain(refused.iloc[:1], budget=Budget(calls=50))
    assert fcx._answering()._kept is not kept


def test_what_only_the_search_can_do_is_refused_without_it(refused: pd.DataFrame):
    drawing = FCx(schedule=Schedule(epochs=1, steps=5), search=False).fit(loans.task())
    with pytest.raises(DataError, match="needs the search") as error:
        drawing.explain(refused, prefer="sparse", why_not=True, budget=5)
    assert {fault.place for fault in error.value.faults} == {"prefer", "why_not", "budget"}
    drawn = drawing.explain(refused, k=2)
    assert (len(drawn.answers), drawn.method) == (2 * len(refused), "FCx without search")
    assert "2 draws per row" in drawn.notes[0]


def test_the_preference_of_the_constructor_counts_where_none_is_named(fcx: FCx, refused: pd.DataFrame):
    sparse = fcx.explain(refused, prefer="sparse")
    fcx.set_params(prefer="sparse")
    try:
        assert np.array_equal(fcx.explain(refused).checks.changed, sparse.checks.changed)
    finally:
        fcx.set_params(prefer="balanced")
