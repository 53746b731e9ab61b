"""A recording of answers, to hold a change against that must not change any: to the last digit.

    python recording.py write FILE.json [--only name,name] [--jobs N]
    python recording.py compare FILE.json [--only name,name] [--jobs N]

It speaks to whichever fcxplain is on PYTHONPATH through its public names alone. `--only` takes names or patterns such as
`adult-*`. FCXPLAIN_DATA names the folder of the real tables; without it, tasks on those that do not travel with the
package are left out. Floats are kept by their `repr`, which is exact; dtypes, seconds, paths and versions are not kept.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

# Sums are made in the same order whatever the machine is: before numpy is loaded, also in processes that are spawned.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import fnmatch
import hashlib
import inspect
import itertools
import json
import multiprocessing
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

import fcxplain
from fcxplain import (
    METHODS,
    METRICS,
    FCx,
    Feature,
    Schema,
    Task,
    evaluate,
    load_dataset,
    read_answers,
    train_classifier,
)
from fcxplain.training_loop import Schedule

# What is called otherwise in other versions, and is the same.
RENAMED = {"density": "lof"}
# How many differences of a task are shown.
SHOWN = 5
ABSENT = "(absent)"
OUTSIDE = ("law", "census", "folktables")

# Tables ------------------------------------------------------------------------------------------------------------

LOANS = (
    Feature("age", "integer", low=18, high=80, unit="years"),
    Feature("income", "continuous", low=0, high=9000, step=0.5, unit="EUR"),
    Feature("degree", "ordinal", levels=("none", "school", "college")),
    Feature("job", "categorical", levels=("clerk", "cook", "smith")),
    Feature("born", "categorical", levels=("here", "there"), mutable=False),
)
FINE = tuple(f if f.name != "income" else Feature("income", "continuous", low=0, high=9000, step=0.0001) for f in LOANS)
SAVINGS = (
    Feature("stocks", "integer", low=0, high=100, step=10),
    Feature("bonds", "integer", low=0, high=100, step=10),
    Feature("cash", "integer", low=0, high=100, step=10),
    Feature("monthly pay", "continuous", low=-1, high=1, step=0.25),
    Feature("grade", "ordinal", levels=("lo", "mid", "also-mid", "hi"), ranks=(0, 1, 1, 2)),
    Feature("home", "categorical", levels=("north", "south", "the west")),
    Feature("work", "categorical", levels=("south", "north", "the west")),
    Feature("status", "categorical", levels=(1, 2)),
)
MADE = {"loans": LOANS, "counted": LOANS, "fine": FINE, "savings": SAVINGS}
REAL = {"adult": 1_900, "adult-authors": 1_900, "law": 6_000, "census": 4_000, "folktables": 1_900}

# What a number's whole range, or a level, adds to the score.
WEIGHTS: Mapping[str, tuple[float, ...]] = {
    "age": (1.5,),
    "income": (4.0,),
    "degree": (0.0, 1.0, 2.0),
    "job": (0.0, 0.5, 1.5),
    "born": (0.0, 0.2),
    "stocks": (3.0,),
    "bonds": (1.0,),
    "cash": (-1.0,),
    "monthly pay": (2.0,),
    "grade": (0.0, 0.4, 0.6, 1.0),
    "home": (0.0, 0.5, -0.5),
    "work": (0.3, 0.0, 0.1),
    "status": (0.0, 0.7),
}
# Scores from which on the next class is meant.
LIMITS = {"loans": (4.5,), "counted": (4.5,), "fine": (4.5,), "savings": (2.6, 3.6)}
# The same for networks, to which a number's range is that of the training rows.
NETWORK_LIMITS = {"loans": (6.2,), "fine": (6.2,), "savings": (2.8, 4.2)}
CLASSES: Mapping[str, tuple[Any, ...]] = {
    "loans": ("no", "yes"),
    "counted": (0, 1),
    "fine": ("no", "yes"),
    "savings": (0, 1, 2),
}

# Rules -------------------------------------------------------------------------------------------------------------

RULES = {
    "none": "",
    "loans": "age' >= age\ndegree' > degree => age' > age\ndegree' >= degree",
    "frozen": "age' >= age\ndegree' >= degree\njob' == job",
    "unary": "18 <= age' <= 70\nincome' <= 1.2 * income + 500\nage' >= age",
    "sums": "income' + 50 * age' <= 6500\nincome' <= 100 * age'\nage' >= age",
    "abs": "abs(income' - income) <= 1500\nabs(age' - age) + abs(income' - income) / 100 <= 20",
    "ordinals": "degree' <= degree + 1\ndegree' >= degree\ndegree' == college => job' != cook",
    "or": "job' == job or income' > income\nnot (age' < 30 and income' > 4000)\nage' >= age",
    "levels": "job' in {clerk, cook}\nborn == there => job' not in {cook}\njob' == clerk => degree' != none",
    "equal": "age' == age + 2 or income' == income\nincome' != 3000\nage' >= age",
    "then": "job' != job => age' >= age + 1\njob' == smith => income' >= 500 and degree' >= school\n"
    "age >= 60 => age' == age",
    "tight": "age <= age' <= age + 3\nincome' <= income + 400\ndegree' == degree",
    "fixed": "age' == age\nincome' <= income\ndegree' <= degree + 1",
    "shares": "stocks' + bonds' + cash' == 100\nabs(stocks' - stocks) <= 30",
    "places": "home' == work' or `monthly pay`' >= 0.25\nhome' == home or work' == work\ngrade' <= grade + 1\n"
    "status' == 2 => home' != \"the west\"",
    "contrary": "age' > age\nage' <= age\nincome' >= 0",
    "misspelt": "agee' >= age\nincome' >= 'x",
}
HOURS = "age <= age' <= age + 2\nhours_per_week' <= 40 or hours_per_week' <= hours_per_week\noccupation' == occupation"

# Problems: a table, a model and rules, and what is fitted to them ----------------------------------------------------

# `model` is one of those that `model` makes; `rules` are one of `RULES`, one of the data set's own, or text. `fit` is one
# of the ways of `fitted_explainer`, or a method of `METHODS` with its settings.
PROBLEMS: dict[str, dict[str, Any]] = {
    "adult-paper": {"table": "adult", "model": "paper", "rules": "binary", "target": 1},
    "adult-paper-whole": {"table": "adult", "model": "paper", "rules": "unary", "target": 1, "fit": "whole"},
    "adult-paper-single": {"table": "adult", "model": "paper", "rules": "binary", "target": 1, "fit": "published"},
    "adult-paper-drawn": {"table": "adult", "model": "paper", "rules": "unary", "target": 1, "fit": "no search"},
    "adult-mlp": {"table": "adult", "model": "mlp", "rules": "binary", "target": 1},
    "adult-logistic": {"table": "adult", "model": "logistic", "rules": "unary", "target": None},
    "adult-boosting": {"table": "adult", "model": "boosting", "rules": "binary", "target": 1},
    "adult-forest": {"table": "adult", "model": "forest", "rules": HOURS, "target": 1},
    "authors-paper": {"table": "adult-authors", "model": "paper", "rules": "binary", "target": 1},
    "authors-mlp": {"table": "adult-authors", "model": "mlp", "rules": "binary", "target": 1},
    "authors-boosting": {"table": "adult-authors", "model": "boosting", "rules": "binary", "target": 1},
    "law-paper": {"table": "law", "model": "paper", "rules": "binary", "target": 1, "threshold": 0.97},
    "law-mlp": {"table": "law", "model": "mlp", "rules": "unary", "target": 1, "threshold": 0.9},
    "law-logistic": {"table": "law", "model": "logistic", "rules": "binary", "target": 1, "threshold": 0.95},
    "law-boosting": {"table": "law", "model": "boosting", "rules": "unary", "target": 1, "threshold": 0.9},
    "census-paper": {"table": "census", "model": "paper", "rules": "binary", "target": 1},
    "census-mlp": {"table": "census", "model": "mlp", "rules": "unary", "target": 1, "threshold": 0.15},
    "census-mlp-half": {"table": "census", "model": "mlp", "rules": "unary", "target": 1},
    "census-mlp-hopeless": {"table": "census", "model": "mlp", "rules": "unary", "target": 1, "threshold": 0.999},
    "census-boosting": {"table": "census", "model": "boosting", "rules": "binary", "target": 1},
    "folktables-paper": {"table": "folktables", "model": "paper", "rules": "unary", "target": 1},
    "folktables-mlp": {"table": "folktables", "model": "mlp", "rules": "binary", "target": 1, "threshold": 0.6},
    "folktables-logistic": {"table": "folktables", "model": "logistic", "rules": "binary", "target": 1},
    "loans-torch": {"table": "loans", "model": "torch", "rules": "loans", "target": "yes"},
    "loans-linear": {"table": "loans", "model": "linear", "rules": "frozen", "target": "yes"},
    "loans-tight": {"table": "loans", "model": "torch", "rules": "tight", "target": "yes"},
    "loans-fixed": {"table": "loans", "model": "linear", "rules": "fixed", "target": "yes"},
    "loans-unary": {"table": "loans", "model": "mlp", "rules": "unary", "target": "yes"},
    "loans-sums": {"table": "loans", "model": "torch", "rules": "sums", "target": "yes"},
    "loans-abs": {"table": "loans", "model": "torch", "rules": "abs", "target": "yes"},
    "loans-ordinals": {"table": "loans", "model": "linear", "rules": "ordinals", "target": "yes"},
    "loans-or": {"table": "loans", "model": "torch", "rules": "or", "target": None},
    "loans-levels": {"table": "loans", "model": "tree", "rules": "levels", "target": "yes"},
    "loans-equal": {"table": "loans", "model": "torch", "rules": "equal", "target": "yes"},
    "loans-then": {"table": "loans", "model": "linear", "rules": "then", "target": "yes"},
    "loans-pipeline": {"table": "loans", "model": "logistic pipeline", "rules": "or", "target": "yes"},
    "loans-mlpclassifier": {"table": "loans", "model": "mlp pipeline", "rules": "loans", "target": "yes"},
    "loans-forest": {"table": "loans", "model": "forest", "rules": "tight", "target": "yes"},
    "loans-gradient": {"table": "loans", "model": "gradient", "rules": "loans", "target": "yes", "threshold": 0.7},
    "loans-histogram": {"table": "loans", "model": "histogram", "rules": "fixed", "target": "yes"},
    "loans-xgboost": {"table": "counted", "model": "xgboost", "rules": "tight", "target": 1},
    "loans-lightgbm": {"table": "loans", "model": "lightgbm", "rules": "unary", "target": "yes"},
    "loans-neighbours": {"table": "loans", "model": "neighbours", "rules": "ordinals", "target": "yes"},
    "loans-vectors": {"table": "loans", "model": "vectors", "rules": "loans", "target": "no"},
    "loans-callable": {"table": "loans", "model": "callable", "rules": "sums", "target": "yes", "threshold": 0.6},
    "loans-callable-tight": {"table": "loans", "model": "callable", "rules": "tight", "target": "yes"},
    "fine-torch": {"table": "fine", "model": "torch", "rules": "loans", "target": "yes"},
    "savings-torch": {"table": "savings", "model": "torch", "rules": "places", "target": 1},
    "savings-shares": {"table": "savings", "model": "linear", "rules": "shares", "target": 2},
    "savings-forest": {"table": "savings", "model": "forest", "rules": "places", "target": 2},
    "savings-xgboost": {"table": "savings", "model": "xgboost", "rules": "places", "target": 1},
    "savings-callable": {"table": "savings", "model": "callable", "rules": "none", "target": 0},
    "contrary": {"table": "loans", "model": "callable", "rules": "contrary", "target": "yes"},
    "misspelt": {"table": "loans", "model": "callable", "rules": "misspelt", "target": "maybe"},
    "dice": {"table": "adult", "model": "paper", "rules": "unary", "target": 1, "fit": ("dice-random", {})},
    "face": {"table": "adult", "model": "boosting", "rules": "binary", "target": 1, "fit": ("face", {})},
    "cem": {"table": "loans", "model": "torch", "rules": "loans", "target": "yes", "fit": ("cem", {"steps": 40})},
    "vcnet": {"table": "loans", "model": "torch", "rules": "loans", "target": "yes", "fit": ("vcnet", {"steps": 200})},
    "revise": {
        "table": "loans",
        "model": "linear",
        "rules": "loans",
        "target": "yes",
        "fit": ("revise", {"steps": 60}),
    },
    "ceils": {"table": "loans", "model": "linear", "rules": "loans", "target": "yes", "fit": ("ceils", {"steps": 60})},
    "mahajan": {
        "table": "adult",
        "model": "mlp",
        "rules": "unary",
        "target": 1,
        "fit": ("mahajan-unary", {"schedule": Schedule(epochs=3, weight_decay=1e-2)}),
    },
}

# Tasks: rows of a problem and what is asked of them ------------------------------------------------------------------

# `rows` is how many, or settings of `rows_of`; `ask` goes to `explain`; `overrides` are by the rows' positions. `keep`
# has more to be recorded: certificates as text, JSON, the page, figures. `by` is one of `WAYS` to ask.
OFF_GRID = {
    0: {"income": 1234.25},
    1: {"income": 2000.3},
    2: {"income": 999.9},
    5: {"income": 0.2},
    7: {"income": 8999.7},
}
OFF_STEPS = {0: {"stocks": 15.0, "monthly pay": 0.1}, 1: {"bonds": 33.0}, 3: {"monthly pay": -0.99, "cash": 7.0}}
OWN_ADULT: dict[int, dict[str, Any]] = {
    0: {"freeze": ["education", "occupation"], "hours_per_week": "<= 45"},
    1: {"rules": "age' <= age + 1; marital_status' == marital_status"},
    2: {"education": ">= Bachelors", "difficulty": {"age": 3}},
    3: {"occupation": "{Sales, White-Collar}", "difficulty": "hours_per_week=5, age=0.5"},
    4: {"target": 0},
    5: {"freeze": "age, education, marital_status, occupation, workclass", "hours_per_week": (10, 40)},
    6: {"age": "..20", "rules": "age' >= age + 4"},
}
OWN_LOANS: dict[int, dict[str, Any]] = {
    0: {"freeze": ["income"], "target": "yes"},
    1: {"income": (500, 2500), "job": {"cook", "smith"}},
    2: {"rules": ["age' == age", "income' <= 1.1 * income"], "difficulty": {"degree": 0.1}},
    3: {"target": "no"},
    6: {"age": "{30, 40, 50}", "freeze": "degree"},
}
ALL = frozenset({"text", "json"})
TASKS: dict[str, dict[str, Any]] = {
    # The real tables, with each kind of model.
    "adult-paper-balanced": {"on": "adult-paper", "rows": 16, "keep": ALL | {"figures"}},
    "adult-paper-sparse": {"on": "adult-paper", "rows": 14, "ask": {"prefer": "sparse"}},
    "adult-paper-plausible-k3": {"on": "adult-paper", "rows": 10, "ask": {"prefer": "plausible", "k": 3}},
    "adult-paper-fewest-k5": {"on": "adult-paper", "rows": 8, "ask": {"prefer": "fewest", "k": 5}},
    "adult-paper-overrides": {"on": "adult-paper", "rows": 10, "overrides": OWN_ADULT, "ask": {"why_not": True}},
    "adult-paper-overrides-table": {"on": "adult-paper", "rows": 10, "overrides": OWN_ADULT, "as_table": True},
    "adult-paper-cost": {
        "on": "adult-paper",
        "rows": 10,
        "ask": {"cost": {"change": 3.0, "category": 2.0, "times": 0}},
    },
    "adult-paper-difficulty": {"on": "adult-paper", "rows": 10, "ask": {"difficulty": {"age": 4, "education": 0.2}}},
    "adult-paper-one-draw": {"on": "adult-paper", "rows": 10, "ask": {"draws": 1}},
    "adult-paper-64-draws": {"on": "adult-paper", "rows": 8, "ask": {"draws": 64, "k": 2}},
    "adult-paper-page": {"on": "adult-paper", "rows": 12, "ask": {"k": 2}, "keep": {"page"}},
    "adult-paper-streamed": {"on": "adult-paper", "rows": 25, "by": "stream", "ask": {"k": 2}},
    "adult-paper-whole": {"on": "adult-paper-whole", "rows": 12, "keep": {"figures"}},
    "adult-paper-single-draw": {"on": "adult-paper-single", "rows": 20, "keep": {"figures", "text"}},
    "adult-paper-single-draw-k3": {"on": "adult-paper-single", "rows": 10, "ask": {"k": 3}},
    "adult-paper-drawn": {"on": "adult-paper-drawn", "rows": 12},
    "adult-mlp-balanced": {"on": "adult-mlp", "rows": 16},
    "adult-mlp-sparse-k3": {"on": "adult-mlp", "rows": 10, "ask": {"prefer": "sparse", "k": 3}},
    "adult-mlp-loaded": {"on": "adult-mlp", "rows": 10, "by": "load"},
    "adult-logistic-other-class": {"on": "adult-logistic", "rows": 12, "ask": {"budget": 300}},
    "adult-boosting-balanced": {"on": "adult-boosting", "rows": 10},
    "adult-boosting-budget-60": {"on": "adult-boosting", "rows": 10, "ask": {"budget": 60}},
    "adult-boosting-sparse-k3": {"on": "adult-boosting", "rows": 8, "ask": {"prefer": "sparse", "k": 3, "budget": 400}},
    "adult-forest-hours": {"on": "adult-forest", "rows": 10, "ask": {"why_not": True, "budget": 300}},
    "authors-paper-why-not": {"on": "authors-paper", "rows": 20, "ask": {"why_not": True}, "keep": {"page"}},
    "authors-paper-why-not-all": {"on": "authors-paper", "rows": 20, "ask": {"why_not": "all"}},
    "authors-mlp-plausible": {"on": "authors-mlp", "rows": 14, "ask": {"prefer": "plausible"}},
    "authors-boosting-proofs": {"on": "authors-boosting", "rows": 14},
    "law-paper-threshold": {"on": "law-paper", "rows": {"count": 16, "lowest": "lsat"}},
    "law-mlp-lowest": {"on": "law-mlp", "rows": {"count": 14, "lowest": "zgpa"}, "ask": {"k": 3}},
    "law-logistic-threshold": {
        "on": "law-logistic",
        "rows": {"count": 12, "lowest": "zgpa"},
        "ask": {"prefer": "plausible"},
    },
    "law-boosting-lowest": {"on": "law-boosting", "rows": {"count": 12, "lowest": "zgpa"}, "ask": {"prefer": "fewest"}},
    "census-paper-balanced": {"on": "census-paper", "rows": 10},
    "census-paper-sparse-k3": {"on": "census-paper", "rows": 6, "ask": {"prefer": "sparse", "k": 3}},
    "census-mlp-balanced": {"on": "census-mlp", "rows": 8},
    "census-mlp-half": {"on": "census-mlp-half", "rows": 6},
    "census-mlp-hopeless": {"on": "census-mlp-hopeless", "rows": 6},
    "census-boosting-sparse": {"on": "census-boosting", "rows": 8, "ask": {"prefer": "sparse"}},
    "folktables-paper-fewest": {"on": "folktables-paper", "rows": 14, "ask": {"prefer": "fewest"}},
    "folktables-mlp-threshold": {"on": "folktables-mlp", "rows": 14, "ask": {"k": 2}},
    "folktables-logistic-plausible": {"on": "folktables-logistic", "rows": 10, "ask": {"prefer": "plausible"}},
    # Kinds of models and shapes of rules on a small table.
    "loans-torch-balanced": {"on": "loans-torch", "rows": 25, "keep": ALL | {"figures"}},
    "loans-torch-k5": {"on": "loans-torch", "rows": 12, "ask": {"k": 5}},
    "loans-torch-no-draws": {"on": "loans-torch", "rows": 12, "ask": {"draws": 0}},
    "loans-torch-off-grid": {"on": "loans-torch", "rows": {"count": 12, "edit": OFF_GRID}, "ask": {"prefer": "sparse"}},
    "loans-torch-overrides": {"on": "loans-torch", "rows": 12, "overrides": OWN_LOANS, "ask": {"why_not": True}},
    "loans-torch-loaded": {"on": "loans-torch", "rows": 12, "by": "load", "ask": {"k": 2}},
    "loans-torch-alone": {"on": "loans-torch", "rows": 8, "by": "alone"},
    "loans-linear-frozen": {"on": "loans-linear", "rows": 16, "ask": {"why_not": True, "prefer": "plausible"}},
    "loans-tight-why-not": {"on": "loans-tight", "rows": 20, "ask": {"why_not": True}, "keep": {"json", "page"}},
    "loans-tight-why-not-all": {"on": "loans-tight", "rows": 12, "ask": {"why_not": "all"}},
    "loans-tight-best-effort": {"on": "loans-tight", "rows": 20, "ask": {"best_effort": True}, "keep": {"text"}},
    "loans-fixed-why-not-all": {"on": "loans-fixed", "rows": 16, "ask": {"why_not": "all"}},
    "loans-mlp-unary": {"on": "loans-unary", "rows": 16},
    "loans-sums-broken-before": {"on": "loans-sums", "rows": 20, "ask": {"prefer": "sparse"}},
    "loans-abs-k3": {"on": "loans-abs", "rows": 10, "ask": {"k": 3, "why_not": True}},
    "loans-ordinals-fewest": {"on": "loans-ordinals", "rows": 16, "ask": {"prefer": "fewest"}},
    "loans-or-other-class": {"on": "loans-or", "rows": 16},
    "loans-levels-tree": {"on": "loans-levels", "rows": 16, "ask": {"why_not": True}},
    "loans-equal-off-grid": {"on": "loans-equal", "rows": {"count": 12, "edit": OFF_GRID}, "ask": {"why_not": True}},
    "loans-then-k3": {"on": "loans-then", "rows": 12, "ask": {"k": 3}},
    "loans-pipeline-balanced": {"on": "loans-pipeline", "rows": 12, "ask": {"budget": 400}},
    "loans-pipeline-streamed": {"on": "loans-pipeline", "rows": 14, "by": "stream", "overrides": OWN_LOANS},
    "loans-mlpclassifier-sparse": {"on": "loans-mlpclassifier", "rows": 10, "ask": {"prefer": "sparse"}},
    "loans-forest-proofs": {"on": "loans-forest", "rows": 16, "ask": {"why_not": True}},
    "loans-gradient-threshold": {"on": "loans-gradient", "rows": 12, "ask": {"k": 2}},
    "loans-histogram-why-not-all": {"on": "loans-histogram", "rows": 12, "ask": {"why_not": "all"}},
    "loans-xgboost-proofs": {"on": "loans-xgboost", "rows": 16, "ask": {"why_not": True}},
    "loans-xgboost-loaded": {"on": "loans-xgboost", "rows": 8, "by": "load"},
    "loans-lightgbm-plausible": {"on": "loans-lightgbm", "rows": 12, "ask": {"prefer": "plausible"}},
    "loans-neighbours-budget-150": {"on": "loans-neighbours", "rows": 10, "ask": {"budget": 150}},
    "loans-vectors-k2": {"on": "loans-vectors", "rows": 10, "ask": {"k": 2, "budget": 300}},
    "loans-callable-sums": {"on": "loans-callable", "rows": 10, "ask": {"budget": 300}},
    "loans-callable-tight": {"on": "loans-callable-tight", "rows": 10, "ask": {"budget": 200, "why_not": True}},
    "loans-callable-budget-9": {"on": "loans-callable-tight", "rows": 12, "ask": {"budget": 9, "why_not": True}},
    "fine-torch-balanced": {"on": "fine-torch", "rows": 12},
    "savings-torch-k3": {"on": "savings-torch", "rows": 12, "ask": {"k": 3}},
    "savings-shares": {"on": "savings-shares", "rows": 8},
    "savings-torch-off-grid": {"on": "savings-torch", "rows": {"count": 10, "edit": OFF_STEPS}},
    "savings-forest-why-not": {"on": "savings-forest", "rows": 12, "ask": {"why_not": True, "budget": 300}},
    "savings-xgboost-sparse": {"on": "savings-xgboost", "rows": 12, "ask": {"prefer": "sparse"}},
    "savings-callable-target": {
        "on": "savings-callable",
        "rows": 10,
        "overrides": {0: {"target": 1}, 1: {"target": 2}},
    },
    # What is refused, and the methods to compare with.
    "refused-contrary-rules": {"on": "contrary", "rows": 6, "raises": True},
    "refused-misspelt-rules": {"on": "misspelt", "rows": 6, "raises": True},
    "refused-overrides": {
        "on": "loans-torch",
        "rows": 6,
        "overrides": {0: {"frezze": "age"}, 1: {"age": "9-4"}},
        "raises": True,
    },
    "refused-prefer": {"on": "loans-torch", "rows": 6, "ask": {"prefer": "sparsest"}, "raises": True},
    "dice-random-adult": {"on": "dice", "rows": 14, "ask": {"k": 2}, "keep": {"figures"}},
    "face-adult": {"on": "face", "rows": 14},
    "cem-loans": {"on": "cem", "rows": 12},
    "vcnet-loans": {"on": "vcnet", "rows": 12},
    "revise-loans": {"on": "revise", "rows": 12, "keep": {"figures"}},
    "ceils-loans": {"on": "ceils", "rows": 12},
    "mahajan-adult": {"on": "mahajan", "rows": 12},
}


# Tables and models ---------------------------------------------------------------------------------------------------


@cache
def made_table(name: str, rows: int, seed: int) -> pd.DataFrame:
    """A made-up table with its label `answer`, which follows the score but for some noise."""
    rng, columns = np.random.default_rng(seed), {}
    for f in MADE[name]:
        if f.levels:
            columns[f.name] = np.array(f.levels, dtype=object)[rng.integers(len(f.levels), size=rows)]
        else:
            steps = round((f.high - f.low) / f.step)
            # Coarse grids whole; of the others values that people have, on the grid.
            values = f.low + rng.integers(steps + 1, size=rows) * f.step
            spread = {"age": rng.integers(18, 70, rows), "income": rng.integers(0, 9000, rows) / 2}
            columns[f.name] = spread.get(f.name, values)
    if name == "savings":
        columns["cash"] = np.maximum(100 - columns["stocks"] - columns["bonds"], 0)
    made = pd.DataFrame(columns, index=[f"row {i}" for i in range(rows)]).infer_objects()
    noisy = score(made) + rng.normal(size=rows) * 0.3
    place = np.searchsorted(LIMITS[name], noisy)
    return made.assign(answer=np.array(CLASSES[name], dtype=object)[place]).infer_objects()


def score(rows: pd.DataFrame) -> np.ndarray:
    """What the weights add up to, row by row."""
    total = np.zeros(len(rows))
    for f in itertools.chain(LOANS, SAVINGS):
        if f.name not in rows.columns:
            continue
        if f.levels:
            total += rows[f.name].map(dict(zip(f.levels, WEIGHTS[f.name], strict=True))).to_numpy(dtype=float)
        else:
            total += (rows[f.name].to_numpy(dtype=float) - f.low) / (f.high - f.low) * WEIGHTS[f.name][0]
    return total


@cache
def data(name: str) -> Any:
    """A data set, or a made-up table in the same shape: train, validation, test, label, schema, rules."""
    if name in REAL:
        return load_dataset(name, rows=REAL[name], seed=0)
    parts = {
        part: made_table(name, rows, seed)
        for part, rows, seed in (("train", 240, 0), ("validation", 60, 1), ("test", 40, 5))
    }
    return SimpleNamespace(**parts, label="answer", schema=Schema(MADE[name]), rules={})


def network(name: str, hidden: bool) -> nn.Module:
    """A network on encoded columns: the score, and with `hidden` some ReLUs of random weights beside it."""
    features, classes, rng = MADE[name], len(CLASSES[name]), np.random.default_rng(7)
    weights = np.array([w for f in features for w in WEIGHTS[f.name]])
    dtype = torch.float64 if name == "fine" else torch.float32
    # Class by class, scores above its limit speak for it more than for the one before.
    slopes = np.arange(classes, dtype=float)
    shifts = -np.concatenate([[0.0], np.cumsum(NETWORK_LIMITS[name])])
    if not hidden:
        return nn.Sequential(_layer(np.outer(slopes, weights) * 2, shifts * 2, dtype))
    random = rng.normal(size=(10, len(weights))) * 0.7
    first = np.concatenate([weights[None], -weights[None], random])
    last = np.concatenate([slopes[:, None], -slopes[:, None], rng.normal(size=(classes, 10)) * 0.3], axis=1)
    return nn.Sequential(_layer(first, np.zeros(12), dtype), nn.ReLU(), _layer(last * 2, shifts * 2, dtype))


def _layer(weights: np.ndarray, bias: np.ndarray, dtype: torch.dtype) -> nn.Linear:
    layer = nn.Linear(weights.shape[1], weights.shape[0], dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(weights))
        layer.bias.copy_(torch.as_tensor(bias))
    return layer.requires_grad_(False)


def chances(rows: pd.DataFrame, name: str) -> np.ndarray:
    """The model that can only be asked: `n x classes`."""
    slopes = np.arange(len(CLASSES[name]), dtype=float)
    odds = np.exp(2 * (score(rows)[:, None] * slopes - np.concatenate([[0.0], np.cumsum(LIMITS[name])])))
    return odds / odds.sum(axis=1, keepdims=True)


def pipeline(name: str, estimator: Any) -> Any:
    """A fitted pipeline on raw columns."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    own = data(name)
    rows, labels = own.train.drop(columns=own.label), own.train[own.label]
    categories = [f.name for f in own.schema if f.levels]
    numbers = [f.name for f in own.schema if not f.levels]
    columns = ColumnTransformer(
        [("c", OneHotEncoder(handle_unknown="ignore"), categories), ("n", StandardScaler(), numbers)],
        sparse_threshold=0,
    )
    return make_pipeline(columns, estimator).fit(rows[[*own.schema.names]], labels)


def estimator(kind: str) -> Any:
    """An estimator of scikit-learn, or with its face."""
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.tree import DecisionTreeClassifier

    if kind == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1, random_state=0)
    if kind == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=25, num_leaves=7, n_jobs=1, random_state=0, verbose=-1, deterministic=True)
    if kind == "vectors":
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.svm import SVC

        return CalibratedClassifierCV(SVC(gamma=0.2), ensemble=False, cv=3)
    return {
        "logistic pipeline": LogisticRegression(max_iter=500),
        "mlp pipeline": MLPClassifier((12,), max_iter=150, random_state=0),
        "forest": RandomForestClassifier(30, max_depth=5, n_jobs=1, random_state=0),
        "gradient": GradientBoostingClassifier(n_estimators=30, max_depth=2, random_state=0),
        "histogram": HistGradientBoostingClassifier(max_iter=25, min_samples_leaf=5, random_state=0),
        "tree": DecisionTreeClassifier(max_depth=5, random_state=0),
        "neighbours": KNeighborsClassifier(7, n_jobs=1),
    }[kind]


@cache
def model(name: str, kind: str) -> Any:
    """A model of one of the kinds, fitted to the table."""
    if kind in ("paper", "mlp", "logistic", "boosting"):
        return train_classifier(data(name), kind=kind, seed=0)
    if kind in ("torch", "linear"):
        return network(name, hidden=kind == "torch")
    if kind == "callable":
        return partial(chances, name=name)
    return pipeline(name, estimator(kind))


# Problems ------------------------------------------------------------------------------------------------------------


def fitted_explainer(fit: Any, task: Task, validation: pd.DataFrame) -> Any:
    """What explains: FCx in one of its ways, or a method to compare with. Names of settings stand here alone."""
    if isinstance(fit, tuple):
        return METHODS[fit[0]](seed=0, **fit[1]).fit(task)
    short = {"schedule__epochs": 3, "schedule__steps": 40}
    fcx = {
        "short": lambda: FCx(seed=0).set_params(**short),
        "whole": lambda: FCx(seed=3),
        "published": lambda: FCx.as_published("binary", seed=0).set_params(schedule__epochs=6, schedule__steps=60),
        "no search": lambda: FCx(seed=1, search=False).set_params(**short),
    }[fit]()
    return fcx.fit(task, validation=validation)


@cache
def fitted(problem: str) -> tuple[Any, Task, Any, list[str]]:
    """The explainer of a problem, its task, what is recorded of the fit, and what was warned of."""
    about = PROBLEMS[problem]
    own, given = data(about["table"]), model(about["table"], about["model"])
    rules = own.rules.get(about["rules"], RULES.get(about["rules"], about["rules"]))
    more = {"threshold": about["threshold"]} if "threshold" in about else {}
    more |= {"label": own.label} if about["table"] in MADE else {}
    with warned() as told:
        task = Task(own.train, given, schema=own.schema, rules=rules, target=about["target"], **more)
        explainer = fitted_explainer(about.get("fit", "short"), task, own.validation)
    return explainer, task, fit_record(explainer), told


def rows_of(problem: str, wish: Any) -> pd.DataFrame:
    """Rows to explain: the first of the test part, or those with the lowest values, some of them edited."""
    wish = wish if isinstance(wish, dict) else {"count": wish}
    own = data(PROBLEMS[problem]["table"])
    rows = own.test.drop(columns=own.label)
    if "lowest" in wish:
        rows = rows.sort_values(wish["lowest"], kind="stable")
    rows = rows.iloc[: wish["count"]].copy()
    for place, values in wish.get("edit", {}).items():
        for name, value in values.items():
            rows[name] = rows[name].astype(float)
            rows.iloc[place, rows.columns.get_loc(name)] = value
    return rows


# Asking --------------------------------------------------------------------------------------------------------------


def recorded(name: str) -> dict[str, Any]:
    """All that is kept of one task."""
    about = TASKS[name]
    try:
        explainer, task, fit, told = fitted(about["on"])
        with warned() as later:
            found = WAYS[about.get("by", "ask")](explainer, task, about)
    except Exception as error:
        if not about.get("raises"):
            traceback.print_exc()
        return {"error": [type(error).__name__, without_paths(str(error))]}
    return {"fit": fit, "warnings": told + later, **found}


def _asked(explainer: Any, rows: pd.DataFrame | Path, about: Mapping[str, Any], labels: pd.Index, **more: Any) -> Any:
    """What `explain` says; what each part of the cost counts for is called `cost` or `weights`."""
    ask = dict(about.get("ask", {})) | more
    own = {labels[place]: values for place, values in about.get("overrides", {}).items()}
    if own and about.get("as_table"):
        columns = list(dict.fromkeys(column for values in own.values() for column in values))
        lines = {label: [values.get(column) for column in columns] for label, values in own.items()}
        ask["overrides"] = pd.DataFrame.from_dict(lines, orient="index", columns=columns, dtype=object)
    elif own:
        ask["overrides"] = own
    if "cost" in ask and "cost" not in inspect.signature(explainer.explain).parameters:
        ask["weights"] = ask.pop("cost")
    if isinstance(rows, Path) and hasattr(explainer, "explain_file"):
        return explainer.explain_file(rows, ask.pop("out"), **ask)
    return explainer.explain(rows, **ask)


def by_asking(explainer: Any, task: Task, about: Mapping[str, Any]) -> dict[str, Any]:
    """The rows as a table, all at once."""
    rows = rows_of(about["on"], about["rows"])
    return answer_record(_asked(explainer, rows, about, rows.index), about.get("keep", ()))


def by_stream(explainer: Any, task: Task, about: Mapping[str, Any]) -> dict[str, Any]:
    """From a file of rows to a file of answers, in three parts, which is then read and verified."""
    rows = rows_of(about["on"], about["rows"])
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "rows.parquet"), Path(folder, "answers.parquet")
        rows.to_parquet(source)
        done = _asked(explainer, source, about, rows.index, out=out, chunk=-(-len(rows) // 3))
        table = pd.read_parquet(out)
        held = fcxplain.verify(task, rows, out)
        return {
            "streamed": plain(
                {"rows": done.rows, "counts": done.counts, "notes": done.notes, "calls": done.effort.calls}
            ),
            "file": plain({column: [_read(value) for value in table[column].tolist()] for column in table.columns}),
            "verified": without_paths(str(held)),
            **answer_record(read_answers(out, task), about.get("keep", ())),
        }


def by_loading(explainer: Any, task: Task, about: Mapping[str, Any]) -> dict[str, Any]:
    """By an explainer that was saved and loaded; a model of one's own is given again."""
    rows, problem = rows_of(about["on"], about["rows"]), PROBLEMS[about["on"]]
    trained = problem["model"] in ("paper", "mlp")
    with tempfile.TemporaryDirectory() as folder:
        explainer.save(Path(folder, "model"))
        again = FCx.load(Path(folder, "model"), *([] if trained else [model(problem["table"], problem["model"])]))
        return answer_record(_asked(again, rows, about, rows.index), about.get("keep", ()))


def by_single_rows(explainer: Any, task: Task, about: Mapping[str, Any]) -> dict[str, Any]:
    """Each row by itself."""
    rows = rows_of(about["on"], about["rows"])
    one_by_one = [_asked(explainer, rows.iloc[[i]], about, rows.index) for i in range(len(rows))]
    return {str(label): answer_record(answer, ()) for label, answer in zip(rows.index, one_by_one, strict=True)}


WAYS: dict[str, Callable[..., dict[str, Any]]] = {
    "ask": by_asking,
    "stream": by_stream,
    "load": by_loading,
    "alone": by_single_rows,
}


# Records -------------------------------------------------------------------------------------------------------------


def answer_record(answer: Any, keep: Any) -> dict[str, Any]:
    """What is kept of answers: nothing that a clock has a part in."""
    frame = answer.frame
    found = {
        "status": plain(list(zip(answer.status.index, answer.status, strict=True))),
        "counts": plain(answer.counts),
        "frame": plain({column: frame[column].tolist() for column in frame.columns}),
        "certificates": [plain(c.to_dict()) for c in answer.certificates],
        "why_not": plain(answer.why_not.tolist()),
        "reasons": plain({place: reason.to_dict() for place, reason in sorted(_of(answer, "reasons", {}).items())}),
        "notes": plain(_of(answer, "notes")),
        "found_by": plain(_of(answer, "found_by")),
        "calls": plain(_of(answer, "calls")),
        "calls_in_all": plain(getattr(_of(answer, "effort"), "calls", ABSENT)),
        "draws": plain(_of(answer, "draws")),
        "cut_short": plain(_of(answer, "cut_short")),
        "soft_valid": plain(_of(answer, "soft_valid")),
        "shown": str(answer),
    }
    if "text" in keep:
        found["text"] = [re.sub(r"\bdensity (?=[\d-])", "lof ", str(c)) for c in answer.certificates]
    if "json" in keep:
        found["json"] = plain(json.loads(answer.to_json()))
    if "page" in keep:
        found["page"] = page_record(answer.to_html(title="A recording"))
    if "figures" in keep:
        # How many rows a second there are is a matter of the clock.
        names = [name for name in METRICS if name != "rows_per_second"]
        found["figures"] = {
            c: plain(evaluate(answer, metrics=names, convention=c).to_dict()) for c in ("ours", "authors")
        }
    return found


def page_record(text: str) -> dict[str, Any]:
    """A page by its fingerprint, and by those of its lines, so that one sees where it differs."""
    text = re.sub(r'content="fcxplain [^"]*"', 'content="fcxplain"', text)
    # The page holds certificates by the names of their fields.
    for name, now in RENAMED.items():
        text = text.replace(f'"{name}"', f'"{now}"')
    lines = [hashlib.sha256(line.encode()).hexdigest()[:8] for line in text.splitlines()]
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "characters": len(text), "lines": lines}


def fit_record(explainer: Any) -> dict[str, Any]:
    """What was learnt: a fingerprint of the network's numbers in whatever order, the losses, the graph."""
    found: dict[str, Any] = {}
    network = getattr(explainer, "model_", None)
    if isinstance(network, nn.Module):
        parts = sorted(value.detach().cpu().numpy().tobytes() for value in network.state_dict().values())
        found["network"] = hashlib.sha256(b"".join(parts)).hexdigest()
    if hasattr(explainer, "history_"):
        found["history"] = plain(explainer.history_.to_list())
    if hasattr(explainer, "graph_"):
        found["graph"] = plain(explainer.graph_.to_dict())
    return found


def _read(value: Any) -> Any:
    """A cell of a file; one that holds JSON as what that says."""
    return json.loads(value) if isinstance(value, str) and value[:1] in ("{", "[") else value


def _of(answer: Any, name: str, default: Any = ABSENT) -> Any:
    return getattr(answer, name, default)


def plain(value: Any) -> Any:
    """Plain data: what is missing is None, a number is the `repr` of its float, all else is text."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, Mapping):
        return {RENAMED.get(str(key), str(key)): plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | pd.Series | pd.Index):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | float | np.number):
        return None if np.isnan(value) else repr(float(value))
    return str(value)


def without_paths(text: str) -> str:
    """Text without the folder that a temporary file lies in."""
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/[^/\s]+/", "", text)


class warned:
    """Collects what fcxplain warns of, each message once; warnings of other packages are not told."""

    def __enter__(self) -> list[str]:
        self.told: list[str] = []
        self.caught = warnings.catch_warnings(record=True)
        self.seen = self.caught.__enter__()
        warnings.simplefilter("always")
        return self.told

    def __exit__(self, *error: Any) -> None:
        self.caught.__exit__(*error)
        own = [str(w.message) for w in self.seen if w.category.__module__.startswith("fcxplain")]
        self.told.extend(dict.fromkeys(own))


# The whole -----------------------------------------------------------------------------------------------------------


def group_record(names: list[str]) -> tuple[dict[str, Any], dict[str, float]]:
    """Some tasks one after the other, with the CPU seconds that each took."""
    torch.set_num_threads(1)
    records, spent = {}, {}
    for name in names:
        begun = time.process_time()
        # Through JSON, so that it is the same as what was read from a file.
        records[name] = json.loads(json.dumps(recorded(name)))
        spent[name] = time.process_time() - begun
    # A process lives on for other problems.
    fitted.cache_clear()
    return records, spent


def groups(names: list[str], backwards: bool) -> list[list[str]]:
    """Tasks that share a fitted explainer, together."""
    together: dict[str, list[str]] = {}
    for name in names:
        together.setdefault(TASKS[name]["on"], []).append(name)
    found = list(together.values())
    return [group[::-1] for group in found[::-1]] if backwards else found


def record_all(names: list[str], jobs: int, backwards: bool) -> Iterator[tuple[str, Any, float]]:
    """Each task's name, record and CPU seconds, as they come."""
    parts = groups(names, backwards)
    if jobs == 1:
        done: Iterator[Any] = map(group_record, parts)
        yield from _told(done)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from _told(pool.imap_unordered(group_record, parts))


def _told(done: Iterator[Any]) -> Iterator[tuple[str, Any, float]]:
    for records, spent in done:
        for name, record in records.items():
            yield name, record, spent[name]


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two records differ: path, before, after."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from differences(before.get(key, ABSENT), after.get(key, ABSENT), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{path} (length)", len(before), len(after)
        for i, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from differences(one, other, f"{path}[{i}]")
    elif type(before) is not type(after) or before != after:
        yield path, before, after


def _first_unlike(one: str, other: str) -> int:
    """From where on two long texts are shown: a little before they part."""
    alike = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return alike - 60 if alike > 200 else 0


def _part(value: Any, begin: int) -> str:
    """A value from a place on, as much as fits."""
    return ("... " if begin else "") + str(value)[begin : begin + 300]


def chosen(only: str | None) -> list[str]:
    """The tasks asked for, without those whose table is not there."""
    patterns = [p.strip() for p in (only or "*").split(",")]
    unknown = [p for p in patterns if not fnmatch.filter(TASKS, p)]
    if unknown:
        raise SystemExit(f"no task is called {', '.join(unknown)}; there are {', '.join(TASKS)}")
    names = [name for name in TASKS if any(fnmatch.fnmatch(name, p) for p in patterns)]
    if os.environ.get("FCXPLAIN_DATA"):
        return names
    left = [name for name in names if PROBLEMS[TASKS[name]["on"]]["table"] in OUTSIDE]
    if left:
        print(f"left out, since FCXPLAIN_DATA is not set: {', '.join(left)}")
    return [name for name in names if name not in left]


def write(path: Path, names: list[str], jobs: int, backwards: bool) -> int:
    """Record the tasks; those that failed against expectation are told."""
    found, spent, failed = {}, {}, []
    for name, record, seconds in record_all(names, jobs, backwards):
        found[name], spent[name] = record, seconds
        unlike = ("error" in record) != bool(TASKS[name].get("raises"))
        failed += [name] if unlike else []
        told = f"FAILED {record.get('error')}" if unlike else summary(record)
        print(f"{name:32} {seconds:6.2f} s  {told}", flush=True)
    lines = [f"{json.dumps(name)}: {json.dumps(found[name], ensure_ascii=False)}" for name in names]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(found)} tasks, {sum(spent.values()):.0f} CPU seconds, written to {path}")
    return 1 if failed else 0


def summary(record: Mapping[str, Any]) -> str:
    """What came of a task, in a line."""
    if "error" in record:
        return f"refused, as it should be ({record['error'][0]})"
    if "counts" not in record:
        return f"{len(record) - 2} parts"
    return ", ".join(f"{float(count):.0f} {status}" for status, count in record["counts"].items())


def compare(path: Path, names: list[str], jobs: int, backwards: bool, whole: bool) -> int:
    """Hold what the tasks say now against a file."""
    before = json.loads(path.read_text(encoding="utf-8"))
    other, total = 0, 0.0
    for name, record, seconds in record_all([n for n in names if n in before], jobs, backwards):
        found, total = list(differences(before[name], record)), total + seconds
        print(f"{name:32} {f'{len(found)} differences' if found else 'same'}", flush=True)
        for where, was, now in found[:SHOWN]:
            begin = _first_unlike(str(was), str(now))
            print(f"    {where}\n      before {_part(was, begin)}\n      after  {_part(now, begin)}")
        other += bool(found)
    missing = [n for n in names if n not in before]
    gone = [n for n in before if n not in TASKS] if whole else []
    print(
        "".join(f"{n:32} is not in the file\n" for n in missing)
        + "".join(f"{n:32} is in the file only\n" for n in gone),
        end="",
    )
    same = len(names) - len(missing) - other
    print(f"{same} the same, {other} different, {len(missing) + len(gone)} missing; {total:.0f} CPU seconds")
    return 1 if other or missing or gone else 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "compare", "list"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--only", help="names or patterns of tasks, with commas between them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--backwards", action="store_true", help="in the opposite order")
    given = parser.parse_args()
    names = chosen(given.only)
    if given.what == "list":
        print("\n".join(names))
        return 0
    if given.file is None:
        parser.error("a file is needed")
    print(f"fcxplain from {Path(fcxplain.__file__).parent}")
    if given.what == "write":
        return write(given.file, names, given.jobs, given.backwards)
    return compare(given.file, names, given.jobs, given.backwards, whole=given.only is None)


if __name__ == "__main__":
    sys.exit(main())
