"""Settings are for administrators; others are not told that they exist."""

from ett_service.storage.record.keys import PREFIX_LENGTH
from tests.builders.servers.site import Document, Site


def test_a_reader_sees_no_settings(site: Site) -> None:
    browser = site.reader(site.key(["read", "fleet"]))
    assert "/settings" not in Document.of(browser.get("/definitions")).links
    assert browser.get("/settings").status_code == 404
    token = Document.of(browser.get("/definitions")).form_token
    form = {"token": token, "project": "x", "name": "x", "scopes": "admin"}
    assert browser.post("/settings/keys", data=form).status_code == 404


def test_a_key_is_made_shown_once_and_revoked(site: Site) -> None:
    browser = site.reader()
    form = {
        "token": Document.of(browser.get("/settings")).form_token,
        "project": "research",
        "name": "<i>new",
        "scopes": "write read",
    }
    made = Document.of(browser.post("/settings/keys", data=form))
    key = made.all("code")[0].text
    assert site.reader(key).get("/definitions").status_code == 200
    prefix = key[:PREFIX_LENGTH]
    page = Document.of(browser.get("/settings"))
    assert key not in page.text_of("main")
    assert prefix in page.text_of("main")
    answer = browser.post(f"/settings/keys/{prefix}/revoke", data={"token": form["token"]})
    assert answer.status_code == 303
    assert site.api().get("/v1/jobs", headers={"Authorization": f"Bearer {key}"}).status_code == 401


def test_receivers_and_mutes_are_those_of_the_api(site: Site) -> None:
    page = Document.of(site.reader().get("/settings"))
    shown = {each.text.strip() for each in page.all("th", scope="row")}
    receivers = site.api().get("/v1/receivers").json()["receivers"]
    assert receivers
    assert {receiver["name"] for receiver in receivers} <= shown
    cells = {each.text.strip() for each in page.all("td")}
    mutes = site.api().get("/v1/regressions/mutes").json()["mutes"]
    assert {mute["why"] for mute in mutes} <= cells


def test_a_test_message_that_cannot_be_sent_is_refused(site: Site) -> None:
    browser = site.reader()
    token = Document.of(browser.get("/settings")).form_token
    answer = browser.post("/settings/receivers/none/test", data={"token": token})
    assert answer.status_code == 404


def test_a_key_is_rotated_and_what_was_done_is_listed(site: Site) -> None:
    browser = site.reader()
    token = Document.of(browser.get("/settings")).form_token
    prefix = site.key(["read"])[:PREFIX_LENGTH]
    made = Document.of(browser.post(f"/settings/keys/{prefix}/rotate", data={"token": token}))
    key = made.all("code")[0].text
    assert site.reader(key).get("/definitions").status_code == 200
    page = Document.of(browser.get("/settings"))
    assert key not in page.text_of("main")
    assert f"replaced by {key[:PREFIX_LENGTH]}" in page.text_of("main")
    cells = [each.text.strip() for each in page.all("td")]
    assert "key rotated" in cells
    (entry,) = site.api().get("/v1/audit", params={"target": prefix}).json()["entries"]
    assert entry["made_via"] == "page"
