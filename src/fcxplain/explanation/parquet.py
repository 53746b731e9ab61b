"""The parquet file of an explanation: a frame with the rows as they were beside it, and a word on what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import FormatError
from ..writing import replacing

FORMAT = 1
KEY = b"fcxplain"
NOW = "now: "


def write_frame(path: str | Path, frame: pd.DataFrame, now: pd.DataFrame, about: dict[str, Any]) -> None:
    """Write the lines of a frame and, beside each, the row as it is now; whole or not at all."""
    table = pa.Table.from_pandas(pd.concat([frame, now.add_prefix(NOW)], axis=1), preserve_index=False)
    told = json.dumps({"format": FORMAT, **about}).encode()
    with replacing(path) as temporary:
        pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), KEY: told}), temporary)


def read_frame(path: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """What the file is, and its lines; anything but such a file is a `FormatError`."""
    try:
        table = pq.read_table(path)
        about = json.loads((table.schema.metadata or {})[KEY])
        version = about["format"]
    except FileNotFoundError:
        raise FormatError(f"there is no file {path}") from None
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
        problem = f"{path} does not hold answers written by fcxplain ({type(error).__name__}: {error})"
        raise FormatError(problem) from error
    if version != FORMAT:
        raise FormatError(f"{path} has format {version}, this fcxplain reads {FORMAT}. Upgrade, or explain again.")
    return about, table.to_pandas()
