"""Steps, the loop and its end, from the steps of optimizers, for scripts that report none.

A step is reported with the next one, so that a script or framework that reports its own steps is
heard first. Where the run was restored from a checkpoint of unknown step, the loop is reported and
steps are not: numbers from 0 would look like repeated work. From the last step on, a process that
ends well shuts down.
"""

import functools
from typing import Any

from ett_service.client.current import current
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.checkpoint import report_restored
from ett_service.client.reporting.layers import AUTO, From
from ett_service.client.reporting.loop import enter_loop, leave_loop, may_step, step_from
from ett_service.client.reporting.phase import phase, stage
from ett_service.client.torch.imports import report_imports
from ett_service.client.torch.launch import rebind
from ett_service.client.torch.states import body_of


class _Count:
    """How far one recording has come by its optimizers."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.stepped: set[int] = set()  #: optimizers of the iteration that is under way
        self.begun = False
        self.n: int | None = None  #: the step that is done; None: not known
        self.pending_at: int | None = None  #: when it was done, until it is reported
        self.enter_at: int | None = None  #: where the loop begins, until it is reported
        self.batch_at = 0  #: when the first batch of the present iterator came


_counts: list[_Count] = []


def _count_of(recorder: Recorder) -> _Count:
    if not _counts or _counts[0].recorder is not recorder:
        _counts[:] = [_Count(recorder)]
    return _counts[0]


def hook(module: Any) -> None:
    """Register with every optimizer. Raises ``AttributeError`` where torch has no such hook."""
    module.register_optimizer_step_post_hook(_on_step)


@body_of("steps", None)
def _on_step(optimizer: Any, _args: object, _kwargs: object) -> None:
    recorder = current.recorder
    if recorder is None or _all_reported(recorder):
        return
    count = _count_of(recorder)
    if count.stepped and id(optimizer) not in count.stepped:
        count.stepped.add(id(optimizer))  # another optimizer of the same iteration
        return
    count.stepped = {id(optimizer)}
    commit()
    _advance(count, optimizer)


def _advance(count: _Count, optimizer: Any) -> None:
    recorder = count.recorder
    now = recorder.now()
    if not count.begun:
        count.begun = True
        count.n = _first_step(recorder, optimizer)
    elif count.n is not None:
        count.n += 1
    if _has_no_loop(recorder):
        compiled = recorder.loop.last_compile_at or 0
        left = recorder.loop.left_at or 0
        # No batch was seen, or one of before the last loop: this step is the first that is known.
        batch = count.batch_at if count.batch_at > left else now
        count.enter_at = max(batch, compiled)
    count.pending_at = now


def _all_reported(recorder: Recorder) -> bool:
    """Whether a script or framework reports its steps, and the loop is known."""
    return recorder.loop.entered_at is not None and not may_step(AUTO)


def _has_no_loop(recorder: Recorder) -> bool:
    return recorder.loop.entered_at is None and not phase("train_loop").is_open


def _first_step(recorder: Recorder, optimizer: Any) -> int | None:
    """Number the first step of this process; None where what was restored does not say."""
    if recorder.restored is not None:
        return recorder.restored + 1
    own = _own_count(optimizer)
    if own is not None:
        if own > 1:
            report_restored(own - 1, source=AUTO)
        return own
    return None if recorder.loaded else 1


def _own_count(optimizer: Any) -> int | None:
    """Return how many steps the optimizer itself has counted, over restarts too."""
    for state in optimizer.state.values():
        count = state.get("step")
        # A sharded count would need every rank to read it.
        return int(count) if type(count).__name__ in ("Tensor", "float", "int") else None
    return None


@body_of("steps", None)
def commit() -> None:
    """Report the step that is done, and the loop with the first, if nobody else does."""
    recorder = current.recorder
    if recorder is None or not _counts or _counts[0].recorder is not recorder:
        return
    count = _counts[0]
    at, count.pending_at = count.pending_at, None
    if at is None:
        return
    enter_at, count.enter_at = count.enter_at, None
    if enter_at is not None and _has_no_loop(recorder):
        phase("shutdown").close()  # it went on after all
        enter_loop(AUTO, enter_at)
    if count.n is not None:
        step_from(AUTO, count.n, at_us=at)


def batch_came(recorder: Recorder, at: int) -> None:
    """Remember when the first batch of an iterator came, in microseconds of the clock."""
    _count_of(recorder).batch_at = at


def _last_step_at(recorder: Recorder) -> int | None:
    """Return when the latest step was done, in microseconds of the clock."""
    last = recorder.steps.last
    return last[0] // 1000 if last is not None else None


def hook_teardown(module: Any) -> None:
    """Measure ``destroy_process_group``. Raises ``AttributeError`` where there is none."""
    original = module.destroy_process_group

    @functools.wraps(original)
    def destroying(group: Any = None) -> Any:
        recorder = current.recorder
        if recorder is None or group is not None or not current.trains_here():
            return original(group)
        shut_down(recorder)
        if not phase("shutdown").is_open:
            return original(group)
        with From(AUTO, stage("teardown", phase="shutdown")):
            return original(group)

    rebind(module, "destroy_process_group", destroying, ("torch.distributed",))


def at_end(recorder: Recorder, outcome: str) -> None:
    """Report what was held back, and the shutdown of a process that ends well."""
    commit()
    report_imports(recorder, ending=True)
    if outcome == "completed":
        shut_down(recorder)
        phase("shutdown").close()


@body_of("teardown", None)
def shut_down(recorder: Recorder) -> None:
    """Leave the loop that hooks have reported at its last step, and begin the shutdown there."""
    commit()
    loop = recorder.loop
    if loop.announced and loop.source == AUTO:
        leave_loop(in_order=True, source=AUTO, at=_last_step_at(recorder))
    shutdown = phase("shutdown")
    if loop.left_at is not None and not shutdown.is_open and shutdown.began_at < loop.left_at:
        begin = {"type": "phase_started", "phase": "shutdown", "attributes": {"source": AUTO}}
        recorder.write(begin, loop.left_at)
        shutdown.join(loop.left_at, AUTO)
