"""Law (LSAC National Longitudinal Bar Passage Study): who passed the bar examination, eventually.

The Kaggle edition of the study. Rows with a missing value in a feature or in race are dropped, as in the
paper; race is not used otherwise. `tier` rises with the school's standing (so does the mean LSAT).
"""

from __future__ import annotations

import io
from functools import partial

import pandas as pd

from ..schema import Feature, Schema
from .base import Cleaned, DatasetSpec, NotebookSettings, PublishedSettings, RawFile

SCHEMA = Schema(
    (
        Feature("lsat", "continuous", low=10, high=48, step=0.1, label="LSAT score", unit="points"),
        Feature("decile1b", "integer", low=1, high=10, label="decile of grades in the first year"),
        Feature("decile3", "integer", low=1, high=10, label="decile of grades in the third year"),
        Feature("ugpa", "continuous", low=0, high=4, step=0.1, label="undergraduate grade point average"),
        Feature("zfygpa", "continuous", low=-7, high=7, step=0.01, label="first year grades, standardised"),
        Feature("zgpa", "continuous", low=-7, high=7, step=0.01, label="law school grades, standardised"),
        Feature("fulltime", "categorical", levels=(1, 2), label="full time (1) or part time (2)"),
        Feature("fam_inc", "ordinal", levels=(1, 2, 3, 4, 5), label="family income, 1 (low) to 5"),
        Feature("tier", "ordinal", levels=(1, 2, 3, 4, 5, 6), label="tier of the law school"),
        Feature("male", "categorical", levels=(0, 1), mutable=False),
    )
)

# The file writes these with a decimal point because some are missing.
WHOLE = ("decile1b", "decile3", "fulltime", "fam_inc", "tier", "male", "pass_bar")

RULES = {
    "unary": "# An LSAT score once reached is kept.\nlsat' >= lsat\n",
    "binary": (
        "# A better school takes a better score, and a score once reached is kept.\n"
        "tier' > tier => lsat' > lsat\n"
        "tier' == tier => lsat' >= lsat\n"
        "tier' >= tier\n"
    ),
}


def read(raw: bytes, sample: str) -> Cleaned:
    """The rows without missing values, whole numbers as int64."""
    table = pd.read_csv(io.BytesIO(raw), usecols=[*SCHEMA.names, "race1", "pass_bar"])
    kept = table.dropna().astype(dict.fromkeys(WHOLE, "int64"))
    absent = table.isna().sum()
    worst = ", ".join(f"{name} {count:,}" for name, count in absent[absent > 0].items())
    note = f"Dropped {len(table) - len(kept):,} of {len(table):,} rows with missing values ({worst})."
    return Cleaned(kept[[*SCHEMA.names, "pass_bar"]], (note,))


PAPER = partial(PublishedSettings, learning_rate=0.2, lof_k=15, latent=10)
UNARY = NotebookSettings(29, 192, 0.364, density=1, lof_k=30, epochs=25, soft=1)
BINARY = NotebookSettings(76, 87, 0.344, density=10, lof_k=15, epochs=50, learning_rate=0.06, soft=10)
PUBLISHED = {"unary": PAPER(epochs=25, notebook=UNARY), "binary": PAPER(epochs=50, notebook=BINARY)}

LAW = DatasetSpec(
    name="law",
    title="Law school admissions and bar passage",
    citation="Wightman, L. F. (1998). LSAC National Longitudinal Bar Passage Study. LSAC Research Report.",
    licence="unclear; never redistributed here",
    file=RawFile(
        name="bar_pass_prediction.csv",
        sha256="781166451729a7a84719a46315e4563d340d7e30854272faf1d808eb454161bf",
        size=3_626_016,
        by_hand=(
            "It has no direct address: sign in at "
            "https://www.kaggle.com/datasets/danofer/law-school-admissions-bar-passage and download "
            "bar_pass_prediction.csv."
        ),
    ),
    schema=SCHEMA,
    label="pass_bar",
    target=1,
    rules=RULES,
    read=read,
    published=PUBLISHED,
    note="pass_bar 1 is passed eventually, not at the first attempt.",
)
