"""Which verdicts count for the smallest change of a metric, and since when."""

from functools import partial

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import SINCE_US, Metric, Subject, Triage, Verdicts
from ett_service.storage.engine.store import Store
from ett_service.storage.regressions import regressions, tuning
from ett_service.storage.regressions.regressions import Act
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
