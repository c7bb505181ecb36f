"""Running a trainer as a child: its exit is reported from outside, whatever killed it.

Slurm's controller knows of a job what it tells nobody in its environment, so it is asked.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from ett_service.client.autostart import VARIABLE as AUTO_START
from ett_service.client.identity import Identity, identify, launch_of
from ett_service.client.lines import new_producer
from ett_service.client.sending.backlog import Backlog, spools
from ett_service.client.sending.spool import default_root
from ett_service.client.sending.tallies import LAUNCHER, job_of
from ett_service.client.starting.torchrun import is_torchrun, joins_nodes, rendezvous_id

SETTLED_SECONDS = 2.0
"""A command that has run for so long is there."""

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_HEEDED_SECONDS = 600.0
"""What goes on for longer after it was told to stop has not stopped for that."""

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def child_environment(
    env: Mapping[str, str],
    command: Sequence[str],
    job: str | None = None,
    url: str | None = None,
) -> dict[str, str]:
    """Return the environment of the child: one launch for all its processes, one spool.

    The agents of a torchrun on several nodes, each begun by a launcher of its own, have nothing
    in common but what torchrun was told.
    """
    settings = {"ETT_JOB": job, "ETT_URL": url}
    child = {**env, **{name: value for name, value in settings.items() if value}}
    child["ETT_SPOOL"] = str(default_root(env))
    child[LAUNCHER] = str(os.getpid())
    child.setdefault(AUTO_START, "1")
    if not (env.get("ETT_LAUNCH") or env.get("SLURM_JOB_ID")):
        joins = is_torchrun(command) and joins_nodes(command, env)
        child["ETT_LAUNCH"] = rendezvous_id(command, env) if joins else new_producer()
    return child


def launcher_identity(env: Mapping[str, str], command: Sequence[str]) -> Identity | None:
    """Return who the launcher speaks for: the rank of its one child, or a whole torchrun."""
    if is_torchrun(command):
        env = {name: value for name, value in env.items() if name != "SLURM_PROCID"}
    return identify(env, None, os.uname().nodename)


def left_by_child(env: Mapping[str, str], command: Sequence[str], began_us: int) -> Identity | None:
    """Return who the launcher spoke for, where its child named the job itself.

    That is known by what the child has left since *began_us*.
    """
    root, launch = default_root(env), launch_of(env)
    if not launch:
        return None
    owners = (Backlog(directory, alive=True).owner for directory in spools(root))
    left = (owner.get("job") for owner in owners if owner.get("launch") == launch)
    job = next(filter(None, left), None) or job_of(root, launch, began_us)
    return launcher_identity({**env, "ETT_JOB": job}, command) if job else None


class Ended(NamedTuple):
    """How a command ended."""

    code: int  #: negative for a signal
    signalled_by: int | None = None  #: the first signal from outside that told it to stop


def run_child(command: Sequence[str], env: Mapping[str, str], started: Callable[[], None]) -> Ended:
    """Run the command until it ends, signals passed on.

    *started* is called once it has run for two seconds. Raises ``OSError`` where it cannot be
    started.
    """
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []
    signals: list[tuple[int, float]] = []

    def forward(number: int, _: FrameType | None) -> None:
        if number in _STOPPING:
            signals.append((number, time.monotonic()))
        # A terminal has sent Ctrl-C to the child itself.
        if number != signal.SIGINT or not os.isatty(0):
            early.append(number)
            _pass_on(early, children)

    with _handled_by(forward):
        child = subprocess.Popen(command, env=env)  # noqa: S603 -- it is the user's command
        children.append(child)
        _pass_on(early, children)
        try:
            code = child.wait(SETTLED_SECONDS)
        except subprocess.TimeoutExpired:
            started()
            code = child.wait()
    heeded_from = time.monotonic() - _HEEDED_SECONDS
    return Ended(code, next((number for number, at in signals if at > heeded_from), None))


def _pass_on(signals: list[int], children: "list[subprocess.Popen[bytes]]") -> None:
    """Send what has come in, once there is somebody to send it to."""
    while signals and children:
        children[0].send_signal(signals.pop(0))


def ending_of(ended: Ended, command: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """Return the end of the attempt from how its process ended.

    What was told to stop has not failed by itself, whatever it makes of that: the signal is the
    evidence, not the exit code. Ctrl-C cancels. Who has sent SIGTERM only a scheduler knows: until
    it says so that is a failure of unknown cause, which its word still can overrule.
    """
    code, signalled_by = ended
    facts: dict[str, Any] = {"reason": f"{Path(command[0]).name} ended, seen by ett run"}
    if signalled_by is not None:
        name = signal.Signals(signalled_by).name
        facts["message"] = f"told to stop by {name} from outside, then ended with code {code}"
        is_asked = signalled_by == signal.SIGINT or code == 0
        facts |= {"outcome": "cancelled" if is_asked else "failed", **stopped(env)}
        return facts | {"signal": -code if code < 0 else signalled_by}
    if code == 0:
        return {"outcome": "completed", "exit_code": 0, **facts}
    if code < 0:
        return {"outcome": "failed", "signal": -code, **facts}
    return {"outcome": "failed", "exit_code": code, **facts}


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    # What nohup or a shell's & has made ignored stays so, for the child too.
    heeded = [each for each in _FORWARDED if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heeded}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


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
