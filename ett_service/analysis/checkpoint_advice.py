"""Advice on saving for a job and for the fleet's cohorts, from what is stored of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import Connection

from ett_service.analysis.advice import (
    CHECKPOINT_BLOCKING,
    Advice,
    Counted,
    Measured,
    advise,
)
from ett_service.analysis.scope import Scope
from ett_service.analysis.window import Window
from ett_service.core.answer import Checkpoint, JobLedger
from ett_service.core.interval import HOUR_US
from ett_service.core.totals import PLAIN, WEIGHTED, Totals
from ett_service.core.vocabulary import Period
from ett_service.storage import ledgers, rollups
from ett_service.storage.checkpoints import MOST_GAPS, cohort_gaps
from ett_service.storage.job_totals import job_tally, job_totals

_MEASURES = (
    PLAIN.periods[Period.TRAINING],
    WEIGHTED.periods[Period.TRAINING],
    "failures",
    "infra_failures",
)


@dataclass(frozen=True, slots=True)
class GroupAdvice:
    """Advice for a group of cohorts."""

    labels: Mapping[str, str]  #: by dimension that was grouped by; ``""`` is unknown
    other: bool  #: whether it is what the cap on cohorts left over
    advice: Advice


def job_advice(
    conn: Connection, project_id: int, job: str, ledger: JobLedger, counted: Counted = "all"
) -> Advice:
    """Advise for one job, from all of its life."""
    found = job_totals(conn, project_id, job, measures=_MEASURES)
    sums = sum(found.values(), Totals.ZERO)
    saves = job_tally(conn, project_id, job, CHECKPOINT_BLOCKING)
    totals = Totals(sums.sums, {CHECKPOINT_BLOCKING: saves})
    gaps_us = job_gaps(ledgers.checkpoints(conn, project_id, job))
    return advise(Measured.of(totals, ledger.e2e_us, gaps_us), counted)


def job_gaps(checkpoints: Sequence[Checkpoint]) -> list[int]:
    """Return the microseconds between neighbouring checkpoints of each attempt."""
    ordered = sorted(checkpoints, key=lambda one: (one.number, one.saved_at))
    return [
        later.saved_at - earlier.saved_at
        for earlier, later in pairwise(ordered)
        if earlier.number == later.number and earlier.saved_at < later.saved_at
    ]


def fleet_advice(
    conn: Connection, scope: Scope, window: Window, counted: Counted = "all"
) -> tuple[Advice, list[GroupAdvice]]:
    """Advise for all of *scope*, and for each of its groups, most to gain first."""
    grouped = (*scope.group_by, "other") if scope.group_by else ()
    found = rollups.totals(conn, scope.cohorts, window, grouped, measures=_MEASURES)
    together = sum(found.values(), Totals.ZERO)
    latest = latest_part(window, together.tally(CHECKPOINT_BLOCKING).n)
    gaps = cohort_gaps(conn, scope.cohorts, latest, scope.group_by)
    length_us = window.to_us - window.from_us
    groups = []
    for (_, labels), totals in found.items():
        if not grouped:
            continue
        *values, other = labels
        own = [] if other else gaps.get(tuple(values), [])
        groups.append(
            GroupAdvice(
                dict(zip(scope.group_by, values, strict=True)),
                bool(other),
                advise(Measured.of(totals, length_us, own), counted),
            )
        )
    groups.sort(key=_rank)
    all_gaps = [gap for each in gaps.values() for gap in each]
    return advise(Measured.of(together, length_us, all_gaps), counted), groups


def latest_part(window: Window, saves: int) -> Window:
    """Cut a window that holds so many *saves* down to where twice ``MOST_GAPS`` of them should lie.

    A week of thousands of jobs has millions, of which the latest will do.
    """
    if saves <= 2 * MOST_GAPS:
        return window
    length_us = (window.to_us - window.from_us) * 2 * MOST_GAPS // saves
    start_us = window.to_us - length_us
    return Window(start_us - start_us % HOUR_US, window.to_us)


def _rank(group: GroupAdvice) -> tuple[bool, float, float, tuple[str, ...]]:
    gain = group.advice.gain
    wasted = 0.0 if gain is None else gain.wasted_ratio
    hours = 0.0 if gain is None else gain.gpu_hours or 0.0
    return group.other, -hours, -wasted, tuple(group.labels.values())
