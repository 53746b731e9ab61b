"""The report's pictures: feasibility beside the paper's, and a picture for each study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from . import published
from .ablation import WORDS, Point, StudyRuns, history_of
from .reproduction import MEASURES, MethodRuns
from .summary import Summary, method_title

OVERVIEW = "feasibility"
PERCENT = "percent of answers"
RAW, DECODED, SUCCESS = "ours, raw outputs", "ours, decoded", "ours, success"
SHARES = {"feasibility_soft": RAW, "feasibility": DECODED, "success": SUCCESS}
# What is drawn of a study over numbers: the axis of a panel, and its lines by the figures they show.
PANELS: dict[str, dict[str, dict[str, str]]] = {
    "latent": {PERCENT: {name: WORDS[name] for name in SHARES}},
    "lof-k": {
        "LOF": {"lof": "among answers", "lof_to_data": "to training rows"},
        "outliers (a count)": {"outliers": "among answers"},
    },
    "pc-alpha": {PERCENT: {name: WORDS[name] for name in SHARES}},
}
LOGARITHMIC = ("pc-alpha",)


def draw(runs: list[MethodRuns], studies: list[StudyRuns], folder: Path) -> list[Path]:
    """Draw everything that there are figures for, as SVG files whose names say what they show."""
    from .. import plots

    written = []
    for name, figure in [*_overview(runs), *(drawn for study in studies for drawn in _of_study(study))]:
        path = folder / f"{name}.svg"
        plots.save(figure, path)
        written.append(path)
    return written


def _overview(runs: list[MethodRuns]) -> Iterator[tuple[str, Any]]:
    """Feasibility under each method's own rules."""
    from .. import plots

    words = {m.figure: m for m in MEASURES}
    lines: list[dict[str, object]] = []
    for run in runs:
        item = {"group": run.setup.title, "item": method_title(run.method, run.rules)}
        raw = run.compared(words[f"feasibility_{run.rules}_soft"])
        decoded = run.compared(words[f"feasibility_{run.rules}"])
        lines.append(item | {"series": "paper", "mean": raw.paper})
        ours = {RAW: raw.ours, DECODED: decoded.ours, SUCCESS: run.compared(words["success"]).ours}
        lines += [item | {"series": name} | _spread(summary) for name, summary in ours.items()]
    table = _table(lines)
    if table["mean"].notna().any():
        yield OVERVIEW, plots.bars(table, x="feasibility and success, percent")


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
    from .. import plots

    kept = [result for result in run.results if result.history]
    for result in kept[:1]:
        yield run.slug, plots.loss_curves(history_of(result), title=f"{run.title}, seed {result.job.seed}")


def _components(run: StudyRuns) -> Iterator[tuple[str, Any]]:
    """Bars for each combination of terms."""
    from .. import plots

    lines: list[dict[str, object]] = []
    for point in run.points:
        lines.append({"item": point.name, "series": "paper", "mean": run.paper(point, "feasibility_soft")})
        lines += [{"item": point.name, "series": words} | _spread(point.of(name)) for name, words in SHARES.items()]
    table = _table(lines)
    if table["mean"].notna().any():
        yield run.slug, plots.bars(table, x="feasibility and success, percent", title=_title(run))


def _schedules(run: StudyRuns) -> Iterator[tuple[str, Any]]:
    """Against the learning rate, a line for each number of epochs and batch size."""
    lines: list[dict[str, object]] = []
    for point in run.points:
        asked = dict(point.results[0].job.settings)
        series = f"{asked['schedule__epochs']} epochs, batch {asked['schedule__batch']}"
        where = {"setting": asked["schedule__learning_rate"], "series": series}
        for name in ("feasibility_soft", "success"):
            lines.append(where | {"measure": f"{WORDS[name]}, percent"} | _spread(point.of(name)))
    known = run.known
    yield from _studied(
        run, _table(lines), x="learning rate", log_x=True, chosen=known.learning_rate if known else None
    )


def _against(run: StudyRuns, panels: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, Any]]:
    """Figures against the numbers that a study tried."""
    lines = [line for measure, drawn in panels.items() for line in _lines(run.points, measure, drawn)]
    chosen = float(run.chosen) if run.chosen else None
    more = {"log_x": run.study.name in LOGARITHMIC, "chosen": chosen}
    spread = published.robustness(run.setup.data) if run.study.name == "pc-alpha" else None
    if spread is not None:
        told = {"setting": None, "measure": PERCENT, "series": WORDS["feasibility_soft"]}
        more["paper"] = pd.DataFrame([told | vars(spread)])
    yield from _studied(run, _table(lines), x=run.study.axis, **more)


def _lines(points: Iterable[Point], measure: str, drawn: Mapping[str, str]) -> Iterator[dict[str, object]]:
    for point in points:
        where = {"setting": float(point.name), "measure": measure}
        yield from (where | {"series": words} | _spread(point.of(name)) for name, words in drawn.items())


def _studied(run: StudyRuns, table: pd.DataFrame, **more: Any) -> Iterator[tuple[str, Any]]:
    from .. import plots

    if table["mean"].notna().any():
        yield run.slug, plots.study(table, title=_title(run), **more)


def _title(run: StudyRuns) -> str:
    return f"{run.study.title}: {run.title}"


def _spread(summary: Summary) -> dict[str, object]:
    return {"mean": summary.mean, "deviation": summary.deviation}


def _table(lines: list[dict[str, object]]) -> pd.DataFrame:
    """In long form, with numbers as numbers even where none is known."""
    table = pd.DataFrame(lines, columns=list(dict.fromkeys(key for line in lines for key in line)) or ["mean"])
    return table.astype({name: float for name in ("mean", "deviation") if name in table})
