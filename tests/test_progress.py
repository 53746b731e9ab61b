"""Lines that say how far a fit or an explanation is, for those who ask for them."""

from __future__ import annotations

import io
import re

import pytest

import loans
from fcxplain import FCx
from fcxplain.progress import EXPLAINING, WHY_NOT, Progress, ProgressLines


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def fitted() -> tuple[FCx, list[str]]:
    """A small fit, and what it said."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stderr", said)
        fcx = FCx().set_params(schedule__epochs=2, schedule__steps=0)
        fcx.fit(
            loans.task("income' <= income + 100\nage' == age\njob' == job\ndegree' == degree", gradients=True),
            progress=True,
        )
    return fcx, said.getvalue().splitlines()


def test_a_line_comes_now_and_then_with_the_time_left_and_one_at_the_end():
    clock, stream = Clock(), io.StringIO()
    lines = ProgressLines("explain", stream=stream, clock=clock)
    for second, done in ((1, 5), (10, 25), (15, 50), (40, 100)):
        clock.now = second
        lines.tell(Progress(EXPLAINING, done, 100))
    assert stream.getvalue().splitlines() == ["explain: 25 of 100 rows, 0:30 left", "explain: 100 rows done in 0:40"]


def test_rows_that_nobody_counted_and_reasons_are_told_too():
    clock, stream = Clock(), io.StringIO()
    lines = ProgressLines("explain", stream=stream, clock=clock)
    clock.now = 10
    lines.tell(Progress(EXPLAINING, 2_000))
    lines.tell(Progress(WHY_NOT, 0.3, 3))
    clock.now = 20
    lines.tell(Progress(WHY_NOT, 0.765, 3))
    said = ["explain: 2,000 rows", "explain: finding reasons for 3 rows, 26% done"]
    assert stream.getvalue().splitlines() == said


def test_rows_of_an_earlier_run_say_nothing_of_the_time_left():
    clock, stream = Clock(), io.StringIO()
    lines = ProgressLines("explain", stream=stream, clock=clock)
    lines.tell(Progress(EXPLAINING, 4_000, 5_000, "resuming after row 4,000"))
    clock.now = 10
    lines.tell(Progress(EXPLAINING, 4_100, 5_000))
    said = ["explain: resuming after row 4,000", "explain: 4,100 of 5,000 rows, 1:30 left"]
    assert stream.getvalue().splitlines() == said


def test_fit_says_how_far_it_is(fitted: tuple[FCx, list[str]]):
    assert [re.sub(r"\d[\d,:]*", "#", line) for line in fitted[1]] == [
        "fit: preparing: rows that the model refuses, its gradients, the causal graph",
        "fit: # rows, in at most # epochs",
        "fit: # epochs done in #",
    ]


def test_explain_says_how_far_it_is_and_tells_who_asks_for_more(
    fitted: tuple[FCx, list[str]], capsys: pytest.CaptureFixture[str]
):
    fcx, rows, events = fitted[0], loans.table(40), []
    asked = rows[fcx.task_.refused(rows)].iloc[:2]
    answer = fcx.explain(asked, why_not=True, progress=True, on_progress=events.append)
    said = capsys.readouterr().err
    assert re.fullmatch(r"explain: 2 rows done in 0:\d\d\n", said.splitlines(keepends=True)[-1])
    assert events[-1] == Progress(EXPLAINING, 2, 2)
    without = int((answer.row_status != "verified").sum())
    assert without
    reasons = [event for event in events if event.stage == WHY_NOT]
    assert {event.total for event in reasons} == {without}
    assert [event.done for event in reasons] == sorted(event.done for event in reasons)
    assert reasons[-1].done == pytest.approx(without)
    fcx.explain(asked)
    assert capsys.readouterr().err == ""


def test_one_row_is_told_in_the_singular():
    clock, stream = Clock(), io.StringIO()
    lines = ProgressLines("explain", stream=stream, clock=clock)
    clock.now = 10
    lines.tell(Progress(WHY_NOT, 0.5, 1))
    lines.tell(Progress(EXPLAINING, 1, 1))
    assert [line.partition(": ")[2] for line in stream.getvalue().splitlines()] == [
        "finding reasons for 1 row, 50% done",
        "1 row done in 0:10",
    ]
