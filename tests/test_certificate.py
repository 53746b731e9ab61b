"""Certificates: what they say is so, in the published form, whoever asks and whatever was asked beside it."""

from __future__ import annotations

import dataclasses
import functools
import json

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

import loans
from effort import examples
from fcxplain import Certificate, Explanation, Feature, Schema, Task
from fcxplain.explanation import certificate_schema
from fcxplain.explanation.certificate import PROBES, json_texts, model_id, rules_id
from fcxplain.explanation.lof import PointLof
from fcxplain.metrics import METRICS
from fcxplain.overrides import Overrides
from fcxplain.rules import holds, in_words
from fcxplain.search import Search

pytestmark = pytest.mark.filterwarnings("ignore::fcxplain.errors.FcxWarning")

FORM = jsonschema.Draft202012Validator(certificate_schema())
TASK = loans.task()


def explained(
    rows: pd.DataFrame, answers: pd.DataFrame, task: Task = TASK, place: np.ndarray | None = None, **more
) -> Explanation:
    place = np.arange(len(rows)) if place is None else place
    wanted = np.full(len(rows), task.target, dtype=object)
    return Explanation.of(task, rows, answers, place, method="by hand", wanted=wanted, **more)


def shuffled(rows: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    """Answers that change a few features at random, and so keep or break whatever they like."""
    rng = np.random.default_rng(seed)
    other = rows.sample(frac=1, random_state=seed).set_axis(rows.index)
    return rows.where(rng.random(rows.shape) < 0.6, other).astype(rows.dtypes)


ROWS = loans.table(60, seed=5)
MIXED = explained(ROWS, shuffled(ROWS), calls=np.arange(60), draws=16)


# Form


def in_form(explanation: Explanation) -> bool:
    """Whether every certificate has the published form, as it is and after a way through JSON."""
    for certificate in explanation.certificates:
        data = certificate.to_dict()
        FORM.validate(data)
        assert json.loads(json.dumps(data, allow_nan=False)) == data
    dumped = [json.dumps(c.to_dict(), ensure_ascii=False) for c in explanation.certificates]
    assert json_texts(explanation.certificates) == dumped
    return len(explanation.certificates) > 0


def test_the_published_schema_is_a_json_schema():
    jsonschema.Draft202012Validator.check_schema(certificate_schema())


def test_every_certificate_has_the_published_form():
    assert set(MIXED.counts) == {"verified", "best_effort"}
    assert in_form(MIXED)


def test_certificates_of_the_search_have_the_published_form():
    found = Search(TASK).explain(ROWS.iloc[:12])
    assert found.counts["verified"] > 0
    assert in_form(found)
    assert all(c.passed for c in found.certificates)


def test_certificates_of_values_that_do_not_exist_have_the_published_form():
    answers = ROWS.iloc[:4].astype(object)
    answers.iloc[0, 3], answers.iloc[1, 1], answers.iloc[2, 0], answers.iloc[3, 3] = "pilot", np.inf, np.nan, None
    found = explained(ROWS.iloc[:4], answers)
    assert in_form(found)
    assert [c.predicted for c in found.certificates] == [None] * 4
    assert [c.to_dict()["lof"] for c in found.certificates] == [None] * 4


@pytest.mark.parametrize(
    "index",
    [
        pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]),
        pd.date_range("2024-01-01", periods=2),
        pd.Index([np.float64(0.5), np.nan]),
        pd.Index([True, False]),
        pd.Index([1, "two"]),
        pd.Index(['"changes": []', 'ä\\"rules": []']),
    ],
)
def test_labels_of_any_kind_have_the_published_form(index):
    rows = ROWS.iloc[:2].set_axis(index)
    assert in_form(explained(rows, rows.assign(income=8000.0)))


def test_classes_may_be_numbers_or_truths():
    for classes in ((0, 1), (0.5, 1.5), (False, True)):
        task = Task(loans.table(), loans.chance, schema=loans.SCHEMA, target=classes[1], classes=classes)
        assert in_form(explained(ROWS, shuffled(ROWS), task))


@pytest.mark.parametrize(
    "edit",
    [
        {"note": "looks fine"},
        {"status": "certified"},
        {"found_by": "luck"},
        {"passed": False},
        {"valid": False},
        {"probability": 1.5},
        {"model": "none"},
        {"changes": [{"feature": "age"}]},
        {"rules": [{"rule": "", "words": "", "kept": False, "now": {}, "then": {}}]},
    ],
)
def test_what_is_no_certificate_is_refused(edit):
    good = next(c for c in MIXED.certificates if c.passed).to_dict()
    FORM.validate(good)
    with pytest.raises(jsonschema.ValidationError):
        FORM.validate(good | edit)


def test_no_part_of_a_certificate_may_be_missing():
    good = MIXED.certificates[0].to_dict()
    for name in good:
        with pytest.raises(jsonschema.ValidationError, match=r"required property|not valid under any"):
            FORM.validate({key: value for key, value in good.items() if key != name})


def test_the_schema_names_every_field_and_no_other():
    fields = {f.name for f in dataclasses.fields(Certificate) if f.compare} | {"passed"}
    assert set(certificate_schema()["properties"]) == fields
    scores = {"probability", "probability_now", "needed", "output", "output_now"}
    told = fields - {"cut_short", "noted"} - scores
    assert set(certificate_schema()["required"]) == told, "scores are of classes or of numbers; the rest may be absent"


# Content


def test_certificates_say_what_a_plain_reading_of_each_pair_says():
    features, names = loans.SCHEMA, loans.SCHEMA.names
    for i, c in enumerate(MIXED.certificates):
        now, then = ROWS.iloc[[i]], MIXED.answers.iloc[[i]]
        moved = [n for n in names if now[n].iloc[0] != then[n].iloc[0]]
        assert [(m.feature, m.now, m.then) for m in c.changes] == [(n, now[n].iloc[0], then[n].iloc[0]) for n in moved]
        assert [r.kept for r in c.rules] == [bool(holds(rule, now, then)[0]) for rule in TASK.rules]
        assert [r.words for r in c.rules] == [in_words(rule) for rule in TASK.rules]
        assert c.rules[0].now == {"age": now["age"].iloc[0]}
        assert c.rules[0].then == {"age": then["age"].iloc[0]}
        assert c.probability == pytest.approx(loans.chance(then)[0])
        assert c.valid == (loans.chance(then)[0] > 0.5)
        assert c.immutables_kept == all(f.mutable or f.name not in moved for f in features)
        assert (c.row, c.rank, c.calls, c.draws) == (ROWS.index[i], 1, i, 16)
        assert c.status == ("verified" if c.passed else "best_effort")


def test_one_certificate_is_the_same_as_in_the_list_of_all():
    alone = explained(ROWS, shuffled(ROWS), calls=np.arange(60), draws=16)
    assert [alone.certificate(i) for i in (0, 7, -1)] == [MIXED.certificates[i] for i in (0, 7, -1)]
    assert alone.certificates == MIXED.certificates
    assert alone.certificate(7) is alone.certificates[7]
    with pytest.raises(IndexError):
        alone.certificate(60)


def test_certificates_do_not_depend_on_the_rows_beside_them():
    part = np.array([40, 3, 17])
    some = explained(ROWS.iloc[part], MIXED.answers.iloc[part], calls=part, draws=16)
    assert some.certificates == [MIXED.certificates[i] for i in part]


def test_values_that_are_equal_but_of_another_kind_are_not_mixed_up():
    schema = Schema((Feature("a", "integer", low=0, high=9), Feature("b", "integer", low=0, high=9)))
    train = pd.DataFrame({"a": [0, 5, 9], "b": [0, 5, 9]})
    task = Task(train, lambda t: t["a"].to_numpy(float) / 9, schema=schema, rules="a' >= b", target=1)
    rows = pd.DataFrame({"a": pd.Series([1, 1.0], dtype=object), "b": [0, 0]})
    then = pd.DataFrame({"a": pd.Series([9.0, 9], dtype=object), "b": [0, 0]})
    found = explained(rows, then, task).certificates
    assert [type(c.changes[0].then) for c in found] == [float, int]
    assert [type(c.rules[0].then["a"]) for c in found] == [float, int]


# LOF


def test_lof_is_the_local_outlier_factor_by_scikit_learn():
    encoder, train = TASK.encoder, TASK.train.drop_duplicates()
    oracle = LocalOutlierFactor(n_neighbors=20, novelty=True).fit(encoder.encode(train).double().numpy())
    expected = -oracle.score_samples(encoder.encode(MIXED.answers).double().numpy())
    assert MIXED.lof == pytest.approx(expected, abs=1e-5)
    assert [c.lof for c in MIXED.certificates] == MIXED.lof.tolist()


@pytest.mark.parametrize(("rows", "columns"), [(400, 3), (400, 20), (25, 2), (3, 2)])
def test_densities_found_on_demand_are_those_of_scikit_learn(rows, columns):
    generator = np.random.default_rng(0)
    fixed = np.unique(generator.integers(0, 9, (rows, columns)) / 8, axis=0)
    new = np.concatenate([generator.random((40, columns)), fixed[:3]])
    k = min(20, len(fixed) - 1)
    expected = -LocalOutlierFactor(n_neighbors=k, novelty=True).fit(fixed).score_samples(new)
    lof = PointLof(fixed, k)
    # One after the other, then again with all densities known, then all at once.
    assert np.concatenate([lof.scores(new[[i]]) for i in range(len(new))]) == pytest.approx(expected, rel=1e-12)
    assert lof.scores(new) == pytest.approx(expected, rel=1e-12)
    assert PointLof(fixed, k).scores(new) == pytest.approx(expected, rel=1e-12)


def test_one_certificate_does_not_pay_for_the_densities_of_all_rows(monkeypatch):
    asked, find = [], NearestNeighbors.kneighbors
    monkeypatch.setattr(
        NearestNeighbors, "kneighbors", lambda self, x, k=None: asked.append(len(x)) or find(self, x, k)
    )
    fixed = np.random.default_rng(0).random((5_000, 4))
    PointLof(fixed, 20).scores(fixed[:1] + 0.01)
    assert sum(asked) <= 1 + 20 + 20 * 20


def test_lofs_average_to_the_metric():
    assert np.mean([c.lof for c in MIXED.certificates]) == pytest.approx(METRICS["lof_to_data"](MIXED, TASK))


def test_explaining_does_not_pay_for_lof(monkeypatch):
    fitted, fit = [], NearestNeighbors.fit
    monkeypatch.setattr(NearestNeighbors, "fit", lambda self, rows: fitted.append(len(rows)) or fit(self, rows))
    found = explained(ROWS, shuffled(ROWS), loans.task())
    assert len(found.frame) == 60
    assert found.changes(0) == MIXED.changes(0)
    assert not fitted
    assert found.certificate(0).lof is not None
    assert found.certificate(1).lof is not None
    assert len(fitted) == 1


def test_training_rows_all_alike_have_no_lof():
    task = Task(pd.concat([ROWS.iloc[[0]]] * 5), loans.chance, schema=loans.SCHEMA, target=1)
    assert [c.lof for c in explained(ROWS, ROWS, task).certificates] == [None] * 60


# Fingerprints


def test_the_same_model_is_known_again_whatever_rows_and_rules_are_at_hand():
    other = Task(
        loans.table(50, seed=9),
        lambda rows: loans.chance(rows) + 1e-9,
        schema=loans.SCHEMA,
        rules="age' >= age",
        target="yes",
        classes=("no", "yes"),
        encoder=TASK.encoder,
        seed=7,
    )
    assert model_id(other) == model_id(TASK)
    assert MIXED.certificates[0].model == model_id(TASK)


@pytest.mark.parametrize("change", [{"threshold": 0.5001}, {"classes": ("refused", "yes")}])
def test_another_threshold_or_other_classes_are_another_model(change):
    known = {"schema": loans.SCHEMA, "target": "yes", "classes": ("no", "yes")} | change
    assert model_id(Task(loans.table(), loans.chance, **known)) != model_id(TASK)


def test_another_model_is_told_from_this_one():
    known = {"schema": loans.SCHEMA, "target": "yes", "classes": ("no", "yes")}
    slope = Task(loans.table(), lambda rows: loans.chance(rows) ** 1.1, **known)
    assert model_id(slope) != model_id(TASK)


def test_a_model_is_asked_once_for_its_fingerprint():
    asked = []
    task = Task(
        loans.table(),
        lambda rows: asked.append(len(rows)) or loans.chance(rows),
        schema=loans.SCHEMA,
        target="yes",
        classes=("no", "yes"),
    )
    first, second = explained(ROWS, ROWS, task), explained(ROWS, ROWS, task)
    asked.clear()
    assert first.certificates[0].model == second.certificate(0).model
    # What the model says of rows as they are is asked for each explanation, where nobody asked before.
    assert asked == [len(ROWS), PROBES, len(ROWS)]


def test_a_model_that_refuses_made_up_rows_has_no_fingerprint():
    def picky(rows: pd.DataFrame) -> np.ndarray:
        if (rows["income"] > 4500).any():
            raise ValueError("nobody earns that much")
        return loans.chance(rows)

    task = Task(loans.table(), picky, schema=loans.SCHEMA, target="yes", classes=("no", "yes"))
    found = explained(ROWS, ROWS, task)
    assert found.certificates[0].model is None
    assert in_form(found)


def test_rules_have_one_fingerprint_in_any_order():
    texts = ["age' >= age", "degree' >= degree"]
    assert rules_id(loans.SCHEMA, texts) == rules_id(loans.SCHEMA, texts[::-1])
    others = [
        rules_id(loans.SCHEMA, texts[:1]),
        rules_id(loans.SCHEMA.freeze("job"), texts),
        rules_id(loans.SCHEMA.replace("age", high=81), texts),
    ]
    assert len({*others, rules_id(loans.SCHEMA, texts)}) == 4
    assert MIXED.certificates[0].rules_id == rules_id(loans.SCHEMA, [r.text for r in TASK.rules])


# Rules of single rows


def own_rules() -> Overrides:
    """The first row keeps its job, the second stays below 5000 and keeps its job, the others have nothing own."""
    table = pd.DataFrame({"rules": ["job' == job", "income' <= 5000\njob' == job"]}, index=ROWS.index[:2])
    return Overrides.read(table, ROWS.iloc[:4], TASK)


def test_rules_of_single_rows_count_for_these_rows_alone():
    rows, own = ROWS.iloc[:4], own_rules()
    answers = rows.assign(income=8000.0, job=np.where(rows["job"] == "cook", "smith", "cook"))
    found = explained(rows, answers, own=own)
    assert found.checks.kept.shape == (4, len(TASK.rules) + 2)
    assert found.checks.feasible.tolist() == [False, False, True, True]
    assert found.row_status.tolist() == ["best_effort", "best_effort", "verified", "verified"]
    told = [[(r.rule, r.kept) for r in c.rules[len(TASK.rules) :]] for c in found.certificates]
    assert told == [[("job' == job", False)], [("income' <= 5000", False), ("job' == job", False)], [], []]
    assert in_form(found)


def test_rules_of_single_rows_follow_the_answers_whatever_their_order():
    rows, own, place = ROWS.iloc[:4], own_rules(), np.array([3, 1, 1, 0])
    found = explained(rows, rows.iloc[place].assign(income=[8000.0, 8000.0, 4999.5, 8000.0]), own=own, place=place)
    assert found.checks.feasible.tolist() == [True, False, True, True]
    assert [len(c.rules) - len(TASK.rules) for c in found.certificates] == [0, 2, 2, 1]


def test_rules_of_single_rows_have_a_fingerprint_of_their_own():
    prints = [c.rules_id for c in explained(ROWS.iloc[:4], ROWS.iloc[:4], own=own_rules()).certificates]
    assert len({*prints[:2], prints[2]}) == 3
    assert prints[2] == prints[3] == MIXED.certificates[0].rules_id


def test_rules_of_single_rows_are_kept_under_another_task():
    rows = ROWS.iloc[:4]
    found = explained(rows, rows.assign(income=8000.0), own=own_rules())
    assert found.row_status[1] == "best_effort"
    # With levels in another order, the rule has to be read anew.
    job = Feature("job", "categorical", levels=("smith", "clerk", "cook"))
    schema = Schema(tuple(job if f.name == "job" else f for f in loans.SCHEMA))
    other = found.under(
        Task(loans.table(), loans.chance, schema=schema, target="yes", classes=("no", "yes"), rules="age' >= age")
    )
    assert other.checks.kept.shape == (4, 1 + 2)
    assert other.checks.feasible.tolist() == [True, False, True, True]
    assert [len(c.rules) for c in other.certificates] == [2, 3, 1, 1]


@functools.cache
def stricter(texts: frozenset[str]) -> Task:
    return loans.task(rules="\n".join([loans.RULES, *sorted(texts)]))


@examples(12)
@given(st.lists(st.sets(st.sampled_from(["age' <= 40", "job' == job", "income' >= 2000"])), min_size=1, max_size=8))
def test_own_rules_are_checked_as_if_they_were_the_tasks(sets):
    rows = ROWS.iloc[: len(sets)]
    table = pd.DataFrame({"rules": ["\n".join(sorted(s)) for s in sets]}, index=rows.index)
    found = explained(rows, MIXED.answers.iloc[: len(sets)], own=Overrides.read(table, rows, TASK))
    for i, texts in enumerate(sets):
        alone = stricter(frozenset(texts))
        expected = explained(rows.iloc[[i]], found.answers.iloc[[i]], alone)
        assert found.checks.feasible[i] == expected.checks.feasible[0]
        assert found.certificates[i].rules == expected.certificates[0].rules


# Words


HOURS = Schema(
    (
        Feature("hours_per_week", "integer", low=0, high=80, unit="hours"),
        Feature("wage", "continuous", low=0, high=100, step=0.5, label="hourly wage", unit="EUR"),
        Feature("city", "categorical", levels=("Bonn", "Ulm"), mutable=False),
    )
)


def hours() -> Explanation:
    train = pd.DataFrame({"hours_per_week": [20, 40, 60], "wage": [10.0, 20.0, 30.0], "city": ["Bonn", "Ulm", "Ulm"]})
    task = Task(
        train,
        lambda t: np.where(t["hours_per_week"] * t["wage"] >= 800, 0.75, 0.25),
        schema=HOURS,
        rules="hours_per_week' <= hours_per_week + 10",
        target="yes",
        classes=("no", "yes"),
    )
    rows = pd.DataFrame({"hours_per_week": [30, 30], "wage": [10.0, 10.0], "city": ["Bonn"] * 2}, index=["Ada", "Bo"])
    then = rows.assign(hours_per_week=[40, 50], wage=[20.0, 10.5], city=["Bonn", "Ulm"])
    return explained(rows, then, task, calls=np.array([1200, 3]), draws=16, found_by=np.array(["repair", "donor"]))


def test_a_certificate_reads_well():
    first = hours().certificates[0]
    *lines, last = str(first).splitlines()
    assert lines == [
        "row Ada, answer 1: verified",
        "  hours per week: 30 -> 40 hours",
        "  hourly wage: 10 -> 20 EUR",
        "  the model answers yes, as wanted (probability of yes: 0.250 now, 0.750 then; needed: 0.500)",
        "  kept: hours per week must not increase by more than 10 hours",
        "  checked: target class, every rule, values in their domain, immutable features",
        f"  cost 3.500, lof {first.lof:.3f} (1: as dense as around its neighbours)",
        "  found by repair (16 draws, 1,200 candidates shown to the model)",
    ]
    assert last == f"  model {first.model}, rules {first.rules_id}"
    assert repr(first) == "<row Ada, answer 1: verified>"


def test_a_best_effort_is_in_capitals_wherever_it_is_shown():
    found = hours()
    second = found.certificates[1]
    assert second.status == "best_effort"
    text = str(second)
    assert "row Bo, answer 1: BEST_EFFORT" in text
    assert "the model answers no, NOT yes as wanted" in text
    assert "BROKEN: hours per week must not increase by more than 10 hours" in text
    assert "target class (FAILED), every rule (FAILED), values in their domain, immutable" in text
    assert "immutable features (FAILED)" in text
    assert "BEST_EFFORT" in repr(second)
    assert "1 BEST_EFFORT, 1 verified" in repr(found)
    for shown in (text, repr(second), repr(found)):
        assert "best_effort" not in shown


def test_an_answer_outside_the_domain_says_that_nobody_asked_the_model():
    found = explained(ROWS.iloc[:1], ROWS.iloc[:1].assign(income=8000.25))
    assert "NOT QUERIED" in str(found.certificates[0])
    assert "values in their domain (FAILED)" in str(found.certificates[0])
