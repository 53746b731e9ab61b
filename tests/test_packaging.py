"""What is handed out: the wheel and the sdist hold what they should, and commands load only what they need."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import fcxplain

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "fcxplain"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HEAVY = ("torch", "sklearn", "pandas", "matplotlib", "scipy", "pyarrow", "jinja2", "onnxruntime", "matplotlib.pyplot")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> zipfile.ZipFile:
    (path,) = dist.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel: zipfile.ZipFile):
    ours = {p.relative_to(PACKAGE.parent).as_posix() for p in PACKAGE.rglob("*") if p.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    about = f"fcxplain-{fcxplain.__version__}.dist-info/"
    assert {name for name in wheel.namelist() if not name.startswith(about)} == ours
    assert {"fcxplain/py.typed", "fcxplain/datasets/adult.data.gz", "fcxplain/datasets/ATTRIBUTION.md"} <= ours
    assert "fcxplain/explanation/page/templates/page.html" in ours


def test_the_wheel_says_what_it_is_and_under_which_licences(wheel: zipfile.ZipFile):
    about = f"fcxplain-{fcxplain.__version__}.dist-info"
    told = message_from_string(wheel.read(f"{about}/METADATA").decode("utf-8"))
    assert told["Version"] == fcxplain.__version__ == PROJECT["version"]
    assert told["License-Expression"] == "BSD-3-Clause AND CC-BY-4.0"
    assert wheel.read(f"{about}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert b"fcxplain = fcxplain.cli:main" in wheel.read(f"{about}/entry_points.txt")


def test_the_sdist_can_be_tested_and_holds_no_leavings(dist: Path):
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    needed = {"pyproject.toml", "Makefile", "constraints.txt", "README.md", "LICENSE", "CHANGELOG.md", "mkdocs.yml"}
    assert needed | {"tests/test_packaging.py", "src/fcxplain/py.typed", "docs/speed.md"} <= names
    allowed = {"src", "tests", "docs", "examples", "PKG-INFO", "CONTRIBUTING.md", "SECURITY.md", ".gitignore"}
    assert {name.split("/")[0] for name in names} <= needed | allowed
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def loaded_after(*steps: str) -> list[list[str]]:
    """Which heavy libraries a fresh Python has loaded after each step; what the steps themselves print is dropped."""
    told = f"print('loaded', *(m for m in {HEAVY} if m in sys.modules), file=sys.stderr)"
    code = "\n".join(["import sys", *(f"{step}\n{told}" for step in steps)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("loaded")]


def command(*arguments: str) -> str:
    """A step that runs the command line, which must end well."""
    run = f"from fcxplain.cli import main\nsys.argv = ['fcxplain', *{list(arguments)}]\ntry:\n    main()\n"
    return run + "except SystemExit as ended:\n    assert not ended.code, ended.code"


def test_the_package_help_and_version_load_nothing_heavy():
    asked = [["--version"], ["--help"], ["rules", "check", "--help"], ["bench", "speed", "--help"]]
    steps = ["import fcxplain", *(command(*arguments) for arguments in asked)]
    assert loaded_after(*steps) == [[]] * len(steps)


PROBLEM = """
import tempfile, numpy as np, pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from fcxplain import Task, TableEncoder, as_classifier, parse_rules, train_classifier
import fcxplain.explanation.files.verification, fcxplain.explanation.page, fcxplain.region.region
import fcxplain.generator.presets, fcxplain.saving.explainer, fcxplain.streaming
draw = np.random.default_rng(0)
table = pd.DataFrame({"age": draw.integers(18, 70, 200), "pay": draw.integers(0, 90, 200), "job": draw.choice([*"abc"], 200)})
columns = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
model = make_pipeline(columns, LogisticRegression()).fit(table, table["pay"] > 40)
task = Task(table, model, rules="age' >= age", target=True)
assert task.encoder.encode_array(task.schema.natural(table)).shape == (200, 5)
"""
SEARCH = """
from fcxplain import FCx
fcx = FCx(generator=False).fit(task)
refused = table[~model.predict(table)].head(3)
answers = fcx.explain(refused, why_not=True)
assert set(answers.status) == {"verified"}
assert all(c.valid for c in answers.certificates)
with tempfile.TemporaryDirectory() as folder:
    answers.to_html(folder + "/page.html")
    answers.to_parquet(folder + "/answers.parquet")
    fcx.save(folder + "/model")
    assert FCx.load(folder + "/model", model).explain(refused).frame.equals(answers.frame)
"""


def test_a_name_loads_no_library_that_it_does_not_need():
    tables, classifiers, graphs, problem, search, plots = loaded_after(
        "import fcxplain.schema, fcxplain.rules\nfrom fcxplain import Schema, parse_rules, load_dataset",
        "import fcxplain.classifier",
        "from fcxplain import CausalGraph, suggest",
        PROBLEM,
        SEARCH,
        "import fcxplain.plots",
    )
    assert set(tables) == {"pandas", "pyarrow"}
    assert set(graphs) == {"pandas", "pyarrow", "scipy"}
    assert set(problem) == {"pandas", "pyarrow", "scipy", "sklearn"}
    assert set(search) == {"pandas", "pyarrow", "scipy", "sklearn", "jinja2"}
    assert not {"sklearn", "onnxruntime"} & set(classifiers)
    assert "matplotlib.pyplot" not in plots


def test_rules_and_schemas_are_looked_at_without_torch(tmp_path: Path):
    table, rules = tmp_path / "loans.csv", tmp_path / "my.rules"
    table.write_text("age,pay\n30,10\n40,20\n50,25\n", encoding="utf-8")
    rules.write_text("age' >= age\npay' <= age'\n", encoding="utf-8")
    schema, suggest, check = loaded_after(
        command("schema", str(table)),
        command("rules", "suggest", "--data", str(table)),
        command("rules", "check", str(rules), "--data", str(table)),
    )
    assert set(schema) == {"pandas", "pyarrow"}
    assert set(suggest) == set(check) == {"pandas", "pyarrow", "scipy"}
