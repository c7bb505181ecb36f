"""Jobs that compile, as wire events."""

from typing import Any

from tests.builders.jobs import wire_event, wire_span

REASON = "0/0: tensor 'tokens' size mismatch at index 1. expected 512, actual 768"


def stage(
    name: str, start: float, end: float, compile_id: str = "0/0", **members: Any
) -> dict[str, Any]:
    """Build a stage of a compile from one minute after noon to another.

    *members* that an event does not have go to its attributes.
    """
    named = {key: members.pop(key) for key in ("job", "attempt") if key in members}
    facts = {"compile_id": compile_id, "direction": "forward", "function": "forward", **members}
    return wire_span("pt2_compile", start, end, **named, stage=name, attributes=facts)


def compiling_job(job: str, team: str = "red", begin: float = 0) -> list[dict[str, Any]]:
    """8 accelerators of two attempts that compile cold; the first compiles again in its loop.

    The first compiles for 3 minutes and again for 2, of which it tunes 1; the second for 3.
    """
    named: dict[str, Any] = {"job": job}
    second = {**named, "attempt": 1}
    cold, again = {"compile_cache": "cold"}, {"recompile_reason": REASON}
    tuned = {"kernels": '[["triton_mm_1", 900], ["triton_sum_0", 80]]'}
    facts = {"team": team, "model": "llm", "code_version": "4.1"}
    return [
        wire_event("job", begin, **named, **facts),
        wire_event("attempt_started", begin, **named, gpus=8, code_version="4.1"),
        wire_span("pt2_compile", begin + 1, begin + 4, **named),
        stage("dynamo", begin + 1, begin + 2, **named, **cold),
        stage("inductor", begin + 2, begin + 4, **named, **cold),
        wire_event("phase_started", begin + 4, **named, phase="train_loop"),
        wire_event("progress", begin + 5, **named, step=1),
        wire_span("pt2_compile", begin + 6, begin + 8, **named),
        stage("inductor", begin + 6, begin + 7, "0/1", **named, **again, **tuned),
        stage("autotune", begin + 7, begin + 8, "0/1", **named, **again, **tuned),
        wire_event("attempt_ended", begin + 20, **named, outcome="failed", exit_code=1),
        wire_event("attempt_started", begin + 21, **second, gpus=8, code_version="4.1"),
        wire_span("pt2_compile", begin + 22, begin + 25, **second),
        stage("dynamo", begin + 22, begin + 23, **second, **cold),
        stage("inductor", begin + 23, begin + 25, **second, **cold),
        wire_event("phase_started", begin + 25, **second, phase="train_loop"),
        wire_event("attempt_ended", begin + 40, **second, outcome="completed"),
        wire_event("job_ended", begin + 40, **named, outcome="completed"),
    ]
