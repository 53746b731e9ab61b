"""Classes in the wrong order are told from honest models, however weak they are and however rare a class is."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import examples
from fcxplain.classifier.labels import agreement


def drawn(rows: int, share: float, hit: float, false: float, seed: int) -> tuple[np.ndarray, pd.Series]:
    """Labels of which a share is 1, and answers that are 1 for this share of the ones and of the others."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < share).astype(int)
    answers = (rng.random(rows) < np.where(labels == 1, hit, false)).astype(np.int64)
    return answers, pd.Series(labels)


WEAK = {
    "a coin": (0.5, 0.5, 0.5),
    "hardly better than a coin": (0.5, 0.52, 0.48),
    "a coin, with a rare class": (0.05, 0.3, 0.3),
    "the rare class answered far too often": (0.05, 0.82, 0.78),
    "the rare class hardly ever answered": (0.05, 0.02, 0.01),
    "always the frequent class": (0.05, 0.0, 0.0),
}


@pytest.mark.parametrize("kind", WEAK)
@pytest.mark.parametrize("rows", [30, 300, 2000])
def test_honest_weak_models_are_left_in_peace(kind, rows):
    share, hit, false = WEAK[kind]
    for seed in range(60):
        found = agreement(*drawn(rows, share, hit, false, seed), (0, 1))
        assert found is not None
        assert not found.is_other, (seed, found)


SWAPPED = {
    "good": (0.5, 0.1, 0.9),
    "weak": (0.5, 0.4, 0.6),
    "good, with a rare class": (0.05, 0.2, 0.95),
    "that answers the frequent class only": (0.05, 1.0, 1.0),
}


@pytest.mark.parametrize("kind", SWAPPED)
def test_classes_in_the_wrong_order_are_noticed(kind):
    for seed in range(60):
        found = agreement(*drawn(2000, *SWAPPED[kind], seed), (0, 1))
        assert found is not None
        assert found.is_other, (seed, found)
        assert found.order == (1, 0)
        assert found.best == pytest.approx(1 - found.given)


def test_a_few_rows_are_enough_where_all_are_wrong():
    labels = pd.Series(["a", "b"] * 15)
    found = agreement(np.array([1, 0] * 15), labels, ("a", "b"))
    assert found is not None
    assert (found.given, found.best, found.is_other) == (0.0, 1.0, True)
    assert not agreement(np.array([1, 0] * 3), labels[:6], ("a", "b")).is_other  # type: ignore[union-attr]


def test_two_of_many_classes_in_the_wrong_order_are_noticed():
    rng, names = np.random.default_rng(0), tuple("abcdefghij")
    labels = rng.integers(0, 10, 2000)
    answers = np.where(rng.random(2000) < 0.7, labels, rng.integers(0, 10, 2000))
    honest = agreement(answers, pd.Series(np.array(names)[labels]), names)
    assert honest is not None
    assert not honest.is_other
    swapped = (*names[:3], "e", "d", *names[5:])
    found = agreement(answers, pd.Series(np.array(names)[labels]), swapped)
    assert found is not None
    assert found.is_other
    assert found.order == names


@examples(60)
@given(st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_the_best_order_is_that_of_all_orders(count, seed):
    rng = np.random.default_rng(seed)
    answers, labels = rng.integers(0, count, 40), rng.integers(0, count, 40)
    found = agreement(answers, pd.Series(labels), range(count))
    assert found is not None

    def agreed(order) -> float:
        return float(np.mean([(answers[labels == j] == order.index(j)).mean() for j in np.unique(labels)]))

    if len(np.unique(answers)) > 1:
        assert found.given == pytest.approx(agreed(tuple(range(count))))
        absent = set(range(count)) - set(labels.tolist())
        orders = [order for order in permutations(range(count)) if all(order[i] == i for i in absent)]
        assert found.best == pytest.approx(max(map(agreed, orders)))
        assert found.best == pytest.approx(agreed(found.order))


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["no", "yes", None] * 20),
        pd.Series(["no", "yes", None] * 20, dtype="category"),
        pd.Series(["no", "yes", pd.NA] * 20, dtype="string"),
        pd.Series(["no", "yes", "other"] * 20),
    ],
)
def test_labels_of_any_dtype_are_read_and_strange_ones_do_not_count(labels):
    found = agreement(np.array([0, 1, 1] * 20), labels, ("no", "yes"))
    assert found is not None
    assert (found.given, found.is_other) == (1.0, False)


def test_labels_of_one_class_only_say_nothing_of_the_order():
    found = agreement(np.array([1] * 27 + [0] * 3), pd.Series([0] * 30), (0, 1))
    assert found is not None
    assert (found.order, found.is_other) == ((0, 1), False)


def test_labels_that_call_the_classes_otherwise_say_nothing():
    assert agreement(np.array([0, 1]), pd.Series(["a", "b"]), (0, 1)) is None
