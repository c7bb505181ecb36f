"""Faults of what surrounds a trainer: settings, variables of launchers, and what they name."""

import os
import random
import tempfile
from pathlib import Path

import ett_service as ett
from ett_service.client.automatic import is_launcher, takes
from ett_service.client.current import current
from ett_service.client.launching.launcher import child_environment, launcher_identity
from ett_service.client.starting.opening import last_failure, say_start
from tests.client.faults.odd import Fault

NO_NUMBERS = ("first", "-1", "1e3", "٣", "0x10", "9" * 40, "1.0", "NaN", "1;2")
NUMBERS = (
    "ETT_ATTEMPT", "ETT_CYCLE", "ETT_RANK", "ETT_GPUS", "RANK", "SLURM_PROCID",
    "SLURM_RESTART_COUNT", "SLURM_GPUS_ON_NODE", "SLURM_JOB_START_TIME", "GROUP_WORLD_SIZE",
)  # fmt: skip
NO_WORDS = ("\n", "\ud800", "x" * 100_000, "/", "..", "\x01", " ", "-- rm")
WORDS = (
    "ETT_LAUNCH", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE", "MASTER_ADDR",
    "MASTER_PORT", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT", "ETT_URL", "ETT_API_KEY",
    "XDG_STATE_HOME", "ETT_AUTO", "ETT_LAUNCHER", "ETT_SUBMITTED_AT", "ETT_ALLOCATED_AT",
    "ETT_AGENT_STAGES",
)  # fmt: skip


def numbers(draw: random.Random) -> None:
    """Begin a life under a variable that is no number."""
    _life({draw.choice(NUMBERS[:5]): draw.choice(NO_NUMBERS)})


def variables(draw: random.Random) -> None:
    """Begin a life under several variables that nobody would set."""
    odd = {name: draw.choice(NO_WORDS + NO_NUMBERS) for name in draw.sample(WORDS + NUMBERS, 6)}
    _life({name: value for name, value in odd.items() if "ETT_URL" not in name})


def name(draw: random.Random) -> None:
    """Begin a life of a job that has no usable name."""
    _life({"ETT_JOB": draw.choice(("a/b", "..", "\n", "x" * 100_000))}, job=None)


def _life(variables: dict[str, str], job: str | None = "faults") -> None:
    ett.end()
    before = dict(os.environ)
    os.environ.update({k: v for k, v in variables.items() if "\ud800" not in v})
    try:
        ett.init(job, gpus=None)
        with ett.phase("evaluation"):
            ett.step(1)
        ett.end()
    finally:
        os.environ.clear()
        os.environ.update(before)


def read(draw: random.Random) -> None:
    """Have each reader of the environment read what nobody would set."""
    env = {each: draw.choice(NO_WORDS + NO_NUMBERS) for each in WORDS + NUMBERS}
    launcher_identity(env, ["torchrun", "--nnodes", draw.choice(NO_WORDS)])
    child_environment(env, ["torchrun", "--rdzv-id", draw.choice(NO_WORDS)])
    last_failure(env)
    takes("ETT_AUTO", env)
    is_launcher([], [draw.choice(NO_WORDS)])
    if current.recorder is not None:
        say_start(current.recorder, env, None, {}, first_life=False)


def error_file(draw: random.Random) -> None:
    """Read what a worker of torchrun left, which is garbled."""
    with tempfile.TemporaryDirectory() as folder:
        left = Path(folder) / "attempt_0" / "1" / "error.json"
        left.parent.mkdir(parents=True)
        left.write_text(draw.choice(("", "{", "[]", '{"message": 3}', '{"message": {}}')), "utf-8")
        own = Path(folder) / "attempt_1" / "0" / "error.json"
        env = {"TORCHELASTIC_ERROR_FILE": str(own), "TORCHELASTIC_RESTART_COUNT": "1"}
        assert last_failure(env) is None


FAULTS = (
    Fault("a number in the environment", numbers),
    Fault("the environment", variables, is_counted=False),
    Fault("the job's name", name),
    Fault("readers of the environment", read, is_counted=False),
    Fault("torchrun's error file", error_file, is_counted=False),
)
