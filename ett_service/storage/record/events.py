"""Events and clock offsets, as they were accepted."""

from collections.abc import Collection, Iterator
from dataclasses import MISSING, fields
from typing import TypeVar

import msgspec
from sqlalchemy import (
    Connection,
    bindparam,
    exists,
    select,
)

from ett_service.core.events import EVENT_TYPES, Event
from ett_service.storage import schema
from ett_service.storage.engine.statements import Pair, among_pairs
from ett_service.storage.schema import event, producer

_ENCODER = msgspec.json.Encoder(order="sorted")

DECODERS = {name: msgspec.json.Decoder(kind).decode for name, kind in EVENT_TYPES.items()}
"""What reads the event of each type from its body."""


def _default_of(kind: type[Event]) -> tuple[tuple[str, object], ...]:
    return tuple(
        (each.name, {} if each.default_factory is not MISSING else each.default)
        for each in fields(kind)
    )


_DEFAULTS = {name: _default_of(kind) for name, kind in EVENT_TYPES.items()}


def encode_body(event: Event) -> str:
    """Return the canonical content of *event*, its id included."""
    content = {
        name: value
        for name, default in _DEFAULTS[event.type]
        if (value := getattr(event, name)) != default
    }
    return _ENCODER.encode(content).decode()


def decode_body(kind: str, body: str) -> Event:
    """Return the event of type *kind* that was stored as *body*."""
    return DECODERS[kind](body)


Content = tuple[str, str]
"""What an event says: its type and its body."""

_CONTENTS = select(event.c.job, event.c.id, event.c.type, event.c.body).where(
    event.c.project_id == bindparam("project_id"), event.c.batch != bindparam("batch")
)
_OFFSETS = select(producer.c.job, producer.c.producer, producer.c.offset_us).where(
    producer.c.project_id == bindparam("project_id")
)


def known_contents(
    conn: Connection, project_id: int, keys: Collection[Pair], *, but_of_batch: int
) -> dict[Pair, Content]:
    """Return by job and id what those events say that other batches brought."""
    parameters = {"project_id": project_id, "batch": but_of_batch}
    rows = among_pairs(conn, _CONTENTS, (event.c.job, event.c.id), keys, parameters)
    return {(job, name): (kind, body) for job, name, kind, body in rows}


def known_offsets(conn: Connection, project_id: int, keys: Collection[Pair]) -> dict[Pair, int]:
    """Return by job and name the offsets of those producers that have one."""
    named = (producer.c.job, producer.c.producer)
    rows = among_pairs(conn, _OFFSETS, named, keys, {"project_id": project_id})
    return {(job, name): offset for job, name, offset in rows}


T = TypeVar("T")

_event, _producer, _job, _store = schema.event, schema.producer, schema.job, schema.store

_EVENTS = select(_event.c.type, _event.c.body).where(
    _event.c.project_id == bindparam("project_id"), _event.c.job == bindparam("job")
)
_EVENTS_OF_BATCHES = _EVENTS.where(_event.c.batch.in_(bindparam("batches", expanding=True)))
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
        rows = conn.execute(_EVENTS, of_the_job)
        return [decode_body(kind, body) for kind, body in rows]
    decoded: list[Event] = []
    for some in _pieces(batches):
        rows = conn.execute(_EVENTS_OF_BATCHES, {**of_the_job, "batches": some})
        decoded += [decode_body(kind, body) for kind, body in rows]
    return decoded


def offsets(conn: Connection, project_id: int, job: str) -> dict[str, int]:
    """Return the microseconds to add to each producer's instants."""
    rows = conn.execute(_JOB_OFFSETS, {"project_id": project_id, "job": job})
    return {row.producer: row.offset_us for row in rows}


def job_exists(conn: Connection, project_id: int, job: str) -> bool:
    """Whether an event of *job* was ever accepted."""
    return bool(conn.execute(_JOB_EXISTS, {"project_id": project_id, "job": job}).scalar_one())


def store_epoch(conn: Connection) -> str:
    """Return the name that tells this store from one that takes its place."""
    epoch: str = conn.execute(_STORE_EPOCH).scalar_one()
    return epoch


def _pieces(values: Collection[T]) -> Iterator[list[T]]:
    every = list(values)
    for start in range(0, len(every), _AT_ONCE):
        yield every[start : start + _AT_ONCE]
