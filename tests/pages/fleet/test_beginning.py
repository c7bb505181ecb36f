"""A fleet whose jobs report too little yet shows what there is, and what to report next."""

from typing import Any

from ett_service.charts.units import duration, percent
from ett_service.pages.links import job_page
from tests.builders.jobs import wire_event, wire_span
from tests.builders.servers.site import Document, Site

DAY = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}
BARE = "/?where=model:bare&from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z"


def bare(site: Site, job: str, *events: dict[str, Any], **facts: Any) -> None:
    """Let a job of a model run for ten minutes, and report *events* besides."""
    named = {"job": job, "launch": "1", "attempt": 0}
    about = wire_event("job", 0) | {"model": "bare"} | facts
    ends = wire_event("attempt_started", 0), wire_event("attempt_ended", 10, outcome="completed")
    site.ingest([event | named for event in (about, *ends, *events)])


def test_jobs_without_accelerators_are_shown_by_wall_time(site: Site) -> None:
    bare(site, "bare-first")
    page = Document.of(site.reader().get(BARE))
    query = {**DAY, "where": "model:bare"}
    total = site.api().get("/v1/fleet/summary", params=query).json()["total"]
    spent = total["categories"]["unattributed"]
    assert spent == total["e2e_seconds"] > 0
    for ident in ("to-target", "categories"):
        assert f"unattributed {percent(1.0)}" in page.text_of("section", id=ident)
        assert duration(spent) in page.text_of("section", id=ident)
    assert "no data" not in page.text_of("section", id="trend")
    assert "by wall time" in page.text_of("section", id="trend")
    assert not page.all("section", id="cohorts")
    assert not page.all("section", id="compared-by-accelerators")


def test_jobs_without_accelerators_are_listed_with_links_and_the_next_step(site: Site) -> None:
    bare(site, "bare-first")
    page = Document.of(site.reader().get(BARE))
    assert job_page("bare-first") in page.links
    said = page.text_of("section", id="next")
    assert "ett.init(gpus=8)" in said
    assert "ett.train_loop(batches)" in said
    assert "docs/howto/record-a-training-job.md" in said


def test_what_is_reported_is_no_next_step(site: Site) -> None:
    loop = wire_span("train_loop", 1, 9)
    bare(site, "looping", loop, model="looping")
    looping = Document.of(site.reader().get(BARE.replace("bare", "looping")))
    assert "ett.train_loop" not in looping.text_of("section", id="next")
    bare(site, "weighted", loop, model="weighted", gpus=8)
    weighted = Document.of(site.reader().get(BARE.replace("bare", "weighted")))
    assert not weighted.all("section", id="next")


def test_what_no_job_reports_is_a_dash_and_not_nothing(site: Site) -> None:
    bare(site, "bare-first")
    page = Document.of(site.reader().get(BARE))
    facts = page.text_of("dl")
    assert "ETT%- by accelerators" in facts
    assert "GPU-hours- of 1 job" in facts
    assert "1 attempt began" in facts
    assert "1 job without accelerators" in page.text_of("footer")
    assert "not known yet: nothing failed" in page.text_of("section", id="failures")
    assert "ETT% of the median job 0.0% (of 1 job)" in page.text_of(
        "section", id="compared-job-by-job"
    )
