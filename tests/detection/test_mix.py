"""A shift of the mix of jobs is told as one."""

import numpy as np
import pytest

from ett_service.core.regressions.finding import Finding, Verdict
from ett_service.detection.sample import Durations, Sample
from tests.detection.samples import PHASES, Seconds, fleet, sample, scan_of

Days = np.typing.NDArray[np.int32]
GROWN_ON = 44


def _mixed(factor: float, a_day: float) -> Sample:
    """Make a fleet in which one cohort takes *factor* times as long, and comes to start more."""

    def slow(day: Days, cohort: Days, seconds: Seconds) -> None:
        for subject in PHASES:
            seconds[subject][(cohort == 3) & (day >= 0)] *= factor

    usual, grown = fleet(slow), fleet(slow, seed=2, a_day=(6, 6, 6, a_day))
    return sample(
        {
            subject: _joined(usual.durations[subject], grown.durations[subject])
            for subject in usual.durations
        }
    )


def _joined(before: Durations, after: Durations) -> Durations:
    early, late = (
        rows.chosen(np.flatnonzero(keep))
        for rows, keep in ((before, before.day < GROWN_ON), (after, after.day >= GROWN_ON))
    )
    names = Durations.__dataclass_fields__
    return Durations(
        *(np.concatenate([getattr(early, name), getattr(late, name)]) for name in names)
    )


def _mix(whole: Sample) -> list[Finding]:
    findings = scan_of(whole).findings
    assert {finding.verdict for finding in findings} <= {Verdict.MIX}
    return list(findings)


def test_more_jobs_of_a_cohort_a_little_slower_are_a_change_of_the_mix() -> None:
    (finding,) = _mix(_mixed(1.6, 14.0))
    assert finding.series.cohort == ()
    assert finding.ratio == pytest.approx(1.1, abs=0.04)


def test_more_jobs_of_a_cohort_like_the_others_change_nothing() -> None:
    assert _mix(_mixed(1.0, 14.0)) == []
