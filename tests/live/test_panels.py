"""Every panel over Prometheus answers, on a fleet that lives."""

import time
from collections.abc import Iterator, Sequence
from math import isnan

import pytest

from dashboards.build import PACKS
from dashboards.build.kit import Dashboard, Panel, Source
from dashboards.build.prometheus.regressions import REGRESSIONS
from tests.builders.servers.grafana import Range, Viewer
from tests.builders.servers.prometheus import Sample
from tests.live.conftest import Live, Troubled

pytestmark = [pytest.mark.xdist_group("live"), pytest.mark.timeout(1800)]

DASHBOARDS = [
    dashboard
    for pack in PACKS
    for dashboard in pack.dashboards
    if dashboard.source is Source.PROMETHEUS
]
_A_LOOK_S = 30


def _unanswered(viewer: Viewer, dashboard: Dashboard) -> Iterator[tuple[str, str]]:
    chosen = viewer.chosen(dashboard)
    for panel in dashboard.panels:
        for query in panel.queries:
            found = viewer.ask(query, chosen)
            if panel.needs_data and not query.may_be_empty and not _has_a_number(found):
                yield panel.title, query.text


def _has_a_number(found: Sequence[Sample]) -> bool:
    return any(not isnan(value) for one in found for _, value in one.points)


@pytest.mark.parametrize(
    "dashboard",
    [dashboard for dashboard in DASHBOARDS if dashboard is not REGRESSIONS],
    ids=lambda dashboard: dashboard.uid,
)
def test_every_query_of_a_panel_that_needs_data_has_an_answer(
    live: Live, dashboard: Dashboard
) -> None:
    viewer = Viewer(live.prometheus, Range.of(dashboard, live.ended_us / 1e6))
    assert list(_unanswered(viewer, dashboard)) == []


def test_every_panel_about_regressions_has_an_answer_where_one_is_found(
    troubled: Troubled,
) -> None:
    for name in ("EttRegressionActive", "EttWebhookFailing"):
        troubled.receiver.hears(name, troubled.patience_s, stack="troubled")
    viewer = Viewer(troubled.prometheus, Range.of(REGRESSIONS, time.time()))
    assert list(_unanswered(viewer, REGRESSIONS)) == []


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_a_look_at_half_a_minute_and_one_value_of_each_variable_is_understood(
    live: Live, dashboard: Dashboard
) -> None:
    end_s = live.ended_us / 1e6
    viewer = Viewer(live.prometheus, Range(end_s - _A_LOOK_S, end_s))
    chosen = viewer.chosen(dashboard, single=True)
    for panel in dashboard.panels:
        for query in panel.queries:
            viewer.ask(query, chosen)
    for annotation in dashboard.annotations:
        viewer.prometheus.query(viewer.filled(annotation.query, chosen), end_s)


def test_nine_panels_of_ten_need_data() -> None:
    panels: list[Panel] = [panel for dashboard in DASHBOARDS for panel in dashboard.panels]
    assert len(panels) >= 30
    assert sum(panel.needs_data for panel in panels) >= 0.9 * len(panels)
