"""Panels explain themselves to a reader, and name nothing of one installation."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from dashboards.build import PACKS
from dashboards.build.kit import Source
from tests.dashboards.files import UIDS, drawn, within, written

SOURCES = {dashboard.uid: dashboard.source.value for pack in PACKS for dashboard in pack.dashboards}
REFRESHES = {"1m", "2m", "5m"}


def faults(content: dict[str, Any], uid: str) -> Iterator[str]:
    """Yield what is wrong with a dashboard as Grafana loads it."""
    if content["uid"] != uid or content.get("id") is not None or "version" in content:
        yield "it is known by something else than its uid"
    if content["editable"]:
        yield "it can be edited away from its program"
    if content["refresh"] not in REFRESHES:
        yield "it asks too often, or never again"
    if "ett" not in content["tags"] or not content["title"].endswith("?"):
        yield "it has no question for a title, or no tag to be found by"
    numbers = [panel["id"] for panel in content["panels"]]
    if numbers != list(range(1, len(numbers) + 1)):
        yield "panels are not numbered in their order"
    yield from foreign(content, SOURCES[uid])
    for panel in drawn(content):
        yield from unexplained(panel)


def foreign(content: dict[str, Any], source: str) -> Iterator[str]:
    """Yield each use of a datasource other than the reader's."""
    for datasource in within(content, "datasource"):
        if datasource != {"type": source, "uid": "${datasource}"}:
            yield f"it asks {datasource}"
    if not any(
        variable["name"] == "datasource" and variable["query"] == source
        for variable in content["templating"]["list"]
    ):
        yield "the reader cannot choose the datasource"


def unexplained(panel: dict[str, Any]) -> Iterator[str]:
    """Yield what a panel does not explain to its reader."""
    defaults = panel["fieldConfig"]["defaults"]
    texts = {"title": panel.get("title"), "description": panel.get("description")}
    texts["unit"] = defaults.get("unit")
    texts["query"] = panel.get("targets")
    yield from (f"{panel.get('title')!r} has no {name}" for name, text in texts.items() if not text)
    if not (panel.get("description") or ".").endswith("."):
        yield f"{panel['title']!r} is not described in sentences"
    if any("datasource" not in target for target in panel.get("targets", ())):
        yield f"{panel['title']!r} asks whatever is there"


@pytest.mark.parametrize("uid", UIDS)
def test_a_dashboard_is_explained_and_bound_to_nothing(uid: str) -> None:
    assert list(faults(written(uid), uid)) == []


def _planted() -> Iterator[tuple[str, dict[str, Any]]]:
    sound = written("ett-fleet")
    for name, value in {
        "editable": True, "refresh": "5s", "id": 7, "version": 3, "uid": "x", "title": "ETT",
        "tags": [],
    }.items():  # fmt: skip
        yield name, {**sound, name: value}
    for name in ("title", "description", "targets", "datasource", "id"):
        broken = deepcopy(sound)
        broken["panels"][1][name] = None
        yield f"panel {name}", broken
    broken = deepcopy(sound)
    del broken["panels"][1]["fieldConfig"]["defaults"]["unit"]
    yield "panel unit", broken
    broken = deepcopy(sound)
    broken["annotations"]["list"][0]["datasource"]["uid"] = "prometheus-1"
    yield "annotation", broken


@pytest.mark.parametrize("broken", [pytest.param(mark, id=name) for name, mark in _planted()])
def test_a_fault_would_be_seen(broken: dict[str, Any]) -> None:
    if broken["panels"][1].get("targets") is None:
        broken["panels"][1]["targets"] = []
    assert list(faults(broken, "ett-fleet")) != []


def test_uids_and_titles_are_used_once() -> None:
    titles = [written(uid)["title"] for uid in UIDS]
    assert len(set(UIDS)) == len(UIDS)
    assert len(set(titles)) == len(titles)


def test_both_kinds_of_datasource_have_dashboards() -> None:
    assert set(SOURCES.values()) == {source.value for source in Source}


def test_nine_panels_of_ten_need_data_and_the_others_say_why_not() -> None:
    panels = [
        panel for pack in PACKS for dashboard in pack.dashboards for panel in dashboard.panels
    ]
    excused = [panel.may_be_empty for panel in panels if not panel.needs_data]
    assert len(excused) <= 0.1 * len(panels)
    assert [reason for reason in excused if not reason.endswith(".")] == []
