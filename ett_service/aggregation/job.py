"""From a job's events to its stored ledger."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from ett_service.core.fleet.contribution import contribution, first_difference
from ett_service.core.ledger.failures import corrected
from ett_service.core.ledger.fold import JobFold
from ett_service.core.ledger.results import (
    DEFAULT_LIMITS,
    FORMULA_VERSION,
    Exclusion,
    JobLedger,
    Limits,
)
from ett_service.core.words import JobState
from ett_service.storage.fleet import contributions
from ett_service.storage.jobs import ledgers
from ett_service.storage.jobs.ledger_rows import Head
from ett_service.storage.metrics import counter_samples
from ett_service.storage.record import corrections, dirty_marks, events
from ett_service.storage.record.dirty_marks import JobKey

OPEN_EVERY_US = 30_000_000
"""How often the numbers of a running or queued job are run on, in microseconds."""

_LONG = 2_000  #: events; to fold more than these takes longer than others should wait for a lock
_OPEN = frozenset({JobState.RUNNING, JobState.QUEUED})


class NotForward(Exception):
    """A long job's fold cannot go on; :func:`warm` makes another outside of a transaction."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A fold that can go on while the stored revision is still this one.

    :func:`refresh` uses it up, and what it returns counts once its transaction is committed.
    """

    key: JobKey
    fold: JobFold
    born_us: int | None  #: tells the job from a deleted one of its name
    revision: int  #: 0 where nothing is stored
    ledger: JobLedger | None = None  #: what is stored; None where that was not read
    exclusions: tuple[Exclusion, ...] = ()  #: with which that was given to the rollups
    batches: frozenset[int] = field(default_factory=frozenset)  #: marked, and already folded


def warm(conn: Connection, key: JobKey, limits: Limits = DEFAULT_LIMITS) -> Folded:
    """Fold all events that the job has, outside of the transaction that will store them.

    What is read first may be overtaken by what is read later, never the other way round: a
    revision that still stands vouches for every batch whose mark was gone before it.
    """
    born_us, head = dirty_marks.born_us(conn, key), ledgers.head(conn, key)
    batches = frozenset(dirty_marks.batches(conn, key))
    return Folded(key, _fold_all(conn, key, limits), born_us, _revision(head), batches=batches)


def refresh(
    conn: Connection,
    key: JobKey,
    now_us: int,
    known: Folded | None = None,
    limits: Limits = DEFAULT_LIMITS,
    open_every_us: int = OPEN_EVERY_US,
) -> Folded | None:
    """Fold what came into the job and store its ledger as of *now_us*, in microseconds.

    The order makes racing writers and a crash harmless: lock the job, delete its marks, read.
    So a mark is only gone once what it stands for was there to be read. Returns None, and has
    changed nothing, if another worker holds the job or has just done the same, or if it is gone.

    What the fold *known* cannot take in is folded with all events of the job, inside the
    transaction; for a long job ``NotForward`` is raised instead.
    """
    born_us = dirty_marks.lock(conn, key)
    if born_us is None:
        return None
    batches = dirty_marks.take(conn, key)
    head = ledgers.head(conn, key)
    if not (batches or is_outdated(head, now_us)):
        return None
    previous: Folded | None = None
    if known and known.born_us == born_us and _goes_on(conn, known, head, batches):
        fold, previous = known.fold, known
    elif known is not None and known.fold.event_count > _LONG:
        raise NotForward
    else:
        fold = _fold_all(conn, key, limits)
    stands = corrections.of_job(conn, key)
    ledger = corrected(fold.ledger(now_us), stands.verdicts)
    written = Head(
        revision=_revision(head) + 1,
        formula_version=FORMULA_VERSION,
        event_count=fold.event_count,
        folded_us=now_us,
        due_us=due_us(ledger, open_every_us),
    )
    folded = Folded(key, fold, born_us, written.revision, ledger, stands.exclusions)
    before = previous.ledger if previous else None
    changed_from = fold.changed_from if before else None
    ledgers.replace(conn, key, ledger, written, previous=before, changed_from=changed_from)
    roll_up(conn, folded, ledger, previous)
    return folded


def roll_up(
    conn: Connection, folded: Folded, ledger: JobLedger, previous: Folded | None = None
) -> None:
    """Carry what the job adds to the fleet into the rollups, and tell what it counts.

    Where *previous* is what was stored before, only from the first hour on that differs.
    """
    since = None
    if previous and previous.ledger and previous.exclusions == folded.exclusions:
        since = first_difference(previous.ledger, ledger, folded.fold.changed_from)
    cells = contribution(ledger, folded.exclusions, since)
    contributions.replace(conn, folded.key, cells, since)
    counter_samples.put(
        conn, [(folded.key, counter_samples.counter_sample(folded.key, ledger, folded.exclusions))]
    )


def is_outdated(head: Head | None, now_us: int) -> bool:
    """Return whether the ledger has to be folded although no fact came in."""
    if head is None or head.formula_version != FORMULA_VERSION:
        return True
    return head.due_us is not None and head.due_us <= now_us


def _revision(head: Head | None) -> int:
    return head.revision if head else 0


def _goes_on(conn: Connection, known: Folded, head: Head | None, batches: Sequence[int]) -> bool:
    """Add what the marks stand for to the known fold; False if it has to be begun anew."""
    if known.revision != _revision(head):
        return False
    unread = [batch for batch in batches if batch not in known.batches]
    fresh = events.events(conn, *known.key, unread) if unread else []
    return known.fold.add(fresh, events.corrections(conn, known.key))


def _fold_all(conn: Connection, key: JobKey, limits: Limits) -> JobFold:
    fold = JobFold(limits)
    fold.add(events.events(conn, *key), events.corrections(conn, key))
    return fold


def due_us(ledger: JobLedger, open_every_us: int) -> int | None:
    """Return when time alone will have outdated the ledger; None if it never will."""
    looks = [] if ledger.due_at is None else [ledger.due_at]
    if ledger.state in _OPEN:
        looks.append(ledger.as_of + open_every_us)
    return min(looks, default=None)
