"""Reports of results: Markdown for people, CSV for programs, and pictures. The same results give the same bytes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...errors import DataError, Fault, some
from ...files import write_whole
from ..results import Result
from . import ablation, comparison, reproduction
from .markdown import as_csv, table
from .pictures import OVERVIEW, draw
from .summary import current, runs_of

PLACE = re.compile(r"(<!-- (?P<name>[a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(path: Path, tables: Mapping[str, str], *, partly: bool = False) -> None:
    """Put tables in their places on a page, and leave the rest as it is; with `partly`, some tables may be missing."""
    text = path.read_text(encoding="utf-8")
    names = [found["name"] for found in PLACE.finditer(text)]
    if not names:
        raise DataError(f"{path} has no place for a table: write `<!-- success -->` and, below it, `<!-- end -->`")
    unknown = [name for name in names if name not in tables]
    if unknown and not (partly and len(unknown) < len(names)):
        raise DataError(f"{path} has places for {some(unknown)}, but the results give {some(tables)}")

    def filled(found: re.Match[str]) -> str:
        return f"{found[1]}{tables[found['name']].rstrip()}\n{found[3]}" if found["name"] in tables else found[0]

    write_whole(path, PLACE.sub(filled, text))


LIBRARIES = ("python", "torch", "fcxplain", "scikit-learn")


def write_report(
    results: Iterable[Result], folder: str | Path, *, pictures: bool = True, pages: Iterable[str | Path] = ()
) -> list[Path]:
    """Write a report of the results to a folder, and return the paths of its files.

    `reproduction` has the paper's tables, `methods` the comparison of all methods, `ablation` the paper's studies, each
    as Markdown and as CSV; `failures.csv` has the failed jobs. Files without content are not written. `pages` are
    written by hand and have places for tables; see `fill`.
    """
    results = list(results)
    if not results:
        raise DataError("there are no results to report: run `fcxplain bench run` first, or name its --out folder")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    kept = current(results)
    one_code(kept)
    every, studies = runs_of(kept), ablation.studies_of(kept)
    runs = reproduction.published_runs(every)
    drawn = draw(every, runs, studies, folder) if pictures else []
    names = [path.stem for path in drawn]
    texts: dict[str, str] = {}
    if runs:
        page = reproduction.page(runs, f"{OVERVIEW}.svg" if OVERVIEW in names else None)
        own = [
            r for r in results if not r.job.study and r.job.method in reproduction.PUBLISHED and r.job.given == "own"
        ]
        texts |= {"reproduction.md": page + ending(own), "reproduction.csv": reproduction.csv_page(runs)}
    if len(every) > len(runs):
        page = comparison.page(every, names) + ending([r for r in results if not r.job.study])
        texts |= {"methods.md": page, "methods.csv": reproduction.csv_page(every)}
    if studies:
        page = ablation.page(studies, names) + ending([r for r in results if r.job.study])
        texts |= {"ablation.md": page, "ablation.csv": ablation.csv_page(studies)}
    if any(result.failure for result in kept):
        texts["failures.csv"] = failures(kept)
    for name, text in texts.items():
        write_whole(folder / name, text)
    filled = [Path(page) for page in pages]
    for path in filled:
        fill(path, comparison.tables(every))
    return [*(folder / name for name in texts), *drawn, *filled]


def one_code(results: Iterable[Result]) -> None:
    """Raise an error if results come from different states of the code, since they cannot be compared."""
    states = Counter((str(r.environment.get("code")), str(r.environment.get("commit", ""))) for r in results)
    if len({code for code, _ in states}) > 1:
        faults = [
            Fault(f"code {code}", f"gave {count:,} of the lines" + (f", commit {commit}" if commit else ""))
            for (code, commit), count in sorted(states.items())
        ]
        raise DataError(
            "these results come from different code; run the same commands again, and all jobs are due", faults
        )


def ending(results: list[Result]) -> str:
    """The end of a page: failed runs, lines left out, and the environment of the measurement."""
    parts, kept = [], current(results)
    failed = [r for r in kept if r.failure]
    if failed:
        sizes = ("" if r.job.rows is None else f", {r.job.rows:,} rows" for r in failed)
        lines = [(f"{r.job}{size}", str(r.failure)) for r, size in zip(failed, sizes, strict=True)]
        parts.append("### What failed\n\n" + table(("run", "reason"), lines, left=2))
    superseded = len(results) - len(kept)
    if superseded:
        what = "1 older line" if superseded == 1 else f"{superseded:,} older lines"
        parts.append(f"{what} of the same jobs, measured with other parameters or code, left out.\n")
    with_what = {
        f"{', '.join(f'{name} {r.environment.get(name)}' for name in LIBRARIES)}, "
        f"{r.environment.get('cpus')} CPUs ({r.environment.get('machine')}), "
        f"commit {r.environment.get('commit') or 'not known'}"
        for r in kept
    }
    parts.append(f"Measured on one thread with {'; with '.join(sorted(with_what))}.\n")
    return "".join(f"\n{part}" for part in parts)


def failures(results: Iterable[Result]) -> str:
    """Each failed job with its reason, as CSV."""
    head = ("key", "data", "rows", "method", "rules", "seed", "study", "point", "type", "message", "place")
    return as_csv(head, ({"key": r.key} | vars(r.job) | vars(r.failure) for r in results if r.failure))
