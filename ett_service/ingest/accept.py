"""Acceptance of a batch: its events, clock offsets, and a dirty mark on each job."""

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection

from ett_service.core.ledger.attempts.attempts import TOLERANCE_US
from ett_service.ingest.decode import Batch
from ett_service.ingest.members import CLUSTER_OF_LAUNCH, Arrival
from ett_service.ingest.refusals import Code, Refusal
from ett_service.storage.engine.statements import insert_new, insert_values, replace_rows
from ett_service.storage.record.dirty_marks import JobBatch
from ett_service.storage.record.events import (
    EventContent,
    stored_clusters,
    stored_contents,
    stored_offsets,
)
from ett_service.storage.record.pruned import pruned
from ett_service.storage.schema import dirty, event, job, job_history, launch_cluster, producer


def lower_offsets(conn: Connection, batch: Batch, project_id: int, now_us: int) -> set[str]:
    """Learn from when *batch* was sent, and return the jobs whose events this moves."""
    if batch.sent_at is None:
        return set()
    seen = {(each.job, each.producer) for each in batch.arrivals if each.producer is not None}
    offsets = stored_offsets(conn, project_id, seen)
    offset = now_us - batch.sent_at
    lowered = sorted(key for key in seen if _is_news(offset, offsets.get(key)))
    rows = [
        {"project_id": project_id, "job": job, "producer": name, "offset_us": offset}
        for job, name in lowered
    ]
    replace_rows(conn, producer, rows, where=_is_lower)
    return {key[0] for key in lowered if _matters(offset) or _matters(offsets.get(key, 0))}


def _is_news(offset: int, before: int | None) -> bool:
    return before is None or (offset < before and (_matters(offset) or _matters(before)))


def _matters(offset: int) -> bool:
    return abs(offset) > TOLERANCE_US


def _is_lower(new: Any) -> ColumnElement[bool]:
    """Keep the lesser offset, whoever of two writers comes first."""
    is_lower: ColumnElement[bool] = new.offset_us < producer.c.offset_us
    return is_lower


_BITS = 63

_COLUMNS = ("project_id", "job", "id", "type", "at_us", "received_us", "batch", "body")

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
    other content a conflict. A batch that brings nothing new writes nothing. Jobs whose record was
    pruned take none: they are locked against that until the transaction ends. A launch that an
    event says is of another cluster than is recorded is refused from there on in the batch.
    """
    number = secrets.randbits(_BITS)
    jobs = sorted({each.job for each in batch.arrivals})
    received = [{"project_id": project_id, "job": name, "received_us": now_us} for name in jobs]
    if insert_new(conn, job, received) < len(jobs):
        batch = _without(batch, pruned(conn, JobBatch(project_id, jobs)))
        jobs = sorted({each.job for each in batch.arrivals})
    batch = _of_one_cluster(conn, batch, project_id)
    firsts = _firsts(batch.arrivals)
    if batch.history:
        insert_new(conn, job_history, [{"project_id": project_id, "job": name} for name in jobs])
    before = _insert(conn, firsts, project_id, number, now_us)
    moved = lower_offsets(conn, batch, project_id, now_us)
    marked = sorted(moved | {name for name, _ in firsts.keys() - before.keys()})
    of_all = {"project_id": project_id, "batch": number, "marked_us": now_us}
    insert_new(conn, dirty, [{**of_all, "job": name} for name in marked])
    return _verdicts(batch, number, firsts, before, tuple(marked))


def _without(batch: Batch, pruned_jobs: Collection[str]) -> Batch:
    """Refuse the events of jobs whose record was pruned."""
    if not pruned_jobs:
        return batch
    refusals = tuple(
        Refusal(Code.TOO_OLD, f"/events/{each.index}/job", each.index, each.id)
        for each in batch.arrivals
        if each.job in pruned_jobs
    )
    arrivals = tuple(each for each in batch.arrivals if each.job not in pruned_jobs)
    return replace(batch, arrivals=arrivals, refusals=(*batch.refusals, *refusals))


def _of_one_cluster(conn: Connection, batch: Batch, project_id: int) -> Batch:
    """Refuse the events of launches that another cluster gave the same id."""
    clusters = {
        (each.job, each.launch): each.cluster for each in reversed(batch.arrivals) if each.cluster
    }
    if not clusters:
        return batch
    rows = [
        {"project_id": project_id, "job": job, "launch": launch, "cluster": clusters[job, launch]}
        for job, launch in sorted(clusters)
    ]
    if insert_new(conn, launch_cluster, rows) < len(rows):
        clusters = stored_clusters(conn, project_id, clusters.keys())
    others: set[tuple[str, str]] = set()
    arrivals, refusals = [], list(batch.refusals)
    for each in batch.arrivals:
        launch = (each.job, each.launch)
        if each.cluster:
            is_other = each.cluster != clusters[launch]
            (others.add if is_other else others.discard)(launch)
        if launch in others:
            member = f"attributes/{CLUSTER_OF_LAUNCH}" if each.cluster else "launch"
            pointer = f"/events/{each.index}/{member}"
            refusals.append(Refusal(Code.OTHER_CLUSTER, pointer, each.index, each.id))
        else:
            arrivals.append(each)
    return replace(batch, arrivals=tuple(arrivals), refusals=tuple(refusals))


def _firsts(arrivals: Sequence[Arrival]) -> dict[Key, Arrival]:
    """Return the first of each id, in the order of the keys."""
    firsts = {(each.job, each.id): each for each in reversed(arrivals)}
    return {key: firsts[key] for key in sorted(firsts)}


def _insert(
    conn: Connection, firsts: Mapping[Key, Arrival], project_id: int, number: int, now_us: int
) -> Mapping[Key, EventContent]:
    """Insert what is new, and return the content of the others as it was kept before."""
    rows = [
        (project_id, each.job, each.id, each.type, each.at, now_us, number, each.body)
        for each in firsts.values()
    ]
    if insert_values(conn, event, _COLUMNS, rows) == len(rows):
        return {}
    return stored_contents(conn, project_id, firsts.keys(), but_of_batch=number)


def _conflicts(
    arrivals: Iterable[Arrival], firsts: Mapping[Key, Arrival], before: Mapping[Key, EventContent]
) -> Iterator[Refusal]:
    for each in arrivals:
        key = (each.job, each.id)
        if each.content != before.get(key, firsts[key].content):
            yield Refusal(Code.CONFLICT, f"/events/{each.index}/id", each.index, each.id)


def _verdicts(
    batch: Batch,
    number: int,
    firsts: Mapping[Key, Arrival],
    before: Mapping[Key, EventContent],
    marked: tuple[str, ...],
) -> Verdicts:
    conflicts = []
    if before or len(firsts) < len(batch.arrivals):
        conflicts = list(_conflicts(batch.arrivals, firsts, before))
    accepted_at = tuple(each.at for key, each in firsts.items() if key not in before)
    errors = sorted((*batch.refusals, *conflicts), key=lambda error: error.index or 0)
    return Verdicts(
        batch_id=batch.batch_id or f"{number:016x}",
        accepted_at=accepted_at,
        duplicate=len(batch.arrivals) - len(accepted_at) - len(conflicts),
        errors=tuple(errors),
        marked=marked,
    )
