"""Each alert is brought about by events sent to a service, and arrives at its receiver."""

import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from dashboards.build.prometheus.regressions import REGRESSIONS
from ett_service.metrics.rules.files import groups
from ett_service.metrics.rules.rule import Alert as Rule
from ett_service.metrics.rules.rule import Objective
from tests.builders.servers.grafana import Range, Viewer
from tests.live import worsened
from tests.live.alerting import Alert
from tests.live.conftest import Troubled

pytestmark = [pytest.mark.xdist_group("alerts"), pytest.mark.timeout(1800)]

#: Hours are minutes here. That each rule fires on its series is asked in `tests/metrics/rules`.
minutes = pytest.mark.long

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"

#: Where each alert is waited for, and the labels that say what it is about.
EXPECTED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "EttWatchdog": ("troubled", {"severity": "none"}),
    "EttBudgetBurnFast": ("troubled", {"severity": "page", "cluster": "troubled"}),
    "EttPhaseStuck": (
        "troubled",
        {"severity": "ticket", "cohort": "llm", "phase": "launcher_init"},
    ),
    "EttCohortSilent": ("troubled", {"severity": "ticket", "cohort": "mute"}),
    "EttIngestRejecting": ("troubled", {"severity": "ticket", "code": "unknown_type"}),
    "EttIngestStalled": ("troubled", {"severity": "page"}),
    "EttFailureRateHigh": ("troubled", {"severity": "ticket", "cause": "preemption"}),
    "EttBudgetBurnSlow": ("troubled", {"severity": "ticket", "cluster": "troubled"}),
    "EttRegressionActive": (
        "troubled",
        {"severity": "ticket", "cohort": worsened.MODEL, "phase": "launcher_init"},
    ),
    "EttWebhookFailing": ("troubled", {"severity": "ticket", "receiver": "pager"}),
    "EttAggregationLagging": ("without-worker", {"severity": "ticket"}),
    "EttDetectionStalled": ("without-worker", {"severity": "ticket"}),
}


@minutes
@pytest.mark.parametrize("name", EXPECTED)
def test_an_alert_arrives_with_all_that_who_is_called_needs(troubled: Troubled, name: str) -> None:
    stack, labels = EXPECTED[name]
    _has_good_annotations(troubled.hears(name, stack, **labels))


@minutes
def test_a_server_that_is_gone_fires_and_what_is_well_does_not(troubled: Troubled) -> None:
    stack = "without-worker"
    for name in ("EttAggregationLagging", "EttDetectionStalled"):
        troubled.hears(name, stack)
    troubled.without_worker.stop()
    _has_good_annotations(troubled.hears("EttDown", stack))
    assert troubled.receiver.names(stack) == {
        "EttAggregationLagging",
        "EttDetectionStalled",
        "EttDown",
        "EttWatchdog",
    }


@minutes
def test_every_panel_about_regressions_has_an_answer_where_one_is_found(
    troubled: Troubled,
) -> None:
    for name in ("EttRegressionActive", "EttWebhookFailing"):
        troubled.hears(name, "troubled")
    viewer = Viewer(troubled.prometheus, Range.of(REGRESSIONS, time.time()))
    assert list(viewer.unanswered(REGRESSIONS)) == []


def test_each_alert_that_there_is_was_made_to_fire() -> None:
    named = {
        rule.alert
        for of_file in groups(Objective()).values()
        for group in of_file
        for rule in group.rules
        if isinstance(rule, Rule)
    }
    assert named == {*EXPECTED, "EttDown"}


def _has_good_annotations(alert: Alert) -> None:
    name, annotations = alert["labels"]["alertname"], alert["annotations"]
    assert (RUNBOOKS / Path(annotations["runbook_url"]).name).exists()
    assert annotations["runbook_url"].endswith(f"/{name.lower()}.md")
    for text in (annotations["summary"], annotations["description"], annotations["dashboard_url"]):
        assert text
        assert not re.search(r"<no value>|\{\{|NaN|Inf", text), text
