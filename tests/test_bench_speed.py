"""Benchmarks of speed and of graphs: what they measure is what they say."""

from __future__ import annotations

import numpy as np
import pytest

from fcxplain.benchmark.graphs import measure, synthetic
from fcxplain.benchmark.speed import measured
from fcxplain.errors import DataError


def test_what_cannot_be_measured_is_named():
    with pytest.raises(DataError, match="Did you mean 'tables'"):
        measured("adult", ["tabels"])


def test_synthetic_tables_have_the_dependences_of_their_graph():
    made = synthetic(6, 4_000, seed=1)
    assert [f.kind for f in made.schema] == ["continuous", "continuous", "categorical"] * 2
    assert made.truth.is_dag
    numbers = made.table[["f0", "f1"]].corr().to_numpy()[0, 1]
    assert (abs(numbers) > 0.2) == made.truth.adjacent("f0", "f1")
    again = synthetic(6, 4_000, seed=1)
    assert np.array_equal(again.table, made.table)


def test_discovery_finds_most_of_a_known_graph():
    (found,) = measure([2_000], tables=3, rows=4_000, features=6)
    assert found.f1 > 0.7
    assert (found.tables, found.rows, found.features) == (3, 4_000, 6)
