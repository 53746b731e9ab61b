"""The worked examples of CONTRIBUTING.md do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fcxplain import Task
from fcxplain.classifier import adapters
from fcxplain.proof import proof
from fcxplain.search import Search, steps
from loans import SCHEMA, chance, table, task

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def example(name: str) -> dict[str, Any]:
    """The names that the block with this function defines."""
    (block,) = [b for b in BLOCKS if f"def {name}(" in b]
    found: dict[str, Any] = {}
    exec(block, found)  # noqa: S102 - our own document
    return found


def test_a_step_proposes_and_its_candidates_are_good(monkeypatch):
    medians, brought = example("medians")["medians"], []

    def counted(batch, found):
        pool = medians(batch, found)
        brought.append(len(pool))
        return pool

    monkeypatch.setattr(steps, "STEPS", (steps.SearchStep(counted, (steps.possible,)),))
    answer = Search(task(), prefer="fewest").explain(table(40))
    assert sum(brought) >= len(answer.answers) > 0
    assert answer.checks.passed.all()


def test_a_proof_settles_rows(monkeypatch):
    still = task("\n".join(f"{name}' == {name}" for name in SCHEMA.names))
    monkeypatch.setattr(proof, "PROOFS", (example("by_standstill")["by_standstill"],))
    rows = table(10)
    assert proof.prove(still, rows, np.full(10, "yes")).impossible.all()
    assert not proof.prove(task(), rows, np.full(10, "yes")).impossible.any()


class Results:
    """A fitted result as statsmodels has them."""

    params, llf = (0.0,), -1.0

    def predict(self, rows: pd.DataFrame) -> np.ndarray:
        return chance(rows)


def test_a_kind_of_model_is_known_by_its_adapter(monkeypatch):
    with pytest.raises(Exception, match="is not a classifier"):
        Task(table(), Results(), schema=SCHEMA, target="yes", classes=("no", "yes"))
    own = example("is_results")
    monkeypatch.setattr(adapters, "ADAPTERS", ((own["is_results"], own["classifier"]), *adapters.ADAPTERS))
    problem = Task(table(), Results(), schema=SCHEMA, target="yes", classes=("no", "yes"))
    assert problem.predict(table(5)).tolist() == task().predict(table(5)).tolist()
