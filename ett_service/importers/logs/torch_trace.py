"""Logs of ``TORCH_TRACE`` to wire events: when a process compiled, in which stages, and why again.

A log says nothing of its job. Alone it becomes a job that only compiles; with a name it adds its
compiles to what the trainer and its scheduler say of that job. What a part of a log says, the
whole log says, too: a compile has its end once the log does.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from ett_service.client.torch.compile_records import laid_out, recorded_facts, stages_of
from ett_service.core.intervals import rfc3339
from ett_service.importers.files import Unreadable, files_under
from ett_service.importers.importer import (
    Fact,
    ImportedRun,
    Report,
    WireEvent,
    clean,
    distinct,
    identified,
)
from ett_service.importers.logs.torch_records import (
    Edge,
    Metrics,
    Mispairing,
    Rank,
    Reason,
    Spent,
    Window,
    Windows,
    records_of,
)

LOGS: Final = ("dedicated_log_torch_trace_*.log*", "*.log", "*.log.gz")
"""The logs that are looked for in a folder."""

_PHASE: Final = "pt2_compile"
_SECOND_US: Final = 1_000_000
_MOST_PHASES: Final = 200
_MOST_VARYING: Final = 32
_RANK_OF_NAME = re.compile(r"_rank_(\d{1,6})_")
_KEPT: Final = (
    "co_name", "is_forward", "is_runtime", "fail_type", "recompile_reason", "num_graph_breaks",
    "start_time_us", "duration_us", "backward_cumulative_compile_time_us",
    "aot_autograd_cumulative_compile_time_us", "inductor_cumulative_compile_time_us",
    "triton_compile_time_us", "compile_time_autotune_time_us", "runtime_triton_autotune_time_us",
    "triton_kernel_compile_times_us",
    *(f"{cache}_{where}_cache_{what}_count" for cache in ("inductor_fx", "aotautograd")
      for where in ("local", "remote") for what in ("hit", "miss")),
)  # fmt: skip
"""What is kept of torch's metrics of a compile; they hold its whole configuration."""

_IN_SECONDS: Final = {
    "start_time": "start_time_us",
    "entire_frame_compile_time_s": "duration_us",
    "backend_compile_time_s": "aot_autograd_cumulative_compile_time_us",
    "inductor_compile_time_s": "inductor_cumulative_compile_time_us",
}
"""What torch called its metrics, in seconds, before it gave all of them in microseconds."""

_INSTANTS: Final = {
    "fx_graph_cache_hit": "inductor_fx_local_cache_hit_count",
    "fx_graph_cache_miss": "inductor_fx_local_cache_miss_count",
    "autograd_cache_hit": "aotautograd_local_cache_hit_count",
    "autograd_cache_miss": "aotautograd_local_cache_miss_count",
}
_WAITS: Final = ("async_compile.wait", "async_compile.precompile")
_TUNING: Final = "CachingAutotuner."
_FORWARD: Final = "entire_frame_compile"
_BACKWARD: Final = "entire_backward_compile"


@dataclass(slots=True)
class _Measured:
    """What the log says of one compile."""

    compile_id: str
    values: dict[str, Any]
    line: int


@dataclass(slots=True)
class Trace:
    """What is read of one log."""

    path: Path
    windows: Windows = field(default_factory=Windows)
    measured: list[_Measured] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)  #: by compile id
    varying: dict[str, dict[str, None]] = field(default_factory=dict)  #: by compile id
    rank: int | None = None


def read(paths: Sequence[Path], job: str | None = None) -> tuple[Iterator[ImportedRun], Report]:
    """Read logs and folders of them; with *job*, all compiles are of that one.

    The logs of one folder are one job: a process a log, and of those of one rank each is a cycle.
    """
    report = Report()
    return distinct(_all_runs(paths, job, report)), report


def _all_runs(paths: Sequence[Path], job: str | None, report: Report) -> Iterator[ImportedRun]:
    files = files_under(paths, LOGS, report)
    for _, logs in groupby(files, key=lambda path: path.parent):
        begun = [(began_us, path) for path in logs if (began_us := _began_us(path, report))]
        yield from _of_folder(sorted(begun), job, report)


def _began_us(path: Path, report: Report) -> int | None:
    """Return the first instant of a log, from its head; None, which the report says, without."""
    try:
        for record in records_of(path, Report()):
            if isinstance(record, Edge) and record.kind == "B":
                return int(record.at_us)
            if isinstance(record, Metrics):
                start_us = _in_microseconds(record.values).get("start_time_us")
                if start_us is not None:
                    return int(start_us)
    except Unreadable as error:
        report.miss(path, str(error))
        return None
    report.miss(path, "no compile of TORCH_TRACE with an instant")
    return None


def _of_folder(
    begun: list[tuple[int, Path]], job: str | None, report: Report
) -> Iterator[ImportedRun]:
    name = job or (f"torch-trace-{_stamp(begun[0][0])}" if begun else "")
    begins: dict[int, list[int]] = defaultdict(list)  #: of each rank's cycles
    for began_us, path in begun:
        trace = _read_log(path, report)
        if trace is None:
            continue
        rank = trace.rank or 0
        if began_us not in begins[rank]:  # else it is a copy, or a longer version
            begins[rank].append(began_us)
        common: WireEvent = {"job": name, "rank": rank, "cycle": len(begins[rank]) - 1}
        facts = [*_own_facts(name, began_us, job), *_facts(trace, common, report)]
        yield ImportedRun(trace.path, name, identified("torch", facts))


def _stamp(at_us: int) -> str:
    return re.sub(r"[-:]|\d{3}(?=Z)", "", rfc3339(at_us))


def _own_facts(name: str, began_us: int, job: str | None) -> list[Fact]:
    if job is not None:
        return []
    return [Fact({"type": "job", "job": name, "at": rfc3339(began_us), "kind": "torch-trace"})]


def _read_log(path: Path, report: Report) -> Trace | None:
    """Read one log; None where it cannot be read to its end, which the report then says."""
    trace = Trace(path)
    try:
        for record in records_of(path, report):
            _take(trace, record)
    except Unreadable as error:
        report.miss(path, str(error))
        return None
    named = _RANK_OF_NAME.search(path.name)
    if trace.rank is None and named is not None:
        trace.rank = int(named[1])
    report.files += 1
    return trace


def _take(trace: Trace, record: Edge | Metrics | Reason | Rank) -> None:
    match record:
        case Edge():
            trace.windows.add(record)
            if record.varying:
                trace.varying.setdefault(record.compile_id, {})[record.varying] = None
        case Metrics():
            values = _in_microseconds(record.values)
            trace.measured.append(_Measured(record.compile_id, values, record.line))
        case Reason():
            trace.reasons[record.compile_id] = record.text
        case Rank():
            trace.rank = record.number


def _in_microseconds(values: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: values[name] for name in _KEPT if values.get(name) is not None}
    for old, name in _IN_SECONDS.items():
        seconds = values.get(old)
        if name not in kept and isinstance(seconds, int | float):
            kept[name] = round(seconds * _SECOND_US)
    return kept


def _facts(trace: Trace, common: WireEvent, report: Report) -> Iterator[Fact]:
    windows = sorted(trace.windows.closed, key=lambda window: window.begin_us)
    spans = [(int(window.begin_us), int(window.end_us), window.line) for window in windows]
    compiles = list(_compiles(trace, windows))
    outside = [
        (each.values["start_time_us"], each.values["start_time_us"] + _length_us(each), each.line)
        for window, each in compiles
        if window is None
    ]
    compiling = {**common, "phase": _PHASE}
    for begin, end, line in _union([*spans, *outside]):
        inside = [each for each in windows if begin <= int(each.begin_us) < end]
        yield Fact({**compiling, "type": "phase_started", "at": rfc3339(begin)}, line)
        ended = {**compiling, "type": "phase_ended", "at": rfc3339(end)}
        yield Fact({**ended, "attributes": _torch_phases(inside)}, line)
    for begun, last in trace.windows.unfinished():
        at = rfc3339(int(begun.at_us))
        yield Fact({**compiling, "type": "phase_started", "at": at}, begun.line)
        yield Fact({**common, "type": "heartbeat", "at": rfc3339(int(last.at_us))}, last.line)
    for window, each in compiles:
        yield from _stages(trace, compiling, window, each)
    _remark(trace, report)


def _torch_phases(windows: Iterable[Window]) -> dict[str, Any]:
    """Return torch's own phases with their inclusive and exclusive microseconds."""
    total: dict[str, Spent] = {}
    for window in windows:
        for name, spent in window.phases.items():
            sums = total.setdefault(name, Spent())
            sums.inclusive_us += spent.inclusive_us
            sums.exclusive_us += spent.exclusive_us
    longest = sorted(total, key=lambda name: -total[name].inclusive_us)[:_MOST_PHASES]
    phases = {
        clean(name): [round(total[name].inclusive_us, 3), round(total[name].exclusive_us, 3)]
        for name in longest
    }
    return {"source": "torch-trace", **({"torch_phases": phases} if phases else {})}


def _union(spans: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    union: list[tuple[int, int, int]] = []
    for begin, end, line in sorted(spans):
        if union and begin < union[-1][1]:
            last = union[-1]
            union[-1] = (last[0], max(last[1], end), max(last[2], line))
        else:
            union.append((begin, end, line))
    return union


def _compiles(trace: Trace, windows: list[Window]) -> Iterator[tuple[Window | None, _Measured]]:
    """Yield what was measured with the window that it lies in, and what only windows show."""
    tuning = [window for window in windows if window.outermost.startswith(_TUNING)]
    tuned = {window.compile_id for window in tuning}
    measured: set[tuple[int, str, bool]] = set()
    for each in trace.measured:
        window = _window_of(windows, each)
        base = {} if window is None else _shown(window, each.compile_id)
        values = {**base, **each.values}
        if "start_time_us" in values and not (
            values.get("is_runtime") and each.compile_id in tuned
        ):
            is_forward = values.get("is_forward") is not False
            measured.add((id(window), each.compile_id, is_forward))
            yield window, _Measured(each.compile_id, values, each.line)
    # torch writes the metrics of a compile after its end: those of the last may be still to come.
    for window in windows[:-1] if trace.measured else windows:
        for compile_id in window.compiles:
            values = _shown(window, compile_id)
            if values and (id(window), compile_id, values["is_forward"]) not in measured:
                yield window, _Measured(compile_id, values, window.line)
    for window in tuning:
        yield window, _Measured(window.compile_id, _tuned(window), window.line)


def _tuned(window: Window) -> dict[str, Any]:
    """Return the tuning of kernels at their first run as torch's metrics name it."""
    begin_us, end_us = int(window.begin_us), int(window.end_us)
    return {
        "is_runtime": True,
        "start_time_us": begin_us,
        "runtime_triton_autotune_time_us": end_us - begin_us,
    }


def _window_of(windows: list[Window], each: _Measured) -> Window | None:
    """Return the window of a compile: that of its instant, else the latest with its id."""
    start_us = each.values.get("start_time_us")
    if start_us is not None:
        # torch's own clock of a compile starts a moment before or after the window's.
        end_us = start_us + max(_length_us(each), 1)
        overlap = {
            place: min(window.end_us, end_us) - max(window.begin_us, start_us)
            for place, window in enumerate(windows)
        }
        best = max(overlap, key=lambda place: overlap[place], default=None)
        return None if best is None or overlap[best] <= 0 else windows[best]
    holding = [
        window
        for window in windows
        if each.compile_id in window.compiles and window.begin_us and window.line >= each.line
    ]
    return holding[0] if holding else None


def _shown(window: Window, compile_id: str) -> dict[str, Any]:
    """Return what the phases of a window show of a compile, as torch's metrics name it."""
    phases = window.compiles.get(compile_id, {})
    whole = phases.get(_FORWARD) or phases.get(_BACKWARD)
    if whole is None:
        return {}
    is_forward = _FORWARD in phases
    backend = phases.get("backend_compile", Spent()) if is_forward else whole
    inductor = phases.get("inductor_compile", Spent())
    waits = [phases[name].inclusive_us for name in _WAITS if name in phases]
    counts = window.instants.get(compile_id, {})
    return {
        "is_forward": is_forward,
        "start_time_us": int(whole.begin_us),
        "duration_us": int(whole.inclusive_us),
        "aot_autograd_cumulative_compile_time_us": int(backend.inclusive_us),
        "inductor_cumulative_compile_time_us": int(inductor.inclusive_us),
        "triton_compile_time_us": int(sum(waits)),
        **{name: counts[instant] for instant, name in _INSTANTS.items() if instant in counts},
    }


def _stages(
    trace: Trace, compiling: WireEvent, window: Window | None, each: _Measured
) -> Iterator[Fact]:
    values = dict(each.values)
    values["compile_id"] = each.compile_id or None
    start = values["start_time_us"]
    limit = start + _length_us(each)
    if window is not None:
        start, limit = max(start, int(window.begin_us)), int(window.end_us)
    reason = values.get("recompile_reason") or trace.reasons.get(each.compile_id)
    facts = recorded_facts({**values, "recompile_reason": reason})
    if reason and values.get("is_forward") is not False:
        varying = list(trace.varying.get(each.compile_id, ()))[:_MOST_VARYING]
        facts |= {"varying": varying} if varying else {}
    attributes = {"source": "torch-trace", **facts}
    for stage, begin, end in laid_out(stages_of(values), start, limit):
        span = {"type": "span", "stage": stage, "start": rfc3339(begin), "at": rfc3339(end)}
        yield Fact({**compiling, **span, "attributes": attributes}, each.line)


def _length_us(each: _Measured) -> int:
    """Return how long a compile took, or its tuning; 0 where the log does not say when."""
    if "start_time_us" not in each.values:
        return 0
    return sum(length for _, length in stages_of(each.values))


def _remark(trace: Trace, report: Report) -> None:
    for is_end, what in ((True, "ends without begin"), (False, "begins without end")):
        flaws = [flaw for flaw in trace.windows.flaws if flaw.is_end is is_end]
        if not is_end:
            open_ = trace.windows.unfinished()
            flaws += [Mispairing(begin.line, begin.name, is_end=False) for begin, _ in open_]
        if flaws:
            first = f"the first is {flaws[0].name} on line {flaws[0].line}"
            why = "" if is_end else "; the log was cut, or still grows"
            report.note(trace.path, f"{len(flaws)} {what}, {first}{why}")
