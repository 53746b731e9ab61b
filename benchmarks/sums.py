"""How fast rules that are sums are repaired, and what they cost the search: `python benchmarks/sums.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from fcxplain import Feature, Schema, Task
from fcxplain.classifier import train_classifier
from fcxplain.region.repair import Repairer
from fcxplain.rules import holds, parse_rules
from fcxplain.search import Search

SCHEMA = Schema(
    (
        Feature("income", "integer", low=0, high=9000, step=10),
        Feature("amount", "integer", low=0, high=20000),
        Feature("rent", "continuous", low=0, high=3000, step=0.5),
        Feature("food", "continuous", low=0, high=2000, step=0.01),
        Feature("total", "continuous", low=0, high=6000, step=0.01),
        Feature("age", "integer", low=18, high=90),
        Feature("a", "integer", low=0, high=100),
        Feature("b", "integer", low=0, high=100),
        Feature("job", "categorical", levels=tuple("pqrst")),
        Feature("degree", "ordinal", levels=("none", "school", "college", "phd")),
        Feature("home", "categorical", levels=("own", "rent", "other")),
    )
)
RULES = (
    "",
    "rent' + food' <= 1500",
    "rent' + food' + a' + b' <= 1700",
    "rent' + food' + a' + b' <= income",
    "amount' <= 5 * income'",
    "3 * a' + 2 * b' <= 200",
    "total' == rent' + food'",
    "rent' + food' <= 1500 or age' >= 60",
    "home' == own => rent' + food' <= 1000",
    "abs(a' - a) + abs(b' - b) <= 10",
    "rent' + food' <= income'\nfood' + total' >= 500",
    "total' == rent' + food'\ntotal' + a' <= income'",
)


def made_up(rows: int, seed: int) -> pd.DataFrame:
    """Rows at random, with a total that is one."""
    random = np.random.default_rng(seed)
    natural = {f.name: f.at(random.integers(0, f.top + 1, rows) // (2 if f.is_number else 1)) for f in SCHEMA}
    natural["total"] = np.round(natural["rent"] + natural["food"], 2)
    return SCHEMA.table(natural)


def seconds(work: Callable[[], Any], times: int = 3) -> float:
    """CPU seconds, the best of a few turns."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    """Print a line for each rule."""
    train = made_up(2000, 0)
    score = train.income / 1500 - train.amount / 6000 + train.rent / 800 + train.food / 500
    score += train.a / 50 + train.b / 40
    labelled = train.assign(loan=np.where(score > score.quantile(0.6), "yes", "no"))
    model = train_classifier(SimpleNamespace(train=labelled, validation=labelled[:400], label="loan", schema=SCHEMA))
    before, after = SCHEMA.natural(made_up(20_000, 1)), SCHEMA.natural(made_up(20_000, 2))
    after["total"] = np.roll(after["total"], 1)
    asked = made_up(900, 3)
    asked = asked[Task(train, model, schema=SCHEMA, target="yes").refused(asked)][:200]
    print(f"{'rule':64s} {'broken':>7s} {'exact/s':>9s} {'near/s':>9s} {'search, ms a row':>17s} {'verified':>8s}")
    for text in RULES:
        rules = parse_rules(text, SCHEMA)
        repairer = Repairer(rules, SCHEMA)
        # Sums that share values need an integer program for some rows, so that fewer are enough.
        rows = 20_000 if len(rules) < 2 else 1_000
        first, second = ({n: v[:rows] for n, v in side.items()} for side in (before, after))
        exact = rows / seconds(lambda r=repairer, a=first, b=second: r.nearest(a, b))
        near = rows / seconds(lambda r=repairer, a=first, b=second: r.nearest(a, b, exact=False))
        search = Search(Task(train, model, schema=SCHEMA, rules=text, target="yes"))
        search.explain(asked[:5])
        spent = seconds(lambda s=search: s.explain(asked)) / len(asked) * 1000
        verified = (search.explain(asked).status == "verified").mean()
        broken, name = 1 - holds(rules, first, second).mean(), text.replace("\n", "; ") or "none"
        print(f"{name:64s} {broken:7.0%} {exact:9,.0f} {near:9,.0f} {spent:17.2f} {verified:8.0%}", flush=True)


if __name__ == "__main__":
    main()
