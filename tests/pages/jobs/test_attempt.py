"""An attempt's page shows its stages as bars, and the numbers of the API."""

from ett_service.charts.units import duration, percent
from ett_service.pages.jobs.life import evidence, unix
from tests.builders.servers.site import Document, Site

PATH = "/jobs/live-failed/attempts/0"


def test_its_stages_are_those_of_the_api(site: Site) -> None:
    page = Document.of(site.reader().get(PATH))
    timeline = site.api().get(f"/v1{PATH}").json()
    titles = [each.text for each in page.all("title")]
    cells = [each.text.strip() for each in page.all("td")]
    for stage in timeline["stages"]:
        assert duration(stage["inclusive_seconds"]) in cells
    shown = {each.text for each in page.all("text")}
    for span in timeline["spans"]:
        assert (f"- {span['stage']}" if span["stage"] else span["phase"]) in shown
    assert any(text.startswith("effective_training ") for text in titles)


def test_it_says_by_how_much_spans_overlap(site: Site) -> None:
    page = Document.of(site.reader().get(PATH))
    timeline = site.api().get(f"/v1{PATH}").json()
    spans = sum(stage["inclusive_seconds"] for stage in timeline["stages"])
    share = percent(spans / (unix(timeline["ended_at"]) - unix(timeline["started_at"])))
    (said,) = [each.text for each in page.all("p") if "Spans add up to" in each.text]
    assert f"Spans add up to {share} of the attempt, the ledger to 100%." in said


def test_its_first_sentence_says_how_it_ended_and_what_shows_it(site: Site) -> None:
    sentence = Document.of(site.reader().get(PATH)).text_of("h1")
    assert sentence.startswith("Attempt 0, after ")
    assert ": failed, infra, gpu_hardware, " in sentence


def test_attempts_lead_to_each_other_and_back_to_their_job(site: Site) -> None:
    browser = site.reader()
    links = Document.of(browser.get(PATH)).links
    assert "/jobs/live-failed" in links
    count = len(site.api().get("/v1/jobs/live-failed").json()["attempts"])
    assert ("/jobs/live-failed/attempts/1" in links) is (count > 1)
    assert browser.get(f"/jobs/live-failed/attempts/{count}").status_code == 404


def test_a_running_attempt_says_so(site: Site) -> None:
    sentence = Document.of(site.reader().get("/jobs/live-running/attempts/0")).text_of("h1")
    assert sentence.startswith("Attempt 0 has been running for ")


def test_a_preemption_is_said_once() -> None:
    preempted = {"outcome": "preempted", "origin": "preemption", "cause": "preemption"}
    assert evidence({**preempted, "evidence": {"text": "outcome=preempted"}}) == "preempted"
    by = {"text": "preempted_by=llm-405b"}
    assert evidence({**preempted, "evidence": by}) == "preempted, preempted_by=llm-405b"
    failed = {"outcome": "failed", "origin": "infra", "cause": "host", "evidence": None}
    assert evidence(failed) == "failed, infra, host"
