"""The head of a job's page has its numbers, and those of its model beside them."""

from typing import Any

from sqlalchemy import update

from ett_service.charts.units import amount, duration, percent
from ett_service.pages.jobs.head import versions
from ett_service.storage.schema import dirty
from tests.builders.clock import MINUTE
from tests.builders.jobs import wire_event, wire_span
from tests.builders.servers.site import Document, Site
from tests.pages.conftest import ago


def test_its_first_sentence_says_how_it_does_and_what_it_loses_most_by(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs/live-failed"))
    job = site.api().get("/v1/jobs/live-failed").json()
    lost = {name: us for name, us in job["categories"].items() if name != "effective_training"}
    sentence = page.text_of("p", class_="sentence")
    assert sentence.startswith(f"ETT {percent(job['ett_ratio'])} by wall time")
    assert f"most is lost by {max(lost, key=lambda name: lost[name])}, " in sentence


def test_its_start_stands_beside_that_of_its_model(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs/live-failed"))
    job = site.api().get("/v1/jobs/live-failed").json()
    query = {
        "where": f"model:{job['model']}",
        "from": "2026-02-09T06:00:00Z",
        "to": "2026-03-09T06:00:00Z",
    }
    starts = site.api().get("/v1/fleet/summary", params=query).json()["total"]["time_to_start"]
    notes = [each.text for each in page.all("small")]
    said = f"its model: p50 {duration(starts['p50'])}, p90 {duration(starts['p90'])}"
    assert any(said in note for note in notes), notes


def test_failures_of_infra_are_told_with_those_of_preemption(site: Site) -> None:
    ends = [wire_event("attempt_ended", 9, "evicted", outcome="preempted")]
    site.ingest([wire_event("phase_started", 1, "evicted", phase="train_loop"), *ends])
    job = site.api().get("/v1/jobs/evicted").json()
    assert [each["origin"] for each in job["attempts"]] == ["preemption"]
    notes = [each.text for each in Document.of(site.reader().get("/jobs/evicted")).all("small")]
    assert "of 1 attempts; 1 of origin infra or preemption" in notes


def test_a_job_that_waits_for_its_first_attempt_shows_its_wait_and_nothing_unknown(
    site: Site,
) -> None:
    job = {"job": "waiting", "gpus": 64, "submitted_at": "2026-03-09T03:00:00Z"}
    site.ingest(
        [
            {"type": "job", "at": ago(170), **job},
            {"type": "phase_started", "job": "waiting", "at": ago(170), "phase": "queued"},
        ]
    )
    page = Document.of(site.reader().get("/jobs/waiting"))
    wait = duration(site.api().get("/v1/jobs/waiting").json()["queue_wait_seconds"])
    assert page.text_of("p", class_="sentence") == (
        f"It has waited in the queue for {wait} so far, submitted 2026-03-09 03:00 UTC."
    )
    assert [each.text for each in page.all("dt")] == ["queue wait", "accelerators"]
    assert [each.attributes["id"] for each in page.all("section")] == ["waits"]
    assert "- to -" not in page.text_of("p", class_="when")
    assert not page.all("svg")


def test_its_head_has_what_it_waited_for_recovered_in_and_made(site: Site) -> None:
    productive = [
        wire_event("job", 0, "made", model="llm-live", hardware="A100", precision="bf16"),
        wire_event("job", 0, "made", parameters=10**9, gpus=8),
        wire_span("queued", 0, 5, job="made"),
        *_of_version("4.1", 10, 40),
        *_of_version("4.2", 50, 80),
    ]
    site.ingest(productive)
    job = site.api().get("/v1/jobs/made").json()
    advice = site.api().get("/v1/jobs/made/checkpoint-advice").json()
    page = Document.of(site.reader().get("/jobs/made"))
    head = page.text_of("dl")
    for name, text in (
        ("queue wait", duration(job["queue_wait_seconds"])),
        ("time to recover", duration(job["time_to_recover_seconds"])),
        ("MTBF by training time", duration(advice["mtbf_seconds"]["value"])),
        ("tokens a second", amount(job["productivity"]["tokens_per_second"])),
        ("MFU", percent(job["productivity"]["mfu"])),
    ):
        assert f"{name}{text} " in head
    assert job["time_to_recover_seconds"] == 600.0
    assert "code version 4.1, then 4.2" in page.text_of("p", class_="when")
    waits = page.text_of("section", id="waits")
    for owners in job["waits"].values():
        for owner, seconds in owners.items():
            assert owner in waits
            assert duration(seconds) in waits


def _of_version(version: str, begin: int, end: int) -> list[dict[str, object]]:
    """Return an attempt that trains, and fails."""
    of_it: dict[str, Any] = {"job": "made", "launch": version}
    return [
        wire_event("attempt_started", begin, code_version=version, gpus=8, **of_it),
        wire_span("launcher_init", begin, begin, **of_it),
        wire_event("phase_started", begin, phase="train_loop", **of_it),
        wire_event("progress", end - 1, step=end, tokens=36_000_000 * end, **of_it),
        wire_event("attempt_ended", end, outcome="failed", **of_it),
    ]


def test_of_many_code_versions_the_first_and_the_last_are_named() -> None:
    attempts = [{"code_version": f"4.{n}"} for n in (1, 1, 2, 3, 4)]
    job = {"code_version": "4.1", "attempts": attempts}
    assert versions(job) == "4.1, then 2 others, then 4.4"
    assert versions({**job, "attempts": []}) == "4.1"


def test_events_that_wait_for_their_numbers_are_told_after_a_minute(site: Site) -> None:
    site.ingest([wire_event("attempt_started", 1, "waits")])
    event = wire_event("heartbeat", 2, "waits")
    site.api().post("/v1/events", json={"events": [event]}).raise_for_status()
    said = "Events that came since"
    assert said not in site.reader().get("/jobs/waits").text
    earlier = update(dirty).values(marked_us=dirty.c.marked_us - 2 * MINUTE)
    site.state.store.write(lambda conn: conn.execute(earlier))
    assert said in site.reader().get("/jobs/waits").text
    while site.worker.run_once():
        pass
    assert said not in site.reader().get("/jobs/waits").text
