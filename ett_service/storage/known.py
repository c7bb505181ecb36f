"""What is there already of a batch: the contents of events, the offsets of producers."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, Text, bindparam, func, select, tuple_
from sqlalchemy.dialects.postgresql import ARRAY

from ett_service.storage.tables import event, producer

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
