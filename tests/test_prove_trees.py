"""Proofs by trees: whatever the model and its preprocessing, an impossible row survives brute force."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

import loans
from effort import examples
from fcxplain import Feature, Schema, Task, load_dataset, train_classifier
from fcxplain.explanation import Status
from fcxplain.proof.batch import own_trees
from fcxplain.proof.proof import prove
from fcxplain.rules import holds, parse_rules
from fcxplain.search import Search
from proving import BOX_RULES, WIDE_RULES, a_task, rows_of, some_rows, truth_of
from rule_texts import rule_texts, small_schemas

pytestmark = pytest.mark.filterwarnings("ignore::fcxplain.errors.FcxWarning", "ignore::UserWarning")
calm = examples(4, few=1, suppress_health_check=list(HealthCheck))

CATEGORIES, NUMBERS = ["c", "d", "o", "p"], ["a", "b b"]


def histogram(seed: int) -> HistGradientBoostingClassifier:
    marks = [True] * len(CATEGORIES) + [False] * len(NUMBERS)
    return HistGradientBoostingClassifier(
        categorical_features=marks, max_iter=6, learning_rate=0.5, min_samples_leaf=2, random_state=seed
    )


def xgboost_model(seed: int):
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBClassifier(n_estimators=6, learning_rate=0.5, n_jobs=1, random_state=seed)


def lightgbm_model(seed: int):
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(
        n_estimators=6, learning_rate=0.5, min_child_samples=2, n_jobs=1, verbose=-1, random_state=seed
    )


MODELS = {
    "histogram": histogram,
    "gradient": lambda seed: GradientBoostingClassifier(n_estimators=6, learning_rate=0.5, random_state=seed),
    "exponential": lambda seed: GradientBoostingClassifier(
        n_estimators=6, learning_rate=0.9, loss="exponential", random_state=seed
    ),
    "forest": lambda seed: RandomForestClassifier(n_estimators=4, random_state=seed),
    "extra": lambda seed: ExtraTreesClassifier(n_estimators=4, max_depth=8, random_state=seed),
    "tree": lambda seed: DecisionTreeClassifier(max_depth=6, random_state=seed),
    "xgboost": xgboost_model,
    "lightgbm": lightgbm_model,
}


def columns(kind: str, seed: int) -> ColumnTransformer:
    """Preprocessing of many kinds: codes for histograms, sparse or dense ones for others."""
    if kind == "histogram":
        return ColumnTransformer([("c", OrdinalEncoder(), CATEGORIES), ("n", "passthrough", NUMBERS)])
    numbers = [StandardScaler(), QuantileTransformer(n_quantiles=5), KBinsDiscretizer(2), "passthrough"][seed % 4]
    encoder = OneHotEncoder(sparse_output=seed % 2 == 0)
    return ColumnTransformer(
        [("c", encoder, ["c", "d"]), ("o", OrdinalEncoder(), ["o", "p"]), ("n", numbers, NUMBERS)],
        sparse_threshold=1.0 if seed % 2 == 0 else 0.0,
    )


@cache
def decided_by(kind: str, classes: int = 2) -> Task:
    """A task of such a model, without rules."""
    return a_task(LITTLE, fitted(LITTLE, kind, 7, classes), "", target=classes - 1)


def fitted(schema: Schema, kind: str, seed: int, classes: int = 2) -> Pipeline:
    """A model that gives the last class to few rows, which other features than one make so."""
    generator, table = np.random.default_rng(seed), rows_of(schema)
    codes = np.column_stack([pd.factorize(table[n], sort=True)[0] for n in table])
    score = sum(generator.normal(size=20)[column] for column in codes.T)
    score = score + 0.7 * generator.normal(size=20)[codes[:, 0] + codes[:, 4]] + generator.normal(size=len(table)) / 2
    labels = np.searchsorted(np.quantile(score, [0.7, 0.9][-(classes - 1) :]), score)
    return Pipeline([("columns", columns(kind, seed)), ("model", MODELS[kind](seed))]).fit(table, labels)


LITTLE = Schema(
    (
        Feature("a", "integer", low=-1, high=3),
        Feature("b b", "continuous", low=0, high=1, step=0.25),
        Feature("c", "categorical", levels=("x", "y", "z")),
        Feature("d", "categorical", levels=("y", "x", "w w")),
        Feature("o", "ordinal", levels=("lo", "mid", "also-mid", "hi"), ranks=(0, 1, 1, 2)),
        Feature("p", "ordinal", levels=("lo", "hi"), mutable=False),
    )
)


TIGHT = (
    ["abs(a' - a) <= 1", "d' == d", "o' >= o", "c' == c or `b b`' == `b b`"],
    ["o' > o => a' > a", "c' != c => d' == d", "`b b`' == `b b`", "abs(a' - a) <= 1", "o' <= also-mid"],
    ["a' + 4 * `b b`' <= a + 4 * `b b`", "d' == d", "o' <= o or c' == c"],
)


@pytest.mark.parametrize("kind", MODELS)
def test_tight_rules_are_decided_as_brute_force_decides_them(kind):
    table = rows_of(LITTLE)
    task = decided_by(kind)
    good = table[task.predict(table) == 1].reset_index(drop=True)
    rows = table[task.refused(table)].sample(50, random_state=1)
    before = rows.iloc[np.repeat(np.arange(50), len(good))].reset_index(drop=True)
    after = good.iloc[np.tile(np.arange(len(good)), 50)].reset_index(drop=True)
    for rules in TIGHT:
        narrow = task.relaxed(rules=parse_rules(rules, LITTLE))
        kept = holds(narrow.rules, before, after) & (before["p"] == after["p"]).to_numpy()
        there = kept.reshape(50, -1).any(axis=1)
        proof = prove(narrow, rows, np.ones(50, dtype=int), limit=0)
        assert 3 <= there.sum() <= 47
        assert (proof.impossible == ~there).all()
        assert (proof.possible == there).all()


@pytest.mark.parametrize("kind", MODELS)
def test_trees_and_box_rules_alone_decide_every_row(kind):
    @calm
    @given(small_schemas(), st.lists(BOX_RULES, max_size=3), st.integers(0, 10**6))
    def property_holds(schema, rules, seed):
        task = a_task(schema, fitted(schema, kind, seed), rules)
        rows, wanted = some_rows(schema, seed), np.array([1, 1, 1, 1, 1, 0])
        proof = prove(task, rows, wanted, limit=0)
        there = truth_of(task, rows, wanted)
        assert proof.notes == ()
        assert (proof.impossible == ~there).all()
        assert (proof.possible == there).all()

    property_holds()


@pytest.mark.parametrize("kind", [k for k in MODELS if k != "exponential"])
def test_no_row_with_a_counterfactual_is_called_impossible(kind):
    """Any rules, thresholds and three classes."""

    @calm
    @given(st.data(), st.integers(0, 10**6), st.sampled_from([None, 0.0, 0.25, 0.5, 0.9, 1.0]))
    def property_holds(data, seed, threshold):
        schema = data.draw(small_schemas())
        rules = data.draw(st.lists(st.one_of(rule_texts(schema), WIDE_RULES), max_size=2))
        classes = data.draw(st.integers(2, 3)) if threshold is None else 2
        model = fitted(schema, kind, seed, classes)
        task = a_task(schema, model, rules, threshold=threshold, target=classes - 1)
        rows, wanted = some_rows(schema, seed), np.array([0, *[classes - 1] * 5])
        there = truth_of(task, rows, wanted)
        proof = prove(task, rows, wanted, limit=0)
        assert not (proof.impossible & there).any()
        assert there[proof.possible].all()
        assert (proof.impossible | proof.possible).sum() >= 4

    property_holds()


@calm
@given(small_schemas(), st.lists(BOX_RULES, max_size=2), st.integers(0, 10**6))
def test_a_proof_does_not_depend_on_the_company_of_a_row(schema, rules, seed):
    task = a_task(schema, fitted(schema, "histogram", seed), rules)
    rows = some_rows(schema, seed, 4)
    together = prove(task, rows, np.ones(4, dtype=int), limit=0)
    alone = [prove(task, rows.iloc[[i]], np.ones(1, dtype=int), limit=0) for i in range(4)]
    assert together.reason.tolist() == [p.reason[0] for p in alone]
    pd.testing.assert_frame_equal(together.witness, pd.concat([p.witness for p in alone]), check_dtype=False)


@pytest.mark.parametrize("kind", MODELS)
def test_the_scores_read_are_the_models_own_on_every_legal_row(kind):
    for classes in (2, 3) if kind != "exponential" else (2,):
        task, table = decided_by(kind, classes), rows_of(LITTLE)
        trees, notes = own_trees(task)
        assert notes == ()
        scores = trees.trees.sums(trees.columns(table)) + trees.base
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares = scores if trees.shares else odds / odds.sum(axis=1, keepdims=True)
        assert np.allclose(shares, task.classifier.answer.model.predict_proba(table), atol=1e-6)


def little(model, rules="") -> Task:
    return Task(rows_of(LITTLE), model, schema=LITTLE, rules=rules, target=1)


def little_labels() -> np.ndarray:
    table = rows_of(LITTLE)
    return ((table["a"] > 1) & (table["c"] == "x") & (table["p"] == "hi") & (table["b b"] > 0.3)).to_numpy().astype(int)


def test_what_cannot_change_decides_and_no_question_is_asked():
    """The class needs `p` to be high, which is fixed."""
    model = make_pipeline(columns("tree", 1), DecisionTreeClassifier()).fit(rows_of(LITTLE), little_labels())
    rows = rows_of(LITTLE).sample(40, random_state=0)
    proof = prove(little(model), rows, np.ones(40, dtype=int), limit=0)
    assert (proof.impossible == (rows["p"] == "lo")).all()
    assert proof.reason[proof.impossible].tolist() == ["bound"] * proof.impossible.sum()
    assert (proof.asked == (rows["p"] == "hi")).all()
    assert proof.possible.sum() + proof.impossible.sum() == 40


def test_a_tie_of_two_trees_is_decided_by_the_model_itself():
    """A forest of even votes: at one half exactly the first class is answered, or by the threshold the second."""
    table, labels = rows_of(LITTLE), little_labels()
    halves = [DecisionTreeClassifier(max_depth=1, random_state=0).fit(columns("tree", 1).fit_transform(table), y)
              for y in (labels * 0 + (table["c"] == "x"), labels * 0 + (table["c"] != "x"))]  # fmt: skip
    encoder = columns("tree", 1).fit(table)
    forest = RandomForestClassifier(n_estimators=2, max_depth=1, random_state=0).fit(encoder.transform(table), labels)
    forest.estimators_ = halves
    model = Pipeline([("columns", encoder), ("model", forest)])
    rows = table.iloc[[0, 5, 100]]
    for threshold, target in ((None, 0), (None, 1), (0.5, 0), (0.5, 1)):
        task = Task(table, model, schema=LITTLE, target=target, threshold=threshold)
        proof = prove(task, rows, np.full(3, target), limit=0)
        there = truth_of(task, rows, np.full(3, target))
        assert (proof.impossible == ~there).all()
        assert (proof.possible == there).all()
        assert (prove(task, rows, np.full(3, target), limit=0, asks=0).impossible & there).sum() == 0


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (PCA(2), "PCA may combine several features in a column"),
        (FunctionTransformer(lambda x: x), "FunctionTransformer may combine several features"),
        (make_pipeline(StandardScaler(), PCA(2)), "Pipeline may combine several features"),
    ],
)
def test_preprocessing_that_may_mix_features_proves_nothing_and_says_so(step, told):
    first = columns("tree", 1)
    model = make_pipeline(first, step, DecisionTreeClassifier(max_depth=3)).fit(rows_of(LITTLE), little_labels())
    rows = rows_of(LITTLE).iloc[:4]
    proof = prove(little(model), rows, np.ones(4, dtype=int), limit=0)
    assert proof.reason.tolist() == [""] * 4
    assert told in proof.notes[0]


def test_a_model_that_does_not_answer_as_its_trees_do_proves_nothing():
    model = make_pipeline(columns("tree", 1), DecisionTreeClassifier(max_depth=3)).fit(rows_of(LITTLE), little_labels())
    inner = model[-1]
    inner.predict_proba = lambda x: np.tile([0.4, 0.6], (len(x), 1))
    proof = prove(little(model), rows_of(LITTLE).iloc[:4], np.ones(4, dtype=int), limit=0)
    assert not proof.impossible.any()
    assert "predict_proba was replaced" in proof.notes[0]


@pytest.mark.parametrize("method", ["predict", "decision_function", "_raw_predict", "_validate_X_predict"])
def test_a_method_in_place_of_the_classs_own_is_noticed_at_any_depth(method):
    inner = GradientBoostingClassifier(n_estimators=3)
    model = make_pipeline(columns("gradient", 1), inner).fit(rows_of(LITTLE), little_labels())
    part = inner.estimators_[0, 0] if method == "_validate_X_predict" else inner
    setattr(part, method, getattr(part, method))
    trees, notes = own_trees(little(model))
    assert trees is None
    assert f"its {method} was replaced" in notes[0]


def test_leaves_with_slopes_are_refused_however_they_came_into_the_model():
    lightgbm = pytest.importorskip("lightgbm")
    table = rows_of(LITTLE)[["a", "b b"]].astype(float)
    labels = (table["a"] + 4 * table["b b"] > 4).astype(int)
    schema = Schema(tuple(f for f in LITTLE if f.name in ("a", "b b")))
    settings = {"n_estimators": 4, "min_child_samples": 2, "verbose": -1, "n_jobs": 1}
    sloped = lightgbm.LGBMClassifier(linear_tree=True, **settings).fit(table, labels)
    further = lightgbm.LGBMClassifier(**settings).fit(table, labels, init_model=sloped)
    for model, told in ((sloped, "linear_tree"), (further, "leaf_coeff")):
        trees, notes = own_trees(Task(table, model, schema=schema, target=1))
        assert trees is None
        assert told in notes[0]


@pytest.mark.parametrize(
    "setting",
    [{"pred_early_stop": True}, {"zero_as_missing": True}, {"sigmoid": 2.0}, {"num_iteration_predict": 1}],
)
def test_settings_of_lightgbm_that_reach_prediction_are_refused(setting):
    model = make_pipeline(columns("lightgbm", 1), lightgbm_model(0).set_params(**setting))
    trees, notes = own_trees(little(model.fit(rows_of(LITTLE), little_labels())))
    assert trees is None
    assert "is unknown" in notes[0]


@pytest.mark.parametrize("setting", [{"booster": "dart"}, {"multi_strategy": "multi_output_tree"}, {"missing": 0.0}])
def test_settings_of_xgboost_that_are_not_read_are_refused(setting):
    labels = little_labels() + (rows_of(LITTLE)["o"] == "hi").to_numpy()
    model = make_pipeline(columns("xgboost", 1), xgboost_model(0).set_params(**setting)).fit(rows_of(LITTLE), labels)
    trees, notes = own_trees(Task(rows_of(LITTLE), model, schema=LITTLE, target=1))
    assert trees is None
    assert "could not be read" in notes[0]


def test_a_model_that_leaves_its_trees_in_one_small_corner_is_found_out():
    """Of rows drawn uniformly, hardly one in ten thousand has a value there; training rows have."""

    class Corner(DecisionTreeClassifier):
        def predict_proba(self, x):
            return np.where(np.asarray(x)[:, [0]] <= 7, [[0.0, 1.0]], super().predict_proba(x))

    Corner.__module__, Corner.__name__ = "sklearn.tree", "DecisionTreeClassifier"
    schema = Schema((Feature("u", "integer", low=0, high=200_000), Feature("v", "integer", low=0, high=9)))
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"u": generator.integers(0, 900, 900), "v": generator.integers(0, 10, 900)})
    model = Corner(random_state=0).fit(table.to_numpy(), ((table["v"] > 4) & (table["u"] > 8)).astype(int))
    trees, notes = own_trees(Task(table, model, schema=schema, target=1, threshold=0.5))
    assert trees is None
    assert "differ" in notes[0]


def test_a_boosting_that_begins_with_another_model_is_left_alone():
    first = LogisticRegression()
    model = make_pipeline(columns("gradient", 1), GradientBoostingClassifier(init=first, n_estimators=3))
    proof = prove(
        little(model.fit(rows_of(LITTLE), little_labels())), rows_of(LITTLE).iloc[:2], np.ones(2, int), limit=0
    )
    assert "starts from the predictions of another model" in proof.notes[0]


def test_models_that_are_no_trees_are_passed_over_in_silence():
    inner = make_pipeline(columns("tree", 1), DecisionTreeClassifier(max_depth=3))
    model = CalibratedClassifierCV(inner, cv=2).fit(rows_of(LITTLE), little_labels())
    assert own_trees(little(model)) == (None, ())
    assert own_trees(loans.task()) == (None, ())


def test_a_fixed_threshold_around_trees_is_seen_through():
    inner = make_pipeline(columns("tree", 1), DecisionTreeClassifier(max_depth=2, random_state=0))
    model = FixedThresholdClassifier(inner, threshold=0.9).fit(rows_of(LITTLE), little_labels())
    task = little(model)
    rows, wanted = rows_of(LITTLE).iloc[::97], np.ones(len(rows_of(LITTLE).iloc[::97]), dtype=int)
    assert task.classifier.threshold == 0.9
    assert (prove(task, rows, wanted, limit=0).impossible == ~truth_of(task, rows, wanted)).all()


@pytest.mark.parametrize("response", ["predict_proba", "decision_function"])
@pytest.mark.parametrize("positive", [0, 1])
def test_a_threshold_proves_what_predict_confirms_and_nothing_where_it_cannot_be_read(response, positive):
    inner = make_pipeline(columns("gradient", 1), GradientBoostingClassifier(n_estimators=3, random_state=0))
    model = FixedThresholdClassifier(inner, threshold=0.15, pos_label=positive, response_method=response)
    task = little(model.fit(rows_of(LITTLE), little_labels()))
    rows = rows_of(LITTLE).iloc[::97]
    wanted = np.ones(len(rows), dtype=int)
    proof = prove(task, rows, wanted, limit=0)
    is_read = response == "predict_proba"
    assert (proof.impossible == (~truth_of(task, rows, wanted) & is_read)).all()
    assert is_read or "how its predict decides is unknown" in proof.notes[0]


def test_few_boxes_leave_rows_open_and_never_make_them_impossible():
    task = little(fitted(LITTLE, "forest", 5))
    rows, wanted = rows_of(LITTLE).iloc[::161], np.ones(len(rows_of(LITTLE).iloc[::161]), dtype=int)
    there = truth_of(task, rows, wanted)
    for boxes in (0, 1, 4):
        proof = prove(task, rows, wanted, limit=0, boxes=boxes)
        assert not (proof.impossible & there).any()
    assert not prove(task, rows, wanted, limit=0, boxes=0).impossible.any()
    assert not prove(task, rows, wanted, limit=0, until=0.0).impossible.any()


def test_a_rule_on_two_large_numbers_at_once_enters_the_bound():
    """The loan must be above 300,000, which five wages of at most 40,000 do not allow."""
    schema = Schema((Feature("wage", "integer", low=0, high=90_000), Feature("loan", "integer", low=0, high=400_000)))
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"wage": generator.integers(0, 90_001, 500), "loan": generator.integers(0, 400_001, 500)})
    model = DecisionTreeClassifier(max_depth=1).fit(table, (table["loan"] > 300_000).astype(int))
    rows = table[table["loan"] < 200_000].iloc[:5]
    for most, reason in ((40_000, "bound"), (80_000, "")):
        rules = ["loan' <= 5 * wage'", f"wage' <= {most}"]
        proof = prove(Task(table, model, schema=schema, rules=rules, target=1), rows, np.ones(5, dtype=int), limit=0)
        assert proof.reason.tolist() == [reason] * 5
        assert proof.possible.all() == (reason == "")


def test_a_present_value_between_two_grid_values_may_stay():
    """Only from 0.28 to 0.32 is the class given, and no grid value lies there."""
    schema = Schema(
        (Feature("x", "continuous", low=0, high=1, step=0.25), Feature("n", "integer", low=0, high=3, mutable=True))
    )
    table = pd.DataFrame({"x": np.tile(np.linspace(0, 1, 51), 4), "n": np.repeat(np.arange(4), 51)})
    labels = (abs(table["x"] - 0.3) < 0.03) & (table["n"] == 2)
    model = DecisionTreeClassifier(random_state=0).fit(table, labels.astype(int))
    task = Task(table.assign(x=table["x"].round(0)), model, schema=schema, target=1)
    proof = prove(task, pd.DataFrame({"x": [0.3, 0.25, 0.31], "n": [1, 1, 3]}), np.ones(3, dtype=int), limit=0)
    assert proof.possible.tolist() == [True, False, True]
    assert proof.reason.tolist() == ["", "bound", ""]
    assert proof.witness["x"].tolist() == [0.3, 0.25, 0.31]
    assert proof.witness["n"].tolist() == [2, 1, 2]


def test_what_rules_on_several_values_leave_in_doubt_is_not_called_impossible():
    """Few pairs keep the rule, and too many would have to be tried to find one."""
    schema = Schema(tuple(Feature(name, "integer", low=0, high=90_000) for name in "uv"))
    table = pd.DataFrame({"u": np.arange(0, 90_000, 90), "v": 0})
    model = DecisionTreeClassifier().fit(table, (table["u"] > 50_000).astype(int))
    task = Task(table, model, schema=schema, rules="7 * u' - 5 * v' == 3", target=1)
    assert task.predict(pd.DataFrame({"u": [50_004], "v": [70_005]}))[0] == 1
    assert prove(task, table.iloc[:2], np.ones(2, dtype=int), limit=0).reason.tolist() == ["", ""]


def test_with_boosting_every_row_of_adult_authors_is_decided():
    """Impossible rows stay refused wherever they are moved at random, and the others get a checked answer."""
    data = load_dataset("adult-authors")
    model = train_classifier(data, kind="boosting", seed=0)
    task = Task(data.train, model, schema=data.schema, rules=data.rules["unary"], target=data.target)
    rows = data.test[list(task.schema.names)]
    rows = rows[task.refused(rows)].iloc[:20]
    answer = Search(task, prefer="sparse").explain(rows)
    status = np.asarray([str(s) for s in answer.status])
    assert set(status) == {Status.VERIFIED, Status.IMPOSSIBLE}
    generator = np.random.default_rng(0)
    legal = {f.name: f.at(generator.integers(0, f.top, 3000, endpoint=True)) for f in task.schema}
    for i in np.flatnonzero(status == Status.IMPOSSIBLE)[:5]:
        now = task.schema.natural(rows.iloc[[i]])
        moved = {n: np.repeat(now[n], 3000) if not task.schema[n].mutable else v for n, v in legal.items()}
        moved["age"] = np.maximum(moved["age"], now["age"])
        assert (task.predict(task.schema.table(moved)) != data.target).all()
