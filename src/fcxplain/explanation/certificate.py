"""The certificate of one counterfactual: what was checked of it, for a person to read and for a program.

It says nothing that was not found out anew from the decoded row; see `checks`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from .glance import certificate_glance
from .statement import headline, stated

# Types of values that are the same in JSON.
PLAIN = frozenset({str, int, bool, type(None)})


@dataclass(frozen=True)
class RuleVerdict:
    """One rule on one counterfactual, with the values that it is about."""

    rule: str
    words: str
    kept: bool
    now: dict[str, Any]
    then: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        now, then = _written(self.now), _written(self.then)
        return {"rule": self.rule, "words": self.words, "kept": self.kept, "now": now, "then": then}


@dataclass(frozen=True)
class Change:
    """One feature that differs; `title` and `unit` are what people call it and count it in."""

    feature: str
    now: Any
    then: Any
    title: str = ""
    unit: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        now, then = written(self.now), written(self.then)
        return {"feature": self.feature, "now": now, "then": then, "title": self.title, "unit": self.unit}


@dataclass(frozen=True, repr=False)
class Certificate:
    """What was checked of one counterfactual, readable by a person (`print` it) and by a program (`to_dict`)."""

    row: Any
    """The row's label in the index of the rows asked."""
    rank: int
    status: str
    method: str
    found_by: str
    wanted: Any
    predicted: Any
    probability: float
    valid: bool
    feasible: bool
    in_domain: bool
    immutables_kept: bool
    cost: float
    changes: tuple[Change, ...]
    rules: tuple[RuleVerdict, ...]
    density: float | None = None
    """Local outlier factor against training rows: 1 where it is as dense there as around its neighbours."""
    draws: int = 0
    """Proposals of the network for the row."""
    calls: int | None = None
    """Candidates of the row that the user's model was asked about; None where nobody counted."""
    model: str | None = None
    """A fingerprint of the model's answers; None where it has none to the rows it was asked about."""
    rules_id: str = ""
    """A fingerprint of the features and of the rules that the row has to keep."""
    cut_short: bool | None = None
    """Whether the row's budget ended before the search did, which might have found better; None where nobody told."""

    @property
    def passed(self) -> bool:
        """Whether everything that was checked holds."""
        return self.valid and self.feasible and self.in_domain and self.immutables_kept

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it stands in JSON; `certificate_schema` describes it."""
        # Files of before it was told have none.
        told = {} if self.cut_short is None else {"cut_short": self.cut_short}
        # Name by name: `asdict` copies values that cannot change, which takes twenty times as long.
        return {
            "row": written(self.row),
            "rank": self.rank,
            "status": self.status,
            "method": self.method,
            "found_by": self.found_by,
            "wanted": written(self.wanted),
            "predicted": written(self.predicted),
            "probability": written(self.probability),
            "valid": self.valid,
            "feasible": self.feasible,
            "in_domain": self.in_domain,
            "immutables_kept": self.immutables_kept,
            "passed": self.passed,
            "cost": written(self.cost),
            "changes": [change.to_dict() for change in self.changes],
            "rules": [rule.to_dict() for rule in self.rules],
            "density": self.density,
            "draws": self.draws,
            "calls": self.calls,
            "model": self.model,
            "rules_id": self.rules_id,
            **told,
        }

    def __str__(self) -> str:
        return stated(self)

    def __repr__(self) -> str:
        return f"<{headline(self)}>"

    def _repr_html_(self) -> str:
        return certificate_glance(self).html()


def certificate_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `Certificate.to_dict()`."""
    found: dict[str, Any] = json.loads(files(__package__).joinpath("certificate.schema.json").read_text("utf-8"))
    return found


def written(value: Any) -> Any:
    """A value, class or label as JSON has it: what is no number is None, what JSON does not know is text."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, tuple):
        return [written(part) for part in value]
    if isinstance(value, np.generic):
        return written(value.item())
    return None if value is pd.NA or value is pd.NaT else str(value)


def _written(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value if type(value) in PLAIN else written(value) for name, value in values.items()}
