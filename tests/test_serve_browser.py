"""`fcxplain serve` in a real browser: every flow clicked through, by keyboard, without a script, at three widths."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from served_model import SLOW, people, saved, somebody

pytest.importorskip("fastapi")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
PATIENCE = 60_000


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    saved(folder / "model")
    people().to_parquet(folder / "people.parquet")
    here = str(Path(__file__).parent)
    env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join([here, *filter(None, sys.path)])}
    command = [sys.executable, "-m", "fcxplain", "serve", "model", "--rows", "people.parquet", "--classifier",
               "served_model:model", "--store", "a.db", "--port", "0"]  # fmt: skip
    server = subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    yield re.search(r"http://\S+?(?=/)", server.stdout.readline())[0]
    server.terminate()
    server.wait(20)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as tool:
        started = tool.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield started
        started.close()


@pytest.fixture
def page(browser, address):
    """A page on which nothing goes wrong, and that asks nobody else."""
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    page, faults = context.new_page(), []
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda sent: None if sent.url.startswith(address) else faults.append(sent.url))
    yield page
    context.close()
    assert faults == []


def describe(page, **values):
    page.goto("/new")
    page.get_by_label("Name or number").fill("Ann")
    for number, value in enumerate(somebody(**values).values()):
        field = page.locator(f"#value-{number}")
        field.select_option(value) if number > 1 else field.fill(str(value))
    page.get_by_role("button", name="Find options").click()


def assert_accessible(page):
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def answered(page):
    page.wait_for_selector("#answer:not([data-working]):not([aria-busy]) h2")
    return page.locator("#answer h2").first.inner_text()


def test_a_wish_changed_by_keyboard_gives_a_new_answer_without_a_jump(page):
    describe(page)
    assert "to a loan" in answered(page)
    place = page.locator("#effort-2")
    top = place.bounding_box()["y"]
    place.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.wait_for_function("!/job/.test(document.querySelector('#answer .changes').textContent)")
    assert re.match(r"(One|Two|Three) options? that leads? to a loan", answered(page))
    assert place.bounding_box()["y"] == top
    assert page.evaluate("document.activeElement.id") == "effort-2"
    assert "to a loan" in page.locator("#live").inner_text()
    assert "Needed" in page.locator("#answer .board").inner_text()


def test_no_way_a_button_that_lifts_the_wish_what_if_compare_letter_and_receipt(page):
    describe(page)
    answered(page)
    page.locator("#effort-2").select_option("fixed")
    page.locator("#high-1").fill("40")
    page.wait_for_selector("#answer .blocked")
    assert_accessible(page)
    page.locator("#answer .blocked button").first.click()
    page.wait_for_selector("#answer .card .changes")
    assert "to a loan" in answered(page)
    page.get_by_role("link", name="Compare").click()
    assert page.get_by_role("columnheader", name="Option 1").is_visible()
    page.get_by_role("link", name="What if").click()
    page.locator("#value-1").fill("55")
    page.wait_for_selector("text=✕ broken")
    page.get_by_role("link", name="For the applicant").click()
    page.get_by_role("link", name="The same as a letter").click()
    assert "Ann" in page.inner_text("body")
    assert_accessible(page)
    page.go_back()
    page.get_by_role("link", name="Back to the case").click()
    page.get_by_role("button", name="Keep a receipt").first.click()
    assert page.get_by_role("heading", name="It still holds").is_visible()
    assert_accessible(page)


def test_a_slow_model_says_how_far_it_is_and_can_be_stopped(page):
    describe(page, age=SLOW)
    page.wait_for_selector("#answer .working")
    assert re.search(r"\d+ (possibilities|seconds)", page.locator(".working .far").inner_text())
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector("text=Stopped")
    assert page.get_by_role("button", name="Try again").first.is_visible()


def test_many_people_are_sent_watched_and_reported(page, tmp_path):
    people(12).reset_index().to_csv(tmp_path / "some.csv", index=False)
    page.goto("/many")
    page.set_input_files("#table", tmp_path / "some.csv")
    page.get_by_label("The column with their names").fill("customer")
    page.get_by_role("button", name="Upload").click()
    page.get_by_role("link", name="The report").wait_for()
    assert "of 12 people" in page.locator("h1").inner_text()
    assert_accessible(page)
    page.get_by_role("link", name="The report").click()
    page.locator("#cards .card").first.wait_for()
    assert_accessible(page)


def test_without_a_script_the_forms_still_work(browser, address):
    context = browser.new_context(base_url=address, java_script_enabled=False)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    describe(page)
    page.get_by_role("heading", name="to a loan").wait_for()
    page.locator("#effort-2").select_option("fixed")
    page.locator("#high-1").fill("40")
    page.get_by_role("button", name="Update").click()
    page.locator(".blocked button").first.wait_for()
    page.locator(".blocked button").first.click()
    page.get_by_role("heading", name="to a loan").wait_for()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_in_the_way_of_anybody_and_no_width_is_too_narrow(browser, address, scheme):
    context = browser.new_context(base_url=address, color_scheme=scheme)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    describe(page)
    path = page.url
    for part in ("", "/what-if", "/compare", "/applicant"):
        page.goto(path + part)
        if part == "":
            answered(page)
        for width in (360, 768, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (part, width)
        assert_accessible(page)
    for other in ("/", "/new", "/many", "/kept", "/verify", "/about"):
        page.goto(other)
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, other
        assert_accessible(page)
    context.close()


def test_on_paper_there_is_the_answer_and_nothing_to_press(page):
    describe(page)
    answered(page)
    page.emulate_media(media="print")
    assert page.locator("#answer .changes").first.is_visible()
    assert not page.locator(".site").is_visible()
    assert not page.locator(".wishes").is_visible()
    assert not page.get_by_role("button", name="Keep a receipt").first.is_visible()
