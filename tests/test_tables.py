"""A user's own table (tables, delimited, numerals): read rightly, or the error says what to do."""

import contextlib
import gzip
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcxplain.datasets import load_table, read_table
from fcxplain.datasets.delimited import MAX_LINE, guarded, unguarded
from fcxplain.encoding import TableEncoder
from fcxplain.errors import DataError, FcxError, FcxWarning, SchemaError
from fcxplain.schema import Feature, Schema

N = 40


def rows(count=N):
    """Lines of a small loan table: age, income, job, approved."""
    return [
        (20 + i % 30, 1000 + 37 * i, ("clerk", "driver", "nurse")[i % 3], ("no", "yes")[i % 2]) for i in range(count)
    ]


def lines(separator=",", count=N, header=("age", "income", "job", "approved")):
    return [separator.join(map(str, line)) for line in (header, *rows(count))]


@pytest.fixture
def write(tmp_path):
    def writing(content, name="loans.csv", encoding="utf-8"):
        path = tmp_path / name
        text = content if isinstance(content, str | bytes) else "\n".join(content) + "\n"
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return path

    return writing


def column(values, separator=";", label="y"):
    """A table of one feature beside a label of two classes."""
    body = [f"{value}{separator}{i % 2}" for i, value in enumerate(values)]
    return [f"x{separator}{label}", *body]


def whole(data):
    return pd.concat([data.train, data.validation, data.test]).sort_index()


def x_of(path, **settings):
    return read_table(path, **settings)["x"]


def test_plain_csv_becomes_a_data_set(write):
    data = load_table(write(lines()), label="approved", target="yes", immutable=["age"])
    assert data.name == "loans"
    assert len(data) == N
    assert (len(data.validation), len(data.test)) == (4, 4)
    assert data.features == ["age", "income", "job"]
    assert data.schema.immutable == ("age",)
    assert data.schema["income"].kind == "integer"
    assert data.target == "yes"
    assert data.classes == ("no", "yes")
    assert data.rules == {}
    assert data.notes == ()
    assert [tuple(r) for r in whole(data).itertuples(index=False)] == rows()
    assert TableEncoder().fit(data.schema, data.train).width_ == 5


def test_split_is_stratified_seeded_and_leaves_global_state_alone(write):
    path = write(lines(count=200))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, same, other = (load_table(path, label="approved", seed=s) for s in (1, 1, 2))
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert one.test.index.equals(same.test.index)
    assert not one.test.index.equals(other.test.index)
    assert one.test["approved"].value_counts().to_dict() == {"no": 10, "yes": 10}


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_separators_and_encodings_are_told_from_the_content(write, separator, encoding):
    path = write(lines(separator), encoding=encoding)
    pd.testing.assert_frame_equal(read_table(path), read_table(write(lines(), "plain.csv")))


@pytest.mark.parametrize("name", ["loans.tsv", "loans.txt", "loans.csv.gz"])
def test_other_endings_are_read_too(write, name):
    content = ("\n".join(lines("\t"))).encode()
    data = load_table(write(gzip.compress(content) if name.endswith("gz") else content, name), label="approved")
    assert len(data) == N
    assert data.notes == ("Fields are separated by tabs.",)


def test_quotes_hide_separators_and_line_breaks(write):
    body = [f'"a, b; c",{i},"two\nlines",{i % 2}' for i in range(20)]
    data = load_table(write(["text,n,note,y", *body]), label="y")
    assert data.schema["text"].levels == ("a, b; c",)
    assert data.schema["note"].levels == ("two\nlines",)
    assert "Constant, and so not useful: 'text', 'note'." in data.notes


def test_western_text_is_read_and_noted(write):
    body = [f"{('Bäcker', 'Müller')[i % 2]},{i},{i % 2}" for i in range(20)]
    data = load_table(write(["beruf,n,y", *body], encoding="cp1252"), label="y")
    assert data.schema["beruf"].levels == ("Bäcker", "Müller")
    assert "Read as cp1252." in data.notes


def test_excel_separator_line_is_obeyed(write):
    assert list(read_table(write(["sep=;", *lines(";")])).columns) == ["age", "income", "job", "approved"]


def test_separator_can_be_given(write):
    assert len(read_table(write(lines("~")), separator="~").columns) == 4
    assert len(read_table(write(lines("\t")), separator="\\t").columns) == 4
    with pytest.raises(DataError, match="not a single character"):
        read_table(write(lines()), separator=";;")
    with pytest.raises(DataError, match=r"comma or semicolon; specify one"):
        read_table(write(["a,b;c", "1,2;3", "3,4;5"]))


@pytest.mark.parametrize(
    ("values", "separator", "expected", "note"),
    [
        (['"1,234"', '"12,345"', "999"], ",", [1234, 12345, 999], "comma is read as the thousands"),
        (["1,234.50", "2,000.25", "3"], ";", [1234.5, 2000.25, 3], "comma is read as the thousands"),
        (["1.234,50", "2.000,25", "3"], ";", [1234.5, 2000.25, 3], "comma is read as the decimal"),
        (["1.234.567", "2.000", "3"], ";", [1234567, 2000, 3], "point is read as the thousands"),
        (["1,5", "2,25", "3"], ";", [1.5, 2.25, 3], "comma is read as the decimal"),
        (["0,125", "2,250"], ";", [0.125, 2.25], "comma is read as the decimal"),
        (["1 234,5", "2 345,5"], ";", [1234.5, 2345.5], "comma is read as the decimal"),
        (["1'234.5", "2'345.5"], ";", [1234.5, 2345.5], None),
        (["12 %", "7.5 %"], ";", [12, 7.5], "percent sign"),
        (["1e3", "-2.5E-1", "+3"], ";", [1000, -0.25, 3], None),
        (["1.234", "2.345"], ",", [1.234, 2.345], None),
        (["1.234", "2.345"], "|", [1.234, 2.345], None),
        (["7.4", "1.234"], ";", [7.4, 1.234], None),
    ],
)
def test_notations_of_numbers_are_understood(write, values, separator, expected, note):
    path = write(column(values * 10, separator))
    assert x_of(path).tolist() == expected * 10
    notes = load_table(path, label="y").notes
    assert note is None or any(note in n for n in notes)


@pytest.mark.parametrize(("value", "mark"), [("1,234", ","), ("1.234", ".")])
def test_ambiguous_numbers_are_an_error_with_the_two_options(write, value, mark):
    path = write(column([value, value.replace("1", "5"), "999"] * 5))
    with pytest.raises(DataError, match="numbers that can be read in two ways") as caught:
        read_table(path)
    fault = caught.value.faults[0]
    assert fault.place == "column 'x'"
    assert fault.problem == f"'{value}' may be 1234 or 1.234"
    assert f"thousands='{mark}'" in fault.remedy
    assert f"decimal='{mark}'" in fault.remedy
    assert x_of(path, thousands=mark)[0] == 1234
    assert x_of(path, decimal=mark)[0] == 1.234


def test_other_columns_tell_how_an_ambiguous_one_is_meant(write):
    european = write(["x;w;y", *[f"1,234;{i},5;{i % 2}" for i in range(20)]])
    assert x_of(european)[0] == 1.234
    english = write(["x;w;y", *[f"1,234;{i}.5;{i % 2}" for i in range(20)]])
    assert x_of(english)[0] == 1234


def test_points_and_commas_in_one_column_are_an_error(write):
    with pytest.raises(DataError, match=r"mixes decimal points and commas, e.g. '1,5', '2.5'"):
        read_table(write(column(["1,5", "2.5"] * 5)))


def test_settings_that_make_no_sense_are_refused(write):
    path = write(lines())
    for settings in ({"decimal": ";"}, {"thousands": "x"}, {"decimal": ",", "thousands": ","}):
        with pytest.raises(DataError, match=r"decimal|thousands"):
            read_table(path, **settings)


def test_codes_with_leading_zeros_stay_text(write):
    assert x_of(write(column(["007", "010", "100"] * 5))).tolist()[:2] == ["007", "010"]
    many = load_table(write(column([f"{i % 40:05}" for i in range(120)])), label="y")
    assert many.schema["x"].levels[:2] == ("00000", "00001")
    counts = Schema((Feature("x", "integer", low=0, high=99),))
    assert load_table(write(column(["007", "010", "100"[:2]] * 5)), label="y", schema=counts).train["x"].max() == 10


def test_leading_zeros_are_lost_where_a_column_also_has_fractions(write):
    mixed = load_table(write(column(["007", "1.5", "10"] * 10)), label="y")
    assert mixed.schema["x"].kind == "continuous"
    assert "Leading zeros are lost in 'x'." in mixed.notes


def test_true_and_false_are_booleans(write):
    data = load_table(write(column(["TRUE", "False"] * 10, label="ok")), label="ok")
    assert data.schema["x"].levels == (False, True)


@pytest.mark.parametrize("mark", ["?", "NA", "", "NaN", "null"])
def test_missing_values_are_dropped_and_counted_by_column(write, mark):
    content = lines(count=50)
    content[3] = f"{mark},1000,clerk,yes"
    content[4] = f"30,{mark},{mark},no"
    content[5] = f"{mark},1000,clerk,{mark}"
    with pytest.warns(FcxWarning) as told:
        data = load_table(write(content), label="approved")
    assert len(data) == 47
    assert data.notes[:2] == (
        "Dropped 1 of 50 rows without 'approved'.",
        "Dropped 2 of 50 rows with missing values (age 1, income 1, job 1). "
        "Models that accept gaps can keep them: boosting, or your own pipeline with an imputer.",
    )
    # Numbers have no levels, and an empty cell needs no explanation.
    named = (
        f"{mark!r} in 'job' is read as missing; if it is a level, add it to `levels` in the schema.",
        f"{mark!r} in 'approved' is read as missing; if it is a class, use another spelling in the file.",
    )
    assert data.notes[2:] == (named if mark else ())
    assert [str(warning.message) for warning in told] == [" ".join(data.notes)]
    assert told[0].filename == __file__
    assert data.train["age"].dtype == np.int64
    assert not {2, 3, 4} & set(whole(data).index)
    assert read_table(write(content)).isna().sum().sum() == 5


def test_a_mark_of_missing_values_can_be_a_level(write):
    path = write([line.replace("nurse", "n/a") for line in lines()])
    with pytest.warns(FcxWarning, match=r"\(job 13\)\. .*'n/a' in 'job' is read as missing; if it is a level, add it"):
        load_table(path, label="approved")
    job = Feature("job", "categorical", levels=("clerk", "driver", "n/a"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load_table(path, label="approved", schema=Schema((Feature("age", "integer"), job)))
    assert (whole(data)["job"] == "n/a").sum() == 13


def test_placeholders_are_missing_among_numbers_only(write):
    data = load_table(write(column([*range(30), "None", "-"])), label="y")
    assert len(data) == 30
    assert data.schema["x"].kind == "integer"
    text = load_table(write(column(["None", "some"] * 10)), label="y")
    assert text.schema["x"].levels == ("None", "some")


def test_columns_and_tables_without_values_are_named(write):
    with pytest.raises(DataError, match="column 'x': has no values at all"):
        load_table(write(column(["?"] * 20)), label="y")
    with pytest.raises(DataError, match="every row has a missing value"):
        load_table(write(["a;b;y", *[f"{'1?'[i % 2]};{'?1'[i % 2]};{i % 2}" for i in range(20)]]), label="y")


@pytest.mark.parametrize("bad", ["inf", "-Infinity"])
def test_infinite_numbers_are_refused(write, bad):
    with pytest.raises(SchemaError, match="is infinite"):
        load_table(write(column([*range(30), bad])), label="y")


def test_every_unusable_column_is_reported_at_once(write):
    body = [f"1/{i % 28 + 1}/2020;{i % 90 if i else 'none of them'};{i};{i % 2}" for i in range(3000)]
    with pytest.raises(SchemaError) as caught:
        load_table(write(["day;size;n;y", *body]), label="y")
    assert [f.place for f in caught.value.faults] == ["column 'day'", "column 'size'"]
    assert "ignore=['day', 'size']" in str(caught.value)


def test_columns_of_one_name_are_an_error(write):
    with pytest.raises(DataError, match="column 'age': occurs in the header more than once"):
        read_table(write(lines(header=("age", "income", "age", "approved"))))


def test_index_column_without_a_name_is_dropped_and_others_are_not(write):
    body = [f"{i},{i * i},{i % 2}," for i in range(20)]
    data = load_table(write([",n,y,", *body]), label="y")
    assert data.features == ["n"]
    assert sum("has no name" in n for n in data.notes) == 2
    with pytest.raises(DataError, match="column 1: has no name"):
        read_table(write([",n,y", *[f"{i * i},1,0" for i in range(9)]]))


def test_ragged_rows_are_all_numbered(write):
    content = lines()
    content[3] += ",more"
    content[7] = "1,2"
    with pytest.raises(DataError) as caught:
        read_table(write(content))
    assert [str(f) for f in caught.value.faults] == [
        "row 3: has 5 fields, the header has 4.",
        "row 7: has 2 fields, the header has 4.",
    ]


def test_quote_that_never_ends_is_an_error(write):
    content = lines()
    content[5] = '30,1000,"clerk,yes'
    with pytest.raises(DataError, match=r"never closed|do not fit"):
        read_table(write(content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b,y\n", "has a header but no rows"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "is not a text file"),
        (bytes(range(256)) * 4, "is not a text file"),
        (gzip.compress(b"a,y\n1,2\n", mtime=0)[:-5], "damaged gzip"),
        (b"PAR1 and nothing more", "cannot be read as parquet"),
    ],
)
def test_files_that_hold_no_table_are_refused(write, content, message):
    with pytest.raises(DataError, match=message):
        read_table(write(content))


def test_workbooks_are_sent_back(tmp_path):
    with zipfile.ZipFile(tmp_path / "book.xlsx", "w") as book:
        book.writestr("sheet", "x")
    with pytest.raises(DataError, match="save the sheet as CSV"):
        read_table(tmp_path / "book.xlsx")


def test_paths_that_lead_nowhere_are_refused(write, tmp_path):
    write(lines())
    with pytest.raises(DataError, match=r"Did you mean 'loans\.csv'\?"):
        read_table(tmp_path / "loan.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_table(tmp_path)


@pytest.mark.parametrize("count", [1, 4, 8])
def test_too_few_rows_to_split_are_refused(write, count):
    path = write(lines(count=count))
    assert len(read_table(path)) == count
    with pytest.raises(DataError, match="too few to split"):
        load_table(path, label="approved")


def test_label_faults_are_explained(write):
    path = write(lines())
    with pytest.raises(DataError, match=r"label 'aproved': is not a column\. Did you mean 'approved'\?"):
        load_table(path, label="aproved")
    with pytest.raises(DataError, match="has one class only, 'yes'"):
        load_table(write(["x,y", *[f"{i},yes" for i in range(20)]], "one.csv"), label="y")
    with pytest.raises(DataError, match="convert a number first"):
        load_table(write(["x,y", *[f"{i},{i}" for i in range(99)]], "many.csv"), label="y")


def test_target_is_matched_by_its_text(write):
    path = write(column(range(20)))
    assert load_table(path, label="y").target is None
    assert load_table(path, label="y", target="1").target == 1
    assert load_table(path, label="y", target=1).target == 1
    words = write(lines(), "words.csv")
    assert load_table(words, label="approved", target="Yes").target == "yes"
    with pytest.raises(DataError, match=r"target: 'yess' is not a class .*Did you mean 'yes'\? .*'no', 'yes'"):
        load_table(words, label="approved", target="yess")


def test_schema_can_be_given_or_read_from_toml(write, tmp_path):
    path = write(lines())
    schema = Schema(
        (
            Feature("age", "integer", low=18, high=99),
            Feature("job", "ordinal", levels=("driver", "clerk", "nurse")),
        )
    )
    toml = tmp_path / "schema.toml"
    schema.to_toml(toml)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load_table(path, label="approved", schema=schema, immutable=("age",))
    assert data.schema == schema.freeze("age")
    assert "Left out columns that are not in the schema: 'income'." in data.notes
    assert load_table(path, label="approved", schema=toml).schema == schema
    with pytest.raises(SchemaError, match="'approved'"):
        load_table(path, label="approved", schema=Schema((Feature("approved", "categorical"),)))
    with pytest.raises(SchemaError, match="below 25"):
        load_table(path, label="approved", schema=schema.replace("age", low=25))


def test_rows_are_read_as_the_schema_has_their_levels(write):
    schema = Schema(
        (
            Feature("code", "categorical", levels=("1", "2", "?")),
            Feature("tier", "ordinal", levels=(1, 2, 3)),
            Feature("member", "categorical", levels=(False, True)),
        )
    )
    table = read_table(write(["code,tier,member", "1,2,true", "?,3.0,FALSE", "9,NA,True"]), schema=schema)
    assert table["code"].tolist() == ["1", "?", "9"]
    assert table["tier"].tolist()[:2] == [2, 3]
    assert pd.isna(table["tier"][2])
    assert table["member"].tolist() == [True, False, True]


def test_bounds_come_from_the_whole_table_and_scales_from_the_training_part(write):
    path, highest = write(lines()), 1000 + 37 * (N - 1)
    datasets = (load_table(path, label="approved", seed=seed) for seed in range(100))
    data = next(d for d in datasets if d.train["income"].max() < highest)
    assert data.schema["income"].high == highest
    low, spread = TableEncoder().fit(data.schema, data.train).scale_["income"]
    assert low + spread == data.train["income"].max()


def test_rules_are_kept_as_text(write, tmp_path):
    path, file = write(lines()), tmp_path / "rules.txt"
    file.write_text("age' >= age\n", encoding="utf-8")
    assert load_table(path, label="approved", rules="age' >= age").rules == {"own": "age' >= age"}
    assert load_table(path, label="approved", rules=["a", "b"]).rules == {"own": "a\nb"}
    assert load_table(path, label="approved", rules=file).rules == {"own": "age' >= age\n"}
    assert load_table(path, label="approved", rules={"mine": file}).rules == {"mine": "age' >= age\n"}
    with pytest.raises(DataError, match="cannot read the rule file"):
        load_table(path, label="approved", rules=tmp_path / "absent.txt")


def test_parquet_keeps_its_types_and_its_index(tmp_path):
    table = pd.DataFrame(rows(), columns=["age", "income", "job", "approved"], index=range(100, 100 + N))
    table["code"], table["age"] = [str(i % 2) for i in range(N)], table["age"].astype("int8")
    table["job"] = table["job"].astype("category")
    table.to_parquet(tmp_path / "loans.parquet")
    data = load_table(tmp_path / "loans.parquet", label="approved")
    pd.testing.assert_frame_equal(whole(data), table)
    assert data.schema["code"].levels == ("0", "1")


def test_parquet_columns_that_cannot_be_used_are_named(tmp_path):
    table = pd.DataFrame({"x": [[1], [2]] * 10, "when": pd.Timedelta("2 days"), "y": [0, 1] * 10})
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="column 'x': holds list"):
        load_table(tmp_path / "t.parquet", label="y")
    table.drop(columns="x").to_parquet(tmp_path / "t.parquet")
    with pytest.raises(SchemaError, match="holds times"):
        load_table(tmp_path / "t.parquet", label="y")
    table.head(0)[["y"]].to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="has no rows"):
        read_table(tmp_path / "t.parquet")


def test_file_cut_anywhere_is_read_or_refused_with_an_error_of_ours(write):
    good = "\n".join(lines(";")).encode("utf-16")
    for end in range(0, len(good), 37):
        with contextlib.suppress(FcxError):
            load_table(write(good[:end]), label="approved")


def with_numbers(count=N):
    """The loan table with a customer's number before each row."""
    head, *body = lines(count=count)
    return [f"customer,{head}", *(f"C{100 + i},{line}" for i, line in enumerate(body))]


def test_an_identifier_is_left_out_with_a_warning_and_a_note(write):
    with pytest.warns(FcxWarning, match=r"ignore=\['customer'\].*index='customer'"):
        data = load_table(write(with_numbers()), label="approved")
    assert "customer" not in data.schema
    assert "customer" not in data.train
    assert data.notes[0] == f"Left out 'customer', which has {N} different values in {N} rows."


def test_columns_to_ignore_are_dropped_without_a_word_and_cost_no_rows(write):
    body = with_numbers()
    body[3] = body[3].replace("C102", "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load_table(write(body), label="approved", ignore=["customer"])
    assert data.features == ["age", "income", "job"]
    assert len(data) == N


def test_rows_are_called_by_their_index(write):
    path = write(with_numbers())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load_table(path, label="approved", index="customer")
    assert data.features == ["age", "income", "job"]
    assert sorted(whole(data).index) == [f"C{100 + i}" for i in range(N)]
    assert whole(data).loc["C107", "income"] == 1000 + 37 * 7
    assert read_table(path, index="customer").index.tolist() == [f"C{100 + i}" for i in range(N)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"index": "custmer"}, "index 'custmer': is not a column. Did you mean 'customer'?"),
        ({"index": "job"}, "index 'job': has the same value in several rows, e.g. 'clerk' (37 rows, first at index 3)"),
        ({"ignore": ["custmer"]}, "ignore 'custmer': is not a column. Did you mean 'customer'?"),
        ({"ignore": ["approved"]}, "ignore 'approved': is also named as the label or as a feature"),
        ({"ignore": "age", "immutable": ["age"]}, "ignore 'age': is also named as the label or as a feature"),
        ({"index": "age", "schema": Schema((Feature("age", "integer"),))}, "'age': is also a feature of the schema"),
        ({"ignore": "age", "schema": Schema((Feature("age", "integer"),))}, "ignore 'age': is also named as the label"),
    ],
)
def test_names_of_an_index_or_of_columns_to_ignore_are_checked(write, arguments, message):
    with pytest.raises(DataError) as caught:
        load_table(write(with_numbers()), label="approved", **arguments)
    assert message in str(caught.value)


def test_an_index_keeps_its_leading_zeros(write):
    lines = [f"{i:06},{20 + i},{'yes' if i % 2 else 'no'}" for i in range(30)]
    path = write("\n".join(["patient,age,approved", *lines]))
    assert read_table(path, index="patient").index.tolist() == [f"{i:06}" for i in range(30)]
    plain = write("\n".join(["patient,age,approved", *(line.lstrip("0") or line for line in lines[1:])]))
    assert read_table(plain, index="patient").index.tolist() == list(range(1, 30))


def test_numbers_that_are_no_features_are_nothing_to_tell_of(write):
    lines = [f"{i:06},{i:04},1.00{i % 10},{20 + i},{'yes' if i % 2 else 'no'}" for i in range(30)]
    path = write("\n".join(["patient,ward,code,age,approved", *lines]).replace(",", ";"))
    told = ("Fields are separated by semicolons.",)
    assert load_table(path, label="approved", index="patient", ignore=["ward", "code"]).notes == told
    noted = load_table(path, label="approved", index="patient", ignore=["code"]).notes
    assert noted == (*told, "Left out 'ward', which has 30 different values in 30 rows.")


def test_an_index_with_an_empty_cell_is_refused(write):
    body = with_numbers()
    body[3] = body[3].replace("C102", "")
    with pytest.raises(
        DataError, match=r"index 'customer': is empty or marked as missing, e.g. n/a \(1 row, first at index 2\)"
    ):
        load_table(write(body), label="approved", index="customer")


def test_a_table_in_memory_is_sent_to_the_task():
    for reading in (lambda table: load_table(table, label="y"), read_table):
        with pytest.raises(DataError, match=r"is a DataFrame, not the path of a file.*Task\(table, model"):
            reading(pd.DataFrame({"x": [1, 2]}))


@given(st.text("'=+-@\t\r1.e a", max_size=6))
def test_a_guard_against_formulas_can_be_taken_off_again(text):
    assert unguarded(guarded(text)) == text
    is_number = text[:1] in "+-" and x_is_number(text)
    assert guarded(text)[:1] not in ("=", "+", "-", "@", "\t", "\r") or is_number


def x_is_number(text):
    with contextlib.suppress(ValueError):
        return float(text) is not None and text.strip() == text
    return False


def test_guards_are_taken_off_and_told(write):
    found = load_table(write(["'=x;y", *(f"'-{i % 2} a;{i % 2}" for i in range(30))]), label="y")
    assert set(found.schema["=x"].levels) == {"-0 a", "-1 a"}
    assert any("single quote" in note and "=x" in note for note in found.notes)


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_a_line_without_end_is_refused_and_not_read_whole(write, ending):
    content = b"a,b\n1,2\n" + b"1" * (2 * MAX_LINE)
    path = write(gzip.compress(content, 1) if ending == "csv.gz" else content, f"loans.{ending}")
    with pytest.raises(DataError, match=r"has a line of more than 16,777,216 bytes"):
        read_table(path)
