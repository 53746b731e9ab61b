"""ONNX models, run by onnxruntime (an optional extra, loaded only when a file is opened).

A model has one input per feature, as skl2onnx makes for pipelines on columns, or a single input for whole rows. It
returns a tensor of probabilities, or a list of name -> probability (ZipMap).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..encoding import TableEncoder
from ..errors import ClassifierError, Fault, also, did_you_mean
from ..schema import Schema
from .protocol import AdapterOptions, CheckedClassifier, checked
from .rows import encoded, matched

_DTYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": str,
}
_FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")

Feed = dict[str, NDArray[Any]]


def is_onnx(model: object) -> bool:
    """Whether this is a path or an onnxruntime session, or behaves like one."""
    return isinstance(model, str | Path) or all(hasattr(model, part) for part in ("get_inputs", "get_outputs", "run"))


def classifier(model: Any, options: AdapterOptions) -> CheckedClassifier:
    """An ONNX file or session as a classifier, or as a regressor."""
    schema, encoder = options.schema, options.encoder
    is_path = isinstance(model, str | Path)
    name = Path(model).name if is_path else "ONNX session"
    session = _opened(Path(model)) if is_path else model
    reading = OnnxReading(
        session,
        _feeding(session, name, schema, encoder),
        _output(session, name, regression=options.regression),
        options.output == "logits" and not options.regression,
    )
    return checked(reading, options, name)


@dataclass(frozen=True)
class OnnxReading:
    """Runs a session on raw rows and reads its answer."""

    session: Any
    feed: Callable[[pd.DataFrame], Feed]
    output: str
    logits: bool

    def __call__(self, rows: pd.DataFrame) -> object:
        """Probabilities, as a table with class names if the model gives them."""
        answer = self.session.run([self.output], self.feed(rows))[0]
        if isinstance(answer, list):
            return pd.DataFrame(answer)
        if not self.logits:
            return answer
        import torch

        from .torch_modules import two_columns

        return two_columns(torch.as_tensor(answer).double(), probabilities=False).softmax(dim=1)


def _opened(path: Path) -> Any:
    if path.suffix.lower() != ".onnx":
        remedy = "Load other kinds of files yourself, and give the model or a callable."
        raise ClassifierError("", [Fault(str(path), "is not an .onnx file, the only kind that is opened", remedy)])
    if not path.is_file():
        raise also(ClassifierError, FileNotFoundError)(f"{path}: there is no such file")
    try:
        import onnxruntime
    except ImportError as error:
        remedy = "Install it with: pip install 'fcxplain[onnx]'."
        raise ClassifierError("", [Fault(str(path), "needs onnxruntime, which is not installed", remedy)]) from error
    try:
        return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ClassifierError(f"{path} cannot be opened as an ONNX model: {error}") from error


def _feeding(session: Any, name: str, schema: Schema, encoder: TableEncoder | None) -> Callable[[pd.DataFrame], Feed]:
    """The conversion of raw rows to the session's inputs."""
    inputs = session.get_inputs()
    _check_inputs(inputs, name)
    source = matched((i.name for i in inputs), schema.names)
    if len(source) == len(inputs):
        return lambda rows: {i.name: _column(rows[source[i.name]], i) for i in inputs}
    if len(inputs) == 1:
        return _whole_rows(inputs[0], name, schema, encoder)
    lacking = [i.name for i in inputs if i.name not in source]
    faults = [
        Fault(f"input {n!r}", "is needed by the model, but not in the schema", did_you_mean(n, schema.names))
        for n in lacking
    ]
    raise ClassifierError(f"{name} was made for other columns", faults)


def _check_inputs(inputs: Any, name: str) -> None:
    unknown = [i for i in inputs if i.type not in _DTYPES]
    fixed = [i for i in inputs if i.shape and isinstance(i.shape[0], int)]
    faults = [
        Fault(f"input {i.name!r}", f"is of type {i.type}", "Convert it to float, int64 or string.") for i in unknown
    ]
    remedy = "Export it again with a dynamic first axis."
    faults += [Fault(f"input {i.name!r}", f"takes exactly {i.shape[0]} rows at a time", remedy) for i in fixed]
    if faults:
        raise ClassifierError(f"{name} cannot be fed", faults)


def _whole_rows(given: Any, name: str, schema: Schema, encoder: TableEncoder | None) -> Callable[[pd.DataFrame], Feed]:
    width = given.shape[1] if len(given.shape) == 2 and isinstance(given.shape[1], int) else None
    dtype = _DTYPES[given.type]
    # As many columns as features, all numbers: the table's own columns, on which scikit-learn models are fitted.
    if not schema.categories and (width == len(schema.names) or (encoder is None and width is None)):
        return lambda rows: {given.name: rows[list(schema.names)].to_numpy(dtype=np.float64).astype(dtype)}
    if encoder is not None and given.type in _FLOATS and width in (None, encoder.width_):
        return lambda rows: {given.name: encoded(rows, encoder, name).numpy().astype(dtype)}
    columns = f"{width or 'any number of'} columns of {given.type}"
    has = f"{len(schema.names)} features" + ("" if encoder is None else f" in {encoder.width_} encoded columns")
    remedy = "Give the encoder its columns come from, or convert the model with an input per feature."
    raise ClassifierError("", [Fault(name, f"takes {columns}, but the schema has {has}", remedy)])


def _column(column: pd.Series, given: Any) -> NDArray[Any]:
    dtype = _DTYPES[given.type]
    values = column.astype(str).to_numpy(dtype=object) if dtype is str else column.to_numpy(dtype=dtype)
    return np.asarray(values.reshape(-1, 1) if len(given.shape) == 2 else values)


def _output(session: Any, name: str, *, regression: bool) -> str:
    """The output with the probabilities: a ZipMap, else a float tensor, if possible one named so; or with numbers."""
    outputs = session.get_outputs()
    floats = [o for o in outputs if o.type in _FLOATS]
    if regression:
        found, problem, remedy = floats, "has no output of numbers", "Convert it again with one."
    else:
        maps = [o for o in outputs if o.type.startswith("seq(map")]
        found = [*maps, *(o for o in floats if "prob" in o.name.lower()), *floats]
        problem = "has no output of probabilities, only labels"
        remedy = "Convert it again with its probabilities as an output."
    if not found:
        raise ClassifierError("", [Fault(name, problem, remedy)])
    return str(found[0].name)
