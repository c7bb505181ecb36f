"""The runs of a job as the launcher sees them: what they are called, and when they are over."""

import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

from ett_service.client.identity import Identity, job_name
from ett_service.client.sending.spool import job_directory
from ett_service.client.starting.torchrun import (
    is_torchrun,
    joins_nodes,
    option,
    rendezvous_id,
)

_LONGEST_SCRIPT = 60
_PYTHON = re.compile(r"python[\d.]*")
_MODULE = ("-m", "--module")
_NO_SCRIPT = (*_MODULE, "-c", "--no-python", "--no_python")
_LAUNCHERS = ("torchrun", "accelerate")
_LAUNCHING_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
)
_PASSING_ON = (
    "env",
    "ionice",
    "nice",
    "nohup",
    "numactl",
    "setsid",
    "srun",
    "stdbuf",
    "taskset",
    "time",
    "timeout",
)
"""Programs that only run what follows their own options."""

_ELSEWHERE = re.compile(r"-C|-D|--chdir|--container")
_TAKES_A_VALUE = re.compile(r"-[A-Za-z]|--[A-Za-z-]+")
"""An option of srun whose value may be the next word."""

_LOOK_SECONDS = 10.0
_ABSENT = 44
_LOOK = f"""
import sys
name, path = "", None
for part in sys.argv[1].split("."):
    name = name + "." + part if name else part
    found = (finder.find_spec(name, path) for finder in sys.meta_path)
    spec = next(filter(None, found), None)
    if spec is None:
        sys.exit({_ABSENT})
    path = spec.submodule_search_locations or []
"""
"""Looks for a module as ``python -m`` does, but imports none of its packages."""
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


def lacks_its_program(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether Python, a launcher or srun is to run a script or module that is not there.

    No job begins with that. ``env`` and the like, which only pass on what they run, are looked
    through.
    """
    if Path(command[0]).name == "srun" and (program := _program_of_srun(command)) is not None:
        return not Path(program).exists()
    place = _place_of_runner(command)
    if place is None:
        return False
    words = list(command[place + 1 :])
    if words[:1] == ["-m"] and words[1:2] and words[1] in _LAUNCHING_MODULES:
        words = words[2:]
    options = list(takewhile(lambda word: word not in _NO_SCRIPT, words))
    script = next((word for word in options if word.endswith(".py")), None)
    if script is not None:
        return not Path(script).exists()
    flag, *named = words[len(options) : len(options) + 2] or [""]
    if flag not in _MODULE or not named or Path(command[0]).name == "srun":
        return False
    python = _python_before(command, place, len(command) - len(words) + len(options), env)
    return python is not None and _lacks_module(python, named[0], env)


def _program_of_srun(command: Sequence[str]) -> str | None:
    """Return the file under this folder that srun is to run; None where that is not certain.

    A word after an option may be its value, and an absolute path may be there on the nodes alone.
    """
    for before, word in pairwise(command):
        if _ELSEWHERE.match(word):
            return None
        if not word.startswith("-") and not _TAKES_A_VALUE.fullmatch(before):
            return word if "/" in word and not word.startswith("/") else None
    return None


def _place_of_runner(command: Sequence[str]) -> int | None:
    """Return which word is Python or a launcher of it, None where that cannot be told."""
    passes_on = Path(command[0]).name in _PASSING_ON
    for place, word in enumerate(command):
        name = Path(word).name
        if _PYTHON.fullmatch(name) or name in _LAUNCHERS:
            return place
        if not passes_on or _ELSEWHERE.match(word):
            break
    return None


def _python_before(
    command: Sequence[str], place: int, end: int, env: Mapping[str, str]
) -> list[str] | None:
    """Return the words that start the Python which looks for a module, None where unknown."""
    runner = Path(command[place]).name
    if runner not in _LAUNCHERS:
        is_launching = "-m" in command[place:end]
        return list(command[: place + 1] if is_launching else command[:end])
    path = shutil.which(command[place], path=env.get("PATH"))
    beside = None if path is None else Path(path).with_name("python3")
    return [*command[:place], str(beside)] if beside is not None and beside.exists() else None


def _lacks_module(python: Sequence[str], module: str, env: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 -- the Python that the user is about to run
            [*python, "-c", _LOOK, module],
            env={**env, "ETT_DISABLED": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOOK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == _ABSENT


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
