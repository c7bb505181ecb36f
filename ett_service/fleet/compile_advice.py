"""Advice on compiles, for a job and for the fleet's cohorts."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from ett_service.core.fleet.measures import PLAIN
from ett_service.core.ledger.results import JobLedger
from ett_service.core.planning.compile_advice import (
    CompileAdvice,
    LastRecompiles,
    advise,
    last_recompiles,
)
from ett_service.core.planning.compiles import Compile, compiles_of
from ett_service.core.words import Category, Phase
from ett_service.fleet.scope import Scope, Window
from ett_service.storage.fleet import job_sums, largest_jobs
from ett_service.storage.jobs import ledgers
from ett_service.storage.record import events
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.pruned import pruned_us

MOST_JOBS = 50
"""How many jobs one question reads: those that compiled longest."""

_CATEGORIES = (Category.PT2_COMPILE, Category.RECOMPILE)


@dataclass(frozen=True, slots=True)
class GroupCompileAdvice:
    """Advice for the jobs of a group of cohorts."""

    labels: Mapping[str, str]  #: by dimension that was grouped by; ``""`` is unknown
    other: bool  #: whether it is what the cap on cohorts left over
    jobs_read: int
    advice: CompileAdvice


@dataclass(frozen=True, slots=True)
class FleetCompileAdvice:
    """Advice in total and by group, and how much of the fleet it rests on."""

    jobs: int  #: that compiled in the window
    jobs_read: int
    total: CompileAdvice
    groups: list[GroupCompileAdvice]


def job_compile_advice(
    conn: Connection, project_id: int, job: str, ledger: JobLedger
) -> tuple[CompileAdvice, LastRecompiles | None]:
    """Advise for one job, from all of its life, and say what its last attempt compiled again.

    That is None where no attempt has begun.
    """
    compiles = _compiles(conn, JobKey(project_id, job), ledger)
    last = ledger.attempts[-1].number if ledger.attempts else None
    return advise(compiles), None if last is None else last_recompiles(compiles, last)


def fleet_compile_advice(conn: Connection, scope: Scope, window: Window) -> FleetCompileAdvice:
    """Advise for the ``MOST_JOBS`` of *scope* that compiled longest, and for each group of them.

    The advice is on compiles that began in the window. Earlier ones of the same jobs count as what
    a cache could have held. Jobs whose record was pruned are not read.
    """
    within = (conn, scope.cohorts, window)
    keys = largest_jobs.largest(*within, job_sums.time_in(_CATEGORIES, PLAIN), MOST_JOBS)
    by_job = {
        key: _compiles(conn, key, ledger)
        for key in keys
        if pruned_us(conn, key) is None and (ledger := ledgers.job_ledger(conn, *key)) is not None
    }
    grouped = (*scope.group_by, "other") if scope.group_by else ()
    groups = _groups(by_job, job_sums.groups_of(*within, keys, grouped, _CATEGORIES))
    return FleetCompileAdvice(
        jobs=job_sums.number_with_time(*within, _CATEGORIES),
        jobs_read=len(by_job),
        total=_advise(by_job, window),
        groups=sorted(
            (
                GroupCompileAdvice(
                    dict(zip(scope.group_by, labels[:-1], strict=True)),
                    bool(labels[-1]),
                    len(of_group),
                    _advise(of_group, window),
                )
                for labels, of_group in groups.items()
                if labels
            ),
            key=_rank,
        ),
    )


def _compiles(conn: Connection, key: JobKey, ledger: JobLedger) -> list[Compile]:
    spans = events.spans_of_phase(conn, *key, Phase.PT2_COMPILE)
    return compiles_of(f"{key.project_id}/{key.job}", spans, events.offsets(conn, *key), ledger)


_ByJob = Mapping[JobKey, list[Compile]]


def _groups(
    by_job: _ByJob, labels: Mapping[JobKey, tuple[str, ...]]
) -> dict[tuple[str, ...], _ByJob]:
    groups: defaultdict[tuple[str, ...], dict[JobKey, list[Compile]]] = defaultdict(dict)
    for key, compiles in by_job.items():
        groups[labels[key]][key] = compiles
    return dict(groups)


def _advise(by_job: _ByJob, window: Window) -> CompileAdvice:
    compiles = [each for of_job in by_job.values() for each in of_job]
    return advise(
        [each for each in compiles if window.from_us <= each.at < window.to_us],
        before=[each for each in compiles if each.at < window.from_us],
        across_jobs=True,
    )


def _rank(group: GroupCompileAdvice) -> tuple[int, list[str]]:
    advice = group.advice
    return -(advice.dynamic_us + advice.uncached_us), list(group.labels.values())
