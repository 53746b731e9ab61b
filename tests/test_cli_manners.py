"""What every command has in common: help with an example, --json, --quiet, one line for an error, an end by Ctrl-C."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer.main
from rich.console import Console

from commands import run
from fcxplain.benchmark.plan import METHODS
from fcxplain.benchmark.speed.speed import ALONE, LARGE, MEASURED
from fcxplain.benchmark.studies import STUDIES
from fcxplain.classifier import KINDS
from fcxplain.cli import app, console
from fcxplain.cli.console import FAULT_OF_OURS, STOPPED, App, as_options, end
from fcxplain.cli.progress import SILENCE, Work
from fcxplain.datasets import DATASETS, load_table
from fcxplain.datasets.source import load_features
from fcxplain.errors import DataError
from fcxplain.explainer import FCx
from fcxplain.metrics import CONVENTIONS, METRICS
from fcxplain.progress import Progress
from fcxplain.schema import Schema
from fcxplain.search import PREFERENCES
from fcxplain.task import Task
from processes import start, wait

FCXPLAIN = Path(sys.executable).with_name("fcxplain")
LABEL = "loan status"
FIT = ("fit", "--data", "loans.csv", "--label", LABEL, "--as-published", "--epochs", 1)
ESCAPE = "\x1b["


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that there is, by the words that call it."""
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands())


def table(rows: int = 160) -> pd.DataFrame:
    """Loans as banks keep them: an identifier, a date, missing values, names with blanks, a label in words."""
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        {
            "number": np.arange(1000, 1000 + rows),
            "opened": pd.date_range("2020-01-01", periods=rows).strftime("%d.%m.%Y"),
            "age": rng.integers(18, 80, rows),
            "monthly income": rng.integers(10, 90, rows) * 100,
            "home": rng.choice(["own", "rent"], rows),
        }
    )
    good = made["monthly income"] / 50 + made["age"] > 130
    made = made.assign(**{LABEL: np.where(good, "paid back", "in default")})
    return made.assign(home=made["home"].where(made.index % 20 != 3))


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and a model fitted to it."""
    folder = tmp_path_factory.mktemp("bank")
    table().to_csv(folder / "loans.csv", index=False, sep=";")
    done = run(*FIT, "--ignore", "opened", "--ignore", "number", "--out", "model", folder=folder)
    assert done.code == 0, done.err
    assert "The data suggests 1 rule for you to accept or reject: fcxplain rules suggest --data loans.csv" in done.err
    assert not FCx.load(folder / "model").task_.rules, "what is suggested is not applied"
    return folder


# All commands


def test_there_are_the_commands_that_we_document():
    assert {" ".join(words) for words in COMMANDS} == {
        *("demo", "datasets", "schema", "fit", "explain", "verify", "serve", "evaluate", "graph"),
        *("rules check", "rules suggest", "store list", "store show", "store delete"),
        *(f"bench {name}" for name in ("run", "ablation", "tune", "check", "report")),
        *(f"bench {name}" for name in ("classifiers", "speed", "graphs", "serve")),
    }


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_and_the_options_that_all_have(words: tuple[str, ...], tmp_path: Path):
    done = run(*words, "--help", folder=tmp_path)
    assert done.code == 0
    assert f"Example: fcxplain {' '.join(words)}" in done.words
    options = {name for parameter in COMMANDS[words].params for name in parameter.opts}
    assert {"--json", "--quiet", "-q", "--debug"} <= options


def test_examples_name_options_that_there_are():
    for words, command in COMMANDS.items():
        known = {name for parameter in command.params for name in parameter.opts}
        for example in re.findall(r"Example: (.*)", inspect.cleandoc(command.help)):
            assert example.startswith(f"fcxplain {' '.join(words)}")
            assert set(re.findall(r"(?<= )--[a-z-]+", example)) <= known, example


# Options that have the names of Python's arguments, and what they were called before.
SAME = {"--index": "--id", "--immutable": "--freeze", "--budget": "--calls", "--overwrite": "--force"}


def test_options_are_called_as_in_python_and_by_the_names_that_they_had():
    shown = {tuple(p.opts) for command in COMMANDS.values() for p in command.params}
    assert set(SAME.items()) <= shown
    assert not [opts for opts in shown if opts[0] in SAME.values()]
    takes = {
        "fit": {"label", "index", "immutable", "ignore", "seed"} & set(inspect.signature(load_table).parameters),
        "explain": {"prefer", "why_not", "budget", "overrides", "draws", "best_effort"}
        & set(inspect.signature(FCx.explain).parameters),
    }
    takes["fit"] |= {"rules", "target", "classes", "threshold"} & set(inspect.signature(Task.__init__).parameters)
    assert [len(names) for names in takes.values()] == [9, 6]
    for command, names in takes.items():
        known = {name for p in COMMANDS[(command,)].params for name in p.opts}
        assert {f"--{name.replace('_', '-')}" for name in names} <= known


# Something wrong for each command, and a word that the message must have.
WRONG = {
    "demo": ("--out loans.csv", "is a file"),
    "datasets": ("--jsno", "--json"),
    "schema": ("nowhere.csv", "nowhere.csv"),
    "fit": ("--data loans.csv --label home --ignore nonsense --out m", "nonsense"),
    "explain": ("model nowhere.csv", "nowhere.csv"),
    "verify": ("model loans.csv nowhere.parquet --skip-missing", "nowhere.parquet"),
    "evaluate": ("model --metrics validty", "Did you mean 'validity'?"),
    "graph": ("--data loans.csv --ignore opend", "--ignore opend: is not a column. Did you mean 'opened'?"),
    "serve": ("model --host 0.0.0.0", "needs a token"),
    "store list": ("nowhere.db", "nowhere.db"),
    "store show": ("nowhere.db 1", "nowhere.db"),
    "store delete": ("nowhere.db", "--person or --receipt"),
    "rules check": ("no.rules --data adlut", "Did you mean 'adult'?"),
    "rules suggest": ("--data nowhere.csv", "nowhere.csv"),
    "bench run": ("--data adlut --out results", "Did you mean 'adult'?"),
    "bench ablation": ("--study latnet --data adult --out results", "latent"),
    "bench tune": ("--data adlut --out results", "Did you mean 'adult'?"),
    "bench check": ("--results nowhere", "bench run"),
    "bench serve": ("model --rows nowhere.csv", "nowhere.csv"),
    "bench report": ("--results nowhere --out report", "bench run"),
    "bench classifiers": ("--data adlut", "Did you mean 'adult'?"),
    "bench speed": ("--what tabels", "Did you mean 'tables'?"),
    "bench graphs": ("--tables 0", "--tables"),
}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_bad_input_is_one_message_and_code_2(words: tuple[str, ...], bank: Path):
    given, told = WRONG[" ".join(words)]
    before = sorted(bank.iterdir())
    done = run(*words, *given.split(), folder=bank)
    assert (done.code, done.out) == (2, "")
    assert told in done.words
    assert "Traceback" not in done.err
    assert sorted(bank.iterdir()) == before


def test_debug_shows_where_wherever_it_stands(bank: Path):
    for words in (("--debug", "schema", "nowhere.csv"), ("schema", "nowhere.csv", "--debug")):
        done = run(*words, folder=bank)
        assert done.code == 2
        assert "Traceback" in done.err
        assert "DataError" in done.err


def test_a_file_that_cannot_be_written_is_no_fault_of_ours(bank: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    done = run("bench", "classifiers", "--data", "adult", "--out", tmp_path / "file" / "marks.md", folder=bank)
    assert (done.code, "file" in done.err) == (2, True)
    assert end(PermissionError(13, "Permission denied", "marks.md")) == 2


def test_a_fault_of_ours_is_one_line_with_a_code_of_its_own(capsys: pytest.CaptureFixture[str]):
    assert end(KeyError("lost\nkey")) == FAULT_OF_OURS
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "KeyError" in said
    assert "--debug" in said


# What goes where


def test_quiet_leaves_results_and_nothing_else(bank: Path, tmp_path: Path):
    loud = run("explain", "model", "loans.csv", "--skip-missing", folder=bank)
    quiet = run("explain", "model", "loans.csv", "--skip-missing", "--quiet", folder=bank)
    assert (quiet.code, quiet.out) == (0, loud.out)
    assert quiet.err.startswith("warning: 8 of 160 rows have missing values")
    silent = run(*FIT, "--ignore", "opened", "--out", tmp_path / "m", "-q", folder=bank)
    assert (silent.code, silent.out) == (0, "")
    assert all(line.startswith("warning:") for line in silent.err.splitlines())
    told = run("schema", "loans.csv", "--quiet", "--json", folder=bank)
    assert json.loads(told.out)["features"]["age"]["kind"] == "integer"
    assert told.err == ""


def test_nothing_is_coloured_in_a_pipe_or_against_the_users_wish(tmp_path: Path):
    plain = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE")}
    wishes = ({"FORCE_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"})
    command = [sys.executable, "-m", "fcxplain", "schema", "nowhere.csv"]
    said = [subprocess.run(command, capture_output=True, env=plain | wish, check=False).stderr for wish in wishes]
    assert re.search(rb"\x1b\[[0-9;]*31m", said[0])
    assert not re.search(rb"\x1b\[[0-9;]*31m", said[1])
    assert ESCAPE not in run("schema", "nowhere.csv", folder=tmp_path).err


def test_lines_of_help_end_where_the_terminal_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "60")
    done = run("explain", "--help", folder=tmp_path)
    assert max(len(line.rstrip()) for line in done.out.splitlines()) <= 60
    short = [line for line in done.out.splitlines() if 0 < len(line.strip()) < 25 and not line.startswith((" │", "│"))]
    assert len(short) < 8, "paragraphs are filled, not broken where the source breaks them"


# How far it is


class Clock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_follows_from_the_pace_and_leaves_out_what_was_there():
    clock = Clock()
    work = Work("reading", 100, console=Console(file=io.StringIO()), clock=clock)
    assert work.state() == "0 of 100"
    clock.now = 5.0
    work.move(40, what="explaining")
    assert work.state() == "40 of 100"
    clock.now = 15.0
    work.move(50)
    assert work.state() == "50 of 100, 0:50 left"
    clock.now = 3700.0
    assert Work("loading", console=Console(file=io.StringIO()), clock=clock).state() == "0:00"


def test_where_nobody_watches_a_line_comes_now_and_then():
    clock, screen = Clock(), io.StringIO()
    work = Work("explaining", 1000, console=Console(file=screen), clock=clock)
    for second in range(1, 100):
        clock.now = float(second)
        work.move(second)
    assert screen.getvalue().count("\n") == int(99 // SILENCE)
    assert "explaining: 30 of 1,000, 16:10 left" in screen.getvalue()


def test_a_bar_with_the_time_left_is_shown_where_somebody_watches():
    clock, screen = Clock(), io.StringIO()
    work = Work("explaining", 10, console=Console(file=screen, force_terminal=True, width=60), clock=clock)
    work.start()
    clock.now = 2.0
    work.move(5)
    work.stop()
    assert "5 of 10, 0:02 left" in screen.getvalue()
    assert screen.getvalue().count("\x1b[?25h") == screen.getvalue().count("\x1b[?25l") > 0


def test_the_time_left_follows_the_pace_of_late():
    clock = Clock()
    work = Work("explaining", 1000, console=Console(file=io.StringIO()), clock=clock)
    for step in range(1, 91):
        clock.now = float(step)
        work.move(10 * step)
    assert work.state() == "900 of 1,000, 0:10 left"
    for step in range(1, 41):
        clock.now += 10.0
        work.move(900 + step)
    assert work.state() == "940 of 1,000, 10:00 left"


def test_where_parts_are_uneven_the_time_so_far_is_told():
    clock = Clock()
    work = Work("measuring", 12, even=False, console=Console(file=io.StringIO()), clock=clock)
    clock.now = 65.0
    work.move(3)
    assert work.state() == "3 of 12, 1:05 so far"


def test_what_comes_next_may_be_counted_anew_or_not_at_all():
    clock = Clock()
    work = Work("training", 100, console=Console(file=io.StringIO()), clock=clock)
    clock.now = 10.0
    work.move(50)
    work.move(0, 0, what="writing")
    assert (work.what, work.state()) == ("writing", "0:10")
    work.move(0, 8)
    clock.now = 12.0
    work.move(2, 8)
    assert work.state() == "2 of 8, 0:06 left"


def test_rare_steps_have_a_pace_too():
    clock = Clock()
    work = Work("explaining", 4, console=Console(file=io.StringIO()), clock=clock)
    for step in (1, 2):
        clock.now += 100.0 * step
        work.move(step)
    assert work.state() == "2 of 4, 5:00 left"


def test_one_event_tells_a_bar_all_that_it_shows(capsys: pytest.CaptureFixture[str]):
    clock = Clock()
    work = Work("loading", console=Console(file=io.StringIO()), clock=clock)
    work.tell(Progress("going through what is there", 40, 100))
    work.tell(Progress("explaining", 40, 100, "resuming after row 40"))
    clock.now = 10.0
    work.tell(Progress("explaining", 50, 100))
    assert (work.what, work.state()) == ("explaining", "50 of 100, 0:50 left")
    assert capsys.readouterr().err == "note: resuming after row 40\n"
    work.tell(Progress("writing", 3))
    assert work.state() == "3 of 100"


# Completion


def test_completed_values_are_those_that_there_are():
    assert set(console.DATA_SETS) == set(DATASETS)
    assert set(console.METHODS) == set(METHODS)
    assert set(console.METRICS) == set(METRICS)
    assert set(console.CONVENTIONS) == set(CONVENTIONS)
    assert set(console.CLASSIFIERS) == set(KINDS)
    assert set(console.PREFERENCES) == set(PREFERENCES)
    assert set(console.STUDIES) == set(STUDIES)
    assert set(console.SPEEDS) == {*MEASURED, LARGE, ALONE}


TYPED = {
    "fcxplain ver": ["verify"],
    "fcxplain fit --data adu": ["adult", "adult-authors"],
    "fcxplain explain model rows.csv --prefer s": ["sparse"],
    "fcxplain evaluate model --metrics validity,succ": ["validity,success", "validity,success_possible"],
    "fcxplain bench run --methods fcx-u,rev": ["fcx-u,revise"],
    "fcxplain fit --out loa": [],
}


@pytest.mark.skipif(shutil.which("bash") is None or not FCXPLAIN.exists(), reason="needs bash and fcxplain installed")
def test_bash_completes_names_and_leaves_files_to_itself(bank: Path):
    script, typed = f'eval "$(_FCXPLAIN_COMPLETE=source_bash {FCXPLAIN})"; complete -p fcxplain\n', list(TYPED)[-2:]
    for line in typed:
        script += f"COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _fcxplain_completion {FCXPLAIN}\n"
        script += 'echo "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=bank, check=False)
    how, *found = done.stdout.splitlines()
    assert [line.split() for line in found] == [TYPED[line] for line in typed], done.stderr
    assert "-o default" in how, "where nothing is offered, bash completes files"


@pytest.mark.skipif(shutil.which("fish") is None or not FCXPLAIN.exists(), reason="needs fish and fcxplain installed")
def test_fish_completes_names_and_leaves_files_to_itself(bank: Path):
    script = "_FCXPLAIN_COMPLETE=source_fish fcxplain | source\n"
    script += "".join(f"complete -C '{line}'; echo end\n" for line in TYPED)
    place = {"PATH": f"{FCXPLAIN.parent}:{os.environ['PATH']}", "HOME": str(bank)}
    command = ["fish", "--no-config", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=bank, env=os.environ | place, check=False)
    found = [[line.partition("\t")[0] for line in part.splitlines()] for part in done.stdout.split("end\n")[:-1]]
    assert found == [*list(TYPED.values())[:-1], ["loans.csv"]], done.stderr


def asked_by_shell(shell: str, line: str, **more: str) -> tuple[int, str]:
    """The exit code and the answer when a shell asks what could stand at the end of a line."""
    asks, told = {"_FCXPLAIN_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line} | more, io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in asks.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(told), pytest.raises(SystemExit) as ended:
            app(prog_name="fcxplain")
    return int(ended.value.code or 0), told.getvalue().strip()


@pytest.mark.parametrize("line", TYPED)
def test_what_bash_asks_for_is_answered(line: str):
    asks = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    assert asked_by_shell("bash", line, **asks) == (0, "\n".join(TYPED[line]))


def test_what_fish_and_zsh_ask_for_is_answered_where_neither_is_installed():
    names, files = "fcxplain fit --data adu", "fcxplain fit --out loa"
    get, check = ({"_TYPER_COMPLETE_FISH_ACTION": action} for action in ("get-args", "is-args"))
    assert asked_by_shell("fish", names, **get) == (0, "adult\nadult-authors")
    assert asked_by_shell("fish", names, **check) == (0, "")
    assert asked_by_shell("fish", files, **check) == (1, ""), "where nothing is offered, fish completes files"
    assert asked_by_shell("zsh", names) == (0, '_arguments \'*: :(("adult"\n"adult-authors"))\'')
    assert asked_by_shell("zsh", files) == (0, "_files")


# A table of one's own


def test_fit_shows_what_it_guessed_and_how_to_correct_it(bank: Path, tmp_path: Path):
    chosen = ("--ignore", "opened", "--freeze", "age", "--write-schema", tmp_path / "s.toml", "--target", "paid back")
    done = run(*FIT, *chosen, "--out", tmp_path / "m", folder=bank)
    assert done.code == 0, done.err
    assert re.search(r"age +integer +\d+ to \d+ by 1 \(bounds guessed\) +no", done.err)
    assert re.search(r"home +categorical +2 levels: 'own', 'rent' \(levels +yes *\n +guessed\)", done.err)
    assert "column 'number' is left out, since it has 160 different values in 160 rows" in done.err
    assert re.search(r"label loan status: in default \(\d+\), paid back \(\d+\); target: paid back", done.err)
    assert "Dropped 8 of 160 rows with missing values (home 8)" in done.err
    assert "A cell counts as missing if it is empty or one of ?, NA" in done.err
    assert f"edit it there, and fit with --schema {tmp_path / 's.toml'}" in done.err
    schema = Schema.from_toml(tmp_path / "s.toml")
    assert schema.immutable == ("age",)
    assert [feature.guessed for feature in schema] == [("low", "high"), ("low", "high"), ("levels",)]
    again = run(*FIT, "--schema", tmp_path / "s.toml", "--out", tmp_path / "n", folder=bank)
    assert again.code == 0, again.err
    assert FCx.load(tmp_path / "n").task_.schema == FCx.load(tmp_path / "m").task_.schema == schema


def test_columns_that_cannot_be_features_are_named_with_the_option_that_drops_them(bank: Path, tmp_path: Path):
    done = run(*FIT, "--out", tmp_path / "m", folder=bank)
    assert (done.code, done.out) == (2, "")
    assert "leave them out with --ignore opened" in done.words
    left = run("schema", "loans.csv", "--label", LABEL, "--out", tmp_path / "s.toml", folder=bank)
    assert left.code == 0
    assert "left out: column 'opened': holds dates that are not in ISO format" in left.words
    assert "# - column 'opened': holds dates that are not" in (tmp_path / "s.toml").read_text()
    assert Schema.from_toml(tmp_path / "s.toml").names == ("age", "monthly income", "home")


def test_ignored_columns_must_be_there_and_not_the_label(bank: Path, tmp_path: Path):
    with pytest.raises(DataError) as error:
        load_features(str(bank / "loans.csv"), label=LABEL, ignore=["opend", LABEL])
    assert [fault.place for fault in error.value.faults] == ["ignore 'opend'", f"ignore '{LABEL}'"]
    done = run(*FIT, "--ignore", "opend", "--ignore", LABEL, "--out", tmp_path / "m", folder=bank)
    assert "--ignore opend: is not a column. Did you mean 'opened'?" in done.words
    assert f"--ignore {LABEL}: is also named as the label" in done.words


def test_messages_of_the_library_name_options_where_python_has_arguments():
    assert as_options("Leave it out: ignore=['a b', 'c'].") == "Leave it out: --ignore 'a b' --ignore c."
    assert as_options("pass overwrite=True or skip_missing=True") == "pass --overwrite or --skip-missing"
    assert as_options("x.csv: index 'who': is not a column") == "x.csv: --index who: is not a column"
    assert as_options("these settings: setting latent=5: no setting 'latent'").startswith(
        "these settings: --set latent"
    )


def test_rows_with_missing_values_are_told_refused_or_skipped_as_asked(bank: Path, tmp_path: Path):
    told = run("explain", "model", "loans.csv", folder=bank)
    assert (told.code, "unreadable: does not fit the schema" in told.words) == (0, True)
    refused = run("explain", "model", "loans.csv", "--strict", folder=bank)
    assert (refused.code, "--skip-missing" in refused.words) == (2, True)
    target = tmp_path / "answers.parquet"
    done = run("explain", "model", "loans.csv", "--skip-missing", "--out", target, "--json", folder=bank)
    assert json.loads(done.out)["rows"] == 152
    assert run("verify", "model", "loans.csv", target, "--skip-missing", folder=bank).code == 0


MODEL = """
import numpy as np
from pathlib import Path

class Model:
    classes_ = np.array([0, 1])
    def predict_proba(self, rows):
        Path("asked").touch()
        chance = 1 / (1 + np.exp(-(rows["monthly income"].to_numpy() / 50 + rows["age"].to_numpy() - 130) / 20))
        return np.column_stack([1 - chance, chance])

model = Model()
"""


def test_a_models_classes_may_be_called_otherwise_than_the_label(
    bank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "bank_model.py").write_text(MODEL)
    shutil.copy(bank / "loans.csv", tmp_path)
    fit = (*FIT, "--ignore", "opened", "--classifier", "bank_model:model", "--out", "m")
    done = run(*fit, "--target", "1", folder=tmp_path)
    assert done.code == 0, done.err
    assert "agrees with the labels" not in done.err
    wrong = run(*fit, "--target", "paid back", "--overwrite", folder=tmp_path)
    assert (wrong.code, "--classes 'in default,paid back' on the command line" in wrong.words) == (2, True)


def test_epochs_that_are_named_are_meant(bank: Path, tmp_path: Path):
    own = [word for word in FIT if word != "--as-published"]
    fit = (*own, "--ignore", "opened", "--out", tmp_path / "m", "--json")
    assert json.loads(run(*fit, folder=bank).out)["epochs"] == 1


# Ctrl-C


# Seconds after which a command that did not end is a failure, and not waited for any longer.
PATIENCE = 120


def interrupted(folder: Path, *arguments: object, said: Path, when: Callable[[], bool]) -> tuple[int | None, list[str]]:
    """The exit code and the last words of a command that gets Ctrl-C at some moment."""
    process = start(*arguments, folder=folder, said=said)
    wait(process, when)
    os.kill(process.pid or 0, signal.SIGINT)
    process.join(PATIENCE)
    process.kill()
    process.join()
    return process.exitcode, said.read_text().splitlines()


@pytest.fixture
def said(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("said") / "stderr.txt"


def test_ctrl_c_ends_a_fit_with_one_line_and_no_model(bank: Path, tmp_path: Path, said: Path):
    fit = (*FIT[:-1], 10_000, "--ignore", "opened", "--out", tmp_path / "m")
    code, told = interrupted(bank, *fit, said=said, when=(tmp_path / "m.checkpoint" / "manifest.json").exists)
    assert code == STOPPED
    assert told[-1].startswith("stopped: finished epochs are kept in")
    assert not any("Traceback" in line for line in told)
    assert [path.name for path in tmp_path.iterdir()] == ["m.checkpoint"]


@pytest.fixture(scope="module")
def slow(bank: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model whose classifier takes its time."""
    folder = tmp_path_factory.mktemp("slow")
    (folder / "slow_model.py").write_text(MODEL)
    read = table().dropna()
    read.to_csv(folder / "rows.csv", index=False)
    read.to_parquet(folder / "rows.parquet")
    fit = ("fit", "--data", "rows.csv", *FIT[3:5], "--ignore", "opened", "--classifier", "slow_model:model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        done = run(*fit, "--no-generator", "--out", "m", folder=folder)
    assert done.code == 0, done.err
    # From now on every answer takes its time; it stays the same.
    (folder / "slow_model.py").write_text(MODEL.replace(".touch()", '.touch(); __import__("time").sleep(0.2)'))
    return folder


def test_ctrl_c_ends_an_explanation_with_one_line_and_no_file(slow: Path, said: Path):
    (slow / "asked").unlink()
    explain = ("explain", "m", "rows.csv", "--classifier", "slow_model:model", "--out", "answers.csv")
    code, told = interrupted(slow, *explain, said=said, when=(slow / "asked").exists)
    # Stopped while the model is still loaded, there is nothing to say of answers.
    assert (code, [line.partition(":")[0] for line in told]) == (STOPPED, ["stopped"])
    assert not [path.name for path in slow.iterdir() if "answers" in path.name]


def test_ctrl_c_between_files_says_how_many_rows_are_kept(slow: Path, tmp_path: Path, said: Path):
    target, few = tmp_path / "answers.parquet", ("--chunk", 4, "--calls", 2)
    explain = ("explain", "m", "rows.parquet", "--classifier", "slow_model:model", *few, "--out", target)
    second = tmp_path / "answers.parquet.parts" / "part-000001.parquet"
    code, told = interrupted(slow, *explain, said=said, when=second.exists)
    kept = re.fullmatch(
        r"stopped: the answers to (\d+) rows are kept in (.*); run the same command again to resume.*", told[-1]
    )
    assert code == STOPPED
    assert kept is not None, told
    assert int(kept[1]) == 4 * len(list(Path(kept[2]).glob("part-*.parquet"))) >= 8
    assert not target.exists()


def test_ctrl_c_ends_a_benchmark_with_whole_lines(tmp_path: Path, said: Path):
    def second_run() -> bool:
        return said.exists() and "\n2 of 2" in said.read_text()

    small = ("--rows", 300, "--limit-rows", 2, "--seed", 0, "--seed", 1)
    asked = ("bench", "run", "--data", "adult", "--methods", "fcx-u", *small, "--out", tmp_path / "results")
    code, told = interrupted(tmp_path, *asked, said=said, when=second_run)
    assert code == STOPPED
    assert told[-1] == "stopped: 1 new result kept; run the same command again to resume"
    assert told[-2].startswith("2 of 2")
    lines = (tmp_path / "results" / "adult.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 1
    assert lines[0].endswith("\n")
    assert json.loads(lines[0])["job"]["method"] == "fcx-u"


def test_ctrl_c_in_a_command_of_ones_own_app_ends_it_too(capsys: pytest.CaptureFixture[str]):
    own = App()

    @own.command()
    def wait() -> None:
        """Wait. Example: wait."""
        raise KeyboardInterrupt("all is kept")

    with pytest.raises(SystemExit) as ended:
        own([])
    assert ended.value.code == STOPPED
    assert capsys.readouterr().err == "stopped: all is kept\n"
