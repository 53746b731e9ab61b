"""The pages: forms that work without a script, and single parts for the script that makes them quicker."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException as AnyHTTPException

from ..errors import Fault, FcxError
from ..explanation.page.letter import languages
from ..schema import Feature
from .answers import Pending, Unanswered
from .people import LONGEST, TABLES, People, Person, Session, Wish, lifted, read_values, read_wishes
from .receipts import StoreFault, read_receipt
from .service import Service
from .trust import API, POLICY

router = APIRouter(include_in_schema=False)

# Options shown, and people per page of the list.
WAYS, ON_PAGE = 3, 25
PART = "x-part"
# Statuses that need a reason.
UNEXPLAINED = ("impossible", "not_found")
# Pages of which the script may request a part.
PARTED = ("person.html", "what_if.html", "table.html", "fault.html")
# The content security policy that a report states.
OWN_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')
FAILED = {"question": 422, "busy": 503, "time": 504, "cancelled": 409, "model": 502, "crash": 502}


def service_of(request: Request) -> Service:
    """What all pages share."""
    found: Service = request.app.state.service
    return found


def session_of(request: Request) -> Session:
    """The session of the browser."""
    found: Session = request.state.session
    return found


def page(request: Request, name: str, code: int = 200, /, **shown: Any) -> HTMLResponse:
    """A page, or the part of it that the script requested."""
    service = service_of(request)
    is_part = PART in request.headers and name in PARTED
    template = service.templates.get_template(f"part_{name}" if is_part else name)
    text = template.render(session=getattr(request.state, "session", None), service=service, **shown)
    return HTMLResponse(text, code)


async def form_of(request: Request) -> FormData:
    """The fields of a form, after the CSRF check."""
    form = await request.form(max_files=1, max_fields=2_000)
    sent = form.get("csrf")
    if not isinstance(sent, str) or not secrets.compare_digest(sent.encode(), session_of(request).csrf.encode()):
        raise HTTPException(403, "This form is too old. Go back, load the page again and try once more.")
    return form


def text_of(form: FormData, name: str, longest: int = LONGEST) -> str:
    """A field as text, truncated."""
    value = form.get(name)
    return value[:longest] if isinstance(value, str) else ""


def seen(path: str) -> RedirectResponse:
    """Redirect after a form was sent."""
    return RedirectResponse(path, 303)


async def person_of(request: Request, key: str) -> Person:
    """The person that a page is about."""
    service, session = service_of(request), session_of(request)
    found = session.people.get(key) or service.people.by_key.get(key)
    for table in session.tables.values():
        found = found or table.people.by_key.get(key)
    if found is None:
        raise HTTPException(404, "There is no such person here.")
    return found


Form = Annotated[FormData, Depends(form_of)]
Who = Annotated[Person, Depends(person_of)]


def _empty_form(name: str, **shown: Any) -> None:
    """Route a form as it is before anything is entered."""

    async def form(request: Request) -> Response:
        return page(request, f"{name}.html", **shown)

    router.get(f"/{name}")(form)


_empty_form("verify", check=None, fault="", receipt=None)
_empty_form("new", values={}, label="", faults=[])
_empty_form("many", fault="")
_empty_form("enter", wrong=False)


# A person, and what is possible for them


def asked_of(session: Session, person: Person) -> dict[str, Any]:
    """The question about a person, with their wishes."""
    wishes = {name: wish.to_dict() for name, wish in session.wishes.get(person.key, {}).items()}
    return {"label": person.label, "values": dict(person.values), "wishes": wishes, "k": WAYS}


async def asked(request: Request, person: Person) -> tuple[Pending, Pending | None]:
    """The question about a person, and the one about the reasons if there is no option; waits a moment for both.

    Reasons take longer to find, so the page first shows that there is no option.
    """
    service, asking = service_of(request), asked_of(session_of(request), person)
    begun = time.monotonic()
    job = service.engine.job("ask", asking | {"why": False})
    await job.wait(service.limits.patience)
    if job.result is None or job.result["status"] not in UNEXPLAINED:
        return job, None
    reasons = service.engine.job("ask", asking | {"why": True})
    await reasons.wait(max(0.05, service.limits.patience - (time.monotonic() - begun)))
    return job, reasons


async def person_page(request: Request, name: str, person: Person, **shown: Any) -> HTMLResponse:
    """A page about a person and their options."""
    failure, job, reasons = None, None, None
    try:
        job, reasons = await asked(request, person)
        failure = job.failure
    except Unanswered as busy:
        failure = busy
    found = reasons.result if reasons is not None and reasons.result is not None else job.result if job else None
    shown |= {"wishes": session_of(request).wishes.get(person.key, {}), "reasons": reasons, "failure": failure}
    return page(request, name, code_of(failure), person=person, answer=found, job=job, **shown)


def code_of(failure: Unanswered | None) -> int:
    """The HTTP status of a page about a question that may have failed."""
    return 200 if failure is None or failure.kind == "cancelled" else FAILED.get(failure.kind, 500)


async def changed(request: Request, person: Person) -> Response:
    """The page of a person after a form: its new part for the script, else a redirect."""
    if PART in request.headers:
        return await person_page(request, "person.html", person)
    return seen(f"/person/{person.key}")


def unfinished(request: Request, person: Person) -> list[Pending]:
    """The cached questions about a person."""
    engine, asking = service_of(request).engine, asked_of(session_of(request), person)
    return [job for why in (False, True) if (job := engine.asked("ask", asking | {"why": why})) is not None]


@router.get("/person/{key}")
async def person(request: Request, who: Who) -> Response:
    """The model's result for a person, and up to three options."""
    return await person_page(request, "person.html", who)


@router.post("/person/{key}/wishes")
async def wish(request: Request, who: Who, form: Form) -> Response:
    """Change the wishes of a person."""
    service, session = service_of(request), session_of(request)
    given = {} if form.get("reset") else _wishes_in(form, service.features)
    wishes, faults = read_wishes(given, service.schema, service.fixed)
    if faults:
        return await person_page(request, "person.html", who, faults=faults)
    for job in unfinished(request, who):
        # The reasons for former wishes are no longer needed.
        if job.asked["why"] and wishes != session.wishes.get(who.key, {}):
            service.engine.cancel(job, kill=False)
    session.wishes[who.key] = wishes
    return await changed(request, who)


def _wishes_in(form: FormData, features: Mapping[int, Feature]) -> dict[str, Any]:
    """Wishes as plain data; field names end in the number of the feature."""
    given: dict[str, Any] = {}
    for number, feature in features.items():
        if f"effort.{number}" not in form:
            continue
        said: dict[str, Any] = {"effort": text_of(form, f"effort.{number}")}
        if feature.is_category:
            said["levels"] = [level for level in form.getlist(f"level.{number}") if isinstance(level, str)]
        else:
            said |= {side: text_of(form, f"{side}.{number}") or None for side in ("low", "high")}
        given[feature.name] = said
    return given


@router.post("/person/{key}/lift")
async def lift(request: Request, who: Who, form: Form) -> Response:
    """Lift a wish: the button below an obstacle."""
    service, session = service_of(request), session_of(request)
    wishes: Mapping[str, Wish] = session.wishes.get(who.key, {})
    for item in form.getlist("wish"):
        name, needed, side = _lifting(item)
        if name in service.schema and name not in service.fixed:
            wishes = lifted(wishes, name, needed, side)
    data, faults = read_wishes({n: w.to_dict() for n, w in wishes.items()}, service.schema, service.fixed)
    if faults:
        return await person_page(request, "person.html", who, faults=faults)
    session.wishes[who.key] = data
    return await changed(request, who)


def _lifting(item: object) -> tuple[str, Any, str | None]:
    """The feature, the needed value and its side, from the button."""
    try:
        name, needed, side = json.loads(str(item))
    except (ValueError, TypeError, RecursionError):
        raise HTTPException(400, "This cannot be read.") from None
    is_value = isinstance(needed, str | int | float)
    return str(name), needed if is_value else None, side if side in ("low", "high") else None


@router.post("/person/{key}/stop")
async def stop(request: Request, who: Who, form: Form) -> Response:
    """Cancel the questions about a person."""
    for job in unfinished(request, who):
        service_of(request).engine.cancel(job)
    return await changed(request, who)


@router.post("/person/{key}/again")
async def again(request: Request, who: Who, form: Form) -> Response:
    """Repeat questions that were cancelled or have failed."""
    for job in unfinished(request, who):
        service_of(request).engine.job(job.do, job.asked, again=True)
    return await changed(request, who)


@router.get("/person/{key}/compare")
async def compare(request: Request, who: Who) -> Response:
    """The options side by side."""
    return await person_page(request, "compare.html", who)


@router.get("/person/{key}/applicant")
async def applicant(request: Request, who: Who) -> Response:
    """The same for the person, as simple as a letter."""
    return await person_page(request, "applicant.html", who)


# What if


@router.get("/person/{key}/what-if")
async def what_if(request: Request, who: Who, way: int = 0) -> Response:
    """Values to try, starting from those of an option if one is named."""
    values, question = dict(who.values), asked_of(session_of(request), who) | {"why": False}
    if way:
        values = _way(await service_of(request).engine.answer("ask", question), way)["values"]
    return await _tried(request, who, values, [])


@router.post("/person/{key}/what-if")
async def try_values(request: Request, who: Who, form: Form) -> Response:
    """The model's result for other values. Nothing is stored."""
    service = service_of(request)
    given = {f.name: text_of(form, f"value.{number}") for number, f in service.features.items()}
    values, faults = read_values(dict(who.values) | given, service.schema)
    return await _tried(request, who, values, faults)


async def _tried(request: Request, who: Person, values: dict[str, Any], faults: list[Fault]) -> Response:
    found, failure = None, None
    if not faults:
        data = asked_of(session_of(request), who)
        asking = {"label": who.label, "values": data["values"], "then": values, "wishes": data["wishes"]}
        try:
            found = await service_of(request).engine.answer("try", asking)
        except Unanswered as unanswered:
            failure = unanswered
    shown = {"person": who, "values": values, "faults": faults, "found": found, "failure": failure}
    return page(request, "what_if.html", 422 if faults else code_of(failure), **shown)


# Letter and receipt


def _way(answer: Mapping[str, Any], rank: int) -> dict[str, Any]:
    for way in answer["ways"]:
        if way["rank"] == rank:
            found: dict[str, Any] = way
            return found
    raise HTTPException(404, "This option no longer exists.")


@router.get("/person/{key}/letter/{rank}")
async def letter(request: Request, who: Who, rank: int, language: str = "en") -> Response:
    """An option as a letter to print; 0 for all of them."""
    if language not in languages():
        raise HTTPException(404, f"There are letters in {', '.join(languages())}.")
    asking = asked_of(session_of(request), who) | {"rank": rank, "language": language}
    return stating_policy((await service_of(request).engine.answer("letter", asking))["html"])


def stating_policy(text: str) -> HTMLResponse:
    """A page of the library, under the policy that it states itself."""
    own = OWN_POLICY.search(text)
    policy = f"{own[1] if own else POLICY}; frame-ancestors 'none'; sandbox allow-scripts allow-modals"
    return HTMLResponse(text, headers={"content-security-policy": policy})


@router.post("/person/{key}/keep/{rank}")
async def keep(request: Request, who: Who, rank: int, form: Form) -> Response:
    """Sign a receipt and write it to the store; only then is it shown."""
    service = service_of(request)
    if service.store is None:
        raise HTTPException(404, "This server was started without a store.")
    data = asked_of(session_of(request), who)
    answer = await service.engine.answer("ask", data | {"why": False})
    receipt = service.store.signer.receipt(data, answer, _way(answer, rank))
    await asyncio.to_thread(service.store.keep, receipt)
    return seen(f"/kept/{receipt['id']}")


@router.get("/kept")
async def kept(request: Request, person: str = "") -> Response:
    """Receipts, all or of one person."""
    store = service_of(request).store
    entries = [] if store is None else await asyncio.to_thread(store.entries, person[:LONGEST] or None)
    return page(request, "kept.html", entries=entries, person=person[:LONGEST])


async def receipt_of(request: Request, key: str) -> dict[str, Any]:
    """A stored receipt."""
    store = service_of(request).store
    found = None if store is None else await asyncio.to_thread(store.receipt, key)
    if found is None:
        raise HTTPException(404, "There is no such receipt. It may have been deleted.")
    return found


@router.get("/kept/{key}")
async def kept_receipt(request: Request, key: str) -> Response:
    """A receipt, and whether it still holds."""
    service, found = service_of(request), await receipt_of(request, key)
    check = await service.engine.answer("verify", {"receipt": found})
    return page(request, "receipt.html", receipt=found, check=check)


@router.get("/kept/{key}/receipt.json")
async def receipt_file(request: Request, key: str) -> Response:
    """A receipt as a file."""
    text = json.dumps(await receipt_of(request, key), ensure_ascii=False, indent=2)
    headers = {"content-disposition": 'attachment; filename="receipt.json"'}
    return Response(text, media_type="application/json", headers=headers)


@router.post("/kept/delete")
async def delete(request: Request, form: Form) -> Response:
    """Delete one receipt, or all of a person."""
    store, key = service_of(request).store, text_of(form, "id") or None
    if store is not None:
        await asyncio.to_thread(store.delete, person=text_of(form, "person"), key=key)
    return seen("/kept")


@router.post("/verify")
async def verify(request: Request, form: Form) -> Response:
    """Check an uploaded receipt."""
    given = form.get("receipt")
    text = await given.read() if isinstance(given, UploadFile) else str(given or "").encode()
    try:
        receipt = read_receipt(text or text_of(form, "text", 60_000))
        check = await service_of(request).engine.answer("verify", {"receipt": receipt})
    except FcxError as error:
        return page(request, "verify.html", 422, check=None, fault=str(error), receipt=None)
    return page(request, "verify.html", check=check, fault="", receipt=receipt)


# Everyone, a new person, and many people


@router.get("/")
async def everybody(request: Request, find: str = "", status: str = "", at: int = 0) -> Response:
    """The people of this server."""
    service = service_of(request)
    found = service.people.found(find[:LONGEST], status if status in ("accepted", "refused", "unreadable") else "")
    return page(request, "people.html", find=find, status=status, **_listed(found, at))


def _listed(found: list[Any], at: int) -> dict[str, Any]:
    """One page of a list, for its template."""
    at = max(0, min(at, (len(found) - 1) // ON_PAGE))
    return {"shown": found[at * ON_PAGE : (at + 1) * ON_PAGE], "found": found, "at": at, "size": ON_PAGE}


@router.post("/new")
async def new(request: Request, form: Form) -> Response:
    """Add a new person."""
    service = service_of(request)
    given = {f.name: text_of(form, f"value.{number}") for number, f in enumerate(service.schema)}
    label = text_of(form, "label").strip() or "New person"
    values, faults = read_values(given, service.schema)
    if faults:
        return page(request, "new.html", 422, values=given, label=label, faults=faults)
    return seen(f"/person/{session_of(request).add(label, values).key}")


@router.post("/many")
async def many(request: Request, form: Form) -> Response:
    """Explain everyone in a table."""
    service, session = service_of(request), session_of(request)
    given = form.get("table")
    content = await given.read() if isinstance(given, UploadFile) else b""
    if not content:
        return page(request, "many.html", 422, fault="Choose a file first, CSV or parquet.")
    key = f"t{secrets.token_hex(6)}"
    folder = service.folder / key
    # The file's own name is never used.
    path = folder / ("people.parquet" if content[:4] == b"PAR1" else "people.csv")
    folder.mkdir()
    await asyncio.to_thread(path.write_bytes, content)
    index = text_of(form, "id").strip() or None
    asking = {"path": str(path), "index": index, "folder": str(folder), "most": service.limits.people}
    session.tables[key] = Table(key, folder, service.engine.job("table", asking))
    while len(session.tables) > TABLES:
        _drop(service, session.tables.popitem(last=False)[1])
    return seen(f"/many/{key}")


class Table:
    """An uploaded table and its results."""

    def __init__(self, key: str, folder: Path, job: Pending) -> None:
        self.key, self.folder, self.job = key, folder, job
        self._people: People | None = None

    @property
    def people(self) -> People:
        """The people of the table, once all are explained."""
        if self._people is None and self.job.result is not None:
            lines = self.job.result["people"]
            parts = {name: [line[name] for line in lines] for name in ("label", "status", "score_now")}
            table = {"labels": parts["label"], "columns": self.job.result["columns"], "status": parts["status"]}
            self._people = People.of(table | {"score": parts["score_now"]}, f"{self.key}-")
        return self._people or People()


def _drop(service: Service, table: Table) -> None:
    service.engine.cancel(table.job)
    service.engine.forget(table.job.key)
    shutil.rmtree(table.folder, ignore_errors=True)


async def table_of(request: Request, key: str) -> Table:
    """A table uploaded from this browser."""
    found: Table | None = session_of(request).tables.get(key)
    if found is None:
        raise HTTPException(404, "This table no longer exists.")
    return found


Uploaded = Annotated[Table, Depends(table_of)]


@router.get("/many/{key}")
async def many_found(request: Request, table: Uploaded, status: str = "", at: int = 0) -> Response:
    """Progress; then the results and obstacles."""
    await table.job.wait(service_of(request).limits.patience)
    result, failure = table.job.result, table.job.failure
    lines = [] if result is None else list(zip(table.people.everybody, result["people"], strict=True))
    found = [(who, line) for who, line in lines if status in ("", line["status"])]
    shown = {"table": table, "job": table.job, "result": result, "status": status, "failure": failure}
    return page(request, "table.html", code_of(failure), **shown, **_listed(found, at))


@router.post("/many/{key}/stop")
async def many_stop(request: Request, table: Uploaded, form: Form) -> Response:
    """Stop explaining a table."""
    service_of(request).engine.cancel(table.job)
    return seen(f"/many/{table.key}")


@router.post("/many/{key}/forget")
async def many_forget(request: Request, table: Uploaded, form: Form) -> Response:
    """Delete a table and its results."""
    del session_of(request).tables[table.key]
    await asyncio.to_thread(_drop, service_of(request), table)
    return seen("/many")


@router.get("/many/{key}/report.html")
async def report(table: Uploaded) -> Response:
    """The report, under the policy that it states itself."""
    table.job.answer()
    return stating_policy(await asyncio.to_thread((table.folder / "report.html").read_text, "utf-8"))


@router.get("/many/{key}/answers.parquet")
async def answers_file(table: Uploaded) -> Response:
    """All answers with their certificates, for programs."""
    table.job.answer()
    return FileResponse(table.folder / "answers.parquet", filename="answers.parquet")


# The rest


@router.get("/about")
async def about(request: Request) -> Response:
    """What this server is, what it stores, and how programs use it."""
    return page(request, "about.html", paths=request.app.openapi()["paths"])


@router.post("/enter")
async def enter(request: Request) -> Response:
    """The token, in exchange for a session."""
    service, form = service_of(request), await request.form(max_files=0, max_fields=10)
    address = request.client.host if request.client else ""
    if service.token is not None and not service.token.admits(text_of(form, "token", 1_000), address):
        return page(request, "enter.html", 403, wrong=True)
    request.state.new_session = service.sessions.new()
    return seen("/")


@router.post("/leave")
async def leave(request: Request, form: Form) -> Response:
    """End the session, and delete what was entered in it."""
    service, session = service_of(request), session_of(request)
    for table in session.tables.values():
        await asyncio.to_thread(_drop, service, table)
    service.sessions.end(session)
    return seen("/enter" if service.token is not None else "/")


@router.get("/static/{name}")
async def static(request: Request, name: str) -> Response:
    """The style sheets and the script."""
    service = service_of(request)
    if name not in service.static:
        raise HTTPException(404, "There is no such file.")
    content, kind = service.static[name]
    return Response(content, media_type=kind, headers={"cache-control": "private, max-age=86400"})


async def failed(request: Request, error: Exception) -> Response:
    """An error page, or JSON for programs."""
    if isinstance(error, Unanswered):
        status, words = FAILED.get(error.kind, 500), error.words
    elif isinstance(error, StoreFault):
        status, words = 507, f"{error} The disk may be full. Nothing was half written."
    elif isinstance(error, AnyHTTPException):
        status, words = error.status_code, str(error.detail).replace("Not Found", "There is no such page.")
    else:
        status, words = 500, "Something went wrong on our side. It was not your fault."
    if request.url.path.startswith(API):
        return Response(json.dumps({"error": words}), status, media_type="application/json")
    return page(request, "fault.html", status, words=words)
