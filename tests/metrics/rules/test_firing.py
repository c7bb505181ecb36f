"""The files below dashboards/rules/tests, as promtool runs them, and that they leave no gap."""

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ett_service.metrics.rules.files import groups
from ett_service.metrics.rules.rule import Alert, Objective
from tests.builders.servers.programs import needed

TESTS = Path(__file__).parents[3] / "dashboards" / "rules" / "tests"
FILES = sorted(TESTS.glob("*.yaml"))
ALWAYS = {"EttWatchdog"}
"""It would be worth nothing if it were ever quiet."""

ALERTS = [
    rule
    for of_file in groups(Objective()).values()
    for group in of_file
    for rule in group.rules
    if isinstance(rule, Alert)
]


@cache
def _contents(path: Path) -> Any:
    return yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)


def _looks(alert: str) -> list[list[dict[str, Any]]]:
    """Return what each test expects of the alert, in the order of time."""
    tests = [test for path in FILES for test in _contents(path)["tests"]]
    looks = [
        [look for look in test.get("alert_rule_test", ()) if look["alertname"] == alert]
        for test in tests
    ]
    return [look for look in looks if look]


def _cases() -> Iterator[Any]:
    for path in FILES:
        lasts_days = path.stem.startswith(("budget_burn", "failure_rate", "recording"))
        yield pytest.param(path, id=path.stem, marks=[pytest.mark.long] if lasts_days else [])


@pytest.mark.parametrize("path", [*_cases()])
def test_rules_do_what_the_file_says(path: Path) -> None:
    promtool = needed("promtool", "prometheus")
    done = subprocess.run(
        [promtool, "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.alert)
def test_each_alert_is_seen_to_fire_and_the_moment_before_not_to(alert: Alert) -> None:
    fired = [test for test in _looks(alert.alert) if any(look["exp_alerts"] for look in test)]
    assert fired
    if alert.alert not in ALWAYS:
        assert all(not test[0]["exp_alerts"] for test in fired)


@pytest.mark.parametrize(
    "alert", [alert for alert in ALERTS if alert.alert not in ALWAYS], ids=lambda alert: alert.alert
)
def test_each_alert_has_a_test_in_which_it_nearly_fires(alert: Alert) -> None:
    named = [test for test in _looks(alert.alert) if not any(look["exp_alerts"] for look in test)]
    assert [test for test in named if len(test) > 1]


def test_every_group_of_rules_has_its_place_in_the_order_of_the_tests() -> None:
    """Groups that are not named would run in any order, and see what others wrote a minute ago."""
    names = [group.name for of_file in groups(Objective()).values() for group in of_file]
    for path in FILES:
        cases = _contents(path)
        if "../recording.yaml" in cases["rule_files"]:
            assert cases["group_eval_order"] == names, path.name
