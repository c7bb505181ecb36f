"""The record of a job: events and clock offsets as accepted, corrections, and the store's epoch."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, Row, bindparam, exists, func, select

from ett_service.core.events import EVENT_TYPES, Event, Exclusion, SpanOver
from ett_service.core.intervals import SECOND_US
from ett_service.core.ledger.attempt_results import AttemptKey, FailureVerdict
from ett_service.core.ledger.attempts.attempts import TOLERANCE_US
from ett_service.core.words import Cause, Origin, Phase
from ett_service.storage import schema
from ett_service.storage.engine.errors import DamagedEvent
from ett_service.storage.engine.statements import Pair, among_pairs
from ett_service.storage.record.dirty_marks import JobBatch, JobKey, of_jobs
from ett_service.storage.schema import correction, event, launch_cluster, producer
from ett_service.storage.schema.record import EXCLUSION, NUMBERED

_ENCODER = msgspec.json.Encoder(order="sorted")

_DECODERS = {name: msgspec.json.Decoder(kind).decode for name, kind in EVENT_TYPES.items()}
_MEMBERS = {name: tuple(each.name for each in fields(kind)) for name, kind in EVENT_TYPES.items()}

EPOCH_EVERY_US = SECOND_US
"""How often the epoch is read: a database may be restored under a server that runs."""


def _empty_of(kind: type[Event]) -> tuple[tuple[str, object], ...]:
    """Return what says no more than leaving it out, but for None, by name."""
    return tuple(
        (each.name, {} if each.default_factory is not MISSING else each.default)
        for each in fields(kind)
        if each.default is not None and (each.default, each.default_factory) != (MISSING, MISSING)
    )


_EMPTY = {name: _empty_of(kind) for name, kind in EVENT_TYPES.items()}


def members_of(event: Event) -> dict[str, Any]:
    """Return what *event* says by the names of its members, without those that are None."""
    return {
        name: value for name in _MEMBERS[event.type] if (value := getattr(event, name)) is not None
    }


def encode_members(kind: str, members: dict[str, Any]) -> str:
    """Return the canonical content of an event; *members* lose what is empty."""
    for name, empty in _EMPTY[kind]:
        if name in members and members[name] == empty:
            del members[name]
    return _ENCODER.encode(members).decode()


_WHOLE = '{"at":'
"""Begins a body of before: it repeats the id and the instant, which every row has beside it."""


def encode_rest(kind: str, members: dict[str, Any]) -> str:
    """Return the canonical body of an event: what its row does not say beside it.

    *members* lose what is empty, id and instant, and, if the id says them, producer and number.
    """
    name = members.pop("id")
    del members["at"]
    producer, number = members.get("producer"), members.get("seq", -1)
    if producer is not None and number >= 0 and name == f"{producer}-{number}":
        del members["producer"], members["seq"]
        return NUMBERED + encode_members(kind, members)
    return encode_members(kind, members)


def encode_body(event: Event) -> str:
    """Return the canonical body of *event*, beside type, id and instant."""
    return encode_rest(event.type, members_of(event))


def whole_body(name: str, at_us: int, body: str) -> str:
    """Return as JSON all that an event says but for its type; *name* is its id."""
    if body.startswith(_WHOLE):
        return body
    begin = f'{{"id":"{name}","at":{at_us}'
    if body.startswith(NUMBERED):
        producer, _, number = name.rpartition("-")
        begin += f',"producer":"{producer}","seq":{number}'
        body = body[1:]
    return f"{begin}{body[1:]}" if body == "{}" else f"{begin},{body[1:]}"


def decode_body(kind: str, name: str, at_us: int, body: str) -> Event:
    """Return the event of type *kind*, whose id is *name*, that was stored as *body*."""
    return _DECODERS[kind](whole_body(name, at_us, body))


EventContent = tuple[str, int, str]
"""What an event says beside its id: its type, its instant and its body."""

_STORED = (event.c.type, event.c.id, event.c.at_us, event.c.body)
"""What :func:`decode_body` takes."""

_CONTENTS = select(event.c.job, *_STORED).where(
    event.c.project_id == bindparam("project_id"), event.c.batch != bindparam("batch")
)
_IDS = select(event.c.job, event.c.id).where(event.c.project_id == bindparam("project_id"))
_OFFSETS = select(producer.c.job, producer.c.producer, producer.c.offset_us).where(
    producer.c.project_id == bindparam("project_id")
)


def stored_contents(
    conn: Connection, project_id: int, keys: Collection[Pair], *, but_of_batch: int
) -> dict[Pair, EventContent]:
    """Return by job and id what those events say that other batches brought."""
    parameters = {"project_id": project_id, "batch": but_of_batch}
    rows = among_pairs(conn, _CONTENTS, (event.c.job, event.c.id), keys, parameters)
    return {(job, name): _content(kind, name, at, body) for job, kind, name, at, body in rows}


def _content(kind: str, name: str, at_us: int, body: str) -> EventContent:
    if body.startswith(_WHOLE):
        body = encode_body(decode_body(kind, name, at_us, body))
    return kind, at_us, body


def stored_ids(conn: Connection, project_id: int, keys: Collection[Pair]) -> set[Pair]:
    """Return those of *keys*, jobs and ids, by which an event is stored."""
    rows = among_pairs(conn, _IDS, (event.c.job, event.c.id), keys, {"project_id": project_id})
    return {(job, name) for job, name in rows}


def stored_offsets(conn: Connection, project_id: int, keys: Collection[Pair]) -> dict[Pair, int]:
    """Return by job and name the offsets of those producers that have one."""
    named = (producer.c.job, producer.c.producer)
    rows = among_pairs(conn, _OFFSETS, named, keys, {"project_id": project_id})
    return {(job, name): offset for job, name, offset in rows}


_CLUSTERS = select(launch_cluster.c.job, launch_cluster.c.launch, launch_cluster.c.cluster).where(
    launch_cluster.c.project_id == bindparam("project_id")
)


def stored_clusters(
    conn: Connection, project_id: int, launches: Collection[Pair]
) -> dict[Pair, str]:
    """Return by job and launch the clusters of those *launches* that have one."""
    named = (launch_cluster.c.job, launch_cluster.c.launch)
    rows = among_pairs(conn, _CLUSTERS, named, launches, {"project_id": project_id})
    return {(job, launch): cluster for job, launch, cluster in rows}


T = TypeVar("T")

_event, _producer, _job, _store = schema.event, schema.producer, schema.job, schema.store

EVENTS = select(*_STORED).where(
    _event.c.project_id == bindparam("project_id"), _event.c.job == bindparam("job")
)
_EVENTS_OF_BATCHES = EVENTS.where(_event.c.batch.in_(bindparam("batches", expanding=True)))
_SPANS = EVENTS.where(
    _event.c.type == SpanOver.type,
    # The text of a body is no index, but spares the decoding of what it leaves out.
    _event.c.body.contains(bindparam("phase")),
)
_JOB_OFFSETS = select(_producer.c.producer, _producer.c.offset_us).where(
    _producer.c.project_id == bindparam("project_id"), _producer.c.job == bindparam("job")
)
_JOB_EXISTS = select(
    exists().where(_job.c.project_id == bindparam("project_id"), _job.c.job == bindparam("job"))
)
_STORE_EPOCH = select(_store.c.value).where(_store.c.name == "store_epoch")

#: Values in one IN list; both engines take many more.
_AT_ONCE = 500


def events(
    conn: Connection, project_id: int, job: str, batches: Collection[int] | None = None
) -> list[Event]:
    """Return the job's events in no order, of these *batches* only where they are given."""
    of_the_job = {"project_id": project_id, "job": job}
    if batches is None:
        return decoded(job, conn.execute(EVENTS, of_the_job).all())
    of_batches: list[Event] = []
    for piece in _pieces(batches):
        rows = conn.execute(_EVENTS_OF_BATCHES, {**of_the_job, "batches": piece}).all()
        of_batches += decoded(job, rows)
    return of_batches


def decoded(job: str, rows: Iterable[Sequence[Any]]) -> list[Event]:
    """Return what rows of *job* say, raising ``DamagedEvent`` for one that cannot be read.

    Each row is what :func:`decode_body` takes.
    """
    events: list[Event] = []
    row: Sequence[Any] = ()
    try:
        for row in rows:
            events.append(decode_body(*row))
    except msgspec.DecodeError as error:
        raise DamagedEvent(job, row[1], str(error)) from error
    return events


def count_events(conn: Connection, project_id: int, job: str) -> int:
    """Count the job's events."""
    of_the_job = (_event.c.project_id == project_id, _event.c.job == job)
    return conn.scalar(select(func.count()).select_from(_event).where(*of_the_job)) or 0


def spans_of_phase(conn: Connection, project_id: int, job: str, phase: Phase) -> list[SpanOver]:
    """Return the job's spans that are over, of one phase and its stages, in no order."""
    named = f'"phase":"{phase}"'
    of_phase = {"project_id": project_id, "job": job, "phase": named}
    spans = decoded(job, conn.execute(_SPANS, of_phase))
    return [span for span in spans if isinstance(span, SpanOver) and span.phase is phase]


def offsets(conn: Connection, project_id: int, job: str) -> dict[str, int]:
    """Return the microseconds to add to each producer's instants."""
    rows = conn.execute(_JOB_OFFSETS, {"project_id": project_id, "job": job})
    return {row.producer: row.offset_us for row in rows}


def job_exists(conn: Connection, project_id: int, job: str) -> bool:
    """Whether an event of *job* was ever accepted."""
    return bool(conn.execute(_JOB_EXISTS, {"project_id": project_id, "job": job}).scalar_one())


def store_epoch(conn: Connection) -> str:
    """Return the name by which this store differs from one that takes its place."""
    epoch: str = conn.execute(_STORE_EPOCH).scalar_one()
    return epoch


def _pieces(values: Collection[T]) -> Iterator[list[T]]:
    every = list(values)
    for start in range(0, len(every), _AT_ONCE):
        yield every[start : start + _AT_ONCE]


@dataclass(frozen=True, slots=True)
class Corrections:
    """What stands of a job's corrections."""

    verdicts: Mapping[AttemptKey, FailureVerdict]
    exclusions: tuple[Exclusion, ...]  #: in order of time; they may overlap


OF_JOB = (
    correction.c.project_id == bindparam("of_project"),
    correction.c.job == bindparam("of_job"),
)


STANDING = (*OF_JOB, correction.c.taken_back_us.is_(None))


class StandingCorrection(NamedTuple):
    """What a row says of a correction that stands."""

    kind: str
    launch: str
    attempt: int
    cycle: int
    origin: str
    cause: str
    from_us: int | None
    to_us: int | None
    why: str
    made_by: str
    made_us: int


STANDING_CORRECTIONS = (
    select(*(correction.c[name] for name in StandingCorrection._fields))
    .where(*STANDING)
    .order_by(correction.c.id)
)
"""The corrections that stand; its parameters are those of :func:`job_parameters`."""


def corrections_of(conn: Connection, key: JobKey) -> Corrections:
    """Read the corrections that stand."""
    rows = conn.execute(STANDING_CORRECTIONS, job_parameters(key))
    return corrections_from(map(tuple, rows))


def corrections_from(rows: Iterable[tuple[Any, ...]]) -> Corrections:
    """Return what the rows of standing corrections say."""
    verdicts: dict[AttemptKey, FailureVerdict] = {}
    exclusions: list[Exclusion] = []
    for row in map(StandingCorrection._make, rows):
        if row.kind == EXCLUSION:
            exclusions.append(Exclusion(row.from_us, row.to_us))
        else:
            verdicts[AttemptKey(row.launch, row.attempt, row.cycle)] = FailureVerdict(
                Origin(row.origin), Cause(row.cause), row.why, row.made_by, row.made_us
            )
    return Corrections(verdicts, tuple(sorted(exclusions, key=in_time)))


def job_parameters(key: JobKey) -> dict[str, object]:
    return {"of_project": key.project_id, "of_job": key.job}


def in_time(window: Exclusion) -> tuple[bool, int, bool, int]:
    from_at, to_at = window
    return (from_at is not None, from_at or 0, to_at is None, to_at or 0)


def attempt_key_of(row: Row[*tuple[Any, ...]]) -> AttemptKey:
    return AttemptKey(row.launch, row.attempt, row.cycle)


_NO_CORRECTIONS = Corrections({}, ())

# A job has as many producers as processes ever took part in it, and nearly all of their clocks are
# right: the database leaves those out, as the fold would.
_WRONG = func.abs(producer.c.offset_us) > TOLERANCE_US
CLOCKS = select(producer.c.producer, producer.c.offset_us).where(
    producer.c.project_id == bindparam("project_id"), producer.c.job == bindparam("job"), _WRONG
)
_CLOCKS_OF_JOBS = select(producer.c.job, producer.c.producer, producer.c.offset_us).where(
    *of_jobs(producer), _WRONG
)
_EVENTS_OF_JOBS = select(event.c.job, *_STORED).where(*of_jobs(event))
_CORRECTED = (
    select(correction.c.job)
    .where(*of_jobs(correction), correction.c.taken_back_us.is_(None))
    .distinct()
)


class JobRecord(NamedTuple):
    """The record of a job."""

    key: JobKey
    events: Sequence[Event]  #: in no order
    clock_offsets: Mapping[str, int]  #: microseconds by producer, of the clocks that are wrong
    corrections: Corrections


def job_record(conn: Connection, key: JobKey, batches: Collection[int] | None = None) -> JobRecord:
    """Read a job; of its events only those of the *batches*, where they are given."""
    is_empty = batches is not None and not batches
    of_batches = [] if is_empty else events(conn, *key, batches)
    rows = conn.execute(CLOCKS, key._asdict())
    clocks = {row.producer: row.offset_us for row in rows}
    return JobRecord(key, of_batches, clocks, corrections_of(conn, key))


def job_records(conn: Connection, batch: JobBatch) -> Iterator[JobRecord]:
    """Read jobs of a project, each kind of thing in one statement.

    Events are decoded job by job: those of one fit into a processor's cache, those of all of
    them do not.
    """
    parameters = batch.parameters()
    clocks: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, sender, offset_us in conn.execute(_CLOCKS_OF_JOBS, parameters):
        clocks[name][sender] = offset_us
    corrected = {
        name: corrections_of(conn, JobKey(batch.project_id, name))
        for name in conn.scalars(_CORRECTED, parameters)
    }
    stored: defaultdict[str, list[Sequence[Any]]] = defaultdict(list)
    for name, *row in conn.execute(_EVENTS_OF_JOBS, parameters).all():
        stored[name].append(row)
    for name in batch.jobs:
        yield JobRecord(
            JobKey(batch.project_id, name),
            decoded(name, stored.pop(name, ())),
            clocks.get(name, {}),
            corrected.get(name, _NO_CORRECTIONS),
        )


class StoreEpoch:
    """The store's epoch as of at most a second ago."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._read: tuple[int, str] | None = None  #: when, and what

    def of(self, conn: Connection) -> str:
        """Return it, read in the transaction of *conn* where it may have changed."""
        now_us = self._now_us()
        if self._read is None or not 0 <= now_us - self._read[0] < EPOCH_EVERY_US:
            self._read = now_us, store_epoch(conn)
        return self._read[1]
