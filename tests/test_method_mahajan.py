"""Mahajan: the terms of its loss, that the constraint falls in training, and the draws it hands out."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest
import torch
from torch.nn.functional import relu

import small_problems
from fcxplain.errors import DataError, TrainingError
from fcxplain.explanation import Status
from fcxplain.generator import view
from fcxplain.generator.cvae import Architecture, ConditionalVAE
from fcxplain.methods.mahajan import PUBLISHED, Mahajan, MahajanWeights, Terms
from fcxplain.training_loop import Schedule

TASK, ROWS = small_problems.task("mixed"), small_problems.rows("mixed", 40)
QUICK = {
    "architecture": Architecture(hidden=(16,), latent=4, dropout=0.0),
    "draws": 4,
    "schedule": Schedule(epochs=100, weight_decay=1e-2),
    "number_unit": "mad",
}


@cache
def method(**settings: object) -> Mahajan:
    return Mahajan(**QUICK | settings).fit(TASK)


def terms_of(mahajan: Mahajan, network: ConditionalVAE) -> dict[str, float]:
    rows = view.refused_rows(TASK, TASK.train)
    terms = Terms.of(mahajan, TASK, mahajan.surrogate_.module)
    with torch.no_grad():
        found = terms.each(network.eval(), rows.x, rows.y_target, torch.Generator().manual_seed(3))
    return {name: float(value) for name, value in found.items()}


def test_the_constraint_falls_in_training_and_only_where_it_counts():
    untrained = ConditionalVAE(method().network_.layout, QUICK["architecture"], torch.Generator().manual_seed(0))
    before, after = terms_of(method(), untrained), terms_of(method(), method().network_)
    careless = method(weights=MahajanWeights(0.764, 29.0, 0.0))
    assert after["feasibility"] < 0.3 * before["feasibility"]
    assert after["feasibility"] < 0.5 * terms_of(careless, careless.network_)["feasibility"]
    assert after["validity"] < before["validity"]
    assert method().losses_[-1] < 0.5 * method().losses_[0]


def test_each_term_is_what_the_paper_says():
    mahajan = Mahajan(**QUICK | {"number_unit": "own", "draws": 1})
    surrogate = method().surrogate_.module
    network = method().network_.eval()
    rows = view.refused_rows(TASK, TASK.train)
    x, y_target = rows.x, rows.y_target
    with torch.no_grad():
        terms = Terms.of(mahajan, TASK, surrogate).each(network, x, y_target, torch.Generator().manual_seed(3))
        mean, variance = network.encode(x, y_target)
        noise = torch.randn((1, *mean.shape), generator=torch.Generator().manual_seed(3))[0]
        x_cf = network.decode(mean + variance.sqrt() * noise, x, y_target)
        span = TASK.encoder.span("born")
        x_cf[:, span] = x[:, span]
        logits = surrogate(x_cf).sigmoid()
    now, then = TASK.encoder.columns(x), TASK.encoder.columns(x_cf)
    numbers = sum((then[n] - now[n]).abs() for n in ("age", "income"))
    categories = sum((then.levels(n) - now.levels(n)).abs().sum(dim=1) for n in ("degree", "job"))
    sums = sum((1 - then.levels(n).sum(dim=1)).abs() for n in ("degree", "job"))
    torch.testing.assert_close(terms["distance"], (numbers + categories).mean())
    torch.testing.assert_close(terms["sums"], sums.mean())
    torch.testing.assert_close(terms["validity"], relu(0.764 - (logits[:, 1] - logits[:, 0])).mean())
    torch.testing.assert_close(terms["kl"], 0.5 * (mean**2 + variance - variance.log() - 1).mean())


def test_the_unary_constraint_is_the_hinge_on_the_scaled_feature():
    task = small_problems.task("numbers")
    mahajan = Mahajan(**QUICK | {"schedule": Schedule(epochs=2)}).fit(task)
    terms = Terms.of(mahajan, task, mahajan.surrogate_.module)
    x = task.encoder.encode(task.train.head(30))
    x_cf = x.flip(0)
    age = task.encoder.span("age")
    torch.testing.assert_close(terms.penalty(x, x_cf), relu(x[:, age] - x_cf[:, age]).flatten())


def test_settings_left_open_are_the_published_ones():
    surrogate = method().surrogate_.module
    for constraint in ("unary", "binary"):
        assert Terms.of(Mahajan(constraint=constraint), TASK, surrogate).weights == PUBLISHED[constraint]
    own = MahajanWeights(0.1, 1.0, 2.0)
    assert Terms.of(Mahajan(weights=own), TASK, surrogate).weights == own
    assert (PUBLISHED["binary"].margin, PUBLISHED["binary"].validity, PUBLISHED["binary"].feasibility) == (
        0.344,
        76,
        87,
    )


def test_draws_mostly_hold_and_are_handed_out_where_they_do_not():
    explanation = method().explain(ROWS)
    assert explanation.method == "Mahajan unary"
    assert method(constraint="binary").explain(ROWS).method == "Mahajan binary"
    assert explanation.checks.valid.mean() > 0.8
    assert explanation.checks.feasible.mean() > 0.8
    assert explanation.soft_valid is not None
    assert explanation.soft_valid.mean() > 0.8
    assert set(explanation.row_status) <= {Status.ALREADY, Status.VERIFIED, Status.BEST_EFFORT}


def test_several_draws_differ():
    explanation = method().explain(ROWS, k=3)
    assert np.bincount(explanation.place).max() == 3
    assert not explanation.answers.assign(place=explanation.place).duplicated().any()


def test_of_several_restarts_the_best_is_kept():
    short = {"schedule": Schedule(epochs=12, weight_decay=1e-2), "seed": 0}
    single = [method(**short | {"seed": seed}) for seed in range(3)]
    best = method(**short, restarts=3)
    judge, refused = copy.copy(best), TASK.train[TASK.refused(TASK.train)]

    def verified_by(network: ConditionalVAE) -> int:
        judge.network_ = network
        return int((judge.explain(refused).row_status == Status.VERIFIED).sum())

    verified = [verified_by(m.network_) for m in single]
    assert verified_by(best.network_) == max(verified)
    assert len(set(verified)) > 1


def test_nobody_to_learn_from_is_told():
    schema, train = small_problems.problem("mixed")
    model = small_problems.linear(TASK.encoder, 100.0)
    task = small_problems.Task(train, model, schema=schema, target="yes", classes=("no", "yes"))
    with pytest.raises(DataError, match="all but 0 of 160 training rows"):
        Mahajan(**QUICK).fit(task)


def test_all_settings_that_make_no_sense_are_told_at_once():
    with pytest.raises(DataError, match="Mahajan") as caught:
        Mahajan(constraint="ternary", slope=0, draws=0, number_unit="dollars").fit(TASK)
    assert [f.place for f in caught.value.faults] == ["constraint", "slope", "number_unit", "draws"]
    with pytest.raises(TrainingError, match="margin"):
        MahajanWeights(-1.0, 1.0, 1.0)
