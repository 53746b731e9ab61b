"""The store: receipts in one SQLite file with a journal. Receipts that were shown are on disk; deleted ones are erased.

One connection writes, under a lock, in whole transactions. The server's private key is in the same file, which only
its owner may read.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, Fault
from .receipts import Signer

FORMAT = 1
TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
  id TEXT PRIMARY KEY, person TEXT NOT NULL, issued TEXT NOT NULL, receipt TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_person ON entries (person, issued);
"""
PAGE = 4096


class StoreFault(Exception):
    """Something could not be written or read; nothing was left half done."""


@dataclass(frozen=True)
class KeptReceipt:
    """A stored receipt."""

    id: str
    person: str
    issued: str


class Store:
    """Receipts on disk.

    path: the file, created if it does not exist. largest: its maximum size in bytes; None: no limit.
    """

    def __init__(self, path: str | Path, *, largest: int | None = None) -> None:
        self.path, self._lock = Path(path), threading.Lock()
        self._db = _opened(self.path)
        try:
            if largest is not None:
                self._db.execute(f"PRAGMA max_page_count = {max(1, largest // PAGE)}")
            self.signer = Signer(self._private_key())
        except sqlite3.Error as error:
            self._db.close()
            raise DataError(
                "", [Fault(str(path), f"cannot be used as a store ({error})", "Name another file.")]
            ) from error

    def close(self) -> None:
        """Close the connection; nothing is lost without it."""
        self._db.close()

    def _private_key(self) -> bytes:
        with self._writing():
            self._db.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (FORMAT,))
            self._db.execute("INSERT OR IGNORE INTO about VALUES ('key', ?)", (Signer.new_key(),))
        found = dict(self._db.execute("SELECT name, value FROM about"))
        if found["format"] != FORMAT:
            raise sqlite3.DatabaseError(f"it has format {found['format']}, and this version knows {FORMAT}")
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
