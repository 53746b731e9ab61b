"""What a notebook and a terminal show of a thing: short, true, and with nothing in it that could run."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loans
import plain_answers
import small_problems
from fcxplain import CausalGraph, FCx, Feature, Schema, Task, evaluate, parse
from fcxplain.explanation import Explanation, Status
from fcxplain.explanation.reasons import Obstacle, WhyNot
from fcxplain.text import LONGEST, MANY, Glance, Overview, cut
from fcxplain.training_loop import Epoch, History, Schedule

HOSTILE = "<script>alert('x')</script>\"&amp;"
TAGS = {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"style", "scope"}


class Reader(HTMLParser):
    """Tags, attributes and texts of a piece of HTML."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.open = set(), set(), [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)


def read(html):
    """A piece of HTML that holds nothing but our own tags, all of them closed."""
    reader = Reader(html)
    assert reader.tags <= TAGS
    assert reader.attributes <= ATTRIBUTES
    assert not reader.open
    return reader


def hostile_task():
    schema = Schema(
        (
            Feature(HOSTILE, "categorical", levels=(HOSTILE, "plain")),
            Feature("hours", "integer", low=0, high=80, unit=HOSTILE),
        )
    )
    train = pd.DataFrame({HOSTILE: [HOSTILE, "plain"] * 10, "hours": range(20)})
    return Task(
        train,
        lambda rows: rows["hours"].to_numpy() / 80,
        schema=schema,
        rules="hours' >= hours",
        target=HOSTILE,
        classes=("no", HOSTILE),
        threshold=0.1,
    )


def hostile_explanation():
    task = hostile_task()
    rows = pd.DataFrame({HOSTILE: ["plain"], "hours": [3]}, index=[HOSTILE])
    after = pd.DataFrame({HOSTILE: [HOSTILE], "hours": [60]})
    wanted = np.array([HOSTILE], dtype=object)
    return Explanation.of(
        task, rows, after, np.zeros(1, dtype=np.int64), method=HOSTILE, wanted=wanted, notes=(HOSTILE,)
    )


def hostile_things():
    graph = CausalGraph((HOSTILE, "b", "c"), ((HOSTILE, "b"),), (), {(HOSTILE, "b"): 0.5})
    task = hostile_task()
    rule = parse("hours' >= hours", Schema((Feature("hours", "integer", low=0, high=80, label=HOSTILE),)))
    return {"task": task, "schema": task.schema, "graph": graph, "rule": rule, "explanation": hostile_explanation()}


# HTML


@pytest.mark.parametrize("name", hostile_things())
def test_a_level_named_script_is_text(name):
    html = hostile_things()[name]._repr_html_()
    reader = read(html)
    assert any("<script>alert(" in text for text in reader.texts)
    assert "<script" not in html.lower()


@pytest.mark.parametrize("name", hostile_things())
def test_nothing_is_fetched_and_colours_come_from_the_notebook(name):
    html = hostile_things()[name]._repr_html_()
    assert not any(word in html for word in ("http", "url(", "src=", "href=", "@import"))
    assert set(re.findall(r"[;'](?:color|background):([^;']*)", html)) <= {"inherit", "none"}
    assert len(html) < 10_000


@given(st.text(), st.text(), st.text())
def test_any_text_stays_text_in_html_and_one_line_in_a_terminal(a, b, c):
    glance = Glance(a, (b,), ((c, a),), (Overview((a, b), ((b, c), (c, a)), c),))
    read(glance.html())
    assert all(line.isprintable() for line in glance.text().split("\n"))
    assert len(glance.text().split("\n")) == 6 + bool(c)
    glance.html().encode("utf-8")


@given(st.text(max_size=2 * LONGEST))
def test_long_text_loses_its_middle_only(text):
    shown = cut(text)
    assert len(shown) <= LONGEST
    if text.isprintable():
        assert shown == text or (text.startswith(shown[:200]) and text.endswith(shown[-10:]))


# Tasks and schemas


def test_a_task_tells_rows_features_model_classes_target_and_rules():
    assert repr(loans.task(threshold=0.6)).splitlines() == [
        "Task: 300 rows, 5 features (2 numbers, 3 categories; 4 may change)",
        "  model: chance",
        "  classes: 'no', 'yes'; 'yes' from a probability of 0.6",
        "  target: 'yes'",
        "  rules: 3",
        "  rule                            in words",
        "  age' >= age                     age must not decrease",
        "  degree' > degree => age' > age  if degree increases, then age must increase",
        "  degree' >= degree               degree must not decrease",
    ]
    cells = read(loans.task()._repr_html_()).texts
    assert {"age' >= age", "age must not decrease", "degree' >= degree"} <= set(cells)


def test_a_feature_that_a_rule_freezes_does_not_count_as_one_that_may_change():
    task = loans.task("age' == age\nborn' == born\njob' == job")
    assert "(2 numbers, 3 categories; 2 may change)" in repr(task)
    assert "2 may change" in str(task)


def test_a_task_without_rules_or_target_says_so():
    task = Task(loans.table(50), loans.chance, schema=loans.SCHEMA, classes=("no", "yes"))
    assert repr(task).splitlines()[-2:] == ["  target: the other class", "  rules: none"]


def test_a_task_as_text_is_one_line():
    assert str(loans.task()).startswith(
        "Task(300 rows, 5 features (2 numbers, 3 categories; 4 may change), <classifier"
    )
    assert "\n" not in str(loans.task())


def test_a_schema_is_a_table_of_its_features():
    schema = Schema(
        (
            Feature("age", "integer", low=18, high=80, unit="years"),
            Feature("wage", "continuous", low=0, high=9000, step=0.5, mutable=False),
            Feature("job", "categorical", levels=tuple(f"l{i}" for i in range(9))),
            Feature("open", "continuous"),
        )
    )
    assert repr(schema).splitlines() == [
        "Schema: 4 features (3 numbers, 1 category; 3 may change)",
        "  feature  kind         values                                                   unit   may change",
        "  age      integer      18 to 80 by 1                                            years  yes",
        "  wage     continuous   0 to 9,000 by 0.5                                               no",
        "  job      categorical  9 levels: 'l0', 'l1', 'l2', 'l3', 'l4', 'l5' and 3 more         yes",
        "  open     continuous   not known yet                                                   yes",
    ]


def test_a_schema_without_units_has_no_column_for_them():
    shown = repr(Schema((Feature("age", "integer", low=18, high=80),))).splitlines()
    assert shown[1].split() == ["feature", "kind", "values", "may", "change"]


def test_an_inferred_schema_says_that_it_was_guessed():
    shown = repr(Schema.infer(loans.table()))
    assert "5 features guessed from a table; report() says why" in shown


def test_a_wide_schema_is_cut_and_the_rest_counted():
    schema = Schema(tuple(Feature(f"x{i}", "integer", low=0, high=1) for i in range(MANY + 7)))
    lines = repr(schema).splitlines()
    assert lines[-1] == "  ... and 7 more features"
    assert len(lines) == MANY + 3
    assert "... and 7 more features" in read(schema._repr_html_()).texts


# Rules and graphs


def test_rules_in_a_tuple_are_readable():
    assert repr(loans.task().rules[:2]) == (
        "(<rule age' >= age: age must not decrease>, "
        "<rule degree' > degree => age' > age: if degree increases, then age must increase>)"
    )
    assert {"age' >= age", "in words", ": age must not decrease"} <= set(
        read(loans.task().rules[0]._repr_html_()).texts
    )


def test_a_graph_is_counted_and_its_surest_edges_are_named_first():
    nodes = tuple(f"x{i}" for i in range(14))
    edges = tuple(("x0", f"x{i}") for i in range(1, 12))
    support = {edge: i / 12 for i, edge in enumerate(edges)} | {("x1", "x2"): 1.0}
    lines = repr(CausalGraph(nodes, edges, (("x1", "x2"),), support)).splitlines()
    assert lines[0] == "CausalGraph: 14 features, 12 edges (1 undirected)"
    assert lines[1] == "  2 features joined to nothing"
    assert [line.split() for line in lines[2:5]] == [
        ["surest", "edges", "support"],
        ["x1", "--", "x2", "100%"],
        ["x0", "->", "x11", "83%"],
    ]
    assert lines[-1] == "  ... and 2 more edges"


@pytest.mark.parametrize(
    ("graph", "lines"),
    [
        (CausalGraph(("a", "b"), (("a", "b"),)), ["CausalGraph: 2 features, 1 edge", "  edges", "  a -> b"]),
        (CausalGraph(("a",)), ["CausalGraph: 1 feature, 0 edges"]),
    ],
)
def test_graphs_without_support_or_edges_are_short(graph, lines):
    assert repr(graph).splitlines() == lines


# Explanations


def test_an_explanation_tells_statuses_changes_and_the_first_answers():
    found = plain_answers.explain(loans.task(), loans.table(30), k=2)
    lines = repr(found).splitlines()
    assert lines[0] == "Explanation by plain: 30 rows (14 already, 1 not_found, 15 verified)"
    assert lines[1:5] == [
        "  earn more, or be older",
        "  changes per answer: 1 in 15 answers, 2 in 15 answers",
        "  no answer: row 10 (not_found)",
        "  row    answer  probability of yes  what changes",
    ]
    assert lines[6] == "  row 1  2       0.476 -> 0.500      age: 51 -> 52; income: 702.5 -> 767.5"
    assert lines[-1] == "  ... and 25 more answers; see .frame and .certificates"
    assert "age: 51 -> 52; income: 702.5 -> 767.5" in read(found._repr_html_()).texts


def test_printed_an_explanation_is_its_headline_and_notes():
    found = plain_answers.explain(loans.task(), loans.table(30))
    assert str(found).splitlines() == [
        "Explanation by plain: 30 rows (14 already, 1 not_found, 15 verified)",
        "  earn more, or be older",
    ]


def test_an_answer_that_fails_is_in_capitals():
    task = loans.task()
    row = loans.table(1).assign(age=40)
    after = row.assign(age=20, income=8000.25)
    wanted = np.array(["yes"])
    found = Explanation.of(task, row, after, np.zeros(1, dtype=np.int64), method="hand", wanted=wanted)
    assert "1 BEST_EFFORT" in repr(found).splitlines()[-1]
    assert "not asked" in repr(found)
    assert "best_effort" not in repr(found) + found._repr_html_()


def without_answers(people, **more):
    rows, nobody, wanted = loans.table(people), np.empty(0, dtype=np.int64), np.full(people, "yes")
    impossible = np.full(people, Status.IMPOSSIBLE)
    return Explanation.of(
        loans.task(), rows, rows.iloc[:0], nobody, method="hand", wanted=wanted, without=impossible, **more
    )


def test_an_explanation_without_answers_names_the_rows():
    assert repr(without_answers(2)).splitlines() == [
        "Explanation by hand: 2 rows (2 impossible)",
        "  no answer: row 0 (impossible), row 1 (impossible)",
    ]
    named = ", ".join(f"row {i} (impossible)" for i in range(5))
    assert f"no answer: {named} and 3 more" in repr(without_answers(8))
    assert str(without_answers(2)) == "Explanation by hand: 2 rows (2 impossible)"


def test_an_explanation_that_knows_why_says_what_stands_in_the_way():
    age = Obstacle("rule", "age' >= age", HOSTILE)
    job = Obstacle("freeze", "job", "job cannot change")
    reasons = {
        0: WhyNot("row 0", "impossible", ((age,), (job,)), None, "Blocked."),
        1: WhyNot("row 1", "impossible", ((age, job),), None, "Blocked."),
        2: WhyNot("row 2", "impossible", (), None, "Nothing that was tried helps."),
    }
    found = without_answers(8, reasons=reasons)
    lines = repr(found).splitlines()
    assert lines[1].split() == ["row", "no", "answer", "why"]
    assert lines[2].endswith(f"would work without: {HOSTILE} / job cannot change")
    assert lines[3].endswith(f"blocked by: {HOSTILE} and job cannot change")
    assert lines[4].endswith("Nothing that was tried helps.")
    assert lines[-1] == "  ... and 3 more rows; see .why_not"
    assert "<script" not in found._repr_html_()
    assert "... and 3 more rows; see .why_not" in read(found._repr_html_()).texts


def test_answers_that_nothing_limits_come_with_a_word_of_warning():
    free = Schema(tuple(f.replace(mutable=True) for f in loans.SCHEMA))
    task = Task(loans.table(50), loans.chance, schema=free, classes=("no", "yes"), target="yes")
    warned = "  note: no rules were given and nothing is fixed; an answer may not be possible for a person"
    found = plain_answers.explain(task, loans.table(30))
    assert warned in repr(found).splitlines()
    assert warned not in repr(plain_answers.explain(loans.task(), loans.table(30)))
    fixed = Task(loans.table(50), loans.chance, schema=loans.SCHEMA, classes=("no", "yes"), target="yes")
    assert warned not in repr(plain_answers.explain(fixed, loans.table(30)))


def test_classes_are_named_with_each_answer_where_they_differ():
    task, rows = loans.task(), loans.table(2)
    after, wanted = rows.assign(income=8000.0), np.array(["yes", "no"])
    lines = repr(Explanation.of(task, rows, after, np.arange(2), method="hand", wanted=wanted)).splitlines()
    assert lines[-3].split() == ["row", "answer", "probability", "what", "changes"]
    now, then = task.classifier.probabilities(rows), task.classifier.probabilities(after)
    for line, name, place, i in zip(lines[-2:], ("yes", "no"), (1, 0), (0, 1), strict=True):
        assert f" {name}: {now[i, place]:.3f} -> {then[i, place]:.3f} " in line


def test_a_certificate_shows_changes_the_answer_and_every_rule():
    task, row = loans.task(), loans.table(1).assign(age=40)
    after = row.assign(age=20)
    found = Explanation.of(task, row, after, np.zeros(1, dtype=np.int64), method="hand", wanted=np.array(["yes"]))
    texts = read(found.certificates[0]._repr_html_()).texts
    assert texts[0] == "row row 0, answer 1: BEST_EFFORT"
    assert {"age", "40", "20", "BROKEN", "age must not decrease", "kept"} <= set(texts)
    assert any(text.startswith(": the model answers no, NOT yes") for text in texts)
    assert "<script" not in hostile_explanation().certificates[0]._repr_html_()
    read(hostile_explanation().certificates[0]._repr_html_())


# Explainers


@pytest.mark.filterwarnings("ignore:LOF has")
def test_an_explainer_says_whether_it_is_fitted_and_to_what():
    fcx = FCx(schedule=Schedule(epochs=2), seed=3)
    assert repr(fcx) == "FCx(not fitted, latent 10, 2 epochs at 0.01, seed 3)"
    assert read(fcx._repr_html_()).texts == [repr(fcx)]
    fcx.fit(small_problems.task("mixed"))
    lines = repr(fcx).splitlines()
    assert lines[0] == "FCx(fitted, latent 10, 2 epochs at 0.01, seed 3)"
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "fitted to", "wanted", "rules", "causal graph", "training", "answers",
    ]  # fmt: skip
    assert fcx.task_.schema.summary in lines[1]
    assert "fitted to" in read(fcx._repr_html_()).texts
    losses = [f"{epoch.train['total']:.4g}" for epoch in fcx.history_.epochs]
    assert f"training: 2 epochs, loss {losses[0]} -> {losses[1]}; on validation rows" in lines[5]


def test_a_history_is_a_line():
    lines = [Epoch(i, {"total": 10.0 / i}, {"total": 20.0 / i}) for i in (1, 2, 3)]
    assert repr(History(lines)) == "History(3 epochs, loss 10 -> 3.333; on validation rows 6.667)"
    assert repr(History(lines[:1])) == "History(1 epoch, loss 10 -> 10; on validation rows 20)"
    assert repr(History()) == "History(no epochs)"


def test_an_evaluation_is_shown_as_it_is_printed():
    told = evaluate(plain_answers.explain(loans.task(), loans.table(30)), metrics=["validity", "sparsity"])
    assert repr(told) == str(told)
    assert repr(told).splitlines()[0] == "plain: 16 rows asked, 15 answers"
