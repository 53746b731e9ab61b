"""The page: it says what the explanation says, weighs little, and nothing in a table can make it do anything."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import loans
from effort import examples
from fcxplain import Feature, Schema, Task
from fcxplain.errors import SchemaError
from fcxplain.explanation import Explanation, Status
from fcxplain.explanation.certificate import Change, written
from fcxplain.explanation.page import render
from fcxplain.explanation.page.cards import BARS, LevelSpread, NumberSpread
from fcxplain.explanation.page.page import ValuePool, json_block
from fcxplain.explanation.page.summary import changes_per_answer, feature_counts, group_counts
from fcxplain.explanation.reasons import Obstacle, Relaxation, WhyNot
from fcxplain.explanation.wording import amount, difference, percent

VOID = {"meta", "input", "br", "img", "link", "hr"}
AGE = Feature("age", "integer", low=18, high=80, unit="years")
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<!--<script>",
    "\"'><img src=x onerror=alert(3)>",
    "&lt;b&gt; & ${title} $title",
    "ünï çødé 日本語 \u202eesrever 🙂 \u2028",
    "x" * 5000,
)


class Reader(HTMLParser):
    """Elements in order, whether each is closed where it should be, and the text of scripts apart from all other."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif not self.open or self.open[-1] != "style":
            self.text += data

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found


def unpacked(data: dict[str, Any], place: int) -> Any:
    packed = data["pool"][place]
    if not isinstance(packed, list):
        return packed
    parts = [unpacked(data, part) for part in packed[1:]]
    return parts if packed[0] < 0 else dict(zip(data["shapes"][packed[0]], parts, strict=True))


def cards(page: str) -> list[dict[str, Any]]:
    data = Reader(page).data
    return [unpacked(data, place) for place in data["cards"]]


@pytest.fixture(scope="module")
def task() -> Task:
    return loans.task()


@pytest.fixture(scope="module")
def mixed(task: Task) -> Explanation:
    """One row of every status; the first has two answers, of which the second fails a check."""
    rows = loans.table().iloc[:6].copy()
    rows["age"], rows["income"], rows["degree"] = [30, 40, 50, 60, 25, 70], 1000.0, "none"
    answers = rows.iloc[[0, 0, 1]].copy()
    answers["age"], answers["income"] = [33, 20, 41], [4500.0, 1000.0, 1000.0]
    statuses = [Status.VERIFIED, Status.BEST_EFFORT, Status.IMPOSSIBLE, Status.NOT_FOUND, Status.TIMED_OUT, "already"]
    age = Obstacle("rule", "age' >= age", "age must not decrease")
    relaxation = Relaxation((age,), {}, (Change("age", 50, 20),), 1.5, 0.7)
    reasons = {
        2: WhyNot("row 2", "impossible", ((age,),), relaxation, "Blocked by: age must not decrease."),
        3: WhyNot("row 3", "not_found", ((age,),), None, "Would work without: age must not decrease."),
        4: WhyNot("row 4", "timed_out", (), None, "It was not looked into."),
    }
    return Explanation.of(
        task, rows, answers, np.array([0, 0, 1]), method="FCx", wanted=np.full(6, "yes"),
        without=np.array(statuses, dtype=object), reasons=reasons,
    )  # fmt: skip


def many(task: Task, people: int, alternatives: int = 1) -> Explanation:
    """Answers that are as different from row to row as real ones are at worst."""
    rows = pd.concat([loans.table()] * (people // 300 + 1))[:people]
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(people), alternatives)
    answers = rows.iloc[place].copy()
    answers["age"] = rng.integers(18, 80, len(place))
    answers["income"] = rng.integers(0, 18_000, len(place)) / 2
    answers["degree"] = rng.choice(["none", "school", "college"], len(place))
    return Explanation.of(task, rows, answers, place, method="FCx", wanted=np.full(people, "yes"))


# What it says


def test_a_card_says_what_to_change_with_units_and_differences(task, mixed):
    first = cards(render(mixed))[0]
    lines = first["answers"][0]["lines"]
    assert [(x["title"], x["now"], x["then"], x["difference"]) for x in lines] == [
        ("age", "30", "33", "+3"),
        ("income", "1,000.0", "4,500.0", "+3,500.0"),
    ]
    assert first["answers"][0]["failures"] == []
    assert len(first["values"]) == len(task.schema)


def test_certificates_come_out_of_the_page_as_they_went_in(mixed):
    shown = [a["certificate"] for card in cards(render(mixed)) for a in card["answers"]]
    assert shown == [json.loads(json.dumps(c.to_dict())) for c in mixed.certificates]


def test_alternatives_stand_on_one_card_in_order_of_rank(task):
    shown = cards(render(many(task, 5, 3)))
    assert [[a["certificate"]["rank"] for a in card["answers"]] for card in shown] == [[1, 2, 3]] * 5


def test_answers_that_fail_a_check_say_which(mixed):
    page = render(mixed)
    second = cards(page)[0]["answers"][1]
    assert second["failures"] == ["The model does not answer yes.", "It breaks 1 rule."]
    assert "still answers no" in second["says"]
    assert "1 case has only an option that fails a check." in Reader(page).text


def test_rows_without_an_answer_say_why(mixed):
    shown = cards(render(mixed))
    assert not any(card["answers"] for card in shown[2:])
    proved, now = shown[2]["reason"]
    assert proved == "Proved: no permitted change leads to yes."
    assert now == f"The probability of yes is {mixed.score_now[2]:.3f} now; needed: 0.500."
    assert shown[2]["blocked"] == {
        "title": "Blocked by:",
        "things": ["age must not decrease"],
        "either": False,
        "unless": "Not an option now. Without that, these changes would be enough:",
        "remark": "",
    }
    assert [(x["now"], x["then"]) for x in shown[2]["relaxed"]] == [("50", "20")]
    assert shown[3]["reason"][0] == "No option was found. This does not prove that there is none."
    assert shown[3]["blocked"]["title"] == "Would work without:"
    assert "budget" in shown[4]["reason"][0]
    assert shown[4]["reason"][1] == "It was not looked into."
    assert shown[4]["blocked"] is None
    assert "already answers yes" in shown[5]["reason"][0]


def test_a_failing_answer_says_why_there_is_nothing_better(mixed):
    shown = cards(render(replace(mixed, reasons={0: mixed.reasons[3]})))[0]
    assert len(shown["answers"]) == 2
    assert shown["reason"] == []
    assert shown["blocked"]["things"] == ["age must not decrease"]


def test_what_stands_in_the_way_is_listed_and_what_is_fixed_is_no_advice(mixed):
    age, job = Obstacle("rule", "age' >= age", "age must not decrease"), Obstacle("freeze", "job", "job cannot change")
    way = Relaxation((job,), {}, (Change("job", "cook", "smith"),), 1.5, 0.7)
    reasons = {2: WhyNot("row 2", "impossible", ((job,), (age,)), way, "w")}
    page = render(replace(mixed, reasons=reasons))
    assert cards(page)[2]["blocked"] == {
        "title": "Blocked, but would work without any one of these:",
        "things": ["job cannot change", "age must not decrease"],
        "either": True,
        "unless": "Not an option now. Without the first, these changes would be enough:",
        "remark": "This is not advice, since job cannot be changed. It only shows what the model's answer depends on.",
    }
    bare = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "<ol><li>job cannot change</li><li>age must not decrease</li></ol>" in bare


def test_a_reason_that_names_no_obstacle_is_told_in_its_own_words(mixed):
    nothing = WhyNot("row 3", "not_found", (), None, "Nothing that was tried helps.")
    shown = cards(render(replace(mixed, reasons={3: nothing})))[3]
    assert shown["reason"][1] == "Nothing that was tried helps."


def test_the_summary_counts_statuses_changes_and_obstacles(mixed):
    text = Reader(render(mixed)).text
    assert "1 of 5 cases has a verified option that leads to yes. 1 case already has this outcome." in text
    assert "3 cases have no option." in text
    assert "Cases without an option" in text
    assert re.search(r"What may stand in the way.*age must not decrease\s*row 2, row 3\s*2", text, re.DOTALL)
    assert changes_per_answer(mixed) == [(1, 1), (2, 1)]
    assert [(f.feature.name, f.count, f.up, f.usual) for f in feature_counts(mixed)] == [
        ("age", 2, 2, "median +1"),
        ("income", 1, 1, "+3,500.0"),
    ]


def test_only_a_proof_says_that_something_stands_in_the_way(mixed):
    proved = Reader(render(replace(mixed, reasons={2: mixed.reasons[2]}))).text
    assert "What stands in the way, and what it would take" in proved
    late = Reader(render(replace(mixed, reasons={4: mixed.reasons[4]}))).text
    assert "3 cases have no option. Their cards say why." in late
    assert "The reasons were not requested" in Reader(render(replace(mixed, reasons={}))).text


def test_answers_that_nothing_limits_are_said_to_be_so_at_the_top(task):
    free = Schema(tuple(f.replace(mutable=True) for f in task.schema))
    rows = loans.table(3).assign(income=1000.0)

    def text(**more: Any) -> str:
        asked = Task(task.train, loans.chance, target="yes", classes=("no", "yes"), **more)
        answer = Explanation.of(
            asked, rows, rows.assign(income=8000.0), np.arange(3), method="FCx", wanted=np.full(3, "yes")
        )
        return Reader(render(answer)).text

    warning = "No rules were given and nothing is fixed:"
    assert warning in text(schema=free)
    assert "3 cases · no rules" in text(schema=free)
    assert warning not in text(schema=task.schema)
    assert warning not in text(schema=free, rules="age' >= age")


@pytest.mark.parametrize(("chance", "threshold", "close"), [
    (0.5, None, True), (0.509, None, True), (0.511, None, False), (0.6, None, False),
    (0.705, 0.7, True), (0.715, 0.7, False),
])  # fmt: skip
def test_an_answer_by_very_little_is_told_as_such(chance, threshold, close):
    def model(rows: pd.DataFrame) -> np.ndarray:
        return np.where(rows["age"] > 40, chance + 1e-9, 0.2)

    def says(classes: tuple[str, str], target: str, limit: float | None) -> str:
        given = model if target == classes[1] else lambda rows: 1 - model(rows)
        own = Task(loans.table(20), given, schema=loans.SCHEMA, target=target, classes=classes, threshold=limit)
        row = loans.table(1).assign(age=30)
        answer = Explanation.of(own, row, row.assign(age=50), np.array([0]), method="FCx", wanted=np.array([target]))
        return cards(render(answer))[0]["answers"][0]["says"]

    assert ("just over the line" in says(("no", "yes"), "yes", threshold)) == close
    mirrored = None if threshold is None else 1 - threshold
    assert ("just over the line" in says(("yes", "no"), "yes", mirrored)) == close


@pytest.mark.parametrize(("second", "close"), [(0.395, True), (0.38, False)])
def test_with_many_classes_the_next_one_is_the_line(second, close):
    def model(rows: pd.DataFrame) -> np.ndarray:
        return np.tile([second, 0.4, 0.6 - second], (len(rows), 1))

    own = Task(loans.table(20), model, schema=loans.SCHEMA, target="b", classes=("a", "b", "c"))
    row = loans.table(1).assign(age=30)
    answer = Explanation.of(own, row, row.assign(age=50), np.array([0]), method="FCx", wanted=np.array(["b"]))
    assert ("just ahead of another class" in cards(render(answer))[0]["answers"][0]["says"]) == close


@pytest.mark.parametrize(
    ("position", "lead"),
    [
        (0, "There is a verified option that leads to yes."),
        (1, "No option that leads to yes passes every check."),
        (2, "No permitted change leads to yes. This is proved."),
        (3, "No option that leads to yes was found."),
        (4, "No option that leads to yes was found before the search budget ran out."),
        (5, "The case already has the target outcome."),
    ],
)
def test_one_row_has_a_sentence_and_no_panels(task, mixed, position, lead):
    own = mixed.place == position
    alone = Explanation.of(
        task, mixed.rows.iloc[[position]], mixed.answers[own], np.zeros(int(own.sum()), dtype=np.int64), method="FCx",
        wanted=np.array(["yes"]), without=mixed.row_status[[position]],
    )  # fmt: skip
    page = Reader(render(alone))
    assert lead in page.text
    assert "Summary" not in page.text
    assert "1 of 1" not in page.text
    assert len(page.data["cards"]) == 1


def test_groups_add_up_to_all_rows(task):
    answer = many(task, 300)
    for name in task.schema.names:
        groups = group_counts(answer, name)
        assert sum(g.asked for g in groups) == 300
        assert sum(g.verified for g in groups) == answer.counts[Status.VERIFIED]
    assert [g.name for g in group_counts(answer, "degree")] == ["none", "school", "college"]
    assert len(group_counts(answer, "age")) == 4
    assert "By degree" in Reader(render(answer, group="degree")).text


def test_groups_have_a_column_for_failing_answers_only_where_there_are_some(mixed):
    good = [i for i, status in enumerate(mixed.row_status) if status != Status.BEST_EFFORT]
    kept = np.isin(mixed.place, good)
    fine = Explanation.of(
        mixed.task, mixed.rows.iloc[good], mixed.answers[kept].iloc[:1], np.array([0]), method="FCx",
        wanted=mixed.wanted[good], without=mixed.row_status[good],
    )  # fmt: skip
    assert "Fail a check" in Reader(render(mixed, group="job")).text
    assert "Fail a check" not in Reader(render(fine, group="job")).text


def test_an_unknown_group_is_named_in_the_error(mixed):
    for answer in (mixed, many(mixed.task, 1)):
        with pytest.raises(SchemaError, match=r"no feature 'agee'\. Did you mean 'age'\?"):
            render(answer, group="agee")


def test_without_a_script_summary_and_first_cards_can_be_read(task):
    page = render(many(task, 12))
    bare = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert bare.count("<article") == 10
    assert "2 more cases can be seen with JavaScript" in bare
    assert "Results" in bare


def test_a_page_without_rows_says_so(task):
    nobody = Explanation.of(
        task, loans.table()[:0], loans.table()[:0], np.empty(0, dtype=np.int64), method="FCx",
        wanted=np.empty(0, dtype=object),
    )  # fmt: skip
    page = Reader(render(nobody))
    assert "There are no cases." in page.text
    assert page.data["cards"] == []


def test_the_page_is_the_same_every_time_and_wherever_one_is(mixed, tmp_path, monkeypatch):
    first = render(mixed)
    monkeypatch.chdir(tmp_path)
    assert render(mixed) == first


# What it weighs


@pytest.mark.parametrize("alternatives", [1, 3])
def test_fixed_weight_and_weight_per_card_stay_in_their_limits(task, alternatives):
    few, more = (len(render(many(task, n, alternatives)).encode()) for n in (1, 301))
    assert few - 5_000 < 50_000
    assert (more - few) / 300 < 5_000


def test_a_wide_table_with_many_rules_stays_in_the_limits():
    rng = np.random.default_rng(0)
    names = [f"measure_number_{i}" for i in range(60)]
    train = pd.DataFrame({n: rng.integers(0, 10_000, 300) / 100 for n in names})
    schema = Schema(tuple(Feature(n, "continuous", low=0, high=100, decimals=2, unit="points") for n in names))
    rules = "\n".join(f"{a}' >= {a} - {i}" for i, a in enumerate(names[:20], start=1))

    def model(rows: pd.DataFrame) -> np.ndarray:
        return np.clip(rows[names[0]].to_numpy() / 100, 0, 1)

    task = Task(train, model, schema=schema, rules=rules, target=1, classes=(0, 1))

    def weight(people: int) -> int:
        after = train[:people].copy()
        after[names[:4]] = rng.integers(0, 10_000, (people, 4)) / 100
        answer = Explanation.of(
            task, train[:people], after, np.arange(people), method="FCx", wanted=np.ones(people, dtype=int)
        )
        return len(render(answer).encode())

    assert weight(1) - 5_000 < 50_000
    assert (weight(151) - weight(1)) / 150 < 5_000


# What it must not do


@pytest.fixture(scope="module")
def hostile() -> Explanation:
    schema = Schema(
        (
            Feature("<b>age</b>", "integer", low=0, high=9, label=HOSTILE[1], unit="<i>"),
            Feature("__proto__", "categorical", levels=HOSTILE),
        )
    )
    rng = np.random.default_rng(0)
    train = pd.DataFrame({"<b>age</b>": rng.integers(0, 9, 70), "__proto__": np.resize(HOSTILE, 70)})

    def model(rows: pd.DataFrame) -> np.ndarray:
        return (rows["<b>age</b>"].to_numpy() >= 5) * 0.98 + 0.01

    task = Task(train, model, schema=schema, target=HOSTILE[0], classes=("no", HOSTILE[0]))
    rows = train[:7].set_index(pd.Index(HOSTILE))
    rows["<b>age</b>"] = 1
    answers = rows.assign(**{"<b>age</b>": 7, "__proto__": HOSTILE[::-1]})
    obstacle = Obstacle("rule", HOSTILE[1], HOSTILE[1])
    return Explanation.of(
        task, rows, answers[:6], np.arange(6), method=HOSTILE[1], wanted=np.full(7, HOSTILE[0], dtype=object),
        notes=(HOSTILE[0], "\ud800"), reasons={6: WhyNot("x", "not_found", ((obstacle,),), None, HOSTILE[1])},
    )  # fmt: skip


def test_what_a_table_says_is_never_markup(hostile):
    plain = Reader(render(many(loans.task(), 7), title="plain", group="degree"))
    page = Reader(render(hostile, title=HOSTILE[1], group="__proto__"))
    assert not page.open
    assert not page.unbalanced
    kinds = {tag for tag, _ in page.elements}
    assert kinds <= {tag for tag, _ in plain.elements} | {"code"}
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert not any(name.startswith("on") or name in ("src", "style") for _, attrs in page.elements for name in attrs)


def test_what_a_table_says_comes_through_unaltered(hostile):
    page = render(hostile)
    shown = [a["certificate"] for card in cards(page) for a in card["answers"]]
    assert shown == [json.loads(json.dumps(c.to_dict())) for c in hostile.certificates]
    text = Reader(page).text
    assert HOSTILE[0] in text
    assert HOSTILE[3] in text


def test_very_long_names_are_cut_where_they_are_shown(hostile):
    page = render(hostile)
    assert "x" * 121 not in Reader(page).text
    assert page.count("x" * 5000) == 1


def test_text_that_no_file_can_hold_is_written_all_the_same(hostile):
    assert "\ufffd" in render(hostile).encode("utf-8").decode("utf-8")
    assert json.loads(json_block({"half": "\ud800"})) == {"half": "\ud800"}


def test_nothing_is_fetched_and_only_our_own_script_may_run(mixed):
    page = Reader(render(mixed))
    policy = next(a["content"] for tag, a in page.elements if tag == "meta" and a.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not any(tag in ("link", "img", "iframe", "object") for tag, _ in page.elements)
    code = page.scripts[1].replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|innerHTML|insertAdjacent|document\.write|eval\(", code)


def test_page_elements_have_unique_ids_and_labels_for_readers(mixed):
    page = Reader(render(mixed, group="age"))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    named = {a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a}
    assert named <= set(ids)
    assert ("html", {"lang": "en"}) in page.elements
    assert any(tag == "a" and a.get("href") == "#rows" for tag, a in page.elements)


NOBODY = many(loans.task(), 0)


@examples(50)
@example("\r\n</title><b>\r&amp;\x00\ud800")
@given(st.text(max_size=300))
def test_any_text_is_shown_as_it_is_and_adds_no_markup(text):
    page = Reader(render(replace(NOBODY, notes=(text,)), title=text))
    assert len(page.elements) == 1 + len(Reader(render(NOBODY)).elements)
    # Half a pair of UTF-16 has no place in a file.
    shown = re.sub("[\ud800-\udfff]", "\ufffd", text)
    assert page.text.count(shown) >= 3


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_packing_loses_nothing(value):
    pool = ValuePool()
    place = pool.place(value)
    text = json_block({"pool": pool.values, "shapes": pool.shapes})
    assert "<" not in text
    found = unpacked(json.loads(text), place)
    assert json.dumps(found) == json.dumps(value)


def test_packing_keeps_what_is_equal_and_yet_different_apart():
    pool = ValuePool()
    place = pool.place([1, True, 1.0, "1", np.int64(1), np.nan, 0.0, -0.0])
    data = json.loads(json_block({"pool": pool.values, "shapes": []}))
    assert json.dumps(unpacked(data, place)) == '[1, true, 1.0, "1", 1, null, 0.0, -0.0]'


# How values are written


@pytest.mark.parametrize(
    ("feature", "value", "text"),
    [
        (AGE, 41, "41 years"),
        (AGE.replace(unit=""), np.int64(41), "41"),
        (AGE, 1, "1 year"),
        (AGE.replace(unit="gross"), 1, "1 gross"),
        (Feature("pay", "integer", low=0, high=10**7, unit="€"), 1234567, "1,234,567 €"),
        (Feature("pay", "continuous", low=-9, high=9999, decimals=2), 1234.5, "1,234.50"),
        (Feature("pay", "continuous", low=-9, high=9999, decimals=2), -4.25, "−4.25"),
        (Feature("pay", "continuous", low=0, high=9999, decimals=2), 0.12345, "0.12345"),
        (Feature("dose", "continuous", low=0, high=1, decimals=5), 0.25, "0.25"),
        (Feature("built", "integer", low=1900, high=2025), 1994, "1994"),
        (AGE, None, "missing"),
        (AGE, float("nan"), "missing"),
        (Feature("job", "categorical", levels=("cook", "smith")), "cook", "cook"),
        (Feature("job", "categorical", levels=(True, False)), True, "True"),
    ],
)
def test_values_are_written_for_people(feature, value, text):
    assert amount(feature, value) == text


@pytest.mark.parametrize(
    ("feature", "now", "then", "text"),
    [
        (AGE, 41, 45, "+4 years"),
        (AGE, 41, 30, "−11 years"),
        (AGE, 41, 42, "+1 year"),
        (AGE, 41, 40, "−1 year"),
        (Feature("dose", "continuous", low=0, high=1, decimals=1), 0.1, 0.3, "+0.2"),
        (loans.SCHEMA["degree"], "none", "college", "2 levels up"),
        (loans.SCHEMA["degree"], "college", "school", "one level down"),
        (Feature("grade", "ordinal", levels=("a", "b", "c"), ranks=(0, 5, 5)), "a", "b", "higher"),
        (Feature("grade", "ordinal", levels=("a", "b", "c"), ranks=(0, 5, 5)), "b", "c", "same rank"),
        (loans.SCHEMA["job"], "clerk", "cook", ""),
        (AGE, 41, None, ""),
    ],
)
def test_differences_are_written_for_people(feature, now, then, text):
    assert difference(feature, now, then) == text


def test_shares_are_not_rounded_to_none_or_all():
    assert [percent(s) for s in (0, 0.001, 0.5, 0.999, 1)] == ["0%", "under 1%", "50%", "over 99%", "100%"]


# Where values stand among the training rows


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=200),
    st.sampled_from([1, 5, 0.5]),
    st.integers(-100, 6000),
)
def test_bars_hold_every_training_row_and_places_stay_inside(values, step, asked):
    kind = "integer" if step >= 1 else "continuous"
    feature = Feature("x", kind, low=0, high=25_000, step=step)
    spread = NumberSpread(feature, np.sort(np.asarray(values) * float(step)))
    assert 1 <= len(spread.bars) <= BARS
    assert max(spread.bars) == 100
    assert 0 <= spread.at(asked * step) <= 1
    below = np.mean(np.asarray(values) < asked)
    assert f"Higher than {percent(float(below))} of past cases now" in spread.words(asked * step, asked * step)


def test_a_value_stands_over_the_bar_that_counts_it():
    feature = Feature("x", "integer", low=0, high=100)
    for value in range(101):
        spread = NumberSpread(feature, np.sort(np.append(np.arange(101.0), np.full(500, float(value)))))
        place = spread.at(value)
        assert place is not None
        assert math.floor(place * len(spread.bars)) == int(np.argmax(spread.bars))


def test_levels_stand_over_their_bars_and_rare_ones_share_the_last():
    levels = tuple(f"level {i}" for i in range(40))
    counts = np.arange(40) + 1
    spread = LevelSpread(Feature("x", "categorical", levels=levels), np.repeat(np.arange(40), counts))
    assert len(spread.bars) == BARS
    assert spread.at("level 0") == spread.at("level 1") == round((BARS - 0.5) / BARS, 3)
    assert spread.at("level 39") == round(0.5 / BARS, 3)
    assert spread.bars[:-1] == sorted(spread.bars[:-1], reverse=True)
    assert spread.at("unknown") is None
    assert spread.words("level 39", "unknown") == "Shared by 5% of past cases now, 0% then"
    assert [spread.named(f"level {i}") for i in (39, 0)] == ["level 39", "level 0 and others"]
    assert spread.named("unknown") == ""


def test_levels_are_named_below_their_bars_and_only_an_order_has_ends(task, mixed):
    answers = mixed.answers[:1].assign(degree="college", job="smith")
    rows = mixed.rows[:1].assign(job="cook")
    page = render(
        Explanation.of(task, rows, answers, np.array([0]), method="FCx", wanted=np.full(1, "yes", dtype=object))
    )
    lines = {line["title"]: line for line in cards(page)[0]["answers"][0]["lines"]}
    assert {title: line["names"] for title, line in lines.items()} == {
        "age": ["", ""], "income": ["", ""], "degree": ["none", "college"], "job": ["cook", "smith"],
    }  # fmt: skip
    spreads = {title: Reader(page).data["spreads"][str(line["feature"])] for title, line in lines.items()}
    assert {title: spread["kind"] for title, spread in spreads.items()} == {
        "age": "number", "income": "number", "degree": "order", "job": "levels",
    }  # fmt: skip
    assert (spreads["degree"]["ends"], spreads["job"]["ends"]) == (["none", "college"], ["", ""])


# How it looks


def luminance(colour: str) -> float:
    """Relative luminance of `#rgb` or `#rrggbb`, by WCAG 2."""
    digits = colour.lstrip("#")
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    shares = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_controls_have_the_contrast_that_wcag_asks_for_in_light_dark_and_print():
    css = files("fcxplain.explanation.page").joinpath("page.css").read_text(encoding="utf-8")
    themes = [dict(re.findall(r"--([\w-]+): (#\w+)", block)) for block in re.findall(r":root \{(.*?)\}", css, re.S)]
    assert len(themes) == 3
    texts = [(ink, ground) for ink in ("ink", "quiet") for ground in ("ground", "paper", "soft")]
    texts += [("blue", "paper"), ("blue", "blue-soft"), ("red", "paper"), ("red", "red-soft")]
    signs = ("quiet", "verified", "impossible", "best_effort")
    statuses = [str(status) for status in Status]
    for theme in [themes[0], themes[0] | themes[1], themes[0] | themes[2]]:
        assert all(contrast(theme[ink], theme[ground]) >= 4.5 for ink, ground in texts)
        assert all(contrast(theme["paper"], theme[sign]) >= 4.5 for sign in signs)
        assert all(contrast(theme[name], theme["paper"]) >= 3 for name in ["edge", *statuses])


# The script itself


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's script; it is not installed")
def test_the_script_unpacks_certificates_and_finds_rows(hostile, tmp_path):
    data = tmp_path / "data.json"
    data.write_text(Reader(render(hostile)).scripts[0], encoding="utf-8")
    code = files("fcxplain.explanation.page").joinpath("page.js").read_text(encoding="utf-8")
    probe = f"""
    const data = JSON.parse(require("fs").readFileSync({json.dumps(str(data))}, "utf-8"));
    const shown = data.cards.flatMap((place) => unpack(data, place).answers.map((a) => a.certificate));
    const found = [chosen(data, -1, ""), chosen(data, 2, ""), chosen(data, -1, " ALERT(2) "), chosen(data, 0, "nobody")];
    process.stdout.write(JSON.stringify({{shown, found}}));
    """
    run = subprocess.run(["node", "-e", code + probe], capture_output=True, check=True)
    told = json.loads(run.stdout)
    assert told["shown"] == [json.loads(json.dumps(c.to_dict())) for c in hostile.certificates]
    assert told["found"] == [[0, 1, 2, 3, 4, 5, 6], [6], [1], []]


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's script; it is not installed")
def test_names_below_bars_stand_in_two_rows_only_where_they_would_meet():
    code = files("fcxplain.explanation.page").joinpath("page.js").read_text(encoding="utf-8")
    asked = [
        (["cook", "smith"], [40, 200]),
        (["cook", "smith"], [40, 50]),
        (["x" * 24, "y"], [5, 235]),
        (["", ""], [5, 9]),
    ]
    probe = f"""
    const told = {json.dumps(asked)}.map(([texts, places]) => names(texts, places));
    process.stdout.write(JSON.stringify(told.map(({{shown, deep}}) => [deep, shown.map((s) => [s.text, s.x, s["text-anchor"]])])));
    """
    run = subprocess.run(["node", "-e", code + probe], capture_output=True, check=True)
    assert json.loads(run.stdout) == [
        [14, [["cook", 40, "middle"], ["smith", 200, "middle"]]],
        [25, [["cook", 40, "middle"], ["smith", 50, "middle"]]],
        [14, [["x" * 24, 0, "start"], ["y", 235, "middle"]]],
        [0, []],
    ]  # fmt: skip


def test_missing_values_of_failing_answers_are_shown_as_missing(task, mixed):
    answers = mixed.answers[2:].assign(income=np.nan)
    answer = Explanation.of(
        task, mixed.rows[1:2], answers, np.array([0]), method="FCx", wanted=np.full(1, "yes", dtype=object)
    )
    card = cards(render(answer))[0]["answers"][0]
    assert "A value is outside its permitted range." in card["failures"]
    assert [x["then"] for x in card["lines"] if x["title"] == "income"] == ["missing"]
    assert card["certificate"]["changes"][1]["then"] is written(float("nan"))


def test_labels_with_several_parts_are_told_one_after_the_other(mixed):
    rows = mixed.rows.set_axis(pd.MultiIndex.from_product([["a", "b"], [1, 2, 3]]), axis=0)
    assert Reader(render(replace(mixed, rows=rows))).data["labels"][:2] == ["a, 1", "a, 2"]
