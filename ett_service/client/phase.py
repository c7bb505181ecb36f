"""Phases and stages, as context managers and decorators: ``ett.phase``, ``ett.stage``."""

import functools
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from ett_service.client.current import current
from ett_service.client.guard import failed, guarded, warn_once
from ett_service.client.lines import PHASES
from ett_service.client.recorder import Recorder

P = ParamSpec("P")
R = TypeVar("R")


class Phase:
    """A phase, or a stage of one, for the whole process: ``with`` it, or decorate a function.

    Entered again while it is open, by recursion or by another thread, it stays the one phase
    that it is: the outermost begin and end are reported.
    """

    __slots__ = ("_depth", "_ends", "_key", "_recorder", "_starts", "_station")

    def __init__(self, name: str, stage: str | None = None) -> None:
        self._key = (name, stage)
        self._station = stage is None and name in ("launcher_init", "train_loop", "shutdown")
        self._recorder: Recorder | None = None
        self._depth = 0
        self._starts = self._ends = ""

    def __enter__(self) -> Self:
        try:
            recorder = current.recorder
            if recorder is None or recorder is not self._recorder:
                recorder = self._bound()
            self._depth += 1
            if self._depth == 1 and recorder is not None:
                if self._station:
                    self._begin_station(recorder)
                else:
                    recorder.edge(self._starts)
                recorder.open.append(self._key)
        except Exception as error:  # noqa: BLE001 -- nothing raises into the trainer
            failed(error)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        try:
            # A phase entered before this recorder began has no depth here.
            self._depth = depth = max(self._depth - 1, 0)
            recorder = self._recorder
            if depth == 0 and recorder is not None and self._key in recorder.open:
                recorder.edge(self._ends)
                recorder.open.remove(self._key)
        except Exception as problem:  # noqa: BLE001 -- nothing raises into the trainer
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
        return self._depth > 0 and self._recorder is current.recorder

    def _bound(self) -> Recorder | None:
        """Take the recorder of this process, which a fork or a new ``init`` has changed."""
        recorder = current.found()
        if recorder is not self._recorder:
            self._recorder = recorder
            self._depth = 0
            if recorder is not None:
                self._starts = recorder.prefix("phase_started", *self._key)
                self._ends = recorder.prefix("phase_ended", *self._key)
        return recorder

    def _begin_station(self, recorder: Recorder) -> None:
        if self._key[0] == "launcher_init" and recorder.launching:
            recorder.launching = False  # it has been open since the process began
            return
        recorder.end_launch()
        recorder.edge(self._starts)


class _StageOfOpenPhase(Phase):
    """A stage of whatever phase is open when it begins."""

    __slots__ = ("_inner", "_name")

    def __init__(self, name: str) -> None:
        super().__init__("", name)
        self._name = name
        self._inner: list[Phase] = []

    def __enter__(self) -> Self:
        found = _resolved(self._name)
        self._inner.append(found)
        found.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._inner.pop().__exit__(kind, error, where)


class _Nothing(Phase):
    """Stands for a phase that does not exist."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        return None


_nothing = _Nothing("")
_phases: dict[str, Phase] = {}
_stages: dict[tuple[str, str | None], Phase] = {}


def phase(name: str) -> Phase:
    """Report a phase: ``with ett.phase("evaluation"): ...`` or ``@ett.phase("evaluation")``.

    *name* is one of ``queued scheduling hardware_setup launcher_init train_loop pt2_compile
    checkpoint_blocking evaluation stalled shutdown``; another one is warned of and not reported.
    """
    try:
        return _phases[name]
    except (KeyError, TypeError):
        return _new_phase(name)


def stage(name: str, *, phase: str | None = None) -> Phase:
    """Report a part of the open phase, or of the *phase* that is named."""
    try:
        return _stages[name, phase]
    except (KeyError, TypeError):
        return _new_stage(name, phase)


@guarded(otherwise=_nothing)
def _new_phase(name: str) -> Phase:
    if name not in PHASES:
        warn_once(f"there is no phase {name!r}; the phases are {', '.join(PHASES)}")
        return _nothing
    return _phases.setdefault(name, Phase(name))


@guarded(otherwise=_nothing)
def _new_stage(name: str, of: str | None) -> Phase:
    if of is not None and of not in PHASES:
        warn_once(f"there is no phase {of!r}; the phases are {', '.join(PHASES)}")
        return _nothing
    new = _StageOfOpenPhase(name) if of is None else Phase(of, name)
    return _stages.setdefault((name, of), new)


@guarded(otherwise=_nothing)
def _resolved(name: str) -> Phase:
    recorder = current.found()
    if recorder is None:
        return _nothing
    phases = [of for of, inner in recorder.open if inner is None]
    if phases:
        return stage(name, phase=phases[-1])
    if recorder.launching:
        return stage(name, phase="launcher_init")
    warn_once(f"stage {name!r} began outside any phase and is not reported")
    return _nothing
