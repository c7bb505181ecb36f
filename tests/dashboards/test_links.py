"""Every link leads somewhere, with the variables that are understood there."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from ett_service.pages.site import ROUTERS
from tests.dashboards.files import UIDS, within, written

API = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())["paths"]
PAGES = [
    route.path for router in ROUTERS[:-1] for route in router.routes if isinstance(route, APIRoute)
]
PLACES = re.compile(r"\{[^{}]*\}")


def links(content: dict[str, Any]) -> Iterator[str]:
    """Yield the address of each link, of the dashboard and of values."""
    for group in within(content, "links"):
        yield from (link["url"] for link in group if link.get("url"))
    for properties in within(content, "properties"):
        for setting in properties:
            if setting["id"] == "links":
                yield from (link["url"] for link in setting["value"])


def variables(content: dict[str, Any]) -> set[str]:
    return {variable["name"] for variable in content["templating"]["list"]}


def faults(content: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the links of a dashboard."""
    for url in links(content):
        path, _, query = url.partition("?")
        used = set(re.findall(r"\$\{([A-Za-z]\w*)", url))
        if not used <= variables(content):
            yield f"{url} uses a variable that is not there"
        if path.startswith("/d/"):
            yield from _link_faults(path.removeprefix("/d/"), query)
        elif not path.startswith("${ett_url}/"):
            yield f"{url} leads out"
        elif _shape(path.removeprefix("${ett_url}")) not in set(map(_shape, [*API, *PAGES])):
            yield f"{url} is no route of the service"


def _link_faults(uid: str, query: str) -> Iterator[str]:
    if uid not in UIDS:
        yield f"there is no {uid}"
        return
    given = re.findall(r"var-(\w+)=|\$\{(\w+):queryparam\}", query)
    taken = {name or field for name, field in given}
    if not taken <= variables(written(uid)):
        yield f"{uid} has not all of {sorted(taken)}"
    if not re.search(r"\$\{__url_time_range\}|\bfrom=.*\bto=", query):
        yield f"the way to {uid} loses the time range"


def _shape(path: str) -> str:
    return PLACES.sub("{}", path.replace("$", ""))


@pytest.mark.parametrize("uid", UIDS)
def test_every_link_has_its_target(uid: str) -> None:
    assert list(faults(written(uid))) == []


@pytest.mark.parametrize(
    "url",
    [
        "/d/ett-nowhere?${__url_time_range}",
        "/d/ett-cohort?${__url_time_range}&var-model=${__field.labels.cohort:percentencode}",
        "/d/ett-cohort?${__url_time_range}&${team:queryparam}",
        "/d/ett-cohort?var-cohort=${__field.labels.cohort:percentencode}",
        "${ett_url}/v1/jobs/${__data.fields.job:percentencode}/traces",
        "${ett_url}/job/${__data.fields.job:percentencode}",
        "https://example.com/",
    ],
)
def test_a_link_that_leads_nowhere_would_be_seen(url: str) -> None:
    broken = deepcopy(written("ett-fleet"))
    broken["links"].append({"title": "x", "type": "link", "url": url})
    assert list(faults(broken)) != []


@pytest.mark.parametrize("uid", UIDS)
def test_dashboards_of_a_pack_lead_to_each_other_with_all_that_was_chosen(uid: str) -> None:
    (to_pack,) = (link for link in written(uid)["links"] if link["type"] == "dashboards")
    assert to_pack["keepTime"]
    assert to_pack["includeVars"]
    assert set(to_pack["tags"]) <= set(written(uid)["tags"])


@pytest.mark.parametrize("uid", UIDS)
def test_the_service_is_not_sent_what_it_would_refuse(uid: str) -> None:
    outside = [
        link for link in written(uid)["links"] if link.get("url", "").startswith("${ett_url}")
    ]

    assert not any(link["keepTime"] or link["includeVars"] for link in outside)
