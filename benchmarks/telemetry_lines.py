"""Lines as the peers write them, for the speed of their importers."""

import json
from collections.abc import Iterator
from typing import Any

from ett_service.core.intervals import rfc3339

START_S = 1_785_000_000

_STARTS = (
    "rendezvous_started",
    "rendezvous_completed",
    "worker_start_started",
    "worker_start_completed",
)


def goodput_lines(count: int) -> Iterator[str]:
    """A job that starts anew every 5,000 steps, and evaluates every hundred."""
    second = float(START_S)
    for number in range(count):
        second += 1.5
        entry: dict[str, Any] = {"job_name": "llm-70b"}
        if number % 5_000 == 0:
            entry["job_start_time"] = second
        elif number % 100 in (98, 99):
            edge = "start" if number % 100 == 98 else "end"  # noqa: PLR2004
            entry["custom_badput_event_type"] = "eval_step"
            entry[f"custom_badput_event_{edge}_time"] = second
        else:
            entry |= {"step_count": number, "step_start_time": second}
        yield json.dumps(entry)


def one_logger_lines(count: int) -> Iterator[str]:
    """A loop whose iterations are all exported."""

    def event(name: str, number: int) -> dict[str, Any]:
        at = {"timestamp_msec": START_S * 1000 + number * 1500}
        return {"name": name, "attributes": at}

    begun = {"type": "start", "id": "a", "name": "application", "start_event": event("s", 0)}
    yield json.dumps({**begun, "count": 1, "pid": 7}, separators=(",", ":"))
    for number in range(1, count):
        name = "training_loop" if number == 1 else "training_single_iteration"
        record = {
            "type": "complete" if number > 1 else "start",
            "id": f"7b0fd2a0-5b4f-4a4f-9d0f-{number:012}",
            "name": name,
            "attributes": {"duration_msec": 1500},
            "start_event": event("span_start", number),
            "stop_event": event("span_stop", number + 1),
            "count": number,
            "pid": 7,
        }
        yield json.dumps(record, separators=(",", ":"))


def dlrover_lines(count: int) -> Iterator[str]:
    """Begins and ends of steps, with the content that Megatron's trainer gives them."""
    for number in range(count):
        at = rfc3339((START_S + number) * 1_000_000).removesuffix("Z")
        kind = "END" if number % 2 else "BEGIN"
        content = {"global_step": number // 2, "epoch": 0.74, "total_flos": 2.62e24}
        content |= {"steps_in_epoch": 236_937, "consumed_train_samples": 15_456 * number}
        yield f"[{at}] [426] [22b7ca89] [AtorchTrainerV2] [#step] [{kind}] {json.dumps(content)}"


def dlrover_fields(line: str) -> tuple[list[str], Any]:
    """Split a line of DLRover: what is in brackets, and its content."""
    head, _, content = line.partition("] {")
    return head.split("] ["), json.loads("{" + content)


def nvrx_lines(count: int) -> Iterator[str]:
    """A launcher's log: one line in twenty is an event."""
    names = [*_STARTS, "failure_detected", "worker_terminated"]
    for number in range(count):
        at = rfc3339((START_S + number) * 1_000_000)[:23].replace("T", " ")
        head = f"0: {at[:19]},{at[20:]} [INFO] [node-7] [workload:0(0) infra:0(0)]"
        if number % 20:
            yield f"{head} ft_launcher.py:{number % 900} [default] heartbeat of rank {number} ok"
        else:
            event = number // 20
            cycle = event // 6 + (event % 6 > 3)  # noqa: PLR2004
            message = f"Event: {names[event % 6]} Node: node-7 Rank: None Time: {at} UTC"
            yield f"{head} profiling.py:91   - Cycle: {cycle} {message}"


SPANS = 512
"""In an export, as the exporter of OpenTelemetry sends them."""


def otlp_lines(count: int) -> Iterator[str]:
    """Exports of a training loop, for about as many spans as it is asked for."""
    resource = {"attributes": [{"key": "ett.job", "value": {"stringValue": "llm-70b"}}]}
    for first in range(1, count + 1, SPANS):
        spans = [_span(number) for number in range(first, first + SPANS)]
        group = {"resource": resource, "scopeSpans": [{"spans": spans}]}
        yield json.dumps({"resourceSpans": [group]}, separators=(",", ":"))


def _span(number: int) -> dict[str, Any]:
    step = {"key": "dl.iteration", "value": {"intValue": str(number)}}
    return {
        "traceId": f"{7:032x}",
        "spanId": f"{number:016x}",
        "name": "nv.dl.training.iteration",
        "startTimeUnixNano": str((START_S + number) * 10**9),
        "endTimeUnixNano": str((START_S + number + 1) * 10**9),
        "attributes": [step],
    }
