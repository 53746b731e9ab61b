"""Tables too large for memory: explained some rows at a time, from a file of rows to a file of answers."""

from .overriding import matched
from .run import CHUNK, OnRows, Progress, Streamed, stream

__all__ = ["CHUNK", "OnRows", "Progress", "Streamed", "matched", "stream"]
