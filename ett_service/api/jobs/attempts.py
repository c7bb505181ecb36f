"""One attempt: by its opaque id, which exemplars on ``/metrics`` name, and on a line of time."""

import re
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path
from pydantic import Field

from ett_service.api.answers import Answer, Instant
from ett_service.api.bodies import OF_RECORD
from ett_service.api.deps import Job, ProjectId, Reader, ReadingKey, only_declared_parameters
from ett_service.api.jobs.listing import ledger_of
from ett_service.api.jobs.timeline import JobEvents, RankAnswer, SlowestRankAnswer, StageAnswer
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.core.ledger.ranks import attempt_times, slowest_ranks
from ett_service.core.ledger.results import AttemptLedger, JobLedger
from ett_service.core.ledger.stages import attempt_spans, by_attempt, stage_times
from ett_service.core.words import Outcome, Phase
from ett_service.storage.metrics import counters
from ett_service.storage.record import events as stored_events
from ett_service.storage.record.keys import Key

id_router = APIRouter(
    prefix="/v1/attempts", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)

_ID = re.compile(r"([0-9a-f]{16})-([0-9]{1,9})", re.ASCII)

router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)


class AttemptLinks(Answer):
    """Where to read on."""

    job: str = Field(description="The job's results.")
    ledger: str
    trace: str


class AttemptPlace(Answer):
    """The job and the attempt that an exemplar names."""

    project: str
    job: str
    number: int
    launch: str
    attempt: int
    cycle: int
    links: AttemptLinks


@id_router.get(
    "/{attempt_id}", operation_id="read_attempt", responses=declared(401, 403, 404, 422, 503)
)
def read_attempt(
    attempt_id: Annotated[
        str, Path(description="`attempt_id` of an exemplar.", examples=["9f86d081884c7d65-1"])
    ],
    key: ReadingKey,
    conn: Reader,
) -> AttemptPlace:
    """Return the attempt that an exemplar of `/metrics` names.

    The id contains the attempt's number. If an earlier attempt becomes known later, numbers
    change, and the id stands for the attempt that has the number now.
    """
    parsed = _ID.fullmatch(attempt_id)
    owner = None if parsed is None else counters.job_of(conn, parsed[1])
    if parsed is None or owner is None or not _may_read(key, owner.project_id):
        raise _unknown()
    attempts = ledger_of(conn, owner.project_id, owner.job).attempts
    number = int(parsed[2])
    if number >= len(attempts):
        raise _unknown()
    links = _links(owner.project, owner.job)
    return AttemptPlace.of(owner, attempts[number], number=number, links=links)


def _may_read(key: Key, project_id: int) -> bool:
    return key.project_id == project_id or "fleet" in key.scopes


def _unknown() -> Problem:
    return Problem(ProblemKind.NOT_FOUND, "No such attempt.")


def _links(project: str, job: str) -> AttemptLinks:
    path, query = f"/v1/jobs/{quote(job, safe='')}", f"?project={quote(project, safe='')}"
    return AttemptLinks(
        job=path + query, ledger=f"{path}/ledger{query}", trace=f"{path}/trace{query}"
    )


class StageSpanAnswer(Answer):
    """A phase, or a stage of one, as the lead rank or a launcher reported it."""

    phase: Phase
    stage: str | None = Field(description="Null for the phase itself.")
    rank: int | None = Field(description="Null for what launchers and schedulers report.")
    start: Instant = Field(validation_alias="start_at")
    end: Instant = Field(validation_alias="end_at")
    ended: bool = Field(description="Whether its end was sent; else it is inferred.")


class AttemptTimelineAnswer(Answer):
    """The spans of an attempt, and what they add up to."""

    job: str
    number: int
    as_of: Instant
    outcome: Outcome
    started_at: Instant
    ended_at: Instant = Field(description="`as_of` while the attempt runs.")
    lead_rank: int | None = Field(description="The rank whose spans count.")
    spans: list[StageSpanAnswer] = Field(description="By their start. They may overlap.")
    stages: list[StageAnswer]
    ranks: list[RankAnswer]
    slowest: list[SlowestRankAnswer]


@router.get(
    "/{job}/attempts/{number}",
    operation_id="read_attempt_timeline",
    responses=declared(*OF_RECORD),
)
def read_attempt_timeline(
    job: Job,
    number: Annotated[int, Path(ge=0, description="The attempt's number.")],
    conn: Reader,
    project_id: ProjectId,
    events: JobEvents,
) -> AttemptTimelineAnswer:
    """Return the spans of an attempt, its time by phase and stage, and its ranks and hosts."""
    ledger = ledger_of(conn, project_id, job)
    attempt = _attempt(ledger, number)
    given = by_attempt(events, stored_events.offsets(conn, project_id, job))
    items = given[attempt.launch, attempt.attempt, attempt.cycle]
    spans = attempt_spans(attempt, items)
    ranks = list(attempt_times(number, items))
    return AttemptTimelineAnswer.of(
        attempt,
        job=job,
        as_of=ledger.as_of,
        spans=[span for span in spans if span.rank in {None, attempt.lead_rank}],
        stages=stage_times(spans, ledger),
        ranks=ranks,
        slowest=slowest_ranks(ranks),
    )


def _attempt(ledger: JobLedger, number: int) -> AttemptLedger:
    if number >= len(ledger.attempts):
        raise Problem(ProblemKind.NOT_FOUND, "The job has no attempt of this number.")
    return ledger.attempts[number]
