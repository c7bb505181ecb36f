"""Where a start-up went before anything of ours ran: rendezvous, interpreter, imports."""

import os
import sys

import ett_service
from ett_service.client.clock import process_started_us
from ett_service.client.guard import guarded
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.layers import AUTO
from ett_service.client.starting.torchrun import agent_stages

_SHORTEST_US = 1_000

Stage = tuple[str, int, int]
"""Its name, its begin and its end, in microseconds of the clock."""


@guarded(otherwise=None)
def say_startup(recorder: Recorder, launched_at: int) -> None:
    """Report as stages of a launch that began at *launched_at* what came before this recording.

    What lies before this process is torchrun's: its rendezvous, unless its agent tells more.
    """
    if hasattr(sys, "ps1") or "IPython" in sys.modules:
        return  # a notebook's process began long before whatever trains in it
    own = process_started_us(os.getpid())
    if own is None:
        return
    imported, first = ett_service.imported_ns // 1000, ett_service.torch_came_first
    stages = before(own, imported, recorder.now(), torch_came_first=first)
    stages = [*_of_agent(agent_stages(os.environ, os.getppid()), launched_at, own), *stages]
    for name, began, ended in stages:
        if ended - began >= _SHORTEST_US:
            recorder.span("launcher_init", name, began, ended, {"source": AUTO})


def _of_agent(begun: dict[str, int], launched_at: int, own: int) -> list[Stage]:
    """Lay out the stages of torchrun's agent from the begin of the launch to this process's."""
    names = [name for name, at in begun.items() if at >= launched_at]
    begins = [min(begun[name], own) for name in names]  # which is known to 10 ms
    if not names:
        return [("rendezvous", launched_at, own)]
    if names[0] == "rendezvous":
        begins[0] = launched_at  # the first time, torchrun's own start is a part of it
    return list(zip(names, begins, [*begins[1:], own], strict=True))


def before(own: int, imported: int, now: int, *, torch_came_first: bool) -> list[Stage]:
    """Name the time from the process's begin to now, by when this package was imported.

    Where torch was imported first, nothing tells the interpreter's start from that import.
    """
    if torch_came_first:
        return [("imports", own, now)]
    return [("interpreter", own, imported), ("imports", imported, now)]
