"""Benchmarks of speed and of graphs: what they measure is what they say."""

from __future__ import annotations

import platform
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import loans
from fcxplain import FCx, evaluate, plots
from fcxplain.benchmark.accuracy import measure_discovery, synthetic
from fcxplain.benchmark.speed import dice, models
from fcxplain.benchmark.speed.dice import DicePackage, installed
from fcxplain.benchmark.speed.explaining import JOBS, LargeRun, bare_draw, explaining_growth, explaining_speed
from fcxplain.benchmark.speed.models import (
    BOOSTING,
    LOGISTIC,
    BudgetPoint,
    ModelSpeed,
    OnePass,
    budget_curves,
    models_speed,
)
from fcxplain.benchmark.speed.speed import EPOCHS, FILES, Speed, jobs, measured
from fcxplain.benchmark.speed.timing import Growth, this_machine
from fcxplain.datasets import Dataset, load_dataset
from fcxplain.errors import DataError
from fcxplain.progress import Progress
from fcxplain.training_loop import Schedule

NEEDS_DICE = pytest.mark.skipif(not installed(), reason="dice-ml is not installed (pip install 'fcxplain[compare]')")
OURS = [dice.FLOOR, dice.FAST, dice.DEFAULT, dice.SPARSE]


@pytest.fixture(scope="module")
def fcx() -> FCx:
    return FCx(schedule=Schedule(epochs=1, steps=5)).fit(loans.task(gradients=True))


@pytest.fixture(scope="module")
def refused(fcx: FCx) -> pd.DataFrame:
    rows = loans.table(60, seed=5)
    return rows[fcx.task_.refused(rows)]


SEEN: list[str] = []


@pytest.fixture(scope="module")
def contenders(fcx: FCx, refused: pd.DataFrame) -> list[dice.Contender]:
    """What is compared; `SEEN` has what was told of it."""
    SEEN.clear()
    return dice.compared(fcx, refused, fitting=2.0, rows=4, repeat=1, tell=SEEN.append)


@pytest.fixture(scope="module")
def adult() -> Dataset:
    return load_dataset("adult", rows=800)


def test_what_cannot_be_measured_is_named_with_every_other_fault():
    with pytest.raises(DataError, match="Did you mean 'tables'") as told:
        measured("adult", ["tabels"], up_to=10)
    assert [fault.place for fault in told.value.faults] == ["'tabels'", "up_to"]


def test_measurements_are_told_by_name_when_they_begin():
    seen: list[Progress] = []
    found = measured("adult", ["tables"], repeat=1, on_progress=seen.append)
    assert seen == [Progress("encoding", 0, 2), Progress("repairing", 1, 2)]
    assert [t.job for t in found.timings][:2] == ["encode", "decode"]


def test_there_are_as_many_measurements_as_are_said(fcx, refused, contenders):
    seen: list[str] = []
    explaining_speed(fcx, refused.iloc[:2], repeat=1, tell=seen.append)
    explaining_growth(fcx, refused, sizes=(5, 10), tell=seen.append)
    seen += SEEN
    assert seen == [*JOBS, "file to file, 5 rows", "file to file, 10 rows", *dice.NAMES]
    assert jobs(["explaining", "streaming", "compare"], up_to=10_000) == 1 + len(seen)
    assert jobs(["models", "budget"], 1_000) == len(models.MODELS) + len(models.CURVES)
    assert (jobs(["memory"], 1_000), jobs(["growth"], 100_000), jobs(["training", "growth"], 10_000)) == (1, 3, 3)


def test_every_way_explains_the_same_rows_and_is_judged_alike(contenders, fcx, refused):
    assert [c.name for c in contenders] == [*OURS, "dice-ml, random", "dice-ml, genetic"]
    assert {c.rows for c in contenders} == {4}
    for one in contenders[2:4]:
        assert (one.verified, one.validity, one.feasibility, one.success) == (4, 100, 100, 100)
        assert one.seconds_per_verified == one.seconds / 4 > 0
        assert one.fitting == 2.0


def test_the_bare_work_is_one_unchecked_draw_of_the_network_for_each_row(fcx, refused):
    drawn = bare_draw(fcx, refused)()
    assert drawn.shape == refused.shape
    assert (drawn["born"].to_numpy() == refused["born"].to_numpy()).all()
    fcx.task_.schema.validate(drawn)


def test_where_nothing_is_verified_there_is_no_cost_of_a_verified_answer():
    assert dice.Contender("one", 10, seconds=3.0).seconds_per_verified is None
    assert dice.Contender("one", 10, seconds=3.0, verified=6).seconds_per_verified == 0.5


@pytest.mark.skipif(installed(), reason="dice-ml is installed")
def test_without_the_package_its_lines_say_how_to_get_it(contenders, fcx):
    assert {c.note for c in contenders[4:]} == {"not installed: pip install 'fcxplain[compare]'"}
    assert {c.seconds for c in contenders[4:]} == {None}
    with pytest.raises(DataError, match=r"pip install 'fcxplain\[compare\]'"):
        DicePackage("random").fit(fcx.task_)


@NEEDS_DICE
@pytest.mark.parametrize("way", ["random", "genetic"])
def test_the_package_answers_by_our_model_keeps_immutables_and_leaves_random_state_alone(way, refused, capfd):
    task, before, state = loans.task(rules=""), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    answer = DicePackage(way).fit(task).explain(refused.iloc[:3])
    marks = evaluate(answer, task, ["validity", "success"]).values
    assert marks["validity"] == 100
    assert answer.checks.immutables_kept.all()
    assert random.getstate() == before
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert capfd.readouterr() == ("", "")


def test_a_model_that_is_read_is_asked_less_than_one_that_is_queried_about_all(adult):
    seen: list[str] = []
    names = (LOGISTIC, BOOSTING)
    found = models_speed(adult, names, rows=8, repeat=1, tell=seen.append)
    assert seen == list(names)
    assert [(m.model, m.oracle) for m in found] == [(n, oracle) for n in names for oracle in ("model", "auto")]
    for own, auto in (found[:2], found[2:]):
        assert (own.rows, own.verified, auto.verified, own.faster) == (8, 100, 100, None)
        assert auto.queries < own.queries / 4
        assert auto.faster == own.seconds / auto.seconds
        assert auto.cost == pytest.approx(own.cost, rel=0.1)


def test_a_model_without_its_package_says_how_to_get_it(adult, monkeypatch):
    monkeypatch.setitem(models.PACKAGES, "of nobody", ("no_such_package", "Classifier", {}))
    (line,) = models_speed(adult, ["of nobody"], rows=8, repeat=1, tell=print)
    assert (line.note, line.rows_per_second) == ("not installed: pip install no_such_package", None)


def test_more_queries_never_leave_a_model_that_is_read_with_fewer_answers(adult, tmp_path: Path):
    points = budget_curves(adult, [(BOOSTING, "auto", False)], rows=5, tell=print)
    assert [p.budget for p in points] == list(models.BUDGETS)
    assert {p.series for p in points} == {f"{BOOSTING}, search alone"}
    verified = [p.verified for p in points]
    assert verified == sorted(verified)
    assert verified[-1] == 100
    speed = Speed(this_machine(), budget=tuple(points))
    assert [p["changes"] for p in speed.to_dict()["budget"]] == [p.changes for p in points]
    speed.draw_budgets(tmp_path / "curve.svg")
    drawn = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert all(words in drawn for words in ("rows verified, per cent", "features changed", "model queries per row"))


def test_one_pass_and_the_search_are_lines_of_one_table():
    figures = {"fitting": 4.0, "verified": 100.0, "drawn": 99.5, "changes": 1.9, "changes_here": 1.95, "distinct": 90.0}
    passes = tuple(
        OnePass("adult", "one", "sparse", q, 100, seconds=2.0, queries=2.0, **figures) for q in (True, False)
    )
    speed = Speed(this_machine(), quick=passes)
    head, *lines = speed.tables()["quick"]
    assert [line[head.index("way")] for line in lines] == ["one pass", "search"]
    assert [line[head.index("rows per CPU s")] for line in lines] == ["50", "50"]
    assert [line["rows_per_second"] for line in speed.to_dict()["quick"]] == [50.0, 50.0]


def test_a_curve_is_drawn_of_budgets_only(tmp_path: Path):
    with pytest.raises(DataError, match="Measure budget first"):
        Speed(this_machine()).draw_budgets(tmp_path / "curve.svg")


def test_tables_of_models_and_budgets_take_their_places_on_a_page(tmp_path: Path):
    lines = ModelSpeed("one", "model", 10, 0.2, 2.0, 90, 80, 100, 2, 8), ModelSpeed("two", "", 0, note="not installed")
    budgets = BudgetPoint("one", True, 1, 10, 0.0, None, 2.0), BudgetPoint("one", True, 1_000, 10, 90.0, 1.5, 20.0)
    page = tmp_path / "page.md"
    page.write_text("# Speed\n<!-- models -->\n<!-- end -->\n\n<!-- budget -->\nold\n<!-- end -->\n", encoding="utf-8")
    Speed(this_machine(), models=lines, budget=budgets).fill(page)
    told = page.read_text(encoding="utf-8")
    assert "| one | model | 5 |  | 90.0 | 80.0 | 100.0 | 2.000 | 8.000 | 0.2 |\n| two |" in told
    assert "| 1 | 0.0 |  |\n| 1,000 | 90.0 | 1.50 |\n<!-- end -->" in told
    assert "old" not in told
    Speed(this_machine(), budget=budgets[1:]).fill(page)
    again = page.read_text(encoding="utf-8")
    assert "| one | model | 5 |" in again
    assert "| 1 | 0.0 |" not in again
    with pytest.raises(DataError, match="has places for 'models'"):
        Speed(this_machine()).fill(page)


def test_streaming_has_a_line_for_each_number_of_rows_the_smallest_first(fcx, refused):
    found = explaining_growth(fcx, refused, sizes=(40, 20), tell=print)
    assert [g.rows for g in found] == [20, 40]
    assert all(g.seconds_per_row == g.seconds / g.rows > 0 and g.memory >= 0 for g in found)


def test_speed_is_data_and_a_picture_of_what_a_row_costs(tmp_path: Path):
    sizes = (Growth(1_000, 0.5, 0), Growth(10_000, 4.0, 1_000))
    speed = Speed(this_machine(), growth=sizes[:1], streaming=sizes, compare=(dice.Contender("one", 3),))
    told = speed.to_dict()
    assert [g["seconds_per_row"] for g in told["streaming"]] == [0.0005, 0.0004]
    assert told["compare"][0]["seconds_per_verified"] is None
    speed.draw(tmp_path / "rows.svg")
    drawn = (tmp_path / "rows.svg").read_text(encoding="utf-8")
    assert all(words in drawn for words in (EPOCHS, FILES, "1,000", "10,000", "CPU microseconds per row"))


def test_runs_past_one_process_are_held_against_one_process():
    runs = (
        LargeRun(140_000, False, 0, 40.0, 15.0, 45.0, 6 * 10**8),
        LargeRun(140_000, False, 2, 50.0, 22.5, 25.0, 10**9),
    )
    (head, *lines) = Speed(this_machine(), large=runs).tables()["large"]
    told = [dict(zip(head, line, strict=True)) for line in lines]
    assert [line["way"] for line in told] == ["one process", "Dask, 2 workers"]
    assert [line["microseconds per row"] for line in told] == ["250.0", "275.0"]
    assert [line["of it fixed"] for line in told] == ["5.0", "11.5"]
    assert (told[1]["times one process"], told[1]["times in all"]) == ("1.10", "1.25")
    assert (jobs(["large"], 10**5), jobs(["large"], 10**7)) == (4, 8)


def test_a_speed_without_sizes_cannot_be_drawn(tmp_path: Path):
    with pytest.raises(DataError, match="Measure several numbers of rows first"):
        Speed(this_machine()).draw(tmp_path / "rows.svg")
    assert not list(tmp_path.iterdir())


def test_the_cost_of_a_row_is_drawn_from_zero_on_a_logarithmic_axis():
    points = pd.DataFrame({"series": "one", "rows": [10_000, 100], "microseconds": [50.0, 80.0]})
    (ax,) = plots.cost_per_row(points).axes
    assert (ax.get_xscale(), ax.get_ylim()[0]) == ("log", 0)
    assert ax.lines[0].get_xydata().tolist() == [[100, 80], [10_000, 50]]


def test_the_machine_is_told_with_its_versions():
    machine = this_machine()
    assert machine.cpu
    assert machine.cores >= 1
    assert machine.versions["Python"] == platform.python_version()
    assert machine.versions["pandas"] == pd.__version__
    assert ("dice-ml" in machine.versions) == installed()
    assert all(f"{name} {number}" in str(machine) for name, number in machine.versions.items())


def test_synthetic_tables_have_the_dependences_of_their_graph():
    made = synthetic(6, 4_000, seed=1)
    assert [f.kind for f in made.schema] == ["continuous", "continuous", "categorical"] * 2
    assert made.truth.is_dag
    numbers = made.table[["f0", "f1"]].corr().to_numpy()[0, 1]
    assert (abs(numbers) > 0.2) == made.truth.adjacent("f0", "f1")
    again = synthetic(6, 4_000, seed=1)
    assert np.array_equal(again.table, made.table)


def test_discovery_finds_most_of_a_known_graph():
    (found,) = measure_discovery([2_000], tables=3, rows=4_000, features=6)
    assert found.f1 > 0.7
    assert (found.tables, found.rows, found.features) == (3, 4_000, 6)
