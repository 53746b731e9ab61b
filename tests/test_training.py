"""Training (model.training, objective, history): it learns, stops honestly, and resumes to the same bits."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from fcxplain.errors import TrainingError
from fcxplain.model.cvae import Architecture, ConditionalVAE, Layout
from fcxplain.model.objective import Objective, TermSettings, Weights
from fcxplain.model.training import Callback, Rows, Schedule, Training

LAYOUT = Layout(spans=((0, 1), (1, 2), (2, 5), (5, 6)), mutable=(True, True, True, False))


class Sum(nn.Module):
    """Class 1 where the first two columns are large."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = 8 * (x[:, 0] + x[:, 1] - 1)
        return torch.stack([-score, score], dim=1)


def rows(n: int, seed: int = 0) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((n, LAYOUT.width), generator=generator)
    x[:, :2] *= 0.4
    return Rows(x, torch.ones(n, dtype=torch.long))


def objective(penalty=lambda x, x_cf: (x[:, 0] - x_cf[:, 0]).relu(), **weights: float) -> Objective:
    joined, apart = torch.zeros(6, 6, dtype=torch.bool), torch.zeros(6, 6, dtype=torch.bool)
    joined[0, 1], apart[0, 2] = True, True
    return Objective(Sum(), penalty, joined, apart, Weights(**weights), TermSettings(lof_k=5, lof_chunk=64))


def training(
    seed: int = 0, callbacks: tuple[Callback, ...] = (), judged: Objective | None = None, **schedule: object
) -> Training:
    generator = torch.Generator().manual_seed(seed)
    model = ConditionalVAE(LAYOUT, Architecture(latent=4), generator)
    plan = Schedule(**{"epochs": 6, "batch": 64, **schedule})
    return Training(model, judged or objective(), rows(200), rows(60, seed=1), plan, generator, callbacks)


class CutOff(Callback):
    """Keeps the state after some epoch, as a checkpoint would, and then pulls the plug."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_epoch_end(self, training: Training) -> None:
        if training.epoch == self.after:
            self.state = copy.deepcopy(training.state())
            raise KeyboardInterrupt


def weights_of(run: Training) -> list[torch.Tensor]:
    return list(run.model.state_dict().values())


def test_training_turns_refused_rows_into_the_target_class():
    run = training(epochs=40, judged=objective(validity=20.0))
    run.run()
    part = rows(100, seed=2)
    drawn = run.model(part.x, part.y_target, torch.zeros(100, 4))
    assert (Sum()(drawn.x_cf).argmax(dim=1) == 1).float().mean() > 0.9
    assert (Sum()(part.x).argmax(dim=1) == 1).float().mean() < 0.1


def test_the_history_has_every_term_of_both_parts():
    history = training().run()
    names = {"proximity", "validity", "kl", "hard", "soft", "sparsity", "density", "total"}
    assert [e.number for e in history.epochs] == [1, 2, 3, 4, 5, 6]
    assert all(set(e.train) == set(e.validation) == names for e in history.epochs)
    assert history.best.validation["total"] == min(history.curve("total", "validation"))


def test_the_total_is_the_weighted_sum_and_a_weight_of_0_leaves_a_term_out():
    last = training(judged=objective(density=0.0, hard=3.0), epochs=1).run().epochs[-1].train
    assert "density" not in last
    weighed = sum((3.0 if name == "hard" else 1.0) * value for name, value in last.items() if name != "total")
    assert last["total"] == pytest.approx(weighed, rel=1e-5)


@pytest.mark.parametrize("after", [1, 3, 5])
def test_a_run_that_was_cut_off_ends_bit_for_bit_as_an_uninterrupted_one(after):
    whole = training()
    whole.run()
    plug = CutOff(after)
    with pytest.raises(KeyboardInterrupt):
        training(callbacks=(plug,)).run()
    resumed = training(seed=99)
    resumed.restore(plug.state)
    resumed.run()
    assert all(torch.equal(a, b) for a, b in zip(weights_of(whole), weights_of(resumed), strict=True))
    assert whole.history == resumed.history


def test_the_same_seed_gives_the_same_weights_whatever_else_draws():
    results = []
    for noise in (0, 1000):
        torch.rand(noise)
        run = training()
        run.run()
        results.append(weights_of(run))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_training_does_not_touch_the_global_random_state():
    before = torch.random.get_rng_state()
    training().run()
    assert torch.equal(before, torch.random.get_rng_state())


def test_patience_ends_training_and_the_best_weights_are_kept():
    class Remember(Callback):
        def on_epoch_end(self, training: Training) -> None:
            if training.waited == 0:
                self.best = [w.clone() for w in training.model.state_dict().values()]

    memory = Remember()
    run = training(callbacks=(memory,), epochs=200, patience=2, learning_rate=0.05)
    history = run.run()
    assert len(history.epochs) < 200
    assert len(history.epochs) == history.best.number + 2
    assert all(torch.equal(a, b) for a, b in zip(memory.best, weights_of(run), strict=True))


def test_a_loss_that_is_no_number_is_named_with_its_step_and_the_last_good_weights_stay():
    calls = []

    def breaking(x: torch.Tensor, x_cf: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return (x[:, 0] - x_cf[:, 0]).relu() * (torch.nan if len(calls) > 10 else 1.0)

    run = training(judged=objective(penalty=breaking))
    with pytest.raises(TrainingError, match=r"epoch 3, step 3: hard is nan"):
        run.run()
    assert all(w.isfinite().all() for w in weights_of(run))
    assert run.epoch == 2


def test_hooks_are_called_in_order():
    class Log(Callback):
        def __init__(self) -> None:
            self.calls: list[str] = []

        def __getattribute__(self, name: str):
            if name.startswith("on_"):
                self.calls.append(name)
            return super().__getattribute__(name)

    log = Log()
    training(callbacks=(log,), epochs=1, batch=100).run()
    assert log.calls == [
        "on_train_begin",
        "on_epoch_begin",
        "on_batch_end",
        "on_batch_end",
        "on_epoch_end",
        "on_train_end",
    ]


def test_nobody_to_train_on_is_an_error():
    with pytest.raises(TrainingError, match="nobody is refused"):
        Training(
            ConditionalVAE(LAYOUT, Architecture(), torch.Generator()),
            objective(),
            rows(0),
            rows(0),
            Schedule(),
            torch.Generator(),
        )
