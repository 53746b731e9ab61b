"""All methods beside each other, each scored on the same legal rows, with the paper's figures below ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..plan import METHODS
from . import published, reproduction
from .markdown import number, spread, table
from .reproduction import Measure, MethodRuns, sizes_of
from .summary import Setup, Summary, place, summarised

COLUMNS = (
    Measure("success", "success", digits=1),
    Measure("of possible", "success_possible", digits=1),
    Measure("validity, raw", "validity_soft", "validity", 1),
    Measure("validity", "validity", "validity", 1),
    Measure("feasibility", "feasibility", "feasibility", 1),
    Measure("changes", "sparsity", "sparsity"),
    Measure("continuous", "continuous_proximity", "continuous_proximity"),
    Measure("categorical", "categorical_proximity", "categorical_proximity"),
    Measure("LOF", "lof", "lof"),
    Measure("LOF to data", "lof_to_data"),
    Measure("supported", "supported", digits=1),
    Measure("distinct", "diversity", digits=1),
    Measure("above optimum, %", "optimality_gap"),
    Measure("calls a row", "calls_per_row", digits=0),
    Measure("rows a CPU s", "rows_per_cpu_second", digits=0),
    Measure("CPU s to train", "cpu_seconds", digits=1),
)
LEGEND = """\
Shares are in percent. Every figure of ours is of decoded, legal rows but for *validity, raw*, which is of a
generator's outputs before they are decoded, as the paper's code counts it. *Success*: valid by the user's own model,
every rule kept, inside the domain, immutables kept, of rows asked; *of possible*: of rows that are not proved to have
no answer. *Feasibility* is a share of the valid answers. *Changes* and the two proximities are of the answers that were
handed out: a method that only answers easy rows looks better there, so read them beside *success*. *LOF to data* and
*supported* say whether answers look like training rows. *Calls* are rows that the model was asked about. Ours are means
over seeds, ± the standard deviation. A line *paper* has what the paper's table says of the method.
"""
ENOUGH = 95.0
# Which of ours are held against the paper's rows, and by what.
HELD = ("fcx", "fcx-sparse")
HELD_BY = {
    "sparsity": "changes",
    "continuous_proximity": "continuous",
    "categorical_proximity": "categorical",
    "feasibility": "feasible",
}


@dataclass(frozen=True)
class Beside:
    """The methods that were run with one rule set on one data set."""

    setup: Setup
    rules: str
    runs: tuple[MethodRuns, ...]

    @property
    def title(self) -> str:
        """What they were run on."""
        return f"{self.setup.title}, {self.rules} rules"

    def mean(self, run: MethodRuns, figure: str) -> float | None:
        """The mean of a figure over seeds."""
        return summarised(run.results, figure).mean


def besides(runs: Iterable[MethodRuns]) -> list[Beside]:
    """Runs that belong beside each other."""
    groups: dict[tuple[Setup, str], list[MethodRuns]] = {}
    for run in runs:
        groups.setdefault((run.setup, run.rules), []).append(run)
    return [Beside(setup, rules, tuple(found)) for (setup, rules), found in groups.items()]


def page(runs: Sequence[MethodRuns], pictures: Sequence[str] = ()) -> str:
    """The Markdown page; `pictures` are the stems of those that were drawn."""
    parts = ["## All methods, on legal rows\n", LEGEND]
    groups = besides(runs)
    for setup in dict.fromkeys(group.setup for group in groups):
        here = [group for group in groups if group.setup == setup]
        parts += [f"### {setup.title}\n", sizes_of([result for g in here for run in g.runs for result in run.results])]
        if picture_name(setup) in pictures:
            parts.append(f"![Success against changes and speed, {setup.title}]({picture_name(setup)}.svg)\n")
        parts += [f"#### {group.rules} rules\n\n{_table(group)}" for group in here]
    parts += ["## Where the default is not ahead\n", not_ahead(groups)]
    parts += ["## Against the paper's rows\n", _against_paper(groups)]
    return "\n".join(parts)


def picture_name(setup: Setup) -> str:
    """The stem of a data set's picture."""
    return f"methods-{setup.slug}"


def _table(group: Beside) -> str:
    shown = [c for c in COLUMNS if any(summarised(run.results, c.figure).values for run in group.runs)]
    lines: list[tuple[str, ...]] = []
    for run in group.runs:
        lines.append((run.method, *(_ours(summarised(run.results, c.figure), c) for c in shown)))
        paper = [_paper(group, run.method, c) for c in shown]
        if any(paper):
            lines.append(("*paper*", *paper))
    return table(("method", *(c.words for c in shown)), lines)


def _ours(found: Summary, column: Measure) -> str:
    return "" if found.mean is None else spread(found, digits=column.digits)


def _paper(group: Beside, method: str, column: Measure) -> str:
    if not column.paper:
        return ""
    metric = f"feasibility_{group.rules}" if column.paper == "feasibility" else column.paper
    return number(published.figure(group.setup.data, method, metric), digits=column.digits)


def not_ahead(groups: Sequence[Beside]) -> str:
    """In which tables another method has more success than FCx by default, or fewer changes with enough of it."""
    if all(run.method.startswith("fcx") for group in groups for run in group.runs):
        return "No other method has been run yet: `fcxplain bench run --methods all`.\n"
    said = [line for group in groups for line in _ahead_of_us(group)]
    return "".join(f"- {line}\n" for line in said) if said else "In none of these tables.\n"


def _ahead_of_us(group: Beside) -> Iterator[str]:
    by_name = {run.method: run for run in group.runs}
    others = [run for run in group.runs if not run.method.startswith("fcx")]
    if "fcx" not in by_name:
        return
    ours = group.mean(by_name["fcx"], "success")
    for run in others:
        theirs = group.mean(run, "success")
        if ours is not None and theirs is not None and theirs > ours:
            yield f"{group.title}: {run.method} has more success, {number(theirs)} % against {number(ours)} %"
    least = group.mean(by_name["fcx"], "sparsity")
    for run in others:
        theirs, changes = group.mean(run, "success"), group.mean(run, "sparsity")
        if theirs is not None and theirs >= ENOUGH and changes is not None and least is not None and changes < least:
            yield f"{group.title}: {run.method} changes fewer features, {number(changes)} against {number(least)}"


def _against_paper(groups: Sequence[Beside]) -> str:
    """The default held against every row of the paper's tables whose validity is at least 95 %."""
    lines = [line for group in groups for ours in HELD for line in _held_against(group, ours)]
    if not lines:
        return f"There are no runs of {' or '.join(HELD)} yet.\n"
    head = ("data", "rules", "ours", "paper's row", *(w for words in HELD_BY.values() for w in (words, "ours")))
    note = (
        f"Rows with a validity of at least {ENOUGH:g} %. Ours are decoded. Bold: the paper's row is better there.\n\n"
    )
    return note + table(head, lines, left=4)


def _held_against(group: Beside, name: str) -> Iterator[tuple[str, ...]]:
    ours = next((run for run in group.runs if run.method == name), None)
    if ours is None or group.setup.classifier != "paper":
        return
    for method in published.methods(group.setup.data):
        valid = published.figure(group.setup.data, method, "validity")
        if valid is not None and valid >= ENOUGH:
            cells = [text for figure in HELD_BY for text in _pair(group, ours, method, figure)]
            yield (group.setup.data, group.rules, name, method, *cells)


def _pair(group: Beside, ours: MethodRuns, method: str, figure: str) -> tuple[str, str]:
    """The paper's figure, bold if it is better, and ours."""
    metric = f"feasibility_{group.rules}" if figure == "feasibility" else figure
    theirs, own = published.figure(group.setup.data, method, metric), group.mean(ours, metric)
    worse = theirs is not None and own is not None and (own > theirs if figure == "sparsity" else own < theirs)
    return f"**{number(theirs)}**" if worse else number(theirs), number(own)


OURS = "fcx"


def tables(runs: Sequence[MethodRuns]) -> dict[str, str]:
    """Tables by name, for pages that have a place for them; see `pages`."""
    compared = [group for group in besides(runs) if _has_others(group)]
    found = {
        "success": _of_methods(compared, "success", digits=1),
        "changes": _of_methods(compared, "sparsity", digits=2),
        "speed": _speed(compared),
        "not ahead": not_ahead(compared),
        "feasibility": reproduction.in_one_table(reproduction.published_runs(runs)),
    }
    return {name: text for name, text in found.items() if text}


def _has_others(group: Beside) -> bool:
    """Whether FCx by default and methods of others were run side by side."""
    names = [run.method for run in group.runs]
    return OURS in names and any(not name.startswith(OURS) for name in names)


def _methods(groups: Sequence[Beside]) -> list[str]:
    """The methods that were run, in the order in which they are registered; a user's own come last."""
    found = dict.fromkeys(run.method for group in groups for run in group.runs)
    return sorted(found, key=lambda name: place(name, METHODS))


def _of_methods(groups: Sequence[Beside], figure: str, *, digits: int) -> str:
    """A line for each method, a column for each data set and rule set."""
    names = _methods(groups)
    heads = [f"{group.setup.data}, {group.rules}" for group in groups]
    lines = [(name, *(_cell(group, name, figure, digits) for group in groups)) for name in names]
    return table(("method", *heads), lines) if groups else ""


def _cell(group: Beside, name: str, figure: str, digits: int) -> str:
    run = next((run for run in group.runs if run.method == name), None)
    return "" if run is None else spread(summarised(run.results, figure), digits=digits)


def _speed(groups: Sequence[Beside]) -> str:
    """CPU milliseconds for one counterfactual, beside what public implementations take on Adult, where known."""
    setups = list(dict.fromkeys(group.setup for group in groups))
    names = _methods(groups)
    head = ("method", "public code, ms", *(f"{setup.data}, ms" for setup in setups))
    lines = [
        (name, number(_public(name)), *(number(_milliseconds(groups, setup, name)) for setup in setups))
        for name in names
    ]
    return table(head, lines) if groups else ""


def _public(method: str) -> float | None:
    seconds = published.speed(method)
    return None if seconds is None else 1000 * seconds


def _milliseconds(groups: Iterable[Beside], setup: Setup, method: str) -> float | None:
    """The mean over rule sets and seeds."""
    runs = [run for group in groups if group.setup == setup for run in group.runs if run.method == method]
    rows = summarised([result for run in runs for result in run.results], "rows_per_cpu_second").mean
    return None if rows is None else 1000 / rows
