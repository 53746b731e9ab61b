"""A folder of answers: parquet files of so many rows each, and a manifest that says what they are.

The manifest is JSON: what one file of answers says of itself (model, rules, counts by status, effort, ...) for all of
them, the options, the files of rows, each part with its rows and digest, what failed and why, and a digest over all.
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
# Raise it whenever a reader of the number before would misread a manifest.
FOLDER_FORMAT = 1
ITSELF = "the manifest"


def part_name(number: int) -> str:
    """What a part is called."""
    return f"part-{number:06d}.parquet"


def is_part(name: str) -> bool:
    """Whether a file is called as a part is."""
    return name != MANIFEST and _OURS.fullmatch(name) is not None


def is_ours(name: str) -> bool:
    """Whether a file is called as a part or the manifest is, or as either while it is being written."""
    return _OURS.fullmatch(name) is not None or (name.startswith(".") and _OURS.match(name, 1) is not None)


def is_answer_folder(path: str | Path) -> bool:
    """Whether there is a folder with a manifest."""
    return (Place.of(path) / MANIFEST).is_file


def read_manifest(folder: Place) -> dict[str, Any] | None:
    """What the manifest says, or None where there is none that can be read."""
    try:
        about = json.loads((folder / MANIFEST).read())
        known = isinstance(about["parts"], list) and all(isinstance(p["name"], str) for p in about["parts"])
        return about if known and all(is_part(p["name"]) for p in about["parts"]) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def ended_manifest(folder: Place) -> dict[str, Any]:
    """What the manifest says of a run that has ended; any other is refused."""
    about = read_manifest(folder)
    if about is None:
        problem, remedy = (
            f"is a folder without a {MANIFEST} that can be read",
            "Give what explain wrote, or explain again.",
        )
        raise FormatError("", [Fault(str(folder), problem, remedy)])
    if about.get("folder_format") != FOLDER_FORMAT:
        problem = f"has format {about.get('folder_format')}, this fcxplain reads {FOLDER_FORMAT}"
        raise FormatError("", [Fault(str(folder), problem, "Upgrade, or explain again.")])
    if not about.get("ended"):
        remedy = "Explain with the same options again: it goes on from there."
        raise FormatError("", [Fault(str(folder), "is of a run that has not ended", remedy)])
    return about


def write_manifest(folder: Place, about: dict[str, Any], key: bytes | None = None) -> None:
    """Write a manifest; of a run that has ended with a digest over the parts and over what it says."""
    if about["ended"]:
        parts = {part["name"]: part["digest"] for part in about["parts"]}
        about = about | {"digest": stored_digest({**parts, ITSELF: own_digest(about)}, key)}
    (folder / MANIFEST).write((json.dumps(about, indent=1, ensure_ascii=False, default=str) + "\n").encode())


def own_digest(about: dict[str, Any]) -> str:
    """A digest of all that a manifest says beside its digest."""
    said = {name: value for name, value in about.items() if name != "digest"}
    return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=False, default=str).encode()).hexdigest()


def answer_files(path: str | Path) -> list[Place]:
    """The files of answers: one, or those that the manifest of a folder names, in their order."""
    place = Place.of(path)
    return [place / part["name"] for part in ended_manifest(place)["parts"]] if place.is_folder else [place]
