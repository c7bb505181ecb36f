from collections.abc import Mapping

from ett_service.core.events import AttemptEnded, AttemptStarted, JobFacts, PhaseStarted, SpanOver
from ett_service.core.fleet.contribution import contribution
from ett_service.core.fleet.totals import Totals
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.ledger.fold import fold
from ett_service.core.words import Outcome, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.job_sums import job_tally, job_totals
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event, progress

EVENTS = [
    event(JobFacts, hardware="h200", precision="bf16"),
    event(AttemptStarted, gpus=8),
    event(PhaseStarted, NOON + MINUTE, phase=Phase.TRAIN_LOOP),
    *(
        progress(at, NOON + at * MINUTE, tokens=at * 1000, flops=at * 1e15)
        for at in range(2, 150, 10)
    ),
    *(
        event(SpanOver, NOON + at * MINUTE, phase=Phase.CHECKPOINT_BLOCKING,
              start=NOON + at * MINUTE - MINUTE)
        for at in (30, 60, 90)
    ),
    event(AttemptEnded, NOON + 150 * MINUTE, outcome=Outcome.COMPLETED),
]  # fmt: skip
MACHINE = ("h200", "bf16")


_Place = tuple[int | None, tuple[str, str]]


def _measured(totals: Mapping[_Place, Totals]) -> dict[_Place, dict[str, int]]:
    return {place: dict(total.sums) for place, total in totals.items()}


def test_all_that_a_job_adds_is_summed_once(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, EVENTS)
    refreshed(store, key, NOON + 5 * HOUR)

    with store.reading() as conn:
        whole = job_totals(conn, *key)
        hourly = job_totals(conn, *key, HOUR_US, measures=["tokens", "checkpoint_blocking_us"])
        daily = job_totals(conn, *key, DAY_US, measures=["tokens"])
        saves = job_tally(conn, *key, "checkpoint_blocking")

    cells = contribution(fold(EVENTS, {}, NOON + 5 * HOUR)).values()
    expected = sum((Totals(cell.sums) for cell in cells), Totals.ZERO)
    assert _measured(whole) == {(None, MACHINE): dict(expected.sums)}
    assert _measured(hourly) == {
        (NOON, MACHINE): {"tokens": 52_000, "checkpoint_blocking_us": 2 * MINUTE},
        (NOON + HOUR, MACHINE): {"tokens": 60_000, "checkpoint_blocking_us": MINUTE},
        (NOON + 2 * HOUR, MACHINE): {"tokens": 30_000},
    }
    assert _measured(daily) == {(NOON - 12 * HOUR, MACHINE): {"tokens": 142_000}}
    assert (saves.n, saves.us) == (3, 3 * MINUTE)


def test_of_another_job_there_is_nothing(store: Store, project_id: int) -> None:
    with store.reading() as conn:
        assert job_totals(conn, project_id, "none") == {}
        assert job_tally(conn, project_id, "none", "checkpoint_blocking").n == 0
