"""Heaps of events: any type of anything at any time, dense with ties and contradictions."""

from random import Random
from typing import Any

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointRestored,
    CheckpointSaved,
    Event,
    Heartbeat,
    JobEnded,
    JobFacts,
    PhaseEnded,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.words import Cause, Origin, Outcome, Phase

_WEIGHTS: dict[type[Event], int] = {
    JobFacts: 1,
    AttemptStarted: 2,
    AttemptEnded: 3,
    JobEnded: 2,
    PhaseStarted: 8,
    PhaseEnded: 5,
    SpanOver: 6,
    Progress: 8,
    CheckpointSaved: 2,
    CheckpointRestored: 2,
    Heartbeat: 1,
}
_LOOP_HEAVY = [*Phase, *[Phase.TRAIN_LOOP] * 5, Phase.PT2_COMPILE, Phase.QUEUED]
_STAGED = 0.2  #: of edges and spans, those of a stage
_OUTCOMES = (Outcome.FAILED, Outcome.PREEMPTED, Outcome.CANCELLED, Outcome.COMPLETED)

_JOB_OUTCOMES = (*_OUTCOMES, Outcome.COMPLETED, Outcome.COMPLETED, Outcome.COMPLETED)


def heaped(chance: Random, birth: int, tick: int) -> tuple[Event, ...]:
    """Up to 26 events whose instants lie up to 60 ticks after ``birth``."""
    size = chance.randrange(4, 27)
    most = chance.choice([6, 20, 60])
    launches: list[str] = chance.choice([[""], ["", "8", "41"], ["a", "8"], [""]])
    attempts: list[int] = chance.choice([[0], [0, 1], [0, 0, 1, 2]])
    cycles: list[int] = chance.choice([[0], [0, 1], [0, 0, 1, 2]])
    ranks: list[int | None] = chance.choice([[None], [None, 0, 1], [0, 1]])
    producers: list[str | None] = chance.choice([[None], [None], [None, "p", "q"]])
    events = []
    for index, kind in enumerate(chance.choices([*_WEIGHTS], [*_WEIGHTS.values()], k=size)):
        at = birth + chance.randrange(most + 1) * tick
        cycle = chance.choice([*cycles, None]) if kind is AttemptEnded else chance.choice(cycles)
        producer = chance.choice(producers)
        members = _own_members(kind, chance)
        if kind is SpanOver:
            members["start"] = at + tick * chance.randrange(-20, 3)
        events.append(
            kind(
                id=f"h{index}",
                at=at,
                launch=chance.choice(launches),
                attempt=chance.choice(attempts),
                cycle=cycle,
                rank=chance.choice(ranks),
                producer=producer,
                mono_us=None if producer is None else chance.randrange(most + 1) * tick,
                **members,
            )
        )
    return tuple(events)


def _own_members(kind: type[Event], chance: Random) -> dict[str, Any]:
    if kind in (JobFacts, AttemptStarted):
        return {"gpus": chance.choice([None, 1, 2, 8])}
    if kind in (AttemptEnded, JobEnded):
        outcomes = _OUTCOMES if kind is AttemptEnded else _JOB_OUTCOMES
        return {
            "outcome": chance.choice(outcomes),
            "origin": chance.choice([None, None, *Origin]),
            "cause": chance.choice([None, None, Cause.HOST, Cause.OOM, Cause.UNKNOWN]),
        }
    if kind in (PhaseStarted, PhaseEnded, SpanOver):
        stage = chance.choice(["save", "staging"]) if chance.random() < _STAGED else None
        return {"phase": chance.choice(_LOOP_HEAVY), "stage": stage}
    if kind in (Progress, CheckpointSaved, CheckpointRestored):
        return {"step": chance.randrange(10)}
    return {}
