"""The words that label counters: which clusters and cohorts are shown, and which are ``other``.

A word that comes in while there is room is shown from then on. Later the largest by GPU time are,
and one that takes another's place begins at 0, or where it stood when it was last shown.
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
"""A word that is shown gives way to one of so many times its weight."""

_SHOWN = select(label_value.c.kind, label_value.c.value).where(
    label_value.c.kind.in_((CLUSTER, COHORT)), label_value.c.shown == 1
)
_FOLDED = (
    select(label_value.c.kind, func.count().label("words"))
    .where(label_value.c.kind.in_((CLUSTER, COHORT)), label_value.c.shown == 0)
    .group_by(label_value.c.kind)
)
_ALL = select(label_value.c.value, label_value.c.shown).where(
    label_value.c.kind == bindparam("of_kind")
)
_SHOW = (
    update(label_value)
    .where(label_value.c.kind == bindparam("of_kind"), label_value.c.value == bindparam("word"))
    .values(shown=bindparam("now_shown"))
)


class LabelLimits(NamedTuple):
    """How many clusters and cohorts are shown beside ``other``."""

    clusters: int = 20
    cohorts: int = 50

    def of(self, kind: str) -> int:
        """Return how many of one kind."""
        return self.clusters if kind == CLUSTER else self.cohorts


@dataclass(frozen=True, slots=True)
class ShownLabels:
    """The words that are shown."""

    clusters: frozenset[str]
    cohorts: frozenset[str]

    def of(self, cluster: str, cohort: str) -> tuple[str, str]:
        """Return the labels under which a cluster's cohort counts; both are labels already."""
        return (
            cluster if cluster in self.clusters else OTHER,
            cohort if cohort in self.cohorts else OTHER,
        )


def read(conn: Connection) -> ShownLabels:
    """Read what is shown."""
    words: dict[str, set[str]] = {CLUSTER: set(), COHORT: set()}
    for kind, value in conn.execute(_SHOWN):
        words[kind].add(value)
    return ShownLabels(frozenset(words[CLUSTER]), frozenset(words[COHORT]))


def folded(conn: Connection) -> dict[str, int]:
    """Count the words by kind that are not shown."""
    counts = {row.kind: int(row.words) for row in conn.execute(_FOLDED)}
    return {kind: counts.get(kind, 0) for kind in (CLUSTER, COHORT)}


def learn(
    conn: Connection, clusters: Iterable[str], cohorts: Iterable[str], most: LabelLimits
) -> ShownLabels:
    """Take in words that may be new, show them while there is room, and return what is shown."""
    shown = read(conn)
    words = {CLUSTER: sorted(set(clusters) - shown.clusters),
             COHORT: sorted(set(cohorts) - shown.cohorts)}  # fmt: skip
    room = {CLUSTER: most.clusters - len(shown.clusters), COHORT: most.cohorts - len(shown.cohorts)}
    new = [{"kind": kind, "value": value, "shown": 0} for kind, of in words.items() for value in of]
    if not new:
        return shown
    insert_new(conn, label_value, new)
    for kind, of in words.items():
        _show(conn, kind, of[: max(0, room[kind])], now_shown=1)
    return read(conn)


def choose(conn: Connection, kind: str, weights: Mapping[str, float], most: int) -> None:
    """Show the *most* words that weigh most; of two as heavy the first by name."""
    known = {value: bool(shown) for value, shown in conn.execute(_ALL, {"of_kind": kind})}
    if len(known) <= most and all(known.values()):
        return
    weighed = {
        value: weights.get(value, 0.0) * (_STAYS if shown else 1.0)
        for value, shown in known.items()
    }
    ranked = sorted(known, key=lambda value: (-weighed[value], not known[value], value))
    shown = set(ranked[:most])
    _show(conn, kind, [word for word in ranked if word in shown and not known[word]], now_shown=1)
    _show(conn, kind, [word for word in ranked if word not in shown and known[word]], now_shown=0)


def _show(conn: Connection, kind: str, words: Sequence[str], *, now_shown: int) -> None:
    if words:
        rows = [{"of_kind": kind, "word": word, "now_shown": now_shown} for word in words]
        conn.execute(_SHOW, rows)
