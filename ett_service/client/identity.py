"""Who is speaking: the job, the attempt and the rank, as the environment names them.

=========  ====================================================================================
job        what ``ett run`` was given, ``init(job=)``, ``ETT_JOB``, ``TORCHELASTIC_RUN_ID``
           (unless "none"), ``slurm-<SLURM_JOB_ID>``
launch     ``ETT_LAUNCH`` (on Kubernetes the Job's uid, by the downward API), ``SLURM_JOB_ID``,
           else what the process itself can tell (see ``launch_of``)
attempt    ``ETT_ATTEMPT``, ``SLURM_RESTART_COUNT``, 0
cycle      ``ETT_CYCLE``, ``TORCHELASTIC_RESTART_COUNT``, 0
rank       ``ETT_RANK``, ``RANK``, ``SLURM_PROCID``, ``JOB_COMPLETION_INDEX``, none
gpus       ``init(gpus=)``, ``ETT_GPUS``, ``SLURM_GPUS_ON_NODE`` times ``SLURM_JOB_NUM_NODES``,
           unknown
=========  ====================================================================================
"""

import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from ett_service.client.guard import misused
from ett_service.client.members import word

NAMED = "ETT_LAUNCHED_AS"
"""Set by ``ett run`` for its child: the job's name, which it has recorded already."""

_NAME_LIMIT = 200
_LAST_SECOND = 253_402_300_800  #: of the year 9999
USABLE_NAMES = f"a job's name has up to {_NAME_LIMIT} printable characters without '/'"


@dataclass(frozen=True, slots=True)
class Identity:
    """What every event of a process carries."""

    job: str
    launch: str = ""
    attempt: int = 0
    cycle: int = 0
    rank: int | None = None
    host: str | None = None

    @property
    def leads(self) -> bool:
        """Whether this process speaks for the whole attempt."""
        return not self.rank


def identify(
    env: Mapping[str, str], job: str | None, host: str | None, own_launch: str = ""
) -> Identity | None:
    """Return who speaks, or None where no usable job name is known.

    ``own_launch`` names the submission where neither the user nor a scheduler does.
    """
    name = job_name(env, job)
    if name is None:
        return None
    return Identity(
        job=name,
        launch=launch_of(env, own_launch),
        attempt=_first_number(env, "ETT_ATTEMPT", "SLURM_RESTART_COUNT") or 0,
        cycle=_first_number(env, "ETT_CYCLE", "TORCHELASTIC_RESTART_COUNT") or 0,
        rank=_first_number(env, "ETT_RANK", "RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX"),
        host=host,
    )


def job_name(env: Mapping[str, str], job: str | None = None) -> str | None:
    """Return the job's name, None where there is none or where it could not be stored."""
    name = env.get(NAMED) or job or env.get("ETT_JOB")
    if not name and env.get("TORCHELASTIC_RUN_ID", "none") != "none":
        name = env["TORCHELASTIC_RUN_ID"]
    if not name and env.get("SLURM_JOB_ID"):
        name = f"slurm-{env['SLURM_JOB_ID']}"
    name = unicodedata.normalize("NFC", name or "")
    if not name.isprintable() or len(name) > _NAME_LIMIT or name in ("", ".", ".."):
        return None
    return None if "/" in name or "\ufffd" in name else name


def launch_of(env: Mapping[str, str], own_launch: str = "") -> str:
    """Name the submission.

    Two runs by hand of one script must not look like one, so a process that nobody launched
    names itself. Ranks of several nodes have nothing in common that it could derive: without a
    scheduler their launch is torchrun's ``--rdzv-id``, else empty.
    """
    if named := env.get("ETT_LAUNCH") or env.get("SLURM_JOB_ID"):
        return word(named, 100) or ""
    if _first_number(env, "GROUP_WORLD_SIZE") == 1:
        return own_launch
    if "TORCHELASTIC_RUN_ID" in env or (_first_number(env, "WORLD_SIZE") or 1) > 1:
        run = env.get("TORCHELASTIC_RUN_ID", "none")
        return "" if run == "none" else word(run, 100) or ""
    return own_launch


def is_disabled(env: Mapping[str, str]) -> bool:
    """Whether ``ETT_DISABLED`` says that nothing is to be recorded."""
    return env.get("ETT_DISABLED", "") not in ("", "0")


def gpus_of(env: Mapping[str, str]) -> int | None:
    """Count the accelerators of the attempt, None where the environment does not tell."""
    if (gpus := _first_number(env, "ETT_GPUS")) is not None:
        return gpus
    a_node = _first_number(env, "SLURM_GPUS_ON_NODE")
    nodes = _first_number(env, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
    return a_node * nodes if a_node and nodes else None


def hosts_of(env: Mapping[str, str]) -> int | None:
    """Count the machines of the attempt, None where the environment does not tell."""
    return _first_number(env, "SLURM_JOB_NUM_NODES", "SLURM_NNODES", "GROUP_WORLD_SIZE")


def environment_facts(env: Mapping[str, str]) -> dict[str, object]:
    """Return the facts of the job that the environment has: its cluster, under Slurm."""
    cluster = env.get("SLURM_CLUSTER_NAME")
    return {"cluster": cluster} if cluster else {}


def allocated_at_us(env: Mapping[str, str]) -> int | None:
    """When the allocation began, in microseconds since the Unix epoch; None where unknown."""
    return _instant_us(env, "ETT_ALLOCATED_AT") or _instant_us(env, "SLURM_JOB_START_TIME")


def submitted_at_us(env: Mapping[str, str]) -> int | None:
    """When the job was submitted, in microseconds since the Unix epoch; None where unknown."""
    return _instant_us(env, "ETT_SUBMITTED_AT")


def _instant_us(env: Mapping[str, str], name: str) -> int | None:
    """Read a variable that holds seconds since the Unix epoch, or an instant with its zone."""
    text = env.get(name, "").strip()
    with suppress(ValueError, OverflowError):
        at = float(text) if text[:1].isdigit() and "-" not in text else _seconds(text)
        if 0 < at < _LAST_SECOND:
            return round(at * 1_000_000)
    if text:
        misused(f"{name} is no instant and is not heeded:", text)
    return None


def _seconds(text: str) -> float:
    at = datetime.fromisoformat(text)
    return at.timestamp() if at.tzinfo is not None else 0.0


def _first_number(env: Mapping[str, str], *names: str) -> int | None:
    """Return the first of these variables that holds a whole number from 0."""
    for name in names:
        text = env.get(name, "").strip()
        if text.isascii() and text.isdigit() and len(text) < 11 and int(text) < 2**31:  # noqa: PLR2004 -- 31 bits
            return int(text)
        if text:
            misused(f"{name} is no whole number in range and is not heeded:", text)
    return None
