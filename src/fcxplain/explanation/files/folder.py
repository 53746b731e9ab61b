"""A folder of answers: parquet files and a manifest.

The manifest is JSON: the metadata of a file of answers (model, rules, counts by status, effort, ...) for all of them,
the options, the input files, each part with its rows and digest, failures with reasons, and an overall digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from ...errors import Fault, FormatError
from ...storage import Place
from .digest import stored_digest

MANIFEST = "manifest.json"
_OURS = re.compile(r"part-\d{6,}\.parquet|manifest\.json")
# Increase it whenever an older reader would misread a manifest.
FOLDER_FORMAT = 1
ITSELF = "the manifest"


def part_name(number: int) -> str:
    """The file name of a part."""
    return f"part-{number:06d}.parquet"


def is_part(name: str) -> bool:
    """Whether a file name is that of a part."""
    return name != MANIFEST and _OURS.fullmatch(name) is not None


def is_ours(name: str) -> bool:
    """Whether a file name is that of a part or the manifest, complete or being written."""
    return _OURS.fullmatch(name) is not None or (name.startswith(".") and _OURS.match(name, 1) is not None)


def read_manifest(folder: Place) -> dict[str, Any] | None:
    """The content of the manifest, or None if it cannot be read."""
    try:
        about = json.loads((folder / MANIFEST).read())
        known = isinstance(about["parts"], list) and all(isinstance(p["name"], str) for p in about["parts"])
        return about if known and all(is_part(p["name"]) for p in about["parts"]) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def ended_manifest(folder: Place) -> dict[str, Any]:
    """The manifest of a finished run; any other is refused."""
    about = read_manifest(folder)
    if about is None:
        problem, remedy = (
            f"is a folder without a readable {MANIFEST}",
            "Give what explain wrote, or explain again.",
        )
        raise FormatError("", [Fault(str(folder), problem, remedy)])
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
