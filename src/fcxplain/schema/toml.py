"""A schema as a TOML file that people edit by hand."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomlkit

from ..errors import Fault, SchemaError, did_you_mean
from .feature import Feature
from .inference import Guess

FIELDS = ("kind", "low", "high", "step", "decimals", "levels", "ranks", "mutable", "label", "unit")
_HEADER = (
    "The table's schema. kind: integer, continuous, categorical or ordinal.",
    "Numbers: low, high and step (or decimals). Categories: levels; ordinal ones also ranks, ties allowed.",
    "mutable = false: the feature may not change. label and unit are for people.",
)


def fields_of(feature: Feature) -> dict[str, Any]:
    """The fields worth writing: those that are set, and always whether the feature may change."""
    data: dict[str, Any] = {"kind": feature.kind}
    if feature.is_number:
        known = {"low": feature.low, "high": feature.high}
        if feature.kind == "continuous" or feature.step != 1:
            known["step"] = feature.step
        data |= {k: v for k, v in known.items() if v is not None}
    else:
        data["levels"] = list(feature.levels)
        if feature.kind == "ordinal":
            data["ranks"] = list(feature.ranks)
    data["mutable"] = feature.mutable
    return data | {k: v for k, v in (("label", feature.label), ("unit", feature.unit)) if v}


def features_from(data: Mapping[str, Any]) -> tuple[Feature, ...]:
    """Features from parsed TOML or JSON; every fault is listed."""
    tables = data.get("features")
    if not isinstance(tables, Mapping) or not tables:
        raise SchemaError("a schema file needs a table [features.NAME] for each feature")
    features, faults = (
        [],
        [Fault(k, "is not known; only [features.NAME] is") for k in data if k != "features"],
    )
    for name, fields in tables.items():
        place = f"feature {name!r}"
        if not isinstance(fields, Mapping):
            faults.append(Fault(place, "is not a table", f"Write [features.{name}] and its fields below."))
            continue
        unknown = [k for k in fields if k not in FIELDS]
        faults += [Fault(place, f"no field {k!r}", did_you_mean(k, FIELDS)) for k in unknown]
        if "kind" not in fields:
            faults.append(Fault(place, "has no kind", 'Write e.g. kind = "integer".'))
            continue
        try:
            features.append(_feature(name, {k: v for k, v in fields.items() if k in FIELDS}))
        except SchemaError as error:
            faults += error.faults
        except (TypeError, ValueError, OverflowError) as error:
            faults.append(Fault(place, f"has a field of the wrong type: {error}"))
    if faults:
        raise SchemaError("the schema file has mistakes", faults)
    return tuple(features)


def _feature(name: str, fields: dict[str, Any]) -> Feature:
    for key in ("levels", "ranks"):
        if key in fields:
            if not isinstance(fields[key], list | tuple):
                raise SchemaError(
                    "", [Fault(f"feature {name!r}", f"{key} is not a list", f"Write {key} = [...].")]
                )
            fields[key] = tuple(fields[key])
    if not isinstance(fields.get("mutable", True), bool):
        raise SchemaError("", [Fault(f"feature {name!r}", "mutable is neither true nor false")])
    return Feature(name, **fields)


def read(source: str | Path) -> tuple[Feature, ...]:
    """Features from a TOML file, or from TOML text (a string with a line break)."""
    if isinstance(source, str) and "\n" in source:
        text, place = source, "schema"
    else:
        place = str(source)
        try:
            text = Path(source).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(f"cannot read the schema file {place}: {error}") from error
    try:
        return features_from(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(f"{place} is not valid TOML: {error}") from error


def write(features: Iterable[Feature], guesses: Iterable[Guess], path: str | Path | None) -> str:
    """TOML text with a comment for each guess; written whole or not at all."""
    reasons = {g.feature: str(g) for g in guesses}
    document, tables = tomlkit.document(), tomlkit.table(is_super_table=True)
    for line in _HEADER:
        document.add(tomlkit.comment(line))
    for feature in features:
        table = tomlkit.table()
        if feature.name in reasons:
            table.add(tomlkit.comment(_one_line(reasons[feature.name])))
        for key, value in fields_of(feature).items():
            table.add(key, value)
        tables.add(feature.name, table)
    document.add("features", tables)
    text = tomlkit.dumps(document)
    if path is not None:
        write_whole(Path(path), text)
    return text


def write_whole(path: Path, text: str) -> None:
    """Write to a temporary name beside the target, then rename, so that nothing is ever half written."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
