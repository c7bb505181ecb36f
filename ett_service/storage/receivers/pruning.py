"""Old deliveries: what was delivered, superseded or given up long ago is removed."""

from sqlalchemy import Connection, bindparam, delete, select

from ett_service.storage.receivers.deliveries import DeliveryState
from ett_service.storage.schema import delivery

_OVER = [
    state.value for state in (DeliveryState.SENT, DeliveryState.SUPERSEDED, DeliveryState.DEAD)
]
_OLD = (
    select(delivery.c.id)
    .where(delivery.c.done.in_(_OVER), delivery.c.done_us < bindparam("before_us"))
    .limit(bindparam("most"))
)


def prune(conn: Connection, before_us: int, most: int) -> int:
    """Remove up to *most* deliveries that were over before an instant; return how many."""
    ids = conn.execute(_OLD, {"before_us": before_us, "most": most}).scalars().all()
    if ids:
        conn.execute(delete(delivery).where(delivery.c.id.in_(ids)))
    return len(ids)
