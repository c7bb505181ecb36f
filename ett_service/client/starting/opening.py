"""How an attempt begins: what came before, the job's facts, its start, and its start-up so far."""

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import ett_service
from ett_service.client.clock import mono_us, process_started_us
from ett_service.client.guard import guarded, misused
from ett_service.client.identity import allocated_at_us, hosts_of, submitted_at_us
from ett_service.client.lines import new_producer
from ett_service.client.members import FACTS, word
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.layers import AUTO
from ett_service.client.starting.torchrun import (
    agent_stages,
    command_of,
    joins_nodes,
    rendezvous_id,
)

FOLDER = "begun"

_KEPT_SECONDS = 90 * 86_400

_SHORTEST_US = 1_000

Stage = tuple[str, int, int]
"""Its name, its begin and its end, in microseconds of the clock."""


def begins_first(root: Path, name: str) -> bool:
    """Whether nothing of this name began before, by the marks in the folder of the spools.

    Where no mark can be left, something may have.
    """
    folder = root / FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(folder / name.replace("/", "-"), os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    _forget_old(folder)
    return True


def _forget_old(folder: Path) -> None:
    with suppress(OSError):
        for mark in folder.iterdir():
            if time.time() - mark.stat().st_mtime > _KEPT_SECONDS:
                mark.unlink(missing_ok=True)


@guarded(otherwise=None)
def last_failure(env: Mapping[str, str]) -> dict[str, Any] | None:
    """Return an ``attempt_ended`` of the cycle before this one, None where nothing reports it.

    torchrun writes ``attempt_<n>/<local rank>/error.json`` for a worker under ``@record`` that
    raised; the earliest is the root cause, and of this node only. ``at_us`` is its instant, in
    microseconds since the Unix epoch, to a second. A worker of this rank reported its own.
    """
    own = env.get("TORCHELASTIC_ERROR_FILE", "")
    cycle = env.get("TORCHELASTIC_RESTART_COUNT", "")
    if not own or not cycle.isdigit() or cycle == "0":
        return None
    before = Path(own).parent.parent.parent / f"attempt_{int(cycle) - 1}"
    failures = [
        failure
        for path in sorted(before.glob("*/error.json"))
        if path.parent.name != env.get("LOCAL_RANK") and (failure := _failure(path, env))
    ]
    if not failures:
        return None
    return {**min(failures, key=lambda failure: int(failure["at_us"])), "cycle": int(cycle) - 1}


def _failure(path: Path, env: Mapping[str, str]) -> dict[str, Any] | None:
    try:
        report = json.loads(path.read_text(encoding="utf-8"))["message"]
        text, at = str(report["message"]), int(report["extraInfo"]["timestamp"])
        rank = int(env["GROUP_RANK"]) * int(env["LOCAL_WORLD_SIZE"]) + int(path.parent.name)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    exception, colon, message = text.partition(": ")
    return {
        "type": "attempt_ended",
        "outcome": "failed",
        "rank": rank,
        "exception": exception[:200] if colon else None,
        "message": (message if colon else text)[:2000],
        "at_us": at * 1_000_000,
    }


_DAY_US = 86_400_000_000


_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def rank_of_group(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that *env* lacks for this process's rank, where torch's group knows it.

    So it is where a script starts its ranks itself, as by ``torch.multiprocessing.spawn``.
    """
    group: Any = sys.modules.get("torch.distributed")
    if env.get("ETT_RANK") or env.get("RANK") or not hasattr(group, "is_initialized"):
        return {}
    ranks = group.get_world_size() if group.is_initialized() else 1
    return {"RANK": str(group.get_rank())} if ranks > 1 else {}


def own_launch(env: Mapping[str, str]) -> str:
    """Name the submission after torchrun's agent, else after this life of this process.

    Ranks that a script started itself have its process in common, but on several nodes nothing.
    """
    if "TORCHELASTIC_RESTART_COUNT" in env:
        return launch_of_agent(os.getppid(), env)
    processes: Any = sys.modules.get("multiprocessing.process")
    parent = None if processes is None else processes.parent_process()
    if parent is None or not env.get("RANK"):
        return new_producer()
    is_alone = env.get("MASTER_ADDR", "localhost") in _LOOPBACK
    return launch_of_process(parent.pid) if is_alone else ""


def launch_of_agent(pid: int, env: Mapping[str, str]) -> str:
    """Name a submission that no scheduler names after torchrun's agent *pid*.

    One that may join other nodes is named by what these know, too, also while it is alone.
    """
    command = command_of(pid)
    if joins_nodes(command, env):
        return word(rendezvous_id(command, env), 100) or ""
    return launch_of_process(pid)


def launch_of_process(pid: int) -> str:
    """Name a submission that no scheduler names after the process that it began with."""
    return f"{os.uname().nodename[:60]}-{pid}-{process_started_us(pid) or 0}"


@guarded(otherwise=None)
def say_facts(recorder: Recorder, gpus: int | None, facts: Mapping[str, object]) -> None:
    """Say what the job is, if this process leads; a fact that no job has is warned of."""
    if unknown := sorted(set(facts) - FACTS):
        advice = f"; it knows gpus, {', '.join(sorted(FACTS))}"
        misused("init() knows no", ", ".join(unknown), advice)
    stated = {name: value for name, value in facts.items() if name in FACTS}
    if recorder.identity.leads and (stated or gpus is not None):
        recorder.write({"type": "job", "gpus": gpus, **stated})


def say_start(
    recorder: Recorder,
    env: Mapping[str, str],
    gpus: int | None,
    hooks: Mapping[str, str],
    *,
    first_life: bool,
) -> int:
    """Say that the attempt exists and launches, and what came before it if this process leads.

    Returns when the launch began, in microseconds of the clock.
    """
    own = _began_at() if first_life else mono_us()
    began = _launched_at(recorder, env, own) if first_life else own
    started: dict[str, object] = {"type": "attempt_started"}
    if recorder.identity.leads:
        _say_what_came_before(recorder, env, began)
        started |= {"gpus": gpus, "hosts": hosts_of(env)}
    attributes = _evidence(env) | ({"hooks": dict(hooks)} if hooks else {})
    recorder.write(started | {"attributes": attributes or None}, own)
    recorder.edge_at("phase_started", "launcher_init", None, began)
    recorder.launching = True
    return began


def _say_what_came_before(recorder: Recorder, env: Mapping[str, str], began: int) -> None:
    failure = last_failure(env)
    if failure is not None:
        at = failure.pop("at_us")
        recorder.write(failure, at - recorder.lines.base_us)
    say_allocation(recorder, env, began)


@guarded(otherwise=None)
def say_allocation(recorder: Recorder, env: Mapping[str, str], began: int) -> None:
    """Say once an attempt how long it was scheduled and set up, as far as the environment says.

    Its launch *began* at that instant of the clock, in microseconds. Later cycles, and lives under
    the same count, run in the allocation that the first reported; a later attempt waited for
    another than that which was submitted.
    """
    identity, base = recorder.identity, recorder.lines.base_us
    allocated, submitted = allocated_at_us(env), submitted_at_us(env)
    if allocated is None or identity.cycle > 0 or not began - _DAY_US < allocated - base < began:
        return
    if begins_first(_job_directory(recorder), f"allocation-{identity.launch}-{identity.attempt}"):
        if submitted is not None and submitted < allocated and identity.attempt == 0:
            recorder.span("scheduling", None, submitted - base, allocated - base)
        recorder.span("hardware_setup", None, allocated - base, began)


def _job_directory(recorder: Recorder) -> Path:
    return recorder.spool.directory.parent


def _evidence(env: Mapping[str, str]) -> dict[str, object]:
    """Return what torchrun says of this life; its count of restarts may be too low."""
    names = {
        "restart_count": "TORCHELASTIC_RESTART_COUNT",
        "run_id": "TORCHELASTIC_RUN_ID",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    }
    return {name: env[variable][:200] for name, variable in names.items() if variable in env}


def _began_at() -> int:
    """When this life began: with its process, but a notebook's began long before it trains."""
    now = mono_us()
    if hasattr(sys, "ps1") or "IPython" in sys.modules:
        return now
    began = process_started_us(os.getpid())
    return now if began is None else min(began, now)


def _launched_at(recorder: Recorder, env: Mapping[str, str], own: int) -> int:
    """When the launch of a life that began at *own* began: with the agent that started it first.

    Later lives began where their agent stopped the one before, or met the others, if it says so. An
    agent counts no restart for a change of membership, so that its count stays 0. The agent of a
    rank that does not lead may have come to a launch that goes on.
    """
    agent = os.getppid()
    mark = f"agent-{launch_of_process(agent)}-{env.get('LOCAL_RANK')}"
    counts_none = env.get("TORCHELASTIC_RESTART_COUNT") == "0"
    # Every rank leaves a mark: a change of membership may make another one lead.
    first = counts_none and begins_first(_job_directory(recorder), mark)
    if not recorder.identity.leads:
        return own
    stages = agent_stages(env, agent)
    began = process_started_us(agent) if first else min(stages.values(), default=None)
    return own if began is None else min(began, own)


@guarded(otherwise=None)
def say_startup(recorder: Recorder, launched_at: int) -> None:
    """Report as stages of a launch that began at *launched_at* what came before this recording.

    What lies before this process is torchrun's: its rendezvous, unless its agent reports more.
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
