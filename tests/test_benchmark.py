"""The experiments: jobs and their keys, resuming, failures as results, and reports with the right differences."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fcxplain.benchmark.measuring import category_combinations, measure, prepare
from fcxplain.benchmark.plan import EXPLAINED, METHODS, Job, as_settings, part_seed, plan
from fcxplain.benchmark.report import ablation, published
from fcxplain.benchmark.report.report import write_report
from fcxplain.benchmark.report.summary import current
from fcxplain.benchmark.results import Explaining, Failure, FitFigures, Result, append, meaning, read_results
from fcxplain.benchmark.runner import carry_out, check, compared, how_it_ended, run
from fcxplain.benchmark.studies import SPACES, STUDIES, best_tries, plan_studies, plan_tuning, settings_of
from fcxplain.cli import app
from fcxplain.datasets import DATASETS
from fcxplain.errors import DataError, FormatError
from fcxplain.explanation import Explanation
from fcxplain.progress import Progress
from fcxplain.task import Task
from unchanging import Keeps

# As small as the classifier learns something from.
ROWS = 600
Measured = tuple[Path, list[Job], list[Result]]


class Blind(Keeps):
    """One that says that rules do not matter to it, and counts how often it is asked."""

    reads_rules = False
    asked = 0

    def explain(self, rows: pd.DataFrame) -> Explanation:
        Blind.asked += 1
        return super().explain(rows)


class Rules(Keeps):
    """One that says how many rules it was told."""

    def explain(self, rows: pd.DataFrame) -> Explanation:
        return replace(super().explain(rows), notes=(f"told {len(self.task.rules)} rules",))


class Breaks(Keeps):
    def fit(self, task: Task) -> Keeps:
        raise ValueError("no luck today")


def own(name: str, **more: Any) -> Job:
    return Job("adult", f"test_benchmark:{name}", rows=ROWS, **more)


def short(method: str = "fcx-u", rules: str = "unary", **more: Any) -> Job:
    return Job("adult", method, rules, settings=as_settings({"schedule__epochs": 2}), rows=ROWS, **more)


# Jobs and keys


def test_a_key_depends_on_everything_that_was_asked():
    job = Job("adult", "fcx-u")
    others = [
        replace(job, data="law"),
        replace(job, seed=1),
        replace(job, rows=500),
        replace(job, classifier="mlp"),
        replace(job, explained=10),
        replace(job, history=True),
        replace(job, study="latent", point="10"),
        replace(job, settings=as_settings({"loss_weights__soft": 0.25})),
    ]
    assert len({job.key, *(other.key for other in others)}) == 1 + len(others)


def test_studies_that_come_down_to_the_same_share_the_work():
    plain = Job("adult", "fcx-b-authors", "binary")
    latent = next(j for j in plan_studies(["latent"], ["adult"]) if j.point == "10")
    neighbours = next(j for j in plan_studies(["lof-k-loss"], ["adult"]) if j.point == "30")
    assert plain.work == latent.work == neighbours.work
    assert len({plain.key, latent.key, neighbours.key}) == 3
    assert plain.work != next(j for j in plan_studies(["latent"], ["adult"]) if j.point == "5").work


def test_a_job_survives_json():
    job = short(study="latent", point="2", history=True)
    job = replace(job, settings=as_settings({"architecture__hidden": (8, 4), "significance": 0.05}))
    again = Job.from_dict(json.loads(json.dumps(job.to_dict())))
    assert (again, again.key) == (job, job.key)


def test_seeds_of_parts_do_not_depend_on_each_other():
    seeds = [part_seed(seed, part) for seed in range(20) for part in ("split", "classifier", "method")]
    assert len(set(seeds)) == 60
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_jobs_with_one_black_box_follow_each_other():
    jobs = plan(["law", "adult"], ["fcx-u", "fcx-b"], [0, 1])
    boxes = [(job.data, job.seed) for job in jobs]
    assert boxes == [("law", 0)] * 2 + [("law", 1)] * 2 + [("adult", 0)] * 2 + [("adult", 1)] * 2
    assert {(job.method, job.rules) for job in jobs} == {("fcx-u", "unary"), ("fcx-b", "binary")}


def test_unknown_names_are_told_all_at_once_with_the_nearest():
    with pytest.raises(DataError) as told:
        plan(["adlut"], ["fcx-v", "nowhere:Method", "test_benchmark:ROWS"], classifier="papr", rows=0)
    text = str(told.value)
    for word in ("Did you mean 'adult'", "'fcx-u'", "'nowhere:Method'", "no fit", "Did you mean 'paper'", "rows"):
        assert word in text
    assert len(told.value.faults) == 6
    with pytest.raises(DataError, match="Did you mean 'latent'"):
        plan_studies(["latnet"], ["adult"])


def test_a_wrong_setting_is_refused_before_anything_is_run(tmp_path: Path):
    job = replace(short(), settings=as_settings({"schedule__epoch": 2}))
    with pytest.raises(DataError, match="schedule__epochs"):
        list(run([own("Breaks"), job], tmp_path))
    assert not list(tmp_path.iterdir())


def test_comments_and_docstrings_do_not_change_what_code_means():
    plain = "def f(x):\n    return x + 1\n"
    assert meaning('"""Words."""\ndef f(x):\n    """More."""\n    # why\n    return (x\n        + 1)\n') == meaning(
        plain
    )
    assert meaning(plain.replace("1", "2")) != meaning(plain)


# Studies


def test_studies_try_what_the_paper_tried():
    names = {name: len({j.point for j in plan_studies([name], ["adult"])}) for name in STUDIES}
    loss = {"latent": 6, "lof-k-loss": 8, "pc-alpha": 4, "hyperparameters": 16, "components": 5}
    assert names == loss | {"lof-k-metric": 1, "curves": 1}
    for data, spec in ((name, spec) for name, spec in DATASETS.items() if spec.published):
        known = spec.published["binary"]
        assert str(known.latent) in STUDIES["latent"].points(known), data
        assert str(known.lof_k) in STUDIES["lof-k-loss"].points(known), data
        rates = {point["schedule__learning_rate"] for point in STUDIES["hyperparameters"].points(known).values()}
        assert known.learning_rate in rates, data


def test_components_are_left_out_by_a_weight_of_zero():
    jobs = {job.point: job for job in plan_studies(["components"], ["law"])}
    weights = {point: job.parameters["loss_weights"] for point, job in jobs.items()}
    assert [weights["baseline"][term] for term in ("sparsity", "density", "soft")] == [0, 0, 0]
    assert all(weights["baseline"][term] > 0 for term in ("proximity", "validity", "hard", "kl", "sums"))
    assert jobs["all"].parameters == Job("law", "fcx-b-authors", "binary").parameters
    assert weights["baseline+lof"]["density"] == weights["all"]["density"] > 0


# Running


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """A folder with three results: of FCx, of a method that changes nothing, and of one that fails."""
    folder = tmp_path_factory.mktemp("results")
    jobs = [short(history=True), own("Keeps"), own("Breaks")]
    return folder, jobs, list(run(jobs, folder))


def test_a_line_has_all_that_a_reader_needs(measured: Measured):
    folder, jobs, results = measured
    lines = [json.loads(line) for line in (folder / "adult.jsonl").read_text().splitlines()]
    assert [line["key"] for line in lines] == [job.key for job in jobs]
    assert Result.from_dict(lines[0]) == results[0]
    first = results[0]
    assert {"python", "torch", "fcxplain", "cpus", "code"} <= set(first.environment)
    fitting, sizes, explaining = first.fitting, first.sizes, first.explaining
    assert fitting is not None
    assert (fitting.epochs, fitting.rows is not None, fitting.seconds_per_epoch is not None) == (2, True, True)
    assert sizes is not None
    assert explaining is not None
    assert explaining.rows == sizes.refused == sum(first.counts.values())
    assert [epoch["number"] for epoch in first.history] == [1, 2]
    assert set(first.history[0]["train"]) == {
        "total",
        *(t for t, w in METHODS["fcx-u"].make("adult", 0).loss_weights if w),
    }
    figures = {"validity", "validity_soft", "success", "sparsity", "feasibility_unary", "feasibility_binary_soft"}
    assert figures <= set(first.figures) | set(first.absent)
    assert not set(first.figures) & set(first.absent)
    assert first.figures["graph_edges"] >= 1


def test_both_rule_sets_judge_the_same_answers(measured: Measured):
    keeps = measured[2][1]
    assert keeps.figures["sparsity"] == keeps.figures["validity"] == keeps.figures["success_binary"] == 0
    assert keeps.absent["feasibility_unary"] == keeps.absent["feasibility_binary"] == "no answer is valid"
    assert "raw outputs" in keeps.absent["validity_soft"]


def test_a_method_that_fails_is_a_result_with_its_reason(measured: Measured):
    failed = measured[2][2]
    assert failed.failure is not None
    assert (failed.failure.type, failed.failure.message) == ("ValueError", "no luck today")
    assert failed.failure.place.startswith("fcxplain/benchmark/measuring.py, line ")
    assert not failed.figures


def test_what_is_there_is_not_done_again(measured: Measured):
    folder, jobs, _ = measured
    before, states = (folder / "adult.jsonl").read_bytes(), []
    assert list(run(jobs, folder, lambda event: states.append(event.note))) == []
    assert (folder / "adult.jsonl").read_bytes() == before
    assert states == ["skipped"] * 3


def test_only_failures_are_tried_again_when_asked(measured: Measured, tmp_path: Path):
    folder, jobs, _ = measured
    (tmp_path / "adult.jsonl").write_bytes((folder / "adult.jsonl").read_bytes())
    again = list(run(jobs, tmp_path, retry=True))
    assert [result.job.method for result in again] == ["test_benchmark:Breaks"]
    assert len(read_results(tmp_path)) == 3
    assert len((tmp_path / "adult.jsonl").read_text().splitlines()) == 4


def test_what_another_study_measured_is_copied(measured: Measured, tmp_path: Path):
    folder, jobs, results = measured
    (tmp_path / "adult.jsonl").write_bytes((folder / "adult.jsonl").read_bytes())
    other = replace(jobs[0], study="curves")
    (copied,) = run([other], tmp_path)
    assert (copied.copied_from, copied.job) == (jobs[0].key, other)
    assert copied.figures == results[0].figures


def test_both_parts_of_fcx_are_methods_and_the_draw_needs_no_training_of_its_own():
    brief = as_settings({"schedule__epochs": 1, "schedule__steps": 5})
    asked: dict[str, Any] = {"rows": 1_200, "explained": 20}
    jobs = {name: Job("adult", name, settings=brief, **asked) for name in ("fcx", "fcx-draw")}
    jobs["fcx-search"] = Job("adult", "fcx-search", **asked)
    found = {name: measure(job) for name, job in jobs.items()}
    assert found["fcx"].fitting == found["fcx-draw"].fitting
    assert found["fcx-search"].fitting.epochs is None
    assert found["fcx"].figures["success"] == found["fcx-search"].figures["success"] == 100
    # Five steps teach little, and nothing mends a draw.
    assert set(found["fcx-draw"].counts) == {"best_effort", "verified"}
    assert found["fcx-draw"].figures["success"] < 100


def test_the_same_job_gives_the_same_figures(measured: Measured):
    timed = ("rows_per_second",)
    first, again = measured[2][0], measure(measured[1][0])
    assert {k: v for k, v in again.figures.items() if k not in timed} == {
        k: v for k, v in first.figures.items() if k not in timed
    }
    assert again.history == first.history


def test_a_sample_of_rows_is_explained_and_told():
    result = measure(own("Keeps", explained=20))
    assert result.explaining == Explaining(20, result.explaining.cpu_seconds if result.explaining else 0)
    assert any("a sample of 20 of" in note for note in result.notes)


def test_a_job_beyond_its_time_is_stopped_and_says_so():
    result = carry_out(own("Keeps"), time_limit=0.3)
    assert result.failure == Failure("TimeLimit", "not done within 0.3 seconds, and stopped", "")
    assert result.key == own("Keeps").key


def test_a_process_that_dies_is_a_result(monkeypatch: pytest.MonkeyPatch):
    # With an allocator that does not exist, Python ends as soon as it begins.
    monkeypatch.setenv("PYTHONMALLOC", "none")
    failure = carry_out(own("Keeps"), time_limit=600).failure
    assert failure is not None
    assert (failure.type, failure.message) == ("Crash", "the process ended with 1")
    assert how_it_ended(-9) == "the process was killed by SIGKILL"


def test_a_process_of_its_own_gives_the_same_figures(measured: Measured):
    job = Job("adult", "unchanging:Keeps", rows=ROWS)
    result = carry_out(job, time_limit=600)
    # The process has hashes of its own, and yet the same key.
    assert (result.failure, result.key) == (None, job.key)
    assert {**result.figures, "rows_per_second": 0} == {**measured[2][1].figures, "rows_per_second": 0}


def test_an_interrupt_keeps_what_is_done(tmp_path: Path, measured: Measured):
    jobs = [own("Breaks", seed=seed) for seed in (0, 0, 0)]
    jobs = [replace(job, point=str(i)) for i, job in enumerate(jobs)]

    def stop(event: Progress) -> None:
        if (event.done, event.note) == (1, "running"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run(jobs, tmp_path, stop))
    assert [result.job.point for result in read_results(tmp_path)] == ["0"]
    assert [result.job.point for result in run(jobs, tmp_path)] == ["1", "2"]


# Files


def line(data: str = "adult", method: str = "fcx-u", seed: int = 0, **more: Any) -> Result:
    """A result made by hand."""
    job = more.pop("job", Job(data, method, *METHODS[method].rules, seed=seed))
    environment = {
        "python": "3",
        "torch": "2",
        "fcxplain": "0",
        "scikit-learn": "1",
        "cpus": 2,
        "machine": "m",
        "code": "c",
    }
    return Result(job.key, job.work, job, environment, **more)


def test_a_torn_last_line_is_dropped_and_cut_off_before_the_next(tmp_path: Path):
    for seed in (0, 1):
        append(tmp_path, line(seed=seed))
    path = tmp_path / "adult.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    assert [result.job.seed for result in read_results(tmp_path)] == [0]
    append(tmp_path, line(seed=1))
    assert path.read_bytes() == whole


def test_a_last_line_that_only_lacks_its_end_is_kept(tmp_path: Path):
    append(tmp_path, line(seed=0))
    path = tmp_path / "adult.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    append(tmp_path, line(seed=1))
    assert [result.job.seed for result in read_results(tmp_path)] == [0, 1]


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path):
    for seed in (0, 1):
        append(tmp_path, line(seed=seed))
    path = tmp_path / "adult.jsonl"
    path.write_bytes(b"{]\n" + path.read_bytes())
    with pytest.raises(FormatError, match=r"adult.jsonl, line 1: .* due again"):
        read_results(tmp_path)
    path.write_text('{"format": 99}\n')
    with pytest.raises(FormatError, match="format 99"):
        read_results(tmp_path)


def test_of_a_job_the_newest_line_counts():
    job = Job("adult", "fcx-u")
    old = Result("old", "old", job, {}, figures={"success": 1.0})
    new = Result("new", "new", job, {}, figures={"success": 2.0})
    assert current([old, new]) == [new]


# The report


def test_the_papers_figures_are_there():
    assert published.figure("adult", "fcx-u", "feasibility_unary") == 74.91
    assert published.figure("adult-authors", "fcx-b", "feasibility_binary") == 82.92
    assert published.figure("law", "fcx-u", "feasibility_binary") is None
    assert published.figure("law", "nobody", "validity") is None
    assert published.components("folktables", "baseline+lof", "seconds_per_epoch") == 303.3
    assert published.robustness("census") == published.PublishedSpread(91.31, 3.12)
    assert published.robustness("elsewhere") is None


def by_hand() -> list[Result]:
    """Two seeds of one method, a failure of another, and a study."""
    figures = {"validity": 50.0, "validity_soft": 99.0, "feasibility_unary_soft": 70.0, "success": 30.0, "lof": 1.5}
    failed = Failure("TrainingError", "loss is nan | at once", "model/training.py, line 1, in _stop")
    results = [
        line(seed=0, figures=figures),
        line(seed=1, figures=figures | {"feasibility_unary_soft": 80.0, "success": 40.0}),
        line(method="fcx-b", failure=failed),
        line("adult-authors", figures={"validity_soft": 100.0}),
    ]
    for study in ("components", "pc-alpha"):
        for value, job in enumerate(plan_studies([study], ["adult"])):
            found = {"feasibility_soft": 80.0 + value, "success": 20.0}
            results.append(line(job=job, figures=found, fitting=FitFigures(1.0, 0.5 + value, 2, 100)))
    history = [{"number": n, "train": {"total": 5.0 - n}, "validation": {"total": 6.0 - n}} for n in (1, 2)]
    results += [line(job=job, history=tuple(history)) for job in plan_studies(["curves"], ["adult"])]
    return results


def report(results: list[Result], folder: Path) -> dict[str, str]:
    write_report(results, folder, pictures=False)
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_ours_stand_beside_the_papers_with_the_difference(tmp_path: Path):
    texts = report(by_hand(), tmp_path)
    page = texts["reproduction.md"]
    assert "| feasibility (unary) | 74.91 | 75.00 ± 7.07 | +0.09 |" in page
    assert "| validity | 100.00 | 99.00 ± 0.00 | -1.00 |" in page
    # Decoded rows stand apart, beside no figure of the paper.
    assert "| decoded | fcx-u | fcx-b |" in page
    assert "| validity | 50.00 ± 0.00 | none |" in page
    assert "| success | 35.00 ± 7.07 | none |" in page
    assert "### adult-authors" in page
    assert "| validity | 100.00 | 100.00 | +0.00 |" in page
    assert (
        "adult, fcx-b, binary, seed 0 | TrainingError: loss is nan \\| at once (model/training.py, line 1, in _stop)"
        in page
    )
    table = pd.read_csv(tmp_path / "reproduction.csv").set_index(["data", "method", "figure"])
    assert table.loc[("adult", "fcx-u", "feasibility_unary_soft"), "difference"] == pytest.approx(0.09)
    assert table.loc[("adult", "fcx-b", "success"), "runs_with_a_value"] == 0
    assert "loss is nan" in texts["failures.csv"]


def test_studies_show_the_papers_values(tmp_path: Path):
    page = report(by_hand(), tmp_path)["ablation.md"]
    assert "| baseline+lof | 82.00 | 77.64 | +4.36 | none | none | none | 20.00 | none | none |" in page
    assert "| 2.5 | 41.06 |" in page
    assert "| **all** (the paper's choice) | 84.00 | 82.92 | +1.08 |" in page
    assert "The paper: 79.97 ± 2.71." in page
    # 80 to 83: the mean is 81.5, the deviation that of four neighbouring whole numbers.
    assert "- feasibility, raw outputs: 81.50 ± 1.29, difference +1.53" in page
    assert "| 0 | 2 | 4.00 | 3.00 | 5.00 | 4.00 (epoch 2) | 4.00 |" in page


def test_a_report_does_not_depend_on_the_order_of_lines(tmp_path: Path):
    results = by_hand()
    first = report(results, tmp_path / "a")
    assert report(results[::-1], tmp_path / "b") == first
    assert report(results, tmp_path / "a") == first


def test_a_report_says_how_much_it_stands_on(tmp_path: Path, measured: Measured):
    pages = report(measured[2], tmp_path)
    page = pages["reproduction.md"]
    sizes = measured[2][0].sizes
    assert sizes is not None
    fitting = measured[2][0].fitting
    assert fitting is not None
    assert f"600 rows: 480 for training, of which the methods use {fitting.rows:,} refused ones, and 60" in page
    assert f"and refuses {sizes.refused:,}; all of them were explained" in page
    assert "### adult, a sample of 600 rows" in page
    assert "ValueError: no luck today" in pages["methods.md"]


def test_methods_stand_beside_each_other_and_what_is_ahead_of_ours_is_told(tmp_path: Path):
    def of(method: str, **figures: float) -> Result:
        return line(job=Job("adult", method, "unary"), figures=figures)

    ours = {"success": 99.0, "sparsity": 2.0, "feasibility_unary": 100.0, "continuous_proximity": -3.0}
    lines = [of("fcx", **ours), of("dice-random", success=100.0, sparsity=1.5), of("face", success=90.0, sparsity=1.0)]
    page = report(lines, tmp_path)["methods.md"]
    assert "adult, unary rules: dice-random has more success, 100.00 % against 99.00 %" in page
    assert "adult, unary rules: dice-random changes fewer features, 1.50 against 2.00" in page
    assert "face changes fewer" not in page
    assert "| adult | unary | fcx | fcegan | 4.67 | 2.00 | **-1.50** | -3.00 |" in page
    alone = report(lines[:1], tmp_path / "alone")["methods.md"]
    assert "No other method has been run yet" in alone


def test_lines_of_different_code_are_refused(tmp_path: Path):
    other = line(seed=1, figures={"success": 1.0})
    other.environment["code"] = "d"
    with pytest.raises(DataError, match="different code") as told:
        report([line(figures={"success": 1.0}), other], tmp_path)
    assert [str(fault.place) for fault in told.value.faults] == ["code c", "code d"]


def test_lines_of_other_code_are_measured_anew(tmp_path: Path):
    job = own("Keeps", explained=5)
    (first,) = run([job], tmp_path)
    assert not list(run([job], tmp_path))
    first.environment["code"] = "other"
    append(tmp_path, first)
    assert len(list(run([job], tmp_path))) == 1


def test_methods_are_told_the_rules_that_they_can_take_or_none():
    told = {(job.method, job.given) for job in plan(["adult"], ["fcx", "cem", "ceils"], given="none")}
    assert told == {("fcx", "none"), ("cem", "own"), ("ceils", "none")}
    every = plan(["adult"], ["ceils", "face"], given="all")
    assert [job.parameters.get("every_rule") for job in every[::2]] == [True, None]
    with pytest.raises(DataError, match="Did you mean 'none'"):
        plan(["adult"], ["ceils"], given="non")


def test_without_rules_a_method_is_fitted_to_none_and_judged_by_all():
    given, none = (measure(own("Rules", explained=5, given=given)) for given in ("own", "none"))
    assert "told 1 rules" in given.notes
    assert "told 0 rules" in none.notes
    assert none.figures["success_unary"] == none.figures["success_binary"] == 0.0
    assert given.key != none.key


def test_tables_with_and_without_rules_and_of_other_black_boxes_stand_apart(tmp_path: Path):
    def of(method: str, given: str, success: float, box: str = "paper") -> Result:
        return line(job=Job("adult", method, "unary", given=given, classifier=box), figures={"success": success})

    lines = [of("fcx", "own", 100.0), of("ceils", "own", 94.0), of("cem", "own", 2.0)]
    lines += [of("fcx", "none", 5.0), of("ceils", "none", 0.0)]
    lines += [of("fcx", "own", 99.0, "mlp"), of("ceils", "own", 77.0, "mlp")]
    names, page = ("success", "success without rules", "success with other black boxes"), tmp_path / "page.md"
    page.write_text("".join(f"<!-- {name} -->\n<!-- end -->\n" for name in names))
    write_report(lines, tmp_path, pictures=False, pages=[page])
    own_rules, without, other = page.read_text().split("<!-- success with")
    assert "| adult, unary |" in own_rules
    assert "77.0" not in own_rules + without
    assert "| method | adult, mlp, unary |" in other
    assert "| ceils | 77.0 |" in other
    assert "| ceils | 94.0 |" in own_rules
    assert "| ceils | 0.0 |" in without
    # It knows no rules, so that it is the same in both.
    assert "| cem | 2.0 |" in own_rules
    assert "| cem | 2.0 |" in without


def test_a_method_below_the_papers_row_for_it_is_told_with_how_much(tmp_path: Path):
    figures = {"validity_authors": 60.0, "feasibility_unary_soft": 30.0}
    page = report([line(job=Job("adult", "revise", "unary"), figures=figures)], tmp_path)["methods.md"]
    assert "revise" in page.split("below the paper's row")[0]
    lags = page.split("## Methods below the paper's row for them")[1].split("##")[0]
    assert lags.strip() == "In none of these tables."  # the paper has 54.07 and 7.28
    page = report([line(job=Job("adult", "vcnet", "unary"), figures=figures)], tmp_path / "b")["methods.md"]
    assert "adult, unary rules: vcnet, validity 60.00 %; the paper has 100.00 %, 40.00 more" in page


def test_every_method_is_tuned_with_the_same_number_of_tries_on_validation_rows():
    jobs = plan_tuning(["adult"], tries=4)
    assert {name: len({j.point for j in jobs if j.method == name}) for name in SPACES} == dict.fromkeys(SPACES, 4)
    assert {job.part for job in jobs} == {"validation"}
    first = [job for job in jobs if job.point == "0"]
    assert all(not job.settings and job.key for job in first)
    # More tries leave those before them as they are.
    assert set(plan_tuning(["adult"], tries=3)) < set(jobs)
    assert settings_of("fcegan", 1) != settings_of("fcegan", 2) != settings_of("fcegan", 2, seed=1)
    with pytest.raises(DataError, match="fcegan"):
        plan_tuning(["adult"], ["fcegna"])


def test_the_best_try_has_the_most_success_and_then_the_fewest_changes():
    found = {"0": (80.0, 2.0), "1": (90.0, 4.0), "2": (90.0, 3.0), "3": (None, 1.0)}
    lines = []
    for job in plan_tuning(["adult"], ["vcnet"], tries=4):
        success, changes = found[job.point]
        failed = {"failure": Failure("E", "no", "")} if success is None else {}
        lines.append(line(job=job, figures={"success": success or 0.0, "sparsity": changes}, **failed))
    (best,) = best_tries(lines)
    assert (best.success, best.changes, best.before, best.tries) == (90.0, 3.0, 80.0, 4)
    assert dict(best.settings) == settings_of("vcnet", 2)
    tuned = plan(["adult", "law"], ["vcnet", "fcegan"], settings={("adult", "vcnet"): best.settings})
    assert {(job.data, job.method, job.point) for job in tuned} == {("adult", "vcnet", "tuned")}
    assert tuned[0].parameters["latent"] == best.settings["latent"]


def test_a_page_shows_what_each_part_contributes_for_every_black_box(tmp_path: Path):
    figures = {"fcx": (100.0, 2.0), "fcx-search": (100.0, 2.5), "fcx-draw": (80.0, 3.0)}
    lines = [
        line(
            job=Job("law", method, "binary", seed, classifier=box),
            figures={"success_possible": success - 10 * seed, "sparsity": changes, "lof_to_data": 1.5},
        )
        for box in ("boosting", "paper")
        for method, (success, changes) in figures.items()
        for seed in (0, 1)
    ]
    alone = line(job=Job("adult", "fcx", "binary"), figures={"success_possible": 1.0, "sparsity": 1.0})
    page = tmp_path / "page.md"
    page.write_text("<!-- parts -->\n<!-- end -->\n")
    write_report([*lines, alone], tmp_path / "report", pictures=False, pages=[page])
    _, head, _, first, second, _ = page.read_text().splitlines()
    assert head.startswith(
        "| black box | data | of possible: fcx | of possible: fcx-search | of possible: fcx-draw | changes"
    )
    assert first == "| paper | law | 95.0 | 95.0 | 75.0 | 2.00 | 2.50 | 3.00 | 1.50 | 1.50 | 1.50 |"
    assert second.startswith("| boosting | law |")


def test_a_run_made_again_gives_the_same_figures_or_says_how_far_apart_they_are(measured: Measured):
    (again,) = check(measured[2], most=1)
    assert again.same
    assert again.words.startswith("the same")
    assert "other code" not in again.words
    older = replace(measured[2][0], environment={"code": "0" * 12, "commit": "abc"})
    assert next(check([older])).words.endswith("compared with other code, commit abc")
    before = line(figures={"success": 50.0, "sparsity": 2.0, "rows_per_second": 1.0})
    now = replace(before, figures={"success": 55.0, "sparsity": 2.0, "rows_per_second": 9.0})
    apart = compared(before, now)
    assert (apart.same, apart.differ, apart.worst) == (False, 1, "success")
    assert "50 there, 55 here" in apart.words
    with pytest.raises(DataError, match="no result to check"):
        list(check([]))


def test_the_shares_of_the_terms_add_up_to_the_loss_and_lof_is_taken_with_each_k(measured: Measured):
    shares = [value for name, value in measured[2][0].figures.items() if name.startswith("share_")]
    assert len(shares) == 7
    assert sum(shares) == pytest.approx(100, rel=1e-4)
    more = measure(own("Keeps", neighbours=(2, 5), explained=5))
    assert not {"lof_k2", "outliers_k5"} & set(more.figures)  # nobody is valid, so that there is no LOF
    figures = measured[2][0].figures
    assert {"continuous_proximity_authors", "sparsity_authors", "validity_authors"} <= set(figures)


def test_every_study_has_a_picture_of_a_stable_name_that_is_shown(tmp_path: Path):
    results = by_hand()
    for study in ("lof-k-loss", "latent", "hyperparameters"):
        jobs = plan_studies([study], ["adult"])
        figures = {"lof_authors": 1.0, "outliers_authors": 3.0, "success": 5.0}
        results += [line(job=job, figures=figures) for job in jobs]
    written = write_report(results, tmp_path)
    drawn = sorted(path for path in written if path.suffix == ".svg")
    drawn_studies = [study for study in STUDIES if study != "lof-k-metric"]
    names = [*(f"{study}-adult-fcx-b-authors" for study in drawn_studies), "curves-adult-fcx-u-authors", "feasibility"]
    assert [path.stem for path in drawn] == sorted(names)
    assert all("</svg>" in path.read_text() for path in drawn)
    pages = "".join((tmp_path / name).read_text() for name in ("ablation.md", "reproduction.md"))
    assert all(f"]({path.name})" in pages for path in drawn)


def test_without_pictures_none_are_drawn_or_shown(tmp_path: Path):
    written = write_report(by_hand(), tmp_path, pictures=False)
    assert {path.suffix for path in written} == {".md", ".csv"}
    assert ".svg" not in (tmp_path / "reproduction.md").read_text() + (tmp_path / "ablation.md").read_text()


def test_one_answer_for_everybody_is_warned_of(tmp_path: Path):
    perfect = {"feasibility_unary": 100.0, "feasibility_unary_soft": 100.0, "success": 100.0}
    poor = perfect | {"diversity": 5.9, "category_combinations": 4.0, "supported": 0.0}
    page = report([line(figures=poor)], tmp_path / "a")["reproduction.md"]
    assert "**Beware**" in page
    assert "adult, fcx-u (5.9 % distinct, 0.0 % supported)" in page
    assert "| 100.00 | 5.90 | 4.00 | 0.00 | none |" in page
    honest = report([line(figures=perfect | {"diversity": 80.0, "supported": 50.0})], tmp_path / "b")["reproduction.md"]
    assert "**Beware**" not in honest


def test_combinations_leave_out_numbers_and_what_may_not_change():
    task = prepare("adult", 0, ROWS, "paper").tasks["unary"]
    rows = task.train.iloc[:40]
    same = rows.assign(**{n: rows[n].iloc[0] for n in task.schema.categories if task.schema[n].mutable})
    wanted = task.wanted(task.predict(rows))
    answer = Explanation.of(task, rows, same, np.arange(40), method="one for all", wanted=wanted)
    assert len(answer.answers.drop_duplicates()) > 20
    assert category_combinations(answer) == 1


def test_lines_that_were_superseded_are_counted(tmp_path: Path):
    new = line(figures={"success": 2.0})
    old = replace(new, key="old", figures={"success": 1.0})
    page = report([old, new], tmp_path)["reproduction.md"]
    assert "| success | 2.00 |" in page
    assert "1 older line of the same jobs" in page


def test_tables_take_their_places_on_a_page_written_by_hand(tmp_path: Path):
    page = tmp_path / "benchmark.md"
    page.write_text("Before.\n<!-- success -->\nold\n<!-- end -->\nBetween.\n<!-- speed -->\n<!-- end -->\nAfter.\n")
    results = [
        line(job=Job("adult", name), figures={"success": success}, explaining=Explaining(100, seconds))
        for name, success, seconds in (("fcx", 100.0, 0.1), ("dice-random", 60.0, 0.2))
    ]
    assert page in write_report(results, tmp_path / "docs", pictures=False, pages=[page])
    text = page.read_text()
    assert "| dice-random | 60.0 |" in text
    assert "| dice-random | 170.00 | 2.00 |" in text
    assert [part in text for part in ("Before.\n", "Between.\n", "After.\n", "old")] == [True, True, True, False]
    write_report(results, tmp_path / "docs", pictures=False, pages=[page])
    assert page.read_text() == text


def test_a_page_with_no_place_or_an_unknown_one_is_left_alone(tmp_path: Path):
    page = tmp_path / "page.md"
    for words, told in (("no place", "has no place"), ("<!-- sucess -->\n<!-- end -->\n", "sucess")):
        page.write_text(words)
        with pytest.raises(DataError, match=told):
            write_report(by_hand(), tmp_path / "docs", pictures=False, pages=[page])
        assert page.read_text() == words


def test_nothing_to_report_is_an_error(tmp_path: Path):
    with pytest.raises(DataError, match="bench run"):
        write_report([], tmp_path)


def test_points_of_a_study_keep_its_order():
    jobs = plan_studies(["latent"], ["adult"])
    (runs,) = ablation.studies_of([line(job=job) for job in reversed(jobs)])
    assert [run.point for run in runs.points] == ["2", "5", "10", "20", "30", "40"]
    assert runs.chosen == ("10",)


def test_the_default_limit_is_the_documented_one():
    assert EXPLAINED == 5_000 == Job("adult", "fcx-u").explained


def test_a_method_that_reads_no_rules_is_asked_once_and_judged_by_each_rule_set():
    blind, plain = (
        [carry_out(own(name, rules=rules, explained=20)) for rules in ("unary", "binary")]
        for name in ("Blind", "Keeps")
    )
    assert Blind.asked == 1
    for once, each in zip(blind, plain, strict=True):
        assert (once.figures, once.counts) == (each.figures, each.counts)


# The command line


def command(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["bench", *arguments])


def test_the_command_line_runs_resumes_and_reports(tmp_path: Path):
    results, docs = tmp_path / "results", tmp_path / "docs"
    asked = ("run", "--data", "adult", "--method", "test_benchmark:Keeps", "--seed", "0", "--rows", str(ROWS))
    done = command(*asked, "--out", str(results))
    assert done.exit_code == 0, done.output
    assert "1 of 2: adult, test_benchmark:Keeps, unary, seed 0" in done.stderr
    assert len(read_results(results)) == 2
    again = command(*asked, "--out", str(results), "--json")
    assert (json.loads(again.stdout), "2 were done before" in again.stderr) == ([], True)
    told = command("report", "--results", str(results), "--out", str(docs), "--json")
    assert {Path(path).name for path in json.loads(told.stdout)} == {
        "methods.md",
        "methods.csv",
        f"methods-adult-rows{ROWS}.svg",
    }
    assert "test_benchmark:Keeps" in (docs / "methods.md").read_text()


def test_the_command_line_names_what_is_unknown():
    done = command("ablation", "--study", "latnet", "--data", "adult")
    assert isinstance(done.exception, DataError)
    assert "Did you mean 'latent'" in str(done.exception)
    for name in ("run", "ablation", "report", "tune", "check"):
        assert f"Example: fcxplain bench {name}" in " ".join(command(name, "--help").stdout.split())
