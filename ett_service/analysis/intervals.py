"""How far a number of failures can be trusted."""

from dataclasses import dataclass

from scipy.special import gammainccinv, gammaincinv

CONFIDENCE = 0.95


def poisson_interval(count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the lowest and highest expected number of events that *count* seen ones allow.

    The exact interval of Garwood (Biometrika 28, 1936): quantiles of the chi-square distribution
    with ``2 n`` and ``2 n + 2`` degrees of freedom, halved, which are those of the gamma
    distribution with the shapes ``n`` and ``n + 1``. Raises ValueError for a negative count or a
    confidence that is not between 0 and 1.
    """
    if count < 0 or not 0 < confidence < 1:
        raise ValueError("a count from 0 and a confidence between 0 and 1 are needed")
    tail = (1 - confidence) / 2
    low = float(gammaincinv(count, tail)) if count else 0.0
    return low, float(gammainccinv(count + 1, tail))


@dataclass(frozen=True, slots=True)
class TimeBetween:
    """Mean time between failures, in microseconds, with its interval.

    Without a failure there is only a lower bound; without any time there is nothing.
    """

    failures: int
    us: float | None
    low_us: float | None
    high_us: float | None
    confidence: float = CONFIDENCE


def time_between(failures: int, exposed_us: int) -> TimeBetween:
    """Divide the time in which failures could happen by how many did.

    The interval is exact as long as failures come independently, at one rate.
    """
    if not exposed_us:
        return TimeBetween(failures, None, None, None)
    fewest, most = poisson_interval(failures)
    return TimeBetween(
        failures,
        exposed_us / failures if failures else None,
        exposed_us / most,
        exposed_us / fewest if fewest else None,
    )
