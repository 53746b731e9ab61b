"""The default generator (heads, rule boxes, draws): sparse, legal and inside the rules."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import loans
from fcxplain import FCx, Feature, Schema, Task
from fcxplain.errors import TrainingError
from fcxplain.explanation import Checks, check
from fcxplain.generator import losses, view
from fcxplain.generator.cvae import Architecture, ConditionalVAE, weight_shapes
from fcxplain.generator.draws import Proposer
from fcxplain.generator.heads import Boxes, Heads, hull, nearest_box
from fcxplain.generator.losses import LossWeights, Objective, TermSettings
from fcxplain.generator.settings import Layout, Range
from fcxplain.generator.training import Callback, Training
from fcxplain.generator.view import MAX_BOXES, RuleBoxes
from fcxplain.hashing import row_noise
from fcxplain.rules import holds
from fcxplain.search import Search
from fcxplain.training_loop import Schedule

DEFAULT = Architecture(hidden=(32,), latent=4, variance="softplus", skip=True, gates=True)
TERMS = TermSettings(
    number_unit="mad", margin=0.5, squashed=False, theta=0.5, standardised=True, sparsity="gates", lof_k=5
)
WEIGHTS = LossWeights(proximity=0.5, validity=20.0, kl=0.1, hard=10.0, soft=0.1, sparsity=2.0, density=0.01)
ONLY_SPARSITY = LossWeights(proximity=0, validity=0, kl=0, hard=0, soft=0, sparsity=2.0, density=0)
# A number on eleven values, a category, an immutable category and a number of five values.
LAYOUT = Layout(
    spans=((0, 1), (1, 4), (4, 6), (6, 7)),
    mutable=(True, True, False, True),
    ranges=(Range(0.0, 1.0, 0.1), None, None, Range(0.0, 1.0, 0.25)),
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def encoded(n: int = 64, seed: int = 0) -> torch.Tensor:
    """Legal rows of `LAYOUT`."""
    random = np.random.default_rng(seed)
    levels, others = np.eye(3)[random.integers(0, 3, n)], np.eye(2)[random.integers(0, 2, n)]
    numbers = random.integers(0, 11, (n, 1)) / 10, random.integers(0, 5, (n, 1)) / 4
    return torch.from_numpy(np.hstack([numbers[0], levels, others, numbers[1]]))


def untrained(task: Task, seed: int = 0, architecture: Architecture = DEFAULT) -> ConditionalVAE:
    """A generator whose outputs are as wild as they can be, so that nothing but the layer keeps the rules."""
    model = ConditionalVAE(view.layout(task), architecture, generator(seed))
    with torch.no_grad():
        model.output.weight.mul_(20)
    return model.eval()


def raw(task: Task, model: ConditionalVAE, rows: pd.DataFrame, draw: int = 0) -> pd.DataFrame:
    """One raw draw for each row, decoded."""
    x, natural = task.encoder.encode(rows).double(), task.schema.natural(rows)
    noise = torch.from_numpy(row_noise(task.encoder.codes(rows), model.architecture.latent, 0, draw))
    wanted = torch.ones(len(rows), dtype=torch.long)
    with torch.no_grad():
        drawn = copy.deepcopy(model).double()(x, wanted, noise, RuleBoxes(task).of(natural))
    return task.encoder.decode(drawn.x_cf, rows.index)


def checked(task: Task, rows: pd.DataFrame, after: pd.DataFrame) -> Checks:
    return check(task, rows, after, np.full(len(rows), "yes", dtype=object))


class Chance(torch.nn.Module):
    """The model of the loans with gradients: its log-odds, exactly."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.encoder = task.encoder

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = self.encoder.columns(x)
        score = columns["income"] / 1000 + columns["age"] / 30 + columns["degree"] - 4.5
        return torch.stack([-score / 2, score / 2], dim=1)


def training(task: Task, seed: int = 0, callbacks: tuple[Callback, ...] = (), **schedule: Any) -> Training:
    shape, boxes = view.layout(task), RuleBoxes(task)
    joined = torch.zeros((shape.width, shape.width), dtype=torch.bool)
    objective = Objective(
        Chance(task),
        view.rule_penalty(task, "layer", 0.0, 1.0),
        joined,
        ~joined.fill_diagonal_(True),
        weights=WEIGHTS,
        settings=TERMS,
        scale=view.proximity_scale(task, "mad"),
        expected=view.expected_correlation(task),
    )
    train, held = view.parted(view.refused_rows(task, task.train, boxes), 0)
    random = generator(seed)
    model = ConditionalVAE(shape, DEFAULT, random)
    return Training(model, objective, train, held, Schedule(**{"epochs": 3, "batch": 64} | schedule), random, callbacks)


@pytest.fixture(scope="module")
def task() -> Task:
    return loans.task()


@pytest.fixture(scope="module")
def fitted(task: Task) -> ConditionalVAE:
    run = training(task, epochs=50, learning_rate=1e-2)
    run.run()
    return run.model


# The heads


def heads(temperature: float = 1.0) -> Heads:
    return Heads(LAYOUT, temperature, generator()).double().eval()


def test_closed_gates_leave_the_row_to_the_bit():
    x = encoded()
    outputs = torch.randn((len(x), 8), generator=generator(), dtype=torch.double)
    outputs[:, :3] = -1
    x_cf, likely = heads()(outputs, x)
    assert torch.equal(x_cf, x)
    assert torch.allclose(likely, torch.tensor(-1.0).double().sigmoid())


def test_open_gates_put_another_level_and_a_value_of_the_grid():
    x = encoded()
    outputs = torch.randn((len(x), 8), generator=generator(), dtype=torch.double)
    outputs[:, :3] = 1
    x_cf, _ = heads()(outputs, x)
    assert (x_cf[:, 1:4].argmax(1) != x[:, 1:4].argmax(1)).all()
    assert (x_cf[:, 1:4].sort(dim=1).values == torch.tensor([0.0, 0.0, 1.0])).all()
    assert torch.equal(x_cf[:, 4:6], x[:, 4:6])
    for column, step in ((0, 0.1), (6, 0.25)):
        assert torch.allclose(x_cf[:, column] / step, (x_cf[:, column] / step).round())
        assert ((x_cf[:, column] >= 0) & (x_cf[:, column] <= 1 + 1e-12)).all()


def test_the_best_other_level_is_chosen():
    x = encoded(3)
    x[:, 1:4] = torch.eye(3)
    outputs = torch.zeros((3, 8), dtype=torch.double)
    outputs[:, 1] = 1
    outputs[:, 4:7] = torch.tensor([0.0, 1.0, 2.0])
    x_cf, _ = heads()(outputs, x)
    assert x_cf[:, 1:4].argmax(1).tolist() == [2, 2, 1]


def test_a_number_with_a_score_of_0_stays_where_it_is():
    x = encoded()
    outputs = torch.zeros((len(x), 8), dtype=torch.double)
    outputs[:, 0] = outputs[:, 2] = 1
    assert torch.allclose(heads()(outputs, x)[0], x)


def test_gates_have_the_gradient_of_a_mixture():
    x = encoded(1)
    x[:, 1:4] = torch.tensor([1.0, 0.0, 0.0])
    outputs = torch.zeros((1, 8), dtype=torch.double)
    outputs[0, :3] = torch.tensor([-1.0, 0.3, -1.0])
    outputs[0, 5] = 5.0
    outputs.requires_grad_()
    x_cf, _ = heads()(outputs, x)
    assert x_cf[0, 1:4].tolist() == [0, 1, 0]
    (2 * x_cf[0, 2] - x_cf[0, 1]).backward()
    slope = torch.tensor(0.3).sigmoid() * (1 - torch.tensor(0.3).sigmoid())
    # Opening moves the second level up by 1 and the first down by 1.
    assert outputs.grad[0, 1].item() == pytest.approx(3 * slope.item(), rel=1e-6)


def test_training_draws_choices_as_likely_as_the_gates_say():
    x = encoded(20_000)
    outputs = torch.zeros((len(x), 8), dtype=torch.double)
    outputs[:, 1] = 1.0
    x_cf, likely = heads().train()(outputs, x)
    changed = (x_cf[:, 1:4] != x[:, 1:4]).any(dim=1).double().mean()
    assert changed.item() == pytest.approx(likely[0, 1].item(), abs=0.015)
    again, _ = heads().train()(outputs, x)
    assert torch.equal(x_cf, again)


def test_the_number_of_likely_changes_is_the_sparsity_and_needs_gates():
    x = encoded()
    model = ConditionalVAE(LAYOUT, DEFAULT, generator()).double().eval()
    drawn = model(x, torch.ones(len(x), dtype=torch.long), torch.zeros((len(x), 4)).double())
    assert drawn.gates is not None
    assert losses.open_gates(drawn.gates).item() == pytest.approx(drawn.gates.sum().item() / len(x))
    plain = ConditionalVAE(LAYOUT, Architecture(latent=4), generator()).double()
    apart = torch.zeros((2, 7, 7)).bool()
    judged = Objective(torch.nn.Identity(), lambda a, b: a[:, 0], *apart, weights=ONLY_SPARSITY, settings=TERMS)
    with pytest.raises(TrainingError, match="needs a generator with gates"):
        judged.terms(x, drawn.z, plain(x, torch.ones(len(x), dtype=torch.long), drawn.z))


def test_the_decoder_sees_the_row_only_with_skip():
    x = encoded()
    y, z = torch.ones(len(x), dtype=torch.long), torch.zeros((len(x), 4)).double()
    for skip, width in ((True, 4 + 1 + 7), (False, 4 + 1)):
        model = ConditionalVAE(LAYOUT, Architecture(latent=4, skip=skip), generator()).double().eval()
        assert model.decoder[0].in_features == width
        alike = torch.equal(model.decode(z, x, y)[:, :4], model.decode(z, x.flip(0), y)[:, :4])
        assert alike is not skip


@pytest.mark.parametrize("changes", [{}, {"skip": True}, {"gates": True}, {"skip": True, "gates": True}])
def test_the_shapes_of_weights_are_told_without_building_a_model(changes):
    architecture = Architecture(hidden=(8, 6), latent=3, **changes)
    model = ConditionalVAE(LAYOUT, architecture, generator())
    assert weight_shapes(LAYOUT, architecture) == {n: tuple(t.shape) for n, t in model.state_dict().items()}


def test_what_needs_gates_says_so():
    with pytest.raises(ValueError, match="needs a layout with ranges"):
        ConditionalVAE(Layout(LAYOUT.spans, LAYOUT.mutable), DEFAULT, generator())
    with pytest.raises(TrainingError, match=r"(?s)gates: is 2.*temperature: is 0"):
        Architecture(gates=2, temperature=0)  # type: ignore[arg-type]
    x = encoded()
    task = loans.task()
    plain = ConditionalVAE(LAYOUT, Architecture(latent=4), generator()).double()
    allowed = RuleBoxes(task).of(task.schema.natural(task.train))
    with pytest.raises(ValueError, match="give it gates"):
        plain(x, torch.ones(len(x), dtype=torch.long), torch.zeros((len(x), 4)).double(), allowed)


# The rule layer


def boxes(levels: Any, low: Any, high: Any, possible: Any = None, keeps: Any = None) -> Boxes:
    """Boxes of one row over the three levels and the first number of `LAYOUT`."""
    low, high = (torch.tensor(v, dtype=torch.double).reshape(1, -1, 1) for v in (low, high))
    open_ = torch.ones((1, low.shape[1]), dtype=torch.bool) if possible is None else torch.tensor([possible])
    stays = torch.zeros_like(low, dtype=torch.bool) if keeps is None else torch.tensor(keeps).reshape(1, -1, 1)
    kinds = torch.tensor([1, 2, 3]), torch.tensor([0])
    return Boxes(*kinds, open_, torch.tensor(levels, dtype=torch.bool)[None], low, high, stays)


def test_a_draw_goes_to_the_possible_box_that_it_is_nearest_to():
    x = torch.tensor([[0.5, 1, 0, 0, 1, 0, 0]]).double()
    two = ([[1, 0, 0], [0, 1, 1]], [0.0, 0.9], [0.4, 1.0])
    # Its level is in the first box, 0.1 from its number; the second needs another level.
    assert nearest_box(boxes(*two), x, x).low.item() == 0.0
    moved = x.clone()
    moved[0, 1:4] = torch.tensor([0.0, 0.0, 1.0])
    assert nearest_box(boxes(*two), x, moved).low.item() == pytest.approx(0.9)
    assert nearest_box(boxes(*two, possible=[False, True]), x, x).low.item() == pytest.approx(0.9)


def test_a_value_off_the_grid_may_stay_where_the_box_keeps_it():
    x = torch.tensor([[0.55, 1, 0, 0, 1, 0, 0]]).double()
    two = ([[1, 0, 0], [1, 0, 0]], [0.6, 1.0], [1.0, 0.0])
    assert nearest_box(boxes(*two, keeps=[False, True]), x, x).keeps.item() is True
    assert nearest_box(boxes(*two, keeps=[False, False]), x, x).low.item() == pytest.approx(0.6)


def test_the_hull_is_what_some_possible_box_allows():
    three = ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0.2, 0.5, 0.0], [0.3, 0.7, 1.0])
    around = hull(boxes(*three, possible=[True, True, False]))
    assert around.levels.tolist() == [[True, True, False]]
    assert (around.low.item(), around.high.item()) == (0.2, 0.7)


def test_a_change_that_forces_another_counts_for_both():
    task = loans.task("degree' > degree => age' > age\ndegree' >= degree")
    rows = loans.table(40, 1).assign(degree="none", age=30)
    layer = Heads(view.layout(task), 1.0, generator()).eval()
    outputs = torch.zeros((len(rows), layer.width))
    # Only the degree's gate is open by itself.
    outputs[:, :4] = torch.tensor([-2.0, -2.0, 1.5, -2.0])
    outputs.requires_grad_()
    x_cf, likely = layer(outputs, task.encoder.encode(rows), RuleBoxes(task).of(task.schema.natural(rows)))
    after = task.encoder.decode(x_cf)
    assert (after["age"] > 30).all()
    assert (after["degree"] != "none").all()
    assert torch.equal(likely[:, 0], likely[:, 2])
    likely.sum().backward()
    alone = torch.tensor(1.5).sigmoid() * (1 - torch.tensor(1.5).sigmoid())
    assert torch.allclose(outputs.grad[:, 2], 2 * alone)


def test_a_closed_gate_learns_from_all_boxes_what_opening_it_would_bring():
    task = loans.task("degree' > degree => age' > age\ndegree' >= degree")
    rows = loans.table(10, 1).assign(degree="none", age=30)
    layer = Heads(view.layout(task), 1.0, generator()).eval()
    outputs = torch.full((len(rows), layer.width), -2.0, requires_grad=True)
    x_cf, _ = layer(outputs, task.encoder.encode(rows), RuleBoxes(task).of(task.schema.natural(rows)))
    assert torch.equal(x_cf, task.encoder.encode(rows))
    higher = x_cf[:, task.encoder.spans_["degree"]] @ torch.tensor([0.0, 1.0, 1.0])
    higher.sum().backward()
    assert (outputs.grad[:, 2] > 0).all()


RULE_LINES = (
    "age' >= age",
    "degree' > degree => age' > age",
    "degree' >= degree",
    "income' <= income + 500",
    "income' <= 1000 or income' >= 2000",
    "job' != job or income' == income",
    "job' in {clerk, cook}",
    "age' <= 60 or degree' == college",
    "abs(age' - age) <= 5",
    "born == here => job' == job",
    "job' == cook => degree' == school",
)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(RULE_LINES), min_size=1, max_size=4, unique=True), st.integers(0, 10_000))
def test_a_raw_draw_of_an_untrained_generator_keeps_every_rule_that_is_a_box(lines, seed):
    task = loans.task("\n".join(lines), rows=60)
    rows = loans.table(40, seed)
    layer = RuleBoxes(task)
    assert not layer.rest
    found = checked(task, rows, raw(task, untrained(task, seed), rows))
    possible = np.all([g.possible.any(dim=1).numpy() for g in layer.of(task.schema.natural(rows)).groups], axis=0)
    assert found.kept[possible].all()
    assert found.legal.all()
    assert found.immutables_kept.all()


def test_present_values_that_a_rule_forbids_do_not_stay(task):
    strict = loans.task("age' <= 40\njob' in {clerk}\nincome' >= 100")
    rows = loans.table(100, 3)
    after = raw(strict, untrained(strict), rows)
    assert (after["age"] <= 40).all()
    assert (after["job"] == "clerk").all()
    assert (after["income"] >= 100).all()


def test_values_off_the_grid_stay_or_land_on_the_grid_inside_the_rules():
    task = loans.task("income' >= income")
    rows = loans.table(80, 2)
    rows["income"] += 0.2
    codes, natural = task.encoder.codes(rows), task.schema.natural(rows)
    drawn = Proposer(untrained(task), task).draws(codes, np.ones(80, dtype=np.int64), 4, natural)[:, 1]
    kept = drawn[:, 1] == codes[:, 1]
    values = np.where(kept, natural["income"], task.schema["income"].at(drawn[:, 1]))
    assert 0 < kept.mean() < 1
    assert (values >= natural["income"]).all()


@pytest.mark.parametrize("rules", [loans.RULES, "", "abs(income' - income) <= 900\njob' == cook => degree' != none"])
@pytest.mark.parametrize("variance", ["sigmoid", "softplus"])
def test_inference_decides_as_the_network_with_its_heads_does(rules: str, variance: Any, monkeypatch):
    task, rows = loans.task(rules), loans.table(70, 6)
    model = untrained(task, architecture=dataclasses.replace(DEFAULT, variance=variance)).double()
    _used(model.encoder), _used(model.decoder)
    proposer, natural, wanted = (
        Proposer(model, task, seed=5),
        task.schema.natural(rows),
        torch.ones(70, dtype=torch.long),
    )
    noises, decided = [], proposer.inference.draws

    def overheard(x: Any, wanted: Any, noise: Any, boxes: Any) -> Any:
        # The network knows nothing of numbers that go farther.
        noises.append(dataclasses.replace(noise, reach=np.ones(8)))
        return decided(x, wanted, noises[0], boxes)

    monkeypatch.setattr(proposer.inference, "draws", overheard)
    proposals = proposer.draws(task.encoder.codes(rows), wanted.numpy(), 8)
    noise, jitter = (torch.from_numpy(part[noises[0].line]) for part in (noises[0].latent, noises[0].jitter))
    x, allowed = (
        task.encoder.encode(rows).double(),
        RuleBoxes(task).of(natural).take(torch.arange(70).repeat_interleave(8)),
    )
    with torch.no_grad():
        mean, spread = model.encode(x, wanted)
        z = (mean[:, None] + spread.sqrt()[:, None] * noise).flatten(0, 1)
        drawn = model.decode(z, x.repeat_interleave(8, 0), wanted.repeat_interleave(8), allowed, jitter.repeat(70, 1))
    expected = task.encoder.codes(task.encoder.decode(drawn)).reshape(70, 8, -1)
    assert (proposals == expected).all()
    assert (expected != expected[:, :1]).any()


def test_the_second_draw_is_the_first_with_numbers_that_go_farther_the_same_way():
    task, rows = loans.task(""), loans.table(70, 6)
    codes, number = task.encoder.codes(rows), task.schema.names.index("income")
    drawn = Proposer(untrained(task), task, seed=5).draws(codes, np.ones(70, dtype=np.int64), 2)
    first, second = (drawn[:, i] - codes for i in range(2))
    categories = [i for i, f in enumerate(task.schema) if f.is_category]
    assert (first[:, categories] == second[:, categories]).all()
    assert (first[:, number] * second[:, number] >= 0).all()
    assert (np.abs(second[:, number]) >= np.abs(first[:, number])).all()
    assert (second[:, number] != first[:, number]).any()


def _used(layers: torch.nn.Sequential) -> None:
    """Batch norms as after some training."""
    for layer in layers:
        if isinstance(layer, torch.nn.BatchNorm1d):
            for tensor in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
                assert tensor is not None
                tensor.data.copy_(torch.rand(tensor.shape, generator=generator(1)) + 0.5)


def test_a_row_without_any_way_out_is_left_alone_whatever_rows_are_beside_it():
    task = loans.task("job' == smith => age' > age\njob' == smith or age' < 10 or income' > 9500")
    rows = loans.table(30, 4)
    rows.loc[rows.index[::3], "age"] = 80
    codes, wanted, proposer = task.encoder.codes(rows), np.ones(30, dtype=np.int64), Proposer(untrained(task), task)
    whole = proposer.draws(codes, wanted, 4)
    stuck = codes[:, 0] == 80 - 18
    assert (whole[stuck][:, :, :2] == codes[stuck][:, None, :2]).all()
    assert (whole[~stuck][:, :, 0] > codes[~stuck][:, None, 0]).all()
    alone = [proposer.draws(codes[i : i + 1], wanted[i : i + 1], 4)[0] for i in range(30)]
    assert (np.stack(alone) == whole).all()


def test_alternatives_that_are_empty_or_inside_another_are_left_out():
    rules = "degree' > degree => age' > age\ndegree' == degree => age' >= age\ndegree' >= degree"
    (group,) = RuleBoxes(loans.task(rules)).groups
    assert group.disjuncts is not None
    assert len(group.disjuncts) == 2


def test_frozen_features_are_no_part_of_the_layer():
    task = loans.task("degree' == degree\ndegree' > degree => age' > age\nage' >= age")
    layer = RuleBoxes(task)
    assert [g.names for g in layer.groups] == [("age",)]
    assert not layer.rest


def test_rules_on_several_numbers_are_left_to_their_penalty():
    task = loans.task("age' >= age\nincome' <= 50 * age'\ndegree' >= degree")
    layer = RuleBoxes(task)
    assert [rule.text for rule in layer.rest] == ["income' <= 50 * age'"]
    assert sorted(name for g in layer.groups for name in g.names) == ["age", "degree"]
    x = task.encoder.encode(loans.table(50).assign(age=20, income=4000.0))
    assert (view.rule_penalty(task, "layer", 0.0, 1.0)(x, x) > 0).all()


def test_rules_with_too_many_alternatives_are_left_to_their_penalty():
    lines = [f"age' != {20 + 2 * i} or income' != {7 * i % 11}" for i in range(12)]
    one, all_of_them = RuleBoxes(loans.task(lines[:1])), RuleBoxes(loans.task([*lines, "job' == cook"]))
    assert (one.rest, len(one.groups[0].disjuncts)) == ((), 4)
    assert MAX_BOXES == 64, "and these rules can be kept in 69 ways"
    assert ([r.text for r in all_of_them.rest], [g.names for g in all_of_them.groups]) == (lines, [("job",)])


def test_the_ranges_of_numbers_are_those_of_the_training_rows_on_the_grid():
    schema = Schema((Feature("a", "continuous", low=0, high=10, step=0.5), Feature("b", "categorical", levels=("u",))))
    train = pd.DataFrame({"a": [1.2, 3.0, 5.1], "b": ["u", "u", "u"]})
    task = Task(train, lambda rows: rows["a"].to_numpy() / 10, schema=schema, classes=(0, 1), target=1)
    found = view.layout(task).ranges
    assert found[1] is None
    natural = [v * (5.1 - 1.2) + 1.2 for v in (found[0].low, found[0].high)]
    assert natural == pytest.approx([1.5, 5.0])
    assert found[0].step == pytest.approx(0.5 / 3.9)


# Training


def test_a_short_training_gives_valid_sparse_and_feasible_draws(task, fitted):
    rows = loans.table(200, 5)
    rows = rows[task.refused(rows)]
    found = checked(task, rows, raw(task, fitted, rows))
    assert found.kept.all()
    assert (found.predicted == "yes").mean() > 0.9
    assert found.changed.sum(axis=1).mean() < 2.7


def test_gates_resume_to_the_same_bits(task):
    class CutOff(Callback):
        def on_epoch_end(self, training: Training) -> None:
            if training.epoch == 2:
                self.state = copy.deepcopy(training.state())
                raise KeyboardInterrupt

    whole, plug = training(task), CutOff()
    whole.run()
    with pytest.raises(KeyboardInterrupt):
        training(task, callbacks=(plug,)).run()
    resumed = training(task, seed=99)
    resumed.restore(plug.state)
    resumed.run()
    pairs = zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_gradients_reach_every_parameter(task):
    run = training(task)
    rows = run.train.take(torch.arange(64), torch.device("cpu"))
    run.model.train()
    noise = torch.randn((len(rows), run.model.architecture.latent), generator=generator())
    drawn = run.model(rows.x, rows.y_target, noise, rows.allowed)
    run.objective.total(run.objective.terms(rows.x, rows.y_target, drawn)).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in run.model.parameters())
    assert (run.model.output.weight.grad.abs().sum(dim=1) > 0).sum() > 8


def test_global_random_state_is_not_touched(task):
    before = torch.random.get_rng_state()
    training(task, epochs=1).run()
    assert torch.equal(before, torch.random.get_rng_state())


def test_few_rows_get_smaller_batches_and_more_epochs():
    plan = Schedule(epochs=20, batch=1024, steps=400, patience=4)
    assert plan.sized(50_000) == plan
    assert Schedule(epochs=20, batch=1024).sized(10) == Schedule(epochs=20, batch=1024)
    small = plan.sized(640)
    assert (small.batch, small.epochs, small.patience) == (80, 50, 10)
    assert plan.sized(10).epochs == 400


# The loss


def test_the_data_itself_costs_nothing_in_the_relative_causal_term(task):
    x = task.encoder.encode(task.train)
    joined = torch.rand((x.shape[1], x.shape[1]), generator=generator()) > 0.5
    expected = view.expected_correlation(task)
    cost = losses.soft_causal(x, joined, ~joined, theta=0.9 * expected, tolerated=expected)
    assert cost.item() == pytest.approx(0, abs=1e-9)
    assert losses.soft_causal(x.flip(1), joined, ~joined, theta=0.9 * expected, tolerated=expected) > 0.01


def test_validity_by_logits_pulls_rows_that_are_far_away_too():
    logits = torch.tensor([[60.0, -60.0], [0.0, 0.6]], requires_grad=True)
    wanted = torch.tensor([1, 1])
    losses.validity(logits, wanted, 0.5).backward()
    assert logits.grad[0].abs().max() < 1e-6
    logits.grad = None
    loss = losses.validity(logits, wanted, 0.5, squashed=False)
    loss.backward()
    assert loss.item() == pytest.approx(120.5 / 2)
    assert logits.grad.tolist() == [[0.5, -0.5], [0.0, 0.0]]


# Proposals


def test_proposals_depend_on_the_row_and_the_seed_alone(task, fitted):
    rows = loans.table(70, 8)
    codes, wanted = task.encoder.codes(rows), np.ones(70, dtype=np.int64)
    whole = Proposer(fitted, task, seed=3).draws(codes, wanted, 16)
    assert whole.shape == (70, 16, 5)
    order = np.random.default_rng(0).permutation(70)
    proposer = Proposer(fitted, task, seed=3)
    parts = [proposer.draws(codes[part], wanted[part], 16) for part in np.array_split(order, [1, 4, 40])]
    assert (np.concatenate(parts) == whole[order]).all()
    assert (Proposer(fitted, task, seed=4).draws(codes, wanted, 16) != whole).any()


def test_more_proposals_begin_with_the_same_ones(task, fitted):
    codes, wanted = task.encoder.codes(loans.table(20, 8)), np.ones(20, dtype=np.int64)
    proposer = Proposer(fitted, task)
    many = proposer.draws(codes, wanted, 33)
    for n in (1, 2, 16):
        assert (proposer.draws(codes, wanted, n) == many[:, :n]).all()


def test_the_first_proposal_is_the_mean_and_the_others_differ(task, fitted):
    rows = loans.table(50, 8)
    codes = task.encoder.codes(rows)
    drawn = Proposer(fitted, task).draws(codes, np.ones(50, dtype=np.int64), 16)
    x, wanted = task.encoder.encode(rows).double(), torch.ones(50, dtype=torch.long)
    allowed = RuleBoxes(task).of(task.schema.natural(rows))
    with torch.no_grad():
        mean = copy.deepcopy(fitted).double()(x, wanted, torch.zeros((50, 4)).double(), allowed).x_cf
    assert (task.encoder.codes(task.encoder.decode(mean)) == drawn[:, 0]).all()
    assert np.mean([len(np.unique(d, axis=0)) for d in drawn]) > 4


def test_every_proposal_is_legal_and_keeps_the_rules(task, fitted):
    rows = loans.table(60, 9)
    codes = task.encoder.codes(rows)
    drawn = Proposer(fitted, task).draws(codes, np.ones(60, dtype=np.int64), 16)
    before = rows.iloc[np.repeat(np.arange(60), 16)]
    after = task.encoder.from_codes(drawn.reshape(-1, 5), before.index)
    assert all(holds(rule, before, after).all() for rule in task.rules)
    assert (after["born"].to_numpy() == before["born"].to_numpy()).all()


def test_a_published_generator_can_propose_too(task):
    model = untrained(task, architecture=Architecture(latent=4))
    codes = task.encoder.codes(loans.table(30, 9))
    drawn = Proposer(model, task).draws(codes, np.ones(30, dtype=np.int64), 8)
    assert (drawn[:, :, 4] == codes[:, None, 4]).all()
    assert len(np.unique(drawn.reshape(-1, 5), axis=0)) > 1


# Learning from the search


def test_surprise_is_small_where_the_outputs_mean_the_answers_and_counts_only_known_ones():
    heads, x = Heads(LAYOUT, 1.0, generator()).double().eval(), encoded()
    outputs = 3 * torch.randn((len(x), heads.width), generator=generator()).double()
    meant = heads(outputs, x)[0]
    other = heads(outputs.flip(0), x)[0]
    firm = outputs * torch.where(torch.arange(heads.width) < heads.features, 10.0, 1.0)
    assert heads.surprise(firm, x, meant) < heads.surprise(firm, x, other) / 4
    half = torch.where(torch.arange(len(x))[:, None] < 32, meant, x)
    torch.testing.assert_close(heads.surprise(firm, x, half), heads.surprise(firm[:32], x[:32], meant[:32]))
    assert heads.surprise(firm, x, x) == 0


def test_a_generator_that_learns_from_the_search_comes_nearer_to_its_answers(task: Task):
    search = Search(task, prefer="sparse")
    rows = view.refused_rows(task, task.train, RuleBoxes(task), search.explain)
    assert rows.answers is not None
    assert (task.predict(task.encoder.decode(rows.answers)) == "yes").all()
    surprise = []
    for weight in (0.0, 10.0):
        run = training(task, epochs=40, learning_rate=1e-2)
        run.train = rows
        run.objective = dataclasses.replace(run.objective, weights=dataclasses.replace(WEIGHTS, imitation=weight))
        run.run()
        noise = torch.zeros((len(rows), DEFAULT.latent))
        drawn = run.model.eval()(rows.x, rows.y_target, noise, rows.allowed, rows.answers)
        surprise.append(drawn.surprise.item())
    assert surprise[1] < surprise[0] / 3


def test_the_default_learns_from_the_search_and_the_published_does_not(task: Task):
    assert FCx().training(task).train.answers is not None
    assert FCx(oracle="model").training(task).train.answers is None
    assert FCx.as_published().training(task).train.answers is None
