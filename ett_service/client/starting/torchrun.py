"""torchrun's command line: whether it is one, and what names its launch on several nodes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

AGENT_STAGES = "ETT_AGENT_STAGES"
"""Set by torchrun's agent under ``ett run`` for its workers: what it did before they began."""

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


def agent_stages_text(agent: int, begun: Mapping[str, int]) -> str:
    """Return the variable's value: the agent's process, and each stage with its begin."""
    return ",".join([str(agent), *(f"{name}:{at}" for name, at in begun.items())])


def agent_stages(env: Mapping[str, str], agent: int) -> dict[str, int]:
    """Return when the *agent* began each stage of a start, in order, in microseconds of the clock.

    Empty where it does not tell.
    """
    process, *stages = env.get(AGENT_STAGES, "").split(",")
    if process != str(agent):
        return {}
    pairs = (stage.partition(":") for stage in stages)
    return {name: int(at) for name, _, at in pairs if at.isascii() and at.isdigit()}


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
