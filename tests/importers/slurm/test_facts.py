"""What one life of a Slurm job says."""

import subprocess
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from ett_service.core.words import SLURM_OUTCOMES
from ett_service.importers.importer import ImportedRun
from ett_service.importers.slurm.facts import ALIVE_EVERY_S, Naming, Numbered, imported, numbered
from ett_service.importers.slurm.record import Record
from tests.builders.imports import Wire, ledgers_of
from tests.builders.sacct import record, titles
from tests.examples.conftest import EXAMPLES

HERE = Path("sacct.txt")

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


def run_of(life: Record, attempt: int = 0, naming: Naming | None = None) -> ImportedRun:
    return imported(HERE, life, attempt, (naming or Naming()).job_of(life))


def events_of(life: Record, attempt: int = 0) -> Wire:
    return run_of(life, attempt).events


def test_a_life_waits_begins_and_ends() -> None:
    assert titles(events_of(record(Reason="Resources"))) == [
        ("span queued deferred", "11:55:00"),
        ("phase_started queued", "11:55:00"),
        ("phase_ended queued", "12:00:00"),
        ("span queued Resources", "12:00:00"),
        ("attempt_started", "12:00:00"),
        ("attempt_ended completed", "13:00:00"),
        ("job_ended completed", "13:00:00"),
    ]


def test_waiting_for_another_job_is_no_queueing() -> None:
    life = record(Reason="Dependency")
    spans = [each for each in titles(events_of(life)) if each[0].startswith("span")]
    assert spans == [("span queued Dependency", "11:55:00")]
    (ledger,) = ledgers_of(events_of(life)).values()
    assert ledger.queue_wait_us == 300 * 10**6
    assert ledger.e2e_us == 3600 * 10**6


def test_facts_come_from_the_record() -> None:
    job = next(event for event in events_of(record()) if event["type"] == "job")
    facts = {name: job[name] for name in ("name", "owner", "team", "cluster", "hardware", "gpus")}
    assert facts == {
        "name": "llm", "owner": "ada", "team": "research", "cluster": "alpha",
        "hardware": "h100", "gpus": 16,
    }  # fmt: skip
    assert job["submitted_at"] == "2026-03-01T11:50:00Z"
    assert job["labels"] == {"partition": "gpu", "qos": "normal"}
    begun = next(event for event in events_of(record()) if event["type"] == "attempt_started")
    assert (begun["launch"], begun["attempt"], begun["hosts"], begun["gpus"]) == ("8041", 0, 2, 16)


@pytest.mark.parametrize(
    ("tres", "gpus", "hardware"),
    [
        ("cpu=1,gres/gpu:a100=4,gres/gpu:h100=2", 6, "a100,h100"),
        ("cpu=1,mem=2G,node=1", None, ""),
        ("gres/gpumem=80,gres/gpu=8", 8, ""),
        ("", None, ""),
    ],
)
def test_accelerators_are_those_of_the_allocation(
    tres: str, gpus: int | None, hardware: str
) -> None:
    life = record(AllocTRES=tres)
    assert (life.gpus, life.hardware) == (gpus, hardware)


@pytest.mark.parametrize(
    ("state", "exit_code", "ending"),
    [
        ("FAILED", "3:0", ("failed", 3, None, None)),
        ("FAILED", "0:9", ("failed", 0, 9, None)),
        ("FAILED", "0:0", ("failed", None, None, None)),
        ("TIMEOUT", "0:15", ("failed", 0, 15, None)),
        ("NODE_FAIL", "1:0", ("failed", 1, None, None)),
        ("OUT_OF_MEMORY", "0:125", ("failed", 0, 125, None)),
        ("PREEMPTED", "0:0", ("preempted", 0, None, None)),
        ("CANCELLED by 1000", "0:0", ("cancelled", 0, None, "cancelled by 1000")),
        ("CANCELLED+", "0:0", ("cancelled", 0, None, None)),
        ("REQUEUED", "0:0", ("cancelled", 0, None, None)),
    ],
)
def test_how_it_ended(
    state: str, exit_code: str, ending: tuple[str, int | None, int | None, str | None]
) -> None:
    events = events_of(record(State=state, ExitCode=exit_code))
    end = next(event for event in events if event["type"] == "attempt_ended")
    assert (end["outcome"], end.get("exit_code"), end.get("signal"), end.get("reason")) == ending
    assert end["scheduler_state"] == state.split(maxsplit=1)[0].rstrip("+")
    assert "job_ended" not in {event["type"] for event in events}


def test_the_causes_are_those_of_the_rules() -> None:
    causes = {}
    for state in SLURM_OUTCOMES:
        (ledger,) = ledgers_of(events_of(record(State=state, ExitCode="1:0"))).values()
        causes[state] = (ledger.attempts[0].cause or "").lower()
    assert causes["NODE_FAIL"] == causes["BOOT_FAIL"] == "host"
    assert causes["TIMEOUT"] == causes["DEADLINE"] == "scheduler_timeout"
    assert causes["OUT_OF_MEMORY"] == "oom"
    assert causes["PREEMPTED"] == "preemption"


def test_a_life_that_grows_says_what_it_said_and_more() -> None:
    never = {"Start": "Unknown", "End": "Unknown", "NodeList": "None assigned"}
    stages = [
        record(State="PENDING", AllocTRES="", ElapsedRaw="0", **never),
        record(State="RUNNING", End="Unknown", ElapsedRaw="1000"),
        record(State="RUNNING", End="Unknown", ElapsedRaw="1100"),
        record(),
    ]
    ids = [[event["id"] for event in events_of(life) if event["type"] != "job"] for life in stages]
    for before, after in pairwise(ids):
        assert set(before) - set(after) <= {each for each in before if "-alive-" in each}
    assert ids[1] == ids[2]
    by_id: dict[str, dict[str, object]] = {}
    for event in [event for life in stages for event in events_of(life)]:
        assert by_id.setdefault(event["id"], event) == event


def test_a_running_life_is_alive_now_and_then() -> None:
    assert titles(events_of(record(State="RUNNING", End="Unknown", ElapsedRaw="1000")))[-1] == (
        "heartbeat",
        "12:15:00",
    )
    young = record(State="RUNNING", End="Unknown", ElapsedRaw=str(ALIVE_EVERY_S - 1))
    assert titles(events_of(young))[-1] == ("attempt_started", "12:00:00")


def test_what_was_cancelled_in_the_queue_has_not_begun() -> None:
    for unplaced in (
        {"Start": "None"},
        {"Start": "2026-03-01T13:00:00", "NodeList": "None assigned"},
    ):
        life = record(State="CANCELLED by 0", **unplaced)
        assert titles(events_of(life)) == [
            ("span queued deferred", "11:55:00"),
            ("phase_started queued", "11:55:00"),
            ("phase_ended queued", "13:00:00"),
        ]


def test_an_unknown_state_ends_nothing() -> None:
    assert titles(events_of(record(State="SOMETHING_NEW")))[-1] == ("attempt_started", "12:00:00")


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{name}", "llm-7"),
        ("slurm-{id}", "slurm-8050"),
        ("{cluster}-{name}", "alpha-llm-7"),
        ("{account}/{user}", "research_ada"),
    ],
)
def test_jobs_are_named_by_a_template(template: str, name: str) -> None:
    life = record(JobID="8041_7", JobIDRaw="8050")
    assert Naming(template).job_of(life) == name
    assert Naming(template, "mine").job_of(life) == "mine"


def test_a_job_without_a_name_is_called_as_its_trainer_calls_itself() -> None:
    assert Naming().job_of(record(JobName="")) == "slurm-8041"
    assert Naming().job_of(record(JobName="..")) == "slurm-8041"


@pytest.mark.parametrize("name", ["llm", "a/b|c", "größe 1", "x" * 300, "…", "a\tb", "50%_{x}"])
def test_names_are_those_of_the_scripts(name: str) -> None:
    sources = f". {EXAMPLES}/slurm/settings.sh; . {EXAMPLES}/slurm/events.sh"
    script = f'{sources}; quoted "$(job_of "$1" "" gpu)"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", name], capture_output=True, text=True, check=True
    )
    assert f'"{Naming().job_of(record(JobName=name))}"' == done.stdout


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
