"""The digest of a file of answers: a SHA-256 of each column and each entry of metadata, and one over all of them.

The layout of a file does not count: row groups, compression, encoding of text. With a key, the overall digest is an
HMAC. Without one, anyone who edits the file can recompute the digest.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, Fault

# The metadata entry with the digest.
DIGEST = b"fcxplain.digest"
ARROW = b"ARROW:schema"
PLAIN, KEYED = "sha256", "hmac-sha256"
# Shorter keys can be guessed.
SHORTEST = 16
TEXT = ("string", "large_string", "string_view")
LINES, ITSELF = "the number of lines", "the digest itself"
# Parts that are named when they differ.
NAMED = 12


class DigestState(StrEnum):
    """How a file compares with its digest."""

    MATCHES = "matches"
    KEY_NOT_GIVEN = "key not given"
    """Made with a key that was not given; everything that can be compared without it matches."""
    MISSING = "missing"
    CHANGED = "changed"
    WRONG_KEY = "wrong key"
    WITHOUT_KEY = "made without a key"
    """A key was given, so a digest without a key is not enough."""


WORDS = {
    DigestState.KEY_NOT_GIVEN: "was made with a key that was not given. Everything that can be compared without it "
    "matches: no accidental damage, no careless edit. Only the key (--key, key=) proves who wrote the file.",
    DigestState.MISSING: "there is none, so it is unknown whether something was edited. Explain again to get one.",
    DigestState.WRONG_KEY: "was made with another key than the one given.",
    DigestState.WITHOUT_KEY: "was made without a key, so the given key proves nothing: anyone could have made it.",
}

WITH_KEY = "matches, and was made with this key: the file is unchanged since an owner of the key wrote it."
NO_KEY = (
    "matches. It has no key: it detects accidental damage and careless edits, but anyone who edits the file on purpose "
    "can recompute it; only a key proves who wrote it."
)


@dataclass(frozen=True)
class DigestCheck:
    """The result of comparing a file with its digest; `changed` names the parts that differ."""

    state: DigestState
    with_key: bool
    """Whether a key was given."""
    changed: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the digest shows no sign of changes."""
        return self.state in (DigestState.MATCHES, DigestState.KEY_NOT_GIVEN)

    @property
    def words(self) -> str:
        """What the result proves, and what it does not."""
        if self.state is DigestState.CHANGED:
            more = f" and {len(self.changed) - NAMED} more" if len(self.changed) > NAMED else ""
            return f"does not match: {', '.join(self.changed[:NAMED])}{more} changed after the file was written."
        if self.state is not DigestState.MATCHES:
            return WORDS[self.state]
        return WITH_KEY if self.with_key else NO_KEY

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return vars(self) | {"state": str(self.state), "changed": list(self.changed), "words": self.words}


class Digest:
    """An incremental digest: pass the lines in order, in chunks of any size."""

    def __init__(self, schema: pa.Schema, beside: Mapping[bytes, bytes] | None = None) -> None:
        """`beside` is the metadata of the file itself: parquet stores those of a schema twice, for other readers."""
        known = schema.metadata or {}
        twice = {name: value for name, value in (beside or {}).items() if name != ARROW and known.get(name) != value}
        self.metadata = {name: value for name, value in known.items() if name != DIGEST}
        self.metadata |= {name + b" (for other readers)": value for name, value in twice.items()}
        self.lines, self.columns = 0, [_Column(field) for field in schema]

    def update(self, table: pa.Table) -> None:
        """The next lines."""
        self.lines += table.num_rows
        for column, values in zip(self.columns, table.columns, strict=True):
            for chunk in values.chunks:
                column.update(chunk)

    def stored(self, key: bytes | None = None) -> bytes:
        """The stored form, once all lines were passed."""
        return json.dumps(stored_digest(self.parts(), key), ensure_ascii=False).encode()

    def check(self, stored: bytes | None, key: bytes | None = None) -> DigestCheck:
        """Compare the stored digest with the lines that were passed."""
        return check_parts(self.parts(), stored, key)

    def whole(self) -> str:
        """One digest over everything, without the key."""
        return _whole(self.parts(), None)

    def parts(self) -> dict[str, str]:
        """The digest of each column and of each entry of metadata."""
        columns = {f"column {column.name!r}": column.digest() for column in self.columns}
        # Latin-1 maps different bytes to different text.
        beside = {f"metadata {k.decode('latin-1')!r}": hashlib.sha256(v).hexdigest() for k, v in self.metadata.items()}
        return {LINES: str(self.lines), **columns, **beside}


class _Column:
    """The digest of one column: which cells are present, their lengths and contents."""

    def __init__(self, field: pa.Field) -> None:
        self.name, self.kind = field.name, _kind(field.type)
        # The JSON mark changes how text is read; parquet's own notes on a field belong to its layout.
        marks = sorted(item for item in (field.metadata or {}).items() if not item[0].startswith(b"PARQUET:"))
        self.tag = f"{field.type if self.kind is None else self.kind} {marks}"
        self.present, self.lengths, self.content = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()

    def update(self, cells: pa.Array) -> None:
        """The next cells; the digest does not depend on how the arrays are chunked."""
        cells = _cast(cells, self.kind)
        self.present.update(_packed(cells.is_valid().cast(pa.uint8())))
        if not pa.types.is_large_binary(cells.type):
            self.content.update(_packed(cells.fill_null(0)))
            return
        cells = cells.fill_null(b"")
        self.lengths.update(_packed(pc.binary_length(cells)))
        _, ends, content = cells.buffers()
        start, end = np.frombuffer(ends, "<i8")[[cells.offset, cells.offset + len(cells)]] if len(cells) else (0, 0)
        if end > start:
            self.content.update(memoryview(content)[start:end])

    def digest(self) -> str:
        """Of all cells so far."""
        hashes = (self.present, self.lengths, self.content)
        return hashlib.sha256(self.tag.encode() + b"".join(h.digest() for h in hashes)).hexdigest()


def stored_digest(parts: dict[str, str], key: bytes | None) -> dict[str, Any]:
    """The digests of all parts and the overall one, as plain data."""
    return {"algorithm": PLAIN if key is None else KEYED, "whole": _whole(parts, key), "parts": parts}


def check_parts(parts: dict[str, str], stored: bytes | None, key: bytes | None = None) -> DigestCheck:
    """Compare the digests of parts with the JSON of `stored_digest`."""
    given = key is not None
    if stored is None:
        return DigestCheck(DigestState.MISSING, given)
    try:
        about = json.loads(stored)
        is_keyed, whole = about["algorithm"] == KEYED, str(about["whole"]).encode()
        before = {str(name): digest for name, digest in about["parts"].items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return DigestCheck(DigestState.CHANGED, given, (ITSELF,))
    changed = tuple(name for name in before | parts if before.get(name) != parts.get(name))
    if changed:
        # An added or missing line changes every column.
        return DigestCheck(DigestState.CHANGED, given, (LINES,) if LINES in changed else changed)
    if given != is_keyed:
        return DigestCheck(DigestState.KEY_NOT_GIVEN if is_keyed else DigestState.WITHOUT_KEY, given)
    if hmac.compare_digest(whole, _whole(parts, key).encode()):
        return DigestCheck(DigestState.MATCHES, given)
    return DigestCheck(DigestState.WRONG_KEY if is_keyed else DigestState.CHANGED, given, (ITSELF,))


def with_digest(table: pa.Table, key: bytes | None = None) -> pa.Table:
    """The table with its digest among the metadata."""
    digest = Digest(table.schema)
    digest.update(table)
    return table.replace_schema_metadata({**(table.schema.metadata or {}), DIGEST: digest.stored(key)})


def checked_key(key: bytes | None) -> bytes | None:
    """The key, if it is valid."""
    if key is None or (isinstance(key, bytes) and len(key) >= SHORTEST):
        return key
    problem = f"has {len(key)} bytes" if isinstance(key, bytes) else f"is a {type(key).__name__}, not bytes"
    raise DataError("", [Fault("key", problem, f"Give {SHORTEST} random bytes or more: openssl rand -out FILE 32.")])


def _whole(parts: dict[str, str], key: bytes | None) -> str:
    content = b"fcxplain answers\0" + json.dumps(parts, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest() if key is None else hmac.new(key, content, "sha256").hexdigest()


def _kind(kind: pa.DataType) -> pa.DataType | None:
    """The canonical type of a column; None for types that we never write."""
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if str(kind) in TEXT:
        return pa.large_string()
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_timestamp(kind):
        # Parquet has no whole seconds.
        return pa.timestamp("ns" if kind.unit == "ns" else "us", kind.tz)
    return kind if pa.types.is_boolean(kind) or pa.types.is_date32(kind) else None


def _cast(cells: pa.Array, kind: pa.DataType | None) -> pa.Array:
    """Cells as fixed numbers of bytes each, or as bytes."""
    cells = cells.dictionary_decode() if isinstance(cells, pa.DictionaryArray) else cells
    if kind is None:
        texts = [None if v is None else json.dumps(v, default=repr, sort_keys=True) for v in cells.to_pylist()]
        return pa.array(texts, pa.large_string()).cast(pa.large_binary())
    stored = {pa.large_string(): pa.large_binary(), pa.date32(): pa.int32(), pa.bool_(): pa.uint8()}.get(kind, kind)
    return cells.cast(kind).cast(pa.int64() if pa.types.is_timestamp(kind) else stored)


def _packed(cells: pa.Array) -> bytes:
    """Numbers without gaps as bytes, in one order on every machine."""
    found = cells.to_numpy(zero_copy_only=False)
    return bytes(found.astype(found.dtype.newbyteorder("<")).tobytes())
