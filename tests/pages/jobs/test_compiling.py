"""The page of compiles says what would save time, as the API does."""

from urllib.parse import quote

from ett_service.charts.units import duration
from ett_service.pages.ask import Question
from ett_service.pages.jobs.compiling import by_attempt
from tests.builders.compiles import compiling_job
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
    panel = by_attempt(starts, "a", "", _STAGES)
    assert panel.after == ("Drawn are the first 30 of 31 attempts; the table has all.",)
    assert panel.table is not None
    assert len(panel.table.rows) == 31
    assert not by_attempt(starts[:30], "a", "", _STAGES).after


def test_a_client_without_single_compiles_gets_no_advice(site: Site) -> None:
    page = Document.of(site.reader().get(f"/jobs/{quote(HOSTILE, safe='')}/compile"))
    assert "so there is no advice" in page.text_of("main")
