"""CEM: sparse changes by FISTA, with a weight of the attack that is bisected row by row."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import loans
from fcxplain.errors import DataError, NotFittedError
from fcxplain.methods.base import asked
from fcxplain.methods.cem import CEM

ROWS = loans.table(24, seed=5)


def network() -> nn.Module:
    """A loan is likelier with income, age and a degree; columns: age, income, 3 degrees, 3 jobs, 2 births."""
    layer = nn.Linear(10, 2)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[1] = torch.tensor([1.7, 4.0, 0.0, 1.0, 2.0, 0.0, 0.1, -0.1, 0.3, -0.3])
        layer.bias.copy_(torch.tensor([0.0, -4.0]))
    return layer


def task(**more):
    return loans.Task(loans.table(), network(), schema=loans.SCHEMA, target="yes", classes=("no", "yes"), **more)


TASK = task()
QUESTION = asked(TASK, ROWS)
X, Y = QUESTION.x.double(), QUESTION.y_target


@cache
def default() -> CEM:
    return CEM().fit(TASK)


def test_answers_are_valid_and_sparse():
    explanation = default().explain(ROWS)
    assert explanation.checks.valid.all()
    assert len(explanation.answers) == len(QUESTION)
    assert explanation.checks.changes.mean() < 2.5
    assert explanation.soft_valid is not None
    assert explanation.method == "CEM"


def test_delta_is_zero_in_most_columns_and_where_nothing_may_change():
    delta = default().search(X, Y).raw - X
    assert (delta != 0).sum(dim=1).double().mean() < 4
    assert (delta[:, 8:] == 0).all()


def test_a_larger_beta_changes_fewer_columns():
    fine, coarse = (CEM(beta=beta, steps=40).fit(TASK).search(X, Y) for beta in (0.001, 0.9))
    assert ((coarse.raw - X) != 0).sum() < ((fine.raw - X) != 0).sum()


def test_c_is_bisected_between_one_that_is_too_small_and_one_that_is_enough():
    method = CEM(steps=40).fit(TASK)
    found = method.search(X, Y)
    assert found.high.isfinite().all()
    assert (found.low < found.high).all()
    assert not found.elastic.isinf().any()
    some = found.low > 0
    assert some.any()
    assert method.descend(X, Y, found.high).elastic.isfinite().all()
    assert method.descend(X[some], Y[some], found.low[some]).elastic.isinf().all()


def test_c_grows_tenfold_while_it_is_too_small():
    method = CEM(searches=3, steps=20, c=1e-9).fit(TASK)
    found = method.search(X, Y)
    assert found.elastic.isinf().all()
    assert torch.allclose(found.low, torch.full_like(found.low, 1e-7))
    explanation = method.explain(ROWS)
    assert not len(explanation.answers)
    assert all("3 searches" in why.words for why in explanation.reasons.values())


def test_one_step_is_a_gradient_step_and_a_soft_threshold():
    method = CEM(beta=0.02, steps=1, learning_rate=0.05).fit(TASK)
    c = torch.full_like(X[:, 0], 30.0)
    at = X.clone().requires_grad_()
    (slope,) = torch.autograd.grad(method.objective(at, X, Y, c).sum(), [at])
    for columns in (slice(2, 5), slice(5, 8)):
        slope[:, columns] -= slope[:, columns].mean(dim=1, keepdim=True)
    moved = -0.05 * slope
    expected = torch.sign(moved) * (moved.abs() - 0.02).clamp(min=0)
    expected[:, 8:] = 0
    expected = (X + expected).clamp(0, 1)
    found = method.descend(X, Y, c)
    flips = found.elastic.isfinite()
    assert flips.any()
    assert torch.allclose(found.raw[flips], expected[flips], atol=1e-8)


def test_what_all_levels_of_a_category_share_does_not_turn_the_first_step():
    # The same model on every row: what each degree counts more, all start with less.
    shifted = network()
    with torch.no_grad():
        shifted.weight[1, 2:5] += 3.0
        shifted.bias[1] -= 3.0
    other = loans.Task(loans.table(), shifted, schema=loans.SCHEMA, target="yes", classes=("no", "yes"))
    c = torch.full_like(X[:, 0], 30.0)
    one, two = (CEM(beta=0.02, steps=1, learning_rate=0.05).fit(t).descend(X, Y, c) for t in (TASK, other))
    degrees = (one.raw - X)[:, 2:5]
    assert ((degrees.abs() > 0.01) & (degrees.abs() < 0.9)).any()
    assert torch.allclose(one.raw, two.raw, atol=1e-5)


def test_a_level_that_has_risen_as_high_as_the_present_one_takes_its_place():
    # Only a college degree is enough. By the model's centred slope school, halfway, neither rises nor falls.
    layer = network()
    with torch.no_grad():
        layer.weight[1] = torch.tensor([0.0, 0.0, 0.0, 3.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    degrees = loans.Task(loans.table(), layer, schema=loans.SCHEMA, target="yes", classes=("no", "yes"))
    question = asked(degrees, ROWS[ROWS["degree"] == "school"])
    found = CEM(steps=40).fit(degrees).search(question.x.double(), question.y_target)
    assert torch.allclose(found.raw[:, 3:5], torch.ones((len(question), 2), dtype=torch.float64), atol=1e-6)
    assert (found.x_cf[:, 2:5] == torch.tensor([0.0, 0.0, 1.0])).all()
    others = [0, 1, *range(5, 10)]
    assert torch.equal(found.x_cf[:, others], question.x.double()[:, others])


@pytest.fixture(scope="module")
def rebuilding():
    return CEM(kappa=0.2, autoencoder=True, gamma=3.0, steps=40).fit(TASK)


def test_the_objective_is_the_papers(rebuilding):
    x_cf, c = (X + 0.1).clamp(0, 1), torch.linspace(1, 5, len(X), dtype=torch.float64)
    chance = network().double()(x_cf).softmax(dim=1)
    attack = (chance[:, 0] - chance[:, 1] + 0.2).clamp(min=0)
    rebuilt = ((rebuilding.autoencoder_(x_cf) - x_cf) ** 2).sum(dim=1)
    expected = c * attack + ((x_cf - X) ** 2).sum(dim=1) + 3 * rebuilt
    assert torch.allclose(rebuilding.objective(x_cf, X, Y, c), expected)


def test_the_autoencoder_rebuilds_training_rows_and_is_left_out_by_default(rebuilding):
    x = TASK.encoder.encode(TASK.train).double()
    assert ((rebuilding.autoencoder_(x) - x) ** 2).mean() < 0.8 * x.var(dim=0).mean()
    assert default().autoencoder_ is None
    assert rebuilding.explain(ROWS).checks.valid.all()


def test_an_answer_depends_on_its_row_alone():
    method = CEM(steps=30).fit(TASK)
    whole, some = method.explain(ROWS), method.explain(ROWS.iloc[::-4])
    first = whole.answers.set_index(whole.rows.index[whole.place])
    second = some.answers.set_index(some.rows.index[some.place])
    pd.testing.assert_frame_equal(first.loc[second.index], second)


def test_of_three_classes_the_one_wanted_is_reached():
    layer = nn.Linear(10, 3)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[1, 1], layer.weight[2, 0] = 6.0, 6.0
        layer.bias.copy_(torch.tensor([0.0, -3.0, -3.0]))
    three = loans.Task(loans.table(), layer, schema=loans.SCHEMA, target="c", classes=("a", "b", "c"))
    explanation = CEM(steps=40).fit(three).explain(ROWS)
    assert len(explanation.answers)
    assert set(explanation.checks.predicted[explanation.checks.valid]) == {"c"}


def test_a_model_without_gradients_is_explained_by_way_of_a_stand_in():
    explanation = CEM(steps=30).fit(loans.task(rules=())).explain(ROWS)
    # The smallest change for the imitation may be a little too small for the model itself.
    assert explanation.checks.valid.mean() > 0.6


def test_more_answers_than_one_are_noted():
    explanation = CEM(steps=20).fit(TASK).explain(ROWS, k=3)
    assert explanation.rank.max() == 1
    assert "one answer" in explanation.notes[0]


def test_settings_that_make_no_sense_are_refused_together():
    with pytest.raises(DataError, match="CEM") as told:
        CEM(kappa=-1, beta=np.nan, c=0, steps=0, autoencoder="yes").fit(TASK)
    assert len(told.value.faults) == 5
    with pytest.raises(NotFittedError):
        CEM().explain(ROWS)
