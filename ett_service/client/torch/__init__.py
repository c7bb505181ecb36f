"""What PyTorch can tell by itself: compiles, checkpoints, the process group.

Each hook is found or missed on its own, and says so in the events: after an upgrade of torch
what is missing shows as missing, not as zero. Nothing here imports torch: a hook is put in place
when the module that it needs is imported, now or later.
"""

from collections.abc import Callable, Mapping

from ett_service.client.current import current
from ett_service.client.guard import failed
from ett_service.client.recorder import Recorder
from ett_service.client.torch import checkpoints, compiles, imports
from ett_service.client.torch.imports import when_imported

HOOKS: Mapping[str, tuple[str, Callable[..., None]]] = {
    "compile": ("torch._dynamo.callback", compiles.hook),
    "checkpoint_save": ("torch.distributed.checkpoint.state_dict_saver", checkpoints.hook_save),
    "checkpoint_load": ("torch.distributed.checkpoint.state_dict_loader", checkpoints.hook_load),
    "process_group": ("torch.distributed.distributed_c10d", imports.hook),
}

_states: dict[str, str] = {}


def install(recorder: Recorder | None = None) -> dict[str, str]:
    """Put the hooks in place, once a process, and return the state of each.

    ``ok``; ``waiting`` for torch to import what it needs; ``missing`` in this version of torch;
    ``error``. Raises nothing.
    """
    recorder = recorder or current.recorder
    if not _states:
        for name, (module, hook) in HOOKS.items():
            _states[name] = "waiting"
            when_imported(module, _setting(name, hook))
    if recorder is not None:
        recorder.loop.watched = _states["compile"] in ("ok", "waiting")
        recorder.attempt_attributes = {"hooks": dict(_states)}
    return dict(_states)


def _setting(name: str, hook: Callable[..., None]) -> Callable[..., None]:
    def set_hook(module: object) -> None:
        try:
            hook(module)
        except AttributeError:
            _states[name] = "missing"
        except Exception as error:  # noqa: BLE001 -- an import of torch must not fail for this
            _states[name] = "error"
            failed(error)
        else:
            _states[name] = "ok"

    return set_hook


def _tell_states(recorder: Recorder) -> None:
    """Let the next sign of life say which hooks have been found since."""
    states = {"hooks": dict(_states)}
    if states != recorder.attempt_attributes:
        recorder.attempt_attributes = recorder.news = states


chores = (compiles.report_stages, _tell_states)
"""What the background thread does about torch, about once a second."""
