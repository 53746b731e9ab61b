"""The report's pictures: feasibility next to the paper's, success against effort, and a picture per study."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from . import published
from .ablation import StudyRuns, history_of
from .reproduction import under_rules
from .summary import Runs, Summary, grouped

OVERVIEW = "feasibility"
PERCENT, SHARES_AXIS = "percent", "feasibility and success, percent"
# Success comes first: every run has it, so the order does not depend on missing figures.
SHARES = {"success": "success", "feasibility": "feasibility", "feasibility_soft": "feasibility (raw)"}
# Panels of a study over numbers: the axis, and its lines by the figures they show.
PANELS: dict[str, dict[str, dict[str, str]]] = {
    "latent": {PERCENT: SHARES},
    "lof-k-loss": {
        "LOF": {"lof_authors": "among answers", "lof_to_data": "to training rows"},
        "outliers (a count)": {"outliers_authors": "among answers"},
    },
    "pc-alpha": {PERCENT: SHARES},
}
LOGARITHMIC = ("pc-alpha",)
# The figures against which the methods' success is drawn.
AGAINST = {"sparsity": "features changed", "rows_per_cpu_second": "rows explained in a CPU second"}
SPEEDS = ("rows_per_cpu_second",)
DEFAULT = ("fcx", "fcx-fewest", "fcx-sparse", "fcx-plausible")

Line = dict[str, object]
Drawn = Iterator[tuple[str, Any]]


def draw(runs: list[Runs], published_runs: list[Runs], studies: list[StudyRuns], folder: Path) -> list[Path]:
    """Draw everything that has figures, as SVG files with descriptive names.

    Methods are compared if more were run than FCx as published.
    """
    from ... import plots

    # Feasibility under each method's own rules.
    found = {figure: [under_rules(run, figure) for run in published_runs] for figure in SHARES}
    places: list[Line] = [{"group": run.setup.title, "item": run.title} for run in published_runs]
    drawn = [*_bars(OVERVIEW, places, found, found["feasibility"])]
    drawn += [picture for study in studies for picture in _of_study(study)]
    drawn += _methods(runs) if len(runs) > len(published_runs) else []
    for name, figure in drawn:
        plots.save(figure, folder / f"{name}.svg")
    return [folder / f"{name}.svg" for name, _ in drawn]


def _bars(name: str, places: list[Line], ours: dict[str, list[Summary]], paper: list[Summary], **more: Any) -> Drawn:
    """Our figures as bars, with the paper's below them."""
    from ... import plots

    lines = [
        place | {"series": f"ours, {words}"} | _spread(one)
        for figure, words in SHARES.items()
        for place, one in zip(places, ours[figure], strict=True)
    ]
    lines += [place | {"series": "paper", "mean": one.paper} for place, one in zip(places, paper, strict=True)]
    table = _table(lines)
    if table["mean"].notna().any():
        yield name, plots.bars(table, x=SHARES_AXIS, **more)


def _methods(runs: list[Runs]) -> Drawn:
    """One picture per data set: success of each method against changes and against speed."""
    from ... import plots

    figures = ("success", *AGAINST)
    for setup, here in grouped(runs, lambda run: run.setup).items():
        lines = [
            {"method": run.label, "rules": f"{run.rules} rules"} | {name: run.mean(name) for name in figures}
            for run in here
            if run.given == "own"
        ]
        table = pd.DataFrame(lines).astype(dict.fromkeys(figures, float))
        if len(table) > 1 and table["success"].notna().any():
            how: dict[str, Any] = {"by": "rules", "logarithmic": SPEEDS, "own": DEFAULT, "title": setup.title}
            yield setup.picture, plots.trade_off(table, y="success", xs=AGAINST, **how)


def _of_study(run: StudyRuns) -> Drawn:
    """The pictures of a study, by name."""
    from ... import plots

    if run.study.history:
        # The losses of the first seed that has them.
        for result in [result for result in run.results if result.history][:1]:
            yield run.slug, plots.loss_curves(history_of(result), title=f"{run.title}, seed {result.job.seed}")
    elif run.study.name == "components":
        found = {figure: [point.of(figure) for point in run.points] for figure in SHARES}
        places: list[Line] = [{"item": point.point} for point in run.points]
        yield from _bars(run.slug, places, found, found["feasibility_soft"], title=run.title)
    elif run.study.name == "hyperparameters":
        chosen = run.known.learning_rate if run.known else None
        yield from _studied(run, _schedules(run), x="learning rate", log_x=True, chosen=chosen)
    elif run.study.name in PANELS:
        yield from _against_numbers(run)


def _schedules(run: StudyRuns) -> list[Line]:
    """Figures against the learning rate, with one line per number of epochs x rows in a batch."""
    lines: list[Line] = []
    for name in ("success", "feasibility_soft"):
        for point in run.points:
            asked = dict(point.results[0].job.settings)
            series = f"{asked['schedule__epochs']} x {asked['schedule__batch']}"
            where = {"setting": asked["schedule__learning_rate"], "series": series}
            lines.append(where | {"measure": f"{SHARES[name]}, percent"} | _spread(point.of(name)))
    return lines


def _against_numbers(run: StudyRuns) -> Drawn:
    """Figures against the numbers that a study tried."""
    lines: list[Line] = [
        {"setting": float(point.point), "measure": measure, "series": words} | _spread(point.of(name))
        for measure, drawn in PANELS[run.study.name].items()
        for name, words in drawn.items()
        for point in run.points
    ]
    more: dict[str, Any] = {"chosen": float(run.chosen[0]) if run.chosen else None}
    spread = published.robustness(run.setup.data) if run.study.name == "pc-alpha" else None
    if spread is not None:
        about = {"measure": PERCENT, "series": SHARES["feasibility_soft"]}
        more["paper"] = pd.DataFrame([about | vars(spread)])
    yield from _studied(run, lines, x=run.study.axis, log_x=run.study.name in LOGARITHMIC, **more)


def _studied(run: StudyRuns, lines: list[Line], **more: Any) -> Drawn:
    from ... import plots

    table = _table(lines)
    if table["mean"].notna().any():
        yield run.slug, plots.study(table, title=run.title, **more)


def _spread(summary: Summary) -> Line:
    return {"mean": summary.mean, "deviation": summary.deviation}


def _table(lines: list[Line]) -> pd.DataFrame:
    """A table in long form, whose columns of numbers stay numeric even if all values are missing."""
    columns = dict.fromkeys([*(key for line in lines for key in line), "mean", "deviation"])
    return pd.DataFrame(lines, columns=list(columns)).astype({"mean": float, "deviation": float})
