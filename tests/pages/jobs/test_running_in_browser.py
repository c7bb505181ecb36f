"""The page of a running job in a real browser: it moves by itself, and what is open stays open."""

from tests.builders.servers.visit import Visit
from tests.golden.fleet import NOW, instant
from tests.pages.conftest import ago, running


def test_a_running_job_moves_by_itself(visit: Visit) -> None:
    page = visit.page
    page.goto("/jobs/live-running")
    page.evaluate("document.body.dataset.stays = 'yes'")
    ended = {"type": "attempt_ended", "job": "live-running", "at": instant(NOW), "attempt": 0}
    visit.site.ingest([{**ended, "outcome": "completed"}])
    page.locator(".state-finished").wait_for()
    assert page.locator("body[data-stays]").count() == 1, "it was not loaded anew"
    assert page.locator("main[data-live]").count() == 0, "there is nothing more to wait for"


def test_what_a_reader_opened_stays_open_while_a_running_job_moves(visit: Visit) -> None:
    page = visit.page
    visit.site.ingest(running("opened", "train_loop", 9))
    page.goto("/jobs/opened")
    page.click("#life svg a >> nth=0")
    page.locator("#expanded #lanes svg").wait_for()
    for panel in ("#life", "#attempts", "#expanded #lanes"):
        for summary in page.locator(f"{panel} summary").all():
            summary.click()
    opened = page.locator("details[open]").count()
    assert opened >= 5
    visit.site.ingest(running("opened", "evaluation", 4)[-1:])
    page.locator("#life svg text", has_text="evaluation").wait_for()
    page.locator("#expanded #lanes svg text", has_text="evaluation").first.wait_for()
    assert page.locator("details[open]").count() == opened
    assert page.locator("#expanded #lanes svg").is_visible()


def test_an_open_attempt_is_read_again_only_where_it_changed(visit: Visit) -> None:
    page, again = visit.page, {"job": "again", "attempt": 1}
    over = {"type": "attempt_ended", "job": "again", "attempt": 0, "outcome": "failed"}
    visit.site.ingest([*running("again", "train_loop", 90), {**over, "at": ago(20)}])
    visit.site.ingest([{"type": "attempt_started", "gpus": 8, "at": ago(12), **again}])
    page.goto("/jobs/again")
    page.click("#life svg a >> nth=0")
    page.locator("#expanded #lanes svg").wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    for phase, minutes in (("launcher_init", 10), ("train_loop", 8), ("evaluation", 4)):
        with page.expect_request(lambda request: request.url.endswith("/jobs/again")):
            begun = {"type": "phase_started", "phase": phase, "at": ago(minutes), **again}
            visit.site.ingest([begun])
    page.locator("#life svg text", has_text="evaluation").wait_for()
    assert "0" not in asked, "nothing of the first attempt changed"
    late = {"type": "phase_started", "phase": "evaluation", "at": ago(30), "job": "again"}
    visit.site.ingest([{**late, "attempt": 0}])
    page.locator("#expanded #lanes svg text", has_text="evaluation").first.wait_for()
    assert "0" in asked
