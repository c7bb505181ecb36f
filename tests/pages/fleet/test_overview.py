"""The fleet's page shows the numbers of the API."""

from ett_service.charts.units import duration, gpu_hours, percent
from tests.builders.jobs import repeated_job, steps_taking, wire_event
from tests.builders.servers.site import Document, Site


def numbers(page: Document) -> list[str]:
    return [each.text.strip() for each in page.all("strong")]


def test_its_numbers_are_those_of_the_api(site: Site) -> None:
    page = Document.of(site.reader().get("/"))
    window = {"from": "2026-03-02T06:00:00Z", "to": "2026-03-09T06:00:00Z"}
    total = site.api().get("/v1/fleet/summary", params=window).json()["total"]
    shown = numbers(page)
    assert percent(total["ett_ratio"]) in shown
    assert percent(total["ett_ratio_wall"]) in shown
    assert duration(total["time_to_start"]["p50"]) in shown
    assert duration(total["time_to_recover"]["p50"]) in shown
    assert str(total["failures"]["total"]) in shown
    assert gpu_hours(total["gpu_seconds"]) in shown
    assert f"ETT {percent(total['ett_ratio'])}" in page.text_of("h1")


def test_the_speed_of_training_and_time_between_runs_are_those_of_the_api(site: Site) -> None:
    model = {"model": "speedy"}
    slow = [*steps_taking([1] * 18 + [2, 2]), wire_event("job", 0, **model)]
    waited = wire_event("heartbeat", 32, attributes={"data_wait_seconds": 132.0})
    site.ingest([event | {"job": "fleet-slow"} for event in (*slow, waited)])
    site.ingest([*repeated_job("fleet-twice"), wire_event("job", 0, "fleet-twice", **model)])
    page = Document.of(
        site.reader().get("/?where=model:speedy&from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z")
    )
    shown = page.text_of("section", id="speeds")
    # Of the 38 minutes in loops, 16 are those of runs that report no steps.
    assert "at reference speed 2.7 52.6% - slowed 0.3 5.3% - not measured 2.1 42.1% -" in shown
    assert "for 10.0% of their time, by accelerators (n=1 attempts" in shown
    assert "Between runs of jobs: 3h 00m, in no E2E." in page.text_of("section", id="durations")


def test_a_panel_says_where_its_numbers_come_from(site: Site) -> None:
    browser = site.reader()
    page = Document.of(browser.get("/?by=team&where=model:llm-live"))
    (csv,) = {
        each.attributes["href"]
        for each in page.all("a")
        if each.attributes.get("aria-label") == "CSV of GPU-hours lost, by team"
    }
    answer = browser.get(csv)
    assert answer.headers["content-type"].startswith("text/csv")
    assert "golden" in answer.text
    assert any("/v1/fleet/summary?" in each.text for each in page.all("code"))


def test_the_window_and_the_filters_stay_in_every_link(site: Site) -> None:
    page = Document.of(site.reader().get("/?by=team&window=28d&where=model:llm-live"))
    narrowed = [link for link in page.links if "where=team%3A" in link]
    assert narrowed
    assert all("window=28d" in link and "where=model%3Allm-live" in link for link in narrowed)


def test_a_window_without_jobs_names_the_latest_job(site: Site) -> None:
    page = Document.of(site.reader().get("/?from=2020-01-01&to=2020-01-08"))
    assert page.text_of("h1") == "No job ran in this window."


def test_without_data_the_first_page_says_how_to_record_a_job(empty_site: Site) -> None:
    browser = empty_site.reader()
    page = Document.of(browser.get("/"))
    lines = page.all("code")[1].text
    assert f"ETT_URL={empty_site.url}" in lines
    assert "ett run -- python train.py" in lines
    (main,) = page.all("main")
    assert main.attributes["data-live"] == "/live"
    made = Document.of(browser.post("/first-key", data={"token": page.form_token}))
    assert "ETT_API_KEY=ett_" in made.all("code")[1].text


def test_a_reader_cannot_make_a_key(empty_site: Site) -> None:
    browser = empty_site.reader(empty_site.key(["read"]))
    page = Document.of(browser.get("/"))
    assert not [form for form in page.all("form") if form.attributes["action"] == "/first-key"]
    answer = browser.post("/first-key", data={"token": page.form_token})
    assert answer.status_code == 403
