import numpy as np
import pytest

from ett_service.core.regressions.finding import Series
from ett_service.detection.sample import Memory, Sample
from ett_service.detection.scan import Power
from tests.detection.samples import (
    COHORTS,
    COMPILE,
    DAYS,
    fleet,
    regressions,
    sample,
    scan_of,
    slower,
)

FLEETS = 40
SINCE = DAYS - 14


def _only_compile(whole: Sample) -> Sample:
    return sample({COMPILE: whole.durations[COMPILE]})


def _power(seed: int, a_day: float = 6) -> Power:
    power = scan_of(_only_compile(fleet(seed=seed, a_day=(a_day, 6, 6, 6)))).power
    return next(each for each in power if each.cohort == COHORTS[0])


def _detected_share(factor: float, a_day: float) -> float:
    hits = 0
    for seed in range(FLEETS):
        whole = fleet(slower(COMPILE, factor, SINCE), seed=100 + seed, a_day=(a_day, 6, 6, 6))
        series = [finding.series for finding in regressions(_only_compile(whole))]
        hits += Series(COMPILE, COHORTS[0]) in series
    return hits / FLEETS


@pytest.mark.slow
def test_the_smallest_factor_is_within_a_fifth_of_what_is_found_in_eight_of_ten() -> None:
    for a_day in (2.0, 6.0):
        factors = [_power(seed, a_day).smallest for seed in range(8)]
        smallest = float(np.median([each for each in factors if each is not None]))
        assert _detected_share(smallest / 1.2, a_day) < 0.8 < _detected_share(smallest * 1.2, a_day)


def test_it_counts_the_values() -> None:
    whole = fleet()
    power = scan_of(whole, Memory()).power
    mine = next(each for each in power if each.cohort == COHORTS[1] and each.subject == COMPILE)
    inside = whole.durations[COMPILE].cohort == 1
    assert mine.recent == (inside & (whole.durations[COMPILE].day >= SINCE)).sum()


def test_with_fewer_values_only_more_is_seen() -> None:
    some, few = _power(1, 6).smallest, _power(1, 1.5).smallest
    assert some is not None
    assert few is not None
    assert 1.15 < some < few


def test_where_hardly_anything_runs_nothing_could_be_seen() -> None:
    assert _power(1, 0.1).smallest is None
