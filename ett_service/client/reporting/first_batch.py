"""The wait for the first batch: one stage of the launch, whoever reports it."""

from ett_service.client.current import current
from ett_service.client.guard import guarded
from ett_service.client.reporting.layers import entered_by, layer_of
from ett_service.client.reporting.phase import Phase, stage


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
