"""The real Accelerate, with a tracker."""

from pathlib import Path

import pytest

from tests.builders.frameworks import Run, example, lives, needed, run, source_of, sources, story
from tests.builders.servers.web import serving

pytestmark = [pytest.mark.long, pytest.mark.torch, pytest.mark.xdist_group("frameworks")]

MODULE = "ett_service.client.frameworks.accelerate"
FAULTS = Path(__file__).parent / "programs" / "faults.py"


def test_a_tracker_reports_the_loop_the_saves_and_the_restore(tmp_path: Path) -> None:
    needed("accelerate")
    runs = [
        example("accelerate_trainer.py", tmp_path / "out", 6),
        example("accelerate_trainer.py", tmp_path / "out", 8),
        Run(FAULTS, [MODULE, "1000"], {"ETT_JOB": "faults"}),
    ]
    with serving() as web:
        assert run(MODULE, tmp_path / "spool", web.url, runs) == [0, 0, 0]
        first, second, *_ = lives(web.events)

    assert story(first) == [
        "attempt_started", "+launcher_init", "heartbeat", "-launcher_init",
        "+train_loop", "progress 1", "progress 4",
        "+checkpoint_blocking", "-checkpoint_blocking", "checkpoint_saved 4",
        "progress 6", "-train_loop", "attempt_ended",
    ]  # fmt: skip
    assert story(second)[3:8] == [
        "+checkpoint_restore", "-checkpoint_restore", "checkpoint_restored 4",
        "-launcher_init", "+train_loop",
    ]  # fmt: skip
    assert source_of(first) == {
        "source": "accelerate",
        "hooks": {"backward": "ok", "save_state": "ok", "load_state": "ok"},
    }
    assert sources(first) == {"accelerate"}
