"""One job of Slurm that its trainer, the scripts on the controller and the accounting tell of."""

import json
import random
import time
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import pytest

from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category
from ett_service.importers.instants import zone
from ett_service.importers.slurm.sacct import read
from tests.builders.imports import Wire, ledgers_of
from tests.builders.sacct import row, written
from tests.examples.slurm import Hooks, beginning, end

JOB = 8041
SENDERS = ("accounting", "scripts", "trainer")


def at(second: float) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat(timespec="microseconds")


def by_scripts(hooks: Hooks) -> tuple[list[int], Wire]:
    """A life that is preempted and one that fails, each of a second or more, and its seconds."""
    times = [int(time.time()) - 100]
    for restarts, state, code in ((0, "PREEMPTED", "0:0"), (1, "FAILED", "1:0")):
        begun = time.time()
        hooks.run("prolog.sh", beginning(JOB, restarts=restarts))
        time.sleep(1.1)
        ended = end(JOB, state, code)
        hooks.run("epilog.sh", ended | {"SUBMIT": times[-1], "START": int(begun)})
        times += [int(begun), int(str(ended["END"]))]
    batches = [json.loads(path.read_text()) for path in hooks.unsent]
    return times, [event for batch in batches for event in batch["events"]]


def by_accounting(folder: Path, times: list[int]) -> Wire:
    texts = [at(second)[:19] for second in times]
    who = {"JobID": str(JOB), "AllocTRES": "gres/gpu=16", "ElapsedRaw": ""}
    first = dict(zip(("Submit", "Eligible", "Start", "End"), [texts[0], *texts[:3]], strict=True))
    second = dict(zip(("Submit", "Eligible", "Start", "End"), [texts[2], *texts[2:]], strict=True))
    path = written(
        folder,
        row(**who, **first, State="PREEMPTED"),
        row(**who, **second, State="FAILED", ExitCode="1:0"),
    )
    runs, _ = read([path], zone=zone("UTC"))
    return [event for run in runs for event in run.events]


def by_trainer(times: list[int]) -> Wire:
    whose = {"job": "llm", "launch": str(JOB), "rank": 0}
    events: Wire = []
    for attempt, begun in enumerate((times[1], times[3])):
        of_attempt = {**whose, "attempt": attempt}
        events += [
            {"type": "attempt_started", "at": at(begun + 0.98), "gpus": 16, **of_attempt},
            {"type": "phase_started", "at": at(begun + 0.98), "phase": "train_loop", **of_attempt},
            {"type": "progress", "at": at(begun + 0.99), "step": attempt + 1, **of_attempt},
        ]
    killed = {"outcome": "failed", "exit_code": 1, "exception": "CUDA out of memory"}
    last = {**whose, "attempt": 1, "at": at(times[4] + 0.05)}
    events.append({"type": "attempt_ended", **killed, **last})
    return [{"id": f"t{number}", **event} for number, event in enumerate(events)]


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Wire]:
    """What each sender says."""
    folder = tmp_path_factory.mktemp("slurm")
    times, scripts = by_scripts(Hooks.install(folder / "ett", "http://127.0.0.1:9", "ett_none"))
    accounting = by_accounting(folder, times)
    return dict(zip(SENDERS, (accounting, scripts, by_trainer(times)), strict=True))


def folded(sent: dict[str, Wire], senders: tuple[str, ...]) -> JobLedger:
    events = [event for sender in senders for event in sent[sender]]
    random.Random(len(events)).shuffle(events)
    (ledger,) = ledgers_of(events).values()
    return ledger


@pytest.mark.parametrize(
    "senders", [some for count in (1, 2, 3) for some in combinations(SENDERS, count)]
)
def test_whoever_reports_it_reports_one_job_and_the_same_attempts(
    sent: dict[str, Wire], senders: tuple[str, ...]
) -> None:
    ledger = folded(sent, senders)
    whole = folded(sent, SENDERS)

    attempts = [(each.launch, each.attempt, each.cycle) for each in ledger.attempts]
    assert attempts == [(str(JOB), 0, 0), (str(JOB), 1, 0)]
    outcomes = [each.outcome.value for each in ledger.attempts]
    assert outcomes == ["lost" if senders == ("trainer",) else "preempted", "failed"]
    assert (ledger.attempts[1].cause == "oom") == ("trainer" in senders)
    assert {each.gpus for each in ledger.attempts} == {16}
    trained = {share.category for share in ledger.shares} & {Category.EFFECTIVE_TRAINING}
    assert bool(trained) == ("trainer" in senders)
    if senders != ("trainer",):
        assert abs(ledger.e2e_us - whole.e2e_us) < 2 * 10**6


def test_what_two_of_them_say_of_the_queue_is_the_same(sent: dict[str, Wire]) -> None:
    waits = {sender: folded(sent, (sender,)).queue_wait_us for sender in ("accounting", "scripts")}
    assert waits["accounting"] == waits["scripts"] == folded(sent, SENDERS).queue_wait_us
