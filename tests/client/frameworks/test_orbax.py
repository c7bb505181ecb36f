"""The real Orbax, whose saves are asynchronous by default."""

from pathlib import Path

import pytest

from tests.builders.frameworks import Run, example, lives, needed, run, source_of, sources, story
from tests.builders.servers.web import serving

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("frameworks")]

MODULE = "ett_service.client.frameworks.orbax"
FAULTS = Path(__file__).parent / "programs" / "faults.py"


def test_a_logger_reports_what_blocks_what_is_durable_and_the_restore(tmp_path: Path) -> None:
    needed("orbax", "jax")
    runs = [
        example("orbax_trainer.py", tmp_path / "out", 6),
        example("orbax_trainer.py", tmp_path / "out", 8),
        Run(FAULTS, [MODULE, "1000"], {"ETT_JOB": "faults"}),
    ]
    with serving() as web:
        assert run("ett_service.client.frameworks.adapter", tmp_path / "spool", web.url, runs) == [
            0, 0, 0,
        ]  # fmt: skip
        first, second, *_ = lives(web.events)

    blocked = [event for event in first if event["type"] == "span" and "stage" not in event]
    assert [event["phase"] for event in blocked] == ["checkpoint_blocking"] * 2
    assert [word for word in story(first) if word.startswith("checkpoint_saved")] == [
        "checkpoint_saved 1", "checkpoint_saved 4",
    ]  # fmt: skip
    restored = story(second).index("checkpoint_restored 4")
    assert second[restored - 1]["stage"] == "checkpoint_restore"
    assert story(second)[restored + 1 : restored + 4] == [
        "-launcher_init", "+train_loop", "progress 5",
    ]  # fmt: skip
    assert source_of(first) == {"source": "orbax", "hooks": {"_finalize_checkpoint": "ok"}}
    assert sources(first) == {"orbax", None}  # the loop and its steps are the script's own
