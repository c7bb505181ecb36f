"""Checkpoints, what-if, changes and comparisons show what the API answers."""

from urllib.parse import parse_qs, urlsplit

from ett_service.charts.units import amount, duration, percent, points, value
from ett_service.charts.units import cohort as conditions
from ett_service.core.words import Category, Origin
from ett_service.pages.window import moment
from tests.builders.jobs import wire_event, wire_span
from tests.builders.servers.site import Document, Site

WINDOW = {"from": "2026-03-02T06:00:00Z", "to": "2026-03-09T06:00:00Z"}


def cells(page: Document) -> list[str]:
    return [each.text.strip() for each in page.elements if each.tag in {"td", "th"}]


def strong(page: Document) -> list[str]:
    return [each.text.strip() for each in page.all("strong")]


def test_checkpoints_are_advised_as_by_the_api(site: Site) -> None:
    page = Document.of(site.reader().get("/checkpoints"))
    total = site.api().get("/v1/fleet/checkpoint-advice", params=WINDOW).json()["total"]
    assert duration(total["save_seconds"]["value"]) in strong(page)
    assert duration(total["mtbf_seconds"]["value"]) in strong(page)
    assert percent(total["best"]["wasted_ratio"]) in strong(page)
    assert percent(total["curve"][0]["wasted_ratio"]) in cells(page)


def saved_in_time(number: int) -> list[dict[str, object]]:
    """Return an attempt that saves an hour after its first save, and then fails."""
    begin, step = 70 * number, 100 * number
    events = [
        wire_event("job", 0, model="short", gpus=60),
        wire_span("train_loop", begin, begin + 62),
        wire_span("checkpoint_blocking", begin, begin + 1),
        wire_event("checkpoint_saved", begin + 1, step=step + 1),
        wire_event("checkpoint_saved", begin + 61, step=step + 61),
        wire_event("attempt_ended", begin + 62, outcome="failed", exit_code=1),
    ]
    return [{**event, "job": "short", "launch": "1", "attempt": number} for event in events]


def test_no_interval_gains_more_than_was_lost(site: Site) -> None:
    # By the formula each failure loses half an hour; all came a minute after a save.
    site.ingest([event for number in range(10) for event in saved_in_time(number)])
    window = "from=2026-03-01T00:00:00Z&to=2026-03-03T00:00:00Z"
    query = f"{window}&where=model:short&group_by=model"
    (group,) = site.api().get(f"/v1/fleet/checkpoint-advice?{query}").json()["groups"]
    spent = site.api().get(f"/v1/fleet/summary?{query}").json()["total"]["gpu_categories"]
    lost = (spent["repeated_training"] + spent["checkpoint_blocking"]) / 3600
    assert group["gain"]["gpu_hours"] > lost
    page = Document.of(site.reader().get(f"/checkpoints?{window}&where=model:short"))
    assert f"up to {amount(lost)}" in strong(page)
    assert f"up to {amount(lost)}" in cells(page)
    assert "the gain is at most what repeated training and saves took" in page.text_of("main")


def test_what_a_cut_gains_is_what_the_api_says(site: Site) -> None:
    page = Document.of(site.reader().get("/what-if?launcher_init=40&stalled=100"))
    scenarios = ["cut launcher_init by 40%", "cut stalled by 100%"]
    query = {**WINDOW, "scenario": scenarios}
    answer = site.api().get("/v1/what-if", params=query).json()
    gain = answer["together"]
    assert page.text_of("h1") == (
        f"Together {points(gain['points'] / 100)}: ETT {percent(answer['before']['ett_ratio'])} "
        f"would have been {percent(gain['ett_ratio'])}."
    )
    assert set(scenarios) <= set(cells(page))


def test_each_category_and_each_origin_of_failures_can_be_cut(site: Site) -> None:
    words = [*Origin, *(each for each in Category if each is not Category.EFFECTIVE_TRAINING)]
    browser = site.reader()
    page = Document.of(browser.get("/what-if"))
    names = [each.attributes["name"] for each in page.all("input", type="range")]
    assert names == [*map(str, words)]
    cut = Document.of(browser.get("/what-if", params=dict.fromkeys(names, "10")))
    assert {f"cut {each} by 10%" for each in ("shutdown", "preemption failures")} <= set(cells(cut))


def test_moving_a_slider_keeps_a_window_of_its_own(site: Site) -> None:
    page = Document.of(site.reader().get("/what-if?from=2026-03-02&to=2026-03-04&by=team"))
    kept = {
        (each.attributes["name"], each.attributes["value"])
        for each in page.all("input", type="hidden")
    }
    window = {("from", "2026-03-02T00:00:00Z"), ("to", "2026-03-05T00:00:00Z")}
    assert {*window, ("by", "team")} <= kept


def test_it_says_that_infra_failures_are_without_preemptions(site: Site) -> None:
    said = "Preemptions are not among them."
    infra = Document.of(site.reader().get("/what-if?infra=50"))
    assert said in infra.text_of("section", id="gains")
    user = Document.of(site.reader().get("/what-if?user=50"))
    assert said not in user.text_of("section", id="gains")


def test_with_nothing_cut_nothing_is_gained(site: Site) -> None:
    page = Document.of(site.reader().get("/what-if?infra=0"))
    assert page.text_of("h1") == "Nothing is cut: move a slider."


def test_a_marker_shows_what_went_with_it(site: Site) -> None:
    page = Document.of(site.reader().get("/changes?window=28d"))
    (change,) = (
        site.api()
        .get("/v1/fleet/changes", params={"from": "2026-02-09T06:00:00Z", "to": WINDOW["to"]})
        .json()["changes"]
    )
    assert duration(change["effects"][0]["before"]["mean_seconds"]) in cells(page)
    panel = page.text_of("section", id=f"marker-{change['marker']['id']}")
    begin, end = moment(change["before"]["from"]), moment(change["after"]["to"])
    assert f"from {begin} to {end} (UTC)" in panel
    assert "95% interval" in panel
    assert page.text_of("h1").startswith("1 marker; ")


def test_two_sets_are_compared_as_by_the_api(site: Site) -> None:
    query = {"base": "model:llm-slow", "with": "model:llm-live"}
    page = Document.of(site.reader().get("/compare", params=query))
    answer = site.api().get("/v1/regressions/compare", params=query).json()
    first = answer["compared"][0]
    shown = f"{value(first['unit'], first['base']['value'])} (n={first['base']['n']})"
    assert shown in cells(page)
    figures = {each["figure"] for each in answer["compared"]}
    assert {"time_to_start", "failures_per_gpu_hour"} < figures
    assert {"time to start", "failures per GPU-hour", "pt2_compile"} < {*cells(page)}


def test_the_parts_of_a_difference_lead_to_the_jobs_that_have_most_of_them(site: Site) -> None:
    reader = site.reader()
    of_set = Document.of(reader.get("/compare?base=model:llm-slow&with=model:llm-live"))
    (leads,) = {link for link in of_set.links if "category=launcher_init" in link}
    assert leads == "/?window=90d&where=model%3Allm-live&category=launcher_init#jobs"
    assert "Jobs with most launcher_init" in Document.of(reader.get(leads)).text_of(
        "section", id="jobs"
    )
    of_job = Document.of(reader.get("/compare?base=model:llm-slow&with=job:live-failed"))
    assert "/jobs/live-failed#why" in of_job.links
    of_pattern = Document.of(reader.get("/compare?base=model:llm-slow&with=job:live-*"))
    assert not [link for link in of_pattern.links if "category=" in link or "#why" in link]


def test_the_parts_of_waste_lead_to_the_jobs_that_have_most_of_them(site: Site) -> None:
    links = Document.of(site.reader().get("/checkpoints?where=cluster:larch")).links
    for category in ("repeated_training", "checkpoint_blocking"):
        assert f"/?where=cluster%3Alarch&category={category}#jobs" in links


def test_a_comparison_that_cannot_be_read_says_why(site: Site) -> None:
    answer = site.reader().get("/compare?base=nonsense&with=model:x")
    assert "a dimension, a colon and a value" in Document.of(answer, 422).text_of("main")


def test_what_is_missing_is_counted_as_by_the_api(site: Site) -> None:
    page = Document.of(site.reader().get("/quality"))
    total = site.api().get("/v1/fleet/summary", params=WINDOW).json()["total"]
    unattributed = percent(total["categories"]["unattributed"] / total["e2e_seconds"])
    missing = total["jobs_without_accelerators"]
    assert missing == 1
    assert page.text_of("h1") == (
        f"{unattributed} of the time is under no phase; 1 of {total['jobs']} jobs reports no "
        "accelerators."
    )
    assert "x 1.22" in cells(page)


def test_the_series_with_most_values_stand_first_and_all_can_be_read(site: Site) -> None:
    browser, address, shown = site.reader(), "/quality?by=team", []
    while address:
        page = Document.of(browser.get(address.partition("#")[0]))
        shown += [each.text.strip() for each in page.all("td") if ":" in each.text]
        address = next((link for link in page.links if "series=" in link), "")
    series = site.api().get("/v1/regressions/power", params={"limit": 1000}).json()["power"]
    assert series
    assert shown == [
        conditions(each["cohort"])
        for each in sorted(series, key=lambda each: -each["recent"])
        if each["cohort"]
    ]


def test_a_set_without_jobs_is_said_and_not_taken_for_no_difference(site: Site) -> None:
    page = Document.of(site.reader().get("/compare?base=model:nobody&with=model:llm-live"))
    assert page.text_of("h1") == "No job matches the base: there is nothing to compare."
    assert not page.all("table")


def test_a_comparison_begins_with_the_exact_difference_of_ett(site: Site) -> None:
    query = {"base": "model:llm-live", "with": "job:live-failed"}
    page = Document.of(site.reader().get("/compare", params=query))
    answer = site.api().get("/v1/regressions/compare", params=query).json()
    ett = answer["ett"]
    assert answer["with"]["job_count"] == 1
    most = max(ett["parts"], key=lambda part: part["points"] * ett["points"])
    assert page.text_of("h1") == (
        f"ETT% {abs(ett['points']):.1f} points {'higher' if ett['points'] > 0 else 'lower'}, "
        f"{percent(ett['with_ratio'])} beside {percent(ett['base_ratio'])} by wall time; "
        f"{most['category']} explains {abs(most['points']):.1f}."
    )
    said = page.text_of("main")
    assert "With one job, that cannot be told from chance." in said
    assert "What is in both counts for the second only." in said


def test_the_empty_form_offers_what_the_fleet_has(site: Site) -> None:
    reader = site.reader()
    page = Document.of(reader.get("/compare"))
    offered = [each.attributes["value"] for each in page.all("option")]
    assert {"model:llm-live", "job:live-failed"} < set(offered)
    examples = [link for link in page.links if link.startswith("/compare?")]
    pairs = [parse_qs(urlsplit(link).query) for link in examples]
    assert [each["base"][0].partition(":")[0] for each in pairs] == ["model", "model"]
    assert [each["with"][0].partition(":")[0] for each in pairs] == ["model", "job"]
    for link in examples:
        assert "ETT%" in Document.of(reader.get(link)).text_of("h1")
