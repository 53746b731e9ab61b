"""Access control: limits, hosts and origins, tokens, and the headers of every response.

It runs before everything else, so that no page can skip it. Refusals say what is wrong and nothing about people.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import time
import traceback
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from .people import Session, Sessions

logger = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

COOKIE = "fcxplain"
API, STATIC, ENTER, UPLOAD = "/api/", "/static/", "/enter", "/many"
LOCAL = ("127.0.0.1", "localhost", "::1")
# The minimum length of a token.
SHORTEST = 16
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Without a referrer, browsers send the origin null.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
REFUSAL = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{said}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/static/page.css"></head>
<body><main><h1>{said}</h1><p><a href="/">Back to the start</a></p></main></body></html>"""
# Addresses whose request rate is remembered.
ADDRESSES = 10_000


@dataclass(frozen=True)
class Limits:
    """Limits of requests."""

    body: int = 65_536
    """Bytes of a form or of a JSON request."""
    upload: int = 20_000_000
    """Bytes of a table."""
    people: int = 20_000
    """People of a table."""
    seconds: float = 60.0
    """Seconds that one question may take."""
    table_seconds: float = 3_600.0
    patience: float = 0.8
    """Seconds that a page waits for its answer before it shows progress."""
    slowest: float = 20.0
    """Seconds that a request may take to arrive."""
    waiting: int = 64
    """Questions in the queue."""
    per_second: float = 40.0
    burst: int = 200
    """Requests from one address."""


class Pace:
    """A rate limit per address, with bursts."""

    def __init__(self, per_second: float, burst: int) -> None:
        self.per_second, self.burst = per_second, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, address: str) -> bool:
        """Whether one more request is within the limit."""
        now = time.monotonic()
        left, when = self._left.pop(address, (float(self.burst), now))
        left = min(self.burst, left + (now - when) * self.per_second) - 1
        self._left[address] = (max(left, -1.0), now)
        if len(self._left) > ADDRESSES:
            self._left.popitem(last=False)
        return left >= 0


class Token:
    """The access token. Wrong guesses make an address wait, twice as long each time."""

    FIRST, LONGEST = 0.5, 60.0

    def __init__(self, secret: str) -> None:
        self._digest = _digest(secret)
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def admits(self, guess: str, address: str) -> bool:
        """Whether the guess is right, in constant time."""
        count, until = self._wrong.get(address, (0, 0.0))
        left = until - time.monotonic()
        if left > 0:
            raise HTTPException(429, "Too many wrong tokens. Please wait.", {"retry-after": str(int(left) + 1)})
        if hmac.compare_digest(_digest(guess), self._digest):
            self._wrong.pop(address, None)
            return True
        wait = min(self.LONGEST, self.FIRST * 2.0 ** min(count, 20))
        self._wrong[address] = (count + 1, time.monotonic() + wait)
        self._wrong.move_to_end(address)
        if len(self._wrong) > ADDRESSES:
            self._wrong.popitem(last=False)
        return False


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(eq=False, kw_only=True)
class Gate:
    """All checks before a page sees a request; an ASGI application around another."""

    app: Any = field(kw_only=False)
    sessions: Sessions
    limits: Limits
    token: Token | None = None
    host: str = "127.0.0.1"
    origin: str | None = None

    def __post_init__(self) -> None:
        self.pace = Pace(self.limits.per_second, self.limits.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)  # type: ignore[no-any-return]
        if scope["type"] != "http":
            return await send({"type": "websocket.close"})
        begun, headers = time.monotonic(), {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        sent: list[int] = []

        async def answer(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                sent.append(message["status"])
                message["headers"] = self._headers(scope, message.get("headers", []))
            await send(message)

        try:
            body = await self._admitted(scope, headers, receive)
            await self.app(scope, _replayed(body, receive), answer)
        except HTTPException as refusal:
            await _refuse(scope, answer, refusal)
        except Exception as error:  # a page has already answered it; its message may be about people
            where = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-4:]]
            logger.error("%s at %s", type(error).__name__, " < ".join(reversed(where)))
            if not sent:
                await _refuse(scope, answer, HTTPException(500, "Something went wrong on our side."))
        finally:
            # The route, never the path or a value in it.
            route = getattr(scope.get("route"), "path", "-")
            logger.info(
                "%s %s %s %.0f ms", scope["method"], route, sent[0] if sent else "-", 1e3 * (time.monotonic() - begun)
            )

    async def _admitted(self, scope: Scope, headers: dict[str, str], receive: Receive) -> bytes:
        address = (scope.get("client") or ("", 0))[0]
        if not self.pace.allows(address):
            raise HTTPException(429, "Too many requests. Please wait a moment.", {"retry-after": "2"})
        self._check_address(scope, headers)
        self._check_origin(scope, headers)
        self._check_token(scope, headers, address)
        largest = self.limits.upload if scope["path"].rstrip("/") == UPLOAD else self.limits.body
        return await _body(headers, receive, largest, self.limits.slowest)

    def _check_address(self, scope: Scope, headers: dict[str, str]) -> None:
        """Refuse other host names that resolve to this server (DNS rebinding)."""
        if scope["method"] not in ("GET", "HEAD", "POST", "DELETE"):
            raise HTTPException(405, "This request cannot be read.")
        raw = scope.get("raw_path", b"").decode("latin-1").lower()
        if any(trick in raw for trick in ("..", "%2e%2e", "//", "\\", "%5c", "%00", "%2f")):
            raise HTTPException(400, "There is no such address.")
        name = _hostname(headers.get("host", ""))
        ours = {*LOCAL, self.host.strip("[]")} | ({urlsplit(self.origin).hostname or ""} if self.origin else set())
        if name not in ours and not (self.host not in LOCAL and _is_address(name)):
            raise HTTPException(421, "This server is not known by that name.")

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        """Other sites may only link here."""
        site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
        is_reading = scope["method"] in ("GET", "HEAD")
        if site in ("cross-site", "same-site") and not (is_reading and headers.get("sec-fetch-mode") == "navigate"):
            raise HTTPException(403, "Another site may not send this request.")
        if origin is None or is_reading:
            return
        own = {self.origin} if self.origin else {f"{s}://{headers.get('host', '')}" for s in ("http", "https")}
        if origin not in own:
            raise HTTPException(403, "Another site may not send this request.")

    def _check_token(self, scope: Scope, headers: dict[str, str], address: str) -> None:
        """Pages use the session, programs the token itself."""
        path, state = scope["path"], scope.setdefault("state", {})
        if path.startswith(STATIC) or path == "/api/v1/health":
            return
        if path.startswith(API):
            kind, _, guess = headers.get("authorization", "").partition(" ")
            if self.token is not None and not (kind.lower() == "bearer" and self.token.admits(guess.strip(), address)):
                raise HTTPException(401, "A token is needed: Authorization: Bearer ...", {"www-authenticate": "Bearer"})
            return
        session = self.sessions.find(_cookie(headers.get("cookie", "")))
        if session is None and self.token is None:
            session = state["new_session"] = self.sessions.new()
        if session is None and path != ENTER:
            raise HTTPException(303, "", {"location": ENTER})
        state["session"] = session

    def _headers(self, scope: Scope, given: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        known = {name.lower() for name, _ in given}
        added = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in known]
        session: Session | None = scope.get("state", {}).get("new_session")
        if session is not None:
            secure = "; Secure" if self.origin and self.origin.startswith("https:") else ""
            cookie = f"{COOKIE}={session.key}; Path=/; HttpOnly; SameSite=Strict{secure}"
            added.append((b"set-cookie", cookie.encode()))
        return [*given, *added]


async def _body(headers: dict[str, str], receive: Receive, largest: int, seconds: float) -> bytes:
    """The whole body, unless it is too large or too slow."""
    too_large = HTTPException(413, f"That is too large: {largest:,} bytes are the limit.")
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > largest:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise HTTPException(400, "The request ended early.")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > largest:
                    raise too_large
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise HTTPException(408, "The request took too long to arrive.") from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Replay the body that was read, then pass on other messages."""
    left = [body]

    async def again() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(), "more_body": False} if left else await receive()

    return again


async def _refuse(scope: Scope, send: Send, refusal: HTTPException) -> None:
    if scope["path"].startswith(API):
        kind, text = "application/json", json.dumps({"error": refusal.detail})
    else:
        kind, text = "text/html; charset=utf-8", REFUSAL.format(said=escape(refusal.detail))
    headers = {"content-type": kind} | dict(refusal.headers or {})
    start = {"type": "http.response.start", "status": refusal.status_code}
    await send(start | {"headers": [(n.encode(), v.encode()) for n, v in headers.items()]})
    await send({"type": "http.response.body", "body": text.encode()})


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    """Whether a host is an IP address, which is safe from DNS rebinding."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _cookie(header: str) -> str:
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
