"""What the search knows of cohorts: their time day by day, and facts of their attempts.

With these facts a change of durations may be associated. Facts and labels are those of the job;
version, accelerators and the state of the compile cache are the attempt's own. Hosts are those that
reported its start.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Float, Select, Table, cast, func, select, union_all

from ett_service.core.dimensions import STATED_DIMENSIONS, Facts
from ett_service.core.events import AttemptStarted
from ett_service.core.fleet.measures import WEIGHTED
from ett_service.core.fleet.owned_time import size_of
from ett_service.core.intervals import DAY_US
from ett_service.storage.fleet import hours
from ett_service.storage.regressions.observations import kind_of_start
from ett_service.storage.schema import (
    attempt_ledger,
    cohort,
    event,
    job_ledger,
    rollup_daily,
    rollup_hourly,
)
from ett_service.storage.schema.record import OWN_MEMBERS

_MEASURES = tuple(WEIGHTED.categories.values())

AttemptKey: TypeAlias = tuple[str, int]
"""A job, and the number of its attempt."""

CACHE = "compile_cache"
START = "start"

_JOBS_PER_QUERY = 500
_FACTS = (*STATED_DIMENSIONS, "image")


class DailyTime(NamedTuple):
    """The time of a cohort's jobs in one block of 24 hours."""

    day: int
    labels: tuple[str, ...]  #: of the wanted dimensions; empty where unknown
    other: bool  #: whether the cap on a day's cohorts took the labels away
    us: tuple[float, ...]  #: times accelerators, by category in the order of ``Category``


def daily_time(
    conn: Connection, project_id: int, first_us: int, days: int, by: Sequence[str]
) -> Iterator[DailyTime]:
    """Yield the time in this many blocks of 24 hours from *first_us*, which is on a full hour.

    Where hours of a block are gone, the day (UTC) in which it begins counts in its stead. Excluded
    time does not count. Sums are floats, exact below 2^53.
    """
    midnight_us = first_us // DAY_US * DAY_US
    of_days = days
    if first_us > midnight_us:
        of_days = min(days, max(0, -((first_us - hours.kept_from(conn)) // DAY_US)))
    by_cohort = union_all(
        _by_cohort(rollup_daily, project_id, midnight_us, range(of_days)),
        _by_cohort(rollup_hourly, project_id, first_us, range(of_days, days)),
    ).subquery()
    labels = [cohort.c[name].label(f"label_{place}") for place, name in enumerate(by)]
    statement: Select[Any] = (
        select(
            by_cohort.c.day,
            *labels,
            cohort.c.other,
            *(func.sum(by_cohort.c[name]) for name in _MEASURES),
        )
        .join_from(by_cohort, cohort, by_cohort.c.cohort_id == cohort.c.id)
        .where(cohort.c.excluded.is_(False))
        .group_by(by_cohort.c.day, *(label.name for label in labels), cohort.c.other)
        .order_by(by_cohort.c.day, *(label.name for label in labels), cohort.c.other)
    )
    width = len(by)
    for day_number, *rest in conn.execute(statement):
        yield DailyTime(
            int(day_number), tuple(rest[:width]), bool(rest[width]), tuple(rest[width + 1 :])
        )


def _by_cohort(table: Table, project_id: int, first_us: int, days: range) -> Select[Any]:
    """Select the time of each cohort in blocks of 24 hours, counted from *first_us*."""
    day = ((table.c.start_us - first_us) // DAY_US).label("day")
    return (
        select(
            table.c.cohort_id,
            day,
            *(func.sum(cast(table.c[name], Float)).label(name) for name in _MEASURES),
        )
        .where(
            table.c.project_id == project_id,
            table.c.start_us >= first_us + days.start * DAY_US,
            table.c.start_us < first_us + days.stop * DAY_US,
        )
        .group_by(table.c.cohort_id, "day")
    )


class _Run(msgspec.Struct):
    first_attempt: int


class _Job(msgspec.Struct):
    facts: Facts
    runs: tuple[_Run, ...] = (_Run(0),)

    @property
    def firsts(self) -> list[int]:
        return [run.first_attempt for run in self.runs]


class _Attempt(msgspec.Struct):
    compile_cache: str | None = None


class _Start(msgspec.Struct):
    launch: str = ""
    attempt: int = 0
    cycle: int | None = None
    host: str | None = None


class _LifeKey(NamedTuple):
    """The names of an attempt in events."""

    launch: str
    attempt: int
    cycle: int


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """An attempt's values by dimension; unknown ones are absent or empty."""

    job: str
    number: int
    started_us: int
    values: Mapping[str, str]
    labels: Mapping[str, str]
    hosts: tuple[str, ...]


_job = msgspec.json.Decoder(_Job).decode
_attempt = msgspec.json.Decoder(_Attempt).decode
_start = msgspec.json.Decoder(_Start).decode


def attempt_facts(
    conn: Connection, project_id: int, keys: Collection[AttemptKey]
) -> dict[AttemptKey, AttemptFacts]:
    """Read the facts of the *keys* attempts that there are."""
    jobs = sorted({job for job, _ in keys})
    chosen = set(keys)
    by_attempt: dict[AttemptKey, AttemptFacts] = {}
    for start in range(0, len(jobs), _JOBS_PER_QUERY):
        batch = jobs[start : start + _JOBS_PER_QUERY]
        results = {name: _job(answer) for name, answer in _of_jobs(conn, project_id, batch)}
        hosts = _hosts(conn, project_id, batch)
        for row in conn.execute(_attempts(project_id, batch)):
            if (row.job, row.number) in chosen and row.job in results:
                life = row.job, _LifeKey(row.launch, row.attempt, row.cycle)
                by_attempt[row.job, row.number] = _facts(
                    row, results[row.job], tuple(sorted(hosts.get(life, ())))
                )
    return by_attempt


def _facts(row: Any, job: _Job, hosts: tuple[str, ...]) -> AttemptFacts:
    facts = job.facts
    values = {name: getattr(facts, name) or "" for name in _FACTS}
    values |= {
        "code_version": row.code_version or values["code_version"],
        "size": size_of(row.gpus if row.gpus is not None else facts.gpus),
        START: kind_of_start(row.number, job.firsts),
        CACHE: _attempt(row.answer).compile_cache or "",
    }
    return AttemptFacts(row.job, row.number, row.started_us, values, facts.labels, hosts)


def _of_jobs(conn: Connection, project_id: int, jobs: Sequence[str]) -> Iterator[Any]:
    statement = select(job_ledger.c.job, job_ledger.c.answer).where(
        job_ledger.c.project_id == project_id, job_ledger.c.job.in_(jobs)
    )
    yield from conn.execute(statement)


def _attempts(project_id: int, jobs: Sequence[str]) -> Select[Any]:
    names = ("job", "number", "launch", "attempt", "cycle", "started_us", "gpus", "code_version",
             "answer")  # fmt: skip
    return select(*(attempt_ledger.c[name] for name in names)).where(
        attempt_ledger.c.project_id == project_id, attempt_ledger.c.job.in_(jobs)
    )


def _hosts(
    conn: Connection, project_id: int, jobs: Sequence[str]
) -> Mapping[tuple[str, _LifeKey], set[str]]:
    statement = select(event.c.job, OWN_MEMBERS).where(
        event.c.project_id == project_id,
        event.c.job.in_(jobs),
        event.c.type == AttemptStarted.type,
    )
    by_life: defaultdict[tuple[str, _LifeKey], set[str]] = defaultdict(set)
    for job, members in conn.execute(statement):
        start = _start(members)
        if start.host:
            by_life[job, _LifeKey(start.launch, start.attempt, start.cycle or 0)].add(start.host)
    return by_life
