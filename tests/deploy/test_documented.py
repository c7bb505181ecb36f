"""What docs/howto/deploy.md tells to type."""

import os
import re
import subprocess

import yaml

from tests.deploy.conftest import KUBERNETES, ROOT, Parsed, compose

PAGE = (ROOT / "docs" / "howto" / "deploy.md").read_text("utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_container_is_described(services: Parsed) -> None:
    described = set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE))
    assert described == set(services)


def test_addresses_are_those_that_compose_publishes(services: Parsed) -> None:
    told = set(re.findall(r"<http://([\d.:]+)>", PAGE))
    published = {
        f"{port['host_ip']}:{port['published']}"
        for service in services.values()
        for port in service.get("ports", [])
    }
    assert told == published


def test_several_replicas_take_several_ports() -> None:
    (ports,) = re.findall(r"ETT_PORT=(\d+-\d+)", PAGE)
    told = compose(
        "--env-file", ".env.example", "config", "--format", "json", variables={"ETT_PORT": ports}
    )
    assert told.returncode == 0, told.stderr
    assert f'"published": "{ports}"' in told.stdout


def test_the_rules_become_objects_of_the_operator() -> None:
    (pipeline,) = _blocks("sh")
    rules, applied, _ = pipeline.partition("| kubectl apply --filename -")
    assert applied
    done = subprocess.run(
        ["sh", "-euc", rules],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    for name, made in zip(["recording", "alerts"], yaml.safe_load_all(done.stdout), strict=True):
        written = yaml.safe_load((ROOT / "dashboards" / "rules" / f"{name}.yaml").read_text())
        assert made["spec"] == written
        assert made["kind"] == "PrometheusRule"
        monitor = yaml.safe_load((KUBERNETES / "service-monitor.yaml").read_text())
        assert made["metadata"]["labels"] == monitor["metadata"]["labels"]


def test_images_that_are_named_are_those_that_run(services: Parsed) -> None:
    named = set(re.findall(r"(?:postgres|ett-service):[\w.-]+", PAGE))
    assert named <= {service["image"] for service in services.values()}
