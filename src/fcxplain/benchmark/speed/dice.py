"""CPU seconds per verified answer: of the minimal work, of fcxplain and of `dice-ml`."""

from __future__ import annotations

import contextlib
import io
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError
from ...explainer import FCx
from ...explanation import Explanation
from ...generator.view import class_indices
from ...methods.base import Outputs, RowsAsked, answered, asked
from ...metrics import evaluate
from ...task import Task
from .explaining import bare_draw
from .timing import Tell, cpu_seconds, fastest, on_one_thread

REMEDY = "pip install 'fcxplain[compare]'"
Way = Literal["random", "genetic"]
OUTCOME = "fcxplain_outcome"


def installed() -> bool:
    """Whether the package is installed."""
    return find_spec("dice_ml") is not None


class DicePackage:
    """The package's `random` or `genetic` method, with its default settings."""

    def __init__(self, way: Way, *, seed: int = 0) -> None:
        self.way, self.seed = way, seed

    def fit(self, task: Task) -> Self:
        """Pass the training rows and the model to the package."""
        if not installed():
            raise DataError(f"dice-ml is not installed. Run {REMEDY}")
        import dice_ml

        self.task_, self.translator_ = task, _Translator(task)
        train = self.translator_.to_dice(task.train)
        train[OUTCOME] = class_indices(task, task.predict(task.train)).numpy()
        with _aside(self.seed):
            data = dice_ml.Data(dataframe=train, continuous_features=list(task.schema.numbers), outcome_name=OUTCOME)
            self.explainer_ = dice_ml.Dice(
                data, dice_ml.Model(model=self.translator_, backend="sklearn"), method=self.way
            )
        return self

    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """Find at most `k` answers for each row that does not have the target class."""
        question = asked(self.task_, rows)
        table, parts, row, reasons = self.translator_.to_dice(question.rows), [question.rows.iloc[:0]], [], {}
        with _aside(self.seed):
            for number in range(len(question)):
                found = self._answers(question, table, number, k)
                if isinstance(found, str):
                    reasons[number] = f"dice-ml: {found}"
                else:
                    parts.append(found)
                    row += [number] * len(found)
        x_cf = self.task_.encoder.encode_natural(self.task_.schema.natural(pd.concat(parts)))
        return answered(question, Outputs(x_cf, np.asarray(row, dtype=np.int64), reasons), f"dice-ml {self.way}")

    def _answers(self, question: RowsAsked, table: pd.DataFrame, number: int, k: int) -> pd.DataFrame | str:
        """The answers for one row, or the reason why there are none."""
        varied = [n for n, may in zip(question.task.schema.names, question.layout.mutable, strict=True) if may]
        wanted = int(question.y_target[number])
        try:
            result = self.explainer_.generate_counterfactuals(
                table.iloc[[number]], total_CFs=k, desired_class=wanted, features_to_vary=varied
            )
        # It raises if it finds nothing, and passes on errors of other libraries: in both cases there is no answer.
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        example = result.cf_examples_list[0]
        found = example.final_cfs_df if example.final_cfs_df_sparse is None else example.final_cfs_df_sparse
        return "nothing found" if found is None or not len(found) else self.translator_.from_dice(found)


class _Translator:
    """Convert between our tables and the package's: integers or decimals, and levels as texts.

    It is also the model that the package queries, with scikit-learn's method names.
    """

    def __init__(self, task: Task) -> None:
        self.task = task

    def to_dice(self, rows: pd.DataFrame) -> pd.DataFrame:
        """One of our tables in the package's form."""
        natural = self.task.schema.natural(rows)
        columns: dict[str, Any] = {}
        for feature in self.task.schema:
            values = natural[feature.name]
            if feature.is_category:
                columns[feature.name] = np.asarray([str(v) for v in feature.levels], dtype=object)[values]
            else:
                columns[feature.name] = values.astype(np.int64) if feature.kind == "integer" else values
        return pd.DataFrame(columns, index=rows.index)

    def from_dice(self, table: pd.DataFrame) -> pd.DataFrame:
        """The inverse of `to_dice`, whatever the types of the columns."""
        # Many small tables are converted, so slow code here would count against the package.
        natural: dict[str, NDArray[Any]] = {
            f.name: np.asarray(table[f.name], dtype=np.float64)
            if f.is_number
            else np.asarray([f.level_of_text[text] for text in table[f.name].tolist()], dtype=np.int64)
            for f in self.task.schema
        }
        return self.task.table(natural, table.index)

    def predict_proba(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """Class probabilities, `n x classes`."""
        return self.task.classifier.probabilities(self.from_dice(table))

    def predict(self, table: pd.DataFrame) -> NDArray[np.int64]:
        """The index of the class of each row."""
        return np.asarray(class_indices(self.task, self.task.predict(self.from_dice(table))).numpy())


@contextlib.contextmanager
def _aside(seed: int) -> Iterator[None]:
    """Hide the package's output and restore the global random state, from which it draws."""
    numbers, drawn = np.random.get_state(), random.getstate()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        np.random.set_state(numbers)  # noqa: NPY002
        random.setstate(drawn)


ROWS = 30
FLOOR = "bare work, one draw"
FAST, DEFAULT, SPARSE = "fcxplain, one draw", "fcxplain, default", "fcxplain, sparse"
PACKAGES: dict[Way, str] = {way: f"dice-ml, {way}" for way in get_args(Way)}
NAMES = (FLOOR, FAST, DEFAULT, SPARSE, *PACKAGES.values())
SHARES = ("validity", "feasibility", "success")


@dataclass(frozen=True)
class Contender:
    """Effort and results of one method; shares are in percent, None if there are no answers."""

    name: str
    rows: int
    fitting: float | None = None
    """CPU seconds before the first row can be explained, once per model and rules."""
    seconds: float | None = None
    """CPU seconds for all rows."""
    verified: int = 0
    """Rows with an answer that passes every check."""
    validity: float | None = None
    feasibility: float | None = None
    success: float | None = None
    changes: float | None = None
    note: str = ""

    @property
    def seconds_per_verified(self) -> float | None:
        """CPU seconds per verified counterfactual; None if there are none."""
        return None if self.seconds is None or not self.verified else self.seconds / self.verified


def compared(
    fcx: FCx, refused: pd.DataFrame, *, fitting: float, rows: int, repeat: int, seed: int = 0, tell: Tell
) -> list[Contender]:
    """Explain the same rows by each method. The best of several turns counts, but dice-ml has only one.

    `fitting` is the CPU seconds of the fit of `fcx`.
    """
    some = refused.iloc[np.sort(np.random.default_rng(seed).permutation(len(refused))[:rows])]
    ours: dict[str, Callable[[], Any]] = {
        FLOOR: bare_draw(fcx, some),
        FAST: partial(fcx.explain, some, draws=1),
        DEFAULT: partial(fcx.explain, some),
        SPARSE: partial(fcx.explain, some, prefer="sparse"),
    }
    found = list[Contender]()
    with on_one_thread():
        for name, explain in ours.items():
            tell(name)
            found.append(_timed(name, fcx.task_, some, explain, fitting, repeat))
        for way, name in PACKAGES.items():
            tell(name)
            found.append(_package(way, name, fcx.task_, some, seed))
    return found


def _package(way: Way, name: str, task: Task, some: pd.DataFrame, seed: int) -> Contender:
    if not installed():
        return Contender(name, len(some), note=f"not installed: {REMEDY}")
    package = DicePackage(way, seed=seed)
    fitting = cpu_seconds(partial(package.fit, task))
    return _timed(name, task, some, partial(package.explain, some), fitting, repeat=1)


def _timed(
    name: str, task: Task, some: pd.DataFrame, explain: Callable[[], Any], fitting: float, repeat: int
) -> Contender:
    """The shortest turn, and the checks of the last turn's answers, which are the same in every turn."""
    kept: list[Any] = []
    seconds = fastest(lambda: kept.append(explain()), repeat)
    answer = kept[-1]
    if not isinstance(answer, Explanation):
        # A table with one line per row, checked as every answer is.
        wanted = task.wanted(task.predict(some))
        answer = Explanation.of(task, some, answer, np.arange(len(some)), method=name, wanted=wanted)
    marks = evaluate(answer, task, [*SHARES, "sparsity"]).values
    shares = {share: _known(marks[share]) for share in SHARES}
    verified = round(marks["success"] * int(answer.asked.sum()) / 100)
    reasons = Counter(reason.words for reason in answer.reasons.values()).most_common(1)
    note = "; ".join(f"{count} rows: {words}" for words, count in reasons)
    changes = _known(marks["sparsity"])
    return Contender(name, len(some), fitting, seconds, verified, **shares, changes=changes, note=note)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
