"""Where nothing is, a browser is led back, and a client of the API reads a problem."""

import re

from tests.builders.servers.site import Document, Site

HTML = {"Accept": "text/html,application/xhtml+xml"}


def test_a_browser_reads_so_in_the_products_own_words(site: Site) -> None:
    answer = site.reader().get("/nowhere/<b>", headers=HTML)
    page = Document.of(answer, 404)
    assert page.text_of("h1") == "Not found"
    assert "There is no page at /nowhere/<b>." in page.text_of("main")
    assert {"/", "/jobs"} <= set(page.links)


def test_who_is_not_signed_in_may_sign_in(site: Site) -> None:
    page = Document.of(site.visitor().get("/nowhere", headers=HTML), 404)
    assert "/sign-in" in page.links


def test_clients_of_the_api_get_its_problems(site: Site) -> None:
    client = site.api()
    for path in ("/nowhere", "/v1/nowhere"):
        assert client.get(path).headers["content-type"] == "application/problem+json"
    assert client.get("/v1/nowhere", headers=HTML).json()["status"] == 404
    assert client.get("/v1/events", headers=HTML).status_code == 405


def test_a_browser_finds_every_page_that_there_is(site: Site) -> None:
    browser = site.reader()
    for path in ("/", "/jobs", "/regressions", "/changes", "/checkpoints", "/compare", "/quality"):
        assert browser.get(path, headers=HTML).status_code == 200, path


def test_a_client_is_told_where_the_routes_are_listed(site: Site) -> None:
    client = site.api()
    detail = client.get("/v1/nowhere").json()["detail"]
    assert detail.startswith("There is no such route.")
    assert "/v1/events" in client.get("/openapi.json").json()["paths"]
    lists = re.findall(r"/[a-z.]+", detail)
    assert lists == ["/docs", "/openapi.json"]
    assert [client.get(each).status_code for each in lists] == [200, 200]
