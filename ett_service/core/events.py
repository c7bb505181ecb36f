"""Events and markers: the immutable facts that programs and people send."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import ClassVar, NamedTuple

from ett_service.core.dimensions import Facts
from ett_service.core.words import (
    Cause,
    Origin,
    Outcome,
    Phase,
)


@dataclass(frozen=True, kw_only=True)
class Event:
    """What every event says. ``id`` is unique within the job; equal ids are one fact."""

    type: ClassVar[str]

    id: str
    at: int
    launch: str = ""  #: the scheduler's own id of the submission; empty where unknown
    attempt: int = 0
    cycle: int | None = None  #: None where the sender named none: 0, but for ``AttemptEnded``
    rank: int | None = None
    host: str | None = None
    producer: str | None = None  #: one life of one process
    mono_us: int | None = None  #: the producer's monotonic clock
    seq: int | None = None  #: the producer's own running number
    attributes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class JobFacts(Facts, Event):
    """Facts about the job; per member the latest ``at`` wins, then the larger value."""

    type: ClassVar[str] = "job"


@dataclass(frozen=True, kw_only=True)
class AttemptStarted(Event):
    """An attempt exists."""

    type: ClassVar[str] = "attempt_started"

    gpus: int | None = None
    hosts: int | None = None
    code_version: str | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Ending(Event):
    """How something ended, with the evidence for its cause."""

    outcome: Outcome
    exit_code: int | None = None
    signal: int | None = None
    exception: str | None = None
    message: str | None = None
    scheduler_state: str | None = None
    origin: Origin | None = None
    cause: Cause | None = None
    preempted_by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class AttemptEnded(Ending):
    """The attempt is over; without ``cycle`` the highest that had begun."""

    type: ClassVar[str] = "attempt_ended"


@dataclass(frozen=True, kw_only=True)
class JobEnded(Ending):
    """No attempt will follow."""

    type: ClassVar[str] = "job_ended"


@dataclass(frozen=True, kw_only=True)
class PhaseStarted(Event):
    """The begin of a phase, or of a stage of it."""

    type: ClassVar[str] = "phase_started"

    phase: Phase
    stage: str | None = None


@dataclass(frozen=True, kw_only=True)
class PhaseEnded(Event):
    """The end of a phase, or of a stage of it."""

    type: ClassVar[str] = "phase_ended"

    phase: Phase
    stage: str | None = None


@dataclass(frozen=True, kw_only=True)
class SpanOver(Event):
    """A phase or stage that is over: it lasted from ``start`` to ``at``."""

    type: ClassVar[str] = "span"

    phase: Phase
    start: int
    stage: str | None = None


@dataclass(frozen=True, kw_only=True)
class Progress(Event):
    """This step is done; the others are running totals of the job."""

    type: ClassVar[str] = "progress"

    step: int
    samples: int | None = None
    tokens: int | None = None
    flops: float | None = None


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved(Event):
    """This step is durable now."""

    type: ClassVar[str] = "checkpoint_saved"

    step: int
    bytes: int | None = None
    duration_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class CheckpointRestored(Event):
    """Training goes on after this step."""

    type: ClassVar[str] = "checkpoint_restored"

    step: int
    bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Heartbeat(Event):
    """Still alive."""

    type: ClassVar[str] = "heartbeat"


EVENT_TYPES: dict[str, type[Event]] = {
    kind.type: kind
    for kind in (
        JobFacts,
        AttemptStarted,
        AttemptEnded,
        PhaseStarted,
        PhaseEnded,
        SpanOver,
        Progress,
        CheckpointSaved,
        CheckpointRestored,
        Heartbeat,
        JobEnded,
    )
}
"""The class of each ``type`` on the wire."""


class MarkerKind(StrEnum):
    """What a marker is of: the closed list."""

    DEPLOY = auto()  #: other code or another image went out
    LAUNCH = auto()  #: an effort, a model or a cluster began
    MAINTENANCE = auto()  #: planned work on the machines
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Marker:
    """One of them; instants are microseconds since the Unix epoch."""

    id: str  #: unique in its project
    at: int
    kind: MarkerKind
    title: str
    end: int | None = None  #: None for what took no time
    labels: Mapping[str, str] = field(default_factory=dict)


class Exclusion(NamedTuple):
    """Time that somebody took out of the fleet's numbers; None leaves that end open."""

    from_at: int | None = None
    to_at: int | None = None
