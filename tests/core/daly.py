"""Daly's best checkpoint interval, to hold ours against."""

import math


def daly_interval_seconds(mtbf_seconds: float, save_seconds: float) -> float:
    """The best time between the end of one save and the begin of the next, to higher order.

    After Daly (2006), who counts the save itself apart, so that it is ``save_seconds`` shorter
    than Young's interval to first order: ``sqrt(2bM) (1 + sqrt(b/2M)/3 + b/(18M)) - b`` for
    saves ``b`` shorter than twice the time ``M`` between failures, else ``M``.
    """
    half = save_seconds / (2 * mtbf_seconds)
    if half >= 1:
        return mtbf_seconds
    young = math.sqrt(2 * save_seconds * mtbf_seconds)
    return young * (1 + math.sqrt(half) / 3 + half / 9) - save_seconds
