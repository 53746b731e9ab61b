"""The trees inside models of scikit-learn, XGBoost and LightGBM. A kind of model is one function in `READERS`.

Scikit-learn's forests are public; of its histogram boosting the inside is read, of the other two what they write as
JSON. Whoever reads a model so must compare the sums with the model's own (`trees.read_trees` does).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Places = NDArray[np.int64]

SINGLE, DOUBLE = 2.0**-24, 2.0**-53


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree; see `trees.Questions` for what nodes ask. A leaf has -1 for `left`."""

    column: Places
    most: Floats
    missing_left: Bools
    table: Places
    """A line of `tables` for categories, else -1."""
    tables: Bools
    left: Places
    right: Places
    scores: Floats
    """`nodes x classes`, 0 but for leaves."""


@dataclass(frozen=True, eq=False)
class Read:
    """The trees of a model, how it sees its input as numbers, and the scores that it makes of it, `n x classes`."""

    trees: list[Tree]
    matrix: Callable[[Any], Floats]
    raw: Callable[[Any], Floats]
    shares: bool = False
    roundoff: float = DOUBLE


def reader_of(model: Any) -> Callable[[Any], Read] | None:
    """What reads the trees of a model, or of the last step of a pipeline."""
    steps = getattr(model, "steps", None)
    if steps:
        return reader_of(steps[-1][1])
    inner = inside(model)
    if inner is not None:
        return reader_of(inner)
    kind = type(model)
    return READERS.get((kind.__module__.split(".")[0], kind.__name__))


def inside(model: Any) -> Any:
    """The fitted model that a search for parameters or a threshold hands its questions on to, if this is one."""
    wrappers = {
        "GridSearchCV": "best_estimator_",
        "RandomizedSearchCV": "best_estimator_",
        "FixedThresholdClassifier": "estimator_",
        "TunedThresholdClassifierCV": "estimator_",
    }
    kind = type(model)
    if kind.__name__ not in wrappers or not kind.__module__.startswith("sklearn."):
        return None
    return getattr(model, wrappers[kind.__name__], None)


def read(model: Any) -> Read:
    """The trees of a model that `reader_of` knows."""
    if "predict_proba" in vars(model):
        raise ValueError("its predict_proba was replaced")
    reader = reader_of(model)
    assert reader is not None
    return reader(model)


def _plain(column: Any, most: Any, missing_left: Any, left: Any, right: Any, scores: Floats) -> Tree:
    """A tree that asks about numbers only."""
    left, right = np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)
    column, most = np.asarray(column, dtype=np.int64), np.asarray(most, dtype=np.float64)
    none = np.empty((0, 256), dtype=bool)
    missing = np.asarray(missing_left).astype(bool)
    return Tree(
        column, most, missing, np.full(len(left), -1), none, left, right, np.where(left[:, None] < 0, scores, 0.0)
    )


def _for_class(values: Floats, place: int, classes: int) -> Floats:
    """Scores that count for one class only; of two classes the first one's stay 0."""
    scores = np.zeros((len(values), max(classes, 2)))
    scores[:, place if classes > 1 else 1] = values
    return scores


def _two_columns(raw: Any) -> Floats:
    raw = np.asarray(raw, dtype=np.float64)
    return np.column_stack([np.zeros(len(raw)), raw]) if raw.ndim == 1 else raw


def _dense(x: Any, absent: float = 0.0) -> Any:
    """An array of what may be sparse."""
    if not hasattr(x, "tocoo"):
        return np.asarray(x)
    entries, full = x.tocoo(), np.full(x.shape, absent)
    full[entries.row, entries.col] = entries.data
    return full


def _singles(x: Any) -> Floats:
    return np.asarray(_dense(x).astype(np.float32), dtype=np.float64)


def _histogram(model: Any) -> Read:
    known, place = model._bin_mapper.make_known_categories_bitsets()
    classes = model.n_trees_per_iteration_
    trees = [
        _histogram_tree(predictor, _bits(known), np.asarray(place), k, classes)
        for iteration in model._predictors
        for k, predictor in enumerate(iteration)
    ]
    return Read(
        trees,
        lambda x: np.asarray(model._preprocess_X(x, reset=False), dtype=np.float64),
        lambda x: _two_columns(model.decision_function(x)),
    )


def _histogram_tree(predictor: Any, known: Bools, place: Places, k: int, classes: int) -> Tree:
    nodes, left_sets = predictor.nodes, _bits(predictor.raw_left_cat_bitsets)
    leaf, coded = nodes["is_leaf"].astype(bool), nodes["is_categorical"].astype(bool)
    asked = np.flatnonzero(coded & ~leaf)
    table = np.full(len(nodes), -1)
    table[asked] = np.arange(len(asked))
    missing = nodes["missing_go_to_left"].astype(bool)
    # A category that training did not have goes where missing values go.
    column = nodes["feature_idx"].astype(np.int64)
    is_known = known[place[column[asked]]] if len(asked) else np.empty((0, 256), dtype=bool)
    lines = np.where(is_known, left_sets[nodes["bitset_idx"][asked]], missing[asked][:, None])
    most = np.where(coded | leaf, 0.0, nodes["num_threshold"])
    left, right = (np.where(leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    scores = _for_class(np.where(leaf, nodes["value"], 0.0), k, classes)
    return Tree(column, most, missing, table, lines.astype(bool), left, right, scores)


def _bits(sets: Any) -> Bools:
    """Sets of 8 words of 32 bits as lines of 256 yes and no."""
    words = np.ascontiguousarray(sets, dtype="<u4").reshape(-1, 8)
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(bool)


def _forest(model: Any) -> Read:
    return _shares(model, [tree.tree_ for tree in model.estimators_])


def _single_tree(model: Any) -> Read:
    return _shares(model, [model.tree_])


def _shares(model: Any, inner: list[Any]) -> Read:
    trees = []
    for tree in inner:
        counts = np.asarray(tree.value, dtype=np.float64)[:, 0, :]
        trees.append(_grown(tree, counts / counts.sum(axis=1, keepdims=True) / len(inner)))
    return Read(trees, _singles, lambda x: np.asarray(model.predict_proba(x)), shares=True)


def _grown(tree: Any, scores: Floats) -> Tree:
    """A tree of scikit-learn's, which compares in single precision."""
    missing = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count))
    column, right = np.maximum(tree.feature, 0), np.maximum(tree.children_right, -1)
    return _plain(column, tree.threshold, missing, tree.children_left, right, scores)


def _gradient(model: Any) -> Read:
    first = model.init_
    if not (isinstance(first, str) and first == "zero") and getattr(first, "strategy", "") != "prior":
        raise ValueError("it begins with the answers of another model")
    # The exponential loss has half the log-odds for its score.
    scale = {"log_loss": 1.0, "exponential": 2.0}[model.loss]
    classes = model.estimators_.shape[1]
    trees = [
        _grown(one.tree_, _for_class(scale * model.learning_rate * one.tree_.value[:, 0, 0], k, classes))
        for stage in model.estimators_
        for k, one in enumerate(stage)
    ]
    return Read(trees, _singles, lambda x: scale * _two_columns(model.decision_function(x)))


def _xgboost(model: Any) -> Read:
    learner = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]
    booster, objective = learner["gradient_booster"], learner["objective"]["name"]
    if booster["name"] != "gbtree" or objective not in ("binary:logistic", "multi:softprob"):
        raise ValueError(f"{booster['name']} with the objective {objective} is not known")
    if not np.isnan(model.missing):
        raise ValueError("its missing values are marked otherwise than by NaN")
    inner, classes = booster["model"], int(learner["learner_model_param"]["num_class"]) or 1
    end = len(inner["trees"])
    best = getattr(model, "best_iteration", None)
    if best is not None:
        end = inner["iteration_indptr"][best + 1]
    trees = [_xgboost_tree(t, k, classes) for t, k in zip(inner["trees"][:end], inner["tree_info"], strict=False)]
    # What a sparse matrix leaves out is missing to XGBoost.
    return Read(
        trees,
        lambda x: _dense(x, np.nan).astype(np.float32).astype(np.float64),
        lambda x: _two_columns(model.predict(x, output_margin=True)),
        roundoff=SINGLE,
    )


def _xgboost_tree(tree: dict[str, Any], k: int, classes: int) -> Tree:
    if any(tree["split_type"]) or int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise ValueError("splits by categories and leaves for several classes are not known")
    values = np.asarray(tree["split_conditions"], dtype=np.float32)
    # Below, not at most: the number just before.
    most = np.nextafter(values, np.float32(-np.inf)).astype(np.float64)
    scores = _for_class(values.astype(np.float64), k, classes)
    return _plain(
        tree["split_indices"], most, tree["default_left"], tree["left_children"], tree["right_children"], scores
    )


def _lightgbm(model: Any) -> Read:
    dump = model.booster_.dump_model()
    objective, classes = dump["objective"], dump["num_tree_per_iteration"]
    if (objective != "binary sigmoid:1" and not objective.startswith("multiclass ")) or dump["average_output"]:
        raise ValueError(f"the objective {objective} is not known")
    trees = [_lightgbm_tree(t["tree_structure"], i % classes, classes) for i, t in enumerate(dump["tree_info"])]
    return Read(trees, _without_missing, lambda x: _two_columns(model.predict(x, raw_score=True)))


def _without_missing(x: Any) -> Floats:
    full = np.asarray(_dense(x), dtype=np.float64)
    if np.isnan(full).any():
        raise ValueError("LightGBM has several ways with missing values, which are not known")
    return full


def _lightgbm_tree(root: dict[str, Any], k: int, classes: int) -> Tree:
    nodes, left, right = [root], [-1], [-1]
    for i, node in enumerate(nodes):
        if "leaf_value" in node:
            continue
        if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
            raise ValueError("splits by categories, and zeros that count as missing, are not known")
        for side, child in ((left, node["left_child"]), (right, node["right_child"])):
            side[i] = len(nodes)
            nodes.append(child)
            left.append(-1)
            right.append(-1)
    column = [node.get("split_feature", 0) for node in nodes]
    most = [node.get("threshold", 0.0) for node in nodes]
    scores = _for_class(np.asarray([node.get("leaf_value", 0.0) for node in nodes]), k, classes)
    return _plain(column, most, np.zeros(len(nodes)), left, right, scores)


READERS: dict[tuple[str, str], Callable[[Any], Read]] = {
    ("sklearn", "HistGradientBoostingClassifier"): _histogram,
    ("sklearn", "GradientBoostingClassifier"): _gradient,
    ("sklearn", "RandomForestClassifier"): _forest,
    ("sklearn", "ExtraTreesClassifier"): _forest,
    ("sklearn", "DecisionTreeClassifier"): _single_tree,
    ("sklearn", "ExtraTreeClassifier"): _single_tree,
    ("xgboost", "XGBClassifier"): _xgboost,
    ("lightgbm", "LGBMClassifier"): _lightgbm,
}
