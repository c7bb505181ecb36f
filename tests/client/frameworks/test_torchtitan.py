"""The real structured logger of torchtitan, under the spans of its trainer."""

from pathlib import Path

import pytest

from tests.builders.frameworks import Run, example, lives, needed, run, source_of, sources, story
from tests.builders.servers.web import serving

pytestmark = [pytest.mark.long, pytest.mark.torch, pytest.mark.xdist_group("frameworks")]

MODULE = "ett_service.client.frameworks.torchtitan"
PROGRAMS = Path(__file__).parent / "programs"
SWITCH = {"TITAN_STRUCT_LOGGER_HANDLERS": f"{MODULE}.factory"}


def test_the_spans_of_a_trainer_become_phases_stages_and_steps(tmp_path: Path) -> None:
    needed("torchtitan")
    runs = [
        example("torchtitan_spans.py", tmp_path, 4, **SWITCH),
        Run(PROGRAMS / "titan_that_breaks.py", [str(tmp_path)], SWITCH),
        Run(PROGRAMS / "faults.py", [MODULE, "1000"], {"ETT_JOB": "faults"}),
    ]
    with serving() as web:
        assert run("torch", tmp_path / "spool", web.url, runs) == [0, 1, 0]
        first, second, *_ = lives(web.events)

    assert story(first) == [
        "attempt_started", "+launcher_init", "heartbeat",
        "+train_module_creation", "-train_module_creation",
        "+get_first_batch_data", "-get_first_batch_data", "-launcher_init",
        "+train_loop", "progress 1", "progress 4", "+evaluation", "-evaluation",
        "attempt_ended",
    ]  # fmt: skip
    assert source_of(first) == {"source": "torchtitan", "hooks": {}}
    assert sources(first) == sources(second) == {"torchtitan"}
    # It resumed after step 4 and saved once; the step in which the data ran out is no step.
    assert story(second)[3:] == [
        "+checkpoint_restore", "-checkpoint_restore", "checkpoint_restored 4",
        "+get_first_batch_data", "-get_first_batch_data", "-launcher_init",
        "+train_loop", "progress 5", "span", "progress 6", "+generate", "-generate",
        "attempt_ended",
    ]  # fmt: skip
