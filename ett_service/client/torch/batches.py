"""Batches of a ``DataLoader``: the wait for the first, stalls in the loop, and the sum of waits.

Iterators of other threads than the one that trains are not seen, nor is what waits behind them.
"""

import functools
import threading
import time
from typing import Any

from ett_service.client.clock import CLOCK_ID
from ett_service.client.current import current
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.layers import AUTO
from ett_service.client.reporting.loop import await_first_batch, end_first_batch, is_first
from ett_service.client.reporting.phase import phase
from ett_service.client.torch.states import body_of
from ett_service.client.torch.steps import batch_came

STALL_NS = 1_000_000_000
"""A wait in the loop that is longer is reported as ``stalled``; of others only the sum is."""

WAITS = "data_wait_seconds"
"""The attribute with the sum of the waits of this process in its loop, outside evaluation."""


class _Waits:
    """What one recording has waited for."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.iterator = 0
        self.total_ns = 0


_latest: list[_Waits] = []


def hook(module: Any) -> None:
    """Measure every ``DataLoader``. Raises ``AttributeError`` where there is none."""
    _time_batches(module._BaseDataLoaderIter)  # noqa: SLF001 -- nothing public sees a batch come
    _time_start(module.DataLoader)


def _time_batches(iterator: Any) -> None:
    following = iterator.__next__
    read, clock, me = time.clock_gettime_ns, CLOCK_ID, threading.get_ident

    @functools.wraps(following)
    def timed(self: Any) -> Any:
        recorder = current.recorder
        if recorder is None or me() != current.cost.thread:
            return following(self)
        asked_at = read(clock)
        batch = following(self)
        _came(recorder, id(self), asked_at, read(clock))
        return batch

    iterator.__next__ = timed


def _time_start(loader: Any) -> None:
    starting = loader.__iter__

    @functools.wraps(starting)
    def started(self: Any) -> Any:
        if current.recorder is not None and current.trains_here():
            _ask(current.recorder)
        return starting(self)

    loader.__iter__ = started


@body_of("data", None)
def _ask(recorder: Recorder) -> None:
    """Begin the wait for the first batch of the launch, which the workers' start is part of."""
    if is_first(AUTO) and (recorder.launching or phase("launcher_init").is_open):
        await_first_batch(AUTO)


@body_of("data", None)
def _came(recorder: Recorder, iterator: int, asked_ns: int, came_ns: int) -> None:
    waits = _of(recorder)
    if iterator != waits.iterator:
        waits.iterator = iterator
        batch_came(recorder, came_ns // 1000)
        end_first_batch(AUTO)
    if recorder.loop.announced and not phase("evaluation").is_open:
        waits.total_ns += came_ns - asked_ns
        recorder.running_totals[WAITS] = waits.total_ns / 1e9
        if came_ns - asked_ns > STALL_NS:
            _report_stall(recorder, asked_ns // 1000, came_ns // 1000)


def _report_stall(recorder: Recorder, asked_at: int, came: int) -> None:
    attributes = {"source": AUTO, "waited_for": "data"}
    recorder.span("stalled", None, asked_at, came, attributes)


def _of(recorder: Recorder) -> _Waits:
    if not _latest or _latest[0].recorder is not recorder:
        _latest[:] = [_Waits(recorder)]
    return _latest[0]
