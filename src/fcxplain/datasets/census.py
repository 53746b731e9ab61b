"""Census-Income (KDD): who earned more than 50,000 dollars, in the population surveys of 1994 and 1995.

Every row of the training file. The paper counts one row less, having read the first as a header. Levels are
the file's own; the three that are numbers there are named as the survey's codebook names them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.resources import files

import pandas as pd

from ..schema import Feature, Schema
from .base import AGE_AND_EDUCATION, Cleaned, DatasetSpec, NotebookSettings, PublishedSettings, RawFile, read_columns

# Position of each used column, in the file's order; the others are recodes, migration and weights.
COLUMNS = {
    0: "age",
    1: "class_of_worker",
    4: "education",
    5: "wage_per_hour",
    7: "marital_status",
    8: "major_industry_code",
    9: "major_occupation_code",
    10: "race",
    12: "sex",
    15: "full_parttime_employment_stat",
    16: "capital_gains",
    17: "capital_losses",
    18: "dividends_from_stocks",
    19: "tax_filer_status",
    22: "d_household_family_stat",
    23: "d_household_summary",
    30: "num_persons_worked_for_employer",
    31: "family_members_under_18",
    35: "citizenship",
    36: "own_business_or_self_employed",
    38: "veterans_benefits",
    39: "weeks_worked_in_year",
    40: "year",
    41: "income",
}

ANSWERS = {"0": "Not in universe", "1": "Yes", "2": "No"}
MERGES = {
    "own_business_or_self_employed": ANSWERS,
    "veterans_benefits": ANSWERS,
    "year": {"94": "1994", "95": "1995"},
}

SCHEMA = Schema.from_toml(files(__package__).joinpath("census.toml").read_text(encoding="utf-8"))


def read(raw: bytes, sample: str) -> Cleaned:
    """Every row; categories as pandas categories, income as 0 and 1."""
    texts = [*SCHEMA.categories, "income"]
    table = read_columns(raw, COLUMNS, dtype=dict.fromkeys(texts, "category"))
    for name in SCHEMA.categories:
        table[name] = _settled(table[name], MERGES.get(name, {}), SCHEMA[name])
    table["income"] = (table["income"] == "50000+.").astype("int64")
    return Cleaned(table[[*SCHEMA.names, "income"]])


def _settled(column: pd.Series, merge: dict[str, str], feature: Feature) -> pd.Series:
    """Levels without stray blanks, renamed, in the schema's order."""
    levels = [merge.get(str(level).strip(), str(level).strip()) for level in column.cat.categories]
    return column.cat.rename_categories(levels).cat.set_categories(list(feature.levels))


PAPER = partial(PublishedSettings, learning_rate=0.1, epochs=25, lof_k=50, latent=30)
UNARY = NotebookSettings(29, 192, 0.764, density=1e-6, lof_k=50, epochs=25, learning_rate=0.1, latent=30)
PUBLISHED = {"unary": PAPER(notebook=UNARY), "binary": PAPER(notebook=replace(UNARY, density=10, sparsity=0.5))}

CENSUS = DatasetSpec(
    name="census",
    title="Census-Income (KDD), 1994 and 1995",
    citation=(
        "Census-Income (KDD) (2000). UCI Machine Learning Repository. doi:10.24432/C5N30T. "
        "Donors: Lane, T. & Kohavi, R."
    ),
    licence="CC BY 4.0",
    file=RawFile(
        name="census-income.data",
        sha256="3676a81db7d3528f3f8b9f3c699d0f0aa28db45e6e994fa0b8ed38327539ee86",
        size=103_874_469,
        by_hand=(
            "It is in https://archive.ics.uci.edu/static/public/117/census+income+kdd.zip "
            "(UCI, Census-Income (KDD), the training file)."
        ),
        addresses=("https://archive.ics.uci.edu/static/public/117/census+income+kdd.zip",),
    ),
    schema=SCHEMA,
    label="income",
    target=1,
    rules=AGE_AND_EDUCATION,
    read=read,
    published=PUBLISHED,
    note="Income 1 is above 50,000 dollars. Children are in the survey, so most incomes are 0.",
)
