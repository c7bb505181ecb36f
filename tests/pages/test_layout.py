"""Pages on a phone, on usual screens and on paper: nothing is cut off, and all is in order."""

from typing import Any

from tests.builders.servers.site import Site
from tests.builders.servers.visit import Visit
from tests.pages.conftest import ago, running
from tests.pages.test_browser import every_page


def test_a_phone_shows_every_page_without_scrolling_sideways(chromium: Any, site: Site) -> None:
    window = Visit(chromium, site, viewport={"width": 360, "height": 740})
    window.enter()
    for path in every_page(site):
        window.page.goto(path)
        assert window.page.evaluate("document.documentElement.scrollWidth") <= 360, path
    window.context.close()
    assert [fault for fault in window.faults if "404" not in fault] == []


def test_on_paper_nothing_is_cut_off_and_ink_is_dark(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 720, "height": 1000})  # A4 within its margins
    for path in every_page(visit.site):
        visit.page.goto(path)
        visit.page.emulate_media(media="print", color_scheme="dark")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 720, path
        soft = visit.page.evaluate("getComputedStyle(document.querySelector('footer')).color")
        assert soft == "rgb(87, 96, 106)", path
        last = visit.page.locator("footer p >> nth=-1").inner_text()
        assert last.strip() == "Times are UTC.", path


# Words of table cells that stand in several lines.
_BROKEN = """() => [...document.querySelectorAll("thead th, .short, .number")].flatMap((cell) => {
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    for (const word of text.data.matchAll(/\\w+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((each) => each.top));
      if (lines.size > 1) broken.push(word[0]);
    }
  }
  return broken;
})"""


def test_on_paper_no_word_of_a_table_is_broken(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 720, "height": 1000})
    visit.page.emulate_media(media="print")
    broken = {}
    for path in every_page(visit.site):
        visit.page.goto(path)
        broken[path] = visit.page.evaluate(_BROKEN)
    assert {path: words for path, words in broken.items() if words} == {}


def test_the_tables_of_the_fleet_fit_their_columns(visit: Visit) -> None:
    ends = [
        {"type": "attempt_ended", "outcome": "failed", "exit_code": 1, "at": ago(60)},
        {"type": "job", "at": ago(180), "model": "wide", "hardware": "H100", "gpus": 40_000},
    ]
    names = [f"retrieval-200b-retrain-11-23-{number}" for number in range(3)]
    events = [event for name in names for event in running(name, "train_loop", 150)]
    place = {"job": names[0], "attempt": 0}
    visit.site.ingest(events + [end | place for end in ends])
    visit.site.ingest([ends[1] | {"job": name} for name in names[1:]])
    for width in (1280, 1920):
        visit.page.set_viewport_size({"width": width, "height": 900})
        visit.page.goto("/?where=model:wide")
        visit.page.locator("#cohorts summary >> nth=0").click()
        room = """(panel) => {
          const box = document.querySelector(`${panel} div.scroll`);
          return box.clientWidth - box.scrollWidth;
        }"""
        assert visit.page.evaluate(room, "#jobs") == 0, width
        assert visit.page.evaluate(room, "#cohorts") == 0, width


def test_markers_stand_in_the_order_of_their_dates(visit: Visit) -> None:
    api = visit.site.api()
    made = [
        api.post("/v1/markers", json={"kind": "deploy", "title": f"{n}", "at": ago(n * 60)}).json()
        for n in range(1, 5)
    ]
    visit.page.set_viewport_size({"width": 1280, "height": 900})
    visit.page.goto("/changes?window=28d")
    tops = visit.page.evaluate(
        """() => [...document.querySelectorAll(".panels > .panel")].map(
          (panel) => panel.getBoundingClientRect().top)"""
    )
    for marker in made:
        assert api.delete(f"/v1/markers/{marker['id']}").status_code < 300
    assert len(tops) == 6
    assert tops == sorted(tops)
