"""The command line as a user has it, in this process, so that torch need not be loaded once more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import run
from fcxplain.schema import Schema

LOANS = "age;income;job;approved\n" + "".join(
    f"{20 + i % 40};{(i * 37) % 900 + 100};{'cook' if i % 3 else 'clerk'};{'yes' if i % 2 else 'no'}\n"
    for i in range(60)
)


@pytest.fixture
def loans(tmp_path: Path) -> Path:
    (tmp_path / "loans.csv").write_text(LOANS)
    return tmp_path


def test_help_teaches_by_example(tmp_path: Path):
    assert "Example:" in run("rules", "check", "--help", folder=tmp_path).out
    assert run("--version", folder=tmp_path).out.startswith("fcxplain 0.")


def test_the_demo_explains_under_rules_that_a_person_would_sign_and_saves(tmp_path: Path):
    done = run("demo", "--rows", 600, folder=tmp_path)
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert "600 people" in said
    assert "income over 50,000" in said
    assert said.count("feature now would be") == 3
    assert "impossible Blocked" in said
    assert "marital" not in said.split("Of the first")[1]
    assert (tmp_path / "fcxplain-demo" / "model" / "weights.safetensors").exists()
    assert "over 50,000" in (tmp_path / "fcxplain-demo" / "report.html").read_text(encoding="utf-8")


def test_data_sets_are_listed(tmp_path: Path):
    found = json.loads(run("datasets", "--json", folder=tmp_path).out)
    assert [d["name"] for d in found] == ["adult", "adult-authors", "census", "law", "folktables", "loans"]
    assert found[0]["where"] == "in the package"


def test_rules_are_checked_on_real_rows(tmp_path: Path):
    found = json.loads(run("rules", "check", "binary", "--data", "adult", "--json", folder=tmp_path).out)
    assert [r["words"] for r in found["rules"]][2] == "education must not decrease"
    assert all(r["rows"] == 32_561 and r["rows_broken"] == 0 < r["pairs_broken"] for r in found["rules"])


def test_a_mistake_in_a_rule_file_is_shown_without_a_traceback(tmp_path: Path):
    (tmp_path / "my.rules").write_text("age' >= age\neducation' > eduction\n")
    done = run("rules", "check", "my.rules", "--data", "adult", folder=tmp_path)
    assert done.code == 2
    assert "line 2, column 14: no feature 'eduction'. Did you mean 'education'?" in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in run("--debug", "rules", "check", "my.rules", "--data", "adult", folder=tmp_path).err


def test_rules_in_contradiction_end_with_an_error_code(tmp_path: Path):
    (tmp_path / "my.rules").write_text("age' > 60\nage' < 50\n")
    done = run("rules", "check", "my.rules", "--data", "adult", folder=tmp_path)
    assert done.code == 2
    assert "contradict each other" in done.out


def test_a_users_own_table_is_understood_and_its_schema_written(loans: Path):
    done = run("schema", "loans.csv", "--label", "approved", "--out", "schema.toml", folder=loans)
    assert done.code == 0, done.err
    assert Schema.from_toml(loans / "schema.toml").names == ("age", "income", "job")
    (loans / "my.rules").write_text("age' >= age\nincome' <= 2 * income\n")
    found = run("rules", "check", "my.rules", "--data", "loans.csv", "--schema", "schema.toml", "--json", folder=loans)
    assert [r["rows"] for r in json.loads(found.out)["rules"]] == [60, 60]


def test_bad_input_is_named(loans: Path):
    assert "Did you mean 'adult'" in run("rules", "check", "unary", "--data", "adlut", folder=loans).err
    assert "nowhere.csv" in run("schema", "nowhere.csv", folder=loans).err
    done = run("schema", "loans.csv", "--label", "aproved", folder=loans)
    assert (done.code, "Did you mean 'approved'" in done.err) == (2, True)


def test_speed_is_measured_as_a_ratio(tmp_path: Path):
    done = run("bench", "speed", "--what", "tables", "--repeat", "1", "--json", folder=tmp_path)
    assert done.code == 0, done.err
    found = json.loads(done.out)["timings"]
    assert [t["job"] for t in found][:2] == ["encode", "decode"]
    assert all(t["rows"] == 32_561 for t in found)


def test_classifiers_are_scored_and_written(tmp_path: Path):
    target = tmp_path / "marks.md"
    asked = ("--data", "adult", "--kind", "logistic", "--rows", "600", "--out", target)
    done = run("bench", "classifiers", *asked, folder=tmp_path)
    assert done.code == 0, done.err
    assert "| adult | 600 | logistic |" in target.read_text()
