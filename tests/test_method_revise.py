"""REVISE and the VAE it walks in: the descent lowers its objective, and what it hands out is its best step."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

import small_problems
from fcxplain.errors import DataError, TrainingError
from fcxplain.methods.base import asked
from fcxplain.methods.encoded import ColumnLayout
from fcxplain.methods.latent import CCHVAE, REVISE, VAE, VAESettings, fitted_vae, loss_of

VAE_SETTINGS = VAESettings(hidden=(32, 16), latent=4, epochs=60, steps=0)
TASK, ROWS = small_problems.task("mixed"), small_problems.rows("mixed", 30)


@cache
def method(steps: int = 150, distance: float = 0.5) -> REVISE:
    return REVISE(vae=VAE_SETTINGS, steps=steps, distance=distance).fit(TASK)


def descended(revise: REVISE):
    question = asked(TASK, ROWS)
    x = question.x.double()
    start = revise.vae_.encode(x)[0].detach()
    return revise.descend(start, x, question.y_target), question, start


def by_hand(x_cf: torch.Tensor, question, distance: float) -> np.ndarray:
    """The objective from the user's model and the encoded rows alone."""
    table = TASK.encoder.decode(x_cf)
    wanted = TASK.classifier.probabilities(table)[:, 1]
    away = np.abs((TASK.encoder.encode(table) - question.x).double().numpy()).sum(axis=1)
    return -np.log(wanted) + distance * away


def test_the_descent_lowers_the_objective():
    found, question, start = descended(method())
    _, first, _ = method().objective(start, question.x.double(), question.y_target)
    assert found.course[0] == pytest.approx(float(first.mean()))
    assert np.mean(found.course[-10:]) < 0.9 * found.course[0]
    assert min(found.course) < 0.85 * found.course[0]


def test_the_answer_has_the_objective_that_is_told():
    found, question, _ = descended(method())
    assert torch.isfinite(found.loss).all()
    np.testing.assert_allclose(found.loss.numpy(), by_hand(found.x_cf, question, 0.5), rtol=1e-4)


def test_more_steps_are_never_worse():
    losses = [descended(method(steps))[0].loss for steps in (20, 60, 150)]
    assert (losses[1] <= losses[0]).all()
    assert (losses[2] <= losses[1]).all()
    assert (losses[2] < losses[0]).any()


def test_answers_have_the_class_wanted_and_a_dearer_distance_brings_them_nearer():
    near, far = (method(150, distance).explain(ROWS) for distance in (2.0, 0.01))
    assert near.checks.valid.all()
    assert far.checks.valid.all()
    x = TASK.encoder.encode(near.before)
    away = [(TASK.encoder.encode(e.answers) - x).abs().sum(dim=1).mean() for e in (near, far)]
    assert away[0] < away[1]


def test_further_answers_start_elsewhere_and_the_best_comes_first():
    explanation = method().explain(ROWS, k=3)
    question = asked(TASK, ROWS)
    place = {p: i for i, p in enumerate(question.place.tolist())}
    x = question.x[[place[p] for p in explanation.place.tolist()]]
    chance = TASK.classifier.probabilities(explanation.answers)[:, 1]
    loss = -np.log(chance) + 0.5 * (TASK.encoder.encode(explanation.answers) - x).abs().sum(dim=1).numpy()
    assert (explanation.rank == 2).any()
    for p in set(explanation.place.tolist()):
        own = loss[explanation.place == p]
        assert (np.diff(own) >= -1e-5).all()


def test_a_descent_that_never_arrives_says_so():
    explanation = REVISE(vae=VAE_SETTINGS, steps=5).fit(small_problems.hopeless()).explain(ROWS)
    assert not len(explanation.answers)
    assert all("none of 5 steps" in reason.words for reason in explanation.reasons.values())


def test_a_model_without_gradients_is_explained_by_way_of_a_stand_in():
    task = small_problems.task("mixed", gradients=False)
    explanation = REVISE(vae=VAE_SETTINGS, steps=60).fit(task).explain(ROWS)
    assert explanation.checks.valid.mean() > 0.8


def test_all_settings_that_make_no_sense_are_told_at_once():
    with pytest.raises(DataError, match="REVISE") as caught:
        REVISE(steps=0, distance=-1.0, learning_rate=0.0).fit(TASK)
    assert [f.place for f in caught.value.faults] == ["steps", "learning_rate", "distance"]
    with pytest.raises(TrainingError, match="latent") as caught:
        VAESettings(latent=0, hidden=(), beta=-1)
    assert len(caught.value.faults) == 3


def test_the_vae_is_trained_once_for_both_methods():
    task = small_problems.new_task("mixed")
    quick = VAESettings(hidden=(8,), latent=2, epochs=1, steps=0)
    revise, cchvae = REVISE(vae=quick).fit(task), CCHVAE(vae=quick).fit(task)
    assert cchvae.vae_ is fitted_vae(task, quick, 0)
    assert fitted_vae(task, quick, 1) is not cchvae.vae_
    for one, other in zip(revise.vae_.parameters(), cchvae.vae_.parameters(), strict=True):
        assert torch.equal(one, other.double())


def test_training_makes_the_vae_rebuild_rows():
    x = TASK.encoder.encode(TASK.train)
    untrained = VAE(ColumnLayout(TASK), VAE_SETTINGS, torch.Generator().manual_seed(0))
    trained = fitted_vae(TASK, VAE_SETTINGS, 0)
    with torch.no_grad():
        losses = [float(loss_of(vae, x, torch.Generator().manual_seed(1), 0.3)) for vae in (untrained, trained)]
    assert losses[1] < 0.8 * losses[0]


def test_the_encoder_does_not_read_what_may_not_change_and_the_decoder_keeps_it():
    vae, columns = fitted_vae(TASK, VAE_SETTINGS, 0), ColumnLayout(TASK)
    x = TASK.encoder.encode(TASK.train.head(20))
    other = torch.where(columns.mutable, x, 1 - x)
    assert torch.equal(vae.encode(x)[0], vae.encode(other)[0])
    z = vae.encode(x)[0]
    assert torch.equal(vae.decode(z, other)[:, ~columns.mutable], other[:, ~columns.mutable])
    assert not torch.equal(vae.scores(z, x), vae.scores(z, other))
    assert ((vae.decode(z, x) >= 0) & (vae.decode(z, x) <= 1)).all()
