"""Which records are lives of one launch, and their numbers."""

from itertools import permutations

from ett_service.importers.slurm.attempts import Numbered, numbered
from ett_service.importers.slurm.record import Record
from tests.builders.sacct import record

REQUEUED = record(State="PREEMPTED", End="2026-03-01T12:30:00", ElapsedRaw="1800")
AGAIN = record(
    Submit="2026-03-01T12:30:00",
    Eligible="2026-03-01T12:32:00",
    Start="2026-03-01T12:40:00",
    State="NODE_FAIL",
)
LAST = record(
    Submit="2026-03-01T13:00:00", Eligible="2026-03-01T13:02:00", Start="2026-03-01T13:02:00",
    End="2026-03-01T14:00:00",
)  # fmt: skip


def states(records: list[Record]) -> list[tuple[int, str]]:
    return [(attempt, life.state) for attempt, life in numbered(records)]


def test_each_requeue_is_an_attempt_in_whatever_order_it_is_printed() -> None:
    for records in permutations([REQUEUED, AGAIN, LAST]):
        assert states(list(records)) == [(0, "PREEMPTED"), (1, "NODE_FAIL"), (2, "COMPLETED")]


def test_the_count_of_restarts_is_believed() -> None:
    assert states([LAST._replace(restarts="4")]) == [(4, "COMPLETED")]


def test_of_several_records_of_one_life_the_ended_one_holds() -> None:
    running = LAST._replace(state="RUNNING", end=None)
    for records in permutations([REQUEUED, running, LAST]):
        assert states(list(records)) == [(0, "PREEMPTED"), (1, "COMPLETED")]


def test_a_job_that_was_resized_goes_on_in_its_next_record() -> None:
    before = record(State="RESIZING", End="2026-03-01T12:30:00")
    after = record(
        Submit="2026-03-01T12:30:00", Eligible="2026-03-01T12:30:00",
        Start="2026-03-01T12:30:00", NNodes="1",
    )  # fmt: skip
    (life,) = numbered([after, before])
    assert (life.attempt, life.record.submit, life.record.start, life.record.end) == (
        0,
        before.submit,
        before.start,
        after.end,
    )


def test_components_of_a_heterogeneous_job_are_one_attempt() -> None:
    first = record(JobID="8041+0")
    other = record(JobID="8041+1", JobIDRaw="8042", NNodes="3", AllocTRES="gres/gpu:a100=24")
    (whole,) = numbered([other, first])
    assert whole == Numbered(0, whole.record)
    life = whole.record
    assert (life.launch, life.hosts, life.gpus, life.hardware) == ("8041", 5, 40, "a100,h100")
    assert (life.start, life.end, life.word) == (first.start, first.end, "COMPLETED")


def test_a_heterogeneous_job_ends_as_its_worst_component() -> None:
    components = [record(JobID="8041+0"), record(JobID="8041+1", State="NODE_FAIL", ExitCode="1:0")]
    (whole,) = numbered(components)
    assert (whole.record.word, whole.record.exit_code) == ("NODE_FAIL", "1:0")
    runs = [components[0], components[1]._replace(state="RUNNING", end=None)]
    assert next(numbered(runs)).record.end is None
