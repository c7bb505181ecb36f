"""Which verdicts count for the smallest change of a metric, since when, and how far."""

from functools import partial

import pytest

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Metric, Subject, Triage
from ett_service.storage.engine.store import Store
from ett_service.storage.regressions import regressions, tuning
from ett_service.storage.regressions.findings import Act
from ett_service.storage.regressions.tuning import LEAST, MOST, SINCE_US, Verdicts
from tests.builders.clock import NOON
from tests.builders.regressions.stored import finding, fires

OTHER = finding(Subject(Metric.STEP_SECONDS), (("cluster", "b"),))


def act(at_us: int = NOON) -> Act:
    return Act("ana", "seen", at_us)


def called(store: Store, project_id: int, *words: Triage) -> None:
    """Have so many findings, the first of phases and the second of steps, called that."""
    ids = fires(store, project_id, finding(), OTHER)
    for regression_id, word in zip(ids, words, strict=True):
        triage = partial(regressions.triage, project_id=project_id, called=word, act=act())
        store.write(partial(triage, regression_id=regression_id))


def verdicts(store: Store, project_id: int, at_us: int = NOON) -> dict[Metric, Verdicts]:
    with store.reading() as conn:
        return {each.metric: each.verdicts for each in tuning.tunings(conn, [project_id], at_us)}


def test_verdicts_count_by_metric(store: Store, project_id: int) -> None:
    called(store, project_id, Triage.NOISE, Triage.REAL)
    assert verdicts(store, project_id) == {
        Metric.PHASE_SECONDS: Verdicts(0, 1),
        Metric.STEP_SECONDS: Verdicts(1, 0),
    }
    with store.reading() as conn:
        factors = tuning.factors(conn, project_id, NOON)
        assert tuning.factors(conn, project_id + 1, NOON) == {}
    assert factors[Metric.PHASE_SECONDS] > 1 > factors[Metric.STEP_SECONDS]


def test_what_was_expected_moves_nothing(store: Store, project_id: int) -> None:
    called(store, project_id, Triage.EXPECTED, Triage.MIX)
    assert verdicts(store, project_id) == {}


def test_old_verdicts_count_no_more(store: Store, project_id: int) -> None:
    called(store, project_id, Triage.NOISE, Triage.REAL)
    assert verdicts(store, project_id, NOON + SINCE_US + 1) == {}


def test_a_reset_forgets_one_metric_until_the_next_verdict(store: Store, project_id: int) -> None:
    called(store, project_id, Triage.NOISE, Triage.REAL)
    reset = partial(tuning.reset, project_id=project_id, metric=Metric.PHASE_SECONDS)
    for day in (0, 1):  # a second one takes the place of the first
        store.write(partial(reset, act=act(NOON + HOUR_US + day * DAY_US)))
    now_us = NOON + 2 * DAY_US
    assert verdicts(store, project_id, now_us)[Metric.PHASE_SECONDS] == Verdicts(0, 0)
    with store.reading() as conn:
        assert set(tuning.factors(conn, project_id, now_us)) == {Metric.STEP_SECONDS}


def test_without_verdicts_and_with_as_many_of_both_nothing_moves() -> None:
    assert Verdicts(0, 0).factor == 1
    assert Verdicts(7, 7).factor == 1


def test_noise_makes_it_larger_and_real_ones_smaller() -> None:
    assert Verdicts(1, 0).factor < 1 < Verdicts(0, 1).factor
    factors = [Verdicts(2, noise).factor for noise in range(10)]
    assert factors == sorted(factors)


def test_one_verdict_moves_little() -> None:
    assert Verdicts(0, 1).factor == pytest.approx(1.15, abs=0.01)


@pytest.mark.parametrize(
    ("verdicts", "bound"), [(Verdicts(500, 0), LEAST), (Verdicts(0, 10**6), MOST)]
)
def test_it_stays_within_bounds(verdicts: Verdicts, bound: float) -> None:
    assert verdicts.factor == pytest.approx(bound, abs=1e-4)
