"""From a cold process to the first verified answer for a scikit-learn model on Adult, in CPU seconds, part by part.

Run it as `python benchmarks/cold_start.py`; the last line is the sum. One thread.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
PARTS: list[tuple[str, float]] = []


def part(name: str) -> None:
    """Note what the process has used up to here."""
    PARTS.append((name, time.process_time()))


def main() -> None:
    """Go all the way, and say what each part took."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    part("python, scikit-learn")
    from fcxplain import FCx, Task, load_dataset

    part("import fcxplain")
    data = load_dataset("adult")
    part("load the table")
    columns = [n for n in data.features if n not in data.schema.numbers], list(data.schema.numbers)
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), columns[0]), (StandardScaler(), columns[1])),
        LogisticRegression(max_iter=200),
    ).fit(data.train[data.features], data.train[data.label])
    part("the user's own training")
    task = Task(data.train, model, schema=data.schema, rules=data.rules["binary"], target=1, label=data.label)
    part("Task")
    fcx = FCx(generator=False).fit(task)
    part("fit")
    rows = data.test[data.features].head(50)
    answer = fcx.explain(rows[task.refused(rows)].head(1))
    assert answer.counts == {"verified": 1}, answer.counts
    part("the first answer")
    assert answer.certificates[0].passed
    part("its certificate")
    before = 0.0
    for name, after in PARTS:
        print(f"{name:26s} {after - before:6.2f}")
        before = after
    print(f"{'all':26s} {before:6.2f}")


if __name__ == "__main__":
    main()
