"""Checkpoints: how long the trainer stood still for one, and when it was durable."""

from types import TracebackType
from typing import Any, Protocol, Self

from ett_service.client.current import current
from ett_service.client.guard import guarded
from ett_service.client.phase import phase


class _Future(Protocol):
    def add_done_callback(self, fn: Any, /) -> Any: ...


class Checkpoint:
    """``with ett.checkpoint(step): save()``.

    The block is what blocks the trainer. When it is left in order the checkpoint is durable,
    unless it was said to be so later: ``durable_when(future)``, or ``later()`` and then
    ``durable()`` from any thread.
    """

    def __init__(self, step: int, size: int | None = None) -> None:
        self.step = step
        self.size = size
        self._deferred = False
        self._said = False
        self._began_at = 0

    def __enter__(self) -> Self:
        phase("checkpoint_blocking").__enter__()
        self._enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._leave()
        phase("checkpoint_blocking").__exit__(kind, error, where)
        if kind is None and not self._deferred:
            self.durable()

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
        if recorder is None or self._said:
            return
        self._said = True
        took = (recorder.now() - self._began_at) / 1e6 if self._began_at else None
        recorder.write(
            {
                "type": "checkpoint_saved",
                "step": self.step,
                "bytes": self.size,
                "duration_seconds": took,
            }
        )

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


def checkpoint(step: int, *, size: int | None = None) -> Checkpoint:
    """Report a checkpoint after *step*, of *size* bytes where that is known."""
    return Checkpoint(step, size)


@guarded(otherwise=None)
def restored(step: int, *, size: int | None = None) -> None:
    """Report that training goes on after *step*, from a checkpoint of *size* bytes."""
    recorder = current.found()
    if recorder is not None:
        recorder.write(
            {
                "type": "checkpoint_restored",
                "step": step,
                "bytes": size,
            }
        )
