"""Draws of a fitted generator: one per row as in the paper, checked; or several per row as proposals for the search."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc
from torch import Tensor

from ..classifier import Differentiable
from ..errors import ClassifierError
from ..explanation import Effort, Explanation, Status
from ..hashing import row_noise
from ..schema import Natural
from ..task import Task
from . import view
from .cvae import ConditionalVAE
from .inference import Inference, Noise
from .view import RuleBoxes

# Rows per pass through the network.
DRAWN_TOGETHER = 8_192
PUBLISHED, GATED = "FCx as published", "FCx without search"


def drawn_answers(
    model: ConditionalVAE, surrogate: Differentiable, task: Task, rows: pd.DataFrame, *, k: int = 1, seed: int = 0
) -> Explanation:
    """Draw `k` answers for each row without the target class; rows on which the model fails are unreadable."""
    wall, cpu = time.perf_counter(), time.process_time()
    table, natural = task.read(rows)
    try:
        _, wanted, met = task.answered(table)
    except ClassifierError:
        failures = task.failures(natural, lambda some: task.answered(table.iloc[some]))
        which = np.setdiff1d(np.arange(len(table)), list(failures))
        found = drawn_answers(model, surrogate, task, rows.iloc[which], k=k, seed=seed)
        return found.among(table, which, {row: (said,) for row, said in failures.items()})
    place = np.flatnonzero(~met)
    draws = _drawn(model, surrogate, task, table.iloc[place], wanted[place], k, seed)
    order = np.argsort(np.tile(place, k), kind="stable")
    name, many = PUBLISHED if model.heads is None else GATED, "one draw" if k == 1 else f"{k:,} draws"
    answers, soft_valid, raw = zip(*draws, strict=True)
    found = Explanation.of(
        task,
        table,
        pd.concat(answers, ignore_index=True).iloc[order],
        np.repeat(place, k),
        method=name,
        wanted=wanted,
        without=np.where(met, str(Status.ALREADY), str(Status.NOT_FOUND)),
        soft_valid=np.concatenate(soft_valid)[order],
        raw=np.concatenate(raw)[order],
        notes=(f"{name}: {many} per row, no repair and no search; answers that fail a check are returned too.",),
    )
    return replace(found, effort=Effort.since(wall, cpu, len(rows)))


@torch.no_grad()
def _drawn(
    model: ConditionalVAE,
    surrogate: Differentiable,
    task: Task,
    rows: pd.DataFrame,
    wanted: NDArray[Any],
    k: int,
    seed: int,
) -> Iterator[tuple[pd.DataFrame, NDArray[np.bool_], NDArray[np.float64]]]:
    """Draw `k` times per row: answers that keep immutable features, whether the surrogate accepts them, raw outputs."""
    codes, x, y_target = task.encoder.codes(rows), task.encoder.encode(rows), view.class_indices(task, wanted)
    present = task.schema.natural(rows)
    kept = {f.name: present[f.name] for f, m in zip(task.schema, model.layout.mutable, strict=True) if not m}
    for draw in range(k):
        noise = torch.from_numpy(row_noise(codes, model.architecture.latent, seed, draw))
        x_cf = _generated(model, task, x, y_target, noise, task.encoder.filled(present))
        soft = surrogate.module(x_cf.to(x.dtype)).argmax(dim=1) == y_target
        new = task.encoder.decode_natural(x_cf) | kept
        natural = {f.name: np.where(f.may_give_way(present[f.name]), new[f.name], present[f.name]) for f in task.schema}
        yield task.table(natural, rows.index), soft.numpy(), x_cf.numpy()


def _generated(
    model: ConditionalVAE, task: Task, x: Tensor, y_target: Tensor, noise: Tensor, present: dict[str, NDArray[Any]]
) -> Tensor:
    """Raw counterfactuals, in double precision, so that after rounding they do not depend on the batch size."""
    model = copy.deepcopy(model).double().eval()
    boxes = RuleBoxes(task) if model.heads is not None else None
    found = [x.double()[:0]]
    for start in range(0, len(x), DRAWN_TOGETHER):
        part = slice(start, start + DRAWN_TOGETHER)
        allowed = None if boxes is None else boxes.of({name: values[part] for name, values in present.items()})
        found.append(model(x[part].double(), y_target[part], noise[part], allowed).x_cf)
    return torch.cat(found)


Codes = NDArray[np.int64]
# Draws per pass through the network.
PROPOSED_TOGETHER = 16_384
TINY = 2.0**-40
# Factors on the noise of choices, one draw after the other: a well trained generator is confident, and its next best
# choices show up only under more noise than it was trained with.
LOUDNESS = (1.0, 2.0, 3.0, 4.0)
# Factors on the changes of numbers, one draw after the other. The generator learns answers that are just sufficient, so
# half of its guesses fall short; with a larger change, one feature is often enough where two were needed.
REACH = (1.0, 1.5)


class Proposer:
    """Draws from a generator for rows of a task.

    The first draw of a row is the generator's best, without noise; the second is the same with larger changes of
    numbers. All others add noise to the latent point and, if the generator has gates, to its choices: a decoder that
    reads the row itself hardly uses the latent point, and would propose the same row sixteen times.
    """

    def __init__(self, model: ConditionalVAE, task: Task, *, seed: int = 0) -> None:
        # In double precision, so that after rounding draws do not depend on the batch size.
        self.model, self.task, self.seed = copy.deepcopy(model).double().eval(), task, seed
        self.inference = Inference(self.model) if model.heads is not None else None
        self.boxes = RuleBoxes(task)
        changing = [f for f, may in zip(task.schema, model.layout.mutable, strict=True) if may]
        self._fixed = [i for i, may in enumerate(model.layout.mutable) if not may]
        self._categories = [task.schema.names.index(f.name) for f in changing if f.is_category]
        self._numbers = [f for f in changing if f.is_number]
        self._noises: dict[int, Noise] = {}

    @torch.no_grad()
    def draws(self, codes: Codes, y_target: NDArray[np.int64], n: int, natural: Natural | None = None) -> Codes:
        """`n` proposals for each row of grid codes `r x features`, as codes `r x n x features`.

        `y_target`, `r`, has the index of each row's target class. `natural` are the rows' natural columns, for rows
        that may lie off the grid; an unchanged code then means the present value.
        """
        natural = self.task.encoder.natural_of_codes(codes) if natural is None else natural
        size, chunk = max(1, PROPOSED_TOGETHER // n), self._freely if self.inference is None else self._gated
        found = np.empty((len(codes), n, codes.shape[1]), dtype=np.int64)
        for start in range(0, len(codes), size):
            part = slice(start, start + size)
            columns = {name: values[part] for name, values in natural.items()}
            wanted = np.asarray(y_target[part], dtype=np.int64)
            found[part] = chunk(codes[part], columns, wanted, n).reshape(-1, n, codes.shape[1])
        return found

    def _gated(self, codes: Codes, natural: Natural, y_target: Codes, n: int) -> Codes:
        """Proposals of a generator with gates, `(r * n) x features`."""
        assert self.inference is not None
        x = self.task.encoder.encode_natural(natural).double().numpy()
        drawn = self.inference.draws(x, y_target, self._noise(n), self.boxes.of(natural))
        found, places = np.repeat(codes, n, axis=0), self._categories
        found[:, places] = np.where(drawn.new_level, drawn.level, found[:, places])
        for j, feature in enumerate(self._numbers):
            place, (low, spread) = self.task.schema.names.index(feature.name), self.task.encoder.scale_[feature.name]
            new = feature.codes(drawn.value[:, j] * spread + low)
            found[:, place] = np.where(drawn.new_value[:, j], new, found[:, place])
        return found

    def _freely(self, codes: Codes, natural: Natural, y_target: Codes, n: int) -> Codes:
        """Proposals of a generator without gates, `(r * n) x features`."""
        encoder, wanted = self.task.encoder, torch.from_numpy(y_target)
        x = encoder.encode_natural(natural).double()
        mean, variance = self.model.encode(x, wanted)
        z = (mean[:, None] + variance.sqrt()[:, None] * torch.from_numpy(self._noise(n).latent)).flatten(0, 1)
        x_cf = self.model.decode(z, x.repeat_interleave(n, 0), wanted.repeat_interleave(n))
        drawn = encoder.decode_natural(x_cf)
        found = np.stack([f.codes(drawn[f.name]) for f in self.task.schema], axis=1)
        found[:, self._fixed] = np.repeat(codes[:, self._fixed], n, axis=0)
        return found

    def _noise(self, n: int) -> Noise:
        """The noise of `n` draws per row; the first draws have none and differ only in how far numbers go."""
        if n not in self._noises:
            latent, heads = self.model.architecture.latent, self.model.heads
            width = latent + (heads.width if heads is not None else 0)
            plain = min(n, 1 if heads is None else len(REACH))
            uniform = _sobol(n - plain, width, self.seed)
            noise = np.vstack([np.zeros((1, latent)), ndtri(uniform[:, :latent])])
            jitter = np.zeros((len(noise), width - latent))
            if heads is not None:
                drawn = heads.jitter(torch.from_numpy(uniform[:, latent:])).numpy()
                jitter[1:] = np.resize(LOUDNESS, n - plain)[:, None] * drawn
            line = np.maximum(np.arange(n) - plain + 1, 0)
            self._noises[n] = Noise(noise, jitter, line, np.resize(REACH, n))
        return self._noises[n]


def _sobol(n: int, width: int, seed: int) -> NDArray[np.float64]:
    """The first `n` points of a scrambled Sobol sequence, strictly between 0 and 1, `n x width`."""
    points = qmc.Sobol(width, scramble=True, rng=np.random.default_rng(seed)).random_base2(max(0, n - 1).bit_length())
    return np.asarray(np.clip(points[:n], TINY, 1 - TINY))
