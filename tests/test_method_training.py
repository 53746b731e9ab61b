"""The loop that trains the methods' networks, and the choice of the best candidates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from effort import examples
from fcxplain.classifier.networks import SeededDropout, seeded_linear
from fcxplain.errors import TrainingError
from fcxplain.methods.encoded import best_of_each
from fcxplain.training_loop import Schedule, minimise, shuffled


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def line(seed: int = 0) -> nn.Linear:
    return seeded_linear(3, 1, generator(seed), torch.float64)


def data(rows: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn((rows, 3), generator=generator(5), dtype=torch.float64)
    return x, x @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64) + 0.3


def test_least_squares_end_at_the_closed_form():
    x, y = data()
    model = line()
    y = y + 0.1 * torch.randn(y.shape, generator=generator(6), dtype=torch.float64)
    losses = minimise(
        model,
        lambda x, y, _: (model(x) - y).square().mean(),
        [x, y],
        Schedule(epochs=200, batch=64, learning_rate=0.1),
        generator(),
    )
    known = torch.linalg.lstsq(torch.cat([x, torch.ones_like(y)], dim=1), y).solution.flatten()
    found = torch.cat([model.weight.detach().flatten(), model.bias.detach()])
    torch.testing.assert_close(found, known, atol=1e-4, rtol=0)
    assert len(losses) == 200
    assert losses[-1] < losses[0]
    assert not model.training


def test_a_seed_gives_the_same_weights_with_dropout_too():
    def weights() -> torch.Tensor:
        model = nn.Sequential(line(), SeededDropout(0.5, generator(99)))
        x, y = data()
        loss = lambda x, y, _: (model(x) - y).square().mean()  # noqa: E731
        minimise(model, loss, [x, y], Schedule(epochs=3, batch=8, learning_rate=0.1), generator(1))
        return model[0].weight.detach()

    before = torch.get_rng_state()
    assert torch.equal(weights(), weights())
    assert torch.equal(torch.get_rng_state(), before)


def test_progress_rises_from_zero_and_stays_below_one():
    model, told = line(), []

    def loss(x: torch.Tensor, y: torch.Tensor, progress: float) -> torch.Tensor:
        told.append(progress)
        return (model(x) - y).square().mean()

    minimise(model, loss, list(data()), Schedule(epochs=4, batch=64, learning_rate=0.1), generator())
    assert told == [0.0, 0.25, 0.5, 0.75]


def test_small_tables_get_at_least_so_many_steps():
    model, count = line(), []

    def loss(x: torch.Tensor, y: torch.Tensor, _: float) -> torch.Tensor:
        count.append(len(x))
        return (model(x) - y).square().mean()

    minimise(model, loss, list(data()), Schedule(epochs=2, batch=64, learning_rate=0.1, steps=50), generator())
    assert len(count) >= 50


def test_a_loss_that_is_no_number_is_told_with_its_epoch():
    model = line()
    loss = lambda x, y, progress: model(x).sum() * (float("nan") if progress else 1.0)  # noqa: E731
    with pytest.raises(TrainingError, match="epoch 2"):
        minimise(model, loss, list(data()), Schedule(epochs=3, batch=64, learning_rate=0.1), generator())


def test_one_row_is_too_few():
    with pytest.raises(TrainingError, match="two"):
        minimise(
            line(),
            lambda *_: torch.zeros(()),
            list(data(1)),
            Schedule(epochs=1, batch=2, learning_rate=1.0),
            generator(),
        )


@given(rows=st.integers(2, 300), size=st.integers(2, 64))
@examples(50)
def test_batches_hold_every_row_once_and_never_a_single_one(rows, size):
    found = shuffled(rows, size, generator())
    assert sorted(torch.cat(found).tolist()) == list(range(rows))
    assert min(map(len, found)) >= 2


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0, 2.0, np.inf]), st.integers(0, 3)), max_size=25),
    st.integers(1, 3),
)
@examples(80)
def test_the_best_distinct_candidates_are_those_of_brute_force(candidates, k):
    row = np.asarray([c[0] for c in candidates], dtype=np.int64)
    cost = torch.tensor([c[1] for c in candidates], dtype=torch.float64)
    x_cf = torch.tensor([[float(c[2]), 1.0] for c in candidates], dtype=torch.float64).reshape(-1, 2)
    expected = []
    for r in sorted(set(row.tolist())):
        seen: list[int] = []
        for i in sorted(np.flatnonzero(row == r).tolist(), key=lambda i: (float(cost[i]), i)):
            if np.isfinite(float(cost[i])) and candidates[i][2] not in [candidates[j][2] for j in seen]:
                seen.append(i)
        expected += seen[:k]
    assert best_of_each(row, cost, x_cf, k).tolist() == expected
