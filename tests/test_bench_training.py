"""The benchmark of training (benchmark.training): what it reports, and that it leaves the model alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from fcxplain.benchmark.speed.timing import peak_memory
from fcxplain.benchmark.speed.training import training_growth, training_speed
from fcxplain.generator.cvae import Architecture, ConditionalVAE
from fcxplain.generator.losses import LossWeights, Objective, TermSettings
from fcxplain.generator.settings import Layout
from fcxplain.generator.training import Training, TrainingRows
from fcxplain.training_loop import Schedule

LAYOUT = Layout(spans=((0, 1), (1, 2), (2, 4)), mutable=(True, True, False))
STATUS = Path("/proc/self/status")
TERMS = ("proximity", "validity", "kl", "hard", "soft", "sparsity", "density")


def run(batch: int = Schedule().batch, settings: TermSettings | None = None, **weights: float) -> Training:
    generator = torch.Generator().manual_seed(0)
    pairs = torch.ones(4, 4, dtype=torch.bool).triu(1)
    classifier = nn.Sequential(nn.Linear(4, 2)).requires_grad_(False)
    settings = settings or TermSettings(lof_k=3)
    objective = Objective(
        classifier, lambda x, x_cf: (x - x_cf)[:, 0].relu(), pairs, ~pairs, LossWeights(**weights), settings
    )
    model = ConditionalVAE(LAYOUT, Architecture(hidden=(6, 5), latent=3), generator)
    rows = TrainingRows(torch.rand((90, 4), generator=generator), torch.ones(90, dtype=torch.long))
    return Training(model, objective, rows, rows, Schedule(batch=batch), generator)


def test_the_whole_and_every_term_are_timed_against_the_bare_network():
    found = training_speed(run(batch=30), repeat=2)
    assert [t.job for t in found] == ["train, 7 terms", *(f"term {name}" for name in TERMS)]
    assert all(t.rows == 90 and t.seconds > 0 and t.ratio == t.seconds / t.floor for t in found)
    assert len({t.floor for t in found}) == 1


def test_terms_that_do_not_count_are_not_timed():
    found = training_speed(run(batch=30, density=0.0, soft=0.0), repeat=1)
    assert [t.job for t in found] == ["train, 5 terms", *(f"term {n}" for n in TERMS if n not in ("density", "soft"))]


def test_growth_has_a_line_for_each_number_of_rows_the_smallest_first():
    found = training_growth(run(batch=25), sizes=(200, 50), repeat=1, tell=print)
    assert [g.rows for g in found] == [50, 200]
    assert all(g.seconds_per_row == g.seconds / g.rows > 0 and g.memory >= 0 for g in found)


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux keeps this account")
def test_peak_memory_is_what_the_system_says_in_bytes():
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    assert peak_memory() == pytest.approx(int(lines["VmHWM"].split()[0]) * 1024, rel=0.01)


def test_neither_the_model_nor_the_global_random_state_is_changed():
    given = run()
    before = {name: value.clone() for name, value in given.model.state_dict().items()}
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    training_speed(given, repeat=1)
    training_growth(given, sizes=(50,), repeat=1, tell=print)
    assert all(torch.equal(before[name], value) for name, value in given.model.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


def test_a_term_without_a_gradient_is_timed_too():
    weights = {name: float(name in ("kl", "sparsity")) for name in TERMS}
    found = training_speed(run(settings=TermSettings(sparsity="threshold"), **weights), repeat=1)
    assert [t.job for t in found] == ["train, 2 terms", "term kl", "term sparsity"]
