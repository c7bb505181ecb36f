"""How far producers' clocks are behind the server's: the least of received minus sent.

A message is never received before it is sent, so the least difference is the nearest to the
truth. One that the fold would leave alone is not lowered further, so as to write rarely.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Executable

from ett_service.core.clock import TOLERANCE_US
from ett_service.ingest.decode import Batch
from ett_service.storage.known import known_offsets
from ett_service.storage.tables import producer
from ett_service.storage.writes import INSERTS


def lower_offsets(conn: Connection, batch: Batch, project_id: int, now_us: int) -> set[str]:
    """Learn from when *batch* was sent, and return the jobs whose events this moves."""
    if batch.sent_at is None:
        return set()
    seen = {
        (each.job, each.event.producer)
        for each in batch.arrivals
        if each.event.producer is not None
    }
    known = known_offsets(conn, project_id, seen)
    offset = now_us - batch.sent_at
    lowered = sorted(key for key in seen if _is_news(offset, known.get(key)))
    if lowered:
        rows = [
            {"project_id": project_id, "job": job, "producer": name, "offset_us": offset}
            for job, name in lowered
        ]
        conn.execute(_LOWER[conn.dialect.name], rows)
    return {key[0] for key in lowered if _matters(offset) or _matters(known.get(key, 0))}


def _is_news(offset: int, known: int | None) -> bool:
    return known is None or (offset < known and (_matters(offset) or _matters(known)))


def _matters(offset: int) -> bool:
    return abs(offset) > TOLERANCE_US


def _lower(dialect: str) -> Executable:
    """Build the statement that keeps the lesser, whoever of two writers comes first."""
    into: Any = INSERTS[dialect](producer)
    sent = into.excluded.offset_us
    lower: Executable = into.on_conflict_do_update(
        index_elements=producer.primary_key.columns,
        set_={"offset_us": sent},
        where=sent < producer.c.offset_us,
    )
    return lower


_LOWER: Mapping[str, Executable] = {dialect: _lower(dialect) for dialect in INSERTS}
