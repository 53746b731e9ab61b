"""The report's pictures: feasibility beside the paper's, and a picture for each study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from . import published
from .ablation import Point, StudyRuns, history_of
from .comparison import picture_name
from .reproduction import MEASURES, MethodRuns
from .summary import Summary, method_title, summarised

OVERVIEW = "feasibility"
PERCENT, SHARES_AXIS = "percent", "feasibility and success, percent"
# Success first: it is there whenever a run was made, so that nothing loses its place for want of a figure.
SHARES = {"success": "success", "feasibility": "feasibility", "feasibility_soft": "feasibility (raw)"}
OURS = {name: f"ours, {words}" for name, words in SHARES.items()}
# What is drawn of a study over numbers: the axis of a panel, and its lines by the figures they show.
PANELS: dict[str, dict[str, dict[str, str]]] = {
    "latent": {PERCENT: SHARES},
    "lof-k": {
        "LOF": {"lof": "among answers", "lof_to_data": "to training rows"},
        "outliers (a count)": {"outliers": "among answers"},
    },
    "pc-alpha": {PERCENT: SHARES},
}
LOGARITHMIC = ("pc-alpha",)
# What the methods' success is drawn against.
AGAINST = {"sparsity": "features changed", "rows_per_cpu_second": "rows explained in a CPU second"}
SPEEDS = ("rows_per_cpu_second",)
DEFAULT = ("fcx", "fcx-fewest", "fcx-sparse", "fcx-plausible")


def draw(runs: list[MethodRuns], studies: list[StudyRuns], folder: Path) -> list[Path]:
    """Draw everything that there are figures for, as SVG files whose names say what they show."""
    from ... import plots

    written = []
    for name, figure in [*_overview(runs), *(drawn for study in studies for drawn in _of_study(study))]:
        path = folder / f"{name}.svg"
        plots.save(figure, path)
        written.append(path)
    return written


def _overview(runs: list[MethodRuns]) -> Iterator[tuple[str, Any]]:
    """Feasibility under each method's own rules."""
    from ... import plots

    lines: list[dict[str, object]] = []
    for series in (*OURS, "paper"):
        for run in runs:
            item = {"group": run.setup.title, "item": method_title(run.method, run.rules)}
            lines.append(item | _bar(series, run))
    table = _table(lines)
    if table["mean"].notna().any():
        yield OVERVIEW, plots.bars(table, x=SHARES_AXIS)


def draw_methods(runs: list[MethodRuns], folder: Path) -> list[Path]:
    """A picture for each data set: success of each method against changes and against speed."""
    from ... import plots

    written = []
    for setup in dict.fromkeys(run.setup for run in runs):
        table = _points([run for run in runs if run.setup == setup])
        if len(table) > 1 and table["success"].notna().any():
            figure = plots.trade_off(
                table, y="success", xs=AGAINST, by="rules", logarithmic=SPEEDS, own=DEFAULT, title=setup.title
            )
            path = folder / f"{picture_name(setup)}.svg"
            plots.save(figure, path)
            written.append(path)
    return written


def _points(runs: list[MethodRuns]) -> pd.DataFrame:
    lines = [
        {"method": run.method, "rules": f"{run.rules} rules"}
        | {name: summarised(run.results, name).mean for name in ("success", *AGAINST)}
        for run in runs
    ]
    return pd.DataFrame(lines).astype(dict.fromkeys(("success", *AGAINST), float))


def _bar(series: str, run: MethodRuns) -> dict[str, object]:
    words = {m.figure: m for m in MEASURES}
    under = {"feasibility": f"feasibility_{run.rules}", "feasibility_soft": f"feasibility_{run.rules}_soft"}
    if series == "paper":
        return {"series": series, "mean": run.compared(words[under["feasibility"]]).paper}
    ours = run.compared(words[under.get(series, series)]).ours
    return {"series": OURS[series]} | _spread(ours)


def _of_study(run: StudyRuns) -> Iterator[tuple[str, Any]]:
    """The pictures of a study, by name."""
    if run.study.history:
        yield from _curves(run)
    elif run.study.name == "components":
        yield from _components(run)
    elif run.study.name == "hyperparameters":
        yield from _schedules(run)
    elif run.study.name in PANELS:
        yield from _against(run, PANELS[run.study.name])


def _curves(run: StudyRuns) -> Iterator[tuple[str, Any]]:
    """The losses of the first seed that has them."""
    from ... import plots

    kept = [result for result in run.results if result.history]
    for result in kept[:1]:
        yield run.slug, plots.loss_curves(history_of(result), title=f"{run.title}, seed {result.job.seed}")


def _components(run: StudyRuns) -> Iterator[tuple[str, Any]]:
    """Bars for each combination of terms."""
    from ... import plots

    lines: list[dict[str, object]] = []
    for name, words in OURS.items():
        lines += [{"item": point.name, "series": words} | _spread(point.of(name)) for point in run.points]
    lines += [{"item": p.name, "series": "paper", "mean": run.paper(p, "feasibility_soft")} for p in run.points]
    table = _table(lines)
    if table["mean"].notna().any():
        yield run.slug, plots.bars(table, x=SHARES_AXIS, title=run.title)


def _schedules(run: StudyRuns) -> Iterator[tuple[str, Any]]:
    """Against the learning rate, a line for each number of epochs x rows in a batch."""
    lines: list[dict[str, object]] = []
    for name in ("success", "feasibility_soft"):
        for point in run.points:
            asked = dict(point.results[0].job.settings)
            series = f"{asked['schedule__epochs']} x {asked['schedule__batch']}"
            where = {"setting": asked["schedule__learning_rate"], "series": series}
            lines.append(where | {"measure": f"{SHARES[name]}, percent"} | _spread(point.of(name)))
    known = run.known
    yield from _studied(
        run, _table(lines), x="learning rate", log_x=True, chosen=known.learning_rate if known else None
    )


def _against(run: StudyRuns, panels: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, Any]]:
    """Figures against the numbers that a study tried."""
    lines = [line for measure, drawn in panels.items() for line in _lines(run.points, measure, drawn)]
    chosen = float(run.chosen[0]) if run.chosen else None
    more = {"log_x": run.study.name in LOGARITHMIC, "chosen": chosen}
    spread = published.robustness(run.setup.data) if run.study.name == "pc-alpha" else None
    if spread is not None:
        told = {"setting": None, "measure": PERCENT, "series": SHARES["feasibility_soft"]}
        more["paper"] = pd.DataFrame([told | vars(spread)])
    yield from _studied(run, _table(lines), x=run.study.axis, **more)


def _lines(points: Iterable[Point], measure: str, drawn: Mapping[str, str]) -> Iterator[dict[str, object]]:
    for name, words in drawn.items():
        for point in points:
            yield {"setting": float(point.name), "measure": measure, "series": words} | _spread(point.of(name))


def _studied(run: StudyRuns, table: pd.DataFrame, **more: Any) -> Iterator[tuple[str, Any]]:
    from ... import plots

    if table["mean"].notna().any():
        yield run.slug, plots.study(table, title=run.title, **more)


def _spread(summary: Summary) -> dict[str, object]:
    return {"mean": summary.mean, "deviation": summary.deviation}


def _table(lines: list[dict[str, object]]) -> pd.DataFrame:
    """In long form, with numbers as numbers even where none is known."""
    table = pd.DataFrame(lines, columns=list(dict.fromkeys(key for line in lines for key in line)) or ["mean"])
    return table.astype({name: float for name in ("mean", "deviation") if name in table})
