"""Features that nobody can change, or should be advised to: told by their names and levels."""

from __future__ import annotations

from ..errors import some
from ..text import words_of
from .feature import Feature
from .orders import says_nothing

INBORN = frozenset(
    {"sex", "gender", "male", "female", "race", "ethnicity", "ethnic", "ancestry", "caste", "hispanic", "native",
     "birth", "born", "birthplace", "birthday", "birthdate"}
)  # fmt: skip
# What law or decency forbids to advise on, though some of it can change.
PROTECTED = frozenset(
    {"nationality", "citizen", "citizenship", "religion", "religious", "faith", "disability", "disabled", "handicap",
     "marital", "married", "civil", "foreign", "foreigner", "immigrant", "migrant", "pregnant", "pregnancy"}
)  # fmt: skip
# Levels that give away what a column is about, whatever it is called: two of a set, and not many beside them.
PERSONAL: dict[str, frozenset[str]] = {
    "a sex": frozenset({"male", "female", "man", "woman", "m", "f", "diverse", "non binary", "nonbinary"}),
    "an ethnicity": frozenset({"white", "black", "asian", "hispanic", "latino", "caucasian", "african american"}),
    "a marital status": frozenset(
        {"married", "single", "divorced", "widowed", "separated", "never married", "unmarried"}
    ),
}


def is_inborn(feature: Feature) -> bool:
    """Whether the name speaks of something that nobody can change."""
    return bool(INBORN & set(words_of(feature.name)))


def is_personal(feature: Feature) -> str:
    """What speaks for a protected feature, in words: its name, or its levels. Empty where nothing does."""
    if PROTECTED & set(words_of(feature.name)):
        return f"the name {feature.name!r} suggests something personal that nobody should be advised to change"
    levels = {" ".join(words_of(str(level))) for level in feature.levels if not says_nothing(level)}
    for what, known in PERSONAL.items():
        seen = sorted(levels & known)
        if len(seen) > 1 and len(levels) <= 2 * len(seen):
            return f"its levels ({some(seen, 3)}) suggest {what}, which nobody should be advised to change"
    return ""
