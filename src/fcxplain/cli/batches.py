"""A table explained some rows at a time, so that one can see how far it is; the answers are those of the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..explainer import FCx
from ..explanation import Explanation
from ..explanation.joining import joined
from ..overrides import Overrides
from ..overrides.reading import RowOverrides
from .work import working

# A second or a few of work.
ROWS = 500


def explained(fcx: FCx, table: pd.DataFrame, k: int = 1, **wishes: Any) -> Explanation:
    """What `fcx.explain` answers, with the rows done and the time left on standard error."""
    with working("explaining rows", len(table)) as work:
        # Overrides name rows of the whole table, and are refused if one is not there.
        if wishes.get("overrides") is not None or len(table) <= ROWS:
            found: Explanation = fcx.explain(table, k, **wishes)
            return found
        parts = []
        for start in range(0, len(table), ROWS):
            place = np.arange(start, min(start + ROWS, len(table)))
            parts.append((place, fcx.explain(table.iloc[place], k, **wishes)))
            work.move(int(place[-1]) + 1)
    none = Overrides.of([RowOverrides()] * len(table))
    return replace(joined(fcx.task_, table, parts, none), own=None)
