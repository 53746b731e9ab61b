"""Folktables' ACSIncome: who earned more than 50,000 dollars in the American Community Survey of 2018.

Rows of the one-year public use microdata (PUMS). Its codes become readable levels as in its data dictionary:

- education: SCHL's 24 values in 12 levels. None, nursery and kindergarten (1-3) are No-schooling, grades 1
  to 8 (4-11) Primary, grades 9 to 11 (12-14) Some-high-school, both kinds of college without a degree (18,
  19) Some-college; the others stand alone.
- occupation: OCCP's 529 codes in the six high-level groups of the Census Bureau's 2018 occupation code list.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..schema import Feature, Schema
from .base import AGE_AND_EDUCATION, Cleaned, DatasetSpec, NotebookSettings, PublishedSettings, RawFile

Levels = Mapping[int, str]

WORKCLASS: Levels = {
    1: "Private",
    2: "Non-profit",
    3: "Local-gov",
    4: "State-gov",
    5: "Federal-gov",
    6: "Self-emp-not-inc",
    7: "Self-emp-inc",
    8: "Without-pay",
}

EDUCATION: Levels = {
    **dict.fromkeys(range(1, 4), "No-schooling"),
    **dict.fromkeys(range(4, 12), "Primary"),
    **dict.fromkeys(range(12, 15), "Some-high-school"),
    15: "12th-no-diploma",
    16: "HS-diploma",
    17: "GED",
    **dict.fromkeys(range(18, 20), "Some-college"),
    20: "Associate",
    21: "Bachelor",
    22: "Master",
    23: "Professional",
    24: "Doctorate",
}

# Of the twelve levels of education, in this order.
RANKS = (0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 3)

MARITAL_STATUS: Levels = {1: "Married", 2: "Widowed", 3: "Divorced", 4: "Separated", 5: "Single"}

# The first code of each group; a group ends where the next begins.
OCCUPATION: Levels = {
    10: "Management-Business-Science-Arts",
    3601: "Service",
    4700: "Sales-Office",
    6005: "Resources-Construction-Maintenance",
    7700: "Production-Transport",
    9800: "Military",
}

GENDER: Levels = {1: "Male", 2: "Female"}

RACE: Levels = {
    1: "White",
    2: "Black",
    3: "American-Indian",
    4: "Alaska-Native",
    5: "American-Indian-or-Alaska-Native",
    6: "Asian",
    7: "Pacific-Islander",
    8: "Other",
    9: "Two-or-more",
}

SCHEMA = Schema(
    (
        # ACSIncome asks those over 16; the survey top-codes ages and hours at 99.
        Feature("age", "integer", low=17, high=99, unit="years"),
        Feature("workclass", "categorical", levels=tuple(WORKCLASS.values()), label="kind of employer"),
        Feature("education", "ordinal", levels=tuple(dict.fromkeys(EDUCATION.values())), ranks=RANKS),
        Feature("marital_status", "categorical", levels=tuple(MARITAL_STATUS.values())),
        Feature("occupation", "categorical", levels=tuple(OCCUPATION.values())),
        Feature("race", "categorical", levels=tuple(RACE.values()), mutable=False),
        Feature("gender", "categorical", levels=tuple(GENDER.values()), mutable=False),
        Feature("hours_per_week", "integer", low=1, high=99, unit="hours"),
    )
)

CODES: Mapping[str, tuple[str, Levels]] = {
    "workclass": ("COW", WORKCLASS),
    "education": ("SCHL", EDUCATION),
    "marital_status": ("MAR", MARITAL_STATUS),
    "race": ("RAC1P", RACE),
    "gender": ("SEX", GENDER),
}


def read(raw: bytes, sample: str) -> Cleaned:
    """The rows of a sample; categories as pandas categories, the index as in the whole ACSIncome table."""
    file = pd.read_parquet(io.BytesIO(raw))
    coded = file[file["in40"]] if sample == "national" else file
    columns: dict[str, Any] = {
        "age": coded["AGEP"].to_numpy(np.int64),
        "hours_per_week": coded["WKHP"].to_numpy(np.int64),
        "occupation": _grouped(coded["OCCP"].to_numpy(np.int64)),
        "income": coded["PINCP_GT_50K"].to_numpy(np.int64),
    }
    for name, (code, levels) in CODES.items():
        columns[name] = _named(coded[code].to_numpy(np.int64), levels, SCHEMA[name])
    table = pd.DataFrame(columns, index=pd.Index(coded["row_id"].to_numpy(np.int64)))
    return Cleaned(table[[*SCHEMA.names, "income"]], (_note(sample, len(table), len(file)),))


def _named(codes: NDArray[np.int64], levels: Levels, feature: Feature) -> pd.Categorical:
    places = np.full(max(levels) + 1, -1)
    for code, level in levels.items():
        places[code] = feature.code_of_level[level]
    return pd.Categorical.from_codes(places[codes], categories=list(feature.levels))


def _grouped(codes: NDArray[np.int64]) -> pd.Categorical:
    group = np.searchsorted(np.asarray(list(OCCUPATION)), codes, side="right") - 1
    return pd.Categorical.from_codes(group, categories=list(OCCUPATION.values()))


def _note(sample: str, kept: int, rows: int) -> str:
    if sample == "national":
        return f"National sample: a uniform 40 % of every state, {kept:,} rows. sample='all' gives {rows:,}."
    return (
        f"All {rows:,} available rows of 1,664,500: 46 states complete, but only 40 % of CA, FL, NY, TX "
        "and PR, so figures over all of them are not national ones."
    )


PAPER = partial(PublishedSettings, learning_rate=0.1, epochs=25, lof_k=70, latent=40)
UNARY = NotebookSettings(29, 192, 0.764, density=10, lof_k=20, epochs=25, latent=30, soft=1)
BINARY = NotebookSettings(76, 147, 0.344, density=80, lof_k=70, epochs=25, latent=30, soft=2)
PUBLISHED = {"unary": PAPER(notebook=UNARY), "binary": PAPER(notebook=BINARY)}

FOLKTABLES = DatasetSpec(
    name="folktables",
    title="Folktables ACSIncome 2018",
    citation=(
        "Ding, F., Hardt, M., Miller, J. & Schmidt, L. (2021). Retiring Adult: New Datasets for Fair Machine "
        "Learning. NeurIPS. Data: U.S. Census Bureau, American Community Survey 2018, 1-year PUMS."
    ),
    licence="US public domain",
    file=RawFile(
        name="acs_income_2018.parquet",
        sha256="c555af2f92e3fc221998b11610e20098954ad4654c1ecb658b09ae56a2623e99",
        size=9_046_393,
        by_hand=(
            "It cannot be downloaded from one address and must be placed by hand. It is made up from the "
            "Census Bureau's state files, "
            "https://www2.census.gov/programs-surveys/acs/data/pums/2018/1-Year/csv_p{state}.zip: the rows "
            "with AGEP > 16, PINCP > 100, WKHP > 0 and PWGTP >= 1, the columns AGEP, COW, SCHL, MAR, OCCP, "
            "POBP, RELP, WKHP, SEX, RAC1P and ST, the label PINCP > 50000 (PINCP_GT_50K), the row's number "
            "(row_id) and a mark for the national 40 % sample (in40)."
        ),
    ),
    schema=SCHEMA,
    label="income",
    target=1,
    rules=AGE_AND_EDUCATION,
    read=read,
    published=PUBLISHED,
    samples=("national", "all"),
    note="Income 1 is above 50,000 dollars. The default is the national 40 % sample.",
)
