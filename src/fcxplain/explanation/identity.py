"""Which model and which rules a certificate speaks of: short fingerprints, the same wherever these are the same.

A model is known by its answers to fixed legal rows, drawn from the schema's own grid. So a model that was saved and
loaded, or moved to a machine that rounds differently, is still itself, and one that was trained anew is another.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..classifier.rows import legal_rows
from ..fingerprint import fingerprint
from ..schema import Schema
from ..task import Task

if TYPE_CHECKING:
    from ..overrides import Overrides

logger = logging.getLogger(__name__)

# Rows that a model is asked about, and digits of a fingerprint.
PROBES, DIGITS = 1_024, 16

_MODELS: WeakKeyDictionary[Task, str | None] = WeakKeyDictionary()


def model_id(task: Task) -> str | None:
    """A fingerprint of the model's classes, threshold and answers; None where it fails on rows of this schema.

    The model is asked about 1,024 rows, once for each task.
    """
    if task not in _MODELS:
        _MODELS[task] = _model_id(task)
    return _MODELS[task]


def rules_id(schema: Schema, rules: Sequence[str]) -> str:
    """A fingerprint of the features and of the texts of rules, in whatever order these stand."""
    features = json.dumps(schema.to_dict(), ensure_ascii=False, default=str)
    return fingerprint(features, sorted(set(rules)))[:DIGITS]


def rules_ids(task: Task, own: Overrides | None, place: NDArray[np.int64]) -> list[str]:
    """`rules_id` for each of these rows (by position), their own rules included."""
    common = [rule.text for rule in task.rules]
    if own is None:
        return [rules_id(task.schema, common)] * len(place)
    sets = [own.of_row[i] for i in place.tolist()]
    known = {s: rules_id(task.schema, [*common, *(own.rules[r].text for r in s)]) for s in set(sets)}
    return [known[s] for s in sets]


def _model_id(task: Task) -> str | None:
    rows = legal_rows(task.schema, PROBES, seed=_seed(task.schema), dtypes=task.encoder.dtypes_)
    try:
        answers = task.classifier.places(rows)
    except Exception as error:  # whatever a model of the user's own raises
        logger.info("no fingerprint of the model, since it does not answer %d legal rows: %s", PROBES, error)
        return None
    names = [str(name) for name in task.classes]
    return fingerprint(names, task.classifier.threshold, answers.tolist())[:DIGITS]


def _seed(schema: Schema) -> int:
    """Of the grid alone: what a feature is called by people, or whether it may change, is nothing to a model."""
    grid = [[f.name, f.kind, f.low, f.high, f.step, list(map(str, f.levels))] for f in schema]
    return int(fingerprint(grid)[:DIGITS], 16)
