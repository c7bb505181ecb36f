"""The page of compiles says what would save time, as the API does."""

from typing import Any
from urllib.parse import quote

import pytest

from ett_service.charts.units import duration
from ett_service.pages.ask import Question
from ett_service.pages.jobs.compiling import by_attempt
from tests.builders.compiles import compiling_job
from tests.builders.jobs import wire_event, wire_span
from tests.builders.servers.site import Document, Site
from tests.pages.conftest import HOSTILE

_STAGES = Question("/v1/jobs/a/stages")


def test_reasons_and_advice_are_those_of_the_api(site: Site) -> None:
    key = site.key(["read", "write"], "compiles")
    site.ingest(compiling_job("llm-compiled"), key)
    page = Document.of(site.reader(key).get("/jobs/llm-compiled/compile"))
    advice = site.api(key).get("/v1/jobs/llm-compiled/compile-advice").json()
    assert advice["sources"]
    cells = [each.text.strip() for each in (*page.all("td"), *page.all("th"))]
    for source in advice["sources"]:
        assert {source["source"], duration(source["seconds"])} <= set(cells)
    assert f"TORCH_COMPILE_DYNAMIC_SOURCES={advice['setting']}" in page.text_of("main")
    assert "1 recompile took" in page.text_of("h1")


def test_attempts_that_are_not_drawn_are_told_of() -> None:
    starts = [
        {"number": n, "stage": None, "inclusive_seconds": 60.0, "skew_seconds": None}
        for n in range(31)
    ]
    caches = dict.fromkeys(range(31))
    panel = by_attempt(starts, caches, ("a", ""), _STAGES)
    assert panel.after == ("Drawn are the first 30 of 31 attempts; the table has all.",)
    assert panel.table is not None
    assert len(panel.table.rows) == 31
    assert not by_attempt(starts[:30], caches, ("a", ""), _STAGES).after


def test_a_client_without_single_compiles_gets_no_advice(site: Site) -> None:
    page = Document.of(site.reader().get(f"/jobs/{quote(HOSTILE, safe='')}/compile"))
    assert "so there is no advice" in page.text_of("main")


def _compiling(attempt: int, cache: str | None) -> list[dict[str, object]]:
    """Return an attempt that compiles for 4 minutes, of which 3 are in stages, and trains for 1."""
    begin = attempt * 10
    of_it: dict[str, Any] = {"job": "cached", "attempt": attempt}
    found = {} if cache is None else {"attributes": {"compile_cache": cache}}
    return [
        wire_span("pt2_compile", begin, begin + 4, **of_it, **found),
        wire_span("pt2_compile", begin, begin + 3, stage="inductor", **of_it),
        wire_span("pt2_compile", begin + 1, begin + 2, stage="autotune", **of_it),
        wire_span("train_loop", begin + 4, begin + 5, **of_it),
        wire_event("attempt_ended", begin + 5, outcome="failed", **of_it),
    ]


@pytest.fixture
def cached(site: Site) -> Site:
    """Return the site with a job of which the last of four attempts says nothing of its cache."""
    for attempt, cache in enumerate(("cold", "warm", "warm", None)):
        site.ingest(_compiling(attempt, cache))
    return site


def test_hits_and_misses_of_the_cache_are_told_by_attempt_and_in_all(cached: Site) -> None:
    listed = cached.api().get("/v1/jobs/cached/attempts").json()["attempts"]
    assert [each["compile_cache"] for each in listed] == ["cold", "warm", "warm", None]
    page = Document.of(cached.reader().get("/jobs/cached/compile"))
    assert "attempts with a warm cache2 2 hit, 1 missed, 1 unknown" in page.text_of("dl")
    shown = page.text_of("section", id="attempts")
    assert "4m 00s, cache missed" in shown
    assert "3 4m 00s unknown" in shown


def test_own_times_add_up_to_the_whole_phase_on_every_page(cached: Site) -> None:
    reader = cached.reader()
    by_stage = Document.of(reader.get("/jobs/cached/compile")).text_of("section", id="stages")
    for row in ("(whole phase) 4 16m 00s 4m 00s 25.0%", "inductor 4 12m 00s 8m 00s 50.0%"):
        assert row in by_stage
    assert "autotune 4 4m 00s 4m 00s 25.0%" in by_stage
    for path in ("/jobs/cached/stages", "/jobs/cached/attempts/0"):
        shown = Document.of(reader.get(path)).text_of("section", id="stages")
        assert "pt2_compile (whole phase) 1 4m 00s 1m 00s" in shown
        assert "pt2_compile inductor 1 3m 00s 2m 00s" in shown
