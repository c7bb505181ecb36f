"""The rollups as they are stored, and as they follow from all events, summed up plainly."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from sqlalchemy import Connection, RowMapping, select

from ett_service.aggregation.verify import verify, verify_rollups
from ett_service.core.dimensions import DIMENSIONS, Cohort
from ett_service.core.fleet.contribution import Cells, contribution
from ett_service.core.fleet.measures import MEASURES
from ett_service.core.intervals import DAY_US
from ett_service.core.ledger.attempt_results import corrected
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS, Limits
from ett_service.core.ledger.fold import fold
from ett_service.storage import schema
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.hours import kept_from
from ett_service.storage.jobs import ledgers
from ett_service.storage.record import events
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.ledgers import every_job

Label: TypeAlias = tuple[Cohort, bool]
"""A cohort, and whether it is the one that takes what the cap leaves over."""

Rollups: TypeAlias = dict[tuple[str, int, int, Label], dict[str, int]]
"""By table, project, start and cohort: what is not 0, tallies as ``name place count``."""


def stored_rollups(store: Store) -> Rollups:
    """Read every row of the rollups."""
    rollups: defaultdict[tuple[str, int, int, Label], dict[str, int]] = defaultdict(dict)
    with store.reading() as conn:
        labels = dict(_labels(conn))
        for grain in ("hourly", "daily"):
            for row in _rows(conn, f"rollup_{grain}"):
                cell = (grain, row["project_id"], row["start_us"], labels[row["cohort_id"]])
                rollups[cell] |= {name: row[name] for name in MEASURES}
            for row in _rows(conn, f"tally_{grain}"):
                cell = (grain, row["project_id"], row["start_us"], labels[row["cohort_id"]])
                name = f"{row['name']} {row['place']}"
                rollups[cell] |= {f"{name} count": row["count"], f"{name} us": row["us"]}
                assert row["count"] > 0
    return {
        cell: {name: amount for name, amount in row.items() if amount}
        for cell, row in rollups.items()
    }


def expected_rollups(store: Store, limits: Limits = DEFAULT_LIMITS) -> Rollups:
    """Fold every job from its events and add up what they contribute, but for pruned hours."""
    rollups: defaultdict[tuple[str, int, int, Label], Counter[str]] = defaultdict(Counter)
    with store.reading() as conn:
        in_other, horizon_us = set(_in_other(conn)), kept_from(conn)
        for key in every_job(conn):
            for (hour_at, cohort), cell in _cells(conn, key, limits).items():
                day_at = hour_at - hour_at % DAY_US
                label = (cohort, False)
                if (key.project_id, day_at, cohort) in in_other:
                    label = (Cohort(excluded=cohort.excluded), True)
                grains = {"daily": day_at} | ({"hourly": hour_at} if hour_at >= horizon_us else {})
                for grain, start_at in grains.items():
                    row = rollups[grain, key.project_id, start_at, label]
                    row.update(cell.sums)
                    for (name, bucket), (count, us) in cell.tallies.items():
                        row[f"{name} {bucket} count"] += count
                        row[f"{name} {bucket} us"] += us
    return {
        cell: {name: amount for name, amount in row.items() if amount}
        for cell, row in rollups.items()
    }


def check_rollups(store: Store, limits: Limits = DEFAULT_LIMITS) -> Rollups:
    """Compare the rollups with the events; both verifications must find no difference."""
    rollups = stored_rollups(store)
    assert rollups == expected_rollups(store, limits)
    assert [
        difference for verdict in verify(store, limits) for difference in verdict.differences
    ] == []
    days = list(verify_rollups(store))
    assert [difference for day in days for difference in day.differences] == []
    assert bool(rollups) == bool(sum(day.cells for day in days))
    return rollups


def _cells(conn: Connection, key: JobKey, limits: Limits) -> Cells:
    head = ledgers.head(conn, key)
    if head is None:
        return {}
    ledger = fold(events.events(conn, *key), events.offsets(conn, *key), head.folded_us, limits)
    stands = events.corrections_of(conn, key)
    return contribution(corrected(ledger, stands.verdicts), stands.exclusions)


def _rows(conn: Connection, table: str) -> Sequence[RowMapping]:
    return conn.execute(select(schema.metadata.tables[table])).mappings().all()


def _labels(conn: Connection) -> Iterator[tuple[int, Label]]:
    for row in _rows(conn, "cohort"):
        cohort = Cohort(*(row[name] for name in DIMENSIONS))
        yield row["id"], (cohort._replace(excluded=bool(row["excluded"])), bool(row["other"]))


def _in_other(conn: Connection) -> Iterator[tuple[int, int, Cohort]]:
    labels = dict(_labels(conn))
    for row in _rows(conn, "cohort_day"):
        if not row["kept"]:
            yield row["project_id"], row["day_us"], labels[row["cohort_id"]][0]
