"""Tables too large for memory: explained some rows at a time, from a file of rows to a file of answers."""

from .run import CHUNK, Progress, Streamed, stream

__all__ = ["CHUNK", "Progress", "Streamed", "stream"]
