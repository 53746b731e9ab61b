"""Reading saved answers: each one is checked again with the given task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...errors import DataError, Fault, FcxError, FormatError, also, some
from ...outcome import as_target
from ...overrides import Overrides
from ...storage import Place
from ...task import Task
from ..explanation import Effort, Explanation
from ..frame import as_trained, column_named
from ..reasons import Status, WhyNot
from .digest import DIGEST, Digest, DigestCheck, check_parts
from .parquet import (
    BESIDE,
    FORMAT,
    ITSELF,
    KEY,
    NOW,
    ROW_GROUP,
    about_columns,
    answer_files,
    asked_for,
    ended_manifest,
    file_schema,
    is_json,
    own_digest,
)

AS_PARQUET = "Explain with --out answers.parquet, in Python answer.to_parquet(path)."


class Explainer(Protocol):
    """An explainer that was fitted to a task."""

    task_: Task


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn errors about a file's content into a `FormatError` that names the file."""
    try:
        yield
    except FcxError:
        raise
    except (OSError, pa.ArrowException, LookupError, ValueError, TypeError, AttributeError) as error:
        problem = f"{path} does not hold answers written by fcxplain ({type(error).__name__}: {some([str(error)])})"
        raise FormatError(f"{problem}. Explain again.") from error


def read_answers(path: str | Path, task: Task | Explainer) -> Explanation:
    """Read an explanation from a file and check all its answers again.

    Parameters
    ----------
    path : str or Path
        What `Explanation.to_parquet` or `FCx.explain_file` wrote: a file, or a folder with a manifest.
    task : Task or explainer
        The model and rules to check with: a task, or a fitted explainer.

    Returns
    -------
    Explanation

    Raises
    ------
    FormatError
        If the file does not hold answers for such a task.

    Examples
    --------
    >>> answer.to_parquet("answers.parquet")  # doctest: +SKIP
    >>> read_answers("answers.parquet", task).counts  # doctest: +SKIP
    """
    known = getattr(task, "task_", task)
    if not isinstance(known, Task):
        problem = f"is a {type(task).__name__}, neither a Task nor a fitted explainer"
        raise DataError("", [Fault("task", problem, "Give the task, or FCx.load(folder).")])
    file = AnswerFile(path, known)
    lines = file.lines(file.whole())
    with reading(file.path):
        certificates = [json.loads(text) for text in lines.said["certificate"][lines.answered]]
        found_by = [str(certificate["found_by"]) for certificate in certificates]
        status = [Status(text) for text in lines.of_row("status")]
        own = lines.own()
    targets = zip(lines.of_row("wanted"), lines.of_row("outcome"), strict=True)
    wanted = classes([w if pd.isna(t) else as_target(json.loads(t), file.task.classes) for w, t in targets])
    index = _index(lines.of_row("row"), file.about["labels"])
    rows = _restored(lines.now[lines.first], file.task).set_axis(index, axis=0)
    return explained(file, lines, rows, wanted, without=status, found_by=found_by, certificates=certificates, own=own)


def explained(
    file: AnswerFile,
    lines: AnswerLines,
    rows: pd.DataFrame,
    wanted: NDArray[Any],
    *,
    without: Sequence[str],
    found_by: Sequence[str],
    certificates: Sequence[dict[str, Any]],
    own: Overrides | None,
) -> Explanation:
    """The answers on these lines, checked again as counterfactuals for these rows."""
    with reading(file.path):
        texts = enumerate(lines.of_row("why_not"))
        reasons = {place: WhyNot.from_dict(json.loads(text)) for place, text in texts if not pd.isna(text)}
    about, place, known = file.about, lines.position[lines.answered], [c.get("cut_short") for c in certificates]
    calls, soft = lines.said["calls"][lines.first], lines.said["soft_valid"][lines.answered]
    cut_short = np.zeros(len(rows), dtype=bool)
    cut_short[place] = [said is True for said in known]
    return Explanation.of(
        file.task,
        rows,
        _restored(lines.then[lines.answered], file.task),
        place,
        method=about["method"],
        wanted=wanted,
        without=np.asarray(without, dtype=object),
        found_by=np.asarray(found_by, dtype=object),
        soft_valid=None if not len(soft) or soft.isna().any() else soft.to_numpy(dtype=bool),
        own=own,
        reasons=reasons,
        calls=None if calls.isna().any() else calls.to_numpy(dtype=np.int64),
        cut_short=None if all(said is None for said in known) else cut_short,
        draws=about["draws"],
        effort=Effort(**about["effort"]),
        notes=tuple(about["notes"]),
    )


class AnswerFile:
    """An opened file or folder of answers for a task, of a known format and with the task's columns."""

    def __init__(self, path: str | Path, task: Task) -> None:
        place = Place.of(path)
        self.path, self.task, self.asked, self.digests = place.given, task, "", dict[str, Digest]()
        self.manifest = ended_manifest(place) if place.is_folder else None
        self.places = answer_files(path)
        if self.manifest is None and not place.is_file:
            raise also(FormatError, FileNotFoundError)(f"there is no file {self.path}")
        if self.manifest is None and place.name.lower().endswith((".csv", ".json")):
            problem = "answers are read and verified from .parquet only"
            raise FormatError("", [Fault(str(self.path), problem, AS_PARQUET)])
        with reading(self.path):
            with _opened(self.places[0]) as file:
                self.schema = file.schema_arrow
            word = self._word()
            self.about = json.loads(word) if self.manifest is None else self.manifest
            self._check_word()
            self._check_columns()
            self._ask_as_written()

    def _word(self) -> bytes:
        """The metadata that explain wrote."""
        if word := (self.schema.metadata or {}).get(KEY):
            return bytes(word)
        if {column_named(name, self.task) for name in ("status", "certificate")} <= set(self.schema.names):
            problem = "was saved again by another program, which removed fcxplain's metadata and digest"
            raise FormatError("", [Fault(str(self.path), problem, "Use the original file that explain wrote.")])
        raise FormatError(f"{self.path} does not hold answers written by fcxplain. {AS_PARQUET}")

    def _ask_as_written(self) -> None:
        """Use the target of the file, if it names one."""
        own = asked_for(self.task)
        asked = {name: self.about.get(name) for name in own}
        if all(value in (None, own[name]) for name, value in asked.items()):
            return
        try:
            self.task = self.task.relaxed(**asked)
            self.asked = self.task.outcome_words
        except DataError as error:
            raise FormatError(f"{self.path} holds answers for another table or model", error.faults) from error

    def _check_word(self) -> None:
        """Read the metadata once, so that faults show up early."""
        about = self.about
        if about["format"] != FORMAT:
            remedy = "Explain again." if about["format"] in range(FORMAT) else "Upgrade, or explain again."
            raise FormatError(f"{self.path} has format {about['format']}, this fcxplain reads {FORMAT}. {remedy}")
        Effort(**about["effort"])
        if not isinstance(about["method"], str) or not all(isinstance(n, str) for n in about["notes"]):
            raise ValueError("method or notes are not text")
        if type(about["draws"]) is not int or type(about["rows"]) is not int or not isinstance(about["labels"], list):
            raise ValueError("draws, rows or labels are of the wrong kind")
        if not isinstance(about["counts"], dict) or not {"model", "rules"} <= about.keys():
            raise ValueError("counts, model or rules are missing")

    def _check_columns(self) -> None:
        """Refuse a file that lacks columns of this task, or has them of another kind; all of them at once."""
        found, row = self.schema, column_named("row", self.task)
        known = {f.name: f.type for f in found}
        expected = file_schema(self.task, found.field(row) if row in known else pa.field(row, pa.string()))
        faults = [Fault(f"column {f.name!r}", "is not in it") for f in expected if f.name not in known]
        faults += [
            Fault(f"column {f.name!r}", f"holds {known[f.name]}, not {f.type}")
            for f in expected
            if known.get(f.name, f.type) != f.type
        ]
        if faults:
            raise FormatError(f"{self.path} holds answers for another table or model", faults)
        self.columns = expected.names

    def whole(self) -> pa.Table:
        """All lines."""
        tables = []
        for place in self.places:
            with reading(self.path), _opened(place) as file:
                tables.append(file.read(columns=self.columns).replace_schema_metadata(None))
        return pa.concat_tables(tables)

    def lines(self, table: pa.Table) -> AnswerLines:
        """Lines of this file, read."""
        with reading(self.path):
            return AnswerLines.of(table, self.task)

    def batches(self, size: int = ROW_GROUP) -> Iterator[pa.Table]:
        """The lines in chunks of about a given size, all answers of a row together."""
        held = None
        for batch in self._pieces(size):
            if held is not None:
                # The last row may continue in this batch.
                cut = int(np.flatnonzero(_first(held, self.task))[-1])
                if cut:
                    yield held.slice(0, cut)
                batch = pa.concat_tables([held.slice(cut), batch])
            held = batch
        if held is not None:
            yield held

    def check_digest(self, key: bytes | None) -> DigestCheck:
        """Compare the file with its digest, after `batches` has read all of it."""
        if self.manifest is None:
            return self.digests[self.places[0].name].check(self.schema.metadata.get(DIGEST), key)
        parts = {name: digest.whole() for name, digest in self.digests.items()} | {ITSELF: own_digest(self.manifest)}
        return check_parts(parts, json.dumps(self.manifest.get("digest")).encode(), key)

    def _pieces(self, size: int) -> Iterator[pa.Table]:
        for place in self.places:
            with reading(self.path), _opened(place) as file:
                digest = self.digests[place.name] = Digest(file.schema_arrow, file.metadata.metadata)
                for batch in file.iter_batches(batch_size=size):
                    table = pa.Table.from_batches([batch])
                    # Foreign columns count too.
                    digest.update(table)
                    if table.num_rows:
                        yield table.select(self.columns).replace_schema_metadata(None)


def _opened(place: Place) -> pq.ParquetFile:
    return pq.ParquetFile(place.path, filesystem=place.system)


@dataclass(frozen=True, eq=False)
class AnswerLines:
    """Lines of a file of answers, all of a row together."""

    task: Task
    said: pd.DataFrame
    """The columns other than features, under their usual names."""
    now: pd.DataFrame
    """The row on each line."""
    then: pd.DataFrame
    """The counterfactual on each line; missing where there is none."""
    first: NDArray[np.bool_]
    """Which lines are the first of their row."""

    @classmethod
    def of(cls, table: pa.Table, task: Task) -> AnswerLines:
        """Lines of a file."""
        names = list(task.schema.names)
        return cls(
            task,
            pd.DataFrame({n: _values(table, column_named(n, task)) for n in (*about_columns(task), *BESIDE)}),
            pd.DataFrame({name: _values(table, NOW + name) for name in names}),
            pd.DataFrame({name: _values(table, name) for name in names}),
            _first(table, task),
        )

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which lines have an answer."""
        return np.asarray(self.said["rank"].notna())

    @property
    def position(self) -> NDArray[np.int64]:
        """Which of the rows on these lines each line is about."""
        return np.asarray(self.first.cumsum() - 1, dtype=np.int64)

    def of_row(self, name: str) -> list[Any]:
        """A column on the first line of each row."""
        return list(self.said[name][self.first].tolist())

    def own(self) -> Overrides | None:
        """Rules of single rows, if there are any."""
        texts = ["" if pd.isna(text) else text for text in self.of_row("own")]
        return Overrides.from_json(texts, self.task) if any(texts) else None

    def take(self, which: NDArray[np.bool_]) -> AnswerLines:
        """Some of the lines, all of a row together."""
        said, now, then = (table[which].reset_index(drop=True) for table in (self.said, self.now, self.then))
        return AnswerLines(self.task, said, now, then, self.first[which])


def _index(values: Sequence[Any], names: Sequence[Any]) -> pd.Index:
    """Row labels as an index; lists become tuples again."""
    if values and all(isinstance(v, list) for v in values):
        return pd.MultiIndex.from_tuples([tuple(v) for v in values], names=names)
    single = [tuple(v) if isinstance(v, list) else v for v in values]
    return pd.Index(single, name=names[0] if len(names) == 1 else None, tupleize_cols=False)


def classes(values: Sequence[Any]) -> NDArray[Any]:
    """Classes as an array of objects, so that mixed types survive."""
    kept = np.empty(len(values), dtype=object)
    kept[:] = values
    return np.asarray(values) if len({type(v) for v in values}) == 1 else kept


def _first(table: pa.Table, task: Task) -> NDArray[np.bool_]:
    """Which lines are the first of their row; labels may repeat, and ranks may be wrong."""
    rank, label = (table.column(column_named(name, task)) for name in ("rank", "row"))
    bare = rank.is_null().to_numpy()
    first = bare | pc.equal(rank.fill_null(1), 1).to_numpy()
    first[:1] = True
    others = pc.not_equal(label.slice(1), label.slice(0, max(len(label) - 1, 0))).fill_null(False).to_numpy()
    first[1:] |= others | bare[:-1]
    return np.asarray(first)


def _values(table: pa.Table, name: str) -> pd.Series:
    """A column; nullable integers and booleans keep their type."""
    column, field = table.column(name), table.schema.field(name)
    if is_json(field):
        return pd.Series([None if v is None else json.loads(v) for v in column.to_pylist()], dtype=object)
    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    return column.to_pandas(types_mapper=nullable.get).rename(name)


def _restored(table: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Columns in the dtypes of the task's training rows, so that the model gets the same input."""
    return pd.DataFrame({name: as_trained(table[name], task) for name in task.schema.names})
