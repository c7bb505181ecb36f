import numpy as np
import pytest

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Finding, Metric, Series, Subject, Verdict
from ett_service.core.words import Category
from ett_service.detection.sample import Sample, Shares
from tests.detection.samples import (
    AS_OF_US,
    COHORTS,
    DAYS,
    day_of,
    scan_of,
)

ETT_SUBJECT = Subject(Metric.ETT_RATIO)
HELD_US = 1e5 * HOUR_US
EttDays = np.typing.NDArray[np.float64]


def _sample(ratio: EttDays, held: EttDays | float = 1.0) -> Sample:
    time = np.broadcast_to(np.asarray(held, dtype=np.float64), ratio.shape) * HELD_US
    cohort, day = (part.ravel().astype(np.int32) for part in np.indices(ratio.shape))
    by_category = {
        Category.EFFECTIVE_TRAINING.value: (ratio * time).ravel(),
        Category.STALLED.value: ((1 - ratio) * time).ravel(),
    }
    return Sample(AS_OF_US, DAYS, COHORTS, {}, {}, Shares(day, cohort, by_category))


def _ratio(seed: int = 1, middle: float = 0.85) -> EttDays:
    draws = np.random.default_rng(seed).normal(0, 0.01, (len(COHORTS), DAYS))
    return np.asarray(middle + draws)


def _findings(sample: Sample) -> list[Finding]:
    return list(scan_of(sample).findings)


def test_a_fall_of_one_cohort_is_found_in_points() -> None:
    ratio = _ratio()
    ratio[1, 46:] -= 0.06
    (finding,) = _findings(_sample(ratio))
    assert (finding.series, finding.verdict) == (
        Series(ETT_SUBJECT, COHORTS[1]),
        Verdict.REGRESSION,
    )
    assert abs(day_of(finding) - 46) <= 1
    assert finding.before.median == pytest.approx(0.85, abs=0.01)
    assert finding.after.median == pytest.approx(0.79, abs=0.01)
    assert finding.low < 0.79 / 0.85 < finding.high
    assert finding.impact.gpu_hours_per_week == pytest.approx(0.06 * 1e5 * 7, rel=0.25)


def test_a_fall_everywhere_is_that_of_the_project() -> None:
    ratio = _ratio()
    ratio[:, 46:] -= 0.05
    assert [finding.series.cohort for finding in _findings(_sample(ratio))] == [()]


def test_a_rise_is_an_improvement() -> None:
    ratio = _ratio()
    ratio[1, 46:] += 0.05
    assert [finding.verdict for finding in _findings(_sample(ratio))] == [Verdict.IMPROVEMENT]


def test_more_work_of_a_cohort_that_loses_more_is_a_shift_of_the_mix() -> None:
    ratio = _ratio()
    ratio[3] -= 0.3
    held = np.ones(ratio.shape)
    held[3, 44:] = 4.0
    (finding,) = _findings(_sample(ratio, held))
    assert (finding.series, finding.verdict) == (Series(ETT_SUBJECT, ()), Verdict.MIX)
    assert {gate.name: gate.value for gate in finding.gates}["mix_part"] == pytest.approx(
        1, abs=0.1
    )


def test_what_cohorts_lose_themselves_is_not_the_mix() -> None:
    ratio = _ratio()
    ratio[:, 46:] -= 0.05
    assert Verdict.MIX not in {finding.verdict for finding in _findings(_sample(ratio))}


def test_usual_days_are_nothing_new() -> None:
    assert sum(len(_findings(_sample(_ratio(seed)))) for seed in range(10)) == 0


def test_days_on_which_nothing_ran_say_nothing() -> None:
    ratio = _ratio()
    ratio[1, 46:] -= 0.06
    held = np.ones(ratio.shape)
    held[:, ::5] = 0.0
    assert [finding.series.cohort for finding in _findings(_sample(ratio, held))] == [COHORTS[1]]
