"""The benchmark data sets and your own tables, split into train, validation and test parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ..errors import DataError, Fault, also
from ..files import write_whole
from ..progress import OnProgress, no_progress
from . import base
from .adult import ADULT, ADULT_AUTHORS
from .base import Cleaned, Dataset, DatasetSpec, RawFile, unknown
from .census import CENSUS
from .download import raw_bytes
from .folktables import FOLKTABLES
from .law import LAW
from .loans import LOANS
from .tables import load_table, read_table

__all__ = [
    "DATASETS",
    "DEFAULT_DATASET",
    "Cleaned",
    "Dataset",
    "DatasetSpec",
    "RawFile",
    "load_dataset",
    "load_table",
    "read_table",
    "write_dataset",
]

# The paper's first data set, shipped with the package.
DEFAULT_DATASET = "adult"
DATASETS: dict[str, DatasetSpec] = {
    "adult": ADULT,
    "adult-authors": ADULT_AUTHORS,
    "census": CENSUS,
    "law": LAW,
    "folktables": FOLKTABLES,
    "loans": LOANS,
}


def load_dataset(
    name: str,
    *,
    seed: int = 0,
    rows: int | None = None,
    sample: str | None = None,
    folder: str | Path | None = None,
    on_progress: OnProgress = no_progress,
) -> Dataset:
    """A benchmark data set, cleaned and split 80/10/10, stratified on the label.

    Parameters
    ----------
    name : str
        One of `DATASETS`.
    seed : int, default=0
        Seed of the split.
    rows : int, optional
        The size of a seeded, stratified sample; all rows by default.
    sample : str, optional
        Which sample of the data set: "folktables" has "national" (the default, a uniform 40 % of
        every state) and "all"; the others have "all".
    folder : str or Path, optional
        Where to look for files first, by default `FCXPLAIN_DATA`; then the cache is searched, then they are
        downloaded. Adult is part of the package.
    on_progress : callable, optional
        Called with a `Progress` while a file is downloaded.

    Returns
    -------
    Dataset
        Train, validation and test parts.

    Raises
    ------
    DataError
        If the name is not known (also a `KeyError`), or the file is not available.

    Examples
    --------
    >>> from fcxplain import load_dataset
    >>> data = load_dataset("loans")
    >>> len(data.train), data.label, data.target
    (1576, 'approved', 'yes')
    """
    spec = DATASETS.get(name)
    if spec is None:
        raise also(DataError, KeyError)(unknown("data set", name, tuple(DATASETS)))
    chosen = spec.samples[0] if sample is None else sample
    if chosen not in spec.samples:
        raise DataError(unknown(f"sample of {name!r} called", chosen, spec.samples))
    if rows is not None and rows < 1:
        raise DataError(f"rows is {rows}; ask for at least 1, or leave it out for all")
    cleaned = spec.read(raw_bytes(spec.file, folder, on_progress), chosen)
    rng, table, notes = np.random.default_rng(seed), cleaned.table, cleaned.notes
    if rows is not None and rows < len(table):
        notes = (*notes, f"A stratified sample of {rows:,} of {len(table):,} rows, seed {seed}.")
        table = base.sample(table, spec.label, rows, rng)
    parts, rules, ranks = base.split(table, spec.label, rng), dict(spec.rules), dict(spec.ranks)
    return Dataset(spec.name, *parts, spec.label, spec.schema, spec.target, rules, notes, ranks)


def write_dataset(name: str, folder: str | Path = ".") -> list[Path]:
    """Write a data set in the form of your own data: NAME.csv, its schema NAME.toml, and one file per rule set.

    Parameters
    ----------
    name : str
        One of `DATASETS`, such as "loans".
    folder : str or Path, default="."
        The folder to write to; created if it does not exist.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    DataError
        If the name is not known, or a file already exists: none is overwritten.

    Examples
    --------
    >>> from fcxplain import write_dataset
    >>> [path.name for path in write_dataset("loans", "examples")]  # doctest: +SKIP
    ['loans.csv', 'loans.toml', 'loans.rules']
    """
    loaded, spec = load_dataset(name), DATASETS[name]
    if spec.file.packaged and spec.file.name.endswith(".csv"):
        text = raw_bytes(spec.file).decode("utf-8")
    else:
        table = pd.concat([loaded.train, loaded.validation, loaded.test]).sort_index()
        text = table.to_csv(index=False, lineterminator="\n")
    files = {f"{name}.csv": text, f"{name}.toml": loaded.schema.to_toml()}
    for which, rules in loaded.rules.items():
        files[f"{name}.rules" if len(loaded.rules) == 1 else f"{name}-{which}.rules"] = rules
    paths = [Path(folder, file) for file in files]
    there = [Fault(str(p), "already exists", "Remove it, or name another folder.") for p in paths if p.exists()]
    if there:
        raise DataError("", there)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path, content in zip(paths, files.values(), strict=True):
        write_whole(path, content)
    return paths
