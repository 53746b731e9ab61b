"""Features that nobody can change or should be advised to change, recognised by names and levels."""

from __future__ import annotations

from ..errors import some
from ..text import words_of
from .feature import Feature
from .orders import says_nothing

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
