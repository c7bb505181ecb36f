"""Changes beside an outage: what is only the outage's is an incident, what stays is a finding."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Metric, Series, Verdict
from ett_service.detection.sample import Memory, Sample
from ett_service.detection.scan import Models
from ett_service.detection.selection import OUTLIVES, WORSE, Candidate, Persistence
from ett_service.detection.verdict import beside_outages, is_outage, outage_days
from ett_service.detection.window import Window, groups
from tests.detection.samples import (
    COHORTS,
    COMPILE,
    DAYS,
    LAUNCHER,
    OPTIONS,
    SCHEDULING,
    Seconds,
    fleet,
    regressions,
)

FROM, UNTIL = 46, 49

Days = NDArray[np.int32]


def _fleet(after: float) -> Sample:
    """All phases of one cohort take three times as long on three days; one is slower after."""

    def change(day: Days, cohort: Days, seconds: Seconds) -> None:
        for subject in (SCHEDULING, LAUNCHER, COMPILE):
            seconds[subject][(cohort == 0) & (day >= FROM) & (day < UNTIL)] *= 3.0
        seconds[LAUNCHER][(cohort == 0) & (day >= UNTIL)] *= after

    return fleet(change)


def _changes(sample: Sample, subjects: int) -> list[Candidate]:
    """Incidents of some phases, and a change of one that seems to last."""
    window = Window.of(sample, OPTIONS)
    models = Models.of(window, groups(COHORTS), Memory()).by_subject
    incident, lasting = Persistence(0.0, 0.0, FROM, UNTIL), Persistence(3.0, 0.0, FROM, DAYS)
    phases = (SCHEDULING, COMPILE)[:subjects]
    incidents = [Candidate(models[phase], 0, WORSE, 1e-9, 1e-9, incident) for phase in phases]
    return [*incidents, Candidate(models[LAUNCHER], 0, WORSE, 1e-6, 1e-6, lasting)]


NONE = np.zeros((len(COHORTS), DAYS), dtype=np.bool_)


def test_an_outage_is_where_one_phase_had_an_incident() -> None:
    sample = _fleet(1.0)

    assert (outage_days(_changes(sample, 0), NONE) == NONE).all()
    expected = NONE.copy()
    expected[0, FROM:UNTIL] = True
    assert (outage_days(_changes(sample, 1), NONE) == expected).all()
    assert (outage_days(_changes(sample, 0), expected) == expected).all()


def test_what_is_only_of_an_outage_that_an_earlier_search_found_is_an_incident() -> None:
    changes, known = _changes(_fleet(1.0), 0), NONE.copy()
    known[0, FROM:UNTIL] = True

    (change,) = beside_outages(changes, known)
    assert changes[0].lasting.lasts
    assert not change.lasting.lasts


def test_a_week_is_no_outage() -> None:
    assert is_outage(Metric.PHASE_SECONDS, Verdict.INCIDENT, (0, 3 * DAY_US))
    assert is_outage(Metric.FAILURES_PER_GPU_HOUR, Verdict.INCIDENT, (0, 3 * DAY_US))
    assert not is_outage(Metric.PHASE_SECONDS, Verdict.INCIDENT, (0, 8 * DAY_US))
    assert not is_outage(Metric.PHASE_SECONDS, Verdict.REGRESSION, (0, 3 * DAY_US))
    assert not is_outage(Metric.ETT_RATIO, Verdict.INCIDENT, (0, 3 * DAY_US))


@pytest.mark.parametrize(("after", "lasts"), [(1.0, False), (2.5, True)])
def test_what_is_only_the_outages_is_an_incident(after: float, lasts: bool) -> None:
    changes = _changes(_fleet(after), 1)

    *_, change = beside_outages(changes, NONE)
    assert change.lasting.lasts == lasts
    if lasts:
        assert change == changes[-1]
    else:
        assert change.lasting.without_one < OUTLIVES
        assert (change.lasting.start, change.lasting.stop) == (FROM, UNTIL)


def test_without_an_outage_nothing_is_looked_at_again() -> None:
    changes = _changes(_fleet(1.0), 0)

    assert beside_outages(changes, NONE) == changes
    assert beside_outages([], NONE) == []


def test_a_phase_that_stays_slow_after_an_outage_is_reported() -> None:
    (finding,) = regressions(_fleet(2.5))

    assert finding.series == Series(LAUNCHER, COHORTS[0])
    assert finding.verdict is Verdict.REGRESSION
