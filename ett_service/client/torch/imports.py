"""Hooks that act on a module as soon as it is imported, without importing it."""

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from ett_service.client.current import current
from ett_service.client.phase import stage

Act = Callable[[ModuleType], None]


def when_imported(name: str, act: Act) -> None:
    """Call *act* with the module *name*: now if it is imported, else when that happens.

    *act* must not raise: the import would fail with it.
    """
    module = sys.modules.get(name)
    if module is not None:
        act(module)
        return
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)
    _watch.waiting[name] = act


class _Watch:
    """Finds what the path finder would find, for the modules that are waited for."""

    def __init__(self) -> None:
        self.waiting: dict[str, Act] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        act = self.waiting.pop(name, None)
        if act is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Acting(spec.loader, act)
        return spec


class _Acting(Loader):
    """Loads as another loader does, then acts."""

    def __init__(self, inner: Loader, act: Act) -> None:
        self._inner = inner
        self._act = act

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Who asks the module for its source or its loader gets the real one.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        self._act(module)


_watch = _Watch()


_ALSO = ("torch.distributed", "torch.distributed.device_mesh")


def hook(module: Any) -> None:
    """Measure ``init_process_group``. Raises ``AttributeError`` where there is none."""
    original = module.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        if current.recorder is None:
            return original(*args, **kwargs)
        with stage("process_group_init", phase="launcher_init"):
            return original(*args, **kwargs)

    module.init_process_group = init_process_group
    for name in _ALSO:
        other = sys.modules.get(name)
        if getattr(other, "init_process_group", None) is original:
            setattr(other, "init_process_group", init_process_group)  # noqa: B010 -- of any module
