"""What is proved impossible survives brute force, and what has an answer is never called impossible."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import loans
from effort import examples
from fcxplain import Feature, Schema, Task, load_dataset, train_classifier
from fcxplain.classifier import as_classifier
from fcxplain.classifier.reading.networks import read_network
from fcxplain.encoding import TableEncoder
from fcxplain.errors import DataError
from fcxplain.proof.batch import Reason
from fcxplain.proof.bounds import ceiling
from fcxplain.proof.proof import prove
from proving import BOX_RULES, WIDE_RULES, a_task, misses_narrowly, some_rows, truth_of, width_of
from rule_texts import every_row, rule_texts, small_schemas

pytestmark = pytest.mark.filterwarnings("ignore::fcxplain.errors.FcxWarning")
calm = examples(10)


def linear(width: int, classes: int, seed: int, *, coarse: bool = False, bias: float = 0.0) -> nn.Linear:
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Linear(width, classes)
    with torch.no_grad():
        layer.weight.normal_(generator=generator)
        layer.bias.normal_(generator=generator)
        layer.bias[-1] -= bias
        if coarse:
            layer.weight.round_()
            layer.bias.round_()
    return layer


def relu_net(width: int, classes: int, seed: int, bias: float) -> nn.Sequential:
    return nn.Sequential(
        linear(width, 6, seed), nn.ReLU(), linear(6, 5, seed + 1), nn.ReLU(), linear(5, classes, seed + 2, bias=bias)
    )


@calm
@given(small_schemas(), st.lists(BOX_RULES, max_size=3), st.integers(0, 10**6), st.sampled_from([0.0, 2.0, 4.0]))
def test_with_a_linear_model_and_box_rules_the_bound_alone_decides_every_row(schema, rules, seed, bias):
    task = a_task(schema, linear(width_of(schema), 2, seed, bias=bias), rules)
    rows, wanted = some_rows(schema, seed), np.array([1, 1, 1, 1, 0, 0])
    proof = prove(task, rows, wanted, limit=0)
    there = truth_of(task, rows, wanted)
    assert (proof.impossible == ~there).all()
    assert (proof.possible == there).all()


@calm
@given(st.data(), st.integers(0, 10**6), st.integers(2, 3), st.booleans(), st.sampled_from([None, 0.2, 0.9]))
def test_no_row_with_a_counterfactual_is_called_impossible(data, seed, classes, coarse, threshold):
    """Any rules, ties among scores, values off the grid, thresholds, three classes; bounds alone and with trying."""
    schema = data.draw(small_schemas())
    rules = data.draw(st.lists(rule_texts(schema), max_size=2))
    threshold = threshold if classes == 2 else None
    model = linear(width_of(schema), classes, seed, coarse=coarse, bias=2.0)
    task = a_task(schema, model, rules, threshold=threshold, target=classes - 1)
    rows, wanted = some_rows(schema, seed), np.full(6, classes - 1)
    there = truth_of(task, rows, wanted)
    bound = prove(task, rows, wanted, limit=0)
    assert not (bound.impossible & there).any()
    assert there[bound.possible].all()
    tried = prove(task, rows, wanted)
    assert not (tried.impossible & there).any()
    # Of a network's ties nothing is claimed, since rounding decides them.
    assert coarse or (tried.impossible == ~there).all()


@calm
@given(
    small_schemas(), st.lists(WIDE_RULES, min_size=1, max_size=2), st.integers(0, 10**6), st.sampled_from([1.0, 2.0])
)
def test_rules_on_several_values_at_once_are_bounded_soundly(schema, rules, seed, bias):
    model = linear(width_of(schema), 2, seed, bias=bias)
    with torch.no_grad():
        # What these rules are about must weigh more than all the rest.
        model.weight[1, :2] *= 4
    task = a_task(schema, model, rules)
    rows, wanted = some_rows(schema, seed), np.ones(6, dtype=int)
    there = truth_of(task, rows, wanted)
    for parts in (1, 64):
        proof = prove(task, rows, wanted, limit=0, parts=parts)
        assert not (proof.impossible & there).any()
        assert there[proof.possible].all()


@calm
@given(st.data(), st.integers(0, 10**6), st.sampled_from([2, 3]))
def test_bounds_of_relu_networks_are_sound(data, seed, classes):
    schema = data.draw(small_schemas())
    rules = data.draw(st.lists(rule_texts(schema), max_size=2))
    task = a_task(schema, relu_net(width_of(schema), classes, seed, 3.0), rules, target=classes - 1)
    rows, wanted = some_rows(schema, seed), np.full(6, classes - 1)
    there = truth_of(task, rows, wanted)
    for parts in (1, 64):
        proof = prove(task, rows, wanted, limit=0, parts=parts)
        assert not (proof.impossible & there).any()
        assert there[proof.possible].all()


@calm
@given(small_schemas(), st.lists(BOX_RULES, max_size=2), st.integers(0, 10**6))
def test_cutting_decides_small_relu_networks(schema, rules, seed):
    task = a_task(schema, relu_net(width_of(schema), 2, seed, 2.0), rules)
    rows, wanted = some_rows(schema, seed).assign(**{"b b": 0.0}), np.ones(6, dtype=int)
    proof = prove(task, rows, wanted, limit=0, parts=4096)
    there = truth_of(task, rows, wanted)
    narrow = np.array([misses_narrowly(task, rows.iloc[[i]]) for i in range(len(rows))])
    assert not (proof.impossible & there).any()
    assert (proof.impossible | there | narrow).all()


@calm
@given(st.data(), st.integers(0, 10**6))
def test_any_model_is_decided_where_all_legal_rows_can_be_tried(data, seed):
    schema = data.draw(small_schemas())
    rules = data.draw(st.lists(rule_texts(schema), max_size=3))
    table = every_row(schema)
    yes = pd.util.hash_pandas_object(table, index=False) % 1000 < 4
    chosen = {tuple(v) for v in table[yes.to_numpy()].itertuples(index=False, name=None)}

    def model(frame: pd.DataFrame) -> np.ndarray:
        hits = [tuple(v) in chosen for v in frame.itertuples(index=False, name=None)]
        return np.stack([1 - np.array(hits), np.array(hits)], axis=1).astype(float)

    task = a_task(schema, model, rules, target=1)
    rows, wanted = some_rows(schema, seed), np.ones(6, dtype=int)
    proof = prove(task, rows, wanted)
    there = truth_of(task, rows, wanted)
    assert (proof.impossible == ~there).all()
    assert (proof.possible == there).all()
    assert proof.calls <= 2 * len(table) + len(rows)
    assert not prove(task, rows, wanted, limit=0).possible.any()


@calm
@given(small_schemas(), st.integers(0, 10**6))
def test_a_linear_score_lies_above_a_relu_network_everywhere_in_a_hull(schema, seed):
    network = read_network(relu_net(width_of(schema), 3, seed, 0.0), None)
    table = every_row(schema)
    encoder = TableEncoder().fit(schema, table)
    x = encoder.encode(table).double().numpy()
    towards = np.array([1.0, -1.0, 0.0])
    above = ceiling(network, towards, x.min(axis=0)[None], x.max(axis=0)[None], encoder)
    score = x @ above.weights[0] + np.abs(x) @ above.size + above.constant
    assert (score >= network.logits(x) @ towards).all()


@examples(6)
@given(small_schemas(), st.lists(BOX_RULES, max_size=2), st.integers(0, 10**6))
def test_a_proof_does_not_depend_on_the_company_of_a_row(schema, rules, seed):
    task = a_task(schema, relu_net(width_of(schema), 2, seed, 2.0), rules)
    rows = some_rows(schema, seed, 4)
    together = prove(task, rows, np.ones(4, dtype=int), limit=300)
    alone = [prove(task, rows.iloc[[i]], np.ones(1, dtype=int), limit=300) for i in range(4)]
    assert together.reason.tolist() == [p.reason[0] for p in alone]
    pd.testing.assert_frame_equal(together.witness, pd.concat([p.witness for p in alone]), check_dtype=False)


def effects(task: Task, row: pd.DataFrame, name: str, values) -> np.ndarray:
    """How the log-odds of the model change with one feature alone, by asking the model."""
    table = row.iloc[np.zeros(len(values), dtype=int)].assign(**{name: np.asarray(values)})
    odds = [np.log(p[:, 1] / p[:, 0]) for p in map(task.classifier.probabilities, (table, row))]
    return odds[0] - odds[1]


def test_the_black_box_that_prefers_the_young_leaves_some_people_no_way():
    """In a linear model the features' effects add up, so asking about one at a time gives the best there is."""
    data = load_dataset("adult-authors")
    task = Task(
        data.train,
        train_classifier(data, kind="paper", seed=0),
        schema=data.schema,
        rules=data.rules["unary"],
        target=data.target,
    )
    rows = data.test[list(task.schema.names)]
    rows = rows[task.refused(rows)].iloc[::40]
    proof = prove(task, rows, np.full(len(rows), data.target))
    assert 0 < proof.impossible.sum() < len(rows) / 2
    assert (proof.possible == ~proof.impossible).all()
    for i in [*np.flatnonzero(proof.impossible), *np.flatnonzero(proof.possible)[:5]]:
        row = rows.iloc[[i]]
        p = task.classifier.probabilities(row)[0]
        best = np.log(p[1] / p[0])
        for feature in task.schema:
            if feature.mutable:
                values = feature.levels if feature.is_category else feature.at(np.arange(feature.top + 1))
                values = [v for v in values if feature.name != "age" or v >= row["age"].iloc[0]]
                best += effects(task, row, feature.name, values).max()
        assert (best > 0) == proof.possible[i]


ROOM = Schema(
    (
        Feature("wage", "integer", low=0, high=100_000),
        Feature("loan", "integer", low=0, high=1_000_000),
        Feature("home", "categorical", levels=("rents", "owns")),
    )
)
PEOPLE = pd.DataFrame(
    {"wage": [10_000, 50_000, 90_000], "loan": [0, 500_000, 900_000], "home": ["rents", "owns", "owns"]}
)


def room_model(weights, bias: float) -> nn.Linear:
    layer = nn.Linear(4, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([weights]))
        layer.bias.fill_(bias)
    return layer


def test_a_rule_on_two_values_at_once_enters_the_bound():
    """The loan is wanted high and the wage low, but the loan may be five wages at most: 4 + 1 stays below 6."""
    rules = ["loan' <= 5 * wage'", "wage' <= 40000"]
    layer = room_model([0.0, 10.0, 0.0, 0.0], -6.0)
    task = Task(PEOPLE, layer, schema=ROOM, rules=rules, target=1)
    scale = task.encoder.scale_["loan"]
    reachable = (200_000 - scale[0]) / scale[1] * 10 - 6
    assert reachable < 0 < (1_000_000 - scale[0]) / scale[1] * 10 - 6
    assert prove(task, PEOPLE, np.ones(3, dtype=int), limit=0).reason.tolist() == ["bound"] * 3
    looser = Task(PEOPLE, room_model([0.0, 10.0, 0.0, 0.0], -1.5), schema=ROOM, rules=rules, target=1)
    proof = prove(looser, PEOPLE, np.ones(3, dtype=int), limit=0)
    assert not proof.impossible.any()


def test_rules_that_leave_nothing_are_a_reason_of_their_own():
    task = loans.task(rules="age' > age")
    rows = loans.table(3).assign(age=[80, 79, 80], income=0.0)
    proof = prove(task, rows, np.full(3, "yes"), limit=0)
    assert proof.reason.tolist() == [Reason.RULES, "", Reason.RULES]


def test_what_cannot_be_proved_is_left_open():
    task = loans.task()
    rows = loans.table(5)
    proof = prove(task, rows, np.full(5, "yes"))
    assert not proof.impossible.any()
    assert not proof.possible.any()
    assert proof.calls == 0


def test_a_tie_is_no_proof():
    """The best score is exactly that of the other class, and the first class answers ties."""
    layer = nn.Linear(4, 2)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    task = Task(PEOPLE, layer, schema=ROOM, target=0)
    assert not prove(task, PEOPLE, np.zeros(3, dtype=int), limit=0).impossible.any()
    assert not prove(task, PEOPLE, np.ones(3, dtype=int), limit=0).impossible.any()


def test_single_precision_cannot_make_a_proved_row_possible():
    """Huge weights that cancel: the exact score is -0.1, but a module in single precision may round by more than that."""
    layer = room_model([0.0, 0.0, 3e4, 3e4], -3e4 - 0.1)
    task = Task(PEOPLE, layer, schema=ROOM, target=1)
    assert prove(task, PEOPLE, np.ones(3, dtype=int), limit=0).reason.tolist() == [""] * 3
    exact = Task(PEOPLE, layer.double(), schema=ROOM, target=1)
    assert prove(exact, PEOPLE, np.ones(3, dtype=int), limit=0).reason.tolist() == ["bound"] * 3


@pytest.mark.parametrize("threshold", [None, 0.3, 0.97])
@pytest.mark.parametrize("end", ["sigmoid", "flat", "softmax", "dropout", "batchnorm"])
def test_the_ends_of_modules_are_read(end, threshold):
    body = relu_net(4, 2 if end in ("softmax", "dropout") else 1, 3, 0.0)
    ends = {
        "sigmoid": [nn.Sigmoid()],
        "flat": [nn.Flatten(0)],
        "softmax": [nn.Softmax(dim=1)],
        "dropout": [nn.Dropout(0.5), nn.Identity()],
        "batchnorm": [],
    }
    norm = [nn.BatchNorm1d(4)] if end == "batchnorm" else []
    model = nn.Sequential(*norm, *body, *ends[end])
    if norm:
        norm[0](torch.rand(50, 4))
    task = Task(PEOPLE, model, schema=ROOM, threshold=threshold, target=1)
    network = read_network(task.classifier.module, threshold)
    rows = ROOM.table(
        {"wage": np.arange(0, 90_000, 900.0), "loan": np.arange(100) * 9_000.0, "home": np.arange(100) % 2}
    )
    answers = network.logits(task.encoder.encode(rows).double().numpy()).argmax(axis=1)
    assert (answers == task.predict(rows)).all()


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(4, 2), nn.Sigmoid()),
        nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=0)),
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)),
    ],
)
def test_parts_that_are_not_known_are_not_read(model):
    assert read_network(nn.Sequential(model), None) is None or isinstance(model[-1], nn.Sigmoid | nn.Softmax)
    from fcxplain.classifier.torch_modules import LogProbabilities

    assert read_network(nn.Sequential(model, LogProbabilities()), None) is None


class Own(nn.Module):
    """A network as users write it."""

    def __init__(self, width: int = 4, trick: str = "") -> None:
        super().__init__()
        self.first, self.drop, self.second, self.trick = nn.Linear(width, 6), nn.Dropout(0.5), nn.Linear(6, 1), trick

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training or (self.trick == "data" and x.sum() > 0):
            x = x * 100
        hidden = self.drop(nn.functional.relu(self.first(x)))
        if self.trick == "skip":
            return self.second(hidden).squeeze(-1) + x[:, 0]
        return nn.functional.dropout(self.second(hidden), 0.5, self.training).squeeze(-1)


def test_a_module_of_the_users_own_is_traced():
    task = Task(PEOPLE, Own(), schema=ROOM, target=1)
    network = read_network(task.classifier.module, None)
    x = torch.randn(50, 4)
    expected = task.classifier.module.eval()(x).detach().double().numpy()
    assert network.logits(x.double().numpy()) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("trick", ["data", "skip"])
def test_a_module_that_cannot_be_followed_is_not_read(trick):
    task = Task(PEOPLE, Own(trick=trick), schema=ROOM, target=1)
    assert read_network(task.classifier.module, None) is None


def test_a_hooked_module_is_not_read():
    layer = nn.Linear(4, 2)
    layer.register_forward_hook(lambda module, args, out: out + 5)
    assert read_network(layer, None) is None


@pytest.mark.parametrize("place", ["first", "last"])
def test_a_relu_at_an_end_counts(place):
    body = linear(4, 2, 1)
    model = nn.Sequential(nn.ReLU(), body) if place == "first" else nn.Sequential(body, nn.ReLU())
    x = torch.randn(100, 4)
    expected = model(x).detach().double().numpy()
    assert read_network(model, None).logits(x.double().numpy()) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("threshold", "target"), [(0.0, 1), (1.0, 0)])
def test_extreme_thresholds_do_not_mislead(threshold, target):
    """From probability 0 on everybody gets the second class; up to 1 everybody the first."""
    task = Task(
        PEOPLE,
        room_model([0.0, 0.0, 0.0, 0.0], -40.0 if target else 30.0),
        schema=ROOM,
        threshold=threshold,
        target=target,
    )
    assert (task.predict(PEOPLE) == target).all()
    assert not prove(task, PEOPLE, np.full(3, target), limit=0).impossible.any()


class Liar:
    """A classifier whose module is not the model that answers."""

    classes, threshold = (0, 1), None

    def __init__(self) -> None:
        self.module = room_model([0.0, 0.0, 0.0, 0.0], -9.0)
        self.module = nn.Sequential(self.module, nn.Linear(1, 2, bias=False))
        with torch.no_grad():
            self.module[1].weight.copy_(torch.tensor([[0.0], [1.0]]))

    def probabilities(self, rows: pd.DataFrame) -> np.ndarray:
        owns = (rows["home"] == "owns").to_numpy(dtype=float)
        return np.stack([1 - owns, owns], axis=1)

    def predict(self, rows: pd.DataFrame) -> np.ndarray:
        return self.probabilities(rows).argmax(axis=1)


def test_a_module_that_is_not_the_model_proves_nothing():
    proof = prove(Task(PEOPLE, Liar(), schema=ROOM, target=1), PEOPLE, np.ones(3, dtype=int))
    assert not proof.impossible.any()
    assert "predicts differently" in proof.notes[0]


def test_a_model_that_refuses_some_legal_rows_leaves_them_open():
    schema = Schema((Feature("n", "integer", low=0, high=3), Feature("c", "categorical", levels=("p", "q", "r"))))
    train = pd.DataFrame({"n": [0, 1, 2, 3], "c": ["p", "q", "p", "q"]})

    def model(rows: pd.DataFrame) -> np.ndarray:
        if (rows["c"] == "r").any():
            raise ValueError("unknown level r")
        return np.tile([0.9, 0.1], (len(rows), 1))

    proof = prove(Task(train, model, schema=schema, target=1), train, np.ones(4, dtype=int))
    assert not proof.impossible.any()
    assert "unknown level r" in proof.notes[0]


def test_legal_rows_are_asked_once_for_all_rows():
    schema = Schema(
        (Feature("n", "integer", low=0, high=9), Feature("sex", "categorical", levels=("f", "m"), mutable=False))
    )
    train = pd.DataFrame(list(itertools.product(range(10), ["f", "m"])), columns=["n", "sex"])
    task = Task(train, lambda rows: np.tile([0.9, 0.1], (len(rows), 1)), schema=schema, target=1)
    proof = prove(task, train, np.ones(20, dtype=int))
    assert proof.reason.tolist() == ["tried"] * 20
    assert proof.calls == 20


def test_the_witness_is_the_cheapest_where_all_are_tried():
    task = loans.task(rules="income' == income\njob' == job")
    rows = loans.table(20).assign(income=2000.0)
    proof = prove(task, rows, np.full(20, "yes"))
    every = pd.DataFrame(
        list(itertools.product(range(18, 81), ["none", "school", "college"])), columns=["age", "degree"]
    )
    valid = every[loans.chance(every.assign(income=2000.0)) >= 0.5]

    def cost(then, now):
        moved = np.abs(then["age"] - now["age"])
        return (moved > 0) + moved / task.units["age"] + (then["degree"] != now["degree"])

    assert proof.possible.all()
    for i in range(20):
        assert cost(proof.witness.iloc[i], rows.iloc[i]) == pytest.approx(cost(valid, rows.iloc[i]).min())


def test_a_present_value_beyond_the_last_grid_value_may_stay():
    """The grid ends at 0.9, but 0.95 may be kept, and only with it is the score high enough."""
    schema = Schema(
        (Feature("x", "continuous", low=0, high=1, step=0.3), Feature("c", "categorical", levels=("y", "z")))
    )
    layer = nn.Linear(3, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[10.0, 0.0, -1.0]]))
        layer.bias.fill_(-9.2)
    rows = pd.DataFrame({"x": [0.95], "c": ["z"]})
    for rules in ("", "x' >= x"):
        task = Task(pd.DataFrame({"x": [0.0, 1.0], "c": ["y", "z"]}), layer, schema=schema, rules=rules, target=1)
        assert task.predict(rows)[0] == 0
        proof = prove(task, rows, np.ones(1, dtype=int), limit=0)
        assert proof.possible.all()
        assert proof.witness["x"].tolist() == [0.95]


def test_a_present_value_between_two_grid_values_survives_cutting():
    """A network with a peak at 0.3, where no grid value lies."""
    schema = Schema(
        (Feature("x", "continuous", low=0, high=1, step=0.25), Feature("c", "categorical", levels=("y", "z")))
    )
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0]]))
        model[0].bias.copy_(torch.tensor([-0.26, -0.3, -0.34, 0.0]))
        model[2].weight.copy_(torch.tensor([[100.0, -200.0, 100.0, 2.0]]))
        model[2].bias.fill_(-5.0)
    task = Task(pd.DataFrame({"x": [0.0, 1.0], "c": ["y", "z"]}), model, schema=schema, target=1)
    rows = pd.DataFrame({"x": [0.3, 0.25], "c": ["z", "z"]})
    proof = prove(task, rows, np.ones(2, dtype=int), limit=0)
    assert proof.possible.tolist() == [True, False]
    assert proof.reason.tolist() == ["", "bound"]


def test_rows_with_unknown_levels_that_stay_do_not_disturb_the_bounds_of_others():
    stays = Feature("c", "categorical", levels=("x", "y"), mutable=False, guessed=("levels",))
    schema = Schema((Feature("a", "integer", low=0, high=9), stays))
    train = pd.DataFrame({"a": [0, 9], "c": ["x", "y"]})
    task = Task(train, linear(3, 2, 0), schema=schema, target=1)
    unknown = pd.DataFrame({"a": 1, "c": [f"level {i}" for i in range(10)]})
    together = prove(task, pd.concat([unknown, train]), np.ones(12, dtype=int), limit=0)
    alone = prove(task, train, np.ones(2, dtype=int), limit=0)
    assert not together.impossible[:10].any()
    assert together.reason[10:].tolist() == alone.reason.tolist()
    assert (alone.impossible | alone.possible).all()


def test_a_frozen_value_beside_the_grid_is_left_undecided():
    """0.1 + 0.2 keeps the rule `x' == x` at 0.3, which is another row for the model."""
    schema = Schema((Feature("x", "continuous", low=0, high=1, step=0.1), Feature("n", "integer", low=0, high=1)))
    train = pd.DataFrame({"x": [0.1, 0.3], "n": [0, 1]})
    task = Task(train, lambda rows: (rows["x"] == 0.3).to_numpy() * 0.8 + 0.1, schema=schema, rules="x' == x", target=1)
    rows = pd.DataFrame({"x": [0.1 + 0.2], "n": [0]})
    assert not prove(task, rows, np.ones(1, dtype=int)).impossible.any()


def test_an_unknown_class_is_refused():
    with pytest.raises(DataError, match="'maybe' is not one of the classes"):
        prove(loans.task(), loans.table(1), np.array(["maybe"]))


def test_no_rows_are_no_trouble():
    proof = prove(loans.task(), loans.table(3).iloc[:0], np.array([], dtype=object))
    assert len(proof.reason) == len(proof.witness) == 0


def test_what_rows_may_become_is_told_by_rules_and_bounds():
    task = loans.task(rules="age' > age or degree' > degree")
    now = task.schema.natural(loans.table(4).assign(age=80, degree="college"))
    reach = task.region(now)
    assert reach.nothing.all()
    assert reach.is_exact


def test_other_encoders_of_the_classifier_are_respected():
    """The classifier scales by other rows than the task does."""
    other = TableEncoder().fit(ROOM, PEOPLE.assign(wage=[0, 10, 20]))
    model = as_classifier(room_model([1.0, 0.0, 0.0, 0.0], -3000.0), schema=ROOM, encoder=other)
    task = Task(PEOPLE, model, schema=ROOM, target=1)
    proof = prove(task, PEOPLE, np.ones(3, dtype=int), limit=0)
    assert proof.possible.all()
    assert (proof.witness["wage"] == 100_000).all()
