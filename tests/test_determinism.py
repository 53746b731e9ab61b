"""Same row, model, rules and seed: same answer, whatever the batch, the order, the threads, the process or the past."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import nn

import loans
from effort import examples
from fcxplain import Explanation, FCx, Task
from fcxplain.generator.losses import lof
from fcxplain.search import Search
from fcxplain.training_loop import Schedule
from random_models import matrix

pytestmark = pytest.mark.filterwarnings("ignore::fcxplain.errors.FcxWarning")

KINDS = ("network", "boosting")
PREFER = ("sparse", "balanced", "plausible")
ROWS = 6
BUDGET = 120


def network() -> nn.Module:
    """A small network with weights of its own, not those of the global random state."""
    generator = torch.Generator().manual_seed(2)
    layers = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.no_grad():
        for parameter in layers.parameters():
            parameter.normal_(generator=generator)
    return layers


def boosting() -> Callable[[pd.DataFrame], np.ndarray]:
    table = loans.table(200, seed=2)
    model = HistGradientBoostingClassifier(max_iter=8, random_state=0)
    model.fit(matrix(loans.SCHEMA, table), loans.chance(table) > 0.6)
    return lambda rows: model.predict_proba(matrix(loans.SCHEMA, rows))


@cache
def task(kind: str) -> Task:
    model = network() if kind == "network" else boosting()
    return Task(loans.table(150), model, schema=loans.SCHEMA, rules=loans.RULES, target=1)


@cache
def fitted(kind: str) -> FCx:
    return FCx(schedule=Schedule(epochs=1), seed=4).fit(task(kind))


@cache
def rows(kind: str) -> pd.DataFrame:
    """Refused rows, one that is not, and one with an income off its grid."""
    table = loans.table(200, seed=9)
    refused = task(kind).refused(table)
    chosen = pd.concat([table[refused].head(ROWS - 1), table[~refused].head(1)])
    return chosen.assign(income=chosen["income"] + np.where(np.arange(ROWS) == 2, 0.2, 0.0))


def explained(kind: str, table: pd.DataFrame, prefer: str, k: int) -> Explanation:
    return fitted(kind).explain(table, k, prefer=prefer, budget=BUDGET)


@cache
def usual(kind: str, prefer: str, k: int) -> list[str]:
    return by_row(explained(kind, rows(kind), prefer, k))


def by_row(answer: Explanation) -> list[str]:
    """All that is said of each row: its status, and of each answer its values, cost, probability and origin.

    The probability is the model's own, and rounds by the size of its batch.
    """
    said: list[list[Any]] = [[str(status)] for status in answer.row_status]
    for i in np.lexsort((answer.rank, answer.place)).tolist():
        c = answer.certificate(i)
        values = [str(answer.answers[n].iloc[i]) for n in answer.task.schema.names]
        said[answer.place[i]].append([c.rank, values, repr(c.cost), round(c.probability, 5), c.found_by])
    return [json.dumps(own) for own in said]


def differences(kind: str, prefer: str, k: int, part: list[int]) -> list[tuple[str, str]]:
    found = by_row(explained(kind, rows(kind).iloc[part], prefer, k))
    expected = [usual(kind, prefer, k)[i] for i in part]
    return [(a, b) for a, b in zip(found, expected, strict=True) if a != b]


def test_there_is_something_to_compare():
    for kind in KINDS:
        statuses = [json.loads(own)[0] for own in usual(kind, "balanced", 3)]
        assert statuses.count("verified") >= ROWS // 2
        assert "already" in statuses
        assert max(len(json.loads(own)) for own in usual(kind, "balanced", 3)) == 4


@st.composite
def partitions(draw: st.DrawFn) -> list[list[int]]:
    """The rows in any order, some of them twice, cut anywhere into batches."""
    order = draw(st.permutations(range(ROWS))) + draw(st.lists(st.integers(0, ROWS - 1), max_size=3))
    cuts = sorted(draw(st.lists(st.integers(1, len(order) - 1), max_size=2, unique=True)))
    return [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]


@pytest.mark.parametrize("prefer", PREFER)
@pytest.mark.parametrize("kind", KINDS)
@examples(8, few=2)
@given(parts=partitions(), k=st.sampled_from([1, 3]))
def test_the_batch_and_its_order_and_doubles_change_nothing(kind, prefer, k, parts):
    for part in parts:
        assert not differences(kind, prefer, k, part)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_alone_gets_what_it_gets_in_company(kind):
    for i in range(ROWS):
        assert not differences(kind, "balanced", 1, [i])


@pytest.mark.parametrize(("kind", "size"), [("network", 600), ("boosting", 260)])
def test_a_large_batch_changes_nothing(kind, size):
    """Larger than what is searched at a time, so that a row meets other neighbours."""
    company = loans.table(size, seed=11)
    table = pd.concat([company, rows(kind)])
    found = by_row(fitted(kind).explain(table, prefer="sparse", budget=20))[-ROWS:]
    assert found == by_row(fitted(kind).explain(rows(kind), prefer="sparse", budget=20))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_changes_nothing(kind):
    found = by_row(explained(kind, rows(kind), "balanced", 1))
    torch.set_num_threads(1)
    assert found == by_row(explained(kind, rows(kind), "balanced", 1))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_explained_before_changes_nothing(kind):
    search = Search(task(kind), prefer="balanced", budget=BUDGET)
    fresh = by_row(Search(task(kind), prefer="balanced", budget=BUDGET).explain(rows(kind), 2))
    search.explain(loans.table(20, seed=12), 3)
    search.explain(rows(kind).head(2))
    assert by_row(search.explain(rows(kind), 2)) == fresh


@pytest.mark.parametrize("kind", KINDS)
def test_the_index_and_other_columns_change_nothing(kind):
    table = rows(kind).assign(note="x", zeal=1)[["zeal", *reversed(loans.SCHEMA.names), "note"]]
    found = by_row(explained(kind, table.set_axis([3] * ROWS, axis=0), "balanced", 1))
    assert found == usual(kind, "balanced", 1)


def test_reasons_belong_to_the_row_alone():
    strict = f"{loans.RULES}\njob' == job\nage' <= age + 1\nincome' <= income"
    narrow = Task(loans.table(150), network(), schema=loans.SCHEMA, rules=strict, target=1)
    fcx, table = FCx(schedule=Schedule(epochs=1), seed=4).fit(narrow), rows("network").head(3)
    whole = fcx.explain(table, why_not=True).why_not
    assert whole.notna().any()
    for part in ([1], [2, 1, 0]):
        assert fcx.explain(table.iloc[part], why_not=True).why_not.tolist() == whole.iloc[part].tolist()


def random_state() -> tuple[str, str, bytes]:
    return (
        repr(random.getstate()),
        repr(np.random.get_state(legacy=False)),  # noqa: NPY002
        torch.get_rng_state().numpy().tobytes(),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_global_random_state_is_neither_read_nor_changed(kind):
    before = random_state()
    expected = usual(kind, "plausible", 3)
    assert random_state() == before
    random.seed(5)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    moved = random_state()
    again = FCx(schedule=Schedule(epochs=1), seed=4).fit(task(kind)) if kind == "network" else fitted(kind)
    assert by_row(again.explain(rows(kind), 3, prefer="plausible", budget=BUDGET)) == expected
    assert random_state() == moved


def slope_of_lof() -> list[float]:
    """Its gradient sums over neighbours, which are found by parts of a sort."""
    points = torch.randn(600, 10, generator=torch.Generator().manual_seed(1)).requires_grad_()
    lof(points, 20).sum().backward()
    return points.grad.sum(dim=1).tolist()


def digest() -> str:
    """One short text for all that both explainers say."""
    said = [usual("network", "plausible", 3), slope_of_lof()]
    said.append(by_row(Search(task("boosting"), budget=BUDGET).explain(rows("boosting"), 3)))
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def test_another_process_gives_the_same_answers():
    """Fitted and explained anew, with another seed for Python's hashes and with numpy's most general instructions.

    numpy sorts, and so leaves ties and parts of rows in an order, by the vector instructions of the processor.
    """
    here = Path(__file__).parent
    code = "import conftest, test_determinism; print(test_determinism.digest())"
    paths = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    vectors = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    environment = {**os.environ, "PYTHONHASHSEED": "123", "PYTHONPATH": paths}
    environment |= {"NPY_DISABLE_CPU_FEATURES": " ".join(vectors)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == digest()
