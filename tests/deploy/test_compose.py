import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ett_service.settings import OTHER_VARIABLES, Settings, load, variable
from tests.deploy.conftest import FILLED_IN, ROOT, Parsed, compose, variables

ONCE = {"migrate", "scrape-key"}
LASTING = {"postgres", "ett", "worker", "prometheus", "alertmanager", "grafana"}
ETT = {"migrate", "scrape-key", "ett", "worker"}

#: The programs of health checks; promtool and amtool come with their servers.
OWN_PROGRAMS = {
    "postgres": "pg_isready",
    "ett": "python",
    "worker": "ett",
    "prometheus": "promtool",
    "alertmanager": "amtool",
    "grafana": "wget",
}
EXACT_TAG = re.compile(r"^[a-z/-]+:v?\d+\.\d+(\.\d+)?(-[a-z]+)?$")


def _version() -> str:
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return version


def _mounts(service: Parsed) -> list[Parsed]:
    return [mount for mount in service.get("volumes", []) if mount["type"] == "bind"]


def test_the_project_has_everything_that_runs_and_everything_that_runs_once(
    services: Parsed,
) -> None:
    assert set(services) == LASTING | ONCE


def test_the_example_sets_exactly_the_variables_that_the_project_reads() -> None:
    done = compose("config", "--variables", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert set(variables(ROOT / ".env.example")) == set(json.loads(done.stdout))


def test_nothing_starts_as_the_example_is() -> None:
    assert compose("--env-file", ".env.example", "config").returncode != 0


def test_nothing_starts_without_passwords(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    (tmp_path / ".env").write_text("")
    done = compose("config", folder=tmp_path)
    assert done.returncode != 0
    assert "copy .env.example to .env" in done.stderr
    listed = json.loads(compose("config", "--variables", "--format", "json").stdout)
    passwords = {name: listed[name] for name in FILLED_IN}
    assert all(variable["Required"] for variable in passwords.values())


def test_no_secret_is_under_version_control() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {".env", "/deploy/kubernetes/secret.env"} <= set(ignored)
    for name in (".env.example", "deploy/kubernetes/secret.env.example"):
        secrets = [
            value for key, value in variables(ROOT / name).items() if key.endswith("PASSWORD")
        ]
        assert secrets
        assert not any(secrets)


def test_every_image_is_of_one_version(services: Parsed) -> None:
    images = {service["image"] for service in services.values()}
    assert {image for image in images if not EXACT_TAG.match(image)} == set()


def test_the_own_image_is_built_from_here_and_named_for_its_version(services: Parsed) -> None:
    own = {name for name, service in services.items() if "build" in service}
    assert own == ETT
    assert {services[name]["image"] for name in own} == {f"ett-service:{_version()}"}


@pytest.mark.parametrize("name", sorted(LASTING | ONCE))
def test_a_container_may_do_no_more_than_it_must(services: Parsed, name: str) -> None:
    service = services[name]
    assert int(service["user"].partition(":")[0]) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert int(service["mem_limit"]) <= 2 << 30
    assert 0 < service["cpus"] <= 2
    assert service["pids_limit"] > 0
    assert service["logging"]["options"]["max-size"]


@pytest.mark.parametrize("name", sorted(LASTING))
def test_the_health_check_of_a_container_uses_a_program_that_it_has(
    services: Parsed, name: str
) -> None:
    kind, program, *_ = services[name]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", OWN_PROGRAMS[name])
    assert services[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", sorted(ONCE))
def test_what_runs_once_is_not_run_again(services: Parsed, name: str) -> None:
    assert services[name]["restart"] == "no"
    assert services[name]["healthcheck"] == {"disable": True}


def test_each_waits_for_what_it_needs_to_be_well_or_done(services: Parsed) -> None:
    for name, service in services.items():
        for needed, how in service.get("depends_on", {}).items():
            done = "service_completed_successfully" if needed in ONCE else "service_healthy"
            assert how["condition"] == done, f"{name} on {needed}"
    for name in ETT - {"migrate", "scrape-key"}:
        assert "migrate" in services[name]["depends_on"]


def test_ports_are_open_to_this_machine_alone(services: Parsed) -> None:
    published = {
        name: [(port["host_ip"], port["target"]) for port in service.get("ports", [])]
        for name, service in services.items()
    }
    assert {name: ports for name, ports in published.items() if ports} == {
        "ett": [("127.0.0.1", 8080)],
        "prometheus": [("127.0.0.1", 9090)],
        "alertmanager": [("127.0.0.1", 9093)],
        "grafana": [("127.0.0.1", 3000)],
    }


def test_the_database_is_reached_by_those_alone_that_read_or_write_it(
    project: Parsed, services: Parsed
) -> None:
    inside = {name for name, service in services.items() if "database" in service["networks"]}
    assert inside == ETT | {"postgres", "grafana"}
    assert project["networks"]["database"]["internal"] is True


def test_the_worker_has_a_way_out_and_the_database_has_none(
    project: Parsed, services: Parsed
) -> None:
    outward = {name for name, network in project["networks"].items() if not network.get("internal")}
    assert outward & set(services["worker"]["networks"])
    assert not outward & set(services["postgres"]["networks"])
    assert set(services["worker"]["networks"]) & set(services["alertmanager"]["networks"])


def test_the_worker_opens_what_the_server_has_sealed(services: Parsed) -> None:
    keys = {services[name]["environment"]["ETT_SECRET_KEY"] for name in ("ett", "worker")}
    assert keys == {FILLED_IN["SECRET_KEY"]}


def test_what_asks_for_no_password_stays_on_the_machine() -> None:
    given = {**FILLED_IN, "BIND_ADDRESS": "192.0.2.1"}
    done = compose("--env-file", ".env.example", "config", "--format", "json", variables=given)
    services = json.loads(done.stdout)["services"]
    hosts = {name: services[name]["ports"][0]["host_ip"] for name in ("prometheus", "alertmanager")}
    assert hosts == {"prometheus": "127.0.0.1", "alertmanager": "127.0.0.1"}


def test_the_probe_of_the_worker_asks_for_what_its_command_leaves(services: Parsed) -> None:
    worker = services["worker"]
    assert worker["healthcheck"]["test"] == ["CMD", "ett", *worker["command"], "--check"]


def test_what_is_mounted_is_in_the_repository_and_cannot_be_changed(services: Parsed) -> None:
    for name, service in services.items():
        for mount in _mounts(service):
            source = Path(mount["source"])
            assert source.exists(), f"{name}: {source}"
            assert source.is_relative_to(ROOT)
            assert mount["read_only"] is True, f"{name}: {source}"


def test_every_volume_is_used_and_written_by_one(project: Parsed, services: Parsed) -> None:
    writers: dict[str, set[str]] = {name: set() for name in project["volumes"]}
    for name, service in services.items():
        for mount in service.get("volumes", []):
            if mount["type"] == "volume" and not mount.get("read_only"):
                writers[mount["source"]].add(name)
    assert writers == {
        "alertmanager": {"alertmanager"},
        "grafana": {"grafana"},
        "keys": {"scrape-key"},
        "postgres": {"postgres"},
        "prometheus": {"prometheus"},
    }


@pytest.mark.parametrize("name", sorted(ETT))
def test_the_service_is_given_settings_that_it_knows(services: Parsed, name: str) -> None:
    given: dict[str, Any] = services[name]["environment"]
    accepted = {variable(field) for field in Settings.model_fields} | OTHER_VARIABLES
    assert {key for key in given if key.startswith("ETT_")} <= accepted
    (settings,) = [
        Path(mount["source"])
        for mount in _mounts(services[name])
        if mount["target"] == given["ETT_CONFIG"]
    ]
    loaded = load({key: given[key] for key in given if key in accepted}, settings).settings
    assert loaded.embedded_worker is False
    assert loaded.database_url.startswith("postgresql+psycopg://ett@postgres:")


def test_health_checks_use_routes_of_the_service(services: Parsed, routes: Parsed) -> None:
    command = services["ett"]["healthcheck"]["test"][-1]
    (path,) = re.findall(r"http://127\.0\.0\.1:8080(/\w+)", command)
    assert path in routes
