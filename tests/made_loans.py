"""The seeded code that made the table `loans`, which is stored so that it is the same with every release of numpy."""

from __future__ import annotations

import numpy as np
import pandas as pd

ROWS, GAPS = 2_000, 30
JOBS = {"clerk": 2300, "cook": 1900, "nurse": 2500, "smith": 2600, "teacher": 3100}
HOMES = ("family", "own", "rent")


def made(seed: int = 2025) -> pd.DataFrame:
    """Generate the table; the packaged file is the result of one run."""
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
