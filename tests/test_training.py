"""Training (model.training, objective, history): it learns, stops honestly, and resumes to the same bits."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
import torch
from torch import nn

from fcxplain.errors import TrainingError
from fcxplain.generator.cvae import Architecture, ConditionalVAE
from fcxplain.generator.losses import LossWeights, Objective, TermSettings
from fcxplain.generator.settings import Layout
from fcxplain.generator.training import Callback, Training, TrainingRows
from fcxplain.training_loop import Adam, Schedule

LAYOUT = Layout(spans=((0, 1), (1, 2), (2, 5), (5, 6)), mutable=(True, True, True, False))


class Sum(nn.Module):
    """Class 1 where the first two columns are large."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = 8 * (x[:, 0] + x[:, 1] - 1)
        return torch.stack([-score, score], dim=1)


def rows(n: int, seed: int = 0) -> TrainingRows:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((n, LAYOUT.width), generator=generator)
    x[:, :2] *= 0.4
    return TrainingRows(x, torch.ones(n, dtype=torch.long))


def objective(penalty=lambda x, x_cf: (x[:, 0] - x_cf[:, 0]).relu(), **weights: float) -> Objective:
    joined, apart = torch.zeros(6, 6, dtype=torch.bool), torch.zeros(6, 6, dtype=torch.bool)
    joined[0, 1], apart[0, 2] = True, True
    return Objective(Sum(), penalty, joined, apart, LossWeights(**weights), TermSettings(lof_k=5, lof_chunk=64))


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


class Interrupt(Callback):
    """Ctrl-C in the middle of an epoch, once."""

    def __init__(self, at: int) -> None:
        self.left = at

    def on_batch_end(self, training: Training, terms: dict[str, float]) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def through_files(state: Any) -> Any:
    """What is left of a state after tensors have been bytes and all else text, as in a saved folder."""
    if isinstance(state, torch.Tensor):
        flat = torch.frombuffer(bytearray(state.numpy().tobytes()), dtype=state.dtype)
        return flat.reshape(state.shape)
    if isinstance(state, dict):
        return {json.loads(json.dumps(key)): through_files(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [through_files(value) for value in state]
    return json.loads(json.dumps(state))


def assert_same_end(one: Training, other: Training) -> None:
    assert all(torch.equal(a, b) for a, b in zip(weights_of(one), weights_of(other), strict=True))
    assert one.history == other.history


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
    assert_same_end(whole, resumed)


@pytest.mark.parametrize("at", [1, 8, 9])
def test_after_ctrl_c_in_an_epoch_the_training_is_as_the_last_epoch_left_it_and_can_go_on(at):
    whole = training()
    whole.run()
    run = training(callbacks=(Interrupt(at),))
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert run.epoch == (at - 1) // 3
    elsewhere = training(seed=99)
    elsewhere.restore(through_files(run.state()))
    for resumed in (run, elsewhere):
        resumed.run()
        assert_same_end(whole, resumed)


def test_ctrl_c_in_a_batch_is_no_different():
    calls = []

    def interrupted(x: torch.Tensor, x_cf: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return (x[:, 0] - x_cf[:, 0]).relu()

    whole, run = training(), training(judged=objective(penalty=interrupted))
    whole.run()
    with pytest.raises(KeyboardInterrupt):
        run.run()
    run.run()
    assert_same_end(whole, run)


def test_a_state_from_before_the_first_epoch_survives_files():
    whole = training()
    state = through_files(whole.state())
    assert math.isinf(state["best_loss"])
    whole.run()
    resumed = training(seed=99)
    resumed.restore(state)
    resumed.run()
    assert_same_end(whole, resumed)


def test_a_state_taken_in_an_epoch_is_that_of_the_last_epoch_and_nothing_changes_it_later():
    class Keep(Callback):
        def __init__(self) -> None:
            self.states: list[Any] = []

        def on_batch_end(self, training: Training, terms: dict[str, float]) -> None:
            self.states.append((training.epoch, training.state(), copy.deepcopy(training.state())))

    keep = Keep()
    whole = training(callbacks=(keep,))
    whole.run()
    for epoch, state, copied in keep.states[1::7]:
        assert len(state["history"]) == epoch
        for taken in (state, copied, state):
            resumed = training(seed=99)
            resumed.restore(taken)
            resumed.run()
            assert_same_end(whole, resumed)


def test_a_finished_training_can_be_given_more_epochs():
    whole, first, second = training(epochs=6), training(epochs=3), training(seed=99, epochs=6)
    whole.run()
    first.run()
    second.restore(through_files(first.state()))
    second.run()
    assert_same_end(whole, second)


def test_a_state_in_which_patience_has_run_out_stays_so():
    whole = training(epochs=200, patience=2, learning_rate=0.05)
    whole.run()
    resumed = training(seed=99, epochs=200, patience=2, learning_rate=0.05)
    resumed.restore(through_files(whole.state()))
    assert resumed.is_done
    resumed.run()
    assert_same_end(whole, resumed)


def test_dropout_is_resumed_too_where_the_network_was_made_with_another_generator():
    def apart(seed: int, callbacks: tuple[Callback, ...] = ()) -> Training:
        model = ConditionalVAE(LAYOUT, Architecture(latent=4), torch.Generator().manual_seed(7))
        generator, plan = torch.Generator().manual_seed(seed), Schedule(epochs=4, batch=64)
        return Training(model, objective(), rows(200), rows(60, seed=1), plan, generator, callbacks)

    plug = CutOff(2)
    whole, resumed = apart(0), apart(99)
    whole.run()
    with pytest.raises(KeyboardInterrupt):
        apart(0, (plug,)).run()
    resumed.restore(plug.state)
    resumed.run()
    assert_same_end(whole, resumed)


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


def test_adam_steps_as_torchs_own_does_and_goes_on_from_its_state():
    start, others = torch.linspace(-1, 1, 12).reshape(3, 4), []
    for make in (lambda p: Adam(p, 0.1, 0.01), lambda p: torch.optim.Adam(p, 0.1, weight_decay=0.01, fused=True)):
        weight = start.clone().requires_grad_()
        unused, optimiser = torch.ones(2, requires_grad=True), None
        for turn in range(6):
            if optimiser is None or (turn == 3 and isinstance(optimiser, Adam)):
                known, optimiser = optimiser, make([unused, weight])
                if known is not None:
                    optimiser.load_state_dict(copy.deepcopy(known.state_dict()))
            optimiser.zero_grad()
            (weight.sin() * start).sum().backward()
            optimiser.step()
        others.append(weight.detach())
    assert torch.equal(*others)


def test_a_gradient_laid_out_otherwise_moves_the_same_weights():
    start, gradient = torch.arange(6.0).reshape(2, 3), torch.randn(3, 2, generator=torch.Generator().manual_seed(0)).T
    found = []
    for make in (lambda p: Adam(p, 0.1), lambda p: torch.optim.Adam(p, 0.1)):
        weight = torch.nn.Parameter(start.clone())
        weight.grad = gradient
        make([weight]).step()
        found.append(weight.detach())
    torch.testing.assert_close(*found)


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


def test_a_term_that_explodes_is_named_with_its_step_and_the_best_weights_stay():
    calls = []

    def exploding(x: torch.Tensor, x_cf: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return (x[:, 0] - x_cf[:, 0]).relu() + (1e11 if len(calls) > 10 else 0.0)

    run = training(judged=objective(penalty=exploding, hard=0.5))
    with pytest.raises(TrainingError, match=r"epoch 3, step 3: hard is 1e\+11, but the whole loss was .* at the start"):
        run.run()
    assert run.epoch == 2
    assert not run.model.training
    assert all(torch.equal(a, b) for a, b in zip(weights_of(run), run.best_weights.values(), strict=True))


def test_a_term_is_judged_by_its_weight():
    def large(x: torch.Tensor, x_cf: torch.Tensor) -> torch.Tensor:
        return 1e11 * x_cf[:, 0]

    assert len(training(judged=objective(penalty=large, hard=1e-11)).run().epochs) == 6


def test_a_learning_rate_that_is_absurd_ends_training_with_the_weights_it_started_with():
    run = training(learning_rate=1e6)
    before = [w.clone() for w in weights_of(run)]
    with pytest.raises(TrainingError, match=r"epoch 1, step \d: .* Lower the learning rate.*that it started with"):
        run.run()
    assert all(torch.equal(a, b) for a, b in zip(before, weights_of(run), strict=True))


def test_a_validation_loss_that_is_no_number_ends_training():
    def breaking(x: torch.Tensor, x_cf: torch.Tensor) -> torch.Tensor:
        return x_cf[:, 0] * (torch.nan if len(x) == 60 else 1.0)

    with pytest.raises(TrainingError, match="epoch 1, validation: hard is nan"):
        training(judged=objective(penalty=breaking)).run()


@pytest.mark.parametrize("network", [torch.float32, torch.float64])
def test_rows_in_double_precision_can_be_trained_on(network):
    generator = torch.Generator().manual_seed(0)
    part = rows(100)
    part = TrainingRows(part.x.double(), part.y_target)
    model = ConditionalVAE(LAYOUT, Architecture(latent=4), generator).to(network)
    history = Training(model, objective(), part, part, Schedule(epochs=2, batch=64), generator).run()
    assert len(history.epochs) == 2


@pytest.mark.filterwarnings("ignore:LOF has")
@pytest.mark.parametrize("n", [2, 3, 5, 7])
def test_no_batch_is_a_single_row(n):
    generator = torch.Generator().manual_seed(0)
    model = ConditionalVAE(LAYOUT, Architecture(latent=4), generator)
    run = Training(model, objective(), rows(n), rows(n), Schedule(epochs=1, batch=2), generator)
    assert len(run.run().epochs) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_seed_means_the_same_on_a_graphics_card():
    results = []
    for device in ("cpu", "cuda"):
        generator = torch.Generator().manual_seed(0)
        model = ConditionalVAE(LAYOUT, Architecture(latent=4), generator).to(device)
        run = Training(model, objective(), rows(200), rows(60, seed=1), Schedule(epochs=2, batch=64), generator)
        results.append(run.run().curve("total", "validation"))
        assert next(run.model.parameters()).device.type == device
    assert results[0] == pytest.approx(results[1], rel=1e-2)


def test_an_objective_that_lies_on_the_device_already_is_taken_as_it_is():
    judged = objective()
    assert judged.on(torch.device("cpu")) is judged
    moved = judged.on(torch.device("meta"))
    assert (moved.joined.device.type, judged.joined.device.type) == ("meta", "cpu")


def test_weights_that_make_no_sense_are_all_named():
    with pytest.raises(TrainingError, match=r"(?s)weight of kl: is -1.*weight of density: is nan"):
        LossWeights(kl=-1.0, density=math.nan)
    with pytest.raises(TrainingError, match="nothing to minimise"):
        objective(**{name: 0.0 for name, _ in LossWeights()})


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


@pytest.mark.parametrize(("n", "batch", "said"), [(0, 64, "all rows have the target class"), (1, 1, r"batch: is 1")])
def test_rows_that_cannot_be_trained_on_are_an_error(n, batch, said):
    model = ConditionalVAE(LAYOUT, Architecture(), torch.Generator())
    with pytest.raises(TrainingError, match=said):
        Training(model, objective(), rows(n), rows(0), Schedule(batch=batch), torch.Generator())
