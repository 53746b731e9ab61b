"""Rules, rows and brute force for proofs: every legal row of a small table is asked, by none of the code under test."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
from hypothesis import assume
from hypothesis import strategies as st

from fcxplain import Schema, Task
from fcxplain.errors import RuleError
from fcxplain.rules import holds
from rule_texts import every_row

BOX_RULES = st.sampled_from(
    ["a' >= a", "a' > a or o' > o", "o' > o => a' > a", "c' == c", "d' in {x, y}", "a' != a", "`b b`' <= `b b`",
     "abs(a' - a) <= 1", "p' == p or c' != c", "d' != d", "`b b`' == `b b`", "a' <= 1", "o' >= mid => a' == a"]
)  # fmt: skip
WIDE_RULES = st.sampled_from(
    ["a' + `b b`' <= 1", "a' + 2 * `b b`' < a + 1", "a' - `b b`' == 0", "abs(a' - 2 * `b b`') <= 0.5", "o' >= p'",
     "a' + `b b`' > 1 or c' == c", "o' + p' == 2", "`b b`' >= 0.5 * a' and a' + `b b`' <= 1.5"]
)  # fmt: skip

rows_of = functools.lru_cache(every_row)


def some_rows(schema: Schema, seed: int, count: int = 6) -> pd.DataFrame:
    """Legal rows, some with a value off the grid."""
    generator = np.random.default_rng(seed)
    table = rows_of(schema)
    rows = table.iloc[generator.integers(len(table), size=count)].reset_index(drop=True)
    off = generator.random(count) < 0.3
    rows["b b"] = np.where(off, 0.3, rows["b b"])
    return rows


def has_counterfactual(task: Task, row: pd.DataFrame, wanted: object, good: np.ndarray) -> bool:
    """Every legal row asked, written without any of the code under test; `good` says which on the grid get the class."""
    table = rows_of(task.schema)
    if (good & legal_for(task, row, table)).any():
        return True
    kept = table.assign(**{"b b": row["b b"].iloc[0]})
    if (kept["b b"].iloc[0] == table["b b"]).any():
        return False
    legal = legal_for(task, row, kept)
    return bool(legal.any()) and bool((task.predict(kept[legal]) == wanted).any())


def misses_narrowly(task: Task, row: pd.DataFrame, by: float = 0.01) -> bool:
    """Whether the best of all rows misses the class 1 by so little (in log-odds) that a proof may be left to rounding."""
    table = rows_of(task.schema)
    p = task.classifier.probabilities(table[legal_for(task, row, table)])
    return bool(len(p)) and bool(-by < np.log(p[:, 1] / p[:, 0]).max() < 0)


def legal_for(task: Task, row: pd.DataFrame, table: pd.DataFrame) -> np.ndarray:
    """Which rows of a table this row may become."""
    before = row.iloc[np.zeros(len(table), dtype=int)].reset_index(drop=True)
    legal = holds(task.rules, before, table)
    for name in task.schema.immutable:
        legal &= (table[name] == row[name].iloc[0]).to_numpy()
    return legal


def truth_of(task: Task, rows: pd.DataFrame, wanted: np.ndarray) -> np.ndarray:
    classes = task.predict(rows_of(task.schema))
    return np.array([has_counterfactual(task, rows.iloc[[i]], w, classes == w) for i, w in enumerate(wanted)])


def a_task(schema: Schema, model, rules, **more) -> Task:
    try:
        return Task(rows_of(schema), model, schema=schema, rules=rules, **more)
    except RuleError:
        assume(False)
        raise


def width_of(schema: Schema) -> int:
    return sum(f.width for f in schema)
