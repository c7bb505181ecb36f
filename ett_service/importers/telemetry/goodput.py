"""Google's goodput entries (ml-goodput-measurement) to wire events.

Each start of a job is a launch, named by its instant, so that exports of different windows agree.
A life that begins without one, as steps go back or slices come back, is a cycle of its launch.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from ett_service.core.intervals import rfc3339
from ett_service.importers.files import runs_of
from ett_service.importers.importer import (
    Fact,
    ImportedRun,
    Report,
    identified,
    job_name,
    launch_name,
    word,
)
from ett_service.importers.telemetry.goodput_log import (
    DENSE,
    JobLog,
    Mark,
    StepBegin,
    StepColumns,
    read_log,
)
from ett_service.importers.thinning import most_points, thinned

ENTRIES = ("*.jsonl", "*.json", "*.jsonl.gz", "*.json.gz")
"""The files that are looked for in a folder."""

_STAGES: Final = {
    "tpu_init": "device_init",
    "training_prep": "pre_train",
    "data_loading": "get_first_batch_data",
    "elastic_reinit": "elastic_reinit",
}
"""Parts of starting, by the key of their edges."""

_EVALUATIONS: Final = ("eval", "valid", "test")
_SAVES: Final = ("checkpoint", "save")
_IN_OTHER_UNIT: Final = "a time is not in seconds, so nothing of this job is imported"


@dataclass(slots=True)
class ProgramLife:
    """One life of the training program: what happened from its begin to that of the next."""

    begin: Mark | None  #: its record; None where steps go back, or the file begins inside it
    launch: str  #: empty where the file begins inside it
    cycle: int
    marks: list[Mark] = field(default_factory=list)
    steps: StepColumns = field(default_factory=StepColumns)
    end: Mark | None = None


def read(paths: Sequence[Path], job: str | None = None) -> tuple[Iterator[ImportedRun], Report]:
    """Read files of entries and folders of them; with *job*, all are of that one."""
    return runs_of(paths, ENTRIES, partial(_of_file, job=job))


def _of_file(path: Path, report: Report, *, job: str | None) -> Iterator[ImportedRun]:
    logs = read_log(path, report)
    with_entries = [log for log in logs.values() if log.marks or log.steps.kept]
    if with_entries:
        report.files += 1
    else:
        report.miss(path, "no entry of goodput")
    for log in with_entries:
        if log.line_in_other_unit is not None:
            report.refuse(path, log.line_in_other_unit, _IN_OTHER_UNIT)
        else:
            yield _imported(path, log, job or job_name(log.name, "goodput"))


def _imported(path: Path, log: JobLog, job: str) -> ImportedRun:
    restored = {mark.step for mark in log.marks if mark.kind == "restore"}
    all_lives = lives(log)
    most = most_points(len(all_lives))
    facts = (
        Fact({**fact.event, "job": job, **_identity(life)}, fact.line)
        for life in all_lives
        for fact in _facts(life, restored, most)
    )
    return ImportedRun(path, job, identified("goodput", facts))


def _identity(life: ProgramLife) -> dict[str, Any]:
    identity: dict[str, Any] = {"launch": life.launch} if life.launch else {}
    return {**identity, "cycle": life.cycle} if life.cycle else identity


def lives(log: JobLog) -> list[ProgramLife]:
    """Cut a job's log into lives, by the instants of its entries and not by their order."""
    marks: Iterable[Mark | StepBegin] = sorted(log.marks, key=_place)
    steps: Iterable[Mark | StepBegin] = log.steps.kept.by_instant()
    lives: list[ProgramLife] = []
    for entry in merge(marks, steps, key=_place):
        life = lives[-1] if lives else None
        if isinstance(entry, Mark) and entry.kind == "job_start":
            lives.append(ProgramLife(entry, launch_name(entry.at_us), 0))
            continue
        if life is None:
            life = ProgramLife(None, "", 0)
            lives.append(life)
        elif _is_reborn(life, entry):
            begin = entry if isinstance(entry, Mark) else None
            life = ProgramLife(begin, life.launch, life.cycle + 1)
            lives.append(life)
        _add(life, entry)
    return lives


def _place(entry: Mark | StepBegin) -> tuple[int, bool, int]:
    """Starts of a job come before what else happens on their instant."""
    is_start = isinstance(entry, Mark) and entry.kind == "job_start"
    return entry.at_us, not is_start, entry.line


def _is_reborn(life: ProgramLife, entry: Mark | StepBegin) -> bool:
    """Whether an entry is of the next life of its launch, which no start of a job announces."""
    if isinstance(entry, StepBegin):
        return life.end is not None or (bool(life.steps) and entry.number < life.steps[-1].number)
    if entry.kind == "elastic_reinit_start":
        return bool(life.steps) or life.end is not None
    return life.end is not None and entry.kind not in ("job_end", "save")


def _add(life: ProgramLife, entry: Mark | StepBegin) -> None:
    if isinstance(entry, Mark):
        life.marks.append(entry)
        if entry.kind == "job_end":
            life.end = entry
    elif not life.steps or entry.number > life.steps[-1].number:
        life.steps.append(entry)


def _facts(life: ProgramLife, restored: set[int | None], most: int) -> Iterator[Fact]:
    begin, steps = life.begin, life.steps
    compiled = _compile(life)
    if begin is not None:
        yield Fact({"type": "attempt_started", "at": rfc3339(begin.at_us)}, begin.line)
        yield _edge("phase_started", "launcher_init", begin.at_us, begin.line)
        if steps:
            yield _edge("phase_ended", "launcher_init", steps[0].at_us, steps[0].line)
    yield from _stages(life)
    if compiled is not None:
        yield compiled
    if steps:
        loop = steps[0] if compiled is None else steps[1]
        loop_us = steps[0].at_us if compiled is None else _compiled_us(life)
        yield _edge("phase_started", "train_loop", loop_us, loop.line)
        yield from _progress(steps, most)
    yield from _blocked(life)
    yield from _saved(life, restored)
    if life.end is not None:
        if steps:
            yield _edge("phase_ended", "train_loop", life.end.at_us, life.end.line)
        ended = {"type": "attempt_ended", "at": rfc3339(life.end.at_us), "outcome": "completed"}
        yield Fact(ended, life.end.line)


def _edge(kind: str, phase: str, at_us: int, line: int, stage: str | None = None) -> Fact:
    part = {"stage": stage} if stage else {}
    return Fact({"type": kind, "at": rfc3339(at_us), "phase": phase, **part}, line)


def _span(phase: str, start: Mark, end_us: int, line: int, stage: str | None = None) -> Fact:
    part = {"stage": stage} if stage else {}
    instants = {"start": rfc3339(start.at_us), "at": rfc3339(end_us)}
    return Fact({"type": "span", **instants, "phase": phase, **part}, line)


def _compiled_us(life: ProgramLife) -> int:
    """When the first step had taken what makes it longer than those after it.

    The program is compiled there, and no entry says so. Of the steps after it, the median of
    three is the measure; blocked time is taken off, and twice the measure is still a step.
    """
    steps = life.steps[: DENSE - 1]
    begin_us = steps[0].at_us if steps else 0
    in_a_row = [step.number - steps[0].number for step in steps] == list(range(DENSE - 1))
    if life.begin is None or not in_a_row:
        return begin_us
    blocked = [(each.at_us, end_us) for each, end_us, *_ in _blocking(life)]
    lengths = [
        b.at_us - a.at_us - sum(max(0, min(e, b.at_us) - max(s, a.at_us)) for s, e in blocked)
        for a, b in itertools.pairwise(steps)
    ]
    usual = sorted(lengths[1:])[1]
    return begin_us + lengths[0] - usual if lengths[0] > 2 * usual else begin_us


def _compile(life: ProgramLife) -> Fact | None:
    end_us = _compiled_us(life)
    if not life.steps or end_us == life.steps[0].at_us:
        return None
    start, line = life.steps[0].at_us, life.steps[1].line
    return Fact(
        {
            "type": "span",
            "start": rfc3339(start),
            "at": rfc3339(end_us),
            "phase": "pt2_compile",
            "attributes": {"inferred": "the first step took longer than those after it"},
        },
        line,
    )


def _stages(life: ProgramLife) -> Iterator[Fact]:
    for key, stage in _STAGES.items():
        for start, end in _pairs(life.marks, key):
            if end is None:
                yield _edge("phase_started", "launcher_init", start.at_us, start.line, stage)
            else:
                yield _span("launcher_init", start, end.at_us, end.line, stage)
    for mark in life.marks:
        if mark.kind == "restore":
            yield _span("launcher_init", mark, mark.end_us, mark.line, "checkpoint_restore")
            if mark.step is not None:
                at = rfc3339(mark.end_us)
                restored = {"type": "checkpoint_restored", "at": at, "step": mark.step}
                yield Fact(restored, mark.line)


def _pairs(marks: Iterable[Mark], key: str) -> Iterator[tuple[Mark, Mark | None]]:
    """Yield starts with their ends, those of each word apart; an end without a start is none."""
    opened: dict[str, Mark] = {}
    for mark in marks:
        if mark.kind == key + "_start":
            if mark.word in opened and opened[mark.word].at_us < mark.at_us:
                yield opened[mark.word], None
            opened[mark.word] = mark
        elif mark.kind == key + "_end" and mark.word in opened:
            yield opened.pop(mark.word), mark
    for start in opened.values():
        yield start, None


def _progress(steps: StepColumns, most: int) -> Iterator[Fact]:
    """As a step begins, the one before it is done."""
    for step in thinned(steps, steps.instants_us, most):
        if step.number > 0:
            done = {"type": "progress", "at": rfc3339(step.at_us), "step": step.number - 1}
            waited = {"attributes": {"data_wait_seconds": step.waited_us / 1e6}}
            yield Fact({**done, **(waited if step.waited_us else {})}, step.line)


Blocking = tuple[Mark, int, int, str, str]
"""A mark, where what it begins ends, the line of its end, its phase and its stage."""


def _blocking(life: ProgramLife) -> list[Blocking]:
    """What stopped the loop, and is over."""
    stops: list[Blocking] = [
        (mark, mark.end_us, mark.line, "checkpoint_blocking", "save")
        for mark in life.marks
        if mark.kind == "save"
    ]
    for key in ("custom_badput_event", "elastic_wait"):
        for start, end in _pairs(life.marks, key):
            if end is not None:
                stops.append((start, end.at_us, end.line, *_meaning(key, start)))
    return sorted(stops, key=itemgetter(0))


def _meaning(key: str, start: Mark) -> tuple[str, str]:
    name = word(start.word.lower(), 100) or "unknown"
    if key == "elastic_wait":
        return "stalled", f"elastic_wait_{name}"
    if any(part in name for part in _EVALUATIONS):
        return "evaluation", name
    return ("checkpoint_blocking" if any(part in name for part in _SAVES) else "stalled"), name


def _blocked(life: ProgramLife) -> Iterator[Fact]:
    for start, end_us, line, phase, stage in _blocking(life):
        yield _span(phase, start, end_us, line)
        yield _span(phase, start, end_us, line, stage)
    for key in ("custom_badput_event", "elastic_wait"):
        for start, end in _pairs(life.marks, key):
            if end is None:
                yield _edge("phase_started", _meaning(key, start)[0], start.at_us, start.line)


def _saved(life: ProgramLife, restored: set[int | None]) -> Iterator[Fact]:
    """Saves, as far as the log shows that they are durable.

    One in the background is so once the next save has waited for it, or if it is restored.
    """
    saves = [mark for mark in life.marks if mark.kind == "save" and mark.step is not None]
    for place, save in enumerate(saves):
        after = saves[place + 1] if place + 1 < len(saves) else None
        durable_us = None
        if save.is_synchronous or save.step in restored:
            durable_us = save.end_us
        elif after is not None and after.durable_us is not None:
            durable_us = max(save.end_us, after.durable_us)
        if durable_us is not None:
            at = rfc3339(durable_us)
            yield Fact({"type": "checkpoint_saved", "at": at, "step": save.step}, save.line)
