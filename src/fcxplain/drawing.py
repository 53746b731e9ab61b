"""Answers as the paper gives them: a draw of the generator for each row, decoded and checked, whatever comes of it."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import model_view
from .classifier import Differentiable
from .explanation import Effort, Explanation, Status
from .model.cvae import ConditionalVAE
from .model.noise import row_noise
from .rule_boxes import RuleBoxes
from .task import Task

# Rows that go through the network at a time.
CHUNK = 8_192
PUBLISHED, GATED = "FCx as published", "FCx without search"


def drawn_answers(
    model: ConditionalVAE, stand_in: Differentiable, task: Task, rows: pd.DataFrame, *, k: int = 1, seed: int = 0
) -> Explanation:
    """`k` draws for each row that does not have the class wanted."""
    wall, cpu = time.perf_counter(), time.process_time()
    table, _ = task.read(rows)
    codes = task.encoder.codes(table)
    predicted = task.predict(table)
    wanted = task.wanted(predicted)
    place = np.flatnonzero(predicted != wanted)
    asked = _Asked(table.iloc[place], codes[place], wanted[place])
    draws = [_drawn(model, stand_in, task, asked, seed, draw) for draw in range(k)]
    order = np.argsort(np.tile(place, k), kind="stable")
    name, many = PUBLISHED if model.heads is None else GATED, "one draw" if k == 1 else f"{k:,} draws"
    found = Explanation.of(
        task,
        table,
        pd.concat([d.table for d in draws], ignore_index=True).iloc[order],
        np.repeat(place, k),
        method=name,
        wanted=wanted,
        without=np.where(predicted == wanted, str(Status.ALREADY), str(Status.NOT_FOUND)),
        soft_valid=np.concatenate([d.soft_valid for d in draws])[order],
        notes=(f"{name}: {many} per row, no repair and no search; what fails a check is handed out too.",),
    )
    spent = Effort(time.perf_counter() - wall, time.process_time() - cpu, torch.get_num_threads(), len(rows))
    return replace(found, effort=spent)


@dataclass(frozen=True, eq=False)
class _Asked:
    rows: pd.DataFrame
    codes: NDArray[np.int64]
    wanted: NDArray[Any]


@dataclass(frozen=True, eq=False)
class _Drawn:
    table: pd.DataFrame
    soft_valid: NDArray[np.bool_]


@torch.no_grad()
def _drawn(model: ConditionalVAE, stand_in: Differentiable, task: Task, asked: _Asked, seed: int, draw: int) -> _Drawn:
    """One draw for each row; what may not change is put back as it was."""
    x, y_target = task.encoder.encode(asked.rows), model_view.class_indices(task, asked.wanted)
    noise = torch.from_numpy(row_noise(asked.codes, model.architecture.latent, seed, draw))
    present = task.schema.natural(asked.rows)
    x_cf = _generated(model, task, x, y_target, noise, present)
    soft = stand_in.module(x_cf.to(x.dtype)).argmax(dim=1) == y_target
    kept = {f.name: present[f.name] for f, m in zip(task.schema, model.layout.mutable, strict=True) if not m}
    natural = task.encoder.decode_natural(x_cf) | kept
    return _Drawn(task.table(natural, asked.rows.index), soft.numpy())


def _generated(
    model: ConditionalVAE, task: Task, x: Tensor, y_target: Tensor, noise: Tensor, present: dict[str, NDArray[Any]]
) -> Tensor:
    """Raw counterfactuals. In double precision, so that the size of a batch never shows after rounding."""
    model = copy.deepcopy(model).double().eval()
    boxes = RuleBoxes(task) if model.heads is not None else None
    found = [x.double()[:0]]
    for start in range(0, len(x), CHUNK):
        part = slice(start, start + CHUNK)
        allowed = None if boxes is None else boxes.of({name: values[part] for name, values in present.items()})
        found.append(model(x[part].double(), y_target[part], noise[part], allowed).x_cf)
    return torch.cat(found)
