"""The events of a job are shown as they were sent, a page at a time."""

from tests.builders.servers.site import Document, Site


def test_they_are_those_of_the_api(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs/live-failed/events"))
    events = site.api().get("/v1/jobs/live-failed/events").json()["events"]
    rows = [each.text.strip() for each in page.all("th", scope="row")]
    assert rows == [event["at"] for event in events]
    cells = {each.text.strip() for each in page.all("td")}
    assert {event["type"] for event in events} <= cells
    assert page.text_of("h1") == f"All {len(events)} events that were sent"


def test_of_a_long_job_there_are_several_pages(site: Site) -> None:
    key = site.key(["read", "write"], "events")
    beats = [
        {
            "type": "heartbeat",
            "job": "long",
            "attempt": 0,
            "at": f"2026-03-09T05:{n // 60:02}:{n % 60:02}Z",
        }
        for n in range(150)
    ]
    site.ingest(beats, key)
    browser, seen = site.reader(key), []
    page = Document.of(browser.get("/jobs/long/events"))
    while True:
        seen += [each.text.strip() for each in page.all("th", scope="row")]
        following = page.all("a", rel="next")
        if not following:
            break
        page = Document.of(browser.get("/jobs/long/events" + following[0].attributes["href"]))
    assert len(seen) == len(set(seen)) == 150
