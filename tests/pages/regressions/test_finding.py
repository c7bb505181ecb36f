"""A finding's page shows its evidence, and takes what people decide."""

import pytest

from tests.builders.servers.site import Document, Site


@pytest.fixture
def address(site: Site) -> str:
    """Return the address of the finding."""
    page = Document.of(site.reader().get("/regressions"))
    return next(link for link in page.links if link.startswith("/regressions/"))


def test_it_shows_size_suspects_and_examples(site: Site, address: str) -> None:
    page = Document.of(site.reader().get(address))
    heading = page.text_of("h1")
    assert heading.startswith("pt2_compile 8m 06s -> 13m 24s (x 1.65)")
    cells = [each.text.strip() for each in page.elements if each.tag in {"td", "th"}]
    assert "image trainer:2.14" in cells
    assert "explains 97.0%" in cells


def test_who_may_administer_decides_and_it_is_written_down(site: Site, address: str) -> None:
    browser = site.reader()
    page = Document.of(browser.get(address))
    path, _, query = address.partition("?")
    form = {"token": page.form_token, "project": "research", "why": "seen <b>it</b>"}
    answer = browser.post(f"{path}/triage", data={**form, "verdict": "real"})
    assert answer.headers["location"] == address
    assert query == "project=research"
    after = Document.of(browser.get(address))
    cells = [each.text.strip() for each in after.all("td")]
    assert "triaged real" in [each.text.strip() for each in after.all("td")]
    assert "seen <b>it</b>" in cells
    answer = browser.post(f"{path}/mute", data={**form, "days": "7"})
    assert answer.status_code == 303
    muted = site.api().get(f"/v1{path}").json()["muted_until"]
    assert muted == "2026-03-16T06:00:00.000000Z"


def test_a_decision_that_the_api_refuses_is_refused(site: Site, address: str) -> None:
    browser = site.reader()
    token = Document.of(browser.get(address)).form_token
    path = address.partition("?")[0]
    assert browser.post(f"{path}/mute", data={"token": token, "why": "x"}).status_code == 422
    assert browser.post(f"{path}/triage", data={"token": token, "why": "x"}).status_code == 422
    assert browser.post(f"{path}/triage", data={"why": "x", "verdict": "real"}).status_code == 403


def test_a_reader_sees_no_buttons_and_cannot_press_them(site: Site, address: str) -> None:
    browser = site.reader(site.key(["read"]))
    page = Document.of(browser.get(address))
    assert not [form for form in page.all("form") if "triage" in form.attributes["action"]]
    form = {"token": page.form_token, "why": "x", "verdict": "noise"}
    assert browser.post(f"{address.partition('?')[0]}/triage", data=form).status_code == 403
