"""The last resort of rows without an answer: up the slope of the model, then wide proposals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from fcxplain import Feature, Schema, Task
from fcxplain.hashing import derived, keys_of, uniform
from fcxplain.search import Search
from fcxplain.search.batch import Batch
from fcxplain.search.candidates import Found
from fcxplain.search.propose.last_resort import on_simplex, random_changes, uphill
from fcxplain.search.propose.single import explore
from fcxplain.search.steps import StepRunner

pytestmark = pytest.mark.filterwarnings("ignore:the classifier predicts the target")
NAMES = tuple("abcdefgh")
SCHEMA = Schema(tuple(Feature(n, "integer", low=0, high=100) for n in NAMES))
LEVELS = ("red", "green", "blue", "grey")


class Needle(nn.Module):
    """Accepts what lies near one place inside the domain: every feature must move, and none of them too far."""

    def forward(self, x: Tensor) -> Tensor:
        ahead = 0.05 - (x - 0.62).pow(2).sum(dim=1).add(1e-12).sqrt()
        return torch.stack([torch.zeros_like(ahead), ahead], dim=1)


def corner(rows: pd.DataFrame) -> np.ndarray:
    """Accepts a corner where three features are high, and shows no slope on the way."""
    return np.where((rows[["a", "b", "c"]] > 70).all(axis=1), 0.9, 0.1)


def table(rows: int = 60) -> pd.DataFrame:
    made = pd.DataFrame(np.random.default_rng(0).integers(0, 40, (rows, len(NAMES))), columns=list(NAMES))
    # The encoder scales by the training range.
    made.iloc[0], made.iloc[1] = 0, 100
    made.loc[1, "a"] = 60
    return made


def needle() -> Task:
    return Task(table().assign(a=lambda t: t["a"].where(t.index != 1, 100)), Needle(), schema=SCHEMA, target=1)


def cornered() -> Task:
    return Task(table(), corner, schema=SCHEMA, target=1, classes=(0, 1))


def batch_and_found(search: Search, rows: pd.DataFrame) -> tuple[Batch, Found]:
    present = search.context.space.present(
        SCHEMA.checked(rows), search.task.outcomes(search.task.class_names[np.ones(len(rows), dtype=np.int64)])
    )
    batch = StepRunner(search.context, 1).batch(present)
    return batch, Found(explore(batch, present.codes), np.ones(len(rows), dtype=bool), batch.nothing())


def test_the_slope_leads_where_many_features_must_move_together_and_nothing_else_does():
    search, rows = Search(needle(), prefer="sparse"), table().iloc[2:10]
    assert set(search.explain(rows).found_by) == {"refine"}
    work = batch_and_found(search, rows)
    assert uphill(*work).has(len(rows)).all()
    assert not random_changes(*work).has(len(rows)).any()


def test_wide_proposals_find_a_corner_to_which_nothing_leads():
    search, rows = Search(cornered(), prefer="sparse", budget=2_000), table().iloc[2:10]
    answer = search.explain(rows)
    assert search.context.shared.slope is None
    assert answer.counts == {"verified": len(rows)}
    assert set(answer.found_by) == {"refine"}
    assert (answer.checks.changes == 3).all()


@pytest.mark.parametrize("problem", [needle, cornered])
def test_what_refining_finds_depends_on_the_row_alone(problem):
    search, rows = Search(problem(), prefer="sparse"), table().iloc[2:5]
    together = search.explain(rows)
    for place in range(len(rows)):
        alone = search.explain(rows.iloc[[place]])
        assert (alone.answers.to_numpy() == together.answers.to_numpy()[together.place == place]).all()
        assert (alone.row_status[0], alone.calls[0]) == (together.row_status[place], together.calls[place])


def test_refining_keeps_the_rules():
    task = Task(table(), corner, schema=SCHEMA, rules="a' >= b'\nd' == d", target=1, classes=(0, 1))
    answer = Search(task, prefer="sparse", budget=3_000).explain(table().iloc[2:10])
    assert len(answer.answers)
    assert answer.checks.passed.all()


def test_wide_proposals_stay_within_the_calls_of_each_row():
    search, rows = Search(cornered(), prefer="sparse", budget=400), table().iloc[2:8]
    answer = search.explain(rows)
    assert (answer.calls <= 400).all()


@given(st.lists(st.lists(st.floats(-3, 3), min_size=len(LEVELS), max_size=len(LEVELS)), min_size=1, max_size=5))
def test_mixtures_of_levels_are_the_nearest_ones(lines):
    x = np.array(lines)
    mixed = on_simplex(x)
    assert (mixed >= 0).all()
    assert mixed.sum(axis=1) == pytest.approx(np.ones(len(lines)))
    others = np.random.default_rng(0).dirichlet(np.ones(len(LEVELS)), 200)
    nearest = np.linalg.norm(others[None] - x[:, None], axis=2).min(axis=1)
    assert (np.linalg.norm(mixed - x, axis=1) <= nearest + 1e-9).all()


def test_random_numbers_are_even_and_tell_rows_and_numbers_apart():
    codes = np.random.default_rng(0).integers(0, 9, (400, 3))
    keys = derived(keys_of(codes, np.zeros(400, dtype=np.int64), 0), np.arange(400))
    found = np.stack([uniform(keys, n) for n in range(20)], axis=1)
    assert len(np.unique(found)) == found.size
    assert np.histogram(found, 10, (0, 1))[0] == pytest.approx(np.full(10, 800), rel=0.15)
    assert np.abs(np.corrcoef(found.T) - np.eye(20)).max() < 0.2
    assert (uniform(keys, 3) == found[:, 3]).all()
