"""Logs of MLPerf Training, written for a test."""

import json
from pathlib import Path
from typing import Any

START_S = 1_745_261_850
"""The instant from which the logs' own seconds count."""


def line(key: str, second: float, value: Any = None, *, label: str = "0: ", **metadata: Any) -> str:
    """One ``:::MLLOG`` line, *second* after the start."""
    record = {
        "namespace": "",
        "time_ms": round((START_S + second) * 1000),
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
        "metadata": metadata,
    }
    return f"{label}:::MLLOG {json.dumps(record)}"


def run_lines(after: int = 0) -> tuple[str, ...]:
    """A run as it should be, *after* seconds after the start.

    10 s of setup, 20 of init, 60 of loop with 11 of evaluation in it, 10 of shutdown.
    """
    return (
        line("cache_clear", after - 1, True, label=""),
        f"RUNANDTIME_START {START_S + after}",
        line("submission_benchmark", after + 10, "llama2"),
        line("submission_platform", after + 10, "2xBOX"),
        line("global_batch_size", after + 10, 8),
        line("init_start", after + 10),
        line("init_stop", after + 30),
        line("run_start", after + 30),
        line("block_start", after + 30, samples_count=0),
        line("eval_start", after + 50, samples_count=80),
        line("eval_stop", after + 55, samples_count=80),
        line("block_start", after + 55, samples_count=80),
        line("eval_start", after + 80, samples_count=160),
        line("eval_stop", after + 86, samples_count=160),
        line("run_stop", after + 90, status="success", samples_count=160),
        f"RUNANDTIME_STOP {START_S + after + 100}",
    )


RUN = run_lines()


def written(folder: Path, *lines: str, name: str = "result_0.txt") -> Path:
    """Write a log and return its path."""
    path = folder / name
    path.write_bytes("\n".join((*lines, "")).encode("utf-8", "surrogateescape"))
    return path


def without(*keys: str, after: int = 0) -> tuple[str, ...]:
    """``run_lines(after)`` without those that hold any of *keys*."""
    return tuple(text for text in run_lines(after) if not any(key in text for key in keys))
