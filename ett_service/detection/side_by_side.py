"""A suspect against what ran beside it: both after the onset, so that time is no difference."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ett_service.core.regression import SideBySide, Suspect
from ett_service.detection import ranks
from ett_service.detection.dimensions import Bools, Cell, holds
from ett_service.detection.sample import Floats

FEWEST = 3
"""Attempts with the value, and others, to compare any."""


def side_by_side(
    suspect: Suspect, cells: Sequence[Cell], log_us: Floats, after: Bools
) -> SideBySide | None:
    """Compare the suspect's rows with those of the value that most others had after the onset.

    *log_us* are logarithms of durations, strata taken off. What came only after the onset is
    compared with nothing, and of hosts all others are, since an attempt has several. None where
    either side has too few.
    """
    has = np.array([holds(cell, suspect.value) for cell in cells], dtype=np.bool_)
    several = any(not isinstance(cell, str) for cell in cells)
    against = "" if several else _most(cells, has, after)
    if not several and not against:
        return None
    others = np.array(
        [
            not is_in and (not against or cell == against)
            for cell, is_in in zip(cells, has, strict=True)
        ],
        dtype=np.bool_,
    )
    now = log_us[has & after], log_us[others & after]
    was = log_us[has & ~after], log_us[others & ~after]
    if min(len(one) for one in now) < FEWEST:
        return None
    apart = 0.0
    if min(len(one) for one in was) >= FEWEST:
        apart = float(np.median(was[0]) - np.median(was[1]))
    found = ranks.compare(now[1], now[0] - apart)
    if found is None:
        return None
    return SideBySide(
        dimension=suspect.dimension,
        value=suspect.value,
        against=against,
        n=len(now[0]),
        against_n=len(now[1]),
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        p=found.p,
    )


def _most(cells: Sequence[Cell], has: Bools, after: Bools) -> str:
    """Return what most of the others had, of what there was before, too; empty for none."""
    before = {cell for cell, is_after in zip(cells, after, strict=True) if not is_after}
    counts = Counter(
        cell
        for cell, is_in, is_after in zip(cells, has, after, strict=True)
        if is_after and not is_in and cell in before and isinstance(cell, str) and cell
    )
    return min(counts, key=lambda one: (-counts[one], one), default="")
