"""What deploys the service, as the programs understand it that will read it."""

import importlib.util
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"

Parsed = dict[str, Any]

FILLED_IN = {
    "POSTGRES_PASSWORD": "secret-1",
    "SERVICE_PASSWORD": "secret-2",
    "READER_PASSWORD": "secret-3",
    "GRAFANA_PASSWORD": "secret-4",
    "SECRET_KEY": "secret-5",
}
"""What the example leaves to whom copies it."""


class Composed(NamedTuple):
    """The result of a run of Compose."""

    returncode: int
    stdout: str
    stderr: str


def compose(
    *arguments: str, folder: Path = ROOT, variables: Mapping[str, str] | None = None
) -> Composed:
    """Run Compose itself, as the wrapper that comes with it always ends with 0."""
    spec = importlib.util.find_spec("compose")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).with_name("docker-compose")
    done = subprocess.run(
        [program, "--project-directory", folder, *arguments],
        cwd=folder,
        env={"PATH": os.defpath, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return Composed(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def routes() -> Parsed:
    """Return the routes of the service by path, as its committed description has them."""
    paths: Parsed = json.loads((ROOT / "docs/openapi.json").read_text("utf-8"))["paths"]
    return paths


@pytest.fixture(scope="session")
def project() -> Parsed:
    """Return the Compose project as it is with `.env.example` as `.env`, filled in."""
    done = compose("--env-file", ".env.example", "config", "--format", "json", variables=FILLED_IN)
    assert done.returncode == 0, done.stderr
    parsed: Parsed = json.loads(done.stdout)
    return parsed


@pytest.fixture(scope="session")
def services(project: Parsed) -> Parsed:
    """Return the containers of the Compose project by name."""
    by_name: Parsed = project["services"]
    return by_name


@pytest.fixture(scope="session")
def objects() -> list[Parsed]:
    """Return every object that the Kubernetes example makes, without the generated ones."""
    return [
        resource
        for path in sorted(KUBERNETES.glob("*.yaml"))
        if path.name != "kustomization.yaml"
        for resource in yaml.safe_load_all(path.read_text("utf-8"))
    ]


def pods(objects: list[Parsed]) -> dict[str, Parsed]:
    """Return the pods that *objects* run, by the name of what runs them."""
    return {
        resource["metadata"]["name"]: resource["spec"]["template"]["spec"]
        for resource in objects
        if "template" in resource.get("spec", {})
    }


def variables(path: Path) -> dict[str, str]:
    """Read a file of lines NAME=VALUE."""
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}
