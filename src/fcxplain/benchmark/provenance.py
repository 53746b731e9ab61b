"""Where figures come from: versions, the machine, and a digest of the sources that figures depend on."""

from __future__ import annotations

import ast
import hashlib
import os
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import __version__

ROOT = Path(__file__).resolve().parents[1]
# What draws, prints or plans has no part in a figure.
SILENT = ("cli", "plots", "service", "demo.py", "__main__.py", "benchmark")
MEASURING = ("benchmark/measuring.py", "benchmark/plan.py")
LIBRARIES = ("torch", "numpy", "pandas", "scikit-learn")


def environment() -> dict[str, Any]:
    """What a result was measured with."""
    found = {"python": platform.python_version(), "fcxplain": __version__}
    found |= {name: version(name) for name in LIBRARIES}
    return found | {"cpus": os.cpu_count(), "machine": platform.machine(), "code": code_digest()}


@cache
def code_digest() -> str:
    """Twelve digits that change with the code that figures depend on, not with its comments, docstrings or layout."""
    digest = hashlib.sha256()
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name in MEASURING or name.split("/")[0] not in SILENT:
            digest.update(f"{name}\n{meaning(path.read_text(encoding='utf-8'))}\n".encode())
    return digest.hexdigest()[:12]


def meaning(source: str) -> str:
    """Code as a tree without docstrings; two sources that do the same word for word have the same."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [part for part in body if not _is_text(part)]
            node.body = kept  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    """A text that stands alone: a docstring, or a remark below a field."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
