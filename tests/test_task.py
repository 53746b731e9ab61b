"""A task ties table, model, rules and target together, and fails early with everything that is wrong."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from fcxplain import FCx, Schema, TableEncoder, Task, load_dataset, train_classifier
from fcxplain.errors import ClassifierError, DataError, FcxError, FcxWarning, RuleError, SchemaError
from fcxplain.explanation import Status
from fcxplain.region.conflict import NO_PRIME
from fcxplain.rules import parse_rules
from fcxplain.saving.explainer import restored_task, task_content
from fcxplain.search import Search


def people(rows: int = 200) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": generator.integers(18, 70, rows),
            "wage": generator.integers(0, 4000, rows) / 2,
            "job": generator.choice(["clerk", "cook", "smith"], rows),
        }
    )
    return table.assign(loan=np.where(table["wage"] + 10 * table["age"] > 1400, "yes", "no"))


def pipeline(table: pd.DataFrame, label: str = "loan"):
    columns = make_column_transformer((OneHotEncoder(), ["job"]), (StandardScaler(), ["age", "wage"]))
    return make_pipeline(columns, LogisticRegression()).fit(table.drop(columns=label), table[label])


def test_a_task_is_made_from_a_table_a_model_and_rules():
    table = people()
    task = Task(table, pipeline(table), rules="age' >= age\njob' == job", target="yes", label="loan")
    assert task.schema.names == ("age", "wage", "job")
    assert task.classes == ("no", "yes")
    assert [r.text for r in task.rules] == ["age' >= age", "job' == job"]
    assert "loan" not in task.train
    assert (task.refused(table) == (task.predict(table) == "no")).all()
    assert (task.wanted(task.predict(table)) == "yes").all()
    assert "200 rows, 3 features" in repr(task)


def test_the_example_of_the_documentation_gives_no_warning():
    data = load_dataset("adult", rows=800)
    model = train_classifier(data, kind="paper", seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FcxWarning)
        task = Task(data.train, model, schema=data.schema, rules=data.rules["binary"], target=data.target)
    assert task.encoder.width_ == 29
    assert task.labels is not None
    assert len(task.rules) == 3


def test_the_label_is_found_by_the_names_that_the_model_was_fitted_with():
    table = people()
    task = Task(table, pipeline(table), target="yes")
    assert task.schema.names == ("age", "wage", "job")
    assert task.labels.tolist() == table["loan"].tolist()


def test_without_a_target_the_other_of_two_classes_is_wanted():
    table = people()
    task = Task(table, pipeline(table), label="loan")
    assert task.wanted(np.array(["no", "yes"])).tolist() == ["yes", "no"]
    assert task.refused(table).all()


def test_more_than_two_classes_need_a_named_target():
    table = people().assign(loan=np.tile(["a", "b", "c", "d"], 50))
    with pytest.raises(DataError, match=r"4 classes, so a target must be named: 'a', 'b'"):
        Task(table, pipeline(table), label="loan")
    assert Task(table, pipeline(table), label="loan", target="c").target == "c"


def test_a_target_may_be_written_as_text():
    table = people().assign(loan=lambda t: (t["loan"] == "yes").astype(int))
    assert Task(table, pipeline(table), label="loan", target="1").target == 1
    flags = table.assign(loan=table["loan"] == 1)
    assert Task(flags, pipeline(flags), label="loan", target="True").target is True


def test_every_fault_is_listed_at_once():
    table = people()
    with pytest.raises(FcxError) as caught:
        Task(
            table,
            pipeline(table),
            label="loan",
            rules="agee' >= age\nwage' > jobb\nage' > 60\nage' < 50",
            target="maybe",
        )
    told = str(caught.value)
    assert "no feature 'agee'. Did you mean 'age'?" in told
    assert "no feature 'jobb'" in told
    assert "target 'maybe': is not one of the classes" in told
    assert "line 3: age must be more than 60; line 4: age must be less than 50" in told
    assert len(caught.value.faults) == 4


def test_rules_in_contradiction_are_refused_in_words():
    table = people()
    with pytest.raises(RuleError, match=r"line 1: age must increase; line 3: age must be less than 19") as caught:
        Task(table, pipeline(table), label="loan", rules="age' > age\nwage' >= 0\nage' < 19")
    assert "line 2" not in str(caught.value)


def test_a_label_that_is_not_there_is_named():
    table = people()
    with pytest.raises(DataError, match="Did you mean 'loan'"):
        Task(table, pipeline(table), label="lone")


def test_rows_with_missing_values_are_left_out_and_counted():
    table = people()
    model = pipeline(table)
    table.loc[[3, 4], "wage"] = np.nan
    table.loc[4, "job"] = None
    with pytest.warns(FcxWarning, match=r"left out 2 of 200 training rows with missing values \(wage 2, job 1\)"):
        task = Task(table, model, label="loan", target="yes")
    assert len(task.train) == len(task.labels) == 198


def test_a_row_to_explain_with_a_missing_value_is_refused_by_index_and_column():
    table = people()
    task = Task(table, pipeline(table), label="loan", target="yes")
    rows = table.drop(columns="loan").head(3).set_axis(["p", "q", "r"])
    rows.loc["q", "wage"] = np.nan
    with pytest.raises(
        SchemaError, match=r"column 'wage': is empty or marked as missing, e.g. n/a \(1 row, first at index 'q'\)"
    ):
        task.validate(rows)


def test_a_model_that_never_gives_the_target_is_warned_of_with_the_share():
    table = people().drop(columns="loan")
    with pytest.warns(FcxWarning, match=r"predicts the target 1 for 0.00% of 200 training rows"):
        Task(table, lambda rows: np.full((len(rows), 2), [0.9, 0.1]), target=1)


def test_classes_in_the_wrong_order_are_noticed():
    table = people()
    model = pipeline(table)
    with pytest.warns(FcxWarning, match="are the classes in the right order"):
        Task(table, lambda rows: model.predict_proba(rows), label="loan", target="yes", classes=["yes", "no"])


def test_classes_in_the_wrong_order_are_noticed_whatever_the_index():
    table = people().set_axis([0] * 200)
    model = pipeline(table)
    with pytest.warns(FcxWarning, match="are the classes in the right order"):
        Task(table, lambda rows: model.predict_proba(rows), label="loan", target="yes", classes=["yes", "no"])


def test_a_callable_takes_its_classes_from_the_label():
    table = people()
    model = pipeline(table)
    task = Task(table, lambda rows: model.predict_proba(rows), label="loan", target="yes")
    assert task.classes == ("no", "yes")


def test_a_threshold_moves_the_line():
    table = people()
    counts = [
        Task(table, pipeline(table), label="loan", target="yes", threshold=t).refused(table).sum()
        for t in (0.1, 0.5, 0.9)
    ]
    assert counts[0] < counts[1] < counts[2]


def test_a_schema_may_leave_bounds_and_levels_open(tmp_path):
    table = people()
    path = tmp_path / "schema.toml"
    path.write_text(
        '[features.age]\nkind = "integer"\nmutable = false\n'
        '[features.wage]\nkind = "continuous"\ndecimals = 1\n[features.job]\nkind = "categorical"\n'
    )
    task = Task(table, pipeline(table), schema=path, label="loan")
    assert task.schema["age"].low == table["age"].min()
    assert task.schema["wage"].step == 0.1
    assert task.schema["job"].levels == ("clerk", "cook", "smith")
    assert task.schema.immutable == ("age",)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (people().to_dict(), "is a dict, not a pandas DataFrame"),
        (people(0), "has no rows"),
        (people().assign(wage=np.nan), "column 'wage': has no values at all"),
        (people().assign(when=pd.Timedelta("2 days")), "holds times"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(table, said):
    with pytest.raises(FcxError, match=said):
        Task(table, pipeline(people()), label="loan")


@pytest.mark.filterwarnings("ignore::fcxplain.errors.FcxWarning")
def test_a_table_with_a_hole_in_every_row_is_refused():
    schema = Schema.infer(people(), label="loan")
    with pytest.raises(DataError, match="every training row has a missing value"):
        Task(people().assign(wage=np.nan), pipeline(people()), schema=schema, label="loan")


def test_a_broken_model_is_reported_with_the_rest():
    def broken(rows: pd.DataFrame) -> None:
        raise RuntimeError("no licence")

    with pytest.raises(FcxError) as caught:
        Task(people(), broken, label="loan", rules="age' >= agee")
    assert "no licence" in str(caught.value)
    assert "agee" in str(caught.value)
    with pytest.raises(ClassifierError, match="no licence"):
        Task(people(), broken, label="loan")


def test_the_table_given_is_never_changed():
    table = people()
    before = table.copy()
    Task(table, pipeline(table), label="loan", target="yes", rules=["age' >= age"])
    pd.testing.assert_frame_equal(table, before)


def test_a_relaxed_task_shares_everything_but_what_was_loosened():
    asked = []

    def model(rows: pd.DataFrame) -> np.ndarray:
        asked.append(len(rows))
        return np.clip(rows["wage"].to_numpy() / 2000, 0, 1)

    task = Task(people(), model, label="loan", rules="age' >= age\nwage' <= 1000", target="yes")
    calls = len(asked)
    freer = task.relaxed(rules=task.rules[:1], target="no")
    assert [r.text for r in freer.rules] == ["age' >= age"]
    assert (freer.target, task.target, len(task.rules)) == ("no", "yes", 2)
    assert freer.encoder is task.encoder
    assert freer.classifier is task.classifier
    assert len(asked) == calls


def test_a_relaxed_task_reads_its_rules_and_rows_by_the_wider_features():
    data = load_dataset("adult", rows=2000)
    task = Task(
        data.train, train_classifier(data, kind="paper", seed=0), schema=data.schema, rules="age' <= 60", target=1
    )
    wider = task.relaxed(schema=task.schema.replace("hours_per_week", high=120).replace("race", mutable=True))
    rows = data.test[list(task.schema.names)].head(20)
    assert wider.encoder.scale_ == task.encoder.scale_
    assert {ref.feature for rule in wider.rules for ref in rule.refs} <= set(wider.schema)
    np.testing.assert_allclose(wider.classifier.probabilities(rows), task.classifier.probabilities(rows), atol=1e-12)
    late = rows.assign(hours_per_week=120)
    assert wider.classifier.probabilities(late).shape == (20, 2)
    with pytest.raises(FcxError, match="is above 99"):
        task.classifier.probabilities(late)


def test_a_relaxed_task_keeps_the_classifier_where_no_bound_moves():
    data = load_dataset("adult", rows=2000)
    task = Task(data.train, train_classifier(data, kind="paper", seed=0), schema=data.schema, target=1)
    freer = task.relaxed(schema=task.schema.replace("race", mutable=True))
    assert freer.classifier is task.classifier
    assert "race" in freer.schema.mutable
    assert freer.encoder.schema_ == freer.schema


def test_an_identifier_is_no_feature_of_a_task_and_can_be_ignored():
    table = people()
    model = pipeline(table)
    table.insert(0, "id", [f"C{i}" for i in range(len(table))])
    with pytest.warns(FcxWarning, match="column 'id' is left out"):
        assert "id" not in Task(table, model, label="loan", target="yes").schema
    with warnings.catch_warnings():
        warnings.simplefilter("error", FcxWarning)
        task = Task(table, model, target="yes", ignore=["id"])
        assert task.schema.names == ("age", "wage", "job")
        assert task.labels is not None
    with pytest.raises(DataError, match=r"ignore 'di': is not a column. (The table has|Did you mean) 'id'"):
        Task(table, model, label="loan", ignore=["di"])


def test_a_model_that_reads_an_identifier_says_so():
    table = people().assign(id=[f"C{i}" for i in range(200)])
    with pytest.warns(FcxWarning), pytest.raises(ClassifierError, match="'id': is needed by the model"):
        Task(table, pipeline(table), label="loan", target="yes")


class Numbered:
    """A model whose classes are numbers, as XGBoost's are."""

    def __init__(self, table, classes=(0, 1)):
        self.model, self.classes_ = pipeline(table), np.array(classes)
        self.feature_names_in_ = self.model.feature_names_in_

    def predict_proba(self, rows):
        return self.model.predict_proba(rows)


@pytest.mark.parametrize("given", [{"label": "loan"}, {}, {"schema": Schema.infer(people(), label="loan")}])
def test_a_target_by_the_names_of_the_table_says_how_the_model_gets_them(given):
    table = people()
    with pytest.raises(DataError) as caught:
        Task(table, Numbered(table), target="yes", **given)
    assert "The model calls its classes 0, 1, and the column 'loan' 'no', 'yes'" in str(caught.value)
    assert "classes=('no', 'yes')" in str(caught.value)
    assert "as which they agree on 100% of the rows" in str(caught.value)
    task = Task(table, Numbered(table), target="yes", classes=("no", "yes"), **given)
    assert task.labels is not None


def test_the_names_are_offered_in_the_order_of_the_models_answers():
    table = people()
    model = Numbered(table)
    model.predict_proba = lambda rows: model.model.predict_proba(rows)[:, ::-1]
    with pytest.raises(DataError, match=r"classes=\('yes', 'no'\).*as which they agree"):
        Task(table, model, label="loan", target="yes")


def test_names_of_which_the_order_cannot_be_told_are_offered_as_such():
    table = people()
    model = Numbered(table)
    model.predict_proba = lambda rows: np.tile([0.4, 0.6], (len(rows), 1))
    with pytest.raises(DataError, match=r"classes=\('no', 'yes'\).*or in another order"):
        Task(table.assign(loan=["no", "yes"] * 100), model, label="loan", target="yes")


def test_a_target_that_no_column_holds_is_answered_with_the_classes():
    table = people()
    with pytest.raises(DataError, match=r"target 'maybe': is not one of the classes. They are 0, 1."):
        Task(table, Numbered(table), label="loan", target="maybe")


def test_classes_in_the_wrong_order_are_noticed_in_a_label_that_nobody_named():
    table = people()
    schema = Schema.infer(table, label="loan")
    with pytest.warns(
        FcxWarning,
        match=r"on 0% of 200 .* but would agree on 100% with classes=\('no', 'yes'\); are the classes in the right",
    ):
        Task(table, Numbered(table), schema=schema, classes=("yes", "no"), target="yes")


@pytest.mark.parametrize(("rule", "warns"), [("wage <= 20 * age", True), ("wage' <= 20 * age", False)])
def test_a_rule_without_a_prime_is_warned_of_in_the_words_of_the_linter(rule, warns):
    table = people()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Task(table, pipeline(table), label="loan", target="yes", rules=rule)
    told = [str(w.message) for w in caught if issubclass(w.category, FcxWarning)]
    assert told == [f"rule {rule!r} (line 1) {NO_PRIME}"] * warns


def test_a_data_set_is_sent_to_its_training_part():
    with pytest.raises(
        DataError, match=r"train: is a Dataset, not a pandas DataFrame. Give its training part, data.train."
    ):
        Task(load_dataset("adult", rows=100), lambda rows: rows)


def test_fit_teaches_that_it_takes_a_task():
    rows = people().drop(columns="loan")
    with pytest.raises(DataError, match="fit: takes a Task, not a DataFrame and a Series"):
        FCx().fit(rows, people()["loan"])
    with pytest.raises(DataError, match=r"takes a Task, not a DataFrame. .* Task\(rows, model, target=...\)"):
        FCx().fit(rows)


@pytest.mark.parametrize("ask", ["predict", "refused", "validate"])
def test_rows_that_are_no_table_or_lack_a_column_are_refused_alike(ask):
    table = people()
    task, rows = Task(table, pipeline(table), label="loan", target="yes"), table.drop(columns="loan")
    with pytest.raises(SchemaError, match="column 'wage': is not in the table"):
        getattr(task, ask)(rows.drop(columns="wage"))
    with pytest.raises(SchemaError, match=r"is a Series, not a pandas DataFrame.*rows.iloc\[\[0\]\]"):
        getattr(task, ask)(rows.iloc[0])


LOGISTIC, FOREST = LogisticRegression(), RandomForestClassifier(n_estimators=5, random_state=0)


def encoded(last):
    """A model behind columns that it can read."""
    columns = make_column_transformer((OneHotEncoder(), ["job"]), (StandardScaler(), ["age", "wage"]))
    return make_pipeline(columns, last)


class Shifted(ClassifierMixin, BaseEstimator):
    """Refuses whoever is a cook, whatever the probabilities."""

    def fit(self, x, y):
        self.inner_ = pipeline(x.assign(loan=y))
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, x):
        return self.inner_.predict_proba(x)

    def predict(self, x):
        return np.where(x["job"] == "cook", "no", self.inner_.predict(x))


def fixed(last=LOGISTIC, **settings):
    return FixedThresholdClassifier(encoded(last), **settings)


def tuned(last=LOGISTIC, **settings):
    return TunedThresholdClassifierCV(encoded(last), cv=2, **settings)


DECIDING = {
    "second class": fixed(threshold=0.8, pos_label="yes"),
    "first class": fixed(threshold=0.2, pos_label="no"),
    "numpy threshold": fixed(threshold=np.float32(0.8), pos_label="yes"),
    "decision function": fixed(threshold=1.5, pos_label="yes", response_method="decision_function"),
    "decision function of the first class": fixed(threshold=-1.5, pos_label="no", response_method="decision_function"),
    "always the second": fixed(threshold=1.5, pos_label="no"),
    "ties to the second": fixed(DecisionTreeClassifier(max_depth=1), threshold="auto", pos_label="yes"),
    "in a pipeline": encoded(FixedThresholdClassifier(LogisticRegression(), threshold=0.8, pos_label="yes")),
    "in a search": GridSearchCV(fixed(threshold=0.5, pos_label="no"), {"threshold": [0.1, 0.15]}, cv=2),
    "a search in it": FixedThresholdClassifier(
        GridSearchCV(encoded(LogisticRegression()), {"logisticregression__C": [1, 2]}, cv=2),
        threshold=0.7,
        pos_label="no",
    ),
    "twice": FixedThresholdClassifier(fixed(threshold=0.9, pos_label="yes"), threshold=0.2, pos_label="no"),
    "frozen": FrozenEstimator(fixed(threshold=0.8, pos_label="yes")),
    "of a forest": fixed(FOREST, threshold=0.6, pos_label="no"),
    "of boosting": fixed(
        GradientBoostingClassifier(n_estimators=5), threshold=0.4, pos_label="no", response_method="decision_function"
    ),
    "tuned": tuned(scoring=make_scorer(f1_score, pos_label="yes")),
    "tuned for the first class": tuned(FOREST, scoring=make_scorer(f1_score, pos_label="no")),
    "vectors": encoded(SVC(probability=True, random_state=0)),
    "calibrated": encoded(CalibratedClassifierCV(LogisticRegression(), cv=2)),
    "vote": encoded(VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], voting="soft")),
    "one against the rest": encoded(OneVsRestClassifier(LogisticRegression())),
    "another word": Shifted(),
}


@cache
def decider(kind: str):
    """One of these, fitted."""
    table, given = people(), DECIDING[kind]
    rows = table.drop(columns="loan")
    if kind == "frozen":
        return FrozenEstimator(given.estimator.fit(rows, table["loan"]))
    return clone(given).fit(rows, table["loan"])


# Which of two classes is wanted matters to how a line is drawn, not to what stands around it.
LINES = (
    "second class",
    "first class",
    "decision function",
    "decision function of the first class",
    "always the second",
    "ties to the second",
    "another word",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "target"), [(k, "yes") for k in DECIDING] + [(k, "no") for k in LINES])
def test_no_claim_contradicts_the_models_own_predict(kind, target):
    table = people()
    rows, model = table.drop(columns="loan"), decider(kind)
    task = Task(table, model, label="loan", rules=["age' == age", "abs(wage' - wage) <= 300"], target=target)
    assert (task.predict(rows) == model.predict(rows)).all()
    refused = task.refused(rows)
    rows = pd.concat([rows[refused].head(5), rows[~refused].head(2)])
    found = Search(task, budget=150).explain(rows)
    verified = found.frame[found.frame["status"] == Status.VERIFIED]
    already = rows[found.row_status == Status.ALREADY]
    for claimed in (part for part in (verified[list(rows)], already) if len(part)):
        assert (model.predict(claimed) == target).all()
    for place in np.flatnonzero(found.row_status == Status.IMPOSSIBLE):
        wage = np.arange(max(0.0, rows["wage"].iloc[place] - 300), min(2000.0, rows["wage"].iloc[place] + 300), 0.5)
        every = pd.DataFrame({"age": rows["age"].iloc[place], "wage": np.tile(wage, 3)})
        every["job"] = np.repeat(["clerk", "cook", "smith"], len(wage))
        assert not (model.predict(every) == target).any()
    assert len(verified) or kind == "always the second"


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("kind", "parts"), [("second class", False), ("first class", False), ("in a search", False), ("another word", True)]
)
def test_a_task_says_where_predict_parts_from_the_probabilities(kind, parts):
    table = people()
    model = clone(DECIDING[kind]).fit(table.drop(columns="loan"), table["loan"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = Task(table, model, label="loan", target="yes")
    assert task.classifier.parts == parts
    assert any("predict disagrees with its probabilities on" in str(w.message) for w in caught) == parts
    assert ("decided by its predict" in repr(task)) == parts


def test_a_threshold_given_decides_in_place_of_predict():
    table = people()
    rows = table.drop(columns="loan")
    model = Shifted().fit(rows, table["loan"])
    task = Task(table, model, label="loan", target="yes", threshold=0.3)
    assert (task.predict(rows) == np.where(model.predict_proba(rows)[:, 1] >= 0.3, "yes", "no")).all()
    assert (task.predict(rows) != model.predict(rows)).any()


def test_classes_named_anew_are_those_of_predict_by_position():
    table = people()
    rows = table.drop(columns="loan")
    model = fixed(threshold=0.3, pos_label=0).fit(rows, (table["loan"] == "yes").astype(int))
    task = Task(table, model, label="loan", target="yes", classes=("no", "yes"))
    assert (task.predict(rows) == np.where(model.predict(rows) == 1, "yes", "no")).all()


def test_a_predict_with_other_names_than_the_classes_is_refused_with_a_remedy():
    class Decoded(Shifted):
        def predict(self, x):
            return np.where(super().predict(x) == "yes", "granted", "refused")

    table = people()
    model = Decoded().fit(table.drop(columns="loan"), table["loan"])
    with pytest.raises(
        ClassifierError, match=r"its predict returned '\w+', which is not one of the classes .*classes="
    ):
        Task(table, model, label="loan", target="yes")
    task = Task(table.drop(columns="loan"), model, target="granted", classes=("refused", "granted"))
    assert set(task.predict(task.train)) == {"refused", "granted"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["first class", "another word"])
def test_a_task_that_was_saved_is_still_decided_by_predict(kind):
    table = people()
    rows = table.drop(columns="loan")
    model = clone(DECIDING[kind]).fit(rows, table["loan"])
    content, tensors = task_content(Task(table, model, label="loan", target="yes"))
    again = restored_task(content, tensors, model, None, any_classifier=False)
    assert (again.predict(rows) == model.predict(rows)).all()
    assert again.classifier.own is not None


def test_a_predict_that_looks_at_the_company_of_a_row_is_refused():
    class BestTenth(Shifted):
        def predict(self, x):
            chance = self.predict_proba(x)[:, 1]
            return np.where(chance >= np.quantile(chance, 0.9), "yes", "no")

    table = people()
    model = BestTenth().fit(table.drop(columns="loan"), table["loan"])
    with pytest.raises(ClassifierError, match="its predict changes when rows are queried again"):
        Task(table, model, label="loan", target="yes")


@pytest.mark.filterwarnings("ignore")
def test_a_network_does_not_speak_for_a_predict_beside_it():
    table = people().drop(columns="loan")
    plain = Task(table, layer_of(table), target=1)

    class Theirs:
        classes, threshold, module = (0, 1), None, plain.classifier.module
        encoder, probabilities = plain.classifier.encoder, staticmethod(plain.classifier.probabilities)

        def predict(self, rows):
            return np.where(rows["job"] == "cook", 0, plain.classifier.predict(rows))

    task = Task(table, Theirs(), target=1, rules="age' == age")
    found = Search(task).explain(table.head(40))
    answers = found.frame[found.frame["status"] == Status.VERIFIED]
    assert len(answers)
    assert (Theirs().predict(answers) == 1).all()
    assert (Theirs().predict(table.head(40)[found.row_status == Status.ALREADY]) == 1).all()
    fixed_job = task.relaxed(rules=parse_rules(["age' == age", "job' == job"], task.schema))
    cooks = table[table["job"] == "cook"].head(5)
    assert not set(Search(fixed_job).explain(cooks).row_status) & {Status.VERIFIED, Status.ALREADY}


def layer_of(table: pd.DataFrame) -> nn.Module:
    """A network of one layer that grants by age and wage."""
    encoder = TableEncoder().fit(Schema.infer(table).complete(table), table)
    layer = nn.Linear(encoder.width_, 2)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias[:] = torch.tensor([0.0, -1.0])
        for name in ("age", "wage"):
            layer.weight[1, encoder.spans_[name]] = 1.2
    return layer
