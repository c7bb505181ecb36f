"""Every panel over Prometheus answers, on a fleet that lives."""

import pytest

from dashboards.build import PACKS
from dashboards.build.kit import Dashboard, Panel, Source
from dashboards.build.prometheus.regressions import REGRESSIONS
from tests.builders.servers.grafana import Range, Viewer
from tests.live.conftest import Live

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("live"), pytest.mark.timeout(1800)]

DASHBOARDS = [
    dashboard
    for pack in PACKS
    for dashboard in pack.dashboards
    if dashboard.source is Source.PROMETHEUS
]
_A_LOOK_S = 30


@pytest.mark.parametrize(
    "dashboard",
    [dashboard for dashboard in DASHBOARDS if dashboard is not REGRESSIONS],
    ids=lambda dashboard: dashboard.uid,
)
def test_every_query_of_a_panel_that_needs_data_has_an_answer(
    live: Live, dashboard: Dashboard
) -> None:
    viewer = Viewer(live.prometheus, Range.of(dashboard, live.looked_us / 1e6))
    assert list(viewer.unanswered(dashboard)) == []


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_a_look_at_half_a_minute_and_one_value_of_each_variable_is_understood(
    live: Live, dashboard: Dashboard
) -> None:
    end_s = live.looked_us / 1e6
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
