"""One job as its trainer, Slurm and Kubernetes tell it; seconds count from ``kubernetes.START``.

It is preempted, requeued, and completes; in its other version its last allocation has a restart
inside. Every instant is a multiple of ten seconds, and the job takes a step every ten.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from ett_service.cli.record import otlp_files
from ett_service.importers.instants import zone
from ett_service.importers.kubernetes.cluster import Cluster
from ett_service.importers.slurm.sacct import read
from tests.builders import kubernetes as k8s
from tests.builders import otlp, sacct
from tests.builders.imports import Wire
from tests.builders.otlp import Sent

NAME, LAUNCH, GPUS = "llm", "8041", 16
PLACED, RUNS, TRAINS = 10, 40, 100  #: seconds from the allocation to its pods, trainer and loop
INITIALISES = TRAINS - RUNS
END = 2000
LOOK_EVERY = 100


@dataclass(frozen=True)
class Process:
    """One life of the trainer: its loop, from *loop* on, begins after step *resumed_from*."""

    cycle: int
    begin: int
    end: int
    resumed_from: int

    @property
    def loop(self) -> int:
        """When its first batch trains."""
        return self.begin + INITIALISES

    @property
    def saved(self) -> int:
        """The step of its checkpoint, which is durable 50 seconds before its end."""
        return self.resumed_from + (self.end - 50 - self.loop) // 10


class Life(NamedTuple):
    """One allocation: a record of Slurm, a set of pods, and the processes in it."""

    attempt: int
    queued: int
    start: int
    end: int
    processes: tuple[Process, ...]


FIRST = Life(0, 0, 300, 900, (Process(0, 340, 900, 0),))
LIVES = (FIRST, Life(1, 900, 1200, END, (Process(0, 1240, END, 45),)))
RESTARTED = (
    FIRST,
    Life(1, 900, 1200, END, (Process(0, 1240, 1490, 45), Process(1, 1500, END, 59))),
)
"""A trainer fails, and begins again in its pods."""


def by_slurm(folder: Path, lives: Sequence[Life], now: int = END) -> Wire:
    """Return what the importer, and the watcher, make of Slurm's records at *now*."""
    rows = [sacct.row(**_record(life, now)) for life in lives if life.queued <= now]
    runs, _ = read([sacct.written(folder, *rows)], zone=zone("UTC"))
    return [event for run in runs for event in run.events]


def _record(life: Life, now: int) -> dict[str, str]:
    times = {
        "Submit": life.queued, "Eligible": life.queued, "Start": life.start, "End": life.end,
    }  # fmt: skip
    texts = {
        name: k8s.instant(at).removesuffix("Z") if at <= now else "Unknown"
        for name, at in times.items()
    }
    over = "COMPLETED" if life.end == END else "PREEMPTED"
    state = "PENDING" if now < life.start else "RUNNING" if now < life.end else over
    elapsed = max(0, min(now, life.end) - life.start)
    return {
        "JobID": LAUNCH, "JobName": NAME, **texts, "State": state, "ElapsedRaw": str(elapsed),
    }  # fmt: skip


def watched_in_slurm(folder: Path, lives: Sequence[Life]) -> Wire:
    """Return what a watcher of Slurm sends while the job goes on."""
    looks = [by_slurm(folder, lives, now) for now in range(0, END + LOOK_EVERY, LOOK_EVERY)]
    return [event for look in looks for event in look]


def by_kubernetes(lives: Sequence[Life], *, is_named: bool = True) -> Wire:
    """Return what the importer of dumps makes of all changes of the objects.

    Without names in the pods the launch is the JobSet's uid.
    """
    return _looks(lives, is_named=is_named)[-1]


def watched_in_kubernetes(lives: Sequence[Life]) -> Wire:
    """Return what a watcher of Kubernetes that looks after each change sends."""
    return [event for look in _looks(lives) for event in look]


def _looks(lives: Sequence[Life], *, is_named: bool = True) -> list[Wire]:
    cluster = Cluster("alpha")
    looks = []
    for thing in _changes(lives):
        if not is_named:
            _forget_names(thing)
        assert cluster.take("MODIFIED", thing)
        cluster.settle()
        looks.append(k8s.all_events(cluster))
    return looks


def _changes(lives: Sequence[Life]) -> Iterator[k8s.Json]:
    jobset = k8s.owner("JobSet", NAME)
    yield k8s.jobset(NAME, 0, env=_claims())
    yield k8s.workload("w", jobset, 0)
    for life in lives:
        reserved, admitted = (
            k8s.condition(name, life.start) for name in ("QuotaReserved", "Admitted")
        )
        yield k8s.workload("w", jobset, 0, reserved, admitted)
        for container in _containers(life):
            if "terminated" in container["state"] and life.end != END:
                evicted = k8s.condition("Evicted", life.end, reason="Preempted")
                yield k8s.workload("w", jobset, 0, evicted, schedulingStats=_evictions(1))
            yield from (_pod(life, index, container) for index in (0, 1))
    done = k8s.condition("Completed", END, reason="AllJobsCompleted")
    yield k8s.jobset(NAME, 0, env=_claims(), restarts=1, conditions=[done])


def _forget_names(thing: k8s.Json) -> None:
    for container in thing["spec"].get("containers", ()):
        container.pop("env", None)
    for part in thing["spec"].get("replicatedJobs", ()):
        for container in part["template"]["spec"]["template"]["spec"]["containers"]:
            container["env"] = []


def _claims(**more: str) -> list[k8s.Json]:
    environment = {"ETT_JOB": NAME, "ETT_LAUNCH": LAUNCH, **more}
    return [{"name": name, "value": value} for name, value in environment.items()]


def _evictions(count: int) -> k8s.Json:
    return {"evictions": [{"reason": "Preempted", "count": count}]}


def _containers(life: Life) -> Iterator[k8s.Json]:
    """Yield the statuses that the trainer's container has, one after the other."""
    yield k8s.waiting()
    before = None
    for process in life.processes:
        yield k8s.running(process.begin, process.cycle, before)
        before = k8s.life(process.begin, process.end, 1)
    code = 0 if life.end == END else 143
    yield k8s.over(process.begin, life.end, code, restarts=process.cycle)


def _pod(life: Life, index: int, container: k8s.Json) -> k8s.Json:
    return k8s.pod(
        f"{NAME}-{life.attempt}-{index}",
        k8s.owner("Job", f"{NAME}-workers-0"),
        life.start,
        scheduled=life.start + PLACED,
        container=container,
        labels=k8s.jobset_labels(NAME, index, life.attempt),
        env=_claims(ETT_ATTEMPT=str(life.attempt)),
        node=f"n{index + 1}",
    )


def by_otlp(folder: Path, lives: Sequence[Life], resource: Mapping[str, otlp.Value]) -> Wire:
    """Return what becomes of the spans of rank 0, whose processes all have *resource*."""
    bodies = []
    for life in lives:
        for each in life.processes:
            own = {"process.pid": each.begin}
            spans = [
                replace(span, number=each.begin << 16 | place)
                for place, span in enumerate(_spans(each), start=1)
            ]
            bodies.append(otlp.json_body({"dl.rank": 0, **own, **resource}, spans))
    path = folder / "traces.jsonl"
    path.write_bytes(b"\n".join(bodies))
    runs, _ = otlp_files.read([path])
    return [event for run in runs for event in run.events]


def _spans(process: Process) -> Iterator[Sent]:
    loop, end = process.loop, process.end
    yield Sent("nv.dl.training.startup", process.begin, loop)
    for place, second in enumerate(range(loop, end, 10), start=1):
        is_done = second + 10 < end  # the last one is cut short
        step = {"nv.dl.training.step": process.resumed_from + place} if is_done else {}
        yield Sent("nv.dl.training.iteration", second, second + 10, step)
    saved = {"nv.dl.training.step": process.saved}
    yield Sent("nv.dl.training.checkpoint.save", end - 50, end - 50, saved)
    if end == END:
        yield Sent("nv.mlm.checkpoint.exit_finalize", end, end)


def by_trainer(lives: Sequence[Life]) -> Wire:
    """Return what rank 0 sends; a process that is preempted ends without a word."""
    events = [event for life in lives for each in life.processes for event in _trained(life, each)]
    return [{"id": f"t{number}", **event} for number, event in enumerate(events)]


def _trained(life: Life, process: Process) -> Iterator[k8s.Json]:
    whose = {"job": NAME, "launch": LAUNCH, "attempt": life.attempt, "rank": 0}
    whose |= {"cycle": process.cycle, "producer": f"p{process.begin}"}

    def event(kind: str, second: int, **members: object) -> k8s.Json:
        at = (k8s.START + timedelta(seconds=second)).isoformat()
        return {"type": kind, **whose, "at": at, **members}

    begin, loop, end, step = process.begin, process.loop, process.end, process.resumed_from
    yield event("attempt_started", begin, gpus=GPUS, hosts=2)
    yield event("phase_started", begin, phase="launcher_init")
    yield event("phase_started", loop, phase="train_loop")
    for second in range(loop + 10, end, 10):
        step += 1
        yield event("progress", second, step=step)
    yield event("checkpoint_saved", end - 50, step=process.saved)
    if end == END:
        yield event("attempt_ended", end, outcome="completed", exit_code=0)
    elif end != life.end:
        yield event("attempt_ended", end, outcome="failed", exit_code=1)
