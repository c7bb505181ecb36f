"""The mapping of OpenTelemetry spans to events: all names that are understood, and what they mean.

NVIDIA's libraries write most of their names with and without a leading ``nv.``; both are one name,
which stands here without it. Of the rows that match a span's name the one without ``*`` applies,
else the first. A span that matches none is a stage of the training loop, named as the span is.

Change ``VERSION`` with any row whose meaning changes: events that are stored keep theirs, and what
a process says of its job has the version among its attributes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import translate
from functools import lru_cache

from ett_service.core.words import Outcome, Phase

VERSION = 2
VERSION_ATTRIBUTE = "ett.otlp.mapping"

PREFIX = "nv."
"""What a name may begin with, or not."""


class Fact(Enum):
    """What a span says beside how long it took; each at its end but ``BEGINS``."""

    STEP = auto()  #: its step is done
    SAVED = auto()  #: its step is durable
    RESTORED = auto()  #: training goes on after its step
    BEGINS = auto()  #: an attempt exists since its start, and a life of its rank
    ENDS = auto()  #: the attempt is over, if its attributes have an outcome
    RETURNS = auto()  #: the attempt is over: failed if the span's status is an error
    FAILS = auto()  #: the attempt is over, and failed
    ALIVE = auto()  #: the attempt was alive


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a span of some name is.

    With ``owns`` it is ``phase``, and takes its time from what began before it. With a ``stage``
    it is that part of ``phase``, which owns no time. It can be both, and without a phase neither.
    """

    phase: Phase | None = None
    stage: str | None = None
    owns: bool = False
    facts: tuple[Fact, ...] = ()
    mapped: bool = True  #: whether a row or an attribute says so


def _phase(phase: Phase, stage: str | None = None, *facts: Fact) -> Meaning:
    return Meaning(phase, stage, owns=True, facts=facts)


def _stage(phase: Phase, stage: str, *facts: Fact) -> Meaning:
    return Meaning(phase, stage, facts=facts)


def _fact(*facts: Fact) -> Meaning:
    return Meaning(facts=facts)


_LAST = "*"
"""As a stage: the last part of the span's name."""

_STARTING, _LOOP, _SAVING = Phase.LAUNCHER_INIT, Phase.TRAIN_LOOP, Phase.CHECKPOINT_BLOCKING

SPANS: tuple[tuple[str, Meaning], ...] = (
    # NeMo Lens in Megatron-LM
    ("dl.training.startup", _phase(_STARTING, None, Fact.BEGINS)),
    ("dl.training.startup.python", _stage(_STARTING, "interpreter")),
    ("dl.training.startup.initialize_megatron", _stage(_STARTING, "process_group_init")),
    ("dl.training.startup.model_init", _stage(_STARTING, "train_module_creation")),
    ("dl.training.startup.dataloader", _stage(_STARTING, "preproc_creation")),
    ("dl.training.startup.*", _stage(_STARTING, _LAST)),
    ("dl.resiliency.gpu_sniff.startup", _stage(_STARTING, "gpu_sniff")),
    ("dl.training.checkpoint.load", _stage(_STARTING, "checkpoint_restore", Fact.RESTORED)),
    ("dl.training.checkpoint.load.*", _stage(_STARTING, _LAST)),
    ("dl.training.iter_block", _phase(_LOOP, None, Fact.STEP)),
    ("dl.training.iteration", _phase(_LOOP, None, Fact.STEP)),
    ("dl.training.iteration.*", _stage(_LOOP, _LAST)),
    ("dl.training.evaluate", _phase(Phase.EVALUATION)),
    ("dl.training.evaluate.*", _stage(Phase.EVALUATION, _LAST)),
    ("dl.training.checkpoint.exposed_save", _phase(_SAVING)),
    ("dl.training.checkpoint.save", _stage(_SAVING, "save", Fact.SAVED)),
    ("dl.training.checkpoint.save.finalize", _stage(_SAVING, "finalize", Fact.SAVED)),
    ("dl.training.checkpoint.save.*", _stage(_SAVING, _LAST)),
    ("mlm.checkpoint.exit_finalize", _phase(Phase.SHUTDOWN, "final_checkpoint", Fact.RETURNS)),
    ("mlm.checkpoint.*", _stage(_SAVING, _LAST)),
    ("mcore.cuda_graph.capture", _phase(Phase.PT2_COMPILE, "cuda_graph_capture")),
    # NVIDIA Resiliency Extension
    ("nvrx.ftl.cycle_start", _fact(Fact.BEGINS)),
    ("nvrx.ftl.cycle", _fact(Fact.ENDS)),
    ("nvrx.ftl.fault", _fact(Fact.FAILS)),
    ("nvrx.ftl.rendezvous", _phase(_STARTING, "rendezvous")),
    ("nvrx.ftl.worker_launch", _phase(_STARTING, "worker_launch")),
    ("nvrx.ftl.await_round", _stage(_STARTING, "await_round")),
    ("nvrx.ftl.health_check", _stage(_STARTING, "health_check")),
    ("nvrx.ftl.python.startup", _stage(_STARTING, "launcher_interpreter")),
    ("nvrx.ftl.python.imports", _stage(_STARTING, "launcher_imports")),
    ("nvrx.ftl.teardown", _phase(Phase.SHUTDOWN, "teardown")),
    ("nvrx.ftl.run_start", _fact(Fact.ALIVE)),
    ("nvrx.ftl.run", _fact(Fact.ALIVE)),
    ("nvrx.ftl.attribution", _fact(Fact.ALIVE)),
    ("nvrx.ckpt.save.*", _stage(_SAVING, _LAST)),
    # Reinforcement learning
    ("rl.*.job", _fact(Fact.RETURNS)),
    ("rl.startup", _phase(_STARTING, None, Fact.BEGINS)),
    ("rl.setup.*", _stage(_STARTING, _LAST)),
    ("rl.*.load_model", _stage(_STARTING, "train_module_creation")),
    ("rl.*.step", _phase(_LOOP, None, Fact.STEP)),
    ("rl.*.evaluate", _phase(Phase.EVALUATION)),
    ("rl.*.checkpointing", _phase(_SAVING, "save", Fact.SAVED)),
    ("rl.idle.buffer_starvation", _phase(Phase.STALLED, "waiting")),
    ("rl.idle.refit_bubble", _phase(Phase.STALLED, "weight_sync")),
    ("rl.*weight_sync", _phase(Phase.STALLED, "weight_sync")),
    ("rl.vllm.generate*", _stage(_LOOP, "rollout")),
    ("rl.*.generation", _stage(_LOOP, "rollout")),
    ("rl.*.reward_calculation", _stage(_LOOP, "reward")),
    ("rl.*", _stage(_LOOP, _LAST)),
    ("generate", _stage(_LOOP, "rollout")),
    ("wait_for_training_batch", _phase(Phase.STALLED, "waiting")),
    ("push_model_state_dict", _phase(Phase.STALLED, "weight_sync")),
    # Slurm, by what sacct says of a job that is over
    ("slurm.phase.deferred", _stage(Phase.QUEUED, "deferred")),
    ("slurm.phase.queued", _phase(Phase.QUEUED)),
    ("slurm.phase.cleanup_tail", _stage(Phase.SHUTDOWN, "cleanup_tail")),
    ("slurm.job_setup", _phase(Phase.HARDWARE_SETUP)),
    ("slurm.record.allocation", _fact(Fact.BEGINS, Fact.ENDS)),
    ("slurm.record.step", _fact(Fact.ALIVE)),
    ("slurm.*", _fact()),
)
"""By the name of the span. ``*`` stands for any characters, as a stage for the name's last part."""

BUCKETS: Mapping[str, Phase] = dict.fromkeys(("idle", "overhead", "wasted"), Phase.STALLED)
"""By ``rl.bucket``: what of the loop fed no update owns its time as this phase, in its usual stage.

Spans that are another phase by their name, such as evaluation, keep it.
"""


def _label(name: str) -> tuple[str, str]:
    """Return how a Collector calls a label of the pod, in its newer and in its older versions."""
    return f"k8s.pod.label.{name}", f"k8s.pod.labels.{name}"


ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    # who speaks
    "job": ("ett.job",),
    "slurm_job": ("slurm.job.id",),
    "whole": (*_label("jobset.sigs.k8s.io/jobset-name"), *_label("training.kubeflow.org/job-name")),
    "whole_uid": _label("jobset.sigs.k8s.io/jobset-uid"),
    "kubernetes_job": ("k8s.job.name",),
    "kubernetes_uid": ("k8s.job.uid",),
    "pod": ("k8s.pod.uid", "k8s.pod.name"),
    "run": ("dl.job.uuid", "nemo.run.id"),
    "service": ("service.name",),
    "launch": ("ett.launch", "slurm.job.id"),
    "attempt": ("ett.attempt", "slurm.restarts", "slurm.restart_count"),
    "cycle": ("ett.cycle", "nvrx.cycle.index", "slurm.torchelastic.restart_count"),
    "rank": ("ett.rank", "dl.rank"),
    "host": ("host.name", "k8s.node.name"),
    "instance": ("service.instance.id",),
    "life": ("dl.run.uuid",),
    "process": ("process.pid",),
    # facts about the job and the attempt
    "name": ("slurm.job.name",),
    "team": ("ett.team", "slurm.job.account", "k8s.namespace.name"),
    "model": ("ett.model",),
    "cluster": ("ett.cluster", "slurm.cluster.name", "k8s.cluster.name"),
    "cluster_of_launch": ("slurm.cluster.name",),
    "hardware": ("ett.hardware", "host.gpu.model"),
    "image": ("dl.launch.container.image", "container.image.name"),
    "owner": ("nemo.user.id", "slurm.job.user"),
    "code_version": ("ett.code_version", "service.version"),
    "gpus": ("ett.gpus",),
    "host_gpus": ("host.gpu.count",),
    "hosts": ("slurm.nnodes",),
    "ranks": ("dl.world_size",),
    # of a span
    "phase": ("ett.phase",),
    "stage": ("ett.stage",),
    "step": ("ett.step", "dl.training.step", "dl.iteration", "rl.step", "rl.iteration"),
    "skipped": ("dl.training.iteration.skipped",),
    "truncated": ("nemo.span.truncated",),
    "bucket": ("rl.bucket",),
    "outcome": ("ett.outcome",),
    "cycle_outcome": ("nvrx.cycle.outcome",),
    "worker_state": ("nvrx.ftl.cycle.state",),
    "slurm_state": ("slurm.state",),
    "exception": ("exception.type",),
    "message": ("exception.message",),
}
"""By member: the attributes that say it, the first that is there; a span's before a resource's."""

CYCLE_OUTCOMES: Mapping[str, Outcome] = {
    "completed": Outcome.COMPLETED,
    "failed": Outcome.FAILED,
    "peer_restart": Outcome.FAILED,
    "terminated": Outcome.FAILED,
}
"""By ``nvrx.cycle.outcome``; others are those of a node, not of the attempt."""

WANTED: Mapping[str, str] = {
    spelling: name
    for names in ATTRIBUTES.values()
    for name in names
    for spelling in (name, PREFIX + name)
}
"""Every attribute that is read, by each of its spellings."""

_LONGEST_WORD = 256
_EXACT = {pattern: meaning for pattern, meaning in reversed(SPANS) if "*" not in pattern}
_GLOBS = tuple(
    (re.compile(translate(pattern)), meaning) for pattern, meaning in SPANS if "*" in pattern
)


@lru_cache(maxsize=4096)
def meaning_of(name: str) -> Meaning:
    """Return what spans of this *name* are."""
    bare = name.removeprefix(PREFIX)
    meaning = _EXACT.get(bare) or next((row for glob, row in _GLOBS if glob.match(bare)), None)
    if meaning is None:
        return Meaning(_LOOP, as_word(name), mapped=False)
    if meaning.stage != _LAST:
        return meaning
    return Meaning(meaning.phase, as_word(bare.rpartition(".")[2]), meaning.owns, meaning.facts)


def as_word(name: str) -> str:
    """Return *name* as members of events can have it: printable, not too long, not empty."""
    shown = "".join(each if each.isprintable() and each != "\ufffd" else "?" for each in name)
    return shown[:_LONGEST_WORD] or "unnamed"
