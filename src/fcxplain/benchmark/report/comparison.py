"""Comparison of all methods on the same legal rows, with the paper's figures below ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...classifier.training import KINDS
from ..plan import METHODS, takes_rules
from . import published, reproduction
from .markdown import legend, measures, number, table
from .summary import Runs, Setup, grouped, place, sizes_of

ENOUGH = 95.0
PAPER = "paper"
OURS = "fcx"
TOLD = {
    "own": "each method given those that it supports",
    "none": "given to no method",
    "all": "all given to methods that take rules",
}
# Our methods that are compared with the paper's rows, and the figures compared.
HELD = ("fcx", "fcx-sparse")
HELD_BY = {
    "sparsity": "changes",
    "continuous_proximity": "continuous",
    "categorical_proximity": "categorical",
    "feasibility": "feasible",
}
# The default and each of its two parts alone, and the figures that show what each contributes.
PARTS = ("fcx", "fcx-search", "fcx-draw")
SHOWN_OF_PARTS = ("success_possible", "sparsity", "lof_to_data")


@dataclass(frozen=True)
class Beside:
    """The methods that were run with one rule set on one data set, by name."""

    setup: Setup
    rules: str
    given: str
    runs: dict[str, Runs]

    @property
    def title(self) -> str:
        """The data set and the rules, and which rules the methods were given if not those that each supports."""
        return f"{self.setup.title}, {self.rules} rules{'' if self.given == 'own' else f', {TOLD[self.given]}'}"

    @property
    def others(self) -> list[Runs]:
        """The methods other than ours."""
        return [run for run in self.runs.values() if not run.method.startswith(OURS)]


def besides(runs: Iterable[Runs]) -> list[Beside]:
    """Group runs that are comparable; a method that takes no rules is in every such group."""
    runs = list(runs)
    groups = grouped(runs, lambda run: (run.setup, run.rules, run.given))
    blind = [run for run in runs if run.method in METHODS and not takes_rules(run.method)]
    found = []
    for (setup, rules, given), own in groups.items():
        here = own if given == "own" else [*own, *(r for r in blind if (r.setup, r.rules) == (setup, rules))]
        found.append(Beside(setup, rules, given, {run.label: run for run in here}))
    return found


def page(runs: Sequence[Runs], pictures: Sequence[str] = ()) -> str:
    """The Markdown page; `pictures` are the file stems of the pictures drawn."""
    parts, groups = ["## All methods, on legal rows\n", legend("methods")], besides(runs)
    for setup, here in grouped(groups, lambda group: group.setup).items():
        results = [result for group in here for run in group.runs.values() for result in run.results]
        parts += [f"### {setup.title}\n", sizes_of(results)]
        if setup.picture in pictures:
            parts.append(f"![Success against changes and speed, {setup.title}]({setup.picture}.svg)\n")
        parts += [
            f"#### {group.rules} rules, {TOLD[group.given]}\n\n{_table(list(group.runs.values()))}" for group in here
        ]
    parts += ["## Where the default is not ahead\n", not_ahead(groups)]
    parts += ["## Methods below the paper's row for them\n", below_paper(groups)]
    return "\n".join([*parts, "## Against the paper's rows\n", _against_paper(groups)])


def _table(runs: Sequence[Runs]) -> str:
    """A table with one line per method, and the paper's figures below it."""
    shown = [m for m in measures("methods").values() if any(run.of(m.figure).values for run in runs)]
    lines: list[tuple[str, ...]] = []
    for run in runs:
        found = ((run.of(m.figure), m.digits) for m in shown)
        lines.append((run.label, *(one.spread(digits) if one.values else "" for one, digits in found)))
        paper = [number(run.published(run.method, m.paper), digits=m.digits) for m in shown]
        lines += [("*paper*", *paper)] if any(paper) else []
    return table(("method", *(m.words for m in shown)), lines)


def _listed(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines) or "In none of these tables.\n"


def not_ahead(groups: Sequence[Beside]) -> str:
    """List where another method has more success than the default FCx, or fewer changes with enough success."""
    if not any(group.others for group in groups):
        return "No other method has been run yet: `fcxplain bench run --methods all`.\n"
    return _listed(line for group in groups for line in _ahead_of_us(group))


def _ahead_of_us(group: Beside) -> Iterator[str]:
    if OURS not in group.runs or group.given != "own":
        return
    ours, least = (group.runs[OURS].mean(figure) for figure in ("success", "sparsity"))
    theirs = {run.label: (run.mean("success"), run.mean("sparsity")) for run in group.others}
    for method, (success, _) in theirs.items():
        if ours is not None and success is not None and success > ours:
            yield f"{group.title}: {method} has more success, {number(success)} % against {number(ours)} %"
    for method, (success, changes) in theirs.items():
        if success is not None and success >= ENOUGH and changes is not None and least is not None and changes < least:
            yield f"{group.title}: {method} changes fewer features, {number(changes)} against {number(least)}"


def below_paper(groups: Sequence[Beside]) -> str:
    """List where a method other than ours scores lower here than in the paper, measured as in its authors' code."""
    own = [group for group in groups if group.given == "own"]
    return _listed(line for group in own for run in group.others for line in _lags(group, run))


def _lags(group: Beside, run: Runs) -> Iterator[str]:
    counted = {"validity": "validity_authors", "feasibility": f"feasibility_{run.rules}_soft"}
    for metric, figure in counted.items():
        ours, theirs = run.mean(figure), run.published(run.method, metric)
        if ours is not None and theirs is not None and ours < theirs:
            both = f"{number(ours)} %; the paper has {number(theirs)} %, {number(theirs - ours)} more"
            yield f"{group.title}: {run.label}, {metric} {both}"


def _against_paper(groups: Sequence[Beside]) -> str:
    """Compare the default with every row of the paper's tables whose validity is at least 95 %."""
    held = [group.runs[name] for group in groups for name in HELD if name in group.runs]
    lines = [line for run in held for line in _held_against(run)]
    if not lines:
        return f"There are no runs of {' or '.join(HELD)} yet.\n"
    head = ("data", "rules", "ours", "paper's row", *(w for words in HELD_BY.values() for w in (words, "ours")))
    note = f"Rows with a validity of at least {ENOUGH:g} %. Ours are decoded. Bold: the paper's row is better there.\n"
    return f"{note}\n{table(head, lines, left=4)}"


def _held_against(run: Runs) -> Iterator[tuple[str, ...]]:
    """One line for each such row: the paper's figures, in bold where they are better, and ours."""
    if run.setup.classifier != PAPER or run.given != "own":
        return
    for method in published.methods(run.setup.data):
        if (run.published(method, "validity") or 0.0) < ENOUGH:
            continue
        cells: list[str] = []
        for figure in HELD_BY:
            own = run.mean(f"feasibility_{run.rules}" if figure == "feasibility" else figure)
            theirs = run.published(method, figure)
            worse = theirs is not None and own is not None and (own > theirs if figure == "sparsity" else own < theirs)
            cells += [f"**{number(theirs)}**" if worse else number(theirs), number(own)]
        yield (run.setup.data, run.rules, run.method, method, *cells)


def tables(runs: Sequence[Runs]) -> dict[str, str]:
    """Tables by name, for pages that have a place for them; see `report.fill`."""
    groups = besides(runs)
    every = [group for group in groups if OURS in group.runs and group.others]
    own, without = ([group for group in every if group.given == given] for given in ("own", "none"))
    compared, other = ([group for group in own if (group.setup.classifier == PAPER) is same] for same in (True, False))
    found = {
        "success without rules": _of_methods(without, "success", digits=1),
        "success": _of_methods(compared, "success", digits=1),
        "success with other black boxes": _of_methods(other, "success", digits=1),
        "changes": _of_methods(compared, "sparsity", digits=2),
        "speed": _speed(compared),
        "not ahead": not_ahead(own),
        "below the paper": below_paper(compared) if compared else "",
        "feasibility": reproduction.in_one_table(reproduction.published_runs(runs)),
        "parts": _of_parts([group for group in groups if group.given == "own"]),
    }
    return {name: text for name, text in found.items() if text}


def _methods(groups: Sequence[Beside]) -> list[str]:
    """The methods that were run, in the order of the registry; a user's own come last."""
    return sorted(
        {name for group in groups for name in group.runs}, key=lambda name: place(name.split(", ")[0], METHODS)
    )


def _of_methods(groups: Sequence[Beside], figure: str, *, digits: int) -> str:
    """A table with one line per method and one column per data set and rule set."""
    lines = [
        (name, *(group.runs[name].of(figure).spread(digits) if name in group.runs else "" for group in groups))
        for name in _methods(groups)
    ]
    boxes = ("" if group.setup.classifier == PAPER else f", {group.setup.classifier}" for group in groups)
    heads = (f"{group.setup.data}{box}, {group.rules}" for group, box in zip(groups, boxes, strict=True))
    return table(("method", *heads), lines) if groups else ""


def _of_parts(groups: Sequence[Beside]) -> str:
    """A table of what each part contributes, with one line per black box and data set: means over rules and seeds."""
    shown = [measures("methods")[figure] for figure in SHOWN_OF_PARTS]
    head = ("black box", "data", *(f"{measure.words}: {part}" for measure in shown for part in PARTS))
    whole = (group for group in groups if group.runs.keys() >= {*PARTS})
    setups, lines = grouped(whole, lambda group: (group.setup.classifier, group.setup.data)), []
    for (box, data), here in sorted(setups.items(), key=lambda item: place(item[0][0], KINDS)):
        results = {part: tuple(r for group in here for r in group.runs[part].results) for part in PARTS}
        runs = {part: replace(here[0].runs[part], results=own) for part, own in results.items()}
        means = (number(runs[part].mean(m.figure), digits=m.digits) for m in shown for part in PARTS)
        lines.append((box, data, *means))
    return table(head, lines, left=2) if lines else ""


def _speed(groups: Sequence[Beside]) -> str:
    """CPU milliseconds per counterfactual, next to those of public implementations on Adult, if known."""
    by_setup = grouped(groups, lambda group: group.setup)
    head = ("method", "public code, ms", *(f"{setup.data}, ms" for setup in by_setup))
    lines = []
    for name in _methods(groups):
        seconds = [published.speed(name), *(_seconds(here, name) for here in by_setup.values())]
        lines.append((name, *(number(None if s is None else 1000 * s) for s in seconds)))
    return table(head, lines) if groups else ""


def _seconds(groups: Iterable[Beside], method: str) -> float | None:
    """CPU seconds per row, as a mean over rule sets and seeds."""
    runs = [group.runs[method] for group in groups if method in group.runs]
    rates = [rate for run in runs for rate in run.of("rows_per_cpu_second").values]
    return len(rates) / sum(rates) if rates else None
