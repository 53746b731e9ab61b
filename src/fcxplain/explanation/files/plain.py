"""An explanation as plain data, as it stands in JSON and in CSV."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pandas.api.types import is_numeric_dtype

from ...datasets.delimited import guarded
from ...files import write_whole
from ..certificate import labels, written

if TYPE_CHECKING:
    from ..explanation import Explanation


def data_of(explanation: Explanation) -> dict[str, Any]:
    """Notes, statuses, reasons, and the certificates with all values; see `Explanation.to_dict`."""
    e = explanation
    return {
        "method": e.method,
        "notes": list(e.notes),
        "counts": e.counts,
        "rows": _rows(e),
        "answers": [
            certificate.to_dict() | {"counterfactual": counterfactual}
            for certificate, counterfactual in zip(e.certificates, _counterfactuals(e), strict=True)
        ],
    }


def _rows(e: Explanation) -> list[dict[str, Any]]:
    lines = zip(labels(e.rows.index), e.row_status.tolist(), e.wanted.tolist(), strict=True)
    told = [{"row": written(row), "status": status, "wanted": written(wanted)} for row, status, wanted in lines]
    for position, reason in e.reasons.items():
        told[position]["why_not"] = reason.to_dict()
    return told


def _counterfactuals(e: Explanation) -> list[dict[str, Any]]:
    names = e.task.schema.names
    columns = [[written(v) for v in e.answers[name].tolist()] for name in names]
    return [dict(zip(names, line, strict=True)) for line in zip(*columns, strict=True)]


def without_nan(data: Any) -> Any:
    """Plain data in which what is no number is None, as JSON has it."""
    if isinstance(data, dict):
        return {key: without_nan(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [without_nan(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def write_answers(explanation: Explanation, path: Path, key: bytes | None = None) -> None:
    """Answers as parquet or JSON, with their certificates, or as CSV that no spreadsheet takes for formulas."""
    if path.suffix.lower() == ".parquet":
        explanation.to_parquet(path, key=key)
    elif path.suffix.lower() == ".json":
        explanation.to_json(path)
    else:
        # Our own readers take the guards off again.
        safe = explanation.frame.apply(lambda column: column if is_numeric_dtype(column) else column.map(guarded))
        write_whole(path, str(safe.rename(columns=guarded).to_csv(index=False, lineterminator="\n")))
