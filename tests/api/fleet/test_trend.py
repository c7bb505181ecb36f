"""The trend is a part of the series."""

from tests.builders.jobs import at, failing_job
from tests.builders.servers.application import Service

WINDOW = {"from": at(-120), "to": at(120)}


def test_each_step_is_that_of_the_series(service: Service) -> None:
    service.clock.now_us += 10 * 3600 * 1_000_000
    service.ingest(failing_job())
    for step in ("1h", "1d", "1w"):
        points = service.get("/v1/fleet/trend", step=step, **WINDOW)["points"]
        whole = service.get("/v1/fleet/series", step=step, **WINDOW)["points"]
        for point, of_series in zip(points, whole, strict=True):
            failures = point.pop("failures")
            assert failures == of_series["failures"]["total"]
            assert point == {name: of_series[name] for name in point}
    assert sum(point["jobs"] for point in points) == 1
    assert 0 < points[-1]["ett_ratio"] < 1


def test_its_target_is_that_of_the_question(service: Service) -> None:
    answer = service.get("/v1/fleet/trend", **WINDOW)
    assert answer["target"] is None
    assert answer["step"] == "1d"
