"""Streaming: the same answers as in one go, resumable after any interruption, never a file that is not whole."""

from __future__ import annotations

import csv
import gzip
import json
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import loans
import plain_answers
from fcxplain.datasets.delimited import MAX_LINE
from fcxplain.datasets.source import read_rows
from fcxplain.errors import DataError, SchemaError
from fcxplain.explanation import Explanation, read_answers
from fcxplain.explanation.files.digest import DIGEST
from fcxplain.explanation.files.parquet import KEY, arrow_table
from fcxplain.explanation.files.verification import verify
from fcxplain.progress import EXPLAINING, FOUND, OnProgress, Progress, no_progress
from fcxplain.streaming import chunk_for, kept_rows, matched, stream
from fcxplain.streaming.rows import RowFile
from fcxplain.task import Task
from processes import processes

TASK = loans.task()
ROWS = loans.table(95, seed=7)


def explain(rows: pd.DataFrame, tell: OnProgress = no_progress) -> Explanation:
    for done in (len(rows) // 2, len(rows)):
        tell(Progress(EXPLAINING, done, len(rows)))
    return plain_answers.explain(TASK, rows, k=2)


@pytest.fixture
def source(tmp_path) -> Path:
    ROWS.to_parquet(tmp_path / "rows.parquet", row_group_size=13)
    return tmp_path / "rows.parquet"


def run(source: Path, *, explain=explain, chunk: int = 40, identity: str = "a", **more: object):
    return stream(
        explain, source, source.with_name("answers.parquet"), task=TASK, identity=identity, chunk=chunk, **more
    )


def content(path: Path) -> dict[str, list[object]]:
    """Every cell of a file of answers; LOFs to the last digits that they can be."""
    found = pq.read_table(path).to_pydict()
    certificates = [None if c is None else json.loads(c) for c in found["certificate"]]
    found["certificate"] = [c and c | {"lof": round(c["lof"], 4)} for c in certificates]
    return found


def test_streaming_gives_the_answers_of_one_go(source, tmp_path):
    found = run(source)
    assert found.path == tmp_path / "answers.parquet"
    whole = explain(ROWS)
    pq.write_table(arrow_table(whole), tmp_path / "whole.parquet")
    assert content(found.path) == content(tmp_path / "whole.parquet")
    assert (found.rows, dict(found.counts), found.notes) == (95, whole.counts, whole.notes)
    assert found.effort.calls == 95
    assert found.effort.seconds == pytest.approx(3 * 0.5)
    pd.testing.assert_frame_equal(found.explanation(TASK).frame, whole.frame)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["answers.parquet", "rows.parquet", "whole.parquet"]
    assert "95 rows" in repr(found)


def test_what_was_streamed_can_be_verified(source):
    found = run(source)
    assert verify(TASK, ROWS, found.path).passed
    told = json.loads(pq.read_schema(found.path).metadata[KEY])
    assert (told["rows"], told["counts"]) == (95, dict(found.counts))


@pytest.mark.parametrize("size", [1, 95, 1000])
def test_the_size_of_chunks_does_not_show(size, source, tmp_path):
    first = content(run(source).path)
    rows = ROWS if size > 1 else ROWS.iloc[:3]
    rows.to_parquet(source)
    second = content(run(source, chunk=size).path)
    assert {name: values[: len(second["row"])] for name, values in first.items()} == second


def test_the_digest_is_the_one_of_one_go_whatever_the_size_of_chunks(source, tmp_path):
    def columns(path: Path) -> dict[str, str]:
        parts = json.loads(pq.read_schema(path).metadata[DIGEST])["parts"]
        # How long it took differs from run to run.
        return {name: digest for name, digest in parts.items() if name != "metadata 'fcxplain'"}

    for rows, size in ((ROWS.iloc[:5], 1), (ROWS, 13), (ROWS, 95)):
        rows.to_parquet(source, row_group_size=13)
        explain(rows).to_parquet(tmp_path / "whole.parquet")
        found = run(source, chunk=size)
        assert columns(found.path) == columns(tmp_path / "whole.parquet")
        assert verify(TASK, rows, found.path).digest.state == "matches"


def test_a_run_that_goes_on_is_written_with_the_key_given_then(source):
    cut_off(source)
    found, key = run(source, key=b"secret" * 6), b"secret" * 6
    assert verify(TASK, ROWS, found.path, key=key).passed
    assert not verify(TASK, ROWS, found.path, key=key[1:]).passed
    with pytest.raises(DataError, match="16 random bytes or more"):
        run(source, key=b"short")


def test_rows_are_told_within_chunks_and_again_when_they_are_kept(source):
    seen: list[Progress] = []
    run(source, on_progress=seen.append)
    assert [event.done for event in seen] == [20, 40, 40, 60, 80, 80, 87, 95, 95]
    assert {(event.stage, event.total, event.note) for event in seen} == {(EXPLAINING, 95, "")}


class Stops:
    """An explainer that is cut off after some chunks, as by Ctrl-C, and counts the rows that it was asked about."""

    def __init__(self, after: int, error: BaseException) -> None:
        self.left, self.error, self.asked = after, error, 0

    def __call__(self, rows: pd.DataFrame, tell: object) -> Explanation:
        if self.left == 0:
            raise self.error
        self.left -= 1
        self.asked += len(rows)
        return explain(rows)


@pytest.mark.parametrize(
    ("after", "error"), [(0, KeyboardInterrupt()), (2, KeyboardInterrupt()), (1, RuntimeError("the model broke down"))]
)
def test_a_run_that_was_cut_off_goes_on_and_ends_the_same(after, error, source):
    expected = content(run(source).path)
    source.with_name("answers.parquet").unlink()
    with pytest.raises(type(error)):
        run(source, explain=Stops(after, error))
    assert not source.with_name("answers.parquet").exists()
    parts = sorted(p.name for p in source.parent.glob("answers.parquet.parts/*"))
    assert parts == ["manifest.json", *(f"part-{i:06d}.parquet" for i in range(after))][: 9 * after]
    assert kept_rows(source.with_name("answers.parquet")) == 40 * after
    rest, seen = Stops(9, error), []
    found = run(source, explain=rest, on_progress=seen.append)
    assert content(found.path) == expected
    notes = [f"resuming after row {event.done}" for event in seen if event.note]
    assert notes == [event.note.partition(":")[0] for event in seen if event.note] == notes[: after > 0]
    assert rest.asked == 95 - 40 * after
    assert [e.stage for e in seen if not e.note] == [FOUND] * after + [EXPLAINING] * (3 - after)
    assert not source.with_name("answers.parquet.parts").exists()


class Module(nn.Module):
    """A network that approves whoever the first of the encoded columns is large for."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([-x[:, 0], x[:, 0]], dim=1)


def test_answers_of_a_model_that_is_dear_to_ask_are_kept_more_often(tmp_path):
    loans.table(2100, seed=8).to_parquet(tmp_path / "rows.parquet")
    seen: list[Progress] = []
    stops, target = Stops(2, KeyboardInterrupt()), tmp_path / "answers.parquet"
    with pytest.raises(KeyboardInterrupt):
        stream(stops, tmp_path / "rows.parquet", target, task=TASK, identity="a")
    assert kept_rows(target) == stops.asked == 2000
    rest = Stops(9, KeyboardInterrupt())
    stream(rest, tmp_path / "rows.parquet", target, task=TASK, identity="a", on_progress=seen.append)
    assert ([e.done for e in seen if e.note], rest.asked) == ([2000], 100)
    assert pq.read_metadata(target).num_row_groups == 1, "small parts go together"
    assert chunk_for(Task(ROWS, Module(), schema=loans.SCHEMA, target=1)) == 20_000


def test_the_first_rows_of_a_status_are_named_once_each(source):
    found = run(source)
    answer = found.explanation(TASK)
    for status in answer.counts:
        labels = answer.rows.index[answer.row_status == status].tolist()
        for most in (2, 95):
            assert found.first_rows(TASK, status, most) == labels[:most]


def cut_off(source: Path, after: int = 2) -> Path:
    with pytest.raises(KeyboardInterrupt):
        run(source, explain=Stops(after, KeyboardInterrupt()))
    return source.with_name("answers.parquet.parts")


def test_parts_of_another_run_are_never_taken_for_ones_own(source):
    folder = cut_off(source)
    for change in ({"identity": "b"}, {"chunk": 41}):
        with pytest.raises(DataError, match=r"parts of another run.*Delete that folder, or pass overwrite=True"):
            run(source, **change)
    ROWS.iloc[::-1].to_parquet(source)
    with pytest.raises(DataError, match="parts of another run"):
        run(source)
    assert len(list(folder.iterdir())) == 3
    assert content(run(source, overwrite=True).path)["row"][-1] == "row 0"


def test_damaged_parts_are_made_again(source):
    expected = content(run(source).path)
    folder = cut_off(source)
    (folder / "part-000000.parquet").write_bytes(b"PAR1")
    (folder / ".part-000001.parquet.x").write_bytes(b"half")
    seen: list[Progress] = []
    assert content(run(source, on_progress=seen.append).path) == expected
    assert [event.done for event in seen if event.stage == FOUND] == [40]
    assert [event.note.partition(":")[0] for event in seen if event.note] == ["resuming"], "it is not the beginning"
    assert not folder.exists()


def test_a_folder_that_is_not_ours_is_left_alone(source):
    folder = source.with_name("answers.parquet.parts")
    folder.mkdir()
    (folder / "diary.txt").write_text("mine")
    with pytest.raises(DataError, match=r"is not a folder of answers \('diary.txt'\)"):
        run(source, overwrite=True)
    assert (folder / "diary.txt").read_text() == "mine"


def stream_slowly(source: Path, told: Connection) -> None:
    def slowly(rows: pd.DataFrame, tell: OnProgress) -> Explanation:
        told.send("chunk")
        time.sleep(0.3)
        return explain(rows)

    run(source, explain=slowly)


def test_a_killed_process_leaves_whole_parts_only(source):
    here, there = processes.Pipe(duplex=False)
    process = processes.Process(target=stream_slowly, args=(source, there))
    process.start()
    for _ in range(3):
        here.recv()
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not source.with_name("answers.parquet").exists()
    parts = sorted(source.with_name("answers.parquet.parts").glob("part-*"))
    assert len(parts) >= 2
    assert all(pq.read_metadata(p).num_rows >= 40 for p in parts)
    seen: list[Progress] = []
    found = run(source, on_progress=seen.append)
    assert seen[1].stage == FOUND
    assert verify(TASK, ROWS, found.path).passed


def test_a_second_run_is_refused_at_once_and_leaves_the_first_alone(source, tmp_path):
    refused: list[str] = []

    def meanwhile(rows: pd.DataFrame, tell: Callable[[int, int], None] | None = None) -> Explanation:
        for more in ({}, {"overwrite": True}, {"identity": "b"}):
            with pytest.raises(DataError) as error:
                run(source, **more)
            refused.append(str(error.value))
        return explain(rows, tell)

    found = run(source, explain=meanwhile)
    assert len(refused) == 9
    assert all("answers.parquet: is being written by another run" in told for told in refused)
    assert verify(TASK, ROWS, found.path).passed
    assert sorted(p.name for p in tmp_path.iterdir()) == ["answers.parquet", "rows.parquet"]


# Sources


def labels_of(path: Path) -> list[object]:
    return read_answers(path, TASK).rows.index.tolist()


def test_rows_are_labelled_as_in_the_file_or_by_their_number(source):
    named = {
        "a range": (ROWS.set_axis(pd.RangeIndex(5, 5 + 2 * 95, 2), axis=0), range(5, 195, 2)),
        "text": (ROWS, ROWS.index),
        "pairs": (ROWS.set_axis(pd.MultiIndex.from_product([["x"], range(95)]), axis=0), [("x", i) for i in range(95)]),
        "a column": (ROWS.rename_axis("who"), ROWS.index),
    }
    for kind, (rows, labels) in named.items():
        rows.to_parquet(source)
        assert labels_of(run(source).path) == list(labels), kind
        assert verify(TASK, rows, source.with_name("answers.parquet")).passed
    pq.write_table(pa.Table.from_pandas(ROWS, preserve_index=False).replace_schema_metadata(None), source)
    assert labels_of(run(source).path) == list(range(95))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_rows_far_apart_in_one_row_group_are_read_in_any_order(ending, tmp_path):
    # As workers do that take every second partition of a large file.
    many = ROWS.iloc[np.arange(100_000) % len(ROWS)].reset_index(drop=True)
    many.to_parquet(tmp_path / "rows.parquet") if ending == "parquet" else many.to_csv(
        tmp_path / "rows.csv", index=False
    )
    file = RowFile(tmp_path / f"rows.{ending}", TASK)
    for start in (0, 50_000, 99_990, 30, 20_000):
        pd.testing.assert_frame_equal(file.between(start, start + 10), many.iloc[start : start + 10], check_dtype=False)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_rows_are_called_by_a_column_that_is_named(ending, tmp_path):
    table, source = ROWS.rename_axis("who").reset_index(), tmp_path / f"rows.{ending}"
    table.to_parquet(source) if ending == "parquet" else table.to_csv(source, index=False)
    assert labels_of(run(source, index="who").path) == ROWS.index.tolist()
    with pytest.raises(DataError, match="index 'hwo': is not a column"):
        run(source, index="hwo")
    with pytest.raises(DataError, match="index 'job': is also a feature"):
        run(source, index="job")
    own = pd.DataFrame({"freeze": ["job"]}, index=["row 3"])
    assert matched(own, source, TASK, "who").index.tolist() == ["row 3"]


def test_names_of_rows_in_text_keep_their_leading_zeros(tmp_path):
    names = [f"{i:06}" for i in range(95)]
    ROWS.set_axis(names, axis=0).rename_axis("who").to_csv(tmp_path / "rows.csv")
    assert labels_of(run(tmp_path / "rows.csv", index="who").path) == names
    own = pd.DataFrame({"freeze": ["job"]}, index=["000003"])
    assert matched(own, tmp_path / "rows.csv", TASK, "who").index.tolist() == ["000003"]


@pytest.mark.parametrize(("second", "read"), [("n/a", ["a", "n/a"]), ("b", ["a", None])])
def test_a_mark_of_missing_values_is_a_level_only_if_the_schema_has_it(second, read, tmp_path):
    table = pd.DataFrame({"size": [1, 2] * 10, "city": ["a", second] * 10})
    task = Task(table, lambda rows: np.where(rows["size"] > 1, 0.9, 0.1), target=1)
    (tmp_path / "rows.csv").write_text("size,city\n1,a\n2,n/a\n")
    (chunk,) = RowFile(tmp_path / "rows.csv", task).chunks(10)
    assert chunk["city"].astype(object).where(chunk["city"].notna(), None).tolist() == read


def test_columns_that_are_no_features_are_not_read(source):
    ROWS.assign(note=[["a", "list"]] * 95).to_parquet(source)
    assert run(source).rows == 95


def test_categories_that_differ_between_row_groups_are_read(source):
    ROWS.astype({"job": "category", "born": "category"}).to_parquet(source, row_group_size=7)
    assert content(run(source).path)["now: job"][-1] == ROWS["job"].iloc[-1]


@pytest.mark.parametrize("ending", ["csv.gz", "tsv"])
def test_delimited_text_gives_the_same_answers(ending, source, tmp_path):
    expected = content(run(source).path)
    text = ROWS.assign(note="x;y").to_csv(index=False, sep="\t" if ending == "tsv" else ";", lineterminator="\r\n")
    packed = gzip.compress(text.encode()) if ending.endswith("gz") else ("\ufeff" + text).encode()
    (tmp_path / f"rows.{ending}").write_bytes(packed)
    found = run(tmp_path / f"rows.{ending}")
    assert labels_of(found.path) == list(range(95))
    told = content(found.path)
    for name in ("income", "age", "now: income", "now: job", "probability", "status"):
        assert told[name] == expected[name], name


def test_text_is_read_with_the_dtypes_of_the_task(tmp_path):
    ROWS.assign(income=1000).to_csv(tmp_path / "rows.csv", index=False)
    seen: list[pd.DataFrame] = []
    run(tmp_path / "rows.csv", explain=lambda rows, tell: seen.append(rows) or explain(rows))
    for table in seen:
        assert dict(table.dtypes) == dict(TASK.encoder.dtypes_)


BAD = {
    "a number": (lambda t: t.assign(age=t["age"].astype(object).where(t.index != "row 30", "old")), "'age': is 'old'"),
    "a level": (lambda t: t.assign(job=t["job"].where(t.index != "row 30", "pilot")), "'pilot'"),
    "a gap": (
        lambda t: t.assign(income=t["income"].where(t.index != "row 30")),
        "'income': is empty or marked as missing, e.g. n/a",
    ),
    "no column": (lambda t: t.drop(columns="job"), "'job': is not in the table"),
}


@pytest.mark.parametrize("kind", BAD)
def test_rows_that_do_not_fit_are_named(kind, tmp_path):
    change, message = BAD[kind]
    change(ROWS).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises((DataError, SchemaError), match=message) as told:
        run(tmp_path / "rows.csv")
    assert kind == "no column" or "first at index 30" in str(told.value)


def test_rows_outside_the_schema_are_refused_before_any_is_explained_and_nothing_is_left(source, tmp_path):
    ROWS.assign(age=ROWS["age"].where(ROWS.index != "row 90", 1000)).to_parquet(source)
    with pytest.raises(SchemaError, match=r"widen 'high' in the schema and fit again\."):
        run(source, explain=Stops(0, AssertionError("explained")), chunk=10)
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


def test_files_that_cannot_be_read_are_told(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 and nothing more")
    (tmp_path / "twice.csv").write_text("age,age\n1,2\n")
    ROWS.iloc[:0].to_parquet(tmp_path / "none.parquet")
    for name, message in {
        "rows.parquet": "cannot be read",
        "twice.csv": "more than once",
        "none.parquet": "has no rows",
        "row.parquet": r"there is no file .*Did you mean 'rows.parquet'",
    }.items():
        with pytest.raises(DataError, match=message):
            run(tmp_path / name)
    assert not list(tmp_path.glob("answers*"))


def test_a_target_that_cannot_be_written_is_told_before_the_work(source, tmp_path):
    nothing = Stops(0, AssertionError("explained"))
    for target in (tmp_path / "no" / "such" / "answers.parquet", tmp_path):
        with pytest.raises(DataError, match=r"cannot write|is not a folder of answers"):
            stream(nothing, source, target, task=TASK, identity="a")
    with pytest.raises(DataError, match="chunk 0"):
        run(source, chunk=0)


def test_labels_of_one_kind_are_asked_for(source):
    def relabelled(rows: pd.DataFrame, tell) -> Explanation:
        return explain(rows if "row 0" in rows.index else rows.set_axis(np.arange(len(rows)), axis=0))

    with pytest.raises(DataError, match="all row labels must have the same type"):
        run(source, explain=relabelled)


@pytest.mark.parametrize(
    "before", [b"", b"age,income,degree,job,born\n", b"age,income,degree,job,born\n30,1,none,cook,here\n"]
)
def test_a_packed_line_without_end_is_refused_and_not_read_whole(tmp_path, before):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(before + b"1" * (2 * MAX_LINE), 1))
    with pytest.raises(DataError, match=r"has a line of more than 16,777,216 bytes"):
        run(path)


def test_a_packed_file_that_is_damaged_is_refused_as_such(tmp_path):
    path = tmp_path / "rows.csv.gz"
    packed = bytearray(gzip.compress(ROWS.to_csv(index=False).encode()))
    packed[40:60] = bytes(20)
    path.write_bytes(packed)
    with pytest.raises(DataError, match="is a damaged gzip file"):
        run(path)


# The same files as read whole


def european(amount: float) -> str:
    return f"{amount:,.1f}".translate(str.maketrans(",.", ".,"))


def odd_files(folder: Path) -> dict[str, Path]:
    """The same rows, each time written otherwise; every one has a number that rows are called by."""
    rows = ROWS.reset_index(drop=True).assign(who=range(100, 195), note="à gauche")
    written = rows.assign(income=rows["income"].map(european))
    texts = {
        "decimal commas": written.to_csv(index=False, sep=";"),
        "cp1252": rows.to_csv(index=False),
        "utf-16": rows.to_csv(index=False, sep="\t"),
        "quoted": rows.assign(note="a;b,c\nd").to_csv(index=False, quoting=csv.QUOTE_ALL),
        "gz": written.to_csv(index=False, sep="|"),
        "sep=": "sep=;\n" + rows.to_csv(index=False, sep=";"),
        "ends in separators": rows.to_csv(index=False).replace("\n", ",\n").replace(",\n", "\n", 1),
        "columns of one name": rows.assign(more="y").to_csv(index=False, header=[*rows.columns, "note"]),
        "capitals": rows.assign(job=rows["job"].str.upper()).to_csv(index=False),
        "blanks and signs": rows.assign(income=rows["income"].map("  {:+} ".format)).to_csv(index=False),
    }
    for name, text in texts.items():
        encoded = text.encode(name if name in ("cp1252", "utf-16") else "utf-8")
        (folder / f"{name}.csv").write_bytes(gzip.compress(encoded) if name == "gz" else encoded)
    return {name: folder / f"{name}.csv" for name in texts}


def test_odd_files_are_read_alike_whole_and_in_chunks(tmp_path):
    expected = ROWS.set_axis(pd.RangeIndex(100, 195), axis=0)
    for name, path in odd_files(tmp_path).items():
        whole = read_rows(path, TASK, index="who")
        chunks = pd.concat(list(RowFile(path, TASK, "who").chunks(50)))
        for found in (whole, chunks):
            pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_index_type=False, check_names=False)
            assert found.index.dtype == np.int64, name
        assert chunks.dtypes.equals(ROWS.dtypes), name
        assert [*RowFile(path, TASK, "who").labels(50)][1].tolist() == list(range(150, 195)), name


@pytest.mark.parametrize("name", ["decimal commas", "gz"])
def test_odd_files_get_the_answers_of_plain_ones(name, source, tmp_path):
    expected, told = content(run(source).path), content(run(odd_files(tmp_path)[name]).path)
    for column in ("income", "age", "now: income", "now: job", "probability", "status"):
        assert told[column] == expected[column], column


def test_what_is_wrong_is_told_alike_whole_and_in_chunks(tmp_path):
    path = tmp_path / "rows.csv"
    for change in (
        {"age": "old"},
        {"job": "pilot"},
        {"job": "n/a"},
        {"born": "here,there"},
        {"income": "12 %"},
        {"age": "-"},
    ):
        (name, text), table = *change.items(), ROWS.reset_index(drop=True).astype(object)
        table.loc[60, name] = text
        path.write_text(table.to_csv(index=False).replace('"', "" if name == "born" else '"'))
        told = []
        for read in (lambda: read_rows(path, TASK), lambda: run(path, chunk=9)):
            with pytest.raises((DataError, SchemaError)) as error:
                read()
            told.append([(fault.place, fault.rows, fault.first) for fault in error.value.faults])
        assert told[0] == told[1], change
        assert name == "born" or told[0] == [(f"column {name!r}", 1, 60)], change
    path.write_text(ROWS.assign(income=["1,5", *["2.5"] * 94]).to_csv(index=False, sep=";"))
    for read in (lambda: read_rows(path, TASK), lambda: run(path)):
        with pytest.raises(DataError, match=r"'income': mixes decimal points and commas, e.g. '1,5', '2.5'"):
            read()


def test_a_notation_that_the_last_row_tells_holds_for_the_first(tmp_path):
    rows = ROWS.reset_index(drop=True).iloc[:40].assign(income=["1.234"] * 39 + ["2.500,5"], age=30)
    rows.to_csv(tmp_path / "rows.csv", sep=";", index=False)
    (first, *_) = RowFile(tmp_path / "rows.csv", TASK).chunks(5)
    assert first["income"].tolist() == [1234.0] * 5 == read_rows(tmp_path / "rows.csv", TASK)["income"].tolist()[:5]


def test_a_column_that_is_no_feature_tells_how_numbers_are_written(tmp_path):
    rows = ROWS.reset_index(drop=True).iloc[:40].assign(income="1.500", note="0,75")
    rows.to_csv(tmp_path / "rows.csv", sep=";", index=False)
    (chunk,) = RowFile(tmp_path / "rows.csv", TASK).chunks(40)
    assert set(chunk["income"]) == {1500.0} == set(read_rows(tmp_path / "rows.csv", TASK)["income"])


def test_numbers_that_can_be_read_in_two_ways_are_read_as_the_schema_allows(tmp_path):
    rows = ROWS.reset_index(drop=True).iloc[:40]
    rows.assign(income="9.500").to_csv(tmp_path / "rows.csv", sep=";", index=False)
    (chunk,) = RowFile(tmp_path / "rows.csv", TASK).chunks(40)
    assert set(chunk["income"]) == {9.5} == set(read_rows(tmp_path / "rows.csv", TASK)["income"])
    rows.assign(income="8.500").to_csv(tmp_path / "rows.csv", sep=";", index=False)
    for read in (lambda: read_rows(tmp_path / "rows.csv", TASK), lambda: run(tmp_path / "rows.csv")):
        with pytest.raises(DataError, match="numbers that can be read in two ways"):
            read()
