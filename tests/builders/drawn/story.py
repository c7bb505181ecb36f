"""Stories of training jobs, as a trainer and its launcher would send them, a little damaged."""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointRestored,
    CheckpointSaved,
    Event,
    Heartbeat,
    JobEnded,
    JobFacts,
    PhaseEnded,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.words import Origin, Outcome, Phase

_SECOND = 1_000_000
_JOB_ENDINGS = (Outcome.COMPLETED, Outcome.COMPLETED, Outcome.FAILED)
_ENDINGS = (Outcome.FAILED, Outcome.FAILED, Outcome.PREEMPTED, Outcome.CANCELLED)


@dataclass
class Narrator:
    """How far a story is, and what was sent so far."""

    chance: Random
    now: int
    launch: str = ""
    attempt: int = 0
    cycle: int = 0
    step: int = 0
    saved: int = 0
    events: list[Event] = field(default_factory=list)

    def send(self, kind: type[Event], **members: Any) -> None:
        """Send one event that happens now."""
        source = {"launch": self.launch, "attempt": self.attempt, "cycle": self.cycle}
        name = f"e{len(self.events)}"
        self.events.append(kind(**{"id": name, "at": self.now, **source, **members}))

    def wait(self, most_s: int) -> int:
        """Let up to so many seconds pass; return when they began."""
        began = self.now
        self.now += self.chance.randrange(most_s * _SECOND)
        return began

    def pass_through(self, phase: Phase, most_s: int, rank: int | None = None) -> None:
        """Be in a phase for a while."""
        if self.chance.random() < 0.5:
            self.send(PhaseStarted, phase=phase, rank=rank)
            self.wait(most_s)
            self.send(PhaseEnded, phase=phase, rank=rank)
        else:
            start = self.wait(most_s)
            self.send(SpanOver, phase=phase, start=start, rank=rank)


def drawn_story(birth: int, chance: Random) -> tuple[Event, ...]:
    """One job of one to four attempts, with some events lost and one producer's clock off."""
    narrator = Narrator(chance, birth, launch=chance.choice(["", "8041"]))
    narrator.send(JobFacts, gpus=chance.choice([None, 8, 64]))
    for _ in range(chance.choice([1, 1, 2, 3])):
        for _ in range(chance.randrange(1, 5)):
            _attempt(narrator)
            _restart(narrator)
        if chance.random() < 0.4:
            narrator.send(JobEnded, outcome=chance.choice(_JOB_ENDINGS))
            _begin_again(narrator)
    lost = chance.choice([0.0, 0.0, 0.1])
    return tuple(_stamped(e) for e in narrator.events if chance.random() >= lost)


def _begin_again(narrator: Narrator) -> None:
    """Use the job's name again, mostly in another launch."""
    narrator.wait(2_000)
    if narrator.launch and narrator.chance.random() < 0.9:
        narrator.launch = str(int(narrator.launch) + 1)
        narrator.attempt = narrator.cycle = narrator.step = 0


def _restart(narrator: Narrator) -> None:
    narrator.wait(600)
    way = narrator.chance.choice(["cycle", "attempt", "launch"])
    if way == "cycle":
        narrator.cycle += 1
    elif way == "attempt":
        narrator.attempt, narrator.cycle = narrator.attempt + 1, 0
    elif narrator.launch:
        narrator.launch = str(int(narrator.launch) + 1)
        narrator.attempt = narrator.cycle = 0


def _attempt(narrator: Narrator) -> None:
    chance = narrator.chance
    if narrator.cycle == 0:
        narrator.pass_through(Phase.QUEUED, 900)
        narrator.pass_through(Phase.SCHEDULING, 60)
        narrator.send(AttemptStarted, gpus=chance.choice([None, 8, 16]))
        narrator.pass_through(Phase.HARDWARE_SETUP, 120)
    narrator.send(PhaseStarted, phase=Phase.LAUNCHER_INIT, rank=0)
    narrator.wait(120)
    if chance.random() < 0.5 and narrator.saved:
        narrator.step = narrator.saved
        narrator.send(CheckpointRestored, step=narrator.saved, rank=0)
    narrator.pass_through(Phase.PT2_COMPILE, 200, rank=0)
    if chance.random() < 0.85:
        _loop(narrator)
    _ending(narrator)


def _loop(narrator: Narrator) -> None:
    chance = narrator.chance
    narrator.send(PhaseStarted, phase=Phase.TRAIN_LOOP, rank=0)
    for _ in range(chance.randrange(2, 9)):
        narrator.wait(120)
        narrator.step += chance.randrange(1, 50)
        narrator.send(Progress, step=narrator.step, rank=0)
        _interlude(narrator)
    if chance.random() < 0.3:
        narrator.wait(1200)
    if chance.random() < 0.4:
        narrator.send(PhaseEnded, phase=Phase.TRAIN_LOOP, rank=0)


def _interlude(narrator: Narrator) -> None:
    chance = narrator.chance
    match chance.randrange(6):
        case 0:
            narrator.pass_through(Phase.CHECKPOINT_BLOCKING, 40, rank=0)
            narrator.saved = narrator.step
            narrator.send(CheckpointSaved, step=narrator.step, rank=0)
        case 1:
            phase = chance.choice([Phase.EVALUATION, Phase.STALLED, Phase.PT2_COMPILE])
            narrator.pass_through(phase, 60, rank=0)
        case 2:
            narrator.send(Heartbeat, rank=1)
        case _:
            pass


def _ending(narrator: Narrator) -> None:
    chance = narrator.chance
    if chance.random() < 0.3:
        narrator.pass_through(Phase.SHUTDOWN, 120, rank=0)
    if chance.random() < 0.8:
        outcome = chance.choice(_ENDINGS)
        origin = chance.choice([None, *Origin]) if outcome is Outcome.FAILED else None
        narrator.send(AttemptEnded, outcome=outcome, origin=origin, cycle=narrator.cycle)


def _stamped(event: Event) -> Event:
    """Rank 1 is a process of its own, on a host whose clock may be off."""
    if event.rank != 1:
        return event
    return replace(event, producer="host-1", mono_us=event.at % (10**12))
