"""The API and the public views have the same ETT%."""

from typing import Any

import pytest
from sqlalchemy import text

from tests.builders.record import wire
from tests.builders.servers.application import Service

SAME = 1e-9
BY_TEAM = """
    SELECT team,
           SUM(effective_training_weighted_seconds) AS effective,
           SUM(weighted_seconds) AS weighted,
           SUM(gpu_seconds) AS gpu,
           SUM(effective_training_seconds) / SUM(e2e_seconds) AS ett_ratio_wall
    FROM view WHERE NOT excluded GROUP BY team
"""
DAY: dict[str, Any] = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}


@pytest.fixture(autouse=True)
def _jobs(service: Service) -> None:
    """Three jobs of a day: one that failed and trained again, one large, one of unknown size."""
    service.ingest(
        [
            wire("job", job="twice", team="nlp", gpus=3),
            wire("phase_started", job="twice", phase="launcher_init"),
            wire(
                "phase_started", job="twice", phase="train_loop", at="2026-03-01T12:00:07.000003Z"
            ),
            wire("progress", job="twice", step=7, at="2026-03-01T13:10:00Z"),
            wire("attempt_ended", job="twice", outcome="failed", at="2026-03-01T13:20:11.1Z"),
            wire(
                "phase_started",
                job="twice",
                attempt=1,
                phase="train_loop",
                at="2026-03-01T13:30:00Z",
            ),
            wire("progress", job="twice", attempt=1, step=9, at="2026-03-01T14:10:00Z"),
            wire(
                "attempt_ended",
                job="twice",
                attempt=1,
                outcome="completed",
                at="2026-03-01T15:00:00Z",
            ),
            wire("job", job="large", team="vision", gpus=1000),
            wire("phase_started", job="large", phase="pt2_compile"),
            wire("phase_started", job="large", phase="train_loop", at="2026-03-01T12:20:00.5Z"),
            wire("attempt_ended", job="large", outcome="completed", at="2026-03-01T18:00:00.25Z"),
            wire("phase_started", job="unknown", phase="train_loop"),
            wire("attempt_ended", job="unknown", outcome="completed", at="2026-03-01T12:30:00Z"),
        ]
    )


def read(service: Service, sql: str) -> list[dict[str, Any]]:
    with service.store.reading() as conn:
        return [dict(row) for row in conn.execute(text(sql)).mappings()]


def test_a_job_has_the_same_ratios_in_both(service: Service) -> None:
    rows = {row["job"]: row for row in read(service, "SELECT * FROM ett_v_jobs")}
    jobs = service.get("/v1/jobs")["jobs"]

    assert {job["job"] for job in jobs} == rows.keys() == {"twice", "large", "unknown"}
    for job in jobs:
        row = rows[job["job"]]
        for name in ("ett_ratio", "wasted_ratio", "e2e_seconds", "unsaved_training_seconds"):
            assert row[name] == pytest.approx(job[name], abs=SAME), name


@pytest.mark.parametrize("view", ["ett_v_rollup_hourly", "ett_v_rollup_daily"])
def test_the_fleet_has_the_same_ratios_in_both(service: Service, view: str) -> None:
    answer = service.get("/v1/fleet/summary", group_by="team", **DAY)
    rows = read(service, BY_TEAM.replace("view", view))
    groups = {group["group"]["team"] or "": group for group in answer["groups"]}

    assert groups.keys() == {row["team"] for row in rows} == {"nlp", "vision", ""}
    for row in rows:
        group = groups[row["team"]]
        assert row["ett_ratio_wall"] == pytest.approx(group["ett_ratio_wall"], abs=SAME)
        assert row["gpu"] == pytest.approx(group["gpu_seconds"], rel=SAME)
    whole = sum(row["effective"] for row in rows) / sum(row["weighted"] for row in rows)
    assert whole == pytest.approx(answer["total"]["ett_ratio"], abs=SAME)


def test_jobs_that_lie_in_a_window_add_up_to_its_ratio(service: Service) -> None:
    total = service.get("/v1/fleet/summary", **DAY)["total"]
    (row,) = read(
        service,
        "SELECT SUM(effective_weighted_seconds) / SUM(weighted_seconds) AS ett_ratio,"
        " SUM(gpu_seconds) AS gpu_seconds FROM ett_v_jobs",
    )

    assert row["ett_ratio"] == pytest.approx(total["ett_ratio"], abs=SAME)
    assert row["gpu_seconds"] == pytest.approx(total["gpu_seconds"], rel=SAME)
