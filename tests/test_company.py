"""A row's status and answers do not depend on the rows beside it: not by dtypes, not by ties, not by rounding."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import nn

from effort import THOROUGH
from fcxplain import Explanation, Feature, Schema, Task, load_dataset, train_classifier
from fcxplain.encoding import TableEncoder
from fcxplain.proof.proof import prove
from fcxplain.search import Search
from fcxplain.search.propose.combine import Ladders, ladders_of, least
from fcxplain.search.propose.single import SingleChanges
from fcxplain.search.space import Moves

pytestmark = pytest.mark.filterwarnings("ignore::fcxplain.errors.FcxWarning")


def told(answer: Explanation) -> list[tuple[Any, ...]]:
    """Everything that a row was told, by its label."""
    return list(answer.frame.astype(object).fillna("-").itertuples(index=False, name=None))


def one_by_one(search: Search, rows: pd.DataFrame, k: int) -> list[tuple[Any, ...]]:
    return [line for i in range(len(rows)) for line in told(search.explain(rows.iloc[[i]], k))]


# Dtypes

RATIO = Schema(
    (
        Feature("ratio", "continuous", low=0.3, high=1.0, step=0.1),
        Feature("amount", "integer", low=0, high=100, step=10),
        Feature("job", "categorical", levels=("clerk", "cook"), mutable=False),
    )
)


def ratios(dtypes: dict[str, str], values: list[float], amounts: list[int]) -> pd.DataFrame:
    table = pd.DataFrame({"ratio": values, "amount": amounts, "job": ["clerk", "cook"] * (len(values) // 2)})
    return table.astype(dtypes)


class Watching:
    """A model that compares in double precision, and remembers the dtypes that it was shown."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, ...]] = set()

    def __call__(self, rows: pd.DataFrame) -> np.ndarray:
        self.seen.add(tuple(map(str, rows.dtypes)))
        good = (rows["ratio"].astype("float64") <= 0.3) & (rows["amount"].astype("float64") > 50)
        return np.where(good, 0.9, 0.1)


@pytest.mark.parametrize(
    ("ratio", "amount"),
    [
        ("float16", "int8"),
        ("float32", "uint8"),
        ("Float32", "Int64"),
        ("float[pyarrow]", "int32[pyarrow]"),
        ("object", "float32"),
        ("float32", "object"),
    ],
)
def test_what_a_model_sees_of_a_column_follows_from_the_task_alone(ratio, amount):
    trained = {"ratio": ratio, "amount": amount}
    train = ratios(trained, [0.3, 0.4, 0.5, 0.6, 0.8, 1.0] * 5, [0, 10, 20, 60, 70, 100] * 5)
    model = Watching()
    task = Task(train, model, schema=RATIO, target=1, classes=(0, 1))
    model.seen.clear()
    given = ratios({"ratio": "float64", "amount": "int64"}, [0.55, 0.9], [20, 37])
    search = Search(task)
    for rows in (given, given.astype(trained)) if ratio != "float16" else (given,):
        assert told(search.explain(rows)) == one_by_one(search, rows, 1)
        prove(task, rows, np.ones(len(rows), dtype=np.int64))
        task.refused(rows)
    assert len(model.seen) == 1


# Ties


def bank(rows: int, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    levels = {"job": 6, "marital": 3, "education": 4, "housing": 2, "loan": 2, "contact": 3, "month": 12}
    made = {name: [f"{name}{i}" for i in draw.integers(0, many, rows)] for name, many in levels.items()}
    numbers = {"age": draw.integers(18, 90, rows), "balance": draw.integers(-20, 80, rows) * 100}
    return pd.DataFrame({**numbers, **made, "campaign": draw.integers(1, 8, rows)})


def test_ladders_of_a_row_are_the_same_whether_moves_of_another_were_repaired():
    space = SimpleNamespace(is_number=np.array([True, True, True]))
    moves = Moves(np.repeat([0, 1, 2], 3), np.tile([1, 2, 3], 3), np.ones(3, dtype=bool))
    margin = np.array([-3.0, -2.0, -1.0, -2.5, -1.5, -0.5, -2.0, -1.0, -1.0])

    def ladders(rows: int) -> Ladders:
        row = np.repeat(np.arange(rows), 9)
        codes = np.zeros((9 * rows, 3), dtype=np.int64)
        codes[np.arange(9 * rows), np.tile(moves.feature, rows)] = np.tile(moves.code, rows)
        # Only the second row has moves that a rule asked more of.
        repaired = (row == 1) & (np.tile(moves.code, rows) > 1)
        line, base = np.arange(9 * rows).reshape(rows, 9), np.full(rows, -4.0)
        valid = np.zeros(9 * rows, dtype=bool)
        here = np.zeros((rows, 3), dtype=np.int64)
        singles = SingleChanges(
            moves, here, base < 0, base, base > 0, line, row, codes, np.tile(margin, rows), valid, repaired
        )
        price = np.tile(np.repeat([1.0, 2.0, 3.0], 3) + moves.code, rows)
        return ladders_of(space, singles, price, np.full(rows, 4.0), 6, 4)

    alone, beside = ladders(1), ladders(2)
    assert (alone.categories, alone.feature[0].tolist()) == (beside.categories, beside.feature[0].tolist())
    full = alone.feature[0] >= 0
    for name in ("gain", "price", "move"):
        assert np.array_equal(getattr(alone, name)[0, full], getattr(beside, name)[0, full]), name


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(3, 9)), elements=st.integers(0, 3)),
    st.integers(1, 3),
)
def test_among_equals_the_first_are_taken(key, most):
    expected = np.argsort(key, axis=1, kind="stable")[:, :most]
    assert np.array_equal(least(key, most), expected)


def test_equal_candidates_are_chosen_among_by_the_row_alone():
    train = bank(500, 0)
    for name in train.columns:
        if train[name].dtype.kind not in "iu":
            train[name] = train[name].astype("category")
    y = (train["age"] > 60) ^ (train["balance"] > 4000) ^ (train["job"].cat.codes == 2) ^ (train["month"].cat.codes > 8)
    model = HistGradientBoostingClassifier(
        max_iter=40, categorical_features="from_dtype", class_weight="balanced", random_state=0
    ).fit(train, y)
    task = Task(train, model, target=True, threshold=0.4, rules="age' >= age\neducation' == education or age' > age")
    rows = train[task.refused(train)].head(5)
    for prefer in ("sparse", "balanced"):
        search = Search(task, prefer=prefer, budget=300)
        assert told(search.explain(rows, 3)) == one_by_one(search, rows, 3)


# Rounding


def fine(features: int) -> Schema:
    return Schema(tuple(Feature(f"x{i}", "continuous", low=0.0, high=1.0, step=1e-5) for i in range(features)))


def drawn(layers: nn.Sequential, seed: int) -> nn.Sequential:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layers.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return layers


@pytest.mark.parametrize("as_module", [True, False], ids=["module", "callable"])
def test_an_answer_next_to_the_border_holds_in_every_batch(as_module):
    schema, draw = fine(6), np.random.default_rng(0)
    train = pd.DataFrame(draw.random((200, 6)).round(5), columns=schema.names)
    encoder = TableEncoder().fit(schema, train)
    net = drawn(nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)), 1)

    @torch.no_grad()
    def ask(rows: pd.DataFrame) -> np.ndarray:
        return net(encoder.encode(rows).float()).softmax(dim=1).numpy()

    task = Task(train, net if as_module else ask, schema=schema, encoder=encoder, classes=(0, 1))
    rows = train.head(8 if as_module else 4)
    found = Search(task, prefer="sparse", budget=400).explain(rows)
    assert (found.row_status == "verified").mean() > 0.8
    for size in (1, 2, 3, 5, len(found.answers)):
        parts = [found.answers.iloc[s : s + size] for s in range(0, len(found.answers), size)]
        assert np.concatenate([ask(part).argmax(axis=1) for part in parts]).tolist() == found.checks.wanted.tolist()
    assert told(found) == one_by_one(Search(task, prefer="sparse", budget=400), rows, 1)


def test_no_proof_about_a_double_network_is_decided_by_rows_encoded_in_single_precision():
    draw, levels = np.random.default_rng(0), np.arange(0, 11)
    schema = Schema(tuple(Feature(f"x{i}", "integer", low=0, high=10) for i in range(3)))
    # The best rows lie outside the training range, so that no encoded value of theirs is a whole number.
    train = pd.DataFrame(draw.integers(1, 8, (60, 3)), columns=schema.names)
    encoder = TableEncoder().fit(schema, train)
    every = pd.DataFrame(list(itertools.product(levels, repeat=3)), columns=schema.names)
    exact = np.stack([(every[n] - encoder.scale_[n][0]) / encoder.scale_[n][1] for n in schema.names], axis=1)
    for _ in range(30 if THOROUGH else 12):
        net = nn.Linear(3, 2).double()
        weight = draw.normal(size=3)
        with torch.no_grad():
            net.weight.copy_(torch.tensor(np.stack([np.zeros(3), weight])))
            net.bias.copy_(torch.tensor([0.0, -float((exact @ weight).max()) - 3e-9], dtype=torch.float64))
        task = Task(train, net, schema=schema, encoder=encoder, target=1)
        has_way = bool((net(encoder.encode(every).double()).argmax(dim=1) == 1).any())
        refused = train[task.refused(train)].head(3)
        said = prove(task, refused, np.ones(len(refused), dtype=np.int64), limit=0)
        assert not (has_way and said.impossible.any())


@pytest.mark.parametrize(
    ("dtype", "threshold"),
    [(torch.float32, t) for t in (None, 1e-9, 1 - 1e-9, 0.0, 1.0)]
    + [(torch.bfloat16, t) for t in (None, 1e-9, 1 - 1e-9)],
)
def test_the_users_own_network_decides_who_needs_no_answer(dtype, threshold):
    schema, draw = fine(4), np.random.default_rng(3)
    train = pd.DataFrame(draw.random((100, 4)).round(5), columns=schema.names)
    encoder = TableEncoder().fit(schema, train)
    net = drawn(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), 2)
    with torch.no_grad():
        net[-1].weight.mul_(30 if threshold is not None else 1)
    net = net.to(dtype)
    task = Task(train, net, schema=schema, encoder=encoder, target=1, threshold=threshold)
    rows = train.head(50)
    with torch.no_grad():
        out = net(encoder.encode(rows).to(dtype)).double().softmax(dim=1)[:, 1].numpy()
    said = Search(task, budget=1).explain(rows).row_status == "already"
    clear = np.abs(out - 0.5) > 0.02 if threshold is None else np.ones(len(out), dtype=bool)
    assert said[clear].tolist() == (out[clear] >= (0.5 if threshold is None else threshold)).tolist()


# Values off the grid

STEPS = Schema((Feature("x", "integer", low=0, high=4900, step=100), Feature("y", "integer", low=0, high=4)))


def at_2400(rows: pd.DataFrame) -> np.ndarray:
    return np.where(rows["x"] == 2400, 0.9, 0.1)


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        ("", ["verified", "verified", "verified"]),
        ("x' >= x - 40", ["verified", "impossible", "verified"]),
        ("x' < x\ny' == y", ["verified", "verified", "impossible"]),
        ("y' < y", ["verified", "verified", "verified"]),
    ],
)
def test_a_value_off_the_grid_may_move_to_the_nearest_on_it(rules, status):
    draw = np.random.default_rng(0)
    train = pd.DataFrame({"x": draw.integers(0, 50, 200) * 100, "y": draw.integers(0, 5, 200)})
    task = Task(train, at_2400, schema=STEPS, rules=rules, target=1, classes=(0, 1))
    rows = pd.DataFrame({"x": [2437, 2450, 2300], "y": [1, 2, 3]})
    found = Search(task).explain(rows)
    assert found.row_status.tolist() == status
    assert (found.answers["x"] == 2400).all()
    assert all("x" in [change.feature for change in certificate.changes] for certificate in found.certificates)
    assert told(found) == one_by_one(Search(task), rows, 1)


def test_rows_whose_values_move_to_the_grid_do_not_disturb_those_whose_values_stay():
    schema = Schema(
        (Feature("a", "integer", low=0, high=900, step=100), Feature("b", "integer", low=0, high=900, step=100))
    )
    train = pd.DataFrame(np.random.default_rng(0).integers(0, 10, (100, 2)) * 100, columns=["a", "b"])

    def model(rows: pd.DataFrame) -> np.ndarray:
        good = ((rows["a"] == 400) & (rows["b"] == 512)) | ((rows["a"] == 437) & (rows["b"] == 300))
        return np.where(good, 0.9, 0.1)

    task = Task(train, model, schema=schema, target=1, classes=(0, 1))
    rows = pd.DataFrame({"a": [437, 437, 380, 400], "b": [512, 310, 512, 520]})
    whole = Search(task).explain(rows)
    assert whole.row_status.tolist() == ["verified", "verified", "verified", "impossible"]
    assert told(whole) == one_by_one(Search(task), rows, 1)


def test_every_part_of_the_values_off_the_grid_may_move():
    schema = Schema(tuple(Feature(n, "integer", low=0, high=900, step=100) for n in "abc"))
    draw = np.random.default_rng(0)
    train = pd.DataFrame(draw.integers(0, 10, (100, 3)) * 100, columns=list("abc"))
    row = pd.DataFrame({"a": [437], "b": [512], "c": [350]})
    for kept in itertools.product([True, False], repeat=3):
        goal = {n: row[n][0] if stays else round(row[n][0], -2) for n, stays in zip("abc", kept, strict=True)}

        def model(rows: pd.DataFrame, goal: dict[str, int] = goal) -> np.ndarray:
            return np.where((rows[list(goal)] == list(goal.values())).all(axis=1), 0.9, 0.1)

        task = Task(train, model, schema=schema, target=1, classes=(0, 1))
        found = Search(task).explain(row)
        assert found.status.tolist() == (["already"] if all(kept) else ["verified"])
        if not all(kept):
            assert found.answers.iloc[0].to_dict() == goal


def test_many_ways_of_keeping_rules_leave_a_row_the_same_alone_and_in_company():
    data = load_dataset("adult", rows=1500).under("actionable")
    model = train_classifier(data, kind="logistic", seed=0)
    task = Task(data.train, model, schema=data.schema, rules=data.rules["actionable"], target=data.target)
    assert max(len(group.ways) for group in task.repairer.groups) > 16
    rows, search = data.test[task.refused(data.test)].head(20), Search(task)
    together = search.explain(rows).frame
    for label in rows.index[::5]:
        alone = search.explain(rows.loc[[label]]).frame
        pd.testing.assert_frame_equal(together[together["row"] == label].reset_index(drop=True), alone)
