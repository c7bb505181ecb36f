"""The end of training: from the last step on, a process that ends well shuts down."""

import functools
from typing import Any

from ett_service.client.current import current
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.layers import AUTO, From
from ett_service.client.reporting.loop import leave_loop
from ett_service.client.reporting.phase import phase, stage
from ett_service.client.torch.imports import report_imports
from ett_service.client.torch.launch import rebind
from ett_service.client.torch.states import body_of
from ett_service.client.torch.steps import commit, last_step_at


def hook(module: Any) -> None:
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
        leave_loop(in_order=True, source=AUTO, at=last_step_at(recorder))
    shutdown = phase("shutdown")
    if loop.left_at is not None and not shutdown.is_open and shutdown.began_at < loop.left_at:
        begin = {"type": "phase_started", "phase": "shutdown", "attributes": {"source": AUTO}}
        recorder.write(begin, loop.left_at)
        shutdown.join(loop.left_at, AUTO)
