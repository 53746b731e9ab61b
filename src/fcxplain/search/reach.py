"""The highest margin that a row can reach under the rules, for models whose margin is a sum over features."""

from __future__ import annotations

import numpy as np

from ..region.codes import CodeRegion, NumberSide, RuleWays
from .context import Context
from .oracles.codes import CodeOracle
from .space import Bools, Codes, Floats, Rows

# Values of all features together, and numbers held at a time, in arrays of rows x alternatives x values.
MOST_VALUES, HELD = 20_000, 2**22


def out_of_reach(context: Context, rows: Rows, *, whatever_rounding: bool = False) -> Bools:
    """Rows for which no candidate gets the target class, by codes; none unless the model's margin is a sum.

    With `whatever_rounding`, only rows for which rounding could not help either.
    """
    oracle, space = context.oracle, context.space
    found = np.zeros(len(rows), dtype=bool)
    if not isinstance(oracle, CodeOracle) or not oracle.additive or space.tops.sum() > MOST_VALUES:
        return found
    region = context.legal.region(rows)
    if region is None or any(rows.off_grid_features) or not rows.wanted.is_one_sided:
        return found
    limit = np.full(len(rows), -oracle.rounding) if whatever_rounding else oracle.least(rows.wanted)
    size = max(1, HELD // (int(space.tops.max(initial=0)) + 1) // max([1, *(g.open.shape[1] for g in region.groups)]))
    for start in range(0, len(rows), size):
        part = np.arange(start, min(start + size, len(rows)))
        found[part] = _most(context, oracle, rows.take(part), region.take(part)) <= limit[part]
    return found


def _most(context: Context, oracle: CodeOracle, rows: Rows, region: CodeRegion) -> Floats:
    """The highest margin that each row can reach under the rules."""
    space, every = context.space, np.arange(len(rows))
    here = oracle.margins(rows, every, rows.codes)
    gains = {int(i): _gains(oracle, rows, here, int(i), int(space.tops[i]) + 1) for i in np.flatnonzero(space.movable)}
    ruled = {side.place for group in region.groups for side in group.sides}
    total = here + sum(gain.max(axis=1) for i, gain in gains.items() if i not in ruled)
    for group in region.groups:
        total = total + _most_of(group, region.row, gains)
    return np.asarray(total)


def _gains(oracle: CodeOracle, rows: Rows, here: Floats, i: int, values: int) -> Floats:
    """The gain in margin of each value of a feature, for each row, `rows x values`."""
    row, code = np.repeat(np.arange(len(rows)), values), np.tile(np.arange(values), len(rows))
    codes = rows.codes[row]
    codes[:, i] = code
    return np.asarray(oracle.margins(rows, row, codes) - here[row]).reshape(len(rows), values)


def _most_of(group: RuleWays, row: Codes, gains: dict[int, Floats]) -> Floats:
    """The highest gain in margin over all alternatives that keep a group of rules."""
    total = np.where(group.open[row], 0.0, -np.inf)
    for side in group.sides:
        gain = gains[side.place][:, None, :]
        if isinstance(side, NumberSide):
            code = np.arange(gain.shape[2])
            allowed = (side.low[row][:, :, None] <= code) & (code <= side.high[row][:, :, None])
        else:
            allowed = side.levels[row]
        total = total + np.where(allowed, gain, -np.inf).max(axis=2)
    return np.asarray(total.max(axis=1, initial=-np.inf))
