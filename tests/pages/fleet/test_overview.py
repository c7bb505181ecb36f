"""The fleet's page shows the numbers of the API."""

import re
from urllib.parse import parse_qsl, urlsplit

from ett_service.charts.units import duration, gpu_hours, percent
from ett_service.pages.links import job_page
from tests.builders.jobs import repeated_job, steps_taking, wire_event
from tests.builders.servers.site import Document, Site

MONTH = {"from": "2026-02-09T06:00:00Z", "to": "2026-03-09T06:00:00Z"}


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


def test_the_times_between_failures_of_two_pages_say_of_what_they_are(site: Site) -> None:
    window = {"from": "2026-03-02T06:00:00Z", "to": "2026-03-09T06:00:00Z"}
    api = site.api()
    running = api.get("/v1/fleet/summary", params=window).json()["total"]["mtbf"]["seconds"]
    advice = api.get("/v1/fleet/checkpoint-advice", params=window).json()["total"]
    training = advice["mtbf_seconds"]["value"]
    assert duration(running) != duration(training)
    fleet = Document.of(site.reader().get("/"))
    assert f"MTBF by running time {duration(running)}" in fleet.text_of(
        "section", id="compared-by-wall-time"
    )
    assert f"MTBF by running time: {duration(running)}" in fleet.text_of("section", id="failures")
    saving = Document.of(site.reader().get("/checkpoints"))
    assert f"MTBF by training time{duration(training)}" in saving.text_of("dl")


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
    assert "for 10.0% of their time, by accelerators (n=1, the attempts" in shown
    durations = page.text_of("section", id="durations")
    assert "Between two runs of a job: 3h 00m in all, in no E2E." in durations


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


def test_days_of_a_window_are_whole_up_to_the_last(site: Site) -> None:
    browser = site.reader()
    page = Document.of(browser.get("/?from=2026-03-08&to=2026-03-08"))
    assert "2026-03-08 00:00 to 2026-03-09 00:00 UTC" in page.text_of("main")
    (last,) = page.all("input", name="to")
    assert last.attributes["value"] == "2026-03-08"
    refused = Document.of(browser.get("/?from=2026-03-08&to=2026-03-07"), 422)
    assert "It must lie before to: the window is empty." in refused.text_of("main")


def test_numbers_of_two_weightings_stand_in_no_table_together(site: Site) -> None:
    page = Document.of(site.reader().get("/"))
    tables = [each.text for each in page.all("table") if "ETT%" in each.text]
    said = ("by accelerators", "by wall time", "median job")
    compared = [text for text in tables if any(f"ETT% {name}" in text for name in said[:2])]
    assert len(compared) == 2
    assert all(sum(f"ETT% {name}" in text for name in said[:2]) == 1 for text in compared)


def test_a_category_leads_to_the_jobs_that_have_most_of_it(site: Site) -> None:
    browser = site.reader()
    page = Document.of(browser.get("/?window=28d"))
    link = next(each for each in page.links if "category=pt2_compile" in each)
    assert link.endswith("#jobs")
    assert "window=28d" in link
    page = Document.of(browser.get(link))
    assert page.text_of("h2", id="jobs-head") == "Jobs with most pt2_compile"
    query = {**MONTH, "by": "category:pt2_compile", "limit": "10"}
    jobs = site.api().get("/v1/fleet/jobs/top", params=query).json()["jobs"]
    hours = [gpu_hours(job["weighted_categories"]["pt2_compile"]) for job in jobs]
    assert jobs
    assert set(hours) <= {each.text.strip() for each in page.all("td")}
    assert "category" in Document.of(browser.get("/?category=nonsense"), 422).text_of("main")


def test_causes_lead_to_the_jobs_that_failed_most(site: Site) -> None:
    browser = site.reader()
    links = [each for each in Document.of(browser.get("/")).links if "sort=-failures" in each]
    every = next(each for each in links if "cause=" not in each)
    assert Document.of(browser.get(every)).all("table")
    for link in links:
        listed = dict(parse_qsl(urlsplit(link).query))
        jobs = site.api().get("/v1/jobs", params=listed).json()["jobs"]
        assert jobs
        assert {job_page(job["job"]) for job in jobs} <= {*Document.of(browser.get(link)).links}
    assert len(links) > 1


def test_causes_lead_to_jobs_of_the_part_of_the_fleet_that_is_shown(site: Site) -> None:
    browser = site.reader()
    narrowed = "/?where=team:golden&where=model:llm-live&where=cluster:larch&where=cluster:nowhere"
    page = Document.of(browser.get(f"{narrowed}&where=size:16-31"))
    links = [each for each in page.links if "sort=-failures" in each]
    assert len(links) > 1
    for link in links:
        listed = dict(parse_qsl(urlsplit(link).query))
        assert (listed["team"], listed["model"]) == ("golden", "llm-live")
        jobs = site.api().get("/v1/jobs", params=listed).json()["jobs"]
        assert jobs
        assert {(job["team"], job["model"]) for job in jobs} == {("golden", "llm-live")}
    said = page.text_of("section", id="failures")
    assert "Lists of jobs behind the links are not narrowed by cluster and size." in said
    whole = Document.of(browser.get("/?where=team:golden")).text_of("section", id="failures")
    assert "not narrowed" not in whole


def test_a_window_without_jobs_leads_to_the_latest_job(site: Site) -> None:
    page = Document.of(site.reader().get("/?from=2020-01-01&to=2020-01-08"))
    assert page.text_of("h1") == "No job ran in this window."
    latest = site.api().get("/v1/jobs", params={"limit": 1}).json()["jobs"][0]
    assert job_page(latest["job"]) in page.links


def test_filters_that_no_job_has_are_said_and_what_only_queued_has_not_begun(site: Site) -> None:
    queued = wire_event("phase_started", 0, "queued-only", phase="queued", attempt=0)
    site.ingest([queued | {"at": "2026-03-09T05:59:00Z"}])
    page = Document.of(site.reader().get("/?where=model:nonesuch"))
    assert page.text_of("h1") == "No job with these filters ran in this window."
    assert "The latest job of all is queued-only, which is queued." in page.text_of("main")


def test_without_data_the_first_page_has_the_lines_with_the_key_of_the_sign_in(
    empty_site: Site,
) -> None:
    page = Document.of(empty_site.reader().get("/"))
    lines = page.all("code")[1].text.splitlines()
    assert lines[0].startswith("pip install ")
    assert lines[2] == "ett run -- python train.py"
    ((url, key),) = re.findall(r"^export ETT_URL=(\S+) ETT_API_KEY=(ett_\w+)$", lines[1])
    assert url == empty_site.url
    answer = empty_site.api(key).post("/v1/events", json={"events": []})
    assert answer.status_code == 200, answer.text
    (main,) = page.all("main")
    assert main.attributes["data-live"] == "/live"
    again = Document.of(empty_site.reader().get("/"))
    assert key in again.all("code")[1].text, "a second sign-in makes no second key"


def test_who_was_signed_in_before_this_start_gets_a_key_by_a_button(empty_site: Site) -> None:
    browser = empty_site.reader()
    empty_site.state.first_keys.clear()
    page = Document.of(browser.get("/"))
    assert "ETT_API_KEY=KEY" in page.all("code")[1].text
    answer = browser.post("/first-key", data={"token": page.form_token})
    assert answer.headers["location"] == "/"
    assert "ETT_API_KEY=ett_" in Document.of(browser.get("/")).all("code")[1].text


def test_a_key_that_was_revoked_is_shown_no_more(empty_site: Site) -> None:
    browser = empty_site.reader()
    page = Document.of(browser.get("/"))
    ((key,),) = [re.findall(r"ETT_API_KEY=(ett_\w+)", page.all("code")[1].text)]
    form = {"token": page.form_token}
    assert browser.post(f"/settings/keys/{key[:12]}/revoke", data=form).status_code == 303
    assert key not in Document.of(browser.get("/")).all("code")[1].text


def test_a_reader_cannot_make_a_key(empty_site: Site) -> None:
    browser = empty_site.reader(empty_site.key(["read"]))
    page = Document.of(browser.get("/"))
    assert "ETT_API_KEY=KEY" in page.all("code")[1].text
    assert not [form for form in page.all("form") if form.attributes["action"] == "/first-key"]
    answer = browser.post("/first-key", data={"token": page.form_token})
    assert answer.status_code == 403
