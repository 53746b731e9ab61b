"""Tables past memory are fitted on a sample: drawn by the seed, each row as likely as any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fcxplain import load_table
from fcxplain.datasets import read_table
from fcxplain.errors import DataError

TABLE = pd.DataFrame({"number": range(1000), "half": np.arange(1000) / 2, "good": np.arange(1000) % 3 == 0})


def spread(folder: Path, sizes: list[int]) -> Path:
    folder.mkdir()
    ends = np.cumsum(sizes)
    for number, (start, end) in enumerate(zip(ends - sizes, ends, strict=True)):
        TABLE.iloc[start:end].to_parquet(folder / f"part-{number}.parquet", row_group_size=37)
    return folder


def test_a_sample_depends_on_the_seed_and_not_on_the_files(tmp_path: Path):
    two, twelve = spread(tmp_path / "two", [400, 600]), spread(tmp_path / "twelve", [100] * 8 + [50] * 4)
    first, second, other = (
        read_table(p, rows=200, seed=s) for p, s in ((two, 3), (f"{twelve}/*.parquet", 3), (two, 4))
    )
    pd.testing.assert_frame_equal(first, second)
    assert not first.equals(other)
    assert first.index.tolist() == first["number"].tolist() == sorted(set(first["number"]))
    assert len(first) == 200
    pd.testing.assert_frame_equal(read_table(two), TABLE, check_index_type=False)


def test_every_row_is_as_likely_as_any_other(tmp_path: Path):
    folder = spread(tmp_path / "rows", [990, 10])
    drawn = np.bincount(
        np.concatenate([read_table(folder, rows=100, seed=s)["number"] for s in range(20)]), minlength=1000
    )
    # Twice each on average; the last ten rows together 20 times, give or take four times their deviation.
    assert (drawn.sum(), drawn.max() < 15) == (2000, True)
    assert 3 <= drawn[-10:].sum() <= 37


def test_a_data_set_of_a_folder_says_how_it_was_drawn(tmp_path: Path):
    folder = spread(tmp_path / "rows", [500, 500])
    data = load_table(folder, label="good", rows=300, seed=7)
    assert "A sample of 300 of 1,000 rows, drawn by seed 7." in data.notes
    assert (len(data), data.name) == (300, "rows")
    (folder / "more.csv").write_text("number,half,good\n")
    with pytest.raises(DataError, match=r"with files that are not parquet \('more.csv'\)"):
        load_table(folder, label="good")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="is a folder without tables"):
        load_table(tmp_path / "empty", label="good")


# Room for so many bytes beside what is loaded already; the table has four times as many.
ROOM = 200_000_000
FITS = """
import resource, sys
import pandas as pd
import sklearn.ensemble, sklearn.linear_model, sklearn.neighbors
import fcxplain.explainer
from fcxplain import FCx, Task, load_table
from fcxplain.classifier import train_classifier

folder, room = sys.argv[1], int(sys.argv[2])
# Threads that read take room of their own.
pd.read_parquet(folder + "/0.parquet")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
data = load_table(folder, label="good", target=True, rows=2000, seed=1)
task = Task(data.train, train_classifier(data, "boosting"), schema=data.schema, target=True, label="good")
fcx = FCx(generator=False).fit(task)
print(fcx.explain(data.test.iloc[:5]).counts, "torch" in sys.modules)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited as on Linux")
def test_a_folder_larger_than_memory_is_fitted(tmp_path: Path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"x{i}": rng.integers(0, 100, 100_000) / 4 for i in range(5)})
    table["good"] = table["x0"] + table["x1"] > 25
    table.to_parquet(tmp_path / "0.parquet", row_group_size=20_000)
    for number in range(1, 100):
        os.link(tmp_path / "0.parquet", tmp_path / f"{number}.parquet")
    assert 100 * table.memory_usage(index=False).sum() > 2 * ROOM
    single = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", FITS, str(tmp_path), str(ROOM)]
    done = subprocess.run(command, capture_output=True, text=True, env=single, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("} False\n"), done.stdout
