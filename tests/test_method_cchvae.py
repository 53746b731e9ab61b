"""C-CHVAE: its rings, and that the answer is the nearest flipped candidate of the first ring that has one."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

import small_problems
from fcxplain.errors import DataError
from fcxplain.methods.base import asked
from fcxplain.methods.encoded import ColumnLayout
from fcxplain.methods.latent import CCHVAE, VAESettings

VAE_SETTINGS = VAESettings(hidden=(32, 16), latent=4, epochs=60, steps=0)
TASK, ROWS = small_problems.task("mixed"), small_problems.rows("mixed", 30)


@cache
def method(**settings: float) -> CCHVAE:
    return CCHVAE(vae=VAE_SETTINGS, **{"candidates": 40, "rings": 100} | settings).fit(TASK)


def test_the_answer_is_the_nearest_flipped_candidate_of_the_first_ring_that_has_one():
    explanation, cchvae, question = method().explain(ROWS), method(), asked(TASK, ROWS)
    vae, columns = copy.deepcopy(cchvae.vae_).double(), ColumnLayout(TASK)
    first = []
    for i, place in enumerate(question.place):
        x = question.x[i : i + 1].double()
        for ring, offsets in enumerate(cchvae.rings_around()):
            x_cf = columns.legal(vae.decode(vae.encode(x)[0] + offsets, x.expand(len(offsets), -1)), x)
            table = TASK.encoder.decode(x_cf)
            flips = np.flatnonzero(TASK.predict(table) == "yes")
            if len(flips):
                first.append(ring)
                break
        away = (x_cf - x).abs().sum(dim=1).numpy()
        nearest = flips[np.argmin(away[flips])]
        found = explanation.answers[explanation.place == place]
        pd.testing.assert_frame_equal(found, table.iloc[[nearest]].set_axis(found.index), check_dtype=False)
    assert max(first) > 3


def test_rings_follow_on_each_other_and_look_in_all_directions():
    rings = list(method(width=0.25, rings=8).rings_around())
    assert len(rings) == 8
    for i, offsets in enumerate(rings):
        assert offsets.shape == (40, 4)
        lengths = offsets.abs().sum(dim=1)
        assert (lengths >= 0.25 * i).all()
        assert (lengths <= 0.25 * (i + 1)).all()
        assert ((offsets > 0).any(dim=0) & (offsets < 0).any(dim=0)).all()
    assert not torch.allclose(rings[0] / 0.25, rings[1] / 0.5)


def test_a_model_without_gradients_gets_the_same_answers():
    other = CCHVAE(vae=VAE_SETTINGS, candidates=40, rings=100).fit(small_problems.task("mixed", gradients=False))
    one, two = method().explain(ROWS, k=2), other.explain(ROWS, k=2)
    pd.testing.assert_frame_equal(one.answers, two.answers)
    assert two.effort.calls <= one.effort.calls


def test_further_answers_are_the_next_nearest():
    explanation = method(candidates=200).explain(ROWS, k=4)
    x = TASK.encoder.encode(explanation.before)
    away = (TASK.encoder.encode(explanation.answers) - x).abs().sum(dim=1).numpy()
    assert explanation.checks.valid.all()
    assert (explanation.rank > 1).any()
    for place in set(explanation.place.tolist()):
        assert (np.diff(away[explanation.place == place]) >= -1e-6).all()


def test_rings_that_reach_nowhere_are_told():
    explanation = CCHVAE(vae=VAE_SETTINGS, candidates=10, rings=3).fit(small_problems.hopeless()).explain(ROWS)
    assert not len(explanation.answers)
    assert len(explanation.reasons) == len(ROWS)
    assert all("within 0.3" in reason.words for reason in explanation.reasons.values())


def test_both_classes_may_be_wanted():
    schema, train = small_problems.problem("mixed")
    task = small_problems.Task(train, TASK.classifier.probabilities, schema=schema, classes=("no", "yes"))
    explanation = CCHVAE(vae=VAE_SETTINGS, candidates=40, rings=100).fit(task).explain(ROWS)
    assert explanation.asked.all()
    assert explanation.checks.valid.mean() > 0.9
    assert (explanation.checks.predicted != task.predict(explanation.before)).mean() > 0.9


def test_all_settings_that_make_no_sense_are_told_at_once():
    with pytest.raises(DataError, match="CCHVAE") as caught:
        CCHVAE(candidates=0, width=0.0, rings=0.5).fit(TASK)
    assert [f.place for f in caught.value.faults] == ["candidates", "width", "rings"]
