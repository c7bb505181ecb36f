"""One fleet of full length, and what the real decoder and the real fold make of it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import AttemptLedger, JobLedger
from ett_service.demo.calendar import DAY, WireEvent
from ett_service.demo.fleet import NODE
from ett_service.demo.generator import Fleet, generate
from ett_service.demo.life import Story
from ett_service.demo.training import Job
from ett_service.ingest.decode import decode
from ett_service.ingest.wire import Limits

END_US = int(datetime(2026, 11, 19, 15, tzinfo=UTC).timestamp()) * 1_000_000
SEED = 7
DAYS = 60


@dataclass(frozen=True)
class Lived:
    """A job, its events and the ledger that the fold makes of them."""

    story: Story
    ledger: JobLedger

    @property
    def job(self) -> Job:
        """The job as it was submitted."""
        return self.story.job


@dataclass(frozen=True)
class Judged:
    """A fleet with the ledger of each of its jobs."""

    fleet: Fleet
    lived: Mapping[str, Lived]

    def attempts(self) -> Iterator[tuple[Job, AttemptLedger]]:
        """Return each attempt with its job."""
        for lived in self.lived.values():
            for attempt in lived.ledger.attempts:
                yield lived.job, attempt

    def effect(self, name: str) -> Mapping[str, Any]:
        """Return one planted effect from the truth, its instants in microseconds."""
        (effect,) = [effect for effect in self.fleet.truth["planted"] if effect["name"] == name]
        return {**effect, "from": instant(effect["from"]), "to": instant(effect["to"])}


def node_days(job: Job, attempt: AttemptLedger) -> float:
    """Return for how long an attempt held nodes."""
    return (attempt.ended_at - attempt.started_at) / DAY * job.gpus / NODE


def instant(text: str | None) -> int:
    """Return an instant in microseconds, 0 for none."""
    return 0 if text is None else round(datetime.fromisoformat(text).timestamp() * 1_000_000)


def spans(story: Story, phase: str, stage: str | None = None) -> Iterator[tuple[int, int]]:
    """Return begin and length of each span of a phase or stage, in microseconds."""
    for event in story.events:
        if event["type"] == "span" and (event["phase"], event.get("stage")) == (phase, stage):
            start = instant(event["start"])
            yield start, instant(event["at"]) - start


def decoded(events: list[WireEvent]) -> list[Any]:
    """Return what the real decoder makes of *events*, none of which it may refuse."""
    arrivals = []
    for begin in range(0, len(events), 10_000):
        body = json.dumps({"history": True, "events": events[begin : begin + 10_000]}).encode()
        headers = {"content-type": "application/json"}
        batch = decode(body, headers, now_us=END_US, limits=Limits())
        assert batch.refusals == ()
        arrivals += [arrival.event for arrival in batch.arrivals]
    return arrivals


@pytest.fixture(scope="session")
def fleet() -> Fleet:
    """Return a fleet of sixty days."""
    return generate(seed=SEED, days=DAYS, end_us=END_US)


@pytest.fixture(scope="session")
def judged(fleet: Fleet) -> Judged:
    """Return the same fleet with its ledgers as of its end."""
    lived = {
        story.job.name: Lived(story, fold(decoded(story.events), {}, END_US))
        for story in fleet.stories
    }
    return Judged(fleet, lived)
