"""Verification: a file of answers that is as it should be passes, and whatever was changed about it is found."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loans
import plain_answers
from effort import examples
from fcxplain import FCx, Task
from fcxplain.cli import main
from fcxplain.errors import DataError, FormatError, SchemaError
from fcxplain.explanation import Explanation, Status, WhyNot, read_answers
from fcxplain.explanation.files.digest import DIGEST, Digest
from fcxplain.explanation.files.parquet import KEY, write_answers
from fcxplain.explanation.files.verification import Verification, verify
from fcxplain.overrides import Overrides, as_table

ROWS = loans.table(30, seed=5)
TASK = loans.task()
FOUND = plain_answers.explain(TASK, ROWS, k=2)


@pytest.fixture
def path(tmp_path) -> Path:
    write_answers(FOUND, tmp_path / "answers.parquet")
    return tmp_path / "answers.parquet"


def edited(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame | None]) -> Verification:
    """What verification says of the file after somebody has edited its lines."""
    table = pq.read_table(path)
    lines = pd.DataFrame({name: pd.Series(table[name].to_pylist(), dtype=object) for name in table.column_names})
    after = change(lines)
    lines = (lines if after is None else after).reset_index(drop=True)
    arrays = [pa.array(lines[f.name].tolist(), f.type) for f in table.schema]
    pq.write_table(pa.Table.from_arrays(arrays, schema=table.schema), path)
    return verify(TASK, ROWS, path)


def assert_only(found: Verification, *fields: str) -> None:
    assert not found.passed
    assert set(found.fields) == set(fields)
    assert found.total == sum(found.fields.values())


def certificate(lines: pd.DataFrame, line: int, **changes: object) -> None:
    lines.at[line, "certificate"] = json.dumps(json.loads(lines.at[line, "certificate"]) | changes)


# Line 0 is about row 0, which has an answer.
FIRST = int(np.flatnonzero(FOUND.frame["rank"].notna())[0])
BARE = int(np.flatnonzero(FOUND.frame["status"] == "not_found")[0])
NOBODY = int(np.flatnonzero(FOUND.row_status == "not_found")[0])
ALREADY = int(np.flatnonzero(FOUND.frame["status"] == "already")[0])


def test_whether_a_row_was_cut_short_is_kept_and_asked_of_no_file_that_does_not_tell(tmp_path):
    ended = np.arange(len(ROWS)) % 3 == 0
    write_answers(replace(FOUND, cut_short=ended), tmp_path / "new.parquet")
    assert verify(TASK, ROWS, tmp_path / "new.parquet").passed
    kept = read_answers(tmp_path / "new.parquet", TASK).cut_short
    answered = np.unique(FOUND.place)
    assert np.array_equal(kept[answered], ended[answered])
    silent = edited(tmp_path / "new.parquet", lambda lines: certificate(lines, FIRST, cut_short="hardly"))
    assert_only(silent, "certificate: cut_short")
    write_answers(FOUND, tmp_path / "old.parquet")
    assert read_answers(tmp_path / "old.parquet", TASK).cut_short is None


def test_a_file_as_it_was_written_passes(path):
    found = verify(TASK, ROWS, path)
    assert found.passed
    assert found.differences == ()
    assert (found.rows, found.answers, dict(found.counts)) == (30, len(FOUND.answers), FOUND.counts)
    assert "30 rows" in str(found)
    assert "everything that was recomputed agrees" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["passed"] is True


def test_an_edited_value_is_found(path):
    def change(lines):
        lines.at[FIRST, "income"] = 8999.5

    found = edited(path, change)
    assert {"certificate: changes", "certificate: probability", "probability", "cost"} <= set(found.fields)
    assert found.differences[0].row == FOUND.frame["row"].iloc[FIRST]
    assert found.differences[0].rank == 1


def test_an_answer_that_keeps_the_rules_no_more_is_found(path):
    def change(lines):
        lines.at[FIRST, "age"] = 18

    found = edited(path, change)
    assert {"status", "certificate: feasible", "certificate: rules", "certificate: passed"} <= set(found.fields)


@pytest.mark.parametrize("by", [0.001, -0.001])
def test_an_edited_probability_is_found(by, path):
    def change(lines):
        lines.at[FIRST, "probability"] += by
        certificate(lines, FIRST + 1, probability=lines.at[FIRST + 1, "probability"] + by)

    assert_only(edited(path, change), "probability", "certificate: probability")


def test_a_probability_may_differ_in_the_last_digits(path):
    def change(lines):
        lines.at[FIRST, "probability"] += 1e-6
        certificate(lines, FIRST, probability=lines.at[FIRST, "probability"] + 1e-6)

    assert edited(path, change).differences == ()


@pytest.mark.parametrize(
    ("line", "status", "fields"),
    [
        (FIRST, "best_effort", {"status"}),
        (BARE, "already", {"status", "counts"}),
        (BARE, "verified", {"status", "counts"}),
        (BARE, "splendid", {"status", "counts"}),
        (ALREADY, "not_found", {"status", "counts"}),
        (ALREADY, "impossible", {"status", "counts"}),
    ],
)
def test_an_edited_status_is_found(line, status, fields, path):
    def change(lines):
        lines.at[line, "status"] = status

    assert_only(edited(path, change), *fields)


def test_a_claim_that_a_row_is_impossible_is_counted_and_said(path):
    def change(lines):
        lines.at[BARE, "status"] = "impossible"

    found = edited(path, change)
    assert found.unproved == 1
    assert "not proved again: 1 said to be impossible" in str(found)
    # The statuses that the file counts are not the ones it has any more.
    assert_only(found, "counts")


FIELDS = {
    "row": "somebody else",
    "rank": 7,
    "status": "best_effort",
    "method": "magic",
    "wanted": "no",
    "predicted": "no",
    "valid": False,
    "feasible": 1,
    "in_domain": None,
    "immutables_kept": False,
    "cost": 0.0,
    "changes": [],
    "rules": [],
    "lof": 17.0,
    "draws": 99,
    "calls": 99,
    "model": "0" * 16,
    "rules_id": "0" * 16,
    "passed": False,
    "extra": "more",
}


def test_every_field_of_a_certificate_is_compared(path):
    places = np.flatnonzero(FOUND.frame["rank"].notna())[: len(FIELDS)].tolist()

    def change(lines):
        for line, (name, value) in zip(places, FIELDS.items(), strict=True):
            certificate(lines, line, **{name: value})

    found = edited(path, change)
    assert_only(found, *(f"certificate: {name}" for name in FIELDS))
    told = {(d.row, d.rank, d.field.removeprefix("certificate: ")) for d in found.differences}
    frame = FOUND.frame.iloc[places]
    assert told == set(zip(frame["row"], frame["rank"], FIELDS, strict=True))


def test_a_certificate_without_lof_is_counted(path):
    found = edited(path, lambda lines: certificate(lines, FIRST, lof=None))
    assert found.total == 0
    assert found.without_lof == 1
    assert "certificates without a LOF to compare: 1" in str(found)


def test_certificates_that_cannot_be_read_are_found(path):
    texts = ["no JSON", "{", "[1]", "null", "", None]
    places = np.flatnonzero(FOUND.frame["rank"].notna())[: len(texts)]

    def change(lines):
        lines.loc[places, "certificate"] = texts

    found = edited(path, change)
    assert_only(found, "certificate: whole")
    assert [d.stored for d in found.differences] == texts


def test_a_swapped_row_is_found(path):
    def change(lines):
        order = list(range(len(lines)))
        order[ALREADY], order[BARE] = BARE, ALREADY
        return lines.iloc[order]

    assert_only(edited(path, change), "order")


def test_an_altered_row_is_found(path):
    def change(lines):
        lines.at[ALREADY, "now: age"] -= 1
        lines.at[FIRST, "now: job"] = "smith" if lines.at[FIRST, "now: job"] != "smith" else "cook"

    assert_only(edited(path, change), "now: age", "now: job")


@pytest.mark.parametrize("line", [FIRST, FIRST + 1, BARE])
def test_a_removed_line_is_found(line, path):
    found = edited(path, lambda lines: lines.drop(index=line))
    assert not found.passed
    assert any(d.row == FOUND.frame["row"].iloc[line] for d in found.differences)


def test_a_removed_row_is_found(path):
    label = FOUND.frame["row"].iloc[FIRST]
    found = edited(path, lambda lines: lines[lines["row"] != label])
    assert_only(found, "row", "rows", "counts")
    assert [d.found for d in found.differences if d.stored == "(absent)"] == [label]


@pytest.mark.parametrize("line", [FIRST, FIRST + 1, BARE])
def test_an_added_line_is_found(line, path):
    found = edited(path, lambda lines: pd.concat([lines.iloc[: line + 1], lines.iloc[line:]]))
    assert not found.passed


def test_an_added_row_is_found(path):
    def change(lines):
        more = lines.iloc[[BARE]].assign(row="nobody")
        return pd.concat([lines, more])

    assert_only(edited(path, change), "row", "rows", "counts")


def test_another_model_is_found(path):
    other = Task(TASK.train, lambda t: loans.chance(t) ** 2, schema=TASK.schema, rules=loans.RULES, **YES)
    found = verify(other, ROWS, path)
    assert found.fields["certificate: model"] == len(FOUND.answers)
    assert found.fields["certificate: probability"] == len(FOUND.answers)


YES = {"target": "yes", "classes": ("no", "yes")}


@pytest.mark.parametrize("rules", ["", loans.RULES + "\nage' <= age", "age' >= age"])
def test_other_rules_are_found(rules, path):
    found = verify(loans.task(rules), ROWS, path)
    assert found.fields["certificate: rules_id"] == len(FOUND.answers)
    assert found.fields["certificate: rules"] == len(FOUND.answers)


def test_another_model_and_other_rules_are_found_where_nobody_has_an_answer(tmp_path):
    rows = ROWS[~TASK.refused(ROWS)]
    write_answers(plain_answers.explain(TASK, rows), tmp_path / "a.parquet")
    assert verify(TASK, rows, tmp_path / "a.parquet").passed
    assert_only(verify(loans.task(""), rows, tmp_path / "a.parquet"), "rules")
    kinder = Task(TASK.train, lambda t: loans.chance(t) ** 0.5, schema=TASK.schema, rules=loans.RULES, **YES)
    assert_only(verify(kinder, rows, tmp_path / "a.parquet"), "model", "probability_now")


def test_other_rows_are_found(path):
    assert "row" in verify(TASK, ROWS.iloc[1:], path).fields
    assert (
        "row"
        in verify(TASK, pd.concat([ROWS, loans.table(3).add_suffix("", axis=0).rename("new {}".format)]), path).fields
    )
    older = ROWS.assign(age=ROWS["age"] + 1)
    assert verify(TASK, older, path).fields["now: age"] == len(FOUND.frame)
    unreadable = verify(TASK, ROWS.assign(age=-1), path)
    assert unreadable.fields["status"] == unreadable.fields["now: age"] == len(FOUND.frame)
    with pytest.raises(SchemaError, match="column 'age': is not in the table"):
        verify(TASK, ROWS.drop(columns="age"), path)


def test_the_same_numbers_in_another_dtype_are_the_same_rows(path):
    assert verify(TASK, ROWS.astype({"age": float, "job": "category"}), path).passed


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
def test_a_truncated_file_is_refused(share, path):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(FormatError, match=r"answers\.parquet does not hold answers"):
        verify(TASK, ROWS, path)


def test_what_the_file_says_of_itself_must_be_complete(path):
    table = pq.read_table(path)
    for name in ("method", "notes", "effort", "draws", "labels", "rows", "counts", "model", "rules"):
        about = json.loads(table.schema.metadata[KEY])
        del about[name]
        pq.write_table(table.replace_schema_metadata({KEY: json.dumps(about).encode()}), path)
        with pytest.raises(FormatError, match=name):
            verify(TASK, ROWS, path)


def test_rules_of_single_rows_are_verified_too(path):
    own = pd.DataFrame({"freeze": ["job"], "rules": ["income' <= 8500"]}, index=[ROWS.index[FOUND.place[0]]])
    kept = Overrides.read(own, ROWS, TASK)
    found = Explanation.of(
        TASK,
        ROWS,
        FOUND.answers,
        FOUND.place,
        method="plain",
        wanted=FOUND.wanted,
        without=FOUND.row_status,
        own=kept,
    )
    write_answers(found, path)
    assert verify(TASK, ROWS, path).passed

    def change(lines):
        at = lines.index[lines["own"].notna()][0]
        lines.loc[lines["row"] == lines.at[at, "row"], "own"] = None

    assert {"certificate: rules", "certificate: rules_id"} <= set(edited(path, change).fields)


def test_a_row_with_a_target_of_its_own_is_held_to_that(tmp_path):
    rows = ROWS[~TASK.refused(ROWS)].iloc[:3]
    own = Overrides.read(pd.DataFrame({"target": ["no"]}, index=rows.index[:1]), rows, TASK)
    after = rows.iloc[:1].assign(income=0.0, job="cook")
    told = {"method": "x", "wanted": np.asarray(["no", "yes", "yes"]), "without": np.full(3, Status.ALREADY)}
    found = Explanation.of(TASK, rows, after, np.asarray([0]), own=own, **told)
    write_answers(found, tmp_path / "a.parquet")
    assert verify(TASK, rows, tmp_path / "a.parquet").passed
    write_answers(replace(found, own=None), tmp_path / "a.parquet")
    assert {"wanted", "certificate: wanted"} <= set(verify(TASK, rows, tmp_path / "a.parquet").fields)


def test_rows_with_labels_that_repeat_are_told_by_their_order(tmp_path):
    rows = ROWS.set_axis(["same"] * len(ROWS), axis=0)
    write_answers(plain_answers.explain(TASK, rows), tmp_path / "a.parquet")
    assert verify(TASK, rows, tmp_path / "a.parquet").passed
    assert not verify(TASK, rows.iloc[::-1], tmp_path / "a.parquet").passed
    assert not verify(TASK, rows.iloc[:-1], tmp_path / "a.parquet").passed


def test_answers_of_a_row_stay_together_however_the_file_is_cut(path):
    for size in (2, 7):
        pq.write_table(pq.read_table(path), path, row_group_size=size)
        assert verify(TASK, ROWS, path).passed


def test_few_differences_are_kept_and_all_are_counted(path):
    found = verify(TASK, ROWS.assign(age=ROWS["age"] + 1, income=ROWS["income"] + 1), path)
    assert len(found.differences) == 100
    assert found.total > 100
    assert f"and {found.total - 10:,} more" in str(found)


@given(st.data())
@examples(15)
def test_no_edit_of_a_cell_goes_unnoticed(data):
    """Whatever cell is replaced by that of another line, unless it says the same, is found."""
    table = pq.read_table(WHOLE)
    name = data.draw(st.sampled_from(table.column_names))
    values = table[name].to_pylist()
    line, other = (data.draw(st.integers(0, len(values) - 1)) for _ in range(2))
    is_same = values[line] == values[other]
    values[line] = values[other]
    at = table.column_names.index(name)
    changed = table.set_column(at, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    pq.write_table(changed, WHOLE.with_name("changed.parquet"))
    assert verify(TASK, ROWS, WHOLE.with_name("changed.parquet")).passed == is_same


@pytest.fixture(scope="module", autouse=True)
def whole_file(tmp_path_factory):
    global WHOLE
    WHOLE = tmp_path_factory.mktemp("whole") / "answers.parquet"
    write_answers(replace(FOUND), WHOLE)


def test_bare_rows_of_every_status_pass(tmp_path):
    rows = ROWS[TASK.refused(ROWS)].iloc[:3]
    status = np.asarray([Status.NOT_FOUND, Status.IMPOSSIBLE, Status.TIMED_OUT])
    nobody = np.empty(0, dtype=np.int64)
    none = Explanation.of(TASK, rows, rows.iloc[:0], nobody, method="x", wanted=np.full(3, "yes"), without=status)
    write_answers(none, tmp_path / "a.parquet")
    found = verify(TASK, rows, tmp_path / "a.parquet")
    assert found.passed
    assert found.unproved == 1


# What no computation can tell is told by the digest

OWN = {ROWS.index[FOUND.place[0]]: {"freeze": "job", "rules": "income' <= 8500"}}
SECRET = bytes(range(32))


def remade(found: Explanation, kept: np.ndarray | None = None, **changes: object) -> Explanation:
    """The explanation with some of its answers alone, or with other facts beside them, all checked as ever."""
    kept = np.ones(len(found.answers), dtype=bool) if kept is None else kept
    told = {name: getattr(found, name) for name in ("method", "wanted", "own", "reasons", "calls", "effort", "notes")}
    told |= {"without": found.row_status, "found_by": found.found_by[kept], "draws": found.draws}
    return Explanation.of(TASK, ROWS, found.answers[kept], found.place[kept], **(told | changes))


def bereft(found: Explanation, status: Status) -> Explanation:
    """The last row with an answer has none any more, and another status."""
    last = found.place[-1]
    without = np.where(np.arange(len(ROWS)) == last, status, found.row_status)
    return remade(found, found.place != last, without=without)


WITNESS = remade(
    FOUND,
    own=Overrides.read(pd.DataFrame.from_dict(OWN, orient="index"), ROWS, TASK),
    reasons={NOBODY: WhyNot(ROWS.index[NOBODY], "not_found", (), None, "nothing helps")},
)
INVENTED = pd.DataFrame({"rules": ["income' <= 8900"]}, index=[ROWS.index[FOUND.place[-1]]])
FORGED: dict[str, Callable[[Explanation], Explanation]] = {
    "verified to impossible": lambda e: bereft(e, Status.IMPOSSIBLE),
    "verified to not_found": lambda e: bereft(e, Status.NOT_FOUND),
    "not_found to impossible": lambda e: remade(
        e, without=np.where(e.row_status == "not_found", "impossible", e.row_status)
    ),
    "one of two answers deleted": lambda e: remade(e, np.arange(len(e.answers)) != len(e.answers) - 1),
    "why_not rewritten": lambda e: replace(e, reasons={k: replace(r, words="ask") for k, r in e.reasons.items()}),
    "why_not dropped": lambda e: replace(e, reasons={}),
    "overrides dropped": lambda e: remade(e, own=None),
    "overrides invented": lambda e: remade(e, own=Overrides.read(INVENTED, ROWS, TASK)),
    "found_by": lambda e: replace(e, found_by=np.full(len(e.answers), "magic")),
    "notes": lambda e: replace(e, notes=("nothing to see",)),
    "effort": lambda e: replace(e, effort=replace(e.effort, seconds=0.001)),
    "calls": lambda e: replace(e, calls=e.calls + 1),
    "draws": lambda e: replace(e, draws=3),
    "method": lambda e: replace(e, method="magic"),
    "soft_valid": lambda e: replace(e, soft_valid=np.ones(len(e.answers), dtype=bool)),
    "cut_short": lambda e: replace(e, cut_short=np.ones(len(e), dtype=bool)),
}


def digest_of(path: Path) -> bytes:
    return pq.read_schema(path).metadata[DIGEST]


def with_metadata(path: Path, **entries: bytes | None) -> None:
    """The file with other metadata, each line as it was; an entry that is None is gone."""
    table = pq.read_table(path)
    told = {**table.schema.metadata, **{name.encode(): value for name, value in entries.items()}}
    pq.write_table(table.replace_schema_metadata({k: v for k, v in told.items() if v is not None}), path)


@pytest.mark.parametrize(
    ("kind", "key"), [(kind, None) for kind in FORGED] + [(kind, SECRET) for kind in list(FORGED)[:2]]
)
def test_what_cannot_be_computed_again_is_told_by_the_digest(kind, key, tmp_path):
    path = tmp_path / "answers.parquet"
    write_answers(WITNESS, path, key=key)
    assert verify(TASK, ROWS, path, key=key).passed
    told = digest_of(path)
    write_answers(FORGED[kind](WITNESS), path, key=key)
    with_metadata(path, **{DIGEST.decode(): told})
    found = verify(TASK, ROWS, path, key=key)
    assert found.total == 0, "a new certificate for everything that was edited"
    assert not found.passed
    assert found.digest.state == "changed"
    assert "changed after the file was written" in str(found)


def test_the_digest_names_what_was_changed(path):
    write_answers(WITNESS, path)
    told = digest_of(path)
    named = {
        "why_not rewritten": {"column 'why_not'"},
        "found_by": {"column 'certificate'"},
        "notes": {"metadata 'fcxplain'"},
        "not_found to impossible": {"column 'status'", "metadata 'fcxplain'"},
        "one of two answers deleted": {"the number of lines"},
    }
    for kind, parts in named.items():
        write_answers(FORGED[kind](WITNESS), path)
        with_metadata(path, **{DIGEST.decode(): told})
        assert set(verify(TASK, ROWS, path).digest.changed) == parts


def test_columns_and_metadata_of_others_are_found(path):
    table = pq.read_table(path)
    for extra in (pa.array(["approved"] * len(table)), pa.array([{"a": [1]}] * len(table))):
        pq.write_table(table.append_column("comment", extra), path)
        found = verify(TASK, ROWS, path)
        assert (found.passed, found.total, found.digest.changed) == (False, 0, ("column 'comment'",))
    pq.write_table(table, path)
    with_metadata(path, comment=b"approved")
    assert verify(TASK, ROWS, path).digest.changed == ("metadata 'comment'",)


def test_metadata_that_only_other_readers_see_are_found(path):
    table = pq.read_table(path)
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"fcxplain": "{}"})
    assert pq.read_schema(path).metadata == table.schema.metadata
    assert verify(TASK, ROWS, path).digest.state == "changed"


def test_the_layout_of_a_file_does_not_count(path):
    table = pq.read_table(path)
    packed = table.schema.get_field_index("certificate")
    table = table.set_column(packed, table.schema.field(packed), table["certificate"].combine_chunks())
    for settings_ in ({"compression": "snappy"}, {"row_group_size": 7}, {"use_dictionary": False, "version": "2.4"}):
        pq.write_table(table, path, **settings_)
        assert verify(TASK, ROWS, path).digest.state == "matches"
    wide = Digest(table.schema)
    wide.update(table.slice(0, 5))
    wide.update(table.slice(5))
    assert wide.check(digest_of(path)).holds
    for kind in (pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        other = table.set_column(2, pa.field("status", kind), table["status"].cast(kind))
        again = Digest(other.schema)
        again.update(other)
        assert again.check(digest_of(path)).holds


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=8), st.integers(0, 8))
@examples(50)
def test_no_two_columns_share_a_digest(texts, cut):
    def digest(values, cut=cut):
        found = Digest(pa.schema([pa.field("a", pa.string())]))
        for part in (values[:cut], values[cut:]):
            found.update(pa.table({"a": pa.array(part, pa.string())}))
        return found.stored()

    assert digest(texts) == digest(texts, 0)
    for other in ([*texts, None], [*texts, ""], [*texts[:-1], "x"], ["".join(t or "" for t in texts)]):
        assert (digest(other) == digest(texts)) == (other == texts)


def test_a_file_that_is_read_and_saved_again_verifies(path):
    for key in (None, SECRET):
        write_answers(WITNESS, path)
        read_answers(path, TASK).to_parquet(path, key=key)
        assert verify(TASK, ROWS, path, overrides=OWN, key=key).passed


@pytest.mark.parametrize("key", [None, SECRET])
def test_a_digest_that_was_taken_away_is_missed(key, path):
    with_metadata(path, **{DIGEST.decode(): None})
    found = verify(TASK, ROWS, path, key=key)
    assert (found.total, found.passed, found.digest.state) == (0, False, "missing")
    assert "it is unknown whether something was edited" in str(found)


UNREADABLE = [
    *(b"", b"no JSON", b"\xff", b"[]", b"{}", b"3"),
    b'{"algorithm": "sha256", "parts": 3, "whole": 1}',
    b'{"algorithm": "sha256", "parts": [[1, 2]], "whole": ""}',
    b'{"algorithm": "sha256", "parts": {}, "whole": "\\ud800"}',
]


@pytest.mark.parametrize("told", UNREADABLE)
def test_a_digest_that_cannot_be_read_is_a_changed_one(told, path):
    with_metadata(path, **{DIGEST.decode(): told})
    found = verify(TASK, ROWS, path)
    assert (found.passed, found.digest.changed) == (False, ("the digest itself",))


def test_only_the_key_opens_what_was_written_with_one(path):
    FOUND.to_parquet(path, key=SECRET)
    right, none, wrong = (verify(TASK, ROWS, path, key=key) for key in (SECRET, None, SECRET[::-1]))
    assert (right.passed, right.digest.state) == (True, "matches")
    assert "unchanged since an owner of the key wrote it" in str(right)
    assert (none.passed, none.digest.state) == (True, "key not given")
    assert "Only the key" in str(none)
    assert (wrong.passed, wrong.digest.state) == (False, "wrong key")
    assert "was made with another key than the one given" in str(wrong)
    FOUND.to_parquet(path)
    plain = verify(TASK, ROWS, path, key=SECRET)
    assert (plain.passed, plain.digest.state) == (False, "made without a key")


def test_a_digest_made_anew_deceives_nobody_who_has_the_key(path):
    FOUND.to_parquet(path, key=SECRET)
    kept = json.loads(digest_of(path))
    write_answers(FORGED["notes"](FOUND), path)
    # All that can be made without the key, beside what only the key makes.
    anew = json.loads(digest_of(path)) | {"algorithm": kept["algorithm"], "whole": kept["whole"]}
    with_metadata(path, **{DIGEST.decode(): json.dumps(anew).encode()})
    assert verify(TASK, ROWS, path, key=SECRET).digest.state == "wrong key"


@pytest.mark.parametrize("key", [b"", b"too short", "a text of more than sixteen letters"])
def test_a_key_that_can_be_none_is_refused(key, path):
    for use in (lambda: FOUND.to_parquet(path, key=key), lambda: verify(TASK, ROWS, path, key=key)):
        with pytest.raises(DataError, match=r"key: .*16 random bytes or more"):
            use()


@pytest.mark.parametrize(
    "labels",
    [pd.date_range("2024-01-01", periods=30, unit=u) for u in ("s", "ms", "us", "ns")]
    + [pd.RangeIndex(30), pd.Index(np.arange(30) / 8), pd.MultiIndex.from_product([["a"], range(30)])],
    ids=["s", "ms", "us", "ns", "whole", "fractions", "pairs"],
)
def test_labels_of_any_kind_have_a_digest(labels, path):
    rows = ROWS.set_axis(labels, axis=0)
    write_answers(plain_answers.explain(TASK, rows), path)
    assert verify(TASK, rows, path).digest.state == "matches"


def test_files_without_lines_have_a_digest(path):
    write_answers(plain_answers.explain(TASK, ROWS.iloc[:0]), path)
    assert verify(TASK, ROWS.iloc[:0], path).digest.state == "matches"


def test_answers_of_a_search_have_one_digest_however_they_are_written(tmp_path):
    task = loans.task(f"{loans.RULES}\njob' == job\nincome' <= 1.3 * income + 300")
    fcx, rows = FCx(generator=False).fit(task), loans.table(25, seed=4)
    rows.to_parquet(tmp_path / "rows.parquet")
    first, second, third = rows.index[task.refused(rows)][:3]
    own = {first: {"freeze": "age"}, second: {"difficulty": {"age": 2}}, third: {"age": "20..40"}}
    wishes = {"k": 3, "why_not": True, "best_effort": True, "overrides": own}
    whole = fcx.explain(rows, **wishes)
    assert whole.reasons
    assert {"verified", "best_effort", "impossible"} <= whole.counts.keys()
    whole.to_parquet(tmp_path / "whole.parquet", key=SECRET)
    read_answers(tmp_path / "whole.parquet", task).to_parquet(tmp_path / "again.parquet", key=SECRET)
    for chunk in (9,):
        fcx.explain_file(tmp_path / "rows.parquet", tmp_path / f"{chunk}.parquet", chunk=chunk, key=SECRET, **wishes)
    parts = []
    for name in ("whole", "again", "9"):
        file = tmp_path / f"{name}.parquet"
        assert verify(task, rows, file, overrides=own, key=SECRET).passed
        parts.append(json.loads(digest_of(file))["parts"])
        # How long it took differs from run to run.
        del parts[-1]["metadata 'fcxplain'"]
    assert all(part == parts[0] for part in parts)


# Overrides that were given


def test_the_file_is_held_against_the_overrides_that_were_given(path):
    write_answers(WITNESS, path)
    assert verify(TASK, ROWS, path, overrides=OWN).passed
    assert " overrides," not in str(verify(TASK, ROWS, path, overrides=OWN))
    assert "own" in verify(TASK, ROWS, path, overrides={}).fields
    more = OWN | {"row 1": {"freeze": "age"}}
    assert [(d.row, d.stored) for d in verify(TASK, ROWS, path, overrides=more).differences if d.field == "own"] == [
        ("row 1", None)
    ]
    for kind in ("overrides dropped", "overrides invented"):
        write_answers(FORGED[kind](WITNESS), path)
        assert verify(TASK, ROWS, path).passed, "with a digest made anew"
        assert {"own", "certificate: rules", "certificate: rules_id"} <= set(
            verify(TASK, ROWS, path, overrides=OWN).fields
        )


def test_difficulties_are_held_against_those_given(path):
    own = {label: {"difficulty": {"age": 2}} for label in OWN}
    write_answers(remade(FOUND, own=Overrides.read(as_table(own), ROWS, TASK)), path)
    assert verify(TASK, ROWS, path, overrides=own).passed
    other = {label: {"difficulty": {"age": 3}} for label in OWN}
    assert_only(verify(TASK, ROWS, path, overrides=other), "own")


# The command


def command(*arguments: object, folder: Path) -> tuple[int, str]:
    """How `fcxplain` ends in this folder, and all that it prints with every run of blanks as one."""
    out, before = io.StringIO(), sys.argv
    sys.argv = ["fcxplain", *map(str, arguments)]
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
            pytest.raises(SystemExit) as ended,
        ):
            main()
    finally:
        sys.argv = before
    return int(ended.value.code or 0), re.sub(r"\s+", " ", out.getvalue())


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    """A folder with rows, a model fitted to them, and its answers."""
    folder = tmp_path_factory.mktemp("shop")
    table = loans.table(200).reset_index(drop=True)
    table.assign(approved=np.where(loans.chance(table) > 0.5, "yes", "no")).to_csv(folder / "loans.csv", index=False)
    (folder / "my.rules").write_text("age' >= age")
    own = ("--data", "loans.csv", "--label", "approved", "--target", "yes", "--rules", "my.rules", "--as-published")
    code, said = command("fit", *own, "--epochs", 1, "--out", "model", folder=folder)
    assert code == 0, said
    code, said = command("explain", "model", "loans.csv", "--out", "answers.parquet", folder=folder)
    assert code == 0, said
    return folder


def test_the_command_passes_what_the_model_itself_has_written(shop):
    code, said = command("verify", "model", "loans.csv", "answers.parquet", folder=shop)
    assert (code, "verified: all answers and certificates hold" in said) == (0, True), said
    assert (
        "digest: matches. It has no key: it detects accidental damage and careless edits, but anyone who edits" in said
    )
    assert "not recomputed: rows without (further) answers, why_not, overrides, found_by" in said
    assert "200 rows" in said
    code, said = command("verify", "model", "loans.csv", "answers.parquet", "--json", folder=shop)
    told = json.loads(said)
    assert (code, told["passed"], told["digest"]["state"]) == (0, True, "matches")


def test_the_command_tells_what_the_digest_says(shop, tmp_path):
    table = pq.read_table(shop / "answers.parquet")
    pq.write_table(table.append_column("comment", pa.nulls(len(table), pa.string())), tmp_path / "more.parquet")
    code, said = command("verify", "model", "loans.csv", tmp_path / "more.parquet", folder=shop)
    assert (code, "NOT VERIFIED: answers and certificates hold, the digest does not" in said) == (1, True), said
    assert "digest: does not match: column 'comment' changed after the file was written." in said


def test_the_command_writes_and_checks_with_a_key(shop, tmp_path):
    (tmp_path / "key").write_bytes(SECRET)
    (tmp_path / "other").write_bytes(SECRET[::-1])
    (tmp_path / "short").write_bytes(b"abc")
    answers = tmp_path / "keyed.parquet"
    pd.read_csv(shop / "loans.csv").to_parquet(shop / "loans.parquet")
    for rows in ("loans.csv", "loans.parquet"):
        explain = ("explain", "model", rows, "--out", answers, "--key", tmp_path / "key")
        code, said = command(*explain, folder=shop)
        assert code == 0, said
        verify_ = ("verify", "model", rows, answers)
        for key, expected in {"key": (0, "matches, and was made with this key"), "other": (1, "another key")}.items():
            code, said = command(*verify_, "--key", tmp_path / key, folder=shop)
            assert (code, expected[1] in said) == (expected[0], True), said
        code, said = command(*verify_, folder=shop)
        assert (code, "was made with a key that was not given" in said) == (0, True), said
    for arguments, message in {
        (*verify_, "--key", tmp_path / "short"): "has 3 bytes. Give 16 random bytes or more",
        (*verify_, "--key", tmp_path / "none"): "cannot be read (No such file or directory)",
        ("explain", "model", "loans.csv", "--out", "a.csv", "--key", tmp_path / "key"): "is for answers in parquet",
        ("explain", "model", "loans.csv", "--key", tmp_path / "key"): "is for answers in parquet",
    }.items():
        code, said = command(*arguments, folder=shop)
        assert (code, message in said) == (2, True), said


def test_the_command_holds_the_file_against_overrides(shop, tmp_path):
    (tmp_path / "own.csv").write_text("row,freeze\n3,job\n")
    (tmp_path / "nobody.csv").write_text("row,freeze\n3,\n")
    verify_ = ("verify", "model", "loans.csv", "answers.parquet", "--overrides")
    assert command(*verify_, tmp_path / "nobody.csv", folder=shop)[0] == 0
    code, said = command(*verify_, tmp_path / "own.csv", folder=shop)
    assert (code, "own" in said, "NOT VERIFIED" in said) == (1, True, True), said


def test_the_command_lists_what_differs_and_ends_with_1(shop, tmp_path):
    table = pq.read_table(shop / "answers.parquet")
    wrong = [None if p is None else p / 2 for p in table["probability"].to_pylist()]
    at = table.column_names.index("probability")
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(wrong)), tmp_path / "wrong.parquet")
    code, said = command("verify", "model", "loans.csv", tmp_path / "wrong.parquet", folder=shop)
    count = sum(p is not None for p in wrong)
    assert code == 1
    assert f"NOT VERIFIED: {count:,} differences" in said
    assert "; the file claims:" in said
    assert f"and {count - 12:,} more; by field: probability {count:,}" in said
    code, said = command("verify", "model", "loans.csv", tmp_path / "wrong.parquet", "--json", folder=shop)
    told = json.loads(said)
    assert (code, told["passed"], told["total"], told["fields"]) == (1, False, count, {"probability": count})


def test_one_difference_is_told_in_the_singular(shop, tmp_path):
    table = pq.read_table(shop / "answers.parquet")
    wrong = table["probability"].to_pylist()
    first = next(i for i, p in enumerate(wrong) if p is not None)
    wrong[first] /= 2
    at = table.column_names.index("probability")
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(wrong)), tmp_path / "one.parquet")
    code, said = command("verify", "model", "loans.csv", tmp_path / "one.parquet", folder=shop)
    assert (code, "NOT VERIFIED: 1 difference " in said) == (1, True), said


def test_the_command_refuses_what_it_cannot_read_with_2(shop, tmp_path):
    (tmp_path / "text.parquet").write_text("no parquet")
    (tmp_path / "answers.csv").write_text("row,status")
    for arguments, message in {
        ("model", "loans.csv", tmp_path / "text.parquet"): "does not hold answers",
        ("model", "loans.csv", tmp_path / "answers.csv"): "from .parquet only. Explain with --out answers.parquet",
        ("model", "loans.csv", "none.parquet"): "there is no file",
        ("model", "none.csv", "answers.parquet"): "there is no file",
        ("none", "loans.csv", "answers.parquet"): "none",
    }.items():
        code, said = command("verify", *arguments, folder=shop)
        assert (code, message in said) == (2, True), said


def test_the_command_teaches_by_example(tmp_path):
    code, said = command("verify", "--help", folder=tmp_path)
    assert (code, "Example: fcxplain verify model rows.csv answers.parquet" in said) == (0, True)
