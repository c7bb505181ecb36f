"""A notice in which nothing happened, for whoever wants to see that a receiver gets any."""

from ett_service.alerting.notice import Notice, Status
from ett_service.core.interval import DAY_US, SECOND_US
from ett_service.core.regression import (
    Attribution,
    Finding,
    Impact,
    Metric,
    Series,
    Side,
    Subject,
    Suspect,
    Verdict,
)

_SERIES = Series(
    Subject(Metric.PHASE_SECONDS, "pt2_compile"), (("cluster", "example"), ("model", "example"))
)
_BEFORE_US, _AFTER_US = 486 * SECOND_US, 804 * SECOND_US


def trial(project_id: int, project: str, public_url: str, now_us: int) -> Notice:
    """Make up a regression of *now_us*, marked as a test."""
    onset_us = now_us - 11 * DAY_US
    before = Side(140, 28, _BEFORE_US, 702 * SECOND_US, onset_us - 28 * DAY_US, onset_us)
    after = Side(68, 11, _AFTER_US, 1_010 * SECOND_US, onset_us, now_us)
    finding = Finding(
        series=_SERIES,
        verdict=Verdict.REGRESSION,
        ratio=_AFTER_US / _BEFORE_US,
        low=1.48,
        high=1.84,
        p=3.1e-9,
        q=1e-7,
        onset_us=onset_us,
        before=before,
        after=after,
        gates=(),
        impact=Impact(gpu_hours_per_week=212.0, ett_points=-0.6),
    )
    suspect = Suspect("image", "trainer:example", 0.97, 66, onset_us)
    attribution = Attribution(
        phase_shares={"pt2_compile": 1.0},
        cohort_shares={},
        suspects=(suspect,),
        examples=(("example-1", 0), ("example-2", 0)),
    )
    return Notice(
        project_id=project_id,
        project=project,
        id="test",
        fingerprint=_SERIES.fingerprint,
        version=1,
        status=Status.FIRING,
        severity="low",
        starts_us=now_us,
        ends_us=None,
        finding=finding,
        attribution=attribution,
        public_url=public_url,
        is_test=True,
    )
