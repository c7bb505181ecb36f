"""The training loop, reported from the instant at which its first batch trains.

The first step of a compiled model is nearly all compile, so where compiles are watched the loop is
announced by the first ``step``: from the end of the last compile before it, or from its entry if
nothing compiled. Until then ``launcher_init`` is open, which is what a crash before the first
step leaves behind. A loop that never says ``step`` is announced when it is left in order, from the
end of its first compile. Later loops of the process begin where they are entered.
"""

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from ett_service.client.current import current
from ett_service.client.guard import guarded
from ett_service.client.phase import phase
from ett_service.client.recorder import NEVER, Recorder

T = TypeVar("T")


class TrainLoop(Generic[T]):
    """``with ett.train_loop(): ...``, or ``for batch in ett.train_loop(loader): ...``."""

    def __init__(self, batches: Iterable[T] = ()) -> None:
        self._batches = batches
        self._inside = False

    def __enter__(self) -> Self:
        self._inside = enter_loop()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._inside:
            leave_loop(in_order=kind is None)
            self._inside = False

    def __iter__(self) -> Iterator[T]:
        with self:
            yield from first_timed(self._batches)


def train_loop(batches: Iterable[T] = ()) -> TrainLoop[T]:
    """Report the training loop; with *batches*, iterate over them inside it."""
    return TrainLoop(batches)


def data(batches: Iterable[T]) -> Iterator[T]:
    """Iterate over *batches*; the wait for the first is a stage of ``launcher_init``."""
    return first_timed(batches)


def first_timed(batches: Iterable[T]) -> Iterator[T]:
    """Iterate, and report how long the first item of this process took to come."""
    start = _first_batch_asked()
    waiting = start is not None
    for batch in batches:
        if waiting:
            waiting = False
            _first_batch_came(start)
        yield batch


@guarded(otherwise=None)
def _first_batch_asked() -> int | None:
    recorder = current.found()
    if recorder is None or recorder.loop.saw_batch:
        return None
    recorder.loop.saw_batch = True
    start = recorder.now()
    recorder.edge_at("phase_started", "launcher_init", "get_first_batch_data", start)
    return start


@guarded(otherwise=None)
def _first_batch_came(start: int | None) -> None:
    recorder = current.found()
    if recorder is not None and start is not None:
        recorder.edge_at("phase_ended", "launcher_init", "get_first_batch_data")


@guarded(otherwise=False)
def enter_loop() -> bool:
    """Enter the loop; False if this process is in it already, or records nothing."""
    recorder = current.found()
    if recorder is None or recorder.loop.entered_at is not None:
        return False
    loop = recorder.loop
    loop.entered_at = now = recorder.now()
    if loop.watched and not loop.stepped:
        if not (recorder.launching or phase("launcher_init").is_open):
            recorder.edge_at("phase_started", "launcher_init", None, now)
            recorder.launching = True
    else:
        _announce(recorder, now)
    recorder.steps.due_ns = 0
    return True


@guarded(otherwise=None)
def step_due() -> None:
    """Announce the loop if its first step is what it waited for, then write that step."""
    recorder = current.found()
    if recorder is None:
        current.steps.due_ns = NEVER
        return
    loop = recorder.loop
    entered = loop.entered_at
    if entered is not None and not loop.announced:
        _announce(recorder, max(entered, loop.last_compile_at or entered))
    loop.stepped = True
    recorder.write_due_step()


@guarded(otherwise=None)
def leave_loop(*, in_order: bool) -> None:
    """Leave the loop; one that broke before its first step never was one."""
    recorder = current.found()
    if recorder is None:
        return
    loop = recorder.loop
    entered, loop.entered_at = loop.entered_at, None
    if entered is not None and not loop.announced and in_order:
        _announce(recorder, max(entered, loop.first_compile_at or entered))
    if loop.announced:
        loop.announced = False
        phase("train_loop").__exit__(None, None, None)


def _announce(recorder: Recorder, at: int) -> None:
    recorder.loop.announced = True
    recorder.end_launch(at)
    # The step that is being reported came later than the loop began; it is written after this.
    recorder.spool.write(recorder.lines.line({"type": "phase_started", "phase": "train_loop"}, at))
    phase("train_loop").join(at)
