"""The same for programs, as JSON under /api/v1, described in OpenAPI."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field

from .. import __version__
from ..errors import Fault, FcxError
from .answers import WORDS, Unanswered
from .pages import service_of
from .people import LONGEST, read_values, read_wishes
from .receipts import read_receipt
from .trust import API

router = APIRouter(prefix="/api/v1", tags=["answers"])

Value = str | int | float | bool | None


class Asked(BaseModel):
    """Strict about names, so that a typo does not silently become a default."""

    model_config = ConfigDict(extra="forbid")


class WishRequest(Asked):
    """What is possible in one feature."""

    effort: str = Field("usual", description="fixed, easy, usual, hard or very_hard")
    low: Value = Field(None, description="The lowest acceptable value, for numbers and dates.")
    high: Value = Field(None, description="The highest acceptable value.")
    levels: list[Value] | None = Field(None, description="The acceptable values, for categories; null: any.")


class ExplainRequest(Asked):
    """A person, by their values or by their key in the list of people, and what is possible for them."""

    label: str = Field("", max_length=LONGEST, description="The name of the person, also on receipts.")
    values: dict[str, Value] | None = Field(None, description="A value for every feature; see /schema.")
    person: str | None = Field(None, description="Instead of values: a key such as p0.")
    wishes: dict[str, WishRequest] = Field(default_factory=dict)
    k: int = Field(3, ge=1, le=10, description="The maximum number of options.")
    receipt: bool = Field(False, description="Store the options and return a signed receipt for each.")


class WhatIfRequest(ExplainRequest):
    """Other values to try."""

    then: dict[str, Value] = Field(description="The values that differ.")


class ChangeReply(BaseModel):
    """A feature that would change."""

    feature: str
    title: str
    now: Any
    then: Any
    now_text: str
    then_text: str
    difference: str


class RuleReply(BaseModel):
    """A rule and whether it is kept."""

    words: str
    kept: bool


class WayReply(BaseModel):
    """One verified option."""

    rank: int
    status: str
    score: float | None
    changes: list[ChangeReply]
    rules: list[RuleReply]
    values: dict[str, Any]
    certificate: dict[str, Any] = Field(description="Everything that was checked; see docs/certificate.md.")


class ExplainReply(BaseModel):
    """The model's result for a person, what they could do, or what stands in the way."""

    status: str = Field(description="verified, already, impossible, not_found, timed_out or unreadable")
    wanted: str
    score_now: float | None
    needed: float | None
    ways: list[WayReply]
    why: dict[str, Any] | None
    receipts: list[dict[str, Any]] = Field(default_factory=list)


class WhatIfReply(BaseModel):
    """The model's result for other values, and whether each rule is kept."""

    valid: bool
    passed: bool
    score_now: float | None
    needed: float | None
    score: float | None
    rules: list[RuleReply]
    outside: list[str] = Field(description="Features with values outside their domain.")


class CheckReply(BaseModel):
    """What still holds for a receipt."""

    holds: bool
    signature: bool
    own_key: bool | None = Field(description="Whether this server's key signed it; null without a store.")
    model: bool
    rules: bool
    answer: bool
    differences: list[str]


class HealthReply(BaseModel):
    """The state of the server."""

    status: str
    version: str
    waiting: int


def _json_only(request: Request) -> None:
    """Refuse anything but JSON, so that forms of other sites cannot call the API."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "Send JSON: Content-Type: application/json.")


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise Unanswered("question", " ".join(map(str, faults)))


def _question(request: Request, body: ExplainRequest) -> dict[str, Any]:
    """The question in the worker's format; all faults are reported at once."""
    service = service_of(request)
    wishes, faults = read_wishes(
        {name: wish.model_dump(exclude_none=True) for name, wish in body.wishes.items()}, service.schema, service.fixed
    )
    if (body.values is None) == (body.person is None):
        raise Unanswered("question", "Give values or person, one of the two.")
    if body.person is not None:
        who = service.people.by_key.get(body.person)
        if who is None:
            raise HTTPException(404, "There is no person with that key.")
        label, values = who.label, dict(who.values)
    else:
        values, wrong = read_values(body.values or {}, service.schema)
        label, faults = body.label or "somebody", faults + wrong
    _refuse(faults)
    return {"label": label, "values": values, "wishes": {n: w.to_dict() for n, w in wishes.items()}, "k": body.k}


@router.post("/explain", response_model=ExplainReply)
async def explain(request: Request, body: ExplainRequest) -> Any:
    """Options for a person within their wishes, or what stands in the way. Waits for the answer."""
    _json_only(request)
    service, question = service_of(request), _question(request, body)
    answer = await service.engine.answer("ask", question)
    receipts = []
    if body.receipt:
        if service.store is None:
            raise HTTPException(409, "This server keeps no receipts: it was started without a store.")
        receipts = [service.store.signer.receipt(question, answer, way) for way in answer["ways"]]
        for receipt in receipts:
            await asyncio.to_thread(service.store.keep, receipt)
    return answer | {"receipts": receipts}


@router.post("/what-if", response_model=WhatIfReply)
async def what_if(request: Request, body: WhatIfRequest) -> Any:
    """The model's result for other values, and whether each rule is kept. Nothing is stored."""
    _json_only(request)
    service, question = service_of(request), _question(request, body)
    then, faults = read_values(question["values"] | body.then, service.schema)
    _refuse(faults)
    asking = {name: question[name] for name in ("label", "values", "wishes")}
    return await service.engine.answer("try", asking | {"then": then})


@router.post("/verify", response_model=CheckReply)
async def verify(request: Request, body: dict[str, Any]) -> Any:
    """What still holds for a receipt: signature, model, rules and answer."""
    _json_only(request)
    service = service_of(request)
    try:
        receipt = read_receipt(json.dumps(body))
    except FcxError as error:
        raise Unanswered("question", str(error)) from None
    check = await service.engine.answer("verify", {"receipt": receipt})
    own = None if service.store is None else receipt["key"] == service.store.signer.public
    return check | {"own_key": own}


@router.get("/schema")
async def schema(request: Request) -> dict[str, Any]:
    """Features, rules and target, and the distributions of features as bars, without data about single people."""
    return service_of(request).engine.about


@router.get("/health", response_model=HealthReply)
async def health(request: Request) -> Any:
    """The state of the server; needs no token."""
    return {"status": "ok", "version": __version__, "waiting": service_of(request).engine.waiting}


async def not_valid(request: Request, error: RequestValidationError) -> Response:
    """All faults of a request, without repeating its values."""
    said = [
        f"{'.'.join(str(part) for part in fault['loc'] if part != 'body')}: {fault['msg']}" for fault in error.errors()
    ]
    if request.url.path.startswith(API):
        return Response(json.dumps({"error": "; ".join(said)}), 422, media_type="application/json")
    return Response(WORDS["fault"], 404, media_type="text/plain")
