"""Whether what is stored of each job is what its events say."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
from sqlalchemy import Connection, Table

from ett_service.core.answer import DEFAULT_LIMITS, FORMULA_VERSION, Limits
from ett_service.core.fold import JobFold
from ett_service.storage import ledgers, marks, reads
from ett_service.storage.engine import Readable
from ett_service.storage.ledger_rows import Columns, Head, rows
from ett_service.storage.marks import JobKey

_ABSENT = "nothing"


@dataclass(frozen=True, slots=True)
class Difference:
    """One value of a job that is not what its events say."""

    key: JobKey
    what: str  #: table, key within the job and column, as in ``segment 1740816000000000 category``
    stored: object
    recomputed: object


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the recomputation of one job found."""

    key: JobKey
    pending: bool  #: the worker has yet to fold what came in; there is nothing to compare
    differences: tuple[Difference, ...] = ()


def verify(store: Readable, limits: Limits = DEFAULT_LIMITS) -> Iterator[Verdict]:
    """Recompute every job from its events, as of when it was folded, and compare."""
    with store.reading() as conn:
        keys = marks.jobs(conn)
    for key in keys:
        with store.reading() as conn:
            yield check(conn, key, limits)


def check(conn: Connection, key: JobKey, limits: Limits = DEFAULT_LIMITS) -> Verdict:
    """Recompute one job on a connection that sees one state throughout."""
    head = ledgers.head(conn, key)
    if marks.batches(conn, key) or (head and head.formula_version != FORMULA_VERSION):
        return Verdict(key, pending=True)
    if head is None:
        return Verdict(key, False, (Difference(key, "job_ledger", _ABSENT, "a ledger"),))
    stored, recomputed = ledgers.stored_rows(conn, key), _recomputed(conn, key, head, limits)
    found = [
        Difference(key, what, *values)
        for table, columns in recomputed.items()
        for what, *values in _differences(_values(table, stored[table]), _values(table, columns))
    ]
    return Verdict(key, False, tuple(found))


def _recomputed(
    conn: Connection, key: JobKey, head: Head, limits: Limits
) -> dict[Table, list[Columns]]:
    fold = JobFold(limits)
    fold.add(reads.events(conn, *key), reads.offsets(conn, *key))
    ledger = fold.ledger(head.folded_us)
    return rows(ledger, replace(head, event_count=fold.event_count))


def _values(table: Table, stored: Iterable[Columns]) -> dict[str, object]:
    """Name every value of the rows by its table, the row's key within the job and its column."""
    keys = [column.name for column in table.primary_key][2:]
    found: dict[str, object] = {}
    for row in stored:
        place = " ".join([table.name, *(str(row[name]) for name in keys)])
        members = dict(row)
        # Compared by member: in which order an object names them says nothing.
        answer = msgspec.json.decode(members.pop("answer", "{}"))
        members |= {f"answer.{name}": value for name, value in answer.items()}
        found |= {f"{place} {name}": value for name, value in members.items()}
    return found


def _differences(
    stored: Mapping[str, object], recomputed: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    for what in sorted(stored.keys() | recomputed.keys()):
        one, other = stored.get(what, _ABSENT), recomputed.get(what, _ABSENT)
        if one != other:
            yield what, one, other
