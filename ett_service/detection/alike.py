"""How much rows of one unit, such as the saves of a job, count for: less where they are alike."""

import numpy as np

from ett_service.detection.dimensions import Bools
from ett_service.detection.sample import Floats, Ints


def alike(values: Floats, units: Ints, after: Bools) -> Floats:
    """Return a weight for each row, 1 where it is the only one of its unit on its side.

    ``k`` rows count as ``k / (1 + (k - 1) r)``, with ``r`` the correlation within units by
    analysis of variance (Kish, Survey Sampling, 1965; Fisher, 1925).
    """
    if not len(values):
        return np.ones(0)
    _, group = np.unique(2 * np.unique(units, return_inverse=True)[1] + after, return_inverse=True)
    counts = np.bincount(group)
    centred = values - np.where(after, _mean(values[after]), _mean(values[~after]))
    means = np.bincount(group, centred) / counts
    rows, groups = len(values), len(counts)
    if rows == groups:
        return np.ones(rows)
    within = float(((centred - means[group]) ** 2).sum()) / (rows - groups)
    between = float((counts * means**2).sum()) / max(1, groups - 2)
    usual = (rows - float((counts**2).sum()) / rows) / max(1, groups - 1)
    spread = between + (usual - 1) * within
    correlation = min(1.0, max(0.0, (between - within) / spread)) if spread > 0 else 0.0
    weights: Floats = 1 / (1 + (counts[group] - 1) * correlation)
    return weights


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
