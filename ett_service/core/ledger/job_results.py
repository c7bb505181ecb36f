"""A job's numbers: its facts, accelerators, shares, recoveries and waits."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise

from ett_service.core.dimensions import Facts
from ett_service.core.events import JobFacts
from ett_service.core.intervals import Interval, merged, outside
from ett_service.core.ledger.attempt_events import AttemptEvents
from ett_service.core.ledger.job_segments import JobSegments
from ett_service.core.ledger.lifetimes import Lifetime, queued_intervals
from ett_service.core.ledger.results import Recovery, Segment, Share, Wait
from ett_service.core.ledger.spans import NEVER
from ett_service.core.words import Category, Period, Phase

UNHELD = frozenset({Category.SCHEDULING, Category.RESTART_WAIT})
"""Categories of an attempt in which no accelerator was held."""


def started_with(track: AttemptEvents) -> int | None:
    """Return the accelerators that the attempt's latest ``attempt_started`` names."""
    named = [(at, event.gpus) for at, event in track.starts if event.gpus is not None]
    return max(named)[1] if named else None


def accelerators(lives: Sequence[Lifetime], job_gpus: int | None) -> list[int | None]:
    """Return each attempt's accelerators: its own, an earlier cycle's, else the job's."""
    found: list[int | None] = []
    inherited: dict[tuple[str, int], int] = {}
    for life in lives:
        allocation = life.track.key[:2]
        own = started_with(life.track)
        if own is not None:
            inherited[allocation] = own
        found.append(inherited.get(allocation, job_gpus))
    return found


def held_waits(lives: Sequence[Lifetime]) -> list[Interval]:
    """Return when an allocation was still held between two of its cycles, disjoint."""
    found: list[Interval] = []
    latest: dict[tuple[str, int], Lifetime] = {}
    for life in lives:
        allocation = life.track.key[:2]
        before = latest.get(allocation)
        latest[allocation] = life
        if before is not None and before.end < life.begin:
            queued = [
                (span.begin, min(span.end, life.end))
                for span in life.track.by_phase.get(Phase.QUEUED, ())
            ]
            found += outside((before.end, life.begin), queued)
    return merged(found)


def cut_waits(
    between: Iterable[Segment], ended: Sequence[tuple[int, int]], held: Sequence[Interval]
) -> Iterator[Wait]:
    """Cut the time *between* attempts where the attempt changes whose accelerators it counts for.

    *ended* are the ends of the attempts with their numbers, in order; *held* is when an allocation
    was still held, disjoint.
    """
    for start, end, _, period, _ in between:
        place = bisect_right(ended, (start, NEVER))
        stop = bisect_left(ended, (end,))
        edges = [start, *(at for at, _ in ended[place:stop]), end]
        for span, (_, latest) in zip(pairwise(edges), ended[place - 1 : stop], strict=True):
            free = outside(span, held)
            pieces = [(one, False) for one in free] + [(one, True) for one in outside(span, free)]
            for piece, is_held in sorted(pieces):
                yield Wait(*piece, period, latest, is_held)


_MEMBERS = tuple(member.name for member in fields(Facts) if member.name != "labels")


def facts(events: Iterable[tuple[int, JobFacts]]) -> Facts:
    """Return what the ``job`` events, given with their instants, say in the end."""
    told: dict[str, tuple[int, str | int]] = {}
    labels: dict[str, tuple[int, str]] = {}
    for at, event in events:
        for name in _MEMBERS:
            value = getattr(event, name)
            if value is not None:
                told[name] = max((at, value), told.get(name, (at, value)))
        for key, text in event.labels.items():
            labels[key] = max((at, text), labels.get(key, (at, text)))
    return Facts(
        **{name: value for name, (_, value) in told.items()},  # type: ignore[arg-type]
        labels={key: labels[key][1] for key in sorted(labels)},
    )


MOST = 2**63 - 1
"""What a weighted share is cut off at: stores keep no more, and no real job reaches it."""

ShareKey = tuple[Category, Period, Phase | None]


def shares(
    picture: JobSegments, between: Sequence[Wait], gpus: Sequence[int | None]
) -> tuple[Share, ...]:
    """Return the job's time by category, period and phase, in order.

    *between* are its :func:`waits`, *gpus* the accelerators of each attempt; without all of
    them nothing is weighted.
    """
    sums = _Sums()
    known = [count or 0 for count in gpus]
    for part, count in zip(picture.parts, known, strict=True):
        for (category, zone, phase), us in part.painting.canvas.totals.items():
            sums.us[category, part.periods[zone], phase, count] += us
    for wait in between:
        us, count = wait.end_at - wait.start_at, known[wait.number]
        sums.us[Category.RESTART_WAIT, wait.period, None, count] += us
        sums.held_weighted_us[wait.period] += us * count if wait.held else 0
    return sums.rows(known=None not in gpus)


def waits(picture: JobSegments) -> tuple[Wait, ...]:
    """Cut the time between attempts where the attempt changes whose accelerators it counts for."""
    if not picture.waits:
        return ()
    ended = sorted((life.end, life.number) for life in picture.found.lives)
    return tuple(cut_waits(picture.waits, ended, held_waits(picture.found.lives)))


class _Sums:
    """Microseconds by share and by how many accelerators they count for."""

    def __init__(self) -> None:
        self.us: dict[tuple[Category, Period, Phase | None, int], int] = defaultdict(int)
        self.held_weighted_us: dict[Period, int] = defaultdict(int)  #: of waits between attempts

    def rows(self, *, known: bool) -> tuple[Share, ...]:
        rows: dict[ShareKey, list[int]] = {}
        for (category, period, phase, gpus), us in self.us.items():
            row = rows.setdefault((category, period, phase), [0, 0, 0])
            row[0] += us
            row[1] += us * gpus
            row[2] += 0 if category in UNHELD else us * gpus
        for period, weighted_us in self.held_weighted_us.items():
            rows[Category.RESTART_WAIT, period, None][2] += weighted_us
        return tuple(
            Share(*key, us, min(weighted_us, MOST), min(gpu_us, MOST))
            if known
            else Share(*key, us, None, None)
            for key, (us, weighted_us, gpu_us) in sorted(rows.items(), key=_share_order)
            if us
        )


def _share_order(item: tuple[ShareKey, list[int]]) -> tuple[str, str, str]:
    category, period, phase = item[0]
    return (category, period, phase or "")


def queue_wait_us(picture: JobSegments, last_sign_at: int) -> int:
    """Return the union of all queued time before the job's first instant, in microseconds."""
    first = picture.first
    queued = merged(queued_intervals(picture.found, last_sign_at))
    return sum(min(end, first) - start for start, end in queued if start < first)


def recoveries(
    picture: JobSegments, kept: Mapping[Interval, Mapping[Category, int]]
) -> tuple[Recovery, ...]:
    """Return the recoveries in order; *kept* has the parts of those that cannot have changed."""
    stretches, segments = picture.periods.stretches, picture.segments
    spans: list[tuple[Interval, int, int | None]] = [
        ((before.end, after.start), before.number, after.number)
        for before, after in pairwise(stretches)
        if before.number != after.number
    ]
    if stretches and picture.ends > picture.found.lives[stretches[-1].number].end:
        spans.append(((stretches[-1].end, picture.ends), stretches[-1].number, None))
    paintings = [part.painting for part in picture.parts]
    return tuple(
        Recovery(
            interrupted=interrupted,
            resumed=resumed,
            start_at=span[0],
            end_at=span[1],
            parts_us=kept.get(span) or _parts_us(span, segments),
            stalled_us=paintings[interrupted].canvas.silent_tail_us,
            repeated_us=0 if resumed is None else paintings[resumed].canvas.repeated_us,
            outcome=picture.found.lives[interrupted].outcome,
        )
        for span, interrupted, resumed in spans
    )


def _parts_us(span: Interval, segments: Sequence[Segment]) -> dict[Category, int]:
    parts_us: dict[Category, int] = defaultdict(int)
    for place in range(bisect_left(segments, (span[0],)), len(segments)):
        segment = segments[place]
        if segment.start_at >= span[1]:
            break
        parts_us[segment.category] += segment.end_at - segment.start_at
    return dict(parts_us)
