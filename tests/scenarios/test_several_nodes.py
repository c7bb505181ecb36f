"""The same crash gives the same ledger, however many real torchrun agents there are."""

import importlib.util
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ett_service.core.events import Event, Progress, SpanOver
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import FAILURES, Category, Outcome
from tests.builders.nodes import DIES_AT, LAST, STEP_SECONDS, TOLD_AT, Nodes, nodes, rendezvous

pytestmark = [
    pytest.mark.torch,
    pytest.mark.xdist_group("several nodes"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.timeout(400),
]

SLURM = {"SLURM_JOB_ID": "8041"}
TOLERANCE_US = 500_000
"""By how much two ledgers of one story may differ."""

Play = Callable[[Nodes], None]


@dataclass(frozen=True)
class Story:
    """A job that is broken off once and ends well: what happens to its nodes."""

    play: Play
    launched: bool = True  #: by ``ett run``
    scheduler: bool = False
    named: bool = True  #: the job, by ``ETT_JOB``
    unreported: int = 0  #: restarts that no agent counts
    disagreeing: int = 0  #: restarts that the agents count differently


def alone(rank: str, how: str, ranks: int = 2) -> Play:
    def play(job: Nodes) -> None:
        job.start(["--standalone", f"--nproc-per-node={ranks}"], rank, how)

    return play


def together(rank: str, how: str) -> Play:
    def play(job: Nodes) -> None:
        for options in rendezvous():
            job.start(options, rank, how)

    return play


def lose_one(job: Nodes) -> None:
    """Lose a node, and start it again."""
    host, other = rendezvous()
    job.start(host)
    job.start(other)
    job.wait_for_step(DIES_AT)
    job.lose(1)
    job.start(other)


def kill_the_agent(job: Nodes) -> None:
    """Kill torchrun alone, whose workers go on without it, and start it again."""
    options = ["--standalone", "--nproc-per-node=2"]
    job.start(options, "0", "hang")  # its workers come to no end, however late they are killed
    job.wait_for_step(TOLD_AT - 2)
    job.orphan(0)
    job.start(options, "0", "hang")


def lose_both(job: Nodes) -> None:
    """Lose both nodes, and start them again."""
    for options in rendezvous():
        job.start(options)
    job.wait_for_step(DIES_AT)
    job.lose(1)
    job.lose(0)
    for options in rendezvous():
        job.start(options)


def shrink(job: Nodes) -> None:
    """Lose one node of two, and go on without it."""
    job.start_two()
    job.wait_for_step(DIES_AT)
    job.lose(0)


def grow(job: Nodes) -> None:
    """Begin with one node, which a second one joins."""
    host, other = rendezvous("1:2")
    job.start(host, "0", "hang")
    job.wait_for_step(DIES_AT - 1)
    job.start(other, "0", "hang")


LONG = {
    "one plain agent": Story(alone("1", "raise"), launched=False),
    "rank 0 dies": Story(together("0", "kill"), scheduler=True, disagreeing=1),
    "plain agents": Story(together("1", "raise"), launched=False, disagreeing=1),
    "plain agents, rank 0": Story(together("0", "raise"), launched=False, disagreeing=1),
    "no scheduler": Story(together("1", "kill"), disagreeing=1),
    "no scheduler and no name": Story(together("1", "raise"), named=False, disagreeing=1),
    "restart in the process": Story(alone("0", "again", ranks=1), scheduler=True),
    "the agent alone is killed": Story(kill_the_agent, scheduler=True, unreported=1),
    "both nodes lost": Story(lose_both, scheduler=True, unreported=1),
    "a node joins late": Story(grow, scheduler=True, unreported=1),
    "a node joins late, plain": Story(grow, launched=False, unreported=1),
}
"""What the agents count is certain; where a node is lost it depends on who sees it first."""

LOST = {
    "a node lost": Story(lose_one, scheduler=True),
    "elastic shrink": Story(shrink, scheduler=True),
    "elastic shrink, plain": Story(shrink, launched=False),
}


def played(story: Story, folder: Path) -> tuple[list[Event], JobLedger]:
    variables = (SLURM if story.scheduler else {}) | ({} if story.named else {"ETT_JOB": ""})
    with nodes(folder, launched=story.launched, **variables) as job:
        story.play(job)
        assert job.wait() == [0] * len(job.agents)
        assert len(job.names()) == 1
        events = job.events()
        ledger = fold(events, {}, time.time_ns() // 1000)
        check_by_the_clock(job, ledger)
    return events, ledger


def check_by_the_clock(job: Nodes, ledger: JobLedger) -> None:
    """Compare the ledger with what the trainers noted themselves, however many agents there were.

    So the ledgers of two stories agree, too, whatever a busy machine took to start each.
    """
    spent: Counter[Category] = Counter()
    for attempt in ledger.attempts:
        spent.update(attempt.categories_us)
    between_us = ledger.e2e_us - spent.total()
    assert spent[Category.RESTART_WAIT] + between_us >= 0
    trained_us = spent[Category.EFFECTIVE_TRAINING] + spent[Category.CHECKPOINT_BLOCKING]
    trained_us += spent[Category.EVALUATION]
    rows = job.diary()
    lead = [(what, at) for rank, what, at, _ in rows if rank == 0]
    entered = [at for what, at in lead if what == "entered"]
    died = [at for _, what, at, _ in rows if what == "died"]
    if not died:
        return  # nobody has noted when
    assert trained_us == pytest.approx(LAST * STEP_SECONDS * 1e6, abs=TOLERANCE_US)
    (left,) = [at for what, at in lead if what == "left"]
    repeated_us = spent[Category.REPEATED_TRAINING] + spent[Category.STALLED]
    in_loops_us = died[0] - entered[0] + left - entered[1]
    assert trained_us + repeated_us == pytest.approx(in_loops_us, abs=TOLERANCE_US)
    began = min(agent for _, what, _, agent in rows if what == "entered")
    if job.launched:  # `ett run` begins the attempt, and starts the agent when the machine lets it
        assert ledger.started_at is not None
        assert ledger.started_at - TOLERANCE_US < began
        began = ledger.started_at
    starting_us = spent[Category.LAUNCHER_INIT] + spent[Category.UNATTRIBUTED] + between_us
    waited_us = entered[0] - began + entered[1] - died[0]
    assert starting_us == pytest.approx(waited_us, abs=TOLERANCE_US)
    e2e_us = ledger.e2e_us - spent[Category.SHUTDOWN]
    assert e2e_us == pytest.approx(left - began, abs=TOLERANCE_US)


def check_one_failure(events: Sequence[Event], ledger: JobLedger) -> None:
    """One launch of two cycles; from the checkpoint to the last step reported all is repeated."""
    broken, resumed = ledger.attempts
    assert broken.outcome in FAILURES
    assert resumed.outcome is Outcome.COMPLETED
    assert ledger.failures == 1
    assert [attempt.cycle for attempt in ledger.attempts] == [0, 1]
    assert len({event.launch for event in events}) == 1
    assert resumed.last_step == LAST
    assert broken.categories_us.get(Category.REPEATED_TRAINING, 0) == 0
    repeated = [s for s in ledger.segments if s.category is Category.REPEATED_TRAINING]
    assert repeated[0].start_at == resumed.loop_started_at
    assert repeated[-1].end_at == pytest.approx(caught_up_at(events, resumed.started_at), abs=2)
    assert ledger.quality.steps_went_back == ledger.quality.ends_without_begin == 0


def caught_up_at(events: Sequence[Event], restart_at: int) -> float:
    """When the step that was last reported before the crash was reached again."""
    progress = [event for event in events if isinstance(event, Progress)]
    mark = max(e.step for e in progress if e.at < restart_at)
    assert mark >= TOLD_AT
    again = [e for e in progress if e.at >= restart_at]
    before = max((e for e in again if e.step <= mark), key=lambda e: e.step)
    after = min((e for e in again if e.step > mark), key=lambda e: e.step)
    share = (mark - before.step) / (after.step - before.step)
    return before.at + share * (after.at - before.at)


def test_one_agent_counts_its_restart(tmp_path: Path) -> None:
    events, ledger = played(Story(alone("1", "kill"), scheduler=True), tmp_path / "job")

    check_one_failure(events, ledger)
    assert ledger.attempts[0].outcome is Outcome.FAILED
    quality = ledger.quality
    assert (quality.unreported_restarts, quality.restart_counts_disagree) == (0, 0)
    assert {(0, "rendezvous"), (1, "rendezvous")} <= stages_of(events)


def stages_of(events: Sequence[Event]) -> set[tuple[int | None, str | None]]:
    return {(event.cycle, event.stage) for event in events if isinstance(event, SpanOver)}


@pytest.mark.long
def test_two_agents_of_which_one_counts_a_restart_give_the_same_ledger(tmp_path: Path) -> None:
    events, ledger = played(Story(together("1", "kill"), scheduler=True), tmp_path / "job")

    check_one_failure(events, ledger)
    assert ledger.attempts[0].outcome is Outcome.FAILED
    quality = ledger.quality
    assert (quality.unreported_restarts, quality.restart_counts_disagree) == (0, 1)


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
def test_a_crash_is_one_failure_whoever_launched_the_job(name: str, tmp_path: Path) -> None:
    story = LONG[name]
    events, ledger = played(story, tmp_path / "job")

    check_one_failure(events, ledger)
    assert ledger.quality.unreported_restarts == story.unreported
    assert ledger.quality.restart_counts_disagree == story.disagreeing


@pytest.mark.long
@pytest.mark.parametrize("name", LOST)
def test_a_lost_node_is_one_failure_whether_it_comes_back_or_not(name: str, tmp_path: Path) -> None:
    events, ledger = played(LOST[name], tmp_path / "job")
    check_one_failure(events, ledger)
    # Who sees first that a node is gone decides whether its restart is counted by an agent.
    assert ledger.quality.unreported_restarts + ledger.quality.restart_counts_disagree <= 1
