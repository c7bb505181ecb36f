"""The list of jobs is filtered, ordered and paged by its address."""

from ett_service.charts.units import gpu_hours
from tests.builders.servers.site import Document, Site


def jobs(page: Document) -> list[str]:
    return [each.text.strip() for each in page.all("th", scope="row")]


def test_filters_and_order_are_those_of_the_api(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs?q=live&sort=job&team=golden"))
    query = {"q": "live", "sort": "job", "team": "golden"}
    answer = site.api().get("/v1/jobs", params=query).json()
    assert jobs(page) == [job["job"] for job in answer["jobs"]]


def test_a_head_orders_by_its_column_and_turns_the_order_around(site: Site) -> None:
    browser = site.reader()
    page = Document.of(browser.get("/jobs?q=live"))
    (order,) = [link for link in page.links if "sort=-ett_ratio" in link]
    assert "q=live" in order
    page = Document.of(browser.get(order))
    (head,) = [each for each in page.all("th") if each.attributes.get("aria-sort") == "descending"]
    assert head.text.split() == ["ETT%", "by", "wall", "time", "▼"]
    assert any("sort=ett_ratio" in link for link in page.links)


def test_pages_follow_each_other_without_a_gap(site: Site) -> None:
    browser = site.reader()
    page = Document.of(browser.get("/jobs?sort=job"))
    names = jobs(page)
    while following := page.all("a", rel="next"):
        page = Document.of(browser.get(following[0].attributes["href"]))
        names += jobs(page)
    whole = site.api().get("/v1/jobs", params={"sort": "job", "limit": 1000}).json()
    assert names == [job["job"] for job in whole["jobs"]]


def test_failures_order_and_hardware_and_kind_filter(site: Site) -> None:
    browser = site.reader()
    page = Document.of(browser.get("/jobs?q=live"))
    (order,) = [link for link in page.links if "sort=-failures" in link]
    answer = site.api().get("/v1/jobs", params={"q": "live", "sort": "-failures"}).json()
    assert jobs(Document.of(browser.get(order))) == [job["job"] for job in answer["jobs"]]
    for name in ("hardware", "kind"):
        assert page.all("input", name=name), name


def test_lost_accelerator_time_orders_and_a_cause_filters(site: Site) -> None:
    browser, api = site.reader(), site.api()
    page = Document.of(browser.get("/jobs?q=live"))
    (order,) = [link for link in page.links if "sort=-lost_gpu_seconds" in link]
    answer = api.get("/v1/jobs", params={"sort": "-lost_gpu_seconds", "q": "live"}).json()["jobs"]
    page = Document.of(browser.get(order))
    assert jobs(page) == [job["job"] for job in answer]
    cells = [each.text.strip() for each in page.all("td")]
    assert all(gpu_hours(job["lost_gpu_seconds"]) in cells for job in answer)
    page = Document.of(browser.get("/jobs?cause=gpu_hardware&sort=-lost_gpu_seconds"))
    failed = api.get("/v1/jobs", params={"cause": "gpu_hardware"}).json()["jobs"]
    assert sorted(jobs(page)) == sorted(job["job"] for job in failed) != []
    (chosen,) = [each.text for each in page.all("option") if "selected" in each.attributes]
    assert chosen == "gpu_hardware"
    assert any("cause=gpu_hardware" in link and "sort=-failures" in link for link in page.links)


def test_a_job_that_only_queued_has_no_ratio_of_its_empty_time(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs?q=live-queued"))
    heads = [each.text.split(" (")[0].strip() for each in page.all("th", scope="col")]
    cells = dict(zip(heads[1:], [each.text.strip() for each in page.all("td")], strict=True))
    assert [cells[head] for head in ("state", "E2E", "ETT% by wall time", "WTT%")] == [
        "queued", "-", "-", "-",
    ]  # fmt: skip
    of_job = site.reader().get("/jobs/live-queued").text
    assert "It has waited in the queue for 20m 00s so far." in of_job
    assert "Why is it" not in of_job


def test_days_include_the_last(site: Site) -> None:
    started = site.api().get("/v1/jobs", params={"q": "live-failed"}).json()["jobs"][0]
    day = started["started_at"][:10]
    page = Document.of(site.reader().get(f"/jobs?q=live-failed&from={day}&to={day}"))
    assert jobs(page) == ["live-failed"]


def test_no_match_says_how_to_see_all(site: Site) -> None:
    page = Document.of(site.reader().get("/jobs?q=nothing-like-it"))
    assert "/jobs" in page.links
    assert not page.all("table")
