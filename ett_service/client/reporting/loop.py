"""The training loop, reported from the instant at which its first batch trains.

The first step of a compiled model is nearly all compile, so where compiles are watched the loop is
announced by the first ``step``: from the end of the last compile before it, or from its entry if
nothing compiled. Until then ``launcher_init`` is open, which is what a crash before the first
step leaves behind. A loop that never says ``step`` is announced when it is left in order, from the
end of its first compile. Later loops of the process begin where they are entered.
"""

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, Never, Self, TypeVar

from ett_service.client.clock import mono_us
from ett_service.client.current import current
from ett_service.client.guard import guarded, surplus
from ett_service.client.recorder import NEVER, Recorder
from ett_service.client.reporting.layers import entered_by, layer_of, said_by
from ett_service.client.reporting.phase import Phase, phase, stage

T = TypeVar("T")


@guarded(otherwise=False)
def is_first(source: str | None = None) -> bool:
    """Whether neither the layer of *source* nor one above it has reported a first batch."""
    recorder = current.found()
    return recorder is not None and recorder.loop.batch_layer < layer_of(source)


@guarded(otherwise=False)
def await_first_batch(source: str | None = None) -> bool:
    """Begin the wait; False where a layer above *source* reports it, or its own has begun it.

    Where a layer below does, its wait ends here and the rest is that of *source*.
    """
    recorder = current.found()
    if recorder is None:
        return False
    below, layer = recorder.loop.batch_layer, layer_of(source)
    if layer < below or (layer == below and _wait().is_open):
        return False
    recorder.loop.batch_layer = layer
    _wait().close()
    entered_by(source, _wait()).__enter__()
    return True


@guarded(otherwise=None)
def end_first_batch(source: str | None = None) -> None:
    """End the wait, if there is one that *source* reports."""
    recorder = current.found()
    if recorder is not None and layer_of(source) == recorder.loop.batch_layer and _wait().is_open:
        _wait().__exit__(None, None, None)


def _wait() -> Phase:
    return stage("get_first_batch_data", phase="launcher_init")


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


def train_loop(batches: Iterable[T] = (), *rest: Never, **unknown: Never) -> TrainLoop[T]:
    """Report the training loop; with *batches*, iterate over them inside it."""
    surplus("train_loop()", rest, unknown)
    return TrainLoop(batches)


def data(batches: Iterable[T] = (), *rest: Never, **unknown: Never) -> Iterator[T]:
    """Iterate over *batches*; the wait for the first is a stage of ``launcher_init``."""
    surplus("data()", rest, unknown)
    return first_timed(batches)


def first_timed(batches: Iterable[T]) -> Iterator[T]:
    """Iterate, and report how long the first item of this process took to come."""
    waiting = is_first()
    if waiting:
        await_first_batch()
    for batch in batches:
        if waiting:
            waiting = False
            end_first_batch()
        yield batch
    if waiting:  # there was none
        end_first_batch()


@guarded(otherwise=False)
def enter_loop(source: str | None = None, at: int | None = None) -> bool:
    """Enter the loop, now or *at* an instant of the clock that is over.

    False if this process is in it already, if it records nothing, or if a layer above that of
    *source* reports the loop. A layer above takes over the loop that is open.
    """
    recorder = current.found()
    if recorder is None:
        return False
    loop, layer = recorder.loop, layer_of(source)
    if layer < loop.layer:
        return False
    below, loop.layer, loop.source = layer > loop.layer, layer, source
    if loop.entered_at is not None:
        return below
    loop.entered_at = entered = recorder.now() if at is None else at
    recorder.cost.count_here()
    if at is None and loop.watched and not loop.stepped:
        _launch_until_the_loop(recorder, entered)
    else:
        _announce(recorder, entered)
    recorder.steps.due_ns = 0
    return True


def _launch_until_the_loop(recorder: Recorder, at: int) -> None:
    if not (recorder.launching or phase("launcher_init").is_open):
        recorder.edge_at("phase_started", "launcher_init", None, at)
        recorder.launching = True


def may_step(source: str) -> bool:
    """Whether *source* reports the steps: no layer above it does, nor another one beside it."""
    steps = current.steps
    if steps.last is not steps.sourced:
        return False
    reporting = steps.source
    return reporting in (None, source) or layer_of(source) > layer_of(reporting)


def step_from(
    source: str,
    n: int,
    *,
    at_us: int | None = None,
    samples: int | None = None,
    tokens: int | None = None,
    flops: float | None = None,
) -> bool:
    """Report a step as a framework or a hook does; False where that is not *source*'s to do.

    *at_us* is the instant at which it was done, in microseconds of the clock, else now.
    """
    if not may_step(source):
        return False
    steps = current.steps
    at_ns = (mono_us() if at_us is None else at_us) * 1000
    steps.source = source
    steps.last = steps.sourced = (at_ns, n, samples, tokens, flops)
    if at_ns >= steps.due_ns:
        step_due()
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
    if not loop.has_begun:
        recorder.cost.count_here()
    loop.stepped = True
    recorder.write_due_step()


@guarded(otherwise=None)
def leave_loop(*, in_order: bool, source: str | None = None, at: int | None = None) -> None:
    """Leave the loop, now or *at* an instant that is over, if no layer above *source* reports it.

    One that broke before its first step never was one.
    """
    recorder = current.found()
    if recorder is None or layer_of(source) < recorder.loop.layer:
        return
    loop = recorder.loop
    entered, loop.entered_at = loop.entered_at, None
    if entered is not None and not loop.announced and in_order:
        _announce(recorder, max(entered, loop.first_compile_at or entered))
    if loop.announced:
        loop.announced = False
        loop.left_at = recorder.now() if at is None else at
        if at is None:
            phase("train_loop").__exit__(None, None, None)
        else:
            recorder.edge_at("phase_ended", "train_loop", None, at, said_by(loop.source))
            phase("train_loop").forget()


def _announce(recorder: Recorder, at: int) -> None:
    recorder.loop.announced = True
    recorder.end_launch(at)
    source = recorder.loop.source
    begin = {"type": "phase_started", "phase": "train_loop", "attributes": said_by(source)}
    # The step that is being reported came later than the loop began; it is written after this.
    recorder.spool.write(recorder.lines.line(begin, at))
    phase("train_loop").join(at, source)
