"""Tables too large for memory: explained partition by partition, from files of rows to files of answers."""

from .cluster import OnCluster, check_dask
from .rows import RowFiles, SliceReader, matched
from .run import Partition, Streamed, chunk_for, explain_partition, folder_of, is_folder, kept_rows, stream

__all__ = [
    "OnCluster",
    "Partition",
    "RowFiles",
    "SliceReader",
    "Streamed",
    "check_dask",
    "chunk_for",
    "explain_partition",
    "folder_of",
    "is_folder",
    "kept_rows",
    "matched",
    "stream",
]
