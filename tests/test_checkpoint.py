"""Checkpoints (persistence.checkpoint): whatever cuts a run off, it ends as if nothing had happened."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fcxplain.errors import FormatError
from fcxplain.generator.cvae import Architecture, ConditionalVAE
from fcxplain.generator.settings import Layout
from fcxplain.generator.training import Callback, Training
from fcxplain.saving import read, write
from fcxplain.saving.checkpoint import KIND, Checkpoint, resume
from fcxplain.saving.container import is_there
from fcxplain.training_loop import Schedule
from processes import processes
from test_training import objective, rows, training

if sys.platform == "win32":
    pytest.skip("needs signals", allow_module_level=True)

EPOCHS = 8
Moment = tuple[str, str, int]
Ending = tuple[dict[str, bytes], list[dict[str, object]]]


class Stop(Callback):
    """Pulls the plug after some epoch."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_epoch_end(self, training: Training) -> None:
        if training.epoch == self.after:
            raise KeyboardInterrupt


def everything(value: object) -> object:
    """All of a training's state, tensors to the bit and keys in order, as text that can be compared."""
    if isinstance(value, Training):
        return repr(everything(value.state()))
    if isinstance(value, Tensor):
        return str(value.dtype), tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, (list, tuple)):
        return type(value)(map(everything, value))
    return {key: everything(item) for key, item in value.items()} if isinstance(value, dict) else value


def ending(run: Training) -> Ending:
    weights = {name: tensor.numpy().tobytes() for name, tensor in run.model.state_dict().items()}
    return weights, run.history.to_list()


@pytest.fixture(scope="module")
def uninterrupted() -> Ending:
    run = training(epochs=EPOCHS)
    run.run()
    return ending(run)


def cut_off(folder: Path, after: int, **schedule: object) -> None:
    checkpoint = Checkpoint(folder, identity="a")
    with contextlib.suppress(KeyboardInterrupt):
        training(callbacks=(checkpoint, Stop(after)), epochs=EPOCHS, **schedule).run()


# In one process


@pytest.mark.parametrize("after", [1, 5, 8])
def test_a_run_resumed_from_its_folder_ends_as_an_uninterrupted_one(after, tmp_path, uninterrupted):
    cut_off(tmp_path / "c", after)
    run = training(seed=99, epochs=EPOCHS)
    assert resume(run, tmp_path / "c", "a")
    assert run.epoch == after
    run.run()
    assert ending(run) == uninterrupted


def test_all_of_a_state_comes_back_and_in_order(tmp_path):
    run = training(callbacks=(Checkpoint(tmp_path / "c", identity="a"),), epochs=2)
    run.run()
    other = training(seed=99, epochs=2)
    resume(other, tmp_path / "c", "a")
    assert everything(other) == everything(run)


def test_a_checkpoint_changes_nothing_about_its_run(tmp_path, uninterrupted):
    run = training(callbacks=(Checkpoint(tmp_path / "c", identity="a"),), epochs=EPOCHS)
    run.run()
    assert ending(run) == uninterrupted
    assert os.listdir(tmp_path) == ["c"]


def test_patience_that_ran_out_is_kept(tmp_path):
    plan = {"epochs": 200, "patience": 2, "learning_rate": 0.05}
    whole = training(callbacks=(Checkpoint(tmp_path / "c", identity="a"),), **plan)
    whole.run()
    again = training(seed=99, **plan)
    assert resume(again, tmp_path / "c", "a")
    assert again.is_done
    again.run()
    assert ending(again) == ending(whole)


def test_without_a_checkpoint_nothing_is_resumed(tmp_path):
    (tmp_path / "empty").mkdir()
    run = training()
    before = everything(run)
    for folder in ("none", "empty", "no/such/folder"):
        assert resume(run, tmp_path / folder, "a") is False
    assert everything(run) == before


def test_losses_that_are_no_numbers_come_back_as_they_were(tmp_path):
    run = training(epochs=1)
    run.run()
    state = run.state() | {"best_loss": math.inf, "waited": 1}
    state["history"][0]["validation"] |= {"total": math.nan, "hard": -math.inf}
    state["model"]["mean.bias"][0] = math.inf
    run.restore(state)
    Checkpoint(tmp_path / "c", identity="a").on_epoch_end(run)
    other = training(seed=99, epochs=1)
    assert resume(other, tmp_path / "c", "a")
    assert everything(other) == everything(run)


def test_the_checkpoint_of_another_fit_is_refused_by_name_and_left_alone(tmp_path):
    cut_off(tmp_path / "c", after=1)
    run = training()
    before = everything(run)
    with pytest.raises(FormatError, match=rf"{tmp_path / 'c'}: belongs to another fit"):
        resume(run, tmp_path / "c", "b")
    with pytest.raises(FormatError, match="belongs to another fit"):
        training(callbacks=(Checkpoint(tmp_path / "c", identity="b"),)).run()
    assert everything(run) == before
    assert read(tmp_path / "c", KIND).content["identity"] == "a"


def test_a_folder_that_cannot_be_used_is_refused_before_the_first_epoch(tmp_path):
    write(tmp_path / "model", "model", {}, {})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    for folder in ("model", "mine", "missing/checkpoint"):
        run = training(callbacks=(Checkpoint(tmp_path / folder, identity="a"),))
        with pytest.raises(FormatError):
            run.run()
        assert run.epoch == 0
        assert folder.startswith("missing") or (tmp_path / folder).is_dir()
    for folder in ("model", "mine"):
        with pytest.raises(FormatError):
            resume(training(), tmp_path / folder, "a")


def test_a_damaged_checkpoint_is_refused_with_the_way_out(tmp_path):
    cut_off(tmp_path / "c", after=1)
    with (tmp_path / "c" / "weights.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    run = training(callbacks=(Checkpoint(tmp_path / "c", identity="a"),))
    for attempt in (lambda: resume(run, tmp_path / "c", "a"), run.run):
        with pytest.raises(FormatError, match=r"to train from the start: .*weights\.safetensors: was changed"):
            attempt()
        assert run.epoch == 0


def wider() -> Training:
    generator = torch.Generator().manual_seed(0)
    layout = Layout(spans=((0, 1), (1, 2), (2, 5), (5, 6)), mutable=(True, True, True, False))
    model = ConditionalVAE(layout, Architecture(hidden=(21, 16, 14, 12), latent=4), generator)
    return Training(model, objective(), rows(200), rows(60, seed=1), Schedule(), generator)


def test_a_model_of_other_shapes_is_told_tensor_by_tensor(tmp_path):
    cut_off(tmp_path / "c", after=1)
    run = wider()
    before = everything(run)
    with pytest.raises(FormatError, match="does not fit this training") as caught:
        resume(run, tmp_path / "c", "a")
    assert "tensor 'model.encoder.0.weight': is (20, 6) of torch.float32, the model has (21, 6)" in str(caught.value)
    assert {f.place.split(".")[0] for f in caught.value.faults} == {
        "tensor 'model",
        "tensor 'best",
        "tensor 'optimiser",
    }
    assert everything(run) == before


TAMPERED = {
    "generator of zeros": lambda c, t: t.update(generator=torch.zeros_like(t["generator"])),
    "generator too short": lambda c, t: t.update(generator=t["generator"][:-1].clone()),
    "generator of floats": lambda c, t: t.update(generator=t["generator"].double()),
    "no generator": lambda c, t: t.pop("generator"),
    "no weight": lambda c, t: t.pop("model.mean.weight"),
    "no best weight": lambda c, t: t.pop("best.mean.weight"),
    "another weight": lambda c, t: t.update({"model.x": torch.zeros(1)}),
    "weight of doubles": lambda c, t: t.update({"model.mean.weight": t["model.mean.weight"].double()}),
    "part of Adam": lambda c, t: t.pop("optimiser.3.exp_avg"),
    "more of Adam": lambda c, t: t.update({"optimiser.3.max": torch.zeros(1)}),
    "Adam of a weight too many": lambda c, t: t.update({"optimiser.999.step": torch.zeros(())}),
    "Adam of no weight": lambda c, t: t.update({"optimiser.x.step": torch.zeros(())}),
    "Adam of another shape": lambda c, t: t.update({"optimiser.0.exp_avg": torch.zeros(3)}),
    "odd step": lambda c, t: t.update({"optimiser.0.step": torch.zeros(2)}),
    "epochs out of order": lambda c, t: c["history"].reverse(),
    "epoch true": lambda c, t: c["history"][0].update(number=True),
    "no total": lambda c, t: c["history"][0]["train"].pop("total"),
    "odd term": lambda c, t: c["history"][0]["train"].update(kl="much"),
    "odd settings": lambda c, t: c["optimiser"][0].update(fused=None),
    "no setting": lambda c, t: c["optimiser"][0].pop("lr"),
    "other weights": lambda c, t: c["optimiser"][0]["params"].reverse(),
    "odd betas": lambda c, t: c["optimiser"][0].update(betas=[0.9]),
}
for key in ("best_loss", "waited", "history", "optimiser", "identity"):
    TAMPERED[f"no {key}"] = lambda c, t, key=key: c.pop(key)
    for value in (None, "x", -1.5, [], [[]], [{}], {}, True):
        legal = (key == "best_loss" and value == -1.5) or (key == "history" and value == [])
        if not legal:
            TAMPERED[f"{key} {value}"] = lambda c, t, key=key, value=value: c.update({key: value})


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound") / "c"
    cut_off(folder, after=2)
    return folder


@pytest.fixture(scope="module")
def fresh() -> Training:
    return training(seed=99)


def test_what_the_next_tests_spoil_is_sound(sound):
    assert resume(training(seed=99), sound, "a")


@pytest.mark.parametrize("name", TAMPERED)
def test_a_checkpoint_that_is_wrong_inside_is_refused_and_nothing_is_restored(name, sound, fresh, tmp_path):
    saved, before = read(sound, KIND), everything(fresh)
    tensors = {name: torch.from_numpy(array) for name, array in saved.tensors.items()}
    TAMPERED[name](saved.content, tensors)
    write(tmp_path / "c", KIND, saved.content, tensors)
    with pytest.raises(FormatError, match=str(tmp_path / "c")):
        resume(fresh, tmp_path / "c", "a")
    assert everything(fresh) == before


# In a process of its own, which does not live long


class Report(Callback):
    """Says after each epoch, and after its checkpoint, how far the run is; after one of them it waits for a signal."""

    def __init__(self, pipe: Connection, last: int | None) -> None:
        self.pipe, self.last = pipe, last

    def on_epoch_end(self, training: Training) -> None:
        self.pipe.send(training.epoch)
        while training.epoch == self.last:
            time.sleep(0.01)


def live(folder: Path, pipe: Connection, last: int | None, moment: Moment | None) -> None:
    """Resume, train to the end and send how it ended; or wait for a signal after an epoch, or die at a moment."""
    # A shell's background jobs ignore Ctrl-C, and so would this process.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    callbacks = (Checkpoint(folder, identity="a"), Report(pipe, last))
    run = training(seed=99, callbacks=callbacks, epochs=EPOCHS)
    if not resume(run, folder, "a"):
        run = training(callbacks=callbacks, epochs=EPOCHS)
    if moment is not None:
        sys.addaudithook(dying_at(*moment))
    with contextlib.suppress(KeyboardInterrupt):
        run.run()
        pipe.send(ending(run))
        return
    sys.exit(130)


def dying_at(call: str, words: str, turn: int) -> Callable[[str, tuple], None]:
    """A hook that kills its process just before the n-th such call to the system with these words in its arguments."""
    turns = iter(range(1, sys.maxsize))

    def watch(event: str, arguments: tuple) -> None:
        if event == call and words in str(arguments) and next(turns) == turn:
            os.kill(os.getpid(), signal.SIGKILL)

    return watch


@contextlib.contextmanager
def life(
    folder: Path, *, last: int | None = None, moment: Moment | None = None
) -> Iterator[tuple[BaseProcess, Connection]]:
    here, there = processes.Pipe(duplex=False)
    process = processes.Process(target=live, args=(folder, there, last, moment))
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        process.kill()
        process.join()


def killed_after(folder: Path, epoch: int, with_signal: int) -> None:
    """Let it live until it reports an epoch, then send it a signal."""
    with life(folder, last=epoch) as (process, pipe):
        while pipe.recv() < epoch:
            pass
        os.kill(process.pid, with_signal)
        process.join()
        assert process.exitcode == (130 if with_signal == signal.SIGINT else -with_signal)


def lived_to_the_end(folder: Path) -> tuple[list[int], Ending]:
    reports = []
    with life(folder) as (_, pipe):
        while isinstance(report := pipe.recv(), int):
            reports.append(report)
    return reports, report


def epochs_kept(folder: Path) -> int:
    return len(read(folder, KIND).content["history"]) if is_there(folder) else 0


def test_a_run_killed_between_epochs_again_and_again_ends_as_an_uninterrupted_one(tmp_path, uninterrupted):
    folder = tmp_path / "c"
    for epoch, with_signal in [(1, signal.SIGKILL), (2, signal.SIGINT), (4, signal.SIGKILL), (5, signal.SIGTERM)]:
        killed_after(folder, epoch, with_signal)
        assert epochs_kept(folder) == epoch
    reports, result = lived_to_the_end(folder)
    assert reports == [6, 7, 8]
    assert result == uninterrupted
    assert os.listdir(tmp_path) == ["c"]


# When it dies, and how many epochs are then in the checkpoint.
DEATHS: list[tuple[Moment, int]] = [
    (("os.mkdir", "-new-", 1), 0),
    (("os.rename", "-new-", 1), 0),  # the first checkpoint, complete but without its name
    (("os.chmod", "-new-", 1), 1),
    (("os.rename", "-old", 1), 1),
    (("os.rename", "-new-", 1), 1),  # between the two renames
    (("os.remove", "-old/manifest", 1), 2),
    (("os.rmdir", "-old", 1), 2),  # while removing what the last death left
    (("os.rmdir", "-old", 2), 3),
]


def test_a_run_killed_inside_its_writes_ends_as_an_uninterrupted_one(tmp_path, uninterrupted):
    folder = tmp_path / "c"
    for moment, kept in DEATHS:
        with life(folder, moment=moment) as (process, _):
            process.join()
            assert process.exitcode == -signal.SIGKILL, moment
        assert epochs_kept(folder) == kept, moment
    reports, result = lived_to_the_end(folder)
    assert reports == [4, 5, 6, 7, 8]
    assert result == uninterrupted
    assert os.listdir(tmp_path) == ["c"]


def test_a_run_killed_at_random_moments_ends_as_an_uninterrupted_one(tmp_path, uninterrupted):
    folder, moments = tmp_path / "c", random.Random(0)
    for _ in range(4):
        with life(folder) as (process, pipe), contextlib.suppress(EOFError):
            pipe.recv()
            time.sleep(moments.uniform(0, 0.1))
            process.kill()
    assert lived_to_the_end(folder)[1] == uninterrupted
    assert os.listdir(tmp_path) == ["c"]
