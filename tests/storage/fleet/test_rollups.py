"""Sums over windows, against the same sums taken cell by cell in Python."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.fleet.totals import Totals
from ett_service.core.intervals import DAY_US, HOUR_US, WEEK_US
from ett_service.storage import schema
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.rollups import JOBS, CohortFilter, Group, cohorts_in_other, totals
from ett_service.storage.record.keys import create_project
from tests.builders.clock import RECEIVED_AT

#: 2026-02-25, a Wednesday, at 05:00.
START = 1_771_995_600_000_000
MEASURES = ("effective_training_us", "stalled_weighted_us", "attempts")

#: Some weeks, some hours, a day, the hours around a midnight, and two days.
WINDOWS = (
    (START, START + 20 * DAY_US),
    (START + 3 * HOUR_US, START + 5 * HOUR_US),
    (START - 5 * HOUR_US, START + 19 * HOUR_US),
    (START + 18 * HOUR_US, START + 22 * HOUR_US),
    (START - 5 * HOUR_US, START + 43 * HOUR_US),
)

EVERY_LABEL = ("project", *DIMENSIONS, "other", "excluded")


@dataclass
class Fleet:
    """Jobs in cohorts of two projects, an hour of one of them a cell."""

    cohorts: dict[int, dict[str, str]] = field(default_factory=dict)
    projects: dict[int, int] = field(default_factory=dict)  #: by cohort
    lives: list[tuple[int, range]] = field(default_factory=list)  #: of jobs: cohort, its hours
    cells: dict[tuple[int, int], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    tallies: dict[tuple[int, int], Counter[tuple[str, int]]] = field(
        default_factory=lambda: defaultdict(Counter)
    )

    def sums(self, window: tuple[int, int], chosen: Sequence[int]) -> dict[str, int]:
        """Add up cell by cell; count each job that lived in the window once."""
        amounts: Counter[str] = Counter()
        for (hour, cohort_id), cell in self.cells.items():
            if window[0] <= hour < window[1] and cohort_id in chosen:
                amounts.update({name: cell[name] for name in MEASURES})
        alive = [
            hours
            for cohort_id, hours in self.lives
            if cohort_id in chosen and hours.start < window[1] and hours[-1] >= window[0]
        ]
        amounts[JOBS] = len(alive)
        return {name: amount for name, amount in amounts.items() if amount}

    def counts(self, window: tuple[int, int], chosen: Sequence[int]) -> Counter[tuple[str, int]]:
        """Add up the tallies, cell by cell."""
        tallies: Counter[tuple[str, int]] = Counter()
        for (hour, cohort_id), tally in self.tallies.items():
            if window[0] <= hour < window[1] and cohort_id in chosen:
                tallies.update(tally)
        return tallies


def _drawn(seed: int, projects: Sequence[int], ids: Iterator[int]) -> Fleet:
    draw, fleet = random.Random(seed), Fleet()
    names = {project: f"p{place}" for place, project in enumerate(projects)}
    marks = [("", ""), ("", ""), ("", ""), ("1", ""), ("", "1"), ("1", "1")]
    for project in projects:
        for cohort_id, (excluded, other) in zip(ids, marks * 2, strict=False):
            drawn = {name: draw.choice(("", "a", "b")) for name in DIMENSIONS}
            labels = dict.fromkeys(DIMENSIONS, "") if other else drawn
            labels["code_version"] = str(cohort_id) * (not other)
            if other and cohort_id % 12 > 5:
                continue
            labels |= {"excluded": excluded, "other": other, "project": names[project]}
            fleet.cohorts[cohort_id], fleet.projects[cohort_id] = labels, project
    for _ in range(40):
        cohort_id = draw.choice(list(fleet.cohorts))
        first = START + draw.randrange(-200, 400) * HOUR_US
        hours = range(first, first + draw.choice((1, 3, 30, 300)) * HOUR_US, HOUR_US)
        fleet.lives.append((cohort_id, hours))
        for hour in hours:
            cell = fleet.cells[hour, cohort_id]
            cell["jobs_hour"] += 1
            cell["jobs_day"] += hour == hours.start or hour % DAY_US == 0
            cell["jobs_started"] += hour == hours.start
            cell["cells"] += 1
            cell.update({name: draw.randrange(1 << 40) for name in MEASURES})
            fleet.tallies[hour, cohort_id][draw.choice("xy"), draw.randrange(3)] += 1
    return fleet


def _plant(conn: Connection, fleet: Fleet) -> None:
    rows = [
        {
            "id": cohort_id,
            "project_id": fleet.projects[cohort_id],
            **{name: labels[name] for name in DIMENSIONS},
            "excluded": labels["excluded"] == "1",
            "other": labels["other"] == "1",
        }
        for cohort_id, labels in fleet.cohorts.items()
    ]
    conn.execute(insert(schema.cohort), rows)
    grains = (
        (HOUR_US, schema.rollup_hourly, schema.tally_hourly),
        (DAY_US, schema.rollup_daily, schema.tally_daily),
    )
    for grain, sums, tallies in grains:
        added: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        for (hour, cohort_id), cell in fleet.cells.items():
            added[hour // grain * grain, cohort_id].update(cell)
        names = {name for cell in added.values() for name in cell}
        plain: list[dict[str, Any]] = [
            {name: cell[name] for name in names} for cell in added.values()
        ]
        conn.execute(insert(sums), _keyed(fleet, added, plain))
        counted: Counter[tuple[tuple[int, int], str, int]] = Counter()
        for (hour, cohort_id), tally in fleet.tallies.items():
            for (name, place), count in tally.items():
                counted[(hour // grain * grain, cohort_id), name, place] += count
        plain = [
            {"name": name, "place": place, "count": count, "us": 7 * count}
            for (_, name, place), count in counted.items()
        ]
        conn.execute(insert(tallies), _keyed(fleet, [key for key, *_ in counted], plain))


def _keyed(fleet: Fleet, keys: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "project_id": fleet.projects[cohort_id],
            "start_us": start,
            "cohort_id": cohort_id,
            **row,
        }
        for (start, cohort_id), row in zip(keys, rows, strict=True)
    ]


@pytest.fixture
def fleet(store: Store) -> Fleet:
    """Two projects with drawn jobs, as rollups."""

    def plant(conn: Connection) -> Fleet:
        ids = [create_project(conn, name, RECEIVED_AT) for name in ("p0", "p1")]
        planted = _drawn(7, ids, iter(range(1, 100)))
        _plant(conn, planted)
        return planted

    return store.write(plant)


def _chosen(fleet: Fleet, cohorts: CohortFilter) -> list[int]:
    return [
        cohort_id
        for cohort_id, labels in fleet.cohorts.items()
        if (cohorts.project_ids is None or fleet.projects[cohort_id] in cohorts.project_ids)
        and all(labels[name] in values for name, values in cohorts.where.items())
        and not (cohorts.where.keys() - {"project"} and labels["other"])
        and (cohorts.exclusions or not labels["excluded"])
    ]


def _counts(total: Totals) -> Counter[tuple[str, int]]:
    return Counter(
        {
            (name, bucket): count
            for name, tally in total.tallies.items()
            for bucket, count in tally.counts.items()
        }
    )


def _grouped(fleet: Fleet, chosen: Sequence[int], by: Sequence[str]) -> dict[Group, list[int]]:
    groups: dict[Group, list[int]] = defaultdict(list)
    for cohort_id in chosen:
        groups[tuple(fleet.cohorts[cohort_id][name] for name in by)].append(cohort_id)
    return groups


@pytest.mark.parametrize(
    ("cohorts", "by"),
    [
        (CohortFilter(), ()),
        (CohortFilter(exclusions=True), ("project", "excluded")),
        (CohortFilter(where={"team": frozenset({"a", ""})}), ("team", "cluster", "other")),
        (CohortFilter(where={"project": frozenset({"p1"})}), EVERY_LABEL),
        (CohortFilter(project_ids=()), ()),
    ],
    ids=["all", "with-exclusions", "two-values", "a-project", "no-project"],
)
def test_a_window_is_the_sum_of_its_hours(
    store: Store, fleet: Fleet, cohorts: CohortFilter, by: tuple[str, ...]
) -> None:
    groups = _grouped(fleet, _chosen(fleet, cohorts), by)
    for window in WINDOWS:
        with store.reading() as conn:
            by_group = totals(conn, cohorts, window, by, measures=MEASURES)
        expected = {group: fleet.sums(window, members) for group, members in groups.items()}
        assert {group: dict(total.sums) for (_, group), total in by_group.items()} == {
            group: sums for group, sums in expected.items() if sums
        }
        for (_, group), total in by_group.items():
            counts = _counts(total)
            assert counts == fleet.counts(window, groups[group])
            assert sum(tally.us for tally in total.tallies.values()) == 7 * counts.total()


@pytest.mark.parametrize("step", [HOUR_US, DAY_US, WEEK_US])
def test_buckets_begin_on_full_steps_and_add_up_to_the_window(
    store: Store, fleet: Fleet, step: int
) -> None:
    window = (START - 7 * HOUR_US, START + 15 * DAY_US + HOUR_US)
    with store.reading() as conn:
        by_bucket = totals(conn, CohortFilter(), window, ("team",), step, measures=MEASURES)
    chosen = _grouped(fleet, _chosen(fleet, CohortFilter()), ("team",))
    for (start, group), total in by_bucket.items():
        assert start is not None
        at = datetime.fromtimestamp(start // 1_000_000, UTC)
        assert step == HOUR_US or at.hour == 0
        assert step != WEEK_US or at.weekday() == 0
        inside = (max(start, window[0]), min(start + step, window[1]))
        assert dict(total.sums) == fleet.sums(inside, chosen[group])
    whole: Counter[str] = Counter()
    for total in by_bucket.values():
        whole.update({name: total[name] for name in MEASURES})
    assert whole == Counter(
        {name: fleet.sums(window, _chosen(fleet, CohortFilter()))[name] for name in MEASURES}
    )


def test_a_cut_parts_the_time_before_it_from_the_time_after_it(store: Store, fleet: Fleet) -> None:
    midnight = START - 5 * HOUR_US
    cuts = (midnight + 2 * DAY_US, midnight + 5 * DAY_US)
    window = (START - 9 * HOUR_US, START + 9 * DAY_US)
    with store.reading() as conn:
        by_cut = totals(conn, CohortFilter(), window, cuts=cuts, measures=MEASURES)
    edges = (window[0], *cuts, window[1])
    for place, part in enumerate(itertools.pairwise(edges)):
        expected = fleet.sums(part, _chosen(fleet, CohortFilter()))
        sums = by_cut[None, (str(place),)].sums
        assert {name: sums[name] for name in MEASURES} == {
            name: expected[name] for name in MEASURES
        }


def test_a_sum_beyond_64_bits_is_exact(store: Store, project_id: int) -> None:
    most = (1 << 63) - 1

    def plant(conn: Connection) -> None:
        names = dict.fromkeys(DIMENSIONS, "") | {"excluded": False, "other": False}
        rows = [{"id": place, "project_id": project_id, **names} for place in (1, 2, 3)]
        for place, row in enumerate(rows):
            row["team"] = str(place)
        conn.execute(insert(schema.cohort), rows)
        cell = {"project_id": project_id, "start_us": START, "scheduling_us": most}
        conn.execute(
            insert(schema.rollup_hourly), [{**cell, "cohort_id": place} for place in (1, 2, 3)]
        )

    store.write(plant)
    with store.reading() as conn:
        by_key = totals(conn, CohortFilter(), (START, START + HOUR_US))
    assert by_key[None, ()]["scheduling_us"] == 3 * most


def test_what_the_cap_took_is_counted_by_what_it_really_is(store: Store, fleet: Fleet) -> None:
    day = START - 5 * HOUR_US
    plain = [
        cohort_id
        for cohort_id, labels in fleet.cohorts.items()
        if not labels["other"] and not labels["excluded"]
    ]
    taken, left = plain[:2], plain[2:]
    rows = [
        {
            "project_id": fleet.projects[cohort_id],
            "day_us": at,
            "cohort_id": cohort_id,
            "kept": cohort_id in left,
        }
        for cohort_id in plain
        for at in (day, day + DAY_US)
    ]
    store.write(lambda conn: conn.execute(insert(schema.cohort_day), rows))
    version = CohortFilter(where={"code_version": frozenset({str(taken[0])})})
    with store.reading() as conn:
        window = (START, START + HOUR_US)
        assert cohorts_in_other(conn, CohortFilter(), window) == 2
        assert cohorts_in_other(conn, version, window) == 1
        assert cohorts_in_other(conn, CohortFilter(), (day + 2 * DAY_US, day + 3 * DAY_US)) == 0
