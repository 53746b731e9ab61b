"""The notebooks in `examples/` run from top to bottom, and print what they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents import blocks_of_notebook, printed, shape

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda p: p.name)
def test_notebooks_run_and_print_what_they_show(notebook: Path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of_notebook(notebook.read_text(encoding="utf-8"))
    for number, (block, text) in enumerate(zip(blocks, printed(blocks, tmp_path, capsys), strict=True), start=1):
        assert shape(text) == shape(block.printed), f"cell {number}"
