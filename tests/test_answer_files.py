"""Files of answers: everything comes back, columns depend on the task alone, and nothing is believed for being written."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loans
import plain_answers
from effort import examples
from fcxplain import FCx, Feature, Schema, Task
from fcxplain.errors import DataError, FormatError
from fcxplain.explanation import Effort, Explanation, Status, WhyNot, read_answers
from fcxplain.explanation.files.parquet import KEY, arrow_table, write_answers
from fcxplain.overrides import Overrides

NOBODY = np.empty(0, dtype=np.int64)


@pytest.fixture(scope="module")
def task() -> Task:
    return loans.task()


def by_hand(task: Task, rows: pd.DataFrame, **more: object) -> Explanation:
    """The first row asked gets two answers, the last one none; whatever the model says to it."""
    place = np.asarray([0, *range(len(rows) - 1)])
    after = rows.iloc[place].assign(income=8000.0, age=80)
    after.iloc[0, after.columns.get_loc("job")] = "smith"
    status = np.full(len(rows), Status.IMPOSSIBLE)
    wanted = np.full(len(rows), "yes")
    return Explanation.of(task, rows, after, place, method="by hand", wanted=wanted, without=status, **more)


def assert_same(again: Explanation, found: Explanation) -> None:
    pd.testing.assert_frame_equal(again.frame, found.frame)
    pd.testing.assert_frame_equal(again.rows, found.rows)
    pd.testing.assert_frame_equal(again.answers, found.answers)
    assert again.certificates == found.certificates
    assert again.row_status.tolist() == found.row_status.tolist()
    assert (again.notes, again.effort, again.method, again.draws) == (
        found.notes,
        found.effort,
        found.method,
        found.draws,
    )


def test_answers_come_back_as_they_were(task, tmp_path):
    found = plain_answers.explain(task, loans.table(80, seed=1), k=2)
    assert found.counts.keys() == {"verified", "already", "not_found"}
    write_answers(found, tmp_path / "answers.parquet")
    again = read_answers(tmp_path / "answers.parquet", task)
    assert_same(again, found)
    assert again.calls.tolist() == found.calls.tolist()
    assert again.found_by.tolist() == found.found_by.tolist()
    assert list(tmp_path.iterdir()) == [tmp_path / "answers.parquet"]


def test_reasons_rules_of_single_rows_calls_and_soft_answers_come_back(task, tmp_path):
    rows = loans.table(4)
    table = pd.DataFrame({"freeze": ["job"], "rules": ["income' <= 7000"]}, index=["row 1"])
    reason = WhyNot("row 3", "impossible", (), None, "nothing helps")
    found = by_hand(
        task,
        rows,
        own=Overrides.read(table, rows, task),
        reasons={3: reason},
        calls=np.arange(4),
        draws=7,
        soft_valid=np.asarray([True, False, True, True]),
        effort=Effort(1.5, 1.0, 2, 99),
        notes=("a note", "größer"),
    )
    write_answers(found, tmp_path / "answers.parquet")
    again = read_answers(tmp_path / "answers.parquet", task)
    assert_same(again, found)
    assert again.reasons == {3: reason}
    assert again.calls.tolist() == [0, 1, 2, 3]
    assert again.soft_valid.tolist() == [True, False, True, True]
    assert again.own.to_json() == found.own.to_json()
    assert again.row_status.tolist() == ["verified", "best_effort", "verified", "impossible"]


def test_whatever_was_not_measured_stays_unknown(task, tmp_path):
    write_answers(by_hand(task, loans.table(3)), tmp_path / "answers.parquet")
    again = read_answers(tmp_path / "answers.parquet", task)
    assert (again.calls, again.soft_valid, again.own, dict(again.reasons)) == (None, None, None, {})


LABELS = {
    "text": ["a", "b", "c"],
    "numbers": [7, 3, 5],
    "fractions": [0.5, 1.5, 2.5],
    "truths": [True, False, True],
    "twice": ["a", "a", "a"],
    "pairs": pd.MultiIndex.from_tuples([("x", 1), ("x", 2), ("y", 1)], names=["who", "when"]),
    "mixed": pd.Index(["a", 1, 2.5], dtype=object),
    "dates": pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-03"], name="day"),
    "categories": pd.CategoricalIndex(["a", "b", "a"]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_come_back(kind, task, tmp_path):
    rows = loans.table(3).set_axis(LABELS[kind], axis=0)
    write_answers(by_hand(task, rows), tmp_path / "answers.parquet")
    again = read_answers(tmp_path / "answers.parquet", task).rows.index
    assert again.tolist() == rows.index.tolist()
    assert again.names == rows.index.names


@given(st.lists(st.integers(0, 59), unique=True, max_size=12), st.integers(1, 2))
@examples(15)
def test_the_columns_are_the_same_for_any_rows(which, k):
    found = plain_answers.explain(TASK, loans.table(60, seed=2).iloc[which], k=k)
    assert arrow_table(found).schema.equals(EXPECTED, check_metadata=False)


TASK = loans.task()
EXPECTED = arrow_table(plain_answers.explain(TASK, loans.table(60, seed=2))).schema


def test_parts_appended_are_the_whole(task):
    rows = loans.table(50, seed=3)
    whole = arrow_table(plain_answers.explain(task, rows, k=2))
    parts = [arrow_table(plain_answers.explain(task, rows.iloc[s : s + 7], k=2)) for s in range(0, 50, 7)]
    joined = pa.concat_tables([p.replace_schema_metadata(None) for p in parts])
    for name in whole.column_names:
        if name != "certificate":
            assert joined.column(name).to_pylist() == whole.column(name).to_pylist(), name
    # LOFs are of single rows too, up to the last digits.
    for a, b in zip(joined.column("certificate").to_pylist(), whole.column("certificate").to_pylist(), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            first, second = json.loads(a), json.loads(b)
            assert first.pop("lof") == pytest.approx(second.pop("lof"), abs=1e-5)
            assert first == second


def test_levels_and_classes_of_several_kinds_come_back(tmp_path):
    schema = Schema(
        (
            Feature("mixed", "categorical", levels=("a", 1, 2.5)),
            Feature("whole", "categorical", levels=(10, 20)),
            Feature("truth", "categorical", levels=(False, True)),
            Feature("size", "continuous", low=0, high=9, step=0.5),
        )
    )
    mixed = pd.Series(["a", 2.5, "a", 2.5], dtype=object)
    rows = pd.DataFrame({"mixed": mixed, "whole": [10, 20, 10, 20], "truth": [True, False] * 2, "size": 1})
    task = Task(rows, lambda t: t["size"].to_numpy() / 9, schema=schema, classes=(0, "one"), target="one")
    after = rows.assign(size=8.5)
    wanted = np.full(4, "one", dtype=object)
    found = Explanation.of(task, rows, after, np.arange(4), method="by hand", wanted=wanted)
    write_answers(found, tmp_path / "answers.parquet")
    again = read_answers(tmp_path / "answers.parquet", task)
    assert again.answers["mixed"].tolist() == ["a", 2.5, "a", 2.5]
    assert again.answers["size"].tolist() == [8.5] * 4  # though the training rows had whole numbers only
    assert again.counts == {"verified": 4}


def test_values_that_are_not_legal_are_kept_and_marked(task, tmp_path):
    rows = loans.table(3)
    after = rows.assign(job=["pilot", "cook", "smith"], income=[8000.25, 8000.0, np.nan])
    found = Explanation.of(task, rows, after, np.arange(3), method="by hand", wanted=np.full(3, "yes"))
    write_answers(found, tmp_path / "answers.parquet")
    again = read_answers(tmp_path / "answers.parquet", task)
    assert again.answers["job"].tolist() == ["pilot", "cook", "smith"]
    assert again.answers["income"].tolist()[:2] == [8000.25, 8000.0]
    assert again.checks.in_domain.tolist() == found.checks.in_domain.tolist() == [False, True, False]


def test_what_a_column_cannot_hold_is_said(task, tmp_path):
    rows = loans.table(2)
    after = rows.assign(age=[40.5, 41.0])
    found = Explanation.of(task, rows, after, np.arange(2), method="by hand", wanted=np.full(2, "yes"))
    with pytest.raises(DataError, match=r"column 'age'.*Write JSON"):
        write_answers(found, tmp_path / "answers.parquet")
    assert not list(tmp_path.iterdir())


def test_features_with_the_names_of_our_columns_are_kept_apart(tmp_path):
    names = ("row", "status", "certificate", "calls")
    schema = Schema(tuple(Feature(name, "integer", low=0, high=9) for name in names))
    rows = pd.DataFrame({name: [1, 2] for name in names})
    task = Task(rows, lambda t: t["row"].to_numpy() / 9, schema=schema, target=1)
    found = Explanation.of(task, rows, rows.assign(row=9), np.arange(2), method="by hand", wanted=np.asarray([1, 1]))
    write_answers(found, tmp_path / "answers.parquet")
    assert_same(read_answers(tmp_path / "answers.parquet", task), found)
    clash = Schema((Feature("row", "integer", low=0, high=9), Feature("fcx_row", "integer", low=0, high=9)))
    rows = pd.DataFrame({"row": [9, 1], "fcx_row": [1, 2]})
    task = Task(rows, lambda t: t["row"].to_numpy() / 9, schema=clash, target=1)
    found = Explanation.of(task, rows, rows, np.arange(2), method="by hand", wanted=np.asarray([1, 1]))
    write_answers(found, tmp_path / "clash.parquet")
    assert_same(read_answers(tmp_path / "clash.parquet", task), found)


def test_no_rows_and_no_answers_make_a_file_too(task, tmp_path):
    for rows in (loans.table(0), loans.table(2)):
        none = Explanation.of(
            task, rows, rows.iloc[:0], NOBODY, method="by hand", wanted=np.full(len(rows), "yes", dtype=object)
        )
        write_answers(none, tmp_path / "answers.parquet")
        again = read_answers(tmp_path / "answers.parquet", task)
        assert len(again) == len(rows)
        assert again.row_status.tolist() == ["not_found"] * len(rows)


def test_pandas_reads_the_file_with_whole_numbers_whole(task, tmp_path):
    write_answers(by_hand(task, loans.table(3)), tmp_path / "answers.parquet")
    table = pd.read_parquet(tmp_path / "answers.parquet")
    assert table["age"].dtype == "Int64"
    assert table["now: age"].tolist()[-1] == loans.table(3)["age"].iloc[-1]
    assert table["answers"].tolist() == [2, 2, 1, 0]


def test_another_model_tells_another_truth_about_the_same_file(task, tmp_path):
    write_answers(plain_answers.explain(task, loans.table(40)), tmp_path / "answers.parquet")
    other = Task(loans.table(), lambda t: loans.chance(t) / 2, schema=loans.SCHEMA, target="yes", classes=("no", "yes"))
    assert "verified" not in read_answers(tmp_path / "answers.parquet", other).counts


# Files that are not as we write them


def rewritten(path: Path, **columns: list[object]) -> None:
    """The file with some columns replaced, and all else as it was."""
    table = pq.read_table(path)
    for name, values in columns.items():
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    pq.write_table(table, path)


@pytest.fixture
def path(task, tmp_path) -> Path:
    write_answers(by_hand(task, loans.table(3)), tmp_path / "answers.parquet")
    return tmp_path / "answers.parquet"


def test_text_that_is_no_json_is_refused(path, task):
    rewritten(path, certificate=["{", "{}", "{}", None])
    with pytest.raises(FormatError, match=r"answers\.parquet does not hold answers .*JSONDecodeError"):
        read_answers(path, task)


def test_a_status_that_does_not_exist_is_refused(path, task):
    rewritten(path, status=["verified", "verified", "verified", "splendid"])
    with pytest.raises(FormatError, match="splendid"):
        read_answers(path, task)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_file_is_refused(share, path, task):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(FormatError, match="does not hold answers"):
        read_answers(path, task)


@given(st.data())
@examples(40)
def test_a_damaged_file_is_refused_or_still_checked(data):
    content = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    DAMAGED.write_bytes(bytes(content))
    # Whatever else it may raise is for nobody to handle.
    with contextlib.suppress(FormatError, DataError):
        found = read_answers(DAMAGED, TASK)
        assert found.checks.passed[found.row_status[found.place] == "best_effort"].sum() == 0


@pytest.fixture(scope="module", autouse=True)
def whole_file(tmp_path_factory):
    global DAMAGED, WHOLE
    DAMAGED = tmp_path_factory.mktemp("damaged") / "answers.parquet"
    write_answers(by_hand(TASK, loans.table(6)), DAMAGED)
    WHOLE = DAMAGED.read_bytes()


def test_a_file_that_another_program_saved_again_is_told_from_one_that_never_was_ours(path, task, tmp_path):
    pd.read_parquet(path).to_parquet(tmp_path / "again.parquet")
    with pytest.raises(
        FormatError, match=r"again\.parquet: was saved again by another program, which .* Use the original file"
    ):
        read_answers(tmp_path / "again.parquet", task)


def test_answers_are_read_with_an_explainer_that_was_fitted_to_the_task(path, task):
    fitted = FCx()
    with pytest.raises(DataError, match="task: is a FCx, neither a Task nor a fitted explainer"):
        read_answers(path, fitted)
    fitted.task_ = task
    assert_same(read_answers(path, fitted), read_answers(path, task))


def test_files_of_another_table_or_format_are_refused(path, task, tmp_path):
    loans.table(3).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(FormatError, match="does not hold answers"):
        read_answers(tmp_path / "rows.parquet", task)
    with pytest.raises(FormatError, match="there is no file"):
        read_answers(tmp_path / "none.parquet", task)
    wider = Task(loans.table().assign(height=1), loans.chance, target=1, rules="")
    with pytest.raises(FormatError, match=r"another table or model .*\n.*column 'height': is not in it"):
        read_answers(path, wider)
    table = pq.read_table(path)
    for number, remedy in ((1, "Explain again"), (5, "Upgrade")):
        about = json.loads(table.schema.metadata[KEY]) | {"format": number}
        told = {**table.schema.metadata, KEY: json.dumps(about).encode()}
        pq.write_table(table.replace_schema_metadata(told), path)
        with pytest.raises(FormatError, match=f"has format {number}.*{remedy}"):
            read_answers(path, task)
