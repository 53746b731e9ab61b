"""What the model sees of a task: rows, masks and penalties, and noise that knows nothing of batches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import loans
from effort import examples
from fcxplain import CausalGraph, parse
from fcxplain.errors import DataError, TrainingError
from fcxplain.generator.training import TrainingRows
from fcxplain.generator.view import (
    causal_masks,
    layout,
    parted,
    proximity_scale,
    published_form,
    refused_rows,
    rule_penalty,
)
from fcxplain.hashing import row_noise


def pair(**changes: object) -> tuple[torch.Tensor, torch.Tensor, object]:
    task = loans.task()
    before = pd.DataFrame({"age": [30], "income": [1000.0], "degree": ["school"], "job": ["cook"], "born": ["here"]})
    after = before.assign(**{name: [value] for name, value in changes.items()})
    return task.encoder.encode(before), task.encoder.encode(after), task


def test_only_refused_rows_are_seen_with_the_class_wanted():
    task = loans.task()
    rows = refused_rows(task, task.train)
    assert len(rows) == task.refused(task.train).sum()
    assert set(rows.y_target.tolist()) == {1}


def test_what_a_rule_freezes_may_not_change():
    assert layout(loans.task()).mutable == (True, True, True, True, False)
    assert layout(loans.task(rules="job' == job")).mutable == (True, True, True, False, False)
    everything = "\n".join(f"{f.name}' == {f.name}" for f in loans.SCHEMA if f.mutable)
    with pytest.raises(DataError, match="freeze all"):
        layout(loans.task(rules=everything))


def test_training_and_validation_rows_share_nothing_and_lose_nothing():
    rows = TrainingRows(torch.arange(50.0)[:, None], torch.ones(50, dtype=torch.long))
    train, held = parted(rows, seed=1)
    assert (len(train), len(held)) == (45, 5)
    assert sorted(train.x.flatten().tolist() + held.x.flatten().tolist()) == list(range(50))
    few = TrainingRows(rows.x[:3], rows.y_target[:3])
    assert parted(few, seed=1) == (few, few)
    with pytest.raises(TrainingError, match="nothing to explain"):
        parted(TrainingRows(rows.x[:0], rows.y_target[:0]), seed=0)


def test_masks_join_features_not_the_columns_of_one():
    task = loans.task()
    graph = CausalGraph(task.schema.names, directed=(("age", "degree"), ("born", "job")))
    joined, apart = causal_masks(graph, task, layout(task))
    spans = task.encoder.spans_
    assert joined[spans["age"], spans["degree"]].all()
    assert joined.sum() == 3
    assert not (joined & apart).any()
    assert not joined[spans["degree"], spans["degree"]].any()
    assert not apart[spans["degree"], spans["degree"]].any()
    assert not (joined | apart)[:, spans["born"]].any()  # what may not change makes no pair
    # Every other pair of columns of different features that may change, once.
    assert int((joined | apart).sum()) == 1 * 1 + 2 * (3 + 3) + 3 * 3


def test_the_papers_hinges_are_taken_where_a_rule_has_their_shape():
    task = loans.task()
    for text, takes in (
        ("age' >= age", True),
        ("age <= age'", True),
        ("age' > age", True),
        ("degree' > degree => age' > age", True),
        ("degree' == degree => age' >= age", True),
        ("age' <= age", False),
        ("age' >= age + 2", False),
        ("income' <= 5 * age'", False),
        ("job' in {clerk}", False),
        ("job' == job or age' > age", False),
    ):
        assert (published_form(parse(text, task.schema), task.encoder, 0.0, 1.0) is not None) == takes, text


def test_the_unary_hinge_is_the_fall_as_a_share_of_the_range():
    x, x_cf, task = pair(age=25)
    _, spread = task.encoder.scale_["age"]
    form = published_form(parse("age' >= age", task.schema), task.encoder, 0.0, 1.0)
    assert form(x, x_cf).tolist() == pytest.approx([5 / spread])
    assert form(x_cf, x).tolist() == [0.0]


def test_the_binary_hinge_bounds_the_rise_of_a_degree_by_that_of_age():
    x, x_cf, task = pair(age=31, degree="college")
    _, spread = task.encoder.scale_["age"]
    form = published_form(parse("degree' > degree => age' > age", task.schema), task.encoder, 0.1, 10.0)
    assert form(x, x_cf).tolist() == pytest.approx([max(0.0, 1 / 2 - 0.1 - 10 / spread)])


def test_rules_of_any_shape_count_in_units_of_the_range():
    x, x_cf, _ = pair(income=3000.0)
    task = loans.task(rules="income' <= 2000\nage' >= age")
    for hard in ("rules", "hinge"):
        measured = rule_penalty(task, hard, 0.0, 1.0)(x, x_cf)
        assert measured.tolist() == pytest.approx([1000 / task.encoder.scale_["income"][1]], rel=1e-5)


def test_proximity_counts_numbers_in_their_units():
    task = loans.task()
    assert proximity_scale(task, "range") is None
    scale = proximity_scale(task, "mad")
    x, x_cf, _ = pair(age=40)
    assert ((x_cf - x).abs() * scale).sum().item() == pytest.approx(10 / task.units["age"], rel=1e-5)


# Noise


@given(st.integers(0, 2**40), st.integers(0, 5), st.integers(1, 40), st.integers(0, 100))
@examples(30)
def test_noise_depends_on_the_row_the_draw_and_the_seed_alone(seed, draw, latent, cut):
    codes = np.random.default_rng(0).integers(0, 9, (100, 4))
    whole = row_noise(codes, latent, seed, draw)
    assert np.array_equal(whole[:cut], row_noise(codes[:cut], latent, seed, draw))
    order = np.random.default_rng(1).permutation(100)
    assert np.array_equal(whole[order], row_noise(codes[order], latent, seed, draw))
    assert not np.array_equal(whole, row_noise(codes, latent, seed + 1, draw))
    assert not np.array_equal(whole, row_noise(codes, latent, seed, draw + 1))


def test_noise_is_standard_normal_and_independent():
    codes = np.stack([np.arange(20_000), np.arange(20_000) % 7], axis=1)
    noise = row_noise(codes, 5, seed=3)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 0.001
    assert np.abs(np.corrcoef(noise.T) - np.eye(5)).max() < 0.03
    assert abs(np.corrcoef(noise[:-1, 0], noise[1:, 0])[0, 1]) < 0.03
