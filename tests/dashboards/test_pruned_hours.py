"""Where hours were pruned, panels in SQL are of whole days, as the API answers them."""

from collections.abc import Iterator
from typing import Any

import pytest

from dashboards.build.sql import changes, fleet
from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.core.intervals import DAY_US, HOUR_US, Interval, rfc3339
from ett_service.storage.schema.record import HOURLY_FROM
from tests.builders.clock import instant
from tests.dashboards.loaded_fleet import END_US, FROM_US, LoadedFleet, load_fleet

SAME = 1e-9


@pytest.fixture(scope="module")
def loaded_fleet(postgres_url: str) -> Iterator[LoadedFleet]:
    """Return a fleet of a week."""
    with load_fleet(postgres_url) as loaded:
        yield loaded


@pytest.fixture
def hourly_from_us(loaded_fleet: LoadedFleet) -> Iterator[int]:
    """Prune the hours of the days before the last but one, and bring them back."""
    horizon_us = END_US - END_US % DAY_US - DAY_US
    with loaded_fleet.conn.transaction(force_rollback=True):
        loaded_fleet.conn.execute(
            "INSERT INTO store (name, value) VALUES (%s, %s)", (HOURLY_FROM, str(horizon_us))
        )
        loaded_fleet.conn.execute("DELETE FROM rollup_hourly WHERE start_us < %s", (horizon_us,))
        yield horizon_us


def test_where_hours_were_pruned_the_range_is_of_whole_days(
    loaded_fleet: LoadedFleet, hourly_from_us: int
) -> None:
    chosen = loaded_fleet.choices("ett-sql-fleet")
    assert FROM_US % DAY_US
    assert hourly_from_us - DAY_US > FROM_US
    day = {"from": rfc3339(FROM_US - FROM_US % DAY_US), "to": rfc3339(END_US)}
    total = loaded_fleet.api("/v1/fleet/summary", **day)["total"]

    paid = loaded_fleet.sql(fleet.PAID, chosen).dicts()[0]

    assert paid["gpu_hours"] * 3600 == pytest.approx(total["gpu_seconds"], rel=SAME)
    assert loaded_fleet.sql(fleet.ETT_NOW, chosen).column("ett_ratio") == pytest.approx(
        [total["ett_ratio"]], abs=SAME
    )


def test_where_hours_were_pruned_sides_of_a_marker_are_of_full_days(
    loaded_fleet: LoadedFleet, hourly_from_us: int
) -> None:
    rows = loaded_fleet.sql(changes.EFFECTS, loaded_fleet.choices("ett-sql-changes")).dicts()
    expected = loaded_fleet.fleet_api("changes", limit=50)["changes"]
    ratios = []
    for row, change in zip(rows, expected, strict=True):
        for side in ("before", "after"):
            span = instant(change[side]["from"]), instant(change[side]["to"])
            ratio = _ratio(loaded_fleet, change["marker"], _full_parts(span, hourly_from_us))
            assert row[f"ett_ratio_{side}"] == pytest.approx(ratio, abs=SAME)
            ratios.append(ratio)
    assert any(ratios)


def _full_parts(span: Interval, hourly_from_us: int) -> list[Interval]:
    """Return the full days of a side before the horizon, and its full hours after it."""
    begin, end = span
    days = begin + -begin % DAY_US, min(end, hourly_from_us) // DAY_US * DAY_US
    since = max(begin, hourly_from_us)
    return [days, (since + -since % HOUR_US, end // HOUR_US * HOUR_US)]


def _ratio(
    loaded_fleet: LoadedFleet, marker: dict[str, Any], parts: list[Interval]
) -> float | None:
    labels = {name: value for name, value in marker["labels"].items() if name in JOB_DIMENSIONS}
    totals = [
        loaded_fleet.api(
            "/v1/fleet/summary",
            where=[f"{name}:{value}" for name, value in labels.items()],
            **{"from": rfc3339(begin), "to": rfc3339(end)},
        )["total"]
        for begin, end in parts
        if begin < end
    ]
    weighted = sum(total["weighted_seconds"] for total in totals)
    effective = sum(total["ett_ratio"] * total["weighted_seconds"] for total in totals)
    return effective / weighted if weighted else None
