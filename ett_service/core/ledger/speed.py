"""Speed: effective training at a run's own best sustained step time, and what was slower."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from typing import TypeVar

from ett_service.core.intervals import DAY_US
from ett_service.core.ledger.attempts.attempt_events import AttemptEvents
from ett_service.core.ledger.attempts.spans import NEVER, Mark
from ett_service.core.ledger.ownership import Ownership, Piece
from ett_service.core.ledger.results import AttemptLedger, Speed, SpeedReference, StepTime
from ett_service.core.words import Category

K = TypeVar("K", bound=Hashable)

FEWEST_STEPS = 50
"""Steps of a window."""

FEWEST_WINDOWS = 5
"""Windows of one setting from which a reference is taken."""

REFERENCE_LABEL = "reference_step_seconds"
"""The job's label that gives the reference in place of its own windows."""

_STEP_TIME_DIGITS = 4
_TOKENS_DIGITS = 2
_REFERENCE_SHARE = 10  #: one window in ten is as fast as the reference
_LONGEST_STEP_SECONDS = 1_000_000

WindowKind = tuple[int | None, int]
"""``(tokens a step, step time in nanoseconds)``, both rounded down to some digits."""

WindowSum = tuple[int, int, int]
"""``(windows, their steps, their effective microseconds)``"""

WindowSums = Mapping[WindowKind, WindowSum]

DayKind = tuple[int, int | None]
"""``(day on which the window ended, tokens a step)``"""

_NONE: WindowSum = (0, 0, 0)


@dataclass(slots=True)
class _Cut:
    """A mark at which a window ends; without steps one from which windows begin anew."""

    mark: int  #: its place among the attempt's progress
    at: int
    steps: int = 0
    us: int = 0
    tokens: int | None = None
    rest: tuple[int, int] = (0, 0)  #: steps and microseconds too few for a window of their own


class SpeedWindows:
    """The windows of one attempt, brought up to date where its time or its steps changed."""

    def __init__(self) -> None:
        self._cuts: list[_Cut] = []
        self._sums: dict[WindowKind, WindowSum] = {}  #: of all cuts but the last
        self._by_day: dict[DayKind, WindowSum] = {}  #: of the same
        self._pieces: list[Piece] = []
        self._restores = 0

    def follow(self, attempt: AttemptEvents, ownership: Ownership) -> None:
        """Take in what the last assignment of *ownership* and later progress changed."""
        changed_at = self._first_change(ownership)
        if len(attempt.restores) != self._restores:
            self._restores, changed_at = len(attempt.restores), -NEVER
        while self._cuts and self._cuts[-1].at > changed_at:
            self._drop()
        if attempt.progress:
            self._extend(attempt)

    @property
    def sums(self) -> WindowSums:
        """The windows by their kind."""
        if not self._cuts or not self._cuts[-1].steps:
            return self._sums
        kind, last = _window(self._cuts[-1])
        return {**self._sums, kind: _added(self._sums.get(kind, _NONE), last)}

    @property
    def step_times(self) -> tuple[StepTime, ...]:
        """The windows by day and tokens a step, in order."""
        by_day = self._by_day
        if self._cuts and self._cuts[-1].steps:
            by_day = dict(by_day)
            _count(by_day, _day_kind(self._cuts[-1]), _window(self._cuts[-1])[1])
        return tuple(StepTime(*kind, *by_day[kind]) for kind in sorted(by_day, key=_day_order))

    def _first_change(self, ownership: Ownership) -> int:
        """Return the instant before which each piece is as it was."""
        place, pieces = ownership.unchanged, ownership.pieces
        before, after = self._pieces[place:], pieces[place:]
        self._pieces[place:] = after
        for old, new in zip(before, after, strict=False):
            if old != new:
                same = old[0] == new[0] and old[2] is new[2]
                return min(old[1], new[1]) if same else min(old[0], new[0])
        further = (before or after)[min(len(before), len(after)) :]
        further = further or after[len(before) :]
        return further[0][0] if further else NEVER

    def _drop(self) -> None:
        self._cuts.pop()
        if self._cuts:
            self._count_window(self._cuts[-1], -1)

    def _add(self, cut: _Cut) -> None:
        if self._cuts:
            self._count_window(self._cuts[-1], 1)
        self._cuts.append(cut)

    def _count_window(self, cut: _Cut, times: int) -> None:
        if not cut.steps:
            return
        kind, window = _window(cut)
        _count(self._sums, kind, window, times)
        _count(self._by_day, _day_kind(cut), window, times)

    def _extend(self, attempt: AttemptEvents) -> None:
        marks = attempt.progress
        if not self._cuts:
            self._add(_Cut(0, marks[0][0]))
        self._leave(0, 0)
        steps = us = 0
        for place, more_steps, more_us in _pairs(attempt, self._pieces, self._cuts[-1].mark):
            if more_us is None:
                self._leave(steps, us)
                self._add(_Cut(place, marks[place][0]))
                steps = us = 0
                continue
            steps, us = steps + more_steps, us + more_us
            if steps >= FEWEST_STEPS:
                tokens = _tokens_a_step(attempt, marks[self._cuts[-1].mark], marks[place])
                self._add(_Cut(place, marks[place][0], steps, us, tokens))
                steps = us = 0
        self._leave(steps, us)

    def _leave(self, steps: int, us: int) -> None:
        self._cuts[-1].rest = (steps, us)


def _pairs(
    attempt: AttemptEvents, pieces: Sequence[Piece], first: int
) -> Iterator[tuple[int, int, int | None]]:
    """Yield each mark's place after *first*, its steps since the one before, and their time.

    The time is None where it does not measure these steps.
    """
    marks = attempt.progress
    at = bisect_right(pieces, marks[first][0], key=_end)
    for place in range(first + 1, len(marks)):
        before, after = marks[place - 1], marks[place]
        while at < len(pieces) and pieces[at][1] <= before[0]:
            at += 1
        us = None
        if after[1] >= before[1] and not _restored(attempt.restores, before[0], after[0]):
            us = _effective_us(pieces, at, before[0], after[0])
        yield place, after[1] - before[1], us


def _end(piece: Piece) -> int:
    return piece[1]


def _restored(restores: Sequence[Mark], start: int, end: int) -> bool:
    return bisect_left(restores, (start + 1,)) < bisect_left(restores, (end + 1,))


def _effective_us(pieces: Sequence[Piece], place: int, at: int, end: int) -> int | None:
    """Sum the effective time in ``[at, end)``; None if some is repeated or not the attempt's."""
    us = 0
    while at < end:
        if place == len(pieces) or pieces[place][0] > at:
            return None
        _, stop, category, _ = pieces[place]
        if category is Category.REPEATED_TRAINING:
            return None
        stop = min(stop, end)
        if category is Category.EFFECTIVE_TRAINING:
            us += stop - at
        at, place = stop, place + 1
    return us


def _tokens_a_step(attempt: AttemptEvents, first: Mark, last: Mark) -> int | None:
    tokens = attempt.work.tokens
    before, after = tokens.get(first[2]), tokens.get(last[2])
    if before is None or after is None or after < before:
        return None
    return rounded_down((after - before) // (last[1] - first[1]), _TOKENS_DIGITS)


def rounded_down(number: int, digits: int) -> int:
    """Return *number*, which is not negative, with zeros after its first *digits*."""
    unit: int = 10 ** max(0, len(str(number)) - digits)
    return number - number % unit


def _window(cut: _Cut) -> tuple[WindowKind, WindowSum]:
    steps, us = cut.steps + cut.rest[0], cut.us + cut.rest[1]
    return (cut.tokens, rounded_down(us * 1000 // steps, _STEP_TIME_DIGITS)), (1, steps, us)


def _day_kind(cut: _Cut) -> DayKind:
    return cut.at // DAY_US, cut.tokens


def _day_order(kind: DayKind) -> tuple[int, int]:
    return kind[0], -1 if kind[1] is None else kind[1]


def _count(sums: dict[K, WindowSum], kind: K, window: WindowSum, times: int = 1) -> None:
    total = _added(sums.get(kind, _NONE), window, times)
    if total[0]:
        sums[kind] = total
    else:
        del sums[kind]


def _added(total: WindowSum, window: WindowSum, times: int = 1) -> WindowSum:
    return (
        total[0] + times * window[0],
        total[1] + times * window[1],
        total[2] + times * window[2],
    )


def given_reference_ns(labels: Mapping[str, str]) -> int | None:
    """Return the step time that a job's labels give, in nanoseconds; None without a valid one."""
    try:
        seconds = Decimal(labels.get(REFERENCE_LABEL, ""))
    except InvalidOperation:
        return None
    if not seconds.is_finite() or not 0 < seconds <= _LONGEST_STEP_SECONDS:
        return None
    return int(seconds * 10**9) or None


def speed_references(
    attempts: Sequence[tuple[WindowSums, int | None]], given_ns: int | None
) -> tuple[SpeedReference, ...]:
    """Return the references of a run, in order of accelerators, then of tokens a step.

    *attempts* are the windows of each with its accelerators; *given_ns* replaces what they show.
    """
    counts: dict[tuple[int | None, int | None], Counter[int]] = {}
    for sums, gpus in attempts:
        for (tokens, step_ns), (windows, _, _) in sums.items():
            if step_ns:
                counts.setdefault((gpus, tokens), Counter())[step_ns] += windows
    return tuple(
        SpeedReference(*setting, given_ns or _percentile(times), times.total())
        for setting, times in sorted(counts.items(), key=_setting_order)
        if given_ns or times.total() >= FEWEST_WINDOWS
    )


def _setting_order(
    counted: tuple[tuple[int | None, int | None], Counter[int]],
) -> tuple[int, int]:
    gpus, tokens = counted[0]
    return (-1 if gpus is None else gpus, -1 if tokens is None else tokens)


def _percentile(times: Counter[int]) -> int:
    """Return the shortest time that one window in ten does not exceed."""
    rank = -(-times.total() // _REFERENCE_SHARE)
    lengths = sorted(times)
    below = list(accumulate(times[length] for length in lengths))
    return lengths[bisect_left(below, rank)]


def attempt_speed(
    sums: WindowSums, references: Sequence[SpeedReference], attempt: AttemptLedger
) -> Speed:
    """Split the effective time of *attempt* at the references of its settings."""
    effective_us = attempt.categories_us.get(Category.EFFECTIVE_TRAINING, 0)
    reference_of = {
        reference.tokens_a_step: reference.step_ns
        for reference in references
        if reference.gpus == attempt.gpus
    }
    at_reference = slowed = slowed_ideal_ns = 0
    for (tokens, step_ns), (_, steps, us) in sums.items():
        reference = reference_of.get(tokens)
        if reference is None:
            continue
        if step_ns <= reference:
            at_reference += us
        else:
            slowed += us
            slowed_ideal_ns += steps * reference
    ideal = slowed_ideal_ns // 1000
    return Speed(at_reference + ideal, slowed - ideal, effective_us - at_reference - slowed)
