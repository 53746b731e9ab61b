"""Loans: 2,000 applications to a bank that does not exist, made up by `made`, to try everything out on.

The file looks like one that a bank would send: an identifier, a date, a few gaps. Whether a loan was approved follows
from what is left of the income each month, from the time at the job and from the home, and a little from chance; sex
and the date have no part in it. The table is stored, so that it is the same with every release of numpy.
"""

from __future__ import annotations

import io

import numpy as np
import pandas as pd

from ..schema import Feature, Schema
from .base import Cleaned, DatasetSpec, RawFile

ROWS, GAPS = 2_000, 30
JOBS = {"clerk": 2300, "cook": 1900, "nurse": 2500, "smith": 2600, "teacher": 3100}
HOMES = ("family", "own", "rent")
# The days of 2025, since 1970.
FIRST, LAST = 20_089, 20_453

SCHEMA = Schema(
    (
        Feature("applied", "date", low=FIRST, high=LAST, mutable=False, label="date of the application"),
        Feature("age", "integer", low=18, high=80, unit="years"),
        Feature("gender", "categorical", levels=("female", "male"), mutable=False),
        Feature("job", "categorical", levels=tuple(JOBS)),
        Feature("employed", "integer", low=0, high=45, unit="years", label="years at the present job"),
        Feature("income", "integer", low=500, high=9000, step=10, unit="EUR", label="monthly income"),
        Feature("debts", "integer", low=0, high=2000, step=10, unit="EUR", label="monthly payments on other debts"),
        Feature(
            "home",
            "categorical",
            levels=HOMES,
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


def made(seed: int = 2025) -> pd.DataFrame:
    """The table, drawn anew; the file in the package is what this drew once."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(6, 4.5, ROWS) + 17, 18, 80).astype(int)
    job = rng.choice(list(JOBS), ROWS, p=[0.3, 0.2, 0.2, 0.18, 0.12])
    employed = np.minimum(rng.gamma(1.4, 5, ROWS), age - 17).astype(int)
    usual = pd.Series(job).map(JOBS).to_numpy() * (0.8 + 0.012 * np.minimum(employed, 25))
    income = np.clip(usual * rng.lognormal(0, 0.22, ROWS), 500, 9000).round(-1).astype(int)
    debts = np.where(rng.random(ROWS) < 0.45, np.clip(rng.gamma(2, 110, ROWS), 20, 2000), 0).round(-1).astype(int)
    home = rng.choice(HOMES, ROWS, p=[0.22, 0.3, 0.48])
    amount = np.clip(rng.gamma(2.2, 4200, ROWS), 500, 40_000).round(-2).astype(int)
    months = np.clip(np.rint(amount / 4500 + rng.normal(2.5, 1, ROWS)), 1, 7).astype(int) * 12
    left = income - debts - 1.06 * amount / months - 900 - 450 * (home == "rent") - 150 * (home == "own")
    score = left / 220 + 0.12 * np.minimum(employed, 10) - 1.9 + rng.logistic(0, 0.6, ROWS)
    days = pd.Timestamp("2025-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 365, ROWS)), unit="D")
    table = pd.DataFrame(
        {
            "application": [f"L-{10_000 + i}" for i in range(ROWS)],
            "applied": days.strftime("%Y-%m-%d"),
            "age": age,
            "gender": rng.choice(["female", "male"], ROWS),
            "job": job,
            "employed": pd.array(employed, dtype="Int64"),
            "income": income,
            "debts": debts,
            "home": home,
            "amount": amount,
            "months": months,
            "approved": np.where(score > 0, "yes", "no"),
        }
    )
    table.loc[rng.choice(ROWS, GAPS, replace=False), "employed"] = pd.NA
    return table


def read(raw: bytes, sample: str) -> Cleaned:
    """The applications without gaps, called by their numbers."""
    table = pd.read_csv(io.BytesIO(raw), index_col="application", parse_dates=["applied"])
    whole = table.dropna().astype({"employed": "int64"})
    note = f"Dropped {len(table) - len(whole)} of {len(table):,} rows in which years at the present job are missing."
    return Cleaned(whole[[*SCHEMA.names, "approved"]], (note,))


LOANS = DatasetSpec(
    name="loans",
    title="Loan applications (made up)",
    citation="Made up for fcxplain by seeded code; see fcxplain.datasets.loans.",
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
    note="Nobody behind it exists. It has an identifier, a date and a few gaps, as real tables do.",
)
