"""Adult (Becker & Kohavi 1996): who earned more than 50,000 dollars in the census of 1994.

`adult` is every row of the training file. `adult-authors` keeps the rows that the reference code of the paper
keeps, (income 0 and age above 35) or (income 1 and age below 45), since the published figures come from them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..schema import Feature, Schema
from .base import AGE_AND_EDUCATION, Cleaned, DatasetSpec, NotebookSettings, PublishedSettings, RawFile, read_columns

# Position of each used column, in the file's order.
COLUMNS = {
    0: "age",
    1: "workclass",
    3: "education",
    5: "marital_status",
    6: "occupation",
    8: "race",
    9: "gender",
    12: "hours_per_week",
    14: "income",
}

# The levels of the file that each level stands for.
MERGES = {
    "workclass": {
        "Government": ("Federal-gov", "State-gov", "Local-gov"),
        "Other/Unknown": ("Without-pay", "Never-worked", "?"),
        "Private": ("Private",),
        "Self-Employed": ("Self-emp-inc", "Self-emp-not-inc"),
    },
    "education": {
        "School": ("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th"),
        "HS-grad": ("HS-grad",),
        "Some-college": ("Some-college",),
        "Assoc": ("Assoc-acdm", "Assoc-voc"),
        "Bachelors": ("Bachelors",),
        "Masters": ("Masters",),
        "Prof-school": ("Prof-school",),
        "Doctorate": ("Doctorate",),
    },
    "marital_status": {
        "Divorced": ("Divorced",),
        "Married": ("Married-civ-spouse", "Married-spouse-absent", "Married-AF-spouse"),
        "Separated": ("Separated",),
        "Single": ("Never-married",),
        "Widowed": ("Widowed",),
    },
    "occupation": {
        "Blue-Collar": (
            "Craft-repair",
            "Farming-fishing",
            "Handlers-cleaners",
            "Machine-op-inspct",
            "Transport-moving",
        ),
        "Other/Unknown": ("Armed-Forces", "?"),
        "Professional": ("Prof-specialty",),
        "Sales": ("Sales",),
        "Service": ("Other-service", "Priv-house-serv", "Protective-serv", "Tech-support"),
        "White-Collar": ("Adm-clerical", "Exec-managerial"),
    },
    "race": {"Other": ("Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"), "White": ("White",)},
}
LEVELS = {name: tuple(merge) for name, merge in MERGES.items()}

# Degrees with the same rank count as equal.
RANKS = (0, 0, 1, 1, 1, 2, 2, 3)

DEGREES = {
    "School": "no high school diploma",
    "HS-grad": "high school diploma",
    "Some-college": "some college",
    "Assoc": "associate degree",
    "Bachelors": "bachelor's degree",
    "Masters": "master's degree",
    "Prof-school": "professional degree",
    "Doctorate": "doctorate",
}

# What a person could do within five years. For these rules, each level of education has its own rank.
ACTIONABLE = """\
# Nobody grows younger, and nobody waits longer than five years.
age' >= age
age' <= age + 5
# Degrees come one after the other, and each takes its years.
education' >= education
education' > education => age' >= age + 2
education' > education + 1 => age' >= age + 3
education' > education + 2 => age' >= age + 4
education' > education + 3 => age' >= age + 6
# Hours within reason: at most 50 a week unless it is more already, and at most ten more or fewer.
hours_per_week' <= 50 or hours_per_week' <= hours_per_week
abs(hours_per_week' - hours_per_week) <= 10
# Nobody is advised to marry or to part.
marital_status' == marital_status
# Nobody becomes unknown, and a profession takes a degree.
workclass' == workclass or workclass' != "Other/Unknown"
occupation' == occupation or occupation' != "Other/Unknown"
occupation' == Professional and occupation != Professional => education' >= Bachelors
"""

SCHEMA = Schema(
    (
        # The survey asked those over 16; ages are top-coded at 90, hours at 99.
        Feature("age", "integer", low=17, high=90, unit="years"),
        Feature("workclass", "categorical", levels=LEVELS["workclass"], label="kind of employer"),
        Feature("education", "ordinal", levels=LEVELS["education"], ranks=RANKS, labels=DEGREES),
        Feature("marital_status", "categorical", levels=LEVELS["marital_status"]),
        Feature("occupation", "categorical", levels=LEVELS["occupation"]),
        Feature("race", "categorical", levels=LEVELS["race"], mutable=False),
        Feature("gender", "categorical", levels=("Female", "Male"), mutable=False),
        Feature("hours_per_week", "integer", low=1, high=99, unit="hours"),
    ),
    classes={"0": "up to 50,000", "1": "over 50,000"},
)

FILE = RawFile(
    name="adult.data",
    sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    size=3_974_305,
    by_hand="It is part of the fcxplain package, and in https://archive.ics.uci.edu/static/public/2/adult.zip.",
    packaged=True,
)


def read(raw: bytes, sample: str) -> Cleaned:
    """Every row, levels merged, income as 0 and 1."""
    table = read_columns(raw, COLUMNS)
    for name, merge in MERGES.items():
        table[name] = table[name].map({found: level for level, several in merge.items() for found in several})
    table["income"] = (table["income"] == ">50K").astype("int64")
    return Cleaned(table[[*SCHEMA.names, "income"]])


def read_authors(raw: bytes, sample: str) -> Cleaned:
    """The rows that the reference code keeps."""
    table = read(raw, sample).table
    poor, rich = table["income"] == 0, table["income"] == 1
    kept = table[(poor & (table["age"] > 35)) | (rich & (table["age"] < 45))]
    note = (
        f"Kept {len(kept):,} of {len(table):,} rows: income 0 and age above 35, or income 1 and age "
        "below 45, as the reference code of the paper does."
    )
    return Cleaned(kept, (note,))


PAPER = partial(PublishedSettings, learning_rate=0.2, lof_k=20, latent=10)
UNARY = NotebookSettings(29, 192, 0.764, density=10, lof_k=20, epochs=50)
BINARY = NotebookSettings(76, 147, 0.344, density=80, lof_k=30, epochs=25)
PUBLISHED = {"unary": PAPER(epochs=25, notebook=UNARY), "binary": PAPER(epochs=50, notebook=BINARY)}

RULES = {**AGE_AND_EDUCATION, "actionable": ACTIONABLE}
RULE_RANKS = {"actionable": {"education": tuple(range(len(RANKS)))}}

ADULT = DatasetSpec(
    name="adult",
    title="Adult (census income 1994)",
    citation="Becker, B. & Kohavi, R. (1996). Adult. UCI Machine Learning Repository. doi:10.24432/C5XW20",
    licence="CC BY 4.0",
    file=FILE,
    schema=SCHEMA,
    label="income",
    target=1,
    rules=RULES,
    ranks=RULE_RANKS,
    read=read,
    published=PUBLISHED,
    note="Income 1 is above 50,000 dollars. Missing values ('?') are the level Other/Unknown.",
)

ADULT_AUTHORS = replace(
    ADULT,
    name="adult-authors",
    title="Adult, the rows of the reference code",
    read=read_authors,
    note="Incomes 0 up to age 35 and 1 from age 45 are left out, so a classifier prefers the young here.",
)
