"""One job's numbers, summed from its picture: shares, recoveries, the wait in the queue."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ett_service.core.accelerators import UNHELD, held_waits
from ett_service.core.answer import Recovery, Segment, Share
from ett_service.core.bounds import queued_intervals
from ett_service.core.interval import Interval, cut, merged, overlap_us
from ett_service.core.picture import Picture
from ett_service.core.vocabulary import Category, Period, Phase

MOST = 2**63 - 1
"""What a weighted share is cut off at: stores keep no more, and no real job reaches it."""

ShareKey = tuple[Category, Period, Phase | None]


def shares(picture: Picture, gpus: Sequence[int | None]) -> tuple[Share, ...]:
    """Return the job's time by category, period and phase, in order.

    *gpus* are the accelerators of each attempt; without all of them nothing is weighted.
    """
    sums = _Sums()
    known = [count or 0 for count in gpus]
    for part, count in zip(picture.parts, known, strict=True):
        for (category, zone, phase), us in part.painting.canvas.totals.items():
            held_us = 0 if category in UNHELD else us
            sums.add((category, part.periods[zone], phase), us, count, held_us)
    _add_waits(sums, picture, known)
    return sums.rows(known=None not in gpus)


def _add_waits(sums: "_Sums", picture: Picture, gpus: Sequence[int]) -> None:
    """Add the time between attempts, weighted by the attempt that ended last before it."""
    if not picture.waits:
        return
    lives = picture.found.lives
    held = held_waits(lives)
    for wait in picture.waits:
        for start, end in cut((wait.start_at, wait.end_at), (life.end for life in lives)):
            ended = (life for life in lives if life.end <= start)
            weight = gpus[max(ended, key=lambda life: (life.end, life.number)).number]
            key = (wait.category, wait.period, None)
            sums.add(key, end - start, weight, overlap_us((start, end), held))


class _Sums:
    """Microseconds by share: wall, weighted, held."""

    def __init__(self) -> None:
        self._sums: dict[ShareKey, list[int]] = {}

    def add(self, key: ShareKey, us: int, gpus: int, held_us: int) -> None:
        sums = self._sums.setdefault(key, [0, 0, 0])
        sums[0] += us
        sums[1] += us * gpus
        sums[2] += held_us * gpus

    def rows(self, *, known: bool) -> tuple[Share, ...]:
        return tuple(
            Share(*key, us, min(weighted_us, MOST), min(gpu_us, MOST))
            if known
            else Share(*key, us, None, None)
            for key, (us, weighted_us, gpu_us) in sorted(self._sums.items(), key=_share_order)
            if us
        )


def _share_order(item: tuple[ShareKey, list[int]]) -> tuple[str, str, str]:
    category, period, phase = item[0]
    return (category, period, phase or "")


def queue_wait_us(picture: Picture, last_sign_at: int) -> int:
    """Return the union of all queued time before the job's first instant, in microseconds."""
    first = picture.first
    queued = merged(queued_intervals(picture.found, last_sign_at))
    return sum(min(end, first) - start for start, end in queued if start < first)


def recoveries(
    picture: Picture, kept: Mapping[Interval, Mapping[Category, int]]
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
