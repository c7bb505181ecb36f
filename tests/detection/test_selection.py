from dataclasses import replace

import numpy as np
import pytest

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Finding, Metric, Series, Subject
from ett_service.core.words import Category
from ett_service.detection.models import METRICS
from ett_service.detection.sample import AttemptValues, Floats, Memory, Rates, Sample, Shares
from ett_service.detection.scan import Models
from ett_service.detection.selection import (
    OUTLIVES,
    OUTLIVES_BURSTS,
    WORSE,
    Persistence,
    adjusted,
    gone,
    is_stale,
    limit,
    persistence,
    weights,
)
from ett_service.detection.window import Window, groups
from tests.builders.regressions.findings import finding, side
from tests.detection.observations import TO_US, observed_project
from tests.detection.samples import AS_OF_US, COHORTS, DAYS, OPTIONS

SEARCHED_DAYS = 60
RECENT = 14
INIT = Subject(Metric.PHASE_SECONDS, "launcher_init")
FAILED = Subject(Metric.FAILURES_PER_GPU_HOUR)
ETT = Subject(Metric.ETT_RATIO)


def test_the_limit_is_that_of_benjamini_and_hochberg() -> None:
    chances = np.array([0.001, 0.008, 0.039, 0.041, 0.6])
    assert limit(chances, 0.05) == pytest.approx(0.02)


def test_with_nothing_to_test_the_limit_is_that_of_one() -> None:
    assert limit(np.array([0.5, 0.9]), 0.05) == pytest.approx(0.025)
    assert limit(np.array([]), 0.05) == 0.05


def test_changes_count_among_themselves_and_series_as_they_were_tested() -> None:
    assert adjusted([0.001, 0.0001], 100) == pytest.approx([0.05, 0.01])


def test_a_surer_change_is_never_doubted_more() -> None:
    assert adjusted([0.0009, 0.001], 100) == pytest.approx([0.05, 0.05])
    assert adjusted([], 100) == []


SCORES = np.array([0.5, 3.0, 4.5, 12.0])


def test_weights_share_out_what_there_is() -> None:
    shares = weights(np.repeat(SCORES, 20), np.ones(80), 0.05)
    assert shares.mean() == pytest.approx(1.0)
    assert shares.min() > 0


def test_what_may_be_missed_weighs_more_than_what_is_hopeless() -> None:
    hopeless, near, sure, surest = weights(np.repeat(SCORES, 20), np.ones(80), 0.05)[::20]
    assert near > hopeless
    assert sure == surest


def test_what_is_alike_weighs_the_same() -> None:
    assert weights(np.full(9, 3.3), np.ones(9), 0.05) == pytest.approx(np.ones(9))
    assert weights(np.zeros(0), np.zeros(0), 0.05).tolist() == []


def test_what_is_made_of_others_weighs_less() -> None:
    assert METRICS[Metric.ETT_RATIO].prior < METRICS[Metric.PHASE_SECONDS].prior


def test_a_burst_must_leave_more_than_other_changes() -> None:
    between = Persistence(2.5, 0.0, 46, 56)
    assert between.lasts
    assert not replace(between, outlives=OUTLIVES_BURSTS).lasts


def test_the_days_of_a_burst_are_those_without_which_too_little_is_left() -> None:
    """Over eight days, with one bad spell of three days, its score without them is under 3."""
    days = np.arange(DAYS, dtype=np.int32)
    events = np.where(days >= DAYS - 8, 4, 2)
    events[DAYS - 6 : DAYS - 3] = 6
    rates = Rates(
        events, np.full(DAYS, 40.0), days, np.zeros(DAYS, dtype=np.int32), np.full(DAYS, 8.0)
    )
    failures = Subject(Metric.FAILURES_PER_GPU_HOUR)
    sample = Sample(AS_OF_US, DAYS, COHORTS[:1], {}, {failures: rates})
    model = Models.of(Window.of(sample, OPTIONS), groups(COHORTS[:1]), Memory())
    lasting = persistence(model.by_subject[failures], 0, DAYS - 8, WORSE)

    assert OUTLIVES < lasting.without_one < OUTLIVES_BURSTS
    assert not lasting.lasts
    assert (lasting.start, lasting.stop) == (DAYS - 6, DAYS - 3)


def _changed(ago: int) -> Sample:
    """Return the sample of a project in which all became worse so many days ago."""
    began = SEARCHED_DAYS - ago
    observed = observed_project({INIT: lambda day: 2.0 if day >= began else 1.0})
    place = np.arange(SEARCHED_DAYS * 6)
    day = place // 6
    fails = place % 6 < np.where(day >= began, 4, 1)
    known_us = observed.durations[INIT].known_us[fails]
    effective = np.where(np.arange(SEARCHED_DAYS) >= began, 50.0, 90.0)
    time: dict[str, Floats] = {category: np.zeros(SEARCHED_DAYS) for category in Category}
    time |= {Category.EFFECTIVE_TRAINING: effective, Category.STALLED: 100.0 - effective}
    none = np.zeros(len(known_us), np.int64)
    failures = AttemptValues(none, known_us, place[fails], none.astype(np.int32), none)
    changed = replace(
        observed,
        failures={FAILED: failures},
        time_day=np.arange(SEARCHED_DAYS, dtype=np.int32),
        time_cohort=np.zeros(SEARCHED_DAYS, dtype=np.int32),
        time=time,
    )
    return changed.sample(TO_US, SEARCHED_DAYS)


@pytest.mark.parametrize("subject", [INIT, FAILED, ETT])
@pytest.mark.parametrize(
    ("ago", "placed", "old"),
    [
        (30, 14, True),
        (18, 14, True),
        (18, 13, True),
        (20, 15, True),
        (14, 14, False),
        (13, 13, False),
        (8, 8, False),
    ],
)
def test_an_onset_at_the_edge_is_old_if_it_was_so_before(
    subject: Subject, ago: int, placed: int, *, old: bool
) -> None:
    assert is_stale(_placed(subject, placed), _changed(ago), RECENT) is old


def test_of_durations_a_single_day_before_the_edge_decides() -> None:
    assert is_stale(_placed(INIT, 14), _changed(15), RECENT)


def _placed(subject: Subject, ago: int) -> Finding:
    """Return a finding whose onset was placed so many days ago."""
    onset_us = TO_US - ago * DAY_US
    return finding(
        subject=subject,
        onset_us=onset_us,
        before=side(TO_US - 42 * DAY_US, onset_us, 1.0),
        after=side(onset_us, TO_US, 2.0),
    )


def test_where_nothing_is_known_of_before_nothing_is_called_old() -> None:
    onset_us = TO_US - RECENT * DAY_US
    result = finding(subject=INIT, onset_us=onset_us, before=side(onset_us, onset_us, 1.0))
    assert not is_stale(result, _changed(30), RECENT)


def test_a_cohort_of_which_nothing_ran_of_late_is_gone() -> None:
    sample = _changed(30)
    assert sample.shares is not None
    (cohort,) = sample.cohorts
    series = Series(INIT, cohort)
    assert gone(sample, [series], RECENT) == ()

    early = np.flatnonzero(sample.shares.day < SEARCHED_DAYS - RECENT)
    ended = Shares(
        sample.shares.day[early],
        sample.shares.cohort[early],
        {name: held[early] for name, held in sample.shares.by_category.items()},
    )
    assert gone(replace(sample, shares=ended), [series], RECENT) == (series,)
