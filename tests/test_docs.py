"""The documents' Python runs, and prints what they say it prints; their commands and links are real."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import fcxplain
from commands import run
from documents import blocks_of_page, printed, shape
from fcxplain import DATASETS, METHODS, METRICS, Feature, Schema, plots
from fcxplain.cli import app
from fcxplain.rules import in_words, parse

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_CODE = [page for page in PAGES if blocks_of_page(page.read_text(encoding="utf-8"))]
COMMAND = re.compile(r"^(?:\$ )?(fcxplain .*?)(?:\s+#.*)?$", re.MULTILINE)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WRITE_LOANS = "fcxplain datasets --write loans"
# The features that the examples in rules.md speak of.
NUMBERS = ("age", "debts", "income", "hours", "loan", "a", "b", "c", "profit")
SPOKEN_OF = Schema(
    (
        *(Feature(name, "integer", low=0, high=100) for name in NUMBERS),
        Feature("grade", "ordinal", levels=("low", "middle", "high")),
        Feature("education", "ordinal", levels=("school", "college", "master")),
        Feature("job", "categorical", levels=("clerk", "cook", "smith", "soldier")),
        Feature("work", "categorical", levels=("paid", "self-employed")),
        Feature("race", "categorical", levels=("White", "Other")),
    )
)


@pytest.fixture(autouse=True)
def _same_entries_after() -> Iterator[None]:
    """What a page adds to the dicts of methods, metrics and data sets is there for that page only."""
    before = [(entries, dict(entries)) for entries in (METHODS, METRICS, DATASETS)]
    yield
    for entries, known in before:
        entries.clear()
        entries.update(known)


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: p.name)
def test_python_in_the_documents_runs_and_prints_what_they_say(page: Path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of_page(page.read_text(encoding="utf-8"))
    for number, (block, text) in enumerate(zip(blocks, printed(blocks, tmp_path, capsys), strict=True), start=1):
        if block.printed:
            assert shape(text) == shape(block.printed), f"block {number}"


def examples_of_rules() -> list[str]:
    text = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8").split("## Common rules")[1].split("\n## ")[0]
    return re.findall(r"^\| [^|`]+ \| `([^`]+)`", text, re.MULTILINE)


@pytest.mark.parametrize("text", examples_of_rules())
def test_examples_of_rules_can_be_read(text: str):
    assert in_words(parse(text, SPOKEN_OF))


def fences() -> Iterator[tuple[str, str]]:
    """Every block of the documents that may hold commands, and the page that it stands on."""
    for page in PAGES:
        for language, text in FENCE.findall(page.read_text(encoding="utf-8")):
            if language in ("", "sh"):
                yield page.name, text


def commands() -> Iterator[tuple[str, str]]:
    """Every command line in the documents, and the page that it stands on."""
    for page, text in fences():
        for line in COMMAND.findall(text):
            yield page, line


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())), ids=lambda text: text[:60])
def test_commands_in_the_documents_have_the_options_they_name(page: str, line: str):
    command, words = typer.main.get_command(app), shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    known = {option for parameter in command.params for option in parameter.opts}
    assert not hasattr(command, "commands"), f"{words[0]!r} is not a command"
    assert {word for word in words if re.match("-+[a-z]", word)} <= known | {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_the_documents_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_reference_has_every_public_name_and_every_plot():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    public = {*(f"fcxplain.{name}" for name in fcxplain.__all__), *(f"fcxplain.plots.{name}" for name in plots.__all__)}
    assert public - set(re.findall(r"^::: (\S+)$", text, re.MULTILINE)) == {
        "fcxplain.DATASETS",
        "fcxplain.METHODS",
        "fcxplain.METRICS",
    }


def test_the_glossary_is_in_alphabetical_order_and_has_no_term_twice():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = [term.strip().lower() for term in re.findall(r"^\| ([^|]+)\|", text, re.MULTILINE)][1:]
    assert terms == sorted(set(terms))


def fences_on_loans() -> list[tuple[str, list[str]]]:
    """The commands of each block that starts with writing the made-up table, and the page that it stands on."""
    return [(page, COMMAND.findall(text)) for page, text in fences() if text.startswith(WRITE_LOANS)]


@pytest.mark.parametrize(("page", "lines"), fences_on_loans(), ids=[page for page, _ in fences_on_loans()])
def test_commands_on_the_made_up_table_run_as_printed_in_an_empty_folder(page: str, lines: list[str], tmp_path: Path):
    for line in lines:
        done = run(*shlex.split(line)[1:], folder=tmp_path)
        assert done.code == 0, f"{line}: {done.err}"
        if line == WRITE_LOANS:
            # The whole table takes a minute or two; some of it shows as much.
            loans = (tmp_path / "loans.csv").read_text(encoding="utf-8").splitlines(keepends=True)
            (tmp_path / "loans.csv").write_text("".join(loans[:70]), encoding="utf-8")
    if any("--letters letters" in line for line in lines):
        assert (tmp_path / "letters" / "L-10001.html").exists()


def test_every_command_that_names_the_made_up_table_runs():
    # A model that the reader would have to write is the one exception.
    run_here = {line for _, lines in fences_on_loans() for line in lines}
    assert {line for _, line in commands() if "loans.csv" in line and "my_code:" not in line} <= run_here
