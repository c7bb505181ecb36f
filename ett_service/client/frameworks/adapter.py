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
from ett_service.client.session import init

Around = Callable[..., AbstractContextManager[Any]]

NOTHING: AbstractContextManager[Any] = nullcontext()
"""What a call happens in where there is nothing to measure."""

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


def measured(owner: Any, name: str, around: Around) -> str:
    """Have each call of a method happen inside what *around* returns for its arguments.

    Returns ``ok``, or ``missing`` where this version of the framework has no such method. A method
    is measured once. *around* may raise; what it returns may not.
    """
    method = getattr(owner, name, None)
    if method is None:
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
