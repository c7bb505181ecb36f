"""Events as they are written on the wire, and how much of them a sender may send at once.

One struct a type. What the types cannot say ``ett_service.ingest.members`` does, found by the word
after ``reads``. Where a member is optional, null says the same as leaving it out.
"""

import signal
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from ett_service.core.words import Cause, Origin, Phase


@dataclass(frozen=True, slots=True)
class Limits:
    """What a body, a batch and an event may be at most."""

    max_body_bytes: int = 8 << 20
    max_inflated_bytes: int = 64 << 20
    max_batch_events: int = 10_000
    max_event_bytes: int = 16 << 10
    max_depth: int = 8  #: of objects and lists inside each other, the event being the first
    max_future_us: int = 86_400_000_000


MAX_INTEGER = 2**53 - 1
_MAX_INT32 = 2**31 - 1

Integer = Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]
Count = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
Ordinal = Annotated[int, Meta(ge=0, le=_MAX_INT32)]
#: Beyond any job there is: microseconds times accelerators are summed in 64 bits.
Machines = Annotated[int, Meta(ge=0, le=1_000_000)]
Amount = Annotated[float, Meta(ge=0)]
JobName = Annotated[str, Meta(min_length=1, max_length=200, extra={"reads": "job"})]
Id = Annotated[
    str, Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9._:-]+$", extra={"reads": "id"})
]
Instant = Annotated[
    str, Meta(extra_json_schema={"format": "date-time"}, extra={"reads": "instant"})
]
Launch = Annotated[str, Meta(max_length=100, extra={"reads": "text"})]
Word = Annotated[str, Meta(min_length=1, max_length=256, extra={"reads": "text"})]
Log = Annotated[str, Meta(extra={"reads": "log"})]
Labels = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=128)], Annotated[str, Meta(max_length=256)]],
    Meta(max_length=16, extra={"reads": "labels"}),
]
Attributes = Annotated[
    dict[Annotated[str, Meta(max_length=128)], Any],
    Meta(max_length=32, extra={"reads": "attributes"}),
]
_SIGNALS = f"^(?:{'|'.join(sorted(signal.Signals.__members__))})$"
Signal = Annotated[
    Annotated[int, Meta(ge=0, le=127)] | Annotated[str, Meta(pattern=_SIGNALS)],
    Meta(extra={"reads": "signal"}),
]
SentOutcome = Annotated[
    Literal["completed", "failed", "preempted", "cancelled"], Meta(extra={"reads": "outcome"})
]


class SentEvent(
    Struct, kw_only=True, forbid_unknown_fields=True, tag_field="type", omit_defaults=True
):
    """What every event may say."""

    job: JobName
    at: Instant
    id: Id | None = None
    launch: Launch | None = None
    attempt: Ordinal | None = None
    cycle: Ordinal | None = None
    rank: Ordinal | None = None
    host: Word | None = None
    producer: Word | None = None
    mono_us: Integer | None = None
    seq: Count | None = None
    attributes: Attributes | None = None


class SentJobFacts(SentEvent, tag="job"):
    """Facts about the job."""

    name: Word | None = None
    team: Word | None = None
    model: Word | None = None
    cluster: Word | None = None
    hardware: Word | None = None
    gpus: Machines | None = None
    kind: Word | None = None
    code_version: Word | None = None
    image: Word | None = None
    owner: Word | None = None
    submitted_at: Instant | None = None
    parameters: Count | None = None
    precision: Word | None = None
    labels: Labels | None = None


class SentAttemptStarted(SentEvent, tag="attempt_started"):
    """An attempt exists."""

    gpus: Machines | None = None
    hosts: Machines | None = None
    code_version: Word | None = None
    reason: Log | None = None


class SentEnding(SentEvent):
    """How something ended, with the evidence for its cause."""

    outcome: SentOutcome
    exit_code: Integer | None = None
    signal: Signal | None = None
    exception: Log | None = None
    message: Log | None = None
    scheduler_state: Log | None = None
    origin: Origin | None = None
    cause: Cause | None = None
    preempted_by: JobName | None = None
    reason: Log | None = None


class SentAttemptEnded(SentEnding, tag="attempt_ended"):
    """The attempt is over."""


class SentJobEnded(SentEnding, tag="job_ended"):
    """No attempt will follow."""


class SentPhaseStarted(SentEvent, tag="phase_started"):
    """The begin of a phase, or of a stage of it."""

    phase: Phase
    stage: Word | None = None


class SentPhaseEnded(SentEvent, tag="phase_ended"):
    """The end of a phase, or of a stage of it."""

    phase: Phase
    stage: Word | None = None


class SentSpan(SentEvent, tag="span"):
    """A phase or stage that is over; the end is ``at``."""

    phase: Phase
    start: Instant
    stage: Word | None = None


class SentProgress(SentEvent, tag="progress"):
    """This step is done; the others are running totals of the job."""

    step: Count
    samples: Count | None = None
    tokens: Count | None = None
    flops: Amount | None = None


class SentCheckpointSaved(SentEvent, tag="checkpoint_saved"):
    """This step is durable now."""

    step: Count
    bytes: Count | None = None
    duration_seconds: Amount | None = None


class SentCheckpointRestored(SentEvent, tag="checkpoint_restored"):
    """Training goes on after this step."""

    step: Count
    bytes: Count | None = None


class SentHeartbeat(SentEvent, tag="heartbeat"):
    """Still alive."""


AnyEvent = (
    SentJobFacts
    | SentAttemptStarted
    | SentAttemptEnded
    | SentPhaseStarted
    | SentPhaseEnded
    | SentSpan
    | SentProgress
    | SentCheckpointSaved
    | SentCheckpointRestored
    | SentHeartbeat
    | SentJobEnded
)


class EventBatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """The members of a batch beside its events."""

    events: list[Raw]
    batch_id: Word | None = None
    sent_at: Instant | None = None
    producer: Word | None = None
    history: bool | None = None
    dropped: Annotated[dict[str, Count], Meta(max_length=32)] | None = None


def event_schema() -> dict[str, Any]:
    """Return JSON schemas by name for OpenAPI: ``EventBatch``, ``Event`` and one a type."""
    template = "#/components/schemas/{name}"
    (_, event), schemas = msgspec.json.schema_components(
        (EventBatch, AnyEvent), ref_template=template
    )
    schemas["Event"] = event
    batch = schemas["EventBatch"]["properties"]
    batch["events"] = {"type": "array", "items": {"$ref": template.format(name="Event")}}
    return schemas
