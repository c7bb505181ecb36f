"""A job's page shows its life and the numbers of the API."""

import json
import re
from urllib.parse import quote

import pytest

from ett_service.charts.units import duration, money, percent
from ett_service.pages.jobs.reasons import losses
from tests.builders.jobs import repeated_job, steps_taking, wire_event
from tests.builders.servers.site import Document, Site
from tests.pages.conftest import HACK, HOSTILE


def test_its_numbers_are_those_of_the_api(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs/live-failed"))
    job = site.api().get("/v1/jobs/live-failed").json()
    shown = [each.text.strip() for each in page.all("strong")]
    assert shown[:4] == [
        percent(job["ett_ratio"]),
        duration(job["e2e_seconds"]),
        duration(job["queue_wait_seconds"]),
        duration(job["time_to_start_seconds"]),
    ]
    cells = [each.text.strip() for each in page.all("td")]
    for category, seconds in job["categories"].items():
        if seconds:
            assert duration(seconds) in cells, category


def test_it_says_what_the_job_cost_where_a_price_is_known(site: Site) -> None:
    listed = site.api().get("/v1/jobs", params={"hardware": "H100", "state": "finished"}).json()
    name = listed["jobs"][0]["job"]
    page = Document.of(site.reader().get(f"/jobs/{name}"))
    job = site.api().get(f"/v1/jobs/{name}").json()
    cost, held = job["cost"], job["gpu_seconds"]
    assert cost["total"] == pytest.approx(3.5 * sum(held.values()) / 3600)
    assert money(cost["total"], "USD") in page.text_of("dl")
    ledger = page.text_of("section", id="ledger")
    assert money(cost["by_category"]["launcher_init"], "USD") in ledger
    site.ingest([event | {"job": "unpriced"} for event in repeated_job()])
    page = Document.of(site.reader().get("/jobs/unpriced"))
    assert site.api().get("/v1/jobs/unpriced").json()["cost"]["total"] is None
    assert "cost" not in [each.text for each in page.all("dt")]


def test_it_says_by_how_much_spans_overlap(site: Site) -> None:
    reader = site.reader()
    assert "/jobs/live-failed/stages" in Document.of(reader.get("/jobs/live-failed")).links
    page = Document.of(reader.get("/jobs/live-failed/stages"))
    stages = site.api().get("/v1/jobs/live-failed/stages").json()
    assert stages["span_ratio"] > 1
    said = page.text_of("h1")
    assert f"Spans add up to {percent(stages['span_ratio'])} of E2E, the ledger to 100%." in said
    assert len(page.all("tr")) == 1 + len(stages["stages"])
    assert duration(stages["stages"][0]["exclusive_seconds"]) in page.text_of("table")


def test_its_gantt_marks_failures_and_what_was_lost_with_them(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs/live-failed"))
    titles = [each.text for each in page.all("title")]
    assert any(text.startswith("failed, infra, gpu_hardware, ") for text in titles)
    assert any(text.startswith("unsaved: ") for text in titles)
    assert "1 durable checkpoints" in titles
    assert any(text.startswith("effective_training ") for text in titles)


def test_why_it_is_what_it_is_begins_with_the_largest_loss_and_claims_no_more(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs/live-failed"))
    assert "gain most" not in page.text_of("section", id="why")
    points = [
        float(each.text.removesuffix(" pt"))
        for each in page.all("strong")
        if each.text.endswith(" pt")
    ]
    job = site.api().get("/v1/jobs/live-failed").json()
    assert points == sorted(points)
    assert round(100 * job["ett_ratio"] - sum(points)) == 100


def test_a_running_job_is_so_far_and_follows_what_comes(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs/live-running"))
    (main,) = page.all("main")
    assert main.attributes["data-live"] == "/live?job=live-running"
    assert "so far" in page.text_of("p", class_="when")
    assert page.all("meta", **{"http-equiv": "refresh"})
    (still,) = Document.of(site.reader().get("/jobs/live-failed")).all("main")
    assert "data-live" not in still.attributes


def test_its_speed_and_its_waits_for_data_are_those_of_the_api(site: Site) -> None:
    waited = wire_event("heartbeat", 32, "slow", attributes={"data_wait_seconds": 132.0})
    site.ingest([event | {"job": "slow"} for event in (*steps_taking([1] * 18 + [2, 2]), waited)])
    page = Document.of(site.reader().get("/jobs/slow"))
    shown = page.text_of("section", id="speed")
    assert "at reference speed 20m 00s 90.9% slowed 2m 00s 9.1% not measured 0.0s 0.0%" in shown
    assert "for 10.0% of their time (n=1 attempts that report it)" in shown
    unmeasured = Document.of(site.reader().get("/jobs/live-failed"))
    assert not unmeasured.all("section", id="speed")


def test_time_between_its_runs_stands_beside_them(site: Site) -> None:
    site.ingest(repeated_job("repeated"))
    page = Document.of(site.reader().get("/jobs/repeated"))
    shown = page.text_of("section", id="runs")
    first, second = re.findall(r"finished 2026-03-01 (.*?)(?= 1 finished| Between)", shown)
    assert (first.split()[-1], " ".join(second.split()[-2:])) == ("0.0s", "3h 00m")
    assert "Between runs: 3h 00m, in no E2E." in shown


def test_its_trace_and_its_events_can_be_taken_away(site: Site) -> None:
    browser = site.reader()
    page = Document.of(browser.get("/jobs/live-failed"))
    (trace,) = {link for link in page.links if link.endswith("/trace")}
    assert json.loads(browser.get(trace).text)["traceEvents"]
    assert "/jobs/live-failed/events" in page.links


def test_it_lists_what_is_left_out_of_the_fleet_and_the_evidence_of_failures(site: Site) -> None:
    page = Document.of(site.reader().get(f"/jobs/{quote(HOSTILE, safe='')}"))
    assert page.text_of("h2", id="exclusions-head") == "Left out of the fleet's numbers"
    cells = [each.text.strip() for each in page.all("td")]
    assert HACK in cells
    page = Document.of(site.reader().get("/jobs/live-failed"))
    (attempt, *_) = site.api().get("/v1/jobs/live-failed").json()["attempts"]
    assert attempt["evidence"]["text"] in [each.text.strip() for each in page.all("td")]


def test_endings_are_not_called_recoveries(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs/live-failed"))
    assert page.text_of("h2", id="recoveries-head") == "From each ending to the next loop"
    assert not [each for each in page.all("th") if each.text.strip() == "time to recover"]


def test_a_job_that_is_not_there_is_a_page_that_says_so(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs/none"), 404)
    assert page.text_of("h1") == "Not found"


def test_what_says_where_a_start_is_slow_is_a_link(site: Site) -> None:
    links = Document.of(site.reader().get("/jobs/live-failed")).links
    assert links.count("/jobs/live-failed/stages") > 1


def _hints(verdict: str) -> dict[str, str]:
    """Return what is advised of saves and failures to a job that should save so."""
    lost = {"repeated_training": 600.0, "checkpoint_blocking": 60.0, "effective_training": 9.0}
    job = {"job": "a", "pruned_at": None, "categories": lost, "e2e_seconds": 669.0}
    advice = {
        "verdict": verdict,
        "current": {"interval_seconds": 1800.0},
        "best": {"interval_seconds": 834.0},
        "gain": {"wasted_ratio": 0.012},
    }
    return {loss.category: loss.hint for loss in losses({**job, "gpu_seconds": None}, advice, "")}


def test_a_shorter_interval_is_advised_for_what_it_shortens() -> None:
    hints = _hints("save_more_often")
    assert hints["repeated_training"] == (
        "Save every 13m 54s instead of 30m 00s: a failure repeats less, saves block more, and in "
        "sum 1.2 pt of WTT% is gained."
    )
    assert hints["checkpoint_blocking"].startswith("Save asynchronously. Saving less often would")


def test_a_longer_interval_is_advised_for_what_it_shortens() -> None:
    hints = _hints("save_less_often")
    assert "saves block less, a failure repeats more" in hints["checkpoint_blocking"]
    assert hints["repeated_training"].startswith("Only fewer failures repeat less")
