"""Answers of any size that need no method: rows and other rows of a made-up table, with long names if wished."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from fcxplain import Feature, Schema, Task
from fcxplain.errors import FcxWarning
from fcxplain.explanation import Explanation

LONG_NAME, LONG_LEVEL = "a_rather_long_name_of_a_feature_that_goes_on", "a level with a very long description of it"


def feature(j: int, name: str, long: bool) -> Feature:
    """Integers, decimals and categories by turns."""
    if j % 3 == 0:
        return Feature(name, "integer", low=0, high=2_000_000, unit="EUR")
    if j % 3 == 1:
        return Feature(name, "continuous", low=-5, high=5, step=0.001, unit="kilometres")
    levels = tuple(f"{LONG_LEVEL if long else 'l'} {i}" for i in range(3 if j % 2 else 12))
    return Feature(name, "categorical", levels=levels)


def column(of: Feature, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Legal values."""
    if of.is_category:
        return rng.choice(np.array(of.levels), rows)
    return rng.integers(0, 100_000, rows) if of.kind == "integer" else rng.integers(-3000, 3000, rows) / 1000


def made(features: int, answers: int, *, long: bool = True, seed: int = 0) -> Explanation:
    """So many answers, each with some of its features taken from another row; the model counts the first alone."""
    rng = np.random.default_rng(seed)
    names = [f"{LONG_NAME}_{j}" if long and j % 2 else f"x{j}" for j in range(features)]
    schema = Schema(tuple(feature(j, name, long) for j, name in enumerate(names)))
    table = pd.DataFrame({f.name: column(f, answers + 50, rng) for f in schema})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FcxWarning)
        task = Task(table, lambda rows: rows["x0"].to_numpy(dtype=float) / 100_000, schema=schema, target=1)
    rows, other = table.iloc[:answers], table.iloc[50:].reset_index(drop=True)
    after = rows.where(pd.DataFrame(rng.random(rows.shape) < 0.4, columns=names), other)
    return Explanation.of(task, rows, after, np.arange(answers), method="made", wanted=np.full(answers, 1))
