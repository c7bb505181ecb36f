"""What Slurm's controller knows of a job and tells nobody in its environment."""

import re
import subprocess
from collections.abc import Mapping

_SECONDS = 2.0
_MEMBER = re.compile(r"(?:^|\s)(JobState|SubmitTime|StartTime|PreemptTime)=(\S+)")
_STATES = re.compile(r"BOOT_FAIL|CANCELLED|DEADLINE|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|TIMEOUT")


def instants(env: Mapping[str, str]) -> dict[str, str]:
    """Return what says when the job of *env* was submitted and got its nodes, for its trainer.

    Without what *env* says already, and without the submission for a later attempt, which waited
    for another. Empty outside Slurm, and where the controller does not answer within two seconds.
    """
    wanted = {}
    if not env.get("ETT_SUBMITTED_AT") and env.get("SLURM_RESTART_COUNT", "0") == "0":
        wanted["ETT_SUBMITTED_AT"] = "SubmitTime"
    # Slurm names it from 23.02 on.
    if not (env.get("ETT_ALLOCATED_AT") or env.get("SLURM_JOB_START_TIME")):
        wanted["ETT_ALLOCATED_AT"] = "StartTime"
    record = _controller_record(env) if wanted else {}
    named = {variable: record.get(member, "") for variable, member in wanted.items()}
    return {variable: at for variable, at in named.items() if at.isdigit()}


def stopped(env: Mapping[str, str]) -> dict[str, str]:
    """Return what the controller says of a job that was told to stop: its state, and an outcome.

    A job that is given time before it is preempted is still running.
    """
    record = _controller_record(env)
    if record.get("PreemptTime", "").isdigit():
        return {"outcome": "preempted", "scheduler_state": "PREEMPTED"}
    state = record.get("JobState", "")
    outcomes = {"PREEMPTED": "preempted", "CANCELLED": "cancelled"}
    if not _STATES.fullmatch(state):
        return {}
    return {"outcome": outcomes.get(state, "failed"), "scheduler_state": state}


def _controller_record(env: Mapping[str, str]) -> dict[str, str]:
    """Ask the controller once about the job of *env*; empty without an answer."""
    number = env.get("SLURM_JOB_ID", "")
    if not number.isdigit():
        return {}
    try:
        done = subprocess.run(  # noqa: S603 -- a number and our own words
            ["scontrol", "show", "job", "--oneliner", number],  # noqa: S607 -- wherever it lies
            env={**env, "SLURM_TIME_FORMAT": "%s"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return dict(_MEMBER.findall(done.stdout))
