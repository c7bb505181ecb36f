"""What the search knows of cohorts: their time day by day, and facts of their attempts.

With these facts a change of durations may be associated. Facts and labels are those of the job;
version and accelerators are the attempt's own. Hosts are those that reported its start, and the
state of the compile cache is the attribute ``compile_cache`` of its compile events.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Float, Select, and_, cast, func, or_, select

from ett_service.core.dimensions import STATED_DIMENSIONS, Facts
from ett_service.core.events import AttemptStarted, PhaseEnded, SpanOver
from ett_service.core.fleet.measures import WEIGHTED
from ett_service.core.fleet.owned_time import size_of
from ett_service.core.intervals import DAY_US
from ett_service.storage.record.events import own_members
from ett_service.storage.regressions.observations import kind_of_start
from ett_service.storage.schema import (
    attempt_ledger,
    cohort,
    event,
    job_ledger,
    rollup_daily,
    rollup_hourly,
)

_MEASURES = tuple(WEIGHTED.categories.values())

AttemptKey: TypeAlias = tuple[str, int]
"""A job, and the number of its attempt."""

CACHE = "compile_cache"
START = "start"

_JOBS_PER_QUERY = 500
_FACTS = (*STATED_DIMENSIONS, "image")
_DIFFERENT = "mixed"


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

    Excluded time does not count. Sums are floats, exact below 2^53.
    """
    table = rollup_hourly if first_us % DAY_US else rollup_daily
    day = ((table.c.start_us - first_us) // DAY_US).label("day")
    by_cohort = (
        select(
            table.c.cohort_id,
            day,
            *(func.sum(cast(table.c[name], Float)).label(name) for name in _MEASURES),
        )
        .where(
            table.c.project_id == project_id,
            table.c.start_us >= first_us,
            table.c.start_us < first_us + days * DAY_US,
        )
        .group_by(table.c.cohort_id, "day")
        .subquery()
    )
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


class _Run(msgspec.Struct):
    first_attempt: int


class _Job(msgspec.Struct):
    facts: Facts
    runs: tuple[_Run, ...] = (_Run(0),)

    @property
    def firsts(self) -> list[int]:
        return [run.first_attempt for run in self.runs]


class _EventBody(msgspec.Struct):
    launch: str = ""
    attempt: int = 0
    cycle: int | None = None
    host: str | None = None
    attributes: dict[str, Any] = {}


class _LifeKey(NamedTuple):
    """The names of an attempt in events."""

    launch: str
    attempt: int
    cycle: int


@dataclass(slots=True)
class _Reported:
    """Hosts and states of the compile cache that an attempt's events report."""

    hosts: set[str] = field(default_factory=set)
    caches: set[str] = field(default_factory=set)


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
_event_body = msgspec.json.Decoder(_EventBody).decode


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
        reported = _reported(conn, project_id, batch)
        for row in conn.execute(_attempts(project_id, batch)):
            if (row.job, row.number) in chosen and row.job in results:
                life = row.job, _LifeKey(row.launch, row.attempt, row.cycle)
                by_attempt[row.job, row.number] = _facts(
                    row, results[row.job], reported.get(life, _Reported())
                )
    return by_attempt


def _facts(row: Any, job: _Job, reported: _Reported) -> AttemptFacts:
    facts = job.facts
    values = {name: getattr(facts, name) or "" for name in _FACTS}
    values |= {
        "code_version": row.code_version or values["code_version"],
        "size": size_of(row.gpus if row.gpus is not None else facts.gpus),
        START: kind_of_start(row.number, job.firsts),
        CACHE: _only_or_mixed(reported.caches),
    }
    hosts = tuple(sorted(reported.hosts))
    return AttemptFacts(row.job, row.number, row.started_us, values, facts.labels, hosts)


def _only_or_mixed(states: Iterable[str]) -> str:
    several = sorted(states)
    return several[0] if len(several) == 1 else _DIFFERENT if several else ""


def _of_jobs(conn: Connection, project_id: int, jobs: Sequence[str]) -> Iterator[Any]:
    statement = select(job_ledger.c.job, job_ledger.c.answer).where(
        job_ledger.c.project_id == project_id, job_ledger.c.job.in_(jobs)
    )
    yield from conn.execute(statement)


def _attempts(project_id: int, jobs: Sequence[str]) -> Select[Any]:
    names = ("job", "number", "launch", "attempt", "cycle", "started_us", "gpus", "code_version")
    return select(*(attempt_ledger.c[name] for name in names)).where(
        attempt_ledger.c.project_id == project_id, attempt_ledger.c.job.in_(jobs)
    )


def _reported(
    conn: Connection, project_id: int, jobs: Sequence[str]
) -> Mapping[tuple[str, _LifeKey], _Reported]:
    of_compiles = and_(
        event.c.type.in_((SpanOver.type, PhaseEnded.type)), event.c.body.contains(f'"{CACHE}"')
    )
    statement = select(event.c.job, event.c.type, event.c.body).where(
        event.c.project_id == project_id,
        event.c.job.in_(jobs),
        or_(event.c.type == AttemptStarted.type, of_compiles),
    )
    by_life: defaultdict[tuple[str, _LifeKey], _Reported] = defaultdict(_Reported)
    for job, kind, body in conn.execute(statement):
        members = _event_body(own_members(body))
        reported = by_life[job, _LifeKey(members.launch, members.attempt, members.cycle or 0)]
        state = members.attributes.get(CACHE)
        if kind == AttemptStarted.type and members.host:
            reported.hosts.add(members.host)
        if isinstance(state, str):
            reported.caches.add(state)
    return by_life
