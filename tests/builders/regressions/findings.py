"""Findings with defaults for what a test leaves open."""

from typing import Any

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Finding,
    Impact,
    Metric,
    Series,
    SeriesCohort,
    Side,
    Subject,
    Verdict,
)

AT_US = 20_500 * DAY_US
INIT = Subject(Metric.PHASE_SECONDS, "launcher_init")


def side(from_us: int, to_us: int, median: float) -> Side:
    """Return one side of 40 values."""
    return Side(40, 10, median, None, from_us, to_us)


def finding(
    verdict: Verdict = Verdict.REGRESSION,
    *,
    subject: Subject = INIT,
    cohort: SeriesCohort = (),
    hours: float | None = 10.0,
    **members: Any,
) -> Finding:
    """Return a finding of a change by 1.5 that began six days ago."""
    onset_us = AT_US - 6 * DAY_US
    defaults: dict[str, Any] = {
        "ratio": 1.5,
        "low": 1.3,
        "high": 1.7,
        "p": 1e-6,
        "q": 1e-4,
        "onset_us": onset_us,
        "before": side(AT_US - 42 * DAY_US, onset_us, 100e6),
        "after": side(onset_us, AT_US, 150e6),
        "gates": (),
        "impact": Impact(hours),
    }
    return Finding(series=Series(subject, cohort), verdict=verdict, **(defaults | members))
