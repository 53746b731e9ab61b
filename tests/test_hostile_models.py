"""Models that raise, lie, waver, dawdle or vandalise: a clear error or a status per row, and nothing unverified."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import loans
from fcxplain import Explanation, FCx, Task
from fcxplain.errors import ClassifierError
from fcxplain.search import Budget, Search

pytestmark = pytest.mark.filterwarnings("ignore::fcxplain.errors.FcxWarning")

RANK = {"none": 0, "school": 1, "college": 2}
Trouble = Callable[["Hostile", pd.DataFrame, np.ndarray], Any]


class Hostile:
    """The loans' model, good until `trouble` begins; remembers its calls and its last word on every row."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble, self.begun, self.calls = trouble, False, 0
        self.last: dict[tuple[Any, ...], float] = {}

    def __call__(self, rows: pd.DataFrame) -> Any:
        p, lines = loans.chance(rows), list(rows.itertuples(index=False, name=None))
        if not self.begun:
            return p
        self.calls += 1
        said = self.trouble(self, rows, p)
        if isinstance(said, np.ndarray) and said.shape == p.shape:
            self.last |= dict(zip(lines, said.tolist(), strict=True))
        return said


def begin(trouble: Trouble) -> tuple[Hostile, Task]:
    """A task made while its model was still good."""
    model = Hostile(trouble)
    task = Task(
        loans.table(120), model, schema=loans.SCHEMA, rules=loans.RULES, target="yes", classes=("no", "yes"), seed=0
    )
    model.begun = True
    return model, task


def search(task: Task, **more: Any) -> Search:
    return Search(task, prefer="sparse", **more)


def refused(count: int) -> pd.DataFrame:
    rows = loans.table(4 * count, seed=5)
    return rows[loans.chance(rows) < 0.5].head(count)


def assert_honest(answer: Explanation, model: Hostile | None = None) -> None:
    """What is handed out is legal, keeps the rules, and had the class wanted when the model was last asked about it."""
    now, then = answer.before.reset_index(drop=True), answer.answers
    degrees = [column.map(RANK) for column in (now["degree"], then["degree"])]
    assert (then["age"] >= now["age"]).all()
    assert (degrees[1] >= degrees[0]).all()
    assert ((degrees[1] == degrees[0]) | (then["age"] > now["age"])).all()
    assert (then["born"] == now["born"]).all()
    assert then["income"].between(0, 9000).all()
    assert answer.checks.passed.all()
    assert sorted(answer.place.tolist()) == np.flatnonzero(answer.row_status == "verified").tolist()
    if model is not None:
        assert all(model.last[line] >= 0.5 for line in then.itertuples(index=False, name=None))


def error_or_answer(task: Task, rows: pd.DataFrame, **more: Any) -> ClassifierError | Explanation:
    try:
        return search(task, **more).explain(rows)
    except ClassifierError as error:
        return error


def raising_where(column: str, values: set[Any]) -> Trouble:
    def trouble(model: Hostile, rows: pd.DataFrame, p: np.ndarray) -> np.ndarray:
        if rows[column].isin(values).any():
            raise RuntimeError("not in my books")
        return p

    return trouble


def after(calls: int, then: Callable[[pd.DataFrame, np.ndarray], Any]) -> Trouble:
    return lambda model, rows, p: then(rows, p) if model.calls > calls else p


def raised(rows: pd.DataFrame, p: np.ndarray) -> np.ndarray:
    raise RuntimeError("gone for good")


def test_a_row_that_the_model_cannot_read_costs_no_other_row_its_answer():
    """Nobody becomes a smith, so that only smiths meet the model's fault."""
    model, task = begin(raising_where("job", {"smith"}))
    task = task.relaxed(rules=[*task.rules, *loans.task("job' == job", rows=50).rules])
    rows = refused(12)
    answer = search(task).explain(rows)
    smith = (rows["job"] == "smith").to_numpy()
    assert smith.any()
    assert answer.status.isin(["verified"]).tolist() == (~smith).tolist()
    assert set(answer.status[smith]) <= {"unreadable"}
    assert answer.why_not[smith].str.contains("not in my books").all()
    assert_honest(answer, model)


def test_values_that_the_model_never_saw_are_an_error_in_its_own_words_or_left_out():
    model, task = begin(raising_where("age", set(range(70, 81))))
    found = error_or_answer(task, refused(8))
    if isinstance(found, ClassifierError):
        assert "not in my books" in str(found)
    else:
        assert (found.answers["age"] < 70).all()
        assert_honest(found, model)


def test_rows_finished_before_the_model_broke_down_are_kept():
    rows = refused(400)
    whole = search(begin(after(10**9, raised))[1], budget=20).explain(rows)
    model, task = begin(after(15, raised))
    answer = search(task, budget=20).explain(rows)
    kept = (answer.status == "verified").to_numpy()
    assert 0 < kept.sum() < len(rows)
    assert set(answer.status[~kept]) == {"not_found"}
    assert "gone for good" in " ".join(answer.notes)
    assert_honest(answer, model)
    same = whole.answers[np.isin(whole.place, answer.place)].reset_index(drop=True)
    pd.testing.assert_frame_equal(answer.answers, same)


BROKEN = {
    "gone for good": raised,
    "NaN": lambda rows, p: np.full(len(p), np.nan),
    "sum to 1": lambda rows, p: np.stack([p, p + 0.3], axis=1) / 2,
    "outside 0 to 1": lambda rows, p: 10 * p + 2,
    "shape": lambda rows, p: p[1:],
    "3 columns": lambda rows, p: np.stack([p, p, p], axis=1) / 3,
    "not an array": lambda rows, p: None,
    "not a number": lambda rows, p: np.full(len(p), "yes"),
    "MemoryError": lambda rows, p: (_ for _ in ()).throw(MemoryError()),
}


@pytest.mark.parametrize("words", BROKEN)
@pytest.mark.parametrize("calls", [0, 3])
def test_a_model_that_breaks_down_before_any_answer_is_an_error_that_says_how(words, calls):
    _, task = begin(after(calls, BROKEN[words]))
    with pytest.raises(ClassifierError, match=words):
        search(task).explain(refused(6))


@pytest.mark.parametrize("words", ["gone for good", "NaN", "shape"])
def test_a_model_that_breaks_down_in_training_is_an_error_that_says_how(words):
    _, task = begin(after(0, BROKEN[words]))
    with pytest.raises(ClassifierError, match=words):
        FCx().fit(task)


def flipping(model: Hostile, rows: pd.DataFrame, p: np.ndarray) -> np.ndarray:
    return p if model.calls % 2 else 1 - p


def dice() -> Trouble:
    rng = np.random.default_rng(0)
    return lambda model, rows, p: rng.random(len(p))


def trembling() -> Trouble:
    rng = np.random.default_rng(0)
    return lambda model, rows, p: np.clip(p + rng.normal(0, 0.05, len(p)), 0, 1)


def turning_against() -> Trouble:
    """The class wanted is given once for each row, and never again."""

    def trouble(model: Hostile, rows: pd.DataFrame, p: np.ndarray) -> np.ndarray:
        seen = [line in model.last for line in rows.itertuples(index=False, name=None)]
        return np.where(seen, 0.1, p)

    return trouble


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("trouble", [lambda: flipping, dice, trembling, turning_against])
def test_a_model_that_wavers_is_held_to_its_last_word(trouble, k):
    model, task = begin(trouble())
    answer = search(task).explain(refused(10), k)
    assert sum(answer.counts.values()) == 10
    assert set(answer.counts) <= {"verified", "not_found", "timed_out", "already"}
    assert set(answer.place) == set(np.flatnonzero(answer.row_status == "verified"))
    assert all(model.last[line] >= 0.5 for line in answer.answers.itertuples(index=False, name=None))


def test_a_model_that_takes_back_every_yes_leaves_nothing_to_hand_out():
    _, task = begin(turning_against())
    answer = search(task).explain(refused(10))
    assert not len(answer.answers)
    assert "changed its answer" in " ".join(answer.notes)


def test_what_is_best_effort_for_a_wavering_model_is_marked_as_such():
    _, task = begin(turning_against())
    answer = search(task).explain(refused(10), best_effort=True)
    assert set(answer.counts) <= {"best_effort", "not_found"}
    assert not any(c.passed for c in answer.certificates)


def dawdling(model: Hostile, rows: pd.DataFrame, p: np.ndarray) -> np.ndarray:
    time.sleep(0.05)
    return p


def test_a_model_that_dawdles_is_asked_no_more_once_the_time_is_up():
    model, task = begin(dawdling)
    answer = search(task, budget=Budget(seconds=1e-9)).explain(refused(10))
    assert answer.counts == {"timed_out": 10}
    assert model.calls <= 2
    assert_honest(answer, model)


def test_time_that_is_up_half_way_leaves_what_was_verified_till_then():
    model, task = begin(lambda m, rows, p: dawdling(m, rows, p) if m.calls > 2 else p)
    answer = search(task, budget=Budget(seconds=0.02)).explain(refused(10))
    assert set(answer.counts) <= {"verified", "timed_out"}
    assert_honest(answer, model)


def vandalising(model: Hostile, rows: pd.DataFrame, p: np.ndarray) -> np.ndarray:
    rows["age"] = 0
    del rows["job"]
    rows.index = range(5, 5 + len(rows))
    return p


def test_what_a_model_does_to_its_table_changes_nothing():
    rows = refused(8)
    before = rows.copy(deep=True)
    usual = search(begin(after(10**9, raised))[1]).explain(rows)
    answer = search(begin(vandalising)[1]).explain(rows)
    pd.testing.assert_frame_equal(answer.answers, usual.answers)
    pd.testing.assert_frame_equal(rows, before)
    assert_honest(answer)


def test_a_stop_from_the_keyboard_is_not_swallowed():
    def stopped(rows: pd.DataFrame, p: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    _, task = begin(after(2, stopped))
    with pytest.raises(KeyboardInterrupt):
        search(task).explain(refused(4))


def test_the_model_recovers_for_the_next_question():
    model, task = begin(after(0, raised))
    with pytest.raises(ClassifierError):
        search(task).explain(refused(4))
    model.begun = False
    answer = search(task).explain(refused(4))
    assert answer.counts == {"verified": 4}
