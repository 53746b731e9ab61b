"""What can be written, what it means, what is said of mistakes (rules.parser, binding, check, penalty, wording)."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fcxplain.encoding import TableEncoder
from fcxplain.errors import DataError, RuleError
from fcxplain.rules import holds, in_words, parse, parse_rules, penalty
from fcxplain.rules.nodes import And
from fcxplain.rules.normal import disjuncts, normal_form
from fcxplain.rules.parser import MAX_LENGTH
from fcxplain.schema import Feature, Schema

EDUCATION = ("School", "HS-grad", "Some-college", "Assoc", "Bachelors", "Masters", "Prof-school", "Doctorate")
SCHEMA = Schema(
    (
        Feature("age", "integer", low=17, high=90, unit="years"),
        Feature("education", "ordinal", levels=EDUCATION, ranks=(0, 0, 1, 1, 1, 2, 2, 3)),
        Feature("hours_per_week", "integer", low=1, high=99),
        Feature("marital-status", "categorical", levels=("Married", "Single", "Never married")),
        Feature("occupation", "categorical", levels=("White-Collar", "Other/Unknown", "25-34", "Sales")),
        Feature("loan", "continuous", low=0, high=100_000, step=0.01),
        Feature("income", "continuous", low=0, high=1_000_000, step=0.01),
        Feature("race", "categorical", levels=("White", "Other")),
        Feature("Größe der Wohnung", "continuous", low=0, high=500, step=0.5),
        Feature("tier", "ordinal", levels=(1, 2, 3, 4, 5, 6)),
        Feature("flag", "categorical", levels=(False, True)),
    )
)
ROW = {
    "age": 40, "education": "Bachelors", "hours_per_week": 40, "marital-status": "Single", "occupation": "Sales",
    "loan": 500.0, "income": 1000.0, "race": "White", "Größe der Wohnung": 50.5, "tier": 3, "flag": False,
}  # fmt: skip


def table(**changes: object) -> pd.DataFrame:
    return pd.DataFrame([{**ROW, **changes}])


def kept(text: str, **changes: object) -> bool:
    return bool(holds(parse(text, SCHEMA), table(), table(**changes))[0])


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("age' >= age", {"age": 40}, {"age": 39}),
        ("education' > education => age' > age", {"education": "Masters", "age": 41}, {"education": "Masters"}),
        ("education' > education => age' > age", {"education": "Assoc"}, {"education": "Doctorate", "age": 40}),
        ("education' >= education", {"education": "Some-college"}, {"education": "HS-grad"}),
        ("education' > education => age' >= age + 2", {"education": "Masters", "age": 42}, {"education": "Masters", "age": 41}),
        ("hours_per_week' <= 60", {"hours_per_week": 60}, {"hours_per_week": 61}),
        ("loan' <= 5 * income'", {"loan": 5000.0}, {"loan": 5000.01}),
        ("`marital-status`' in {Married, Single}", {"marital-status": "Married"}, {"marital-status": "Never married"}),
        ("`marital-status`' in {Never married, 'Single'}", {"marital-status": "Never married"}, {"marital-status": "Married"}),
        ("`marital-status`' not in {Single}", {"marital-status": "Married"}, {}),
        ("occupation' == occupation or education' > education", {"occupation": "25-34", "education": "Masters"}, {"occupation": "25-34"}),
        ("race' == race", {}, {"race": "Other"}),
        ("race' != race", {"race": "Other"}, {}),
        ("18 <= age' <= 70", {"age": 70}, {"age": 71}),
        ("18 ≤ age′ and age’ ≠ 40", {"age": 41}, {"age": 40}),
        ("abs(age' - age) <= 5", {"age": 35}, {"age": 34}),
        ("education' >= Masters", {"education": "Prof-school"}, {"education": "Assoc"}),
        ("Masters <= education'", {"education": "Prof-school"}, {"education": "Assoc"}),
        ("education' == Masters", {"education": "Masters"}, {"education": "Prof-school"}),
        ("occupation' == White-Collar", {"occupation": "White-Collar"}, {}),
        ("occupation' != Other/Unknown", {}, {"occupation": "Other/Unknown"}),
        ('occupation\' == "25-34"', {"occupation": "25-34"}, {}),
        ("occupation' == ‘Sales’ and race' == “White”", {}, {"race": "Other"}),
        ("not (age' < age)", {"age": 40}, {"age": 39}),
        ("not not age' >= age", {"age": 40}, {"age": 39}),
        ("(age' > age or loan' < loan) and income' >= income", {"age": 41}, {"age": 41, "income": 999.0}),
        ("`Größe der Wohnung`' >= 0.5 * `Größe der Wohnung`", {"Größe der Wohnung": 25.5}, {"Größe der Wohnung": 25.0}),
        ("tier' <= tier + 1", {"tier": 4}, {"tier": 5}),
        ("tier' - tier <= 1", {"tier": 4}, {"tier": 5}),
        ("tier' >= 5", {"tier": 6}, {"tier": 4}),
        ("tier' in {3, 5}", {"tier": 5}, {"tier": 4}),
        ("flag' == true", {"flag": True}, {}),
        ("flag' == False", {}, {"flag": True}),
        ("hours_per_week' in {20, 40}", {}, {"hours_per_week": 30}),
        ("-age' + 2 * age <= 3 * 10 + 5", {"age": 45}, {"age": 44}),
        ("loan' / 2 <= 300", {"loan": 600.0}, {"loan": 600.01}),
        ("income' - 2 * (loan' - 100) >= 0", {"loan": 600.0}, {"loan": 600.01}),
        ("age' > age # and a comment", {"age": 41}, {}),
        ("occupation' == 'Sales' # it's a comment", {}, {"occupation": "25-34"}),
    ],
)  # fmt: skip
def test_a_rule_means_what_it_says(text, good, bad):
    assert kept(text, **good)
    assert not kept(text, **bad)


def test_sums_are_compared_up_to_rounding():
    schema = Schema((Feature("x", "continuous", low=0, high=10, step=0.1),))
    rule = parse("0.1 * x' <= 0.3", schema)
    assert holds(rule, pd.DataFrame({"x": [0.0]}), pd.DataFrame({"x": [3.0]})).all()
    assert not holds(rule, pd.DataFrame({"x": [0.0]}), pd.DataFrame({"x": [3.1]})).any()


def test_an_ordinal_keeps_its_level_at_the_top_of_a_rule_and_its_rank_within_one():
    assert not kept("education' == education", education="Assoc")
    assert not kept("education' == education and age' >= age", education="Assoc")
    assert kept("education' == education or age' > 80", education="Assoc")
    assert parse("education' == education", SCHEMA).freezes == "education"
    assert parse("age == age'", SCHEMA).freezes == "age"
    assert parse("age' >= age", SCHEMA).freezes is None


def test_several_rules_hold_together():
    rules = parse_rules("age' >= age\nloan' <= loan", SCHEMA)
    assert holds(rules, table(), table(age=41)).all()
    assert not holds(rules, table(), table(age=41, loan=501.0)).any()
    assert holds([], table(), table(age=1)).all()


def test_rules_hold_on_tables_without_rows():
    assert holds(parse("age' >= age", SCHEMA), table()[:0], table()[:0]).shape == (0,)


def test_a_missing_value_is_refused_and_named():
    with pytest.raises(DataError, match=r"column 'age'.*index 7"):
        holds(parse("age' >= age", SCHEMA), table(age=None).set_axis([7]), table())
    with pytest.raises(DataError, match="must form pairs"):
        holds(parse("age' >= age", SCHEMA), pd.concat([table()] * 2), table())


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("age' >= eduction", 9, "no feature 'eduction'. Did you mean 'education'?"),
        ("education' > Bachelorz", 14, "no level 'Bachelorz'. Did you mean 'Bachelors'?"),
        ("race' in {White, Black}", 18, "no level 'Black'"),
        ("race' in {}", 10, "the set is empty"),
        ("age' = 30", 6, "Write == to compare"),
        ("age' >= 30 && age' <= 60", 12, "Write 'and'"),
        ("age' >= 30 | age' <= 60", 12, "Write 'or'"),
        ('"age\' >= age"', 14, "Remove the quotes around the whole rule"),
        ("occupation' < Sales", 15, "it has no order"),
        ("race' < occupation'", 1, "it has no order"),
        ("age' > race'", 8, "cannot be used in arithmetic"),
        ("age' > education", 1, "cannot be compared"),
        ("age' * loan' > 3", 1, "One factor must be a number"),
        ("age' / 0 > 3", 1, "other than 0"),
        ("age' >=", 8, "unexpected the end"),
        ("loan' <= 1e999", 10, "beyond 1e+15"),
        ("loan' <= 1e15 * 1e15", 10, "beyond 1e+15"),
        ("age' >= nan", 9, "no feature 'nan'"),
        ("age' >= inf", 9, "no feature 'inf'"),
        ("age'' >= 3", 5, "not understood"),
        ("5 >= 3", 1, "only constants"),
        ("age' - age' >= 3", 1, "only constants"),
        ("age' > 1 => age' > 2 => age' > 3", 22, "parentheses"),
        ("`marital-status`' == Never married", 28, "Quote a level"),
        ("if age' > 30 then loan' > 5", 4, "Write age' > 30 => loan' > 5"),
        ("If age' > 30, THEN loan' > 5", 4, "Write age' > 30 => loan' > 5"),
        ("if age falls then loan' > 5", 4, "e.g. age' > age => income' >= income: a prime marks the value after"),
        ("age' < age -> loan' > 5", 13, "Write => instead of ->"),
        ("age' < 30 ==> loan' > 5", 13, "Write => instead of ==>"),
        ("age' < age → loan' > 5", 12, "Write => instead of →"),
        ("loan' <= 6,5", 11, "If the comma in 6,5 is a decimal mark, write 6.5."),
        ("loan' <= 1,000", 11, "write 1.000. If it separates thousands: 1000."),
        ("loan' / age' <= 3", 9, "cannot divide by a feature, 'age'. Write loan' <= 3 * age'."),
        ("2 + 1 >= loan'/age", 16, "Write loan' <= (2 + 1) * age."),
        ("loan' / age' <= age", 9, "a rule cannot divide by a feature, 'age'."),
        ("loan' / (age' + 1) <= 3", 1, "Multiply instead: a <= 3 * b means the same as a / b <= 3."),
        ("loan' / aeg' <= 3", 9, "no feature 'aeg'. Did you mean 'age'?"),
        ("race' >= race", 1, 'make it kind = "ordinal" in the schema, with its levels from lowest to highest'),
        ("race' >= White", 10, 'make it kind = "ordinal" in the schema'),
        ("race' + 1 >= 2", 1, 'make it kind = "ordinal" in the schema'),
        ("hours_per_week' in {lots}", 21, "is not a number"),
        ("'Sales' == 'Sales'", 1, "can only be compared with a category"),
        ("(age' >= 3", 11, "unexpected the end"),
        ("__import__('os').system('true')", 11, "not understood"),
    ],
)
def test_a_mistake_is_marked_and_a_remedy_offered(text, column, said):
    with pytest.raises(RuleError) as caught:
        parse(text, SCHEMA)
    (fault,) = caught.value.faults
    assert (fault.line, fault.column) == (1, column)
    assert said in str(caught.value)
    line, mark = str(caught.value).splitlines()[-2:]
    assert line.strip() == text
    assert mark.index("^") == line.index(text[0]) + column - 1


def test_every_mistake_of_every_line_is_listed_at_once():
    with pytest.raises(RuleError) as caught:
        parse_rules("agee' >= ages and race' == Blak\n# fine\nage' >= age\nage' >\n", SCHEMA)
    assert [(f.line, f.column) for f in caught.value.faults] == [(1, 1), (1, 28), (4, 7)]


def test_the_mark_stands_right_under_wide_letters():
    with pytest.raises(RuleError) as caught:
        parse("中文 >= 3", SCHEMA)
    assert str(caught.value).endswith("    中文 >= 3\n    ^")


def test_a_name_that_is_also_a_level_must_be_told_apart():
    schema = Schema((*SCHEMA, Feature("Sales", "categorical", levels=("Sales", "No"))))
    with pytest.raises(RuleError, match="is a feature and also a level"):
        parse("occupation' == Sales", schema)
    assert parse('occupation\' == "Sales"', schema).features == ("occupation",)
    assert parse("occupation' == `Sales`", schema).features == ("Sales", "occupation")


def test_a_rule_file_may_have_a_byte_order_mark_comments_and_windows_lines(tmp_path: Path):
    file = tmp_path / "my.rules"
    file.write_bytes(
        "\ufeff# rules of the house\r\n\r\nage’ >= age  # nobody grows younger\r\n  race' == race\r\n".encode()
    )
    rules = parse_rules(file, SCHEMA)
    assert [(r.line, r.text) for r in rules] == [(3, "age’ >= age"), (4, "race' == race")]


def test_a_rule_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(RuleError, match=r"nowhere\.rules"):
        parse_rules(tmp_path / "nowhere.rules", SCHEMA)
    binary = tmp_path / "binary.rules"
    binary.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(RuleError, match=r"binary\.rules"):
        parse_rules(binary, SCHEMA)


def test_nothing_and_too_much_are_told():
    assert parse_rules("# only a comment", SCHEMA) == ()
    with pytest.raises(RuleError, match="found no rule"):
        parse("", SCHEMA)
    with pytest.raises(RuleError, match="found 2 rules"):
        parse("age' >= age\nage' > 3", SCHEMA)
    with pytest.raises(RuleError, match="is a int, not text"):
        parse_rules([3], SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "(" * 50_000 + "age' > 1" + ")" * 50_000,
        "not (" * 1500 + "age' > 1" + ")" * 1500,
        "abs(" * 1500 + "age'" + ")" * 1500 + " > 1",
        "(" * 4000,
        "age' >= " + "9" * 5000,
        "age' >= 1e" + "9" * 300,
        "age' >= " + "1 + " * 2000 + "x",
        "{" * 3000,
        "\0\0\0",
        "age' > 1 and " * 20_000 + "age' > 1",
        "\n".join(["age' > 1"] * 20_000),
    ],
)
def test_hostile_text_gets_a_clear_error(text):
    start = time.process_time()
    with pytest.raises(RuleError) as caught:
        parse_rules(text, SCHEMA)
    assert len(str(caught.value)) < 5000
    assert time.process_time() - start < 20, "not a speed test: a hang would end here"


def test_long_but_honest_rules_are_read():
    assert kept("(" * 400 + "age' > 1" + ")" * 400)
    assert kept(" and ".join(["age' >= 40"] * 600))
    assert kept("age' >= " + "1 + " * 39 + "1")
    assert kept("not " * 1000 + "age' >= 40")
    assert len("age' >= 1" + " " * MAX_LENGTH) > MAX_LENGTH


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age' >= age", "age must not decrease"),
        ("age' > age", "age must increase"),
        ("age <= age'", "age must not decrease"),
        ("age' <= age + 5", "age must not increase by more than 5 years"),
        ("age' >= age - 5", "age must not decrease by more than 5 years"),
        ("education' > education => age' >= age + 2", "if education increases, then age must increase by at least 2 years"),
        ("education' == education => age' >= age", "if education keeps its rank, then age must not decrease"),
        ("tier' == tier => age' >= age", "if tier stays the same, then age must not decrease"),
        ("race' == race", "race must not change"),
        ("18 <= age' <= 70", "age must be between 18 and 70 years"),
        ("hours_per_week' <= 60", "hours per week must be at most 60"),
        ("loan' <= 5 * income'", "loan must be at most 5 × income"),
        ("loan' <= 5 * income", "loan must be at most 5 × the present income"),
        ("`marital-status`' in {Married, Single}", "marital status must be Married or Single"),
        ("race' != White", "race must not be White"),
        ("education' >= Masters", "education must be at least Masters or Prof-school"),
        ("abs(age' - age) <= 5", "age may change by no more than 5 years"),
        ("not (age' < age and loan' > 3)", "it must not be that age decreases and loan is more than 3"),
        ("(age' > age and loan' < 5) or race' == race", "(age must increase and loan must be less than 5) or race must not change"),
        ("tier' <= tier + 1", "tier must not increase by more than 1 rank"),
        ("hours_per_week' not in {20, 40}", "hours per week must not be 20 or 40"),
        ("education' > Doctorate", "education must be a level that does not exist"),
    ],
)  # fmt: skip
def test_rules_are_said_in_words(text, words):
    assert in_words(parse(text, SCHEMA), SCHEMA) == words


def test_words_use_the_labels_of_a_schema():
    rule = parse("hours_per_week' <= 60", SCHEMA)
    renamed = SCHEMA.replace("hours_per_week", label="weekly hours")
    assert in_words(rule, renamed) == "weekly hours must be at most 60"


def columns(**changes: object) -> dict[str, torch.Tensor]:
    encoder = TableEncoder().fit(SCHEMA, table())
    return encoder.columns(encoder.encode(table(**changes)))


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ("age' >= age", {"age": 37}, 3),
        ("age' >= age", {"age": 40}, 0),
        ("age' > age", {"age": 40}, 1),
        ("age' > age", {"age": 41}, 0),
        ("age' != age", {}, 1),
        ("age' == age + 2", {}, 2),
        ("age' > age and age' > 50", {}, 1 + 11),
        ("age' > age or age' > 50", {}, 1),
        ("race' == race", {"race": "Other"}, 1),
        ("race' in {Other}", {}, 1),
        ("education' > education => age' > age", {"education": "Masters"}, 1),
        ("not (education' > education)", {"education": "Doctorate"}, 2),
        ("abs(age' - age) <= 5", {"age": 50}, 5),
        ("hours_per_week' in {20, 45}", {}, 5),
    ],
)
def test_the_penalty_is_the_distance_to_keeping_the_rule(text, changes, expected):
    rule = parse(text, SCHEMA)
    assert penalty(rule, columns(), columns(**changes)).item() == pytest.approx(expected, abs=1e-3)


def test_the_penalty_asks_strict_comparisons_for_the_margin_only():
    strict, loose = parse("age' > age", SCHEMA), parse("age' >= age", SCHEMA)
    assert penalty(strict, columns(), columns(age=42), margin=5.0).item() == pytest.approx(3, abs=1e-3)
    assert penalty(loose, columns(), columns(), margin=5.0).item() == 0


def test_the_penalty_takes_plain_columns_and_has_a_gradient():
    rule = parse("education' > education => age' >= age + 2", SCHEMA)
    before = {"age": torch.tensor([40.0]), "education": torch.tensor([1.0])}
    after = {"age": torch.tensor([41.0], requires_grad=True), "education": torch.tensor([3.0], requires_grad=True)}
    result = penalty(rule, before, after)
    result.sum().backward()
    assert result.item() == 1
    assert after["age"].grad.item() == -1


def test_the_gradient_of_the_penalty_is_right():
    rules = parse_rules("abs(age' - age) <= 5 or loan' <= 5 * income'\nage' > 50 and race' == Other", SCHEMA)
    encoder = TableEncoder().fit(SCHEMA, table())
    before = encoder.encode(table()).double()
    after = torch.rand((3, encoder.width_), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    before = before.repeat(3, 1)
    assert torch.autograd.gradcheck(
        lambda x: penalty(rules, encoder.columns(before), encoder.columns(x)), after.requires_grad_()
    )


def test_a_rule_is_bound_to_the_schema_it_is_read_with():
    rule = parse("age' >= age", SCHEMA)
    assert {r.feature for r in rule.refs} == {SCHEMA["age"]}
    assert str(rule) == "age' >= age"
    assert np.array_equal(holds([rule], table(), table()), [True])


def test_a_quotient_by_what_may_be_negative_is_rewritten_with_a_condition():
    schema = Schema((Feature("a", "integer", low=0, high=9), Feature("b", "integer", low=-9, high=9)))
    with pytest.raises(RuleError, match=r"Write a' <= 3 \* b', which is the same where b' is above 0\."):
        parse("a' / b' <= 3", schema)


def test_rules_in_steps_are_kept_in_as_many_ways_as_there_are_steps():
    schema = Schema((Feature("grade", "integer", low=0, high=20), Feature("age", "integer", low=18, high=90)))
    ladder = [f"grade' > grade + {step} => age' >= age + {2 * step + 1}" for step in range(10)]
    formulas = tuple(rule.formula for rule in parse_rules(["grade' >= grade", *ladder], schema))
    ways = disjuncts(normal_form(And(formulas)))
    assert ways is not None
    assert len(ways) == 11
    assert all(len(way) <= 3 for way in ways)
