"""The letter: one person, plain words, verified ways alone, and nothing that nobody should be advised to change."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fcxplain
from fcxplain import FCx, Feature, Schema, Task
from fcxplain.errors import DataError
from fcxplain.explanation import Explanation

LANGUAGES = ("en", "de")
NEVER = re.compile(r"\b(rows?|legal|training|counterfactual|feature)\b", re.IGNORECASE)
SCHEMA = Schema(
    (
        Feature("income", "integer", low=0, high=9000, unit="EUR", label="monthly income"),
        Feature("hours", "integer", low=0, high=60, unit="hours", label="hours a week"),
        Feature("start", "date", low="2020-01-01", high="2026-12-31", label="start of the contract"),
        Feature("job", "categorical", levels=("t", "p"), labels={"t": "temporary", "p": "permanent"}),
        Feature("sex", "categorical", levels=("f", "m"), labels={"f": "female", "m": "male"}),
    ),
    classes={"no": "refused", "yes": "approved"},
)
RULES = "hours' <= 40\nsex' == sex\nstart' >= start"


def chance(rows: pd.DataFrame) -> np.ndarray:
    """Income, hours and a permanent job count; sex counts for much, which the letter must never say."""
    score = rows["income"] / 1000 + rows["hours"] / 10 + (rows["job"] == "p") + 3 * (rows["sex"] == "m") - 8
    return np.asarray(1 / (1 + np.exp(-score.astype(float))))


def people() -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "income": [1234, 9000, 0, 200, 100, 3000, 1000, 500],
            "hours": [20, 40, 10, 40, 0, 30, 20, 38],
            "start": pd.to_datetime(["2024-01-01"] * 8),
            "job": ["t", "p", "t", "t", "t", "p", "p", "t"],
            "sex": ["f", "m", "f", "f", "m", "f", "m", "f"],
        },
        index=[f"A/{i}" for i in range(8)],
    )
    return pd.concat([table] * 5, ignore_index=True).set_index(pd.Index([f"A/{i}" for i in range(40)]))


def explained(rules: str, rows: pd.DataFrame, **how: object) -> Explanation:
    task = Task(people(), chance, schema=SCHEMA, rules=rules, target="yes", classes=("no", "yes"))
    return FCx(seed=0, generator=False).fit(task).explain(rows, **how)  # type: ignore[arg-type]


@cache
def letters(status: str, language: str) -> str:
    """The letter of somebody with this status, and what was found of them."""
    return found(status).letter(person(status), language=language)


def person(status: str) -> str:
    return {"already": "A/1"}.get(status, "A/0")


@cache
def found(status: str) -> Explanation:
    if status == "impossible":
        return explained(
            RULES + "\njob' == job\nhours' == hours\nstart' == start\nincome' <= 3000", people().iloc[:1], why_not=True
        )
    if status == "unreadable":
        rows = people().iloc[:1].astype({"income": float})
        rows.loc["A/0", "income"] = np.inf
        return explained(RULES, rows)
    if status in ("not_found", "timed_out", "best_effort"):
        none = found("impossible")
        return replace(none, row_status=np.array([status]), reasons={})
    return explained(RULES, people().iloc[:2], k=2)


STATUSES = ("verified", "already", "impossible", "not_found", "timed_out", "best_effort", "unreadable")


class Text(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.said, self.tags, self.inside = "", [], ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_data(self, data: str) -> None:
        self.said += " " + data if self.inside != "style" else ""


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_status_has_a_letter_in_every_language_without_jargon(status: str, language: str) -> None:
    assert found(status).status[person(status)] == status
    text = Text(letters(status, language))
    assert not NEVER.search(text.said), NEVER.search(text.said)
    assert "{" not in text.said
    assert {tag for tag, _ in text.tags} & {"script", "link", "img", "iframe", "form"} == set()
    assert not any("src" in given or "href" in given for _, given in text.tags)
    lead = {"best_effort": "not_found"}.get(status, status)
    words = tomllib.loads(files(fcxplain).joinpath("explanation/page/languages", f"{language}.toml").read_text("utf-8"))
    if status != "verified":
        quoted = words["quoted"].format(text="approved")
        assert words["without"][lead].format(wanted=quoted) in text.said


def test_languages_have_the_same_texts_and_fields() -> None:
    folder = files(fcxplain).joinpath("explanation/page/languages")
    texts = [tomllib.loads(folder.joinpath(f"{name}.toml").read_text("utf-8")) for name in LANGUAGES]

    def shape(value: object) -> object:
        if isinstance(value, dict):
            return {key: shape(inner) for key, inner in value.items()}
        return set(re.findall(r"{(\w+)}", str(value))) - {"words", "features"}

    assert shape(texts[0]) == shape(texts[1])


def test_scores_now_needed_and_then_are_there_in_the_language() -> None:
    answer = found("verified")
    now, then = answer.score_now[0], answer.checks.score[0]
    english, german = (Text(letters("verified", language)).said for language in LANGUAGES)
    assert f"Score now {100 * now:.1f}%" in english
    assert "Score needed at least 50.0%" in english
    assert re.search(rf"Score after these changes:  {100 * then:.1f}\d*%", english)
    assert f"Punktwert heute {100 * now:.1f} %".replace(".", ",") in german
    assert "1.234 EUR" in german
    assert "1,234 EUR" in english
    assert "1. Januar 2024" in german
    assert "1 January 2024" in english


def test_what_it_would_take_is_said_of_the_impossible_without_what_is_fixed() -> None:
    for language, limit in (("en", "monthly income: at most 3,000 EUR"), ("de", "monthly income: höchstens 3.000 EUR")):
        text = Text(letters("impossible", language)).said
        assert limit in text
        assert "male" not in text.replace("female", "")


def test_nobody_is_advised_to_change_what_is_personal() -> None:
    free = explained("income' == income\nhours' == hours\njob' == job", people().iloc[[5]])
    assert free.status["A/5"] == "verified"
    for language, words in (("en", "nobody should be asked to change"), ("de", "von niemandem verlangen")):
        text = Text(free.letter("A/5", language=language)).said
        assert words in text
        assert "male" not in text.replace("female", "")


def test_a_letter_escapes_what_a_table_says() -> None:
    hostile = "<script>alert(1)</script>"
    schema = SCHEMA.replace("job", levels=("t", hostile), labels={})
    rows = people().replace({"job": {"p": hostile}})
    task = Task(rows, chance, schema=schema, target="yes", classes=("no", "yes"))
    answer = FCx(seed=0, generator=False).fit(task).explain(rows.iloc[[5]].set_axis([hostile]))
    letter = answer.letter(hostile)
    assert "<script" not in letter
    assert "&lt;script&gt;" in letter


def test_letters_are_files_called_after_their_rows(tmp_path: Path) -> None:
    answer = found("verified")
    twins = replace(answer, rows=answer.rows.set_axis(["A/1", "A 1"]))
    paths = twins.letters(tmp_path / "post", language="de")
    assert [path.name for path in paths] == ["A-1.html", "A-1--2.html"]
    assert all('lang="de"' in path.read_text(encoding="utf-8") for path in paths)


def test_an_unknown_language_or_person_is_named() -> None:
    with pytest.raises(DataError, match="language 'fr': is not known"):
        found("verified").letter("A/0", language="fr")
    with pytest.raises(DataError, match="no row has this label"):
        found("verified").letter("B/0")


def test_one_more_language_is_one_more_file(tmp_path: Path) -> None:
    text = files(fcxplain).joinpath("explanation/page/languages/en.toml").read_text("utf-8")
    own = tmp_path / "nl.toml"
    own.write_text(text.replace("Result now", "Resultaat nu"), encoding="utf-8")
    assert "Resultaat nu" in found("verified").letter("A/0", language=str(own))
    broken = tmp_path / "it.toml"
    broken.write_text(text.replace("[details]", "[detials]"), encoding="utf-8")
    with pytest.raises(DataError, match=r"lacks 'details\.title', 'details\.fixed'"):
        found("verified").letter("A/0", language=str(broken))
