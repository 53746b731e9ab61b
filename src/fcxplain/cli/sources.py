"""Where a command's rows and classifier come from: a data set's name, a file, or what a saved model remembers."""

from __future__ import annotations

import hashlib
import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..classifier import KINDS, train_classifier
from ..datasets import DATASETS, Dataset, load_dataset, read_table, splitting
from ..errors import ClassifierError, DataError, Fault, FcxWarning, RuleError, SchemaError, did_you_mean, some
from ..explainer import KIND, FCx
from ..persistence import read
from ..schema import Schema
from ..task import Task
from .own_tables import complete_rows, load_own, located, whole_path

OWN = "For a model of your own pass a file (model.onnx), or module:attribute of your own Python code."


@dataclass(frozen=True)
class Source:
    """What a model is fitted on, as it is kept beside the model so that the same rows can be loaded again.

    `data` is a data set's name or the whole path of a file. `label` is the label of one's own table, `schema` the
    file that its schema came from. `rows` and `seed` choose the sample and the split. `sha256` tells whether the
    file is still the same.
    """

    data: str
    label: str | None = None
    rows: int | None = None
    seed: int = 0
    classifier: str = "paper"
    schema: str | None = None
    sha256: str | None = None

    @classmethod
    def of(cls, data: str, *, schema: Path | None = None, classifier: str = "paper", **chosen: Any) -> Source:
        """From what a person typed; files are kept by their whole paths."""
        where = located(data)
        model = whole_path(classifier) if _is_onnx(classifier) else classifier
        sha256 = None if where in DATASETS else _sha256(where)
        return cls(
            where, classifier=model, schema=None if schema is None else whole_path(schema), sha256=sha256, **chosen
        )

    @property
    def is_built_in(self) -> bool:
        """Whether this is one of the data sets that fcxplain knows."""
        return self.data in DATASETS

    def load(
        self,
        *,
        schema: Schema | None = None,
        target: Any = None,
        ignore: Sequence[str] = (),
        freeze: Sequence[str] = (),
    ) -> Dataset:
        """The data in its parts; `schema` stands in for the schema file, and for `ignore` and `freeze`."""
        if self.is_built_in:
            if ignore:
                raise DataError("", [Fault("--ignore", "is for a table of your own", "Leave it out.")])
            loaded = load_dataset(self.data, seed=self.seed, rows=self.rows)
            loaded = replace(loaded, schema=loaded.schema.freeze(*freeze))
            return loaded if target is None else replace(loaded, target=target)
        if self.label is None:
            columns = some(read_table(self.data).columns, 20)
            remedy = f"Name the column with the answer: --label NAME, one of {columns}."
            raise DataError("", [Fault(self.data, "has no known label", remedy)])
        known = schema if schema is not None or self.schema is None else Path(self.schema)
        how: dict[str, Any] = {"target": target, "seed": self.seed, "immutable": tuple(freeze)}
        loaded = load_own(self.data, label=self.label, schema=known, ignore=ignore, **how)
        return loaded if self.rows is None else _sampled(loaded, self.rows, self.seed)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it is saved beside a model."""
        return asdict(self)

    @classmethod
    def remembered(cls, kept: object) -> Source | None:
        """What a model was fitted on; None if it does not say, as when it was saved from Python."""
        if not isinstance(kept, Mapping):
            return None
        known = {f.name: kept[f.name] for f in fields(cls) if kept.get(f.name) is not None}
        texts = [known.get(name) for name in ("label", "classifier", "schema", "sha256")]
        numbers = [known.get(name) for name in ("rows", "seed")]
        is_sound = all(isinstance(t, str | None) for t in texts) and all(isinstance(n, int | None) for n in numbers)
        return cls(**known) if is_sound and isinstance(known.get("data"), str) else None


def _is_onnx(name: str) -> bool:
    return Path(name).suffix.lower() == ".onnx"


def _sha256(path: str) -> str | None:
    """What tells a file from a changed one; None where there is no file to read, which loading it will say."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def rules_named(name: str | None, data: Dataset) -> str | Path:
    """The text of a data set's own rules, or the file that is meant."""
    if name is None:
        return ""
    if name in data.rules:
        return data.rules[name]
    if data.rules and not Path(name).exists():
        remedy = f"{did_you_mean(name, data.rules)} This data set has {', '.join(data.rules)}.".strip()
        raise RuleError("", [Fault(f"rules {name!r}", "is neither a file nor a name of rules", remedy)])
    return Path(name)


def _sampled(data: Dataset, rows: int, seed: int) -> Dataset:
    """So many rows of the three parts together, each with its share."""
    if rows < 1:
        raise DataError(f"rows is {rows}; ask for at least 1, or leave it out for all")
    rng, share = np.random.default_rng(seed), min(1.0, rows / len(data))
    parts = {
        name: splitting.sample(part, data.label, max(1, round(len(part) * share)), rng)
        for name, part in (("train", data.train), ("validation", data.validation), ("test", data.test))
    }
    return replace(data, **parts)


def rows_to_explain(rows: str, task: Task, source: Source | None, *, skip_missing: bool = False) -> pd.DataFrame:
    """The rows of a file, or the test part of a data set; the one that the model has never seen, if it is its own."""
    if rows in DATASETS:
        own = source if source is not None and source.data == rows else Source(rows)
        table = own.load().test
    else:
        table = read_table(located(rows), schema=task.schema)
    # A label or a note beside the features is nobody's mistake.
    table = table[[name for name in table.columns if name in task.schema]]
    whole, told = complete_rows(table, task.schema)
    if told and skip_missing:
        warnings.warn(told, FcxWarning, stacklevel=2)
        table = whole
    try:
        task.validate(table)
    except SchemaError as error:
        remedy = "Fill it in, or leave such rows out with --skip-missing."
        faults = [replace(f, remedy=remedy) if f.problem == "is missing" and f.rows else f for f in error.faults]
        raise SchemaError(error.message, faults) from error
    return table


# Classifiers and models


def own_unless_trained(name: str) -> Any:
    """A classifier of one's own: an ONNX file or module:attribute. None for one that is to be trained (paper, ...)."""
    return None if name in KINDS else own_classifier(name)


def own_classifier(name: str) -> Any:
    """The path of an ONNX file, or what module:attribute names."""
    path = Path(name)
    if _is_onnx(name):
        return path
    if path.is_file():
        remedy = "Only ONNX files are read. Load it in a module of yours, and pass module:attribute."
        raise ClassifierError("", [Fault(f"classifier {name!r}", "is no ONNX file", remedy)])
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        known = did_you_mean(name, KINDS) or f"There are {', '.join(KINDS)}."
        raise ClassifierError("", [Fault(f"classifier {name!r}", "is not known", f"{known} {OWN}")])
    return _imported(module, attribute)


def _imported(module: str, attribute: str) -> Any:
    """What a module of the user's names; modules in the current folder are found too."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    place = f"classifier {module}:{attribute}"
    try:
        found: Any = importlib.import_module(module)
    # A module is the user's own code: whatever it raises is told as it is.
    except Exception as error:
        problem = f"the module {module!r} cannot be imported ({type(error).__name__}: {error})"
        remedy = "It is looked for in the current folder and among the installed ones."
        raise ClassifierError("", [Fault(place, problem, remedy)]) from error
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise ClassifierError("", [Fault(place, f"there is no {name!r} in it", did_you_mean(name, dir(found)))])
        found = getattr(found, name)
    return found


def load_model(folder: Path, classifier: str | None = None, *, any_classifier: bool = False) -> FCx:
    """A saved model, with the classifier named, saved or remembered.

    With `any_classifier`, one that answers otherwise than the one fitted to will do.

    Code is imported only when a person names it, never because a model's folder does.
    """
    if classifier is not None:
        return FCx.load(folder, classifier=_again(classifier, folder), any_classifier=any_classifier)
    try:
        return FCx.load(folder)
    except ClassifierError as error:
        source = remembered(folder)
        name = "" if source is None else source.classifier
        if name in KINDS or _is_onnx(name):
            return FCx.load(folder, classifier=_again(name, folder), any_classifier=any_classifier)
        remedy = f"Pass it: --classifier {name or 'model.onnx, or module:attribute'}."
        problem = "was fitted to a classifier of your own, which is not saved with it"
        raise ClassifierError("", [Fault(str(folder), problem, remedy)]) from error


def _again(name: str, folder: Path) -> Any:
    """A classifier for a saved model: one's own, or one that is trained again as it was."""
    if name not in KINDS:
        return own_classifier(name)
    source = remembered(folder)
    if source is None:
        problem = "cannot be trained again, since this model does not say what it was fitted on"
        raise ClassifierError("", [Fault(f"classifier {name!r}", problem, OWN)])
    schema = Schema.from_dict(read(folder, KIND).content["task"]["schema"])
    return train_classifier(source.load(schema=schema), name, source.seed)


def remembered(folder: Path) -> Source | None:
    """What a saved model was fitted on, if it says."""
    return Source.remembered(read(folder, KIND).content.get("source"))


def own_data(folder: Path, schema: Schema | None = None) -> Dataset:
    """The data that a saved model was fitted on, loaded again."""
    source = remembered(folder)
    if source is None:
        remedy = "Pass rows of your own, or fit it again with `fcxplain fit`."
        raise DataError("", [Fault(str(folder), "does not say what it was fitted on", remedy)])
    if not source.is_built_in and _sha256(source.data) != source.sha256:
        if not Path(source.data).is_file():
            problem = f"was fitted on {source.data}, which is not there any more"
            raise DataError("", [Fault(str(folder), problem, "Bring it back, or pass rows of your own.")])
        changed = f"{source.data} has changed since the model was fitted; its test part may hold training rows"
        warnings.warn(changed, FcxWarning, stacklevel=2)
    return source.load(schema=schema)
