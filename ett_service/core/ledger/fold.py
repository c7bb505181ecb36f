"""The fold: from a set of events to everything that is said about their job.

``fold`` does it once. ``JobFold`` keeps what it has understood, so that an event that comes on
at the open end of a job costs no more in a long job than in a short one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from ett_service.core.dimensions import Facts
from ett_service.core.events import Event
from ett_service.core.ledger.attempt_events import AttemptKey
from ett_service.core.ledger.attempt_results import (
    Setting,
    attempt_ledger,
    checkpoints,
    code_version,
)
from ett_service.core.ledger.attempt_segments import AttemptSegments, silent_from
from ett_service.core.ledger.attempts import Attempts, Clocks, facts
from ett_service.core.ledger.job_results import (
    accelerators,
    gaps,
    produced,
    quality,
    queue_wait_us,
    recoveries,
    shares,
    waits,
    work_done,
)
from ett_service.core.ledger.job_segments import AttemptPart, JobSegments, job_segments
from ett_service.core.ledger.lifetimes import Lifetimes, follows_clock, lifetimes
from ett_service.core.ledger.results import (
    DEFAULT_LIMITS,
    AttemptLedger,
    Checkpoint,
    Gap,
    JobLedger,
    Limits,
    Recovery,
    Segment,
)
from ett_service.core.ledger.spans import NEVER
from ett_service.core.words import FAILURES, INFRA_ORIGINS, Category, JobState, Outcome


def fold(
    events: Iterable[Event],
    offsets: Mapping[str, int],
    as_of: int,
    limits: Limits = DEFAULT_LIMITS,
) -> JobLedger:
    """Return the ledger of the job that the set *events* describes.

    *offsets* maps a producer to the microseconds its clock is behind the server's; *as_of* is
    an instant in microseconds since the Unix epoch.
    """
    job = JobFold(limits)
    job.add(events, offsets)
    return job.ledger(as_of)


class JobFold:
    """One job's events, folded forward.

    Attributes:
        event_count: how many distinct events were added.
        changed_from: segments that begin at or after this instant may differ from those of
            the ledger before; None where all may.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.changed_from: int | None = None
        self._limits = limits
        self._ids: set[str] = set()
        self._clocks = Clocks()
        self._roster = Attempts()
        self._facts = Facts()
        self._paintings: defaultdict[AttemptKey, AttemptSegments] = defaultdict(AttemptSegments)
        self._attempts: dict[AttemptKey, tuple[object, AttemptLedger, list[Gap]]] = {}
        self._saved: dict[AttemptKey, tuple[Checkpoint, ...]] = {}
        self._waits: Sequence[Segment] | None = None
        self._recoveries: tuple[Recovery, ...] = ()

    @property
    def event_count(self) -> int:
        """How many distinct events were added."""
        return len(self._ids)

    def add(self, events: Iterable[Event], offsets: Mapping[str, int]) -> bool:
        """Add events, known ones being ignored; False if they do not fold forward.

        After False the object is to be thrown away, and all events to be added to a new one.
        """
        unique = {event.id: event for event in events}
        fresh = [event for name, event in unique.items() if name not in self._ids]
        self._ids.update(unique)
        facts_before = len(self._roster.facts)
        done = self._clocks.admit(fresh, offsets) and self._roster.add(
            fresh, self._clocks, self._settled_at
        )
        if len(self._roster.facts) > facts_before:
            self._facts = facts(self._roster.facts)
        return done

    def _settled_at(self, key: AttemptKey) -> int:
        """Return before which instant the attempt's painting stands."""
        painting = self._paintings.get(key)
        return -NEVER if painting is None else painting.canvas.anchored_at

    def segments(self, as_of: int) -> tuple[Segment, ...]:
        """Return the job's ledger alone, as :meth:`ledger` has it."""
        return self._picture(as_of).segments

    def ledger(self, as_of: int) -> JobLedger:
        """Return all that the events say at *as_of*, an instant in microseconds."""
        picture = self._picture(as_of)
        self.changed_from = self._first_change(picture)
        found = picture.found
        gpus = accelerators(found.lives, self._facts.gpus)
        attempts, gaps_of = self._attempt_ledgers(picture.parts, gpus)
        between = waits(picture)
        shared = shares(picture, between, gpus)
        done = work_done([life.track.work for life in found.lives], self._facts.parameters)
        failed = [one for one in attempts if one.outcome in FAILURES]
        first_loop, allocated_at = picture.first_loop, picture.allocated_at
        return JobLedger(
            state=found.state,
            as_of=found.as_of if follows_clock(found) else picture.ends,
            facts=self._facts,
            started_at=found.first,
            ended_at=None if found.first is None else picture.ends,
            queue_wait_us=queue_wait_us(picture, self._roster.last_sign_at),
            outcome=found.standing.event.outcome if found.standing else None,
            segments=picture.segments,
            shares=shared,
            attempts=attempts,
            recoveries=self._recovered(picture),
            time_to_start_us=None if first_loop is None else first_loop - allocated_at,
            failures=len(failed),
            infra_failures=sum(one.origin in INFRA_ORIGINS for one in failed),
            unsaved_us=sum(one.unsaved_us for one in failed),
            quality=quality(
                [part.own for part in picture.parts],
                gaps_of,
                sum(share.us for share in shared if share.category is Category.UNATTRIBUTED),
                self._clocks.flagged,
                gpus_unknown=None in gpus,
            ),
            due_at=self._due_at(found),
            produced=produced(done),
            waits=between,
            work=done,
            checkpoints=self._checkpoints(found),
        )

    def _picture(self, as_of: int) -> JobSegments:
        roster = self._roster
        tracks = roster.in_order()
        last_said = max(as_of, roster.last_event_at)
        found = lifetimes(tracks, roster.job_ends, last_said, roster.last_sign_at, self._limits)
        return job_segments(found, self._paintings)

    def _first_change(self, picture: JobSegments) -> int | None:
        """Find from where on the segments may differ from those of the ledger before."""
        before, self._waits = self._waits, picture.waits
        if before is None:
            return None
        changes = [part.painting.changed_from for part in picture.parts]
        changes += [wait.start_at for wait in set(before) ^ set(picture.waits)]
        change = min(changes, default=NEVER)
        return None if change == -NEVER else change

    def _attempt_ledgers(
        self, parts: Sequence[AttemptPart], weights: Sequence[int | None]
    ) -> tuple[tuple[AttemptLedger, ...], list[list[Gap]]]:
        """Return what is said of each attempt, made anew only where something changed."""
        ledgers, gaps_of = [], []
        for part, gpus in zip(parts, weights, strict=True):
            life, painting = part.own.life, part.painting
            version = code_version(life) or self._facts.code_version
            setting = Setting(gpus, version, part.basis)
            key = (painting.edition, life.bounds, setting)
            kept = self._attempts.get(life.track.key)
            if kept is None or kept[0] != key:
                kept = (key, attempt_ledger(part, setting), gaps(part.own, painting))
                self._attempts[life.track.key] = kept
            ledgers.append(kept[1])
            gaps_of.append(kept[2])
        return tuple(ledgers), gaps_of

    def _checkpoints(self, found: Lifetimes) -> tuple[Checkpoint, ...]:
        """Return the checkpoints by attempt and instant, those that are known as they were."""
        for life in found.lives:
            kept = self._saved.get(life.track.key, ())
            if len(kept) != len(life.track.saves) or (kept and kept[0].number != life.number):
                self._saved[life.track.key] = checkpoints(life)
        return tuple(chain.from_iterable(self._saved.get(one.track.key, ()) for one in found.lives))

    def _recovered(self, picture: JobSegments) -> tuple[Recovery, ...]:
        """Return the recoveries, with the parts of those before the first change as they were."""
        change = self.changed_from
        kept = {
            (one.start_at, one.end_at): one.parts_us
            for one in self._recoveries
            if change is not None and one.end_at < change
        }
        self._recoveries = recoveries(picture, kept)
        return self._recoveries

    def _due_at(self, found: Lifetimes) -> int | None:
        """Return when a fold of the same events would first differ by more than length."""
        if found.state is JobState.QUEUED:
            return self._roster.last_sign_at + self._limits.queue_lost_after_us
        silences = [
            instant
            for life in found.lives
            if life.outcome is Outcome.RUNNING
            for instant in (silent_from(life), life.track.heard + self._limits.lost_after_us)
            if found.as_of < instant < NEVER
        ]
        return min(silences, default=None)
