"""Tables too large for memory: explained some rows at a time, from a file of rows to a file of answers."""

from .overriding import matched
from .parts import kept_rows
from .run import OnRows, Progress, Streamed, chunk_for, stream

__all__ = ["OnRows", "Progress", "Streamed", "chunk_for", "kept_rows", "matched", "stream"]
