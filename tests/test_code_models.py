"""Models read as functions of codes: they say what the model itself says, and answers stay its own."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures, SplineTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from fcxplain import Feature, Schema, Task, as_classifier
from fcxplain.classifier.imitation import imitating_trees
from fcxplain.rules import holds
from fcxplain.search import Search, imitation_of
from fcxplain.search.oracles.code_models import WalkedCodes, read_code_model
from fcxplain.search.oracles.codes import CodeOracle, seen_rounding
from fcxplain.search.oracles.tables import TableOracle
from fcxplain.search.space import SearchSpace

SCHEMA = Schema(
    (
        Feature("home", "categorical", levels=("own", "rent", "other")),
        Feature("income", "continuous", low=0, high=9_000, step=0.5),
        Feature("age", "integer", low=18, high=80),
        Feature("job", "categorical", levels=("a", "b", "c", "d"), mutable=False),
        Feature("rate", "continuous", low=0, high=1, step=0.01),
    )
)
CATEGORIES, NUMBERS = ["home", "job"], ["income", "age", "rate"]


def rows(count=600, seed=0):
    draws = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "home": draws.choice(["own", "rent", "other"], count),
            "income": draws.integers(0, 18_000, count) / 2,
            "age": draws.integers(18, 81, count),
            "job": draws.choice(list("abcd"), count),
            "rate": draws.integers(0, 101, count) / 100,
        }
    )


def classes(table, count=2):
    score = table["income"] / 3_000 + (table["home"] == "own") * 1.2 - table["rate"] * table["age"] / 40
    return pd.qcut(score, count, labels=False).to_numpy()


def hot(*numbers):
    return ColumnTransformer(
        [("c", OneHotEncoder(), CATEGORIES), ("n", make_pipeline(*numbers) if numbers else StandardScaler(), NUMBERS)]
    )


def ordinal():
    return ColumnTransformer([("c", OrdinalEncoder(), CATEGORIES), ("n", "passthrough", NUMBERS)])


def xgboost():
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=12, max_depth=4, n_jobs=1)


def lightgbm():
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=12, n_jobs=1, verbose=-1)


MODELS = {
    "logistic": lambda: make_pipeline(hot(), LogisticRegression()),
    "splines": lambda: make_pipeline(hot(SplineTransformer(n_knots=4)), LogisticRegression(max_iter=300)),
    "discriminant": lambda: make_pipeline(hot(), LinearDiscriminantAnalysis()),
    "relu": lambda: make_pipeline(hot(), MLPClassifier((8, 6), max_iter=40, random_state=0)),
    "tanh": lambda: make_pipeline(hot(), MLPClassifier((5,), activation="tanh", max_iter=40, random_state=0)),
    "histogram": lambda: make_pipeline(ordinal(), HistGradientBoostingClassifier(max_iter=12)),
    "categorical": lambda: make_pipeline(
        ordinal(), HistGradientBoostingClassifier(max_iter=12, categorical_features=[0, 1])
    ),
    "gradient": lambda: make_pipeline(hot(), GradientBoostingClassifier(n_estimators=8)),
    "forest": lambda: make_pipeline(hot(), RandomForestClassifier(8, max_depth=4, random_state=0)),
    "extra": lambda: make_pipeline(ordinal(), ExtraTreesClassifier(6, max_depth=5, random_state=0)),
    "deep": lambda: make_pipeline(ordinal(), DecisionTreeClassifier(random_state=0)),
    "xgboost": lambda: make_pipeline(hot(), xgboost()),
    "lightgbm": lambda: make_pipeline(hot(), lightgbm()),
    "sigmoid": lambda: CalibratedClassifierCV(make_pipeline(hot(), LogisticRegression()), cv=2),
    "isotonic": lambda: make_pipeline(
        ordinal(), CalibratedClassifierCV(HistGradientBoostingClassifier(max_iter=6), cv=2, method="isotonic")
    ),
    "calibrated forest": lambda: CalibratedClassifierCV(
        make_pipeline(ordinal(), RandomForestClassifier(4, max_depth=3, random_state=0)), cv=2, ensemble=False
    ),
    "threshold": lambda: FixedThresholdClassifier(make_pipeline(hot(), LogisticRegression()), threshold=0.7),
}


# One of each way of reading: for three classes the others are read as one of these is.
OF_THREE = ("logistic", "relu", "histogram", "gradient", "forest", "deep", "xgboost", "lightgbm", "sigmoid", "isotonic")


@cache
def known(kind, count=2):
    """The task of one of these models, for tests that only ask it."""
    return task(MODELS[kind](), count)


def task(model, count=2, **more):
    table = rows()
    return Task(table, model.fit(table, classes(table, count)), schema=SCHEMA, target=1, **more)


def by_codes(problem, table, wanted):
    """The margins of a task's model for rows as they are, by codes."""
    space = SearchSpace(problem)
    oracle = CodeOracle(space, read_code_model(space))
    present = space.present(problem.read(table)[1], problem.outcomes(problem.class_names[np.full(len(table), wanted)]))
    return oracle.margins(present, np.arange(len(table)), present.codes)


@pytest.mark.parametrize(("kind", "count"), [(k, 2) for k in MODELS] + [(k, 3) for k in OF_THREE])
def test_margins_by_codes_are_the_models_own(kind, count):
    problem, table = known(kind, count), rows(150, seed=1)
    p = problem.classifier.probabilities(table)
    if kind == "threshold":
        assert problem.classifier.guide == 0.7
        p = p * [1.0, 3 / 7]
    for wanted in range(count):
        others = np.delete(p, wanted, axis=1).max(axis=1)
        own = np.log(np.clip(p[:, wanted], 1e-6, 1) / np.clip(others, 1e-6, 1))
        near = np.abs(own) < (4 if kind != "deep" else np.inf)
        assert near.sum() > 20
        assert by_codes(problem, table, wanted)[near] == pytest.approx(own[near], abs=2e-4)


@pytest.mark.parametrize("kind", ["logistic", "relu", "histogram", "xgboost", "deep", "isotonic"])
def test_values_off_the_grid_are_read_as_they_are(kind):
    problem, table = known(kind), rows(40, seed=2)
    table["income"] += 0.3
    table["rate"] = (table["rate"] + 0.0049).clip(0, 1)
    p = np.clip(problem.classifier.probabilities(table), 1e-6, 1)
    assert by_codes(problem, table, 1) == pytest.approx(np.log(p[:, 1] / p[:, 0]), abs=2e-4)


def test_a_tree_too_large_for_one_table_is_cut_in_pieces(monkeypatch):
    whole, table = known("deep"), rows(200, seed=3)
    before = by_codes(whole, table, 1)
    monkeypatch.setattr("fcxplain.search.oracles.trees.MOST_ENTRIES", 64)
    model = read_code_model(SearchSpace(whole))
    assert model.pieces > 1
    assert np.allclose(by_codes(whole, table, 1), before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("count", [2, 3])
def test_a_forest_too_large_for_tables_is_walked_by_its_own_library(monkeypatch, count):
    problem, table = known("forest", count), rows(200, seed=3)
    table["income"] += 0.3
    tables = [by_codes(problem, table, wanted) for wanted in range(count)]
    monkeypatch.setattr("fcxplain.search.oracles.trees.MOST_LEAVES", 8)
    assert isinstance(read_code_model(SearchSpace(problem)), WalkedCodes)
    walked = [by_codes(problem, table, wanted) for wanted in range(count)]
    assert np.allclose(tables, walked, atol=1e-9)


def test_small_trees_share_a_table_and_add_up_as_before(monkeypatch):
    problem, table = known("xgboost"), rows(200, seed=3)
    trees = len(read_code_model(SearchSpace(problem)).trees.roots)
    assert read_code_model(SearchSpace(problem)).pieces < trees
    together = by_codes(problem, table, 1)
    monkeypatch.setattr("fcxplain.search.oracles.trees.MOST_ENTRIES", 16)
    assert read_code_model(SearchSpace(problem)).pieces > trees
    assert np.allclose(by_codes(problem, table, 1), together, rtol=0, atol=1e-12)


def test_a_large_forest_is_walked_for_promising_candidates_alone(monkeypatch):
    problem, walked, refused = task(MODELS["forest"]()), [], rows(60, seed=4)
    with monkeypatch.context() as small:
        small.setattr("fcxplain.search.oracles.trees.MOST_LEAVES", 8)
        whole = Search(problem)
    # What was read is kept.
    search = Search(problem, imitation=imitation_of(problem))
    assert isinstance(search.context.oracle.model, WalkedCodes)
    logits = WalkedCodes.logits
    monkeypatch.setattr(
        WalkedCodes, "logits", lambda self, *given: (walked.append(len(given[1])), logits(self, *given))[1]
    )
    quick, few = search.explain(refused), sum(walked)
    walked.clear()
    slow = whole.explain(refused)
    assert few < sum(walked) / 2
    assert quick.counts == slow.counts


class Squashed(LogisticRegression):
    """A class of our own, whose probabilities mean something else."""

    def predict_proba(self, x):
        return super().predict_proba(x) ** 2 / (super().predict_proba(x) ** 2).sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(hot(), GaussianNB()),
        make_pipeline(hot(), Squashed()),
        make_pipeline(hot(), PolynomialFeatures(2), LogisticRegression(max_iter=500)),
    ],
    ids=["naive Bayes", "a class of their own", "columns of several features"],
)
def test_what_cannot_be_read_is_imitated(model):
    if isinstance(model[0].transformers[0][1], OneHotEncoder):
        model[0].set_params(c__sparse_output=False)
    problem = task(model)
    assert read_code_model(SearchSpace(problem)) is None
    assert isinstance(Search(problem).context.oracle, TableOracle)
    assert Search(problem, imitation=imitating_trees(problem)).context.imitation is not None


def test_a_model_is_asked_about_everything_where_that_is_wanted():
    for model in (MODELS["logistic"](), make_pipeline(ordinal(), GaussianNB())):
        problem = task(model)
        context = Search(problem, oracle="model", imitation=imitating_trees(problem)).context
        assert isinstance(context.oracle, TableOracle)
        assert context.imitation is None


@pytest.mark.parametrize(("kind", "count"), [("histogram", 3), ("relu", 2)])
def test_a_callable_is_imitated_and_asked_about_the_best_few(kind, count):
    fitted = MODELS[kind]().fit(rows(), classes(rows(), count))
    problem = Task(rows(), lambda r: fitted.predict_proba(r), schema=SCHEMA, target=1, rules="age' >= age")
    asked = rows(16, seed=4)
    search = Search(problem, prefer="sparse", imitation=imitating_trees(problem))
    imitated, own = search.explain(asked), Search(problem, prefer="sparse").explain(asked)
    assert imitated.counts == own.counts
    assert imitated.checks.passed.all()
    assert imitated.calls.mean() < 40 < own.calls.mean()
    assert imitated.checks.cost.mean() <= 1.1 * own.checks.cost.mean()
    alone = search.explain(asked.iloc[[7]])
    assert np.array_equal(alone.answers, imitated.answers[imitated.place == 7])


def test_a_reading_that_parts_from_the_model_is_not_used():
    problem = task(MODELS["relu"]())
    space = SearchSpace(problem)
    model = read_code_model(space)
    assert seen_rounding(space, model) is not None
    model.layers.biases[-1][:] += 0.01
    assert seen_rounding(space, model) is None


@pytest.mark.parametrize("kind", ["logistic", "relu", "histogram", "deep", "sigmoid", "threshold"])
def test_answers_are_as_good_as_where_the_model_is_asked_and_cost_it_few_queries(kind):
    problem = task(MODELS[kind](), rules="age' >= age")
    asked = rows(40, seed=4)
    read, own = (Search(problem, prefer="sparse", oracle=oracle).explain(asked) for oracle in ("auto", "model"))
    assert read.counts == own.counts
    assert read.checks.passed.all()
    assert read.checks.cost.mean() <= 1.01 * own.checks.cost.mean()
    assert (read.calls <= 3).all()
    assert (read.calls[read.row_status == "verified"] > 0).all()
    assert read.effort.calls < own.effort.calls / 10


def test_rows_that_only_a_tie_helps_are_asked_about_in_the_end():
    # Two trees that part make a tie, which scikit-learn gives to the first class.
    table = rows(80)
    forest = make_pipeline(ordinal(), RandomForestClassifier(2, max_depth=1, random_state=3))
    problem = Task(table, forest.fit(table, classes(table)), schema=SCHEMA, target=0)
    read, own = (Search(problem, oracle=oracle).explain(table) for oracle in ("auto", "model"))
    assert read.counts == own.counts


def test_a_wrapped_classifier_is_read_too():
    fitted = MODELS["histogram"]().fit(rows(), classes(rows()))
    named = as_classifier(fitted, schema=SCHEMA, classes=("no", "yes"))
    assert isinstance(Search(Task(rows(), named, schema=SCHEMA, target="yes")).context.oracle, CodeOracle)


def native(kind):
    """A model on pandas categories, without preprocessing, and the table that it was fitted on."""
    table = rows()
    table = table.astype({name: pd.CategoricalDtype(SCHEMA[name].levels) for name in CATEGORIES})
    if kind == "xgboost":
        model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=9, max_depth=4, enable_categorical=True)
    else:
        lightgbm = pytest.importorskip("lightgbm")
        model = lightgbm.LGBMClassifier(n_estimators=9, verbose=-1, min_data_per_group=5, cat_smooth=1.0)
    score = table["job"].isin(["a", "d"]) * 1.0 + table["home"].isin(["rent"]) - table["income"].to_numpy() / 6_000
    return model.fit(table, (score > 0.3).to_numpy().astype(int)), table


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_native_categories_are_read(kind):
    model, table = native(kind)
    problem = Task(table, model, schema=SCHEMA, target=1)
    fresh = rows(200, seed=1)
    p = problem.classifier.probabilities(fresh)
    assert by_codes(problem, fresh, 1) == pytest.approx(np.log(p[:, 1] / p[:, 0]), abs=2e-4)
    assert isinstance(Search(problem).context.oracle, CodeOracle)


def test_what_is_out_of_reach_of_a_sum_is_so_for_every_legal_row():
    schema = Schema(
        (
            Feature("age", "integer", low=0, high=9),
            Feature("pay", "integer", low=0, high=12),
            Feature("job", "categorical", levels=("a", "b", "c")),
            Feature("born", "categorical", levels=("x", "y"), mutable=False),
        )
    )
    draws = np.random.default_rng(0)
    table = pd.DataFrame({f.name: f.at(draws.integers(0, f.top + 1, 200)) for f in schema})
    table = schema.table({f.name: table[f.name].to_numpy() for f in schema})
    good = (table["age"] + 2 * table["pay"] - 4 * (table["job"] == "a") + 3 * (table["born"] == "x")) > 19
    columns = ColumnTransformer([("c", OneHotEncoder(), ["job", "born"])], remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression(C=100)).fit(table, good.to_numpy().astype(int))
    rules = "age' >= age\npay' <= pay + 2 or job' == job and pay' <= pay + 5\njob' != job => age' > age"
    problem = Task(table, model, schema=schema, rules=rules, target=1)
    refused = table[problem.refused(table)].head(40)
    space = pd.MultiIndex.from_product([range(10), range(13), list("abc")], names=["age", "pay", "job"]).to_frame(
        index=False
    )
    possible = []
    for _, row in refused.iterrows():
        after = space.assign(born=row["born"])
        before = pd.DataFrame([row] * len(after)).reset_index(drop=True)
        before = before.astype({"age": int, "pay": int})
        legal = holds(problem.rules, before, after)
        possible.append((problem.predict(after[list(table)])[legal] == 1).any())
    found = Search(problem).out_of_reach(refused)
    assert 0 < found.sum() < len(found)
    assert np.array_equal(found, ~np.array(possible))
