"""The real Ray Train with two workers, of which one breaks."""

import subprocess
from pathlib import Path

import pytest

from tests.builders.frameworks import (
    PYTHON,
    Run,
    example,
    ledger_of,
    lives,
    needed,
    run,
    seconds,
)
from tests.builders.servers.web import serving
from tests.builders.trainers import environment

pytestmark = [pytest.mark.long, pytest.mark.torch, pytest.mark.xdist_group("frameworks")]

MODULE = "ett_service.client.frameworks.ray"
FAULTS = Path(__file__).parent / "programs" / "faults.py"


def test_each_worker_and_each_life_is_recorded_and_the_controller_reports_who_died(
    tmp_path: Path,
) -> None:
    needed("ray")
    (tmp_path / "out").mkdir()
    program = example("ray_trainer.py", tmp_path / "out").program
    with serving() as web:
        env = environment(tmp_path / "spool", web.url, RAY_TRAIN_V2_ENABLED="1")
        del env["ETT_JOB"]  # the name of the run is the job
        done = subprocess.run(
            [PYTHON, program, tmp_path / "out"],
            env=env, capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        events = web.events

    assert {event["job"] for event in events} == {"tiny-ray"}
    assert len({event["launch"] for event in events}) == 1
    edges = [
        (life[0].get("rank"), life[-1]["type"], life[-1].get("outcome")) for life in lives(events)
    ]
    assert sorted(each for each in edges if each[2] == "completed") == [
        (0, "attempt_ended", "completed"), (1, "attempt_ended", "completed"),
    ]  # fmt: skip
    failures = [event for event in events if event.get("outcome") == "failed"]
    assert {event["rank"] for event in failures} == {1}
    assert {event["message"] for event in failures} == {"the first life ends here"}
    assert len({event["producer"] for event in failures}) == 2  # the worker and the controller
    ledger = ledger_of(events)
    assert ledger.failures == 1
    assert seconds(ledger, "repeated_training") > 0


def test_no_fault_reaches_the_controller(tmp_path: Path) -> None:
    needed("ray")
    with serving() as web:
        faults = [Run(FAULTS, [MODULE, "1000"])]
        assert run(
            "ett_service.client.frameworks.adapter", tmp_path / "spool", web.url, faults
        ) == [0]
