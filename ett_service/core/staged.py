"""Stage spans of an attempt's stream, and what they sum to.

A stage that was left open ends with the phase span in which it began, else with its attempt.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ett_service.core.answer import StageSum
from ett_service.core.interval import Interval
from ett_service.core.span import NEVER, RANK_OF_PHASE, Span
from ett_service.core.vocabulary import Phase

K = TypeVar("K", bound=Hashable)
_Key = tuple[Phase, str]


class Staged:
    """The stages that the stream reports, and their sums as long as those stand."""

    def __init__(self) -> None:
        self._spans: list[tuple[str, Span]] = []
        self._open = 0
        self._latest_end = -NEVER
        self._changes = 0
        self._summed: tuple[object, tuple[StageSum, ...]] = (None, ())

    def begin(self, stage: str, span: Span) -> None:
        """Take in a stage that began."""
        self._spans.append((stage, span))
        if span.own_end is None:
            self._open += 1
        else:
            self._hear(span.own_end)

    def end(self, at: int) -> None:
        """Know that one of those that began has ended *at*."""
        self._open -= 1
        self._hear(at)

    def over(self, stage: str, span: Span) -> None:
        """Take in a stage that is over."""
        self._spans.append((stage, span))
        self._hear(span.end)

    def _hear(self, end: int) -> None:
        self._changes += 1
        self._latest_end = max(self._latest_end, end)

    def sums(
        self, bounds: Interval, phases: Mapping[Phase, Sequence[Span]]
    ) -> tuple[StageSum, ...]:
        """Sum the stages inside the attempt's *bounds*, in the order of phases, then by name."""
        if not self._spans:
            return ()
        start, end = bounds
        # An end beyond all stages cuts none of them; one of length 0 at the end is not inside.
        key = (self._changes, start, min(end, self._latest_end + 1))
        if self._open or self._summed[0] != key:
            self._summed = (key, tuple(_sums(self._spans, bounds, phases)))
        return self._summed[1]


def _sums(
    spans: Iterable[tuple[str, Span]],
    bounds: Interval,
    phases: Mapping[Phase, Sequence[Span]],
) -> Iterator[StageSum]:
    placed = []
    for stage, span in spans:
        if span.begin < bounds[1]:
            end = _inferred(span, phases) if span.own_end is None else span.own_end
            begin = max(span.begin, bounds[0])
            placed.append((begin, max(begin, min(end, bounds[1])), (span.phase, stage)))
    placed.sort(key=_outer_first)
    inclusive: dict[_Key, list[int]] = {}
    exclusive: dict[_Key, int] = {}
    for begin, end, key in placed:
        inclusive.setdefault(key, []).append(end - begin)
    for key, us in self_times(placed):
        exclusive[key] = exclusive.get(key, 0) + us
    for key in sorted(inclusive, key=lambda key: (RANK_OF_PHASE[key[0]], key[1])):
        lengths = inclusive[key]
        yield StageSum(*key, len(lengths), sum(lengths), exclusive.get(key, 0))


def _outer_first(placed: tuple[int, int, _Key]) -> tuple[int, int, int, str]:
    begin, end, (phase, stage) = placed
    return (begin, RANK_OF_PHASE[phase], -end, stage)


def _inferred(span: Span, phases: Mapping[Phase, Sequence[Span]]) -> int:
    around = (one.end for one in phases.get(span.phase, ()) if one.begin <= span.begin < one.end)
    return max(around, default=NEVER)


def self_times(spans: Iterable[tuple[int, int, K]]) -> Iterator[tuple[K, int]]:
    """Yield the time in which each of *spans* was the open one that came last.

    They are ``(begin, end, key)`` in order of their begins, the outer before the inner.
    """
    stack: list[tuple[int, K]] = []
    at = -NEVER
    ended: tuple[int, int, K | None] = (NEVER, NEVER, None)
    for begin, end, key in (*spans, ended):
        while stack and at < begin:
            top_end, top = stack[-1]
            if top_end <= at:
                stack.pop()
                continue
            until = min(top_end, begin)
            yield top, until - at
            at = until
        at = begin
        if key is not None:
            stack.append((end, key))
