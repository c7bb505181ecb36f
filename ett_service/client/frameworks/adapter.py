"""What the modules of the frameworks share: how a recording begins, and methods that are measured.

No framework is imported here.
"""

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ett_service.client.current import current
from ett_service.client.guard import guarded
from ett_service.client.identity import is_disabled
from ett_service.client.reporting.loop import enter_loop
from ett_service.client.reporting.phase import Phase, stage
from ett_service.client.session import init

Around = Callable[..., AbstractContextManager[Any]]

NOTHING: AbstractContextManager[Any] = nullcontext()
"""What a call happens in where there is nothing to measure."""


class Afterwards(AbstractContextManager["Afterwards"]):
    """Has something done when a call returns, or when it raises."""

    def __init__(
        self, *, done: Callable[[], None] | None = None, broke: Callable[[], None] | None = None
    ) -> None:
        self._done = done
        self._broke = broke

    def __exit__(self, kind: object, error: object, where: object) -> None:
        then = self._done if kind is None else self._broke
        if then is not None:
            guarded(otherwise=None)(then)()


_sources: set[tuple[str, str]] = set()


@guarded(otherwise=None)
def begin(source: str, facts: Mapping[str, Any], hooks: Mapping[str, str]) -> None:
    """Begin to record, if nobody has, and say which framework reports and what of it was found.

    *facts* are what ``ett.init`` takes; *hooks* says ``ok`` or ``missing`` of each method.
    """
    init(**facts)
    recorder = current.found()
    if recorder is None or (recorder.lines.producer, source) in _sources:
        return
    _sources.add((recorder.lines.producer, source))
    attributes = {"source": source, "hooks": dict(hooks)}
    recorder.write({"type": "heartbeat", "attributes": attributes})


def is_wanted(env: Mapping[str, str]) -> bool:
    """Whether the environment says where to record to, so that entry points take part."""
    return bool(env.get("ETT_URL") or env.get("ETT_SPOOL")) and not is_disabled(env)


def await_first_batch() -> bool:
    """Begin the wait for the first batch; False if another callback of the trainer has begun it."""
    if _first_batch().is_open:
        return False
    _first_batch().__enter__()
    return True


def end_first_batch() -> None:
    """End the wait for the first batch, if there is one."""
    if _first_batch().is_open:
        _first_batch().__exit__(None, None, None)


def enter_loop_with_batch() -> None:
    """Enter the loop: the first batch is there and trains."""
    end_first_batch()
    enter_loop()


def _first_batch() -> Phase:
    return stage("get_first_batch_data", phase="launcher_init")


def measured(owner: Any, name: str, around: Around) -> str:
    """Have each call of a method happen inside what *around* returns for its arguments.

    Returns ``ok``, or ``missing`` where this version of the framework has no such method. A method
    is measured once. *around* may raise; what it returns may not.
    """
    method = getattr(owner, name, None)
    if not callable(method):
        return "missing"
    if not hasattr(method, "measured_by_ett"):
        setattr(owner, name, _inside(method, guarded(otherwise=NOTHING)(around)))
    return "ok"


def _inside(method: Callable[..., Any], around: Around) -> Callable[..., Any]:
    @functools.wraps(method)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with around(*args, **kwargs):
            return method(*args, **kwargs)

    inside.measured_by_ett = True  # type: ignore[attr-defined]
    return inside
