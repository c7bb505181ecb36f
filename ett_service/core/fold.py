"""The fold: from a set of events to everything that is said about their job.

``fold`` does it once. ``JobFold`` keeps what it has understood, so that an event that comes on
at the open end of a job costs no more in a long job than in a short one.
"""

from collections.abc import Iterable, Mapping, Sequence

from ett_service.core.accelerators import accelerators
from ett_service.core.answer import (
    DEFAULT_LIMITS,
    AttemptLedger,
    Facts,
    Gap,
    JobLedger,
    Limits,
    Recovery,
    Segment,
    Share,
)
from ett_service.core.attempts import Setting, attempt_ledger, code_version
from ett_service.core.bounds import (
    Bounds,
    Life,
    end_of_e2e,
    find_bounds,
    moves,
    queued_intervals,
)
from ett_service.core.clock import Clocks
from ett_service.core.event import Event
from ett_service.core.facts import facts
from ett_service.core.job import (
    Shares,
    in_time_order,
    periods_of_zones,
    queue_wait_us,
    recoveries,
    waits,
)
from ett_service.core.painting import Painting
from ett_service.core.periods import Periods, allocated_at
from ett_service.core.quality import gaps, quality
from ett_service.core.roster import Roster
from ett_service.core.scene import Own, Past, basis, own, owned_windows, silent_from
from ett_service.core.span import NEVER
from ett_service.core.track import AttemptKey
from ett_service.core.vocabulary import (
    FAILURES,
    INFRA_ORIGINS,
    Basis,
    Category,
    JobState,
    Outcome,
    Period,
)


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
        self._roster = Roster()
        self._facts = Facts()
        self._paintings: dict[AttemptKey, Painting] = {}
        self._attempts: dict[AttemptKey, tuple[object, AttemptLedger, list[Gap]]] = {}
        self._between: Sequence[Segment] | None = None
        self._recoveries: tuple[Recovery, ...] = ()

    @property
    def event_count(self) -> int:
        """How many distinct events were added."""
        return len(self._ids)

    def add(self, events: Iterable[Event], offsets: Mapping[str, int]) -> bool:
        """Add events, known ones being ignored; False if they do not fold forward.

        After False the object is to be thrown away, and all events to be added to a new one.
        """
        fresh = []
        for event in events:
            if event.id not in self._ids:
                self._ids.add(event.id)
                fresh.append(event)
        facts_before = len(self._roster.facts)
        done = self._clocks.admit(fresh, offsets) and self._roster.add(fresh, self._clocks)
        if len(self._roster.facts) > facts_before:
            self._facts = facts(self._roster.facts)
        return done

    def ledger(self, as_of: int) -> JobLedger:
        """Return all that the events say at *as_of*, an instant in microseconds."""
        roster = self._roster
        tracks = roster.in_order()
        for track in tracks:
            track.close_loose()
        found = find_bounds(
            tracks,
            roster.job_ends,
            max(as_of, roster.last_event_at),
            roster.last_sign_at,
            self._limits,
        )
        windows = owned_windows(found.lives)
        parts = [own(life, owned) for life, owned in zip(found.lives, windows, strict=True)]
        return self._assemble(found, parts)

    def _assemble(self, found: Bounds, parts: Sequence[Own]) -> JobLedger:
        ends = end_of_e2e(found)
        first = ends if found.first is None else found.first
        first_loop = min((part.loops[0][0] for part in parts if part.loops), default=None)
        allocation = allocated_at(found.lives, first, first_loop)
        paintings, bases = self._paint(parts, allocation)
        periods = Periods(parts, allocation, ends)
        zones = [periods_of_zones(part, periods) for part in parts]
        for part, painting, names in zip(parts, paintings, zones, strict=True):
            painting.frame(part.life.number, names)
        between = waits(parts, ends, periods)
        segments = in_time_order(parts, paintings, between)
        self.changed_from = self._first_change(paintings, between)
        gpus = accelerators(found.lives, self._facts.gpus)
        attempts, gaps_of = self._attempt_ledgers(parts, paintings, bases, gpus)
        shares = _shares(found.lives, paintings, zones, between, gpus)
        return JobLedger(
            state=found.state,
            as_of=found.as_of if moves(found) else ends,
            facts=self._facts,
            started_at=found.first,
            ended_at=None if found.first is None else ends,
            queue_wait_us=queue_wait_us(queued_intervals(found, self._roster.last_sign_at), first),
            outcome=found.standing.event.outcome if found.standing else None,
            segments=segments,
            shares=shares,
            attempts=attempts,
            recoveries=self._recovered(periods, parts, paintings, segments),
            time_to_start_us=None if first_loop is None else first_loop - allocation,
            failures=sum(one.outcome in FAILURES for one in attempts),
            infra_failures=sum(
                one.outcome in FAILURES and one.origin in INFRA_ORIGINS for one in attempts
            ),
            unsaved_us=sum(one.unsaved_us for one in attempts),
            quality=quality(
                found.lives,
                gaps_of,
                sum(share.us for share in shares if share.category is Category.UNATTRIBUTED),
                self._clocks.flagged,
                gpus_unknown=None in gpus,
            ),
            due_at=self._due_at(found),
        )

    def _paint(self, parts: Sequence[Own], allocation: int) -> tuple[list[Painting], list[Basis]]:
        past = Past()
        paintings, bases = [], []
        for part in parts:
            track = part.life.track
            painting = self._paintings.setdefault(track.key, Painting())
            painting.paint(part, past, allocation)
            paintings.append(painting)
            bases.append(basis(track, past))
            past.add(track, painting.canvas)
        return paintings, bases

    def _first_change(
        self, paintings: Sequence[Painting], between: Sequence[Segment]
    ) -> int | None:
        """Find from where on the segments may differ from those of the ledger before."""
        before, self._between = self._between, between
        if before is None:
            return None
        changes = [painting.changed_from for painting in paintings]
        changes += [segment.start_at for segment in set(before) ^ set(between)]
        change = min(changes, default=NEVER)
        return None if change == -NEVER else change

    def _attempt_ledgers(
        self,
        parts: Sequence[Own],
        paintings: Sequence[Painting],
        bases: Sequence[Basis],
        weights: Sequence[int | None],
    ) -> tuple[tuple[AttemptLedger, ...], list[list[Gap]]]:
        """Return what is said of each attempt, made anew only where something changed."""
        ledgers, gaps_of = [], []
        for part, painting, base, gpus in zip(parts, paintings, bases, weights, strict=True):
            life = part.life
            setting = Setting(gpus, code_version(life) or self._facts.code_version, base)
            key = (painting.edition, life.number, life.begin, life.end, life.outcome, setting)
            kept = self._attempts.get(life.track.key)
            if kept is None or kept[0] != key:
                kept = (key, attempt_ledger(part, painting, setting), gaps(life, painting))
                self._attempts[life.track.key] = kept
            ledgers.append(kept[1])
            gaps_of.append(kept[2])
        return tuple(ledgers), gaps_of

    def _recovered(
        self,
        periods: Periods,
        parts: Sequence[Own],
        paintings: Sequence[Painting],
        segments: Sequence[Segment],
    ) -> tuple[Recovery, ...]:
        """Return the recoveries, those before the first change as they were."""
        change = self.changed_from
        kept = {
            (one.start_at, one.end_at): one.parts_us
            for one in self._recoveries
            if change is not None and one.end_at < change
        }
        self._recoveries = tuple(recoveries(periods, parts, paintings, segments, kept))
        return self._recoveries

    def _due_at(self, found: Bounds) -> int | None:
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


def _shares(
    lives: Sequence[Life],
    paintings: Sequence[Painting],
    zones: Sequence[Mapping[int, Period]],
    between: Sequence[Segment],
    gpus: Sequence[int | None],
) -> tuple[Share, ...]:
    shares = Shares()
    known = [count or 0 for count in gpus]
    for painting, names, count in zip(paintings, zones, known, strict=True):
        shares.add_attempt(painting.canvas.totals, names, count)
    shares.add_waits(between, lives, known)
    return shares.rows(known=None not in gpus)
