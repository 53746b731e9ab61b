"""Code that stands in documents and notebooks: read, run from top to bottom, and compared with what it says it prints."""

from __future__ import annotations

import ast
import json
import re
import runpy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
# Between the outputs of two blocks; nothing else prints it.
MARK = "\x1e"
# The first line of what a cell shows; pandas breaks the lines of its tables by the width of a terminal.
HEAD = "'' if hasattr(_shown, 'iloc') else repr(_shown).splitlines()[0]"
FRAME = 'class="dataframe"'


@dataclass(frozen=True)
class Block:
    """Some lines of Python, and what they print; empty where the document does not say."""

    code: str
    printed: str


def blocks_of_page(text: str) -> list[Block]:
    """The Python of a Markdown page. What it prints stands in the next block, or in comments that begin a line."""
    found = []
    for match in BLOCK.finditer(text):
        code, output = match.group(1), match.group(2) or ""
        found.append(Block(code, output or "\n".join(re.findall(r"^# (.*)$", code, re.MULTILINE))))
    return found


def blocks_of_notebook(text: str) -> list[Block]:
    """The code cells of a notebook, what they printed when it was made, and the first line of what they showed."""
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return [Block(_showing("".join(cell["source"])), _streamed(cell["outputs"])) for cell in cells]


def _showing(code: str) -> str:
    """The cell as a script that prints what a notebook would show: the head of its last line's value, if it has one."""
    tree = ast.parse(code)
    if not tree.body or not isinstance(tree.body[-1], ast.Expr) or _is_call_of_print(tree.body[-1].value):
        return code + "\n"
    lines = code.splitlines()
    start = tree.body[-1].lineno - 1
    value = "\n".join(lines[start:])
    return "\n".join([*lines[:start], f"_shown = (\n{value}\n)", f"print({HEAD})\n"])


def _is_call_of_print(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print"


def _streamed(outputs: Sequence[dict]) -> str:
    """What was printed, and the first line of what was shown: the rest of it may be long, and hang on a library."""
    printed = "".join("".join(o["text"]) for o in outputs if o["output_type"] == "stream" and o["name"] == "stdout")
    shown = [o["data"] for o in outputs if o["output_type"] == "execute_result"]
    heads = ["".join(d["text/plain"]).splitlines()[0] for d in shown if FRAME not in "".join(d.get("text/html", ""))]
    return "\n".join([printed.rstrip("\n"), *heads])


def printed(blocks: Sequence[Block], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What each block prints when all of them run one after the other, as one script, in a folder."""
    script = folder / "document.py"
    script.write_text(f"print({MARK!r})\n".join(block.code for block in blocks), encoding="utf-8")
    capsys.readouterr()
    runpy.run_path(str(script), run_name="__main__")
    return capsys.readouterr().out.split(f"{MARK}\n")


def shape(text: str) -> list[str]:
    """The lines without their numbers and fingerprints, which another release of a library may change a little."""
    plain = re.sub(r"\b[0-9a-f]{16}\b", "0", text.strip())
    return [" ".join(re.sub(r"\d", "0", line).split()) for line in plain.splitlines()]
