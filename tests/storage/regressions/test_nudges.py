"""People move the onset and the cohort of what fires, and the search goes on from there."""

from dataclasses import replace
from functools import partial

import pytest

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Metric,
    Resolution,
    SeriesCohort,
    State,
    Subject,
    Triage,
)
from ett_service.detection.run import memory_of
from ett_service.storage.engine.store import Store
from ett_service.storage.metrics import gauge_values
from ett_service.storage.regressions import findings, notices, nudges, regressions, tuning
from ett_service.storage.regressions.findings import Act, Regression
from ett_service.storage.regressions.nudges import CannotMove
from ett_service.storage.regressions.regressions import NotFiring
from ett_service.storage.regressions.tuning import Verdicts
from tests.builders.clock import NOON
from tests.builders.regressions.stored import COHORT, ONSET, finding, fires, searched

ACT = Act("ana", "the release was later", NOON)
WIDE: SeriesCohort = (("cluster", "a"),)


def got(store: Store, project_id: int, regression_id: str) -> Regression:
    with store.reading() as conn:
        stored = regressions.get(conn, project_id, regression_id)
    assert stored is not None
    return stored


def moved_onset(store: Store, project_id: int, regression_id: str, onset_us: int) -> Regression:
    move = partial(nudges.move_onset, project_id=project_id, onset_us=onset_us, act=ACT)
    stored = store.write(partial(move, regression_id=regression_id))
    assert stored is not None
    return stored


def moved_cohort(
    store: Store, project_id: int, regression_id: str, cohort: SeriesCohort
) -> Regression:
    move = partial(nudges.move_cohort, project_id=project_id, cohort=cohort, act=ACT)
    stored = store.write(partial(move, regression_id=regression_id))
    assert stored is not None
    return stored


@pytest.mark.parametrize("days", [-2, 2])
def test_the_search_goes_on_from_another_onset(store: Store, project_id: int, days: int) -> None:
    (regression_id,) = fires(store, project_id, finding())
    onset_us = ONSET + days * DAY_US
    standing = moved_onset(store, project_id, regression_id, onset_us).standing
    assert (standing.onset_us, standing.finding.onset_us) == (onset_us, onset_us)

    with store.reading() as conn:
        memory = memory_of(findings.recent_states(conn, project_id, NOON).values())
        changes = regressions.changes(conn, project_id, regression_id)
    assert memory.open[finding().series].onset_us == onset_us
    assert memory.open[finding().series].to_us == onset_us
    assert (changes[-1].what, changes[-1].why) == ("onset_moved", ACT.why)

    searched(store, project_id, NOON + DAY_US, finding())
    assert got(store, project_id, regression_id).standing.onset_us == onset_us


def test_an_onset_outside_of_what_was_compared_is_refused(store: Store, project_id: int) -> None:
    (regression_id,) = fires(store, project_id, finding())
    for onset_us in (finding().before.from_us, finding().after.to_us):
        with pytest.raises(CannotMove):
            moved_onset(store, project_id, regression_id, onset_us)


def test_only_what_fires_can_be_moved(store: Store, project_id: int) -> None:
    searched(store, project_id, NOON, finding())
    with store.reading() as conn:
        regression_id = regressions.every(conn, [project_id], regressions.RegressionFilter())[0].id
    with pytest.raises(NotFiring):
        moved_onset(store, project_id, regression_id, ONSET - DAY_US)
    with pytest.raises(NotFiring):
        moved_cohort(store, project_id, regression_id, WIDE)


def test_another_cohort_is_another_finding_that_goes_on(store: Store, project_id: int) -> None:
    (regression_id,) = fires(store, project_id, finding())
    there = moved_cohort(store, project_id, regression_id, WIDE)
    here = got(store, project_id, regression_id)
    assert (here.standing.state, here.standing.ended) == (State.RESOLVED, Resolution.MERGED)
    assert here.merged_into == there.id
    assert (there.standing.state, there.series.cohort) == (State.FIRING, WIDE)
    assert there.attribution == here.attribution
    with store.reading() as conn:
        versions = {each.id: each.standing.version for each in notices.unnotified(conn)}
    assert versions == {here.id: 2, there.id: 1}

    seen = replace(finding(cohort=WIDE), ratio=1.2)
    searched(store, project_id, NOON + DAY_US, seen)
    assert got(store, project_id, there.id).standing.finding.ratio == seen.ratio


def test_a_moved_finding_takes_its_verdict_along_which_counts_once(
    store: Store, project_id: int
) -> None:
    (regression_id,) = fires(store, project_id, finding())
    triage = partial(regressions.triage, project_id=project_id, called=Triage.REAL, act=ACT)
    store.write(partial(triage, regression_id=regression_id))
    there = moved_cohort(store, project_id, regression_id, WIDE)
    here = got(store, project_id, regression_id)
    assert (here.triage, there.triage, there.triage_by) == (None, Triage.REAL, ACT.by)
    with store.reading() as conn:
        (tuned,) = tuning.tunings(conn, [project_id], NOON)
        assert tuned.verdicts == Verdicts(real=1, noise=0)
        assert gauge_values.triaged(conn, NOON - DAY_US) == (1, 0)


def test_a_moved_finding_says_where_it_fired(store: Store, project_id: int) -> None:
    (regression_id,) = fires(store, project_id, finding())
    fired = moved_cohort(store, project_id, regression_id, WIDE).standing.fired
    assert fired is not None
    assert fired.series.cohort == COHORT


def test_what_fires_there_already_takes_it_in(store: Store, project_id: int) -> None:
    other = finding(Subject(Metric.PHASE_SECONDS, "pt2_compile"), WIDE, onset_us=ONSET - 3 * DAY_US)
    here, there = fires(store, project_id, finding(), other)
    assert moved_cohort(store, project_id, here, WIDE).id == there
    assert got(store, project_id, here).merged_into == there


def test_to_its_own_cohort_it_does_not_move(store: Store, project_id: int) -> None:
    (regression_id,) = fires(store, project_id, finding())
    assert moved_cohort(store, project_id, regression_id, COHORT).id == regression_id
    assert got(store, project_id, regression_id).standing.state is State.FIRING
