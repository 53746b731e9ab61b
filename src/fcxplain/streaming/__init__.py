"""Tables too large for memory: explain them partition by partition, from files of rows to files of answers."""

from .cluster import OnCluster, WorkerJob, check_engine
from .parts import Partition, folder_of, is_folder, kept_rows
from .rows import RowFiles, SliceReader, matched
from .run import Streamed, chunk_for, explain_partition, stream

__all__ = [
    "OnCluster",
    "Partition",
    "RowFiles",
    "SliceReader",
    "Streamed",
    "WorkerJob",
    "check_engine",
    "chunk_for",
    "explain_partition",
    "folder_of",
    "is_folder",
    "kept_rows",
    "matched",
    "stream",
]
