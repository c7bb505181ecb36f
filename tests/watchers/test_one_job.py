"""One job that its trainer, Slurm and Kubernetes tell of at once, in every order, or not all."""

import json
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from tests.builders import one_job, otlp
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.imports import Wire
from tests.builders.kubernetes import START, at
from tests.builders.one_job import (
    END,
    GPUS,
    LAUNCH,
    LIVES,
    NAME,
    PLACED,
    RESTARTED,
    RUNS,
    Life,
    Process,
)
from tests.builders.servers.application import Service

SLURM, KUBERNETES, TRAINER = SENDERS = ("slurm", "kubernetes", "trainer")
REPEATED = 40  #: seconds of steps that each process takes anew after the checkpoint
LAST_WORD = 10  #: so long before the end of its first life the trainer is heard last
Sent = dict[str, Wire]
Senders = tuple[str, ...]
SUBSETS = [some for count in (1, 2, 3) for some in combinations(SENDERS, count)]

SECONDS = range(5, END, 10)

pytestmark = ON_ONE_ENGINE


@pytest.fixture(params=[LIVES, RESTARTED], ids=["requeued", "restarted"])
def lives(request: pytest.FixtureRequest) -> Sequence[Life]:
    story: Sequence[Life] = request.param
    return story


@pytest.fixture
def sent(lives: Sequence[Life], tmp_path: Path) -> Sent:
    """What each of them says once all is over."""
    return {
        SLURM: one_job.by_slurm(tmp_path, lives),
        KUBERNETES: one_job.by_kubernetes(lives),
        TRAINER: one_job.by_trainer(lives),
    }


class Stories:
    """Tells the job to the service again and again, each time under another name."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._count = 0

    def answer(self, *batches: Wire, settles: bool = False) -> dict[str, Any]:
        """Return the job's answer and ledger after these batches have come in their order."""
        self._count += 1
        name = f"llm-{self._count}"
        for batch in batches:
            for start in range(0, len(batch), 200):
                part = [{**event, "job": name} for event in batch[start : start + 200]]
                assert self._service.send(part).status_code == 200
            if settles:
                self._service.settle()
        self._service.settle()
        path = f"/v1/jobs/{name}"
        answer = self._service.get(path) | {"ledger": self._service.get(f"{path}/ledger")}
        ours: dict[str, Any] = json.loads(json.dumps(answer).replace(name, "llm"))
        return ours


@pytest.fixture
def stories(service: Service) -> Stories:
    service.clock.now_us = int((START.timestamp() + END + 86_400) * 1e6)
    return Stories(service)


def expected(second: int, lives: Sequence[Life], senders: Senders) -> str | None:
    """What a second is by the story, as far as *senders* can know; None outside of the job."""
    begin = lives[0].start + (RUNS if senders == (TRAINER,) else 0)
    if second < begin:
        return None
    for life in lives:
        if life.start <= second < life.end:
            return _inside(second, life, senders)
    return "restart_wait"


def _inside(second: int, life: Life, senders: Senders) -> str:
    since = second - life.start
    unseen = "restart_wait" if senders == (TRAINER,) else "unattributed"
    if since < RUNS:
        placing = "scheduling" if since < PLACED else "hardware_setup"
        return placing if KUBERNETES in senders else unseen
    for process in life.processes:
        if process.begin <= second < process.end:
            is_unheard = life.end != END and second >= life.end - LAST_WORD
            is_silent = TRAINER not in senders or (is_unheard and senders == (TRAINER,))
            return unseen if is_silent else _trained(second, process)
    return "unattributed" if senders == (SLURM,) else "restart_wait"


def _trained(second: int, process: Process) -> str:
    if second < process.loop:
        return "launcher_init"
    is_repeated = process.resumed_from and second < process.loop + REPEATED
    return "repeated_training" if is_repeated else "effective_training"


def painted(answer: dict[str, Any]) -> dict[int, str]:
    """The category of every tenth second, five seconds away from all that happens."""
    return {
        second: segment["category"]
        for segment in answer["ledger"]["segments"]
        for second in SECONDS
        if at(segment["start"]) <= START.timestamp() + second < at(segment["end"])
    }


def attempts(answer: dict[str, Any]) -> list[tuple[str, int, int, str]]:
    return [
        (each["launch"], each["attempt"], each["cycle"], each["outcome"])
        for each in answer["attempts"]
    ]


def expected_attempts(
    lives: Sequence[Life], senders: Senders
) -> Iterator[tuple[str, int, int, str]]:
    """Slurm, which does not see into an allocation, knows of one process in each."""
    cut_short = "lost" if senders == (TRAINER,) else "preempted"
    for life in lives:
        *failed, last = [each.cycle for each in life.processes]
        if senders == (SLURM,):
            failed, last = [], 0
        yield from ((LAUNCH, life.attempt, cycle, "failed") for cycle in failed)
        yield LAUNCH, life.attempt, last, "completed" if life.end == END else cut_short


@pytest.mark.parametrize("senders", SUBSETS, ids="+".join)
def test_whoever_reports_it_and_in_whatever_order_it_is_one_job(
    stories: Stories, sent: Sent, lives: Sequence[Life], senders: Senders
) -> None:
    answers = [stories.answer(*(sent[each] for each in order)) for order in permutations(senders)]
    answer = answers[0]
    assert answers == [answer] * len(answers)

    seconds = {second: expected(second, lives, senders) for second in SECONDS}
    assert painted(answer) == {second: what for second, what in seconds.items() if what}
    assert attempts(answer) == list(expected_attempts(lives, senders))
    assert {each["gpus"] for each in answer["attempts"]} == {GPUS}
    assert answer["queue_wait_seconds"] == (0 if senders == (TRAINER,) else lives[0].start)
    assert answer["state"] == "finished"


IN_A_JOBSET: dict[str, otlp.Value] = {
    "k8s.job.name": "llm-workers-0",
    "k8s.pod.uid": "3b1f",
    "k8s.pod.label.jobset.sigs.k8s.io/jobset-name": NAME,
    "nemo.run.id": "run-7",
    "dl.world_size": GPUS,
}


@pytest.mark.parametrize("tells_the_uid", [True, False], ids=["uid", "name"])
def test_spans_beside_the_watcher_of_kubernetes_are_of_its_attempts(
    stories: Stories, lives: Sequence[Life], tmp_path: Path, tells_the_uid: bool
) -> None:
    """Neither the run's number nor the Job of which a JobSet is made is a launch."""
    uid = k8s.uid(NAME)
    more = {"k8s.pod.label.jobset.sigs.k8s.io/jobset-uid": uid} if tells_the_uid else {}
    spans = one_job.by_otlp(tmp_path, lives, IN_A_JOBSET | more)
    assert {event["job"] for event in spans} == {NAME}
    watched = one_job.by_kubernetes(lives, is_named=False)

    answers = [stories.answer(*order) for order in permutations([watched, spans])]
    chance = Random(1)
    for _ in range(3):
        shuffled = chance.sample(events := [*watched, *spans], len(events))
        answers.append(stories.answer(shuffled[::2], shuffled[1::2], settles=True))

    answer = answers[0]
    assert answers == [answer] * len(answers)
    # Nothing in the pods says of which attempt they are: each set of them is a cycle.
    outcomes = [each[-1] for each in expected_attempts(lives, (KUBERNETES, TRAINER))]
    assert attempts(answer) == [(uid, 0, cycle, each) for cycle, each in enumerate(outcomes)]
    both = {second: expected(second, lives, (KUBERNETES, TRAINER)) for second in SECONDS}
    assert painted(answer) == {second: what for second, what in both.items() if what}


def test_what_they_say_may_come_event_by_event_in_any_order(stories: Stories, sent: Sent) -> None:
    check_interleavings(stories, sent, range(3))


@pytest.mark.long
def test_what_they_say_may_come_in_a_hundred_orders(stories: Stories, sent: Sent) -> None:
    check_interleavings(stories, sent, range(100))


def check_interleavings(stories: Stories, sent: Sent, seeds: range) -> None:
    """Shuffle all events, of each sender's copies too, and fold them in between."""
    whole = stories.answer(*sent.values())
    events = [event for sender in SENDERS for event in sent[sender]]
    for seed in seeds:
        chance = Random(seed)
        shuffled = chance.sample(events + events[::7], len(events) + len(events[::7]))
        cuts = sorted(chance.sample(range(len(shuffled)), 5))
        batches = [shuffled[a:b] for a, b in pairwise([0, *cuts, len(shuffled)])]
        assert stories.answer(*batches, settles=True) == whole, seed


@pytest.mark.parametrize("senders", SUBSETS, ids="+".join)
def test_who_watches_while_it_goes_on_reports_the_same_as_who_looks_afterwards(
    stories: Stories, sent: Sent, lives: Sequence[Life], tmp_path: Path, senders: Senders
) -> None:
    watched = {
        SLURM: one_job.watched_in_slurm(tmp_path, lives),
        KUBERNETES: one_job.watched_in_kubernetes(lives),
        TRAINER: sent[TRAINER],
    }
    events = sorted((e for each in senders for e in watched[each]), key=lambda e: e["at"])
    live = stories.answer(events)
    afterwards = stories.answer(*(sent[each] for each in senders))
    for attempt in (*live["attempts"], *afterwards["attempts"]):
        del attempt["last_heard_at"]  # Slurm's signs of life know no restarts inside
    assert live == afterwards
