"""The documents' Python runs, and prints what they say it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str, str]]:
    found = []
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")), start=1):
            code, output = match.group(1), match.group(2) or ""
            told = re.findall(r"^# (.*)$", code, re.MULTILINE) if not output else output.splitlines()
            found.append((f"{page.name}, block {number}", code, "\n".join(told)))
    return found


def loans(folder: Path) -> None:
    generator = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": generator.integers(18, 80, 300),
            "income": generator.integers(100, 900, 300) * 10,
            "amount": generator.integers(1, 99, 300) * 50,
            "job": generator.choice(["cook", "clerk", "smith"], 300),
        }
    )
    table["approved"] = np.where(table["income"] > table["amount"], "yes", "no")
    table.to_csv(folder / "loans.csv", index=False)


@pytest.mark.parametrize(("name", "code", "output"), blocks(), ids=[name for name, _, _ in blocks()])
def test_python_in_the_documents_runs_and_prints_what_they_say(name, code, output, tmp_path: Path):
    loans(tmp_path)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if output:
        assert shape(done.stdout) == shape(output)


def shape(text: str) -> list[str]:
    """The lines without their numbers and fingerprints, which another release of a library may change a little."""
    plain = re.sub(r"\b[0-9a-f]{16}\b", "0", text.strip())
    return [" ".join(re.sub(r"\d", "0", line).split()) for line in plain.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_the_documents_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
