"""The oracle's reading of an attempt's phases: which begin and end belong together."""

from collections.abc import Iterable
from dataclasses import dataclass

from ett_service.core.events import PhaseEnded, PhaseStarted, Progress, SpanOver
from ett_service.core.words import ACTIVITIES, STATIONS, Phase
from tests.core.oracle_lives import Life, named


@dataclass
class Span:
    """A phase over ``[begin, end)``; ``own_end`` is the end that was sent, cut or not."""

    phase: Phase
    begin: int
    end: int
    own_end: int | None


def spans_of(life: Life, end: int, loops: Iterable[tuple[int, int]] = ()) -> list[Span]:
    """The phase spans of an attempt's stream, cut at ``end``.

    ``loops`` are the attempt's: they decide whether a compile began inside one.
    """
    spans = [
        Span(e.phase, named(e), e.at, e.at)
        for e in life.stream
        if isinstance(e, SpanOver) and e.stage is None
    ]
    for (phase, _), edges in _edges(life).items():
        spans += _paired(phase, edges)
    begins = [(span.begin, span.phase) for span in spans]
    progress = [e.at for e in life.stream if isinstance(e, Progress)]
    for span in spans:
        if span.own_end is None:
            signs = [b for b, phase in begins if _closes(phase, span.phase)]
            if _stops_for_progress(span, loops):
                signs += progress
            span.end = min([t for t in signs if t > span.begin], default=end)
        span.end = min(span.end, end)
    return [span for span in spans if span.begin < end]


def _edges(life: Life) -> dict[tuple[Phase, int | None], list[PhaseStarted | PhaseEnded]]:
    edges: dict[tuple[Phase, int | None], list[PhaseStarted | PhaseEnded]] = {}
    for e in life.stream:
        if isinstance(e, PhaseStarted | PhaseEnded) and e.stage is None:
            edges.setdefault((e.phase, e.rank), []).append(e)
    return edges


def _paired(phase: Phase, edges: list[PhaseStarted | PhaseEnded]) -> list[Span]:
    begins = sorted({e.at for e in edges if isinstance(e, PhaseStarted)})
    spans = {begin: Span(phase, begin, begin, None) for begin in begins}
    for end in sorted(e.at for e in edges if isinstance(e, PhaseEnded)):
        last = max((begin for begin in begins if begin < end), default=None)
        for begin in (last, end):
            if begin in spans and spans[begin].own_end is None:
                spans[begin].end = spans[begin].own_end = end
                break
    return list(spans.values())


def _closes(begun: Phase, open_phase: Phase) -> bool:
    if begun is open_phase:
        return True
    if begun not in STATIONS:
        return False
    return open_phase in ACTIVITIES or STATIONS.index(begun) > STATIONS.index(open_phase)


def _stops_for_progress(span: Span, loops: Iterable[tuple[int, int]]) -> bool:
    if span.phase is Phase.PT2_COMPILE:
        return any(start <= span.begin < end for start, end in loops)
    return span.phase in (Phase.CHECKPOINT_BLOCKING, Phase.EVALUATION, Phase.STALLED)
