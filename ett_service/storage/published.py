"""What /metrics shows of the fleet: marks, exemplars and gauges as they were last published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, bindparam, select

from ett_service.core.label import OTHER
from ett_service.storage import label_values
from ett_service.storage.tables import counter, exemplar, published

TURN = "turn"
"""The row that tells how often anything was published; its writers wait for it."""

GAUGES = "gauges"

Labels: TypeAlias = tuple[str, str]
"""Cluster and cohort; the cohort is empty where a family does not tell cohorts apart."""

Marks: TypeAlias = Mapping[str, int]
"""Counters by key of ``core.counters``; those that were never above 0 may be absent."""

Samples: TypeAlias = Sequence[tuple[Sequence[str], float]]
"""The values of a gauge, each with the values of its labels."""


class Exemplar(NamedTuple):
    """The latest duration in a bucket, and the attempt that spent it."""

    at_us: int
    us: int
    attempt_id: str


@dataclass(frozen=True, slots=True)
class Published:
    """Everything that was published; of one revision it is the same everywhere."""

    revision: int
    at_us: int  #: 0 where nothing ever was
    marks: Mapping[Labels, Marks]
    exemplars: Mapping[Labels, Mapping[str, Exemplar]]
    gauges: Mapping[str, Samples]  #: by the name of the family
    excess_us: int


_REVISION = select(published.c.revision, published.c.at_us).where(published.c.name == TURN)
_BODY = select(published.c.body).where(published.c.name == bindparam("of_name"))
_MARKS = select(counter.c.cluster, counter.c.cohort, counter.c.marks, counter.c.excess_us).order_by(
    counter.c.cluster, counter.c.cohort
)
_EXEMPLARS = select(exemplar.c.cluster, exemplar.c.cohort, exemplar.c.body)

_marks = msgspec.json.Decoder(dict[str, int]).decode
decode_exemplars = msgspec.json.Decoder(dict[str, Exemplar]).decode
_gauges = msgspec.json.Decoder(dict[str, list[tuple[tuple[str, ...], float]]]).decode


def revision(conn: Connection) -> int:
    """Return the revision alone; 0 where nothing was published yet."""
    row = conn.execute(_REVISION).first()
    return 0 if row is None else int(row.revision)


def read(conn: Connection, *, with_exemplars: bool = True) -> Published:
    """Read it all, but for counters of words that are not shown any more."""
    shown = label_values.read(conn)
    turn = conn.execute(_REVISION).first()
    body = conn.execute(_BODY, {"of_name": GAUGES}).scalar()
    marks: dict[Labels, Marks] = {}
    excess_us = 0
    for cluster, cohort, told, excess in conn.execute(_MARKS):
        excess_us += excess
        if shown.of(cluster, cohort or OTHER) == (cluster, cohort or OTHER):
            marks[cluster, cohort] = _marks(told)
    exemplars = {
        (cluster, cohort): decode_exemplars(told)
        for cluster, cohort, told in (conn.execute(_EXEMPLARS) if with_exemplars else ())
        if (cluster, cohort) in marks
    }
    return Published(
        revision=0 if turn is None else int(turn.revision),
        at_us=0 if turn is None else int(turn.at_us),
        marks=marks,
        exemplars=exemplars,
        gauges={} if body is None else _gauges(body),
        excess_us=excess_us,
    )
