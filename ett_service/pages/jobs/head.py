"""The head of a job's page: its first sentence, its numbers, and those of its model beside them."""

from collections.abc import Sequence

from ett_service.charts.units import (
    amount,
    count,
    duration,
    e2e,
    gpu_hours,
    money,
    percent,
    ratio_of_e2e,
)
from ett_service.core.intervals import SECOND_US
from ett_service.core.words import Category, JobState
from ett_service.ingest.members import parse_instant
from ett_service.pages.ask import Answer
from ett_service.pages.jobs.life import is_recovery
from ett_service.pages.jobs.reasons import Loss, costs_of
from ett_service.pages.panel import Fact
from ett_service.pages.window import moment

_MOST_VERSIONS = 3
_BEHIND_US = 60 * SECOND_US


def sentence(job: Answer, ranked: Sequence[Loss]) -> str:
    """Say how the job does, and what it loses most by."""
    if job["started_at"] is None:
        return _waiting(job)
    if not job["e2e_seconds"]:
        yet = " yet" if job["provisional"] else ""
        return f"Its E2E is empty{yet}, so there is no ETT%."
    so_far = _so_far(job)
    text = f"ETT {percent(job['ett_ratio'])} by wall time{so_far}"
    if not ranked:
        return f"{text}: nothing was lost."
    most = ranked[0]
    return f"{text}: most is lost by {most.category}, {most.points} ({most.amount})."


def _waiting(job: Answer) -> str:
    """Say how long a job has waited of which no attempt has begun, as far as that is known."""
    waited = duration(job["queue_wait_seconds"])
    if job["state"] == JobState.QUEUED:
        since = f", submitted {moment(job['submitted_at'])} UTC" if job["submitted_at"] else ""
        return f"It has waited in the queue for {waited} so far{since}."
    return f"No attempt began, after {waited} in the queue."


def behind(job: Answer, now_us: int) -> str:
    """Say since when events wait for their numbers, once that is no matter of moments."""
    since = job["waiting_since"]
    if since is None or now_us - parse_instant(since) < _BEHIND_US:
        return ""
    return f"Events that came since {moment(since)} UTC are not in these numbers yet."


def versions(job: Answer) -> str:
    """Name the code versions of its attempts in their order, the last of many."""
    seen = dict.fromkeys(each["code_version"] for each in job["attempts"])
    named = [version for version in seen if version] or [job["code_version"] or ""]
    left = len(named) - _MOST_VERSIONS
    if left > 0:
        named = [named[0], f"{count(left + 1)} others", named[-1]]
    return ", then ".join(named)


def facts(job: Answer, advice: Answer, cohort: Answer) -> list[Fact]:
    """Return the numbers of a job that has begun, beside those of the jobs of its model."""
    held = job["gpu_seconds"]
    so_far = _so_far(job)
    return [
        Fact("ETT%", percent(ratio_of_e2e(job, "ett_ratio")), f"by wall time{so_far}"),
        Fact("E2E", duration(e2e(job)), f"wall time{so_far}"),
        queue_wait(job, cohort),
        Fact(
            "time to start",
            duration(job["time_to_start_seconds"]),
            _beside(cohort["time_to_start"]),
        ),
        *_recovery(job, cohort),
        Fact(
            "failures",
            count(job["failures"]),
            f"of {count(len(job['attempts']))} attempts; {count(job['infra_failures'])} of origin "
            "infra or preemption",
        ),
        *_mtbf(advice),
        Fact("unsaved training", duration(job["unsaved_training_seconds"]), "lost with failures"),
        Fact("WTT%", percent(ratio_of_e2e(job, "wasted_ratio")), "of training, by wall time"),
        *_rates(job["productivity"]),
        Fact(
            "GPU-hours",
            gpu_hours(None if held is None else sum(held.values())),
            f"on {count(job['gpus'])} accelerators" if job["gpus"] else "accelerators unknown",
        ),
        *_cost(job),
    ]


def facts_of_the_queued(job: Answer, cohort: Answer) -> list[Fact]:
    """Return what is known of a job before its first attempt."""
    asked = [Fact("accelerators", count(job["gpus"]), "asked for")] if job["gpus"] else []
    return [queue_wait(job, cohort), *asked]


def queue_wait(job: Answer, cohort: Answer) -> Fact:
    """Return how long the job was queued before its first instant."""
    return Fact("queue wait", duration(job["queue_wait_seconds"]), _beside(cohort["queue_wait"]))


def _so_far(job: Answer) -> str:
    return " so far" if job["provisional"] else ""


def _beside(spread: Answer) -> str:
    """Say what the jobs of the same model take, in the four weeks up to this job's end."""
    if not spread["count"]:
        return "wall time"
    p50, p90 = duration(spread["p50"]), duration(spread["p90"])
    return f"its model: p50 {p50}, p90 {p90}, n={count(spread['count'])}"


def _recovery(job: Answer, cohort: Answer) -> list[Fact]:
    seconds = job["time_to_recover_seconds"]
    if seconds is None:
        return []
    n = count(sum(map(is_recovery, job["recoveries"])))
    note = f"mean of {n}; {_beside(cohort['time_to_recover'])}"
    return [Fact("time to recover", duration(seconds), note)]


def _mtbf(advice: Answer) -> list[Fact]:
    """Tell the time between failures where there was any, with the bounds that its n leaves."""
    mtbf = advice["mtbf_seconds"]
    if mtbf["value"] is None:
        return []
    bounds = f"{duration(mtbf['low'])} to {duration(mtbf['high'])}"
    note = f"{advice['confidence']:.0%} interval: {bounds}"
    return [Fact("MTBF by training time", duration(mtbf["value"]), note)]


def _rates(productivity: Answer) -> list[Fact]:
    """Tell what the job makes of its training, as far as it reports it."""
    rates = [
        Fact(
            f"{unit} a second",
            amount(productivity[f"{unit}_per_second"]),
            f"{amount(productivity[f'{unit}_per_second_per_accelerator'])} an accelerator, "
            "while training",
        )
        for unit in ("tokens", "samples")
        if productivity[unit]
    ]
    if productivity["mfu"] is None:
        return rates
    note = f"while training; ETT% x MFU {percent(productivity['useful_ratio'])}"
    return [*rates, Fact("MFU", percent(productivity["mfu"]), note)]


def _cost(job: Answer) -> list[Fact]:
    """Tell what the job cost where a price is known of all of its time."""
    costs, currency = costs_of(job)
    if not costs:
        return []
    effective = costs[Category.EFFECTIVE_TRAINING] or 0.0
    wasted = money(job["cost"]["total"] - effective, currency)
    return [
        Fact("cost", money(job["cost"]["total"], currency), f"{wasted} not effective{_so_far(job)}")
    ]
