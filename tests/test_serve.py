"""The pages and the API of `fcxplain serve`, with a real worker behind them, as a browser without a script sees them."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from commands import run

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from fcxplain.rules import holds
from fcxplain.service.app import ServeSettings, application
from fcxplain.service.receipts import Store, held_against
from fcxplain.service.trust import Limits
from served_model import HANGS, NOT_A_NUMBER, RAISES, SLOW, people, saved, somebody

HERE = "http://127.0.0.1:8000"
# Said to programmers and case workers, never to an applicant.
INTERNAL = re.compile(r"\b(rows?|legal|training rows?|counterfactuals?|classifier)\b", re.I)


@pytest.fixture(scope="module")
def fcx(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("serve") / "model")


@pytest.fixture(scope="module")
def client(fcx, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    model = next(folder.glob("serve*/model"))
    rows = model.parent / "people.parquet"
    people().to_parquet(rows)
    limits = Limits(patience=0.4, burst=10_000)
    settings = ServeSettings(
        str(model), str(rows), classifier="served_model:model", store=model.parent / "a.db", limits=limits, workers=2
    )
    with TestClient(application(settings), base_url=HERE) as client:
        yield client


def seen(client, path):
    """A page when its question is answered."""
    for _ in range(100):
        page = client.get(path)
        if "data-working" not in page.text and "data-reasons" not in page.text:
            return page
    raise AssertionError(f"{path} is still at work")


def csrf(client, path="/new"):
    return re.search(r'name="csrf" value="([^"]+)"', client.get(path).text)[1]


def described(client, **values):
    """The address of a person who was typed in."""
    values = somebody(**values)
    form = {f"value.{i}": str(value) for i, value in enumerate(values.values())} | {"label": "Ann <b>&"}
    answer = client.post("/new", data=form | {"csrf": csrf(client)}, follow_redirects=False)
    assert answer.status_code == 303
    return answer.headers["location"]


def wish(client, path, **fields):
    """Wishes of a form: hours are feature 1, job is feature 2."""
    form = {
        "effort.1": "usual",
        "low.1": "",
        "high.1": "",
        "effort.2": "usual",
        "level.2": ["Clerk", "Driver", "Engineer"],
    }
    client.post(f"{path}/wishes", data=form | {"csrf": csrf(client)} | fields)
    return seen(client, path)


def test_a_person_has_ways_that_were_checked_with_the_scores_beside_them(client):
    page = seen(client, "/person/p0").text
    assert "Score now" in page
    assert "Needed" in page
    path = described(client)
    page = seen(client, path).text
    assert re.search(r"(One|Two|Three) options? that leads? to a loan", page)
    assert "engineer &amp; builder" in page
    assert "Ann &lt;b&gt;&amp;" in page
    assert "<b>&" not in page


def test_a_changed_wish_gives_a_new_answer_that_keeps_it(client):
    path = described(client)
    page = wish(client, path, **{"effort.2": "fixed"}).text
    answer = page[page.index('id="answer"') : page.index('class="wishes"')]
    assert "hours per week" in answer
    assert "change job" not in answer
    assert "hours per week and job" not in answer


def test_fixed_features_are_never_offered(client):
    page = seen(client, described(client)).text
    assert not re.search(r'name="(effort|low|high|level)\.(0|3)"', page)
    answer = page[page.index('id="answer"') : page.index('class="wishes"')]
    changes = re.findall(r'class="title">([^<]+)<', answer)
    assert set(changes) <= {"hours per week", "job"}
    wishes = {"gender": {"effort": "easy"}}
    refused = client.post("/api/v1/explain", json={"values": somebody(), "wishes": wishes})
    assert refused.status_code == 422
    assert "fixed for everyone" in refused.json()["error"]


def test_where_there_is_no_way_the_wish_in_it_is_a_button_that_lifts_it(client):
    path = described(client)
    page = wish(client, path, **{"effort.2": "fixed", "high.1": "40"}).text
    assert "No permitted change leads to" in page or "No option was found" in page
    answer = page[page.index('id="answer"') :]
    assert not re.search(r"\b(age|gender)\b", answer[: answer.index('class="wishes"')])
    button = re.search(r'name="wish" value="([^"]+)"', page)[1].replace("&#34;", '"').replace("&quot;", '"')
    assert "Allow" in page
    client.post(f"{path}/lift", data={"wish": button, "csrf": csrf(client)})
    lifted = seen(client, path).text
    assert re.search(r"(One|Two|Three) options? that leads? to a loan", lifted)


def test_the_applicant_reads_plain_words_alone(client):
    path = described(client)
    for change in ({}, {"effort.2": "fixed", "high.1": "40"}):
        wish(client, path, **change)
        page = seen(client, f"{path}/applicant").text
        text = re.sub(r"<[^>]+>", " ", page)
        assert not INTERNAL.search(text), INTERNAL.search(text)
        assert "Score now" in page
        assert "Needed" in page


def test_what_if_shows_the_model_and_each_rule_at_once(client):
    path = described(client)
    page = client.post(f"{path}/what-if", data={"csrf": csrf(client), "value.1": "55", "value.2": "Engineer"}).text
    assert "That would be enough, but the rules do not allow it" in page
    assert "✕ broken" in page
    assert "✓ kept" in page
    odd = client.post(f"{path}/what-if", data={"csrf": csrf(client), "value.1": "many", "value.2": "Pilot"})
    assert odd.status_code == 422
    assert "is not a number" in odd.text
    assert "not known" in odd.text


def test_what_if_says_what_the_model_says_now(client):
    page = client.get(f"{described(client, job='Engineer', hours=45)}/what-if").text
    assert "the model says <strong>a loan</strong>" in page


def test_ways_stand_side_by_side(client):
    path = described(client)
    seen(client, path)
    page = client.get(f"{path}/compare").text
    assert "Option 1" in page
    assert "same" in page


def test_a_receipt_is_kept_holds_and_can_be_deleted(client, fcx):
    path = described(client)
    page = client.post(f"{path}/keep/1", data={"csrf": csrf(client)})
    assert "It still holds" in page.text
    key = re.search(r"/kept/([0-9a-f]{32})/receipt.json", page.text)[1]
    receipt = client.get(f"/kept/{key}/receipt.json").json()
    assert held_against(fcx.task_, receipt).holds
    forged = json.loads(json.dumps(receipt))
    forged["counterfactual"]["hours"] = 11
    check = client.post("/api/v1/verify", json=forged).json()
    assert not check["signature"]
    assert not check["answer"]
    assert check["own_key"]
    assert client.post("/api/v1/verify", json=receipt).json()["holds"]
    client.post("/kept/delete", data={"csrf": csrf(client), "id": key})
    assert client.get(f"/kept/{key}").status_code == 404


def test_a_receipt_does_not_hold_against_other_rules(client, tmp_path):
    path = described(client)
    page = client.post(f"{path}/keep/1", data={"csrf": csrf(client)}).text
    key = re.search(r"/kept/([0-9a-f]{32})/receipt.json", page)[1]
    receipt = client.get(f"/kept/{key}/receipt.json").json()
    found = held_against(saved(tmp_path / "m", "hours' <= 50").task_, receipt)
    assert found.signature
    assert not found.rules
    assert not found.holds


def test_many_people_get_a_report_and_a_list_by_status(client, fcx):
    table = io.BytesIO(people(20).reset_index().to_csv(index=False).encode())
    form = {"csrf": csrf(client), "id": "customer"}
    page = client.post("/many", data=form, files={"table": ("../../etc/x.csv", table)})
    address = page.url.path
    for _ in range(200):
        if "The report" in page.text or "bad" in page.text:
            break
        page = client.get(address)
    expected = fcx.explain(people(20), why_not=True)
    assert f"{expected.counts['verified']} of 20 people have an option" in page.text
    listed = client.get(f"{address}?status=already").text
    assert f"{expected.counts['already']} people" in listed
    report = client.get(f"{address}/report.html")
    assert "sandbox" in report.headers["content-security-policy"]
    assert "C000" in report.text
    assert client.get(f"{address}/answers.parquet").content[:4] == b"PAR1"
    someone = re.search(rf"/person/({address.split('/')[-1]}-\d+)", page.text)[0]
    assert client.get(someone).status_code == 200
    client.post(f"{address}/forget", data={"csrf": csrf(client)})
    assert client.get(address).status_code == 404


def test_a_form_without_its_secret_is_refused(client):
    assert client.post("/new", data={"label": "x"}).status_code == 403
    assert client.post("/new", data={"label": "x", "csrf": "guess"}).status_code == 403


def test_people_of_one_browser_are_nobody_to_another(client):
    path = described(client)
    client.cookies.clear()
    assert client.get(path).status_code == 404


def test_a_model_that_raises_or_says_nonsense_costs_one_question(client, caplog):
    for age in (RAISES, NOT_A_NUMBER):
        page = seen(client, described(client, age=age))
        assert "option" not in re.findall(r"<h2[^>]*>([^<]+)<", page.text)[0].lower() or "cannot" in page.text
        assert page.status_code in (200, 502)
    assert "secret 4711" not in caplog.text
    assert client.get(described(client, hours=31)).status_code == 200


def test_a_model_that_hangs_shows_how_far_it_is_can_be_stopped_and_is_replaced(client):
    path = described(client, age=HANGS)
    page = client.get(path)
    assert "Looking for options" in page.text
    assert 'http-equiv="refresh"' in page.text
    stopped = client.post(f"{path}/stop", data={"csrf": csrf(client)}).text
    assert "Stopped" in stopped
    assert "Stopped" in client.get(path).text
    assert client.post("/api/v1/explain", json={"values": somebody(hours=32)}).json()["status"] == "verified"


def test_two_requests_for_one_person_at_once_get_one_answer(client):
    question, found = {"values": somebody(hours=28)}, []
    threads = [
        threading.Thread(target=lambda: found.append(client.post("/api/v1/explain", json=question))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in found} == {200}
    assert len({answer.text for answer in found}) == 1


def test_the_api_gives_the_librarys_own_answers(client, fcx):
    values = somebody(hours=33)
    answer = client.post("/api/v1/explain", json={"values": values, "k": 2, "wishes": {"hours": {"high": 45}}}).json()
    for way in answer["ways"]:
        assert way["values"]["hours"] <= 45
        rows = people(1).iloc[[0]].assign(**values)
        assert holds(fcx.task_.rules, rows, rows.assign(**way["values"])).all()
        assert fcx.task_.predict(rows.assign(**way["values"])).tolist() == ["yes"]
    assert client.get("/api/v1/openapi.json").json()["paths"].keys() >= {"/api/v1/explain", "/api/v1/verify"}


@pytest.mark.parametrize(
    "body",
    ["", "{", "[]", '{"values": 3}', '{"values": {}}', '{"values": null}', '{"wishs": {}}', '{"k": 99, "values": {}}', "[" * 50_000,
     '{"values": {"age": 1e999, "hours": 3, "job": "Clerk", "gender": "F"}}', '{"values": {"age": [1], "hours": 3, "job": 1, "gender": {}}}'],
)  # fmt: skip
def test_malformed_questions_are_refused_in_words(client, body):
    answer = client.post("/api/v1/explain", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]


def test_a_form_cannot_pass_for_a_question_of_a_program(client):
    body = json.dumps({"values": somebody()})
    assert client.post("/api/v1/explain", content=body, headers={"content-type": "text/plain"}).status_code in (
        415,
        422,
    )


def test_no_training_row_leaves_the_server_only_bars_do(client):
    about = client.get("/api/v1/schema").json()
    assert set(about["spreads"]["hours"]) == {"kind", "bars", "ends", "places"}
    assert len(about["spreads"]["hours"]["bars"]) <= 24
    assert "train" not in about


def test_a_page_is_small_and_asks_nobody_else(client):
    page = seen(client, described(client)).text
    parts = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    assert len(page.encode()) + sum(len(client.get(part).content) for part in parts) < 100_000
    assert not re.search(r'(?:href|src|action)="(?:https?:)?//', page)
    assert "<style" not in page
    assert " style=" not in page
    assert not re.search(r"<script(?! src)", page)
    assert not re.search(r"\son\w+=", page)


def test_a_slow_model_is_shown_at_work_and_answers_in_the_end(client):
    path = described(client, age=SLOW)
    page = client.get(path).text
    assert "possibilities tried" in page or "Looking for options" in page
    client.post(f"{path}/stop", data={"csrf": csrf(client)})


def test_injected_names_and_values_stay_text(client):
    nasty = '"><script>alert(1)</script>'
    form = {f"value.{i}": str(v) for i, v in enumerate(somebody().values())} | {"label": nasty, "csrf": csrf(client)}
    page = client.post("/new", data=form).text
    assert "<script>alert" not in page
    assert "<script>alert" not in client.get("/", params={"find": nasty}).text
    assert "<script>alert" not in client.post("/new", data=form | {"value.2": nasty}).text
    assert "<script>alert" not in client.get("/kept", params={"person": nasty}).text
    assert client.post("/person/p0/lift", data={"csrf": csrf(client), "wish": nasty}).status_code == 400


def test_a_receipt_that_was_shown_survives_a_kill(fcx, tmp_path):
    fcx.save(tmp_path / "model")
    env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "fcxplain", "serve", "model", "--classifier", "served_model:model"]
    command += ["--store", "a.db", "--port", "0", "--workers", "1"]
    server = subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    address, shown = re.search(r"http://\S+?(?=/)", server.stdout.readline())[0], []

    def ask(hours):
        body = json.dumps({"values": somebody(hours=hours), "k": 1, "receipt": True}).encode()
        request = urllib.request.Request(f"{address}/api/v1/explain", body, {"content-type": "application/json"})
        with contextlib.suppress(OSError, http.client.HTTPException):
            shown.extend(json.load(urllib.request.urlopen(request, timeout=60))["receipts"])

    ask(20)
    threads = [threading.Thread(target=ask, args=(hours,)) for hours in range(21, 31)]
    for thread in threads:
        thread.start()
    while len(shown) < 3:
        time.sleep(0.005)
    server.kill()
    for thread in threads:
        thread.join()
    store = Store(tmp_path / "a.db")
    assert len(shown) >= 3
    for receipt in shown:
        assert store.receipt(receipt["id"]) == receipt
    assert held_against(fcx.task_, store.receipt(shown[-1]["id"])).holds
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(shown[0]))
    model = ("--model", "model", "--classifier", "served_model:model")
    assert run("verify", file, *model, folder=tmp_path).code == 0
    file.write_text(json.dumps(shown[0] | {"person": "Eve"}))
    told = run("verify", file, *model, folder=tmp_path)
    assert told.code == 1
    assert "signature: DOES NOT HOLD" in told.words
    assert "somebody" in run("store", "list", "a.db", folder=tmp_path).out
    assert "deleted" in run("store", "delete", "a.db", "--person", "somebody", folder=tmp_path).out
    assert Store(tmp_path / "a.db").entries() == []
