"""What torchrun leaves behind of the cycle before: the error files of its workers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def last_failure(env: Mapping[str, str]) -> dict[str, Any] | None:
    """Return an ``attempt_ended`` of the cycle before this one, None where nothing tells of it.

    torchrun writes ``attempt_<n>/<local rank>/error.json`` for a worker under ``@record`` that
    raised; the earliest is the root cause, and of this node only. ``at_us`` is its instant, in
    microseconds since the Unix epoch, to a second. A worker of this rank told it itself.
    """
    own = env.get("TORCHELASTIC_ERROR_FILE", "")
    cycle = env.get("TORCHELASTIC_RESTART_COUNT", "")
    if not own or not cycle.isdigit() or cycle == "0":
        return None
    before = Path(own).parent.parent.parent / f"attempt_{int(cycle) - 1}"
    found = [
        failure
        for path in sorted(before.glob("*/error.json"))
        if path.parent.name != env.get("LOCAL_RANK") and (failure := _failure(path, env))
    ]
    if not found:
        return None
    return {**min(found, key=lambda failure: int(failure["at_us"])), "cycle": int(cycle) - 1}


def _failure(path: Path, env: Mapping[str, str]) -> dict[str, Any] | None:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))["message"]
        text, at = str(said["message"]), int(said["extraInfo"]["timestamp"])
        rank = int(env["GROUP_RANK"]) * int(env["LOCAL_WORLD_SIZE"]) + int(path.parent.name)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    exception, colon, message = text.partition(": ")
    return {
        "type": "attempt_ended",
        "outcome": "failed",
        "rank": rank,
        "exception": exception[:200] if colon else None,
        "message": (message if colon else text)[:2000],
        "at_us": at * 1_000_000,
    }
