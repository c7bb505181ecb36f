"""The labels of counters: which clusters and cohorts are shown, and which are ``other``.

A new label is shown while there is room. Later the largest by GPU time are shown; one that takes
another's place begins at 0, or where it stood when it was last shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select, update

from ett_service.core.words import OTHER
from ett_service.storage.engine.statements import insert_new
from ett_service.storage.schema import label_value

CLUSTER = "cluster"
COHORT = "cohort"

_STAYS = 1.2
"""A shown label gives way to one of so many times its weight."""

_SHOWN = select(label_value.c.kind, label_value.c.value).where(
    label_value.c.kind.in_((CLUSTER, COHORT)), label_value.c.shown == 1
)
_FOLDED = (
    select(label_value.c.kind, func.count().label("labels"))
    .where(label_value.c.kind.in_((CLUSTER, COHORT)), label_value.c.shown == 0)
    .group_by(label_value.c.kind)
)
_ALL = select(label_value.c.value, label_value.c.shown).where(
    label_value.c.kind == bindparam("of_kind")
)
_SHOW = (
    update(label_value)
    .where(label_value.c.kind == bindparam("of_kind"), label_value.c.value == bindparam("of_value"))
    .values(shown=bindparam("now_shown"))
)


class LabelLimits(NamedTuple):
    """How many clusters and cohorts may be shown beside ``other``."""

    clusters: int = 20
    cohorts: int = 50

    def of(self, kind: str) -> int:
        """Return the limit of one kind."""
        return self.clusters if kind == CLUSTER else self.cohorts


@dataclass(frozen=True, slots=True)
class ShownLabels:
    """The labels that are shown."""

    clusters: frozenset[str]
    cohorts: frozenset[str]

    def of(self, cluster: str, cohort: str) -> tuple[str, str]:
        """Return the labels under which a cohort of a cluster is counted."""
        return (
            cluster if cluster in self.clusters else OTHER,
            cohort if cohort in self.cohorts else OTHER,
        )


def read(conn: Connection) -> ShownLabels:
    """Read the labels that are shown."""
    shown: dict[str, set[str]] = {CLUSTER: set(), COHORT: set()}
    for kind, value in conn.execute(_SHOWN):
        shown[kind].add(value)
    return ShownLabels(frozenset(shown[CLUSTER]), frozenset(shown[COHORT]))


def folded(conn: Connection) -> dict[str, int]:
    """Count the labels that are not shown, by kind."""
    counts = {row.kind: int(row.labels) for row in conn.execute(_FOLDED)}
    return {kind: counts.get(kind, 0) for kind in (CLUSTER, COHORT)}


def learn(
    conn: Connection, clusters: Iterable[str], cohorts: Iterable[str], limits: LabelLimits
) -> ShownLabels:
    """Store labels that may be new, show them while there is room, and return what is shown."""
    shown = read(conn)
    new = {
        CLUSTER: sorted(set(clusters) - shown.clusters),
        COHORT: sorted(set(cohorts) - shown.cohorts),
    }
    rows = [
        {"kind": kind, "value": value, "shown": 0}
        for kind, values in new.items()
        for value in values
    ]
    if not rows:
        return shown
    insert_new(conn, label_value, rows)
    room = {
        CLUSTER: limits.clusters - len(shown.clusters),
        COHORT: limits.cohorts - len(shown.cohorts),
    }
    for kind, values in new.items():
        _show(conn, kind, values[: max(0, room[kind])], now_shown=1)
    return read(conn)


def choose(conn: Connection, kind: str, weights: Mapping[str, float], most: int) -> None:
    """Show the *most* labels with the largest weights; equal ones by name."""
    were_shown = {value: bool(shown) for value, shown in conn.execute(_ALL, {"of_kind": kind})}
    if len(were_shown) <= most and all(were_shown.values()):
        return
    weighed = {
        value: weights.get(value, 0.0) * (_STAYS if shown else 1.0)
        for value, shown in were_shown.items()
    }
    ranked = sorted(were_shown, key=lambda value: (-weighed[value], not were_shown[value], value))
    hidden = [value for value in ranked[:most] if not were_shown[value]]
    _show(conn, kind, hidden, now_shown=1)
    _show(conn, kind, [value for value in ranked[most:] if were_shown[value]], now_shown=0)


def _show(conn: Connection, kind: str, values: Sequence[str], *, now_shown: int) -> None:
    if values:
        rows = [{"of_kind": kind, "of_value": value, "now_shown": now_shown} for value in values]
        conn.execute(_SHOW, rows)
