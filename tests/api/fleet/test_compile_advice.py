"""Advice on compiles, on both engines."""

import csv
import io
from typing import Any

from tests.builders.compiles import REASON, compiling_job
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import at, failing_job
from tests.builders.servers.application import Service

DAY: dict[str, Any] = {"from": at(-720), "to": at(720)}
SECOND_HOUR: dict[str, Any] = {"from": at(60), "to": at(120)}


def _settled(service: Service, *stories: list[dict[str, Any]]) -> None:
    service.clock.now_us += 10 * 3600 * 1_000_000
    for story in stories:
        service.ingest(story)


def test_a_job_is_advised_from_the_stages_of_its_compiles(service: Service) -> None:
    _settled(service, compiling_job("a"))
    advice = service.get("/v1/jobs/a/compile-advice")

    assert (advice["job"], advice["compiles"], advice["recompiles"]) == ("a", 3, 1)
    assert (advice["compile_seconds"], advice["recompile_seconds"]) == (480.0, 120.0)
    assert (advice["setting"], advice["dynamic_seconds"]) == ("L['tokens']", 120.0)
    assert advice["sources"] == [
        {
            "source": "L['tokens']",
            "dims": [1],
            "recompiles": 1,
            "seconds": 120.0,
            "functions": ["forward"],
            "jobs": 1,
            "mark_dynamic": "torch._dynamo.mark_dynamic(tokens, 1)",
        }
    ]
    (uncached,) = advice["uncached"]
    assert (uncached["compile_id"], uncached["compiles"], uncached["seconds"]) == ("0/0", 1, 120.0)
    assert advice["uncached_seconds"] == 120.0
    (tuned,) = advice["autotuned"]
    assert (tuned["compile_id"], tuned["seconds"]) == ("0/1", 60.0)
    assert tuned["kernels"] == ["triton_mm_1", "triton_sum_0"]


def test_the_recompiles_of_the_last_attempt_say_whether_the_advice_is_followed(
    service: Service,
) -> None:
    before = [event for event in compiling_job("before") if not event.get("attempt")]
    _settled(service, compiling_job("a"), before)
    last = service.get("/v1/jobs/a/compile-advice")["last_attempt"]
    assert last == {"attempt": 1, "recompiles": 0, "recompile_seconds": 0.0}
    last = service.get("/v1/jobs/before/compile-advice")["last_attempt"]
    assert last == {"attempt": 0, "recompiles": 1, "recompile_seconds": 120.0}


def test_a_recompile_that_no_source_stops_has_a_hint(service: Service) -> None:
    story = compiling_job("a")
    dtype = "0/0: tensor 'x' dtype mismatch. expected Float, actual Double"
    for event in story:
        if event.get("attributes", {}).get("recompile_reason") == REASON:
            event["attributes"]["recompile_reason"] = dtype
    _settled(service, story)
    advice = service.get("/v1/jobs/a/compile-advice")

    assert (advice["setting"], advice["sources"]) == (None, [])
    (other,) = advice["others"]
    assert (other["kind"], other["seconds"], other["example"]) == ("dtype", 120.0, dtype)
    assert other["hint"] == "Convert to one dtype before the call."


def test_cohorts_are_advised_with_most_to_gain_first(service: Service) -> None:
    _settled(
        service,
        compiling_job("a"),
        compiling_job("b", "blue", begin=60),
        compiling_job("c", "blue", begin=120),
        failing_job("plain"),
    )
    advice = service.get("/v1/fleet/compile-advice", group_by="team", **DAY)

    assert (advice["jobs"], advice["jobs_read"]) == (4, 4)
    assert advice["total"]["recompiles"] == 3
    groups = {group["group"]["team"]: group for group in advice["groups"]}
    assert list(groups) == ["blue", "red", "pretraining"]
    assert [group["jobs_read"] for group in groups.values()] == [2, 1, 1]
    assert groups["blue"]["dynamic_seconds"] == 240.0
    assert groups["blue"]["sources"][0]["jobs"] == 2
    # Of the blue jobs the later could have loaded what the earlier had compiled.
    assert groups["blue"]["uncached_seconds"] == 360.0
    assert groups["red"]["uncached_seconds"] == 120.0
    assert groups["pretraining"]["compiles"] == 0


def test_advice_may_cover_a_part_of_the_fleet_and_of_the_time(service: Service) -> None:
    _settled(service, compiling_job("a"), compiling_job("b", "blue", begin=60))
    blue = service.get("/v1/fleet/compile-advice", where="team:blue", **DAY)
    late = service.get("/v1/fleet/compile-advice", **SECOND_HOUR)

    assert (blue["jobs"], blue["groups"]) == (1, [])
    assert (blue["total"]["compiles"], late["total"]["compiles"]) == (3, 3)


def test_compiles_before_the_window_are_not_advised_on(service: Service) -> None:
    _settled(service, compiling_job("a", begin=38))  # the second attempt begins at 59
    advice = service.get("/v1/fleet/compile-advice", **SECOND_HOUR)

    assert (advice["total"]["compiles"], advice["total"]["recompiles"]) == (1, 0)
    assert advice["total"]["uncached_seconds"] == 120.0


@ON_ONE_ENGINE
def test_advice_comes_as_a_file_too(service: Service) -> None:
    _settled(service, compiling_job("a"))
    of_fleet = service.client.get(
        "/v1/fleet/compile-advice", params={**DAY, "group_by": "team", "format": "csv"}
    )
    (group,) = csv.DictReader(io.StringIO(of_fleet.text))
    of_job = service.client.get("/v1/jobs/a/compile-advice", params={"format": "csv"})
    (source,) = csv.DictReader(io.StringIO(of_job.text))

    assert (group["group.team"], group["setting"]) == ("red", "L['tokens']")
    assert (source["source"], float(source["seconds"])) == ("L['tokens']", 120.0)


def test_a_window_without_jobs_has_no_advice(service: Service) -> None:
    advice = service.get("/v1/fleet/compile-advice", group_by="team", **DAY)

    assert (advice["jobs"], advice["jobs_read"], advice["groups"]) == (0, 0, [])
    assert (advice["total"]["compiles"], advice["total"]["setting"]) == (0, None)


@ON_ONE_ENGINE
def test_a_bad_question_is_refused_by_name(service: Service) -> None:
    fleet, job = "/v1/fleet/compile-advice", "/v1/jobs/a/compile-advice"
    for path, name, query in (
        (fleet, "group_by", {"group_by": "colour"}),
        (fleet, "from", {"from": at(1), "to": at(-1)}),
        (job, "group_by", {"group_by": "team"}),
    ):
        problem = service.get(path, 422, **query)
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/query/{name}"]


@ON_ONE_ENGINE
def test_of_an_unknown_job_there_is_no_advice(service: Service) -> None:
    assert service.get("/v1/jobs/none/compile-advice", 404)["status"] == 404
