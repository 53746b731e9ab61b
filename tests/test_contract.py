"""`check_explainer`: good models pass, and each way to break the contract is found, named and told how to mend."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from torch import nn

import loans
from fcxplain import FCx, Task
from fcxplain.contract import ContractError, ContractReport, check_explainer
from fcxplain.errors import DataError
from fcxplain.explanation import Explanation
from fcxplain.search import Search
from fcxplain.training_loop import Schedule

pytestmark = pytest.mark.filterwarnings("ignore::fcxplain.errors.FcxWarning")


class Foreign:
    """Somebody else's classifier, taken at its word; how it goes wrong is told by `twist`."""

    classes, threshold, module = ("no", "yes"), None, None

    def __init__(self, twist: Any = None) -> None:
        self.twist = twist

    def probabilities(self, rows: pd.DataFrame) -> np.ndarray:
        p = loans.chance(rows)
        p = np.stack([1 - p, p], axis=1)
        return p if self.twist is None else self.twist(rows, p)

    def predict(self, rows: pd.DataFrame) -> np.ndarray:
        return np.array(self.classes, dtype=object)[self.probabilities(rows).argmax(axis=1)]


def network_task() -> Task:
    """A linear network that likes age, income and degrees."""
    layer = nn.Linear(10, 2)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.weight[1, :5] = torch.tensor([2.0, 4.0, 0.0, 1.0, 2.0])
        layer.bias[1] = -4.0
    return Task(loans.table(120), layer, schema=loans.SCHEMA, rules=loans.RULES, target=1)


def sums(n: int = 120) -> tuple[pd.DataFrame, pd.Series]:
    """Two whole numbers, and a sum of them."""
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 50, (n, 2)), columns=["a", "b"])
    return table, 2 * table["a"] + table["b"]


@pytest.mark.parametrize("model", [LinearRegression(), DecisionTreeRegressor(max_depth=5, random_state=0)])
def test_a_regressor_passes_also_where_outputs_lie_on_the_border_of_the_range(model: Any):
    table, total = sums()
    task = Task(table, model.fit(table, total), target=">= 100")
    assert not failed(check_explainer(task, rows=20, explainer=FCx(generator=False), on_fail="report"))


def test_any_of_several_classes_passes():
    table, total = sums()
    model = DecisionTreeClassifier(max_depth=5, random_state=0).fit(table, np.digitize(total, [40, 80, 110]))
    task = Task(table, model, target=[2, 3])
    assert not failed(check_explainer(task, rows=20, explainer=FCx(generator=False), on_fail="report"))


def task_with(twist: Any) -> Task:
    """The task is made with a good model, which then goes wrong."""
    model = Foreign()
    task = Task(loans.table(120), model, schema=loans.SCHEMA, rules=loans.RULES, target="yes")
    model.twist = twist
    return task


def picky_task() -> Task:
    """A model that knows nobody older than its training rows."""

    def picky(rows: pd.DataFrame) -> np.ndarray:
        if (rows["age"] > 69).any():
            raise ValueError("nobody is that old")
        return loans.chance(rows)

    rules = f"{loans.RULES}\nage' <= 69"
    return Task(loans.table(120), picky, schema=loans.SCHEMA, rules=rules, target="yes", classes=("no", "yes"))


@cache
def quick_task() -> Task:
    return network_task()


def quick(task: Task) -> Search:
    return Search(task, prefer="sparse", budget=150)


def report_on(task: Task, explainer: Any = None, **more: Any) -> ContractReport:
    return check_explainer(task, rows=8, explainer=explainer or quick(task), on_fail="report", **more)


def failed(report: ContractReport) -> set[str]:
    return {item.name for item in report.failures}


def test_the_default_explainer_passes_on_a_good_model():
    report = check_explainer(network_task(), rows=8)
    assert report.passed
    assert not report.failures
    names = [item.name for item in report.items]
    assert len(set(names)) == len(names)
    assert report["explainer: save and load"].passed
    assert {item.name for item in report.items if item.passed is None} == {
        "model: class wanted",
        "rules: rows that break them",
        "answers: cost",
    }


def test_an_explainer_that_is_fitted_already_is_taken_as_it_is():
    task = network_task()
    fcx = FCx(schedule=Schedule(epochs=1), seed=3).fit(task)
    before = fcx.model_
    assert report_on(task, fcx).passed
    assert fcx.model_ is before


def test_an_explainer_that_is_not_fitted_stays_so():
    fcx = FCx(schedule=Schedule(epochs=1))
    assert report_on(network_task(), fcx).passed
    assert not hasattr(fcx, "model_")


def test_whatever_explains_will_do_and_what_it_cannot_do_is_not_tried():
    report = report_on(loans.task(rows=120))
    assert report.passed
    assert report["explainer: save and load"].passed is None


def once_more(rows: pd.DataFrame, p: np.ndarray, state: list[int]) -> np.ndarray:
    state.append(1)
    shift = 0.2 * (len(state) % 2)
    return p * (1 - shift) + shift * np.array([0.0, 1.0])


def spoilt(rows: pd.DataFrame, p: np.ndarray) -> np.ndarray:
    rows["age"] = 0
    return p


TWISTS = {
    "model: probabilities": lambda rows, p: p * 0.5,
    "model: same answer twice": lambda rows, p, state=[]: once_more(rows, p, state),
    "model: order of rows": lambda rows, p: p[::-1] if len(p) > 1 else p,
    "model: rows beside a row": lambda rows, p: 0.5 * p + 0.5 * p.mean(axis=0),
}


@pytest.mark.parametrize("name", TWISTS)
def test_each_fault_of_a_model_is_found_and_named(name):
    report = report_on(task_with(TWISTS[name]))
    assert name in failed(report)
    assert report[name].remedy
    with pytest.raises(ContractError) as error:
        report.raise_for_failures()
    assert {fault.place for fault in error.value.faults} == failed(report)


def test_a_model_that_spoils_its_table_gets_a_copy_and_does_no_harm():
    assert report_on(task_with(spoilt))["model: its table"].passed


def test_a_model_that_fails_on_some_legal_rows_is_told_which():
    report = report_on(picky_task())
    assert failed(report) == {"model: legal rows"}
    assert "nobody is that old" in report["model: legal rows"].detail
    assert "'age': 80" in report["model: legal rows"].detail


def test_a_model_that_is_wholly_broken_is_a_report_too():
    def raising(rows: pd.DataFrame, p: np.ndarray) -> np.ndarray:
        raise RuntimeError("out of order")

    report = report_on(task_with(raising))
    assert {"model: probabilities", "explainer: rows to explain"} <= failed(report)
    assert "out of order" in str(report)
    assert not any(item.name.startswith("answers") for item in report.items)


def test_rules_in_contradiction_are_told_in_words():
    task, up, down = (loans.task(rules, rows=120) for rules in (loans.RULES, "age' > age", "age' < age"))
    loose = task.relaxed(rules=[*up.rules, *down.rules])
    item = report_on(loose)["rules: can be kept"]
    assert item.passed is False
    assert "age" in item.detail


def test_training_rows_that_break_a_rule_are_counted_without_failing():
    task = loans.task("age' >= 30", rows=120)
    report = report_on(task)
    young = int((task.train["age"] < 30).sum())
    assert f"{young} of 120 training rows" in report["rules: rows that break them"].detail
    assert report.passed


class Twisted:
    """An explainer whose answers are turned by a function of the rows and the honest answer."""

    def __init__(self, task: Task, twist: Any) -> None:
        self.search, self.twist = quick(task), twist

    def explain(self, rows: pd.DataFrame) -> Explanation:
        return self.twist(rows, self.search.explain(rows))


def lying(rows: pd.DataFrame, answer: Explanation) -> Explanation:
    return replace(answer, answers=answer.before.reset_index(drop=True))


def emigrated(rows: pd.DataFrame, answer: Explanation) -> Explanation:
    return replace(answer, answers=answer.answers.assign(born="there"))


def growing(rows: pd.DataFrame, answer: Explanation) -> Explanation:
    older = np.minimum(answer.answers["age"] + len(rows) % 2, 80)
    return replace(answer, answers=answer.answers.assign(age=older))


def careless(rows: pd.DataFrame, answer: Explanation) -> Explanation:
    rows["age"] = 18
    return answer


def unlabelled(rows: pd.DataFrame, answer: Explanation) -> Explanation:
    return replace(answer, rows=answer.rows.reset_index(drop=True))


def rolling(rows: pd.DataFrame, answer: Explanation) -> Explanation:
    torch.rand(1)
    np.random.rand()  # noqa: NPY002
    return answer


def boasting(rows: pd.DataFrame, answer: Explanation) -> Explanation:
    return replace(answer, row_status=np.full(len(rows), "verified"))


def off_grid(rows: pd.DataFrame, answer: Explanation) -> Explanation:
    return replace(answer, answers=answer.answers.assign(income=answer.answers["income"] + 0.25))


LIES = {
    "answers: verified ones hold": (lying, off_grid),
    "answers: frozen features": (emigrated,),
    "answers: the same in any batch": (growing,),
    "answers: rows as they were": (careless, unlabelled),
    "answers: random state": (rolling,),
    "answers: a status for every row": (boasting,),
    "answers: rows that need none": (boasting,),
}


@pytest.mark.parametrize(("name", "twist"), [(name, twist) for name, twists in LIES.items() for twist in twists])
def test_each_fault_of_an_explainer_is_found_and_named(name, twist):
    task = quick_task()
    report = report_on(task, Twisted(task, twist))
    assert name in failed(report)
    assert report[name].remedy


def test_what_changes_from_one_time_to_the_next_is_found():
    task, seen = quick_task(), []

    def older(rows: pd.DataFrame, answer: Explanation) -> Explanation:
        seen.append(1)
        return replace(answer, answers=answer.answers.assign(age=np.minimum(answer.answers["age"] + len(seen), 80)))

    assert "answers: the same again" in failed(report_on(task, Twisted(task, older)))


def test_an_explainer_that_returns_something_else_is_told():
    task = quick_task()
    report = report_on(task, Twisted(task, lambda rows, answer: answer.frame))
    assert failed(report) == {"explainer: explain"}
    assert "DataFrame" in report["explainer: explain"].detail


def test_failures_are_raised_unless_a_report_is_asked_for():
    task = picky_task()
    with pytest.raises(ContractError, match="nobody is that old"):
        check_explainer(task, rows=8, explainer=quick(task))


def test_the_report_reads_as_a_table_and_as_data():
    report = report_on(picky_task())
    lines = str(report).splitlines()
    assert sum("FAILED  model: legal rows" in line for line in lines) == 1
    assert lines[-1].endswith("1 FAILED")
    data = report.to_dict()
    assert data["passed"] is False
    assert len(data["items"]) == len(report.items)
    with pytest.raises(KeyError):
        report["no such item"]


def test_settings_that_make_no_sense_are_refused_all_at_once():
    with pytest.raises(DataError) as error:
        check_explainer(loans.task(rows=50), rows=0, on_fail="shout")
    assert "rows" in str(error.value)
    assert "shout" in str(error.value)
