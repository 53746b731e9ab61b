"""Saved things: a folder with a manifest (JSON) and weights (safetensors), never code. See `container`."""

from ..hashing import fingerprint
from .checkpoint import Checkpoint, resume
from .container import Saved, read, write
from .manifest import FORMAT

__all__ = ["FORMAT", "Checkpoint", "Saved", "fingerprint", "read", "resume", "write"]
