"""Phases and stages, as context managers and decorators: ``ett.phase``, ``ett.stage``."""

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Never, ParamSpec, Self, TypeVar

from ett_service.client.current import current
from ett_service.client.guard import failed, guarded, misused, surplus
from ett_service.client.lines import PHASES
from ett_service.client.members import word
from ett_service.client.recorder import Recorder

P = ParamSpec("P")
R = TypeVar("R")


def _nothing_to_say() -> int:
    """Stand for the end of what never began."""
    return 0


class Phase:
    """A phase, or a stage of one, for the whole process: ``with`` it, or decorate a function.

    Entered again while it is open, by recursion or by another thread, it stays the one phase
    that it is: the outermost begin and end are reported.
    """

    __slots__ = ("_begin", "_depth", "_finish", "began_at", "name", "stage")

    def __init__(self, name: str, stage: str | None = None) -> None:
        self.name = name
        self.stage = stage
        self._depth = 0
        self.began_at = 0
        self._begin: Callable[[], int] = self._begin_first
        self._finish: Callable[[], int] = _nothing_to_say

    def __enter__(self) -> Self:
        try:
            self._depth = depth = self._depth + 1
            if depth == 1:
                self.began_at = self._begin()
        except Exception as error:  # noqa: BLE001 -- as in guard, whose wrapper costs too much here
            failed(error)
        return self

    def enter_from(self, source: str) -> Self:
        """Enter as a framework or a hook does: begin and end name their *source*."""
        try:
            self._depth = depth = self._depth + 1
            recorder = current.recorder
            if depth == 1 and recorder is not None:
                self._bind(recorder, source)
                self.began_at = self._begin()
        except Exception as error:  # noqa: BLE001 -- likewise
            failed(error)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        try:
            self._depth = depth = self._depth - 1
            if depth == 0:
                self._finish()
            elif depth < 0:  # it was entered before this recorder began
                self._depth = 0
        except Exception as problem:  # noqa: BLE001 -- likewise
            failed(problem)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return inside

    @property
    def is_open(self) -> bool:
        """Whether the phase has begun in this process and not ended."""
        return self._depth > 0

    def forget(self) -> None:
        """Belong to no recorder; the next begin finds the one of this process."""
        self._depth = self.began_at = 0
        self._unbind()

    def close(self) -> None:
        """End it however often it was entered."""
        while self._depth > 0:
            self.__exit__(None, None, None)

    def join(self, at: int, source: str | None = None) -> None:
        """Count as open from here on, where the begin has been written already."""
        recorder = current.found()
        if recorder is not None:
            self._bind(recorder, source)
            self.began_at = at
            self._depth += 1

    def _begin_first(self) -> int:
        depth = self._depth
        recorder = current.found()
        self._depth = depth  # a forked child's new recorder has made every phase forget its own
        if recorder is None:
            return 0
        self._bind(recorder)
        return self._begin()

    def _bind(self, recorder: Recorder, source: str | None = None) -> None:
        self._begin = begin = recorder.edge("phase_started", self.name, self.stage, source)
        self._finish = finish = recorder.edge("phase_ended", self.name, self.stage, source)
        if source is not None:
            self._finish = functools.partial(self._finish_once, finish)
        if self.stage is None and self.name in ("launcher_init", "train_loop", "shutdown"):
            self._begin = functools.partial(self._begin_station, recorder, begin)

    def _unbind(self) -> None:
        self._begin = self._begin_first
        self._finish = _nothing_to_say

    def _finish_once(self, finish: Callable[[], int]) -> int:
        self._unbind()  # whoever enters it next may be another source
        return finish()

    def _begin_station(self, recorder: Recorder, begin: Callable[[], int]) -> int:
        if self.name == "launcher_init" and recorder.launching:
            recorder.launching = False  # it has been open since the process began
            return recorder.now()
        recorder.end_launch()
        return begin()


class _StageOfOpenPhase(Phase):
    """A stage of whatever phase is open when it begins."""

    __slots__ = ("_inner", "_name")

    def __init__(self, name: str) -> None:
        super().__init__("", name)
        self._name = name
        self._inner: list[Phase] = []

    def __enter__(self) -> Self:
        inner = _resolved(self._name)
        self._inner.append(inner)
        inner.__enter__()
        return self

    def enter_from(self, source: str) -> Self:
        inner = _resolved(self._name)
        self._inner.append(inner)
        inner.enter_from(source)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._inner:
            self._inner.pop().__exit__(kind, error, where)


class _Nothing(Phase):
    """Stands for a phase that does not exist."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def enter_from(self, source: str) -> Self:  # noqa: ARG002 -- as every phase
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        return None


class _Bare(_Nothing):
    """Stands for a function that was decorated with a phase of no name, and still is to run."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__("")
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


_nothing = _Nothing("")
_phases: dict[str, Phase] = {}
_stages: dict[tuple[str, str | None], Phase] = {}


def _forget() -> None:
    for phase_or_stage in (*_phases.values(), *_stages.values()):
        phase_or_stage.forget()


current.on_change = _forget


def phase(name: str = "", *rest: Never, **unknown: Never) -> Phase:
    """Report a phase: ``with ett.phase("evaluation"): ...`` or ``@ett.phase("evaluation")``.

    *name* is one of ``queued scheduling hardware_setup launcher_init train_loop pt2_compile
    checkpoint_blocking evaluation stalled shutdown``; another one is warned of and not reported.
    """
    if rest or unknown:
        surplus("phase()", rest, unknown)
    try:
        return _phases[name]
    except Exception:  # noqa: BLE001 -- comparing what others pass raises what it likes
        return _new_phase(name)


def stage(name: str = "", *rest: Never, phase: str | None = None, **unknown: Never) -> Phase:
    """Report a part of the open phase, or of the *phase* that is named."""
    if rest or unknown:
        surplus("stage()", rest, unknown)
    try:
        return _stages[name, phase]
    except Exception:  # noqa: BLE001 -- comparing what others pass raises what it likes
        return _new_stage(name, phase)


def _unknown(name: object) -> Phase:
    misused("there is no phase", name, f"; the phases are {', '.join(PHASES)}")
    return _Bare(name) if callable(name) else _nothing


@guarded(otherwise=_nothing)
def _new_phase(name: str) -> Phase:
    if name not in PHASES:
        return _unknown(name)
    return _phases.setdefault(name, Phase(name))


@guarded(otherwise=_nothing)
def _new_stage(name: Any, of: str | None) -> Phase:
    if of is not None and of not in PHASES:
        return _unknown(of)
    if not isinstance(name, str) or word(name) != name:
        misused("a stage is not reported, whose name cannot be", name)
        return _Bare(name) if callable(name) else _nothing
    new = _StageOfOpenPhase(name) if of is None else Phase(of, name)
    return _stages.setdefault((name, of), new)


@guarded(otherwise=_nothing)
def _resolved(name: str) -> Phase:
    recorder = current.found()
    if recorder is None:
        return _nothing
    inside = [each for each in _phases.values() if each.is_open]
    if inside:
        return stage(name, phase=max(inside, key=lambda each: each.began_at).name)
    if recorder.launching:
        return stage(name, phase="launcher_init")
    misused("a stage began outside any phase and is not reported:", name)
    return _nothing
