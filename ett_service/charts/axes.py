"""Where a value lies on an axis, and at which values the axis is labelled."""

import math
from collections.abc import Callable

Scale = Callable[[float], float]
"""Where a value lies, in units of the drawing."""

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIME_STEPS_S = (
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(60.0, 120.0, 300.0, 600.0, 900.0, 1800.0),
    *(3600.0, 7200.0, 10800.0, 21600.0, 43200.0, 86400.0),
)


def linear(values: tuple[float, float], places: tuple[float, float]) -> Scale:
    """Map *values* evenly onto *places*; an empty range of values lies in the middle."""
    (low, high), (start, end) = values, places
    if high == low:
        return lambda _value: (start + end) / 2
    return lambda value: start + (value - low) / (high - low) * (end - start)


def logarithmic(values: tuple[float, float], places: tuple[float, float]) -> Scale:
    """Map *values*, all above 0, onto *places* so that equal ratios have equal lengths."""
    low, high = values
    inner = linear((math.log(low), math.log(high)), places)
    return lambda value: inner(math.log(value))


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return at most *most* round values from at or below *low* to at or above *high*."""
    if high <= low:
        return [low]
    step = 10.0 ** math.floor(math.log10(high - low))
    for factor in (0.1, 0.2, 0.25, 0.5, *_STEPS):
        first = math.floor(low / (step * factor) + 1e-9)
        last = math.ceil(high / (step * factor) - 1e-9)
        if last - first < most:
            return [float(f"{place * step * factor:.15g}") for place in range(first, last + 1)]
    return [low, high]


def time_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Do the same for seconds, at steps that are round as minutes, hours or days.

    What spans less than a second, or more than a few days, gets steps that are round as numbers.
    """
    for step in _TIME_STEPS_S:
        first, last = math.floor(low / step), math.ceil(high / step)
        if high - low >= 1 and last - first < most:
            return [place * step for place in range(first, last + 1)]
    return ticks(low, high, most)
