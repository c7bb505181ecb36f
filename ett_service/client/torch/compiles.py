"""PT2 compiles: their wall time from dynamo's callbacks, their stages from its metrics.

torch installs its callbacks around every compile, in the thread that compiles, and calls only those
of the outermost of all threads. So that each thread has its own, what installs them is wrapped.
A compile holds up the trainer where it runs in the thread that trains, or in one of autograd's own
while the thread that trains stands in a backward pass. Any other runs in the background: it is no
wall time, and only counted.
The metrics of a compile appear after its end; the background thread collects them.

torch's own count of the time in compiles checks what its callbacks have reported. Who clears the
callbacks silences ours, and another torch may call them elsewhere; this count is kept outside
Python and loses nothing.
"""

import functools
import importlib
import json
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ett_service.client.clock import mono_us
from ett_service.client.current import current
from ett_service.client.guard import warn_once
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.layers import AUTO
from ett_service.client.reporting.phase import phase
from ett_service.client.torch.compile_records import first_line, laid_out, recorded_facts, stages_of
from ett_service.client.torch.states import OK, body_of, states

SHARE, LEAST_SECONDS = 0.02, 0.2
"""Where the two differ by more than both of these, the callbacks have missed something. On a busy
machine a process can wait for tens of milliseconds between the two readings of a clock."""

_COUNTER = "pytorch.wait_counter.dynamo_compile"

_PHASE = "pt2_compile"
_BACKWARD = "_engine_run_backward"
"""The function of torch in which a thread waits for autograd's."""
_MOST_NAMES = 32

_METRICS_KEPT = 4096
_REASONS = 8

_COUNTERS = {
    f"{cache}_local_cache_{what}_count": (group, f"{name}_cache_{what}")
    for cache, group, name in (
        ("aotautograd", "aot_autograd", "autograd"),
        ("inductor_fx", "inductor", "fxgraph"),
    )
    for what in ("hit", "miss")
}
"""What newer metrics hold, and where dynamo counts it in all versions."""


def hook_wait_counters(_: object) -> None:
    """Look for the counters. Raises ``AttributeError`` where this torch has none."""
    try:
        _read()
    except (ImportError, RuntimeError, ValueError) as error:
        raise AttributeError("wait counters") from error


def disagreement(seen_seconds: float) -> dict[str, object]:
    """Return what torch counts beside what was seen, both in seconds; empty if they agree."""
    counted = _counted_seconds() if states.get("wait_counters") == OK else None
    if counted is None or abs(counted - seen_seconds) <= max(SHARE * counted, LEAST_SECONDS):
        return {}
    return {"compile_seconds": {"seen": seen_seconds, "counted": counted}}


@body_of("wait_counters", None)
def _counted_seconds() -> float | None:
    """Return the seconds in compiles of this process."""
    return compile_seconds(_read())


def compile_seconds(counters: Mapping[str, Any]) -> float:
    """Return the seconds in compiles that torch's *counters* hold, 0 where they count none."""
    return float(counters.get(_COUNTER, {}).get("total_time_us", 0)) / 1e6


def _read() -> dict[str, Any]:
    """Ask the handler that torch keeps for its debug server."""
    c10d: Any = importlib.import_module("torch._C._distributed_c10d")
    request, response = _messages(c10d)
    answer = response()
    c10d._get_handler("wait_counter_values")(request(), answer)  # noqa: SLF001 -- nothing public
    counters: dict[str, Any] = json.loads(answer.content)
    return counters


@functools.cache
def _messages(c10d: Any) -> tuple[type, type]:
    """Make the classes of the question, which asks nothing, and of the answer."""

    class Request(c10d._Request):  # type: ignore[misc]  # noqa: SLF001 -- likewise
        def body(self) -> bytes:
            return b""

        def params(self) -> dict[str, str]:
            return {}

    class Response(c10d._Response):  # type: ignore[misc]  # noqa: SLF001 -- likewise
        def set_content(self, content: str, _kind: str) -> None:
            self.content = content

        def set_status(self, _status: int) -> None:
            return None

    return Request, Response


@dataclass(slots=True)
class _Window:
    """When the outermost compile of a thread began and ended, and what caches had meanwhile."""

    began: int
    ended: int
    found: dict[str, int]
    ids: set[str]  #: of the compiles inside it, where torch names them
    holds_up: bool = True  #: the trainer


class _Own(threading.local):
    """What this thread compiles."""

    depth = 0
    window: _Window | None = None


_windows: deque[_Window] = deque(maxlen=256)
_count: Counter[bool] = Counter()
_spent_us: Counter[bool] = Counter()
"""Compiles, and the microseconds in them, by whether they hold up the trainer."""

_own = _Own()
_seen: deque[tuple[object, ...]] = deque(maxlen=4096)


def hook(module: Any) -> None:
    """See every compile for which ``torch._dynamo.callback`` installs its callbacks.

    Raises ``AttributeError`` where torch has no such thing.
    """
    handler = module.callback_handler
    install = handler.install_callbacks

    @contextmanager
    def installed(*args: Any, **kwargs: Any) -> Iterator[None]:
        with install(*args, **kwargs):
            _on_start(*args, **kwargs)
            try:
                yield
            finally:
                _on_end()

    handler.install_callbacks = installed


def hook_tracing(module: Any) -> None:
    """Keep dynamo from compiling what is called here beside compiled code.

    Raises ``AttributeError`` where it is unknown.
    """
    module.add("ett_service.client")


@body_of("compile", None)
def _on_start(_: object = None, compile_id: str = "") -> None:  # torch 2.7 names none
    _own.depth += 1
    if _own.depth == 1:
        _own.window = None
        # A forked worker's compile is its own affair: it must not make that worker speak.
        if current.recorder is not None:
            _own.window = _begun()
    if _own.window is not None:
        _own.window.ids.add(compile_id)


def _begun() -> _Window:
    if _holds_up():
        return _Window(phase(_PHASE).enter_from(AUTO).began_at, 0, _counted(), set())
    return _Window(mono_us(), 0, _counted(), set(), holds_up=False)


def _holds_up() -> bool:
    """Whether the trainer waits for what this thread does."""
    if current.trains_here():
        return True
    if not isinstance(threading.current_thread(), threading._DummyThread):  # noqa: SLF001 -- of no
        return False  # thread that Python has started there is another sign
    trainer = sys._current_frames().get(current.cost.thread)  # noqa: SLF001 -- nothing else tells
    return trainer is not None and trainer.f_code.co_name == _BACKWARD


@body_of("compile", None)
def _on_end() -> None:
    _own.depth -= 1
    window, recorder = _own.window, current.recorder
    if _own.depth or window is None or recorder is None:
        return
    _own.window, window.ended = None, mono_us()
    window.found = {name: count - window.found[name] for name, count in _counted().items()}
    _windows.append(window)
    _count[window.holds_up] += 1
    _spent_us[window.holds_up] += window.ended - window.began
    if window.holds_up:
        phase(_PHASE).__exit__(None, None, None)
        recorder.loop.compiled(mono_us())


def _counted() -> dict[str, int]:
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", {})
    return {name: counters.get(group, {}).get(of, 0) for name, (group, of) in _COUNTERS.items()}


def report_stages(recorder: Recorder) -> None:
    """Report the stages of the compiles that torch has measured since the last time."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None or not _windows:
        return
    _keep_more(utils)
    wall_to_mono = mono_us() - time.time_ns() // 1000
    for record in utils.get_compilation_metrics():
        key = (record.compile_id, record.is_forward, record.is_runtime, record.start_time_us)
        if key not in _seen:
            _seen.append(key)
            _report(recorder, dict(vars(record)), wall_to_mono)


@functools.cache
def _keep_more(utils: Any) -> None:
    """Have torch keep more metrics than its 64, which one model's start can exceed."""
    limit = getattr(utils, "set_compilation_metrics_limit", None)
    if limit is not None:
        limit(_METRICS_KEPT)


def _report(recorder: Recorder, record: dict[str, Any], wall_to_mono: int) -> None:
    start = (record.get("start_time_us") or 0) + wall_to_mono
    end = start + (record.get("duration_us") or 0)
    own = [window for window in _windows if record.get("compile_id") in window.ids]
    window = max(own or _windows, key=lambda each: min(each.ended, end) - max(each.began, start))
    start = max(start, window.began)
    if start > min(end, window.ended) or not window.holds_up:
        return  # measured before this process was watched, or no wall time
    if _COUNTERS.keys().isdisjoint(record) and not record.get("is_runtime"):
        record |= window.found  # of several compiles inside each other the first has all
        window.found.clear()
    attributes = {"source": AUTO} | facts_of(record)
    for name, begin, stop in laid_out(stages_of(record), start, window.ended):
        recorder.span(_PHASE, name, begin, stop, attributes)


def graph_facts() -> dict[str, object]:
    """Count the graphs that dynamo has made, and why it broke off others; empty if nothing.

    No graph at all says that what was passed to ``torch.compile`` runs eagerly.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None or not _windows:
        return {}
    reasons: Counter[str] = Counter()
    for reason, count in dict(utils.counters["graph_break"]).items():
        reasons[first_line(reason) or ""] += count
    breaks = {"graph_breaks": dict(reasons.most_common(_REASONS))} if reasons else {}
    graphs = {"graphs": utils.counters["stats"]["unique_graphs"], **breaks}
    if not _count[False]:
        return graphs
    seconds = _spent_us[False] / 1e6
    return graphs | {"background_compiles": _count[False], "background_compile_seconds": seconds}


def final_facts() -> dict[str, object]:
    """Return the same when training ends, and warn of what the user cannot have meant."""
    facts = graph_facts()
    if facts.get("graphs") == 0:
        warn_once("torch.compile captured no graph, so the model runs eagerly, as without it")
    return facts | (disagreement(_spent_us.total() / 1e6) if facts else {})


def facts_of(record: dict[str, Any]) -> dict[str, object]:
    """Return what the record of a compile says, and what torch itself has seen."""
    facts = recorded_facts(record)
    if "compile_cache" not in facts and _caches_are_off():
        facts["compile_cache"] = "disabled"
    varying = _varying(record) if record.get("recompile_reason") else None
    return facts | ({"varying": varying} if varying else {})


def _varying(record: dict[str, Any]) -> list[str] | None:
    """Name what torch has seen vary in a frame: ``L['x']:0`` is its dimension 0, ``L['k']`` an int.

    The reason names the first guard that failed only. torch keeps the others for its profiles;
    where it keeps none, as with ``dynamic=False``, nothing is named.
    """
    profiles = getattr(sys.modules.get("torch._dynamo.pgo"), "_CODE_STATE", None)
    frame = [record.get(name) for name in ("co_name", "co_filename", "co_firstlineno")]
    names: list[str] = []
    with suppress(AttributeError):  # these are torch's own affairs, and it may rename them
        for code, state in list((profiles or {}).items()):
            if [code.name, code.filename, code.firstlineno] == frame:
                for source, seen in list(state.automatic_dynamic.items()):
                    names += _varying_parts(source, seen)
    return names[:_MOST_NAMES] or None


def _varying_parts(source: str, seen: Any) -> list[str]:
    if not isinstance(seen.size, tuple):
        return [source] if _is_dynamic(seen.scalar) else []
    return [f"{source}:{place}" for place, size in enumerate(seen.size) if _is_dynamic(size)]


def _is_dynamic(size: object) -> bool:
    return type(size).__name__ == "AutoDynamic"


def _caches_are_off() -> bool:
    config = sys.modules.get("torch._inductor.config")
    return bool(getattr(config, "force_disable_caches", False))
