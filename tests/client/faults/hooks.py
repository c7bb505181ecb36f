"""Faults of PyTorch: internals that are missing or of another shape, and hooks that break inside.

The modules that are hooked are made up, so that they can be of any shape; the hooks are real.
"""

import io
import random
import sys
import types
from collections.abc import Callable
from typing import Any

from ett_service.client import guard
from ett_service.client import torch as hooks
from ett_service.client.current import current
from ett_service.client.torch import batches, checkpoints, compiles, launch, steps
from ett_service.client.torch.imports import when_imported
from ett_service.client.torch.states import ERROR, MISSING, OK, _errors, states
from tests.client.faults.odd import Broken, Fault, Silent

_NAMES = (
    "DataLoader", "DistributedDataParallel", "_BaseDataLoaderIter", "_lazy_init", "add",
    "async_save", "callback_handler", "destroy_process_group", "fully_shard", "init_process_group",
    "is_initialized", "load", "load_cache_artifacts", "register_optimizer_step_post_hook", "save",
)  # fmt: skip


def _odd_module(draw: random.Random) -> Any:
    """Make a module that lacks most of what it should have, and has the rest in another shape."""
    module = types.ModuleType("odd")
    for name in _NAMES:
        if draw.random() < 0.6:
            odd = draw.choice((None, 7, "text", object(), Broken(), type("Slotted", (), {})))
            setattr(module, name, odd)
    return draw.choice((module, module, None, Broken()))


def shape(draw: random.Random) -> None:
    """Hook what is of another shape: that shows as missing, or as an error that is counted."""
    name = draw.choice(sorted(hooks.HOOKS))
    before = sum(guard.errors.values())
    hooks._setting(name, hooks.HOOKS[name][1])(_odd_module(draw))  # noqa: SLF001 -- as torch's import does
    caught = sum(guard.errors.values()) - before
    assert (states[name] == ERROR) == (caught > 0), (name, states[name], caught)
    assert states[name] in (OK, MISSING, ERROR)


def _mended() -> None:
    states.update(dict.fromkeys(hooks.HOOKS, OK))
    _errors.clear()


def bodies(draw: random.Random) -> None:
    """Break a hook's own body, whose recorder raises in each way that it can."""
    _mended()
    recorder: Any = current.recorder
    lines, spool = recorder.lines, recorder.spool
    recorder.loop.announced = draw.random() < 0.5
    recorder.loop.batch_layer, recorder.launching, recorder.saved_step = 0, True, None
    recorder.lines = Broken()
    try:
        draw.choice(_BODIES)()
    finally:
        recorder.lines, recorder.spool = lines, spool
        recorder.launching = False


def _recorder() -> Any:
    return current.recorder


class _Optimizer:
    state = types.MappingProxyType({"w": {"step": Broken()}})


def _step() -> None:
    for _ in range(2):
        steps._on_step(Broken(), (), {})  # noqa: SLF001 -- as torch calls it
        steps._on_step(_Optimizer(), (), {})  # noqa: SLF001 -- likewise
    _recorder().write_steps()
    guarded_stages()


def guarded_stages() -> None:
    """Collect the stages as the background thread does, from metrics of another shape."""
    compiles._windows.append(compiles._Window(0, 1, {}, set()))  # noqa: SLF001 -- one came before
    utils: Any = types.ModuleType("torch._dynamo.utils")
    utils.get_compilation_metrics = lambda: [Broken(), object(), None]
    sys.modules["torch._dynamo.utils"] = utils
    try:
        guard.guarded(otherwise=None)(compiles.report_stages)(_recorder())
    finally:
        del sys.modules["torch._dynamo.utils"]


def _compile() -> None:
    compiles._on_start(Broken())  # noqa: SLF001 -- as torch calls it
    compiles._on_end()  # noqa: SLF001 -- likewise
    guarded_stages()


def _stall() -> None:
    _recorder().loop.announced = True
    batches._came(_recorder(), -1, 0, 10**10)  # noqa: SLF001 -- as the iterator calls it


def _first_batch() -> None:
    batches._ask(_recorder())  # noqa: SLF001 -- as the loader calls it


def _file() -> None:
    checkpoints._report(_recorder(), Broken(), 0, 1)  # noqa: SLF001 -- as torch.save calls it
    checkpoints._report(_recorder(), sys.executable, 0, 1)  # noqa: SLF001 -- a large file


def _shutdown() -> None:
    _recorder().loop.left_at = _recorder().now() + 10**9
    steps.shut_down(_recorder())


def _staging() -> None:
    save: Any = Broken()
    futures = checkpoints._futures_of  # noqa: SLF001 -- as a save does
    checkpoints._go_on(save, futures, Broken(), 0)  # noqa: SLF001 -- as a save does


_BODIES: tuple[Callable[[], None], ...] = (
    _step, _compile, _stall, _first_batch, _file, _shutdown, _staging,
)  # fmt: skip


class _Loader:
    """Stands for torch's iterator and its loader in one."""

    def __iter__(self) -> Any:
        raise Silent

    __next__ = __iter__


def _raises(*_: object, **__: object) -> None:
    raise Silent


def _hooked(hook: Callable[[Any], None], **members: Any) -> Any:
    module = types.ModuleType("torch.made_up")
    vars(module).update(members)
    hook(module)
    return module


def _inner_calls() -> tuple[Callable[[], object], ...]:
    """Every wrapped call of torch, whose inner call raises."""
    data = _hooked(
        batches.hook, _BaseDataLoaderIter=type("I", (_Loader,), {"__next__": _raises}),
        DataLoader=type("L", (_Loader,), {"__iter__": _raises}),
    )  # fmt: skip
    ddp = _hooked(launch.hook_ddp, DistributedDataParallel=type("D", (), {"__init__": _raises}))
    calls = {"init_process_group": _raises, "new_group": _raises}
    groups = _hooked(launch.hook_process_group, **calls)
    shards = _hooked(launch.hook_fsdp, fully_shard=_raises)
    device = _hooked(launch.hook_device, _lazy_init=_raises, is_initialized=lambda: False)
    cache = _hooked(launch.hook_cache_load, load_cache_artifacts=_raises)
    savers = _hooked(checkpoints.hook_save, save=_raises, async_save=_raises)
    loaders = _hooked(checkpoints.hook_load, load=_raises)
    plain = _hooked(checkpoints.hook_files, save=_raises, load=_raises)
    last = _hooked(steps.hook_teardown, destroy_process_group=_raises)
    return (
        data._BaseDataLoaderIter().__next__, data.DataLoader().__iter__,  # noqa: SLF001 -- torch's
        ddp.DistributedDataParallel, groups.init_process_group, groups.new_group,
        shards.fully_shard, device._lazy_init, cache.load_cache_artifacts,  # noqa: SLF001
        savers.save, savers.async_save,
        loaders.load, lambda: plain.save({}, Broken()), lambda: plain.save({}, io.BytesIO()),
        lambda: plain.load(Broken()), lambda: plain.load(sys.executable),
        last.destroy_process_group, lambda: last.destroy_process_group(7),
    )  # fmt: skip


_INNER = _inner_calls()


def inner(draw: random.Random) -> None:
    """What torch itself raises inside a hook is torch's, and passes; also where we break, too."""
    _mended()
    recorder: Any = current.recorder
    lines = recorder.lines
    recorder.launching = draw.random() < 0.5
    if draw.random() < 0.5:
        recorder.lines = Broken()
    try:
        draw.choice(_INNER)()
    except Silent:
        return
    finally:
        recorder.lines, recorder.launching = lines, False
    raise AssertionError("an error of torch was swallowed")


def imported(draw: random.Random) -> None:
    """Import what is waited for, where the module breaks or is of another shape."""
    name = draw.choice(("antigravity_of_torch", "colorsys"))
    sys.modules.pop("colorsys", None)
    when_imported(name, hooks._setting("device", launch.hook_device))  # noqa: SLF001 -- the real one
    try:
        __import__(name)
    except ModuleNotFoundError:
        assert name != "colorsys"
    else:
        assert states["device"] == MISSING


FAULTS = (
    Fault("torch of another shape", shape, is_counted=False),
    Fault("a hook's body", bodies),
    Fault("torch raises inside a hook", inner, is_counted=False),
    Fault("an import that is waited for", imported, is_counted=False),
)
