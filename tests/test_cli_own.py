"""The command line with a table, a model and customers of one's own: classes, ids, what is told of the model."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from commands import run
from fcxplain import FCx, load_table
from fcxplain.classifier import KINDS
from fcxplain.cli.progress import Work
from fcxplain.cli.tables import TRAINED
from fcxplain.datasets import read_table
from fcxplain.datasets.source import Source, read_rows
from fcxplain.files import only_run
from fcxplain.generator.presets import SCHEDULE
from fcxplain.progress import EXPLAINING
from fcxplain.saving import manifest

MODEL = """
import numpy as np

class Model:
    classes_ = np.array([0, 1])
    def predict_proba(self, rows):
        chance = 1 / (1 + np.exp(-(rows["income"].to_numpy() - rows["debt"].to_numpy() - 20) / 10))
        return np.column_stack([1 - chance, chance])

model = Model()
"""
OWN = ("--data", "credit.csv", "--label", "decision", "--epochs", 1)
NAMED = ("--id", "customer", "--classifier", "credit_model:model", "--classes", "rejected,granted")
# Trees that imitate the model take longer to grow than all else: the model is asked itself.
ASKED = ("--set", "oracle=model")
QUICK = ("--set", "schedule__steps=5", "--set", "schedule__batch=64", *ASKED)
# Where what is asked is not the generator's, none is trained.
SEARCHING = (*OWN[:-2], "--no-generator", *ASKED)


def credit(rows: int = 160) -> pd.DataFrame:
    """Customers with an identifier, one of them with an empty cell."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "customer": [f"C{1000 + i}" for i in range(rows)],
            "income": rng.integers(10, 90, rows),
            "debt": rng.integers(0, 60, rows),
            "city": rng.choice(["York", "Hull"], rows),
        }
    )
    table["decision"] = np.where(table["income"] - table["debt"] > 20, "granted", "rejected")
    return table.assign(city=table["city"].where(table.index != 5))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory):
    """A folder with a table, rules, a module with a model, and `m` fitted to it; modules in it are found."""
    folder = tmp_path_factory.mktemp("desk")
    credit().to_csv(folder / "credit.csv", index=False)
    credit().iloc[:30].drop(index=5).to_csv(folder / "rows.csv", index=False)
    credit().iloc[:30].drop(index=5).to_parquet(folder / "rows.parquet", index=False)
    (folder / "credit_model.py").write_text(MODEL)
    (folder / "my.rules").write_text("city' == city\nincome' <= income + 5\n")
    before = list(sys.path)
    done = run("fit", *OWN, *QUICK, *NAMED, "--target", "granted", "--rules", "my.rules", "--out", "m", folder=folder)
    assert done.code == 0, done.err
    (folder / "told.json").write_text(json.dumps([done.out, done.err]))
    yield folder
    sys.path[:] = before
    del sys.modules["credit_model"]


def told(desk: Path) -> tuple[str, str]:
    out, err = json.loads((desk / "told.json").read_text())
    return out, err


# A model that answers 0 and 1


def test_classes_are_named_in_the_models_order_and_kept_with_what_is_saved(desk: Path):
    assert FCx.load(desk / "m", classifier=sys.modules["credit_model"].model).task_.classes == ("rejected", "granted")
    asked = ("--classifier", "credit_model:model", "--json")
    found = json.loads(run("explain", "m", "rows.csv", *asked, folder=desk).out)
    assert {answer["wanted"] for answer in found["answers"]} == {"granted"}
    table = pd.read_csv(desk / "rows.csv").set_index("customer")
    already = {row["row"] for row in found["rows"] if row["status"] == "already"}
    assert already == set(table.index[table["decision"] == "granted"])
    measured = run("evaluate", "m", "--metrics", "validity", *asked, folder=desk)
    held = load_table(desk / "credit.csv", label="decision", index="customer").test
    assert json.loads(measured.out)["asked"] == (held["decision"] == "rejected").sum()


def test_a_target_in_the_labels_words_is_answered_with_the_option_that_names_classes(desk: Path, tmp_path: Path):
    fit = ("fit", *OWN, "--id", "customer", "--classifier", "credit_model:model", "--out", tmp_path / "m")
    done = run(*fit, "--target", "granted", folder=desk)
    assert (done.code, "--classes rejected,granted" in done.words) == (2, True)


def test_a_threshold_decides_from_where_on_the_answer_is_the_second_class(desk: Path, tmp_path: Path):
    fit = ("fit", *SEARCHING, *NAMED, "--target", "granted", "--threshold", 0.7, "--out", tmp_path / "m")
    done = run(*fit, folder=desk)
    assert done.code == 0, done.err
    task = FCx.load(tmp_path / "m", classifier="credit_model:model").task_
    assert task.classifier.threshold == 0.7
    rows = pd.read_csv(desk / "rows.csv")
    assert (task.predict(rows) == "granted").tolist() == (
        rows["income"] - rows["debt"] - 20 >= 10 * np.log(7 / 3)
    ).tolist()


def test_another_outcome_can_be_asked_for_when_rows_are_explained(desk: Path, tmp_path: Path):
    own, answers = ("--classifier", "credit_model:model"), tmp_path / "a.parquet"
    asked = ("--target", "rejected", "--at-least", 0.8)
    done = run("explain", "m", "rows.parquet", *own, *asked, "--out", answers, folder=desk)
    assert done.code == 0, done.err
    found = pd.read_parquet(answers).query("status == 'verified'")
    assert set(found["wanted"]) == {"rejected"}
    assert (found["probability"] >= 0.8).all()
    held = run("verify", "m", "rows.parquet", answers, *own, folder=desk)
    assert (held.code, "'rejected', with a probability of 0.8 or more" in held.words) == (0, True)
    assert run("verify", "m", "rows.parquet", answers, *own, *asked[:2], "--at-least", 0.9, folder=desk).code == 1
    wrong = run("explain", "m", "rows.csv", *own, "--target", "gold", folder=desk)
    assert (wrong.code, "target 'gold': is not one of the classes" in wrong.words) == (2, True)


def test_a_regressor_is_fitted_to_a_label_of_numbers_and_explained(desk: Path, tmp_path: Path):
    points = credit().assign(points=lambda table: table["income"] * 1.5 - table["debt"] + np.arange(len(table)) / 1000)
    points.drop(columns=["decision", "city"]).to_csv(tmp_path / "points.csv", index=False)
    (tmp_path / "points_model.py").write_text("def model(rows):\n    return rows['income'] * 1.5 - rows['debt']\n")
    own = ("--classifier", "points_model:model")
    fit = ("fit", "--data", "points.csv", "--label", "points", "--id", "customer", "--no-generator", *ASKED)
    done = run(*fit, *own, "--target", ">= 60", "--out", "m", folder=tmp_path)
    assert (done.code, "label points: numbers from" in done.words) == (0, True), done.err
    done = run("explain", "m", "points.csv", *own, "--target", "<= 0", "--out", "a.csv", folder=tmp_path)
    assert done.code == 0, done.err
    found = pd.read_csv(tmp_path / "a.csv").query("status == 'verified'")
    assert len(found) > 50
    assert (found["income"] * 1.5 - found["debt"] <= 0).all()


def test_three_classes_without_a_target_are_refused_before_anything_is_shown(tmp_path: Path):
    grades = credit().assign(grade=lambda table: np.resize(["low", "middle", "high"], len(table)))
    grades.to_csv(tmp_path / "grades.csv", index=False)
    done = run("fit", "--data", "grades.csv", "--label", "grade", "--out", tmp_path / "m", folder=tmp_path)
    assert done.code == 2
    assert "there are 3 classes, so a target must be named: 'high', 'low', 'middle'" in done.words
    assert "feature" not in done.words


def test_classes_are_only_for_a_model_of_ones_own(desk: Path, tmp_path: Path):
    done = run("fit", *OWN, "--classes", "no,yes", "--out", tmp_path / "m", folder=desk)
    assert (done.code, "--classes no,yes: is for your own model" in done.words) == (2, True)


def test_the_next_step_works_as_it_is_printed(desk: Path, tmp_path: Path):
    credit().to_csv(tmp_path / "credit.csv", index=False)
    dropping = run("fit", *SEARCHING, "--id", "customer", "--out", "m", folder=tmp_path).out
    takes_gaps = ["--classifier", "credit_model:model"]
    for folder, said, more in ((desk, told(desk)[0], takes_gaps), (tmp_path, dropping, ["--skip-missing"])):
        step = re.search(r"next: fcxplain (.*)", said)
        assert step is not None
        words = shlex.split(step[1])
        assert words == ["explain", "m", "credit.csv", *more]
        done = run(*words, folder=folder)
        assert (done.code, "unreadable" in done.out) == (0, False)


# Rows by name


def test_rows_are_called_by_their_id_in_files_pages_and_overrides(desk: Path, tmp_path: Path):
    (tmp_path / "own.csv").write_text("row,freeze\nC1001,income\n")
    asked = ("--classifier", "credit_model:model", "--overrides", tmp_path / "own.csv")
    written = ("--out", tmp_path / "a.parquet", "--html", tmp_path / "a.html")
    done = run("explain", "m", "rows.csv", *asked, *written, folder=desk)
    assert done.code == 0, done.err
    names = pd.read_csv(desk / "rows.csv")["customer"].tolist()
    table = pd.read_parquet(tmp_path / "a.parquet")
    assert table["row"].tolist() == names
    assert "C1001" in (tmp_path / "a.html").read_text()
    stream = run("explain", "m", "rows.parquet", *asked, "--out", tmp_path / "b.parquet", folder=desk)
    assert stream.code == 0, stream.err
    streamed = pd.read_parquet(tmp_path / "b.parquet")
    pd.testing.assert_frame_equal(streamed.drop(columns="certificate"), table.drop(columns="certificate"))
    checked = run("verify", "m", "rows.csv", tmp_path / "b.parquet", *asked[:2], folder=desk)
    assert checked.code == 0, checked.out


def test_an_id_that_was_fitted_or_is_asked_for_must_be_there(desk: Path, tmp_path: Path):
    asked = ("--classifier", "credit_model:model", "--json")
    pd.read_csv(desk / "rows.csv").drop(columns="customer").to_csv(tmp_path / "bare.csv", index=False)
    for command in (("explain", "m", tmp_path / "bare.csv"), ("evaluate", "m", "--rows", tmp_path / "bare.csv")):
        bare = run(*command, *asked, folder=desk)
        said = "--index customer: labelled the rows when the model was fitted, and is not a column here."
        assert (bare.code, said in bare.words) == (2, True)
        assert "name another with --index NAME, or use row numbers with --index ''." in bare.words
    numbered = json.loads(run("explain", "m", tmp_path / "bare.csv", *asked, "--id", "", folder=desk).out)
    assert [row["row"] for row in numbered["rows"]][:2] == [0, 1]
    wrong = run("explain", "m", "rows.csv", *asked, "--id", "custmer", folder=desk)
    assert (wrong.code, "--index custmer: is not a column. Did you mean 'customer'?" in wrong.words) == (2, True)
    large = ("explain", "m", "rows.parquet", *asked, "--id", "custmer", "--out", tmp_path / "a.parquet")
    assert "is not a column. Did you mean 'customer'?" in run(*large, folder=desk).words
    twice = run("explain", "m", "rows.csv", *asked, "--id", "decision", folder=desk)
    assert (twice.code, "--index decision: has the same value in several rows" in twice.words) == (2, True)
    assert "is for your own table" in run("fit", "--data", "adult", "--id", "age", "--out", "x", folder=desk).words


def test_an_identifier_is_left_out_alike_by_every_command_that_guesses(desk: Path, tmp_path: Path):
    guessed = run("schema", "credit.csv", "--label", "decision", "--json", folder=desk)
    names = list(json.loads(guessed.out)["features"])
    assert names == ["income", "debt", "city"]
    checked = run("rules", "check", "my.rules", "--data", "credit.csv", "--label", "decision", folder=desk)
    assert checked.code == 0, checked.err
    assert "column 'customer' is left out" in checked.words
    fitted = run("fit", *SEARCHING, "--out", tmp_path / "m", folder=desk)
    assert fitted.code == 0, fitted.err
    assert fitted.err.count("'customer'") == 1
    assert "confirm it with --ignore customer, or use it as the row labels with --index customer." in fitted.err
    assert list(FCx.load(tmp_path / "m").task_.schema.names) == names
    agreed = run("fit", *SEARCHING, "--ignore", "customer", "--out", tmp_path / "n", folder=desk)
    assert "left out" not in agreed.err


# What is told


def test_fit_says_which_classifier_it_trained_and_how_good_it_is(desk: Path, tmp_path: Path):
    fit = ("fit", *SEARCHING, "--id", "customer", "--classifier", "logistic", "--out")
    found = re.search(
        r"classifier logistic \(logistic regression, trained now\): ([\d.]+)% accurate on (\d+) test rows; "
        r"always predicting (\w+) would be ([\d.]+)% accurate",
        run(*fit, tmp_path / "m", folder=desk).err,
    )
    assert found is not None
    marks = json.loads(run(*fit, tmp_path / "n", "--json", folder=desk).out)
    assert [f"{marks[name]:.1%}" for name in ("accuracy", "majority")] == [f"{found[1]}%", f"{found[4]}%"]
    assert marks["tested_on"] == int(found[2])
    assert "trained now" not in told(desk)[1]
    assert set(TRAINED) == set(KINDS)


def test_fit_says_how_far_a_model_of_ones_own_agrees_with_the_label(desk: Path):
    held = load_table(desk / "credit.csv", label="decision", index="customer").test
    share = (held["decision"] == "rejected").mean()
    said = f"(your own): agrees with decision on 100.0% of {len(held)} rows; always predicting"
    assert f"classifier credit_model:model {said}" in told(desk)[1]
    assert f"would on {max(share, 1 - share):.1%}" in told(desk)[1]


def test_a_model_whose_classes_are_called_otherwise_is_not_compared(desk: Path, tmp_path: Path):
    done = run("fit", *SEARCHING, *NAMED[:4], "--target", 1, "--out", tmp_path / "m", folder=desk)
    assert (done.code, "agrees with" in done.err) == (0, False)


# What stands for a missing value


def test_a_text_that_is_read_as_missing_is_named_once_and_with_the_remedy(desk: Path, tmp_path: Path):
    credit().replace({"city": {"Hull": "n/a"}}).to_csv(tmp_path / "credit.csv", index=False)
    remedy = "'n/a' in 'city' is read as missing; if it is a level, add it to `levels` in the schema"
    shown = run("schema", "credit.csv", "--label", "decision", folder=tmp_path)
    assert shown.words.count(remedy) == 1
    fitted = run("fit", *SEARCHING, "--id", "customer", "--out", tmp_path / "m", folder=tmp_path)
    assert (fitted.code, fitted.err.count(remedy), fitted.err.count("rows with missing values (city")) == (0, 1, 1)
    unreadable = run("explain", "m", "credit.csv", folder=tmp_path)
    assert unreadable.code == 0
    assert "unreadable: column 'city': is empty or marked as missing, e.g. n/a" in unreadable.words
    refused = run("explain", "m", "credit.csv", "--strict", folder=tmp_path)
    assert (refused.code, refused.out) == (2, "")
    assert "column 'city': holds 'n/a', which is read as missing" in refused.words
    assert "If it is a level, add it to `levels` in the schema that the model is fitted with." in refused.words


def test_a_text_that_is_read_as_missing_is_no_hindrance_to_a_model_that_takes_gaps(desk: Path, tmp_path: Path):
    credit().replace({"city": {"Hull": "n/a"}}).to_csv(tmp_path / "credit.csv", index=False)
    asked = ("--classifier", "credit_model:model", "--json")
    done = run("explain", "m", tmp_path / "credit.csv", *asked, folder=desk)
    plain = run("explain", "m", "credit.csv", *asked, folder=desk)
    assert json.loads(done.out)["counts"] == json.loads(plain.out)["counts"]
    assert "unreadable" not in done.out


def test_the_command_line_and_python_answer_the_same_odd_file_alike(desk: Path, tmp_path: Path):
    odd = pd.read_csv(desk / "rows.csv").assign(income=lambda t: t["income"].map("{},0".format), note="gehört dazu")
    odd.to_csv(tmp_path / "odd.csv", index=False, sep=";", encoding="cp1252")
    asked = ("--classifier", "credit_model:model", "--json")
    plain, told = (
        json.loads(run("explain", "m", rows, *asked, folder=desk).out) for rows in ("rows.csv", tmp_path / "odd.csv")
    )
    fcx = FCx.load(desk / "m", classifier="credit_model:model")
    streamed = fcx.explain_file(tmp_path / "odd.csv", tmp_path / "a.parquet", index="customer")
    whole = fcx.explain(read_rows(tmp_path / "odd.csv", fcx.task_, Source.remembered(fcx.source_)))
    for found in (told, whole.to_dict(), streamed.explanation(fcx.task_).to_dict()):
        assert [row["status"] for row in found["rows"]] == [row["status"] for row in plain["rows"]]
        assert [row["row"] for row in found["rows"]] == [row["row"] for row in plain["rows"]]
        assert [a["counterfactual"] for a in found["answers"]] == [a["counterfactual"] for a in plain["answers"]]


def test_overrides_find_rows_whose_names_begin_with_zeros(desk: Path, tmp_path: Path):
    zeros = pd.read_csv(desk / "rows.csv").assign(customer=lambda table: [f"{i:06}" for i in range(len(table))])
    zeros.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "own.csv").write_text("row,freeze\n000003,income\n")
    asked = ("--classifier", "credit_model:model", "--overrides", tmp_path / "own.csv", "--json")
    done = run("explain", "m", tmp_path / "rows.csv", *asked, folder=desk)
    assert done.code == 0, done.err
    assert [row["row"] for row in json.loads(done.out)["rows"]] == zeros["customer"].tolist()


def test_features_that_rules_freeze_are_not_said_to_change(desk: Path):
    assert re.search(r"city +categorical .* no, by a rule", told(desk)[1])
    assert "Immutable: city. To add more: --immutable NAME." in told(desk)[1]


def test_without_rules_it_is_said_that_everything_may_change(desk: Path, tmp_path: Path):
    free = "There are no rules and no immutable features, so answers may change anything"
    fitted = run("fit", *SEARCHING, "--id", "customer", "--out", tmp_path / "m", folder=desk)
    assert fitted.err.count(free) == 1
    explained = run("explain", tmp_path / "m", "rows.csv", folder=desk)
    assert explained.err.count(free) == 1
    assert "fcxplain rules suggest --data credit.csv --label decision" in explained.words
    assert free not in told(desk)[1]
    assert free not in run("explain", "m", "rows.csv", "--classifier", "credit_model:model", folder=desk).err


def test_rows_without_an_answer_are_named_and_those_not_looked_into_too(desk: Path, tmp_path: Path):
    asked = ("explain", "m", "rows.csv", "--classifier", "credit_model:model", "--why-not")
    table = pd.read_csv(desk / "rows.csv").set_index("customer")
    hard = table[table["income"] < 20].index.tolist()
    (tmp_path / "own.csv").write_text("row,freeze\n" + "".join(f'{name},"income,debt"\n' for name in hard))
    done = run(*asked, "--overrides", tmp_path / "own.csv", folder=desk)
    assert done.code == 0, done.err
    listed = re.search(r"\d+ (?:impossible|not_found): [^(]*\(rows? ([^)]*)\)", done.words)
    assert listed is not None
    assert set(listed[1].split(", ")) <= set(hard)
    assert "no reasons were sought" not in done.words
    late = run(*asked, "--seconds", 0.000001, folder=desk)
    assert re.search(r"timed_out: no answer within the budget \(rows C1\d+, ", late.words)
    assert "For rows that are timed_out, no reasons were sought" in late.words


def test_a_run_from_parquet_to_parquet_that_was_stopped_says_what_is_kept_and_goes_on(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    answers, move = tmp_path / "a.parquet", Work.move
    asked = ("explain", "m", "rows.parquet", "--classifier", "credit_model:model", "--id", "customer", "--out", answers)

    def stopped(work: Work, done: float, total: int | None = None, **more: Any) -> None:
        move(work, done, total, **more)
        # Somebody stops it when the bar says so.
        if more["what"] == EXPLAINING and (stop_early or done > 20):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Work, "move", stopped)
        stop_early = True
        early = run(*asked, folder=desk)
        assert not list(tmp_path.iterdir())
        stop_early = False
        late = run(*asked, "--chunk", 10, folder=desk)
    assert (early.code, late.code) == (130, 130)
    assert "nothing is saved yet, since answers are saved 1,000 rows at a time" in early.words
    assert f"the answers to 20 rows are kept in {answers}.parts; run the same command again to resume" in late.words
    other = run(*asked, folder=desk)
    assert (other.code, "parts of another run" in other.err) == (2, True)
    done = run(*asked, "--chunk", 10, folder=desk)
    assert done.code == 0, done.err
    assert "note: resuming after row 20:" in done.err
    again = run(*asked, "--chunk", 10, folder=desk)
    assert "resuming" not in again.err


def test_rows_without_an_answer_are_named_for_a_file_too(desk: Path, tmp_path: Path):
    asked = ("--classifier", "credit_model:model", "--seconds", 0.000001, "--id", "customer")
    table = run("explain", "m", "rows.csv", *asked, folder=desk)
    file = run("explain", "m", "rows.parquet", *asked, "--out", tmp_path / "a.parquet", folder=desk)
    named = r"timed_out: no answer within the budget (\(rows C1\d+, .*? more\))"
    assert re.search(named, file.words)[1] == re.search(named, table.words)[1]


def test_the_bar_moves_while_reasons_are_looked_for(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen, move = [], Work.move

    def watched(work: Work, *done: float, **more: Any) -> None:
        move(work, *done, **more)
        seen.append((work.what, work.state()))

    table = pd.read_csv(desk / "rows.csv").set_index("customer")
    rejected = table.index[table["income"] - table["debt"] < 10].tolist()[:2]
    (tmp_path / "own.csv").write_text(
        "row,rules\n" + "".join(f"{n},income' <= income; debt' >= debt\n" for n in rejected)
    )
    monkeypatch.setattr(Work, "move", watched)
    asked = ("--classifier", "credit_model:model", "--why-not", "--overrides", tmp_path / "own.csv")
    assert run("explain", "m", "rows.csv", *asked, folder=desk).code == 0
    reasons = [state for what, state in seen if what.startswith("finding reasons for ")]
    # The time of the search says nothing of what is left now.
    assert reasons
    assert re.fullmatch(r"\d+%", reasons[0])
    assert seen[-1] == (EXPLAINING, f"{len(table)} of {len(table)}")


def test_rules_are_checked_on_a_table_that_was_named(desk: Path):
    done = run("rules", "check", "my.rules", folder=desk)
    assert (done.code, "--data" in done.words) == (2, True)
    assert "no feature" not in done.words


def test_a_model_that_is_not_there_is_answered_with_those_that_are(desk: Path, tmp_path: Path):
    shutil.copytree(desk / "m", tmp_path / "loans-model")
    for command in (("explain", "loan-model", "rows.csv"), ("evaluate", "loan-model"), ("graph", "loan-model")):
        done = run(*command, folder=tmp_path)
        assert (done.code, "Did you mean 'loans-model'?" in done.words) == (2, True)


def test_help_is_plain_and_true(tmp_path: Path):
    for words in (("explain",), ("rules",), ("bench", "run"), ()):
        assert "bool" not in run(*words, "--help", folder=tmp_path).out
    assert f"{SCHEDULE.epochs} by default" in re.sub(r"[│\s]+", " ", run("fit", "--help", folder=tmp_path).out)
    done = run("explain", "m", "rows.csv", "-k", 0, folder=tmp_path)
    assert (done.code, "'-k': 0 is too small; give 1 or more" in done.words) == (2, True)


# Data that means harm

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
HARMFUL = "\x1b[31m[red]a\x9b1m\u202e\r\nerror::key:"
SHOWN = r"\x1b[31m[red]a\x9b1m\u202e\r\nerror::key:"
ASK = ("--classifier", "credit_model:model")


def harmful_rows(path: Path, names: list[str]) -> Path:
    """The rows of customers who are called so, each of them refused."""
    rows = credit().drop(index=5).iloc[: len(names)].assign(customer=names, income=range(30, 30 + len(names)), debt=28)
    rows.to_parquet(path, index=False)
    return path


def test_control_characters_and_markup_in_data_are_printed_as_text(desk: Path, tmp_path: Path):
    rows = harmful_rows(tmp_path / "rows.parquet", [HARMFUL, "plain"])
    done = run("explain", "m", rows, *ASK, "--why-not", folder=desk)
    assert done.code == 0
    assert SHOWN in done.out
    assert not CONTROL.search(done.out + done.err)
    told = run("explain", "m", rows, *ASK, "--json", folder=desk)
    assert not CONTROL.search(told.out)
    assert [answer["row"] for answer in json.loads(told.out)["answers"]] == [HARMFUL, "plain"]


def test_control_characters_in_names_of_columns_files_and_options_are_printed_as_text(tmp_path: Path):
    pd.DataFrame({"a\x1b[2J": [1, 2, 3] * 9, "[bold]b": ["\x9bx", "y", "\x7fz"] * 9}).to_parquet(tmp_path / "t.parquet")
    for words, shown in (
        (("schema", "t.parquet"), r"a\x1b[2J"),
        (("schema", "no\x1b[2J.csv", "--debug"), r"no\x1b[2J.csv"),
        (("schema", "t.parquet", "--label", "no\x1b[2J"), r"no\x1b[2J"),
        (("schema", "t.parquet", "more\x1b[2J"), r"more\x1b[2J"),
        (("schema", "--no\x1b[2J"), r"--no\x1b[2J"),
        (("rules", "--no\x1b[2J"), r"--no\x1b[2J"),
    ):
        done = run(*words, folder=tmp_path)
        assert not CONTROL.search(done.out + done.err), words
        assert shown in done.words, words


def test_a_file_of_answers_holds_no_formulas_and_is_read_back_as_it_was(desk: Path, tmp_path: Path):
    names = ["=1+1", "+x", "-3.5 kg", "@SUM(A1)", "'=q", "-3.5", "'quoted'", "C1001"]
    rows = harmful_rows(tmp_path / "rows.parquet", names)
    done = run("explain", "m", rows, *ASK, "--out", tmp_path / "answers.csv", folder=desk)
    assert done.code == 0, done.err
    with (tmp_path / "answers.csv").open(newline="") as file:
        written = [line["row"] for line in csv.DictReader(file)]
    assert written == ["'=1+1", "'+x", "'-3.5 kg", "'@SUM(A1)", "''=q", "-3.5", "'quoted'", "C1001"]
    assert read_table(tmp_path / "answers.csv", index="row").index.tolist() == names


def test_a_second_fit_of_the_same_model_is_refused_while_the_first_goes_on(desk: Path, tmp_path: Path):
    fit = ("fit", *SEARCHING, *NAMED, "--target", "granted", "--out", tmp_path / "n")
    with only_run(tmp_path / "n"):
        done = run(*fit, folder=desk)
        assert (done.code, "written by another run" in done.words) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("task", [None, [], {}, {"schema": None}, {"schema": ["a"]}, {"schema": "junk"}])
def test_a_model_with_a_task_that_is_none_is_refused_before_its_classifier_is_trained(desk: Path, tmp_path: Path, task):
    shutil.copytree(desk / "m", tmp_path / "m")
    path = tmp_path / "m" / "manifest.json"
    content = json.loads(path.read_text(encoding="utf-8"))["content"] | {"task": task}
    path.write_bytes(manifest.compose("fcx", content, (tmp_path / "m" / "weights.safetensors").read_bytes()))
    done = run("explain", tmp_path / "m", "rows.csv", "--classifier", "paper", folder=desk)
    assert (done.code, "does not describe an explainer" in done.words) == (2, True)


# Options of commands that read rows


def test_a_page_tells_groups_apart_and_a_group_that_is_none_is_told_before_the_work(desk: Path, tmp_path: Path):
    asked = ("explain", "m", "rows.csv", "--classifier", "credit_model:model", "--html", tmp_path / "a.html")
    assert run(*asked, "--group", "city", folder=desk).code == 0
    page = (tmp_path / "a.html").read_text()
    assert all(town in page for town in ("York", "Hull"))
    (tmp_path / "a.html").unlink()
    wrong = run(*asked, "--group", "citty", folder=desk)
    assert (wrong.code, "no feature 'citty'. Did you mean 'city'?" in wrong.words) == (2, True)
    assert not (tmp_path / "a.html").exists()


def test_the_column_that_rows_are_called_by_is_no_feature_of_a_schema(desk: Path):
    named = run("schema", "credit.csv", "--label", "decision", "--id", "customer", "--json", folder=desk)
    assert named.code == 0, named.err
    assert list(json.loads(named.out)["features"]) == ["income", "debt", "city"]
    assert json.loads(named.out)["left_out"] == []
    wrong = run("schema", "credit.csv", "--label", "decision", "--index", "custmer", folder=desk)
    assert (wrong.code, "--index custmer: is not a column. Did you mean 'customer'?" in wrong.words) == (2, True)


def test_rows_that_are_measured_may_be_called_by_a_column(desk: Path):
    asked = ("evaluate", "m", "--classifier", "credit_model:model", "--metrics", "validity", "--json")
    done = run(*asked, "--rows", "rows.csv", "--id", "customer", folder=desk)
    assert done.code == 0, done.err
    alone = run(*asked, "--id", "customer", folder=desk)
    assert (alone.code, "--index customer: is for your own rows" in alone.words) == (2, True)
