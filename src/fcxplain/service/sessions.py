"""Sessions: what the server knows about one browser. Held in memory only, dropped when idle, limited in number."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from .people import Person
from .wishes import Wish

# Sessions that are kept, seconds until an idle one ends, and people and tables in each.
MOST, IDLE, PEOPLE, TABLES = 500, 8 * 3600.0, 50, 5


@dataclass(eq=False)
class Session:
    """One browser: its wishes, the people entered, and the tables uploaded."""

    key: str
    csrf: str
    seen: float = 0.0
    wishes: dict[str, dict[str, Wish]] = field(default_factory=dict)
    people: OrderedDict[str, Person] = field(default_factory=OrderedDict)
    tables: OrderedDict[str, Any] = field(default_factory=OrderedDict)

    def add(self, label: str, values: dict[str, Any]) -> Person:
        """Add a person who was entered; the oldest are dropped."""
        person = Person(f"n{secrets.token_hex(6)}", label, values)
        self.people[person.key] = person
        while len(self.people) > PEOPLE:
            self.wishes.pop(self.people.popitem(last=False)[0], None)
        return person


class Sessions:
    """Sessions by their cookie."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Session] = OrderedDict()

    def new(self) -> Session:
        """A new session; the one idle longest is dropped."""
        session = Session(secrets.token_urlsafe(24), secrets.token_urlsafe(24), time.monotonic())
        self._known[session.key] = session
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return session

    def find(self, key: str) -> Session | None:
        """The session of a cookie, if it is not too old."""
        session = self._known.get(key)
        if session is None:
            return None
        if time.monotonic() - session.seen > IDLE:
            del self._known[key]
            return None
        session.seen = time.monotonic()
        self._known.move_to_end(key)
        return session

    def end(self, session: Session) -> None:
        """End a session."""
        self._known.pop(session.key, None)
