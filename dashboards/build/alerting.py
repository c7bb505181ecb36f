"""The alerts as Grafana's own: the same rules, evaluated by Grafana instead of Prometheus."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from ett_service.metrics.rules.files import groups
from ett_service.metrics.rules.rule import Alert, Group, Links, Objective, Scale

COPY = "provisioning/alerting/ett.yaml.disabled"
"""Its path below ``dashboards/``; Grafana does not load a file of that name."""

FOLDER = "ETT alerts"
DATASOURCE_UID = "ett-prometheus"
"""Alerts cannot use a variable; ``provisioning/datasources/ett.yaml`` sets this uid."""

EXPRESSIONS_UID = "__expr__"
"""Grafana's name for its own arithmetic."""

_HEAD = """\
# Written by `python -m dashboards.build`; change that, not this.
#
# The alerts of ../../rules/alerts.yaml once more, evaluated by Grafana and sent by its contact
# points. Enable either these or those of Prometheus, never both: every page would come twice. To
# enable these, copy this file to ett.yaml in Grafana's provisioning/alerting and take alerts.yaml
# out of Prometheus; recording.yaml stays there, as the expressions read it.
"""

_LOOKBACK_SECONDS = 600
_VALUE = re.compile(r"\$value\b")
_LABELS = re.compile(r"\$labels\b")


def alerting(objective: Objective, links: Links) -> str:
    """Return the text of the file that Grafana provisions its alerts from."""
    document = {
        "apiVersion": 1,
        "groups": [
            _group(group, links)
            for of_file in groups(objective).values()
            for group in of_file
            if any(isinstance(rule, Alert) for rule in group.rules)
        ],
    }
    return _HEAD + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _group(group: Group, links: Links) -> dict[str, Any]:
    alerts = [rule for rule in group.rules if isinstance(rule, Alert)]
    return {
        "orgId": 1,
        "name": group.name,
        "folder": FOLDER,
        "interval": group.interval,
        "rules": [_rule(alert, links) for alert in alerts],
    }


def _rule(alert: Alert, links: Links) -> dict[str, Any]:
    plain: Any = alert.plain(Scale(), links)
    return {
        "uid": alert.alert.lower(),
        "title": alert.alert,
        "condition": "C",
        "data": list(_steps(alert.expr)),
        # An expression of Prometheus answers only while it holds.
        "noDataState": "OK",
        "execErrState": "Error",
        "for": alert.wait or "0s",
        "keepFiringFor": alert.hold or "0s",
        "annotations": {name: _templated(text) for name, text in plain["annotations"].items()},
        "labels": plain["labels"],
    }


def _steps(expr: str) -> Iterator[dict[str, Any]]:
    """Yield the query, and what makes any value of it, 0 too, a reason to fire."""
    query = {"expr": expr, "instant": True, "range": False}
    anything = "is_number($A) || is_nan($A) || is_inf($A)"
    above = {"type": "gt", "params": [0]}
    yield _step("A", DATASOURCE_UID, query)
    yield _step("B", EXPRESSIONS_UID, {"type": "math", "expression": anything})
    yield _step(
        "C",
        EXPRESSIONS_UID,
        {"type": "threshold", "expression": "B", "conditions": [{"evaluator": above}]},
    )


def _step(letter: str, datasource: str, model: dict[str, Any]) -> dict[str, Any]:
    return {
        "refId": letter,
        "relativeTimeRange": {"from": _LOOKBACK_SECONDS, "to": 0},
        "datasourceUid": datasource,
        "model": {"refId": letter, **model},
    }


def _templated(text: str) -> str:
    """Return a template of Prometheus as one of Grafana.

    Provisioning would take what follows a dollar for the name of an environment variable.
    """
    return _LABELS.sub(".Labels", _VALUE.sub(".Values.A.Value", text))
