"""How one job moved the counters of ``/metrics`` from one instant to the next."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ett_service.core.events import Exclusion
from ett_service.core.fleet.counters import (
    BETWEEN_RUNS,
    DEDUCTIONS,
    counter_changes,
    dated_amounts,
    owner,
    sum_of,
)
from ett_service.core.fleet.owned_time import Frame, OwnedTime, owned_time
from ett_service.core.intervals import Interval, merged, outside
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome, Phase


class Steps(NamedTuple):
    """Instants at which counters are read: every *step_us* since the Unix epoch, and the last."""

    step_us: int
    last_at: int = NEVER

    def after(self, at: int) -> int:
        """Return the first that lies after *at*; what *at* is too late for has none."""
        return min(at - at % self.step_us + self.step_us, self.last_at)


_OpenMoves: TypeAlias = defaultdict[str, defaultdict[int, int]]

Moves: TypeAlias = Mapping[str, Mapping[int, int]]
"""By counter key, then by the instant at which it is first read: by how much it moves."""


def counter_steps(ledger: JobLedger, steps: Steps, exclusions: Sequence[Exclusion] = ()) -> Moves:
    """Return how much the job moves each counter from one of *steps* to the next.

    Time lies where it passed, and what has no length at its instant; what is excluded, and what
    comes after the last step, is left out. Of an attempt's stalled time the last part is its
    silent tail: a ledger does not distinguish them where they touch.
    """
    moves: _OpenMoves = defaultdict(lambda: defaultdict(int))
    frame = Frame(ledger, exclusions)
    if not frame.fits:
        return {}
    running = {attempt.number for attempt in ledger.attempts if attempt.outcome is Outcome.RUNNING}
    excluded = merged(map(_interval, exclusions))
    for phase, owned in _reported(ledger, frame):
        keys = _keys(phase, owned, is_open=owned.number in running)
        for span in outside((owned.start_at, owned.end_at), excluded):
            for at, us in _passed(span, steps):
                for key, weight in keys:
                    moves[key][at] += us * weight
    _add_changes(moves, ledger, frame, steps)
    return moves


def _add_changes(moves: _OpenMoves, ledger: JobLedger, frame: Frame, steps: Steps) -> None:
    for run in ledger.runs:
        if run.idle_before_us and run.sign_at < steps.last_at and not frame.excluded(run.sign_at):
            moves[BETWEEN_RUNS][steps.after(run.sign_at)] += run.idle_before_us
    for at, key, amount in dated_amounts(ledger):
        if amount and at < steps.last_at and not frame.excluded(at):
            moves[key][steps.after(at)] += amount
    for change in counter_changes(ledger):
        if change.at_us >= steps.last_at or frame.excluded(change.at_us):
            continue
        at = steps.after(change.at_us)
        moves[change.key][at] += 1
        if change.seen is not None:
            moves[sum_of(change.key)][at] += change.seen.us


def _reported(ledger: JobLedger, frame: Frame) -> Iterator[tuple[str, OwnedTime]]:
    """Yield the job's time and who owned it as it was reported, silent tails cut off."""
    reported = {
        attempt.number: attempt.categories_us.get(Category.STALLED, 0) - attempt.silent_tail_us
        for attempt in ledger.attempts
    }
    for owned in owned_time(ledger, frame):
        start, end, category, _, number, *_ = owned
        if category is not Category.STALLED or number is None:
            yield owner(category), owned
            continue
        tail_at = min(end, start + reported[number])
        reported[number] -= tail_at - start
        if start < tail_at:
            yield owner(category), owned._replace(end_at=tail_at)
        if tail_at < end:
            yield Phase.TRAIN_LOOP.value, owned._replace(start_at=tail_at)


def _keys(phase: str, owned: OwnedTime, *, is_open: bool) -> list[tuple[str, int]]:
    """Return the counters that the time moves, and by how much a microsecond of it does."""
    category, weight = owned.category, owned.gpus
    keys = [(f"phase_seconds:{phase}", 1)]
    if weight:
        keys.append((f"phase_weighted_seconds:{phase}/{str(owned.held).lower()}", weight))
    # The next progress takes a running attempt's silent tail back.
    is_taken_back = is_open and category is Category.STALLED
    if (phase, category.value) in DEDUCTIONS and not is_taken_back:
        keys.append((f"deducted_seconds:{phase}/{category}", 1))
        if weight:
            keys.append((f"deducted_weighted_seconds:{phase}/{category}", weight))
    return keys


def _passed(span: Interval, steps: Steps) -> Iterator[tuple[int, int]]:
    """Cut a span at the steps: yield the end of each, and how much of the span lies in it."""
    at, end = span[0], min(span[1], steps.last_at)
    while at < end:
        read_at = steps.after(at)
        stop = min(end, read_at)
        yield read_at, stop - at
        at = stop


def _interval(exclusion: Exclusion) -> Interval:
    start, end = exclusion
    return (-NEVER if start is None else start, NEVER if end is None else end)
