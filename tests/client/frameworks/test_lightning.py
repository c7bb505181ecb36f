"""The real Lightning: its Trainer and Fabric, by callback and by entry point."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.frameworks import (
    Run,
    example,
    ledger_of,
    lives,
    needed,
    run,
    seconds,
    source_of,
    sources,
    story,
)
from tests.builders.servers.web import serving

pytestmark = [pytest.mark.long, pytest.mark.torch, pytest.mark.xdist_group("frameworks")]

PROGRAMS = Path(__file__).parent / "programs"
MODULE = "ett_service.client.frameworks.lightning"
CODES = [1, 0, 0, 0, 0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[list[dict[str, Any]]]]:
    """A job that breaks and resumes, saves in the background, and the faults."""
    needed("lightning")
    folder = tmp_path_factory.mktemp("trainer")
    faults = PROGRAMS / "faults.py"
    runs = [
        Run(PROGRAMS / "breaking_lightning.py", [str(folder / "out")]),
        example("lightning_trainer.py", folder / "out", 10),
        Run(PROGRAMS / "saving_in_background.py", [str(folder / "background")]),
        Run(faults, [MODULE, "1000"], {"ETT_JOB": "faults"}),
        Run(faults, ["ett_service.client.frameworks.fabric", "1000"], {"ETT_JOB": "faults"}),
    ]
    with serving() as web:
        codes = run(MODULE, folder / "spool", web.url, runs)
        assert codes == CODES
        yield lives(web.events)


def test_the_entry_point_reports_a_trainer_up_to_its_break(
    trained: list[list[dict[str, Any]]],
) -> None:
    assert story(trained[0]) == [
        "attempt_started", "+launcher_init", "heartbeat",
        "+get_first_batch_data", "-get_first_batch_data", "-launcher_init",
        "+train_loop", "progress 1", "progress 4",
        "+checkpoint_blocking", "-checkpoint_blocking", "checkpoint_saved 4",
        "progress 6", "-train_loop", "attempt_ended",
    ]  # fmt: skip
    assert trained[0][-1]["exception"] == "RuntimeError"


def test_a_resume_in_the_middle_of_an_epoch_goes_on_at_the_trainers_own_step(
    trained: list[list[dict[str, Any]]],
) -> None:
    events = story(trained[1])
    assert events[3:11] == [
        "+checkpoint_restore", "-checkpoint_restore",
        "+get_first_batch_data", "checkpoint_restored 4", "-get_first_batch_data", "-launcher_init",
        "+train_loop", "progress 5",
    ]  # fmt: skip
    assert "+evaluation" in events


def test_two_callbacks_in_one_trainer_report_everything_once(
    trained: list[list[dict[str, Any]]],
) -> None:
    # The example names one, and the entry point adds another.
    events = story(trained[1])
    once = ("checkpoint_restored 4", "+get_first_batch_data", "+train_loop", "-train_loop")
    assert [events.count(word) for word in once] == [1, 1, 1, 1]
    # Lightning itself saves twice: the step's file, and the last one.
    assert events.count("+checkpoint_blocking") == events.count("checkpoint_saved 8") == 2


def test_the_ledger_has_the_repeated_steps(trained: list[list[dict[str, Any]]]) -> None:
    ledger = ledger_of([*trained[0], *trained[1]])
    assert ledger.failures == 1
    assert seconds(ledger, "repeated_training") > 0


def test_a_save_in_the_background_is_durable_when_its_thread_is_done_and_fabrics_at_once(
    trained: list[list[dict[str, Any]]],
) -> None:
    words = [
        word for word in story(trained[2])
        if word.split()[0] in ("+checkpoint_blocking", "-checkpoint_blocking", "checkpoint_saved")
        or "evaluation" in word
    ]  # fmt: skip
    assert words == [
        "+checkpoint_blocking", "-checkpoint_blocking", "checkpoint_saved 2",
        "+evaluation", "-evaluation",
        "+checkpoint_blocking", "-checkpoint_blocking", "checkpoint_saved 3",
    ]  # fmt: skip
    slow, _ = [event for event in trained[2] if event["type"] == "checkpoint_saved"]
    assert slow["duration_seconds"] > 0.5


def test_it_names_itself_and_what_it_has_found(trained: list[list[dict[str, Any]]]) -> None:
    about = source_of(trained[0])
    assert about["source"] == "lightning"
    assert set(about["hooks"].values()) == {"ok"}
    assert sources(trained[0]) == {"lightning"}
