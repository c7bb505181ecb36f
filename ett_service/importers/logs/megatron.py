"""Output of Megatron-LM and DeepSpeed, and ``progress.txt``, to wire events.

A file is a job of its own, named by file and first instant, unless a name makes several one job.
Its launch is the Slurm job, by which it meets what Slurm and the trainer say of its attempts.

A line of ``progress.txt``, of ``--log-progress``, is ``2024-05-13 12:34:56⇥Job ID: 513⇥# GPUs: 64⇥
Saved checkpoint⇥Iteration: 300⇥…``. It does not say when training began: that is placed by the pace
of the first two saves of an attempt.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
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
from ett_service.importers.instants import microseconds
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.logs.megatron_output import Output

IS_PROGRESS: Final = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\tJob ID: [^\t]*\t# GPUs: \d")

_LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\tJob ID: (?P<id>[ -~]{0,100})\t"
    r"# GPUs: (?P<gpus>\d{1,9})\t"
    r"(?P<what>Starting job|Saving async checkpoint|Saved async checkpoint|Saved checkpoint)"
    r"(?:\tIteration: (?P<step>\d{1,15}))?(?P<rest>.*)$"
)
_TOKENS = re.compile(r"Tokens \(in billions\): (\d{1,9}(?:\.\d{1,9})?)")
_BILLION: Final = 1_000_000_000
_LONGEST_LAUNCH: Final = 100

OUTPUTS: Final = ("*.out", "*.log", "progress.txt", "*.out.gz", "*.log.gz")
"""The files that are looked for in a folder."""

_SLURM_ID = re.compile(r"(?:^|[-_.])(\d{3,12})(?:\.(?:out|log|txt|gz))+$")


@dataclass(slots=True)
class Start:
    """One start of the training processes."""

    launch: str
    cycle: int
    gpus: int
    begin: str
    line: int
    is_started: bool  #: whether its start is in the file
    from_step: int  #: after which it goes on: the last that was durable
    facts: list[Fact] = field(default_factory=list)
    points: list[tuple[str, int]] = field(default_factory=list)  #: ``(instant, step)``, two

    def say(self, event: WireEvent, line: int) -> None:
        """Add an event of this start."""
        event["cycle"] = self.cycle
        if self.launch:
            event["launch"] = self.launch
        self.facts.append(Fact(event, line))


class Progress:
    """The attempts that one file holds."""

    def __init__(self, path: Path, times: LocalTimes, report: Report) -> None:
        self._path = path
        self._times = times
        self._report = report
        self._durable = 0
        self._cycles: dict[str, int] = {}
        self.attempts: list[Start] = []

    def read(self) -> None:
        """Read the file to its end.

        Raises:
            Unreadable: where that cannot be done.
        """
        for number, piece in pieces_of(self._path):
            text = piece.decode("utf-8", "replace").rstrip("\r\n")
            line = _LINE.match(text)
            at = self._times.written(line["time"], number) if line is not None else None
            is_save = line is not None and line["what"] != "Starting job"
            if line is None or at is None or (is_save and line["step"] is None):
                if text:
                    self._report.skip(
                        self._path, number, "no line of progress.txt, or a part of one"
                    )
                continue
            self._report.records += 1
            self._take(number, line, at)

    def _take(self, number: int, line: re.Match[str], at: str) -> None:
        _, slurm_id, gpus, what, step, rest = line.groups()
        launch = clean(slurm_id)[:_LONGEST_LAUNCH]
        if what == "Starting job":
            self._begin(launch, int(gpus), at, number, is_started=True)
            return
        if not self.attempts or self.attempts[-1].launch != launch:
            self._begin(launch, int(gpus), at, number, is_started=False)
        self._save(number, what, int(step), rest, at)

    def _begin(self, launch: str, gpus: int, at: str, number: int, *, is_started: bool) -> None:
        cycle = self._cycles.get(launch, -1) + 1
        self._cycles[launch] = cycle
        attempt = Start(launch, cycle, gpus, at, number, is_started, self._durable)
        self.attempts.append(attempt)

    def _save(self, number: int, what: str, step: int, rest: str, at: str) -> None:
        attempt = self.attempts[-1]
        if what != "Saved async checkpoint":
            progress: WireEvent = {"job": "", "type": "progress", "at": at, "step": step}
            tokens = _TOKENS.search(rest)
            if tokens is not None:
                progress["tokens"] = round(float(tokens[1]) * _BILLION)
            attempt.say(progress, number)
            self._place_loop(attempt, at, step)
        if what != "Saving async checkpoint":
            attempt.say({"job": "", "type": "checkpoint_saved", "at": at, "step": step}, number)
            self._durable = max(self._durable, step)

    def _place_loop(self, attempt: Start, at: str, step: int) -> None:
        """Place the begin of training where the pace of the first two saves leads back to."""
        points = attempt.points
        if len(points) == 2 or (points and (at, step) <= points[0]):  # noqa: PLR2004
            return
        points.append((at, step))
        if len(points) < 2 or not attempt.is_started:  # noqa: PLR2004
            return
        (first_at, first), (_, second) = points
        steps = first - attempt.from_step
        if second <= first or steps < 0:
            return
        first_us, second_us = _microseconds(first_at), _microseconds(at)
        before_us = (second_us - first_us) * steps // (second - first)
        began = max(attempt.begin, rfc3339(first_us - before_us))
        init = {"phase": "launcher_init"}
        begun: WireEvent = {"type": "phase_started", "at": attempt.begin}
        attempt.say({**_NAMELESS, **begun, **init}, attempt.line)
        ended: WireEvent = {"type": "phase_ended", "at": began}
        attempt.say({**_NAMELESS, **ended, **init, "attributes": _PLACED}, attempt.line)
        loop: WireEvent = {"type": "phase_started", "at": began, "phase": "train_loop"}
        attempt.say({**_NAMELESS, **loop, "attributes": _PLACED}, attempt.line)


def _microseconds(at: str) -> int:
    return microseconds(datetime.fromisoformat(at))


_NAMELESS: Final = {"job": ""}
"""The first member of each event; what the job is called is only known when all have been read."""

_PLACED: Final = {"source": "megatron", "placed_by": "pace of the first two saves"}


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
    if job is None:
        facts.insert(
            0, Fact({"job": name, "type": "job", "at": began, "kind": "megatron"}, facts[0].line)
        )
    for fact in facts:
        fact.event["job"] = name
    yield ImportedRun(path, name, identified("megatron", facts))


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
        common: WireEvent = {**_NAMELESS, "cycle": attempt.cycle}
        if attempt.launch:
            common["launch"] = attempt.launch
        started = {"type": "attempt_started", "at": attempt.begin}
        yield Fact({**common, **started, "gpus": attempt.gpus}, attempt.line)
        yield from attempt.facts


def _of_output(path: Path, times: LocalTimes, report: Report) -> Iterator[Fact]:
    output = Output(path, times, report)
    output.read()
    slurm_id = _SLURM_ID.search(path.name)
    for life in output.lives:
        if life.first is None or not life.facts:
            continue
        common: WireEvent = {**_NAMELESS, "cycle": life.cycle}
        if slurm_id is not None:
            common["launch"] = slurm_id[1]
        started: WireEvent = {"type": "attempt_started", "at": rfc3339(life.first[0])}
        if output.gpus:
            started["gpus"] = output.gpus
        started["attributes"] = {"log": clean(path.name.removesuffix(".gz"))}
        facts = [Fact(started, life.first[1]), *life.facts]
        yield from (Fact({**common, **fact.event}, fact.line) for fact in facts)
