"""Census-Income (KDD): who earned more than 50,000 dollars, in the population surveys of 1994 and 1995.

Every row of the training file. The paper counts one row less, having read the first as a header. Levels are
the file's own; the three that are numbers there are named as the survey's codebook names them.
"""

from __future__ import annotations

import io

import pandas as pd

from ..schema import Feature, Schema
from .base import AGE_AND_EDUCATION, Cleaned, DatasetSpec, PublishedSettings, RawFile

# Position of each column that is used, in the file's order; the others are recodes, migration and weights.
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

RANKS = {
    "Children": 0,
    "Less than 1st grade": 0,
    "1st 2nd 3rd or 4th grade": 1,
    "5th or 6th grade": 1,
    "7th and 8th grade": 2,
    "9th grade": 2,
    "10th grade": 2,
    "11th grade": 2,
    "12th grade no diploma": 2,
    "High school graduate": 2,
    "Some college but no degree": 3,
    "Associates degree-occup /vocational": 4,
    "Associates degree-academic program": 4,
    "Bachelors degree(BA AB BS)": 4,
    "Prof school degree (MD DDS DVM LLB JD)": 5,
    "Masters degree(MA MS MEng MEd MSW MBA)": 6,
    "Doctorate degree(PhD EdD)": 7,
}

LEVELS = {
    "class_of_worker": (
        "Federal government",
        "Local government",
        "Never worked",
        "Not in universe",
        "Private",
        "Self-employed-incorporated",
        "Self-employed-not incorporated",
        "State government",
        "Without pay",
    ),
    "marital_status": (
        "Divorced",
        "Married-A F spouse present",
        "Married-civilian spouse present",
        "Married-spouse absent",
        "Never married",
        "Separated",
        "Widowed",
    ),
    "major_industry_code": (
        "Agriculture",
        "Armed Forces",
        "Business and repair services",
        "Communications",
        "Construction",
        "Education",
        "Entertainment",
        "Finance insurance and real estate",
        "Forestry and fisheries",
        "Hospital services",
        "Manufacturing-durable goods",
        "Manufacturing-nondurable goods",
        "Medical except hospital",
        "Mining",
        "Not in universe or children",
        "Other professional services",
        "Personal services except private HH",
        "Private household services",
        "Public administration",
        "Retail trade",
        "Social services",
        "Transportation",
        "Utilities and sanitary services",
        "Wholesale trade",
    ),
    "major_occupation_code": (
        "Adm support including clerical",
        "Armed Forces",
        "Executive admin and managerial",
        "Farming forestry and fishing",
        "Handlers equip cleaners etc",
        "Machine operators assmblrs & inspctrs",
        "Not in universe",
        "Other service",
        "Precision production craft & repair",
        "Private household services",
        "Professional specialty",
        "Protective services",
        "Sales",
        "Technicians and related support",
        "Transportation and material moving",
    ),
    "race": (
        "Amer Indian Aleut or Eskimo",
        "Asian or Pacific Islander",
        "Black",
        "Other",
        "White",
    ),
    "sex": (
        "Female",
        "Male",
    ),
    "full_parttime_employment_stat": (
        "Children or Armed Forces",
        "Full-time schedules",
        "Not in labor force",
        "PT for econ reasons usually FT",
        "PT for econ reasons usually PT",
        "PT for non-econ reasons usually FT",
        "Unemployed full-time",
        "Unemployed part- time",
    ),
    "tax_filer_status": (
        "Head of household",
        "Joint both 65+",
        "Joint both under 65",
        "Joint one under 65 & one 65+",
        "Nonfiler",
        "Single",
    ),
    "d_household_family_stat": (
        "Child 18+ ever marr Not in a subfamily",
        "Child 18+ ever marr RP of subfamily",
        "Child 18+ never marr Not in a subfamily",
        "Child 18+ never marr RP of subfamily",
        "Child 18+ spouse of subfamily RP",
        "Child <18 ever marr RP of subfamily",
        "Child <18 ever marr not in subfamily",
        "Child <18 never marr RP of subfamily",
        "Child <18 never marr not in subfamily",
        "Child <18 spouse of subfamily RP",
        "Child under 18 of RP of unrel subfamily",
        "Grandchild 18+ ever marr RP of subfamily",
        "Grandchild 18+ ever marr not in subfamily",
        "Grandchild 18+ never marr RP of subfamily",
        "Grandchild 18+ never marr not in subfamily",
        "Grandchild 18+ spouse of subfamily RP",
        "Grandchild <18 ever marr not in subfamily",
        "Grandchild <18 never marr RP of subfamily",
        "Grandchild <18 never marr child of subfamily RP",
        "Grandchild <18 never marr not in subfamily",
        "Householder",
        "In group quarters",
        "Nonfamily householder",
        "Other Rel 18+ ever marr RP of subfamily",
        "Other Rel 18+ ever marr not in subfamily",
        "Other Rel 18+ never marr RP of subfamily",
        "Other Rel 18+ never marr not in subfamily",
        "Other Rel 18+ spouse of subfamily RP",
        "Other Rel <18 ever marr RP of subfamily",
        "Other Rel <18 ever marr not in subfamily",
        "Other Rel <18 never marr child of subfamily RP",
        "Other Rel <18 never marr not in subfamily",
        "Other Rel <18 never married RP of subfamily",
        "Other Rel <18 spouse of subfamily RP",
        "RP of unrelated subfamily",
        "Secondary individual",
        "Spouse of RP of unrelated subfamily",
        "Spouse of householder",
    ),
    "d_household_summary": (
        "Child 18 or older",
        "Child under 18 ever married",
        "Child under 18 never married",
        "Group Quarters- Secondary individual",
        "Householder",
        "Nonrelative of householder",
        "Other relative of householder",
        "Spouse of householder",
    ),
    "family_members_under_18": (
        "Both parents present",
        "Father only present",
        "Mother only present",
        "Neither parent present",
        "Not in universe",
    ),
    "citizenship": (
        "Foreign born- Not a citizen of U S",
        "Foreign born- U S citizen by naturalization",
        "Native- Born abroad of American Parent(s)",
        "Native- Born in Puerto Rico or U S Outlying",
        "Native- Born in the United States",
    ),
}


def _category(name: str, levels: tuple[str, ...] = (), **fields: bool | str) -> Feature:
    return Feature(name, "categorical", levels=levels or LEVELS[name], **fields)  # type: ignore[arg-type]


SCHEMA = Schema(
    (
        # Ages are top-coded at 90; amounts are as wide as the survey's fields.
        Feature("age", "integer", low=0, high=90, unit="years"),
        _category("class_of_worker"),
        Feature("education", "ordinal", levels=tuple(RANKS), ranks=tuple(RANKS.values())),
        Feature("wage_per_hour", "integer", low=0, high=9_999, unit="cents"),
        _category("marital_status"),
        _category("major_industry_code", label="industry"),
        _category("major_occupation_code", label="occupation"),
        _category("race", mutable=False),
        _category("sex", mutable=False),
        _category("full_parttime_employment_stat", label="full or part time employment"),
        Feature("capital_gains", "integer", low=0, high=99_999, unit="dollars"),
        Feature("capital_losses", "integer", low=0, high=9_999, unit="dollars"),
        Feature("dividends_from_stocks", "integer", low=0, high=99_999, unit="dollars"),
        _category("tax_filer_status"),
        _category("d_household_family_stat", label="place in household and family, detailed"),
        _category("d_household_summary", label="place in household"),
        # A code for the employer's size: 0 is none, 6 is 1,000 and more.
        Feature(
            "num_persons_worked_for_employer",
            "integer",
            low=0,
            high=6,
            label="size of employer (0 to 6)",
        ),
        _category("family_members_under_18"),
        _category("citizenship"),
        _category("own_business_or_self_employed", tuple(ANSWERS.values())),
        _category("veterans_benefits", tuple(ANSWERS.values())),
        Feature("weeks_worked_in_year", "integer", low=0, high=52, unit="weeks"),
        _category("year", ("1994", "1995"), label="year of the survey"),
    )
)


def read(raw: bytes, sample: str) -> Cleaned:
    """Every row; categories as pandas categories, income as 0 and 1."""
    texts = [*SCHEMA.categories, "income"]
    table = pd.read_csv(
        io.BytesIO(raw),
        header=None,
        names=list(COLUMNS.values()),
        usecols=list(COLUMNS),
        skipinitialspace=True,
        keep_default_na=False,
        dtype=dict.fromkeys(texts, "category"),
    )
    for name in SCHEMA.categories:
        table[name] = _settled(table[name], MERGES.get(name, {}), SCHEMA[name])
    table["income"] = (table["income"] == "50000+.").astype("int64")
    return Cleaned(table[[*SCHEMA.names, "income"]])


def _settled(column: pd.Series, merge: dict[str, str], feature: Feature) -> pd.Series:
    """Levels without stray blanks, renamed, in the schema's order."""
    levels = [merge.get(str(level).strip(), str(level).strip()) for level in column.cat.categories]
    return column.cat.rename_categories(levels).cat.set_categories(list(feature.levels))


PUBLISHED = {
    "unary": PublishedSettings(learning_rate=0.1, epochs=25, lof_k=50, latent=30),
    "binary": PublishedSettings(learning_rate=0.1, epochs=25, lof_k=50, latent=30),
}

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
