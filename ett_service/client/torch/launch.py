"""What holds up a launch: process groups, the wrapping of the model, the device, a cache's load."""

import functools
import sys
from collections.abc import Callable
from typing import Any

from ett_service.client.current import current
from ett_service.client.reporting.layers import AUTO, From
from ett_service.client.reporting.phase import phase, stage

_GROUP_HOLDERS = ("torch.distributed", "torch.distributed.device_mesh")
_SHARD_HOLDERS = ("torch.distributed.fsdp._fully_shard", "torch.distributed.fsdp")


def hook_process_group(module: Any) -> None:
    """Measure ``init_process_group`` and ``new_group``. Raises ``AttributeError`` without them."""
    names = ("init_process_group", "new_group")
    for name, original in [(name, getattr(module, name)) for name in names]:
        rebind(module, name, staged(original, "process_group_init"), _GROUP_HOLDERS)


def hook_ddp(module: Any) -> None:
    """Measure ``DistributedDataParallel(model)``. Raises ``AttributeError``, too."""
    ddp = module.DistributedDataParallel
    ddp.__init__ = staged(ddp.__init__, "train_module_creation")


def hook_fsdp1(module: Any) -> None:
    """Measure ``FullyShardedDataParallel(model)``. Raises ``AttributeError``, too."""
    fsdp = module.FullyShardedDataParallel
    fsdp.__init__ = staged(fsdp.__init__, "train_module_creation")


def hook_fsdp(module: Any) -> None:
    """Measure ``fully_shard(model)``. Raises ``AttributeError``, too."""
    sharding = staged(module.fully_shard, "train_module_creation")
    rebind(module, "fully_shard", sharding, _SHARD_HOLDERS)


def hook_device(module: Any) -> None:
    """Measure the first use of a GPU. Raises ``AttributeError``, too."""
    original = module._lazy_init  # noqa: SLF001 -- nothing public tells when it happens
    is_built = getattr(module, "_is_compiled", lambda: True)  # else each call of it only raises
    if module.is_initialized() or not is_built():
        return

    @functools.wraps(original)
    def lazy_init() -> None:
        if _holds_up():
            with From(AUTO, stage("device_init", phase="launcher_init")):
                original()
        else:
            original()
        module._lazy_init = original  # noqa: SLF001 -- it happens once

    module._lazy_init = lazy_init  # noqa: SLF001 -- likewise


def hook_cache_load(module: Any) -> None:
    """Measure ``load_cache_artifacts``. Raises ``AttributeError``, too."""
    original = module.load_cache_artifacts

    @functools.wraps(original)
    def load_cache_artifacts(*args: Any, **kwargs: Any) -> Any:
        if not current.trains_here():
            return original(*args, **kwargs)
        with (
            From(AUTO, phase("pt2_compile")),
            From(AUTO, stage("cache_load", phase="pt2_compile")),
        ):
            return original(*args, **kwargs)

    module.load_cache_artifacts = load_cache_artifacts


def staged(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return *original*, reported as a stage of the launch while that lasts."""

    @functools.wraps(original)
    def calling(*args: Any, **kwargs: Any) -> Any:
        if not _holds_up():
            return original(*args, **kwargs)
        with From(AUTO, stage(name, phase="launcher_init")):
            return original(*args, **kwargs)

    return calling


def rebind(module: Any, name: str, function: Callable[..., Any], holders: tuple[str, ...]) -> None:
    """Put *function* where users find it, in the holders too that are imported already."""
    original = getattr(module, name)
    setattr(module, name, function)
    for holder in map(sys.modules.get, holders):
        if getattr(holder, name, None) is original:
            setattr(holder, name, function)


def _holds_up() -> bool:
    """Whether this call holds up a launch that is recorded."""
    recorder = current.recorder
    if recorder is None or not current.trains_here():
        return False
    return recorder.launching or phase("launcher_init").is_open
