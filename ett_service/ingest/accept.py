"""Keeping a batch: its events, and a mark on each job whose ledger they outdate."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from ett_service.ingest.arrival import Arrival
from ett_service.ingest.decode import Batch
from ett_service.ingest.offsets import lower_offsets
from ett_service.ingest.refusal import Code, Refusal
from ett_service.storage.known import Content, known_contents
from ett_service.storage.tables import dirty, event, job, job_history
from ett_service.storage.writes import insert_new

_BITS = 63

Key = tuple[str, str]
"""What names an event in its project: job and id."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What became of each event of a batch; what is accepted or a duplicate stands."""

    batch_id: str  #: the sender's, else one of our own
    accepted_at: tuple[int, ...]  #: the instants of the events that are new
    duplicate: int
    errors: tuple[Refusal, ...]  #: one an event that was refused, in their order
    marked: tuple[str, ...]  #: the jobs whose ledgers this outdates

    @property
    def accepted(self) -> int:
        """How many events are new."""
        return len(self.accepted_at)

    @property
    def rejected(self) -> int:
        """How many events were refused."""
        return len(self.errors)


def accept(conn: Connection, batch: Batch, *, project_id: int, now_us: int) -> Verdicts:
    """Keep the events of *batch* that are new, in the caller's transaction.

    An event whose id is known is left as it is: with the same content it is a duplicate, with
    other content a conflict. A batch that brings nothing new writes nothing.
    """
    number = secrets.randbits(_BITS)
    firsts = _firsts(batch.arrivals)
    jobs = sorted({name for name, _ in firsts})
    received = [{"project_id": project_id, "job": name, "received_us": now_us} for name in jobs]
    insert_new(conn, job, received)
    if batch.history:
        insert_new(conn, job_history, [{"project_id": project_id, "job": name} for name in jobs])
    kept = _insert(conn, firsts, project_id, number, now_us)
    moved = lower_offsets(conn, batch, project_id, now_us)
    marked = sorted(moved | {name for name, _ in firsts.keys() - kept.keys()})
    of_all = {"project_id": project_id, "batch": number, "marked_us": now_us}
    insert_new(conn, dirty, [{**of_all, "job": name} for name in marked])
    return _verdicts(batch, number, firsts, kept, tuple(marked))


def _firsts(arrivals: Iterable[Arrival]) -> dict[Key, Arrival]:
    """Return the first of each id, in the order of the keys."""
    firsts: dict[Key, Arrival] = {}
    for each in arrivals:
        firsts.setdefault((each.job, each.event.id), each)
    return dict(sorted(firsts.items()))


def _insert(
    conn: Connection, firsts: Mapping[Key, Arrival], project_id: int, number: int, now_us: int
) -> Mapping[Key, Content]:
    """Insert what is new, and return the content of the others as it was kept before."""
    rows = [
        {
            "project_id": project_id,
            "job": each.job,
            "id": each.event.id,
            "type": each.event.type,
            "at_us": each.event.at,
            "received_us": now_us,
            "batch": number,
            "body": each.body,
        }
        for each in firsts.values()
    ]
    if insert_new(conn, event, rows) == len(rows):
        return {}
    return known_contents(conn, project_id, firsts.keys(), but_of_batch=number)


def _verdicts(
    batch: Batch,
    number: int,
    firsts: Mapping[Key, Arrival],
    kept: Mapping[Key, Content],
    marked: tuple[str, ...],
) -> Verdicts:
    conflicts = []
    for each in batch.arrivals:
        key = (each.job, each.event.id)
        if each.content != kept.get(key, firsts[key].content):
            pointer = f"/events/{each.index}/id"
            conflicts.append(Refusal(Code.CONFLICT, pointer, each.index, each.event.id))
    accepted_at = tuple(each.event.at for key, each in firsts.items() if key not in kept)
    errors = sorted((*batch.refusals, *conflicts), key=lambda error: error.index or 0)
    return Verdicts(
        batch_id=batch.batch_id or f"{number:016x}",
        accepted_at=accepted_at,
        duplicate=len(batch.arrivals) - len(accepted_at) - len(conflicts),
        errors=tuple(errors),
        marked=marked,
    )
