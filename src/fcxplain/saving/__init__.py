"""Saved objects: a folder with a manifest (JSON) and weights (safetensors), never code. See `container`.

Checkpoints, which need torch, are in `checkpoint`; networks are in `networks`.
"""

from ..hashing import fingerprint
from .container import Saved, read, write
from .manifest import FORMAT

__all__ = ["FORMAT", "Saved", "fingerprint", "read", "write"]
