"""VCNet: the class told to the decoder decides the class of what it decodes; its two forms, and the immutable one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn.functional import binary_cross_entropy, one_hot

import loans
import small_problems
from fcxplain import Task
from fcxplain.errors import DataError
from fcxplain.methods.encoded import ColumnLayout, soft_rows
from fcxplain.methods.vcnet import VCNet, VcnetNetwork
from fcxplain.training_loop import shuffled

ROWS = loans.table(80, seed=5)
SMALL = {"hidden": (64, 32), "latent": 6, "steps": 350, "batch": 50, "learning_rate": 6e-3}
# Enough where half of the answers must hold.
SHORT = SMALL | {"steps": 150}


@cache
def task() -> Task:
    """A model without gradients, since none are needed."""
    return loans.task(rules=())


@cache
def method(**more: object) -> VCNet:
    return VCNet(**SMALL | more).fit(task())


def labelled(labels: object) -> Task:
    rows = loans.table().assign(loan=labels)
    return Task(rows, loans.chance, schema=loans.SCHEMA, target="yes", label="loan", classes=("no", "yes"))


@cache
def joint() -> VCNet:
    """The labels go by income alone, so that they are not the task's model."""
    rich = np.where(loans.table()["income"] > 2000, "yes", "no")
    return VCNet(form="joint", **SMALL).fit(labelled(rich))


def decoded(fitted: VCNet, rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows decoded from their latent means under a class."""
    x = fitted.task_.encoder.encode(rows).double()
    told = one_hot(torch.full((len(x),), fitted.task_.classes.index(name)), 2).double()
    with torch.no_grad():
        return fitted.task_.encoder.decode(fitted.network_.decode(fitted.network_.encode(x)[0], x, told))


def test_the_class_told_is_the_class_of_what_is_decoded():
    for name in ("no", "yes"):
        assert np.mean(task().predict(decoded(method(), ROWS, name)) == name) > 0.9


def test_most_rows_get_an_answer_that_holds_without_gradients():
    explanation = method().explain(ROWS)
    assert explanation.method == "VCNet"
    assert explanation.checks.valid.mean() > 0.9
    assert (explanation.answers["born"].to_numpy() == explanation.before["born"].to_numpy()).all()
    assert explanation.soft_valid is None


def test_the_answer_is_the_decoding_under_the_class_wanted():
    explanation = method().explain(ROWS)
    mutable = ["degree", "job"]
    expected = decoded(method(), explanation.before, "yes")[mutable]
    pd.testing.assert_frame_equal(explanation.answers[mutable], expected, check_dtype=False)


def test_the_joint_form_learns_the_labels_and_flips_its_own_predictor():
    labels = np.where(ROWS["income"] > 2000, "yes", "no")
    assert np.mean(joint().predict(ROWS) == labels) > 0.93
    refused = ROWS[joint().predict(ROWS) == "no"]
    assert np.mean(joint().predict(decoded(joint(), refused, "yes")) == "yes") > 0.9


def test_answers_of_the_joint_form_are_checked_with_the_tasks_model():
    explanation = joint().explain(ROWS)
    assert (explanation.asked == (loans.chance(ROWS) < 0.5)).all()
    assert (explanation.checks.valid == (loans.chance(explanation.answers) >= 0.5)).all()
    assert 0 < explanation.checks.valid.mean() <= np.mean(joint().predict(explanation.answers) == "yes")


def test_without_labels_the_joint_form_learns_what_the_model_says():
    fitted = method(form="joint")
    assert np.mean(fitted.predict(task().train) == task().predict(task().train)) > 0.93


def test_labels_that_are_no_classes_are_named():
    names = np.where(loans.chance(loans.table()) < 0.5, "no", "maybe")
    with pytest.raises(DataError, match="'maybe'"):
        VCNet(form="joint").fit(labelled(names))


def test_the_post_hoc_form_has_no_predictor():
    with pytest.raises(DataError, match="no predictor"):
        method().predict(ROWS)


def test_the_immutable_form_tells_the_decoder_alone_what_may_not_change():
    other = ROWS.assign(born=np.where(ROWS["born"] == "here", "there", "here"))
    x, x_other = (task().encoder.encode(rows).double() for rows in (ROWS, other))
    network, plain = method().network_, method(immutable=False).network_
    told = torch.tensor([[0.0, 1.0]], dtype=torch.double).expand(len(x), 2)
    z = network.encode(x)[0]
    assert torch.equal(z, network.encode(x_other)[0])
    assert not torch.equal(network.decode(z, x, told), network.decode(z, x_other, told))
    z = plain.encode(x)[0]
    assert not torch.equal(z, plain.encode(x_other)[0])
    assert torch.equal(plain.decode(z, x, told), plain.decode(z, x_other, told))


def test_the_plain_form_keeps_what_may_not_change_all_the_same():
    explanation = method(immutable=False).explain(ROWS)
    assert (explanation.answers["born"].to_numpy() == explanation.before["born"].to_numpy()).all()
    assert explanation.checks.valid.mean() > 0.9


def test_the_loss_is_summed_cross_entropy_of_what_is_rebuilt():
    settings = VCNet(beta=0.0, **SMALL | {"steps": 1, "batch": len(task().train)})
    # In the only step all rows are one batch, and the network is as its seed makes it.
    generator = torch.Generator().manual_seed(settings.seed)
    network = VcnetNetwork(ColumnLayout(task()), settings, generator)
    (order,) = shuffled(len(task().train), settings.batch, generator)
    rows = task().train.iloc[order.numpy()]
    x, answers = task().encoder.encode(rows), torch.from_numpy(task().classifier.probabilities(rows)).float()
    mean, variance = network.encode(x)
    z = mean + variance.sqrt() * torch.randn(mean.shape, generator=generator)
    spans = [task().encoder.spans_[name] for name in ("age", "income", "degree", "job")]
    columns = [column for span in spans for column in range(span.start, span.stop)]
    p = network.decode(z, x, answers)[:, columns]
    expected = binary_cross_entropy(p, x[:, columns], reduction="sum").item() / len(x)
    assert settings.fit(task()).losses_ == [pytest.approx(expected, abs=1e-4)]


def test_soft_rows_have_numbers_inside_and_levels_that_sum_to_one():
    layout = method().network_.columns.layout
    scores = torch.randn((50, layout.width), generator=torch.Generator().manual_seed(0)) * 5
    soft = soft_rows(scores, layout, temperature=0.5)
    assert torch.equal(soft[:, 0], scores[:, 0].sigmoid())
    for start, stop in method().network_.columns.groups:
        assert torch.equal(soft[:, start:stop], (scores[:, start:stop] / 0.5).softmax(dim=1))


def test_more_answers_come_from_draws_around_the_first():
    one, three = method().explain(ROWS), method().explain(ROWS, k=3)
    first = three.answers[three.rank == 1].reset_index(drop=True)
    pd.testing.assert_frame_equal(first, one.answers)
    assert len(three.answers) > 2 * len(one.answers)


def test_a_torch_model_tells_how_many_soft_answers_hold():
    explanation = VCNet(**SHORT).fit(small_problems.task("mixed")).explain(small_problems.rows("mixed"))
    assert explanation.soft_valid is not None
    assert explanation.checks.valid.mean() > 0.5


def test_of_three_classes_the_middle_one_can_be_wanted():
    explanation = VCNet(**SHORT).fit(small_problems.three_classes()).explain(ROWS)
    assert (explanation.wanted == "middle").all()
    assert explanation.checks.valid.mean() > 0.5


def test_settings_that_make_no_sense_are_refused_together():
    with pytest.raises(DataError, match="VCNet") as told:
        VCNet(form="later", hidden=(0, 5), latent=0, beta=-1, batch=1, learning_rate=0, seed=-1).fit(task())
    places = ["seed", "form", "hidden", "latent", "beta", "batch", "learning_rate"]
    assert [f.place for f in told.value.faults] == places
    with pytest.raises(DataError, match="hidden"):
        VCNet(hidden=(5,)).fit(task())
