"""Who reports: the script itself, a framework's callback, or a hook; in that order of precedence.

The script's own calls carry no source, and pay nothing for it. Steps, the loop, the first batch,
checkpoints and what was restored come from one layer at a time: once a higher one has reported a
kind, those below are silent about it. Phases need no such rule: a phase entered twice is still one.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from ett_service.client.reporting.phase import Phase

AUTO = "auto"
"""The source that hooks name; a framework's callback names the framework."""

NOBODY, AUTOMATIC, FRAMEWORK, EXPLICIT = range(4)


def layer_of(source: str | None) -> int:
    """Return the layer of a source, higher for what takes precedence."""
    if source is None:
        return EXPLICIT
    return AUTOMATIC if source == AUTO else FRAMEWORK


def said_by(source: str | None) -> Mapping[str, object] | None:
    """Return the attributes that name a source; None for the script itself."""
    return None if source is None else {"source": source}


def entered_by(source: str | None, phase: Phase) -> AbstractContextManager[object]:
    """Return what enters *phase* for a source, or for the script itself."""
    return phase if source is None else From(source, phase)


class From:
    """``with From(AUTO, phase("evaluation")): ...`` for a phase or stage with its source."""

    __slots__ = ("_phase", "_source")

    def __init__(self, source: str, phase: Phase) -> None:
        self._source = source
        self._phase = phase

    def __enter__(self) -> Self:
        self._phase.enter_from(self._source)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._phase.__exit__(kind, error, where)
