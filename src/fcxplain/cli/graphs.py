"""Causal graphs for `fcxplain graph`: a saved model's own, or one discovered in a table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..causal import CausalGraph, discover
from ..errors import DataError, Fault, FcxWarning
from ..keeping import KIND
from ..persistence import read
from .own_tables import own_rows
from .saved import check_model, load_model, own_data
from .sources import Source


def check_choice(model: Path | None, data: str | None, chosen: Mapping[str, Any]) -> None:
    """Refuse a graph of nothing or of two things, and a way of discovery for what is discovered already."""
    if (model is None) == (data is None):
        raise DataError("give the folder of a model or --data, one of the two, e.g. fcxplain graph --data adult")
    stray = [option for option, value in chosen.items() if value is not None]
    if model is not None and stray:
        problem = "a model's graph is as it was fitted"
        raise DataError("", [Fault(option, problem, "Use it with --data, without a model.") for option in stray])


def model_graph(
    folder: Path, classifier: str | None, bootstrap: int, on_resample: Callable[[int], None]
) -> CausalGraph:
    """The graph that a model was fitted with; with `bootstrap`, how sure its edges are in the data it was fitted on."""
    check_model(folder)
    kept = CausalGraph.from_dict(read(folder, KIND).content.get("graph"))
    if not bootstrap:
        return kept
    fcx = load_model(folder, classifier)
    data = own_data(folder, fcx.task_.schema)
    settings: dict[str, Any] = {"alpha": fcx.alpha, "n_effective": fcx.n_effective, "seed": fcx.seed}
    again = discover(data.train, fcx.task_.schema, bootstrap=bootstrap, on_resample=on_resample, **settings)
    if replace(again, support=()) != replace(kept, support=()):
        problem = "its graph was given, or its data has changed: resamples say nothing about it"
        remedy = "Leave --bootstrap out, or discover a graph in the data with --data."
        raise DataError("", [Fault(str(folder), problem, remedy)])
    return again


def discovered(
    data: str,
    label: str | None,
    schema_file: Path | None,
    *,
    ignore: Sequence[str],
    alpha: float | None,
    n_effective: int | None,
    bootstrap: int,
    seed: int,
    on_resample: Callable[[int], None],
) -> CausalGraph:
    """The graph of the training rows, as `fit` finds it, or of all complete rows of a table without a label."""
    settings: dict[str, Any] = {"bootstrap": bootstrap, "seed": seed, "on_resample": on_resample}
    settings |= {} if alpha is None else {"alpha": alpha}
    settings |= {} if n_effective is None else {"n_effective": n_effective or None}
    source = Source.of(data, label=label, seed=seed, schema=schema_file)
    if source.is_built_in or label is not None:
        loaded = source.load(ignore=ignore)
        return discover(loaded.train, loaded.schema, **settings)
    schema, rows, told = own_rows(source.data, schema_file, None, ignore)
    if told:
        warnings.warn(told, FcxWarning, stacklevel=2)
    return discover(rows, schema, **settings)
