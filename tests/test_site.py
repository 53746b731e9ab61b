"""The documents as a site: it builds without a warning, and reads without a network."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# What a browser loads by itself; a link that a reader may follow is something else.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\bsrc=["']?(?:https?:)?//|<link[^>]*href=["']?(?:https?:)?//"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("material", reason="the site needs the extra: pip install 'fcxplain[docs]'")
    pytest.importorskip("mkdocstrings", reason="the site needs the extra: pip install 'fcxplain[docs]'")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    # Strict: a link to nowhere or a name without a docstring ends the build.
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


def test_every_page_of_the_documents_is_in_the_menu_and_in_the_site(site: Path):
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reproduction").glob("*.md")]:
        name = page.relative_to(ROOT / "docs").as_posix()
        assert name in menu
        assert (site / name).with_suffix(".html").exists()


def test_no_page_fetches_anything_from_the_network(site: Path):
    pages = list(site.rglob("*.html"))
    assert pages
    assert [page.name for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))] == []
    assert not [sheet for sheet in site.rglob("*.css") if "url(http" in sheet.read_text(encoding="utf-8")]


def test_pages_can_be_searched_when_they_are_opened_from_disk(site: Path):
    # A page from disk may fetch no data, but it may load scripts: the index is one, and so is what replaces the worker.
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert "rules.html" in {doc["location"] for doc in json.loads(index.removeprefix("var __index = "))["docs"]}
    for page in (site / "index.html", site / "reproduction" / "methods.html"):
        scripts = re.findall(r'<script src="([^"]+)"', page.read_text(encoding="utf-8"))
        assert "iframe-worker.js" in {Path(script).name for script in scripts}
        assert all((page.parent / script).exists() for script in scripts)


def test_the_reference_shows_signatures_and_parameters(site: Path):
    text = (site / "api.html").read_text(encoding="utf-8")
    plain = html.unescape(re.sub(r"<[^>]+>", "", text))
    for signature in ("Task(", "FCx(", "explain(", "explain_file(", "load_dataset("):
        assert signature in plain
    assert re.search(r"overrides\s+DataFrame or mapping", plain)
    assert "Settings for single rows" in plain
