"""FCx: the preset is the paper's, answers depend on the row alone, and saved models come back or are refused."""

from __future__ import annotations

import copy
import inspect
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import loans
from fcxplain import CausalGraph, FCx, Task, load_dataset, train_classifier
from fcxplain.errors import ClassifierError, DataError, FormatError, NotFittedError, SchemaError, TrainingError
from fcxplain.generator.cvae import weight_shapes
from fcxplain.generator.settings import LossWeights
from fcxplain.generator.training import Callback
from fcxplain.saving import manifest
from fcxplain.training_loop import Schedule


def small(**changes: object) -> FCx:
    settings = {"schedule__epochs": 3, "schedule__batch": 64, "terms__lof_k": 5, **changes}
    return FCx.as_published("binary", seed=0).set_params(**settings)


@pytest.fixture(scope="module")
def fitted() -> FCx:
    return small().fit(loans.task())


@pytest.fixture(scope="module")
def smooth() -> FCx:
    """To a model with gradients, which a fit need not imitate first."""
    return small().fit(loans.task(gradients=True))


@pytest.fixture(scope="module")
def network() -> tuple[FCx, pd.DataFrame]:
    data = load_dataset("adult", rows=800)
    model = train_classifier(data, kind="paper")
    task = Task(data.train, model, schema=data.schema, rules=data.rules["binary"], target=data.target)
    return small().fit(task), data.test


def test_the_preset_takes_the_papers_settings():
    for name, k, latent in (("adult", 20, 10), ("census", 50, 30), ("law", 15, 10), ("folktables", 70, 40)):
        fcx = FCx.as_published("unary", dataset=name)
        assert (fcx.terms.lof_k, fcx.architecture.latent, fcx.schedule.epochs) == (k, latent, 25)
        assert fcx.hard == "hinge"
        assert (fcx.architecture.hidden, fcx.architecture.dropout) == ((20, 16, 14, 12), 0.1)
    assert FCx.as_published("binary", dataset="law").schedule.epochs == 50
    assert FCx.as_published("binary", dataset="adult", learning_rate="paper").schedule.learning_rate == 0.2
    assert FCx.as_published("binary", dataset="census", learning_rate="paper").schedule.learning_rate == 0.1


def test_the_authors_preset_takes_what_their_notebooks_have():
    fcx = FCx.as_published("binary", dataset="law", weights="authors")
    assert dict(fcx.loss_weights) == {
        "proximity": 1.0,
        "validity": 76.0,
        "kl": 0.1,
        "hard": 87.0,
        "soft": 10.0,
        "sparsity": 1.0,
        "density": 10.0,
        "imitation": 0.0,
        "sums": 1.0,
    }
    assert (fcx.terms.margin, fcx.terms.draws, fcx.terms.kl, fcx.terms.number_unit) == (0.344, 50, "mean", "own")
    assert (fcx.schedule.batch, fcx.schedule.weight_decay, fcx.schedule.learning_rate) == (2048, 1e-2, 0.06)
    tuned, authors = (FCx.as_published("unary", "folktables", weights=which) for which in ("tuned", "authors"))
    assert (tuned.architecture.latent, authors.architecture.latent) == (40, 30)
    assert (tuned.terms.lof_k, authors.terms.lof_k) == (70, 20)
    assert FCx.as_published("unary", "census", weights="authors", learning_rate=0.01).schedule.learning_rate == 0.01


def test_the_authors_preset_trains_on_all_its_terms():
    fcx = FCx.as_published("unary", weights="authors").set_params(schedule__epochs=2, terms__draws=3, terms__lof_k=5)
    last = fcx.fit(loans.task(gradients=True)).history_.epochs[-1].train
    assert set(last) == {"proximity", "validity", "kl", "hard", "soft", "sparsity", "density", "sums", "total"}
    assert last["total"] == pytest.approx(sum(w * last[n] for n, w in fcx.loss_weights if w), rel=1e-4)


def test_unknown_presets_are_all_named():
    with pytest.raises(DataError) as error:
        FCx.as_published("ternary", dataset="adlut", weights="best")
    assert "Choose tuned or authors" in str(error.value)
    assert "adlut" in str(error.value)
    assert "ternary" in str(error.value)
    assert "Did you mean 'adult'" in str(error.value)


def test_parameters_are_read_and_set_as_in_scikit_learn():
    from sklearn.base import clone

    fcx = FCx(seed=3).set_params(architecture__latent=5, loss_weights__density=0)
    assert fcx.get_params()["architecture__latent"] == 5
    assert fcx.get_params(deep=False)["loss_weights"].density == 0
    twin = clone(fcx)
    assert twin.get_params() == fcx.get_params()
    with pytest.raises(DataError, match="Did you mean 'architecture__latent'"):
        fcx.set_params(architecture__latnet=5)


def test_it_is_an_estimator_of_scikit_learn():
    from sklearn.base import BaseEstimator, clone

    assert isinstance(FCx(), BaseEstimator)
    assert clone(FCx()).get_params() == FCx().get_params()
    assert set(FCx().get_params(deep=False)) == set(inspect.signature(FCx).parameters)
    # Nothing is looked at before fit.
    strange = FCx(seed="one", architecture=5, terms=None)
    assert clone(strange).get_params() == strange.get_params()
    assert "architecture: is a int" in repr(strange)
    with pytest.raises(TrainingError, match="seed") as error:
        strange.fit(loans.task())
    assert {fault.place for fault in error.value.faults} == {"seed", "architecture", "terms"}


def test_a_notebook_shows_ours(fitted: FCx):
    assert fitted._repr_mimebundle_() == {"text/plain": repr(fitted), "text/html": fitted._repr_html_()}


def test_a_fitted_one_is_known_as_such_and_its_clone_is_not(fitted: FCx):
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(fitted)
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(fitted))


def test_parameters_that_were_renamed_say_their_new_names(fitted: FCx):
    with pytest.raises(TypeError, match=r"^FCx no longer has a parameter 'weights': use loss_weights$"):
        FCx(weights=LossWeights())
    with pytest.raises(TypeError, match="use significance"):
        FCx(alpha=0.05)
    with pytest.raises(DataError, match=r"'alpha': is not known\. It is now significance\."):
        FCx().set_params(alpha=0.05)
    with pytest.raises(DataError, match="It is now loss_weights__soft"):
        FCx().set_params(weights__soft=0)
    with pytest.raises(TypeError, match=r"^FCx\.explain no longer has a parameter 'weights': use cost$"):
        fitted.explain(loans.table(5), weights={"change": 2})
    for old in ("on_rows", "on_why"):
        for asked in (fitted.explain, fitted.explain_file):
            with pytest.raises(TypeError, match=f"{old!r}: use on_progress"):
                asked("rows.csv", "answers.parquet", **{old: print})


def test_settings_that_cannot_work_are_refused_all_at_once():
    with pytest.raises(TrainingError) as error:
        FCx().set_params(schedule=Schedule(epochs=5)).set_params(seed=-1, device="foo", hard="soft").fit(loans.task())
    assert all(word in str(error.value) for word in ("seed", "foo", "hard"))
    for name, value in (
        ("schedule__learning_rate", float("nan")),
        ("schedule__batch", 1),
        ("architecture__latent", 0),
        ("architecture__dropout", 3),
        ("architecture__hidden", ()),
        ("terms__lof_k", 0),
        ("terms__sparsity", "l3"),
    ):
        with pytest.raises(TrainingError, match=name.split("__")[1]):
            FCx().set_params(**{name: value})


def test_nothing_is_explained_before_fitting():
    with pytest.raises(NotFittedError, match="fit"):
        FCx().explain(loans.table())
    with pytest.raises(NotFittedError):
        FCx().save("nowhere")


def test_answers_are_legal_and_say_how_they_were_made(fitted: FCx):
    rows = loans.table(50, seed=1)
    kept = rows.copy()
    found = fitted.explain(rows)
    pd.testing.assert_frame_equal(rows, kept)
    assert found.rows.index.equals(rows.index)
    assert found.checks.in_domain.all()
    assert found.checks.immutables_kept.all()
    assert set(found.counts) <= {"verified", "best_effort", "already"}
    assert (found.status == "already").to_numpy().tolist() == (~fitted.task_.refused(rows)).tolist()
    assert "one draw per row, no repair and no search" in repr(found)
    assert found.soft_valid is not None
    assert len(found.soft_valid) == len(found.answers)


def test_an_answer_depends_on_its_row_alone(fitted: FCx):
    rows = loans.table(60, seed=1)
    whole = fitted.explain(rows).frame.set_index("row")
    shuffled = fitted.explain(rows.sample(frac=1, random_state=0)).frame.set_index("row").loc[whole.index]
    pd.testing.assert_frame_equal(whole, shuffled)
    for name in rows.index[:8]:
        alone = fitted.explain(rows.loc[[name]]).frame.set_index("row")
        assert alone.iloc[0].dropna().to_dict() == whole.loc[name].dropna().to_dict()


def test_the_same_seed_gives_the_same_model_and_the_global_state_is_left_alone(smooth: FCx):
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    again = small().fit(loans.task(gradients=True))
    for name, tensor in again.model_.state_dict().items():
        assert torch.equal(tensor, smooth.model_.state_dict()[name]), name
    again.explain(loans.table(20))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    other = small(seed=1).fit(loans.task(gradients=True))
    assert not torch.equal(other.model_.output.weight, smooth.model_.output.weight)


def test_more_draws_give_more_answers(fitted: FCx):
    rows = loans.table(40, seed=1)
    found = fitted.explain(rows, k=3)
    assert set(np.bincount(found.place)) <= {0, 3}
    one = fitted.explain(rows)
    pd.testing.assert_frame_equal(found.answers[found.rank == 1].reset_index(drop=True), one.answers)


def test_a_frozen_feature_by_rule_does_not_change():
    fcx = small().fit(loans.task(rules="job' == job", gradients=True))
    found = fcx.explain(loans.table(60, seed=2))
    assert (found.answers["job"].to_numpy() == found.before["job"].to_numpy()).all()


def test_rows_that_do_not_fit_are_unreadable_or_refused_with_every_fault(fitted: FCx):
    rows = loans.table(5).assign(age=[17, 20, 99, 30, 40], job="baker")
    found = fitted.explain(rows)
    assert found.status.tolist() == ["unreadable"] * 5
    assert ["column 'age'" in why for why in found.why_not] == [True, False, True, False, False]
    assert all("baker" in why for why in found.why_not)
    with pytest.raises(SchemaError) as error:
        fitted.explain(rows, strict=True)
    assert {f.place for f in error.value.faults} == {"column 'age'", "column 'job'"}
    assert "baker" in str(error.value)


def test_no_rows_give_an_empty_answer(fitted: FCx):
    assert len(fitted.explain(loans.table(5).iloc[:0])) == 0


def test_a_graph_of_the_users_own_takes_the_place_of_discovery():
    names = list(loans.SCHEMA.names)
    matrix = np.zeros((5, 5), dtype=int)
    matrix[0, 1] = 1
    for graph in (
        CausalGraph(tuple(names), directed=(("age", "income"),)),
        matrix,
        pd.DataFrame(matrix, columns=names),
    ):
        fcx = small(schedule__epochs=1).fit(loans.task(graph=graph, gradients=True))
        assert fcx.graph_.directed == (("age", "income"),)
    with pytest.raises(DataError, match="Did you mean 'age'"):
        small().fit(loans.task(graph=CausalGraph(("agee", "income"))))


def test_a_task_in_which_nobody_is_refused_is_told():
    task = Task(loans.table(), lambda t: np.full(len(t), 0.9), schema=loans.SCHEMA, target=1)
    with pytest.raises(TrainingError, match="nothing to explain"):
        small().fit(task)


def test_a_fit_that_was_cut_off_goes_on_to_the_same_bits(tmp_path: Path, smooth: FCx):
    class Stop(Callback):
        def on_batch_end(self, training, terms):
            if training.epoch == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small().fit(loans.task(gradients=True), callbacks=[Stop()], checkpoint=tmp_path / "half")
    resumed = small().fit(loans.task(gradients=True), checkpoint=tmp_path / "half")
    for name, tensor in resumed.model_.state_dict().items():
        assert torch.equal(tensor, smooth.model_.state_dict()[name]), name
    assert resumed.history_ == smooth.history_
    with pytest.raises(FormatError, match="another fit"):
        small(seed=1).fit(loans.task(gradients=True), checkpoint=tmp_path / "half")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_refit_that_fails_leaves_everything_as_it_was(error):
    class Fail(Callback):
        def on_batch_end(self, training, terms):
            raise error

    rows = loans.table(20, seed=5)
    fcx = small().fit(loans.task(gradients=True))
    other = loans.task(rules="age' >= age + 1", rows=120, gradients=True)
    before, learnt = fcx.explain(rows).frame, (fcx.task_, fcx.surrogate_, fcx.graph_, fcx.model_, fcx.history_)
    with pytest.raises(error):
        fcx.fit(other, callbacks=[Fail()])
    now = (fcx.task_, fcx.surrogate_, fcx.graph_, fcx.model_, fcx.history_)
    assert all(a is b for a, b in zip(now, learnt, strict=True))
    pd.testing.assert_frame_equal(fcx.explain(rows).frame, before)


# Saved models


def test_a_saved_model_answers_as_before(tmp_path: Path, network):
    fcx, rows = network
    fcx.save(tmp_path / "model", source={"data": "adult"})
    again = FCx.load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.explain(rows).frame, fcx.explain(rows).frame)
    assert again.get_params() == fcx.get_params()
    assert again.history_ == fcx.history_
    assert again.graph_ == fcx.graph_
    assert again.source_ == {"data": "adult"}
    assert [r.text for r in again.task_.rules] == [r.text for r in fcx.task_.rules]
    assert again.task_.units == fcx.task_.units


def test_a_users_own_model_is_asked_for_and_another_is_refused(tmp_path: Path, fitted: FCx):
    fitted.save(tmp_path / "model")
    with pytest.raises(ClassifierError, match="not saved with it"):
        FCx.load(tmp_path / "model")
    rows = loans.table(40, seed=3)
    again = FCx.load(tmp_path / "model", classifier=loans.chance)
    pd.testing.assert_frame_equal(again.explain(rows).frame, fitted.explain(rows).frame)

    def other(table: pd.DataFrame) -> np.ndarray:
        return 1 - loans.chance(table)

    with pytest.raises(
        ClassifierError, match=r"differs from the one.*In Python, FCx\.load\(\.\.\., any_classifier=True\)"
    ):
        FCx.load(tmp_path / "model", classifier=other)
    with pytest.raises(FormatError, match=r"models: does not exist\. Did you mean 'model'\?"):
        FCx.load(tmp_path / "models")
    assert FCx.load(tmp_path / "model", classifier=other, any_classifier=True).task_ is not None


def test_the_shapes_told_are_those_of_the_model(fitted: FCx):
    shapes = {name: tuple(t.shape) for name, t in fitted.model_.state_dict().items()}
    assert weight_shapes(fitted.model_.layout, fitted.architecture) == shapes


def _sealed(folder: Path, change) -> None:
    """Change a manifest's content as somebody would who knows how to seal it again."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text(encoding="utf-8"))["content"]
    change(content)
    weights = (folder / "weights.safetensors").read_bytes()
    path.write_bytes(manifest.compose("fcx", content, weights))


def _places(value: object, path: tuple = ()) -> list[tuple]:
    """The way to every value inside plain data."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in _places(inner, (*path, key)))]


def test_content_that_was_tampered_with_and_sealed_again_is_refused_or_harmless(tmp_path: Path, network):
    fcx, _ = network
    fcx.save(tmp_path / "model")
    content = json.loads((tmp_path / "model" / "manifest.json").read_text(encoding="utf-8"))["content"]
    places = [p for p in _places(content) if p and p[0] != "history"]
    draw = random.Random(0)
    junk = [None, "junk", -1, 10**9, 1e300, [], {}, True, ["a"], {"a": 1}]
    refused = 0
    for _ in range(60):
        place, value = draw.choice(places), draw.choice(junk)

        def change(data, place=place, value=value):
            for key in place[:-1]:
                data = data[key]
            data[place[-1]] = value

        target = tmp_path / "tampered"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(tmp_path / "model", target)
        _sealed(target, change)
        try:
            FCx.load(target)
        except (FormatError, ClassifierError):
            refused += 1
    assert refused > 30


@pytest.mark.parametrize("name", ["hard", "significance", "n_effective", "search", "prefer", "seed"])
def test_settings_of_the_wrong_type_that_were_sealed_again_are_refused(tmp_path: Path, fitted: FCx, name: str):
    fitted.save(tmp_path / "model")
    for value in (["fewest"], {"a": 1}, "junk", -1, 10**400):
        _sealed(tmp_path / "model", lambda content, value=value: content["settings"].update({name: value}))
        if (name, value) != ("n_effective", 10**400):
            with pytest.raises(FormatError):
                FCx.load(tmp_path / "model", classifier=loans.chance)


def test_a_huge_declared_network_is_refused_before_it_is_built(tmp_path: Path, network):
    fcx, _ = network
    fcx.save(tmp_path / "model")
    _sealed(tmp_path / "model", lambda c: c["settings"]["architecture"].update(hidden=[10**9, 10**9]))
    with pytest.raises(FormatError, match="shapes"):
        FCx.load(tmp_path / "model")


def test_bits_that_flip_are_noticed(tmp_path: Path, network):
    fcx, _ = network
    fcx.save(tmp_path / "model")
    draw = random.Random(1)
    for name in ("manifest.json", "weights.safetensors") * 6:
        target = tmp_path / "flipped"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(tmp_path / "model", target)
        data = bytearray((target / name).read_bytes())
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (target / name).write_bytes(bytes(data))
        with pytest.raises(FormatError):
            FCx.load(target)


@pytest.mark.parametrize(("search", "overrides"), [(True, None), (True, {"row 0": {"freeze": "age"}}), (False, None)])
def test_rows_that_lack_a_column_or_are_no_table_are_refused_in_words(fitted, search, overrides):
    rows = loans.table(5)
    state = copy.copy(fitted)
    state.search = search
    for wrong, said in (
        (rows.drop(columns="age"), "column 'age': is not in the table"),
        (rows.iloc[0], r"is a Series, not a pandas DataFrame.*rows.iloc\[\[0\]\]"),
        (rows.to_numpy(), r"is a ndarray, not a pandas DataFrame.*pd.DataFrame\(rows, columns="),
        (rows.iloc[0].to_dict(), r"is a dict, not a pandas DataFrame.*pd.DataFrame\(\[row\]\)"),
    ):
        with pytest.raises(SchemaError, match=said):
            state.explain(wrong, overrides=overrides)


# Without a generator


@pytest.fixture(scope="module")
def searching() -> FCx:
    return FCx(generator=False, seed=0).fit(loans.task())


def test_without_a_generator_every_answer_is_found_by_the_search(searching: FCx):
    assert searching.model_ is None
    assert searching.surrogate_ is None
    assert searching.history_.epochs == []
    assert "no generator" in repr(searching)
    answers = searching.explain(loans.table(60, seed=1), k=2, prefer="sparse", budget=200, why_not=True)
    assert set(answers.status) <= {"already", "verified"}
    assert answers.frame["rank"].max() == 2
    assert all(c.draws == 0 for c in answers.certificates)
    own = searching.explain(loans.table(60, seed=1), overrides={"row 0": {"freeze": "income"}}).frame
    row = loans.table(60, seed=1).loc["row 0"]
    assert (own.loc[own["row"] == "row 0", "income"] == row["income"]).all()


def test_without_a_generator_it_is_saved_loaded_and_cloned(tmp_path: Path, searching: FCx):
    from sklearn.base import clone

    rows = loans.table(40, seed=2)
    searching.save(tmp_path / "model")
    again = FCx.load(tmp_path / "model", loans.chance)
    assert again.generator is False
    assert again.model_ is None
    pd.testing.assert_frame_equal(again.explain(rows).frame, searching.explain(rows).frame)
    rows.to_parquet(tmp_path / "rows.parquet")
    done = again.explain_file(tmp_path / "rows.parquet", tmp_path / "answers.parquet", chunk=15)
    assert done.explanation(again.task_).frame.equals(searching.explain(rows).frame)
    assert clone(again).get_params() == searching.get_params()


def test_a_refit_without_a_generator_leaves_none_behind():
    fcx = small().fit(loans.task(gradients=True))
    fcx = fcx.set_params(**FCx(generator=False).get_params(deep=False)).fit(loans.task())
    assert (fcx.model_, fcx.surrogate_) == (None, None)
    assert fcx.explain(loans.table(10)).certificates


def test_what_only_a_generator_can_do_is_refused_by_name(searching: FCx, tmp_path: Path):
    wrong = FCx(generator=False, loss_weights=LossWeights(kl=3.0), schedule=Schedule(epochs=2), hard="rules")
    with pytest.raises(TrainingError) as error:
        wrong.set_params(search=False, device="cuda").fit(loans.task(), checkpoint=tmp_path, validation=loans.table())
    told = ("loss_weights", "schedule", "hard", "search=False", "device", "checkpoint", "validation")
    assert all(word in str(error.value) for word in told)
    assert "Leave it out, or fit with generator=True." in str(error.value)
    assert "architecture" not in str(error.value)
    with pytest.raises(DataError, match=r"draws=1: needs the generator.*generator=True"):
        searching.explain(loans.table(3), draws=1)
    with pytest.raises(DataError, match=r"quick=True: needs the generator.*generator=True"):
        searching.explain(loans.table(3), quick=True)
    with pytest.raises(TrainingError, match="generator=True"):
        searching.training(loans.task())


def test_without_a_generator_a_task_in_which_nothing_may_change_is_told():
    frozen = "".join(f"{name}' == {name}\n" for name in loans.SCHEMA.names)
    with pytest.raises(DataError, match="no feature may change"):
        FCx(generator=False).fit(loans.task(rules=frozen))
