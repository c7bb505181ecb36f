from dataclasses import replace

import numpy as np
import pytest

from ett_service.core.regressions.finding import Metric, Subject
from ett_service.detection.models.registry import METRICS
from ett_service.detection.observed.sample import Rates, Sample
from ett_service.detection.options import Memory
from ett_service.detection.scan import Models
from ett_service.detection.selection import (
    OUTLIVES,
    OUTLIVES_BURSTS,
    WORSE,
    Persistence,
    adjusted,
    limit,
    persistence,
    weights,
)
from ett_service.detection.window import Window, groups
from tests.detection.samples import AS_OF_US, COHORTS, DAYS, OPTIONS


def test_the_limit_is_that_of_benjamini_and_hochberg() -> None:
    chances = np.array([0.001, 0.008, 0.039, 0.041, 0.6])
    assert limit(chances, 0.05) == pytest.approx(0.02)


def test_with_nothing_to_tell_the_limit_is_that_of_one() -> None:
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
    rates = Rates(events, np.full(DAYS, 40.0), days, np.zeros(DAYS, dtype=np.int32))
    failures = Subject(Metric.FAILURES_PER_GPU_HOUR)
    sample = Sample(AS_OF_US, DAYS, COHORTS[:1], {}, {failures: rates})
    model = Models.of(Window.of(sample, OPTIONS), groups(COHORTS[:1]), Memory())
    lasting = persistence(model.by_subject[failures], 0, DAYS - 8, WORSE)

    assert OUTLIVES < lasting.without_one < OUTLIVES_BURSTS
    assert not lasting.lasts
    assert (lasting.start, lasting.stop) == (DAYS - 6, DAYS - 3)
