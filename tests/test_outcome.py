"""Outcomes: a class, several classes, a probability, a range; held against every legal row of small tables."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from torch import nn

from fcxplain import METHODS, FCx, Schedule, Schema, Task, read_answers, verify
from fcxplain.encoding import TableEncoder
from fcxplain.errors import ClassifierError, DataError, FcxWarning
from fcxplain.explanation import ChangeCosts
from fcxplain.training_loop import Adam

pytestmark = pytest.mark.filterwarnings("ignore::fcxplain.errors.FcxWarning")

RANGES = {"a": 6, "b": 5, "c": 4}
RULES = "a' >= a\nb' <= b + 2"


def table(rows: int = 160, seed: int = 0) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    return pd.DataFrame({n: draws.integers(0, top + 1, rows) for n, top in RANGES.items()})


def schema() -> Schema:
    return Schema.infer(table(2_000))


def points(rows: pd.DataFrame) -> np.ndarray:
    return 40 * rows["a"].to_numpy() + 25 * rows["b"].to_numpy() - 15 * rows["c"].to_numpy() + 500.0


def grade(rows: pd.DataFrame) -> np.ndarray:
    return np.digitize(points(rows), [540, 620, 700])


def legal(row: pd.Series) -> pd.DataFrame:
    """Every row that the rules leave to one."""
    every = pd.DataFrame(list(itertools.product(*(range(top + 1) for top in RANGES.values()))), columns=list(RANGES))
    return every[(every["a"] >= row["a"]) & (every["b"] <= row["b"] + 2)]


def best_costs(task: Task, rows: pd.DataFrame, met) -> list[float]:
    """The cost of the cheapest legal row with which each row gets what it wants; infinite where there is none."""
    found = []
    for i in range(len(rows)):
        row = rows.iloc[i]
        others = legal(row)
        good = others[met(others, rows.iloc[[i]])]
        now = {n: np.full(len(good), row[n]) for n in RANGES}
        cost = ChangeCosts().total(task, now, {n: good[n].to_numpy() for n in RANGES})
        found.append(float(cost.min(initial=np.inf)))
    return found


def agrees(task: Task, met, rows: int = 24) -> dict[str, int]:
    """Explain rows, hold statuses and costs against every legal row, and count the statuses."""
    asked = table(rows, seed=7)
    # What `ChangeCosts` says is what is searched for.
    answer = FCx(generator=False, seed=0).fit(task).explain(asked, cost={"change": 1.0, "distance": 1.0})
    already = met(asked, asked)
    costs = best_costs(task, asked, met)
    told = dict(zip(answer.place.tolist(), answer.checks.cost.tolist(), strict=True))
    for i, status in enumerate(answer.row_status.tolist()):
        if already[i]:
            assert status == "already"
        elif np.isinf(costs[i]):
            assert status == "impossible"
        else:
            assert status == "verified", (status, asked.iloc[i].to_dict(), costs[i])
            assert told[i] == pytest.approx(costs[i])
    assert met(answer.answers, answer.before.reset_index(drop=True)).all()
    return answer.counts


def at_least(model, bound: float):
    return lambda rows, _: model(rows) >= bound


REGRESSORS = {
    "linear": LinearRegression(),
    "tree": DecisionTreeRegressor(max_depth=4, random_state=0),
    "forest": RandomForestRegressor(8, max_depth=4, random_state=0),
    "extra trees": ExtraTreesRegressor(5, max_depth=4, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=12, random_state=0),
    "histogram": HistGradientBoostingRegressor(max_iter=12, min_samples_leaf=5, random_state=0),
    "perceptron": MLPRegressor(hidden_layer_sizes=(6,), solver="lbfgs", max_iter=500, random_state=0),
}


@pytest.mark.parametrize("kind", REGRESSORS)
def test_a_regressor_agrees_with_every_legal_row(kind):
    train = table()
    noise = np.random.default_rng(1).normal(0, 9, len(train))
    model = REGRESSORS[kind].fit(train, points(train) + noise)
    task = Task(train, model, schema=schema(), rules=RULES, target=">= 655.5")
    counts = agrees(task, at_least(model.predict, 655.5))
    assert counts["verified"] > 3


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_boosters_agree_with_every_legal_row(kind):
    library = pytest.importorskip(kind)
    train = table()
    if kind == "xgboost":
        model = library.XGBRegressor(n_estimators=12, max_depth=3)
    else:
        model = library.LGBMRegressor(n_estimators=12, min_child_samples=5, verbose=-1)
    model.fit(train, points(train))
    task = Task(train, model, schema=schema(), rules=RULES, target="<= 560.5")
    agrees(task, lambda rows, _: model.predict(rows) <= 560.5)


def test_a_callable_that_answers_numbers_agrees_with_every_legal_row():
    task = Task(table(), points, schema=schema(), rules=RULES, target=">= 820")
    counts = agrees(task, at_least(points, 820), rows=40)
    assert {"verified", "already", "impossible"} <= set(counts)
    assert task.classes == ()


def test_a_range_with_two_ends_agrees_with_every_legal_row():
    model = LinearRegression().fit(table(), points(table()) ** 1.1)
    said = np.round(model.predict(table()), 1)
    low, high = np.quantile(said, [0.6, 0.64])
    task = Task(table(), model, schema=schema(), rules=RULES, target=f"{low}..{high}")
    agrees(task, lambda rows, _: (model.predict(rows) >= low) & (model.predict(rows) <= high))


@pytest.mark.parametrize(("target", "sign"), [("+10 %", 1), ("-5%", -1)])
def test_a_change_is_counted_from_the_present_output(target, sign):
    model = LinearRegression().fit(table(), points(table()) + 0.37)
    task = Task(table(), model, schema=schema(), rules=RULES, target=target)
    part = 0.1 if sign > 0 else 0.05

    def met(rows, before):
        now = model.predict(before) if len(before) == len(rows) else np.full(len(rows), model.predict(before)[0])
        bound = now + sign * part * np.abs(now)
        then = model.predict(rows)
        return then >= bound if sign > 0 else then <= bound

    counts = agrees(task, met)
    assert "already" not in counts


@pytest.mark.parametrize(
    "model", [RandomForestClassifier(6, max_depth=4, random_state=0), LogisticRegression(max_iter=500)]
)
def test_several_classes_agree_with_every_legal_row(model):
    train = table()
    model.fit(train, np.array(["none", "bronze", "silver", "gold"])[grade(train)])
    task = Task(train, model, schema=schema(), rules=RULES, target=["gold", "silver"])
    counts = agrees(task, lambda rows, _: np.isin(model.predict(rows), ["gold", "silver"]))
    assert counts["verified"]


@pytest.mark.parametrize("target", [1, 0])
@pytest.mark.parametrize("kind", ["forest", "histogram", "logistic"])
def test_a_probability_of_two_classes_agrees_with_every_legal_row(kind, target):
    train = table()
    model = {
        "forest": RandomForestClassifier(7, max_depth=4, random_state=0),
        "histogram": HistGradientBoostingClassifier(max_iter=15, min_samples_leaf=5, random_state=0),
        "logistic": LogisticRegression(C=0.02),
    }[kind].fit(train, (points(train) > 640).astype(int))
    task = Task(train, model, schema=schema(), rules=RULES, target=target, target_probability=0.8)
    agrees(task, lambda rows, _: model.predict_proba(rows)[:, target] >= 0.8)


@pytest.mark.parametrize("target", ["gold", ["gold", "silver"]])
def test_a_probability_of_several_classes_agrees_with_every_legal_row(target):
    train = table()
    names = np.array(["none", "bronze", "silver", "gold"])
    model = LogisticRegression(C=0.01, max_iter=500).fit(train, names[grade(train)])
    task = Task(train, model, schema=schema(), rules=RULES, target=target, target_probability=0.6)
    wanted = np.atleast_1d(target)

    def met(rows, _):
        chance = model.predict_proba(rows)[:, np.isin(model.classes_, wanted)].sum(axis=1)
        return np.isin(model.predict(rows), wanted) & (chance >= 0.6)

    agrees(task, met)


@pytest.mark.parametrize("kind", ["tree", "forest", "boosting"])
def test_a_range_that_nobody_can_reach_is_proved_impossible_by_trees(kind):
    train = table()
    wide = train.assign(d=np.arange(len(train)) * 1_000, e=np.arange(len(train))[::-1] * 999)
    model = REGRESSORS[kind].fit(wide, points(train))
    task = Task(wide, model, target=">= 2000")
    answer = FCx(generator=False, seed=0).fit(task).explain(wide.iloc[:5])
    assert answer.counts == {"impossible": 5}


def test_what_is_out_of_reach_of_a_linear_model_is_proved_impossible():
    wide = table().assign(d=np.arange(160) * 1_000, e=np.arange(160)[::-1] * 999)
    said = points(wide) + wide["d"] / 1_000
    model = LinearRegression().fit(wide, said)
    # The most that the rules leave to each row is known: d and e change nothing else.
    most = 500 + 40 * 6 + 25 * 5 + 159
    for bound, found in ((most + 0.01, {"impossible": 5}), (most - 0.01, {"verified": 5})):
        answer = FCx(generator=False, seed=0).fit(Task(wide, model, target=f">= {bound}")).explain(wide.iloc[:5])
        assert answer.counts == found


def test_an_unknown_class_in_a_list_is_refused_by_name():
    model = LogisticRegression(max_iter=500).fit(
        table(), np.array(["none", "silver", "gold"])[grade(table()).clip(0, 2)]
    )
    with pytest.raises(DataError, match=r"target 'golf': is not one of the classes. Did you mean 'gold'\?"):
        Task(table(), model, target=["golf", "silver"])
    with pytest.raises(DataError, match="names every class"):
        Task(table(), model, target=["none", "silver", "gold"])


def test_a_class_that_looks_like_a_range_is_a_class():
    names = np.where(points(table()) > 640, ">50K", "<=50K")
    model = LogisticRegression().fit(table(), names)
    task = Task(table(), model, target="<=50K")
    assert task.target == "<=50K"
    assert task.classes == ("<=50K", ">50K")
    whole = table().assign(label=np.where(points(table()) > 640, "> 5", "<= 5"))
    task = Task(whole, lambda rows: (points(rows) > 640) * 0.8 + 0.1, label="label", target="<= 5")
    assert task.target == "<= 5"
    with pytest.raises(DataError, match="A range is for models without classes"):
        Task(table(), model, target=">= 50")


def test_a_column_vector_is_one_number_a_row():
    flat, tall = (Task(table(), model, target=">= 700") for model in (points, lambda rows: points(rows)[:, None]))
    rows = table(9, seed=3)
    one, other = (FCx(generator=False, seed=0).fit(task).explain(rows).frame for task in (flat, tall))
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda rows: points(rows).astype(str), r"returned text, not numbers: .* Return one number per row"),
        (lambda rows: np.where(rows["a"] == 3, np.nan, points(rows)), r"answered nan \(.* rows, first at index"),
        (lambda rows: np.stack([points(rows)] * 2, axis=1), r"shape 160 x 2 for 160 rows"),
        (lambda rows: 3.0, r"returned a float, not an array"),
    ],
)
def test_a_faulty_regressor_is_told_what_it_did(answer, said):
    with pytest.raises(ClassifierError, match=said):
        Task(table(), answer, target=">= 700")


def test_a_regressor_needs_a_range():
    model = LinearRegression().fit(table(), points(table()))
    with pytest.raises(DataError, match="target: is missing: the model predicts numbers"):
        Task(table(), model)
    with pytest.raises(DataError, match=r"target 700: is not a range. .* Give a range: "):
        Task(table(), model, target=700)
    with pytest.raises(DataError, match="is for models with classes"):
        Task(table(), model, target=">= 700", target_probability=0.8)
    with pytest.raises(ClassifierError, match=r"threshold=0.5: is for models with classes"):
        Task(table(), model, target=">= 700", threshold=0.5)


@pytest.mark.parametrize("least", [0, 1, 1.5, "much", True])
def test_what_is_no_probability_is_refused(least):
    model = LogisticRegression().fit(table(), points(table()) > 640)
    with pytest.raises(DataError, match=r"target_probability=.*: is not a probability"):
        Task(table(), model, target=True, target_probability=least)


def explained(target: str = ">= 655.5") -> tuple[HistGradientBoostingRegressor, FCx]:
    """A regressor, and an explainer of it."""
    model = HistGradientBoostingRegressor(max_iter=12, min_samples_leaf=5, random_state=0)
    task = Task(table(), model.fit(table(), points(table())), schema=schema(), rules=RULES, target=target)
    return model, FCx(generator=False, seed=0).fit(task)


@pytest.mark.parametrize("target", [">= 655.5", "+10 %"])
def test_answers_do_not_depend_on_batch_and_order(target):
    _, explainer = explained(target)
    rows = table(30, seed=5)
    whole = explainer.explain(rows).frame.set_index("row")
    backwards = explainer.explain(rows[::-1]).frame.set_index("row").loc[whole.index]
    alone = pd.concat([explainer.explain(rows.iloc[[i]]).frame.set_index("row") for i in range(8)])
    pd.testing.assert_frame_equal(whole, backwards)
    pd.testing.assert_frame_equal(whole.iloc[:8], alone, check_dtype=False)


@pytest.mark.parametrize("target", [">= 655.5", "+10 %", "620..655"])
def test_a_saved_explainer_keeps_the_outcome(tmp_path, target):
    model, explainer = explained(target)
    explainer.save(tmp_path / "model")
    again = FCx.load(tmp_path / "model", classifier=model)
    assert again.task_.target == explainer.task_.target
    rows = table(12, seed=5)
    pd.testing.assert_frame_equal(again.explain(rows).frame, explainer.explain(rows).frame)


def test_a_saved_explainer_keeps_several_classes_and_the_probability(tmp_path):
    model = LogisticRegression(C=0.01, max_iter=500).fit(table(), np.array([0, 1, 2, 3])[grade(table())])
    task = Task(table(), model, target=[2, 3], target_probability=0.6)
    FCx(generator=False).fit(task).save(tmp_path / "model")
    again = FCx.load(tmp_path / "model", classifier=model).task_
    assert (again.target, again.target_probability) == (task.target, 0.6)


@pytest.mark.parametrize("target", [">= 655.5", "+10 %"])
def test_a_file_with_a_range_is_read_and_verified(tmp_path, target):
    _, explainer = explained(target)
    rows, path = table(25, seed=5), tmp_path / "answers.parquet"
    answer = explainer.explain(rows)
    answer.to_parquet(path)
    report = verify(explainer.task_, rows, path)
    assert report.passed, str(report)
    again = read_answers(path, explainer)
    pd.testing.assert_frame_equal(again.frame, answer.frame)
    stored = pd.read_parquet(path)
    assert {"output", "output_now"} <= set(stored.columns)
    assert "probability" not in stored.columns


def test_overrides_name_several_classes_and_ranges(tmp_path):
    names = np.array(["none", "bronze", "silver", "gold"])
    model = LogisticRegression(max_iter=500).fit(table(), names[grade(table())])
    task = Task(table(), model, schema=schema(), target="gold")
    rows = pd.DataFrame({"a": [0, 0, 0], "b": [2, 2, 2], "c": [2, 2, 2]})
    own = {0: {"target": ["gold", "silver"]}, 1: {"target": "bronze, silver"}}
    explainer = FCx(generator=False, seed=0).fit(task)
    answer = explainer.explain(rows, overrides=own)
    assert answer.frame["wanted"].tolist() == ["gold or silver", "bronze or silver", "gold"]
    assert answer.counts == {"verified": 3}
    path = tmp_path / "answers.parquet"
    answer.to_parquet(path)
    assert verify(task, rows, path).passed
    assert read_answers(path, task).wanted.tolist() == answer.wanted.tolist()
    with pytest.raises(DataError, match="'golden' is not one of the classes"):
        explainer.explain(rows, overrides={0: {"target": ["golden", "silver"]}})
    _, regressor = explained()
    answer = regressor.explain(rows, overrides={0: {"target": ">= 600"}, 2: {"target": "-5 %"}})
    assert answer.frame["wanted"].tolist()[:2] == [">= 600", ">= 655.5"]
    answer.to_parquet(path)
    assert verify(regressor.task_, rows, path).passed


def test_the_present_score_stands_beside_the_new_one():
    model = LogisticRegression().fit(table(), np.where(points(table()) > 640, "yes", "no"))
    task = Task(table(), model, schema=schema(), target="yes", target_probability=0.7)
    rows = table(10, seed=5)
    answer = FCx(generator=False, seed=0).fit(task).explain(rows)
    now = model.predict_proba(rows)[:, 1]
    np.testing.assert_allclose(answer.frame["probability_now"], now)
    c = answer.certificates[0]
    then = model.predict_proba(answer.answers)[0, 1]
    assert (c.probability_now, c.needed) == (pytest.approx(now[answer.place[0]]), 0.7)
    words = f"{max(now[answer.place[0]], 0.001):.3f} now, {then:.3f} then; needed: 0.700"
    assert words in str(c)
    page = answer.to_html()
    assert words in page
    assert "LogisticRegression" in page


def test_a_regressors_certificate_speaks_in_its_own_units():
    model, explainer = explained()
    answer = explainer.explain(table(12, seed=5))
    c = answer.certificates[0]
    assert c.output == pytest.approx(model.predict(answer.answers)[0])
    assert c.output_now == pytest.approx(model.predict(answer.rows)[answer.place[0]])
    assert f"{c.output_now:.6g} now, {c.output:.6g} then; needed: >= 655.5" in str(c)
    assert "needed: &gt;= 655.5" in answer.to_html() or "needed: >= 655.5" in answer.to_html()
    assert {"output", "output_now"} <= set(answer.frame.columns)


def test_a_generator_is_left_out_for_ranges_of_each_row_with_a_warning():
    task = Task(table(), points, schema=schema(), target="+5 %")
    with pytest.warns(FcxWarning, match="no generator is trained: the search alone finds"):
        explainer = FCx(seed=0).fit(task)
    assert explainer.explain(table(5, seed=3)).counts.keys() <= {"verified", "already"}


@pytest.mark.parametrize("target", ["<= 620", "640..650"])
def test_a_generator_learns_a_range_and_answers_in_one_pass(target, tmp_path):
    model = HistGradientBoostingRegressor(max_iter=12, min_samples_leaf=5, random_state=0).fit(table(), points(table()))
    task = Task(table(), model, schema=schema(), rules=RULES, target=target)
    explainer, rows = FCx(schedule=Schedule(epochs=2, steps=60), seed=0).fit(task), table(12, seed=5)
    assert explainer.model_ is not None
    quick, searched = (explainer.explain(rows, quick=quick) for quick in (True, False))
    assert quick.counts == searched.counts
    low, high = {"<": (-np.inf, 620), "6": (640, 650)}[target[0]]
    assert ((low <= model.predict(quick.answers)) & (model.predict(quick.answers) <= high)).all()
    assert (quick.found_by == "draw").mean() > 0.5
    explainer.save(tmp_path / "model")
    again = FCx.load(tmp_path / "model", model).explain(rows, quick=True)
    pd.testing.assert_frame_equal(again.frame, quick.frame)


def test_why_not_knows_ranges():
    task = Task(table(), points, schema=schema(), rules="a' == a\nb' <= b", target=">= 700")
    rows = pd.DataFrame({"a": [2], "b": [4], "c": [1]})
    answer = FCx(generator=False, seed=0).fit(task).explain(rows, why_not=True)
    assert answer.counts == {"impossible": 1}
    assert answer.reasons[0].blockers


def test_a_torch_module_with_one_output_agrees_with_every_legal_row():
    train = table()
    encoder = TableEncoder().fit(schema().complete(train), train)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(encoder.width_, 6), nn.ReLU(), nn.Linear(6, 1)).double()
    encoder_rows = encoder.encode(train).double()
    optimiser = Adam(module.parameters(), 0.05)
    goal = torch.from_numpy((points(train) - 640) / 100)[:, None]
    for _ in range(200):
        optimiser.zero_grad()
        ((module(encoder_rows) - goal) ** 2).mean().backward()
        optimiser.step()
    task = Task(train, module, schema=schema(), encoder=encoder, rules=RULES, target=">= 0.55")

    def said(rows):
        with torch.no_grad():
            return module(encoder.encode(rows).double()).numpy()[:, 0]

    counts = agrees(task, at_least(said, 0.55))
    assert counts["verified"] > 3
    wide = train.assign(d=np.arange(len(train)) * 1_000, e=np.arange(len(train))[::-1] * 999)
    far = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    task = Task(wide, far, target=">= 1000")
    assert FCx(generator=False).fit(task).explain(wide.iloc[:3]).counts == {"impossible": 3}
    two = nn.Linear(5, 2).double()
    with pytest.raises(ClassifierError, match="has 2 outputs, but a range needs one"):
        Task(wide, two, target=">= 1000")


def test_a_pipeline_and_a_transformed_target_are_queried():
    model = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp)
    model = make_pipeline(StandardScaler(), model).fit(table(), points(table()))
    task = Task(table(), model, schema=schema(), rules=RULES, target=">= 655.5")
    agrees(task, at_least(model.predict, 655.5))


def test_methods_for_classes_refuse_a_regressor():
    task = Task(table(), points, schema=schema(), target=">= 700")
    with pytest.raises(DataError, match="predicts numbers, but this method needs a model with classes"):
        METHODS["face"](seed=0).fit(task).explain(table(4, seed=3))


SHARES = {
    "the threshold": ({"target": 1, "threshold": 0.5}, lambda p: p[:, 1] >= 0.5),
    "the probability asked for": ({"target": 1, "target_probability": 0.75}, lambda p: p[:, 1] >= 0.75),
    "the middle, where the first class is the answer": ({"target": 0}, lambda p: p[:, 0] >= 0.5),
}


@pytest.mark.parametrize("border", SHARES)
def test_a_share_of_trees_that_lies_on_the_border_is_as_good_as_the_model_says(border):
    train = table()
    asked, met = SHARES[border]
    model = RandomForestClassifier(4, random_state=0).fit(train, grade(train) > 1)
    task = Task(train, model, schema=schema(), rules=RULES, classes=(0, 1), **asked)
    assert agrees(task, lambda rows, _: met(model.predict_proba(rows)))["verified"] > 3


# Outcomes that are asked for when rows are explained


def grading(**asked) -> Task:
    train = table()
    model = RandomForestClassifier(8, max_depth=5, random_state=0).fit(train, grade(train))
    return Task(train, model, schema=schema(), rules=RULES, **({"target": 3} | asked))


@pytest.fixture(scope="module")
def graded() -> FCx:
    """Fitted for the highest of four grades."""
    return FCx(generator=False).fit(grading())


ASKED = (
    {"target": 2},
    {"target": "1, 2"},
    {"target": [0, 1]},
    {"target_probability": 0.7},
    {"target": [2, 3], "target_probability": 0.8},
)


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_explain_answers_what_it_is_asked_for_as_a_task_for_that_does(graded, asked, tmp_path):
    rows, task, file = table(8, seed=7), grading(**asked), tmp_path / "answers.parquet"
    found, known = graded.explain(rows, **asked), FCx(generator=False).fit(task).explain(rows)
    pd.testing.assert_frame_equal(found.frame, known.frame)
    assert [c.to_dict() for c in found.certificates] == [c.to_dict() for c in known.certificates]
    found.to_parquet(file)
    pd.testing.assert_frame_equal(read_answers(file, graded).frame, known.frame)
    held = verify(graded.task_, rows, file)
    assert (held.passed, held.asked) == (True, task.outcome_words)
    assert verify(graded.task_, rows, file, **asked).passed


def test_a_file_that_was_asked_for_another_outcome_is_not_what_verify_was_told(graded, tmp_path):
    rows = table(20, seed=7)
    graded.explain(rows, target=2, target_probability=0.6).to_parquet(tmp_path / "answers.parquet")
    found = verify(graded.task_, rows, tmp_path / "answers.parquet", target=1, target_probability=0.9)
    assert {d.field for d in found.differences} == {"target", "target_probability"}


def test_a_row_with_a_target_of_its_own_keeps_it_whatever_all_rows_are_asked_for(graded):
    rows = table(20, seed=7)
    told = graded.explain(rows, target=2, overrides={3: {"target": 1}})
    assert told.wanted[:4].tolist() == [2, 2, 2, 1]


def test_a_range_can_be_asked_for_anew_in_a_file_too(tmp_path):
    train, rows = table(), table(24, seed=7)
    model = RandomForestRegressor(6, max_depth=4, random_state=0).fit(train, points(train))
    fcx = FCx(generator=False).fit(Task(train, model, schema=schema(), rules=RULES, target=">= 600"))
    rows.to_parquet(tmp_path / "rows.parquet")
    done = fcx.explain_file(tmp_path / "rows.parquet", tmp_path / "a.parquet", chunk=5, target="<= 560")
    again = done.explanation(fcx.task_)
    pd.testing.assert_frame_equal(again.frame, fcx.explain(rows, target="<= 560").frame)
    assert again.counts["verified"] == len(again.answers)
    assert (model.predict(again.answers) <= 560).all()
    assert "&lt;= 560" in again.to_html() or "<= 560" in again.to_html()


def test_an_outcome_that_makes_no_sense_is_refused_by_explain_and_verify(graded, tmp_path):
    rows = table(5, seed=7)
    for asked, message in [({"target": "gold"}, "gold"), ({"target_probability": 2}, "target_probability=2")]:
        with pytest.raises(DataError, match=message):
            graded.explain(rows, **asked)
    graded.explain(rows).to_parquet(tmp_path / "answers.parquet")
    with pytest.raises(DataError, match="gold"):
        verify(graded.task_, rows, tmp_path / "answers.parquet", target="gold")


# ONNX, as onnxruntime itself answers


def session_of(model, *, each: bool):
    """A regressor as skl2onnx converts it: an input for each feature, or one for whole rows. It answers a column."""
    onnxruntime = pytest.importorskip("onnxruntime")
    skl2onnx = pytest.importorskip("skl2onnx")
    kind = skl2onnx.common.data_types.FloatTensorType
    kinds = [(name, kind([None, 1])) for name in RANGES] if each else [("rows", kind([None, len(RANGES)]))]
    made = skl2onnx.to_onnx(model, initial_types=kinds).SerializeToString()
    return onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])


def run_onnx(session, rows: pd.DataFrame) -> np.ndarray:
    values = rows.to_numpy(dtype=np.float32)
    inputs = session.get_inputs()
    fed = {inputs[0].name: values}
    if len(inputs) > 1:
        fed = {one.name: values[:, [i]] for i, one in enumerate(inputs)}
    answer = session.run(None, fed)[0]
    assert answer.shape == (len(rows), 1)
    return answer[:, 0]


@pytest.mark.parametrize(("kind", "each"), [("forest", True), ("linear", False)])
def test_an_onnx_regressor_agrees_with_every_legal_row(kind, each):
    train = table()
    through = ColumnTransformer([("n", "passthrough", list(RANGES))])
    model = make_pipeline(through, REGRESSORS[kind]) if each else REGRESSORS[kind]
    session = session_of(model.fit(train if each else train.to_numpy(), points(train)), each=each)
    task = Task(train, session, schema=schema(), rules=RULES, target=">= 655.5")
    counts = agrees(task, at_least(lambda rows: run_onnx(session, rows), 655.5))
    assert counts["verified"] > 3
