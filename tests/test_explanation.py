"""Explanations: what was checked is true, nothing is dropped, and files bring the same answers back."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import loans
from fcxplain import Feature, Schema, Task
from fcxplain.errors import DataError, FormatError
from fcxplain.explanation import Change, Explanation, Obstacle, Relaxation, Status, WhyNot, read_answers, steps_of
from fcxplain.explanation.frame import changed_names

BEFORE = pd.DataFrame(
    {
        "age": [30, 40, 50, 60],
        "income": [1000.0, 2000.0, 500.0, 4000.0],
        "degree": ["none", "school", "college", "college"],
        "job": ["clerk", "cook", "smith", "clerk"],
        "born": ["here", "there", "here", "there"],
    },
    index=["ann", "bob", "cid", "dot"],
)


def answered(task: Task | None = None, **changes: dict[str, object]) -> Explanation:
    """Ann, Bob and Cid get an answer each, with these changes; Dot has her loan already."""
    task = task or loans.task()
    after = BEFORE.iloc[:3].copy()
    for name, changed in changes.items():
        for column, value in changed.items():
            after[column] = after[column].astype(object)
            after.loc[name, column] = value
    after = after.infer_objects()
    wanted = np.asarray(["yes"] * 4)
    without = np.array([Status.NOT_FOUND] * 3 + [Status.ALREADY])
    return Explanation.of(task, BEFORE, after, np.arange(3), method="by hand", wanted=wanted, without=without)


def test_each_answer_is_checked_with_model_rules_domain_and_immutables():
    found = answered(
        ann={"income": 6000.0, "degree": "school", "age": 31},
        bob={"income": 6000.0, "age": 39},
        cid={"income": 6000.25, "born": "there"},
    )
    checks = found.checks
    assert checks.valid.tolist() == [True, True, False]
    assert checks.score[:2] == pytest.approx(loans.chance(found.answers.iloc[:2]))
    assert np.isnan(checks.score[2])  # 6000.25 is off the grid: the model is not asked about it
    assert checks.kept.tolist() == [[True, True, True], [False, True, True], [True, True, True]]
    assert checks.in_domain.tolist() == [True, True, False]
    assert checks.immutables_kept.tolist() == [True, True, False]
    assert checks.changes.tolist() == [3, 2, 2]
    assert checks.passed.tolist() == [True, False, False]
    assert found.row_status.tolist() == ["verified", "best_effort", "best_effort", "already"]
    units = found.task.units
    assert checks.cost[0] == pytest.approx(3 + 1 / units["age"] + 5000 / units["income"])


def test_a_change_is_more_than_half_a_step():
    found = answered(ann={"income": 1000.25}, bob={"income": 2000.5})
    assert found.checks.changed[:, 1].tolist() == [False, True, False]


def test_the_frame_has_a_line_for_every_row_and_keeps_whole_numbers_whole():
    found = answered(ann={"income": 6000.0})
    assert found.frame["row"].tolist() == ["ann", "bob", "cid", "dot"]
    assert found.frame["rank"].tolist()[:3] == [1, 1, 1]
    assert pd.isna(found.frame["rank"].iloc[3])
    assert found.frame["status"].tolist()[3] == "already"
    assert found.frame["age"].dtype == "Int64"
    assert found.frame["changed"].iloc[0] == "income"
    assert found.frame["income"].iloc[0] == 6000.0


MIXED = pd.DataFrame(
    {
        "age": np.array([30, 40, 50, 60], dtype=np.int16),
        "size": np.array([1.5, 2.0, 0.5, 1.0], dtype=np.float32),
        "owner": [True, False, True, False],
        "town": pd.Categorical(["here", "there", "here", "there"]),
        "job": pd.Series(["clerk", "cook", "cook", "clerk"], dtype=str),
    }
)


@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (False, True), (0, "yes")])
def test_dtypes_of_the_frame_do_not_depend_on_who_has_an_answer(classes):
    schema = Schema(
        (
            Feature("age", "integer", low=0, high=99),
            Feature("size", "continuous", low=0, high=9, step=0.5),
            Feature("owner", "categorical", levels=(False, True)),
            Feature("town", "categorical", levels=("here", "there")),
            Feature("job", "categorical", levels=("clerk", "cook")),
        )
    )
    task = Task(MIXED, lambda t: t["age"].to_numpy() / 99, schema=schema, classes=classes, target=classes[1])
    wanted = np.full(4, classes[1], dtype=object)
    frames = [
        Explanation.of(task, MIXED, MIXED.iloc[:n], np.arange(n), method="by hand", wanted=wanted).frame
        for n in (4, 2, 0)
    ]
    for frame in frames[1:]:
        pd.testing.assert_series_equal(frame.dtypes, frames[0].dtypes)
    kinds = frames[0].dtypes.astype(str)
    assert kinds[["rank", "changes", "age"]].tolist() == ["Int64"] * 3
    assert kinds[["probability", "cost", "size"]].tolist() == ["float64", "float64", "float32"]
    assert kinds[["owner", "town"]].tolist() == ["boolean", "category"]
    assert {*kinds[["status", "changed", "job"]]} == {str(pd.Series(["text"]).dtype)}
    assert frames[1]["owner"].tolist() == [True, False, pd.NA, pd.NA]
    assert frames[1]["predicted"].tolist()[:2] == [classes[0]] * 2
    assert frames[1]["predicted"].isna().tolist() == [False, False, True, True]


def test_a_value_that_the_training_rows_could_not_hold_stays_in_the_frame():
    found = answered(ann={"age": 30.5}, bob={"job": "pilot"})
    assert found.frame["age"].tolist()[:2] == [30.5, 40.0]
    assert found.frame["job"].tolist()[1] == "pilot"


def test_a_feature_called_status_keeps_its_name():
    schema = Schema((Feature("status", "integer", low=0, high=9), Feature("rank", "integer", low=0, high=9)))
    rows = pd.DataFrame({"status": [1, 2], "rank": [3, 4]})
    task = Task(rows, lambda t: t["status"].to_numpy() / 9, schema=schema, target=1)
    found = Explanation.of(task, rows, rows.assign(status=9), np.arange(2), method="by hand", wanted=np.asarray([1, 1]))
    assert found.frame["status"].tolist() == [9, 9]
    assert found.frame["fcx_status"].tolist() == ["verified", "verified"]
    assert not found.frame.columns.duplicated().any()


def test_a_certificate_says_what_was_checked_in_words():
    first = answered(ann={"income": 6000.0}, bob={"age": 39}).certificates
    assert first[0].passed
    assert [(c.feature, c.now, c.then) for c in first[0].changes] == [("income", 1000.0, 6000.0)]
    broken = [r for r in first[1].rules if not r.kept]
    assert [r.words for r in broken] == ["age must not decrease"]
    assert (broken[0].now, broken[0].then) == ({"age": 40}, {"age": 39})
    assert "BROKEN: age must not decrease" in str(first[1])
    assert json.loads(json.dumps(first[1].to_dict()))["passed"] is False


def test_answers_can_be_judged_under_other_rules():
    found = answered(bob={"age": 39, "income": 6000.0})
    assert found.row_status[1] == "best_effort"
    lenient = found.under(loans.task(rules=""))
    assert lenient.row_status[1] == "verified"
    assert lenient.checks.kept.shape == (3, 0)
    assert found.under(found.task) is found


def test_several_answers_for_a_row_are_ranked():
    task, rows = loans.task(), BEFORE.iloc[[0]]
    after = pd.concat([rows.assign(income=6000.0), rows.assign(income=7000.0)])
    found = Explanation.of(task, rows, after, np.asarray([0, 0]), method="by hand", wanted=np.asarray(["yes"]))
    assert found.rank.tolist() == [1, 2]
    assert found.frame["row"].tolist() == ["ann", "ann"]


def test_pairs_of_different_length_are_refused():
    task = loans.task()
    with pytest.raises(DataError, match="do not match"):
        Explanation.of(task, BEFORE, BEFORE, np.asarray([0]), method="by hand", wanted=np.asarray(["yes"] * 4))


def test_a_class_that_the_model_does_not_know_is_named():
    with pytest.raises(DataError, match="'maybe' is not one of the classes"):
        Explanation.of(
            loans.task(), BEFORE, BEFORE, np.arange(4), method="by hand", wanted=np.asarray(["yes", "maybe"] * 2)
        )


def test_parquet_brings_the_same_answers_back_checked_again(tmp_path):
    found = answered(ann={"income": 6000.0}, bob={"age": 39})
    found.to_parquet(tmp_path / "answers.parquet")
    again = read_answers(tmp_path / "answers.parquet", found.task)
    pd.testing.assert_frame_equal(again.frame, found.frame)
    pd.testing.assert_frame_equal(again.rows, found.rows)
    assert again.counts == found.counts
    # Under another model the same file tells another truth.
    strict = {"schema": loans.SCHEMA, "target": "yes", "classes": ("no", "yes")}
    other = Task(loans.table(), lambda t: loans.chance(t) / 2, **strict)
    assert read_answers(tmp_path / "answers.parquet", other).counts == {"best_effort": 3, "already": 1}
    assert list(tmp_path.iterdir()) == [tmp_path / "answers.parquet"]


def test_a_file_that_holds_no_answers_is_refused(tmp_path):
    BEFORE.to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "text.parquet").write_text("no parquet")
    for name, message in (("rows", "does not hold answers"), ("text", "does not hold answers"), ("none", "no file")):
        with pytest.raises(FormatError, match=message):
            read_answers(tmp_path / f"{name}.parquet", loans.task())


def test_json_has_everything_and_is_plain(tmp_path):
    found = answered(ann={"income": 6000.0}, cid={"income": 6000.25})
    text = found.to_json(tmp_path / "answers.json")
    data = json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))
    assert data == json.loads(text)
    assert data["counts"] == {"verified": 1, "best_effort": 2, "already": 1}
    assert data["answers"][0]["counterfactual"]["income"] == 6000.0
    assert data["answers"][2]["probability"] is None
    assert [r["status"] for r in data["rows"]] == ["verified", "best_effort", "best_effort", "already"]


def test_an_unknown_level_keeps_no_rule_about_it():
    task = loans.task(rules="job' in {smith}")
    found = answered(task, ann={"job": "pilot"}, bob={"job": "smith"})
    assert found.checks.kept[:, 0].tolist() == [False, True, True]
    assert found.checks.feasible.tolist() == [False, True, True]


def test_a_proof_carries_over_only_to_the_same_model_and_no_fewer_rules():
    task, nobody = loans.task(), np.empty(0, np.int64)
    proved = Explanation.of(
        task,
        BEFORE,
        BEFORE.iloc[:0],
        nobody,
        method="by hand",
        wanted=np.asarray(["yes"] * 4),
        without=np.array(["impossible", "not_found", "not_found", "not_found"]),
    )
    assert proved.counts == {"impossible": 1, "not_found": 3}
    assert proved.under(loans.task(rules="")).counts == {"not_found": 4}
    assert (
        proved.under(Task(task.train, task.classifier, schema=task.schema, rules=loans.RULES)).counts == proved.counts
    )


def test_the_frame_is_in_the_order_of_rows_and_ranks():
    after = pd.concat([BEFORE.iloc[[1]], BEFORE.iloc[[0]], BEFORE.iloc[[0]].assign(income=7000.0)])
    found = Explanation.of(
        loans.task(),
        BEFORE,
        after,
        np.asarray([1, 0, 0]),
        method="by hand",
        wanted=np.asarray(["yes"] * 4),
        rank=np.asarray([1, 2, 1]),
    )
    assert found.frame["row"].tolist() == ["ann", "ann", "bob", "cid", "dot"]
    assert found.frame["income"].tolist()[:2] == [7000.0, 1000.0]


def test_whole_numbers_stay_whole_in_certificates():
    schema = Schema((Feature("a", "integer", low=0, high=9), Feature("b", "integer", low=0, high=9)))
    rows = pd.DataFrame({"a": [1], "b": [2]})
    task = Task(rows, lambda t: t["a"].to_numpy() / 9, schema=schema, target=0)
    found = Explanation.of(task, rows, rows.assign(a=3), np.arange(1), method="by hand", wanted=np.asarray([0]))
    assert str(found.certificates[0].changes[0].then) == "3"


def test_no_rows_and_no_answers_make_an_empty_frame():
    task = loans.task()
    empty = BEFORE.iloc[:0]
    found = Explanation.of(task, empty, empty, np.empty(0, np.int64), method="by hand", wanted=np.asarray([]))
    assert len(found.frame) == 0
    assert found.certificates == []
    assert "0 rows" in repr(found)


def test_statuses_of_rows_without_an_answer_are_told_and_no_others():
    told = np.array(["verified", Status.IMPOSSIBLE, "timed_out", "best_effort"], dtype=object)
    found = Explanation.of(
        loans.task(),
        BEFORE,
        BEFORE.iloc[:0],
        np.empty(0, np.int64),
        method="by hand",
        wanted=np.asarray(["yes"] * 4),
        without=told,
    )
    assert found.row_status.tolist() == ["not_found", "impossible", "timed_out", "not_found"]
    assert told[1] is Status.IMPOSSIBLE


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (["already"] * 3, "3 statuses for 4 rows"),
        (["already", "lost", "already", "gone"], "'gone', 'lost' is not a status"),
    ],
)
def test_statuses_that_fit_no_row_are_refused(told, message):
    none, wanted = np.empty(0, np.int64), np.asarray(["yes"] * 4)
    with pytest.raises(DataError, match=message):
        Explanation.of(loans.task(), BEFORE, BEFORE.iloc[:0], none, method="x", wanted=wanted, without=np.asarray(told))


REASON = WhyNot(
    row="bob",
    status="impossible",
    blockers=((Obstacle("rule", "age' >= age", "age must not decrease"),),),
    relaxation=Relaxation(
        gone=(Obstacle("bound", "income", "income is at most 9,000", "income", "high", 9000.0),),
        counterfactual={"age": 40, "income": 9500.0},
        changes=(Change("income", 2000.0, 9500.0, "income", "EUR"),),
        cost=2.5,
        probability=0.75,
    ),
    words="Blocked by: age must not decrease.",
)


def explained_in_part(reasons: dict[int, WhyNot] | None = None) -> Explanation:
    """Ann has an answer, Bob and Cid have none, Dot has her loan."""
    return Explanation.of(
        loans.task(),
        BEFORE,
        BEFORE.iloc[[0]].assign(income=6000.0),
        np.array([0]),
        method="by hand",
        wanted=np.asarray(["yes"] * 4),
        without=np.array(["not_found", "impossible", "not_found", "already"]),
        reasons=reasons or {},
    )


def test_an_answer_is_called_by_its_number_or_by_the_label_of_its_row():
    found = answered(bob={"income": 6000.0})
    assert found.certificate("bob").row == "bob"
    assert found.certificate("bob") == found.certificate(1) == found.certificate(np.int64(-2)) == found.certificates[1]
    assert found.changes("bob") == found.changes(1)
    assert steps_of(found, "bob").row == "bob"


def test_a_label_means_the_best_answer_of_its_row():
    after = BEFORE.iloc[[1, 0, 0]].assign(income=[7000.0, 6500.0, 6000.0])
    place, wanted = np.array([1, 0, 0]), np.asarray(["yes"] * 4)
    found = Explanation.of(
        loans.task(), BEFORE, after, place, rank=np.array([1, 2, 1]), method="by hand", wanted=wanted
    )
    assert found.certificate("ann") == found.certificates[2]


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("bob", r"row bob: has no answer, and it is proved that there is none \(impossible\)\."),
        ("cid", r"row cid: has no answer: none was found \(not_found\)"),
        ("dot", "row dot: already has the target outcome, so there is no answer for it"),
        ("don", "row don: no row has this label. Did you mean 'dot'"),
        (("ann", 1), "no row has this label"),
        (1, "answer 1: does not exist: there is one, number 0"),
    ],
)
def test_a_row_without_an_answer_is_named_with_its_status(which, message):
    with pytest.raises(DataError, match=message):
        explained_in_part().certificate(which)


def test_a_whole_number_is_never_a_label_and_the_error_says_what_that_row_has():
    found = explained_in_part()
    numbered = replace(found, rows=found.rows.set_axis([50_000, 50_001, 50_002, 0], axis=0))
    assert numbered.certificate(0).row == 50_000
    with pytest.raises(DataError, match=r"The row with the label 50000 has answer 0\."):
        numbered.certificate(50_000)
    with pytest.raises(DataError, match="The row with the label 50001 has no answer"):
        numbered.certificate(50_001)


def test_a_label_of_several_rows_names_no_answer():
    found = explained_in_part()
    twins = replace(found, rows=found.rows.set_axis(["ann", "ann", "cid", "dot"], axis=0))
    with pytest.raises(DataError, match="row ann: 2 rows have this label"):
        twins.certificate("ann")


def test_a_folder_that_is_not_there_is_named_by_every_writer(tmp_path):
    found, path = answered(), tmp_path / "nodir" / "x.html"
    for write in (found.to_html, found.to_json, found.to_parquet):
        with pytest.raises(DataError, match=f"there is no folder {re.escape(str(path.parent))}. Create it first"):
            write(path)
    assert not list(tmp_path.iterdir())


def test_reasons_come_back_from_json():
    again = WhyNot.from_dict(json.loads(json.dumps(REASON.to_dict())))
    assert again == REASON
    assert again.relaxation is not None
    assert again.relaxation.is_advice
    tuple_label = WhyNot(("a", 1), "not_found", (), None, "Nothing helps.")
    assert WhyNot.from_dict(json.loads(json.dumps(tuple_label.to_dict()))) == tuple_label


def test_reasons_stand_in_words_beside_their_rows():
    found = explained_in_part({1: REASON})
    assert found.why_not.to_dict() == {"ann": None, "bob": REASON.words, "cid": None, "dot": None}
    assert found.frame["why_not"].tolist()[1] == REASON.words
    assert found.frame["why_not"].isna().tolist() == [True, False, True, True]
    assert found.frame.columns[:11].tolist()[-2:] == ["changed", "why_not"]
    assert "why_not" not in explained_in_part().frame


def test_json_carries_reasons():
    data = json.loads(explained_in_part({1: REASON}).to_json())
    assert [row.get("why_not") for row in data["rows"]] == [None, REASON.to_dict(), None, None]


def test_reasons_are_dropped_where_they_no_longer_hold():
    found = explained_in_part({1: REASON})
    same = Task(found.task.train, found.task.classifier, schema=found.task.schema, rules=loans.RULES)
    assert found.under(same).reasons == {1: REASON}
    assert found.under(loans.task(rules="")).reasons == {}


@pytest.mark.parametrize("features", [1, 30, 31, 95])
def test_changed_features_are_named_in_tables_of_any_width(features):
    rng = np.random.default_rng(features)
    changed, names = rng.random((200, features)) < 0.05, tuple(f"f{i}" for i in range(features))
    expected = [", ".join(n for n, yes in zip(names, line, strict=True) if yes) for line in changed]
    assert changed_names(changed, names).tolist() == expected
    assert changed_names(changed[:0], names).tolist() == []
