"""Makes lists of the arguments that our docstrings describe line by line, for the Python reference of the site.

A line such as `rows: a table.` opens an item, and indented lines after it belong to it. Everything else stays prose.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ARGUMENT = re.compile(r"^([a-z_]\w*(?:, [a-z_]\w*)*): (?=\S)")


def listed(text: str) -> str:
    """The text with a list in place of each run of argument lines."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        opens = ARGUMENT.match(line)
        continues = inside and line.startswith("    ")
        # Without a blank line before it, Markdown takes a list for part of the paragraph.
        if (opens is not None) != inside and not continues and lines and lines[-1]:
            lines.append("")
        lines.append(ARGUMENT.sub(r"- `\1`: ", line) if opens else line)
        inside = opens is not None or continues
    return "\n".join(lines)


class ArgumentLists(griffe.Extension):
    """Rewrites docstrings before they are rendered; the source is left alone."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)
