"""How hard properties are tried: a fifth of their examples in every run, all with HYPOTHESIS_PROFILE=thorough."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
# A busy machine is slow, not wrong.
PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# Where there are few examples, none is left out.
LEAST = 4


def examples(many: int, few: int | None = None, **more: Any) -> settings:
    """Settings of a property that is worth so many examples where there is time, or `few` where each takes long."""
    usual = max(min(many, LEAST), many // 5) if few is None else few
    return settings(max_examples=many if THOROUGH else usual, **PATIENT | more)
