"""Hooks that act on a module as soon as it is imported, and how long imports hold up the launch."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

from ett_service.client.current import current
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.layers import AUTO
from ett_service.client.torch.states import body_of

Act = Callable[[ModuleType], None]

_SHORTEST_US = 50_000
_JOINED_US = 100_000
_KEPT_US = 10_000_000


def when_imported(name: str, act: Act) -> None:
    """Call *act* with the module *name*: now if it is imported, else when that happens.

    *act* must not raise: the import would fail with it.
    """
    module = sys.modules.get(name)
    if module is not None:
        act(module)
        return
    watch_imports()
    _watch.waiting.setdefault(name, []).append(act)


def watch_imports() -> None:
    """See imports from here on."""
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)


class _Watch:
    """Finds what the other finders find, for the modules that are waited for or timed."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Act]] = {}
        self.finding: set[str] = set()
        self.depth = 0  #: how many imports of this kind are under way

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in self.finding or (name not in self.waiting and (self.depth or not _is_timed())):
            return None
        self.finding.add(name)  # another finder may ask them all, as this one does
        try:
            spec = _spec_of_others(name, path, target)
        finally:
            self.finding.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Acting(spec.loader, name)
        return spec


def _is_timed() -> bool:
    recorder = current.recorder
    return recorder is not None and recorder.launching and current.trains_here()


def _spec_of_others(
    name: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = None if finder is _watch else getattr(finder, "find_spec", None)
        if find is not None and (spec := find(name, path, target)) is not None:
            return cast(ModuleSpec, spec)
    return None


class _Acting(Loader):
    """Loads as another loader does, then acts."""

    def __init__(self, inner: Loader, name: str) -> None:
        self._inner = inner
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # who only looks for a module asks it for its code

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Who asks the module for its source or its loader gets the real one.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        began = _begin()
        try:
            self._inner.exec_module(module)
        finally:
            _end(began)
        for act in _watch.waiting.pop(self._name, ()):
            act(module)


_watch = _Watch()
_pending: list[tuple[int, int]] = []
"""Imports of the launch that are not yet reported, near ones joined."""


@body_of("imports", None)
def _begin() -> int | None:
    if not _is_timed():
        return None
    _watch.depth += 1
    recorder = current.recorder
    return recorder.now() if recorder is not None else None


@body_of("imports", None)
def _end(began: int | None) -> None:
    if began is None:
        return
    _watch.depth -= 1
    recorder = current.recorder
    if _watch.depth == 0 and recorder is not None:
        _keep(began, recorder.now())


def _keep(began: int, ended: int) -> None:
    if _pending and began - _pending[-1][1] < _JOINED_US:
        began = _pending.pop()[0]
    _pending.append((began, ended))


@body_of("imports", None)
def report_imports(recorder: Recorder, *, ending: bool = False) -> None:
    """Report what the imports of the launch took, once that is over or has lasted a while."""
    if not _pending or _watch.depth:
        return
    lasting = recorder.now() - _pending[0][0] >= _KEPT_US
    if recorder.launching and not (lasting or ending):
        return  # a process that only imports is no trainer, and is not reported for that
    for began, ended in _taken():
        if ended - began >= _SHORTEST_US:
            recorder.span("launcher_init", "imports", began, ended, {"source": AUTO})


def _taken() -> list[tuple[int, int]]:
    taken = _pending[:]
    del _pending[: len(taken)]
    return taken
