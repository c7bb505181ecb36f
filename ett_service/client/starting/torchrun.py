"""torchrun's command line: whether it is one, and what names its launch on several nodes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

RENDEZVOUS = "ETT_RENDEZVOUS"
"""Set by torchrun's agent under ``ett run`` for its workers: since when it waited for all nodes."""

_MODULE = ["-m", "torch.distributed.run"]


def is_torchrun(command: Sequence[str]) -> bool:
    """Whether the command starts torchrun, whose workers are restarted inside it."""
    module = list(command[1:3]) == _MODULE
    return bool(command) and (Path(command[0]).name == "torchrun" or module)


def joins_nodes(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether a torchrun may have agents on several nodes, now or after a change of membership."""
    if "--standalone" in command:
        return False
    most = (option(command, env, "nnodes") or "1").rpartition(":")[2]
    return most.isdigit() and int(most) > 1


def rendezvous_id(command: Sequence[str], env: Mapping[str, str]) -> str:
    """Return what all nodes of a torchrun have in common, empty where that is nothing."""
    named = option(command, env, "rdzv-id")
    return "" if named is None or named == "none" else named


def rendezvous_of(agent: int, began_us: int) -> str:
    """Return the variable's value: the agent's process, and an instant of its clock."""
    return f"{agent}-{began_us}"


def rendezvous_began_us(env: Mapping[str, str], agent: int) -> int | None:
    """Return when the *agent* last began to wait for all nodes, None where it does not tell."""
    process, _, began = env.get(RENDEZVOUS, "").partition("-")
    is_told = process == str(agent) and began.isascii() and began.isdigit()
    return int(began) if is_told else None


def option(command: Sequence[str], env: Mapping[str, str], name: str) -> str | None:
    """Return an option's value: torchrun's own come before those of its script."""
    spellings = {f"--{name}", f"--{name.replace('-', '_')}"}
    for place, argument in enumerate(command):
        key, equals, value = argument.partition("=")
        if key in spellings:
            return value if equals else next(iter(command[place + 1 : place + 2]), None)
    return env.get(f"PET_{name.replace('-', '_').upper()}")


def command_of(pid: int) -> list[str]:
    """Return the command line of a process, empty where the system does not tell."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return line.decode(errors="replace").split("\0")[:-1]
