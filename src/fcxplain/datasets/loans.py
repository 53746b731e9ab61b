"""Loans: 2,000 synthetic applications to a fictitious bank, for examples and tests.

The file looks like real data: an identifier, a date, a few gaps. Approval depends on the income left each month, on
the time in the job, on the home, and a little on chance; sex and date play no part. The seeded code that generated it
is in tests/made_loans.py of the repository.
"""

from __future__ import annotations

import io

import pandas as pd

from ..schema import Feature, Schema
from .base import Cleaned, DatasetSpec, RawFile

# The first and last day of 2025, in days since 1970.
FIRST, LAST = 20_089, 20_453

SCHEMA = Schema(
    (
        Feature("applied", "date", low=FIRST, high=LAST, mutable=False, label="date of the application"),
        Feature("age", "integer", low=18, high=80, unit="years"),
        Feature("gender", "categorical", levels=("female", "male"), mutable=False),
        Feature("job", "categorical", levels=("clerk", "cook", "nurse", "smith", "teacher")),
        Feature("employed", "integer", low=0, high=45, unit="years", label="years at the present job"),
        Feature("income", "integer", low=500, high=9000, step=10, unit="EUR", label="monthly income"),
        Feature("debts", "integer", low=0, high=2000, step=10, unit="EUR", label="monthly payments on other debts"),
        Feature(
            "home",
            "categorical",
            levels=("family", "own", "rent"),
            labels={"family": "with family", "own": "owned", "rent": "rented"},
        ),
        Feature("amount", "integer", low=500, high=40_000, step=100, unit="EUR", label="amount of the loan"),
        Feature("months", "integer", low=12, high=84, step=12, unit="months", label="term of the loan"),
    ),
    classes={"no": "refused", "yes": "approved"},
)

RULES = {
    "actionable": (
        "# Nobody grows younger, and nobody waits longer than two years.\n"
        "age' >= age\n"
        "age' <= age + 2\n"
        "# Years at a job take years, and a new job begins at none.\n"
        "employed' > employed => age' > age and job' == job\n"
        "employed' <= employed + 2\n"
        "# An income rises by a quarter at most; a loan is made smaller, not larger.\n"
        "income' <= 1.25 * income\n"
        "amount' <= amount\n"
        "# Nobody is advised to move.\n"
        "home' == home\n"
    )
}


def read(raw: bytes, sample: str) -> Cleaned:
    """The applications without gaps, labelled by their numbers."""
    table = pd.read_csv(io.BytesIO(raw), index_col="application", parse_dates=["applied"])
    whole = table.dropna().astype({"employed": "int64"})
    note = f"Dropped {len(table) - len(whole)} of {len(table):,} rows without years at the present job."
    return Cleaned(whole[[*SCHEMA.names, "approved"]], (note,))


LOANS = DatasetSpec(
    name="loans",
    title="Loan applications (synthetic)",
    citation="Generated for fcxplain by seeded code; see tests/made_loans.py.",
    licence="CC0 1.0",
    file=RawFile(
        name="loans.csv",
        sha256="2678ed0585e495e77de5dbbf16ca36b1c8a99e3a4ca4e266b7cfa17c5e125e5d",
        size=122_761,
        by_hand="It is part of the fcxplain package.",
        packaged=True,
    ),
    schema=SCHEMA,
    label="approved",
    target="yes",
    rules=RULES,
    read=read,
    published={},
    note="All applicants are fictitious. It has an identifier, a date and a few gaps, like real tables.",
)
