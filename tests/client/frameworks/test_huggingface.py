"""The real Trainer of Hugging Face: what it reports, broken and resumed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.builders.frameworks import (
    REPOSITORY,
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
MODULE = "ett_service.client.frameworks.huggingface"


@dataclass(frozen=True)
class Trained:
    """How the runs ended, and what they reported."""

    codes: list[int]
    lives: list[list[dict[str, Any]]]
    named: list[dict[str, Any]]  #: of the script that gives the address itself
    layered: list[dict[str, Any]]  #: of the script that reports some things itself, hooks included


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """A job that breaks and resumes, two trainers with switches, and the faults."""
    needed("transformers", "accelerate")
    folder = tmp_path_factory.mktemp("trainer")
    program = str(REPOSITORY / "examples" / "huggingface_trainer.py")
    runs = [
        Run(PROGRAMS / "breaking_trainer.py", [program, str(folder / "out")]),
        example("huggingface_trainer.py", folder / "out"),
        Run(PROGRAMS / "untouched_trainer.py", [str(folder / "a"), "auto"]),
        Run(PROGRAMS / "untouched_trainer.py", [str(folder / "b"), "report_to"]),
        Run(PROGRAMS / "faults.py", [MODULE, "1000"], {"ETT_JOB": "faults"}),
        Run(PROGRAMS / "layered_trainer.py", [str(folder / "c")], {"ETT_JOB": "layered"}),
    ]
    bare = {"ETT_URL": "", "ETT_SPOOL": "", "XDG_STATE_HOME": str(folder), "ETT_JOB": "named"}
    with serving() as web:
        untouched = PROGRAMS / "untouched_trainer.py"
        runs.append(Run(untouched, [str(folder / "d"), "auto", web.url], bare))
        codes = run(MODULE, folder / "spool", web.url, runs)
        named = [event for event in web.events if event["job"] == "named"]
        layered = [event for event in web.events if event["job"] == "layered"]
        layered.sort(key=lambda event: int(event["mono_us"]))
        yield Trained(codes, lives(web.events), named, layered)


def test_nothing_but_the_break_on_purpose_ends_a_run(trained: Trained) -> None:
    assert trained.codes == [1, 0, 0, 0, 0, 0, 0]


def test_a_life_that_breaks_is_reported_up_to_its_end(trained: Trained) -> None:
    events = story(trained.lives[0])
    assert events == [
        "attempt_started", "+launcher_init", "heartbeat",
        "+get_first_batch_data", "-get_first_batch_data", "-launcher_init",
        "+train_loop", "progress 1", "progress 4",
        "+evaluation", "-evaluation",
        "+checkpoint_blocking", "-checkpoint_blocking", "checkpoint_saved 4",
        "progress 5", "-train_loop", "attempt_ended",
    ]  # fmt: skip
    assert trained.lives[0][-1]["exception"] == "RuntimeError"


def test_a_resume_goes_on_at_the_trainers_own_step(trained: Trained) -> None:
    events = story(trained.lives[1])
    assert events[3:11] == [
        "+checkpoint_restore", "-checkpoint_restore", "+checkpoint_restore", "-checkpoint_restore",
        "+get_first_batch_data", "checkpoint_restored 4", "-get_first_batch_data", "-launcher_init",
    ]  # fmt: skip
    assert "progress 5" in events
    assert trained.lives[1][-1]["outcome"] == "completed"
    steps = [event for event in trained.lives[1] if event["type"] == "progress"]
    assert [event["tokens"] == 32 * event["step"] for event in steps] == [True] * len(steps)


def test_the_ledger_has_the_repeated_steps_the_save_and_the_evaluation(trained: Trained) -> None:
    ledger = ledger_of([*trained.lives[0], *trained.lives[1]])
    assert ledger.failures == 1
    for category in ("repeated_training", "checkpoint_blocking", "evaluation"):
        assert seconds(ledger, category) > 0, category


@pytest.mark.parametrize("life", [2, 3], ids=["auto", "report_to"])
def test_a_trainer_is_reported_by_a_switch_and_what_cannot_be_resumed_is_not_durable(
    trained: Trained, life: int
) -> None:
    assert story(trained.lives[life])[-6:] == [
        "progress 1", "progress 2", "+checkpoint_blocking", "-checkpoint_blocking",
        "-train_loop", "attempt_ended",
    ]  # fmt: skip


def test_a_script_that_gives_the_address_itself_has_the_callback(trained: Trained) -> None:
    assert "huggingface" in sources(trained.named)


def test_it_names_itself_and_what_it_has_found(trained: Trained) -> None:
    about = source_of(trained.lives[0])
    assert about["source"] == "huggingface"
    assert set(about["hooks"].values()) == {"ok"}
    assert sources(trained.lives[0]) == {"huggingface"}


def source(event: dict[str, Any]) -> str | None:
    name: str | None = event.get("attributes", {}).get("source")
    return name


def test_the_script_goes_before_the_callback_and_that_before_the_hooks(trained: Trained) -> None:
    events = trained.layered
    loop = [event for event in events if event.get("phase") == "train_loop"]
    assert [source(event) for event in loop] == [None, None]
    # The callback comes before the script's own in the first step.
    steps = [(event["step"], source(event)) for event in events if event["type"] == "progress"]
    assert (steps[0], {who for _, who in steps[1:]}) == ((1, "huggingface"), {None})
    saved = [(e["step"], source(e)) for e in events if e["type"] == "checkpoint_saved"]
    assert saved == [(1, "huggingface"), (2, None)]
    blocked = [e for e in events if e.get("phase") == "checkpoint_blocking" and "stage" not in e]
    assert [source(event) for event in blocked] == ["huggingface"] * 2 + [None] * 2
    waited = [source(e) for e in events if e.get("stage") == "get_first_batch_data"]
    assert waited == ["huggingface"] * 2
    assert "auto" in {source(event) for event in events}
