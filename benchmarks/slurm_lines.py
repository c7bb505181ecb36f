"""Slurm's accounting, whose reading is timed."""

from collections.abc import Iterator

from ett_service.core.intervals import rfc3339
from tests.builders.clock import RECEIVED_AT


def _at(second: int) -> str:
    return rfc3339(RECEIVED_AT + second * 1_000_000)[:19]


def sacct_lines(count: int, *, restarts: bool = True) -> Iterator[str]:
    """Jobs of a job's own row and three of its steps, as ``sacct -P`` prints them."""
    columns = "JobID JobIDRaw Cluster JobName User Account Partition QOS Submit Eligible Start End "
    columns += "ElapsedRaw State Reason ExitCode NNodes NodeList AllocTRES"
    yield "|".join([*columns.split(), *(["Restarts"] if restarts else [])])
    more = "|0" if restarts else ""
    tres = "billing=64,cpu=64,gres/gpu:h100=8,gres/gpu=8,mem=1000G,node=1"
    for number in range(100_000, 100_000 + count // 4):
        times = "|".join(_at(number * 7 + each) for each in (0, 0, 40, 3640))
        ended = f"{times}|3600|COMPLETED|Resources|0:0|1|node{number % 100:03d}|{tres}{more}"
        name = f"train-{number % 977}"
        yield f"{number}|{number}|alpha|{name}|user{number % 50}|research|gpu|normal|{ended}"
        for step in ("batch", "extern", "0"):
            yield f"{number}.{step}|{number}.{step}|alpha|{step}||research|||{ended}"


def old_sacct_lines(count: int) -> Iterator[str]:
    """The same of a Slurm that does not print how often a job was restarted."""
    return sacct_lines(count, restarts=False)


def wide_sacct_lines(count: int) -> Iterator[str]:
    """The same with as many columns as ``--format=ALL`` has."""
    for number, line in enumerate(sacct_lines(count)):
        yield line + "".join(f"|Column{each}" if not number else "|0.00M" for each in range(90))
