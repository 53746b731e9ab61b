"""Classifiers of every make behind one protocol (adapters, checking, scoring), training and distillation."""

from __future__ import annotations

import functools
import random
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_info, threadpool_limits
from torch import nn

from fcxplain.classifier import Classifier, Differentiable, as_classifier, differentiable, score, train_classifier
from fcxplain.classifier.protocol import SMALL_BATCH, chosen
from fcxplain.classifier.torch_modules import two_columns
from fcxplain.encoding import TableEncoder
from fcxplain.errors import ClassifierError, DataError, FcxWarning, SchemaError
from fcxplain.progress import Progress
from fcxplain.schema import Feature, Schema

SCHEMA = Schema(
    (
        Feature("age", "integer", 18, 80),
        Feature("hours per week", "integer", 0, 80),
        Feature("job", "categorical", levels=("clerk", "nurse", "smith")),
    )
)


def people(rows: int = 200, seed: int = 0) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": draws.integers(18, 81, rows),
            "hours per week": draws.integers(0, 81, rows),
            "job": draws.choice(["clerk", "nurse", "smith"], rows),
        },
        index=np.arange(rows) + 1000,
    )


def labels(rows: pd.DataFrame, classes: int = 2) -> np.ndarray:
    points = rows["age"] / 80 + rows["hours per week"] / 80 + (rows["job"] == "nurse") * 0.4
    return np.asarray(["no", "yes", "surely"], dtype=object)[np.digitize(points, [1.0, 1.5][: classes - 1])]


def table(rows: int = 400, seed: int = 0, classes: int = 2) -> pd.DataFrame:
    made = people(rows, seed)
    return made.assign(loan=labels(made, classes))


@dataclass(frozen=True)
class Data:
    train: pd.DataFrame
    validation: pd.DataFrame | None
    test: pd.DataFrame
    label: str = "loan"
    schema: Schema = SCHEMA


@dataclass(frozen=True)
class Problem:
    encoder: TableEncoder
    schema: Schema
    train: pd.DataFrame


def data(classes: int = 2) -> Data:
    return Data(table(600, 0, classes), table(80, 1, classes), table(200, 2, classes))


def problem(rows: pd.DataFrame | None = None, schema: Schema = SCHEMA) -> Problem:
    rows = people(400) if rows is None else rows
    return Problem(TableEncoder().fit(schema, rows), schema, rows)


def encoder() -> TableEncoder:
    return TableEncoder().fit(SCHEMA, people())


def pipeline(model: object) -> object:
    one_hot = ColumnTransformer([("job", OneHotEncoder(), ["job"])], remainder="passthrough")
    return make_pipeline(one_hot, model)


def fitted(classes: int = 2) -> object:
    rows = people()
    return pipeline(LogisticRegression(max_iter=2000)).fit(rows, labels(rows, classes))


def by_age(rows: pd.DataFrame) -> np.ndarray:
    """The probability of the second class: old enough."""
    return 1 / (1 + np.exp(-(rows["age"].to_numpy() - 50) / 10))


def callable_classifier(answer: object, **options: object) -> Classifier:
    return as_classifier(answer, schema=SCHEMA, **options)


class TestProtocol:
    def test_probabilities_and_class_names_go_together(self):
        classifier = callable_classifier(by_age, classes=("young", "old"))
        rows = people()
        p = classifier.probabilities(rows)
        assert p.dtype == np.float64
        assert p.shape == (200, 2)
        assert classifier.classes == ("young", "old")
        assert list(classifier.predict(rows)) == ["old" if v > 0.5 else "young" for v in by_age(rows)]
        assert isinstance(classifier, Classifier)

    def test_without_a_threshold_a_tie_goes_to_the_first_class(self):
        classifier = callable_classifier(lambda rows: np.full((len(rows), 3), 1 / 3), classes="abc")
        assert set(classifier.predict(people())) == {"a"}

    def test_with_a_threshold_equality_goes_to_the_second_class(self):
        for threshold, answered in ((0.5, "b"), (None, "a"), (0.500001, "a")):
            classifier = callable_classifier(
                lambda rows: np.full((len(rows), 2), 0.5), classes="ab", threshold=threshold
            )
            assert set(classifier.predict(people())) == {answered}

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0, 1))
    def test_a_higher_threshold_never_answers_the_second_class_more_often(self, values, threshold):
        p = np.stack([1 - np.asarray(values), values], axis=1)
        assert (chosen(p, threshold) >= chosen(p, min(1.0, threshold + 0.1))).all()
        assert (chosen(p, threshold) == (p[:, 1] >= threshold)).all()

    def test_a_threshold_is_for_two_classes_and_lies_between_0_and_1(self):
        with pytest.raises(ClassifierError, match="for two classes, but there are 3"):
            callable_classifier(by_age, classes="abc", threshold=0.3)
        with pytest.raises(ClassifierError, match=r"threshold 1.3 is not between 0 and 1"):
            callable_classifier(by_age, threshold=1.3)
        three = callable_classifier(lambda rows: np.full((len(rows), 3), 1 / 3), threshold=0.3)
        with pytest.raises(ClassifierError, match="for two classes, but there are 3"):
            three.probabilities(people())

    def test_a_classifier_is_returned_as_it_is_and_its_threshold_can_be_replaced(self):
        first = callable_classifier(by_age, threshold=0.4)
        assert as_classifier(first, schema=SCHEMA) is first
        second = as_classifier(first, schema=SCHEMA, threshold=0.9)
        renamed = as_classifier(first, schema=SCHEMA, classes=("young", "old"))
        assert (first.threshold, second.threshold, renamed.threshold) == (0.4, 0.9, 0.4)
        assert renamed.classes == ("young", "old")
        assert second.predict(people()).sum() < first.predict(people()).sum()
        with pytest.raises(ClassifierError, match="has 2 classes, but classes= names 3"):
            as_classifier(first, schema=SCHEMA, classes="abc").probabilities(people())

    def test_someone_elses_classifier_answers_as_ever_and_its_errors_are_told(self):
        def refuse(rows):
            raise ValueError("too young")

        class Theirs:
            classes, threshold, module = ("no", "yes"), None, None

            def probabilities(self, rows):
                return np.stack([1 - by_age(rows), by_age(rows)], axis=1)

            def predict(self, rows):
                return np.where(by_age(rows) > 0.5, "yes", "no")

        theirs = Theirs()
        ours = as_classifier(theirs, schema=SCHEMA)
        assert list(ours.predict(people())) == list(theirs.predict(people()))
        theirs.probabilities = refuse
        with pytest.raises(ClassifierError, match=r"Theirs failed on 1 rows. ValueError: too young"):
            as_classifier(theirs, schema=SCHEMA).probabilities(people().iloc[:1])
        theirs = Theirs()
        stricter = as_classifier(theirs, schema=SCHEMA, threshold=0.8)
        assert list(stricter.predict(people())) == list(np.where(by_age(people()) >= 0.8, "yes", "no"))

    def test_no_rows_get_no_answers_and_the_model_is_not_asked(self):
        def never(rows):
            raise AssertionError

        classifier = callable_classifier(never, classes="abc")
        assert classifier.probabilities(people().iloc[:0]).shape == (0, 3)
        assert len(classifier.predict(people().iloc[:0])) == 0

    def test_a_model_that_spoils_its_input_cannot_hurt_the_caller(self):
        def spoils(rows):
            answer = by_age(rows)
            rows.loc[:, "age"] = 0
            del rows["job"]
            return answer

        rows, kept = people(), people()
        callable_classifier(spoils).probabilities(rows)
        pd.testing.assert_frame_equal(rows, kept)

    def test_the_model_sees_the_schemas_columns_in_order_and_no_index(self):
        seen = []
        rows = people().assign(loan="yes")[["job", "loan", "hours per week", "age"]]
        callable_classifier(lambda frame: seen.append(frame) or by_age(frame)).probabilities(rows)
        assert list(seen[0].columns) == list(SCHEMA.names)
        assert isinstance(seen[0].index, pd.RangeIndex)

    def test_an_absent_column_is_named(self):
        with pytest.raises(SchemaError, match="column 'age': is not in the table"):
            callable_classifier(by_age).probabilities(people().drop(columns="age"))


class TestCallables:
    @pytest.mark.parametrize("form", [np.asarray, list, pd.Series, torch.tensor, lambda p: p.reshape(-1, 1)])
    def test_one_value_per_row_is_the_second_class(self, form):
        classifier = callable_classifier(lambda rows: form(by_age(rows)))
        p = classifier.probabilities(people())
        assert np.allclose(p[:, 1], by_age(people()))
        assert np.allclose(p.sum(axis=1), 1)
        assert classifier.classes == (0, 1)

    @pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, torch.tensor, np.ndarray.tolist])
    def test_a_column_per_class_may_come_as_any_table(self, form):
        answer = np.asarray([0.2, 0.3, 0.5])
        classifier = callable_classifier(lambda rows: form(np.tile(answer, (len(rows), 1))))
        assert np.allclose(classifier.probabilities(people()), answer)
        assert classifier.classes == (0, 1, 2)

    def test_classes_are_known_before_the_first_call_if_the_model_can_be_asked(self):
        assert callable_classifier(lambda rows: np.full((len(rows), 4), 0.25)).classes == (0, 1, 2, 3)
        open_schema = Schema((Feature("age", "integer"),))
        with pytest.raises(ClassifierError, match="give classes="):
            _ = as_classifier(by_age, schema=open_schema).classes

    def test_columns_that_name_their_classes_are_read_by_name(self):
        def answer(rows):
            return pd.DataFrame({"old": by_age(rows), "young": 1 - by_age(rows)})

        rows = people()
        assert callable_classifier(answer).classes == ("old", "young")
        named = callable_classifier(answer, classes=("young", "old"))
        assert np.allclose(named.probabilities(rows)[:, 1], by_age(rows))

    @pytest.mark.parametrize("ask_classes", [False, True])
    def test_first_use_takes_ten_calls_at_most_and_later_use_one(self, ask_classes):
        calls = []
        classifier = callable_classifier(lambda rows: calls.append(len(rows)) or by_age(rows))
        if ask_classes:
            assert classifier.classes == (0, 1)
        classifier.predict(people())
        assert len(calls) <= 10
        assert sum(calls) <= 200 + 5 * 80
        before = len(calls)
        classifier.predict(people())
        assert len(calls) == before + 1

    def test_things_that_are_no_classifier_are_refused(self):
        with pytest.raises(ClassifierError, match="a int is not a classifier"):
            callable_classifier(42)
        with pytest.raises(ClassifierError, match="LogisticRegression is a class"):
            callable_classifier(LogisticRegression)
        with pytest.raises(ClassifierError, match=r"output 'logit' .* Did you mean 'logits'"):
            callable_classifier(by_age, output="logit")


class TestFirstCall:
    """A model that does not answer as a classifier should is told so, with what to do about it."""

    def fails(self, answer, message, rows=None, **options):
        with pytest.raises(ClassifierError, match=message) as caught:
            callable_classifier(answer, **options).probabilities(people() if rows is None else rows)
        return caught.value

    def test_a_model_that_sorts_its_input(self):
        self.fails(lambda rows: by_age(rows.sort_values("age")), "depends on the order of the rows or on other rows")

    def test_a_model_that_adds_noise(self):
        draws = np.random.default_rng(0)
        error = self.fails(lambda rows: by_age(rows) * 0.9 + draws.random(len(rows)) * 0.1, "is not deterministic")
        assert "Fix its seed" in str(error)

    def test_a_model_that_normalises_over_the_batch(self):
        def over_batch(rows):
            return 1 / (1 + np.exp(-(rows["age"] - rows["age"].mean()) / 10))

        self.fails(over_batch, "no mean over the batch")
        self.fails(over_batch, "no mean over the batch", people(20))

    @pytest.mark.parametrize(
        "answer",
        [
            lambda rows: np.where(by_age(rows) > 0.5, "yes", "no"),
            lambda rows: list(np.where(by_age(rows) > 0.5, "yes", "no")),
            lambda rows: pd.Series(np.where(by_age(rows) > 0.5, "yes", "no")),
            lambda rows: (by_age(rows) > 0.5).astype(int),
            lambda rows: by_age(rows) > 0.5,
            lambda rows: torch.tensor(by_age(rows) > 0.5).float(),
            lambda rows: (by_age(rows) > 0.5).astype(int).reshape(-1, 1),
        ],
    )
    def test_a_model_that_returns_labels(self, answer):
        self.fails(answer, "returned labels, not probabilities.*predict_proba")

    def test_a_model_that_returns_its_class_names_as_numbers(self):
        self.fails(lambda rows: np.where(by_age(rows) > 0.5, 7, 3), "returned labels", classes=(3, 7))

    def test_a_certain_model_may_answer_0_and_1_in_two_columns(self):
        sure = callable_classifier(lambda rows: np.eye(2)[(by_age(rows) > 0.5).astype(int)])
        assert set(sure.probabilities(people())[:, 1]) == {0.0, 1.0}

    def test_a_model_that_raises_is_named_with_its_own_message(self):
        def broken(rows):
            raise RuntimeError("the oven is cold")

        error = self.fails(broken, "broken failed on 200 rows. RuntimeError: the oven is cold")
        assert isinstance(error.__cause__, RuntimeError)

    def test_a_model_that_answers_nan_names_the_first_row(self):
        error = self.fails(
            lambda rows: np.where(rows["age"] == people()["age"].iloc[7], np.nan, by_age(rows)),
            "returned NaN or infinity",
        )
        assert error.faults[0].first == people().index[people()["age"] == people()["age"].iloc[7]][0]

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (lambda rows: by_age(rows)[:-1], "shape 199 for 200 rows"),
            (lambda rows: np.full((2, len(rows)), 0.5), "shape 2 x 200 for 200 rows"),
            (lambda rows: np.full((len(rows), 2, 2), 0.5), "shape 200 x 2 x 2 for 200 rows"),
            (lambda rows: 0.5, "returned a float, not an array"),
            (lambda rows: None, "returned a NoneType, not an array"),
            (lambda rows: [[0.5, 0.5], [1.0]], "uneven shape"),
            (lambda rows: [{}] * len(rows), "not a number"),
        ],
    )
    def test_a_model_that_answers_in_the_wrong_shape(self, answer, message):
        self.fails(answer, message)

    def test_a_model_with_another_number_of_classes(self):
        self.fails(by_age, "one value per row, good for two classes, but there are 3", classes="abc")
        self.fails(lambda r: np.full((len(r), 4), 0.25), "4 columns, but there are 2 classes", classes="ab")

    def test_a_model_whose_probabilities_do_not_sum_to_one(self):
        self.fails(lambda rows: np.full((len(rows), 2), 0.4), r"do not sum to 1, e.g. to 0.8 \(200 rows")

    def test_a_model_that_answers_logits(self):
        self.fails(lambda rows: np.tile([-2.0, 3.0], (len(rows), 1)), "outside 0 to 1.*output='logits'")

    def test_later_answers_are_checked_too(self):
        answers = iter([0.5, 0.5, np.nan, 0.5])
        classifier = callable_classifier(lambda rows: np.full((len(rows), 2), next(answers)))
        classifier.probabilities(people())
        with pytest.raises(ClassifierError, match="NaN or infinity"):
            classifier.probabilities(people())

    def test_order_is_checked_at_the_first_call_with_more_than_one_row(self):
        classifier = callable_classifier(lambda rows: by_age(rows.sort_values("age")))
        classifier.probabilities(people().iloc[:1])
        with pytest.raises(ClassifierError, match="or on other rows"):
            classifier.probabilities(people())

    @given(st.integers(2, 90), st.integers(0, 5))
    @settings(max_examples=20, deadline=None)
    def test_an_honest_model_passes_on_any_table(self, rows, seed):
        table = people(rows, seed)
        assert np.allclose(callable_classifier(by_age).probabilities(table)[:, 1], by_age(table))


class TestScikitLearn:
    @pytest.mark.parametrize("classes", [2, 3])
    def test_a_pipeline_on_raw_columns_answers_as_it_does_itself(self, classes):
        model, rows = fitted(classes), people(50, seed=3)
        classifier = as_classifier(model, schema=SCHEMA)
        assert classifier.classes == tuple(model.classes_)
        assert np.allclose(classifier.probabilities(rows), model.predict_proba(rows))
        assert (classifier.predict(rows) == model.predict(rows)).all()
        assert classifier.module is None

    def test_columns_are_given_in_the_order_of_the_fit(self):
        rows = people()
        backwards = rows[["job", "hours per week", "age"]]
        model = pipeline(LogisticRegression(max_iter=2000)).fit(backwards, labels(rows))
        assert np.allclose(as_classifier(model, schema=SCHEMA).probabilities(rows), model.predict_proba(backwards))

    def test_a_model_of_some_of_the_features_gets_only_these(self):
        rows = people()
        model = LogisticRegression().fit(rows[["age"]], labels(rows))
        assert np.allclose(as_classifier(model, schema=SCHEMA).probabilities(rows), model.predict_proba(rows[["age"]]))

    def test_a_model_fitted_on_arrays_gets_arrays_without_a_warning(self):
        numbers = Schema(SCHEMA.features[:2])
        rows = people()[list(numbers.names)]
        model = LogisticRegression().fit(rows.to_numpy(), labels(rows.assign(job="clerk")))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            p = as_classifier(model, schema=numbers).probabilities(rows)
        assert np.allclose(p, model.predict_proba(rows.to_numpy()))

    def test_other_columns_are_listed_with_the_nearest_name(self):
        rows = people().rename(columns={"age": "aeg"}).assign(income=1)
        model = LogisticRegression().fit(rows[["aeg", "income"]], labels(people()))
        with pytest.raises(ClassifierError, match="was fitted on other columns") as caught:
            as_classifier(model, schema=SCHEMA)
        assert [f.place for f in caught.value.faults] == ["column 'aeg'", "column 'income'"]
        assert "Did you mean 'age'?" in str(caught.value)
        model = LogisticRegression().fit(np.zeros((4, 9)), [0, 1, 0, 1])
        with pytest.raises(ClassifierError, match="fitted on 9 columns without names, but the schema has 3"):
            as_classifier(model, schema=SCHEMA)

    @pytest.mark.parametrize(("mark", "option"), [("_", ""), ("=", ", prefix_sep='='")])
    def test_one_hot_columns_are_recognised_and_told_in_one_line_that_works(self, mark, option):
        rows = people()
        encoded = pd.get_dummies(rows, columns=["job"], prefix_sep=mark)
        model = LogisticRegression(max_iter=2000).fit(encoded, labels(rows))
        with pytest.raises(ClassifierError) as caught:
            as_classifier(model, schema=SCHEMA)
        (fault,) = caught.value.faults
        levels = len(SCHEMA["job"].levels)
        assert f"it looks one-hot encoded: {levels} columns job{mark}*. Put the encoder into a pipeline" in str(fault)
        written = f"lambda rows: model.predict_proba(pd.get_dummies(rows, columns=['job']{option})"
        assert f"{written}.reindex(columns=model.feature_names_in_, fill_value=0)), classes=model.classes_" in str(
            fault
        )

        def callable_of_the_remedy(rows):
            made = pd.get_dummies(rows, columns=["job"], prefix_sep=mark)
            return model.predict_proba(made.reindex(columns=model.feature_names_in_, fill_value=0))

        remedied = as_classifier(callable_of_the_remedy, schema=SCHEMA, classes=model.classes_)
        assert np.allclose(remedied.probabilities(rows.head(1)), model.predict_proba(encoded.head(1)))

    def test_names_that_only_look_like_one_hot_columns_are_told_one_by_one(self):
        rows = people().assign(job_title=1, aeg=2)
        encoded = pd.get_dummies(rows, columns=["job"])
        with pytest.raises(ClassifierError) as caught:
            as_classifier(LogisticRegression().fit(encoded[["job_title"]], labels(rows)), schema=SCHEMA)
        assert [f.place for f in caught.value.faults] == ["column 'job_title'"]
        with pytest.raises(ClassifierError) as caught:
            as_classifier(LogisticRegression(max_iter=2000).fit(encoded, labels(rows)), schema=SCHEMA)
        places = [f.place for f in caught.value.faults]
        assert places == ["it looks one-hot encoded", "column 'job_title'", "column 'aeg'"]

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (LogisticRegression(), "LogisticRegression: is not fitted yet"),
            (pipeline(LogisticRegression()), r"Pipeline\(LogisticRegression\): is not fitted yet"),
            (LinearSVC(), "has no predict_proba, only labels.*CalibratedClassifierCV"),
            (LinearRegression(), "LinearRegression: is not fitted yet"),
            (pipeline(LinearRegression()), r"Pipeline\(LinearRegression\): is not fitted yet"),
        ],
    )
    def test_models_that_cannot_answer_are_refused(self, model, message):
        with pytest.raises(ClassifierError, match=message):
            as_classifier(model, schema=SCHEMA)

    def test_regressors_have_no_classes_and_classifiers_no_range(self):
        rows = people()
        for model in (LinearRegression(), pipeline(LinearRegression())):
            seen = rows if hasattr(model, "steps") else rows[["age"]]
            model.fit(seen, rows["hours per week"])
            classifier = as_classifier(model, schema=SCHEMA)
            assert classifier.classes == ()
            assert np.allclose(classifier.probabilities(rows)[:, 0], model.predict(seen))
            with pytest.raises(ClassifierError) as caught:
                as_classifier(model, schema=SCHEMA, classes=("no", "yes"), threshold=0.4)
            assert "predicts numbers, not classes" in str(caught.value)
            assert [f.place for f in caught.value.faults] == ["classes=('no', 'yes')", "threshold=0.4"]
        with pytest.raises(ClassifierError, match=r"Pipeline\(LogisticRegression\): is not a regressor.*callable"):
            as_classifier(fitted(), schema=SCHEMA, regression=True)

    def test_the_remedy_for_a_model_without_probabilities_works(self):
        rows = people()
        model = pipeline(CalibratedClassifierCV(LinearSVC())).fit(rows, labels(rows))
        assert as_classifier(model, schema=SCHEMA).probabilities(rows).shape == (200, 2)

    def test_classes_can_be_renamed_in_their_order(self):
        rows = people()
        model = pipeline(LogisticRegression(max_iter=2000)).fit(rows, (labels(rows) == "yes").astype(int))
        assert as_classifier(model, schema=SCHEMA).classes == (0, 1)
        renamed = as_classifier(model, schema=SCHEMA, classes=("no", "yes"))
        assert set(renamed.predict(rows)) == {"no", "yes"}
        with pytest.raises(ClassifierError, match="has 2 classes, but classes= names 3"):
            as_classifier(model, schema=SCHEMA, classes="abc")

    def test_scikit_learns_own_thresholds_are_kept(self):
        rows = people()
        model = FixedThresholdClassifier(pipeline(LogisticRegression(max_iter=2000)), threshold=0.8)
        model.fit(rows, labels(rows))
        classifier = as_classifier(model, schema=SCHEMA)
        assert classifier.threshold == 0.8
        assert (classifier.predict(rows) == model.predict(rows)).all()

    def test_a_model_with_category_columns_gets_them_back(self):
        rows = people().astype({"job": "category"})
        seen = []

        class Model:
            classes_ = np.asarray(["no", "yes"])

            def predict_proba(self, frame):
                seen.append(frame["job"].dtype)
                return np.full((len(frame), 2), 0.5)

        model = as_classifier(Model(), schema=SCHEMA, encoder=TableEncoder().fit(SCHEMA, rows))
        model.probabilities(people())
        assert all(dtype == rows["job"].dtype for dtype in seen)


class TestBoosters:
    @pytest.mark.parametrize("classes", [2, 3])
    def test_lightgbm_on_category_columns_and_names_with_blanks(self, classes):
        lightgbm = pytest.importorskip("lightgbm")
        rows = people().astype({"job": "category"})
        model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(rows, labels(rows, classes))
        classifier = as_classifier(model, schema=SCHEMA, encoder=TableEncoder().fit(SCHEMA, rows))
        assert classifier.classes == tuple(model.classes_)
        expected = model.predict_proba(rows)
        assert np.allclose(classifier.probabilities(rows), expected)
        assert np.allclose(classifier.probabilities(people()), expected), "text instead of categories"

    def test_categories_that_a_model_wants_are_told_with_the_ways_to_give_them(self):
        lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
        text, rows = people(), people().astype({"job": "category"})
        dtypes, y = rows.dtypes[["job"]], (people()["age"] > 40).astype(int)
        for model in (
            lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1),
            xgboost.XGBClassifier(n_estimators=2, enable_categorical=True, n_jobs=1),
        ):
            model.fit(rows, y)
            remedy = r"needs pandas categories, but 'job' is text .*trained_on\.dtypes\[\['job'\]\]"
            with pytest.raises(ClassifierError, match=remedy):
                as_classifier(model, schema=SCHEMA).probabilities(text)
            converting = as_classifier(lambda r, m=model: m.predict_proba(r.astype(dtypes)), schema=SCHEMA)
            assert np.allclose(converting.probabilities(text), model.predict_proba(rows))

    def test_a_pipeline_that_meets_an_unknown_level_is_not_told_to_take_categories(self):
        model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(people()[["job"]], labels(people()))
        jobs = Schema((SCHEMA["job"],))
        with pytest.raises(ClassifierError, match="unknown categories") as caught:
            as_classifier(model, schema=jobs).probabilities(people()[["job"]].assign(job="astronaut"))
        assert "pandas categories" not in str(caught.value)

    def test_lightgbm_fitted_on_arrays(self):
        lightgbm = pytest.importorskip("lightgbm")
        numbers = Schema(SCHEMA.features[:2])
        rows = people()[list(numbers.names)]
        model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1)
        model.fit(rows.to_numpy(), labels(people()))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            p = as_classifier(model, schema=numbers).probabilities(rows)
        assert np.allclose(p, model.predict_proba(rows.to_numpy()))

    @pytest.mark.parametrize("classes", [2, 3])
    def test_xgboost_on_category_columns(self, classes):
        xgboost = pytest.importorskip("xgboost")
        rows = people().astype({"job": "category"})
        names = ("no", "yes", "surely")[:classes]
        y = [names.index(label) for label in labels(rows, classes)]
        model = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1).fit(rows, y)
        fitted_encoder = TableEncoder().fit(SCHEMA, rows)
        classifier = as_classifier(model, schema=SCHEMA, encoder=fitted_encoder, classes=names)
        assert np.allclose(classifier.probabilities(people()), model.predict_proba(rows))
        assert set(classifier.predict(rows)) <= set(names)

    def test_xgboost_does_not_mind_legal_levels_that_training_lacks(self):
        xgboost = pytest.importorskip("xgboost")
        rows = people()
        rows = rows[rows["job"] != "smith"].astype({"job": "category"})
        model = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1)
        model.fit(rows, (labels(rows) == "yes").astype(int))
        task = problem(rows)
        assert "smith" in task.encoder.dtypes_["job"].categories
        classifier = as_classifier(model, schema=SCHEMA, encoder=task.encoder)
        assert np.allclose(classifier.probabilities(rows.astype({"job": str})), model.predict_proba(rows))
        assert differentiable(classifier, task).agreement > 0.8

    def test_boosters_that_are_not_fitted_are_refused(self):
        lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
        for kind in ("Classifier", "Regressor"):
            for model in (getattr(lightgbm, f"LGBM{kind}")(), getattr(xgboost, f"XGB{kind}")()):
                with pytest.raises(ClassifierError, match="is not fitted yet"):
                    as_classifier(model, schema=SCHEMA)

    def test_boosters_that_regress_have_no_classes(self):
        lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
        rows = people()
        quiet = lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1)
        for model in (quiet, xgboost.XGBRegressor(n_estimators=3, n_jobs=1)):
            model.fit(rows[["age"]], rows["hours per week"])
            answers = as_classifier(model, schema=SCHEMA).probabilities(rows)
            assert np.allclose(answers[:, 0], model.predict(rows[["age"]]))
            with pytest.raises(ClassifierError, match="predicts numbers, not classes"):
                as_classifier(model, schema=SCHEMA, classes=("no", "yes"))


def layers(*parts: nn.Module) -> nn.Sequential:
    """Layers with values of their own, so that tests do not draw from the global state."""
    made = nn.Sequential(*parts)
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in made.parameters():
            tensor.uniform_(-1, 1, generator=draws)
    return made


class TestTorch:
    @pytest.mark.parametrize(
        ("parts", "output"),
        [
            ((nn.Linear(5, 1),), "auto"),
            ((nn.Linear(5, 1), nn.Flatten(0)), "logits"),
            ((nn.Linear(5, 3),), "auto"),
            ((nn.Linear(5, 3), nn.Softmax(dim=1)), "auto"),
            ((nn.Linear(5, 3), nn.LogSoftmax(dim=1)), "auto"),
            ((nn.Linear(5, 1), nn.Sigmoid()), "auto"),
            ((nn.Linear(5, 1), nn.Sigmoid(), nn.Flatten(0)), "probabilities"),
            ((nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)), "auto"),
        ],
    )
    def test_every_form_of_output_is_read_alike(self, parts, output):
        model, rows = layers(*parts), people()
        classifier = as_classifier(model, schema=SCHEMA, encoder=encoder(), output=output)
        x = encoder().encode(rows)
        z = nn.Sequential(*[p for p in model if not isinstance(p, nn.Softmax | nn.LogSoftmax | nn.Sigmoid)])(x)
        expected = two_columns(z.double(), probabilities=False).softmax(dim=1)
        p = classifier.probabilities(rows)
        assert np.allclose(p, expected.detach(), atol=1e-6)
        assert classifier.classes == tuple(range(p.shape[1]))
        logits = classifier.module(x)
        assert torch.allclose(logits.double().softmax(dim=1), expected, atol=1e-5)

    def test_gradients_flow_through_the_module(self):
        classifier = as_classifier(layers(nn.Linear(5, 1)), schema=SCHEMA, encoder=encoder())
        x = encoder().encode(people()).requires_grad_()
        classifier.module(x)[:, 1].sum().backward()
        assert x.grad.abs().sum() > 0

    def test_the_module_is_asked_in_evaluation_mode_and_left_as_it_was(self):
        model = layers(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)).train()
        model[1].eval()
        as_classifier(model, schema=SCHEMA, encoder=encoder()).probabilities(people())
        assert [part.training for part in model] == [True, False, True, True]
        assert model.training
        assert all(p.requires_grad for p in model.parameters())
        assert all(p.grad is None for p in model.parameters())

    def test_rows_are_cast_to_the_modules_dtype(self):
        classifier = as_classifier(layers(nn.Linear(5, 2)).double(), schema=SCHEMA, encoder=encoder())
        assert classifier.probabilities(people()).shape == (200, 2)

    def test_outputs_that_look_like_probabilities_are_asked_about(self):
        class Hidden(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = layers(nn.Linear(5, 1))

            def forward(self, x):
                return torch.sigmoid(self.line(x))

        with pytest.warns(FcxWarning, match="look like probabilities"):
            as_classifier(Hidden(), schema=SCHEMA, encoder=encoder())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            as_classifier(Hidden(), schema=SCHEMA, encoder=encoder(), output="probabilities")

    def test_what_a_module_needs_is_said(self):
        with pytest.raises(ClassifierError, match="no encoder was given"):
            as_classifier(nn.Linear(5, 2), schema=SCHEMA)
        with pytest.raises(ClassifierError, match=r"failed on 64 x 5 encoded columns.*RuntimeError"):
            as_classifier(nn.Linear(9, 2), schema=SCHEMA, encoder=encoder())
        with pytest.raises(ClassifierError, match="shape 64 x 5 x 1 for 64 rows"):
            as_classifier(nn.Unflatten(1, (5, 1)), schema=SCHEMA, encoder=encoder())
        with pytest.raises(ClassifierError, match="has 2 classes, but classes= names 3"):
            as_classifier(layers(nn.Linear(5, 2)), schema=SCHEMA, encoder=encoder(), classes="abc")

    def test_illegal_rows_are_refused_with_every_fault(self):
        classifier = as_classifier(layers(nn.Linear(5, 2)), schema=SCHEMA, encoder=encoder())
        with pytest.raises(
            ClassifierError, match=r"(?s)Sequential cannot read these rows.*not a known level"
        ) as caught:
            classifier.probabilities(people().assign(job="pirate", age=-1))
        assert [f.place for f in caught.value.faults] == ["column 'age'", "column 'job'"]


class TestOnnx:
    def converted(self, tmp_path, classes=2, zipmap=True):
        pytest.importorskip("onnxruntime")
        skl2onnx = pytest.importorskip("skl2onnx")
        from skl2onnx.common.data_types import Int64TensorType, StringTensorType

        rows = people()[["age", "hours per week", "job"]].rename(columns={"hours per week": "hours_per_week"})
        model = pipeline(LogisticRegression(max_iter=2000)).fit(rows, labels(people(), classes))
        kinds = [(n, StringTensorType([None, 1]) if n == "job" else Int64TensorType([None, 1])) for n in rows]
        options = {} if zipmap else {id(model): {"zipmap": False}}
        made = skl2onnx.convert_sklearn(model, initial_types=kinds, options=options)
        path = tmp_path / "model.onnx"
        path.write_bytes(made.SerializeToString())
        return path, model.classes_, model.predict_proba(rows)

    @pytest.mark.parametrize("classes", [2, 3])
    def test_a_converted_pipeline_answers_as_before_and_names_its_classes(self, tmp_path, classes):
        path, names, expected = self.converted(tmp_path, classes)
        classifier = as_classifier(path, schema=SCHEMA)
        assert classifier.classes == tuple(names)
        assert np.allclose(classifier.probabilities(people()), expected, atol=1e-5)
        assert classifier.module is None

    def test_a_session_without_class_names_takes_those_given(self, tmp_path):
        import onnxruntime

        path, names, expected = self.converted(tmp_path, zipmap=False)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        assert as_classifier(session, schema=SCHEMA).classes == (0, 1)
        classifier = as_classifier(session, schema=SCHEMA, classes=names)
        assert np.allclose(classifier.probabilities(people()), expected, atol=1e-5)
        assert set(classifier.predict(people())) == {"no", "yes"}

    def one_input(self, tmp_path, model, width, rows="n", kind=None):
        """An ONNX model by hand: one float input, a matrix product, and what comes behind it."""
        pytest.importorskip("onnxruntime")
        onnx = pytest.importorskip("onnx")
        from onnx import TensorProto, helper, numpy_helper

        weight = model.weight.detach().numpy().T.copy()
        nodes = [helper.make_node("MatMul", ["x", "w"], ["z"])]
        if kind is not None:
            nodes.append(helper.make_node(kind, ["z"], ["p"]))
        name = "z" if kind is None else "p"
        graph = helper.make_graph(
            nodes,
            "tiny",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, width])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, weight.shape[1]])],
            [numpy_helper.from_array(weight, "w")],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path = tmp_path / "tiny.onnx"
        onnx.save(made, path)
        return path

    @pytest.mark.parametrize(("outputs", "kind"), [(2, "Softmax"), (3, "Softmax"), (1, "Sigmoid")])
    def test_one_input_takes_encoded_columns(self, tmp_path, outputs, kind):
        model = layers(nn.Linear(5, outputs, bias=False))[0]
        path = self.one_input(tmp_path, model, 5, kind=kind)
        classifier = as_classifier(path, schema=SCHEMA, encoder=encoder())
        same = as_classifier(model, schema=SCHEMA, encoder=encoder())
        assert np.allclose(classifier.probabilities(people()), same.probabilities(people()), atol=1e-6)

    @pytest.mark.parametrize("outputs", [1, 2, 3])
    def test_logits_are_read_when_told(self, tmp_path, outputs):
        model = layers(nn.Linear(5, outputs, bias=False))[0]
        path = self.one_input(tmp_path, model, 5)
        same = as_classifier(model, schema=SCHEMA, encoder=encoder()).probabilities(people())
        told = as_classifier(path, schema=SCHEMA, encoder=encoder(), output="logits")
        assert np.allclose(told.probabilities(people()), same, atol=1e-6)
        with pytest.raises(ClassifierError, match="output='logits'"):
            as_classifier(path, schema=SCHEMA, encoder=encoder()).probabilities(people())

    def test_without_an_encoder_one_input_takes_the_raw_numbers(self, tmp_path):
        numbers = Schema(SCHEMA.features[:2])
        model = layers(nn.Linear(2, 2, bias=False))[0]
        path = self.one_input(tmp_path, model, 2, kind="Softmax")
        rows = people()[list(numbers.names)]
        expected = model(torch.tensor(rows.to_numpy(), dtype=torch.float32)).softmax(dim=1).detach()
        assert np.allclose(as_classifier(path, schema=numbers).probabilities(rows), expected, atol=1e-5)

    def test_models_that_cannot_be_fed_are_refused(self, tmp_path):
        model = layers(nn.Linear(7, 2, bias=False))[0]
        path = self.one_input(tmp_path, model, 7)
        with pytest.raises(ClassifierError, match=r"takes 7 columns .* the schema has 3 features in 5 encoded"):
            as_classifier(path, schema=SCHEMA, encoder=encoder())
        path = self.one_input(tmp_path, model, 7, rows=1)
        with pytest.raises(ClassifierError, match=r"takes exactly 1 rows at a time.*dynamic first axis"):
            as_classifier(path, schema=SCHEMA, encoder=encoder())
        path, _, _ = self.converted(tmp_path)
        with pytest.raises(ClassifierError, match=r"input 'job'.*is needed by the model"):
            as_classifier(path, schema=Schema(SCHEMA.features[:2]))

    def test_a_missing_onnxruntime_is_said_with_what_to_install(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        (tmp_path / "model.onnx").write_bytes(b"")
        with pytest.raises(ClassifierError, match=r"needs onnxruntime.*pip install 'fcxplain\[onnx\]'"):
            as_classifier(tmp_path / "model.onnx", schema=SCHEMA)

    def test_files_that_are_no_onnx_models_are_refused(self, tmp_path):
        pytest.importorskip("onnxruntime")
        with pytest.raises(ClassifierError, match="there is no such file"):
            as_classifier(tmp_path / "absent.onnx", schema=SCHEMA)
        with pytest.raises(ClassifierError, match=r"is not an \.onnx file"):
            as_classifier("model.pkl", schema=SCHEMA)
        (tmp_path / "bad.onnx").write_bytes(b"not a model")
        with pytest.raises(ClassifierError, match="cannot be opened as an ONNX model"):
            as_classifier(tmp_path / "bad.onnx", schema=SCHEMA)


KINDS = ("paper", "mlp", "logistic", "boosting")


PAIR = ("paper", "balanced")


@functools.cache
def trained(kind: str, classes: int = 2) -> Classifier:
    return train_classifier(data(classes), kind=kind, seed=0)


class TestTraining:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("classes", [2, 3])
    def test_every_kind_learns_and_names_its_classes(self, kind, classes):
        parts = data(classes)
        classifier = trained(kind, classes)
        assert classifier.classes == tuple(sorted(parts.train["loan"].unique()))
        result = score(classifier, parts.test, "loan")
        assert result.accuracy > 0.85
        assert result.rows == 200
        assert (classifier.module is not None) == (kind in ("paper", "mlp"))

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_same_seed_gives_the_same_model_told_of_epochs_or_not_and_no_global_state_is_touched(self, kind):
        one, seen = trained(kind), list[Progress]()
        before = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
        two = train_classifier(data(), kind=kind, seed=0, on_progress=seen.append)
        assert np.array_equal(one.probabilities(people()), two.probabilities(people()))
        assert torch.equal(torch.random.get_rng_state(), before[0])
        assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
        assert random.getstate() == before[2]
        assert [event.done for event in seen] == list(range(1, len(seen) + 1))
        if kind in ("paper", "mlp"):
            (most,) = {event.total for event in seen}
            assert 1 < len(seen) <= most

    def test_a_balanced_model_gives_the_rarer_class_more_often(self):
        parts = data()
        shares = parts.train["loan"].value_counts(normalize=True)
        rare = shares.idxmin()
        given = {kind: (trained(kind).predict(parts.test) == rare).mean() for kind in PAIR}
        assert given["balanced"] > given["paper"]

    def test_another_seed_gives_other_weights(self):
        other = train_classifier(data(), seed=1).module[0].weight
        assert not torch.equal(other, trained("paper").module[0].weight)

    def test_the_papers_network_reads_the_encoders_columns(self):
        model = trained("paper").module
        assert [(m.in_features, m.out_features) for m in model] == [(5, 10), (10, 2)]

    def test_without_validation_rows_a_part_of_the_training_rows_is_taken(self):
        test = table(200, 2)
        one, two = (train_classifier(Data(table(), validation, test), kind="mlp") for validation in (None, table(0)))
        assert np.array_equal(one.probabilities(people()), two.probabilities(people()))
        assert score(one, test, "loan").accuracy > 0.85

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_handful_of_rows_is_enough_to_train(self, kind):
        tiny = table(6).assign(loan=["a", "b"] * 3)
        assert train_classifier(Data(tiny, None, tiny), kind=kind).classes == ("a", "b")

    @pytest.mark.parametrize("kind", KINDS)
    def test_whole_number_classes_and_category_columns_work(self, kind):
        parts = data()
        train, test = (
            part.assign(loan=(part["loan"] == "yes").astype(int)).astype({"job": "category"})
            for part in (parts.train, parts.test)
        )
        classifier = train_classifier(Data(train, None, test), kind=kind)
        assert classifier.classes == (0, 1)
        assert score(classifier, test, "loan").accuracy > 0.85

    @pytest.mark.parametrize("kind", KINDS)
    def test_levels_that_training_never_saw_get_an_answer(self, kind):
        train = table()
        train = train[train["job"] != "smith"]
        classifier = train_classifier(Data(train, None, train), kind=kind)
        assert np.isfinite(classifier.probabilities(people().assign(job="smith"))).all()

    @pytest.mark.parametrize("kind", KINDS)
    def test_levels_of_mixed_types_and_too_many_for_boosting_work(self, kind):
        levels = (*range(150), *(f"town {i}" for i in range(150)))
        schema = Schema((Feature("town", "categorical", levels=levels), Feature("age", "integer", 18, 80)))
        places = np.random.default_rng(0).integers(0, 300, 900)
        rows = schema.table({"town": places, "age": np.linspace(18, 80, 900).round()})
        rows["loan"] = np.where(rows["age"] > 50, "yes", "no")
        classifier = train_classifier(Data(rows, None, rows, schema=schema), kind=kind)
        assert score(classifier, rows, "loan").accuracy > 0.9

    def test_a_table_of_numbers_only_and_one_of_categories_only_work(self):
        for names in (["age", "hours per week"], ["job"]):
            schema = Schema(tuple(SCHEMA[n] for n in names))
            for kind in KINDS:
                classifier = train_classifier(Data(table(), None, table(), schema=schema), kind=kind)
                assert classifier.probabilities(people()).shape == (200, 2)

    def test_an_unknown_kind_offers_the_nearest(self):
        with pytest.raises(ClassifierError, match=r"no kind 'bosting'.*Did you mean 'boosting'"):
            train_classifier(data(), kind="bosting")

    def test_labels_that_cannot_be_learnt_are_refused(self):
        with pytest.raises(DataError, match="label 'loan': has one class only, 'yes'"):
            train_classifier(Data(table().assign(loan="yes"), None, table()))
        with pytest.raises(DataError, match="label 'loan': has no rows"):
            train_classifier(Data(table(0), None, table()))
        gap = table()
        gap.loc[1002, "loan"] = None
        with pytest.raises(DataError, match=r"label 'loan': is missing \(1 row, first at index 1002\)"):
            train_classifier(Data(gap, None, table()))
        with pytest.raises(DataError, match=r"no label column 'lone' in the table. Did you mean 'loan'"):
            train_classifier(Data(table(), None, table(), label="lone"))


class TestScore:
    def test_it_agrees_with_scikit_learn(self):
        from sklearn.metrics import accuracy_score, balanced_accuracy_score, recall_score

        rows, classifier = table(300, 7, 3), as_classifier(fitted(3), schema=SCHEMA)
        result, answers = score(classifier, rows, "loan"), classifier.predict(rows)
        assert result.accuracy == pytest.approx(accuracy_score(rows["loan"], answers))
        assert result.balanced_accuracy == pytest.approx(balanced_accuracy_score(rows["loan"], answers))
        recalls = recall_score(rows["loan"], answers, average=None, labels=list(classifier.classes))
        assert [c.recall for c in result.classes] == pytest.approx(recalls)
        assert sum(c.share for c in result.classes) == pytest.approx(1)
        assert sum(c.predicted for c in result.classes) == pytest.approx(1)

    def test_labels_that_match_no_class_are_refused(self):
        classifier = as_classifier(by_age, schema=SCHEMA, classes=(0, 1))
        with pytest.raises(ClassifierError, match=r"but the classifier's classes are 0, 1. Rename them"):
            score(classifier, table(), "loan")
        with pytest.raises(DataError, match="without rows"):
            score(classifier, table(0), "loan")
        with pytest.raises(DataError, match="Did you mean 'loan'"):
            score(classifier, table(), "loans")


def answers(found: Differentiable, task: Problem, rows: pd.DataFrame) -> np.ndarray:
    return found.module(task.encoder.encode(rows)).argmax(dim=1).numpy()


class TestDifferentiable:
    def test_a_torch_classifier_lends_a_frozen_copy_of_its_own_module(self):
        model = layers(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 2)).train()
        task = problem(people())
        classifier = as_classifier(model, schema=SCHEMA, encoder=task.encoder)
        found = differentiable(classifier, task)
        assert (found.agreement, found.distilled) == (1.0, False)
        assert (answers(found, task, people()) == classifier.predict(people())).all()
        assert not found.module.training
        assert not any(p.requires_grad for p in found.module.parameters())
        assert model.training
        assert all(p.requires_grad for p in model.parameters())

    def test_the_copy_reads_the_encoders_dtype(self):
        task = problem(people())
        model = layers(nn.Linear(5, 2)).double()
        classifier = as_classifier(model, schema=SCHEMA, encoder=task.encoder, threshold=0.4)
        found = differentiable(classifier, task)
        assert (answers(found, task, people()) == classifier.predict(people())).all()
        assert model[0].weight.dtype == torch.float64

    @pytest.mark.parametrize("threshold", [0.2, 0.5, 0.83])
    @pytest.mark.parametrize("outputs", [1, 2])
    def test_the_threshold_is_folded_into_the_logits(self, threshold, outputs):
        task = problem(people())
        model = layers(nn.Linear(5, outputs))
        classifier = as_classifier(model, schema=SCHEMA, encoder=task.encoder, threshold=threshold)
        found = differentiable(classifier, task)
        assert (answers(found, task, people()) == classifier.predict(people())).all()
        assert all(isinstance(part, nn.Linear) for part in found.module)

    def test_a_module_on_other_columns_is_bridged(self):
        elders = people()[people()["age"] > 40]
        wider = Schema((SCHEMA["job"].replace(levels=("smith", "diver", "clerk", "nurse")), *SCHEMA.features[:2]))
        source = TableEncoder().fit(wider, elders)
        classifier = as_classifier(layers(nn.Linear(6, 2)), schema=wider, encoder=source)
        task = problem(people())
        found = differentiable(classifier, task)
        assert not found.distilled
        p = found.module(task.encoder.encode(people())).softmax(dim=1)
        assert np.allclose(p, classifier.probabilities(people()), atol=1e-5)

    @pytest.mark.parametrize("classes", [2, 3])
    def test_a_forest_is_imitated_well(self, classes):
        rows = people(1000)
        forest = pipeline(RandomForestClassifier(20, max_depth=6, random_state=0))
        forest.fit(rows, labels(rows, classes))
        classifier, task = as_classifier(forest, schema=SCHEMA), problem(rows)
        found = differentiable(classifier, task, seed=1)
        assert found.distilled
        assert found.agreement > 0.95
        assert found.rows == 100
        fresh = people(500, seed=9)
        told = np.asarray(classifier.classes)[answers(found, task, fresh)]
        assert (told == classifier.predict(fresh)).mean() > 0.95
        assert not any(p.requires_grad for p in found.module.parameters())

    def test_an_imitation_answers_by_the_threshold(self):
        rows = people(600)
        classifier = callable_classifier(by_age, threshold=0.9)
        task = problem(rows)
        found = differentiable(classifier, task)
        assert (answers(found, task, rows) == classifier.predict(rows)).mean() > 0.97

    def test_the_classifier_is_asked_in_few_large_batches(self):
        calls = []
        classifier = callable_classifier(lambda rows: calls.append(len(rows)) or by_age(rows))
        differentiable(classifier, problem())
        assert len(calls) <= 5
        assert sum(calls) <= 60_000

    def test_the_same_seed_gives_the_same_imitation_and_the_global_state_is_not_touched(self):
        before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        classifier, task = callable_classifier(by_age), problem(people(100))
        one, two, other = (differentiable(classifier, task, seed=s).module[1].weight for s in (0, 0, 1))
        assert torch.equal(one, two)
        assert not torch.equal(one, other)
        assert torch.equal(torch.random.get_rng_state(), before[0])
        assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002

    def test_category_columns_reach_the_model_as_such(self):
        lightgbm = pytest.importorskip("lightgbm")
        rows = people().astype({"job": "category"})
        model = lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1).fit(rows, labels(rows))
        task = problem(rows)
        classifier = as_classifier(model, schema=SCHEMA, encoder=task.encoder)
        assert differentiable(classifier, task).agreement > 0.8

    def test_a_poor_imitation_is_warned_of(self):
        def erratic(rows):
            return 0.1 + 0.8 * ((rows["age"] * 7919 + rows["hours per week"] * 104729) % 97 % 2)

        with pytest.warns(FcxWarning, match=r"agrees with it on only \d+\.\d% of 40 held-out rows"):
            differentiable(callable_classifier(erratic), problem())

    def test_a_handful_of_training_rows_is_judged_by_itself(self):
        sure = callable_classifier(lambda rows: np.tile([0.9, 0.1], (len(rows), 1)))
        found = differentiable(sure, problem(people(5)))
        assert (found.rows, found.agreement) == (5, 1.0)


# Threads


def thread_settings() -> dict[str, int]:
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()} | {"torch": torch.get_num_threads()}


def openmp_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"}


@pytest.mark.parametrize("fails", [False, True])
def test_small_batches_are_asked_with_one_thread_and_settings_stay_as_they_were(fails):
    seen: dict[int, set[int]] = {}

    def model(rows: pd.DataFrame) -> np.ndarray:
        seen[len(rows)] = openmp_threads()
        if fails and len(rows) == 3:
            raise ValueError("out of order")
        return rows["age"].to_numpy() / 100

    classifier = as_classifier(model, schema=SCHEMA)
    # The first time that it is asked, torch sets its threads itself.
    thread_settings()
    with threadpool_limits(2, user_api="openmp"):
        before = thread_settings()
        classifier.probabilities(people(SMALL_BATCH))
        classifier.probabilities(people(SMALL_BATCH - 1))
        if fails:
            with pytest.raises(ClassifierError, match="out of order"):
                classifier.probabilities(people(3))
        assert thread_settings() == before
    assert seen[SMALL_BATCH] == {2}
    assert all(threads == {1} for rows, threads in seen.items() if rows < SMALL_BATCH)


def test_a_network_answers_alike_with_one_thread_and_with_more():
    encoder = TableEncoder().fit(SCHEMA, people())
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(encoder.width_, 40), nn.ReLU(), nn.Linear(40, 2))
    classifier = as_classifier(network.to(encoder.dtype_), schema=SCHEMA, encoder=encoder)
    rows = people(SMALL_BATCH)
    with threadpool_limits(2, user_api="openmp"):
        torch.set_num_threads(2)
        try:
            many = classifier.probabilities(rows)
            few = classifier.probabilities(rows[:-1])
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(1)
    assert (many[:-1] == few).all()
