"""One attempt: its spans on a line of time, its time by stage, and its ranks."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path
from pydantic import Field

from ett_service.api.answers import Answer, Instant
from ett_service.api.bodies import OF_RECORD
from ett_service.api.deps import Job, ProjectId, Reader, only_declared_parameters
from ett_service.api.jobs.listing import ledger_of
from ett_service.api.jobs.timeline import JobEvents, RankAnswer, SlowestRankAnswer, StageAnswer
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.core.ledger.ranks import attempt_times, slowest_ranks
from ett_service.core.ledger.results import AttemptLedger, JobLedger
from ett_service.core.ledger.stages import attempt_spans, by_attempt, stage_times
from ett_service.core.words import Outcome, Phase
from ett_service.storage.record import events as stored_events

router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
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
