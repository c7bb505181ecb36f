"""What is known of attempts, from ledgers and from what their events say beside."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    Exclusion,
    JobFacts,
    SpanOver,
)
from ett_service.core.words import Category, Outcome, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.record import corrections
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.regressions.cohort_facts import DailyTime, attempt_facts, daily_time
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT
from tests.builders.fleet import LATER, calm_job, store_job
from tests.builders.ledgers import refreshed
from tests.builders.record import event

DAY = 24 * HOUR
MIDNIGHT = NOON - 12 * HOUR
PLACES = {category: place for place, category in enumerate(Category)}


def compiled(start: int, cache: str, **members: Any) -> SpanOver:
    """Return a minute of compiling, with the state of its cache."""
    return event(
        SpanOver,
        start + MINUTE,
        start=start,
        phase=Phase.PT2_COMPILE,
        attributes={"compile_cache": cache},
        **members,
    )


def restarted_job() -> Sequence[Event]:
    """Return a job of two attempts, the second with other code on two hosts."""
    facts: Mapping[str, Any] = {
        "hardware": "H100",
        "image": "trainer:2",
        "team": "speech",
        "code_version": "1",
        "gpus": 16,
    }
    labels = {"data_source": "crawl", "cost_center": "7"}
    return [
        event(JobFacts, labels=labels, **facts),
        event(AttemptStarted, host="node-1"),
        compiled(NOON, "cold"),
        event(AttemptEnded, NOON + 10 * MINUTE, outcome=Outcome.FAILED),
        event(AttemptStarted, NOON + HOUR, attempt=1, code_version="2", gpus=8, host="node-2"),
        event(AttemptStarted, NOON + HOUR, attempt=1, rank=8, host="node-1"),
        compiled(NOON + HOUR, "warm", attempt=1),
        compiled(NOON + HOUR, "cold", attempt=1, rank=8),
        event(AttemptEnded, NOON + 2 * HOUR, attempt=1, outcome=Outcome.COMPLETED),
    ]


def test_an_attempt_has_its_jobs_facts_and_its_own(store: Store, project_id: int) -> None:
    store_job(store, project_id, "llm", restarted_job())
    with store.reading() as conn:
        facts = attempt_facts(conn, project_id, [("llm", 0), ("llm", 1)])

    first, second = facts["llm", 0], facts["llm", 1]
    assert dict(first.values) == {
        "code_version": "1",
        "image": "trainer:2",
        "hardware": "H100",
        "precision": "",
        "kind": "",
        "team": "speech",
        "model": "",
        "cluster": "",
        "size": "16-31",
        "start": "first",
        "compile_cache": "cold",
    }
    assert (first.hosts, first.started_us) == (("node-1",), NOON)
    assert dict(first.labels) == {"data_source": "crawl", "cost_center": "7"}
    own = {name: second.values[name] for name in ("code_version", "size", "start", "compile_cache")}
    assert own == {
        "code_version": "2",
        "size": "8-15",
        "start": "restart",
        "compile_cache": "mixed",
    }
    assert second.hosts == ("node-1", "node-2")


def test_only_what_is_asked_for_is_answered_and_only_of_ones_own_project(
    store: Store, project_id: int
) -> None:
    store_job(store, project_id, "llm", restarted_job())
    with store.reading() as conn:
        assert set(attempt_facts(conn, project_id, [("llm", 1), ("llm", 9), ("no", 0)])) == {
            ("llm", 1)
        }
        assert attempt_facts(conn, project_id + 1, [("llm", 1)]) == {}
        assert attempt_facts(conn, project_id, []) == {}


def _daily_times(store: Store, project_id: int, first_us: int, days: int) -> list[DailyTime]:
    with store.reading() as conn:
        return list(daily_time(conn, project_id, first_us, days, ("cluster", "model")))


@pytest.mark.parametrize("first_us", [MIDNIGHT - DAY, NOON - DAY])
def test_time_is_summed_by_cohort_and_day_from_any_full_hour_on(
    store: Store, project_id: int, first_us: int
) -> None:
    calm = calm_job(NOON, compiling=10, training=20, cluster="c", model="m")
    store_job(store, project_id, "a", calm)
    other = calm_job(NOON, training=30, code_version="2", cluster="c", model="m")
    store_job(store, project_id, "b", other)
    store_job(store, project_id, "c", calm_job(NOON + DAY, training=40, cluster="c", model="n"))

    [first, next_one] = _daily_times(store, project_id, first_us, 3)
    assert (first.day, first.labels, first.other) == (1, ("c", "m"), False)
    assert first.us[PLACES[Category.EFFECTIVE_TRAINING]] == 8 * 50 * MINUTE
    assert first.us[PLACES[Category.PT2_COMPILE]] == 8 * 10 * MINUTE
    assert sum(first.us) == 8 * 60 * MINUTE
    assert (next_one.day, next_one.labels) == (2, ("c", "n"))
    assert _daily_times(store, project_id, first_us, 1) == []


def test_excluded_time_is_left_out(store: Store, project_id: int) -> None:
    key = store_job(store, project_id, "a", calm_job(NOON, training=60))
    _exclude(store, key, Exclusion(NOON, NOON + 15 * MINUTE))
    [phase] = _daily_times(store, project_id, MIDNIGHT, 1)
    assert sum(phase.us) == 8 * 45 * MINUTE


def _exclude(store: Store, key: JobKey, window: Exclusion) -> None:
    store.write(
        lambda conn: corrections.put_exclusion(
            conn, key, [window], why="bench", made_by="ett_x", now_us=RECEIVED_AT
        )
    )
    refreshed(store, key, LATER)
