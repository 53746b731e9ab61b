"""`FCx.explain` with all that it can be asked for: overrides, reasons, budgets, files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import loans
from fcxplain import Budget, FCx, explainer, read_answers
from fcxplain.errors import DataError
from fcxplain.explanation import Explanation
from fcxplain.progress import EXPLAINING, WHY_NOT, Progress
from fcxplain.search import PREFERENCES, Search
from fcxplain.search.oracles.tables import TableOracle
from fcxplain.training_loop import Schedule

NOT_MORE = "age' <= age; income' <= income; degree' <= degree"


@pytest.fixture(scope="module")
def fcx() -> FCx:
    return FCx(generator=False, oracle="model").fit(loans.task())


@pytest.fixture(scope="module")
def with_generator() -> FCx:
    """The same with a generator, for what only it can do."""
    return FCx(schedule=Schedule(epochs=1, steps=5), oracle="model").fit(loans.task())


@pytest.fixture(scope="module")
def refused(fcx: FCx) -> pd.DataFrame:
    rows = loans.table(60, seed=5)
    return rows[fcx.task_.refused(rows)].head(8)


@pytest.fixture(scope="module")
def drawing() -> FCx:
    """One that draws, and does not search."""
    return FCx(schedule=Schedule(epochs=1, steps=5), search=False).fit(loans.task(gradients=True))


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
    told = pd.DataFrame({"rules": [NOT_MORE]}, index=one.index)
    found = fcx.explain(one, overrides=told, why_not=True)
    assert found.row_status.tolist() == ["impossible"]
    reason = found.reasons[0]
    assert reason.relaxation is not None
    assert reason.relaxation.gone
    assert reason.words.startswith("Blocked")
    assert found.why_not.iloc[0] == reason.words


def test_a_row_whose_budget_was_spent_is_said_not_to_be_looked_into(with_generator: FCx, refused: pd.DataFrame):
    fcx = with_generator
    found = fcx.explain(refused.iloc[:3], why_not=True, budget=1, draws=0)
    assert found.counts == {"timed_out": 3}
    assert {reason.status for reason in found.reasons.values()} == {"timed_out"}
    assert found.why_not.str.contains("No reason was sought: the row's budget was spent").all()
    assert "No reason was sought" in found.to_html()
    assert not fcx.explain(refused.iloc[:3], budget=1).reasons


def test_rows_with_rules_of_their_own_are_said_to_be_cut_short_too(fcx: FCx, refused: pd.DataFrame):
    told = pd.DataFrame({"freeze": [["job"]]}, index=refused.index[:1])
    found = fcx.explain(refused.iloc[:4], overrides=told, budget=15)
    assert found.cut_short.tolist() == [True] * 4
    assert "search budget ran out" in found.to_html()


def steps(seen: list[Progress], rows: int) -> list[float]:
    """Rows done, as they were told; they rise to the last of them."""
    assert {(event.stage, event.total, event.note) for event in seen} == {(EXPLAINING, rows, "")}
    done = [event.done for event in seen]
    assert done == sorted(set(done))
    assert done[-1] == rows
    return done


def same(one: Explanation, other: Explanation) -> None:
    pd.testing.assert_frame_equal(one.frame, other.frame)
    assert [c.to_dict() for c in one.certificates] == [c.to_dict() for c in other.certificates]
    assert (one.counts, one.notes, dict(one.reasons)) == (other.counts, other.notes, dict(other.reasons))


def test_rows_are_told_batch_by_batch_and_the_answers_stay_the_same(fcx: FCx, monkeypatch: pytest.MonkeyPatch):
    rows, seen = loans.table(20, seed=5), []
    plain = fcx.explain(rows, k=2)
    monkeypatch.setattr(TableOracle, "rows_at_once", 4)
    same(fcx.explain(rows, k=2, on_progress=seen.append), plain)
    fine = int((~plain.asked).sum())
    assert steps(seen, 20) == [fine, *range(fine + 4, 20, 4), 20]


def test_rows_with_rules_of_their_own_are_counted_on(fcx: FCx, refused: pd.DataFrame):
    told = pd.DataFrame({"freeze": [["income"], ["job"]]}, index=refused.index[[3, 1]])
    seen: list[Progress] = []
    found = fcx.explain(refused, overrides=told, on_progress=seen.append)
    same(found, fcx.explain(refused, overrides=told))
    assert len(steps(seen, len(refused))) == 3


def test_a_row_without_an_answer_is_done_when_its_reason_is_known(fcx: FCx, refused: pd.DataFrame):
    told = pd.DataFrame({"rules": [NOT_MORE] * 2}, index=refused.index[:2])
    seen: list[Progress] = []
    found = fcx.explain(refused, overrides=told, why_not=True, on_progress=seen.append)
    same(found, fcx.explain(refused, overrides=told, why_not=True))
    assert len(found.reasons) == 2
    reasons = [event for event in seen if event.stage == WHY_NOT]
    assert (reasons[0].total, reasons[-1].done) == (2, 2)
    assert seen[: len(reasons)] == reasons
    assert steps(seen[len(reasons) :], len(refused)) == [2, len(refused)]


def test_rows_that_are_drawn_are_told_too(drawing: FCx, refused: pd.DataFrame):
    seen: list[Progress] = []
    drawing.explain(refused, on_progress=seen.append)
    assert seen == [Progress(EXPLAINING, len(refused), len(refused))]


def test_rows_of_a_file_are_told_as_they_are_done(fcx: FCx, refused: pd.DataFrame, tmp_path: Path):
    refused.to_csv(tmp_path / "rows.csv", index=False)
    seen: list[Progress] = []
    fcx.explain_file(tmp_path / "rows.csv", tmp_path / "a.parquet", chunk=3, on_progress=seen.append)
    assert sorted({event.done for event in seen}) == [*range(3, len(refused), 3), len(refused)]
    assert {event.total for event in seen} == {len(refused)}


def test_a_file_gives_the_answers_of_its_table(fcx: FCx, refused: pd.DataFrame, tmp_path: Path):
    refused.to_parquet(tmp_path / "rows.parquet")
    done = fcx.explain_file(tmp_path / "rows.parquet", tmp_path / "answers.parquet", chunk=3, prefer="sparse")
    assert done.counts == {"verified": len(refused)}
    kept = read_answers(tmp_path / "answers.parquet", fcx.task_)
    pd.testing.assert_frame_equal(kept.answers, fcx.explain(refused, prefer="sparse").answers)


FROZEN = [["income", "job"], ["age"]]


@pytest.fixture(scope="module")
def overridden(fcx: FCx, refused: pd.DataFrame) -> Explanation:
    return fcx.explain(refused, overrides=pd.DataFrame({"freeze": FROZEN}, index=refused.index[[6, 1]]))


@pytest.mark.parametrize("kind", ["labels", "written", "csv"])
def test_overrides_of_a_file_are_those_of_its_table(
    kind: str, fcx: FCx, refused: pd.DataFrame, overridden: Explanation, tmp_path: Path
):
    rows = refused if kind == "labels" else refused.reset_index(drop=True)
    told = pd.DataFrame({"freeze": FROZEN}, index=rows.index[[6, 1]])
    if kind == "written":
        # As an index column of a CSV file may be read.
        told.index = told.index.astype(str)
    if kind == "csv":
        rows.to_csv(tmp_path / "rows", index=False)
    else:
        rows.to_parquet(tmp_path / "rows")
    fcx.explain_file(tmp_path / "rows", tmp_path / "answers.parquet", chunk=3, overrides=told)
    kept = read_answers(tmp_path / "answers.parquet", fcx.task_)
    pd.testing.assert_frame_equal(kept.answers, overridden.answers, check_dtype=kind != "csv")
    assert [[r.rule for r in c.rules] for c in kept.certificates] == [
        [r.rule for r in c.rules] for c in overridden.certificates
    ]


@pytest.mark.parametrize("written", ["parquet", "csv"])
def test_overrides_of_no_row_of_a_file_are_told_before_anything_is_done(
    written: str, fcx: FCx, refused: pd.DataFrame, tmp_path: Path
):
    source, rows = tmp_path / f"rows.{written}", refused.reset_index(drop=True)
    rows.to_csv(source, index=False) if written == "csv" else rows.to_parquet(source)
    told = pd.DataFrame({"freeze": [["age"], ["agee"], ["age"]]}, index=[999, 1, -3])
    with pytest.raises(DataError) as error:
        fcx.explain_file(source, tmp_path / "answers.parquet", overrides=told)
    faults = {fault.place: fault.problem for fault in error.value.faults}
    assert faults["row 999"] == faults["row -3"] == "is not one of the rows to explain"
    assert "row 1, column 'freeze'" in faults
    assert list(tmp_path.iterdir()) == [source]


def test_labels_that_a_file_has_twice_cannot_be_overridden(fcx: FCx, refused: pd.DataFrame, tmp_path: Path):
    pd.concat([refused, refused.iloc[:1]]).to_parquet(tmp_path / "rows.parquet")
    told = pd.DataFrame({"freeze": [["age"]]}, index=refused.index[:1])
    with pytest.raises(DataError, match="is the label of 2 of the rows"):
        fcx.explain_file(tmp_path / "rows.parquet", tmp_path / "answers.parquet", chunk=7, overrides=told)


def test_explain_takes_tables_and_says_where_files_go(fcx: FCx, tmp_path: Path):
    for path in ("rows.parquet", tmp_path / "rows.csv"):
        with pytest.raises(DataError, match=r"is a path, not a table\. Use explain_file\("):
            fcx.explain(path)


def test_explain_file_knows_the_options_of_explain(fcx: FCx, tmp_path: Path):
    with pytest.raises(TypeError, match=r"^FCx\.explain_file has no parameter 'perfer'\. Did you mean 'prefer'\?$"):
        fcx.explain_file("rows.csv", tmp_path / "answers.parquet", perfer="sparse")
    with pytest.raises(DataError, match="why_not"):
        fcx.explain_file("rows.csv", tmp_path / "answers.parquet", why_not="some")


def test_the_same_search_serves_until_something_else_is_asked(
    with_generator: FCx, refused: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
):
    fcx = with_generator
    made: list[Search] = []
    monkeypatch.setattr(
        explainer, "Search", lambda *args, **settings: made.append(Search(*args, **settings)) or made[-1]
    )
    fcx.explain(refused.iloc[:1], draws=3)
    fcx.explain(refused.iloc[:2], draws=3, k=2)
    assert len(made) == 1
    fcx.explain(refused.iloc[:1], draws=3, budget=Budget(calls=50))
    assert len(made) == 2


def test_what_only_the_search_can_do_is_refused_without_it(drawing: FCx, refused: pd.DataFrame):
    with pytest.raises(DataError, match="needs the search") as error:
        drawing.explain(refused, prefer="sparse", why_not=True, budget=5)
    assert {fault.place for fault in error.value.faults} == {"prefer", "why_not", "budget"}
    drawn = drawing.explain(refused, k=2)
    assert (len(drawn.answers), drawn.method) == (2 * len(refused), "FCx without search")
    assert "2 draws per row" in drawn.notes[0]


def test_the_cost_may_be_a_mapping_or_weights(fcx: FCx, refused: pd.DataFrame):
    weights = replace(PREFERENCES["balanced"], change=7.0)
    same(fcx.explain(refused, cost={"change": 7.0}), fcx.explain(refused, cost=weights))
    with pytest.raises(DataError, match="Did you mean 'change'"):
        fcx.explain(refused, cost={"chnage": 7.0})


def test_the_preference_of_the_constructor_counts_where_none_is_named(fcx: FCx, refused: pd.DataFrame):
    sparse = fcx.explain(refused, prefer="sparse")
    fcx.set_params(prefer="sparse")
    try:
        assert np.array_equal(fcx.explain(refused).checks.changed, sparse.checks.changed)
    finally:
        fcx.set_params(prefer="balanced")
