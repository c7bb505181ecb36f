"""The pages in a real browser: nothing fails, nothing is fetched elsewhere, everybody can read."""

import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.builders.servers.site import PROJECT, Site
from tests.golden.fleet import NOW, instant
from tests.pages.conftest import HOSTILE

CHROMIUM = shutil.which("chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")

PAGES = (
    "/",
    "/jobs?q=live",
    "/jobs/live-failed",
    "/jobs/live-failed/attempts/0",
    "/jobs/live-failed/compile",
    "/regressions",
    "/what-if",
    "/checkpoints",
    "/settings",
    "/changes?window=28d",
    f"/jobs/{quote(HOSTILE, safe='')}",
    f"/jobs/{quote(HOSTILE, safe='')}/attempts/0",
)
COMPARISON = "/compare?base=model:llm-slow&with=model:llm-live"
NUMBERED = (*PAGES[:10], "/quality", COMPARISON)
DARK = ("/", "/jobs/live-failed")
_SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Return one browser for all tests."""
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


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


class Visit:
    """A window of the browser that writes down what goes wrong in it."""

    def __init__(self, chromium: Any, site: Site, **options: Any) -> None:
        self.site = site
        self.context = chromium.new_context(base_url=site.url, **options)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._requested)

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.faults.append(message.text)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.site.url, "data:")):
            self.faults.append(f"asked {request.url}")

    def enter(self, key: str = "") -> None:
        """Sign in at once."""
        cookies = self.site.reader(key).cookies
        name, text = next((each.name, each.value) for each in cookies.jar)
        self.context.add_cookies([{"name": name, "value": text, "url": self.site.url}])

    def sign_in(self, key: str = "") -> None:
        """Sign in as people do."""
        self.page.goto("/sign-in")
        self.page.fill("#key", key or self.site.key())
        self.page.press("#key", "Enter")
        self.page.wait_for_url(f"{self.site.url}/")


@pytest.fixture
def visit(chromium: Any, site: Site) -> Iterator[Visit]:
    """Return a window that is signed in."""
    window = Visit(chromium, site)
    window.enter()
    yield window
    window.context.close()
    assert window.faults == []


def test_nobody_is_kept_from_reading_and_no_script_of_an_event_runs(visit: Visit) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe").Axe()
    seen: dict[str, list[str]] = {}
    for theme, paths in (("light", PAGES), ("dark", DARK)):
        visit.page.emulate_media(color_scheme=theme)
        for path in paths:
            visit.page.goto(path)
            assert visit.page.title() != "hacked"
            found = axe.run(visit.page).response["violations"]
            seen |= {
                f"{theme} {path} {each['id']}": [node["html"][:200] for node in each["nodes"][:2]]
                for each in found
                if each["impact"] in _SERIOUS
            }
    assert seen == {}


def test_numbers_say_what_they_mean_and_charts_have_table_csv_and_command(visit: Visit) -> None:
    visit.page.goto("/regressions")
    finding = visit.page.locator("main tbody th a").first.get_attribute("href")
    seen = {}
    for path in (*NUMBERED, finding):
        visit.page.goto(path)
        seen[path] = (visit.page.evaluate(_UNEXPLAINED), visit.page.evaluate(_INCOMPLETE))
    assert {path: faults for path, faults in seen.items() if any(faults)} == {}


def test_a_phone_shows_every_page_without_scrolling_sideways(chromium: Any, site: Site) -> None:
    window = Visit(chromium, site, viewport={"width": 360, "height": 740})
    window.enter()
    for path in PAGES:
        window.page.goto(path)
        assert window.page.evaluate("document.documentElement.scrollWidth") <= 360, path
    window.context.close()
    assert window.faults == []


def test_on_paper_nothing_is_cut_off_and_ink_is_dark(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 720, "height": 1000})  # A4 within its margins
    for path in PAGES:
        visit.page.goto(path)
        visit.page.emulate_media(media="print", color_scheme="dark")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 720, path
        soft = visit.page.evaluate("getComputedStyle(document.querySelector('footer')).color")
        assert soft == "rgb(87, 96, 106)", path


def test_without_scripts_everything_is_there(chromium: Any, site: Site) -> None:
    window = Visit(chromium, site, java_script_enabled=False)
    window.sign_in()
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
    page.locator("td, th", has_text="cut launcher_init by 80 %").first.wait_for()
    assert page.locator("h1").inner_text() != before
    assert "launcher_init=80" in page.url
    assert page.locator("body[data-stays]").count() == 1, "it was not loaded anew"


def test_a_running_job_moves_by_itself(visit: Visit) -> None:
    page = visit.page
    page.goto("/jobs/live-running")
    page.evaluate("document.body.dataset.stays = 'yes'")
    ended = {"type": "attempt_ended", "job": "live-running", "at": instant(NOW), "attempt": 0}
    visit.site.ingest([{**ended, "outcome": "completed"}])
    page.locator(".state-finished").wait_for()
    assert page.locator("body[data-stays]").count() == 1, "it was not loaded anew"
    assert page.locator("main[data-live]").count() == 0, "there is nothing more to wait for"


def test_the_first_event_turns_the_first_page_into_the_fleet(
    chromium: Any, empty_site: Site
) -> None:
    window = Visit(chromium, empty_site)
    window.enter()
    window.page.goto("/")
    assert "Nothing is recorded yet" in window.page.locator("h1").inner_text()
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
