"""What jobs say of the counters of /metrics, written with their ledgers.

One row a job, which nobody else's writes touch; the publisher carries it on to the counters.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, Select, bindparam, select

from ett_service.core.fleet.cohort import Frame, last_at
from ett_service.core.fleet.counters import OpenWork, job_counters, open_work
from ett_service.core.ledger.results import Exclusion, JobLedger
from ett_service.core.words import label
from ett_service.storage import schema
from ett_service.storage.engine.statements import INSERTS, replacing
from ett_service.storage.jobs.batches import JobBatch, of_jobs
from ett_service.storage.record.dirty_marks import JobKey

NOTHING = "{}"

_encode = msgspec.json.Encoder(order="deterministic").encode


class CounterSample(NamedTuple):
    """The columns of ``counted`` that a ledger gives."""

    ident: str
    cluster: str
    cohort: str
    kept_out: bool
    said: str
    seen: str
    open_since: str
    heard: str
    heard_us: int | None
    running: int


def _upsert(dialect: str) -> Any:
    upsert = replacing(dialect, schema.counted, (*CounterSample._fields, "fresh"))
    values: dict[str, Any] = {
        name: bindparam(name) for name in (*JobKey._fields, *CounterSample._fields)
    }
    return upsert.values(values | {"counted": NOTHING, "fresh": 1})


_UPSERT = {dialect: _upsert(dialect) for dialect in INSERTS}
_STORED = select(
    schema.counted.c.job, *(schema.counted.c[name] for name in CounterSample._fields)
).where(*of_jobs(schema.counted))

_NAMED: Select[int, str, str] = (
    select(
        schema.counted.c.project_id, schema.project.c.name.label("project"), schema.counted.c.job
    )
    .join_from(schema.counted, schema.project, schema.counted.c.project_id == schema.project.c.id)
    .where(schema.counted.c.ident == bindparam("of_ident"))
    .order_by(schema.counted.c.project_id, schema.counted.c.job)
    .limit(1)
)


def counter_sample(
    key: JobKey, ledger: JobLedger, exclusions: Sequence[Exclusion]
) -> CounterSample:
    """Return what the ledger says of the counters.

    A job that is excluded at its last instant is kept out: it moves no counter, and what it has
    moved before stays.
    """
    told, work = job_counters(ledger), open_work(ledger)
    return CounterSample(
        ident=ident(key),
        cluster=label(ledger.facts.cluster),
        cohort=label(ledger.facts.model),
        kept_out=Frame(ledger, exclusions).excluded(last_at(ledger)),
        said=_text(told.sums),
        seen=_text(told.seen),
        open_since=_text(work.open_since),
        heard=_text(work.heard),
        heard_us=work.last_heard_at,
        running=_running(work),
    )


def put(conn: Connection, samples: Iterable[tuple[JobKey, CounterSample]]) -> None:
    """Write what jobs say, for the publisher to find."""
    rows = [key._asdict() | sample._asdict() for key, sample in samples]
    if rows:
        conn.execute(_UPSERT[conn.dialect.name], rows)


def stored(conn: Connection, batch: JobBatch) -> dict[str, CounterSample]:
    """Read what jobs of a project said, by job."""
    samples = {
        job: CounterSample(*columns) for job, *columns in conn.execute(_STORED, batch.parameters())
    }
    return {job: one._replace(kept_out=bool(one.kept_out)) for job, one in samples.items()}


def ident(key: JobKey) -> str:
    """Return what stands for the job where its name must not: 16 hexadecimal digits."""
    told = f"{key.project_id}/{key.job}".encode("utf-8", "surrogatepass")
    return blake2b(told, digest_size=8).hexdigest()


def job_of(conn: Connection, ident: str) -> Row[int, str, str] | None:
    """Return ``(project_id, project, job)`` of what an ident stands for; None for nothing."""
    return conn.execute(_NAMED, {"of_ident": ident}).first()


def _running(work: OpenWork) -> int:
    return len(work.heard)


def _text(told: object) -> str:
    return _encode(told).decode()
