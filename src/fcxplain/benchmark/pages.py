"""Pages written by hand with places for tables: what stands between `<!-- name -->` and `<!-- end -->` is measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ..errors import DataError, some
from ..writing import write_whole

PLACE = re.compile(r"(<!-- (?P<name>[a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(path: Path, tables: Mapping[str, str]) -> None:
    """Put tables in their places on a page, and leave everything else as it is."""
    text = path.read_text(encoding="utf-8")
    names = [found["name"] for found in PLACE.finditer(text)]
    if not names:
        raise DataError(f"{path} has no place for a table: write `<!-- success -->` and, below it, `<!-- end -->`")
    unknown = [name for name in names if name not in tables]
    if unknown:
        raise DataError(f"{path} has places for {some(unknown)}, and the results give {some(tables)}")
    write_whole(path, PLACE.sub(lambda found: f"{found[1]}{tables[found['name']].rstrip()}\n{found[3]}", text))
