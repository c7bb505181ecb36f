"""torchrun's agent, made to report restarts under ``ett run``.

A worker that is killed says nothing, and torchrun keeps what it knows of a restart to itself: how
the worker died, and when it stopped the others, waited for all nodes and started anew. What is
wrapped is private to torch: where it is not there, torchrun runs as it is.
"""

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ett_service.client.clock import mono_us
from ett_service.client.guard import guarded
from ett_service.client.identity import Identity, identify
from ett_service.client.lines import Lines, new_producer
from ett_service.client.sending.backlog import Backlog, spools
from ett_service.client.sending.spool import Spool, default_root, job_directory
from ett_service.client.starting.memory import MemoryKills, as_evidence
from ett_service.client.starting.opening import launch_of_agent
from ett_service.client.starting.torchrun import AGENT_STAGES, agent_stages_text

MODULE = "torch.distributed.elastic.agent.server.local_elastic_agent"

_FIRST = "stop_workers"
_STAGES = {
    "_restart_workers": _FIRST,  # which stops them, then meets the other nodes and starts
    "_rendezvous": "rendezvous",
    "_start_workers": "start_workers",
}
_begun: dict[str, int] = {}
"""The stages of the start that is under way, each with its begin."""

_SIGKILL, _SIGTERM = -9, -15

_FIRST_KILLED = "killed from outside, the first of its node to die"
"""A rule of ours reads it: what other ranks say of a peer that is gone came after that."""


@guarded(otherwise=None)
def watch(module: Any) -> None:
    """Wrap how the agent of torch's *module* looks at its workers, and how it starts them."""
    agent = module.LocalElasticAgent
    for method, stage in _STAGES.items():
        if hasattr(agent, method):
            setattr(agent, method, _telling(getattr(agent, method), stage))
    look = agent._monitor_workers  # noqa: SLF001 -- nothing public reports a restart
    memory = MemoryKills()

    def looking(self: Any, group: Any) -> Any:
        seen = look(self, group)
        _tell(self, group, seen, memory)
        return seen

    agent._monitor_workers = looking  # noqa: SLF001 -- likewise


def _telling(method: Callable[[Any, Any], Any], stage: str) -> Callable[[Any, Any], Any]:
    """Have the workers that come next know since when the agent has been in this *stage*."""

    @functools.wraps(method)
    def telling(self: Any, group: Any) -> Any:
        _tell_stage(stage)
        return method(self, group)

    return telling


@guarded(otherwise=None)
def _tell_stage(stage: str) -> None:
    if stage == _FIRST or "start_workers" in _begun:
        _begun.clear()
    _begun[stage] = mono_us()
    os.environ[AGENT_STAGES] = agent_stages_text(os.getpid(), _begun)


@guarded(otherwise=None)
def _tell(agent: Any, group: Any, seen: Any, memory: MemoryKills) -> None:
    if not seen.failures:
        return
    rank, failure = first_failure(seen.failures)
    cycle = int(group.spec.max_restarts) - int(agent._remaining_restarts)  # noqa: SLF001
    tell_failure(os.environ, rank, failure, cycle, memory.since())


def first_failure(failures: Mapping[int, Any]) -> tuple[int, Any]:
    """Choose the root cause: the earliest, before any that was only told to stop."""
    return min(
        failures.items(),
        key=lambda item: (item[1].exitcode == _SIGTERM, item[1].timestamp, item[0]),
    )


def tell_failure(
    env: Mapping[str, str], rank: int, failure: Any, cycle: int, memory_kills: int = 0
) -> None:
    """Leave an ``attempt_ended`` of this cycle in a spool of its own, for the next to send.

    The kernel has killed *memory_kills* processes for want of memory since the cycle before.
    """
    root = default_root(env)
    identity = _identity(env, root, failure.pid)
    if identity is None:
        return
    producer = new_producer()
    lines = Lines(identity, producer)
    owner = {"job": identity.job, "launch": identity.launch, "base_us": lines.base_us}
    spool = Spool(job_directory(root, identity.job) / producer, owner)
    code = int(failure.exitcode)
    ending = {
        "type": "attempt_ended",
        "cycle": cycle,
        "outcome": "failed",
        "signal": -code if code < 0 else None,
        "exit_code": code if code > 0 else None,
        "message": _FIRST_KILLED if code == _SIGKILL else None,
        "reason": f"worker of rank {rank} died, seen by torchrun",
        "attributes": {"failed_rank": rank, "pid": failure.pid},
    }
    ending = as_evidence(ending, memory_kills)
    if ending["message"]:
        ending["message"] = f"rank {rank}: {ending['message']}"
    spool.write(lines.line(ending))
    spool.close()


def _identity(env: Mapping[str, str], root: Path, pid: int) -> Identity | None:
    """Speak for the job that the dead worker named, else for the one in the environment."""
    owners = (Backlog(path, alive=True).owner for path in spools(root))
    dead = next((owner for owner in owners if owner.get("pid") == pid), {})
    named = {name: value for name, value in env.items() if name != "SLURM_PROCID"}
    if launch := dead.get("launch"):
        named["ETT_LAUNCH"] = str(launch)
    own_launch = launch_of_agent(os.getpid(), env)
    return identify(named, dead.get("job"), os.uname().nodename, own_launch)
