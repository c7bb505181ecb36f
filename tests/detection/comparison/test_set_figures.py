"""Figures of sets of attempts."""

from ett_service.core.events import AttemptEnded, Event, Progress, SpanOver
from ett_service.core.words import Outcome, Phase
from ett_service.detection.comparison.job_sets import JobSet
from ett_service.detection.comparison.set_figures import measured
from ett_service.storage.engine.store import Store
from tests.builders.clock import HOUR, NOON, SECOND
from tests.builders.fleet import LATER, store_job
from tests.builders.record import event


def steps_of(at: int, *, seconds: int, tokens: int) -> list[Event]:
    """Return an hour of steps of so many seconds and tokens, reported every 50 steps."""
    return [
        event(SpanOver, at + HOUR, start=at, phase=Phase.TRAIN_LOOP),
        *(
            event(Progress, at + step * seconds * SECOND, step=step, tokens=step * tokens)
            for step in range(0, 3600 // seconds + 1, 50)
        ),
        event(AttemptEnded, at + HOUR, cycle=0, outcome=Outcome.COMPLETED),
    ]


def test_step_times_are_compared_in_the_setting_that_most_attempts_of_both_sets_have(
    store: Store, project_id: int
) -> None:
    settings = {"old": [(2, 10), (2, 10), (3, 20)], "new": [(4, 10), (4, 10), (5, 30), (5, 30)]}
    for name, jobs in settings.items():
        for place, (seconds, tokens) in enumerate(jobs):
            steps = steps_of(NOON, seconds=seconds, tokens=tokens)
            store_job(store, project_id, f"{name}-{place}", steps)
    sets = [JobSet(jobs=(f"{name}-*",)) for name in settings]

    with store.reading() as conn:
        old, new = measured(conn, project_id, sets, LATER)
        apart = measured(conn, project_id, [sets[0], JobSet(jobs=("new-[23]",))], LATER)
    assert old.durations_us["step_time"] == [2 * SECOND] * 2
    assert new.durations_us["step_time"] == [4 * SECOND] * 2
    assert ["step_time" in figures.durations_us for figures in apart] == [False, False]
