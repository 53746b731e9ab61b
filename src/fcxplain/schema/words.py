"""What words in names and levels say: an order (low < medium < high, "<100" < "100-500"), something personal, nothing.

Orders found here are suggested, never applied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import pairwise

from ..errors import some
from ..text import words_of
from .feature import Feature, Level

SCALES: tuple[tuple[str, ...], ...] = (
    ("never", "rarely|seldom|hardly ever", "sometimes|occasionally", "often|frequently|usually", "always"),
    ("very low|lowest", "low|lower", "medium|moderate|middle|mid|average|normal", "high|higher", "very high|highest"),
    ("very poor|very bad", "poor|bad", "fair|average|ok|neutral", "good", "very good", "excellent"),
    ("none|no|nothing", "little|few|a little|a few", "some|moderate", "much|many|a lot|quite rich", "most|rich", "all"),
    ("extra small|xs", "small|s", "medium|m", "large|l|big", "extra large|xl|very large", "xxl|huge"),
    ("none|no schooling|preschool|illiterate", "primary|elementary|basic", "secondary|high school|hs grad|hs",
     "some college|vocational|assoc|associate", "tertiary|higher|college|university|bachelor|bachelors",
     "masters|master|graduate|prof school|postgraduate", "doctorate|phd"),
    ("strongly disagree", "disagree", "neutral|neither|undecided", "agree", "strongly agree"),
    ("very dissatisfied", "dissatisfied|unsatisfied", "neutral|neither", "satisfied", "very satisfied"),
    ("none", "mild|light", "moderate|medium", "severe|strong|heavy", "critical|very severe"),
    ("weak", "medium|moderate", "strong", "very strong"),
    ("cold", "cool", "mild", "warm", "hot"),
    ("beginner|novice", "intermediate", "advanced", "expert"),
    ("trainee|intern", "junior", "mid|regular|intermediate", "senior", "lead|principal|executive"),
    ("bronze", "silver", "gold", "platinum", "diamond"),
    ("first|1st", "second|2nd", "third|3rd", "fourth|4th", "fifth|5th"),
)  # fmt: skip
# Levels for unknown or other values: a person cannot be advised to become one of these.
NOTHING = frozenset(
    {"unknown", "?", "n/a", "na", "nan", "null", "missing", "not known", "not stated", "not specified", "unspecified",
     "not available", "not applicable", "undefined", "undisclosed", "refused", "no answer", "dont know", "don't know",
     "prefer not to say", "other", "others", "misc", "miscellaneous", "-", "--"}
)  # fmt: skip
# A longer text is not a range.
LONGEST = 40
_NUMBER = r"[-+]?\d[\d,']*(?:\.\d+)?\s*(?:k|m|tsd)?"
_BELOW, _ABOVE = r"<=?|≤|under|less than|below|up to|at most|until|max", r">=?|≥|over|more than|above|at least|from|min"
_ENDS = re.compile(
    rf"[^\d<>≤≥+\-]*(?P<sign>{_BELOW}|{_ABOVE})?[^\d<>+\-]*(?P<number>{_NUMBER})\s*(?P<plus>\+|and more|or more)?\D*"
)
_SPAN = re.compile(
    rf"[^\d\-]*(?P<low>{_NUMBER})[^\d]*?(?:-|–|—|to|<=?\s*x\s*<=?|,|\.\.|and)[^\d\-]*(?P<high>{_NUMBER})\D*"
)


def says_nothing(level: Level) -> bool:
    """Whether a level only says that the value is unknown, or different from the others."""
    return isinstance(level, str) and level.strip().casefold() in NOTHING


def likely_order(levels: Iterable[Level]) -> tuple[str, ...]:
    """The levels in the order that words or numbers in them suggest; those that say nothing come first.

    Empty if some level has no place in the order.
    """
    every = [level for level in levels if isinstance(level, str)]
    known = [level for level in every if not says_nothing(level)]
    if len(known) < 2 or len(every) != len(tuple(levels)):
        return ()
    places = _by_words(known) or _by_numbers(known)
    nothing = [level for level in every if says_nothing(level)]
    return (*nothing, *sorted(known, key=lambda level: places[level])) if places else ()


def order_lines(levels: tuple[str, ...]) -> str:
    """What to write into a schema for levels in this order."""
    return f'kind = "ordinal", levels = {json.dumps(list(levels), ensure_ascii=False)}'


def _by_words(levels: list[str]) -> dict[str, int]:
    """The place of each level on the first scale that has all of them, at two places or more."""
    plain = {level: " ".join(re.sub(r"[-_./]", " ", level.casefold()).split()) for level in levels}
    for scale in SCALES:
        place = {word: i for i, words in enumerate(scale) for word in words.split("|")}
        found = {level: place[text] for level, text in plain.items() if text in place}
        if len(found) == len(levels) == len(set(found.values())):
            return found
    return {}


def _by_numbers(levels: list[str]) -> dict[str, tuple[float, float]]:
    """The ends of each level's range, if all are ranges that follow each other."""
    ends = {level: _range(level.casefold().strip()) for level in levels}
    found = {level: end for level, end in ends.items() if end is not None}
    if len(found) < len(levels) or all(low == high for low, high in found.values()):
        return {}
    ordered = sorted(found.values())
    follow = all(a[1] <= b[0] + 1e-9 or a == b for a, b in pairwise(ordered))
    return found if follow and len(set(ordered)) == len(ordered) else {}


def _range(text: str) -> tuple[float, float] | None:
    """`<100`, `100-500`, `>= 500`, `500+` or a single number as two ends."""
    span = _SPAN.fullmatch(text) if len(text) <= LONGEST else None
    if span is not None:
        low, high = _value(span["low"]), _value(span["high"].lstrip("-"))
        return (low, high) if low < high else None
    end = _ENDS.fullmatch(text) if len(text) <= LONGEST else None
    if end is None:
        return None
    value, sign = _value(end["number"]), end["sign"] or ""
    if sign and re.fullmatch(_BELOW, sign):
        return (float("-inf"), value)
    return (value, float("inf")) if sign or end["plus"] else (value, value)


def _value(text: str) -> float:
    digits = re.sub(r"[,'\s]", "", text)
    scale = 1e6 if digits.endswith("m") else 1e3 if digits.endswith(("k", "tsd")) else 1.0
    return float(digits.rstrip("kmtsd")) * scale


# Features that nobody can change or should be advised to change.
INBORN = frozenset(
    {"sex", "gender", "male", "female", "race", "ethnicity", "ethnic", "ancestry", "caste", "hispanic", "native",
     "birth", "born", "birthplace", "birthday", "birthdate"}
)  # fmt: skip
# Protected by law or decency, even where it can change.
PROTECTED = frozenset(
    {"nationality", "citizen", "citizenship", "religion", "religious", "faith", "disability", "disabled", "handicap",
     "marital", "married", "civil", "foreign", "foreigner", "immigrant", "migrant", "pregnant", "pregnancy"}
)  # fmt: skip
# Levels that reveal what a column is about, whatever its name: two of a set, with few others.
PERSONAL: dict[str, frozenset[str]] = {
    "a sex": frozenset({"male", "female", "man", "woman", "m", "f", "diverse", "non binary", "nonbinary"}),
    "an ethnicity": frozenset({"white", "black", "asian", "hispanic", "latino", "caucasian", "african american"}),
    "a marital status": frozenset(
        {"married", "single", "divorced", "widowed", "separated", "never married", "unmarried"}
    ),
}


def is_inborn(feature: Feature) -> bool:
    """Whether the name suggests something that nobody can change."""
    return bool(INBORN & set(words_of(feature.name)))


def is_personal(feature: Feature) -> str:
    """Why a feature seems protected, in words: its name or its levels. Empty if it does not."""
    if PROTECTED & set(words_of(feature.name)):
        return f"the name {feature.name!r} suggests something personal that nobody should be advised to change"
    levels = {" ".join(words_of(str(level))) for level in feature.levels if not says_nothing(level)}
    for what, known in PERSONAL.items():
        seen = sorted(levels & known)
        if len(seen) > 1 and len(levels) <= 2 * len(seen):
            return f"its levels ({some(seen, 3)}) suggest {what}, which nobody should be advised to change"
    return ""
