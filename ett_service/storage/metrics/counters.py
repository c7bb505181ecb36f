"""Counters of /metrics with their high-water marks, exemplars and gauges, as last published."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Row, bindparam, select, tuple_, update

from ett_service.core.fleet.counters import OF_A_CLUSTER, Seen, family_of
from ett_service.core.fleet.distribution import summed
from ett_service.core.ledger.job_results import MOST
from ett_service.core.words import OTHER
from ett_service.storage.engine.statements import insert_new, replacing
from ett_service.storage.metrics import labels as counter_labels
from ett_service.storage.metrics.counter_samples import NOTHING
from ett_service.storage.metrics.labels import LabelLimits
from ett_service.storage.schema import counted, counter, exemplar, job_history, published

TURN = "turn"
"""The row that tells how often anything was published; its writers wait for it."""

GAUGES = "gauges"

Labels: TypeAlias = tuple[str, str]
"""Cluster and cohort; the cohort is empty where a family does not tell cohorts apart."""

Marks: TypeAlias = Mapping[str, int]
"""Counters by key of ``core.counters``; those that were never above 0 may be absent."""

GaugeSamples: TypeAlias = Sequence[tuple[Sequence[str], float]]
"""The values of a gauge, each with the values of its labels."""


class Exemplar(NamedTuple):
    """The latest duration in a bucket, and the attempt that spent it."""

    at_us: int
    us: int
    attempt_id: str


@dataclass(frozen=True, slots=True)
class PublishedMetrics:
    """Everything that was published; of one revision it is the same everywhere."""

    revision: int
    at_us: int  #: 0 where nothing ever was
    marks: Mapping[Labels, Marks]
    exemplars: Mapping[Labels, Mapping[str, Exemplar]]
    gauges: Mapping[str, GaugeSamples]  #: by the name of the family
    excess_us: int


_REVISION = select(published.c.revision, published.c.at_us).where(published.c.name == TURN)
_BODY = select(published.c.body).where(published.c.name == bindparam("of_name"))
_MARKS = select(counter.c.cluster, counter.c.cohort, counter.c.marks, counter.c.excess_us).order_by(
    counter.c.cluster, counter.c.cohort
)
_EXEMPLARS = select(exemplar.c.cluster, exemplar.c.cohort, exemplar.c.body)

_marks = msgspec.json.Decoder(dict[str, int]).decode
read_exemplars = msgspec.json.Decoder(dict[str, Exemplar]).decode
_gauges = msgspec.json.Decoder(dict[str, list[tuple[tuple[str, ...], float]]]).decode


def revision(conn: Connection) -> int:
    """Return the revision alone; 0 where nothing was published yet."""
    row = conn.execute(_REVISION).first()
    return 0 if row is None else int(row.revision)


def read(conn: Connection, *, with_exemplars: bool = True) -> PublishedMetrics:
    """Read it all, but for counters of words that are not shown any more."""
    shown = counter_labels.read(conn)
    turn = conn.execute(_REVISION).first()
    body = conn.execute(_BODY, {"of_name": GAUGES}).scalar()
    marks: dict[Labels, Marks] = {}
    excess_us = 0
    for cluster, cohort, told, excess in conn.execute(_MARKS):
        excess_us += excess
        if shown.of(cluster, cohort or OTHER) == (cluster, cohort or OTHER):
            marks[cluster, cohort] = _marks(told)
    exemplars = {
        (cluster, cohort): read_exemplars(told)
        for cluster, cohort, told in (conn.execute(_EXEMPLARS) if with_exemplars else ())
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


AT_ONCE = 200
"""Jobs that are carried on in one transaction, which keeps their folds waiting."""

_WALL = "phase_seconds:"
_OF_JOB = (counted.c.project_id == bindparam("of_project"), counted.c.job == bindparam("of_job"))

_TURN = (
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
    .with_for_update(of=counted, skip_locked=True)
)
_SETTLE = update(counted).where(*_OF_JOB).values(counted=bindparam("now_counted"), fresh=0)
_COUNTERS = select(counter).where(
    tuple_(counter.c.cluster, counter.c.cohort).in_(bindparam("labels", expanding=True))
)
_KNOWN_EXEMPLARS = select(exemplar).where(
    tuple_(exemplar.c.cluster, exemplar.c.cohort).in_(bindparam("labels", expanding=True))
)

_sums = msgspec.json.Decoder(dict[str, int]).decode
_seen = msgspec.json.Decoder(dict[str, Seen]).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(slots=True)
class _Additions:
    """What is to be added, by label."""

    sums: dict[Labels, dict[str, int]] = field(default_factory=dict)
    seen: defaultdict[Labels, dict[str, Exemplar]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def add(self, labels: Labels, row: Row[Any]) -> None:
        """Add what a job says beyond what was counted of it."""
        cluster, cohort = labels
        own = self.sums.setdefault((cluster, cohort), {})
        clusters = self.sums.setdefault((cluster, ""), {})
        rises = set()
        for key, amount in summed(_sums(row.said), _sums(row.counted), -1).items():
            into = clusters if family_of(key) in OF_A_CLUSTER else own
            into[key] = into.get(key, 0) + amount
            if amount > 0:
                rises.add(key)
        for key, (at_us, us, number) in _seen(row.seen).items():
            if key in rises and family_of(key) not in OF_A_CLUSTER:
                latest = Exemplar(at_us, us, f"{row.ident}-{number}")
                self.seen[labels][key] = max(latest, self.seen[labels].get(key, latest))


def begin(conn: Connection, now_us: int) -> None:
    """Make the row that publishers take turns with."""
    insert_new(conn, published, [{"name": TURN, "revision": 0, "at_us": now_us, "body": NOTHING}])


def advance(conn: Connection, now_us: int, most: LabelLimits) -> int | None:
    """Carry up to ``AT_ONCE`` jobs on to the counters, and return how many.

    None where another publisher is at it. *most* bounds the labels.
    """
    if conn.scalar(_TURN) is None:
        return None
    fresh = conn.execute(_FRESH, {"most": AT_ONCE}).all()
    if not fresh:
        return 0
    shown = counter_labels.learn(
        conn, (row.cluster for row in fresh), (row.cohort for row in fresh), most
    )
    additions = _Additions()
    for row in fresh:
        if not (row.is_history or row.kept_out):
            additions.add(shown.of(row.cluster, row.cohort), row)
    _write_counters(conn, additions.sums)
    _write_exemplars(conn, additions.seen)
    conn.execute(
        _SETTLE,
        [
            {"of_project": row.project_id, "of_job": row.job, "now_counted": row.said}
            for row in fresh
        ],
    )
    conn.execute(_PUBLISHED, {"now_us": now_us})
    return len(fresh)


def put_gauges(conn: Connection, gauges: Mapping[str, GaugeSamples], now_us: int) -> bool:
    """Publish the gauges of the fleet, by family; False where another publisher is at it.

    What is no finite number is left out: JSON has no way to write it.
    """
    if conn.scalar(_TURN) is None:
        return False
    finite = {
        name: [sample for sample in samples if isfinite(sample[1])]
        for name, samples in gauges.items()
    }
    body = _encode(finite).decode()
    row = {"name": GAUGES, "revision": 0, "at_us": now_us, "body": body}
    conn.execute(replacing(conn.dialect.name, published), row)
    conn.execute(_PUBLISHED, {"now_us": now_us})
    return True


def _write_counters(conn: Connection, additions: Mapping[Labels, Mapping[str, int]]) -> None:
    if not additions:
        return
    known = {
        (row.cluster, row.cohort): (_sums(row.sums), _sums(row.marks))
        for row in conn.execute(_COUNTERS, {"labels": list(additions)})
    }
    rows = []
    for labels, added in sorted(additions.items()):
        sums, marks = known.get(labels, ({}, {}))
        sums = summed(sums, added, 1)
        marks = marks | {key: amount for key, amount in sums.items() if amount > marks.get(key, 0)}
        rows.append(_counter(labels, sums, marks))
    conn.execute(replacing(conn.dialect.name, counter), rows)


def _counter(labels: Labels, sums: Mapping[str, int], marks: Mapping[str, int]) -> dict[str, Any]:
    excess_us = _wall_us(marks) - _wall_us(sums)
    cluster, cohort = labels
    return {
        "cluster": cluster,
        "cohort": cohort,
        "sums": _encode(sums).decode(),
        "marks": _encode(marks).decode(),
        "excess_us": min(excess_us, MOST),
    }


def _wall_us(amounts: Mapping[str, int]) -> int:
    return sum(us for key, us in amounts.items() if key.startswith(_WALL))


def _write_exemplars(conn: Connection, seen: Mapping[Labels, Mapping[str, Exemplar]]) -> None:
    if not seen:
        return
    known = {
        (row.cluster, row.cohort): read_exemplars(row.body)
        for row in conn.execute(_KNOWN_EXEMPLARS, {"labels": list(seen)})
    }
    rows = []
    for (cluster, cohort), of_labels in sorted(seen.items()):
        kept = known.get((cluster, cohort), {})
        latest = {key: max(one, kept.get(key, one)) for key, one in of_labels.items()}
        body = _encode(kept | latest).decode()
        rows.append({"cluster": cluster, "cohort": cohort, "body": body})
    conn.execute(replacing(conn.dialect.name, exemplar), rows)
