"""The recording that begins by itself: in the trainer, and in no other process that has torch.

``ett run`` leaves a token in the environment. The first process that imports torch takes it, and
leaves the rank for which it was taken: its DataLoader workers, compile workers and checkpoint
daemons inherit that and stay silent, while a worker of another rank records itself. Launchers leave
the token to their workers.
"""

import itertools
import os
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

from ett_service.client.guard import guarded
from ett_service.client.identity import is_disabled
from ett_service.client.session import begin_automatically, init

_TAKEN = "taken by rank "
_LAUNCHERS = frozenset(
    {"accelerate", "accelerate-launch", "composer", "deepspeed", "horovodrun", "ray", "torchrun"}
)
_LAUNCHING_MODULES = frozenset(
    {
        "accelerate.commands.accelerate_cli",
        "accelerate.commands.launch",
        "deepspeed.launcher.launch",
        "deepspeed.launcher.runner",
        "torch.distributed.launch",
        "torch.distributed.run",
    }
)


@guarded(otherwise=None)
def auto(
    job: str | None = None,
    *,
    url: str | None = None,
    key: str | None = None,
    gpus: int | None = None,
    **facts: object,
) -> None:
    """Begin as ``init`` does, with every hook into PyTorch, imported already or not.

    The hooks report the launch, compiles, steps, the loop and checkpoints; what the script or a
    framework's callback reports of these goes before. Hugging Face Trainers get that callback.
    """
    init(job, url=url, key=key, gpus=gpus, torch=True, **facts)
    _watch_frameworks()


def begin(variable: str) -> None:
    """Take the token that lies in *variable* and begin, if this process is the trainer.

    A launcher is none, but torchrun's agent in it tells how workers died, and so does one that a
    script starts itself.
    """
    if is_disabled(os.environ):
        return
    launches = is_launcher(sys.argv, sys.orig_argv)
    trains = not launches and takes(variable, os.environ)
    if launches or trains:
        _watch_agent()
    if trains:
        begin_automatically()
        _watch_frameworks()


def _watch_agent() -> None:
    from ett_service.client.torch import agent, imports  # noqa: PLC0415 -- with the hooks

    imports.when_imported(agent.MODULE, agent.watch)


def _watch_frameworks() -> None:
    """Have frameworks without a switch of their own report once they are imported."""
    from ett_service.client.torch.imports import when_imported  # noqa: PLC0415 -- with the hooks

    when_imported("transformers.trainer", _report_hugging_face)


@guarded(otherwise=None)
def _report_hugging_face(module: Any) -> None:
    from ett_service.client.frameworks import huggingface  # noqa: PLC0415 -- only beside it

    huggingface.hook(module)


def is_launcher(argv: Sequence[str], original: Sequence[str]) -> bool:
    """Whether a process of these arguments only starts others, or runs a line of code.

    *argv* is what the program sees, *original* what the interpreter was called with.
    """
    program = argv[0] if argv else ""
    modules = (name for flag, name in itertools.pairwise(original) if flag == "-m")
    launching = next(modules, "") in _LAUNCHING_MODULES
    return program == "-c" or launching or Path(program).name in _LAUNCHERS


def takes(variable: str, env: MutableMapping[str, str]) -> bool:
    """Take the token for the rank in *env*; False where there is none or it is taken already."""
    taken = _TAKEN + env.get("RANK", "")
    if env.get(variable, "") in ("", "0", taken):
        return False
    env[variable] = taken
    return True
