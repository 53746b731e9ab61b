"""Tables too large for memory: explained some rows at a time, from a file of rows to a file of answers."""

from .rows import matched
from .run import Streamed, chunk_for, kept_rows, stream

__all__ = ["Streamed", "chunk_for", "kept_rows", "matched", "stream"]
