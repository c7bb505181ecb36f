"""Events and clock offsets, as they were accepted."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

import msgspec
from sqlalchemy import (
    Column,
    Connection,
    Row,
    Select,
    Text,
    bindparam,
    exists,
    func,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY

from ett_service.core.events import EVENT_TYPES, Event
from ett_service.storage import schema
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


Pair = tuple[str, str]
"""A job, and the id of an event or the name of a producer in it."""

Content = tuple[str, str]
"""What an event says: its type and its body."""

Rows = Select[*tuple[Any, ...]]


def _asked_on_sqlite() -> Rows:
    pairs = func.json_each(bindparam("pairs")).table_valued("value")
    return select(*(func.json_extract(pairs.c.value, f"$[{place}]") for place in (0, 1)))


def _asked_on_postgresql() -> Rows:
    arrays = [bindparam(name, type_=ARRAY(Text)) for name in ("firsts", "seconds")]
    return select(func.unnest(*arrays).table_valued("first", "second").render_derived())


def _by_dialect(rows: Rows, *pair: Column[str]) -> Mapping[str, Rows]:
    """Build one statement for any number of pairs, so that it is prepared only once."""
    return {
        "sqlite": rows.where(tuple_(*pair).in_(_asked_on_sqlite())),
        "postgresql": rows.where(tuple_(*pair).in_(_asked_on_postgresql())),
    }


_CONTENTS = _by_dialect(
    select(event.c.job, event.c.id, event.c.type, event.c.body).where(
        event.c.project_id == bindparam("project_id"), event.c.batch != bindparam("batch")
    ),
    event.c.job,
    event.c.id,
)
_OFFSETS = _by_dialect(
    select(producer.c.job, producer.c.producer, producer.c.offset_us).where(
        producer.c.project_id == bindparam("project_id")
    ),
    producer.c.job,
    producer.c.producer,
)


def known_contents(
    conn: Connection, project_id: int, keys: Collection[Pair], *, but_of_batch: int
) -> dict[Pair, Content]:
    """Return by job and id what those events say that other batches brought."""
    asked = {"project_id": project_id, "batch": but_of_batch}
    found = _read(conn, _CONTENTS, asked, keys)
    return {(job, name): (kind, body) for job, name, kind, body in found}


def known_offsets(conn: Connection, project_id: int, keys: Collection[Pair]) -> dict[Pair, int]:
    """Return by job and name the offsets of those producers that have one."""
    asked = {"project_id": project_id}
    return {(job, name): offset for job, name, offset in _read(conn, _OFFSETS, asked, keys)}


def _read(
    conn: Connection,
    statements: Mapping[str, Rows],
    asked: Mapping[str, object],
    keys: Collection[Pair],
) -> Iterator[Row[*tuple[Any, ...]]]:
    if not keys:
        return iter(())
    pairs: dict[str, object]
    if conn.dialect.name == "sqlite":
        pairs = {"pairs": json.dumps(list(keys))}
    else:
        pairs = {"firsts": [key[0] for key in keys], "seconds": [key[1] for key in keys]}
    return iter(conn.execute(statements[conn.dialect.name], {**asked, **pairs}))


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
    found: list[Event] = []
    for some in _pieces(batches):
        rows = conn.execute(_EVENTS_OF_BATCHES, {**of_the_job, "batches": some})
        found += [decode_body(kind, body) for kind, body in rows]
    return found


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
