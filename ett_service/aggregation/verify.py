"""Whether what is stored equals what the events and corrections say, to the last cell."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import sub

import msgspec
from sqlalchemy import Connection, Table

from ett_service.aggregation.fold_job import FoldedJob, fold_job
from ett_service.core.fleet.measures import MEASURES
from ett_service.core.fleet.totals import Totals
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS, Limits
from ett_service.core.ledger.results import FORMULA_VERSION, JobLedger
from ett_service.core.words import Category, Owner, WaitPart, Word
from ett_service.storage.engine.errors import DamagedEvent
from ett_service.storage.engine.store import Readable, Store
from ett_service.storage.fleet import contributions, rollup_deltas, rollup_rows
from ett_service.storage.fleet.contributions import Content, ExistingCells, Place, content
from ett_service.storage.fleet.rollup_deltas import MEASURES_OF, Amounts, DeltaKey
from ett_service.storage.fleet.rollup_rows import RollupDay
from ett_service.storage.folded_jobs import LEDGER_TABLES, LedgerRows, existing_rows
from ett_service.storage.jobs import batches
from ett_service.storage.jobs.ledgers import Columns, Head, rows
from ett_service.storage.metrics import counters
from ett_service.storage.metrics.counters import CounterSample
from ett_service.storage.record.dirty_marks import JobBatch, JobKey
from ett_service.storage.record.events import job_records

_ABSENT = "nothing"


@dataclass(frozen=True, slots=True)
class Difference:
    """One value of a job that is not what its events say."""

    key: JobKey
    what: str  #: table, key within the job and column, as in ``segment 1740816000000000 category``
    stored: object
    recomputed: object


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the recomputation of one job found."""

    key: JobKey
    pending: bool  #: the worker has yet to fold what came in; there is nothing to compare
    differences: tuple[Difference, ...] = ()


def verify(store: Readable, limits: Limits = DEFAULT_LIMITS) -> Iterator[Verdict]:
    """Recompute every job from its events, as of when it was folded, and compare."""
    for batch, _ in batches.job_batches(store):
        with store.reading() as conn:
            yield from _check_readable(conn, batch, limits)


def _check_readable(conn: Connection, batch: JobBatch, limits: Limits) -> Iterator[Verdict]:
    """Check jobs, and name an event that keeps one from being recomputed."""
    jobs = batch.jobs
    while jobs:
        try:
            yield from _check(conn, batch._replace(jobs=jobs), limits)
        except DamagedEvent as error:
            key = JobKey(batch.project_id, error.job)
            yield Verdict(key, False, (Difference(key, "event", str(error), "a readable event"),))
            jobs = jobs[jobs.index(error.job) + 1 :]
        else:
            return


def _check(conn: Connection, batch: JobBatch, limits: Limits) -> Iterator[Verdict]:
    """Recompute jobs on a connection that sees one state throughout."""
    marked = batches.marked(conn, batch)
    ledgers = LedgerRows(existing_rows(conn, LEDGER_TABLES, batch))
    cells = contributions.existing_of_batch(conn, batch)
    samples = counters.stored(conn, batch)
    for record in job_records(conn, batch):
        key, head = record.key, ledgers.head(record.key.job)
        if key.job in marked or (head and head.formula_version != FORMULA_VERSION):
            yield Verdict(key, pending=True)
        elif head is None:
            yield Verdict(key, False, (Difference(key, "job_ledger", _ABSENT, "a ledger"),))
        else:
            folded = fold_job(record, head.folded_us, limits)
            differences = [
                *_ledger_differences(ledgers, folded, head),
                *_cell_differences(cells.get(key.job, {}), folded),
                *_differences(_counted(samples.get(key.job)), _counted(folded.counter_sample())),
            ]
            yield Verdict(key, False, tuple(Difference(key, *values) for values in differences))


def _ledger_differences(
    ledgers: LedgerRows, folded: FoldedJob, head: Head
) -> Iterator[tuple[str, object, object]]:
    recomputed = rows(folded.ledger, replace(head, event_count=folded.fold.event_count))
    for table, columns in recomputed.items():
        names = [column.name for column in table.columns]
        stored = [
            dict(zip(names[2:], row[2:], strict=True)) for row in ledgers.of(table, folded.key.job)
        ]
        yield from _differences(_values(table, stored), _values(table, columns))


def _values(table: Table, stored: Iterable[Columns]) -> dict[str, object]:
    """Name every value of the rows by its table, the row's key within the job and its column."""
    keys = [column.name for column in table.primary_key][2:]
    values: dict[str, object] = {}
    for row in stored:
        place = " ".join([table.name, *(str(row[name]) for name in keys)])
        members = dict(row)
        # Compared by member: in which order an object names them says nothing.
        answer = msgspec.json.decode(members.pop("answer", "{}"))
        members |= {f"answer.{name}": value for name, value in answer.items()}
        values |= {f"{place} {name}": value for name, value in members.items()}
    return values


def _counted(sample: CounterSample | None) -> dict[str, object]:
    return {f"counted {name}": value for name, value in sample._asdict().items()} if sample else {}


def _cell_differences(
    stored: ExistingCells, folded: FoldedJob
) -> Iterator[tuple[str, object, object]]:
    """Compare what is stored of the cells, and their sums with the shares of the ledger."""
    recomputed = {place: content(cell) for place, cell in folded.cells().items()}
    existing = {place: cell.content for place, cell in stored.items()}
    # A job has many that are alike: only the others are named.
    places = [
        place
        for place in existing.keys() | recomputed.keys()
        if existing.get(place) != recomputed.get(place)
    ]
    named, renamed = (
        {name: value for place in places for name, value in _cell(place, cells.get(place))}
        for cells in (existing, recomputed)
    )
    yield from _differences(named, renamed)
    yield from _differences(*_sums(recomputed.values(), folded.ledger))


def _cell(place: Place, cell: Content | None) -> Iterator[tuple[str, object]]:
    if cell is None:
        return
    hour_at, cohort = place
    labels = ",".join(f"{name}={value}" for name, value in cohort._asdict().items() if value)
    for name, value in zip((*MEASURES, "tallies"), (*cell.sums, cell.tallies), strict=True):
        yield f"contribution {hour_at} {labels or 'unknown'} {name}", value


def _sums(
    cells: Collection[Content], ledger: JobLedger
) -> tuple[dict[str, object], dict[str, object]]:
    """Sum the job's time by category and owner, as its cells and as its shares have it."""
    amounts = map(sum, zip(*(cell.sums for cell in cells), strict=True))
    totals = Totals(dict(zip(MEASURES, amounts, strict=False)))
    if totals["jobs_left_out"]:
        return {}, {}
    by_us: Counter[str] = Counter()  #: named as in the cells
    for wait in ledger.wait_shares:
        of_queue = wait.part is WaitPart.QUEUE
        by_us[f"cells {wait.owner} {'queue_us' if of_queue else 'wait_us'}"] += wait.us
        if not totals["unweighted_us"]:
            by_us[f"cells {wait.owner} wait_weighted_us"] += wait.weighted_us or 0
    for share in ledger.shares:
        by_us[f"cells {share.category} us"] += share.us
        if not totals["unweighted_us"]:
            by_us[f"cells {share.category} weighted_us"] += share.weighted_us or 0
            by_us[f"cells {share.category} gpu_us"] += share.gpu_us or 0
    of_cells: dict[str, object] = {
        f"cells {word} {name}": amount for word, name, amount in _amounts(totals) if amount
    }
    return of_cells, {name: amount for name, amount in by_us.items() if amount}


def _amounts(totals: Totals) -> Iterator[tuple[Word, str, int]]:
    for category in Category:
        yield category, "us", totals.category_us(category)
        yield category, "weighted_us", totals.category_weighted_us(category)
        yield category, "gpu_us", totals.category_gpu_us(category)
    for owner in Owner:
        yield owner, "wait_us", totals.wait_us(owner)
        yield owner, "wait_weighted_us", totals.wait_weighted_us(owner)
        yield owner, "queue_us", totals.queue_us(owner)


def _differences(
    stored: Mapping[str, object], recomputed: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    for what in sorted(stored.keys() | recomputed.keys()):
        before, after = stored.get(what, _ABSENT), recomputed.get(what, _ABSENT)
        if before != after:
            yield what, before, after


@dataclass(frozen=True, slots=True)
class RollupDifference:
    """One value of a project's rollups that is not the sum of its jobs' contributions."""

    project_id: int
    what: str  #: table, key within the project and column
    stored: object
    recomputed: object


@dataclass(frozen=True, slots=True)
class DayVerdict:
    """What was found of a project's day."""

    project_id: int
    day_us: int
    cells: int  #: how many rows were compared
    differences: tuple[RollupDifference, ...] = ()


def verify_rollups(store: Readable) -> Iterator[DayVerdict]:
    """Sum all contributions anew and compare, hours and days, sums and tallies.

    Jobs that wait to be folded make no difference: their rollups are as their contributions. What
    waits to be merged counts as merged.
    """
    with store.reading() as conn:
        yield from map(_compare, rollup_rows.days(conn))


def _compare(day: RollupDay) -> DayVerdict:
    differences: list[RollupDifference] = []
    cells = 0
    for table in MEASURES_OF:
        stored, summed = day.stored.get(table, {}), day.summed.get(table, {})
        keys = stored.keys() | summed.keys()
        cells += len(keys)
        for key in sorted((key for key in keys if stored.get(key) != summed.get(key)), key=str):
            differences += _rollup_differences(day.project_id, table, key, stored, summed)
    return DayVerdict(day.project_id, day.day_us, cells, tuple(differences))


def _rollup_differences(
    project_id: int, table: Table, key: DeltaKey, stored: Amounts, summed: Amounts
) -> Iterator[RollupDifference]:
    for place, measure in enumerate(MEASURES_OF[table]):
        before = stored[key][place] if key in stored else _ABSENT
        after = summed[key][place] if key in summed else _ABSENT
        if before != after:
            what = " ".join([table.name, *map(str, key), measure])
            yield RollupDifference(project_id, what, before, after)


def repair(store: Store) -> int:
    """Correct every row that differs, and return how many did."""
    with store.reading() as conn:
        unseen = rollup_rows.unseen(conn)
    for project_id, days in unseen.items():
        store.write(partial(rollup_deltas.hold, project_id=project_id, days=days))
    repaired = 0
    for project_id, changes in list(_differing(store)):
        store.write(partial(rollup_deltas.write, project_id=project_id, changes=changes))
        repaired += sum(map(len, changes.values()))
    return repaired


def _differing(store: Store) -> Iterator[tuple[int, dict[Table, Amounts]]]:
    with store.reading() as conn:
        for day in rollup_rows.days(conn):
            changes = {
                table: _missing(
                    day.stored.get(table, {}), day.summed.get(table, {}), (0,) * len(measures)
                )
                for table, measures in MEASURES_OF.items()
            }
            if any(changes.values()):
                yield day.project_id, changes


def _missing(stored: Amounts, summed: Amounts, nothing: tuple[int, ...]) -> Amounts:
    return {
        key: tuple(map(sub, summed.get(key, nothing), stored.get(key, nothing)))
        for key in stored.keys() | summed.keys()
        if stored.get(key) != summed.get(key)
    }
