"""A run that fails at random, event by event: it knows no formula."""

import numpy as np


def simulated_ratio(
    mtbf: float, interval: float, save: float, restart: float, failures: int, seed: int
) -> float:
    """Return the share of the time in which so many failures struck that trained for good.

    The run trains an interval, saves it, and begins the next; a failure throws away what no
    save holds, and the run is back after a restart that may fail as well. Seconds throughout.
    """
    gaps = np.random.default_rng(seed).exponential(mtbf, failures)
    trained = 0.0
    for gap in gaps.tolist():
        clock = restart
        while (clock := clock + interval + save) <= gap:
            trained += interval
    return trained / float(gaps.sum())
