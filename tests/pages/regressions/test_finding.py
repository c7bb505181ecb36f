"""A finding's page shows its evidence, and takes what people decide."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import ett_service.detection
from ett_service.core.regressions.finding import Finding
from ett_service.pages.regressions.finding import GATES
from ett_service.storage.record.keys import create_project
from tests.builders.clock import HOUR
from tests.builders.clock import instant as us_of
from tests.builders.regressions.stored import finding, fires
from tests.builders.servers.site import Document, Site
from tests.golden.fleet import NOW, instant

DETECTION = Path(ett_service.detection.__file__).parent


@pytest.fixture
def address(site: Site) -> str:
    """Return the address of the finding."""
    page = Document.of(site.reader().get("/regressions"))
    return next(link for link in page.links if link.startswith("/regressions/"))


def test_it_shows_size_suspects_and_examples(site: Site, address: str) -> None:
    page = Document.of(site.reader().get(address))
    heading = page.text_of("h1")
    assert heading.startswith("pt2_compile 8m 06s → 13m 24s (x 1.65)")
    cells = [each.text.strip() for each in page.elements if each.tag in {"td", "th"}]
    assert "image trainer:2.14" in cells
    assert "explains 97.0%" in cells


def test_its_gates_are_shown_in_words(site: Site, address: str) -> None:
    source = "".join(path.read_text() for path in DETECTION.rglob("*.py"))
    names = set(re.findall(r"""(?:Gate|at_least)\("([a-z_]+)\"""", source))
    assert {"p", "still_there"} <= names <= set(GATES)
    page = Document.of(site.reader().get(address))
    gates = [each["name"] for each in site.api().get(f"/v1{address}").json()["gates"]]
    cells = {each.text.strip() for each in page.all("th", scope="row")}
    assert cells.isdisjoint(set(gates) - {"p", "q"})


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


def test_a_mute_is_told_where_the_state_is_and_can_be_ended(site: Site, address: str) -> None:
    browser = site.reader()
    path = address.partition("?")[0]
    form = {"token": Document.of(browser.get(address)).form_token, "project": "research"}
    browser.post(f"{path}/mute", data={**form, "why": "until the fix", "days": "30"})
    until = "muted until 2026-04-08 06:00"
    muted = Document.of(browser.get(address))
    assert until in muted.text_of("span", class_="state state-firing")
    assert "until the fix" in muted.text_of("section", id="history")
    for page in ("/regressions", "/"):
        assert until in Document.of(browser.get(page)).text_of("main")

    ids = {each.attributes["value"] for each in muted.all("input", name="mute")}
    assert ids
    for mute in ids:
        answer = browser.post(f"{path}/unmute", data={**form, "mute": mute})
        assert answer.headers["location"] == address
    assert site.api().get(f"/v1{address}").json()["muted_until"] is None
    assert "muted" not in Document.of(browser.get(address)).text_of(
        "span", class_="state state-firing"
    )
    stranger = browser.post(f"{path}/unmute", data={"mute": "x"})
    assert stranger.status_code == 403


def test_the_forms_act_on_the_project_of_the_finding_whatever_the_address_says(
    site: Site, address: str
) -> None:
    browser = site.reader(site.key(project="elsewhere"))
    path = address.partition("?")[0]
    page = Document.of(browser.get(path))
    (project,) = {each.attributes["value"] for each in page.all("input", name="project")}
    form = {"token": page.form_token, "project": project, "why": "seen", "verdict": "real"}
    assert browser.post(f"{path}/triage", data=form).headers["location"] == address


def test_the_list_adds_up_what_fires_by_its_cause(site: Site) -> None:
    page = Document.of(site.reader().get("/regressions"))
    cells = [each.text.strip() for each in page.elements if each.tag in {"td", "th"}]
    assert "image trainer:2.14" in cells
    text = " ".join(each.text for each in page.all("p"))
    total = site.api().get("/v1/regressions/causes").json()["total"]["gpu_hours_per_week"]
    assert f"All together cost {total:.0f} GPU-hours a week" in text


def test_it_shows_the_day_it_fired_beside_the_last(site: Site, address: str) -> None:
    page = Document.of(site.reader().get(address))
    fired = site.api().get(f"/v1{address}").json()["fired"]
    assert any("when it fired" in each.text for each in page.elements)
    assert fired["ratio"] == 1.65


def test_triage_moves_the_onset_to_another_day(site: Site, address: str) -> None:
    browser = site.reader()
    onset = site.api().get(f"/v1{address}").json()["onset_at"]
    token = Document.of(browser.get(address)).form_token
    day = onset[:8] + f"{int(onset[8:10]) + 1:02}"
    form = {"token": token, "project": "research", "why": "later", "verdict": "real", "onset": day}
    assert browser.post(f"{address.partition('?')[0]}/triage", data=form).status_code == 303
    assert site.api().get(f"/v1{address}").json()["onset_at"] == f"{day}T00:00:00.000000Z"


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


def _compiling_job(name: str, hours_ago: int, minutes: int) -> list[dict[str, object]]:
    start = NOW - timedelta(hours=hours_ago)
    middle = start + timedelta(minutes=minutes)
    end = middle + timedelta(hours=1)
    place = {"job": name, "attempt": 0}
    return [
        {"type": "job", "at": instant(start), "cluster": "a", "model": "llm-70b", **place},
        {"type": "phase_started", "phase": "pt2_compile", "at": instant(start), **place},
        {"type": "phase_ended", "phase": "pt2_compile", "at": instant(middle), **place},
        {"type": "phase_started", "phase": "train_loop", "at": instant(middle), **place},
        {"type": "attempt_ended", "outcome": "completed", "at": instant(end), **place},
    ]


def test_each_attempt_is_a_point_that_leads_to_it(site: Site) -> None:
    key = site.key(project="points")
    for name, hours_ago, minutes in (("old", 40, 8), ("new", 4, 13)):
        site.ingest(_compiling_job(name, hours_ago, minutes), key)
    now_us = us_of(instant(NOW))
    project_id = site.state.store.write(lambda conn: create_project(conn, "points", now_us))
    made = _around(finding(), now_us)
    (regression,) = fires(site.state.store, project_id, made, at_us=now_us)
    page = Document.of(site.reader(key).get(f"/regressions/{regression}"))
    values = site.api(key).get(f"/v1/regressions/{regression}/values").json()["values"]
    assert [each["job"] for each in values] == ["old", "new"]
    titles = {each.text for each in page.all("title")}
    assert {"old, attempt 0: 8m 00s", "new, attempt 0: 13m 00s"} <= titles
    assert "/jobs/old/attempts/0?project=points" in page.links
    points = [each for each in page.all("a") if each.attributes.get("tabindex") == "-1"]
    assert len(points) == 2, "the tab key passes by points, whose table has them"
    assert "1 attempts before the onset, 1 after it." in page.text_of("main")


def _around(made: Finding, now_us: int) -> Finding:
    """Return the finding with an onset ten hours ago."""
    onset = now_us - 10 * HOUR
    before = replace(made.before, from_us=onset - 40 * HOUR, to_us=onset)
    after = replace(made.after, from_us=onset, to_us=now_us)
    return replace(made, onset_us=onset, before=before, after=after)
