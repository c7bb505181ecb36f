"""Corrections that people made to a job: verdicts on failures, and time out of the fleet's sums.

Rows are only added: one that is taken back or replaced says by whom and when. Every change
marks the job, so that the worker folds it again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from ett_service.core.errors import EttError
from ett_service.core.events import Exclusion
from ett_service.core.ledger.attempt_results import AttemptKey, FailureVerdict
from ett_service.core.words import FAILURES, Cause, Origin, Outcome
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.events import (
    OF_JOB,
    STANDING,
    attempt_key_of,
    in_time,
    job_parameters,
)
from ett_service.storage.record.pruned import require_record
from ett_service.storage.schema import api_key, attempt_ledger, correction
from ett_service.storage.schema.record import EXCLUSION, VERDICT


class NothingThere(EttError):
    """There is no such job, or it has no such attempt."""


class NoFailure(EttError):
    """The attempt did not fail, so there is nothing to have a cause."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Who wrote something: the key, by its prefix and by its name."""

    key: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Correction:
    """One row of the history; of a verdict *window* is None, of an exclusion the rest."""

    id: int  #: counts the job's corrections from 1
    attempt: AttemptKey | None
    origin: Origin | None
    cause: Cause | None
    window: Exclusion | None
    why: str
    made_by: Maker
    made_at: int
    taken_back_by: Maker | None = None
    taken_back_at: int | None = None


_maker, _taker = api_key.alias("maker"), api_key.alias("taker")
_HISTORY = (
    select(correction, _maker.c.name.label("maker"), _taker.c.name.label("taker"))
    .outerjoin(_maker, _maker.c.prefix == correction.c.made_by)
    .outerjoin(_taker, _taker.c.prefix == correction.c.taken_back_by)
    .order_by(correction.c.id)
)
_ATTEMPT = select(
    attempt_ledger.c.launch,
    attempt_ledger.c.attempt,
    attempt_ledger.c.cycle,
    attempt_ledger.c.outcome,
).where(
    attempt_ledger.c.project_id == bindparam("of_project"),
    attempt_ledger.c.job == bindparam("of_job"),
    attempt_ledger.c.number == bindparam("of_number"),
)
_LAST_ID = select(func.coalesce(func.max(correction.c.id), 0)).where(*OF_JOB)


def history(conn: Connection, key: JobKey, *, limit: int, after: int = 0) -> list[Correction]:
    """Read up to *limit* corrections, the earliest first, those with an id over *after*."""
    statement = _HISTORY.where(*OF_JOB, correction.c.id > after).limit(limit)
    return [_correction(row) for row in conn.execute(statement, job_parameters(key))]


def standing(conn: Connection, key: JobKey, kind: str) -> list[Correction]:
    """Read what stands of one *kind*."""
    statement = _HISTORY.where(*STANDING, correction.c.kind == kind)
    return [_correction(row) for row in conn.execute(statement, job_parameters(key))]


def attempt_key(conn: Connection, key: JobKey, number: int) -> tuple[AttemptKey, Outcome]:
    """Return what names the attempt *number* for good, and how it ended.

    Raises ``NothingThere``.
    """
    row = conn.execute(_ATTEMPT, {**job_parameters(key), "of_number": number}).first()
    if row is None:
        raise NothingThere("No such attempt.", "`ett job` lists them.")
    return attempt_key_of(row), Outcome(row.outcome)


def put_verdict(conn: Connection, key: JobKey, number: int, verdict: FailureVerdict) -> Correction:
    """Let *verdict* stand for the attempt *number*, in place of one that stands.

    The same again changes nothing. Raises ``NothingThere`` and ``NoFailure``.
    """
    _lock(conn, key)
    attempt, outcome = attempt_key(conn, key, number)
    if outcome not in FAILURES:
        raise NoFailure(f"Attempt {number} did not fail: its outcome is {outcome}.")
    row = {
        "kind": VERDICT,
        **attempt._asdict(),
        "origin": verdict.origin.value,
        "cause": verdict.cause.value,
        "why": verdict.why,
    }
    _put(conn, key, [row], verdict.made_by, verdict.made_at, attempt)
    return next(
        standing_verdict
        for standing_verdict in standing(conn, key, VERDICT)
        if standing_verdict.attempt == attempt
    )


def put_exclusion(
    conn: Connection,
    key: JobKey,
    windows: Sequence[Exclusion],
    *,
    why: str,
    made_by: str,
    now_us: int,
) -> list[Correction]:
    """Take the *windows* out of the fleet's numbers, in place of those that stand.

    The same again changes nothing. Raises ``NothingThere``.
    """
    _lock(conn, key)
    rows = [
        {"kind": EXCLUSION, "from_us": window.from_at, "to_us": window.to_at, "why": why}
        for window in sorted(set(windows), key=in_time)
    ]
    _put(conn, key, rows, made_by, now_us)
    return standing(conn, key, EXCLUSION)


def take_back_verdict(
    conn: Connection, key: JobKey, number: int, *, made_by: str, now_us: int
) -> bool:
    """Let the rules judge the attempt again; False where no verdict stands.

    Raises ``NothingThere``.
    """
    _lock(conn, key)
    attempt, _ = attempt_key(conn, key, number)
    return _taken_back(conn, key, VERDICT, made_by, now_us, attempt)


def take_back_exclusion(conn: Connection, key: JobKey, *, made_by: str, now_us: int) -> bool:
    """Let the job count again; False where no exclusion stands. Raises ``NothingThere``."""
    _lock(conn, key)
    return _taken_back(conn, key, EXCLUSION, made_by, now_us)


def _lock(conn: Connection, key: JobKey) -> None:
    """Let no other writer at the job's corrections, nor the worker at its numbers.

    Raises ``RecordPruned`` where its numbers cannot follow a correction any more.
    """
    if not dirty_marks.wait_for(conn, key):
        raise NothingThere("No such job.", "`ett jobs` lists them.")
    require_record(conn, key)


def _put(
    conn: Connection,
    key: JobKey,
    rows: Sequence[Mapping[str, Any]],
    made_by: str,
    now_us: int,
    attempt: AttemptKey | None = None,
) -> None:
    kind = rows[0]["kind"]
    standing = select(correction).where(*STANDING, *_is(kind, attempt)).order_by(correction.c.id)
    stands = conn.execute(standing, job_parameters(key)).mappings().all()
    if [{name: row[name] for name in rows[0]} for row in stands] == list(rows):
        return
    _taken_back(conn, key, kind, made_by, now_us, attempt)
    first = conn.execute(_LAST_ID, job_parameters(key)).scalar_one() + 1
    made = {**key._asdict(), "made_by": made_by, "made_us": now_us}
    conn.execute(
        insert(correction), [{**made, "id": first + place, **row} for place, row in enumerate(rows)]
    )
    dirty_marks.mark(conn, key, now_us)


def _taken_back(
    conn: Connection,
    key: JobKey,
    kind: str,
    made_by: str,
    now_us: int,
    attempt: AttemptKey | None = None,
) -> bool:
    statement = update(correction).where(*STANDING, *_is(kind, attempt))
    count = conn.execute(
        statement.values(taken_back_by=made_by, taken_back_us=now_us), job_parameters(key)
    ).rowcount
    if count:
        dirty_marks.mark(conn, key, now_us)
    return count > 0


def _is(kind: str, attempt: AttemptKey | None) -> Iterable[Any]:
    yield correction.c.kind == kind
    for name, value in attempt._asdict().items() if attempt else ():
        yield correction.c[name] == value


def _correction(row: Row[*tuple[Any, ...]]) -> Correction:
    is_verdict = row.kind == VERDICT
    return Correction(
        id=row.id,
        attempt=attempt_key_of(row) if is_verdict else None,
        origin=Origin(row.origin) if is_verdict else None,
        cause=Cause(row.cause) if is_verdict else None,
        window=None if is_verdict else Exclusion(row.from_us, row.to_us),
        why=row.why,
        made_by=Maker(row.made_by, row.maker),
        made_at=row.made_us,
        taken_back_by=row.taken_back_by and Maker(row.taken_back_by, row.taker),
        taken_back_at=row.taken_back_us,
    )
