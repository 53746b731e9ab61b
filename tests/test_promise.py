"""The promise under attack: a fixed part of what `make attack` tries from new seeds, and the judge under test itself.

What is verified passes a judge that shares no code with the library; what is impossible survives brute force; what one
change can do is done with one; and none of it depends on how a row is asked about.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from attack import tried
from fcxplain import Explanation
from fcxplain.search import Search
from judge import Judge
from random_problems import KINDS, Problem, problem
from second_reading import grid

pytestmark = pytest.mark.filterwarnings("ignore")

SEED = 213
# Every kind of model; all of the first 42 problems are tried where there is time, and new ones by `make attack`.
ONE_OF_A_KIND = (0, 1, 2, 3, 4, 5, 7, 10, 11, 13, 17, 19, 21, 22, 25, 28, 31, 35, 37, 41)
TRIED = range(42) if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else ONE_OF_A_KIND
attempt = cache(tried)


@pytest.mark.parametrize("number", TRIED)
def test_no_claim_is_wrong(number):
    done = attempt(SEED, number)
    assert [str(finding) for finding in done.findings[:5]] == []
    assert done.rows


@pytest.mark.parametrize("number", [-6, -9])
def test_no_claim_is_wrong_about_gaps_or_numbers(number):
    """A regressor with values outside of guessed bounds, and boosting with gaps of which some are not allowed."""
    done = attempt(5, number)
    assert [str(finding) for finding in done.findings[:5]] == []
    assert {-6: "verified", -9: "unreadable"}[number] in done.claims


def test_every_kind_of_model_is_tried():
    assert {kind for number in TRIED for kind in attempt(SEED, number).kinds} == set(KINDS)


def test_networks_leave_no_row_on_the_grid_undecided():
    """Networks are cheap to ask, so that no budget ends before every legal row was tried."""
    numbers = [number for number in TRIED if "network" in attempt(SEED, number).kinds]
    assert len(numbers) > 3
    for number in numbers:
        now, schema = problem(SEED, number).now, problem(SEED, number).schema
        on_grid = np.logical_and.reduce([np.isin(now[f.name], grid(f)) for f in schema])
        assert [str(miss) for miss in attempt(SEED, number).misses if on_grid[miss.row]] == []


def test_a_problem_is_told_by_its_seed_and_number():
    for kind in ("network", "lightgbm", "points"):
        one, two, other = problem(3, 5, kind), problem(3, 5, kind), problem(3, 6, kind)
        assert repr(one) == repr(two) != repr(other)
        pd.testing.assert_frame_equal(one.rows, two.rows)
        pd.testing.assert_frame_equal(one.train, two.train)


@pytest.mark.parametrize("labels", [range(7, 0, -1), ["same"] * 7, pd.date_range("2024-01-01", periods=7)])
def test_rows_keep_their_labels(labels):
    own = problem(SEED, 1, "points")
    rows = own.rows.head(7).set_axis(pd.Index(labels), axis=0)
    answer = Search(own.task).explain(rows, 2)
    pd.testing.assert_index_equal(answer.status.index, rows.index)
    lines = [i for i in range(len(rows)) for _ in range(max(1, int((answer.place == i).sum())))]
    assert list(answer.frame[answer.column("row")]) == [rows.index[i] for i in lines]


# The judge itself: claims that were tampered with are found


def judged(own: Problem, answer: Explanation) -> set[str]:
    return {finding.claim for finding in Judge(own).judge(answer).findings}


@pytest.fixture(scope="module")
def fair() -> tuple[Problem, Explanation]:
    """A problem of few legal rows with answers, and rows without any."""
    for number in range(100):
        own = problem(2, number, "points")
        answer = Search(own.task).explain(own.rows)
        if {"verified", "impossible", "already"} <= set(answer.row_status) and own.sentences:
            return own, answer
    raise AssertionError("no such problem")


def told(answer: Explanation, row: int, status: str) -> Explanation:
    """The same, with one row's answers gone and another status in their place."""
    left = np.flatnonzero(answer.place != row)
    said = answer.row_status.copy()
    said[row] = status
    return replace(
        answer,
        row_status=said,
        answers=answer.answers.iloc[left],
        place=answer.place[left],
        rank=answer.rank[left],
        found_by=answer.found_by[left],
    )


def test_fair_claims_pass_the_judge(fair):
    own, answer = fair
    assert judged(own, answer) == set()


def test_a_row_with_a_way_that_is_called_impossible_is_found(fair):
    own, answer = fair
    row = int(np.flatnonzero(answer.row_status == "verified")[0])
    assert judged(own, told(answer, row, "impossible")) == {"impossible, but there is a way"}


def test_a_row_with_a_way_that_is_not_found_is_a_miss(fair):
    own, answer = fair
    row = int(np.flatnonzero(answer.row_status == "verified")[0])
    verdict = Judge(own).judge(told(answer, row, "not_found"))
    assert verdict.findings == []
    assert [miss.row for miss in verdict.misses] == [row]


def test_a_refused_row_that_is_said_to_have_its_class_is_found(fair):
    own, answer = fair
    row = int(np.flatnonzero(answer.row_status == "impossible")[0])
    assert judged(own, told(answer, row, "already")) == {"already, but the model gives the row another class"}


def test_answers_of_other_rows_are_found(fair):
    own, answer = fair
    assert len(answer.place) > 1
    swapped = replace(answer, answers=answer.before.set_axis(answer.answers.index, axis=0))
    found = judged(own, swapped)
    assert "verified, but nothing is changed" in found
    assert "verified, but the model gives another class" in found
