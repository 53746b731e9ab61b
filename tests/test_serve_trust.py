"""Who is let in: hosts, origins, tokens, sizes and floods, in front of a page that only says hello."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import sys
import time

import httpx
import pytest
from starlette.exceptions import HTTPException

from commands import run

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from fcxplain.errors import DataError
from fcxplain.service.answers import Engine, Unanswered, Worker
from fcxplain.service.app import ServeSettings, application
from fcxplain.service.people import Sessions
from fcxplain.service.receipts import Signer, Store, StoreFault, is_signed, read_receipt
from fcxplain.service.service import Service
from fcxplain.service.trust import Gate, Limits, Pace, Token

SECRET = "a token that is long enough"


async def hello(scope, receive, send):
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello %d" % len(body)})


def gate(limits=None, **how):
    return Gate(hello, sessions=Sessions(), limits=limits or Limits(), **how)


def ask(app, path="/", method="GET", **how):
    async def once():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000") as client:
            return await client.request(method, path, **how)

    return asyncio.run(once())


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "10.0.0.7:8000"])
def test_a_name_that_is_not_ours_is_turned_away(host):
    assert ask(gate(), headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000"])
def test_this_machine_is_known_by_its_own_names(host):
    assert ask(gate(), headers={"host": host}).status_code == 200


def test_behind_a_proxy_its_name_is_known_and_cookies_are_secure():
    app = gate(token=Token(SECRET), host="0.0.0.0", origin="https://answers.example.org")
    headers = {"host": "answers.example.org", "authorization": f"Bearer {SECRET}"}
    assert ask(app, "/api/v1/schema", headers=headers).status_code == 200
    assert ask(app, "/api/v1/schema", headers=headers | {"host": "evil.example"}).status_code == 421
    local = ask(gate(origin="https://answers.example.org"))
    assert "Secure" in local.headers["set-cookie"]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"},
    ],
)
def test_posts_of_other_pages_are_refused(headers):
    assert ask(gate(), "/person/p0/wishes", "POST", headers=headers).status_code == 403


def test_other_pages_may_link_here_but_not_read():
    navigate = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert ask(gate(), headers=navigate).status_code == 200
    assert ask(gate(), headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}).status_code == 403


def test_a_post_of_our_own_page_is_let_in():
    headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert ask(gate(), "/new", "POST", headers=headers, content=b"abc").text == "hello 3"


@pytest.mark.parametrize("path", ["/static/../secret", "/static/%2e%2e/secret", "//evil", "/a%00b", "/a\\b", "/a%2fb"])
def test_paths_with_tricks_are_no_paths(path):
    status = []

    async def once():
        async def send(message):
            status.append(message.get("status"))

        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "headers": [(b"host", b"localhost")],
        }
        await gate()(scope, None, send)

    asyncio.run(once())
    assert status[0] == 400


def test_what_is_too_large_is_refused_with_or_without_a_length():
    app = gate(Limits(body=1_000))

    async def parts():
        for _ in range(50):
            yield b"x" * 100

    assert ask(app, "/new", "POST", content=b"x" * 1_001).status_code == 413
    assert ask(app, "/new", "POST", content=parts()).status_code == 413
    assert ask(app, "/new", "POST", content=b"x" * 1_000).status_code == 200
    assert ask(app, "/new", "POST", headers={"content-length": "-5"}).status_code == 413


def test_a_request_that_never_arrives_is_given_up():
    sent = []

    async def never():
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message.get("status"))

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/new",
        "raw_path": b"/new",
        "headers": [(b"host", b"localhost")],
    }
    asyncio.run(gate(Limits(slowest=0.05))(scope, never, send))
    assert sent[0] == 408


def test_a_flood_is_slowed_down_and_others_are_not():
    pace = Pace(per_second=1.0, burst=5)
    assert [pace.allows("a") for _ in range(8)] == [True] * 5 + [False] * 3
    assert pace.allows("b")
    app = gate(Limits(burst=3, per_second=0.1))
    assert [ask(app).status_code for _ in range(5)] == [200, 200, 200, 429, 429]


def test_every_answer_has_the_strict_headers_and_the_cookie_is_out_of_reach_of_scripts():
    answer = ask(gate())
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert "HttpOnly; SameSite=Strict" in answer.headers["set-cookie"]
    assert ask(gate(), headers={"host": "evil"}).headers["x-content-type-options"] == "nosniff"


def test_with_a_token_pages_need_a_session_and_programs_the_token():
    app = gate(token=Token(SECRET))
    assert ask(app).headers["location"] == "/enter"
    assert ask(app, "/enter").status_code == 200
    assert ask(app, "/api/v1/schema").status_code == 401
    assert ask(app, "/api/v1/schema", headers={"authorization": f"Bearer {SECRET}"}).status_code == 200
    assert ask(app, "/api/v1/health").status_code == 200


def test_wrong_tokens_make_an_address_wait_longer_each_time():
    token = Token(SECRET)
    assert not token.admits("wrong", "a")
    with pytest.raises(HTTPException) as error:
        token.admits(SECRET, "a")
    assert error.value.status_code == 429
    assert token.admits(SECRET, "b")
    time.sleep(Token.FIRST + 0.02)
    assert not token.admits("wrong", "a")
    with pytest.raises(HTTPException):
        token.admits(SECRET, "a")


def test_without_a_token_nobody_else_can_be_let_in():
    with pytest.raises(DataError, match="needs a token"):
        ServeSettings("model", host="0.0.0.0")
    with pytest.raises(DataError, match="too short"):
        ServeSettings("model", token="short")
    assert ServeSettings("model", host="0.0.0.0", token=SECRET).host == "0.0.0.0"


# Workers that misbehave

READY = "import sys, time; o = sys.stdout.buffer; r = b'{\"result\": 1}\\n'; o.write(r); o.flush(); "


def answered_by(code: str, seconds: float = 5.0):
    """What becomes of a question to a process that says it is ready, and then does something else."""

    async def once():
        worker = Worker([sys.executable, "-c", READY + code], loud=False)
        try:
            return await worker.answer("ask", {}, seconds, lambda _: None), worker
        finally:
            worker.kill()
            await asyncio.gather(*worker.ending)

    return asyncio.run(once())


@pytest.mark.parametrize(
    ("code", "kind"), [("time.sleep(60)", "time"), ("sys.exit(3)", "crash"), ("o.write(b'abc')", "crash")]
)
def test_a_worker_that_hangs_ends_or_breaks_off_is_given_up(code, kind):
    with pytest.raises(Unanswered) as error:
        answered_by(code, 0.3 if kind == "time" else 5.0)
    assert error.value.kind == kind
    assert "secret" not in error.value.words


def test_a_worker_that_answers_is_heard():
    assert answered_by("o.write(r); o.flush(); time.sleep(60)")[0] == 1


# The store


def receipt(signer: Signer, person="Ann", **more):
    asked = {"label": person, "values": {"a": 1}, "wishes": {}}
    way = {"values": {"a": 2}, "certificate": {"rules_id": "r"} | more}
    return signer.receipt(asked, {"own_rules": [], "wanted": "yes", "model": "m"}, way)


def test_a_receipt_is_found_again_after_a_restart_and_its_key_stays(tmp_path):
    store = Store(tmp_path / "a.db")
    kept = receipt(store.signer)
    store.keep(kept)
    store.close()
    again = Store(tmp_path / "a.db")
    assert again.receipt(kept["id"]) == kept
    assert again.signer.public == kept["key"]
    assert is_signed(kept)
    assert (tmp_path / "a.db").stat().st_mode & 0o077 == 0


def test_an_altered_receipt_is_not_signed(tmp_path):
    kept = receipt(Store(tmp_path / "a.db").signer)
    assert not is_signed(kept | {"person": "Eve"})
    assert not is_signed(kept | {"signature": "AAAA"})
    assert not is_signed(kept | {"key": "AAAA"})


def test_what_is_no_receipt_is_refused_in_words():
    for text in ("", "[]", "{}", "[" * 100_000, '{"kind": "fcxplain receipt", "format": 9}'):
        with pytest.raises(ValueError, match="receipt"):
            read_receipt(text)


def test_a_full_disk_leaves_no_half_entry(tmp_path):
    store = Store(tmp_path / "a.db")
    kept: list[str] = []

    def fill():
        for _ in range(100):
            one = receipt(store.signer, filler="x" * 3_000)
            store.keep(one)
            kept.append(one["id"])

    # A limit on the size of files is what a full disk is to a program.
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, most))
    try:
        with pytest.raises(StoreFault, match="Nothing was kept"):
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    assert kept
    assert {entry.id for entry in store.entries()} == set(kept)
    store.delete(key=kept[0])
    assert len(store.entries()) == len(kept) - 1


def test_what_is_deleted_is_gone_from_the_file(tmp_path):
    store = Store(tmp_path / "a.db")
    store.keep(receipt(store.signer, "Ann-4711"))
    store.keep(receipt(store.signer, "Bob-4711"))
    assert [entry.person for entry in store.entries("Ann-4711")] == ["Ann-4711"]
    assert store.delete(person="Ann-4711") == 1
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Ann-4711" not in content
    assert b"Bob-4711" in content


def test_another_file_is_no_store(tmp_path):
    (tmp_path / "a.db").write_text("no database at all, but long enough to look like a file")
    with pytest.raises(DataError, match="cannot be used as a store"):
        Store(tmp_path / "a.db")
    other = sqlite3.connect(tmp_path / "b.db")
    other.execute("CREATE TABLE entries (x)")
    other.commit()
    with pytest.raises(DataError, match="cannot be used as a store"):
        Store(tmp_path / "b.db")


# The command line and the token's page


def test_without_the_extra_a_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    told = run("serve", "model", folder=tmp_path)
    assert told.code == 2
    assert "pip install 'fcxplain[serve]'" in told.words


def test_a_server_for_others_without_a_token_does_not_start(tmp_path):
    told = run("serve", "model", "--host", "0.0.0.0", folder=tmp_path)
    assert told.code == 2
    assert "needs a token" in told.words


def test_the_token_is_exchanged_for_a_session(tmp_path):
    gate = application(ServeSettings("model", token=SECRET))
    engine = Engine("model")
    engine.about = {"model": {"name": "a model"}, "rules": [], "classes": ["no", "yes"]}
    gate.app.state.service = Service(engine, gate.sessions, Limits(), tmp_path, None, gate.token)
    client = TestClient(gate, base_url="http://127.0.0.1:8000", follow_redirects=False)
    assert client.get("/").headers["location"] == "/enter"
    assert client.post("/enter", data={"token": "a wrong one"}).status_code == 403
    time.sleep(Token.FIRST + 0.02)
    entered = client.post("/enter", data={"token": SECRET})
    assert "HttpOnly; SameSite=Strict" in entered.headers["set-cookie"]
    assert "Choose a person" in client.get("/").text
