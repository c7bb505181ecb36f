"""Prometheus and Alertmanager take what Compose mounts into them."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.servers.programs import Program, free_port, needed
from tests.deploy.conftest import ROOT, Parsed

DEPLOY = ROOT / "deploy"


@pytest.fixture
def mounted(services: Parsed, tmp_path: Path) -> Path:
    """Return a folder in which lies what Prometheus finds in `/etc/prometheus`."""
    for mount in services["prometheus"]["volumes"]:
        inside = tmp_path / mount["target"].removeprefix("/etc/prometheus/")
        if mount["type"] == "volume":
            inside = tmp_path / mount["target"].removeprefix("/etc/prometheus").strip("/")
            inside.mkdir(exist_ok=True)
        elif Path(mount["source"]).is_dir():
            shutil.copytree(mount["source"], inside)
        else:
            shutil.copy(mount["source"], inside)
    (tmp_path / "keys" / "fleet").write_text("ett_key")
    return tmp_path


def _prometheus() -> Any:
    return yaml.safe_load((DEPLOY / "prometheus.yml").read_text())


def _alertmanager() -> Any:
    return yaml.safe_load((DEPLOY / "alertmanager.yml").read_text())


def test_prometheus_takes_its_configuration_and_the_rules(mounted: Path) -> None:
    promtool = needed("promtool", "prometheus")
    done = subprocess.run(
        [promtool, "check", "config", mounted / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"SUCCESS: \d+ rules found", done.stdout)


def test_prometheus_starts_as_compose_starts_it(services: Parsed, mounted: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [
        part.replace("/etc/prometheus", str(mounted)).replace("=/prometheus", f"={mounted}/blocks")
        for part in services["prometheus"]["command"]
    ]
    program = needed("prometheus", "prometheus")
    server = Program([program, *command, f"--web.listen-address={address}"], mounted)
    try:
        server.ready(f"http://{address}/-/ready")
    finally:
        server.stop()


def test_the_scrape_asks_the_service_with_the_key_that_is_left_for_it(
    services: Parsed, routes: Parsed
) -> None:
    (scrape,) = [job for job in _prometheus()["scrape_configs"] if job["job_name"] == "ett"]
    (discovery,) = scrape["dns_sd_configs"]
    assert discovery["names"] == ["ett"]
    assert discovery["port"] == services["ett"]["ports"][0]["target"]
    assert "metrics_path" not in scrape
    assert "/metrics" in routes
    (left,) = services["scrape-key"]["command"]
    mounts = {
        name: {mount["source"]: mount["target"] for mount in services[name]["volumes"]}
        for name in ("scrape-key", "prometheus")
    }
    read = scrape["authorization"]["credentials_file"]
    assert left == f"{mounts['scrape-key']['keys']}/fleet"
    assert f"/etc/prometheus/{read}" == f"{mounts['prometheus']['keys']}/fleet"


def test_alerts_go_to_the_alertmanager_of_the_project(services: Parsed) -> None:
    (alertmanager,) = _prometheus()["alerting"]["alertmanagers"]
    (target,) = alertmanager["static_configs"][0]["targets"]
    name, _, port = target.partition(":")
    assert int(port) == services[name]["ports"][0]["target"]


def test_alertmanager_takes_its_configuration() -> None:
    amtool = needed("amtool", "prometheus-alertmanager")
    done = subprocess.run(
        [amtool, "check-config", DEPLOY / "alertmanager.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("severity", "receiver"), [("page", "page"), ("ticket", "ticket"), ("none", "heartbeat")]
)
def test_each_severity_reaches_its_receiver(severity: str, receiver: str) -> None:
    amtool = needed("amtool", "prometheus-alertmanager")
    config = f"--config.file={DEPLOY / 'alertmanager.yml'}"
    done = subprocess.run(
        [amtool, "config", "routes", "test", config, f"severity={severity}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == receiver


def test_alertmanager_starts_and_passes_the_health_check_of_compose(
    services: Parsed, tmp_path: Path
) -> None:
    program = needed("prometheus-alertmanager", "prometheus-alertmanager")
    amtool = needed("amtool", "prometheus-alertmanager")
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        part.replace("/etc/alertmanager", str(DEPLOY)).replace("=/alertmanager", f"={tmp_path}")
        for part in services["alertmanager"]["command"]
    ]
    address = url.removeprefix("http://")
    server = Program([program, *command, f"--web.listen-address={address}"], tmp_path)
    _, _, *health_check = services["alertmanager"]["healthcheck"]["test"]
    health = [amtool, *(part.replace("http://127.0.0.1:9093", url) for part in health_check)]
    try:
        server.ready(f"{url}/-/ready")
        assert subprocess.run(health, capture_output=True, check=False).returncode == 0
    finally:
        server.stop()
    assert subprocess.run(health, capture_output=True, check=False).returncode != 0


def test_what_is_routed_and_inhibited_are_alerts_that_the_rules_have() -> None:
    rules = yaml.safe_load((ROOT / "dashboards" / "rules" / "alerts.yaml").read_text())
    alerts = {
        rule["alert"]: rule["labels"]["severity"]
        for group in rules["groups"]
        for rule in group["rules"]
    }
    routed = {
        matcher.partition("=")[2].strip('"')
        for route in _alertmanager()["route"]["routes"]
        for matcher in route["matchers"]
    }
    assert set(alerts.values()) == routed
    for inhibition in _alertmanager()["inhibit_rules"]:
        for matcher in (*inhibition["source_matchers"], *inhibition["target_matchers"]):
            pattern = re.split(r"!?=~?|!~", matcher)[1].strip('"')
            assert any(re.fullmatch(pattern, alert) for alert in alerts), matcher
