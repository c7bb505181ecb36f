"""The API's page works without network and without a script inside it."""

import re

import pytest

from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.servers.application import Service

pytestmark = ON_ONE_ENGINE


def test_the_page_loads_nothing_from_elsewhere_and_runs_no_inline_script(
    service: Service,
) -> None:
    page = service.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self';" in page.headers["content-security-policy"]
    assert re.findall(r"<script(?![^>]*\bsrc=)", page.text) == []
    assert re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page.text) == []
    for reference in re.findall(r"""(?:src|href)=["']((?!data:)[^"']+)["']""", page.text):
        assert service.client.get(f"/{reference}").status_code == 200, reference


def test_the_page_reads_the_description_of_this_service(service: Service) -> None:
    script = service.client.get("/docs/docs.js")
    assert 'url: "openapi.json"' in script.text
    assert script.headers["content-type"].startswith("text/javascript")
    assert "/v1/events" in service.get("/openapi.json")["paths"]


def test_the_description_is_written_once_and_not_sent_to_who_has_it(service: Service) -> None:
    first, second = (service.client.get("/openapi.json") for _ in range(2))
    assert first.content == second.content
    tag = first.headers["etag"]
    for sent in (tag, f'"other", W/{tag}'):
        answer = service.client.get("/openapi.json", headers={"If-None-Match": sent})
        assert (answer.status_code, answer.content) == (304, b"")
    answer = service.client.get("/openapi.json", headers={"If-None-Match": '"other"'})
    assert answer.status_code == 200


@pytest.mark.parametrize("address", ["/docs/runbooks/", "/docs/runbooks"])
def test_the_index_of_runbooks_leads_to_each(address: str, service: Service) -> None:
    index = service.client.get(address, follow_redirects=True)
    assert index.status_code == 200
    pages = re.findall(r"\]\((ett\w+\.md)\)", index.text)
    assert "ettdown.md" in pages
    for page in pages:
        assert service.client.get(str(index.url.join(page))).status_code == 200, page


def test_there_is_no_other_asset_and_no_redoc(service: Service) -> None:
    for path in ("/docs/redoc.standalone.js", "/docs/..%2F..%2Fapp.py", "/redoc"):
        assert service.client.get(path).status_code in (404, 422)


def test_runbooks_are_where_alerts_link_to(service: Service) -> None:
    for alert in ("ettdown", "ettregressionactive"):
        runbook = service.client.get(f"/docs/runbooks/{alert}.md")
        assert runbook.status_code == 200
        assert runbook.headers["content-type"].startswith("text/plain")
        assert runbook.text.lower().startswith(f"# {alert}")
    nothing = service.client.get("/docs/runbooks/ettnothing.md")
    assert nothing.status_code == 404
    assert "/docs/runbooks/ lists them" in nothing.json()["detail"]
    for path in ("/docs/runbooks/..%2F..%2FREADME.md", "/docs/runbooks/README"):
        assert service.client.get(path).status_code in (404, 422)
