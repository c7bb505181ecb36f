"""Output of Megatron-LM and DeepSpeed, and ``progress.txt``, to wire events.

A file is a job of its own, named by file and first instant, unless a name makes several one job.
Its launch is the Slurm job, by which it meets what Slurm and the trainer say of its attempts.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Final

from ett_service.core.intervals import rfc3339
from ett_service.importers.files import pieces_of, runs_of
from ett_service.importers.importer import (
    Fact,
    ImportedRun,
    Report,
    WireEvent,
    clean,
    identified,
)
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.logs.megatron_output import Output
from ett_service.importers.logs.megatron_progress import IS_PROGRESS, Progress

OUTPUTS: Final = ("*.out", "*.log", "progress.txt", "*.out.gz", "*.log.gz")
"""The files that are looked for in a folder."""

_SLURM_ID = re.compile(r"(?:^|[-_.])(\d{3,12})(?:\.(?:out|log|txt|gz))+$")


def read(
    paths: Sequence[Path], job: str | None = None, zone: tzinfo | None = None
) -> tuple[Iterator[ImportedRun], Report]:
    """Read outputs and folders of them; times without a zone are those of *zone*."""
    return runs_of(paths, OUTPUTS, partial(_of_file, job=job, zone=zone))


def _of_file(
    path: Path, report: Report, *, job: str | None, zone: tzinfo | None
) -> Iterator[ImportedRun]:
    facts = list(_facts(path, LocalTimes(path, zone, report), report))
    if not facts:
        report.miss(path, "no instant of a run of Megatron-LM in it")
        return
    report.files += 1
    began = min(fact.event["at"] for fact in facts)
    name = job or _job_name(path, began)
    own = Fact({"type": "job", "at": began, "kind": "megatron"}, facts[0].line)
    named = (
        Fact({"job": name, **fact.event}, fact.line) for fact in [*([] if job else [own]), *facts]
    )
    yield ImportedRun(path, name, identified("megatron", named))


def _job_name(path: Path, began: str) -> str:
    """The name of the file and the second in which its run began."""
    stem = re.sub(r"(\.(out|log|txt|gz))+$", "", clean(path.name))
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", stem).strip("-.")[:120]
    return f"{slug or 'megatron'}-{re.sub('[-:]|[.][0-9]*', '', began)}"


def _facts(path: Path, times: LocalTimes, report: Report) -> Iterator[Fact]:
    first = next((piece for _, piece in pieces_of(path) if not piece.isspace()), b"")
    if IS_PROGRESS.match(first):
        yield from _of_progress(path, times, report)
    else:
        yield from _of_output(path, times, report)


def _of_progress(path: Path, times: LocalTimes, report: Report) -> Iterator[Fact]:
    progress = Progress(path, times, report)
    progress.read()
    for attempt in progress.attempts:
        common: WireEvent = {"cycle": attempt.cycle}
        if attempt.launch:
            common["launch"] = attempt.launch
        started = {"type": "attempt_started", "at": rfc3339(attempt.begin_us)}
        yield Fact({**common, **started, "gpus": attempt.gpus}, attempt.line)
        for fact in attempt.facts:
            fact.event.update(common)
            yield fact


def _of_output(path: Path, times: LocalTimes, report: Report) -> Iterator[Fact]:
    output = Output(path, times, report)
    output.read()
    slurm_id = _SLURM_ID.search(path.name)
    for life in output.lives:
        if life.first is None or not life.facts:
            continue
        common: WireEvent = {"cycle": life.cycle}
        if slurm_id is not None:
            common["launch"] = slurm_id[1]
        started: WireEvent = {"type": "attempt_started", "at": rfc3339(life.first[0])}
        if output.gpus:
            started["gpus"] = output.gpus
        started["attributes"] = {"log": clean(path.name.removesuffix(".gz"))}
        facts = [Fact(started, life.first[1]), *life.facts]
        yield from (Fact({**common, **fact.event}, fact.line) for fact in facts)
