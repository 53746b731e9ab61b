"""The paper's conditional VAE (model.cvae): shapes, immutables, conditioning, and randomness by seed only."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from fcxplain.classifier.networks import SeededDropout
from fcxplain.generator.cvae import Architecture, ConditionalVAE
from fcxplain.generator.settings import Layout

LAYOUT = Layout(spans=((0, 1), (1, 4), (4, 6), (6, 7)), mutable=(True, True, False, True))


def network(seed: int = 0, layout: Layout = LAYOUT, **changes: object) -> ConditionalVAE:
    return ConditionalVAE(layout, Architecture(**changes), torch.Generator().manual_seed(seed))


def batch(n: int = 32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand((n, LAYOUT.width), generator=generator)
    return x, torch.arange(n) % 2, torch.randn((n, 10), generator=generator)


def test_it_is_five_linear_layers_each_way():
    model = network()
    widths = [m.out_features for m in model.encoder if isinstance(m, torch.nn.Linear)]
    assert (widths, model.mean.out_features, model.encoder[0].in_features) == ([20, 16, 14, 12], 10, 5 + 1)
    widths = [m.out_features for m in model.decoder if isinstance(m, torch.nn.Linear)]
    assert (widths, model.output.out_features, model.decoder[0].in_features) == ([12, 14, 16, 20], 5, 10 + 1)


def test_immutable_columns_are_put_back_exactly_and_others_lie_between_0_and_1():
    x, y, noise = batch()
    x_cf = network()(x, y, noise).x_cf
    assert torch.equal(x_cf[:, 4:6], x[:, 4:6])
    assert ((x_cf >= 0) & (x_cf <= 1)).all()
    assert not torch.equal(x_cf, x)


def test_the_encoder_does_not_see_immutable_columns():
    model = network().eval()
    x, y, noise = batch()
    other = x.clone()
    other[:, 4:6] = 1 - other[:, 4:6]
    assert torch.equal(model(x, y, noise).z, model(other, y, noise).z)


def test_the_target_class_conditions_both_ways():
    model = network().eval()
    x, y, noise = batch()
    one, other = model(x, y, noise), model(x, 1 - y, noise)
    assert not torch.equal(one.z, other.z)
    assert not torch.equal(model.decode(one.z, x, y), model.decode(one.z, x, 1 - y))


@pytest.mark.parametrize(("form", "low", "high"), [("sigmoid", 0.5, 1.5), ("softplus", 0.0, torch.inf)])
def test_the_variance_is_positive(form, low, high):
    x, y, noise = batch()
    variance = network(variance=form)(100 * x, y, noise).variance
    assert ((variance > low) & (variance < high)).all()


def test_without_noise_the_latent_point_is_the_mean():
    x, y, noise = batch()
    drawn = network().eval()(x, y, torch.zeros_like(noise))
    assert torch.equal(drawn.z, drawn.mean)


def test_more_than_two_classes_have_an_input_each_but_the_first():
    layout = Layout(LAYOUT.spans, LAYOUT.mutable, classes=4)
    model = network(layout=layout)
    assert model.encoder[0].in_features == 5 + 3
    assert model.condition(torch.tensor([0, 3]), torch.zeros(1)).tolist() == [[0, 0, 0], [0, 0, 1]]


def test_the_same_seed_gives_the_same_network_and_the_same_training_pass():
    results = []
    for seed in (0, 0, 1):
        model = network(seed).train()
        results.append(model(*batch()).x_cf)
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_global_random_state_is_neither_read_nor_changed():
    states = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    network().train()(*batch())
    assert torch.equal(states[0], torch.random.get_rng_state())
    assert (states[1] == np.random.get_state()[1]).all()  # noqa: NPY002
    assert states[2] == random.getstate()


def test_dropout_keeps_the_mean_and_is_off_in_evaluation():
    layer = SeededDropout(0.25, torch.Generator().manual_seed(0))
    x = torch.ones(20_000)
    assert layer(x).mean().item() == pytest.approx(1, abs=0.02)
    assert layer(x).unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert torch.equal(layer.eval()(x), x)


def test_rows_in_double_precision_keep_it():
    x, y, noise = batch()
    x = x.double() / 3
    x_cf = network()(x, y, noise).x_cf
    assert x_cf.dtype == torch.float64
    assert torch.equal(x_cf[:, 4:6], x[:, 4:6])
    assert network().double()(x, y, noise.double()).z.dtype == torch.float64


def test_gradients_reach_every_parameter():
    model = network()
    drawn = model(*batch())
    (drawn.x_cf.sum() + drawn.variance.sum()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
