"""What Slurm's accounting says of one life of a job: a row of ``sacct``, without its steps."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

#: ``8041``, a task ``8041_7``, tasks without numbers of their own ``8041_[8-9%1]``, a component
#: ``8041+1`` of a heterogeneous job.
JOB_ID: Final = re.compile(r"(\d+)(?:_(?:(\d+)|\[[^\]]*\]?)|\+(\d+))?", re.ASCII)

_GPUS = re.compile(r"(?:^|,)gres/gpu(?::([^=,]+))?=(\d+)", re.ASCII)
_MOST_MACHINES: Final = 1_000_000  #: beyond any job there is
_NOBODY_RAN_IT = ("None assigned", "None")


@lru_cache(maxsize=4096)
def accelerators_of(tres: str) -> tuple[int | None, str]:
    """Return how many an allocation has, None where it does not say so, and their model."""
    counts = _GPUS.findall(tres)
    plain = [int(count) for model, count in counts if not model]
    typed = [int(count) for model, count in counts if model]
    models = ",".join(sorted({model for model, _ in counts if model}))
    return _within(plain[0] if plain else sum(typed)), models


def hosts_of(nodes: str) -> int | None:
    """Return the number of nodes, None where that is not said."""
    return _within(int(nodes)) if nodes.isascii() and nodes.isdigit() else None


def _within(count: int) -> int | None:
    return count if 0 < count <= _MOST_MACHINES else None


class Record(NamedTuple):
    """One life of a job; texts are as Slurm prints them, instants in whole seconds since 1970."""

    line: int
    job_id: str
    raw_id: str  #: empty where it is not printed
    cluster: str
    name: str
    user: str
    account: str
    partition: str
    qos: str
    submit: int | None
    eligible: int | None
    start: int | None
    end: int | None
    state: str
    reason: str
    exit_code: str
    nodes: str
    tres: str
    node_list: str
    restarts: str
    elapsed: int | None

    @property
    def launch(self) -> str:
        """What the job itself sees as ``SLURM_JOB_ID``; for a component that of the whole job."""
        if "+" in self.job_id:
            return self.job_id.partition("+")[0]
        return self.raw_id or self.job_id

    @property
    def component(self) -> int:
        """Its place in a heterogeneous job."""
        return int(self.job_id.partition("+")[2] or 0)

    @property
    def task(self) -> str:
        """Its number in a job array, empty if it is in none."""
        task = self.job_id.partition("_")[2]
        return "" if task.startswith("[") else task

    @property
    def is_unsplit(self) -> bool:
        """Whether it stands for tasks of an array that have no numbers of their own yet."""
        return "[" in self.job_id

    @property
    def word(self) -> str:
        """Its state without what follows: ``CANCELLED`` of ``CANCELLED by 1000``."""
        return self.state.partition(" ")[0].rstrip("+")

    @property
    def has_begun(self) -> bool:
        """Whether it got nodes."""
        return self.start is not None and self.node_list not in _NOBODY_RAN_IT

    @property
    def was_given_up(self) -> bool:
        """Whether it was cancelled in the queue."""
        return self.end is not None and not self.has_begun

    @property
    def since(self) -> int:
        """What tells the lives of one job apart, and orders them."""
        return self.submit or self.start or 0

    @property
    def gpus(self) -> int | None:
        """The accelerators that it was given, None where that is not said."""
        return accelerators_of(self.tres)[0]

    @property
    def hardware(self) -> str:
        """The model of its accelerators, empty where Slurm does not know one."""
        return accelerators_of(self.tres)[1]

    @property
    def hosts(self) -> int | None:
        """Its nodes, None where that is not said."""
        return hosts_of(self.nodes)
