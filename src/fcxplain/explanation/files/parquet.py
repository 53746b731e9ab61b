"""The parquet file of answers: columns that depend on the task alone, so that parts of a table can be joined; and a
folder of such files with a manifest.

One line per answer, or per row without one: the columns of `Explanation.frame`, the present row, and as JSON the
certificate, the reasons why there is no answer, and the rules of that row alone. The manifest is JSON: the metadata of
a file for all parts, the options, the input files, each part with its rows and digest, failures with reasons, and an
overall digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...errors import DataError, Fault, FormatError
from ...files import replacing
from ...outcome import Outcome
from ...schema import Feature
from ...schema.definition import is_missing
from ...schema.feature import plain
from ...storage import Place
from ...task import Task
from ..certificate import json_text, json_texts, model_id, rules_id
from ..frame import column_named, of_answers
from .digest import checked_key, stored_digest, with_digest

if TYPE_CHECKING:
    from ..explanation import Explanation

# Increase it whenever an older reader would misread a file.
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
    about = [kinds.get(name, pa.field(name, kind)) for name, kind in about_columns(task).items()]
    fields = [
        *(f.with_name(column_named(f.name, task)) for f in about),
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
    task, (number, row) = answer.task, answer.lines
    label, labels = label_column(answer.rows.index)
    now = {column_named(name, task): values for name, values in ({"row": labels} | _of_rows(answer)).items()}
    then = {column_named(name, task): values for name, values in _of_answers(answer).items()}
    for feature in task.schema:
        now[NOW + feature.name] = _feature_array(feature, answer.rows, task)
        then[feature.name] = _feature_array(feature, answer.answers, task)
    now = {name: values.take(pa.array(row)) for name, values in now.items()}
    then = {name: values.take(pa.array(number, mask=number < 0)) for name, values in then.items()}
    status, schema = column_named("status", task), file_schema(task, label)
    columns = now | then | {status: pc.coalesce(then[status], now[status])}
    said = schema.with_metadata({**schema.metadata, KEY: _word(answer)})
    return pa.Table.from_arrays([columns[field.name] for field in schema], schema=said)


def _of_rows(answer: Explanation) -> dict[str, pa.Array]:
    """The columns that are about rows."""
    wanted, classes = answer.wanted.tolist(), answer.task.classes
    field = _field("wanted", classes) if classes else pa.field("wanted", TEXT)
    # Other outcomes than classes are text, or missing if classes are not text.
    is_text = field.type == TEXT and not is_json(field)
    named = [(str(w) if is_text else None) if isinstance(w, Outcome) else w for w in wanted]
    outcomes = [json_text(w.to_data()) if isinstance(w, Outcome) else None for w in wanted]
    reasons = {place: json_text(reason.to_dict()) for place, reason in answer.reasons.items()}
    nothing = [None] * len(answer)
    own = nothing if answer.own is None else [text or None for text in answer.own.to_json()]
    return {
        "status": pa.array(answer.row_status, TEXT),
        "wanted": value_array(named, field),
        "probability_now" if classes else "output_now": pa.array(answer.score_now, NUMBER, from_pandas=True),
        "answers": pa.array(np.bincount(answer.place, minlength=len(answer)), WHOLE),
        "calls": pa.array(nothing if answer.calls is None else answer.calls, WHOLE),
        "outcome": pa.array(outcomes, TEXT),
        "why_not": pa.array([reasons.get(i) for i in range(len(answer))], TEXT),
        "own": pa.array(own, TEXT),
    }


def _of_answers(answer: Explanation) -> dict[str, pa.Array]:
    """The columns that are about answers."""
    found = of_answers(answer)
    predicted = found.pop("predicted", None)
    columns = {name: pa.array(values, ABOUT[name], from_pandas=True) for name, values in found.items()}
    if predicted is not None:
        columns["predicted"] = value_array(predicted.tolist(), _field("predicted", answer.task.classes))
    soft = [None] * len(answer.answers) if answer.soft_valid is None else answer.soft_valid
    return columns | {
        "soft_valid": pa.array(soft, TRUTH),
        "certificate": pa.array(json_texts(answer.certificates), TEXT),
    }


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
    return {"target": json.loads(json_text(target)), "target_probability": task.target_probability}


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


# A folder of such files

MANIFEST = "manifest.json"
_PART, _OURS = re.compile(r"part-\d{6,}\.parquet"), re.compile(r"part-\d{6,}\.parquet|manifest\.json")
# Increase it whenever an older reader would misread a manifest.
FOLDER_FORMAT = 1
ITSELF = "the manifest"


def part_name(number: int) -> str:
    """The file name of a part."""
    return f"part-{number:06d}.parquet"


def is_part(name: str) -> bool:
    """Whether a file name is that of a part."""
    return _PART.fullmatch(name) is not None


def is_ours(name: str) -> bool:
    """Whether a file name is that of a part or the manifest, complete or being written."""
    return name == MANIFEST or is_part(name) or (name.startswith(".") and _OURS.match(name, 1) is not None)


def read_manifest(folder: Place) -> dict[str, Any] | None:
    """The content of the manifest, or None if it cannot be read."""
    try:
        about = json.loads((folder / MANIFEST).read())
        is_list = isinstance(about["parts"], list)
        return about if is_list and all(is_part(part["name"]) for part in about["parts"]) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def ended_manifest(folder: Place) -> dict[str, Any]:
    """The manifest of a finished run; any other is refused."""
    about = read_manifest(folder)
    if about is None:
        problem = f"is a folder without a readable {MANIFEST}"
        raise FormatError("", [Fault(str(folder), problem, "Give what explain wrote, or explain again.")])
    if about.get("folder_format") != FOLDER_FORMAT:
        problem = f"has format {about.get('folder_format')}, this fcxplain reads {FOLDER_FORMAT}"
        raise FormatError("", [Fault(str(folder), problem, "Upgrade, or explain again.")])
    if not about.get("ended"):
        remedy = "Explain again with the same options to resume it."
        raise FormatError("", [Fault(str(folder), "belongs to an unfinished run", remedy)])
    return about


def write_manifest(folder: Place, about: dict[str, Any], key: bytes | None = None) -> None:
    """Write a manifest; that of a finished run gets a digest over the parts and over its content."""
    if about["ended"]:
        parts = {part["name"]: part["digest"] for part in about["parts"]}
        about = about | {"digest": stored_digest({**parts, ITSELF: own_digest(about)}, key)}
    (folder / MANIFEST).write((json.dumps(about, indent=1, ensure_ascii=False, default=str) + "\n").encode())


def own_digest(about: dict[str, Any]) -> str:
    """A digest of everything in a manifest except its digest."""
    said = {name: value for name, value in about.items() if name != "digest"}
    return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=False, default=str).encode()).hexdigest()


def answer_files(path: str | Path) -> list[Place]:
    """The files of answers: one file, or those named in the manifest of a folder, in order."""
    place = Place.of(path)
    return [place / part["name"] for part in ended_manifest(place)["parts"]] if place.is_folder else [place]
