"""Schemas as files: written whole, read back equal, and corrected by hand."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given

import strategies
from fcxplain.errors import SchemaError
from fcxplain.schema import Feature, Schema

SCHEMA = Schema(
    (
        Feature("age", "integer", low=18, high=90, mutable=False, unit="years"),
        Feature("gpa", "continuous", low=-1.5, high=4, step=0.25, label="Grade point average"),
        Feature("open", "continuous"),
        Feature("job", "categorical", levels=("clerk", "cook")),
        Feature("degree", "ordinal", levels=("school", "college", "master"), ranks=(0, 1, 1)),
        Feature("flag", "categorical", levels=(False, True)),
        Feature("grade", "ordinal", levels=(1, 2, 3.5)),
    )
)
HOSTILE = (
    "",
    " ",
    '"',
    "'",
    '"""',
    "'''",
    "\\",
    "a\nb",
    "\r\n",
    "\t\x00\x1b\x7f\x85\u2028",
    "é",
    "e\u0301",
    "😀",
    "\u202e",
    "a.b",
    "[features.x]",
    "# no comment",
    "nan",
    "true",
    "x" * 100_000,
)


def mistakes(text: str) -> list[str]:
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml(text + "\n")
    return [str(fault) for fault in caught.value.faults]


def test_a_schema_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    text = SCHEMA.to_toml(path)
    assert path.read_text(encoding="utf-8") == text
    assert Schema.from_toml(path) == Schema.from_toml(str(path)) == Schema.from_toml(text) == SCHEMA


def test_hostile_levels_and_names_come_back() -> None:
    names = [n for n in HOSTILE if n.strip() and not set(n) & {"\n", "\r"}]
    features = [Feature(n, "categorical", levels=HOSTILE, label=n, unit=n) for n in names]
    assert Schema.from_toml(Schema(tuple(features)).to_toml()) == Schema(tuple(features))


@given(strategies.schemas(names=strategies.NAMES))
def test_every_schema_comes_back_from_its_text(schema: Schema) -> None:
    assert Schema.from_toml(schema.to_toml()) == schema


def test_a_thousand_levels_come_back() -> None:
    schema = Schema((Feature("f", "categorical", levels=tuple(f"v{i}" for i in range(1000))),))
    assert Schema.from_toml(schema.to_toml()) == schema


def test_guesses_become_comments() -> None:
    schema = Schema.infer(pd.DataFrame({"age": [1, 2, 3], "job": ["a\nb", "c", "d"]}))
    text = schema.to_toml()
    assert "# integer from 1 to 3: every value is a whole number." in text
    assert Schema.from_toml(text) == schema


def test_a_file_with_a_byte_order_mark_and_windows_lines_is_read(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SCHEMA.to_toml().replace("\n", "\r\n").encode())
    assert Schema.from_toml(path) == SCHEMA


def test_decimals_may_stand_for_step() -> None:
    text = '[features.x]\nkind = "continuous"\nlow = 0\nhigh = 1\ndecimals = 2\n'
    assert Schema.from_toml(text)["x"].step == 0.01


def test_every_mistake_of_a_file_is_listed_with_its_place() -> None:
    found = mistakes(
        """
        [feature.x]
        [features.age]
        kind = "integer"
        lo = 3
        mutable = "no"
        [features.job]
        levels = "clerk"
        [features.when]
        kind = "continuous"
        low = 2020-01-01
        high = true
        [features.gpa]
        kind = "contnuous"
        ranks = [1.5]
        [features]
        bare = 3
        """
    )
    assert found == [
        "[feature]: is not known. Did you mean 'features'?",
        "feature 'age': no field 'lo'. Did you mean 'low'?",
        "feature 'age': mutable is 'no', neither true nor false.",
        "feature 'job': has no kind. Write e.g. kind = \"categorical\".",
        "feature 'job': levels is 'clerk', not a list. Write levels = [...].",
        "feature 'when': low is datetime.date(2020, 1, 1), not a finite number.",
        "feature 'when': high is True, not a finite number.",
        "feature 'gpa': no kind 'contnuous'; choose one of integer, continuous, date, categorical, ordinal. "
        "Did you mean 'continuous'?",
        "feature 'bare': is not a table. Write [features.bare] and its fields below.",
    ]


@pytest.mark.parametrize("text", ["", "x = 1", "features = 3", "[features]", "features = []"])
def test_a_file_without_features_says_what_is_needed(text: str) -> None:
    assert mistakes(text)[-1] == "[features.NAME]: is needed once for each feature."


@pytest.mark.parametrize("text", ["[features.x\n", '[features.x]\nkind = "integer\n', "[features.x]\n[features.x]\n"])
def test_a_syntax_error_names_the_line(text: str) -> None:
    with pytest.raises(SchemaError, match=r"not valid TOML: .*line \d"):
        Schema.from_toml(text)


@pytest.mark.parametrize("name", ["absent.toml", "", "a\0b", "x" * 5000])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(SchemaError, match="cannot read the schema file"):
        Schema.from_toml(tmp_path / name)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SchemaError, match="cannot read the schema file"):
        Schema.from_toml(tmp_path / "schema.toml")


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").mkdir()
    (tmp_path / "schema.toml" / "old").write_text("old")
    with pytest.raises(SchemaError, match="cannot write the schema file"):
        SCHEMA.to_toml(tmp_path / "schema.toml")
    with pytest.raises(SchemaError, match="cannot write the schema file"):
        SCHEMA.to_toml(tmp_path / "absent" / "schema.toml")
    assert [p.name for p in tmp_path.iterdir()] == ["schema.toml"]
    assert (tmp_path / "schema.toml" / "old").read_text() == "old"


def test_writing_replaces_the_file_and_keeps_its_permissions(tmp_path: Path) -> None:
    path, link = tmp_path / "schema.toml", tmp_path / "link.toml"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    SCHEMA.to_toml(link)
    assert link.is_symlink()
    assert tomllib.loads(path.read_text(encoding="utf-8"))["features"]["age"]["low"] == 18
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.toml", "schema.toml"]


def test_a_new_file_gets_ordinary_permissions(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_text("")
    SCHEMA.to_toml(tmp_path / "schema.toml")
    assert (tmp_path / "schema.toml").stat().st_mode == (tmp_path / "ordinary").stat().st_mode
