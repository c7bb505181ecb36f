"""The runs of a job as the launcher sees them: what they are called, and when they are over."""

import re
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from ett_service.client.guard import guarded
from ett_service.client.identity import Identity, job_name
from ett_service.client.sending.delivery import Target
from ett_service.client.sending.notices import job_answer
from ett_service.client.sending.spool import job_directory
from ett_service.client.starting.torchrun import (
    is_torchrun,
    joins_nodes,
    option,
    rendezvous_id,
)

_ASK_SECONDS = 1.0
_LONGEST_SCRIPT = 60
_PYTHON = re.compile(r"python[\d.]*")
_NO_SCRIPT = ("-m", "-c", "--module", "--no-python", "--no_python")
_PROGRAMS = re.compile(r"(python|torchrun|bash|sh|srun|env|accelerate)[\d.]*")


def fresh_name(command: Sequence[str], now_s: float, launch: str) -> str:
    """Name a job that nobody named: its script, the time in UTC, and the end of its launch."""
    paths = [Path(word) for word in command if not word.startswith("-")]
    scripts = [path for path in paths if path.suffix in (".py", ".sh")]
    others = [path for path in paths if not _PROGRAMS.fullmatch(path.name)]
    script = (scripts or others or [Path(command[0])])[0].stem
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", script)[:_LONGEST_SCRIPT].strip("-.") or "job"
    at = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_s))
    return f"{readable}-{at}-{launch[-4:]}"


def shared_name(command: Sequence[str], env: Mapping[str, str]) -> str | None:
    """Return the name that the workers of a torchrun have without one, on each of its nodes."""
    if not is_torchrun(command) or "--standalone" in command:
        return None
    return job_name({"ETT_JOB": rendezvous_id(command, env)})


def lacks_its_script(command: Sequence[str]) -> bool:
    """Whether Python or torchrun is to run a script that is not there: no job begins with that."""
    if not is_torchrun(command) and not _PYTHON.fullmatch(Path(command[0]).name):
        return False
    words = list(takewhile(lambda word: word not in _NO_SCRIPT, command[1:]))
    script = next((word for word in words if word.endswith(".py")), None)
    return script is not None and not Path(script).exists()


def is_recorded_as(job: str, root: Path, began_s: float) -> bool:
    """Whether what was launched at *began_s*, by the clock of files, belongs to the fresh *job*.

    A trainer that names its own job leaves the directory of that job behind, and its job is not
    to get a second one.
    """
    own = job_directory(root, job)
    if own.is_dir() or not root.is_dir():
        return True
    return all(path.stat().st_mtime < began_s for path in root.iterdir() if path.is_dir())


def ends_the_job(identity: Identity, env: Mapping[str, str], command: Sequence[str]) -> bool:
    """Whether this launcher, of several of one launch, reports that the job is over."""
    if not identity.leads or _whole(env.get("SLURM_PROCID")):
        return False
    if not is_torchrun(command):
        return True
    ranks = (option(command, env, "node-rank"), env.get("SLURM_NODEID"), env.get("GROUP_RANK"))
    for rank in ranks:
        if (number := _whole(rank)) is not None:
            return number == 0
    return not joins_nodes(command, env)


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


@guarded(otherwise=None)
def finished_notice(job: str, target: Target) -> str | None:
    """Return a line on what a launch does to a job that is finished.

    None where the job is not, or where that cannot be asked within a second.
    """
    _, answer = job_answer(job, target, _ASK_SECONDS)
    if answer.get("state") != "finished":
        return None
    if answer.get("outcome") == "completed":
        return f"job {job} was finished: this launch begins another run of it"
    return f"job {job} was finished, but not completed: the time since then is restart wait"
