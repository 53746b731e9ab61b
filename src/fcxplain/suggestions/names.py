"""What a feature's name says: that it only grows, that it takes time, or that it is nobody's to change.

Rows of one moment cannot show any of this, so these suggestions say that they come from the name alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product

from ..schema import Feature
from .suggestion import Candidate, Kind
from .writing import Writer

TIME = frozenset({"age", "tenure", "seniority", "experience"})
# "years at company", "months employed": a stretch of time up to now, and not one that is agreed on, such as a loan's.
STRETCHES = re.compile(
    r"\b(years|months|yrs) (at|in|of|with|since|employed|working|worked)\b|\b(working|service) (years|months|yrs)\b"
)
ATTAINED = frozenset({"education", "educational", "educ", "edu", "schooling", "degree", "qualification", "diploma"})
INBORN = frozenset(
    {"sex", "gender", "male", "female", "race", "ethnicity", "ethnic", "ancestry", "caste", "hispanic", "native",
     "birth", "born", "birthplace", "birthday", "birthdate"}
)  # fmt: skip
# With one of these beside it, "age" or "education" means something else: an average, a limit.
NOT = frozenset({"average", "avg", "mean", "median", "min", "max", "minimum", "maximum", "std", "limit"})
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

ONE_MOMENT = "rows of one moment cannot show it"


def words_of(feature: Feature) -> tuple[str, ...]:
    """The words of a feature's name, split at signs and at capitals."""
    return tuple(w.lower() for w in _WORDS.findall(feature.name))


def only_grows(feature: Feature) -> bool:
    """Whether the name speaks of time that passes: age, tenure, years at something."""
    words = words_of(feature)
    is_time = bool(TIME & set(words)) or STRETCHES.search(" ".join(words)) is not None
    return _is_ordered(feature) and is_time and not NOT & set(words)


def is_attained(feature: Feature) -> bool:
    """Whether the name speaks of something that, once attained, is not lost."""
    words = set(words_of(feature))
    return _is_ordered(feature) and bool(ATTAINED & words) and not NOT & words


def is_inborn(feature: Feature) -> bool:
    """Whether the name speaks of something that nobody can change."""
    return bool(INBORN & set(words_of(feature)))


def _is_ordered(feature: Feature) -> bool:
    values = len(set(feature.ranks)) if feature.is_category else (feature.top or 0) + 1
    return feature.kind != "categorical" and values > 2


def name_rules(features: Iterable[Feature], writer: Writer) -> Iterator[tuple[Candidate, str]]:
    """Rules that names speak for, each with the reason."""
    free = [f for f in features if f.mutable]
    for f in free:
        new, old = writer.name(f.name), writer.name(f.name, primed=False)
        if is_inborn(f):
            why = f"the name {f.name!r} suggests that nobody can change it; {ONE_MOMENT}"
            yield _from_name(f"{new} == {old}", "frozen", f), why
        elif only_grows(f):
            why = f"the name {f.name!r} suggests time, which only passes; {ONE_MOMENT}"
            yield _from_name(f"{new} >= {old}", "never falls", f), why
        elif is_attained(f):
            why = f"the name {f.name!r} suggests something that is not lost once attained; {ONE_MOMENT}"
            yield _from_name(f"{new} >= {old}", "never falls", f), why
    ages = [f for f in free if "age" in words_of(f) and only_grows(f)]
    for f, age in product([f for f in free if is_attained(f)], ages):
        why = f"the names suggest that {f.name!r} takes time to attain and that {age.name!r} is time; {ONE_MOMENT}"
        yield _from_name(_rises(f, age, writer), "takes time", f, age), why


def _from_name(text: str, kind: Kind, *features: Feature) -> Candidate:
    names = frozenset(f.name for f in features)
    return Candidate(text, kind, names, support=0, expected=0.0, share=0.0)


def _rises(feature: Feature, time: Feature, writer: Writer) -> str:
    first, second = (f"{writer.name(f.name)} > {writer.name(f.name, primed=False)}" for f in (feature, time))
    return f"{first} => {second}"
