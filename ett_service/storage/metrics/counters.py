"""The counters of ``/metrics`` and their samples, a row a job, written with its ledger.

No other job's writes touch that row; the publisher adds its difference to the counters, which never
fall.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Row, Select, Table, bindparam, case, select, tuple_, update

from ett_service.core.events import Exclusion
from ett_service.core.fleet.counters import (
    NO_STOPS,
    OF_A_CLUSTER,
    Seen,
    SettledStops,
    family_of,
    job_counters,
    open_work,
)
from ett_service.core.fleet.owned_time import Frame, last_at
from ett_service.core.fleet.totals import summed
from ett_service.core.intervals import LARGEST_STORED
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import _LONGEST, _UNPRINTABLE, OTHER, UNKNOWN
from ett_service.storage import schema
from ett_service.storage.engine.statements import insert_new, replace_rows
from ett_service.storage.metrics import labels as counter_labels
from ett_service.storage.metrics.labels import LabelLimits
from ett_service.storage.record.dirty_marks import JobBatch, JobKey, of_jobs
from ett_service.storage.schema import counted, counter, exemplar, job_history, published

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
    key: JobKey,
    ledger: JobLedger,
    exclusions: Sequence[Exclusion],
    stops: SettledStops = NO_STOPS,
) -> CounterSample:
    """Return the sample of a ledger, of which *stops* were counted before.

    A job that is excluded at its last instant is kept out: it moves no counter any more, and what
    it has moved before stays.
    """
    counters, work = job_counters(ledger, stops), open_work(ledger)
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


TURN = "turn"
"""The row that holds the revision; publishers take turns by locking it."""

GAUGES = "gauges"

AT_ONCE = 200
"""Jobs whose samples are counted in one transaction."""

Labels: TypeAlias = tuple[str, str]
"""Cluster and cohort; the cohort is empty for families without that label."""

HighWaterMarks: TypeAlias = Mapping[str, int]
"""Counters by key of ``core.fleet.counters``; those that were never above 0 may be absent."""

GaugeSamples: TypeAlias = Sequence[tuple[Sequence[str], float]]
"""The values of a gauge, each with the values of its labels."""


class Exemplar(NamedTuple):
    """The latest duration in a bucket, and its attempt."""

    at_us: int
    us: int
    attempt_id: str


@dataclass(frozen=True, slots=True)
class PublishedMetrics:
    """All that was published; the same on every replica for the same revision."""

    revision: int
    at_us: int  #: 0 before the first publication
    marks: Mapping[Labels, HighWaterMarks]
    exemplars: Mapping[Labels, Mapping[str, Exemplar]]
    gauges: Mapping[str, GaugeSamples]  #: by the name of the family
    excess_us: int  #: wall time by which the marks exceed the present sums


_REVISION = select(published.c.revision, published.c.at_us).where(published.c.name == TURN)
_BODY = select(published.c.body).where(published.c.name == bindparam("of_name"))
_MARKS = select(counter.c.cluster, counter.c.cohort, counter.c.marks, counter.c.excess_us).order_by(
    counter.c.cluster, counter.c.cohort
)
_EXEMPLARS = select(exemplar.c.cluster, exemplar.c.cohort, exemplar.c.body)
_LOCKED_TURN = (
    select(published.c.revision).where(published.c.name == TURN).with_for_update(skip_locked=True)
)
_PUBLISHED = (
    update(published)
    .where(published.c.name == TURN)
    .values(revision=published.c.revision + 1, at_us=bindparam("now_us"))
)
_FRESH = (
    select(
        counted.c.project_id,
        counted.c.job,
        counted.c.ident,
        counted.c.cluster,
        counted.c.cohort,
        counted.c.kept_out,
        counted.c.said,
        counted.c.seen,
        counted.c.counted,
        job_history.c.job.is_not(None).label("is_history"),
    )
    .outerjoin(
        job_history,
        (job_history.c.project_id == counted.c.project_id) & (job_history.c.job == counted.c.job),
    )
    .where(counted.c.fresh > 0)
    .order_by(counted.c.project_id, counted.c.job)
    .limit(bindparam("most"))
)
#: A fold is not kept waiting: what it says meanwhile stays fresh, and a deleted job is left alone.
_SETTLE = (
    update(counted)
    .where(
        counted.c.project_id == bindparam("of_project"),
        counted.c.job == bindparam("of_job"),
        counted.c.counted == bindparam("was_counted"),
    )
    .values(
        counted=bindparam("now_counted"),
        fresh=case((counted.c.said == bindparam("now_counted"), 0), else_=counted.c.fresh),
    )
)

_sums = msgspec.json.Decoder(dict[str, int]).decode
_seen = msgspec.json.Decoder(dict[str, Seen]).decode
_gauges = msgspec.json.Decoder(dict[str, list[tuple[tuple[str, ...], float]]]).decode
read_exemplars = msgspec.json.Decoder(dict[str, Exemplar]).decode


def revision(conn: Connection) -> int:
    """Return the revision alone; 0 before the first publication."""
    row = conn.execute(_REVISION).first()
    return 0 if row is None else int(row.revision)


def read(conn: Connection, *, with_exemplars: bool = True) -> PublishedMetrics:
    """Read all metrics, but for counters of labels that are no longer shown."""
    shown = counter_labels.read(conn)
    turn = conn.execute(_REVISION).first()
    body = conn.execute(_BODY, {"of_name": GAUGES}).scalar()
    marks: dict[Labels, HighWaterMarks] = {}
    excess_us = 0
    for cluster, cohort, sums, excess in conn.execute(_MARKS):
        excess_us += excess
        if shown.of(cluster, cohort or OTHER) == (cluster, cohort or OTHER):
            marks[cluster, cohort] = _sums(sums)
    exemplars = {
        (cluster, cohort): read_exemplars(exemplars)
        for cluster, cohort, exemplars in (conn.execute(_EXEMPLARS) if with_exemplars else ())
        if (cluster, cohort) in marks
    }
    return PublishedMetrics(
        revision=0 if turn is None else int(turn.revision),
        at_us=0 if turn is None else int(turn.at_us),
        marks=marks,
        exemplars=exemplars,
        gauges={} if body is None else _gauges(body),
        excess_us=excess_us,
    )


def begin(conn: Connection, now_us: int) -> None:
    """Insert the row with which publishers take turns."""
    insert_new(conn, published, [{"name": TURN, "revision": 0, "at_us": now_us, "body": NOTHING}])


def advance(conn: Connection, now_us: int, limits: LabelLimits) -> int | None:
    """Add the fresh samples of up to ``AT_ONCE`` jobs to the counters; return how many jobs.

    None while another publisher has its turn. *limits* bounds the labels.
    """
    if conn.scalar(_LOCKED_TURN) is None:
        return None
    fresh = conn.execute(_FRESH, {"most": AT_ONCE}).all()
    if not fresh:
        return 0
    clusters, cohorts = {row.cluster for row in fresh}, {row.cohort for row in fresh}
    shown = counter_labels.learn(conn, clusters, cohorts, limits)
    deltas = _CounterDeltas()
    for row in fresh:
        if not (row.is_history or row.kept_out):
            deltas.add(shown.of(row.cluster, row.cohort), row)
    _write_counters(conn, deltas.sums)
    _write_exemplars(conn, deltas.seen)
    conn.execute(
        _SETTLE,
        [
            {
                "of_project": row.project_id,
                "of_job": row.job,
                "was_counted": row.counted,
                "now_counted": row.said,
            }
            for row in fresh
        ],
    )
    conn.execute(_PUBLISHED, {"now_us": now_us})
    return len(fresh)


def put_gauges(conn: Connection, gauges: Mapping[str, GaugeSamples], now_us: int) -> bool:
    """Publish the gauges by family; False while another publisher has its turn.

    Values that are not finite are left out: JSON cannot hold them.
    """
    if conn.scalar(_LOCKED_TURN) is None:
        return False
    finite = {
        name: [sample for sample in samples if isfinite(sample[1])]
        for name, samples in gauges.items()
    }
    row = {"name": GAUGES, "revision": 0, "at_us": now_us, "body": _encode(finite).decode()}
    replace_rows(conn, published, [row])
    conn.execute(_PUBLISHED, {"now_us": now_us})
    return True


@dataclass(slots=True)
class _CounterDeltas:
    """What is to be added to the counters, by label."""

    sums: dict[Labels, dict[str, int]] = field(default_factory=dict)
    seen: defaultdict[Labels, dict[str, Exemplar]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def add(self, labels: Labels, row: Row[Any]) -> None:
        """Add the difference between a job's sample and what was counted of it before."""
        cluster, _ = labels
        of_cohort = self.sums.setdefault(labels, {})
        of_cluster = self.sums.setdefault((cluster, ""), {})
        rises = set()
        for key, amount in summed(_sums(row.said), _sums(row.counted), -1).items():
            sums = of_cluster if family_of(key) in OF_A_CLUSTER else of_cohort
            sums[key] = sums.get(key, 0) + amount
            if amount > 0:
                rises.add(key)
        for key, (at_us, us, number) in _seen(row.seen).items():
            if key in rises and family_of(key) not in OF_A_CLUSTER:
                latest = Exemplar(at_us, us, f"{row.ident}-{number}")
                self.seen[labels][key] = max(latest, self.seen[labels].get(key, latest))


def _stored(conn: Connection, table: Table, labels: Sequence[Labels]) -> dict[Labels, Row[Any]]:
    """Read the rows of these labels."""
    rows = conn.execute(select(table).where(tuple_(table.c.cluster, table.c.cohort).in_(labels)))
    return {(row.cluster, row.cohort): row for row in rows}


def _write_counters(conn: Connection, deltas: Mapping[Labels, Mapping[str, int]]) -> None:
    stored = _stored(conn, counter, list(deltas))
    rows = []
    for labels, added in sorted(deltas.items()):
        row = stored.get(labels)
        sums = summed({} if row is None else _sums(row.sums), added, 1)
        marks = {} if row is None else _sums(row.marks)
        marks |= {key: amount for key, amount in sums.items() if amount > marks.get(key, 0)}
        cluster, cohort = labels
        rows.append(
            {
                "cluster": cluster,
                "cohort": cohort,
                "sums": _encode(sums).decode(),
                "marks": _encode(marks).decode(),
                "excess_us": min(_wall_us(marks) - _wall_us(sums), LARGEST_STORED),
            }
        )
    replace_rows(conn, counter, rows)


def _write_exemplars(conn: Connection, seen: Mapping[Labels, Mapping[str, Exemplar]]) -> None:
    stored = _stored(conn, exemplar, list(seen))
    rows = []
    for labels, exemplars in sorted(seen.items()):
        row = stored.get(labels)
        before = {} if row is None else read_exemplars(row.body)
        latest = {key: max(new, before.get(key, new)) for key, new in exemplars.items()}
        cluster, cohort = labels
        body = _encode(before | latest).decode()
        rows.append({"cluster": cluster, "cohort": cohort, "body": body})
    replace_rows(conn, exemplar, rows)


def _wall_us(amounts: Mapping[str, int]) -> int:
    return sum(us for key, us in amounts.items() if key.startswith("phase_seconds:"))


def label(value: str | None) -> str:
    """Return *value* as a label that no parser trips over; ``unknown`` where there is none."""
    if not value:
        return UNKNOWN
    return _UNPRINTABLE.sub("\ufffd", value)[:_LONGEST]
