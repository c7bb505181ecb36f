"""What folding a job's events costs, beside the least that looking at them could cost.

The floor is a bare pass over the same events that only sums durations. The ledger is the job's
segments; the whole answer is every number of the job.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointRestored,
    CheckpointSaved,
    Event,
    Heartbeat,
    PhaseEnded,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.ledger.fold import JobFold
from ett_service.core.words import Outcome, Phase

LEDGER_GOAL, ANSWER_GOAL = 0.03, 0.015
EVENTS = 100
SECOND = 1_000_000
START = 1_760_000_000 * SECOND

_LIFE = (
    (Phase.SCHEDULING, None, 3),
    (Phase.HARDWARE_SETUP, None, 20),
    (Phase.LAUNCHER_INIT, None, 0),
    (Phase.LAUNCHER_INIT, "process_group_init", 6),
    (Phase.LAUNCHER_INIT, "get_first_batch_data", 4),
    (Phase.PT2_COMPILE, None, 60),
)


def attempt(number: int, at: int) -> Iterator[Event]:
    """Yield the 50 events of an attempt: its start, checkpoints among steps, and a crash."""
    count = 0

    def common() -> dict[str, Any]:
        nonlocal count
        count += 1
        return {"id": f"{number}-{count}", "attempt": number, "rank": 0}

    yield AttemptStarted(at=at, gpus=64, **common())
    for phase, stage, seconds in _LIFE:
        yield PhaseStarted(at=at, phase=phase, stage=stage, **common())
        at += seconds * SECOND + 1
        yield PhaseEnded(at=at, phase=phase, stage=stage, **common())
    yield CheckpointRestored(at=at, step=20 * number, **common())
    yield PhaseStarted(at=at, phase=Phase.TRAIN_LOOP, **common())
    saving = Phase.CHECKPOINT_BLOCKING
    for turn in range(4):
        done = 20 * number + 5 * turn
        for step in range(5):
            at += 10 * SECOND
            yield Progress(at=at, step=done + step, **common())
        yield PhaseStarted(at=at + 1, phase=saving, **common())
        yield PhaseEnded(at=at + SECOND, phase=saving, **common())
        yield CheckpointSaved(at=at + SECOND, step=done + 4, **common())
    yield Heartbeat(at=at + 2 * SECOND, **common())
    yield Heartbeat(at=at + 3 * SECOND, **common())
    yield AttemptEnded(at=at + 4 * SECOND, outcome=Outcome.FAILED, signal=9, **common())


def job() -> list[Event]:
    """Return the events of a job of two attempts, in order."""
    events = [*attempt(0, START), *attempt(1, START + 600 * SECOND)]
    assert len(events) == EVENTS, len(events)
    return events


def durations(events: Sequence[Event]) -> int:
    """Sum the durations that the events name, in microseconds, and nothing else."""
    begun: dict[tuple[int, str, str | None], int] = {}
    total = 0
    for event in events:
        if isinstance(event, PhaseStarted):
            begun[event.attempt, event.phase, event.stage] = event.at
        elif isinstance(event, PhaseEnded):
            total += event.at - begun.pop((event.attempt, event.phase, event.stage))
        elif isinstance(event, SpanOver):
            total += event.at - event.start
    return total


def ledger(events: Sequence[Event]) -> None:
    """Fold the events into segments."""
    fold = JobFold()
    fold.add(events, {})
    fold.segments(START + 3600 * SECOND)


def answer(events: Sequence[Event]) -> None:
    """Fold the events into every number of the job."""
    fold = JobFold()
    fold.add(events, {})
    fold.ledger(START + 3600 * SECOND)


def microseconds(work: Callable[[Sequence[Event]], object], events: Sequence[Event]) -> float:
    """Return the processor time of one run, over enough runs for the clock to tell."""
    runs = 20
    began = time.process_time_ns()
    for _ in range(runs):
        work(events)
    return (time.process_time_ns() - began) / runs / 1000


def measured(rounds: int) -> dict[str, float]:
    """Time floor, ledger and answer in turn; medians in microseconds, and their ratios."""
    events = job()
    programs = {"floor": durations, "ledger": ledger, "answer": answer}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            times[name].append(microseconds(program, events))
    results = {f"{name}_us": statistics.median(values) for name, values in times.items()}
    for name in ("ledger", "answer"):
        ratios = (floor / own for floor, own in zip(times["floor"], times[name], strict=True))
        results[f"{name}_ratio"] = statistics.median(ratios)
    return results


def main() -> int:
    """Print what was measured; 3 if a goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = measured(arguments.rounds)
    if arguments.json:
        print(json.dumps(results))
    else:
        print(f"jobs of {EVENTS} events, medians of {arguments.rounds} rounds")
        print(f"floor   {results['floor_us']:8.1f} us   a pass that sums durations")
        for name, goal in (("ledger", LEDGER_GOAL), ("answer", ANSWER_GOAL)):
            per_second = EVENTS / results[f"{name}_us"] * 1e6
            ratio = results[f"{name}_ratio"]
            print(
                f"{name:<7} {results[f'{name}_us']:8.1f} us   {per_second:9,.0f} events/s"
                f"   ratio {ratio:.4f} (goal {goal})"
            )
    met = results["ledger_ratio"] >= LEDGER_GOAL and results["answer_ratio"] >= ANSWER_GOAL
    return 0 if met else 3


if __name__ == "__main__":
    sys.exit(main())
