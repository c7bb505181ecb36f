"""Pages lead to the dashboards that show the same, where the settings say where those are."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.builders.servers.site import Document, Site
from tests.dashboards.files import UIDS, written
from tests.pages.conftest import GRAFANA


@pytest.mark.parametrize("path", ["/", "/jobs/live-failed", "/checkpoints", "/regressions"])
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
        assert int(query["from"][0]) < int(query["to"][0])


def test_without_one_there_is_no_link(empty_site: Site) -> None:
    page = Document.of(empty_site.reader().get("/regressions"))
    assert not [link for link in page.links if link.startswith("http")]
