"""Checkpoints: how long the trainer stood still for one, and when it was durable."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Never, Protocol, Self

from ett_service.client.current import current
from ett_service.client.guard import guarded, surplus
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.layers import entered_by, layer_of, said_by
from ett_service.client.reporting.phase import phase


class _Future(Protocol):
    def add_done_callback(self, fn: Any, /) -> Any: ...


class Checkpoint:
    """``with ett.checkpoint(step): save()``.

    The block is what blocks the trainer. When it is left in order the checkpoint is durable,
    unless it was said to be so later: ``durable_when(future)``, or ``later()`` and then
    ``durable()`` from any thread. A framework or a hook is silent about its own where a layer above
    has reported checkpoints.
    """

    def __init__(
        self, step: int | None, size: int | None = None, source: str | None = None
    ) -> None:
        self.step = step
        self.size = size
        self.source = source  #: the framework or hook that reports it; None for the script
        self.attributes: dict[str, object] = {"source": source} if source else {}
        self._blocking = entered_by(source, phase("checkpoint_blocking"))
        self._silent: bool | None = None  # until it begins
        self._deferred = False
        self._said = False
        self._began_at = 0

    def __enter__(self) -> Self:
        if self._may_report():
            self._blocking.__enter__()
            self._enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._silent:
            return
        self._leave()
        self._blocking.__exit__(kind, error, where)
        if kind is None and not self._deferred:
            self.durable()

    @guarded(otherwise=None)
    def later(self) -> None:
        """The checkpoint is not durable when the block ends; ``durable()`` will say when."""
        self._deferred = True

    @guarded(otherwise=None)
    def durable_when(self, future: _Future) -> None:
        """The checkpoint is durable when *future* is done without an error."""
        self._deferred = True
        # torch's asynchronous save may answer with two futures; the upload is what counts.
        upload = getattr(future, "upload_completion", future)
        upload.add_done_callback(self._done)

    @guarded(otherwise=None)
    def durable(self) -> None:
        """Say that the checkpoint would survive the loss of the job, once."""
        recorder = current.found()
        if recorder is None or self._said or not self._may_report():
            return
        self._said = True
        began = self._began_at or None
        self.saved(recorder, self.step, began, recorder.now(), self.size, self.attributes)

    @staticmethod
    def saved(
        recorder: Recorder,
        step: int | None,
        began: int | None,
        durable: int,
        size: int | None,
        attributes: Mapping[str, object],
    ) -> None:
        """Write that a checkpoint which *began* is *durable*, both on the clock."""
        event = {
            "type": "checkpoint_saved",
            "step": step,
            "bytes": size,
            "duration_seconds": None if began is None else (durable - began) / 1e6,
            "attributes": attributes or None,
        }
        recorder.write(event, durable)

    @guarded(otherwise=True)
    def _may_report(self) -> bool:
        """Whether no layer above reports checkpoints, decided once: what has begun is reported."""
        recorder = current.found()
        if self._silent is None and recorder is not None:
            layer = layer_of(self.source)
            self._silent = layer < recorder.saved_by
            recorder.saved_by = max(recorder.saved_by, layer)
        return not self._silent

    @guarded(otherwise=None)
    def _enter(self) -> None:
        recorder = current.found()
        if recorder is not None:
            recorder.saving = self
            self._began_at = recorder.now()

    @guarded(otherwise=None)
    def _leave(self) -> None:
        recorder = current.found()
        if recorder is not None and recorder.saving is self:
            recorder.saving = None

    @guarded(otherwise=None)
    def _done(self, future: Any) -> None:
        if future.exception() is None:
            self.durable()


def checkpoint(
    step: int | None = None, *rest: Never, size: int | None = None, **unknown: Never
) -> Checkpoint:
    """Report a checkpoint after *step*, of *size* bytes where that is known."""
    surplus("checkpoint()", rest, unknown)
    return Checkpoint(step, size)


@guarded(otherwise=None)
def restored(step: int, *, size: int | None = None) -> None:
    """Report that training goes on after *step*, from a checkpoint of *size* bytes."""
    report_restored(step, size=size)


def report_restored(step: int, *, size: int | None = None, source: str | None = None) -> None:
    """Report a restored checkpoint as ``restored`` does, unless a layer above *source* has."""
    recorder = current.found()
    if recorder is None or layer_of(source) < recorder.restored_by:
        return
    event = {"type": "checkpoint_restored", "step": step, "bytes": size}
    recorder.write(event | {"attributes": said_by(source)})
    recorder.restored, recorder.restored_by = step, layer_of(source)
