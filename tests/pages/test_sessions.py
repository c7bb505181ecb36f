"""Who signs in sees what the key may see, until the key is revoked."""

import pytest

from ett_service.storage.record.keys import PREFIX_LENGTH, revoke_key
from ett_service.storage.record.sessions import LIFETIME_US
from tests.builders.servers.site import Document, Site


def test_without_a_session_every_page_leads_to_the_sign_in(site: Site) -> None:
    browser = site.visitor()
    for path in (
        "/",
        "/jobs",
        "/jobs/live-failed",
        "/regressions",
        "/definitions",
        "/data/v1/jobs",
    ):
        answer = browser.get(path)
        assert answer.status_code == 303, path
        assert answer.headers["location"].startswith("/sign-in"), path
    assert browser.get("/jobs?q=x").headers["location"] == "/sign-in?next=%2Fjobs%3Fq%3Dx"


def test_the_cookie_is_hidden_from_scripts_and_holds_no_part_of_the_key(site: Site) -> None:
    key = site.key()
    answer = site.visitor().post("/sign-in", data={"key": key, "next": "/jobs"})
    assert answer.headers["location"] == "/jobs"
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
    assert key[:PREFIX_LENGTH] not in cookie


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "/\\evil.example"])
def test_signing_in_never_leads_to_another_site(site: Site, target: str) -> None:
    answer = site.visitor().post("/sign-in", data={"key": site.key(), "next": target})
    assert answer.headers["location"] == "/"


def test_over_https_the_cookie_is_bound_to_the_host(site: Site) -> None:
    headers = {"Host": "ett.example", "X-Forwarded-Proto": "https"}
    answer = site.visitor().post("/sign-in", data={"key": site.key()}, headers=headers)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-ett=")
    assert "Secure" in cookie.split("; ")


def test_plain_http_beyond_this_machine_gets_no_cookie(site: Site) -> None:
    headers = {"Host": "ett.example"}
    answer = site.visitor().post("/sign-in", data={"key": site.key()}, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert "HTTPS" in Document.of(answer, 403).text_of("p", role="alert")


def test_a_wrong_key_and_one_that_only_sends_are_refused(site: Site) -> None:
    browser = site.visitor()
    assert browser.post("/sign-in", data={"key": "ett_nonsense"}).status_code == 401
    answer = browser.post("/sign-in", data={"key": site.key(["write"])})
    assert "may not read" in Document.of(answer, 403).text_of("p", role="alert")


def test_the_session_ends_with_its_key(site: Site) -> None:
    key = site.key()
    browser = site.reader(key)
    assert browser.get("/jobs").status_code == 200
    now_us = site.clock.now_us
    site.state.store.write(lambda conn: revoke_key(conn, key[:PREFIX_LENGTH], now_us))
    assert browser.get("/jobs").status_code == 303


def test_the_session_ends_with_its_time(site: Site) -> None:
    browser = site.reader()
    site.clock.now_us += LIFETIME_US
    try:
        assert browser.get("/definitions").status_code == 303
    finally:
        site.clock.now_us -= LIFETIME_US


def test_a_forged_cookie_is_none(site: Site) -> None:
    browser = site.visitor()
    port = site.url.rpartition(":")[2]
    for text in ("x", "gAAAAAB" + "a" * 80, "é"):
        browser.cookies.set(f"ett-{port}", text.encode("ascii", "ignore").decode())
        assert browser.get("/jobs").status_code == 303


def test_signing_out_takes_the_cookie(site: Site) -> None:
    browser = site.reader()
    token = Document.of(browser.get("/definitions")).form_token
    assert browser.post("/sign-out", data={"token": token}).status_code == 303
    assert browser.get("/definitions").status_code == 303


def test_a_link_signs_in_once(site: Site) -> None:
    key = site.key()
    link = f"/sign-in?ticket={site.state.sessions.ticket(key[:PREFIX_LENGTH])}"
    first, second = site.visitor(), site.visitor()
    assert first.get(link).headers["location"] == "/"
    assert first.get("/definitions").status_code == 200
    assert "used before" in Document.of(second.get(link), 403).text_of("p", role="alert")


def test_a_link_signs_in_on_this_machine_alone(site: Site) -> None:
    ticket = site.state.sessions.ticket(site.key()[:PREFIX_LENGTH])
    headers = {"Host": "ett.example", "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.9"}
    answer = site.visitor().get(f"/sign-in?ticket={ticket}", headers=headers)
    assert answer.status_code == 403
    assert site.visitor().get(f"/sign-in?ticket={ticket}").status_code == 303, "it was used up"


@pytest.mark.parametrize(
    ("headers", "carried", "status"),
    [
        ({}, "own", 303),
        ({"Origin": "own", "Sec-Fetch-Site": "same-origin"}, "own", 303),
        ({}, "", 403),
        ({}, "0" * 64, 403),
        ({"Origin": "https://evil.example"}, "own", 403),
        ({"Origin": "null"}, "own", 403),
        ({"Sec-Fetch-Site": "cross-site"}, "own", 403),
        ({"Sec-Fetch-Site": "same-site"}, "own", 403),
    ],
)
def test_only_a_form_of_the_own_page_writes(
    site: Site, headers: dict[str, str], carried: str, status: int
) -> None:
    browser = site.reader()
    token = Document.of(browser.get("/definitions")).form_token if carried == "own" else carried
    sent = {name: site.url if text == "own" else text for name, text in headers.items()}
    answer = browser.post("/sign-out", data={"token": token}, headers=sent)
    assert answer.status_code == status


def test_another_site_cannot_sign_a_browser_in(site: Site) -> None:
    headers = {"Origin": "https://evil.example"}
    answer = site.visitor().post("/sign-in", data={"key": site.key()}, headers=headers)
    assert answer.status_code == 403


def test_another_projects_pages_do_not_exist(site: Site) -> None:
    browser = site.reader(site.key(["read", "write"], "other"))
    assert browser.get("/jobs/live-failed").status_code == 404
    assert browser.get("/jobs/live-failed?project=research").status_code == 404
    assert browser.get("/data/v1/jobs/live-failed?project=research").status_code == 404
    page = Document.of(browser.get("/"))
    assert "Nothing is recorded yet" in page.text_of("h1")


def test_a_long_form_is_refused(site: Site) -> None:
    answer = site.visitor().post("/sign-in", content=b"key=" + b"x" * 100_000)
    assert answer.status_code == 413
