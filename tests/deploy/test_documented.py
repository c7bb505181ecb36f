"""The commands and addresses of docs/howto/deploy.md."""

import re
import subprocess

import yaml

from tests.builders.servers.processes import ETT
from tests.builders.servers.programs import needed
from tests.deploy.conftest import FILLED_IN, KUBERNETES, ROOT, Parsed, compose

PAGE = (ROOT / "docs" / "howto" / "deploy.md").read_text("utf-8")


def test_every_container_is_described(services: Parsed) -> None:
    described = set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE))
    assert described == set(services)


def test_addresses_are_those_that_compose_publishes(services: Parsed) -> None:
    documented = set(re.findall(r"<http://([\d.:]+)>", PAGE))
    published = {
        f"{port['host_ip']}:{port['published']}"
        for service in services.values()
        for port in service.get("ports", [])
    }
    assert documented == published


def test_several_replicas_take_several_ports() -> None:
    (ports,) = re.findall(r"ETT_PORT=(\d+-\d+)", PAGE)
    done = compose(
        "--env-file",
        ".env.example",
        "config",
        "--format",
        "json",
        variables={**FILLED_IN, "ETT_PORT": ports},
    )
    assert done.returncode == 0, done.stderr
    assert f'"published": "{ports}"' in done.stdout


def test_the_rules_become_an_object_that_the_operator_looks_for() -> None:
    kubectl = needed("kubectl", "kubernetes-client")
    ((rules, label),) = re.findall(r"-- ett (rules .*?) \\\n *\| kubectl (label .*?) \\\n", PAGE)
    written = subprocess.run([ETT, *rules.split()], capture_output=True, check=True)
    done = subprocess.run(
        [kubectl, *label.split()], input=written.stdout, capture_output=True, check=True
    )
    resource = yaml.safe_load(done.stdout)
    monitor = yaml.safe_load((KUBERNETES / "service-monitor.yaml").read_text())
    assert resource["kind"] == "PrometheusRule"
    assert resource["spec"] == yaml.safe_load(written.stdout)["spec"]
    assert monitor["metadata"]["labels"].items() <= resource["metadata"]["labels"].items()


def test_images_that_are_named_are_those_that_run(services: Parsed) -> None:
    named = set(re.findall(r"(?:postgres|ett-service):[\w.-]+", PAGE))
    assert named <= {service["image"] for service in services.values()}
