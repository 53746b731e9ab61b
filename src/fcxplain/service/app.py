"""The application: assemble everything and run it."""

from __future__ import annotations

import logging
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from .. import __version__
from ..errors import DataError, Fault
from . import api, pages
from .answers import Engine, Unanswered
from .people import People, Sessions
from .receipts import Store, StoreFault
from .service import Service
from .trust import LOCAL, SHORTEST, Gate, Limits, Token

ABOUT = "The same answers as the pages, as JSON. Every option was checked with the model itself and all rules."


@dataclass(frozen=True)
class ServeSettings:
    """Settings of a server.

    rows: a file of people; index: the column with their names. origin: the public address behind a proxy. loud: let the
    model print to standard error, although that may contain personal details.
    """

    model: str
    rows: str | None = None
    index: str | None = None
    classifier: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    origin: str | None = None
    store: Path | None = None
    workers: int = 2
    loud: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        faults = []
        if self.token is None and self.host not in LOCAL:
            remedy = "Give one (--token, or FCXPLAIN_TOKEN), or leave --host out."
            faults.append(Fault(f"host {self.host}", "others can reach it, so it needs a token", remedy))
        if self.token is not None and len(self.token) < SHORTEST:
            faults.append(Fault("token", f"is too short to be safe: {SHORTEST} letters at least", "Choose another."))
        if self.origin is not None and not self.origin.startswith(("http://", "https://")):
            faults.append(
                Fault(f"origin {self.origin}", "is not an address", "Write e.g. https://answers.example.org.")
            )
        if faults:
            raise DataError("serve", faults)


def application(settings: ServeSettings, *, on_ready: Callable[[Service], None] = lambda _: None) -> Gate:
    """The ASGI application. The model is loaded when it starts."""
    sessions, token = Sessions(), None if settings.token is None else Token(settings.token)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        engine = Engine(
            settings.model, settings.classifier, workers=settings.workers, limits=settings.limits, loud=settings.loud
        )
        with tempfile.TemporaryDirectory(prefix="fcxplain-") as folder:
            store = None if settings.store is None else Store(settings.store)
            service = Service(engine, sessions, settings.limits, Path(folder), store, token)
            await engine.start()
            try:
                service.people = await _people(engine, settings)
                app.state.service = service
                on_ready(service)
                yield
            finally:
                await engine.stop()
                if store is not None:
                    store.close()

    # No external documentation pages: /about has ours.
    app = FastAPI(
        title="fcxplain", version=__version__, description=ABOUT, lifespan=running, docs_url=None, redoc_url=None,
        openapi_url="/api/v1/openapi.json", redirect_slashes=False,
    )  # fmt: skip
    app.include_router(pages.router)
    app.include_router(api.router)
    for kind in (Unanswered, StoreFault, HTTPException, Exception):
        app.add_exception_handler(kind, pages.failed)
    app.add_exception_handler(RequestValidationError, api.not_valid)  # type: ignore[arg-type]
    gate: dict[str, Any] = {"host": settings.host, "origin": settings.origin}
    return Gate(app, sessions=sessions, limits=settings.limits, token=token, **gate)


async def _people(engine: Engine, settings: ServeSettings) -> People:
    if settings.rows is None:
        return People()
    most = 10 * settings.limits.people
    try:
        found = await engine.answer("people", {"path": settings.rows, "index": settings.index, "most": most})
    except Unanswered as error:
        raise DataError(error.detail or error.words) from None
    return People.of(found)


def run(settings: ServeSettings, *, on_ready: Callable[[Service, str], None]) -> None:
    """Serve until stopped; `on_ready` is called with the address once it can be opened."""
    import uvicorn

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger(__package__).setLevel(logging.INFO)
    listening = _bound(settings.host, settings.port)
    port = listening.getsockname()[1]
    address = settings.origin or f"http://{'[::1]' if settings.host == '::1' else settings.host}:{port}/"
    config = uvicorn.Config(
        application(settings, on_ready=lambda service: on_ready(service, address)),
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_level="warning",
        limit_concurrency=512,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=32_768,
    )
    server = uvicorn.Server(config)
    server.run(sockets=[listening])
    if not server.started:
        raise SystemExit(2)


def _bound(host: str, port: int) -> socket.socket:
    """A bound socket, or an error that says why not."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=256
        )
    except OSError as error:
        problem = f"cannot listen on this address ({error.strerror or error})"
        raise DataError("", [Fault(f"{host}:{port}", problem, "Choose another --port, or 0 for any.")]) from error
