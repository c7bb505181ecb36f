"""The commands of the Compose project, run as it runs them, against a real PostgreSQL."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from ett_service.client.sending.transport import request
from tests.builders.databases import postgres
from tests.builders.servers import processes
from tests.builders.servers.programs import Program, free_port
from tests.builders.servers.waiting import wait_for
from tests.deploy.conftest import FILLED_IN, ROOT, Parsed

PROGRAMS = Path(sys.executable).parent
EVENTS = [
    {"job": "llm-7b", "at": "2026-03-01T08:00:00Z", "type": "job", "cluster": "a-cluster"},
    {
        "job": "llm-7b",
        "at": "2026-03-01T08:00:00Z",
        "type": "phase_started",
        "phase": "launcher_init",
    },
]

pytestmark = pytest.mark.xdist_group("deploy")


class Deployment:
    """What stands in for the containers: their commands and variables, on one machine."""

    def __init__(self, services: Parsed, socket: str, folder: Path) -> None:
        self._services = services
        self._socket = socket
        self.folder = folder

    def environment(self, name: str) -> dict[str, str]:
        """Return the variables of a container, with what Compose mounts where it lies here."""
        service = self._services[name]
        given = dict(service["environment"])
        for mount in service["volumes"]:
            for key, value in given.items():
                if value == mount["target"]:
                    given[key] = mount["source"]
        if "ETT_DATABASE_URL" in given:
            given["ETT_DATABASE_URL"] = given["ETT_DATABASE_URL"].replace("@postgres:5432", "@")
            given["PGHOST"] = self._socket
        path = os.pathsep.join([str(PROGRAMS), os.environ["PATH"]])
        return {"PATH": path, "HOME": str(self.folder), **given}

    def once(self, *command: str, name: str, **more: str) -> str:
        """Run *command* with a container's variables and return what it printed."""
        environment = self.environment(name) | more
        if command[0] == "ett":
            done = processes.run(*command[1:], folder=self.folder, environment=environment)
        else:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str, **more: str) -> Program:
        """Start a container's command."""
        command = [str(PROGRAMS / "ett"), *self._services[name]["command"]]
        return Program(command, self.folder, self.environment(name) | more)


@pytest.fixture(scope="module")
def deployment(services: Parsed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Return a deployment whose database is made and migrated as Compose does it."""
    programs = postgres.binaries()
    if programs is None:
        pytest.skip(postgres.MISSING)
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed (Debian: apt install postgresql-client)")
    with postgres.server(programs) as url:
        socket = make_url(url).query["host"]
        assert isinstance(socket, str)
        running = Deployment(services, socket, tmp_path_factory.mktemp("deployment"))
        running.once("sh", str(ROOT / "deploy" / "roles.sh"), name="postgres", PGHOST=socket)
        running.once("ett", *services["migrate"]["command"], name="migrate")
        yield running


def _as(deployment: Deployment, user: str) -> "psycopg.Connection[tuple[object, ...]]":
    host = deployment.environment("migrate")["PGHOST"]
    return psycopg.connect(host=host, user=user, dbname="ett")


def _host_of_the_image() -> str:
    (host,) = re.findall(r"ETT_HOST=(\S+)", (ROOT / "Dockerfile").read_text())
    return str(host)


def _leave_key(deployment: Deployment, file: Path) -> str:
    script = ROOT / "deploy" / "scrape-key.sh"
    deployment.once("sh", str(script), str(file), name="scrape-key")
    return file.read_text().strip()


@pytest.mark.slow
def test_migrations_run_again_and_change_nothing(deployment: Deployment) -> None:
    assert "latest schema" in deployment.once("ett", "migrate", name="migrate")


def test_the_service_owns_its_tables_and_is_no_superuser(deployment: Deployment) -> None:
    with _as(deployment, "ett") as conn:
        rights = conn.execute(
            "SELECT rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = 'ett'"
        ).fetchone()
        assert rights == (False, False, False)
        owners = conn.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname='public'")
        assert owners.fetchall() == [("ett",)]


def test_grafana_reads_the_views_and_nothing_else(deployment: Deployment) -> None:
    with _as(deployment, "grafana") as conn:
        assert conn.execute("SELECT count(*) FROM ett_v_jobs").fetchone() is not None
        assert conn.execute("SHOW statement_timeout").fetchone() == ("30s",)
        assert conn.execute("SHOW default_transaction_read_only").fetchone() == ("on",)
    for forbidden in ("SELECT * FROM api_key", "CREATE TEMPORARY TABLE t (a int)"):
        with _as(deployment, "grafana") as conn:
            conn.execute("SET TRANSACTION READ WRITE")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(forbidden)


def test_roles_have_the_passwords_of_the_example(deployment: Deployment) -> None:
    example = FILLED_IN
    environment = deployment.environment("postgres")
    assert environment["SERVICE_PASSWORD"] == example["SERVICE_PASSWORD"]
    assert deployment.environment("ett")["PGPASSWORD"] == example["SERVICE_PASSWORD"]
    with _as(deployment, "postgres") as conn:
        stored = conn.execute(
            "SELECT rolname FROM pg_authid WHERE rolpassword LIKE 'SCRAM%' ORDER BY rolname"
        )
        assert stored.fetchall() == [("ett",), ("grafana",)]


@pytest.mark.long
def test_a_scrape_key_is_made_once_and_anew_when_it_was_revoked(
    deployment: Deployment, tmp_path: Path
) -> None:
    file = tmp_path / "fleet"
    first = _leave_key(deployment, file)
    assert first.startswith("ett_")
    assert _leave_key(deployment, file) == first
    deployment.once("ett", "keys", "revoke", first[:12], "--yes", name="scrape-key")
    second = _leave_key(deployment, file)
    assert second != first
    listed = json.loads(deployment.once("ett", "keys", "list", "--json", name="scrape-key"))
    standing = [key for key in listed if key["prefix"] == second[:12]]
    assert [(key["scopes"], key["revoked_at"]) for key in standing] == [(["fleet"], None)]


@pytest.mark.slow
def test_service_and_worker_take_events_and_show_them_to_prometheus(
    deployment: Deployment, services: Parsed, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    key = _leave_key(deployment, tmp_path / "fleet")
    writer = deployment.once(
        "ett", "keys", "create", "--project", "default", "--scope", "write", name="ett"
    ).strip()
    running = [deployment.start("ett", ETT_PORT=str(port), ETT_HOST=_host_of_the_image())]
    running.append(deployment.start("worker"))
    try:
        running[0].ready(f"{url}/readyz")
        health = services["ett"]["healthcheck"]["test"][1:]
        deployment.once(*(part.replace(":8080", f":{port}") for part in health), name="ett")
        wait_for(lambda: "The worker is running" in running[1].logged(), running[1].logged)
        deployment.once(*services["worker"]["healthcheck"]["test"][1:], name="worker")
        body = json.dumps({"events": EVENTS}).encode()
        kind = {"Content-Type": "application/json"}
        assert request("POST", f"{url}/v1/events", writer, body, kind).status == 200
        page = f"{url}/metrics"
        wait_for(lambda: b'"a-cluster"' in request("GET", page, key).body, running[1].logged)
        assert request("GET", page).status == 401
        assert request("GET", page, writer).status == 403
    finally:
        for program in running:
            program.stop()
