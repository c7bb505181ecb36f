"""Hypothesis strategies for timelines: a job's events, its producers' clocks, and as-of.

``tiny_timelines`` last some microseconds, ``rough_timelines`` hours; both obey nothing and
shrink well. ``tiny_heaps`` and ``rough_heaps`` are the same, larger and denser with ties, but
only their seed shrinks. ``lifelike_timelines`` are stories that a trainer could send;
``restarted_ranks`` are any of these, sent by ranks that begin anew under one count and report of
themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import strategies as st

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
from ett_service.core.ledger.attempts.lifetimes import Limits
from ett_service.core.words import Cause, Origin, Outcome, Phase
from tests.builders.drawn.attributes import with_attributes
from tests.builders.drawn.heap import heaped
from tests.builders.drawn.processes import with_processes
from tests.builders.drawn.story import drawn_story

SECOND = 1_000_000
BIRTH = 1_740_816_000 * SECOND  #: some instant of this century

Instants = st.SearchStrategy[int]


@dataclass(frozen=True, slots=True)
class Timeline:
    """All that a fold is given."""

    events: tuple[Event, ...]
    offsets: dict[str, int]
    as_of: int
    limits: Limits


_launches = st.sampled_from(["", "", "", "8", "41", "a"])
_ranks = st.sampled_from([None, None, 0, 1])
_steps = st.integers(0, 9)
_gpus = st.sampled_from([None, None, 1, 2, 8])
_phases = st.sampled_from(
    [*Phase, Phase.TRAIN_LOOP, Phase.TRAIN_LOOP, Phase.TRAIN_LOOP, Phase.SCHEDULING]
)
_stages = st.sampled_from([*[None] * 5, "save", "image_pull"])
_outcomes = st.sampled_from(
    [Outcome.FAILED, Outcome.PREEMPTED, Outcome.CANCELLED, Outcome.COMPLETED]
)
_origins = st.sampled_from([None, None, *Origin])
_causes = st.sampled_from([None, None, Cause.HOST, Cause.OOM, Cause.UNKNOWN])
_producers = st.sampled_from([None, None, None, "p", "q"])


def _own_members(kind: type[Event], instants: Instants) -> dict[str, st.SearchStrategy[Any]]:
    phase = {"phase": _phases, "stage": _stages}
    ending = {"outcome": _outcomes, "origin": _origins, "cause": _causes}
    members: dict[type[Event], dict[str, st.SearchStrategy[Any]]] = {
        JobFacts: {"gpus": _gpus},
        AttemptStarted: {"gpus": _gpus},
        AttemptEnded: ending,
        JobEnded: ending,
        PhaseStarted: phase,
        PhaseEnded: phase,
        SpanOver: {**phase, "start": instants},
        Progress: {"step": _steps},
        CheckpointSaved: {"step": _steps},
        CheckpointRestored: {"step": _steps},
        Heartbeat: {},
    }
    return members[kind]


_kinds = st.sampled_from(
    [
        JobFacts,
        AttemptStarted,
        AttemptEnded,
        JobEnded,
        PhaseStarted,
        PhaseStarted,
        PhaseStarted,
        PhaseEnded,
        PhaseEnded,
        SpanOver,
        SpanOver,
        Progress,
        Progress,
        Progress,
        CheckpointSaved,
        CheckpointRestored,
        Heartbeat,
    ]
)


@st.composite
def event_lists(draw: st.DrawFn, instants: Instants, clocks: Instants) -> tuple[Event, ...]:
    """Events of every type, of several launches, attempts, cycles, ranks and producers."""
    kinds = draw(st.lists(_kinds, max_size=14))
    launches = draw(st.sampled_from([st.just(""), _launches]))
    return tuple(
        draw(_events(kind, f"e{index}", launches, instants, clocks))
        for index, kind in enumerate(kinds)
    )


def _events(
    kind: type[Event],
    name: str,
    launches: st.SearchStrategy[str],
    instants: Instants,
    clocks: Instants,
) -> st.SearchStrategy[Event]:
    cycles = st.sampled_from([0, 0, 0, 1, 2])
    return st.builds(
        kind,
        id=st.just(name),
        at=instants,
        launch=launches,
        attempt=st.sampled_from([0, 0, 0, 1]),
        cycle=st.none() | cycles if kind is AttemptEnded else cycles,
        rank=_ranks,
        producer=_producers,
        mono_us=st.none() | clocks,
        **_own_members(kind, instants),
    )


@st.composite
def _timelines(
    draw: st.DrawFn,
    instants: Instants,
    clocks: Instants,
    offsets: st.SearchStrategy[int],
    limits: st.SearchStrategy[Limits],
) -> Timeline:
    return Timeline(
        draw(event_lists(instants, clocks)),
        draw(st.dictionaries(st.sampled_from(["p", "q"]), offsets)),
        draw(instants),
        draw(limits),
    )


tiny_timelines = _timelines(
    instants=st.integers(0, 20) | st.integers(0, 200),
    clocks=st.integers(0, 50),
    offsets=st.integers(-2 * SECOND, 2 * SECOND),
    limits=st.builds(Limits, st.sampled_from([10, 40, 400]), st.sampled_from([20, 400])),
)

rough_timelines = _timelines(
    instants=st.one_of(
        st.integers(0, 12).map(lambda n: BIRTH + n * 300 * SECOND),
        st.integers(0, 120).map(lambda n: BIRTH + n * 30 * SECOND),
        st.integers(BIRTH, BIRTH + 3600 * SECOND),
        st.just(BIRTH + 9 * 86_400 * SECOND),
    ),
    clocks=st.integers(0, 3600 * SECOND),
    offsets=st.sampled_from([0, SECOND, 2 * SECOND, -2 * SECOND, 2 * SECOND + 1, -90 * SECOND]),
    limits=st.just(Limits()),
)


def _heap_of_ticks(seed: int) -> Timeline:
    chance = Random(seed)
    limits = Limits(chance.choice([10, 40, 400]), chance.choice([20, 400]))
    events = heaped(chance, birth=0, tick=chance.choice([1, 3]))
    return Timeline(events, {}, chance.randrange(300), limits)


def _heap_of_minutes(seed: int) -> Timeline:
    chance = Random(seed)
    events = heaped(chance, birth=BIRTH, tick=30 * SECOND)
    offsets = {"p": chance.choice([0, 2 * SECOND, 2 * SECOND + 1, -90 * SECOND])}
    passed = chance.choice([chance.randrange(7200), 9 * 86_400])
    return Timeline(events, offsets, BIRTH + passed * SECOND, Limits())


def _story(seed: int) -> Timeline:
    chance = Random(seed)
    events = drawn_story(BIRTH, chance)
    offsets = {"host-1": chance.choice([0, 40 * SECOND])}
    return Timeline(events, offsets, BIRTH + chance.randrange(20_000) * SECOND, Limits())


def _processes(seed: int) -> Timeline:
    chance = Random(seed)
    drawn = chance.choice([_heap_of_ticks, _heap_of_ticks, _heap_of_minutes, _story])(seed)
    sent = with_processes(drawn.events, chance)
    return replace(drawn, events=with_attributes(sent, chance))


_seeds = st.integers(0, 2**48)
tiny_heaps = _seeds.map(_heap_of_ticks)
rough_heaps = _seeds.map(_heap_of_minutes)
lifelike_timelines = _seeds.map(_story)
restarted_ranks = _seeds.map(_processes)

timelines = st.one_of(
    tiny_timelines, rough_timelines, tiny_heaps, rough_heaps, lifelike_timelines, restarted_ranks
)


def in_batches(events: Sequence[Event], chance: Random) -> list[Sequence[Event]]:
    """Cut a sequence at some random places."""
    cuts = sorted(chance.choices(range(len(events) + 1), k=3))
    return [events[i:j] for i, j in pairwise([0, *cuts, len(events)])]
