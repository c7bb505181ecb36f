"""Every page is safe to show: its headers, its markup, its refusals; and every link leads on."""

import csv
import re
from collections import deque
from io import StringIO
from urllib.parse import quote

import pytest
from httpx2 import Response

from ett_service.pages.render import HEADERS, prose
from tests.builders.servers.site import Document, Site
from tests.pages.conftest import GRAFANA, HACK, HOSTILE

STARTS = (
    "/",
    "/jobs",
    "/regressions",
    "/compare?base=model:llm-slow&with=model:llm-live",
    "/changes",
    "/checkpoints",
    "/what-if",
    "/quality",
    "/settings",
    "/definitions",
    "/jobs/live-failed",
)


@pytest.mark.parametrize("path", [*STARTS, "/sign-in", "/jobs/nope", "/?window=x", "/jobs?state=x"])
def test_nothing_on_a_page_is_inline_or_from_elsewhere(site: Site, path: str) -> None:
    answer = site.reader().get(path)
    for name, text in HEADERS.items():
        assert answer.headers[name] == text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    page = Document.of(answer, answer.status_code)
    for each in page.elements:
        assert "style" not in each.attributes, each
        assert not any(name.startswith("on") for name in each.attributes), each
        assert each.tag != "style", each
        for name in ("src", "href", "action", "data-live"):
            address = each.attributes.get(name, "/")
            if each.tag == "a" and address.startswith(GRAFANA):
                continue
            assert address.startswith(("/", "#", "?")), each
            assert not address.startswith("//"), each
    assert all(script.attributes.get("src") and not script.text for script in page.all("script"))


def test_every_link_of_every_page_leads_somewhere(site: Site) -> None:
    browser = site.reader()
    waiting, passed = deque(STARTS), set[str]()
    kinds: dict[str, Response] = {}
    while waiting:
        path = waiting.popleft()
        answer = browser.get(path)
        assert answer.status_code == 200, path
        kinds[path] = answer
        if "text/html" not in answer.headers["content-type"] or path.startswith("/docs"):
            continue
        page = Document.of(answer)
        places = {each.attributes["id"] for each in page.elements if "id" in each.attributes}
        for link in page.links:
            target, _, place = link.partition("#")
            if not target and link.startswith("#"):
                assert place in places, (path, link)
            target = path.partition("?")[0] + target if target.startswith("?") else target
            # One address of many that differ in a value alone is enough.
            alike = re.sub(r"=[^&]*|(?<=/jobs/)[^/?]+|(?<=attempts/)\d+", "=", target)
            if target.startswith("/") and alike not in passed:
                passed.add(alike)
                waiting.append(target)
    assert any(path.startswith("/data/") for path in kinds)
    assert any(path.startswith("/regressions/") for path in kinds)


def test_a_member_of_an_answer_is_a_csv(site: Site) -> None:
    browser, job = site.reader(), "/data/v1/jobs/live-failed"
    answer = browser.get(f"{job}?rows=categories")
    assert answer.headers["content-type"].startswith("text/csv")
    categories = site.api().get("/v1/jobs/live-failed").json()["categories"]
    read = {row["name"]: float(row["value"]) for row in csv.DictReader(StringIO(answer.text))}
    assert read == categories
    gaps = csv.DictReader(StringIO(browser.get(f"{job}?rows=quality.gaps").text))
    assert "kind" in (gaps.fieldnames or ())
    for member in ("nothing", "quality.nothing", "job", "categories.stalled"):
        assert browser.get(f"{job}?rows={member}").status_code == 404, member
    assert browser.get("/data/v1/jobs/nobody?rows=categories").status_code == 404


def test_no_text_of_an_event_is_markup(site: Site) -> None:
    browser = site.reader()
    hostile = f"/jobs/{quote(HOSTILE, safe='')}"
    parts = [hostile + part for part in ("", "/attempts/0", "/compile", "/stages", "/events")]
    decided = ("/settings", "/changes", "/regressions", "/quality?by=team")
    for path in ("/", "/?by=team", "/jobs", *parts, *decided):
        answer = browser.get(path)
        assert HACK not in answer.text
        page = Document.of(answer)
        assert not page.all("img")
        assert len(page.all("script")) == 1
    page = Document.of(browser.get(hostile))
    assert "document.title='hacked'" in page.text_of("h1")


def test_code_stands_as_code_and_not_between_backticks(site: Site, empty_site: Site) -> None:
    marked = 0
    empty = ("/changes", "/quality", "/checkpoints", "/settings", "/regressions", "/what-if")
    for served, paths in ((site, STARTS), (empty_site, empty)):
        browser = served.reader()
        for path in paths:
            page = Document.of(browser.get(path))
            assert "`" not in page.text_of("main"), path
            marked += len(page.all("code"))
    assert marked > 20
    told = {each.text for each in Document.of(empty_site.reader().get("/changes")).all("code")}
    assert "ett markers add --kind deploy TITLE" in told


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("run `ett <x>` now", "run <code>ett &lt;x&gt;</code> now"),
        ("a ` alone & <b>", "a ` alone &amp; &lt;b&gt;"),
        ("none", "none"),
    ],
)
def test_a_sentence_is_escaped_and_its_code_is_marked(text: str, html: str) -> None:
    assert str(prose(text)) == html


def test_ids_of_a_page_are_its_own(site: Site) -> None:
    browser = site.reader()
    for path in STARTS:
        ids = [
            each.attributes["id"]
            for each in Document.of(browser.get(path)).elements
            if "id" in each.attributes
        ]
        assert len(ids) == len(set(ids)), path


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("/jobs?q=live&state=&team=&from=", "/jobs?q=live"),
        ("/jobs?q=", "/jobs"),
        ("/?where=model%3Aa+b&where=&where=team%3A", "/?where=model%3Aa+b&where=team%3A"),
        ("/jobs/a%3Fb?project=", "/jobs/a%3Fb"),
    ],
)
def test_what_a_form_left_empty_does_not_stay_in_the_address(
    site: Site, address: str, kept: str
) -> None:
    answer = site.reader().get(address)
    assert (answer.status_code, answer.headers["location"]) == (303, kept)


def test_a_refusal_says_what_may_be_sent(site: Site) -> None:
    page = Document.of(site.reader().get("/?window=fortnight"), 422)
    assert "It may be 1d, 7d, 28d, 90d." in page.text_of("main")
    page = Document.of(site.reader().get("/jobs?state=lost"), 422)
    assert "/query/state" in page.text_of("li")


def test_the_choice_of_dark_stays_in_the_browser(site: Site) -> None:
    browser = site.reader()
    answer = browser.post("/theme", data={"theme": "dark", "next": "/jobs"})
    assert answer.headers["location"] == "/jobs"
    assert Document.of(browser.get("/jobs")).all("html", data_theme="dark") == []
    (root,) = Document.of(browser.get("/jobs")).all("html")
    assert root.attributes["data-theme"] == "dark"
    browser.post("/theme", data={"theme": "system"})
    (root,) = Document.of(browser.get("/jobs")).all("html")
    assert "data-theme" not in root.attributes
    assert browser.post("/theme", data={"theme": "blue"}).status_code == 422


@pytest.mark.parametrize("path", ["/", "/what-if", "/checkpoints", "/changes", "/quality"])
def test_a_filter_is_added_by_a_form_without_scripts_and_removed_by_a_link(
    site: Site, path: str
) -> None:
    browser = site.reader()
    page = Document.of(browser.get(f"{path}?window=28d&where=team:golden"))
    (form,) = [
        each
        for each in page.all("form", method="get", action=path)
        if each.attributes["class"] == "filters"
    ]
    assert {"dimension", "is"} <= {each.attributes.get("name") for each in page.elements}
    sent = {"window": "28d", "where": "team:golden", "dimension": "model", "is": "llm-live"}
    answer = browser.get(form.attributes["action"], params=sent)
    assert answer.status_code == 303
    asked = answer.headers["location"]
    assert asked == f"{path}?window=28d&where=team%3Agolden&where=model%3Allm-live"
    narrowed = Document.of(browser.get(asked))
    (chip,) = narrowed.all("a", **{"aria-label": "Remove model:llm-live"})
    assert chip.attributes["href"] == f"{path}?window=28d&where=team%3Agolden"
    without = browser.get(path, params=sent | {"is": ""})
    assert without.headers["location"] == f"{path}?window=28d&where=team%3Agolden"
