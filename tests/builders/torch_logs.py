"""Logs as ``TORCH_TRACE`` writes them."""

import json
from pathlib import Path
from typing import Any

BEGIN_US = 1_733_527_100_000_000


def record(header: dict[str, Any], payload: object = None, thread: int = 7) -> str:
    """A record; its payload follows in lines that begin with a tab."""
    line = f"V1206 15:18:20.254000 {thread} torch/x.py:9] {json.dumps(header)}\n"
    if payload is None:
        return line
    text = payload if isinstance(payload, str) else json.dumps(payload, indent=0)
    return line + "".join(f"\t{each}\n" for each in text.splitlines())


def edge(kind: str, name: str, us: float, compile_id: str = "0/0", thread: int = 7) -> str:
    """A begin or an end, *us* after the first."""
    event = {"name": name, "ts": BEGIN_US + us, "args": {"compile_id": compile_id}, "ph": kind}
    return record({"chromium_event": {}, "has_payload": "0"}, event, thread)


def instant(name: str, us: float, compile_id: str = "0/0", /, **args: object) -> str:
    """An instant with its own arguments."""
    given = {"compile_id": compile_id, **args}
    event = {"name": name, "ts": BEGIN_US + us, "args": given, "ph": "i"}
    return record({"chromium_event": {}, "has_payload": "0"}, event)


def metrics(kind: str = "compilation_metrics", **values: object) -> str:
    """What torch measured of a compile."""
    return record({kind: values, "frame_id": 0, "frame_compile_id": 0})


def phases(*names: str, begin: float, length: float, compile_id: str = "0/0") -> list[str]:
    """Phases, each inside the one before and 10 microseconds shorter on both sides."""
    begins = [edge("B", name, begin + 10 * n, compile_id) for n, name in enumerate(names)]
    ends = [edge("E", name, begin + length - 10 * n, compile_id) for n, name in enumerate(names)]
    return [*begins, *reversed(ends)]


FORWARD = ("dynamo", "entire_frame_compile", "backend_compile", "inductor_compile")


def written(path: Path, *lines: str) -> Path:
    """The log at *path*."""
    path.write_text("".join(lines))
    return path
