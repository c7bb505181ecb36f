"""Which clocks of a job are to be corrected."""

from sqlalchemy import Connection, bindparam, func, select

from ett_service.core.clock import TOLERANCE_US
from ett_service.storage.marks import JobKey
from ett_service.storage.tables import producer

_CORRECTIONS = select(producer.c.producer, producer.c.offset_us).where(
    producer.c.project_id == bindparam("project_id"),
    producer.c.job == bindparam("job"),
    func.abs(producer.c.offset_us) > TOLERANCE_US,
)


def corrections(conn: Connection, key: JobKey) -> dict[str, int]:
    """Return the offsets that a fold applies, in microseconds.

    A job has as many producers as processes ever took part in it, and nearly all of their clocks
    are right: the database leaves those out, as the fold would.
    """
    rows = conn.execute(_CORRECTIONS, key._asdict())
    return {row.producer: row.offset_us for row in rows}
