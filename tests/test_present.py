"""A present value is what it is: outside guessed bounds, of a level never seen, or missing; and rows that cannot be read."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from fcxplain import FCx, Feature, Schema, Task, read_answers, verify
from fcxplain.datasets.source import Source
from fcxplain.errors import FcxWarning, SchemaError
from fcxplain.explanation import Explanation
from fcxplain.proof import prove

NUMBERS, CATEGORIES = ["age", "income"], ["job", "town"]


def people(count: int = 300, gaps: float = 0.0) -> tuple[pd.DataFrame, pd.Series]:
    """A small table and who is accepted."""
    draw = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": draw.integers(18, 88, count),
            "income": draw.integers(10, 90, count) * 100,
            "job": draw.choice(["clerk", "cook", "nurse"], count),
            "town": draw.choice(["Ulm", "Bonn"], count),
        }
    )
    accepted = (table.income / 100 + 5 * (table.job == "cook") + table.age / 10 > 60).astype(int)
    if gaps:
        table = table.astype(dict.fromkeys(NUMBERS, float)).mask(draw.random(table.shape) < gaps)
    return table, accepted


def pipeline(unknown: str = "ignore", model: Any = None, *, imputed: bool = False) -> Any:
    """A model on raw columns."""
    levels, numbers = [OneHotEncoder(handle_unknown=unknown, sparse_output=False)], [StandardScaler()]
    if imputed:
        levels, numbers = [SimpleImputer(strategy="most_frequent"), *levels], [SimpleImputer(), *numbers]
    columns = make_column_transformer((make_pipeline(*levels), CATEGORIES), (make_pipeline(*numbers), NUMBERS))
    return make_pipeline(columns, LogisticRegression() if model is None else model)


def explainer(model: Any, table: pd.DataFrame, accepted: pd.Series, **more: Any) -> FCx:
    """An explainer for a model trained on the table."""
    task = Task(table, model.fit(table, accepted), target=1, **more)
    return FCx(generator=False, prefer="sparse").fit(task)


def refused(fcx: FCx, count: int = 5) -> pd.DataFrame:
    """Rows that deserve an answer."""
    task = fcx.task_
    return task.train[task.refused(task.train)].head(count).reset_index(drop=True)


@pytest.fixture(scope="module")
def tolerant() -> FCx:
    """An explainer whose model takes what it does not know."""
    return explainer(pipeline(), *people(), rules="town' == town")


# What was guessed, and what was stated


def test_guessed_bounds_and_levels_are_told_from_stated_ones() -> None:
    table, _ = people()
    guessed = Schema.infer(table)
    assert guessed["age"].guessed == ("low", "high")
    assert guessed["job"].guessed == ("levels",)
    assert "bounds guessed" in repr(guessed)
    assert "levels guessed" in str(guessed)
    stated = guessed.replace("age", high=90)
    assert stated["age"].guessed == ("low",)
    completed = Schema((Feature("age", "integer", low=0), Feature("job", "categorical"))).complete(table)
    assert completed["age"].guessed == ("high",)
    assert completed["job"].guessed == ("levels",)


def test_what_is_guessed_and_what_becomes_of_gaps_survive_toml() -> None:
    schema = Schema.infer(people()[0]).replace("age", high=90, missing="may_be_filled")
    again = Schema.from_toml(schema.to_toml())
    assert again == schema
    assert again["age"].missing == "may_be_filled"
    assert [f.guessed for f in again] == [f.guessed for f in schema]
    assert Schema.from_dict(schema.to_dict())["age"].guessed == ("low",)


def test_nonsense_about_gaps_and_guesses_is_refused() -> None:
    with pytest.raises(SchemaError, match="missing is 'maybe'"):
        Feature("age", "integer", low=0, high=9, missing="maybe")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="guessed names 'hihg'"):
        Feature("age", "integer", low=0, high=9, guessed=("hihg",))


# Values outside


def test_an_age_beyond_the_training_rows_is_explained_and_noted(tolerant: FCx) -> None:
    rows = refused(tolerant, 3)
    rows.loc[1, "age"] = 95
    answer = tolerant.explain(rows)
    assert answer.status.tolist() == ["verified"] * 3
    line = answer.frame.iloc[1]
    assert line["age"] == 95 or 18 <= line["age"] <= 87
    assert line["noted"] == "age is 95, outside the range 18 to 87 that the model knows"
    assert answer.certificate(1).noted == (line["noted"],)
    assert line["noted"] in str(answer.certificate(1))
    assert "outside the range 18 to 87" in answer.to_html()
    assert answer.frame["noted"].isna().tolist() == [True, False, True]


@pytest.mark.parametrize("column", ["job", "town"])
def test_a_level_never_seen_is_explained_where_the_model_takes_it(tolerant: FCx, column: str) -> None:
    rows = refused(tolerant, 3)
    rows.loc[1, column] = "elsewhere"
    answer = tolerant.explain(rows)
    assert answer.status.tolist() == ["verified"] * 3
    assert answer.frame.iloc[1][column] in ("elsewhere", "clerk", "cook", "nurse")
    assert column != "town" or answer.frame.iloc[1]["town"] == "elsewhere"
    assert answer.frame.iloc[1]["noted"] == f"{column} is elsewhere, which is new to the model"


@pytest.mark.parametrize("column", ["job", "town"])
def test_a_level_that_the_model_refuses_costs_one_row(column: str) -> None:
    fcx = explainer(pipeline("error"), *people(), rules="town' == town")
    rows = refused(fcx, 3)
    rows.loc[1, column] = "elsewhere"
    answer = fcx.explain(rows)
    assert answer.status.tolist() == ["verified", "unreadable", "verified"]
    assert "unknown categories ['elsewhere']" in answer.why_not[1]
    alone = fcx.explain(rows.iloc[[1]])
    assert alone.status.tolist() == ["unreadable"]
    assert alone.why_not[1] == answer.why_not[1]


def test_a_network_has_no_column_for_a_level_never_seen() -> None:
    torch = pytest.importorskip("torch")
    table, _ = people(100)
    task = Task(table, torch.nn.Linear(7, 2), target=1)
    rows = table.head(3).copy()
    rows.loc[1, "job"] = "elsewhere"
    rows.loc[2, "age"] = 95
    answer = FCx(generator=False).fit(task).explain(rows)
    assert (answer.status == "unreadable").tolist() == [False, True, False]
    assert "none for 'elsewhere' in column 'job'" in answer.why_not[1]


def test_stated_bounds_and_levels_are_binding() -> None:
    table, accepted = people()
    schema = Schema.infer(table).replace("age", high=87).replace("job", levels=("clerk", "cook", "nurse"))
    fcx = explainer(pipeline(), table, accepted, schema=schema)
    rows = refused(fcx, 4)
    rows.loc[1, "age"] = 95
    rows.loc[1, "job"] = "pilot"
    rows.loc[2, "income"] = 99_000
    answer = fcx.explain(rows)
    assert answer.status[1] == "unreadable"
    assert set(answer.status.drop(1)) <= {"verified", "already"}
    assert "is above 87: 95" in answer.why_not[1]
    assert "'pilot', which is not a known level" in answer.why_not[1]
    with pytest.raises(SchemaError) as error:
        fcx.explain(rows, strict=True)
    assert {fault.place for fault in error.value.faults} == {"column 'age'", "column 'job'"}


# Rows that cannot be read


def test_numbers_that_are_stored_as_text_are_numbers(tolerant: FCx) -> None:
    rows = refused(tolerant, 4)
    plain, text = tolerant.explain(rows), tolerant.explain(rows.astype({"age": str, "income": str}))
    pd.testing.assert_frame_equal(plain.frame, text.frame)


def test_every_reason_of_a_bad_row_is_told_and_the_others_are_answered(tolerant: FCx, tmp_path: Path) -> None:
    rows = refused(tolerant, 4).astype(object)
    rows.loc[2, ["age", "income"]] = ["old", np.inf]
    rows.loc[3, "income"] = None
    answer = tolerant.explain(rows)
    assert answer.status.tolist() == ["verified", "verified", "unreadable", "unreadable"]
    assert "should be integer but is 'old'" in answer.why_not[2]
    assert "is infinite" in answer.why_not[2]
    assert "imputer" in answer.why_not[3]
    assert answer.counts == {"verified": 2, "unreadable": 2}
    assert "unreadable" in answer.to_html()
    assert "is infinite" in answer.to_html()
    answer.to_parquet(tmp_path / "answers.parquet")
    again = read_answers(tmp_path / "answers.parquet", tolerant)
    assert again.status.tolist() == answer.status.tolist()
    assert again.why_not[2] == answer.why_not[2]
    assert verify(tolerant.task_, rows, tmp_path / "answers.parquet").passed
    clean = tolerant.explain(refused(tolerant, 2))
    pd.testing.assert_frame_equal(clean.frame, answer.frame.head(2).drop(columns="why_not"))


def test_all_rows_unreadable_is_a_status_not_an_error(tolerant: FCx) -> None:
    rows = refused(tolerant, 3).astype(object).assign(age="old")
    answer = tolerant.explain(rows)
    assert answer.status.tolist() == ["unreadable"] * 3
    assert not len(answer.answers)
    assert len(answer.frame) == 3
    assert "can be read" in answer.to_html()


def test_a_column_that_is_not_there_is_an_error(tolerant: FCx) -> None:
    with pytest.raises(SchemaError, match="column 'age': is not in the table"):
        tolerant.explain(refused(tolerant).drop(columns="age"))


def test_overrides_of_unreadable_rows_are_no_hindrance(tolerant: FCx) -> None:
    rows = refused(tolerant, 4).astype(object)
    rows.loc[1, "age"] = "old"
    answer = tolerant.explain(rows, overrides={1: {"freeze": "job"}, 2: {"freeze": "job"}})
    assert answer.status.tolist() == ["verified", "unreadable", "verified", "verified"]


def test_one_bad_row_in_the_middle_of_a_file_costs_that_row(tolerant: FCx, tmp_path: Path) -> None:
    rows = refused(tolerant, 20)
    rows.astype(object).mask((rows.index == 11)[:, None] & (rows.columns == "age"), "old").to_csv(
        tmp_path / "rows.csv", index=False
    )
    done = tolerant.explain_file(tmp_path / "rows.csv", tmp_path / "csv.parquet", chunk=6)
    assert done.counts == {"verified": 19, "unreadable": 1}
    assert done.rows == 20
    assert done.explanation(tolerant.task_).status[11] == "unreadable"
    rows.assign(age=rows.age.astype(float).where(rows.index != 11)).to_parquet(tmp_path / "rows.parquet")
    done = tolerant.explain_file(tmp_path / "rows.parquet", tmp_path / "answers.parquet", chunk=6)
    assert done.counts == {"verified": 19, "unreadable": 1}
    with pytest.raises(SchemaError, match="is empty"):
        tolerant.explain_file(tmp_path / "rows.parquet", tmp_path / "strict.parquet", chunk=6, strict=True)
    assert not (tmp_path / "strict.parquet").exists()


# Missing values


def boosting(name: str) -> Any:
    """A model that knows missing values, behind what turns text into numbers."""
    if name == "imputer":
        return pipeline(imputed=True)
    if name == "hist":
        model: Any = HistGradientBoostingClassifier(max_iter=15)
    elif name == "xgboost":
        model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=15)
    else:
        model = pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=15, verbose=-1)
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(make_column_transformer((codes, CATEGORIES), remainder="passthrough"), model)


@pytest.mark.parametrize("name", ["hist", "xgboost", "lightgbm", "imputer"])
def test_rows_with_gaps_are_explained_for_models_that_know_them(name: str) -> None:
    table, accepted = people(gaps=0.1)
    fcx = explainer(boosting(name), table, accepted)
    assert len(fcx.task_.train) == len(table)
    assert {f.missing for f in fcx.task_.schema} == {"kept"}
    rows = refused(fcx, 12)
    answer = fcx.explain(rows)
    gaps = rows.isna().to_numpy()
    assert gaps.any()
    assert set(answer.status) <= {"verified", "impossible"}
    after = answer.answers.isna().to_numpy()
    assert (after == gaps[answer.place]).all()
    assert "is missing" in answer.frame["noted"].dropna().iloc[0]
    backwards = fcx.explain(rows.iloc[::-1])
    pd.testing.assert_frame_equal(backwards.answers, answer.answers.iloc[::-1].reset_index(drop=True))
    alone = pd.concat([fcx.explain(rows.iloc[[i]]).answers for i in range(3)], ignore_index=True)
    assert alone.astype(object).where(alone.notna(), None).to_numpy().tolist() == [
        line for line, place in zip(_listed(answer), answer.place.tolist(), strict=True) if place < 3
    ]


def _listed(answer: Explanation) -> list[list[Any]]:
    table = answer.answers
    found: list[list[Any]] = table.astype(object).where(table.notna(), None).to_numpy().tolist()
    return found


def test_a_model_that_answers_nan_on_gaps_leaves_such_rows_out() -> None:
    table, _ = people(gaps=0.1)

    def model(rows: pd.DataFrame) -> Any:
        return 1 / (1 + np.exp((6_000 - rows["income"].to_numpy(dtype=float)) / 1_000))

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        task = Task(table, model, target=1)
    assert any("imputer" in str(w.message) for w in told if issubclass(w.category, FcxWarning))
    assert task.schema["income"].missing is None
    assert task.schema["job"].missing == "kept"
    assert task.train["income"].notna().all()
    assert task.train["job"].isna().any()
    rows = task.train[task.refused(task.train)].head(3).copy()
    rows.iloc[1, 1] = np.nan
    answer = FCx(generator=False).fit(task).explain(rows)
    assert answer.status.tolist() == ["verified", "unreadable", "verified"]


def by_job(rows: pd.DataFrame) -> Any:
    """Accepts cooks, and whoever earns enough."""
    income = rows["income"].to_numpy(dtype=float)
    lacks = np.where(rows["job"].eq("cook").fillna(False), 0.0, 1.0) + np.where(income >= 8_500, -1.0, 0.0)
    return np.where(lacks > 0, 0.2, 0.8)


def test_a_gap_may_be_filled_where_the_schema_says_so() -> None:
    table, _ = people(200)
    schema = Schema.infer(table)
    rows = table[table.job != "cook"].head(2).reset_index(drop=True)
    rows["job"] = rows["job"].astype(object)
    rows.loc[0, "job"] = None
    found = {}
    for missing in ("kept", "may_be_filled"):
        own = schema.replace("job", missing=missing).freeze("income", "age", "town")
        found[missing] = FCx(generator=False).fit(Task(table, by_job, schema=own, target=1)).explain(rows)
    assert found["kept"].status.tolist() == ["impossible", "verified"]
    assert found["may_be_filled"].status.tolist() == ["verified", "verified"]
    filled = found["may_be_filled"].certificate(0)
    assert [(c.feature, c.now, c.then) for c in filled.changes] == [("job", None, "cook")] or filled.changes[
        0
    ].then == "cook"
    assert found["may_be_filled"].checks.changes.tolist() == [1, 1]
    assert filled.cost == 1


def test_a_rule_about_a_gap_is_refused_with_its_reason() -> None:
    table, accepted = people(gaps=0.1)
    rows = table[table.age.isna() & (table.income < 4_000)].head(3)
    same = explainer(pipeline(imputed=True), table, accepted, rules="age' == age or job' == job").explain(rows)
    assert set(same.status) == {"verified"}
    fcx = explainer(pipeline(imputed=True), table, accepted, rules="age' >= age")
    answer = fcx.explain(rows)
    assert set(answer.status) == {"impossible"}
    assert answer.why_not.str.contains("cannot be decided because age is missing").all()


def test_an_answer_that_fills_a_gap_can_keep_a_rule_about_it() -> None:
    table, accepted = people(gaps=0.1)
    schema = Schema.infer(table).replace("age", missing="may_be_filled")
    fcx = explainer(pipeline(imputed=True), table, accepted, schema=schema, rules="age' <= 60")
    rows = table[table.age.isna() & (table.income < 4_000)].head(3)
    answer = fcx.explain(rows)
    assert set(answer.status) == {"verified"}
    assert (answer.answers["age"] <= 60).all()


def test_gaps_and_values_outside_survive_saving(tmp_path: Path) -> None:
    table, accepted = people(gaps=0.1)
    fcx = explainer(boosting("hist"), table, accepted)
    rows = refused(fcx, 10)
    rows.loc[0, "age"], rows.loc[1, "job"] = 95, "elsewhere"
    before = fcx.explain(rows)
    fcx.save(tmp_path / "model")
    again = FCx.load(tmp_path / "model", classifier=fcx.task_.classifier.answer.model)  # type: ignore[attr-defined]
    assert [(f.guessed, f.missing) for f in again.task_.schema] == [(f.guessed, f.missing) for f in fcx.task_.schema]
    pd.testing.assert_frame_equal(again.explain(rows).frame, before.frame)
    before.to_parquet(tmp_path / "answers.parquet")
    assert verify(fcx.task_, rows, tmp_path / "answers.parquet").passed


def test_the_generator_trains_and_draws_beside_gaps() -> None:
    pytest.importorskip("torch")
    from fcxplain import Schedule

    table, accepted = people(150, gaps=0.1)
    task = Task(table, pipeline(imputed=True).fit(table, accepted), target=1, rules="age' <= 80 or age' == age")
    fcx = FCx(schedule=Schedule(epochs=1)).fit(task)
    rows = refused(fcx, 4)
    assert rows["job"].isna().any()
    asked = fcx.set_params(oracle="model").explain(rows)
    fcx.set_params(oracle="auto")
    for answer in (asked, fcx.explain(rows), fcx.explain(rows, quick=True)):
        assert set(answer.status) <= {"verified", "impossible"}
        assert (answer.answers.isna().to_numpy() == rows.isna().to_numpy()[answer.place]).all()


# Held against every possibility

LEVELS = ("a", "b", "c")


def tiny(draw: np.random.Generator) -> pd.DataFrame:
    """A table of few values, with gaps."""
    table = pd.DataFrame(
        {
            "n": draw.integers(0, 5, 60).astype(float),
            "m": draw.integers(0, 4, 60).astype(float),
            "k": draw.choice(LEVELS, 60).astype(object),
        }
    )
    table.iloc[:3] = [[0, 0, "a"], [4, 3, "b"], [2, 1, "c"]]
    table.loc[5:14, "m"] = np.nan
    table.loc[10:19, "k"] = None
    return table


class Scores:
    """A model with a weight for every value, a missing one too."""

    def __init__(self, draw: np.random.Generator) -> None:
        self.slope, self.steps, self.level = (
            draw.normal(),
            draw.normal(size=5),
            dict(zip(LEVELS, draw.normal(size=3), strict=True)),
        )
        self.gap, self.other, self.bias = draw.normal(size=3)

    def score(self, n: float, m: float, k: Any) -> float:
        """Accepted from 0 on."""
        step = self.gap if m != m else self.steps[int(min(max(m, 0), 4))]
        level = self.gap if k is None or k != k else self.level.get(k, self.other)
        return float(self.slope * (n - 2) / 2 + step + level + self.bias - 0.5)

    def __call__(self, rows: pd.DataFrame) -> Any:
        found = [self.score(n, m, k) for n, m, k in zip(rows["n"], rows["m"], rows["k"], strict=True)]
        return 1 / (1 + np.exp(-np.asarray(found)))


def legal(task: Task, row: pd.Series) -> Any:
    """All that a row may become, rules aside: its own values and every legal one."""

    def choices(name: str, grid: list[Any]) -> list[Any]:
        now, gap = row[name], task.schema[name].missing
        if now is None or now != now:
            return [now] if gap == "kept" else [now, *grid]
        return grid if now in grid else [now, *grid]

    grids = {"n": [0.0, 1.0, 2.0, 3.0, 4.0], "m": [0.0, 1.0, 2.0, 3.0], "k": list(LEVELS)}
    return itertools.product(*(choices(name, grid) for name, grid in grids.items()))


def cheapest(task: Task, model: Scores, row: pd.Series) -> float:
    """The least cost of any legal row that is accepted, by trying them all; infinite if there is none."""
    best = np.inf
    for then in legal(task, row):
        cost = 0.0
        for name, value in zip(("n", "m", "k"), then, strict=True):
            now = row[name]
            same = value == now or (value is None or value != value)
            is_gap = now is None or now != now
            cost += 0 if same else 1
            cost += 0 if same or is_gap or name == "k" else abs(value - now) / task.units[name]
        if cost < best and model.score(*then) > 1e-9:
            best = cost
    return best


@pytest.mark.parametrize("seed", range(6))
def test_answers_are_optimal_and_no_way_is_denied_wrongly(seed: int) -> None:
    draw = np.random.default_rng(seed)
    table, model = tiny(draw), Scores(draw)
    schema = Schema.infer(table).replace("m", missing="may_be_filled" if seed % 2 else "kept")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FcxWarning)
        task = Task(table, model, schema=schema, target=1)
        fcx = FCx(generator=False, oracle="model").fit(task)
    rows = pd.concat(
        [table.iloc[4:20], table.iloc[20:28].assign(n=[-2, 9, 7.0, 5, -1, 6, 2, 3], k=["z", "z", *"abcabc"])]
    )
    rows.loc[20:23, "m"] = [11, np.nan, 9, -3]
    rows = rows.reset_index(drop=True)
    answer = fcx.explain(
        rows, cost={"several": 0, "change": 1, "distance": 1, "density": 0, "support": 0, "coherence": 0}
    )
    for i in range(len(rows)):
        if answer.status[i] == "already":
            continue
        least = cheapest(task, model, rows.iloc[i])
        if np.isinf(least):
            assert answer.status[i] == "impossible"
        else:
            assert answer.status[i] == "verified", (i, rows.iloc[i].tolist())
            assert answer.checks.cost[answer.place == i][0] == pytest.approx(least), (i, rows.iloc[i].tolist())


@pytest.mark.parametrize("seed", range(3))
def test_trees_prove_nothing_wrong_of_rows_with_gaps(seed: int) -> None:
    draw = np.random.default_rng(seed)
    table, truth = tiny(draw), Scores(draw)
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    model = make_pipeline(
        make_column_transformer((codes, ["k"]), remainder="passthrough"),
        HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=4),
    )
    model.fit(table, (truth(table) > np.median(truth(table))).astype(int))
    schema = Schema.infer(table).replace("m", missing="may_be_filled" if seed else "kept")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FcxWarning)
        task = Task(table, model, schema=schema, target=1, rules="n' <= n" if seed == 2 else "n' <= n + 1")
    rows = table.iloc[4:24].reset_index(drop=True)
    rows.loc[10, "n"], rows.loc[11, "n"] = 9, -2
    found = prove(task, rows, np.ones(len(rows), dtype=np.int64), limit=0)
    for i in range(len(rows)):
        own = pd.DataFrame(list(legal(task, rows.iloc[i])), columns=["n", "m", "k"]).astype({"k": object})
        own = own[own["n"] <= rows["n"][i] + (seed < 2)]
        possible = bool(len(own)) and bool((model.predict(own) == 1).any())
        assert not (possible and found.impossible[i]), rows.iloc[i].tolist()
    assert found.impossible.any() or found.possible.any()


@pytest.mark.parametrize(("classifier", "kept"), [("boosting", 40), ("mine:model", 40), ("paper", 30)])
def test_a_file_keeps_rows_with_gaps_for_models_that_take_them(tmp_path, classifier, kept):
    table = pd.DataFrame({"amount": np.arange(40.0), "home": ["own", "rent"] * 20, "good": [0, 1, 1, 0] * 10})
    table.loc[::8, "amount"], table.loc[1::8, "home"] = np.nan, None
    table.to_csv(tmp_path / "people.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FcxWarning)
        data = Source.of(str(tmp_path / "people.csv"), label="good", classifier=classifier).load()
    assert len(data) == kept
    assert data.schema["amount"].kind == "integer"
