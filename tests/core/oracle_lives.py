"""The oracle's reading of who lived when: clocks, attempts, their bounds, spans and outcomes.

Written from the definitions alone, as literally as they read; slow on purpose.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ett_service.core.events import (
    AttemptEnded,
    Event,
    JobEnded,
    JobFacts,
    PhaseEnded,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.ledger.attempts.lifetimes import Limits
from ett_service.core.words import ORIGIN_OF_CAUSE, Cause, Origin, Outcome, Phase
from tests.core.oracle_cycles import recounted

_PHASE_EVENTS = (PhaseStarted, PhaseEnded, SpanOver)
_WORST_FIRST = (Outcome.FAILED, Outcome.PREEMPTED, Outcome.CANCELLED, Outcome.COMPLETED)
_GUILTY_FIRST = (Origin.INFRA, Origin.USER, Origin.PREEMPTION, Origin.UNKNOWN)
_AFTERTHOUGHT_US = 60_000_000
_OFFSET_LEFT_ALONE_US = 2_000_000


@dataclass
class Life:
    """One attempt."""

    launch: str
    attempt: int
    cycle: int
    events: list[Event] = field(default_factory=list)
    number: int | None = None  #: None while it has only queued
    begin: int = 0
    end: int | None = None  #: None while it runs
    outcome: Outcome = Outcome.RUNNING
    origin: Origin | None = None

    @property
    def over_at(self) -> int:
        """Its end, once that is decided."""
        assert self.end is not None
        return self.end

    @property
    def lead(self) -> int | None:
        """The lowest rank that reports a phase, a stage or progress."""
        talking = [e for e in self.events if isinstance(e, (*_PHASE_EVENTS, Progress))]
        return min((e.rank for e in talking if e.rank is not None), default=None)

    @property
    def stream(self) -> list[Event]:
        """What the ledger follows."""
        lead = self.lead
        return [e for e in self.events if e.rank is None or e.rank == lead]

    @property
    def has_begun(self) -> bool:
        """Whether it did more than queue."""
        return any(not _queues(e) for e in self.events)

    @property
    def raw_begin(self) -> int:
        """The earliest instant that it names outside ``queued``."""
        return min(named(e) for e in self.events if not _queues(e))

    @property
    def heard(self) -> int:
        """When anything was heard from it last."""
        return max(e.at for e in self.events)


def named(event: Event) -> int:
    """The first instant that an event names."""
    return min(event.start, event.at) if isinstance(event, SpanOver) else event.at


def starts(events: Iterable[Event], *phases: Phase) -> list[int]:
    """When phases began, as reported."""
    return sorted(
        named(e)
        for e in events
        if isinstance(e, (PhaseStarted, SpanOver)) and e.stage is None and e.phase in phases
    )


def _queues(event: Event) -> bool:
    return isinstance(event, _PHASE_EVENTS) and event.phase is Phase.QUEUED


def corrected(events: Iterable[Event], offsets: Mapping[str, int]) -> list[Event]:
    """Each event once, on its producer's monotonic clock and with large offsets added."""
    unique = list({event.id: event for event in events}.values())
    return [_retimed(event, unique, offsets) for event in unique]


def _retimed(event: Event, unique: list[Event], offsets: Mapping[str, int]) -> Event:
    if event.producer is None:
        return event
    at = event.at
    if event.mono_us is not None:
        clock_pairs = [
            (e.mono_us, e.at)
            for e in unique
            if e.producer == event.producer and e.mono_us is not None
        ]
        first_mono, first_at = min(clock_pairs)
        at = first_at + event.mono_us - first_mono
    offset = offsets.get(event.producer, 0)
    if abs(offset) > _OFFSET_LEFT_ALONE_US:
        at += offset
    if isinstance(event, SpanOver):
        return replace(event, at=at, start=event.start + at - event.at)
    return replace(event, at=at)


def lives_of(events: list[Event]) -> list[Life]:
    """The attempts in their order, those that only queued among them; ends still unknown."""
    own = recounted(_with_launches([e for e in events if not isinstance(e, JobFacts | JobEnded)]))
    order = _launch_order(own)
    lives: dict[tuple[str, int, int], Life] = {}

    def add(event: Event, cycle: int) -> None:
        key = (event.launch, event.attempt, cycle)
        lives.setdefault(key, Life(*key)).events.append(event)

    cycleless = [e for e in own if isinstance(e, AttemptEnded) and e.cycle is None]
    for event in own:
        if event not in cycleless:
            add(event, event.cycle or 0)
    ended_cycles = [(event, _cycle_ended_by(event, list(lives.values()))) for event in cycleless]
    for event, cycle in ended_cycles:
        add(event, cycle)
    ordered = sorted(
        lives.values(), key=lambda life: (order.index(life.launch), life.attempt, life.cycle)
    )
    for number, life in enumerate(life for life in ordered if life.has_begun):
        life.number = number
    return ordered


def _cycle_ended_by(event: Event, lives: list[Life]) -> int:
    allocation = [x for x in lives if (x.launch, x.attempt) == (event.launch, event.attempt)]
    begun = [x.cycle for x in allocation if x.has_begun and x.raw_begin <= event.at]
    if begun:
        return max(begun)
    return min((x.cycle for x in allocation), default=0)


def _launch_order(events: list[Event]) -> list[str]:
    def place(launch: str) -> tuple[bool, int, bool, int, str]:
        own = [e for e in events if e.launch == launch]
        begun = [named(e) for e in own if not _queues(e)]
        first = min(begun) if begun else min(named(e) for e in own)
        is_number = launch.isascii() and launch.isdigit()
        return (not begun, first, not is_number, int(launch) if is_number else 0, launch)

    return sorted({e.launch for e in events}, key=place)


def _with_launches(events: list[Event]) -> list[Event]:
    with_launch = [e for e in events if e.launch]
    if not with_launch:
        return events
    order = _launch_order(with_launch)
    begun = {
        launch: min(named(e) for e in with_launch if e.launch == launch and not _queues(e))
        for launch in order
        if any(e.launch == launch and not _queues(e) for e in with_launch)
    }

    def launch_of(event: Event) -> str:
        if event.launch:
            return event.launch
        begun_before = [x for x in order if x in begun and begun[x] <= named(event)]
        return begun_before[-1] if begun_before else order[0]

    return [replace(e, launch=launch_of(e)) for e in events]


@dataclass
class Run:
    """What belongs to one run of a job."""

    lives: list[Life]  #: in their order, those that have only queued among them
    endings: list[JobEnded]
    is_over: bool = False  #: another run follows
    until: int | None = None  #: where the first later attempt begins that ends this run's time

    @property
    def sign(self) -> int:
        """The first instant that anything in it names."""
        return min(named(e) for life in self.lives for e in life.events)

    def cut(self, at: int) -> int:
        """The instant, but no later than the run lasts."""
        return at if self.until is None else min(at, self.until)


def runs_of(lives: list[Life], endings: list[JobEnded]) -> list[Run]:
    """A job whose completion nothing was waiting for begins anew with the next launch."""
    if not lives:
        return [Run(lives, endings)]
    ends = sorted(e.at for e in endings if _ends_run(e, lives))
    signs = {life.launch: _launch_sign(life.launch, lives) for life in lives}
    groups: dict[int, list[Life]] = {}
    for life in lives:
        groups.setdefault(sum(end < signs[life.launch] for end in ends), []).append(life)
    runs = [Run(groups[place], []) for place in sorted(groups)]
    for run in runs[:-1]:
        run.is_over = True
    for e in endings:
        begun = [run for run in runs if run.sign <= e.at]
        (begun[-1] if begun else runs[0]).endings.append(e)
    return runs


def _ends_run(ending: JobEnded, lives: list[Life]) -> bool:
    if ending.outcome is not Outcome.COMPLETED:
        return False
    launches = {life.launch for life in lives}
    signs = [_launch_sign(launch, lives) for launch in launches]
    if not min(signs) <= ending.at < max(signs):
        return False
    for launch in launches:
        begun = [x.raw_begin for x in lives if x.launch == launch and x.has_begun]
        if begun and _launch_sign(launch, lives) <= ending.at < min(begun):
            return False
    return True


def _launch_sign(launch: str, lives: list[Life]) -> int:
    return min(named(e) for life in lives if life.launch == launch for e in life.events)


@dataclass
class Bounds:
    """The attempts' ends as they are if the run's first instant is ``first``."""

    lives: list[Life]  #: begun ones, in order
    queuing: list[Life]  #: the others
    job_end: int | None  #: of a ``job_ended`` that stands


def bounds(run: Run, first: int, as_of: int, limits: Limits) -> Bounds:
    """Decide when each attempt began and ended, and whether a ``job_ended`` stands."""
    lives = run.lives
    begun = [life for life in lives if life.has_begun]
    queuing = [life for life in lives if not life.has_begun]
    for life in begun:
        life.begin = max(life.raw_begin, first)
        life.end, life.outcome, life.origin = None, Outcome.RUNNING, None
    for life in begun:
        _end_by_itself(life, lives, limits)
    standing = [e for e in run.endings if _stands(e, lives)]
    job_end = max((e.at for e in standing), default=None)
    job_ending = min(standing, key=_rank_of_ending, default=None)
    for life in begun:
        if life.end is None:
            _end_from_outside(life, job_end, job_ending, as_of, limits)
        if life.end is None and run.is_over:
            life.end, life.outcome = max(life.begin, life.heard), Outcome.LOST
    for life in begun:
        _judge(life)
        life.begin = run.cut(life.begin)
        life.end = None if life.end is None else run.cut(life.end)
    return Bounds(begun, queuing, job_end)


def _enders(life: Life) -> list[AttemptEnded]:
    lead = life.lead
    stream = life.stream
    return [
        e
        for e in life.events
        if isinstance(e, AttemptEnded)
        and (e.rank is None or e.rank == lead or not any(s.at > e.at for s in stream))
    ]


def _end_by_itself(life: Life, lives: list[Life], limits: Limits) -> None:
    enders = _enders(life)
    if enders:
        life.end = max(life.begin, *(e.at for e in enders))
        return
    later = lives[lives.index(life) + 1 :]
    is_superseded = any(
        x.has_begun and (x.launch, x.attempt) == (life.launch, life.attempt) for x in later
    )
    is_followed = any(x.has_begun and x.begin >= life.heard for x in later)
    is_outlived = any(x.heard >= life.heard + limits.lost_after_us for x in later)
    if is_superseded or is_followed or is_outlived:
        life.end, life.outcome = max(life.begin, life.heard), Outcome.LOST


def _end_from_outside(
    life: Life,
    job_end: int | None,
    job_ending: JobEnded | None,
    as_of: int,
    limits: Limits,
) -> None:
    if job_end is not None and job_ending is not None and life.begin <= job_end:
        life.end, life.outcome = max(job_end, life.heard), job_ending.outcome
        life.origin = _origin(job_ending)
    elif as_of - life.heard >= limits.lost_after_us:
        life.end, life.outcome = max(life.begin, life.heard), Outcome.LOST


def _stands(ending: JobEnded, lives: list[Life]) -> bool:
    for life in lives:
        if life.has_begun and life.begin > ending.at:
            return False
        for begin in starts(life.stream, Phase.QUEUED):
            if begin > ending.at and (life.end is None or begin < life.end):
                return False
    return True


def _origin(ending: AttemptEnded | JobEnded) -> Origin:
    if ending.outcome is Outcome.PREEMPTED:
        return Origin.PREEMPTION
    if ending.origin is not None:
        return ending.origin
    return ORIGIN_OF_CAUSE[ending.cause or Cause.UNKNOWN]


def _rank_of_ending(ending: AttemptEnded | JobEnded) -> tuple[int, int, int]:
    return (
        ending.at,
        _WORST_FIRST.index(ending.outcome),
        _GUILTY_FIRST.index(_origin(ending)),
    )


def _judge(life: Life) -> None:
    enders = _enders(life)
    ended = [e for e in life.events if isinstance(e, AttemptEnded)]
    heard = [e for e in ended if e in enders or e.outcome is Outcome.FAILED]
    if not heard:
        if life.origin is None:
            life.origin = Origin.UNKNOWN
        return
    verdict = min(heard, key=_rank_of_ending)
    if verdict.outcome is Outcome.FAILED:
        after = [
            e
            for e in ended
            if e.rank is None
            and e.outcome in (Outcome.PREEMPTED, Outcome.CANCELLED)
            and verdict.at <= e.at <= verdict.at + _AFTERTHOUGHT_US
        ]
        verdict = min(after, key=_rank_of_ending, default=verdict)
    if enders:
        life.outcome = verdict.outcome
    is_preempted = life.outcome is Outcome.PREEMPTED
    life.origin = Origin.PREEMPTION if is_preempted else _origin(verdict)
