"""One job's ledger: the attempts' paintings put together, waits between them filled in."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise

from ett_service.core.accelerators import UNHELD, held_waits
from ett_service.core.answer import Recovery, Segment, Share
from ett_service.core.bounds import Life
from ett_service.core.canvas import ZONES_A_WINDOW
from ett_service.core.interval import Interval, cut, merged, outside, overlap_us
from ett_service.core.painting import Painting
from ett_service.core.periods import Periods
from ett_service.core.scene import Own
from ett_service.core.vocabulary import Category, Period, Phase

ShareKey = tuple[Category, Period, Phase | None]


def periods_of_zones(part: Own, periods: Periods) -> dict[int, Period]:
    """Name the period of each zone of an attempt's canvas that has any length."""
    stretch_of = {stretch.window: stretch for stretch in part.stretches}
    found: dict[int, Period] = {}
    for index, (opens, closes) in enumerate(part.windows):
        base = index * ZONES_A_WINDOW
        stretch = stretch_of.get(index)
        found[base] = Period.SCHEDULING
        if stretch is None:
            found[base + 1] = periods.at(closes - 1)
            continue
        if stretch.start > opens:
            found[base + 1] = periods.at(stretch.start - 1)
        found[base + 2] = Period.TRAINING
        if stretch.end < closes:
            found[base + 3] = periods.at(stretch.end)
    return found


def waits(parts: Sequence[Own], ends: int, periods: Periods) -> list[Segment]:
    """Return the time between attempts, which is nobody's."""
    starts = min((part.life.begin for part in parts), default=ends)
    alive = merged((part.life.begin, part.life.end) for part in parts)
    return [
        Segment(since, until, Category.RESTART_WAIT, period, None)
        for start, end in outside((starts, ends), alive)
        for since, until, period in periods.split(start, end)
    ]


def in_time_order(
    parts: Sequence[Own], paintings: Sequence[Painting], between: Iterable[Segment]
) -> tuple[Segment, ...]:
    """Return all segments of the job in order of their begin."""
    runs: list[list[Segment]] = [[segment] for segment in between]
    for part, painting in zip(parts, paintings, strict=True):
        segments = painting.segments
        if len(part.windows) == 1:
            runs.append(segments)
            continue
        for opens, closes in part.windows:
            first = bisect_left(segments, (opens,))
            runs.append(segments[first : bisect_left(segments, (closes,))])
    runs.sort(key=lambda run: run[:1])
    return tuple(chain.from_iterable(runs))


class Shares:
    """Time of a job by category, period and phase, weighted where accelerators are known."""

    def __init__(self) -> None:
        self._us: dict[ShareKey, int] = defaultdict(int)
        self._weighted: dict[ShareKey, int] = defaultdict(int)
        self._gpu: dict[ShareKey, int] = defaultdict(int)

    def add_attempt(
        self,
        totals: Mapping[tuple[Category, int, Phase | None], int],
        periods: Mapping[int, Period],
        gpus: int,
    ) -> None:
        """Add what an attempt's canvas totals."""
        for (category, zone, phase), us in totals.items():
            key = (category, periods[zone], phase)
            self._us[key] += us
            self._weighted[key] += us * gpus
            self._gpu[key] += 0 if category in UNHELD else us * gpus

    def add_waits(
        self, between: Iterable[Segment], lives: Sequence[Life], gpus: Sequence[int]
    ) -> None:
        """Add the time between attempts, weighted by the attempt that ended last before it."""
        held = held_waits(lives)
        for wait in between:
            for start, end in cut((wait.start_at, wait.end_at), (life.end for life in lives)):
                ended = (life for life in lives if life.end <= start)
                weight = gpus[max(ended, key=lambda life: (life.end, life.number)).number]
                key = (wait.category, wait.period, None)
                self._us[key] += end - start
                self._weighted[key] += (end - start) * weight
                self._gpu[key] += overlap_us((start, end), held) * weight

    def rows(self, *, known: bool) -> tuple[Share, ...]:
        """Return the shares in order; without weights unless accelerators are *known*."""
        return tuple(
            Share(*key, us, self._weighted[key], self._gpu[key])
            if known
            else Share(*key, us, None, None)
            for key, us in sorted(self._us.items(), key=lambda item: _share_order(item[0]))
            if us
        )


def _share_order(key: ShareKey) -> tuple[str, str, str]:
    category, period, phase = key
    return (category, period, phase or "")


def queue_wait_us(queued: Iterable[Interval], first: int) -> int:
    """Return the union of all queued time before the job's first instant, in microseconds."""
    return sum(min(end, first) - start for start, end in merged(queued) if start < first)


def recoveries(
    periods: Periods,
    parts: Sequence[Own],
    paintings: Sequence[Painting],
    segments: Sequence[Segment],
    kept: Mapping[Interval, Mapping[Category, int]],
) -> list[Recovery]:
    """Return the recoveries in order; *kept* has the parts of those before the first change."""
    stretches = periods.stretches
    spans: list[tuple[Interval, int, int | None]] = [
        ((before.end, after.start), before.number, after.number)
        for before, after in pairwise(stretches)
        if before.number != after.number
    ]
    if stretches and segments:
        last, ends = stretches[-1], segments[-1].end_at
        if ends > parts[last.number].life.end:
            spans.append(((last.end, ends), last.number, None))
    return [
        Recovery(
            interrupted=interrupted,
            resumed=resumed,
            start_at=span[0],
            end_at=span[1],
            parts_us=kept.get(span) or _parts_us(span, segments),
            stalled_us=silent_tail_us(paintings[interrupted]),
            repeated_us=0 if resumed is None else repeated_us(paintings[resumed]),
            outcome=parts[interrupted].life.outcome,
        )
        for span, interrupted, resumed in spans
    ]


def _parts_us(span: Interval, segments: Sequence[Segment]) -> dict[Category, int]:
    parts_us: dict[Category, int] = defaultdict(int)
    for place in range(bisect_left(segments, (span[0],)), len(segments)):
        segment = segments[place]
        if segment.start_at >= span[1]:
            break
        parts_us[segment.category] += segment.end_at - segment.start_at
    return dict(parts_us)


def silent_tail_us(painting: Painting) -> int:
    """Return the attempt's loop time that was a silent tail, in microseconds."""
    return sum(
        us
        for (category, _, phase), us in painting.canvas.totals.items()
        if category is Category.STALLED and phase is Phase.TRAIN_LOOP
    )


def repeated_us(painting: Painting) -> int:
    """Return all repeated time of the attempt, in microseconds."""
    return sum(
        us
        for (category, _, _), us in painting.canvas.totals.items()
        if category is Category.REPEATED_TRAINING
    )
