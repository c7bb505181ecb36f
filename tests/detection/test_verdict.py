"""Changes beside an outage: what is only the outage's is an incident, what stays is a finding."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ett_service.core.regressions.finding import Series, Verdict
from ett_service.detection.observed.sample import Sample
from ett_service.detection.options import Memory
from ett_service.detection.scan import Models
from ett_service.detection.selection import OUTLIVES, WORSE, Candidate, Persistence
from ett_service.detection.verdict import beside_outages, outage_days
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


def test_an_outage_is_where_several_phases_had_an_incident() -> None:
    sample = _fleet(1.0)

    expected = np.zeros((len(COHORTS), DAYS), dtype=np.bool_)
    assert (outage_days(_changes(sample, 1)) == expected).all()
    expected[0, FROM:UNTIL] = True
    assert (outage_days(_changes(sample, 2)) == expected).all()


@pytest.mark.parametrize(("after", "lasts"), [(1.0, False), (2.5, True)])
def test_what_is_only_the_outages_is_an_incident(after: float, lasts: bool) -> None:
    changes = _changes(_fleet(after), 2)

    *_, change = beside_outages(changes)
    assert change.lasting.lasts == lasts
    if lasts:
        assert change == changes[-1]
    else:
        assert change.lasting.without_one < OUTLIVES
        assert (change.lasting.start, change.lasting.stop) == (FROM, UNTIL)


def test_without_an_outage_nothing_is_looked_at_again() -> None:
    changes = _changes(_fleet(1.0), 1)

    assert beside_outages(changes) == changes
    assert beside_outages([]) == []


def test_a_phase_that_stays_slow_after_an_outage_is_reported() -> None:
    (finding,) = regressions(_fleet(2.5))

    assert finding.series == Series(LAUNCHER, COHORTS[0])
    assert finding.verdict is Verdict.REGRESSION
