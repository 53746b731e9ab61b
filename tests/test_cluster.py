"""Past one process: the same bytes on any cluster, whatever dies, and nothing done twice."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import commands
import faulty_model
from fcxplain import FCx, Task, read_answers, verify
from fcxplain.errors import ClassifierError, DataError, FormatError
from fcxplain.progress import EXPLAINING, FOUND, Progress
from processes import start

distributed = pytest.importorskip("distributed")

HERE = Path(__file__).parent
MODEL = "faulty_model:model"
ROWS = faulty_model.table(60, seed=5)
ASKED: dict[str, Any] = {"chunk": 10, "budget": 10}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """A saved model, rows in one file and in several, and what one process makes of them."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "faults").mkdir()
    (folder / "rows").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FCXPLAIN_FAULTS", str(folder / "faults"))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *sys.path]))
        patch.setattr(faulty_model, "FAULTS", folder / "faults")
        task = Task(faulty_model.table(300), faulty_model.model, target=1, rules="age' >= age")
        FCx(generator=False, oracle="model").fit(task).save(folder / "model")
        ROWS.to_parquet(folder / "rows.parquet", row_group_size=17)
        for number, start in enumerate(range(0, 60, 13)):
            ROWS.iloc[start : start + 13].to_parquet(folder / "rows" / f"{number}.parquet")
        loaded(folder).explain_file(folder / "rows.parquet", folder / "plain", **ASKED)
        yield folder


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Any]:
    """Workers that are real processes, forked from one that has loaded what takes long to import."""
    import dask
    from distributed.utils import get_mp_context

    settings = {
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.scheduler.allowed-failures": 1,
        "distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": 1,
        # The process that workers are forked from may be older than this folder.
        "distributed.nanny.environ.FCXPLAIN_FAULTS": str(folder / "faults"),
    }
    with dask.config.set(settings):
        get_mp_context()
        multiprocessing.get_context("forkserver").set_forkserver_preload(["distributed", "fcxplain.explainer"])
        how = {"threads_per_worker": 1, "memory_limit": "700MB", "dashboard_address": "127.0.0.1:0"}
        with distributed.LocalCluster(n_workers=1, silence_logs=50, **how) as made:
            yield made


def loaded(folder: Path) -> FCx:
    return FCx.load(folder / "model", MODEL)


def run(folder: Path, target: Path, cluster: Any, source: str = "rows", **more: Any):
    """A run on the cluster; events are in the list `seen`, if there is one."""
    return loaded(folder).explain_file(
        folder / source, target, engine="dask", scheduler=cluster.scheduler_address, **ASKED, **more
    )


def content(target: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in target.glob("part-*.parquet")}


def fault(folder: Path, name: str, target: Path) -> Path:
    (folder / "faults" / name).write_text(str(target))
    return folder / "faults" / name


def found_rows(seen: list[Progress]) -> int:
    return max((int(event.done) for event in seen if event.stage == FOUND), default=0)


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_writes_the_bytes_of_one_process(workers: int, folder: Path, cluster: Any):
    cluster.scale(workers)
    cluster.wait_for_workers(workers)
    seen: list[Progress] = []
    done = run(folder, folder / f"with-{workers}", cluster, on_progress=seen.append)
    assert content(done.path) == content(folder / "plain")
    assert (done.rows, done.failed) == (60, {})
    assert any(event.note.startswith("Dask dashboard: http://") for event in seen)
    last = [event for event in seen if event.stage == EXPLAINING][-1]
    assert (last.done, last.total) == (60, 60)
    assert f"{done.counts['verified']} verified" in last.detail
    assert last.detail.endswith(f"; {workers} worker{'s' * (workers > 1)}")


def test_overrides_reach_workers_as_they_are(folder: Path, cluster: Any, tmp_path: Path):
    own = {3: {"freeze": "age", "income": "1000..3000"}, 41: {"rules": "debt' <= 5"}}
    plain = loaded(folder).explain_file(folder / "rows", tmp_path / "plain", overrides=own, **ASKED)
    done = run(folder, tmp_path / "answers", cluster, overrides=own)
    assert content(done.path) == content(plain.path) != content(folder / "plain")


def test_how_rows_are_spread_over_files_leaves_no_trace(folder: Path, tmp_path: Path):
    (tmp_path / "rows").mkdir()
    for number in range(12):
        part = ROWS.iloc[number * 5 : number * 5 + 5].reset_index(drop=True)
        part.to_parquet(tmp_path / "rows" / f"part-{number}.parquet")
    for number, source in enumerate((folder / "rows", f"{tmp_path}/rows/*.parquet", f"file://{folder}/rows.parquet")):
        done = loaded(folder).explain_file(source, tmp_path / f"answers-{number}", **ASKED)
        assert content(done.path) == content(folder / "plain"), source


def test_a_folder_is_read_verified_and_measured_like_a_file(folder: Path, tmp_path: Path):
    fcx = loaded(folder)
    file = fcx.explain_file(folder / "rows.parquet", tmp_path / "answers.parquet", **ASKED)
    one, several = (read_answers(path, fcx) for path in (file.path, folder / "plain"))
    pd.testing.assert_frame_equal(one.frame, several.frame)
    assert verify(fcx.task_, ROWS, folder / "plain").passed
    assert "<html" in several.to_html()
    manifest = json.loads((folder / "plain" / "manifest.json").read_text())
    about = {"rows": 60, "counts": one.counts, "failed": {}, "ended": True, "chunk": 10}
    assert {name: manifest[name] for name in about} == about
    assert manifest["options"]["budget"]["calls"] == 10
    own = ("--classifier", MODEL)
    said = commands.run("verify", "model", "rows", "plain", *own, folder=folder)
    assert said.code == 0, said.err
    said = commands.run("evaluate", "model", "--answers", "plain", "--metrics", "validity", *own, folder=folder)
    assert (said.code, "validity" in said.out) == (0, True), said.err


def test_an_edit_of_a_part_or_of_the_manifest_is_found(folder: Path, tmp_path: Path):
    fcx, key = loaded(folder), b"secret" * 5
    done = fcx.explain_file(folder / "rows.parquet", tmp_path / "answers", key=key, **ASKED)
    assert verify(fcx.task_, ROWS, done.path, key=key).passed
    assert verify(fcx.task_, ROWS, done.path, key=key[1:]).digest.state == "wrong key"
    path = tmp_path / "answers" / "manifest.json"
    before = path.read_text()
    path.write_text(before.replace('"chunk": 10', '"chunk": 11'))
    assert verify(fcx.task_, ROWS, done.path, key=key).digest.changed == ("the manifest",)
    path.write_text(before)
    (tmp_path / "answers" / "part-000002.parquet").write_bytes(content(folder / "plain")["part-000003.parquet"])
    assert "part-000002.parquet" in verify(fcx.task_, ROWS, done.path, key=key).digest.changed
    path.unlink()
    with pytest.raises(FormatError, match=r"is a folder without a readable manifest\.json"):
        read_answers(tmp_path / "answers", fcx)


# Faults


@pytest.mark.parametrize("name", ["kill", "memory"])
def test_a_worker_that_dies_costs_nothing(name: str, folder: Path, cluster: Any, tmp_path: Path):
    waiting = fault(folder, name, tmp_path / "answers")
    done = run(folder, tmp_path / "answers", cluster)
    assert not waiting.exists(), "it has happened"
    assert (content(done.path), done.failed) == (content(folder / "plain"), {})


def test_a_partition_that_kills_every_worker_costs_that_partition(folder: Path, cluster: Any, tmp_path: Path):
    # Before there are two parts nothing is killed; then everything is.
    waiting = fault(folder, "always", tmp_path / "answers")
    done = run(folder, tmp_path / "answers", cluster)
    waiting.unlink()
    assert done.rows >= 20
    assert "most likely they ran out of memory" in next(iter(done.failed.values()))
    kept, manifest = content(done.path), json.loads((done.path / "manifest.json").read_text())
    assert manifest["failed"] == done.failed
    assert sorted([*kept, *done.failed]) == sorted(content(folder / "plain"))
    seen: list[Progress] = []
    again = run(folder, tmp_path / "answers", cluster, on_progress=seen.append)
    assert (content(again.path), found_rows(seen)) == (content(folder / "plain"), done.rows)


def test_a_full_disk_ends_the_run_and_room_lets_it_go_on(folder: Path, cluster: Any, tmp_path: Path):
    waiting = fault(folder, "full", tmp_path / "answers")
    with pytest.raises(DataError, match=r"cannot write .*part-00000\d\.parquet: File too large"):
        run(folder, tmp_path / "answers", cluster)
    waiting.unlink()
    kept = content(tmp_path / "answers")
    assert 2 <= len(kept) < 6
    # Another worker may still be writing; nothing half written is left.
    when(lambda: not list((tmp_path / "answers").glob(".part*")))
    with pytest.raises(FormatError, match="belongs to an unfinished run"):
        read_answers(tmp_path / "answers", loaded(folder))
    seen: list[Progress] = []
    done = run(folder, tmp_path / "answers", cluster, on_progress=seen.append)
    assert content(done.path) == content(folder / "plain")
    assert found_rows(seen) >= 10 * len(kept)


def test_a_part_that_is_half_written_is_made_again(folder: Path, cluster: Any, tmp_path: Path):
    done = run(folder, tmp_path / "answers", cluster)
    damaged, zeroed = (done.path / f"part-00000{i}.parquet" for i in (3, 4))
    damaged.write_bytes(damaged.read_bytes()[:1000])
    zeroed.write_bytes(bytes(zeroed.stat().st_size))
    (done.path / ".part-000005.parquet.x").write_bytes(b"PAR1")
    times = {path.name: path.stat().st_mtime_ns for path in done.path.glob("part-*")}
    seen: list[Progress] = []
    again = run(folder, tmp_path / "answers", cluster, on_progress=seen.append)
    assert (content(again.path), found_rows(seen)) == (content(folder / "plain"), 40)
    changed = [name for name, time in times.items() if (done.path / name).stat().st_mtime_ns != time]
    assert sorted(changed) == [damaged.name, zeroed.name]
    assert not list(done.path.glob(".part*"))


def when(happened: Callable[[], bool], still: Callable[[], bool] = lambda: True) -> None:
    """Wait until something happened, as long as what should make it happen is still there."""
    for _ in range(2400):
        if happened():
            return
        assert still(), "it ended before"
        time.sleep(0.05)
    raise AssertionError("it never happened")


@contextmanager
def explaining(folder: Path, target: Path, scheduler: str) -> Iterator[tuple[BaseProcess, Path]]:
    """The command line in a process of its own, slow once there are two parts, and what it says."""
    fault(folder, "slow", target)
    asked = ("explain", "model", "rows/*.parquet", "--out", target, "--chunk", 10, "--budget", 10)
    cluster = ("--classifier", MODEL, "--engine", "dask", "--scheduler", scheduler)
    said = target.with_name("said.txt")
    process = start(*asked, *cluster, folder=folder, said=said)
    try:
        when(lambda: len(list(target.glob("part-*"))) >= 2, process.is_alive)
        yield process, said
    finally:
        process.kill()
        process.join()
        (folder / "faults" / "slow").unlink()


def test_a_client_that_is_killed_loses_nothing_and_a_second_run_is_refused_before(
    folder: Path, cluster: Any, tmp_path: Path
):
    target = tmp_path / "answers"
    with (
        explaining(folder, target, cluster.scheduler_address),
        pytest.raises(DataError, match="is being written by another run"),
    ):
        run(folder, target, cluster, source="rows")
    kept, seen = {p.name: p.stat().st_mtime_ns for p in target.glob("part-*")}, list[Progress]()
    done = run(folder, target, cluster, on_progress=seen.append)
    assert content(done.path) == content(folder / "plain")
    assert found_rows(seen) >= 10 * len(kept) >= 20
    assert {name: (target / name).stat().st_mtime_ns for name in kept} == kept


def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(folder: Path, cluster: Any, tmp_path: Path):
    target = tmp_path / "answers"
    with explaining(folder, target, cluster.scheduler_address) as (process, file):
        os.kill(process.pid, signal.SIGINT)
        process.join(200)
        said, code = file.read_text(), process.exitcode
    assert code == 130, said
    last = said.strip().splitlines()[-1]
    assert "rows are kept in" in last, said
    assert last.endswith("; run the same command again to resume"), said
    assert "Dask dashboard: http://" in said
    done = run(folder, target, cluster)
    assert content(done.path) == content(folder / "plain")


def test_a_scheduler_that_is_killed_ends_the_run_and_one_process_goes_on(folder: Path, tmp_path: Path):
    with ExitStack() as ending:

        def started(module: str, *arguments: str, until: str) -> tuple[subprocess.Popen[str], str]:
            command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
            log = tmp_path / f"{module}.log"
            with log.open("w") as stderr:
                process = subprocess.Popen(command, stderr=stderr, cwd=folder)
            ending.callback(process.wait)
            ending.callback(process.kill)
            when(lambda: until in log.read_text(), lambda: process.poll() is None)
            return process, next(line for line in log.read_text().splitlines() if until in line)

        host, target = ("--host", "127.0.0.1", "--port", "0"), tmp_path / "answers"
        scheduler, line = started("dask_scheduler", *host, "--no-dashboard", until="Scheduler at")
        where = line.split("Scheduler at:")[1].strip()
        alone = ("--no-nanny", "--nthreads", "1", "--no-dashboard")
        started("dask_worker", where, *alone, until="Registered")
        with explaining(folder, target, where) as (process, file):
            scheduler.kill()
            process.join(200)
            said, code = file.read_text(), process.exitcode
    assert code == 2, said
    assert f"scheduler {where}: no longer responds" in said
    assert "Finished parts are kept" in said
    seen: list[Progress] = []
    done = loaded(folder).explain_file(folder / "rows", target, on_progress=seen.append, **ASKED)
    assert content(done.path) == content(folder / "plain")
    assert found_rows(seen) >= 20


# What is refused, and what fails


def test_files_that_cannot_be_read_cost_themselves_alone(folder: Path, tmp_path: Path):
    source = tmp_path / "rows"
    source.mkdir()
    for number in range(4):
        ROWS.iloc[number * 15 : number * 15 + 15].to_parquet(source / f"{number}.parquet")
    (source / "1.parquet").write_bytes(b"PAR1 and no more")
    ROWS.iloc[30:45].drop(columns="debt").to_parquet(source / "2.parquet")
    asked = ("--chunk", 10, "--budget", 10, "--classifier", MODEL)
    said = commands.run("explain", folder / "model", source, "--out", "answers", *asked, folder=tmp_path)
    assert said.code == 1, said.err
    failed = json.loads((tmp_path / "answers" / "manifest.json").read_text())["failed"]
    assert [Path(name).name for name in failed] == ["1.parquet", "2.parquet"]
    assert "cannot be read as parquet" in failed[str(source / "1.parquet")]
    assert "column 'debt': is not in the table" in failed[str(source / "2.parquet")]
    assert "failed:" in said.out
    ROWS.iloc[15:30].to_parquet(source / "1.parquet")
    ROWS.iloc[30:45].to_parquet(source / "2.parquet")
    mended = commands.run("explain", folder / "model", source, "--out", "answers", *asked, folder=tmp_path)
    assert mended.code == 0, mended.err
    assert content(tmp_path / "answers") == content(folder / "plain")


def test_a_damaged_page_costs_its_partition(folder: Path, tmp_path: Path):
    ROWS.to_parquet(tmp_path / "rows.parquet", row_group_size=10, compression=None, use_dictionary=False)
    raw = bytearray((tmp_path / "rows.parquet").read_bytes())
    place = raw.index(ROWS["age"].to_numpy()[20:30].tobytes())
    raw[place - 20 : place] = bytes(20)
    (tmp_path / "rows.parquet").write_bytes(raw)
    done = loaded(folder).explain_file(tmp_path / "rows.parquet", tmp_path / "answers", **ASKED)
    assert list(done.failed) == ["part-000002.parquet"]
    expected = content(folder / "plain")
    del expected["part-000002.parquet"]
    assert (content(done.path), done.rows) == (expected, 50)
    with pytest.raises(DataError, match="cannot be read as parquet"):
        loaded(folder).explain_file(tmp_path / "rows.parquet", tmp_path / "answers.parquet", **ASKED)


def test_rows_and_answers_may_lie_anywhere(folder: Path, tmp_path: Path):
    import fsspec

    memory, fcx = fsspec.filesystem("memory"), loaded(folder)
    memory.put(str(folder / "rows"), "/bucket/rows", recursive=True)
    done = fcx.explain_file("memory://bucket/rows/*.parquet", "memory://bucket/answers", **ASKED)
    assert done.path == "memory://bucket/answers"
    memory.get("/bucket/answers", str(tmp_path / "answers"), recursive=True)
    assert content(tmp_path / "answers") == content(folder / "plain")
    assert verify(fcx.task_, ROWS, done.path).passed
    seen: list[Progress] = []
    fcx.explain_file("memory://bucket/rows", done.path, on_progress=seen.append, **ASKED)
    assert {event.stage for event in seen} == {FOUND}, "nothing is done twice"
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    memory.put(str(tmp_path / "rows.csv"), "/bucket/rows.csv")
    text = fcx.explain_file("memory://bucket/rows.csv", tmp_path / "text", **ASKED)
    assert content(text.path) == content(folder / "plain")


def test_only_names_of_models_reach_workers(folder: Path, tmp_path: Path):
    def refused(fcx: FCx, error: type[Exception], message: str, **more: Any) -> None:
        with pytest.raises(error, match=message):
            fcx.explain_file(folder / "rows", tmp_path / "answers", engine="dask", **ASKED, **more)

    fcx = FCx.load(folder / "model", faulty_model.model)
    refused(fcx, ClassifierError, r"is a Faulty in memory, which cannot be sent.*module:attribute.*model\.onnx")
    fresh = FCx(generator=False, oracle="model").fit(fcx.task_)
    refused(fresh, DataError, r"in memory only; workers load it from a folder\. Save it first")
    fresh.save(tmp_path / "model")
    refused(fresh, ClassifierError, "workers could not load the model")
    fresh.set_params(seed=1).fit(fcx.task_)
    refused(fresh, DataError, "holds a different model", classifier=MODEL)
    refused(loaded(folder), DataError, "starts processes on this machine", workers=2, scheduler="tcp://127.0.0.1:1")
    with pytest.raises(DataError, match=r"workers: is for a cluster\. Pass engine='dask'"):
        fcx.explain_file(folder / "rows", tmp_path / "answers", workers=2)
    assert not (tmp_path / "answers").exists()


def test_without_dask_one_line_says_what_to_install(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    cluster = ("--engine", "dask", "--classifier", MODEL)
    said = commands.run("explain", "model", "rows", "--out", tmp_path / "answers", *cluster, folder=folder)
    assert (said.code, said.out) == (2, "")
    assert said.err.strip().splitlines()[-1] == "error: engine 'dask': is not installed. pip install 'fcxplain[dask]'."


def test_answers_of_other_options_are_never_overwritten_unasked(folder: Path, tmp_path: Path):
    fcx = loaded(folder)
    done = fcx.explain_file(folder / "rows", tmp_path / "answers", **ASKED)
    for other in ({"k": 2}, {"chunk": 20}):
        with pytest.raises(DataError, match=r"holds parts of another run.*pass overwrite=True"):
            fcx.explain_file(folder / "rows", tmp_path / "answers", **ASKED | other)
    assert content(done.path) == content(folder / "plain")
    others = {"part-of-it.txt": "mine", ".hidden": "mine too"}
    for name, text in others.items():
        (done.path / name).write_text(text)
    with pytest.raises(DataError, match=r"is not a folder of answers \('part-of-it.txt'\)"):
        fcx.explain_file(folder / "rows", tmp_path / "answers", overwrite=True, budget=10, chunk=20)
    (done.path / "part-of-it.txt").unlink()
    assert fcx.explain_file(folder / "rows", tmp_path / "answers", overwrite=True, budget=10, chunk=20).rows == 60
    assert (done.path / ".hidden").read_text() == "mine too"


def test_an_onnx_file_reaches_workers_and_gives_the_bytes_of_one_process(folder: Path, cluster: Any, tmp_path: Path):
    onnx = pytest.importorskip("skl2onnx")
    table = faulty_model.table(300)
    good = (table["income"] / 1000 + table["age"] / 30 - table["debt"] / 20) > 2.2
    model = LogisticRegression(max_iter=2000).fit(table.to_numpy(np.float32), good.astype(int))
    made = onnx.to_onnx(model, table.to_numpy(np.float32)[:1], options={"zipmap": False}, target_opset=15)
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    task = Task(table, str(tmp_path / "model.onnx"), target=1, rules="age' >= age")
    fcx = FCx(generator=False).fit(task)
    fcx.save(tmp_path / "model")
    own = {"classifier": str(tmp_path / "model.onnx"), "scheduler": cluster.scheduler_address}
    plain = fcx.explain_file(folder / "rows", tmp_path / "plain", **ASKED)
    done = fcx.explain_file(folder / "rows", tmp_path / "answers", engine="dask", **own, **ASKED)
    assert content(done.path) == content(plain.path)
