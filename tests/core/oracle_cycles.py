"""The oracle's reading of cycles: whose new process began one, and where other events belong.

Written from the definitions alone, as literally as they read; slow on purpose.
"""

from dataclasses import dataclass, replace

from ett_service.core.events import AttemptEnded, AttemptStarted, Event, SpanOver


@dataclass(frozen=True, order=True)
class Process:
    """A life of a rank, ordered as cycles are given."""

    began: int
    sent: int
    rank: int
    producer: str


def recounted(events: list[Event]) -> list[Event]:
    """The events of every launch, with the cycles that lives show where senders were wrong."""
    groups = {(e.launch, e.attempt) for e in events}
    return [
        event
        for launch, attempt in sorted(groups)
        for event in _of_group([e for e in events if (e.launch, e.attempt) == (launch, attempt)])
    ]


def _of_group(events: list[Event]) -> list[Event]:
    processes = _processes(events)
    slots = [(p.sent, p.rank) for p in processes]
    if len(slots) == len(set(slots)):
        return events
    cycle_of = _cycles(processes)
    return [
        e
        if isinstance(e, AttemptEnded) and e.cycle is None
        else replace(e, cycle=_cycle_of(e, cycle_of))
        for e in events
    ]


def _processes(events: list[Event]) -> list[Process]:
    begins: dict[tuple[int, int, str], list[int]] = {}
    for e in events:
        if isinstance(e, AttemptStarted) and e.rank is not None and e.producer is not None:
            begins.setdefault((e.cycle or 0, e.rank, e.producer), []).append(e.at)
    return sorted(Process(min(instants), *key) for key, instants in begins.items())


def _cycles(processes: list[Process]) -> dict[Process, int]:
    given: dict[Process, int] = {}
    current = -1
    for process in processes:
        taken = any(p.rank == process.rank for p, cycle in given.items() if cycle == current)
        if taken or process.sent > current:
            current = max(current + 1, process.sent)
        given[process] = current
    numbers = sorted(set(given.values()))
    began = {n: min(p.began for p, cycle in given.items() if cycle == n) for n in numbers}
    moved = dict(given)
    for process, cycle in given.items():
        later = [n for n in numbers if n > cycle]
        if not later or process.began == began[cycle]:
            continue
        following = later[0]
        if any(p.rank == process.rank for p, n in given.items() if n == following):
            continue
        if abs(began[following] - process.began) < abs(process.began - began[cycle]):
            moved[process] = following
    return moved


def _cycle_of(event: Event, cycle_of: dict[Process, int]) -> int:
    sent = event.cycle or 0
    for process, cycle in cycle_of.items():
        if (process.sent, process.rank, process.producer) == (sent, event.rank, event.producer):
            return cycle
    of_sender = [p for p in cycle_of if p.sent == sent]
    of_rank = [p for p in of_sender if p.rank == event.rank]
    candidates = {cycle_of[p] for p in of_rank or of_sender}
    if not candidates:
        if sent in cycle_of.values() or sent > max(cycle_of.values()):
            return sent
        candidates = set(cycle_of.values())
    instant = min(event.start, event.at) if isinstance(event, SpanOver) else event.at
    begun = [n for n in candidates if _began(n, cycle_of) <= instant]
    return max(begun) if begun else min(candidates)


def _began(number: int, cycle_of: dict[Process, int]) -> int:
    return min(p.began for p, cycle in cycle_of.items() if cycle == number)
