"""torch's own count of the time in compiles, to check what its callbacks have told.

Who clears the callbacks silences ours, and another torch may call them elsewhere; this count is
kept outside Python and loses nothing.
"""

import functools
import importlib
import json
from collections.abc import Mapping
from typing import Any

from ett_service.client.torch.states import OK, body_of, states

SHARE, LEAST_SECONDS = 0.02, 0.05
"""Where the two differ by more than both of these, the callbacks have missed something."""

_COUNTER = "pytorch.wait_counter.dynamo_compile"


def hook(_: object) -> None:
    """Look for the counters. Raises ``AttributeError`` where this torch has none."""
    try:
        _read()
    except (ImportError, RuntimeError, ValueError) as error:
        raise AttributeError("wait counters") from error


def disagreement(seen_seconds: float) -> dict[str, object]:
    """Return what torch counts beside what was seen, both in seconds; empty if they agree."""
    counted = _counted_seconds() if states.get("wait_counters") == OK else None
    if counted is None or abs(counted - seen_seconds) <= max(SHARE * counted, LEAST_SECONDS):
        return {}
    return {"compile_seconds": {"seen": seen_seconds, "counted": counted}}


@body_of("wait_counters", None)
def _counted_seconds() -> float | None:
    """Return the seconds in compiles of this process."""
    return compile_seconds(_read())


def compile_seconds(counters: Mapping[str, Any]) -> float:
    """Return the seconds in compiles that torch's *counters* tell, 0 where they count none."""
    return float(counters.get(_COUNTER, {}).get("total_time_us", 0)) / 1e6


def _read() -> dict[str, Any]:
    """Ask the handler that torch keeps for its debug server."""
    c10d: Any = importlib.import_module("torch._C._distributed_c10d")
    request, response = _messages(c10d)
    answer = response()
    c10d._get_handler("wait_counter_values")(request(), answer)  # noqa: SLF001 -- nothing public
    counters: dict[str, Any] = json.loads(answer.content)
    return counters


@functools.cache
def _messages(c10d: Any) -> tuple[type, type]:
    """Make the classes of the question, which asks nothing, and of the answer."""

    class Request(c10d._Request):  # type: ignore[misc]  # noqa: SLF001 -- likewise
        def body(self) -> bytes:
            return b""

        def params(self) -> dict[str, str]:
            return {}

    class Response(c10d._Response):  # type: ignore[misc]  # noqa: SLF001 -- likewise
        def set_content(self, content: str, _kind: str) -> None:
            self.content = content

        def set_status(self, _status: int) -> None:
            return None

    return Request, Response
