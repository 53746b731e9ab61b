"""Tables too large for memory: explained partition by partition, from files of rows to files of answers."""

from .rows import RowFiles, SliceReader, matched
from .run import Partition, Streamed, chunk_for, explain_partition, folder_of, is_folder, kept_rows, stream

__all__ = [
    "Partition",
    "RowFiles",
    "SliceReader",
    "Streamed",
    "chunk_for",
    "explain_partition",
    "folder_of",
    "is_folder",
    "kept_rows",
    "matched",
    "stream",
]
