"""Samples of the counters of /metrics, one row a job, written with its ledger.

No other job's writes touch the row; the publisher adds it to the counters.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, Row, Select, bindparam, select

from ett_service.core.fleet.cohort import Frame, last_at
from ett_service.core.fleet.counters import job_counters, open_work
from ett_service.core.ledger.results import Exclusion, JobLedger
from ett_service.core.words import label
from ett_service.storage import schema
from ett_service.storage.engine.statements import replace_rows
from ett_service.storage.jobs.batches import JobBatch, of_jobs
from ett_service.storage.record.dirty_marks import JobKey

NOTHING = "{}"

_encode = msgspec.json.Encoder(order="deterministic").encode


class CounterSample(NamedTuple):
    """The columns of ``counted`` that follow from a ledger."""

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
    """Return the sample of a ledger.

    A job that is excluded at its last instant is kept out: it moves no counter any more, and what
    it has moved before stays.
    """
    counters, work = job_counters(ledger), open_work(ledger)
    return CounterSample(
        ident=ident(key),
        cluster=label(ledger.facts.cluster),
        cohort=label(ledger.facts.model),
        kept_out=Frame(ledger, exclusions).excluded(last_at(ledger)),
        said=_text(counters.sums),
        seen=_text(counters.seen),
        open_since=_text(work.open_since),
        heard=_text(work.heard),
        heard_us=work.last_heard_at,
        running=len(work.heard),
    )


def put(conn: Connection, samples: Iterable[tuple[JobKey, CounterSample]]) -> None:
    """Write the samples of jobs, and mark them for the publisher."""
    new = {"counted": NOTHING, "fresh": 1}
    rows = [key._asdict() | sample._asdict() | new for key, sample in samples]
    replace_rows(conn, schema.counted, rows, (*CounterSample._fields, "fresh"))


def stored(conn: Connection, batch: JobBatch) -> dict[str, CounterSample]:
    """Read the samples of a project's jobs, by job."""
    samples = {
        job: CounterSample(*columns) for job, *columns in conn.execute(_STORED, batch.parameters())
    }
    return {job: sample._replace(kept_out=bool(sample.kept_out)) for job, sample in samples.items()}


def ident(key: JobKey) -> str:
    """Return the 16 hexadecimal digits that stand for the job where its name must not."""
    name = f"{key.project_id}/{key.job}".encode("utf-8", "surrogatepass")
    return blake2b(name, digest_size=8).hexdigest()


def job_of(conn: Connection, ident: str) -> Row[int, str, str] | None:
    """Return ``(project_id, project, job)`` of an ident; None if there is no such job."""
    return conn.execute(_NAMED, {"of_ident": ident}).first()


def _text(value: object) -> str:
    return _encode(value).decode()
