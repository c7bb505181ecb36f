"""Timelines whose steps come by the hundred, with tokens, and references that users gave."""

from dataclasses import replace
from random import Random

from ett_service.core.events import (
    CheckpointRestored,
    CheckpointSaved,
    Event,
    JobFacts,
    Progress,
)
from tests.builders.drawn.timelines import Timeline

_REFERENCES = ("0.000001", "0.0000004", "0.5", "3")


def paced(timeline: Timeline, chance: Random) -> Timeline:
    """Multiply all steps, and add more ``progress`` beside some event of the timeline."""
    factor = chance.choice([7, 30, 60])
    a_step = chance.choice([None, 3, 1000])
    events = [_scaled(event, factor, a_step) for event in timeline.events]
    if timeline.events:
        events += _progress(chance, chance.choice(timeline.events), timeline, a_step)
    if chance.random() < 0.4:
        label = {"reference_step_seconds": chance.choice(_REFERENCES)}
        events.append(JobFacts(id="given", at=timeline.as_of, labels=label))
    return replace(timeline, events=tuple(events))


def _scaled(event: Event, factor: int, a_step: int | None) -> Event:
    if isinstance(event, Progress):
        step = event.step * factor
        return replace(event, step=step, tokens=None if a_step is None else a_step * step)
    if isinstance(event, CheckpointSaved | CheckpointRestored):
        return replace(event, step=event.step * factor)
    return event


def _progress(chance: Random, beside: Event, timeline: Timeline, a_step: int | None) -> list[Event]:
    instants = [event.at for event in timeline.events]
    low, high = min(instants), max(instants)
    ats = sorted(chance.randint(low, high) for _ in range(chance.randrange(4, 40)))
    step = chance.choice([0, 0, 100])
    events: list[Event] = []
    for place, at in enumerate(ats):
        step = max(0, step + chance.choice([0, 20, 50, 50, 80, 200, -90]))
        tokens = None if a_step is None or chance.random() < 0.1 else a_step * step
        rank = chance.choice([beside.rank] * 9 + [None])
        events.append(
            Progress(
                id=f"pace{place}",
                at=at,
                launch=beside.launch,
                attempt=beside.attempt,
                cycle=beside.cycle,
                rank=rank,
                step=step,
                tokens=tokens,
            )
        )
    return events
