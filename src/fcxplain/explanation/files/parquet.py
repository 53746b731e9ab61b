"""The parquet file of answers: columns that depend on the task alone, so that parts of a table can be joined.

One line per answer, or per row without one: the columns of `Explanation.frame`, the present row, and as JSON the
certificate, the reasons why there is no answer, and the rules of that row alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...errors import DataError, Fault
from ...files import replacing
from ...outcome import Outcome
from ...schema import Feature
from ...schema.definition import is_missing
from ...schema.feature import plain
from ...task import Task
from ..certificate import json_text, json_texts, model_id, rules_id
from ..frame import changed_names, column_named
from .digest import checked_key, with_digest

if TYPE_CHECKING:
    from ..explanation import Explanation

# Increase it whenever an older reader would misread a file, and say in `loading` how old files are handled.
FORMAT = 4
KEY = b"fcxplain"
NOW = "now: "
# Lines per row group, which have to fit in memory together.
ROW_GROUP = 20_000
COMPRESSION = "zstd"
# Fields with this mark hold JSON text, since their values are of several types.
AS_JSON = {KEY: b"json"}
# The columns before the features, and those after the features and present rows.
WHOLE, NUMBER, TEXT, TRUTH = pa.int64(), pa.float64(), pa.string(), pa.bool_()
DAY = pa.date32()
ABOUT = {
    "row": TEXT,  # or the type of the labels
    "rank": WHOLE,
    "status": TEXT,
    "wanted": TEXT,  # or the type of the classes
    "predicted": TEXT,
    "probability_now": NUMBER,
    "probability": NUMBER,
    "output_now": NUMBER,
    "output": NUMBER,
    "cost": NUMBER,
    "changes": WHOLE,
    "changed": TEXT,
}
BESIDE = {
    "answers": WHOLE,
    "calls": WHOLE,
    "soft_valid": TRUTH,
    "outcome": TEXT,  # the target as JSON, if it is more than one class
    "certificate": TEXT,
    "why_not": TEXT,
    "own": TEXT,
}
# The target, in the file's metadata.
ASKED = ("target", "target_probability")
OF_CLASSES, OF_NUMBERS = ("predicted", "probability_now", "probability"), ("output_now", "output")


def write_answers(answer: Explanation, path: str | Path, *, key: bytes | None = None) -> None:
    """Write an explanation with its digest, as a whole or not at all; see `read_answers`."""
    key = checked_key(key)
    with replacing(path) as temporary:
        table = with_digest(arrow_table(answer), key)
        pq.write_table(table, temporary, row_group_size=ROW_GROUP, compression=COMPRESSION)


# What the columns are


def about_columns(task: Task) -> dict[str, pa.DataType]:
    """The columns before the features, for a classifier or for a regressor."""
    absent = OF_NUMBERS if task.classes else OF_CLASSES
    return {name: kind for name, kind in ABOUT.items() if name not in absent}


def file_schema(task: Task, row: pa.Field) -> pa.Schema:
    """The columns of a file of answers: the same for any rows of a task with labels of one type."""
    kinds = {"row": row}
    if task.classes:
        kinds |= {name: _field(name, task.classes) for name in ("wanted", "predicted")}
    features = [_feature_field(f) for f in task.schema]
    fields = [
        *(
            kinds.get(name, pa.field(name, kind)).with_name(column_named(name, task))
            for name, kind in about_columns(task).items()
        ),
        *features,
        *(f.with_name(NOW + f.name) for f in features),
        *(pa.field(column_named(name, task), kind) for name, kind in BESIDE.items()),
    ]
    names = [f.name for f in fields]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        faults = [Fault(f"feature {n!r}", "has the name of another column of the file", "Rename it.") for n in twice]
        raise DataError("these answers cannot be written as parquet", faults)
    return pa.schema(fields, metadata=_for_pandas(tuple(fields)))


def label_column(index: pd.Index) -> tuple[pa.Field, pa.Array]:
    """Row labels as stored: in their own type if they have one, else as JSON."""
    index = pd.Index(np.asarray(index)) if isinstance(index, pd.CategoricalIndex) else index
    kind = pd.api.types.infer_dtype(index, skipna=False)
    known = {"string": TEXT, "integer": WHOLE, "floating": NUMBER, "boolean": TRUTH, "empty": TEXT}
    if kind in known:
        return pa.field("row", known[kind]), pa.array(index).cast(known[kind])
    if kind == "datetime64":
        return pa.field("row", pa.array(index).type), pa.array(index)
    field = pa.field("row", TEXT, metadata=AS_JSON)
    return field, value_array(index.tolist(), field)


def is_json(field: pa.Field) -> bool:
    """Whether a column holds values as JSON text."""
    return (field.metadata or {}).get(KEY) == AS_JSON[KEY]


def _feature_field(feature: Feature) -> pa.Field:
    if feature.is_category:
        return _field(feature.name, feature.levels)
    return pa.field(feature.name, {"integer": WHOLE, "date": DAY}.get(feature.kind, NUMBER))


def _field(name: str, values: Iterable[Any]) -> pa.Field:
    """A column for some of these values."""
    kinds = {type(plain(v)) for v in values}
    known = {str: TEXT, int: WHOLE, float: NUMBER, bool: TRUTH}
    kind = kinds.pop() if len(kinds) == 1 else None
    return pa.field(name, known[kind]) if kind in known else pa.field(name, TEXT, metadata=AS_JSON)


@lru_cache(maxsize=8)
def _for_pandas(fields: tuple[pa.Field, ...]) -> dict[bytes, bytes]:
    """Metadata that makes pandas read nullable integers as integers."""
    nullable = {WHOLE: pd.Int64Dtype(), TRUTH: pd.BooleanDtype()}
    empty = pa.schema(fields).empty_table().to_pandas(types_mapper=nullable.get)
    return dict(pa.Schema.from_pandas(empty, preserve_index=False).metadata)


# What stands in them


def arrow_table(answer: Explanation) -> pa.Table:
    """An explanation as an arrow table, with metadata."""
    task, lines = answer.task, _Lines.of(answer)
    row, labels = label_column(answer.rows.index)
    schema = file_schema(task, row)
    said = {"row": labels.take(lines.row), **_about(answer, lines), **_beside(answer, lines)}
    columns = {column_named(name, task): values for name, values in said.items()}
    for feature in task.schema:
        columns[feature.name] = _feature_array(feature, answer.answers, task).take(lines.answer)
        columns[NOW + feature.name] = _feature_array(feature, answer.rows, task).take(lines.row)
    arrays = [columns[field.name] for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema.with_metadata({**schema.metadata, KEY: _word(answer)}))


@dataclass(frozen=True)
class _Lines:
    """For each line of the file, the number of its answer, if it has one, and the position of its row."""

    answer: pa.Array
    row: pa.Array

    @classmethod
    def of(cls, answer: Explanation) -> _Lines:
        number, row = answer.lines
        return cls(pa.array(number, mask=number < 0), pa.array(row))


def _about(answer: Explanation, lines: _Lines) -> dict[str, pa.Array]:
    task, checks = answer.task, answer.checks
    passed = pa.array(np.where(checks.passed, "verified", "best_effort"), TEXT).take(lines.answer)
    score, said = "probability" if task.classes else "output", {}
    if task.classes:
        predicted = value_array(checks.predicted.tolist(), _field("predicted", task.classes))
        said["predicted"] = predicted.take(lines.answer)
    return said | {
        "rank": pa.array(answer.rank, WHOLE).take(lines.answer),
        "status": pc.coalesce(passed, pa.array(answer.row_status, TEXT).take(lines.row)),
        "wanted": _wanted_array(answer).take(lines.row),
        f"{score}_now": pa.array(answer.score_now, NUMBER, from_pandas=True).take(lines.row),
        score: pa.array(checks.score, NUMBER, from_pandas=True).take(lines.answer),
        "cost": pa.array(checks.cost, NUMBER, from_pandas=True).take(lines.answer),
        "changes": pa.array(checks.changes, WHOLE).take(lines.answer),
        "changed": pa.array(changed_names(checks.changed, task.schema.names), TEXT).take(lines.answer),
    }


def _beside(answer: Explanation, lines: _Lines) -> dict[str, pa.Array]:
    nothing = pa.nulls(len(answer), TEXT)
    own = nothing if answer.own is None else pa.array([text or None for text in answer.own.to_json()], TEXT)
    reasons = {place: json_text(reason.to_dict()) for place, reason in answer.reasons.items()}
    calls = nothing.cast(WHOLE) if answer.calls is None else pa.array(answer.calls, WHOLE)
    soft = pa.nulls(len(answer.answers), TRUTH) if answer.soft_valid is None else pa.array(answer.soft_valid, TRUTH)
    return {
        "answers": pa.array(np.bincount(answer.place, minlength=len(answer)), WHOLE).take(lines.row),
        "calls": calls.take(lines.row),
        "soft_valid": soft.take(lines.answer),
        "outcome": pa.array([_outcome_text(w) for w in answer.wanted.tolist()], TEXT).take(lines.row),
        "certificate": pa.array(json_texts(answer.certificates), TEXT).take(lines.answer),
        "why_not": pa.array([reasons.get(i) for i in range(len(answer))], TEXT).take(lines.row),
        "own": own.take(lines.row),
    }


def _wanted_array(answer: Explanation) -> pa.Array:
    """The targets: classes; for other outcomes text, or missing if classes are not text."""
    field = _field("wanted", answer.task.classes) if answer.task.classes else pa.field("wanted", TEXT)
    is_text = field.type == TEXT and not is_json(field)
    found = ((str(w) if is_text else None) if isinstance(w, Outcome) else w for w in answer.wanted.tolist())
    return value_array(found, field)


def _outcome_text(wanted: Any) -> str | None:
    return json_text(wanted.to_data()) if isinstance(wanted, Outcome) else None


def value_array(values: Iterable[Any], field: pa.Field) -> pa.Array:
    """Values as stored in this column."""
    listed = [None if is_missing(v) else plain(v) for v in values]
    if is_json(field):
        return pa.array([None if v is None else json_text(v) for v in listed], TEXT)
    try:
        return pa.array(listed, field.type)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise _unwritable(field, str(error)) from error


def _feature_array(feature: Feature, table: pd.DataFrame, task: Task) -> pa.Array:
    """A column in the schema's own values, whatever its dtype; illegal values are written as they are."""
    field, natural = _feature_field(feature), task.schema.natural(table, [feature.name])[feature.name]
    if feature.is_number:
        try:
            found = pa.array(natural, NUMBER, from_pandas=True)
            return (found.cast(pa.int32()) if feature.kind == "date" else found).cast(field.type)
        except pa.ArrowInvalid as error:
            raise _unwritable(field, str(error)) from error
    if (natural < 0).any():
        return value_array(table[feature.name].tolist(), field)
    return value_array(feature.levels, field).take(pa.array(natural))


def _unwritable(field: pa.Field, reason: str) -> DataError:
    fault = Fault(f"column {field.name!r}", f"holds values that are not {field.type} ({reason})", "Write JSON instead.")
    return DataError("these answers cannot be written as parquet", [fault])


def asked_for(task: Task) -> dict[str, Any]:
    """The stored form of the target of rows without their own."""
    target = task.target.to_data() if isinstance(task.target, Outcome) else task.target
    return dict(zip(ASKED, (json.loads(json_text(target)), task.target_probability), strict=True))


def _word(answer: Explanation) -> bytes:
    about = {
        "format": FORMAT,
        "method": answer.method,
        "notes": list(answer.notes),
        "effort": asdict(answer.effort),
        "seed": answer.task.seed,
        "draws": answer.draws,
        "labels": list(answer.rows.index.names),
        "rows": len(answer),
        "counts": answer.counts,
        "model": model_id(answer.task),
        "rules": rules_id(answer.task.schema, [rule.text for rule in answer.task.rules]),
        **asked_for(answer.task),
    }
    return json_text(about).encode()
