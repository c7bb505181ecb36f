"""Ranks as processes of their own, restarted under one count, late, or forked."""

from dataclasses import replace
from random import Random

from ett_service.core.events import AttemptEnded, AttemptStarted, Event, JobEnded, JobFacts


def with_processes(events: tuple[Event, ...], chance: Random) -> tuple[Event, ...]:
    """Give events to some lives of some ranks, the launcher, or a child that a rank forked.

    Each life begins with an ``attempt_started`` at some instant of the events; what it sends may
    lie before that, as clocks have it.
    """
    own = [event for event in events if not isinstance(event, JobFacts | JobEnded)]
    if not own:
        return events
    launches = sorted({(event.launch, event.attempt) for event in own})
    instants = sorted({event.at for event in own})
    starts: list[Event] = []
    for number in range(chance.randrange(2, 9)):
        launch, attempt = chance.choice(launches)
        start = AttemptStarted(
            id=f"life{number}",
            at=chance.choice(instants) + chance.choice([0, 0, 1, -1]),
            launch=launch,
            attempt=attempt,
            cycle=chance.choice([None, 0, 0, 0, 1, 2]),
            rank=chance.randrange(3),
            producer=f"life{number}",
            gpus=chance.choice([None, 4]),
        )
        starts.append(start)
        if chance.random() < 0.1:
            starts.append(replace(start, id=f"again{number}", at=chance.choice(instants)))
    given = [_given(event, starts, chance) for event in events]
    return (*given, *starts)


def _given(event: Event, starts: list[Event], chance: Random) -> Event:
    same = [s for s in starts if (s.launch, s.attempt) == (event.launch, event.attempt)]
    if not same or isinstance(event, JobFacts | JobEnded) or chance.random() < 0.2:
        return event
    life = chance.choice(same)
    cycle = life.cycle
    if isinstance(event, AttemptEnded) and chance.random() < 0.3:
        cycle = None
    by = chance.random()
    if by < 0.7:
        return replace(event, cycle=cycle, rank=life.rank, producer=life.producer, mono_us=None)
    rank = life.rank if by < 0.85 else None
    return replace(event, cycle=cycle, rank=rank, producer="other", mono_us=None)
