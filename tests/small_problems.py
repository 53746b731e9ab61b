"""Tiny problems of every kind of table, with linear models whose answers can be told by hand."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache

import pandas as pd
import torch
from torch import nn

import loans
from fcxplain import Schema, Task
from fcxplain.encoding import TableEncoder
from fcxplain.errors import FcxWarning

CATEGORIES, NUMBERS = ("degree", "job", "born"), ("age", "income")
# What a number's whole range, or a level, adds to the score of "yes".
WEIGHTS: Mapping[str, tuple[float, ...]] = {
    "age": (1.5,),
    "income": (4.0,),
    "degree": (0.0, 1.0, 2.0),
    "job": (0.0, 0.5, 1.5),
    "born": (0.0, 0.2),
}
BIASES = {"mixed": -5.0, "frozen": -5.0, "categories": -2.2, "numbers": -3.0}


def linear(encoder: TableEncoder, bias: float, classes: int = 2) -> nn.Linear:
    """Logits that grow with the weights; a third class is for scores above 2."""
    model = nn.Linear(encoder.width_, classes, dtype=encoder.dtype_)
    row = torch.tensor([w for f in encoder.schema_ for w in WEIGHTS[f.name]], dtype=encoder.dtype_)
    with torch.no_grad():
        model.weight.copy_(torch.stack([row * i for i in range(classes)]))
        model.bias.copy_(torch.tensor([0.0, bias, 2 * bias - 2.0][:classes]))
    return model.requires_grad_(False)


def problem(kind: str) -> tuple[Schema, pd.DataFrame]:
    """Features and training rows."""
    names = {"categories": CATEGORIES, "numbers": NUMBERS}.get(kind, loans.SCHEMA.names)
    return Schema(tuple(f for f in loans.SCHEMA if f.name in names)), loans.table(160)[list(names)]


@cache
def task(kind: str, gradients: bool = True) -> Task:
    """See `new_task`; always the same one."""
    return new_task(kind, gradients)


def new_task(kind: str, gradients: bool = True) -> Task:
    """A task on `mixed`, `categories` or `numbers` columns, `frozen` where a rule holds the job fixed."""
    schema, train = problem(kind)
    rules = {"categories": "degree' >= degree", "numbers": "age' >= age"}.get(kind, loans.RULES)
    rules = rules + "\njob' == job" if kind == "frozen" else rules
    model = linear(TableEncoder().fit(schema, train), BIASES[kind])
    own = Task(train, model, schema=schema, rules=rules, target="yes", classes=("no", "yes"))
    if gradients:
        return own
    classes = ("no", "yes")
    return Task(train, own.classifier.probabilities, schema=schema, rules=rules, target="yes", classes=classes)


@cache
def three_classes() -> Task:
    """Low, middle and high, where the middle is wanted."""
    schema, train = problem("mixed")
    model = linear(TableEncoder().fit(schema, train), -5.0, classes=3)
    return Task(train, model, schema=schema, target="middle", classes=("low", "middle", "high"))


@cache
def fine() -> Task:
    """A grid so fine that rows are encoded in double precision."""
    schema, train = problem("mixed")
    schema = Schema(tuple(f.replace(step=1e-4) if f.name == "income" else f for f in schema))
    encoder = TableEncoder().fit(schema, train)
    assert encoder.dtype_ == torch.float64
    return Task(train, linear(encoder, -5.0), schema=schema, rules=loans.RULES, target="yes", classes=("no", "yes"))


@cache
def hopeless() -> Task:
    """A model that answers "no" to everybody, where "yes" is wanted."""
    schema, train = problem("mixed")
    model = linear(TableEncoder().fit(schema, train), -100.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FcxWarning)
        return Task(train, model, schema=schema, target="yes", classes=("no", "yes"))


def rows(kind: str, count: int = 16) -> pd.DataFrame:
    """Rows to explain, of which some have the class wanted."""
    return loans.table(count, seed=5)[list(problem(kind)[0].names)]
