"""The trees inside models of scikit-learn, XGBoost and LightGBM. A kind of model is one function in `READERS`.

Scikit-learn's forests are public; its histogram boosting is read from private attributes, the other two from their
JSON. Every field must be known, if only as one that predictions do not depend on: an unknown field may mean anything.
Callers must compare the sums with the model's own (`trees.read_trees` does).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import some
from ..estimators import chain

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Places = NDArray[np.int64]

SINGLE, DOUBLE = 2.0**-24, 2.0**-53
# Codes of categories are below this.
CODES = 256

HISTOGRAM_NODE = (
    "value count feature_idx num_threshold missing_go_to_left left right gain depth is_leaf bin_threshold "
    "is_categorical bitset_idx"
)
GROWN = "max_depth node_count nodes values"
GROWN_NODE = (
    "left_child right_child feature threshold impurity n_node_samples weighted_n_node_samples missing_go_to_left"
)
XGBOOST_LEARNER = "attributes feature_names feature_types gradient_booster learner_model_param objective"
# Objectives of regressors whose score is the prediction.
XGBOOST_OBJECTIVES = ("binary:logistic", "multi:softprob", "reg:squarederror", "reg:absoluteerror")
LIGHTGBM_OBJECTIVES = ("binary sigmoid:1", "regression", "regression_l1", "huber")
XGBOOST_BOOSTER = "cats gbtree_model_param iteration_indptr tree_info trees"
XGBOOST_TREE = (
    "base_weights categories categories_nodes categories_segments categories_sizes default_left id left_children "
    "loss_changes parents right_children split_conditions split_indices split_type sum_hessian tree_param"
)
LIGHTGBM = (
    "name version num_class num_tree_per_iteration label_index max_feature_idx objective average_output feature_names "
    "monotone_constraints feature_infos tree_info feature_importances pandas_categorical"
)
LIGHTGBM_TREE = "tree_index num_leaves num_cat shrinkage tree_structure"
LIGHTGBM_NODE = (
    "split_index split_feature split_gain threshold decision_type default_left missing_type internal_value "
    "internal_weight internal_count left_child right_child"
)
LIGHTGBM_LEAF = "leaf_index leaf_value leaf_weight leaf_count"
# LightGBM passes all its settings on to prediction; these are known to affect training only.
LIGHTGBM_SETTINGS = (
    "verbose verbosity silent seed data_random_seed feature_fraction_seed bagging_seed drop_seed extra_seed "
    "objective_seed deterministic force_col_wise force_row_wise extra_trees path_smooth max_bin min_data_in_bin "
    "feature_fraction feature_fraction_bynode colsample_bynode bagging_fraction bagging_freq min_data_in_leaf "
    "min_sum_hessian_in_leaf lambda_l1 lambda_l2 max_delta_step linear_lambda is_unbalance unbalance scale_pos_weight "
    "boost_from_average metric early_stopping_rounds early_stopping_round first_metric_only drop_rate max_drop "
    "skip_drop uniform_drop xgboost_dart_mode top_rate other_rate data_sample_strategy monotone_constraints "
    "monotone_constraints_method monotone_penalty interaction_constraints min_gain_to_split num_class tree_learner "
    "num_threads device_type device use_quantized_grad max_cat_threshold cat_l2 cat_smooth min_data_per_group "
    "max_cat_to_onehot enable_bundle bin_construct_sample_cnt feature_pre_filter"
)


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree; see `trees.Questions` for the splits of nodes. A leaf has -1 for `left`."""

    column: Places
    most: Floats
    missing_left: Bools
    table: Places
    """The line of `tables` for a split by categories, else -1."""
    tables: Bools
    left: Places
    right: Places
    scores: Floats
    """`nodes x classes`, 0 except for leaves."""


@dataclass(frozen=True, eq=False)
class Read:
    """The trees of a model, the conversion of its input to numbers, and its own scores, `n x classes`."""

    trees: list[Tree]
    matrix: Callable[[Any], Floats]
    raw: Callable[[Any], Floats]
    shares: bool = False
    roundoff: float = DOUBLE
    walk: Callable[[Floats], Floats] | None = None
    """The same scores for the output of `matrix`, by the library's own code, if that is fast."""


def reader_of(model: Any) -> Callable[[Any], Read] | None:
    """The function that reads the trees of a model, or of the last model that it delegates to."""
    *_, last = chain(model)
    kind = type(last)
    return READERS.get((kind.__module__.split(".")[0], kind.__name__))


def read(model: Any) -> Read:
    """The trees of a model that has a reader."""
    reader = reader_of(model)
    assert reader is not None
    return reader(model)


def refuse_replaced(*models: Any) -> None:
    """Refuse objects whose methods were replaced on the instance."""
    for model in models:
        for name in vars(model):
            if callable(getattr(type(model), name, None)):
                raise ValueError(f"its {name} was replaced")


def _refuse_others(kind: str, found: Any, known: str) -> None:
    """Refuse an object with an unknown field, which may mean anything."""
    unknown = [name for name in found if name not in _words(known)]
    if unknown:
        raise ValueError(f"{kind} has {some(unknown)}, which is unknown")


@cache
def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _of_kind(model: Any, *names: str) -> Any:
    """A part of a model, if it is of an unmodified scikit-learn class."""
    kind = type(model)
    if kind.__name__ not in names or not kind.__module__.startswith("sklearn."):
        raise ValueError(f"a part of it is a {kind.__name__}, which is unknown")
    refuse_replaced(model)
    return model


def _plain(
    column: Any,
    most: Any,
    missing_left: Any,
    left: Any,
    right: Any,
    scores: Floats,
    sets: dict[int, Bools] | None = None,
) -> Tree:
    """A tree that splits by numbers, and at the nodes of `sets` by categories: the codes that go left."""
    left, right = np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)
    column, most = np.asarray(column, dtype=np.int64), np.asarray(most, dtype=np.float64)
    missing, table = np.asarray(missing_left).astype(bool), np.full(len(left), -1)
    table[list(sets or {})] = np.arange(len(sets or {}))
    tables = np.array(list((sets or {}).values()), dtype=bool).reshape(-1, CODES)
    return Tree(column, most, missing, table, tables, left, right, np.where(left[:, None] < 0, scores, 0.0))


def _codes(codes: Any) -> Bools:
    """A set of categories as a mask over codes."""
    found = np.zeros(CODES, dtype=bool)
    # A category without a code here raises an IndexError, and the model is not read.
    found[np.asarray(codes, dtype=np.int64)] = True
    return found


def _by_code(x: Any, categories: list[list[Any] | None]) -> Any:
    """A table with categories as codes: their index among the categories that the model knows, or -1."""
    if not isinstance(x, pd.DataFrame):
        return dense(x, np.nan)
    columns = [
        column if known is None else pd.Series(pd.Index(known).get_indexer(pd.Index(column)), index=x.index)
        for (_, column), known in zip(x.items(), categories, strict=True)
    ]
    return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


def _for_class(values: Floats, place: int, classes: int) -> Floats:
    """Scores of one class only; with two classes, those of the first stay 0."""
    scores = np.zeros((len(values), max(classes, 2)))
    scores[:, place if classes > 1 else 1] = values
    return scores


def _two_columns(raw: Any) -> Floats:
    raw = np.asarray(raw, dtype=np.float64)
    return np.column_stack([np.zeros(len(raw)), raw]) if raw.ndim == 1 else raw


def dense(x: Any, absent: float = 0.0) -> Any:
    """A dense array, from one that may be sparse."""
    if not hasattr(x, "tocoo"):
        return np.asarray(x)
    entries, full = x.tocoo(), np.full(x.shape, absent)
    full[entries.row, entries.col] = entries.data
    return full


def _singles(x: Any) -> Floats:
    return np.asarray(dense(x).astype(np.float32), dtype=np.float64)


def read_histogram(model: Any, place: int = 0, classes: int | None = None) -> Read:
    """Histogram boosting; for a regressor, `place` and `classes` define the class whose score is its prediction."""
    for predictor in (predictor for iteration in model._predictors for predictor in iteration):
        _refuse_others("a node", _of_kind(predictor, "TreePredictor").nodes.dtype.names, HISTOGRAM_NODE)
    known, line = model._bin_mapper.make_known_categories_bitsets()
    classes = model.n_trees_per_iteration_ if classes is None else classes
    trees = [
        _histogram_tree(predictor, _bits(known), np.asarray(line), place + k, classes)
        for iteration in model._predictors
        for k, predictor in enumerate(iteration)
    ]
    return Read(
        trees,
        lambda x: np.asarray(model._preprocess_X(x, reset=False), dtype=np.float64),
        lambda x: _two_columns((model.decision_function if hasattr(model, "classes_") else model.predict)(x)),
    )


def _histogram_tree(predictor: Any, known: Bools, place: Places, k: int, classes: int) -> Tree:
    nodes, left_sets = predictor.nodes, _bits(predictor.raw_left_cat_bitsets)
    leaf, coded = nodes["is_leaf"].astype(bool), nodes["is_categorical"].astype(bool)
    asked = np.flatnonzero(coded & ~leaf)
    missing = nodes["missing_go_to_left"].astype(bool)
    # A category unseen in training goes where missing values go.
    column = nodes["feature_idx"].astype(np.int64)
    is_known = known[place[column[asked]]] if len(asked) else np.empty((0, 256), dtype=bool)
    lines = np.where(is_known, left_sets[nodes["bitset_idx"][asked]], missing[asked][:, None])
    most = np.where(coded | leaf, 0.0, nodes["num_threshold"])
    left, right = (np.where(leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    sets = dict(zip(asked.tolist(), lines, strict=True))
    return _plain(column, most, missing, left, right, _for_class(nodes["value"], k, classes), sets)


def _bits(sets: Any) -> Bools:
    """Sets of 8 words of 32 bits as masks of length 256."""
    words = np.ascontiguousarray(sets, dtype="<u4").reshape(-1, 8)
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(bool)


def _forest(model: Any) -> Read:
    """One tree, or the mean of several: of shares of classes, or of outputs as the score of a second class."""
    if model.n_outputs_ != 1:
        raise ValueError(f"it answers {model.n_outputs_} questions at once")
    kind = "Classifier" if hasattr(model, "classes_") else "Regressor"
    parts = getattr(model, "estimators_", [model])
    inner = [_of_kind(part, f"DecisionTree{kind}", f"ExtraTree{kind}").tree_ for part in parts]
    if kind == "Regressor":
        trees = [_grown(tree, _for_class(tree.value[:, 0, 0] / len(inner), 0, 1)) for tree in inner]
        return Read(trees, _singles, lambda x: _two_columns(model.predict(x)))
    trees = []
    for tree in inner:
        counts = np.asarray(tree.value, dtype=np.float64)[:, 0, :]
        trees.append(_grown(tree, counts / counts.sum(axis=1, keepdims=True) / len(inner)))

    def walk(x: Floats) -> Floats:
        shown = np.ascontiguousarray(x, dtype=np.float32)
        return np.asarray(sum(own.scores[tree.apply(shown)] for own, tree in zip(trees, inner, strict=True)))

    return Read(trees, _singles, lambda x: np.asarray(model.predict_proba(x)), shares=True, walk=walk)


def _grown(tree: Any, scores: Floats) -> Tree:
    """A tree of scikit-learn's, which compares in single precision."""
    inner = tree.__getstate__()
    _refuse_others("a tree", inner, GROWN)
    _refuse_others("a node", inner["nodes"].dtype.names, GROWN_NODE)
    missing = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count))
    column, right = np.maximum(tree.feature, 0), np.maximum(tree.children_right, -1)
    return _plain(column, tree.threshold, missing, tree.children_left, right, scores)


def _gradient(model: Any) -> Read:
    first = model.init_
    if not (isinstance(first, str) and first == "zero"):
        if getattr(first, "strategy", "") not in ("prior", "mean", "quantile"):
            raise ValueError("it starts from the predictions of another model")
        _of_kind(first, "DummyClassifier", "DummyRegressor")
    # The score of the exponential loss is half the log-odds; a regressor's score is its prediction.
    is_classifier = hasattr(model, "classes_")
    scale = {"log_loss": 1.0, "exponential": 2.0}[model.loss] if is_classifier else 1.0
    classes = model.estimators_.shape[1]
    trees = [
        _grown(
            _of_kind(one, "DecisionTreeRegressor").tree_,
            _for_class(scale * model.learning_rate * one.tree_.value[:, 0, 0], k, classes),
        )
        for stage in model.estimators_
        for k, one in enumerate(stage)
    ]
    score = model.decision_function if is_classifier else model.predict
    return Read(trees, _singles, lambda x: scale * _two_columns(score(x)))


def _xgboost(model: Any) -> Read:
    whole = json.loads(bytes(model.get_booster().save_raw("json")))
    _refuse_others("its file", whole, "learner version")
    learner = whole["learner"]
    booster, objective = learner["gradient_booster"], learner["objective"]["name"]
    if booster["name"] != "gbtree" or objective not in XGBOOST_OBJECTIVES:
        raise ValueError(f"{booster['name']} with the objective {objective} is not supported")
    if not np.isnan(model.missing):
        raise ValueError("its missing values are not marked by NaN")
    about = learner["learner_model_param"]
    _refuse_others("its learner", learner, XGBOOST_LEARNER)
    _refuse_others("its learner", about, "base_score boost_from_average num_class num_feature num_target")
    _refuse_others("its objective", learner["objective"], "name reg_loss_param softmax_multiclass_param")
    _refuse_others("its booster", booster, "model name")
    _refuse_others("its booster", booster["model"], XGBOOST_BOOSTER)
    _refuse_others(
        "its booster", booster["model"]["gbtree_model_param"], "num_parallel_tree num_trees size_leaf_vector"
    )
    if int(about.get("num_target", 1)) != 1:
        raise ValueError("several targets are not supported")
    inner, classes = booster["model"], int(about["num_class"]) or 1
    end = len(inner["trees"])
    best = getattr(model, "best_iteration", None)
    if best is not None:
        end = inner["iteration_indptr"][best + 1]
    trees = [_xgboost_tree(t, k, classes) for t, k in zip(inner["trees"][:end], inner["tree_info"], strict=False)]
    categories = _xgboost_categories(learner["feature_types"], inner.get("cats"))
    # XGBoost treats the zeros that a sparse matrix leaves out as missing.
    return Read(
        trees,
        lambda x: _by_code(x, categories).astype(np.float32).astype(np.float64),
        lambda x: _two_columns(model.predict(x, output_margin=True)),
        roundoff=SINGLE,
    )


def _xgboost_categories(kinds: list[str], known: Any) -> list[list[Any] | None]:
    """The categories that each column was trained on, in the order of their codes; None for numbers."""
    names: list[list[Any] | None] = [None] * len(kinds)
    for i in (i for i, kind in enumerate(kinds) if kind == "c"):
        kept = known["enc"][i]
        _refuse_others("its categories", kept, "offsets values")
        letters = bytes(kept["values"])
        names[i] = [letters[a:b].decode() for a, b in pairwise(kept["offsets"])]
        if not names[i]:
            raise ValueError("categories that are not text are not supported")
    return names


def _xgboost_tree(tree: dict[str, Any], k: int, classes: int) -> Tree:
    _refuse_others("a tree", tree, XGBOOST_TREE)
    _refuse_others("a tree", tree["tree_param"], "num_deleted num_feature num_nodes size_leaf_vector")
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise ValueError("leaves for several classes are not supported")
    if sum(tree["split_type"]) != len(tree.get("categories_nodes", ())):
        raise ValueError("some splits by categories have no set")
    lists = zip(*(tree.get(f"categories_{part}", ()) for part in ("nodes", "segments", "sizes")), strict=True)
    # Categories in the set go right.
    sets = {node: ~_codes(tree["categories"][start : start + size]) for node, start, size in lists}
    values = np.asarray(tree["split_conditions"], dtype=np.float32)
    # XGBoost compares with <, not <=, so this is the next smaller number.
    most = np.nextafter(values, np.float32(-np.inf)).astype(np.float64)
    scores = _for_class(values.astype(np.float64), k, classes)
    sides = tree["default_left"], tree["left_children"], tree["right_children"]
    return _plain(tree["split_indices"], most, *sides, scores, sets)


def _lightgbm(model: Any) -> Read:
    _refuse_others("its settings", model._other_params, LIGHTGBM_SETTINGS)
    dump = model.booster_.dump_model()
    _refuse_others("its dump", dump, LIGHTGBM)
    objective, classes = dump["objective"], dump["num_tree_per_iteration"]
    is_known = objective in LIGHTGBM_OBJECTIVES or objective.startswith("multiclass ")
    if not is_known or dump["average_output"]:
        raise ValueError(f"the objective {objective} is not supported")
    categories = dump["pandas_categorical"] or []
    for tree in dump["tree_info"]:
        _refuse_others("a tree", tree, LIGHTGBM_TREE)
    trees = [_lightgbm_tree(t["tree_structure"], i % classes, classes) for i, t in enumerate(dump["tree_info"])]
    return Read(
        trees, lambda x: _lightgbm_columns(x, categories), lambda x: _two_columns(model.predict(x, raw_score=True))
    )


def _lightgbm_columns(x: Any, categories: list[list[Any]]) -> Floats:
    kinds = list(x.dtypes) if isinstance(x, pd.DataFrame) else []
    left = iter(categories)
    own = [next(left) if isinstance(kind, pd.CategoricalDtype) else None for kind in kinds]
    full = np.asarray(_by_code(x, own) if kinds else dense(x), dtype=np.float64)
    if np.isnan(full).any():
        raise ValueError("settings for how LightGBM treats missing values are not supported")
    return full


def _lightgbm_tree(root: dict[str, Any], k: int, classes: int) -> Tree:
    nodes, left, right, sets = [root], [-1], [-1], {}
    for i, node in enumerate(nodes):
        is_leaf = "leaf_value" in node
        _refuse_others("a leaf" if is_leaf else "a node", node, LIGHTGBM_LEAF if is_leaf else LIGHTGBM_NODE)
        if is_leaf:
            continue
        if node["decision_type"] not in ("<=", "==") or node["missing_type"] == "Zero":
            raise ValueError("other splits, and zeros that count as missing, are not supported")
        if node["decision_type"] == "==":
            sets[i] = _codes([int(code) for code in str(node["threshold"]).split("||")])
        for side, child in ((left, node["left_child"]), (right, node["right_child"])):
            side[i] = len(nodes)
            nodes.append(child)
            left.append(-1)
            right.append(-1)
    column = [node.get("split_feature", 0) for node in nodes]
    most = [0.0 if i in sets else node.get("threshold", 0.0) for i, node in enumerate(nodes)]
    scores = _for_class(np.asarray([node.get("leaf_value", 0.0) for node in nodes]), k, classes)
    return _plain(column, most, np.zeros(len(nodes)), left, right, scores, sets)


READERS: dict[tuple[str, str], Callable[[Any], Read]] = {
    ("sklearn", "HistGradientBoostingClassifier"): read_histogram,
    ("sklearn", "GradientBoostingClassifier"): _gradient,
    ("sklearn", "RandomForestClassifier"): _forest,
    ("sklearn", "ExtraTreesClassifier"): _forest,
    ("sklearn", "DecisionTreeClassifier"): _forest,
    ("sklearn", "ExtraTreeClassifier"): _forest,
    ("xgboost", "XGBClassifier"): _xgboost,
    ("lightgbm", "LGBMClassifier"): _lightgbm,
    ("sklearn", "HistGradientBoostingRegressor"): read_histogram,
    ("sklearn", "GradientBoostingRegressor"): _gradient,
    ("sklearn", "RandomForestRegressor"): _forest,
    ("sklearn", "ExtraTreesRegressor"): _forest,
    ("sklearn", "DecisionTreeRegressor"): _forest,
    ("sklearn", "ExtraTreeRegressor"): _forest,
    ("xgboost", "XGBRegressor"): _xgboost,
    ("lightgbm", "LGBMRegressor"): _lightgbm,
}
