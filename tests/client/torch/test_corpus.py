"""What real torch 2.13 left in logs: our reading of its environment, counters and crashes."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ett_service.client.identity import identify, launch_of
from ett_service.client.starting.opening import last_failure
from ett_service.client.torch import HOOKS
from ett_service.client.torch.compiles import compile_seconds
from ett_service.core.words import FAILURES, Category
from tests.builders.imports import Wire, ledgers_of

CORPUS = Path(os.environ.get("ETT_CORPUS", Path(__file__).parents[3] / "../shared/corpus"))
SAMPLES = CORPUS / "torch_samples"

REPORTED_BY = {
    "process_group_init": "process_group",
    "train_module_creation": "ddp",
    "dataloader_iter": "data",
    "get_first_batch_data": "data",
    "pt2_compile": "compile",
    "checkpoint": "checkpoint_save",
    "step": "steps",
}
"""What a probe saw in unmodified trainers, and which of our hooks reports it."""


@pytest.fixture
def samples() -> Path:
    """Return the folder of real samples."""
    if not SAMPLES.is_dir():
        pytest.skip(f"{SAMPLES} is missing")
    return SAMPLES


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in path.read_text("utf-8").splitlines())


@pytest.mark.parametrize("trainer", ["ddp", "fsdp2"])
def test_whatever_was_seen_of_an_unmodified_trainer_has_its_hook(
    samples: Path, trainer: str
) -> None:
    rows = [*rows_of(samples / f"zero_code_probe_{trainer}_rank0.jsonl")]
    seen = {row["k"] for row in rows if row["k"] != "mark"}
    assert seen - {"train_module_creation"} == REPORTED_BY.keys() - {"train_module_creation"}
    assert {REPORTED_BY[kind] for kind in seen} <= HOOKS.keys()
    # Only what the thread that trains does is wall time: the upload is none.
    threads = {(row["n"], row["th"]) for row in rows if row["k"] == "checkpoint"}
    assert ("dcp.async_save", "MainThread") in threads
    assert {thread for name, thread in threads if name == "dcp.save"} != {"MainThread"}


def test_the_environment_of_a_real_worker_names_its_rank_and_cycle(samples: Path) -> None:
    text = (samples / "torchrun_worker_env.txt").read_text("utf-8")
    env = dict(re.findall(r'^"(\w+)": "([^"]*)"', text, re.MULTILINE))
    assert identify(env, None, "h") is None  # the run id "none" names no job
    identity = identify(env, "j", "h", "agent")
    assert identity is not None
    assert (identity.rank, identity.cycle, identity.attempt) == (0, 0, 0)
    assert identity.leads
    assert launch_of(env, "agent") == identity.launch == "agent"
    assert last_failure(env) is None  # of a first cycle nothing can have failed before


def test_torchs_own_count_of_the_seconds_in_compiles_is_read(samples: Path) -> None:
    counters = json.loads((samples / "wait_counters.json").read_text("utf-8"))
    assert compile_seconds(counters) == 5.308470
    assert compile_seconds({}) == 0


def test_real_crashes_repeat_as_many_steps_as_their_trainer_counted(samples: Path) -> None:
    rows = [*rows_of(samples / "spool_crash_scenarios.jsonl")]
    (ledger,) = ledgers_of([*wire(rows)]).values()
    repeated = Counter(row["a"] for row in rows if row.get("dup"))
    assert [repeated[each.attempt] for each in ledger.attempts] == [0, 7, 4, 3, 8, 6, 4]
    assert [each.outcome in FAILURES for each in ledger.attempts] == [True] * 6 + [False]
    for each in ledger.attempts:
        again_us = each.categories_us.get(Category.REPEATED_TRAINING, 0)
        steps = [row for row in rows if row["a"] == each.attempt and row.get("dup")]
        begun = [row["t"] for row in rows if row["a"] == each.attempt and "start" in row]
        expected_us = (steps[-1]["t"] - begun[0]) // 1000 if steps else 0
        # What a checkpoint among them blocked is another category.
        assert again_us == pytest.approx(expected_us, abs=100), each.attempt


def wire(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Report what the trainer wrote, as a trainer reports it; only the last one ended well."""
    events: Wire = []
    for number, row in enumerate(rows):
        at = datetime.fromtimestamp(row["t"] // 10**9, UTC)
        text = f"{at:%Y-%m-%dT%H:%M:%S}.{row['t'] // 1000 % 10**6:06d}Z"
        common = {"job": "j", "launch": "l", "attempt": row["a"], "at": text, "id": f"e{number}"}
        if "start" in row:
            events.append({**common, "type": "phase_started", "phase": "train_loop"})
            if row["start"]:
                restored = {"type": "checkpoint_restored", "step": row["start"]}
                events.append({**common, "id": f"r{number}", **restored})
        elif "step" in row:
            events.append({**common, "type": "progress", "step": row["step"]})
        elif "ckpt" in row:
            events.append({**common, "type": "checkpoint_saved", "step": row["ckpt"]})
        elif "exc" in row:
            ended = {"type": "attempt_ended", "outcome": "failed", "exception": row["exc"]}
            events.append({**common, **ended})
        elif row["a"] == rows[-1]["a"]:
            events.append({**common, "type": "attempt_ended", "outcome": "completed"})
    yield from events
