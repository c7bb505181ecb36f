"""Pages lead to the dashboards that show the same, where the settings say where those are."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.builders.servers.site import Document, Site
from tests.dashboards.files import UIDS, written
from tests.pages.conftest import GRAFANA


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/jobs",
        "/jobs/live-failed",
        "/jobs/live-failed/attempts/0",
        "/jobs/live-failed/compile",
        "/checkpoints",
        "/regressions",
        "/changes",
        "/what-if",
        "/quality",
        "/compare",
    ],
)
def test_a_page_leads_to_a_dashboard_that_there_is(site: Site, path: str) -> None:
    page = Document.of(site.reader().get(path))
    (link,) = [link for link in page.links if link.startswith(GRAFANA)]
    uid = urlsplit(link).path.rpartition("/")[2]
    assert link.startswith(f"{GRAFANA}/d/{uid}")
    assert uid in UIDS
    variables = {variable["name"] for variable in written(uid)["templating"]["list"]}
    query = parse_qs(urlsplit(link).query)
    assert {name.removeprefix("var-") for name in query if name.startswith("var-")} <= variables
    if path.startswith("/jobs/"):
        assert query["var-job"] == ["live-failed"]
        assert path != "/jobs/live-failed" or int(query["from"][0]) < int(query["to"][0])


@pytest.mark.parametrize("uid", sorted(UIDS))
def test_every_dashboard_leads_to_a_page(uid: str) -> None:
    board = written(uid)
    assert "ett_url" in {variable["name"] for variable in board["templating"]["list"]}
    assert "${ett_url}" in json.dumps(board["links"]) + json.dumps(board["panels"])


def test_without_one_there_is_no_link(empty_site: Site) -> None:
    page = Document.of(empty_site.reader().get("/regressions"))
    assert not [link for link in page.links if link.startswith("http")]
