"""A schema as a TOML file that people edit by hand."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomlkit

from ..errors import Fault, SchemaError, did_you_mean, reading_error
from ..files import write_whole
from .definition import is_text
from .feature import Feature
from .inference import Guess

SECTIONS = ("features", "classes")
Content = tuple[tuple[Feature, ...], Mapping[str, str]]
"""The content of a schema file: its features, and readable names of classes."""
FIELDS = tuple(field.name for field in dataclasses.fields(Feature) if field.name != "name")
_HEADER = (
    "The table's schema: a section for each feature. A column without a section is left out.",
    "Correct what was guessed, and read it back with --schema, or with Schema.from_toml.",
    "",
    "kind      integer, continuous, date, categorical (levels without an order) or ordinal (levels from low to high)",
    'low, high the least and the greatest value of an answer; for a date, "2026-12-31"',
    "step      the distance between values of a number; or give decimals = 2",
    "levels    every value of a category; for an ordinal one, in order",
    "ranks     for an ordinal one, a whole number for each level; equal numbers are ties",
    "mutable   false: answers leave it as it is, for instance because nobody can change it",
    "label     a readable name;   unit: what it is measured in, such as years",
    "guessed   which of low, high and levels were inferred from a table: answers respect them, rows need not.",
    "          Delete what you confirm: rows beyond it are then refused",
    "missing   kept (a gap stays), may_be_filled (an answer may fill it) or never (such a row is refused)",
    'labels    readable names of levels: labels = {HS-grad = "high school diploma"}; others stay',
    "",
    'Readable names of classes go into a separate section: [classes], then e.g. 1 = "approved".',
)


def fields_of(feature: Feature) -> dict[str, Any]:
    """The fields worth writing: those that are set, and always whether the feature may change."""
    bounds: list[Any] = [feature.low, feature.high]
    if feature.kind == "date":
        bounds = [None if day is None else feature.text(day) for day in bounds]
    is_usual = feature.kind != "continuous" and feature.step == 1
    every = {
        "kind": feature.kind,
        "low": bounds[0],
        "high": bounds[1],
        "step": None if is_usual else feature.step,
        "levels": list(feature.levels) if feature.is_category else None,
        "ranks": list(feature.ranks) if feature.kind == "ordinal" else None,
        "mutable": feature.mutable,
        "guessed": list(feature.guessed) or None,
        "missing": feature.missing,
        "label": feature.label or None,
        "unit": feature.unit or None,
        "labels": {str(level): label for level, label in feature.labels.items()} or None,
    }
    return {field: value for field, value in every.items() if value is not None}


def content_from(data: Mapping[str, Any]) -> Content:
    """Features and class labels from parsed TOML or JSON; every fault is listed."""
    unknown = [key for key in data if key not in SECTIONS]
    faults = [Fault(f"[{k}]", "is not known", did_you_mean(k, SECTIONS)) for k in unknown]
    classes = data.get("classes", {})
    faults += class_faults(classes)
    tables = data.get("features")
    if not isinstance(tables, Mapping) or not tables:
        faults.append(Fault("[features.NAME]", "is needed once for each feature"))
        tables = {}
    features = []
    for name, fields in tables.items():
        try:
            features.append(_feature(name, fields))
        except SchemaError as error:
            faults += error.faults
    if faults:
        raise SchemaError("the schema file has mistakes", faults)
    return tuple(features), classes


def class_faults(classes: Any) -> list[Fault]:
    """What is wrong with the labels of classes."""
    if not isinstance(classes, Mapping):
        return [Fault("[classes]", "is not a table", 'Write [classes], and below it e.g. 1 = "approved".')]
    return [
        Fault(f"[classes] {name}", f"is {label!r}, not text")
        for name, label in classes.items()
        if not is_text(label) or not label.strip()
    ]


def _feature(name: str, fields: Any) -> Feature:
    place = f"feature {name!r}"
    if not isinstance(fields, Mapping):
        fault = Fault(place, "is not a table", f"Write [features.{name}] and its fields below.")
        raise SchemaError("", [fault])
    faults = [Fault(place, f"no field {k!r}", did_you_mean(k, FIELDS)) for k in fields if k not in FIELDS]
    if "kind" not in fields:
        faults.append(Fault(place, "has no kind", f'Write e.g. kind = "{_likely_kind(fields)}".'))
    known = {k: v for k, v in fields.items() if k in FIELDS}
    try:
        # A placeholder kind, so that a missing one does not hide other faults.
        feature = Feature(name, **{"kind": _likely_kind(fields), **known})
    except SchemaError as error:
        faults += error.faults
    if faults:
        raise SchemaError("", faults)
    return feature


def _likely_kind(fields: Mapping[str, Any]) -> str:
    if "levels" in fields or "ranks" in fields:
        return "ordinal" if "ranks" in fields else "categorical"
    return "continuous" if "step" in fields or "decimals" in fields else "integer"


def read(source: str | Path) -> Content:
    """Features and labels of classes from a TOML file, or from TOML text (a string with a line break)."""
    if isinstance(source, str) and "\n" in source:
        text, place = source, "schema"
    else:
        place = str(source)
        try:
            text = Path(source).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise reading_error(SchemaError, error)(f"cannot read the schema file {place}: {error}") from error
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SchemaError(f"{place} is not valid TOML: {error}") from error
    return content_from(data)


def write(
    features: Iterable[Feature], guesses: Iterable[Guess], classes: Mapping[str, str], path: str | Path | None
) -> str:
    """TOML text with a comment for each guess; written whole or not at all."""
    reasons = {g.feature: str(g) for g in guesses}
    document, tables = tomlkit.document(), tomlkit.table(is_super_table=True)
    for line in _HEADER:
        document.add(tomlkit.comment(line))
    for feature in features:
        table = tomlkit.table()
        if feature.name in reasons:
            table.add(tomlkit.comment(one_line(reasons[feature.name])))
        for key, value in fields_of(feature).items():
            table.add(key, value)
        tables.add(feature.name, table)
    document.add("features", tables)
    if classes:
        document.add("classes", tomlkit.item(dict(classes)))
    text = tomlkit.dumps(document)
    if path is not None:
        try:
            write_whole(Path(path), text)
        except OSError as error:
            problem = f"cannot write the schema file {path}: {error.strerror or error}"
            raise reading_error(SchemaError, error)(problem) from error
    return text


def one_line(text: str) -> str:
    """Text that a comment can hold."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
