"""Pictures of answers: what they say, that it is right, and that nothing is cut off whatever the size."""

from __future__ import annotations

import itertools

import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

import loans
import plain_answers
import small_problems
from effort import examples
from fcxplain import FcxError, plots
from fcxplain.explanation import Explanation, Status, steps_of
from fcxplain.plots.answers import GROUPS
from made_answers import made

TASK = loans.task()
ROW = {"age": 30, "income": 500.0, "degree": "none", "job": "cook", "born": "here"}
SHARES = {"age": 1 / 30, "income": 1 / 1000}
RANK = {"none": 0, "school": 1, "college": 2}
PICTURES = {
    "frequencies": plots.change_frequencies,
    "shift": plots.distribution_shift,
    "path": plots.path,
    "success": plots.success_by_changes,
}


def answered(*answers, task=TASK, wanted="yes", row=ROW):
    """One row and its answers."""
    rows = pd.DataFrame([row], index=["Ada"])
    after = pd.DataFrame([row | changes for changes in answers])
    place = np.zeros(len(answers), dtype=np.int64)
    return Explanation.of(task, rows, after, place, method="hand", wanted=np.array([wanted]))


def texts(figure):
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def names_beside(ax):
    """What stands along the vertical axis, and is in view."""
    low, high = sorted(ax.get_ylim())
    return [label for label in ax.get_yticklabels() if low <= label.get_position()[1] <= high]


def unanswered():
    rows = loans.table(3)
    nobody = np.empty(0, dtype=np.int64)
    wanted = np.array(["yes"] * 3)
    without = np.array([Status.IMPOSSIBLE, Status.ALREADY, Status.IMPOSSIBLE])
    return Explanation.of(TASK, rows, rows.iloc[:0], nobody, method="hand", wanted=wanted, without=without)


# Steps


def contribution(name, now, then):
    if name == "degree":
        return RANK[then] - RANK[now]
    return (then - now) * SHARES[name] if name in SHARES else 0.0


@examples(25)
@given(
    st.fixed_dictionaries(
        {
            "age": st.integers(18, 80),
            "income": st.integers(0, 18000).map(lambda half: half / 2),
            "degree": st.sampled_from(sorted(RANK)),
            "job": st.sampled_from(["clerk", "cook", "smith"]),
        }
    )
)
def test_where_changes_add_up_the_largest_comes_first_and_the_way_ends_at_the_answer(changes):
    way = steps_of(answered(changes))
    gains = [contribution(s.change.feature, s.change.now, s.change.then) for s in way.steps]
    assert {s.change.feature for s in way.steps} == {n for n, value in changes.items() if value != ROW[n]}
    np.testing.assert_array_less(np.diff(gains), 1e-9)
    row, rows = dict(ROW), [dict(ROW)]
    for step in way.steps:
        row[step.change.feature] = step.change.then
        rows.append(dict(row))
    np.testing.assert_allclose([way.probability, *(s.probability for s in way.steps)], loans.chance(pd.DataFrame(rows)))
    assert row == ROW | changes


def test_a_row_on_the_way_may_break_a_rule_that_the_answer_keeps():
    way = steps_of(answered({"age": 31, "degree": "college"}))
    assert [(s.change.feature, s.keeps_rules) for s in way.steps] == [("degree", False), ("age", True)]


def test_steps_say_who_wants_what_and_what_the_model_answers():
    way = steps_of(answered({"age": 40}, {"income": 4000.0}), 1)
    assert (way.row, way.wanted, way.predicted, way.threshold) == ("Ada", "yes", "no", 0.5)
    assert [s.predicted for s in way.steps] == ["yes"]


def test_the_threshold_is_that_of_the_class_wanted():
    strict = loans.task(threshold=0.7)
    assert steps_of(answered({"age": 40}, task=strict)).threshold == 0.7
    rich = ROW | {"income": 9000.0}
    assert steps_of(answered({"income": 0.0}, task=strict, wanted="no", row=rich)).threshold == pytest.approx(0.3)


def test_with_three_classes_there_is_no_threshold():
    rows = small_problems.rows("mixed", 1)
    task, wanted = small_problems.three_classes(), np.array(["middle"])
    found = Explanation.of(task, rows, rows.assign(age=70), np.zeros(1, dtype=np.int64), method="hand", wanted=wanted)
    assert steps_of(found).threshold is None
    assert not [line for line in plots.path(found).axes[0].lines if line.get_linestyle() == "--"]


def test_an_answer_that_changes_nothing_has_no_steps():
    found = answered({})
    assert steps_of(found).steps == ()
    assert "as it is now" in texts(plots.path(found))


def test_a_difference_below_half_a_step_is_part_of_the_first_step():
    found = answered({"income": 500.2, "age": 60})
    (step,) = steps_of(found).steps
    assert step.change.feature == "age"
    assert np.isnan(step.probability) == (not found.checks.in_domain[0])


@pytest.mark.parametrize("i", [2, -3, 100])
def test_an_answer_that_is_not_there_is_refused_with_how_many_there_are(i):
    with pytest.raises(FcxError, match=f"answer {i}: does not exist: there are 2, counted from 0"):
        steps_of(answered({"age": 31}, {"age": 32}), i)


# Path


def test_a_path_names_each_step_and_its_probability_and_marks_the_threshold():
    found = answered({"age": 31, "degree": "college", "income": 3000.0})
    figure = plots.path(found)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "as it is now",
        "1. income\n500.0 \N{RIGHTWARDS ARROW} 3,000.0",
        "2. degree\nnone \N{RIGHTWARDS ARROW} college",
        "3. age\n30 \N{RIGHTWARDS ARROW} 31",
    ]
    way = steps_of(found)
    assert {f"{p:.3f}" for p in (way.probability, *(s.probability for s in way.steps))} <= set(texts(figure))
    assert {"threshold 0.5", "the model predicts yes", "breaks a rule at this step"} <= set(texts(figure))
    assert figure.axes[0].get_xlabel() == "probability of yes"


def test_bars_of_a_path_join_one_probability_to_the_next():
    found = answered({"age": 20, "income": 3000.0})
    way = steps_of(found)
    ends = [way.probability, *(s.probability for s in way.steps)]
    bars = [container.patches[0] for container in plots.path(found).axes[0].containers]
    drawn = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]
    np.testing.assert_allclose(drawn, list(itertools.pairwise(ends)))
    assert bars[0].get_hatch() != bars[1].get_hatch()


def test_points_are_filled_once_the_model_answers_what_is_wanted():
    ax = plots.path(answered({"income": 4000.0})).axes[0]
    faces = [line.get_markerfacecolor() for line in ax.lines if line.get_marker() == "o"]
    assert faces == ["white", "black"]


def test_a_value_outside_its_domain_is_said_and_not_drawn():
    figure = plots.path(answered({"income": 8000.25, "age": 60}))
    assert "not queried: outside its domain" in texts(figure)
    figure.draw_without_rendering()


# Frequencies


def test_frequencies_count_first_answers_up_down_and_otherwise():
    table = pd.DataFrame([ROW] * 4)
    after = table.assign(age=[40, 20, 25, 30], job=["smith", "cook", "cook", "clerk"])
    wanted = np.array(["yes"] * 4)
    found = Explanation.of(TASK, table, after, np.arange(4), method="hand", wanted=wanted)
    figure = plots.change_frequencies(found)
    ax = figure.axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["age", "job"]
    up, down, other = ([bar.get_width() for bar in c.patches] for c in ax.containers)
    assert (up, down, other) == ([25, 0], [50, 0], [0, 50])
    assert len({c.patches[0].get_hatch() for c in ax.containers}) == 3
    assert ax.get_xlabel() == "per cent of 4 answers that change it\n3 features never change"


def test_second_answers_do_not_count():
    ax = plots.change_frequencies(answered({"age": 40}, {"income": 9000.0})).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["age"]


def test_answers_that_change_nothing_are_a_picture_that_says_so():
    assert "nothing changes" in texts(plots.change_frequencies(answered({})))


def test_features_beyond_forty_are_counted():
    ax = plots.change_frequencies(made(50, 30)).axes[0]
    assert len(ax.get_yticklabels()) == 40
    assert "10 more change less often" in ax.get_xlabel()


# Shift


def test_levels_are_drawn_in_per_cent_of_training_rows_rows_and_answers():
    found = plain_answers.explain(TASK, loans.table(60, seed=3))
    first = found.place
    moved = found.answers.assign(job="smith")
    wanted = found.wanted
    found = Explanation.of(TASK, found.rows, moved, first, method="hand", wanted=wanted)
    figure = plots.distribution_shift(found, "job")
    levels = TASK.train["job"].value_counts().index.tolist()
    tables = (TASK.train, found.rows.iloc[first], moved)
    expected = [[100 * (t["job"] == level).mean() for level in levels] for t in tables]
    drawn = [[bar.get_width() for bar in c.patches] for c in figure.axes[0].containers]
    np.testing.assert_allclose(drawn, expected)
    assert set(GROUPS) <= set(texts(figure))


def test_numbers_are_drawn_by_bars_of_whole_steps_in_per_cent():
    found = plain_answers.explain(TASK, loans.table(60, seed=3))
    ax = plots.distribution_shift(found, "age").axes[0]
    ages = TASK.train["age"].to_numpy(), found.before["age"].to_numpy(), found.answers["age"].to_numpy()
    for values, patch in zip(ages, ax.patches, strict=True):
        heights, edges, _ = patch.get_data()
        assert set(np.diff(edges)) == {edges[1] - edges[0]}
        assert (edges[1] - edges[0]) % 1 == 0
        inside = np.clip(values, edges[0] + 0.5, edges[-1] - 0.5)
        counts = np.histogram(inside, edges)[0]
        np.testing.assert_allclose(heights, 100 * counts / counts.sum())


def test_features_that_change_are_drawn_most_often_first_unless_others_are_named():
    found = answered({"age": 40, "income": 4000.0})
    titles = [ax.get_title() for ax in plots.distribution_shift(found).axes]
    assert titles == ["age", "income"]
    named = plots.distribution_shift(found, ["born", "job"], title="two")
    assert [ax.get_title() for ax in named.axes] == ["born", "job"]
    assert "two" in texts(named)


def test_twelve_of_many_features_are_drawn_and_the_title_says_so():
    figure = plots.distribution_shift(made(20, 30))
    assert len(figure.axes) == 12
    assert "the 12 features that change most often, of 20 that change" in texts(figure)


def test_rare_levels_share_a_bar():
    found = made(3, 40)
    figure = plots.distribution_shift(found, "x2")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(labels) == 7
    assert labels[-1] == "6 others"
    for container in figure.axes[0].containers:
        assert sum(bar.get_width() for bar in container.patches) == pytest.approx(100)


def test_features_that_are_not_there_are_named_all_at_once():
    with pytest.raises(FcxError, match=r"(?s)Did you mean 'age'.*'Zorn'"):
        plots.distribution_shift(answered({"age": 40}), ["agee", "Zorn"])
    with pytest.raises(FcxError, match="one axis for 2 features"):
        plots.distribution_shift(answered({"age": 40}), ["age", "job"], ax=Figure().subplots())
    with pytest.raises(FcxError, match="is empty"):
        plots.distribution_shift(answered({"age": 40}), [])


# Success


def test_success_counts_the_fewest_changes_of_verified_answers_among_rows_asked():
    found = plain_answers.explain(TASK, loans.table(60), k=2)
    best = {}
    for place, passed, changes in zip(found.place, found.checks.passed, found.checks.changes, strict=True):
        if passed:
            best[place] = min(best.get(place, 99), changes)
    asked = found.asked.sum()
    line = plots.success_by_changes(found).axes[0].lines[0]
    expected = [100 * sum(fewest <= c for fewest in best.values()) / asked for c in line.get_xdata()]
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert line.get_ydata()[-1] < 100


def test_success_of_several_is_told_apart_without_colour():
    found = plain_answers.explain(TASK, loans.table(60))
    figure = plots.success_by_changes({"one": found, "two": unanswered()})
    one, two = figure.axes[0].lines
    assert one.get_linestyle() != two.get_linestyle()
    assert one.get_marker() != two.get_marker()
    assert len(one.get_xdata()) == len(two.get_xdata())
    assert not np.any(two.get_ydata())
    assert {"one", "two"} <= set(texts(figure))


def test_success_needs_somebody_who_asked():
    done = Explanation.of(
        TASK,
        loans.table(2),
        loans.table(2).iloc[:0],
        np.empty(0, dtype=np.int64),
        method="hand",
        wanted=np.array(["yes", "yes"]),
        without=np.array([Status.ALREADY] * 2),
    )
    with pytest.raises(FcxError, match="no row that needed an answer"):
        plots.success_by_changes(done)
    with pytest.raises(FcxError, match="Give 1 to 7"):
        plots.success_by_changes({})


# All of them


@pytest.mark.parametrize("name", ["frequencies", "shift", "path"])
def test_without_answers_the_error_says_how_the_rows_fared(name):
    with pytest.raises(FcxError, match=r"no answers \(3 rows: 1 already, 2 impossible\)"):
        PICTURES[name](unanswered())


@pytest.mark.parametrize("name", PICTURES)
def test_what_is_no_explanation_is_refused(name):
    with pytest.raises(FcxError, match="is a DataFrame"):
        PICTURES[name](pd.DataFrame())


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_can_be_drawn_into_axes_of_the_user(name):
    figure = Figure(figsize=(9, 4))
    left, right = figure.subplots(1, 2)
    assert PICTURES[name](made(5, 20), ax=left, title="left") is figure
    assert "left" in texts(figure)
    assert not right.patches
    assert not right.lines


# Each picture with few and many features, and with few and many answers.
@pytest.mark.parametrize(("features", "answers"), [(1, 500), (40, 1)])
@pytest.mark.parametrize("name", PICTURES)
def test_no_name_is_cut_off_and_no_two_overlap(name, features, answers):
    figure = PICTURES[name](made(features, answers))
    figure.draw_without_rendering()
    page = figure.bbox
    words = [text for ax in figure.axes for text in (*names_beside(ax), ax.title, ax.xaxis.label, ax.yaxis.label)]
    words += [text for key in figure.legends for text in key.get_texts()]
    for box in (text.get_window_extent() for text in words if text.get_text()):
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
        assert page.y0 <= box.y0
        assert box.y1 <= page.y1
    for ax in figure.axes:
        labels = [label.get_window_extent() for label in names_beside(ax)]
        assert not any(a.overlaps(b) for a, b in itertools.pairwise(labels))


def test_a_notebook_shows_a_picture_by_itself():
    assert plots.path(answered({"age": 40}))._repr_png_().startswith(b"\x89PNG")
