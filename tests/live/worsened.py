"""Six weeks of short jobs whose launcher has been slow for the last of them."""

from collections.abc import Iterator
from random import Random

from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US, rfc3339
from ett_service.demo.calendar import WireEvent

CLUSTER = "worn"
MODEL = "llm-worn"
SLOW_DAYS = 10

_DAYS = 44
_JOBS_A_DAY = 6
_SLOWER = 2.5


def worsened(now_us: int) -> list[WireEvent]:
    """Return the events of jobs that ended before *now_us*; the same ones whenever that is."""
    chance = Random(5)
    events: list[WireEvent] = []
    for days in range(_DAYS, 0, -1):
        for number in range(_JOBS_A_DAY):
            at_us = now_us - days * DAY_US + number * DAY_US // _JOBS_A_DAY
            factor = _SLOWER if days <= SLOW_DAYS else 1.0
            events += _job(f"worn-{days}-{number}", at_us, round(chance.gauss(90, 9) * factor))
    return events


def _job(job: str, at_us: int, init_s: int) -> Iterator[WireEvent]:
    named = {"job": job, "attempt": 0}
    loop_us = at_us + init_s * SECOND_US
    end = rfc3339(loop_us + HOUR_US // 2)
    ended = {"outcome": "completed", "at": end}
    yield {"type": "job", "at": rfc3339(at_us), "job": job, "cluster": CLUSTER, "model": MODEL}
    yield {"type": "attempt_started", "at": rfc3339(at_us), "gpus": 8, **named}
    span = {"type": "span", "start": rfc3339(at_us), "at": rfc3339(loop_us)}
    yield {**span, "phase": "launcher_init", **named}
    yield {"type": "phase_started", "at": rfc3339(loop_us), "phase": "train_loop", **named}
    yield {"type": "attempt_ended", **ended, **named}
    yield {"type": "job_ended", **ended, "job": job}
