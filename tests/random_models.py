"""Random models of every kind that a task takes, each with a direct way to ask it, as its owner would."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier
from torch import nn

from fcxplain import Schema, TableEncoder
from sentences import one_of

CLASSES = (("no", "yes"), (0, 1), (False, True), ("a", "b", "c"), (2, 0, 1, 5), ("1", "b b", "ß"))
Ask = Callable[[pd.DataFrame], np.ndarray]


Near = Callable[[pd.DataFrame], np.ndarray]


@dataclass(frozen=True)
class Model:
    """What the task is given, and the same model asked directly, as its owner asks it: tables in."""

    given: Any
    ask: Ask
    """`n x classes` probabilities."""
    classes: tuple[Any, ...]
    threshold: float | None
    """What the task is told beside the model."""
    decide: Callable[[pd.DataFrame], np.ndarray] | None = None
    """Its own answers, where it has any; else the most probable class is."""
    unsure: Near | None = None
    """Rows so near to the boundary that its own rounding decides; None where it never rounds by the batch."""
    about: str = ""
    named: bool = False
    """Whether the task must be told the classes."""
    coarse: float = 1e-5
    """How far its probabilities may be off where a least probability is asked for."""

    def answers(self, table: pd.DataFrame) -> list[Any]:
        """The class of each row."""
        if not len(table):
            return []
        if self.decide is not None and self.threshold is None:
            return np.asarray(self.decide(table)).tolist()
        p = np.asarray(self.ask(table), dtype=np.float64)
        if not self.classes:
            return p.tolist()
        place = p.argmax(axis=1) if self.threshold is None else (p[:, 1] >= self.threshold).astype(int)
        return [self.classes[i] for i in place]


def matrix(schema: Schema, table: pd.DataFrame) -> np.ndarray:
    """Numbers as they are, then a column of 0 and 1 for each level."""
    columns = []
    for f in schema:
        if f.kind in ("integer", "continuous"):
            columns.append(table[f.name].to_numpy(dtype=np.float64)[:, None])
        else:
            places = [f.levels.index(v) for v in table[f.name].tolist()]
            columns.append(np.eye(len(f.levels))[places])
    # Minus zero is zero.
    return np.concatenate(columns, axis=1) + 0.0


def model_of(
    kind: str,
    schema: Schema,
    train: pd.DataFrame,
    *,
    seed: int,
    classes: tuple[Any, ...],
    threshold: float | None = None,
    bias: float = 0.0,
) -> Model:
    """A random model; `bias` speaks against its last class."""
    rng = np.random.default_rng(seed)
    if kind == "linear":
        module = _linear(sum(f.width for f in schema), len(classes), seed, bias)
        encoder = TableEncoder().fit(schema, train)
        return Model(module, lambda table: _asked(module, encoder, table), classes, threshold, named=True)
    if kind == "logistic":
        ask = _logistic(schema, train, len(classes), rng, bias)
    elif kind == "lookup":
        ask = _lookup(schema, len(classes), seed, share=0.5 / (1 + bias))
    else:
        ask = _trees(kind, schema, train, len(classes), rng)
    return Model(ask, ask, classes, threshold, about=kind, named=True)


def _layers(sizes: list[int], seed: int) -> list[nn.Module]:
    """Linear layers with random weights of their own, and ReLUs between them."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layer = nn.Linear(inputs, outputs)
        with torch.no_grad():
            layer.weight.normal_(generator=generator)
            layer.bias.normal_(generator=generator)
        layers += [layer, nn.ReLU()]
    return layers[:-1]


def _linear(width: int, classes: int, seed: int, bias: float) -> nn.Module:
    (layer,) = _layers([width, classes], seed)
    with torch.no_grad():
        layer.bias[-1] -= bias  # type: ignore[index, operator]
    return layer


def _asked(module: nn.Module, encoder: TableEncoder, table: pd.DataFrame) -> np.ndarray:
    with torch.no_grad():
        return module(encoder.encode(table)).double().softmax(dim=1).numpy()


def _logistic(schema: Schema, train: pd.DataFrame, classes: int, rng: np.random.Generator, bias: float) -> Ask:
    x = matrix(schema, train)
    center, spread = x.mean(axis=0), x.std(axis=0) + 0.1
    weights, shift = rng.normal(size=(x.shape[1], classes)), rng.normal(size=classes)
    shift[-1] -= bias

    def ask(table: pd.DataFrame) -> np.ndarray:
        # Row by row, since a product of matrices rounds by the number of its rows.
        score = ((matrix(schema, table) - center) / spread)[:, :, None] * weights
        score = score.sum(axis=1) + shift
        # Values far outside the training rows must not overflow.
        odds = np.exp(score - score.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    return ask


def _trees(kind: str, schema: Schema, train: pd.DataFrame, classes: int, rng: np.random.Generator) -> Ask:
    x = matrix(schema, train)
    x = np.concatenate([x, x[rng.integers(len(x), size=classes)]])
    labels = np.concatenate([rng.integers(classes, size=len(train)), np.arange(classes)])
    state = int(rng.integers(2**31))
    made = (
        DecisionTreeClassifier(random_state=state)
        if kind == "tree"
        else RandomForestClassifier(n_estimators=4, max_depth=3, random_state=state)
    ).fit(x, labels)
    return lambda table: made.predict_proba(matrix(schema, table))


def _lookup(schema: Schema, classes: int, seed: int, share: float) -> Ask:
    """Each row has a class of its own, without rhyme or reason; the last one is rare."""

    def ask(table: pd.DataFrame) -> np.ndarray:
        x = matrix(schema, table)
        drawn = np.array([zlib.crc32(line.tobytes(), seed) / 2**32 for line in x])
        other = (drawn - share) / (1 - share) * (classes - 1)
        place = np.where(drawn < share, classes - 1, np.clip(other.astype(int), 0, classes - 2))
        return np.full((len(x), classes), 0.1 / classes) + 0.9 * np.eye(classes)[place]

    return ask


# Estimators as their users fit them, with the settings that few people touch


def _draw(rng: np.random.Generator, **choices: tuple[Any, ...]) -> dict[str, Any]:
    return {name: one_of(rng, items) for name, items in choices.items()}


def _tree(rng: np.random.Generator) -> Any:
    kind = one_of(rng, [DecisionTreeClassifier, ExtraTreeClassifier])
    return kind(**_draw(rng, max_depth=(1, 2, None), class_weight=(None, "balanced"), criterion=("gini", "entropy")))


def _forest(rng: np.random.Generator) -> Any:
    kind = one_of(rng, [RandomForestClassifier, ExtraTreesClassifier])
    weights = (None, "balanced") if rng.random() < 0.7 else ("balanced_subsample",)
    more = _draw(
        rng, n_estimators=(2, 4, 10), max_depth=(1, 2, 4), max_features=(None, 1, "sqrt"), class_weight=weights
    )
    return kind(**more, bootstrap=bool(rng.random() < 0.5))


def _gradient(rng: np.random.Generator) -> Any:
    return GradientBoostingClassifier(
        **_draw(rng, loss=("log_loss", "exponential"), n_estimators=(1, 3, 10), max_depth=(1, 2), subsample=(1.0, 0.7)),
        **_draw(rng, learning_rate=(0.1, 1.0), init=(None, "zero")),
    )


def _histogram(rng: np.random.Generator) -> Any:
    return HistGradientBoostingClassifier(
        **_draw(rng, max_iter=(1, 3, 10), max_leaf_nodes=(2, 3, 8), min_samples_leaf=(1, 5), learning_rate=(0.1, 1.0)),
        **_draw(rng, class_weight=(None, "balanced"), early_stopping=(False, True), l2_regularization=(0.0, 1.0)),
    )


def _xgboost(rng: np.random.Generator) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(
        **_draw(rng, n_estimators=(1, 3, 10), max_depth=(1, 2, 3), learning_rate=(0.1, 0.5, 1.0)),
        **_draw(rng, base_score=(None, None, 0.5, 0.2, 0.9), num_parallel_tree=(1, 1, 3), booster=("gbtree", "dart")),
        **_draw(rng, max_delta_step=(0, 0.5), min_child_weight=(0, 1), scale_pos_weight=(None, 3.0)),
        **_draw(rng, early_stopping_rounds=(None, None, 2), tree_method=("hist", "hist", "exact")),
        enable_categorical=True,
        n_jobs=1,
        verbosity=0,
    )


def _lightgbm(rng: np.random.Generator) -> Any:
    from lightgbm import LGBMClassifier

    linear = bool(rng.random() < 0.3)
    return LGBMClassifier(
        **_draw(rng, n_estimators=(1, 3, 10), num_leaves=(2, 3, 7), learning_rate=(0.1, 0.5, 1.0), max_depth=(-1, 2)),
        **_draw(rng, boosting_type=("gbdt", "gbdt", "dart", "rf")),
        linear_tree=linear,
        **_draw(rng, extra_trees=(False, True), class_weight=(None, "balanced")),
        zero_as_missing=not linear and bool(rng.random() < 0.3),
        min_child_samples=1,
        min_data_per_group=1,
        cat_smooth=0.1,
        bagging_freq=1,
        bagging_fraction=0.7,
        deterministic=True,
        n_jobs=1,
        verbose=-1,
    )


def _regression(rng: np.random.Generator) -> Any:
    return LogisticRegression(**_draw(rng, C=(0.1, 1.0, 100.0), class_weight=(None, "balanced")), max_iter=300)


def _neighbours(rng: np.random.Generator) -> Any:
    return KNeighborsClassifier(**_draw(rng, n_neighbors=(1, 2, 4), weights=("uniform", "distance")))


ESTIMATORS: dict[str, Callable[[np.random.Generator], Any]] = {
    "single tree": _tree,
    "forest of trees": _forest,
    "gradient boosting": _gradient,
    "histogram boosting": _histogram,
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "regression": _regression,
    "neighbours": _neighbours,
}
# These can do without a pipeline, on columns of numbers and of pandas categories.
NATIVE = ("histogram boosting", "xgboost", "lightgbm")
# Their sums round by the size of the batch, so that they contradict themselves this near to the boundary.
ROUNDING = {"regression": 1e-9, "neighbours": 1e-9}
WRAPPERS = ("", "", "", "fixed", "tuned", "grid", "fixed in grid", "calibrated")


def estimator_model(
    kind: str, schema: Schema, train: pd.DataFrame, labels: np.ndarray, legal: pd.DataFrame, rng: np.random.Generator
) -> Model:
    """A fitted estimator, alone or in a pipeline, perhaps inside of what sets thresholds or searches for parameters."""
    classes = tuple(np.unique(labels).tolist())
    native = kind in NATIVE and not _texts(train) and rng.random() < 0.8
    final = ESTIMATORS[kind](rng)
    if "random_state" in final.get_params():
        final.set_params(random_state=int(rng.integers(2**31)))
    wrapper = one_of(rng, WRAPPERS)
    if len(classes) != 2 and ("fixed" in wrapper or wrapper == "tuned"):
        wrapper = "grid"
    if len(classes) != 2 and getattr(final, "loss", "") == "exponential":
        final.set_params(loss="log_loss")
    if kind == "xgboost" and (not native or wrapper):
        final.set_params(early_stopping_rounds=None)
    if kind == "histogram boosting" and native:
        signs = {f.name: int(rng.integers(-1, 2)) for f in schema if f.is_number and train[f.name].dtype != object}
        final.set_params(
            monotonic_cst=signs if len(classes) == 2 and rng.random() < 0.5 else None, categorical_features="from_dtype"
        )
    whole = rng.random() < 0.5
    inner = final if native or whole else _wrapped(wrapper, final, classes, rng)
    piped = inner if native else make_pipeline(_prepared(schema, rng), inner)
    model = _wrapped(wrapper, piped, classes, rng) if native or whole else piped
    _fit(model, kind, train, labels, rng)
    p = model.predict_proba(legal)
    threshold = _threshold(p[:, 1], rng) if len(classes) == 2 and rng.random() < 0.25 else None
    near = _nearness(model, threshold, ROUNDING[kind]) if kind in ROUNDING else None
    return Model(
        model,
        model.predict_proba,
        classes,
        threshold,
        decide=model.predict,
        unsure=near,
        about=f"{'native ' * native}{wrapper} {'around all ' * bool(wrapper and whole)}{final!r}",
    )


REGRESSORS: dict[str, Callable[[], Any]] = {
    "number by a line": LinearRegression,
    "number by a tree": lambda: DecisionTreeRegressor(max_depth=4, random_state=0),
    "number by a forest": lambda: RandomForestRegressor(4, max_depth=4, random_state=0),
    "number by boosting": lambda: GradientBoostingRegressor(n_estimators=6, random_state=0),
    "number by histogram": lambda: HistGradientBoostingRegressor(max_iter=6, min_samples_leaf=3, random_state=0),
}


def regressor_model(
    kind: str, schema: Schema, train: pd.DataFrame, labels: np.ndarray, rng: np.random.Generator
) -> Model:
    """A fitted regressor in a pipeline, which says how much the classes of rows are worth."""
    worth = {name: float(rng.normal()) * 100 for name in dict.fromkeys(labels.tolist())}
    model = make_pipeline(_prepared(schema, rng), REGRESSORS[kind]())
    model.fit(train, np.array([worth[name] for name in labels.tolist()]) + rng.normal(size=len(train)))
    return Model(model, model.predict, (), None, about=kind)


def _texts(train: pd.DataFrame) -> bool:
    return any(pd.api.types.is_object_dtype(d) or pd.api.types.is_string_dtype(d) for d in train.dtypes)


def _prepared(schema: Schema, rng: np.random.Generator) -> Any:
    """Categories as columns of 0 and 1, or as numbers; numbers as they are, or scaled."""
    numbers, categories = list(schema.numbers), list(schema.categories)
    unknown = {"handle_unknown": "use_encoded_value", "unknown_value": -1, "encoded_missing_value": -2}
    encoder = OneHotEncoder(handle_unknown="ignore") if rng.random() < 0.6 else OrdinalEncoder(**unknown)
    scaled = StandardScaler() if rng.random() < 0.4 else "passthrough"
    if any(f.missing in ("kept", "may_be_filled") for f in schema):
        scaled = make_pipeline(SimpleImputer(strategy=one_of(rng, ["mean", "median"])), scaled)
    return ColumnTransformer([("c", encoder, categories), ("n", scaled, numbers)], sparse_threshold=0)


def _wrapped(wrapper: str, model: Any, classes: tuple[Any, ...], rng: np.random.Generator) -> Any:
    if wrapper == "fixed in grid":
        return _wrapped("grid", _wrapped("fixed", model, classes, rng), classes, rng)
    if wrapper == "grid":
        return GridSearchCV(model, {}, cv=2)
    if wrapper == "calibrated":
        return CalibratedClassifierCV(model, cv=2, **_draw(rng, method=("sigmoid", "isotonic"), ensemble=(True, False)))
    positive = one_of(rng, [None, *classes])
    if wrapper == "tuned":
        scoring = "balanced_accuracy"
        return TunedThresholdClassifierCV(model, scoring=scoring, cv=3, thresholds=7, random_state=0)
    if wrapper == "fixed":
        decides = hasattr(model, "decision_function") and rng.random() < 0.4
        method = "decision_function" if decides else one_of(rng, ["auto", "predict_proba"])
        levels = [0.2, -0.3, 1.5] if decides else [0.3, np.float64(0.7), np.float32(0.4), 0.05, "auto"]
        return FixedThresholdClassifier(
            model, threshold=one_of(rng, levels), pos_label=positive, response_method=method
        )
    return model


def _fit(model: Any, kind: str, train: pd.DataFrame, labels: np.ndarray, rng: np.random.Generator) -> None:
    if getattr(model, "early_stopping_rounds", None):
        model.fit(train, labels, eval_set=[(train.iloc[::2], rng.permutation(labels[::2]))], verbose=False)
    elif type(model).__name__ == "LGBMClassifier" and rng.random() < 0.3 and model.boosting_type == "gbdt":
        from lightgbm import early_stopping

        stop = [early_stopping(1, verbose=False)]
        model.fit(train, labels, eval_set=[(train.iloc[::2], rng.permutation(labels[::2]))], callbacks=stop)
    else:
        model.fit(train, labels)


def _threshold(p: np.ndarray, rng: np.random.Generator) -> float:
    """A round number, one of the model's own answers to legal rows, one next to it, or one next to 0 or 1."""
    own = float(p[rng.integers(len(p))])
    near = own * (1 + one_of(rng, [-1e-7, 1e-7, 1e-12]))
    return min(1.0, max(0.0, one_of(rng, [0.2, 0.5, 0.9, own, own, near, near, 1e-9, 1 - 1e-9])))


def _nearness(model: Any, threshold: float | None, rounding: float) -> Near:
    """Whether rows lie so near to the model's boundary that its own rounding decides."""
    outer = getattr(model, "best_estimator_", model)
    outer = outer.steps[-1][1] if hasattr(outer, "steps") else outer
    own = getattr(outer, "best_threshold_", getattr(outer, "threshold", None))
    scored = getattr(outer, "response_method", "") == "decision_function"
    positive = 0 if getattr(outer, "pos_label", None) == model.classes_[0] else 1

    def near(table: pd.DataFrame) -> np.ndarray:
        p = model.predict_proba(table)
        if threshold is not None:
            return np.abs(p[:, 1] - threshold) <= rounding
        if own is None or own == "auto":
            best = np.sort(p, axis=1)
            return best[:, -1] - best[:, -2] <= rounding
        if scored:
            found = model.decision_function(table) * (1 if positive else -1)
            return np.abs(found - float(own)) <= rounding * (1 + np.abs(found))
        return np.abs(p[:, positive] - float(own)) <= rounding

    return near


# Networks in every precision

PRECISIONS = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 0.03}
ENDS = ("logits", "logits", "one logit", "flat logit", "sigmoid", "softmax")


class Flat(nn.Module):
    """One output per row without a column of its own."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z[:, 0]


def torch_model(
    schema: Schema, train: pd.DataFrame, classes: tuple[Any, ...], legal: pd.DataFrame, rng: np.random.Generator
) -> Model:
    """A network with random weights, whose boundary often runs next to a legal row."""
    end = one_of(rng, ENDS) if len(classes) == 2 else one_of(rng, ["logits", "softmax"])
    # In bfloat16, a softmax does not sum to 1, and is refused for it.
    brief = [] if end == "softmax" else [torch.bfloat16]
    dtype = one_of(rng, [torch.float32, torch.float32, torch.float64, *brief])
    encoder = TableEncoder().fit(schema, train)
    outputs = len(classes) if end in ("logits", "softmax") else 1
    sizes = [sum(f.width for f in schema), *one_of(rng, [(), (6,), (6, 5), (48, 32)]), outputs]
    body = nn.Sequential(*_layers(sizes, int(rng.integers(2**31)))).to(dtype).eval()
    x = encoder.encode(legal).to(dtype)
    with torch.no_grad():
        out = body(x).double()
        lead = out[:, -1] - (out[:, 0] if outputs > 1 else 0.0)
        chosen = lead[rng.integers(len(lead))] if rng.random() < 0.6 else lead.quantile(one_of(rng, [0.5, 0.9, 1.0]))
        body[-1].bias[-1] -= chosen + one_of(rng, [0.0, 1e-7, -1e-7])  # type: ignore[index, operator, union-attr]
    ends = {"sigmoid": nn.Sigmoid(), "softmax": nn.Softmax(dim=1), "flat logit": Flat()}
    module = nn.Sequential(*body, ends[end]) if end in ends else body
    module = module[0] if len(module) == 1 else module

    def raw(table: pd.DataFrame) -> torch.Tensor:
        with torch.no_grad():
            out = module(encoder.encode(table).to(dtype)).double()
        return out.reshape(len(table), -1)

    def ask(table: pd.DataFrame) -> np.ndarray:
        out = raw(table)
        if end == "softmax" or outputs > 1:
            return (out if end == "softmax" else out.softmax(dim=1)).numpy()
        second = out[:, 0] if end == "sigmoid" else torch.stack([0 * out[:, 0], out[:, 0]], 1).softmax(dim=1)[:, 1]
        return torch.stack([1 - second, second], 1).numpy()

    def decide(table: pd.DataFrame) -> np.ndarray:
        out = raw(table)
        place = out.argmax(dim=1) if outputs > 1 else (out[:, 0] > (0.5 if end == "sigmoid" else 0.0)).long()
        return np.array(classes, dtype=object)[place.numpy()]

    p = ask(legal)[:, -1]
    threshold = _threshold(p, rng) if len(classes) == 2 and rng.random() < 0.4 else None
    # Where the probability itself is computed here, its last digits are nobody's promise.
    if threshold is not None and end not in ("sigmoid", "softmax"):
        threshold = min(1.0, threshold * (1 + 1e-9))

    def near(table: pd.DataFrame) -> np.ndarray:
        rounding, out = PRECISIONS[dtype], raw(table).numpy()
        if end not in ("sigmoid", "softmax"):
            # As far as rounding of the largest logit can carry the score.
            best = np.sort(out if outputs > 1 else np.column_stack([0 * out, out]), axis=1)
            goal = 0.0 if threshold is None else np.log(threshold + 1e-300) - np.log1p(-min(threshold, 1 - 1e-16))
            lead = best[:, -1] - best[:, -2] if threshold is None else np.diff(_pair(out), axis=1)[:, 0]
            return np.abs(lead - goal) <= rounding * (3 + np.abs(out).max(axis=1))
        p = ask(table)
        edge = threshold if threshold is not None else 0.5
        lead = np.abs(p[:, 1] - edge) if len(classes) == 2 else np.diff(np.sort(p, axis=1)[:, -2:], axis=1)[:, 0]
        return lead <= 10 * rounding * max(min(edge, 1.0), 1e-3)

    coarse = max(1e-5, PRECISIONS[dtype])
    return Model(module, ask, classes, threshold, decide, near, f"{end} {dtype} {sizes}", named=True, coarse=coarse)


def _pair(out: np.ndarray) -> np.ndarray:
    return out if out.shape[1] > 1 else np.column_stack([0 * out, out])


# Callables


def points_model(schema: Schema, classes: tuple[Any, ...], rng: np.random.Generator) -> Model:
    """Whole points for each value, as on a score card: most rows are tied with many others, some with the boundary."""
    points = {f.name: rng.integers(-3, 4, size=8) for f in schema}
    worth = rng.integers(-2, 3, size=(len(schema.names), len(classes)))
    spans = {f.name: (float(f.low or 0), float(f.high or 0) - float(f.low or 0) or 1.0) for f in schema if f.is_number}

    def ask(table: pd.DataFrame) -> np.ndarray:
        total = np.zeros((len(table), len(classes)), dtype=np.int64)
        for i, f in enumerate(schema):
            if f.is_number:
                low, spread = spans[f.name]
                place = np.floor((table[f.name].to_numpy(dtype=np.float64) - low) / spread * 4).astype(int)
            else:
                place = np.array([f.levels.index(v) for v in table[f.name].tolist()], dtype=int)
            total += points[f.name][np.clip(place, 0, 7)][:, None] * worth[i]
        odds = 2.0 ** np.clip(total, -30, 30)
        return odds / odds.sum(axis=1, keepdims=True)

    threshold = one_of(rng, [None, None, 0.5, 0.8, 2 / 3]) if len(classes) == 2 else None
    return Model(ask, ask, classes, threshold, about="points", named=True)


def spelled_model(schema: Schema, classes: tuple[Any, ...], rng: np.random.Generator) -> Model:
    """Goes by how values are written: 2 and 2.0 are others to it, so that it tells in which dtype it was shown a row."""
    seed, share = int(rng.integers(2**31)), float(rng.choice([0.5, 0.2, 0.02]))

    def ask(table: pd.DataFrame) -> np.ndarray:
        columns = [[f"{v}" for v in table[name].tolist()] for name in schema.names]
        drawn = np.array([zlib.crc32("|".join(line).encode(), seed) / 2**32 for line in zip(*columns, strict=True)])
        place = np.where(drawn < share, len(classes) - 1, (drawn * 997).astype(int) % max(1, len(classes) - 1))
        return np.full((len(table), len(classes)), 0.1 / len(classes)) + 0.9 * np.eye(len(classes))[place]

    return Model(ask, ask, classes, None, about="spelled", named=True)


def onnx_model(schema: Schema, train: pd.DataFrame, labels: np.ndarray, rng: np.random.Generator) -> Model:
    """A pipeline on raw columns, converted, with an input per feature."""
    import onnxruntime
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    final = one_of(rng, [LogisticRegression(max_iter=300), _forest(rng), DecisionTreeClassifier(max_depth=3)])
    encode = [("c", OneHotEncoder(handle_unknown="ignore"), list(schema.categories))] if schema.categories else []
    pipeline = make_pipeline(ColumnTransformer([*encode, ("n", "passthrough", list(schema.numbers))]), final)
    pipeline.fit(train, labels)
    kinds = {
        f.name: FloatTensorType
        if f.is_number
        else StringTensorType
        if isinstance(f.levels[0], str)
        else Int64TensorType
        for f in schema
    }
    made = to_onnx(
        pipeline,
        initial_types=[(name, kind([None, 1])) for name, kind in kinds.items()],
        options={id(final): {"zipmap": False}},
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    classes = tuple(np.unique(labels).tolist())

    def run(table: pd.DataFrame) -> list[Any]:
        fed = {}
        for f, taken in zip(schema, session.get_inputs(), strict=True):
            dtype = np.float32 if f.is_number else object if isinstance(f.levels[0], str) else np.int64
            fed[taken.name] = np.array(table[f.name].tolist(), dtype=dtype)[:, None]
        return session.run(None, fed)

    def near(table: pd.DataFrame) -> np.ndarray:
        best = np.sort(run(table)[1].astype(np.float64), axis=1)
        return best[:, -1] - best[:, -2] <= 2e-6

    return Model(
        session,
        lambda table: np.asarray(run(table)[1], dtype=np.float64),
        classes,
        None,
        decide=lambda table: np.asarray(run(table)[0]),
        unsure=near,
        about=f"onnx {final!r}",
        named=True,
    )
