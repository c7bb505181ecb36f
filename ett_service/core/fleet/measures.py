"""Measures: what is summed by hour and cohort, and what each sum is called."""

from collections.abc import Mapping
from dataclasses import dataclass

from ett_service.core.words import Category, Owner, Period


@dataclass(frozen=True, slots=True)
class Names:
    """What the measures of one weight are called."""

    categories: Mapping[Category, str]
    periods: Mapping[Period, str]
    owners: Mapping[Owner, str]  #: of the periods whose every second has one
    wasted: str


def _names(weight: str) -> Names:
    return Names(
        {category: f"{category}{weight}_us" for category in Category},
        {period: f"{period}_period{weight}_us" for period in Period},
        {owner: f"{owner}_wait{weight}_us" for owner in Owner},
        f"wasted{weight}_us",
    )


PLAIN = _names("")
WEIGHTED = _names("_weighted")

QUEUES: Mapping[Owner, str] = {owner: f"{owner}_queue_us" for owner in Owner}
"""What the measures of the queue are called, by who owned it; they sum to ``queue_wait_us``."""

MEASURES: tuple[str, ...] = (
    *PLAIN.categories.values(),
    *WEIGHTED.categories.values(),
    "restart_wait_gpu_us",
    *PLAIN.periods.values(),
    *WEIGHTED.periods.values(),
    *PLAIN.owners.values(),
    *WEIGHTED.owners.values(),
    *QUEUES.values(),
    PLAIN.wasted,
    WEIGHTED.wasted,
    "unweighted_us",
    "queue_wait_us",
    "between_runs_us",
    "effective_at_reference_us",
    "effective_at_reference_weighted_us",
    "slowed_us",
    "slowed_weighted_us",
    "speed_unmeasured_us",
    "speed_unmeasured_weighted_us",
    "data_wait_us",
    "data_wait_weighted_us",
    "data_wait_loop_us",
    "data_wait_loop_weighted_us",
    "data_wait_attempts",
    "unsaved_us",
    "unsaved_weighted_us",
    "failures",
    "infra_failures",
    "preemptions",
    "attempts",
    "jobs_hour",
    "jobs_day",
    "jobs_started",
    "jobs_ended",
    "jobs_ended_unweighted",
    "jobs_left_out",
    "samples",
    "samples_known",
    "samples_us",
    "samples_weighted_us",
    "tokens",
    "tokens_known",
    "tokens_us",
    "tokens_weighted_us",
    "tokens_gpu_us",
    "teraflops",
    "teraflops_weighted_us",
    "cells",
)
"""What is summed.

``<category>_us`` and ``<period>_period_us`` are wall time, ``<owner>_wait_us`` that of the periods
``scheduling``, ``starting`` and ``recovering`` by its owner, ``_weighted_us`` the same times
accelerators; ``restart_wait_gpu_us`` is the part of the waits in which they were held, see
:meth:`.Totals.category_gpu_us`. ``wasted`` is the wasted categories' time inside ``training``,
``unweighted_us`` the time of attempts whose accelerators are unknown. ``queue_wait_us`` and
``between_runs_us`` are no part of E2E. ``effective_at_reference_us``, ``slowed_us`` and
``speed_unmeasured_us`` partition the effective training of an attempt, in the hour in which it
ended (as-of while it runs). There, too, lie ``data_wait_us``, what its loop waited for data,
``data_wait_loop_us``, the loop time that this is a part of, and ``data_wait_attempts``, which
counts the attempts that report it. Jobs count in
``jobs_hour`` once in every hour in which they live, in ``jobs_day`` in the first such hour of a
day, in ``jobs_started`` in the first of all: how many jobs a window knew is the first bucket's
``jobs_hour`` (or ``jobs_day``) and the later buckets' ``jobs_started``. ``jobs_ended`` is where a
job's time ends. ``samples``, ``tokens`` and ``teraflops`` (10^12 operations) are what jobs
report; beside them stands the effective time of the jobs that do, and ``tokens_gpu_us``, all GPU
time of those that report tokens. ``samples_known``, ``tokens_known`` and ``teraflops`` go with
weighted time and leave out jobs whose accelerators are unknown. ``cells`` counts what was summed.
"""
