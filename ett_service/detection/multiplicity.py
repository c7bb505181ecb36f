"""What a small p-value is worth among many."""

from collections.abc import Sequence

import numpy as np

from ett_service.detection.sample import Floats


def limit(chances: Floats, q: float) -> float:
    """Return the largest p that Benjamini and Hochberg (1995) let pass; at least that of one."""
    if not len(chances):
        return q
    ordered = np.sort(chances)
    bound = np.arange(1, len(ordered) + 1) * q / len(ordered)
    under = np.flatnonzero(ordered <= bound)
    return float(bound[under[-1]] if len(under) else bound[0])


def adjusted(chances: Sequence[float], series: int) -> list[float]:
    """Return the expected part of false ones among changes that are at least so sure.

    *chances* are those of distinct changes, out of *series* that were tested. One change shows in
    many series, so that counting each of these would let the next one pass too easily.
    """
    if not chances:
        return []
    order = np.argsort(chances, kind="stable")
    raw = np.asarray(chances)[order] * series / np.arange(1, len(chances) + 1)
    least = np.minimum(np.minimum.accumulate(raw[::-1])[::-1], 1.0)
    found = np.empty(len(chances))
    found[order] = least
    return [float(q) for q in found]
