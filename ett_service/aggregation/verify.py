"""Whether what is stored equals what the events and corrections say, to the last cell."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
from sqlalchemy import Connection, Table

from ett_service.core.fleet.contribution import contribution
from ett_service.core.fleet.totals import MEASURES, Totals
from ett_service.core.ledger.failures import corrected
from ett_service.core.ledger.fold import JobFold
from ett_service.core.ledger.results import DEFAULT_LIMITS, FORMULA_VERSION, Limits
from ett_service.core.words import Category
from ett_service.storage import schema
from ett_service.storage.engine.store import Readable
from ett_service.storage.fleet import contributions, rollup_rows
from ett_service.storage.fleet.contributions import Content, Place, content
from ett_service.storage.fleet.rollup_deltas import MEASURES_OF, Amounts, Key
from ett_service.storage.fleet.rollup_rows import RollupDay
from ett_service.storage.jobs import ledgers
from ett_service.storage.jobs.ledger_rows import Columns, Head, rows
from ett_service.storage.metrics import counter_samples
from ett_service.storage.metrics.counter_samples import CounterSample
from ett_service.storage.record import corrections, dirty_marks, events
from ett_service.storage.record.dirty_marks import JobKey

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
    with store.reading() as conn:
        keys = dirty_marks.jobs(conn)
    for key in keys:
        with store.reading() as conn:
            yield check(conn, key, limits)


def check(conn: Connection, key: JobKey, limits: Limits = DEFAULT_LIMITS) -> Verdict:
    """Recompute one job on a connection that sees one state throughout."""
    head = ledgers.head(conn, key)
    if dirty_marks.batches(conn, key) or (head and head.formula_version != FORMULA_VERSION):
        return Verdict(key, pending=True)
    if head is None:
        return Verdict(key, False, (Difference(key, "job_ledger", _ABSENT, "a ledger"),))
    stored, cells = ledgers.stored_rows(conn, key), contributions.stored(conn, key)
    recomputed, recomputed_cells, saying = _recomputed(conn, key, head, limits)
    said = counter_samples.stored(conn, key.project_id, [key.job]).get(key.job)
    found = [
        *(
            difference
            for table, columns in recomputed.items()
            for difference in _differences(_values(table, stored[table]), _values(table, columns))
        ),
        *_differences(*_unlike_cells(cells, recomputed_cells)),
        *_differences(*_sums(recomputed_cells.values(), recomputed)),
        *_differences(_counted(said), _counted(saying)),
    ]
    return Verdict(key, False, tuple(Difference(key, *one) for one in found))


def _recomputed(
    conn: Connection, key: JobKey, head: Head, limits: Limits
) -> tuple[dict[Table, list[Columns]], dict[Place, Content], CounterSample]:
    fold = JobFold(limits)
    fold.add(events.events(conn, *key), events.offsets(conn, *key))
    stands = corrections.of_job(conn, key)
    ledger = corrected(fold.ledger(head.folded_us), stands.verdicts)
    cells = contribution(ledger, stands.exclusions)
    return (
        rows(ledger, replace(head, event_count=fold.event_count)),
        {place: content(cell) for place, cell in cells.items()},
        counter_samples.counter_sample(key, ledger, stands.exclusions),
    )


def _values(table: Table, stored: Iterable[Columns]) -> dict[str, object]:
    """Name every value of the rows by its table, the row's key within the job and its column."""
    keys = [column.name for column in table.primary_key][2:]
    found: dict[str, object] = {}
    for row in stored:
        place = " ".join([table.name, *(str(row[name]) for name in keys)])
        members = dict(row)
        # Compared by member: in which order an object names them says nothing.
        answer = msgspec.json.decode(members.pop("answer", "{}"))
        members |= {f"answer.{name}": value for name, value in answer.items()}
        found |= {f"{place} {name}": value for name, value in members.items()}
    return found


def _counted(saying: CounterSample | None) -> dict[str, object]:
    return {f"counted {name}": value for name, value in saying._asdict().items()} if saying else {}


def _unlike_cells(
    stored: Mapping[Place, Content], recomputed: Mapping[Place, Content]
) -> tuple[dict[str, object], dict[str, object]]:
    """Name the values of those cells that are not alike; a job has many that are."""
    places = [
        place
        for place in stored.keys() | recomputed.keys()
        if stored.get(place) != recomputed.get(place)
    ]
    one, other = (
        {name: value for place in places for name, value in _cell(place, cells.get(place))}
        for cells in (stored, recomputed)
    )
    return one, other


def _cell(place: Place, cell: Content | None) -> Iterator[tuple[str, object]]:
    if cell is None:
        return
    hour_at, cohort = place
    labels = ",".join(f"{name}={value}" for name, value in cohort._asdict().items() if value)
    for name, value in zip((*MEASURES, "tallies"), (*cell.sums, cell.tallies), strict=True):
        yield f"contribution {hour_at} {labels or 'unknown'} {name}", value


def _sums(
    cells: Collection[Content], ledger: Mapping[Table, list[Columns]]
) -> tuple[dict[str, object], dict[str, object]]:
    """Sum the job's time by category, as its cells have it and as its shares have it."""
    amounts = map(sum, zip(*(cell.sums for cell in cells), strict=True))
    totals = Totals(dict(zip(MEASURES, amounts, strict=False)))
    if totals["jobs_left_out"]:
        return {}, {}
    by_us: Counter[str] = Counter()  #: named as in the cells
    for share in ledger[schema.share]:
        by_us[f"cells {share['category']} us"] += share["us"]
        if not totals["unweighted_us"]:
            by_us[f"cells {share['category']} weighted_us"] += share["weighted_us"]
            by_us[f"cells {share['category']} gpu_us"] += share["gpu_us"]
    of_cells: dict[str, object] = {
        f"cells {category} {name}": amount
        for category in Category
        for name, amount in (
            ("us", totals.category_us(category)),
            ("weighted_us", totals.category_weighted_us(category)),
            ("gpu_us", totals.category_gpu_us(category)),
        )
        if amount
    }
    return of_cells, {name: amount for name, amount in by_us.items() if amount}


def _differences(
    stored: Mapping[str, object], recomputed: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    for what in sorted(stored.keys() | recomputed.keys()):
        one, other = stored.get(what, _ABSENT), recomputed.get(what, _ABSENT)
        if one != other:
            yield what, one, other


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

    Jobs that wait to be folded make no difference: their rollups are as their contributions.
    """
    with store.reading() as conn:
        yield from map(_compare, rollup_rows.days(conn))


def _compare(day: RollupDay) -> DayVerdict:
    differences: list[RollupDifference] = []
    cells = 0
    for table in MEASURES_OF:
        one, other = day.stored.get(table, {}), day.summed.get(table, {})
        keys = one.keys() | other.keys()
        cells += len(keys)
        for key in sorted((key for key in keys if one.get(key) != other.get(key)), key=str):
            differences += _rollup_differences(day.project_id, table, key, one, other)
    return DayVerdict(day.project_id, day.day_us, cells, tuple(differences))


def _rollup_differences(
    project_id: int, table: Table, key: Key, stored: Amounts, summed: Amounts
) -> Iterator[RollupDifference]:
    for place, measure in enumerate(MEASURES_OF[table]):
        one = stored[key][place] if key in stored else _ABSENT
        other = summed[key][place] if key in summed else _ABSENT
        if one != other:
            what = " ".join([table.name, *map(str, key), measure])
            yield RollupDifference(project_id, what, one, other)
