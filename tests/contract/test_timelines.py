"""The conformance suite through the whole service: from the wire to the numbers."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sqlalchemy import Connection

from ett_service.aggregation.fold_job import refresh
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Period
from ett_service.ingest.accept import accept
from ett_service.ingest.decode import decode
from ett_service.ingest.wire import Limits
from ett_service.storage.engine.store import Store
from ett_service.storage.jobs import ledgers
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from tests.builders.clock import instant
from tests.builders.plain_ledgers import plain
from tests.builders.servers.waiting import wait_for
from tests.builders.timelines import FILES
from tests.contract.described import Json, Service, quoted

STORED, SENT = 50, 20
MANY = 1_000
DAY_US = 86_400_000_000
OPEN = ("running", "queued")


@dataclass(frozen=True)
class Timeline:
    """One job as it is sent, and the answer on which others agreed."""

    name: str
    as_of: int
    events: list[Json]
    expected: Mapping[str, Any]

    @property
    def job(self) -> str:
        job: str = self.events[0]["job"]
        return job


def timelines(corpus: Path) -> Iterator[Timeline]:
    """Read the suite; every timeline is of one job."""
    for file in FILES:
        with (corpus / "timelines" / f"{file}.jsonl").open() as text:
            for line in text:
                case = json.loads(line)
                yield Timeline(
                    case["case"], instant(case["as_of"]), case["events"], case["expected"]
                )


def accepted(conn: Connection, timeline: Timeline) -> JobKey:
    """Accept a job in a project of its own."""
    project_id = create_project(conn, timeline.name, timeline.as_of)
    body = json.dumps({"events": timeline.events}).encode()
    now_us = timeline.as_of
    headers = {"Content-Type": "application/json"}
    batch = decode(body, headers, now_us=now_us, limits=Limits(max_future_us=365 * DAY_US))
    verdicts = accept(conn, batch, project_id=project_id, now_us=now_us)
    assert verdicts.errors == (), timeline.name
    return JobKey(project_id, timeline.job)


def stored_ledger(store: Store, key: JobKey) -> JobLedger:
    """Read a ledger with its segments."""
    with store.reading() as conn:
        stored = ledgers.job_ledger(conn, *key)
        assert stored is not None
        return replace(stored, segments=tuple(ledgers.segments(conn, *key)))


def test_each_stored_ledger_is_the_expected_one(store: Store, corpus: Path) -> None:
    for timeline in sample(list(timelines(corpus)), STORED):
        key = store.write(partial(accepted, timeline=timeline))
        store.write(partial(refresh, key=key, now_us=timeline.as_of))

        assert plain(stored_ledger(store, key)) == timeline.expected, timeline.name


@pytest.mark.parametrize("file", FILES)
def test_what_is_sent_over_http_is_answered_with_the_expected_numbers(
    served: Service, corpus: Path, file: str
) -> None:
    closed = [
        timeline
        for timeline in timelines(corpus)
        if timeline.name.startswith(file) and timeline.expected["state"] not in OPEN
    ]
    for timeline in sample(closed, SENT // len(FILES) + 1):
        with served.project(timeline.name) as service:
            service.ingest(timeline.events)
            wait_for(partial(service.knows, timeline.job))

            job = service.read(f"/v1/jobs/{quoted(timeline.job)}")
            ledger = service.read(f"/v1/jobs/{quoted(timeline.job)}/ledger")
            assert in_microseconds(job, ledger) == timeline.expected, timeline.name


def sample(whole: list[Timeline], count: int) -> Iterable[Timeline]:
    """Return about so many, from all over; all of them in ``make laws``."""
    if settings().max_examples >= MANY:
        return whole
    return islice(whole, 0, None, len(whole) // count)


def in_microseconds(job: Json, ledger: Json) -> Json:
    """Put answers into the shape of the suite."""
    return {
        "state": job["state"],
        "provisional": job["provisional"],
        "e2e_us": ledger["e2e_microseconds"],
        "queue_wait_us": us(job["queue_wait_seconds"]),
        "categories_us": {str(name): us(job["categories"][name]) for name in Category},
        "periods_us": {str(name): us(job["periods"][name]) for name in Period},
        "time_to_start_us": maybe_us(job["time_to_start_seconds"]),
        "recoveries": [_recovery(recovery) for recovery in job["recoveries"]],
        "failures": job["failures"],
        "infra_failures": job["infra_failures"],
        "unsaved_training_us": us(job["unsaved_training_seconds"]),
        "attempts": [_attempt(attempt) for attempt in job["attempts"]],
        "gpu_us": _sums(job["gpu_seconds"]),
        "weighted_us": _sums(job["weighted_seconds"]),
        "gpus_unknown": job["quality"]["gpus_unknown"],
        "segments": [
            [instant(segment["start"]), instant(segment["end"]),
             segment["category"], segment["period"], segment["number"]]
            for segment in ledger["segments"]
        ],
    }  # fmt: skip


def us(seconds: float) -> int:
    """Undo the one division: a float of seconds holds every microsecond of centuries."""
    return round(seconds * 1e6)


def maybe_us(seconds: float | None) -> int | None:
    """Do likewise where there may be none."""
    return None if seconds is None else us(seconds)


def _sums(parts: Mapping[str, float] | None) -> dict[str, int] | None:
    return None if parts is None else {name: us(seconds) for name, seconds in parts.items()}


def _recovery(recovery: Json) -> Json:
    return {
        "interrupted": recovery["interrupted"],
        "resumed": recovery["resumed"],
        "us": us(recovery["seconds"]),
        "parts_us": _sums(recovery["parts"]),
        "stalled_us": us(recovery["stalled_seconds"]),
        "repeated_us": us(recovery["repeated_seconds"]),
    }


def _attempt(attempt: Json) -> Json:
    same = ("number", "launch", "attempt", "cycle", "outcome", "basis")
    return {
        **{name: attempt[name] for name in same},
        "started_us": instant(attempt["started_at"]),
        "ended_us": instant(attempt["ended_at"]),
        "categories_us": _sums(attempt["categories"]),
    }
