"""The small networks: what they are made of, how they are trained, and that nothing global is touched."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from effort import examples
from fcxplain.classifier.networks import (
    FITTING,
    Examples,
    Ramps,
    fit_network,
    mean_loss,
    mlp,
    seeded_linear,
    sized_for,
)
from fcxplain.training_loop import Schedule


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def moons(rows: int = 400, seed: int = 0) -> Examples:
    """Two classes that no line can part: inside and outside of a ring."""
    x = torch.rand((rows, 2), generator=generator(seed)) * 2 - 1
    return Examples(x, (x.norm(dim=1) > 0.7).long())


def test_the_papers_network_is_two_linear_layers_without_activation():
    layers = list(mlp(29, 2, generator(), torch.float32, (10,), relu=False))
    assert [type(layer) for layer in layers] == [nn.Linear, nn.Linear]
    assert [(layer.in_features, layer.out_features) for layer in layers] == [(29, 10), (10, 2)]


def test_the_mlp_has_relus_between_its_layers():
    layers = list(mlp(5, 3, generator(), torch.float64))
    assert [type(layer) for layer in layers] == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    assert layers[-1].out_features == 3
    assert layers[0].weight.dtype == torch.float64


@given(inputs=st.integers(1, 40), outputs=st.integers(1, 10), seed=st.integers(0, 2**32))
@examples(25)
def test_initial_weights_stay_within_torchs_bound_and_follow_the_seed(inputs, outputs, seed):
    one, two = (seeded_linear(inputs, outputs, generator(seed), torch.float32) for _ in range(2))
    assert torch.equal(one.weight, two.weight)
    assert one.weight.abs().max() <= inputs**-0.5
    assert one.bias.abs().max() <= inputs**-0.5


def test_neither_making_nor_training_touches_the_global_random_state():
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    model = mlp(2, 2, generator(), torch.float32)
    fit_network(model, moons(), moons(seed=1), generator(), Schedule(epochs=2, patience=8))
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]


def test_the_same_seed_trains_the_same_weights_and_another_seed_others():
    def weights(seed):
        source = generator(seed)
        model = mlp(2, 2, source, torch.float32)
        fit_network(model, moons(), moons(seed=1), source, Schedule(epochs=5, patience=8))
        return model[0].weight

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


def test_training_learns_what_no_line_can_part():
    source, held = generator(), moons(seed=2)
    model = mlp(2, 2, source, torch.float32)
    fit_network(model, moons(), moons(seed=1), source)
    assert (model(held.x).argmax(dim=1) == held.y).double().mean() > 0.93
    assert not model.training


def test_the_weights_with_the_best_validation_loss_are_kept():
    train, validation = moons(40), moons(200, seed=1)
    long, source = Schedule(epochs=80, patience=80, learning_rate=0.05), generator()
    model = mlp(2, 2, source, torch.float32)
    fit_network(model, train, validation, source, long)
    kept = mean_loss(model, validation)
    source = generator()
    last = mlp(2, 2, source, torch.float32)
    # The training rows as their own judge: nothing stops it from learning them by heart.
    fit_network(last, train, train, source, long)
    assert kept < mean_loss(last, validation)


def test_probabilities_can_be_taught_as_well_as_classes():
    x = torch.rand((500, 1), generator=generator(), dtype=torch.float64)
    taught = Examples(x, torch.cat([1 - x, x], dim=1))
    model = mlp(1, 2, generator(), torch.float64)
    fit_network(model, taught, taught, generator())
    assert (model(x).softmax(dim=1) - taught.y).abs().mean() < 0.03


def test_ramps_rise_from_0_to_1_between_their_cuts():
    x = torch.tensor([[0.0, 7.0], [0.25, 7.0], [0.5, 7.0], [1.0, 7.0]])
    ramps = Ramps.at_quantiles(x, [0], 2)
    out = ramps(torch.cat([x, torch.tensor([[-3.0, 7.0], [3.0, 7.0]])]))
    assert out[:, :2].equal(torch.cat([x, torch.tensor([[-3.0, 7.0], [3.0, 7.0]])]))
    assert torch.allclose(out[:, 2], torch.tensor([0.0, 2 / 3, 1.0, 1.0, 0.0, 1.0]))
    assert torch.allclose(out[:, 3], torch.tensor([0.0, 0.0, 0.2, 1.0, 0.0, 1.0]))


def test_columns_that_never_change_get_no_ramps():
    x = torch.zeros((4, 2))
    assert Ramps.at_quantiles(x, [0, 1], 8)(x).equal(x)
    assert Ramps.at_quantiles(x, [], 8)(x).equal(x)


@pytest.mark.parametrize("rows", [1, 10, 100, 1000, 10**5])
def test_small_tables_get_small_batches_and_enough_steps(rows):
    fitting = sized_for(FITTING, rows)
    steps = fitting.epochs * -(-rows // fitting.batch)
    assert 16 <= fitting.batch <= 2048
    assert steps >= FITTING.steps
