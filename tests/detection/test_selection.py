from dataclasses import replace

import numpy as np
import pytest

from benchmarks.detectors.fleets.fleet import simulate
from benchmarks.detectors.fleets.parameters import CHANGED_ON
from benchmarks.detectors.runner import CELLS
from ett_service.core.regressions.finding import Metric, Series, Subject
from ett_service.core.words import Category
from ett_service.detection.models import METRICS
from ett_service.detection.models.series_model import SeriesModel
from ett_service.detection.sample import AttemptValues, Floats, Memory, Rates, Sample, Shares
from ett_service.detection.scan import Models
from ett_service.detection.selection import (
    OUTLIVES,
    OUTLIVES_BURSTS,
    WORSE,
    Persistence,
    adjusted,
    began_earlier,
    gone,
    limit,
    persistence,
    weights,
)
from ett_service.detection.window import Window, groups
from tests.detection.observations import TO_US, observed_project
from tests.detection.samples import AS_OF_US, COHORTS, DAYS, OPTIONS

SEARCHED_DAYS = 60
RECENT = 14
SEEDS = 20
INIT = Subject(Metric.PHASE_SECONDS, "launcher_init")
FAILED = Subject(Metric.FAILURES_PER_GPU_HOUR)
ETT = Subject(Metric.ETT_RATIO)


def test_the_limit_is_that_of_benjamini_and_hochberg() -> None:
    chances = np.array([0.001, 0.008, 0.039, 0.041, 0.6])
    assert limit(chances, 0.05, 5) == pytest.approx(0.02)


def test_a_change_that_shows_in_many_series_lets_no_chance_pass_that_no_change_could_have() -> None:
    chances = np.array([0.0] * 900 + [0.03] * 100)
    assert limit(chances, 0.05, 1000) == pytest.approx(0.05)
    assert limit(chances, 0.05, 8) == pytest.approx(8 * 0.05 / 1000)
    assert adjusted([0.0] * 7 + [0.03], 1000)[-1] > 0.05


def test_with_nothing_to_test_the_limit_is_that_of_one() -> None:
    assert limit(np.array([0.5, 0.9]), 0.05, 2) == pytest.approx(0.025)
    assert limit(np.array([]), 0.05, 1) == 0.05


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


@pytest.mark.parametrize(
    ("subject", "ago"), [(INIT, 15), (INIT, 18), (FAILED, 16), (FAILED, 18), (ETT, 17)]
)
def test_a_change_that_the_days_before_had_in_full_began_earlier(
    subject: Subject, ago: int
) -> None:
    assert _began_earlier(_changed(ago), subject, 14)
    assert _began_earlier(_changed(ago), subject, 13)


@pytest.mark.parametrize("subject", [INIT, FAILED, ETT])
@pytest.mark.parametrize("ago", [8, 13, 14])
def test_a_change_of_the_recent_days_did_not(subject: Subject, ago: int) -> None:
    assert not _began_earlier(_changed(ago), subject, ago)


def test_where_nothing_is_known_of_before_no_change_began_earlier() -> None:
    assert not _began_earlier(_changed(70), INIT, 14)


def _began_earlier(sample: Sample, subject: Subject, placed: int) -> bool:
    """Whether a change that was placed so many days ago began before the recent days."""
    model = _model(sample, subject)
    return began_earlier(model, 0, model.days - placed, WORSE, OPTIONS)


def _model(sample: Sample, subject: Subject) -> SeriesModel:
    window, of_cohorts = Window.of(sample, OPTIONS), groups(sample.cohorts)
    return METRICS[subject.metric].model(subject, window, of_cohorts, Memory())


@pytest.mark.parametrize("cell", ["cell-1.6-bimodal@60", "hits-bimodal@60"])
def test_few_values_of_two_modes_place_no_change_before_the_recent_days(cell: str) -> None:
    """The middle of few values lies in the slower mode by chance, as if all were longer."""
    earlier = 0
    for seed in range(SEEDS):
        fleet = simulate(seed, CELLS[cell].scenario)
        (cohort,), (subject,) = fleet.truth.cohorts, fleet.truth.phases
        sample = fleet.sample(CHANGED_ON + RECENT - 2)
        model = _model(sample, subject)
        group = model.groups.place(cohort)
        assert group is not None
        earlier += began_earlier(model, group, model.days - RECENT + 1, WORSE, OPTIONS)
    assert earlier <= SEEDS // 10


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
