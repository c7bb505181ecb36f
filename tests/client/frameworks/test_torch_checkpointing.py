"""Meta's real ``torch_checkpointing``, whose saves are written by a process of their own."""

import subprocess
from pathlib import Path

import pytest

from tests.builders.frameworks import PYTHON, needed, sources
from tests.builders.trainers import environment, spooled

pytestmark = [pytest.mark.long, pytest.mark.torch, pytest.mark.xdist_group("frameworks")]

PROGRAM = Path(__file__).parent / "programs" / "torch_checkpointing_saves.py"


def test_what_blocks_a_trainer_is_told_from_what_does_not(tmp_path: Path) -> None:
    needed("torch_checkpointing")
    spool = tmp_path / "spool"
    done = subprocess.run(
        [PYTHON, PROGRAM, tmp_path / "out"],
        env=environment(spool, OMP_NUM_THREADS="1"),
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Finished waiting" not in done.stderr  # its records of INFO go no further
    events = sorted(spooled(spool), key=lambda event: int(event["mono_us"]))

    assert len({event["producer"] for event in events}) == 1
    assert sources(events) == {"auto"}
    saved = {e["step"]: e for e in events if e["type"] == "checkpoint_saved"}
    assert list(saved) == [101, 102, 103]
    for step in (101, 102):
        facts = saved[step]["attributes"]
        assert 0 < facts["blocking_seconds"] <= saved[step]["duration_seconds"] - 0.5
        assert facts["staging_seconds"] > 0
    assert saved[103]["duration_seconds"] < 0.5
    blocked = [
        event.get("stage") for event in events
        if event.get("phase") == "checkpoint_blocking" and event["type"] != "phase_ended"
    ]  # fmt: skip
    assert "wait_for_previous" in blocked  # on a slow disk the first save waits, too
    assert [stage for stage in blocked if stage != "wait_for_previous"] == [
        None, "staging", None, "staging", None, "wait_for_upload", None, "save",
    ]  # fmt: skip
    assert "checkpoint_restore" in {event.get("stage") for event in events}
    hooks = [e["attributes"]["hooks"] for e in events if e["type"] == "heartbeat"][-1]
    assert hooks["checkpointing_save"] == hooks["checkpointing_load"] == "ok"
