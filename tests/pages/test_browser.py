"""The pages in a real browser: nothing fails, nothing is fetched elsewhere, everybody can read."""

import csv
import re
from io import StringIO
from typing import Any
from urllib.parse import quote

import pytest

from ett_service.storage.record.keys import PREFIX_LENGTH
from tests.builders.servers.site import PROJECT, Site
from tests.builders.servers.visit import Visit
from tests.golden.fleet import NOW, instant
from tests.pages.conftest import HOSTILE

PAGES = (
    "/",
    "/jobs?q=live",
    "/jobs/live-failed",
    "/jobs/live-failed/attempts/0",
    "/jobs/live-failed/compile",
    "/jobs/live-failed/stages",
    "/regressions",
    "/what-if",
    "/checkpoints",
    "/settings",
    "/changes?window=28d",
    f"/jobs/{quote(HOSTILE, safe='')}",
    f"/jobs/{quote(HOSTILE, safe='')}/attempts/0",
)
COMPARISON = "/compare?base=model:llm-slow&with=model:llm-live"
NUMBERED = (*PAGES[:11], "/quality", COMPARISON)
MORE = (
    COMPARISON,
    "/quality",
    f"/jobs/{quote(HOSTILE, safe='')}/events",
    "/definitions",
    "/sign-in",
    "/jobs/nobody",
)
DARK = ("/", "/jobs/live-failed", COMPARISON, "/regressions", "/settings", "/what-if")
_SERIOUS = {"serious", "critical"}
_VIOLATIONS = {"resultTypes": ["violations"]}
"""Or axe describes each element that passes, too, which takes most of its time."""


# Facts and columns of numbers that say nowhere, neither in the head nor in the row, what they mean.
_UNEXPLAINED = """() => {
  const told = (each) => each.hasAttribute("title") || each.querySelector("[title]");
  const facts = [...document.querySelectorAll(".facts dt")].filter((each) => !told(each));
  const heads = [...document.querySelectorAll("main table")].flatMap((table) => {
    const rows = [...table.tBodies[0].rows];
    return [...table.tHead.rows[0].cells].filter((head) =>
      head.classList.contains("number") && !told(head) && !rows.every((row) => told(row.cells[0])));
  });
  return [...facts, ...heads].map((each) => each.textContent.trim());
}"""

# Charts without a table, a CSV or a command.
_INCOMPLETE = """() => [...document.querySelectorAll("main figure")].filter((chart) => {
  const panel = chart.closest("section");
  const files = [...panel.querySelectorAll(".tools a")].map((each) => each.textContent);
  return !panel.querySelector("table") || !files.includes("CSV")
    || !panel.querySelector(".curl code");
}).map((chart) => chart.getAttribute("aria-label"))"""


def of_a_finding(site: Site) -> str:
    """Return the address of the finding that there is."""
    (finding, *_) = site.api().get("/v1/regressions").json()["regressions"]
    return f"/regressions/{finding['id']}"


def every_page(site: Site) -> tuple[str, ...]:
    """Return the addresses of pages of every kind."""
    return (*PAGES, *MORE, of_a_finding(site))


def serious_faults(page: Any) -> dict[str, list[str]]:
    """Return what keeps people from reading the page, with where it is."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe").Axe()
    return {
        each["id"]: [node["html"][:200] for node in each["nodes"][:2]]
        for each in axe.run(page, options=_VIOLATIONS).response["violations"]
        if each["impact"] in _SERIOUS
    }


def test_nobody_is_kept_from_reading_and_no_script_of_an_event_runs(visit: Visit) -> None:
    seen: dict[str, dict[str, list[str]]] = {}
    for theme, paths in (("light", every_page(visit.site)), ("dark", DARK)):
        visit.page.emulate_media(color_scheme=theme)
        for path in paths:
            visit.page.goto(path)
            assert visit.page.title() != "hacked"
            if found := serious_faults(visit.page):
                seen[f"{theme} {path}"] = found
    assert seen == {}


def test_numbers_say_what_they_mean_and_charts_have_table_csv_and_command(visit: Visit) -> None:
    seen = {}
    for path in (*NUMBERED, of_a_finding(visit.site)):
        visit.page.goto(path)
        seen[path] = (visit.page.evaluate(_UNEXPLAINED), visit.page.evaluate(_INCOMPLETE))
    assert {path: faults for path, faults in seen.items() if any(faults)} == {}


def test_a_percentage_is_written_in_one_way_on_every_page(site: Site) -> None:
    reader = site.reader()
    paths = (*every_page(site), "/?window=28d&by=team", "/what-if?infra=40&stalled=100")
    pages = {path: reader.get(path).text for path in paths}
    apart = {path: re.findall(r".{0,30}\d\s+%(?!\w).{0,9}", text) for path, text in pages.items()}
    assert {path: found for path, found in apart.items() if found} == {}
    assert any(re.search(r"\d%", text) for text in pages.values())


def test_what_lies_below_the_first_screen_is_laid_out_once_the_page_is_loaded(visit: Visit) -> None:
    visit.page.goto("/")
    visit.page.wait_for_selector("html.settled")
    hidden = visit.page.evaluate(
        """() => [...document.querySelectorAll(".panel h2")].filter(
          (head) => !head.checkVisibility({ contentVisibilityAuto: true })).length"""
    )
    assert hidden == 0, "a picture of the whole page would have blanks"


def test_a_time_says_on_hover_what_it_is_where_its_reader_is(chromium: Any, site: Site) -> None:
    window = Visit(chromium, site, timezone_id="Asia/Tokyo", locale="en-GB")
    window.enter()
    window.page.goto("/jobs/live-failed")
    begun = site.api().get("/v1/jobs/live-failed").json()["started_at"]
    time = window.page.locator(".when time").first
    assert time.get_attribute("datetime") == f"{begun[:16]}Z"
    assert time.get_attribute("title") is None
    time.hover()
    hour = (int(begun[11:13]) + 9) % 24
    assert f"{hour:02}{begun[13:16]}:00" in time.get_attribute("title")
    in_a_table = window.page.locator("#attempts td time").first
    assert in_a_table.inner_text() == begun[:16].replace("T", " ")
    window.context.close()


def test_without_scripts_everything_is_there(chromium: Any, site: Site) -> None:
    window = Visit(chromium, site, java_script_enabled=False)
    window.sign_in()
    for path in every_page(site):
        window.page.goto(path)
        assert window.page.locator("main h1").count() == 1, path
    window.page.goto("/")
    assert window.page.locator("figure svg").count() >= 4
    window.page.locator("summary:has-text('View as table')").first.click()
    assert window.page.locator("#to-target table").is_visible()
    window.page.click("button[value=dark]")
    assert window.page.locator("html[data-theme=dark]").count() == 1
    window.page.click("text=Sign out")
    assert window.page.url.endswith("/sign-in")
    window.context.close()


def test_filters_links_and_the_back_button_lead_where_they_say(visit: Visit) -> None:
    page = visit.page
    page.goto("/jobs")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.fill("input[name=q]", "live-f")
    page.press("input[name=q]", "Enter")
    page.wait_for_url("**/jobs?q=live-f")
    assert not any("state=" in address for address in asked), "the form leaves out what is empty"
    page.click("text=live-failed")
    assert page.locator("h1").inner_text().startswith("Nightly")
    page.click("#attempts tbody a >> nth=0")
    page.wait_for_url("**/attempts/0")
    page.go_back()
    page.go_back()
    assert "q=live-f" in page.url


def test_a_filter_of_the_fleet_stays_until_it_is_taken_away(visit: Visit) -> None:
    page = visit.page
    page.goto("/?by=team")
    page.click("#cohorts summary >> nth=0")
    page.click("#cohorts tbody th a >> nth=0")
    assert "where=team" in page.url
    page.fill("input[name=from]", "2026-03-01")
    page.fill("input[name=to]", "2026-03-08")
    page.click("main form button:has-text('Show')")
    assert "where=team" in page.url
    assert "2026-03-01 00:00 to 2026-03-09 00:00 UTC" in page.locator("p.when").inner_text()
    page.click(".chip")
    assert "where=" not in page.url
    page.go_back()
    assert "where=team" in page.url


def test_who_may_decides_about_a_finding_in_the_browser(visit: Visit) -> None:
    page = visit.page
    page.goto(of_a_finding(visit.site))
    page.fill("form[action$=triage] input[name=why]", "seen in a browser")
    page.click("form[action$=triage] button[value=expected]")
    assert "Triaged as expected" in page.locator("p.when:not(.crumb)").inner_text()
    assert page.locator("#history td", has_text="seen in a browser").count() == 1


def test_a_sign_in_is_refused_with_its_reason_and_a_link_signs_in_once(
    chromium: Any, site: Site
) -> None:
    window = Visit(chromium, site)
    page = window.page
    page.goto("/jobs?q=live")
    page.fill("#key", "ett_wrong")
    page.press("#key", "Enter")
    assert "not a key" in page.get_by_role("alert").inner_text()
    page.fill("#key", site.key(["write"]))
    page.press("#key", "Enter")
    assert "may not read" in page.get_by_role("alert").inner_text()
    page.fill("#key", site.key())
    page.press("#key", "Enter")
    page.wait_for_url("**/jobs?q=live")
    page.click("text=Sign out")
    ticket = site.state.sessions.ticket(site.key()[:PREFIX_LENGTH])
    page.goto(f"/sign-in?ticket={ticket}")
    assert page.url == f"{site.url}/"
    page.click("text=Sign out")
    assert page.goto(f"/sign-in?ticket={ticket}").status == 403
    assert "used before" in page.get_by_role("alert").inner_text()
    window.context.close()
    refusals = [fault for fault in window.faults if "401" not in fault and "403" not in fault]
    assert refusals == []


def test_the_name_of_an_attempt_opens_and_closes_its_stages(visit: Visit) -> None:
    page = visit.page
    page.goto("/jobs/live-failed")
    page.click("#life svg a >> nth=0")
    page.locator("#expanded #lanes svg").wait_for()
    assert page.url.endswith("/jobs/live-failed")
    page.click("#life svg a >> nth=0")
    page.locator("#expanded #lanes").wait_for(state="detached")


def test_dark_stays_chosen(visit: Visit) -> None:
    page = visit.page
    page.goto("/definitions")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("button[value=dark]")
    page.goto("/jobs")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_a_slider_answers_in_the_page_and_in_its_address(visit: Visit) -> None:
    page = visit.page
    page.goto("/what-if?launcher_init=5")
    before = page.locator("h1").inner_text()
    page.evaluate("document.body.dataset.stays = 'yes'")
    page.locator("input[name=launcher_init]").fill("80")
    page.locator("td, th", has_text="cut launcher_init by 80%").first.wait_for()
    assert page.locator("h1").inner_text() != before
    assert "launcher_init=80" in page.url
    assert page.locator("body[data-stays]").count() == 1, "it was not loaded anew"


def test_the_first_event_turns_the_first_page_into_the_fleet(
    chromium: Any, empty_site: Site
) -> None:
    window = Visit(chromium, empty_site)
    window.enter()
    window.page.goto("/")
    assert "Nothing is recorded yet" in window.page.locator("h1").inner_text()
    assert serious_faults(window.page) == {}
    window.page.set_viewport_size({"width": 360, "height": 740})
    assert window.page.evaluate("document.documentElement.scrollWidth") <= 360
    at = instant(NOW).replace("06:00", "05:00")
    begin = {"job": "first", "at": at, "attempt": 0}
    empty_site.ingest(
        [
            {"type": "attempt_started", "gpus": 8, **begin},
            {"type": "phase_started", "phase": "train_loop", **begin},
        ]
    )
    window.page.wait_for_selector("h1:has-text('ETT')")
    window.context.close()
    assert window.faults == []


def test_another_project_is_not_found(chromium: Any, site: Site) -> None:
    window = Visit(chromium, site)
    window.enter(site.key(["read"], "other"))
    answer = window.page.goto(f"/jobs/live-failed?project={PROJECT}")
    assert answer.status == 404
    window.context.close()


# Each chart: what its table has in the first column, and where the CSV is.
_TABLES = """() => [...document.querySelectorAll("main section.panel")].flatMap((panel) => {
  if (!panel.querySelector("figure")) return [];
  const file = [...panel.querySelectorAll(".tools a")].find((each) => each.textContent === "CSV");
  const table = panel.querySelector("table");
  if (!file || !table) return [];
  const rows = [...table.tBodies[0].rows].map((row) => row.cells[0].textContent.trim());
  return [{ ident: panel.id, csv: file.getAttribute("href"), rows }];
})"""
CSV_PAGES = (
    *NUMBERED,
    "/checkpoints?window=90d",
    "/compare?base=model:llm-slow&with=model:llm-live",
)


def test_the_csv_of_a_panel_has_the_rows_of_its_table(visit: Visit) -> None:
    reader = visit.site.reader()
    wrong: dict[str, str] = {}
    for path in dict.fromkeys(CSV_PAGES):
        visit.page.goto(path)
        panels = visit.page.evaluate(_TABLES)
        files = [panel["csv"] for panel in panels]
        # The start of an attempt is drawn once more by itself, of the same spans.
        if len(set(files)) < len(files) and "/attempts/" not in path:
            wrong[path] = f"panels share a CSV: {files}"
        for panel in panels:
            read = list(csv.reader(StringIO(reader.get(panel["csv"]).text)))
            cells = {_plain(cell) for row in read for cell in row}
            missing = [
                name for name in panel["rows"] if _is_named(name) and _plain(name) not in cells
            ]
            if len(read) - 1 < len(panel["rows"]) or missing:
                wrong[f"{path} {panel['ident']}"] = f"{len(read) - 1} rows, lacks {missing[:3]}"
    assert wrong == {}


def _is_named(text: str) -> bool:
    return re.fullmatch(r"[a-z_0-9]+( [a-z_]+)?", text) is not None and not text[:1].isdigit()


def _plain(text: str) -> str:
    return text.replace("_", " ")
