"""The committed files are what `ett rules` writes, and Prometheus can use them."""

import re
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from ett_service.metrics.families import COUNTERS, GAUGES, OWN, Family, Kind
from ett_service.metrics.rules.files import files, groups, one_file, prometheus_rule
from ett_service.metrics.rules.rule import COMPOSE, Alert, Objective, Recording, Scale
from tests.builders.servers.programs import needed

ROOT = Path(__file__).parents[3]
RULES = ROOT / "dashboards" / "rules"
OF_PROMETHEUS = {"up", "process_start_time_seconds"}
SECTIONS = (
    "Meaning", "Impact", "Confirm", "Usual causes", "What to do", "Silence", "Afterwards",
)  # fmt: skip

_TEXT = re.compile(r'"[^"]*"')
_LABELS = re.compile(
    r"\{[^}]*\}|\[[^\]]*\]|\b(?:without|ignoring|group_left|group_right) \([^)]*\)"
)
_DURATION = re.compile(r"\boffset \w+")
_NAME = re.compile(r"\b[a-zA-Z_:][\w:]*\b(?!\s*\()")
_OPERATORS = {"and", "or", "unless"}


def _rules() -> Iterator[Recording | Alert]:
    for of_file in groups(Objective()).values():
        for group in of_file:
            yield from group.rules


def _alerts() -> list[Alert]:
    return [rule for rule in _rules() if isinstance(rule, Alert)]


def metrics(expr: str) -> set[str]:
    """Return the names of the series that an expression reads."""
    bare = _DURATION.sub(" ", _LABELS.sub(" ", _TEXT.sub('""', expr)))
    return set(_NAME.findall(bare)) - _OPERATORS


def _samples(family: Family) -> set[str]:
    parts = ("_bucket", "_sum", "_count") if family.kind is Kind.HISTOGRAM else ("",)
    return {family.name + part for part in parts}


def known_metrics() -> set[str]:
    """Return the name of every sample that Prometheus can have of the service."""
    exposed = (_samples(family) for family in (*COUNTERS, *GAUGES, *OWN))
    recorded = {rule.record for rule in _rules() if isinstance(rule, Recording)}
    return OF_PROMETHEUS.union(recorded, *exposed)


def test_the_committed_files_are_what_the_command_writes() -> None:
    written = files(Objective(), COMPOSE)
    assert {name: (RULES / name).read_text("utf-8") for name in written} == written


@pytest.mark.parametrize("scale", [1, 60])
def test_prometheus_takes_the_rules(scale: int, tmp_path: Path) -> None:
    promtool = needed("promtool", "prometheus")
    written = files(Objective(Fraction("0.85")), COMPOSE, Scale(scale))
    for name in ("recording.yaml", "alerts.yaml"):
        (tmp_path / name).write_text(written[name], "utf-8")
    (tmp_path / "all.yaml").write_text(one_file(Objective(), COMPOSE), "utf-8")
    checked = subprocess.run(
        [promtool, "check", "rules", "--lint-fatal", *sorted(tmp_path.iterdir())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("SUCCESS") == 3


def test_a_scale_divides_every_duration_and_moves_no_name() -> None:
    plain, scaled = (files(Objective(), COMPOSE, Scale(by)) for by in (1, 60))
    for name in ("recording.yaml", "alerts.yaml"):
        names = [re.findall(r"(?:record|alert): \S+", text[name]) for text in (plain, scaled)]
        assert names[0] == names[1]
        lengths = [
            re.findall(r"(?:for|interval): (\w+)|\[(\w+)\]", t[name]) for t in (plain, scaled)
        ]
        assert len(lengths[0]) == len(lengths[1])
        for before, after in zip(*lengths, strict=True):
            assert Scale(60).text("".join(before)) == "".join(after)


def test_rules_read_only_what_is_exposed_or_was_recorded_before() -> None:
    readable = known_metrics() - {rule.record for rule in _rules() if isinstance(rule, Recording)}
    for rule in _rules():
        assert metrics(rule.expr) <= readable, rule
        if isinstance(rule, Recording):
            readable.add(rule.record)


def test_fleet_metrics_are_merged_over_replicas_before_anything_else() -> None:
    of_fleet = set().union(*(_samples(family) for family in (*COUNTERS, *GAUGES)))
    for rule in _rules():
        for metric in metrics(rule.expr) & of_fleet:
            bare = rf"{metric}(?:\{{[^}}]*\}})?(?:\[\w+\])?"
            merged = rf"max without \(instance, pod\) \((?:(?:max|last)_over_time\()?{bare}\)"
            assert len(re.findall(merged, rule.expr)) == len(re.findall(rf"\b{bare}", rule.expr))


def test_rules_name_the_labels_that_they_drop_and_not_those_that_they_keep() -> None:
    assert [rule for rule in _rules() if re.search(r"\b(by|on) ?\(", rule.expr)] == []


def test_a_rule_is_recorded_once_and_an_alert_named_once() -> None:
    names = [rule.record if isinstance(rule, Recording) else rule.alert for rule in _rules()]
    assert len(names) == len(set(names))


def test_alerts_have_a_severity_that_somebody_is_notified_of() -> None:
    severities = {alert.alert: alert.severity for alert in _alerts()}
    assert {name for name, severity in severities.items() if severity == "page"} == {
        "EttBudgetBurnFast",
        "EttDown",
        "EttIngestStalled",
    }
    assert {name for name, severity in severities.items() if severity == "none"} == {"EttWatchdog"}
    assert set(severities.values()) == {"page", "ticket", "none"}


@pytest.mark.parametrize("alert", _alerts(), ids=lambda alert: alert.alert)
def test_each_alert_has_a_page_that_says_what_to_do(alert: Alert) -> None:
    page = (ROOT / "docs" / "runbooks" / alert.runbook).read_text("utf-8")
    assert page.startswith(f"# {alert.alert}\n")
    assert tuple(re.findall(r"^## (.+)$", page, re.MULTILINE)) == SECTIONS
    index = (ROOT / "docs" / "runbooks" / "README.md").read_text("utf-8")
    assert f"[{alert.alert}]({alert.runbook})" in index


def test_there_is_no_page_of_an_alert_that_is_gone() -> None:
    pages = {path.name for path in (ROOT / "docs" / "runbooks").glob("*.md")}
    assert pages == {"README.md", *(alert.runbook for alert in _alerts())}


def test_the_operator_gets_the_same_groups_in_one_object() -> None:
    resource = yaml.safe_load(prometheus_rule(Objective(), COMPOSE))
    assert (resource["apiVersion"], resource["kind"]) == (
        "monitoring.coreos.com/v1",
        "PrometheusRule",
    )
    assert resource["spec"] == yaml.safe_load(one_file(Objective(), COMPOSE))


def test_files_are_read_as_they_were_meant() -> None:
    for name, text in files(Objective(), COMPOSE).items():
        assert "&id" not in text
        if not name.startswith("examples/"):
            plain = [group.plain(Scale(), COMPOSE) for group in groups(Objective())[name]]
            assert yaml.safe_load(text) == {"groups": plain}
