"""Readable labels of levels and classes: given once in the schema, used wherever people read, never in data."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import loans
from fcxplain import FCx, Feature, Schema, Task
from fcxplain.errors import FcxError, SchemaError
from fcxplain.explanation import Explanation
from fcxplain.explanation.certificate import rules_id
from fcxplain.rules import in_words, parse
from small_problems import linear

DEGREE = {"none": "no degree", "college": "a college degree"}
CLASSES = {"no": "refused", "yes": "a loan"}


def labelled() -> Schema:
    schema = loans.SCHEMA.replace("degree", labels=DEGREE)
    return replace(schema, classes=CLASSES)


def test_labels_name_levels_and_others_stay() -> None:
    feature = labelled()["degree"]
    assert feature.level_title("none") == "no degree"
    assert feature.level_title("school") == "school"
    assert Feature("paid", "categorical", levels=(0, 1), labels={1: "paid"}).level_title(1) == "paid"


def test_labels_survive_toml_and_plain_data() -> None:
    schema = replace(labelled(), features=(*labelled(), Feature("paid", "categorical", levels=(0, 1), labels={1: "x"})))
    for read in (Schema.from_toml(schema.to_toml()), Schema.from_dict(schema.to_dict())):
        assert read == schema
        assert read["paid"].level_title(1) == "x"
        assert read.class_title("yes") == "a loan"
        assert read.freeze("age").complete(loans.table(8)).classes == CLASSES


def test_every_mistake_in_labels_is_named() -> None:
    text = """
    [features.degree]
    kind = "categorical"
    levels = ["school", "college", "master"]
    labels = {scool = "none", college = "", master = "school"}
    [features.age]
    kind = "integer"
    labels = {18 = "young"}
    [classes]
    yes = 1
    """
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml(text)
    said = str(caught.value)
    assert "labels names 'scool', which is not a level. Did you mean 'school'?" in said
    assert "the label of 'college' is '', not text" in said
    assert "several levels would be called 'school'" in said
    assert "feature 'age': labels are for the levels" in said
    assert "[classes] yes: is 1, not text" in said


def test_a_label_for_a_class_that_the_model_lacks_is_refused() -> None:
    schema = replace(loans.SCHEMA, classes={"yess": "a loan"})
    with pytest.raises(FcxError, match=r"\[classes\] yess: is not a class of the model. Did you mean 'yes'"):
        task_on(schema)


def test_labels_are_no_part_of_the_fingerprint() -> None:
    assert rules_id(labelled(), ["age' >= age"]) == rules_id(loans.SCHEMA, ["age' >= age"])


def test_rules_are_said_with_labels() -> None:
    rule = parse("degree' in {none, school}", labelled())
    assert in_words(rule) == "degree must be at most school"
    assert in_words(parse("degree' == college", labelled())) == "degree must be a college degree"
    assert in_words(parse("degree' == college", loans.SCHEMA), labelled()) == "degree must be a college degree"


def task_on(schema: Schema) -> Task:
    from fcxplain.encoding import TableEncoder

    train = loans.table(160)[list(loans.SCHEMA.names)]
    model = linear(TableEncoder().fit(schema, train), -5.0)
    return Task(train, model, schema=schema, rules=loans.RULES, target="yes", classes=("no", "yes"))


@cache
def answer() -> Explanation:
    task = task_on(labelled())
    return FCx(seed=0, generator=False).fit(task).explain(task.train.iloc[:40], k=2)


def test_texts_and_page_speak_in_labels_and_data_stays_raw() -> None:
    found = answer()
    assert "college" in found.frame["degree"].tolist()
    assert set(found.frame["wanted"]) == {"yes"}
    which = next(i for i, c in enumerate(found.certificates) if any(x.then == "college" for x in c.changes))
    certificate = found.certificate(which)
    assert "-> a college degree" in str(certificate)
    assert "the model answers a loan, as wanted (probability of a loan:" in str(certificate)
    assert certificate.to_dict()["wanted"] == "yes"
    assert "schema" not in certificate.to_dict()
    assert "probability of a loan" in repr(found)
    page = found.to_html()
    assert "a college degree" in page
    assert "<strong>a loan</strong>" in page
