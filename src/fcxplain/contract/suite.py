"""`check_explainer`: the whole contract on one task and explainer, like scikit-learn's `check_estimator`."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from ..errors import DataError, one_of, whole
from ..explainer import FCx
from ..explanation import Explanation
from ..task import Task
from ..training_loop import Schedule
from .items import ContractReport, Item, Trial, answer_items, error_text, model_items, rule_items

OnFail = Literal["raise", "report"]
# Long enough for a network that proposes something; its quality does not matter here.
SHORT = Schedule(epochs=3, batch=1024)
# Training rows that are searched for each refused row needed.
LOOKED_AT = 40
# The share of rows to explain that already have the target class.
ACCEPTED = 0.1


def check_explainer(
    task: Task, *, rows: int = 50, seed: int = 0, explainer: Any = None, on_fail: OnFail = "raise"
) -> ContractReport:
    """Test a model, its rules and an explainer against the contract: what must hold for answers to be trusted.

    The model must be deterministic, answer for each row alone, and answer every legal row with proper probabilities;
    the rules must permit something; verified answers must hold when checked again, be the same in any batch, and
    survive saving and loading where the explainer can do that.

    Parameters
    ----------
    task
        The model, its rules and its training rows.
    rows
        How many training rows are used.
    seed
        Seed for drawing the rows.
    explainer
        Anything with `explain(rows)` that gives an `Explanation`. If it can `fit(task)` and is not fitted yet (has no
        `task_`), a copy of it is fitted first. By default a briefly trained `FCx`.
    on_fail
        "raise" or "report".

    Returns
    -------
    ContractReport
        The result of every item; printed, it is a table.

    Raises
    ------
    ContractError
        With every failed item, if `on_fail` is "raise".

    Examples
    --------
    >>> from fcxplain import check_explainer
    >>> print(check_explainer(task, rows=20))  # doctest: +SKIP
    >>> check_explainer(task, explainer=fcx, on_fail="report").passed  # doctest: +SKIP
    """
    faults = [*whole("rows", rows, 1), *whole("seed", seed, 0), *one_of("on_fail", on_fail, get_args(OnFail))]
    if faults:
        raise DataError("check_explainer: invalid arguments", faults)
    subject = FCx(schedule=SHORT, seed=seed) if explainer is None else explainer
    sample = task.train.iloc[_drawn(len(task.train), rows, seed)]
    items = (*model_items(task, sample, seed), *rule_items(task), *_explaining(task, subject, rows, seed))
    name = repr(subject) if isinstance(subject, FCx) else type(subject).__name__
    report = ContractReport(name, str(task), items)
    if on_fail == "raise":
        report.raise_for_failures()
    return report


def _drawn(rows: int, count: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.sort(np.random.default_rng(seed).permutation(rows)[:count])


def _explaining(task: Task, explainer: Any, rows: int, seed: int) -> Iterator[Item]:
    """Fit, explain and test the answers; if one of these fails, the rest cannot run."""
    name = "explainer: rows to explain"
    try:
        asked = _asked(task, rows, seed)
        name = "explainer: fit"
        if getattr(explainer, "task_", None) is None and hasattr(explainer, "fit"):
            # The caller's explainer stays as it is.
            mine = copy.deepcopy(explainer)
            explainer = mine.fit(task) or mine
        name = "explainer: explain"
        trial = _first(task, explainer, asked)
    except Exception as error:
        remedy = "Nothing can be explained before this works; the rest was not tested."
        yield Item(name, False, error_text(error), remedy)
        return
    yield Item(name, True, f"{len(asked):,} rows explained")
    yield from answer_items(trial)


def _asked(task: Task, rows: int, seed: int) -> pd.DataFrame:
    """Training rows to explain: mostly refused ones, and a few that are not."""
    pool = task.train.iloc[_drawn(len(task.train), LOOKED_AT * rows, seed)]
    refused = task.refused(pool.copy(deep=True))
    if not refused.any():
        raise DataError("every training row in the sample already has the target class: there is nothing to explain")
    few = int(np.ceil(ACCEPTED * rows))
    return pd.concat([pool[refused].head(max(1, rows - few)), pool[~refused].head(few)])


def _first(task: Task, explainer: Any, rows: pd.DataFrame) -> Trial:
    start = time.perf_counter()
    answer = explainer.explain(rows.copy(deep=True))
    seconds = time.perf_counter() - start
    if not isinstance(answer, Explanation):
        raise DataError(f"explain returned a {type(answer).__name__}, not an Explanation")
    if len(answer) != len(rows):
        raise DataError(f"explain was given {len(rows):,} rows and returned {len(answer):,}")
    return Trial(task, explainer, rows, answer, seconds)
