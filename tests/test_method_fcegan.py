"""FCEGAN: a template given only when explaining is respected, and the contest that teaches it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import loans
import small_problems
from effort import examples
from fcxplain import Task
from fcxplain.errors import DataError
from fcxplain.methods.fcegan import FCEGAN, NOTHING_MAY_CHANGE, Contest, read_template

ROWS = loans.table(60, seed=5)
NAMES = loans.SCHEMA.names
MUTABLE = [n for n in NAMES if n != "born"]


@cache
def task() -> Task:
    schema, train = small_problems.problem("mixed")
    model = small_problems.linear(small_problems.task("mixed").encoder, -5.0)
    return Task(train, model, schema=schema, target="yes", classes=("no", "yes"))


@cache
def method() -> FCEGAN:
    return FCEGAN(steps=150, learning_rate=2e-3).fit(task())


@cache
def contest() -> Contest:
    begun = FCEGAN(noise=4, batch=20)
    begun.columns_, begun.surrogate_ = method().columns_, method().surrogate_
    return Contest(begun, task(), torch.Generator().manual_seed(0))


def changed(explanation) -> np.ndarray:
    return explanation.checks.changed


def test_most_rows_get_an_answer_that_holds():
    explanation = method().explain(ROWS)
    assert explanation.method == "FCEGAN"
    assert explanation.checks.valid.mean() > 0.9
    assert explanation.soft_valid.mean() > 0.9


@given(st.lists(st.sampled_from(NAMES), unique=True))
@examples(15)
def test_only_what_a_template_names_changes(template):
    explanation = method().explain(ROWS.iloc[:12], template=template)
    moved = set(np.asarray(NAMES)[changed(explanation).any(axis=0)])
    assert moved <= set(template) - {"born"}


def test_each_row_may_have_a_template_of_its_own():
    lists = [["income"] if i % 2 else ["age", "degree", "job"] for i in range(len(ROWS))]
    explanation = method().explain(ROWS, template=lists)
    assert len(explanation.answers) > 20
    for place, line in zip(explanation.place, changed(explanation), strict=True):
        assert set(np.asarray(NAMES)[line]) <= set(lists[place])


def test_a_list_for_all_rows_is_the_same_as_one_for_each():
    template = ["income", "job"]
    for_all, for_each = (read_template(t, NAMES, len(ROWS)) for t in (template, [template] * len(ROWS)))
    assert (for_all == for_each).all()
    assert (for_all == [[name in template for name in NAMES]] * len(ROWS)).all()
    for_all = method().explain(ROWS, template=MUTABLE)
    pd.testing.assert_frame_equal(for_all.answers, method().explain(ROWS).answers)


def test_the_generator_makes_use_of_what_it_may_change():
    narrow, wide = (method().explain(ROWS, template=t) for t in (["income"], ["income", "degree"]))
    assert wide.checks.valid.sum() >= narrow.checks.valid.sum() > 0
    income = NAMES.index("income")
    assert changed(narrow)[:, income].all()


def test_values_that_a_template_keeps_stay_to_the_bit_off_the_grid_too():
    rows = ROWS.assign(income=ROWS["income"] + 0.1)
    explanation = method().explain(rows, template=["degree", "job"])
    assert len(explanation.answers)
    assert explanation.answers["income"].tolist() == explanation.before["income"].tolist()


def test_a_template_that_lets_nothing_change_is_the_reason():
    lists = [["born"] if i < 30 else MUTABLE for i in range(len(ROWS))]
    explanation = method().explain(ROWS, template=lists)
    stuck = np.flatnonzero(explanation.asked[:30])
    assert {explanation.reasons[int(i)].words for i in stuck} == {NOTHING_MAY_CHANGE}
    assert explanation.place.min() >= 30
    assert not len(method().explain(ROWS, template=[]).answers)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (["incme"], "Did you mean 'income'"),
        ("income", "list of names"),
        ([["income"]] * 3, "3 lines for 60 rows"),
        ([["income"]] * 59 + ["age"], "line 59"),
        (pd.DataFrame({"income": [True] * 60}), "list of names"),
        ([["wage"]] * 60, "'wage'"),
    ],
)
def test_templates_that_cannot_be_read_are_refused_in_words(template, message):
    with pytest.raises(DataError, match=message):
        method().explain(ROWS, template=template)


def test_training_templates_free_from_a_tenth_to_all_features_and_never_a_frozen_one():
    may = contest().template(torch.zeros((4000, 1)))
    assert not may[:, NAMES.index("born")].any()
    assert may[:, :4].double().mean() == pytest.approx(0.55, abs=0.03)
    # Rows in which all four may change: the mean of p^4 for p from 0.1 to 1.
    assert may[:, :4].all(dim=1).double().mean() == pytest.approx((1 - 0.1**5) / 5 / 0.9, abs=0.03)


def test_a_pack_is_ten_rows_with_their_classes_side_by_side():
    x, y = contest().x[:20], contest().y[:20]
    packs = contest().packs(x, y)
    width = x.shape[1] + 2
    assert packs.shape == (2, 10 * width)
    assert torch.equal(packs[1, 3 * width : 4 * width - 2], x[13])
    assert packs[1, 4 * width - 2 : 4 * width].tolist() == [1.0, 0.0]


def test_the_gradient_penalty_of_a_linear_critic_is_that_of_its_weights():
    begun = contest.__wrapped__()
    line = nn.Linear(begun.critic[0].in_features, 1).requires_grad_(False)
    line.weight.fill_(0.25)
    begun.critic = line
    losses = []
    for begun.method.penalty in (7.0, 0.0):
        begun.random.manual_seed(5)
        losses.append(float(begun.critic_loss(begun.x[:20], begun.y[:20], begun.y_target[:20]).detach()))
    assert losses[0] - losses[1] == pytest.approx(7.0 * (float(line.weight.norm()) - 1) ** 2, rel=1e-4)


def test_rows_drawn_as_real_have_the_class_wanted():
    real = contest().drawn_real(torch.tensor([0, 1] * 30))
    assert task().predict(task().encoder.decode(real)).tolist() == ["no", "yes"] * 30


def test_divergence_counts_what_may_change_and_did():
    begun = contest()
    x, may = begun.x[:4], torch.ones((4, 5), dtype=torch.bool)
    assert begun.moved(x, x, may) == 0
    x_cf = x.clone()
    x_cf[0, 0] += 0.5
    job = slice(5, 8)
    x_cf[1, job] = x[1, job].roll(1)
    assert float(begun.moved(x_cf, x, may)) == pytest.approx((0.25 + 1) / 20)
    may[0, 0] = False
    assert float(begun.moved(x_cf, x, may)) == pytest.approx(1 / 20)


def test_what_is_kept_passes_the_generator_untouched():
    begun = contest()
    x, may = begun.x[:50], begun.template(begun.x[:50])
    x_cf = begun.made(x, may, begun.y_target[:50])
    kept = ~may[:, begun.generator.owner]
    assert torch.equal(x_cf[kept], x[kept])
    assert (x_cf[~kept] != x[~kept]).double().mean() > 0.9


def test_k_draws_are_distinct_and_the_first_is_the_only_one():
    one, three = method().explain(ROWS), method().explain(ROWS, k=3)
    pd.testing.assert_frame_equal(three.answers[three.rank == 1].reset_index(drop=True), one.answers)
    assert len(three.answers) > 2 * len(one.answers)


def test_a_class_that_no_training_row_has_cannot_be_learnt():
    class Never(nn.Module):
        def forward(self, x):
            return torch.stack([2 + x[:, 0], x[:, 0] - 2], dim=1)

    with pytest.warns(UserWarning, match="hard to find"):
        hopeless = Task(task().train, Never(), schema=loans.SCHEMA, target="yes", classes=("no", "yes"))
    with pytest.raises(DataError, match="class 'yes'"):
        FCEGAN(steps=1).fit(hopeless)


def test_settings_that_make_no_sense_are_refused_together():
    with pytest.raises(DataError, match="FCEGAN") as told:
        FCEGAN(noise=0, batch=25, temperature=0, template_shares=(0.1, 2), penalty=-1, seed=-1).fit(task())
    places = ["seed", "noise", "temperature", "penalty", "template_shares", "batch"]
    assert [f.place for f in told.value.faults] == places
