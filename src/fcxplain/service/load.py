"""Load test: a local server, and simulated people who change wishes and read the answers.

Limited on purpose, and only against a server that it starts itself.
"""

from __future__ import annotations

import http.client
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

import numpy as np

from ..errors import DataError

MOST_PEOPLE, MOST_SECONDS = 100, 300.0
_SECRET = re.compile(r'name="csrf" value="([^"]+)"')
_FIELDS = re.compile(r'name="(effort|low|high|level)\.(\d+)"(?: value="([^"]*)")?')
_OPEN = re.compile(r"open (http://\S+?/)")


@dataclass(frozen=True)
class LoadFigures:
    """What was measured: milliseconds from a changed wish to its answer."""

    people: int
    seconds: float
    answers: int
    failures: int
    median: float
    p95: float
    longest: float
    reasons: float
    """Median milliseconds until the reasons were known for people without an option."""
    first_paint: int
    """Bytes of a person's page with all its resources."""


@dataclass(eq=False)
class _Visitor:
    """A visitor who opens a person's page, changes a wish, reads, and changes another."""

    host: str
    port: int
    number: int
    took: list[float] = field(default_factory=list)
    reasons: list[float] = field(default_factory=list)
    failures: int = 0
    cookie: str = ""

    def ask(self, method: str, path: str, form: list[tuple[str, str]] | None = None, part: bool = False) -> str:
        headers = {"cookie": self.cookie} | ({"x-part": "1"} if part else {})
        body = None if form is None else urlencode(form)
        headers |= {} if form is None else {"content-type": "application/x-www-form-urlencoded"}
        # One connection per request, so that a connection closed by the server is not a failure.
        line = http.client.HTTPConnection(self.host, self.port, timeout=60)
        line.request(method, path, body, headers)
        answer = line.getresponse()
        self.cookie = (answer.getheader("set-cookie") or self.cookie).partition(";")[0]
        self.failures += answer.status >= 400
        return answer.read().decode()

    def work(self, until: float, pause: float) -> None:
        """Change wishes until the time is up."""
        chance = random.Random(self.number)
        path = f"/person/p{self.number}"
        page = self.ask("GET", path)
        secret, fields = _SECRET.findall(page)[0], _FIELDS.findall(page)
        while time.monotonic() < until:
            time.sleep(chance.uniform(0.5, 1.5) * pause)
            begun = time.monotonic()
            found = self.ask("POST", f"{path}/wishes", [("csrf", secret), *_wishes(fields, chance)], part=True)
            while "data-working" in found:
                time.sleep(0.05)
                found = self.ask("GET", path, part=True)
            self.took.append(time.monotonic() - begun)
            unexplained = "data-reasons" in found
            while "data-reasons" in found:
                time.sleep(0.05)
                found = self.ask("GET", path, part=True)
            self.reasons += [time.monotonic() - begun] if unexplained or 'class="blocked"' in found else []


def _wishes(fields: list[tuple[str, str, str]], chance: random.Random) -> Iterator[tuple[str, str]]:
    """A form in which some features are hard to change or fixed, and some levels are excluded."""
    for kind, number, value in fields:
        if kind == "effort":
            yield f"effort.{number}", chance.choice(["easy", "usual", "usual", "hard", "very_hard", "fixed"])
        elif kind == "level" and chance.random() < 0.85:
            yield f"level.{number}", value


def measured(model: str, rows: str, *, people: int = 20, seconds: float = 20.0, pause: float = 1.0) -> LoadFigures:
    """Start a server for a model, let people work with it for a while, and stop it."""
    if not (1 <= people <= MOST_PEOPLE and 0 < seconds <= MOST_SECONDS):
        raise DataError(f"at most {MOST_PEOPLE} people for {MOST_SECONDS:.0f} seconds, more would be an attack")
    with _served(model, rows) as address:
        where = urlsplit(address)
        visitors = [_Visitor(str(where.hostname), int(where.port or 80), i) for i in range(people)]
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=v.work, args=(until, pause), daemon=True) for v in visitors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + 60)
        size = _first_paint(visitors[0])
    took = 1e3 * np.array([seconds for v in visitors for seconds in v.took] or [np.nan])
    reasons = 1e3 * np.array([seconds for v in visitors for seconds in v.reasons] or [np.nan])
    median, p95 = np.quantile(took, [0.5, 0.95])
    return LoadFigures(
        people=people,
        seconds=seconds,
        answers=len(took),
        failures=sum(v.failures for v in visitors),
        median=float(median),
        p95=float(p95),
        longest=float(took.max()),
        reasons=float(np.median(reasons)),
        first_paint=size,
    )


def _first_paint(visitor: _Visitor) -> int:
    page = visitor.ask("GET", "/person/p0")
    parts = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    return len(page.encode()) + sum(len(visitor.ask("GET", part).encode()) for part in parts)


@contextmanager
def _served(model: str, rows: str) -> Iterator[str]:
    """Run a server, and yield its address."""
    command = [sys.executable, "-m", "fcxplain", "serve", model, "--rows", rows, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        said = _OPEN.search(process.stdout.readline())
        if said is None:
            raise DataError(f"the server did not start; see: {' '.join(command[1:])}")
        yield said[1]
    finally:
        process.terminate()
        process.wait(20)
