"""What every method promises, whoever wrote it: one suite over all of METHODS."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import small_problems
from fcxplain import Explanation, Task
from fcxplain.errors import DataError, FcxError, NotFittedError, SchemaError
from fcxplain.explanation import Status
from fcxplain.generator.cvae import Architecture
from fcxplain.methods import METHODS
from fcxplain.methods.latent import CCHVAE, REVISE, VAESettings
from fcxplain.methods.mahajan import Mahajan
from fcxplain.training_loop import Schedule

OWN = {"revise": REVISE, "c-chvae": CCHVAE, "mahajan-unary": Mahajan}
ALL = {name: own for name, own in OWN.items() if own not in {type(make()) for make in METHODS.values()}} | METHODS
# Small settings for whatever parameters a method has by these names, so that a new one is quick too, and own ones.
QUICK = {
    "vae": VAESettings(hidden=(32, 16), latent=4, epochs=10, batch=32, steps=0),
    "architecture": Architecture(hidden=(16,), latent=4, dropout=0.0),
    "epochs": 10,
    "draws": 4,
    "number_unit": "mad",
    "steps": 50,
    "rings": 60,
    "candidates": 60,
    "samples": 200,
}
QUICK_OF = {
    "Mahajan": {"schedule": Schedule(epochs=15, batch=100, weight_decay=1e-2)},
    "CEM": {"steps": 15, "searches": 3},
    "VCNet": {"steps": 150, "hidden": (64, 32), "learning_rate": 1e-2},
    "FCEGAN": {"steps": 20, "batch": 100},
}
KINDS = ("mixed", "frozen", "categories", "numbers")
# How several answers are told apart has nothing to do with rules that freeze or with numbers alone.
OF_SEVERAL = ("mixed", "categories")


def new(name: str, **more: object):
    method = ALL[name]()
    known = method.get_params(deep=False)
    small = {p: v for p, v in (QUICK | QUICK_OF.get(type(method).__name__, {})).items() if p in known}
    return method.set_params(**small | more)


@cache
def fitted(name: str, kind: str):
    return new(name).fit(small_problems.task(kind))


@cache
def explained(name: str, kind: str, k: int = 1) -> Explanation:
    return fitted(name, kind).explain(small_problems.rows(kind), k=k)


def several(name: str, kind: str) -> Explanation:
    return explained(name, kind, 3 if kind in OF_SEVERAL else 1)


def outcome(name: str, task: Task, rows: pd.DataFrame) -> tuple[Explanation | None, str]:
    """An explanation, or the words in which it is refused."""
    try:
        return new(name).fit(task).explain(rows), ""
    except FcxError as error:
        return None, str(error)


def same(one: Explanation, other: Explanation) -> None:
    """The same answers for the same labels, in whatever order the rows came."""
    frames = []
    for e in (one, other):
        frame = e.answers.assign(label=e.rows.index[e.place], rank=e.rank)
        frames.append(frame.sort_values(["label", "rank"], ignore_index=True))
    pd.testing.assert_frame_equal(*frames)
    assert one.status.sort_index().to_dict() == other.status.sort_index().to_dict()


each_method = pytest.mark.parametrize("name", ALL)
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_method
@each_kind
def test_some_answers_hold_on_every_kind_of_table(name, kind):
    explanation = explained(name, kind)
    asked = small_problems.task(kind).refused(small_problems.rows(kind))
    assert asked.sum() >= 4
    assert explanation.checks.valid.sum() >= 1
    assert set(explanation.place) <= set(np.flatnonzero(asked))


@each_method
@each_kind
def test_immutables_and_what_rules_freeze_survive(name, kind):
    explanation = explained(name, kind)
    now, then = explanation.before.reset_index(drop=True), explanation.answers
    fixed = [n for n in now if n == "born" or (kind == "frozen" and n == "job")]
    pd.testing.assert_frame_equal(now[fixed], then[fixed], check_dtype=False)
    assert explanation.checks.immutables_kept.all()


@each_method
@each_kind
def test_answers_are_legal_rows(name, kind):
    explanation = several(name, kind)
    explanation.task.schema.validate(explanation.answers)
    assert explanation.checks.in_domain.all()
    assert not explanation.answers.isna().any(axis=None)
    for feature in explanation.task.schema:
        if feature.is_number:
            assert feature.on_grid(explanation.answers[feature.name].to_numpy(dtype=float)).all()


@each_method
@each_kind
def test_no_answer_is_the_row_itself(name, kind):
    explanation = several(name, kind)
    now = explanation.before.reset_index(drop=True)
    assert (now.astype(object) != explanation.answers.astype(object)).any(axis=1).all()


@each_method
@each_kind
def test_rows_without_an_answer_say_why(name, kind):
    explanation = explained(name, kind)
    without = np.setdiff1d(np.flatnonzero(explanation.asked), explanation.place)
    assert set(explanation.reasons) == set(without.tolist())
    assert (explanation.row_status[without] == Status.NOT_FOUND).all()
    assert all(reason.words for reason in explanation.reasons.values())


@each_method
def test_rows_with_the_class_wanted_are_left_alone(name):
    explanation = explained(name, "mixed")
    has = ~explanation.task.refused(explanation.rows)
    assert has.any()
    assert (explanation.row_status[has] == Status.ALREADY).all()
    assert ((explanation.row_status == Status.ALREADY) == has).all()


@each_method
def test_the_input_is_untouched_and_its_index_kept(name):
    rows = small_problems.rows("mixed", 6)
    rows.index = pd.Index(["a", "b", "b", "a", "c", "b"])
    before, train = rows.copy(deep=True), small_problems.task("mixed").train.copy(deep=True)
    explanation = fitted(name, "mixed").explain(rows)
    pd.testing.assert_frame_equal(rows, before)
    pd.testing.assert_frame_equal(small_problems.task("mixed").train, train)
    assert explanation.status.index.equals(before.index)
    assert explanation.rows.index.equals(before.index)
    labelled, alone = explanation.answers, fitted(name, "mixed").explain(rows.reset_index(drop=True))
    pd.testing.assert_frame_equal(labelled, alone.answers)


@each_method
def test_columns_that_are_no_features_are_left_out(name):
    rows = small_problems.rows("mixed", 6)
    turned = rows.assign(label="no")[["label", *reversed(list(rows.columns))]]
    same(fitted(name, "mixed").explain(turned), fitted(name, "mixed").explain(rows))


@each_method
def test_an_answer_does_not_depend_on_the_rows_beside_it(name):
    method, rows, whole = fitted(name, "mixed"), small_problems.rows("mixed"), explained(name, "mixed", 3)
    same(method.explain(rows.iloc[::-1], k=3), whole)
    for i in np.flatnonzero(whole.asked)[:2]:
        alone = method.explain(rows.iloc[[i]], k=3)
        pd.testing.assert_frame_equal(alone.answers, whole.answers[whole.place == i].reset_index(drop=True))


@each_method
@pytest.mark.parametrize("kind", OF_SEVERAL)
def test_at_most_k_different_answers_come_best_first(name, kind):
    three, one = explained(name, kind, k=3), explained(name, kind)
    assert np.bincount(one.place, minlength=1).max() <= 1
    assert np.bincount(three.place, minlength=1).max() <= 3
    assert not three.answers.assign(place=three.place).duplicated().any()
    for place in set(three.place.tolist()):
        assert three.rank[three.place == place].tolist() == list(range(1, (three.place == place).sum() + 1))
    assert set(one.place) <= set(three.place)


@each_method
def test_fine_grids_are_explained_in_double_precision(name):
    explanation = new(name).fit(small_problems.fine()).explain(small_problems.rows("mixed"))
    assert explanation.checks.valid.sum() >= 1
    assert explanation.checks.in_domain.all()


@each_method
def test_a_present_value_off_the_grid_stays_unless_it_changes(name):
    rows = small_problems.rows("mixed")
    rows["income"] += 0.2
    explanation = fitted(name, "mixed").explain(rows)
    now, then = (table["income"].to_numpy(dtype=float) for table in (explanation.before, explanation.answers))
    changed = explanation.checks.changed[:, list(rows.columns).index("income")]
    assert (then[~changed] == now[~changed]).all()
    assert (then[changed] % 0.5 == 0).all()
    assert explanation.checks.in_domain.all()


@each_method
def test_no_rows_and_no_questions_are_no_trouble(name):
    method, rows = fitted(name, "mixed"), small_problems.rows("mixed")
    assert len(method.explain(rows.iloc[:0])) == 0
    content = rows[~small_problems.task("mixed").refused(rows)]
    explanation = method.explain(content)
    assert explanation.counts == {str(Status.ALREADY): len(content)}
    assert not len(explanation.answers)


@each_method
def test_a_model_without_gradients_is_explained_and_who_lent_them_is_told(name):
    rows, task = small_problems.rows("mixed"), small_problems.task("mixed", gradients=False)
    explanation = new(name).fit(task).explain(rows)
    assert (explanation.asked == explained(name, "mixed").asked).all()
    # The model itself judges: what it says of the answers is what stands there.
    assert explanation.checks.valid.sum() >= 1
    assert (explanation.checks.valid == ~task.refused(explanation.answers)).all()
    needs = type(new(name)).__name__ in ("Mahajan", "REVISE", "CEM", "FCEGAN", "CEILS")
    assert any("a network that imitates it" in note for note in explanation.notes) == needs


@each_method
def test_three_classes_are_explained_or_refused_in_words(name):
    explanation, refused = outcome(name, small_problems.three_classes(), small_problems.rows("mixed"))
    if explanation is None:
        assert "class" in refused
    else:
        assert explanation.checks.valid.sum() >= 1
        assert (explanation.wanted == "middle").all()


@each_method
def test_a_class_that_nobody_can_get_is_never_claimed(name):
    explanation, refused = outcome(name, small_problems.hopeless(), small_problems.rows("mixed", 4))
    if explanation is None:
        assert "class" in refused
    else:
        assert not set(explanation.row_status) & {Status.VERIFIED, Status.ALREADY}
        assert set(explanation.reasons) | set(explanation.place.tolist()) == set(range(4))


@each_method
def test_parameters_are_read_set_and_cloned(name):
    method = new(name, seed=7)
    params = method.get_params(deep=False)
    assert params["seed"] == 7
    assert clone(method).get_params(deep=False) == params
    assert clone(fitted(name, "mixed")).get_params(deep=False) == new(name).get_params(deep=False)
    assert type(method).__name__ in repr(method)
    assert vars(ALL[name]()) == ALL[name]().get_params(deep=False)
    with pytest.raises((ValueError, FcxError)):
        method.set_params(no_such_parameter=1)


@each_method
def test_an_unfitted_method_says_so(name):
    with pytest.raises(NotFittedError, match="fit"):
        new(name).explain(small_problems.rows("mixed"))


@each_method
def test_settings_that_make_no_sense_are_refused_with_their_names(name):
    with pytest.raises(FcxError, match="seed") as caught:
        new(name, seed=-1).fit(small_problems.task("mixed"))
    assert caught.value.faults
    with pytest.raises(FcxError, match="k"):
        fitted(name, "mixed").explain(small_problems.rows("mixed"), k=0)


@each_method
def test_a_seed_gives_the_same_answers_again_and_global_random_state_is_neither_read_nor_changed(name):
    # Another task of the same kind, so that nothing is remembered.
    task, rows = small_problems.new_task("mixed"), small_problems.rows("mixed")
    torch.manual_seed(1), np.random.seed(1), random.seed(1)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    explanation = new(name).fit(task).explain(rows, k=3)
    after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    same(explanation, explained(name, "mixed", k=3))


@each_method
def test_an_explanation_tells_its_method_and_effort(name):
    explanation = explained(name, "numbers")
    assert explanation.method
    assert explanation.effort.calls >= len(explanation) + len(explanation.answers)
    assert explanation.effort.cpu_seconds > 0


@pytest.mark.parametrize("name", ALL)
def test_rows_that_lack_a_column_or_are_no_table_are_refused_in_words(name):
    rows = small_problems.rows("mixed")
    with pytest.raises(SchemaError, match="column 'age': is not in the table"):
        fitted(name, "mixed").explain(rows.drop(columns="age"))
    with pytest.raises(SchemaError, match=r"is a Series, not a pandas DataFrame.*rows.iloc\[\[0\]\]"):
        fitted(name, "mixed").explain(rows.iloc[0])


def test_an_unknown_method_is_offered_the_nearest_and_stays_a_key_error():
    with pytest.raises(DataError, match=r"no method 'dice'. Did you mean 'dice-random'\? There are 'mahajan-unary'"):
        METHODS["dice"]
    with pytest.raises(KeyError):
        METHODS["nothing like it"]
    assert METHODS.get("dice") is None
    assert "dice" not in METHODS
    assert set(METHODS) == set(dict(METHODS))
