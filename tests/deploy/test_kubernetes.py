import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ett_service.settings import OTHER_VARIABLES, Settings, load, variable
from tests.builders.servers.programs import needed
from tests.deploy.conftest import KUBERNETES, ROOT, Parsed, pods, variables

OLDEST = "1.29"
NEWEST = "1.36"
PODS = {"ett", "ett-worker", "ett-migrate"}
COMMANDS = {"ett": "ett", "ett-worker": "worker", "ett-migrate": "migrate"}
"""Which container of the Compose project does the same."""


@pytest.fixture
def built(tmp_path: Path) -> list[Parsed]:
    """Return the objects that `kubectl apply -k` would send, generated ones included."""
    kubectl = needed("kubectl", "kubernetes-client")
    folder = tmp_path / "kubernetes"
    shutil.copytree(KUBERNETES, folder)
    shutil.copy(folder / "secret.env.example", folder / "secret.env")
    done = subprocess.run(
        [kubectl, "kustomize", folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def _container(objects: list[Parsed], name: str) -> Parsed:
    (container,) = pods(objects)[name]["containers"]
    typed: Parsed = container
    return typed


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_object_is_one_that_kubernetes_takes(objects: list[Parsed], version: str) -> None:
    own = [resource for resource in objects if resource["kind"] != "ServiceMonitor"]
    assert len(own) == len(objects) - 1
    for resource in own:
        kubernetes_validate.validate(resource, version, strict=True)


def test_the_monitor_waits_for_those_who_have_the_operator(
    objects: list[Parsed], routes: Parsed
) -> None:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert files - set(listed) == {"service-monitor.yaml"}
    (monitor,) = [resource for resource in objects if resource["kind"] == "ServiceMonitor"]
    (service,) = [resource for resource in objects if resource["kind"] == "Service"]
    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["spec"]["jobLabel"]] == "ett"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["path"] in routes
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_it_is_built_into_objects_that_find_each_other(built: list[Parsed]) -> None:
    named = {(resource["kind"], resource["metadata"]["name"]) for resource in built}
    for pod in pods(built).values():
        (container,) = pod["containers"]
        (source,) = container["envFrom"]
        assert ("Secret", source["secretRef"]["name"]) in named
        maps = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
        assert {("ConfigMap", name) for name in maps} <= named
    spaces = {
        resource["metadata"].get("namespace")
        for resource in built
        if resource["kind"] != "Namespace"
    }
    assert spaces == {"ett"}


def test_its_image_has_the_version_of_the_project(built: list[Parsed]) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    images = {_container(built, name)["image"] for name in PODS}
    assert images == {f"ett-service:{version}"}


@pytest.mark.parametrize("name", sorted(PODS))
def test_a_pod_may_do_no_more_than_it_must(objects: list[Parsed], name: str) -> None:
    pod, container = pods(objects)[name], _container(objects, name)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert "memory" in container["resources"]["limits"]


def test_the_cluster_sets_no_variable_that_would_be_a_setting(objects: list[Parsed]) -> None:
    (service,) = [resource for resource in objects if resource["kind"] == "Service"]
    linked = f"{service['metadata']['name'].upper()}_PORT"
    assert linked in {variable(name) for name in Settings.model_fields}
    assert [name for name, pod in pods(objects).items() if pod["enableServiceLinks"]] == []


@pytest.mark.parametrize("name", sorted(PODS))
def test_a_pod_does_what_the_container_of_compose_does(
    objects: list[Parsed], services: Parsed, name: str
) -> None:
    theirs = services[COMMANDS[name]]
    container = _container(objects, name)
    assert container["args"] == theirs["command"]
    given = {variable["name"]: variable["value"] for variable in container["env"]}
    assert given["ETT_CONFIG"] == theirs["environment"]["ETT_CONFIG"]
    secret = variables(KUBERNETES / "secret.env.example")
    private = {"ETT_DATABASE_URL", "PGPASSWORD", "ETT_SECRET_KEY"}
    assert set(secret) == private & set(theirs["environment"])


def test_the_settings_exist_and_leave_the_work_to_the_workers() -> None:
    accepted = {variable(name) for name in Settings.model_fields} | OTHER_VARIABLES
    secret = variables(KUBERNETES / "secret.env.example")
    given = {name: value for name, value in secret.items() if name in accepted}
    assert {name for name in secret if name.startswith("ETT_")} == set(given)
    loaded = load(given, KUBERNETES / "ett.toml").settings
    assert loaded.embedded_worker is False
    assert loaded.log_format == "json"


def test_probes_ask_routes_on_the_port_that_the_service_listens_on(
    objects: list[Parsed], services: Parsed, routes: Parsed
) -> None:
    container = _container(objects, "ett")
    probes: dict[str, Any] = {
        name: container[name]["httpGet"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert {probe["path"] for probe in probes.values()} == {"/healthz", "/readyz"} & set(routes)
    assert probes["livenessProbe"]["path"] == "/healthz"  # a database that is down kills no pod
    (port,) = container["ports"]
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert port["containerPort"] == services["ett"]["ports"][0]["target"]
    assert port["containerPort"] == Settings().port


def test_one_replica_stays_while_nodes_are_drained(objects: list[Parsed]) -> None:
    kinds = {
        resource["kind"]: resource for resource in objects if resource["metadata"]["name"] == "ett"
    }
    assert kinds["Deployment"]["spec"]["replicas"] > 1
    budget, deployment = kinds["PodDisruptionBudget"]["spec"], kinds["Deployment"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert (
        budget["selector"]
        == deployment["selector"]
        == {"matchLabels": deployment["template"]["metadata"]["labels"]}
    )
