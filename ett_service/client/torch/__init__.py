"""What PyTorch can report by itself: the launch, compiles, steps, batches, checkpoints, the end.

Each hook is found or missed on its own, and says so in the events: after an upgrade of torch
what is missing shows as missing, not as zero. Nothing here imports torch: a hook is put in place
when the module that it needs is imported, now or later.
"""

from collections.abc import Callable, Mapping
from functools import partial

from ett_service.client.current import current
from ett_service.client.guard import failed
from ett_service.client.recorder import Recorder
from ett_service.client.torch import batches, checkpoints, compiles, imports, launch, steps
from ett_service.client.torch.states import ERROR, MISSING, OK, WAITING, states

HOOKS: Mapping[str, tuple[str, Callable[..., None]]] = {
    "cache_load": ("torch.compiler", launch.hook_cache_load),
    "checkpoint_load": ("torch.distributed.checkpoint.state_dict_loader", checkpoints.hook_load),
    "checkpoint_save": ("torch.distributed.checkpoint.state_dict_saver", checkpoints.hook_save),
    "checkpointing_load": (
        "torch_checkpointing.checkpoint_loader",
        checkpoints.hook_torch_checkpointing_load,
    ),
    "checkpointing_save": (
        "torch_checkpointing.checkpoint_saver",
        checkpoints.hook_torch_checkpointing_save,
    ),
    "compile": ("torch._dynamo.callback", compiles.hook),
    "data": ("torch.utils.data.dataloader", batches.hook),
    "ddp": ("torch.nn.parallel.distributed", launch.hook_ddp),
    "device": ("torch.cuda", launch.hook_device),
    "fsdp": ("torch.distributed.fsdp._fully_shard._fully_shard", launch.hook_fsdp),
    "fsdp1": ("torch.distributed.fsdp.fully_sharded_data_parallel", launch.hook_fsdp1),
    "process_group": ("torch.distributed.distributed_c10d", launch.hook_process_group),
    "steps": ("torch.optim.optimizer", steps.hook),
    "teardown": ("torch.distributed.distributed_c10d", steps.hook_teardown),
    "tracing": ("torch._dynamo.trace_rules", compiles.hook_tracing),
    "torch_save": ("torch.serialization", checkpoints.hook_files),
    "wait_counters": ("torch._dynamo.utils", compiles.hook_wait_counters),
}


def install(recorder: Recorder | None = None) -> dict[str, str]:
    """Put the hooks in place, once a process, and return the state of each.

    ``ok``; ``waiting`` for torch to import what it needs; ``missing`` in this version of torch;
    ``error``. Raises nothing.
    """
    recorder = recorder or current.recorder
    if not states:
        states["imports"] = OK
        imports.watch_imports()
        for name, (module, hook) in HOOKS.items():
            states[name] = WAITING
            imports.when_imported(module, _setting(name, hook))
    if recorder is not None:
        recorder.loop.watched = states["compile"] in (OK, WAITING)
        recorder.attempt_attributes = {"hooks": dict(states)}
        recorder.at_end.append(partial(_at_end, recorder))
    return dict(states)


def _setting(name: str, hook: Callable[..., None]) -> Callable[..., None]:
    def set_hook(module: object) -> None:
        try:
            hook(module)
        except AttributeError:
            states[name] = MISSING
        except Exception as error:  # noqa: BLE001 -- an import of torch must not fail for this
            states[name] = ERROR
            failed(error)
        else:
            states[name] = OK

    return set_hook


def _tell_states(recorder: Recorder) -> None:
    """Let the next sign of life say which hooks have been found since, and what dynamo made."""
    _tell(recorder, compiles.graph_facts())


def _tell(recorder: Recorder, compiled: Mapping[str, object]) -> None:
    facts = {"hooks": dict(states), **compiled}
    if facts != recorder.attempt_attributes:
        recorder.attempt_attributes = recorder.news = facts


def _at_end(recorder: Recorder, outcome: str) -> None:
    steps.at_end(recorder, outcome)
    compiles.report_stages(recorder)
    _tell(recorder, compiles.final_facts())
    if recorder.news is not None:
        recorder.write({"type": "heartbeat", "attributes": recorder.news})
        recorder.news = None


chores = (compiles.report_stages, imports.report_imports, _tell_states)
"""What the background thread does about torch, about once a second."""
