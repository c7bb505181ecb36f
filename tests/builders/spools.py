"""Spools that dead processes have left."""

from pathlib import Path

from ett_service.client.identity import Identity
from ett_service.client.lines import Lines, new_producer
from ett_service.client.sending.spool import Spool, job_directory


def leave_spool(root: Path, events: int, *, job: str = "j", segment: int = 1 << 20) -> list[str]:
    """Leave so many signs of life of a process in *root*, and return their ids, in order."""
    producer = new_producer()
    lines = Lines(Identity(job, "launch", rank=0, host="h"), producer)
    facts = {"job": job, "base_us": lines.base_us}
    spool = Spool(job_directory(root, job) / producer, facts, segment=segment)
    for _ in range(events):
        spool.write(lines.line({"type": "heartbeat"}))
        spool.tend(0)
    spool.close()
    return [f"{producer}-{number}" for number in range(1, events + 1)]
