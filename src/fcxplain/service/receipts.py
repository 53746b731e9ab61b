"""Receipts: an answer that was shown, signed with the server's key (Ed25519), and the store that keeps them.

The signature proves that the server gave this answer and that it was not altered; checking it with the model shows
whether it still holds. The signature covers everything else in the receipt, as JSON with sorted keys. The store is one
SQLite file with a journal: receipts that were shown are on disk, and deleted ones are erased. One connection writes,
under a lock, in whole transactions. The private key is in the same file, which only its owner may read.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ..errors import DataError, Fault, FcxError, FormatError
from ..explanation import Explanation
from ..explanation.certificate import issued, model_id, rules_id
from ..explanation.files.verification import certificate_differences
from ..overrides import Overrides
from ..task import Task

KIND, FORMAT = "fcxplain receipt", 1
# The fields of a certificate about the answer itself, not about how it was found.
ABOUT = ("predicted", "probability", "output", "valid", "feasible", "in_domain", "immutables_kept", "changes", "rules")


class Signer:
    """Signs receipts with one private key."""

    def __init__(self, private: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public = _text(self._key.public_key().public_bytes_raw())

    def receipt(self, asked: Mapping[str, Any], answer: Mapping[str, Any], way: Mapping[str, Any]) -> dict[str, Any]:
        """A signed receipt of one option: the person, their wishes, and what was found and checked."""
        content = {
            "kind": KIND,
            "format": FORMAT,
            "id": uuid4().hex,
            "issued": datetime.now(UTC).isoformat(timespec="seconds"),
            "person": asked["label"],
            "values": dict(asked["values"]),
            "wishes": dict(asked["wishes"]),
            "own_rules": list(answer["own_rules"]),
            "counterfactual": dict(way["values"]),
            "certificate": dict(way["certificate"]),
            "wanted": answer["wanted"],
            "model": answer["model"],
            "rules_id": way["certificate"]["rules_id"],
            "key": self.public,
        }
        return content | {"signature": _text(self._key.sign(_signed(content)))}


def read_receipt(text: str | bytes) -> dict[str, Any]:
    """A receipt from its JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is not a receipt: {error}") from error
    parts = {"id": str, "values": dict, "counterfactual": dict, "certificate": dict, "own_rules": list, "key": str}
    parts |= {"signature": str, "rules_id": str}
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise FormatError(f"this is not a receipt: it does not say that its kind is {KIND!r}")
    if found.get("format") != FORMAT:
        raise FormatError(f"this receipt has format {found.get('format')!r}; this version reads {FORMAT}")
    odd = [name for name, kind in parts.items() if not isinstance(found.get(name), kind)]
    if odd:
        raise FormatError(
            f"this receipt cannot be read: {', '.join(odd)} {'is' if len(odd) == 1 else 'are'} not in the expected form"
        )
    return found


@dataclass(frozen=True)
class ReceiptCheck:
    """What still holds for a receipt; `differences` says in words what does not."""

    signature: bool
    key: str
    model: bool
    rules: bool
    answer: bool
    differences: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether all of it does."""
        return self.signature and self.model and self.rules and self.answer

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return vars(self) | {"holds": self.holds, "differences": list(self.differences)}


def is_signed(receipt: Mapping[str, Any]) -> bool:
    """Whether the signature is valid for the receipt's key and content."""
    content = {name: value for name, value in receipt.items() if name != "signature"}
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(receipt["key"]))
        key.verify(base64.urlsafe_b64decode(receipt["signature"]), _signed(content))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def held_against(task: Task, receipt: Mapping[str, Any]) -> ReceiptCheck:
    """Check a receipt: its signature, and its answer again with the present model and rules."""
    said = receipt["certificate"]
    same_model = receipt.get("model") == model_id(task)
    texts = [rule.text for rule in task.rules] + [str(text) for text in receipt["own_rules"]]
    same_rules = receipt["rules_id"] == rules_id(task.schema, texts)
    try:
        found = _certificate_now(task, receipt)
        wrong = [
            f"{name}: {stored!r} in the receipt, {now!r} with the present model and rules"
            for name, stored, now in certificate_differences(json.dumps(said), json.dumps(found))
            if name in ABOUT
        ]
        wrong += [] if found["passed"] else ["the answer does not pass every check"]
    except (FcxError, KeyError, ValueError, TypeError) as error:
        wrong = [f"the answer cannot be checked: {error}"]
    return ReceiptCheck(is_signed(receipt), receipt["key"], same_model, same_rules, not wrong, tuple(wrong))


def _certificate_now(task: Task, receipt: Mapping[str, Any]) -> dict[str, Any]:
    """The certificate that the present model and rules would issue for the receipt's answer."""
    label = receipt["person"]
    before = pd.DataFrame([receipt["values"]], index=[label])[list(task.schema.names)]
    after = pd.DataFrame([receipt["counterfactual"]], index=[label])[list(task.schema.names)]
    (rows, _), (answers, _) = task.read(before), task.read(after)
    lines = [json.dumps({"rules": receipt["own_rules"]}) if receipt["own_rules"] else ""]
    own, one = Overrides.from_json(lines, task), np.zeros(1, dtype=np.int64)
    made = Explanation.of(task, rows, answers, one, method="receipt", wanted=task.answered(rows)[1], own=own)
    return issued(made, one, np.full(1, np.nan))[0].to_dict()


def _signed(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii")


# The store

STORE_FORMAT = 1
TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
  id TEXT PRIMARY KEY, person TEXT NOT NULL, issued TEXT NOT NULL, receipt TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_person ON entries (person, issued);
"""


class StoreFault(Exception):
    """Something could not be written or read; nothing was left half done."""


@dataclass(frozen=True)
class KeptReceipt:
    """A stored receipt."""

    id: str
    person: str
    issued: str


class Store:
    """Receipts on disk, in a file that is created if it does not exist."""

    def __init__(self, path: str | Path) -> None:
        self.path, self._lock = Path(path), threading.Lock()
        self._db = _opened(self.path)
        try:
            self.signer = Signer(self._private_key())
        except sqlite3.Error as error:
            self._db.close()
            raise _no_store(self.path, error) from error

    def close(self) -> None:
        """Close the connection; nothing is lost without it."""
        self._db.close()

    def _private_key(self) -> bytes:
        with self._writing():
            self._db.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (STORE_FORMAT,))
            new = Ed25519PrivateKey.generate().private_bytes_raw()
            self._db.execute("INSERT OR IGNORE INTO about VALUES ('key', ?)", (new,))
        found = dict(self._db.execute("SELECT name, value FROM about"))
        if found["format"] != STORE_FORMAT:
            raise sqlite3.DatabaseError(f"it has format {found['format']}, and this version knows {STORE_FORMAT}")
        return bytes(found["key"])

    def keep(self, receipt: dict[str, Any]) -> None:
        """Write a receipt. When this returns, it is on disk."""
        line = (receipt["id"], receipt["person"], receipt["issued"], json.dumps(receipt, ensure_ascii=False))
        with self._faults("kept"), self._writing():
            self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", line)

    def entries(self, person: str | None = None) -> list[KeptReceipt]:
        """Stored receipts, all or of one person, newest first."""
        where, given = ("", ()) if person is None else ("WHERE person = ?", (person,))
        with self._faults("read"), self._lock:
            found = self._db.execute(f"SELECT id, person, issued FROM entries {where} ORDER BY issued DESC, id", given)
            return [KeptReceipt(*line) for line in found]

    def receipt(self, key: str) -> dict[str, Any] | None:
        """One receipt as it was shown, or None."""
        with self._faults("read"), self._lock:
            line = self._db.execute("SELECT receipt FROM entries WHERE id = ?", (key,)).fetchone()
        found: dict[str, Any] | None = None if line is None else json.loads(line[0])
        return found

    def delete(self, *, person: str | None = None, key: str | None = None) -> int:
        """Delete all receipts of a person, or one; return the number. Their bytes are overwritten."""
        column, value = ("person", person) if key is None else ("id", key)
        with self._faults("deleted"):
            with self._writing():
                gone = self._db.execute(f"DELETE FROM entries WHERE {column} = ?", (value,)).rowcount
            with self._lock:
                # The journal still holds the old pages.
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return gone

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction: afterwards all of it is on disk, or nothing."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _faults(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreFault(f"Nothing was {what}: {error}.") from error


def _opened(path: Path) -> sqlite3.Connection:
    try:
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        # Transactions are explicit.
        db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
            db.execute(f"PRAGMA {pragma}")
        db.executescript(TABLES)
    except (OSError, sqlite3.Error) as error:
        raise _no_store(path, error) from error
    return db


def _no_store(path: Path, error: Exception) -> DataError:
    reason = getattr(error, "strerror", None) or error
    return DataError("", [Fault(str(path), f"cannot be used as a store ({reason})", "Name another file.")])
