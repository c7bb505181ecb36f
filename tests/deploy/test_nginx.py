"""The example of nginx, run by a real nginx with a certificate of its own, before a service."""

import getpass
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from httpx2 import Client, TransportError

from tests.builders.jobs import failing_job
from tests.builders.servers.ett import Server, serving
from tests.builders.servers.programs import Program, free_port, needed, run
from tests.builders.servers.waiting import wait_for
from tests.builders.trainers import run_trainer
from tests.deploy.conftest import ROOT

pytestmark = pytest.mark.xdist_group("deploy")

HOST = "ett.example.com"
MAIN = """
user {user};
pid {folder}/nginx.pid;
error_log stderr;
daemon off;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


@dataclass(frozen=True)
class Proxied:
    """A service behind nginx."""

    server: Server
    certificate: Path
    http: int  #: the port
    https: int

    def client(self) -> Client:
        """Return a browser that trusts the certificate and takes the name for this machine."""
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        client = Client(base_url=f"https://localhost:{self.https}", verify=trusted, timeout=60)
        client.headers["Host"] = HOST
        return client

    def api(self) -> Client:
        """Return a client with a key for everything."""
        client = self.client()
        client.headers["Authorization"] = f"Bearer {self.server.key}"
        return client


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    """Serve behind the example; only its names, ports and paths are this machine's."""
    nginx, openssl = needed("nginx", "nginx-light"), needed("openssl", "openssl")
    folder = tmp_path_factory.mktemp("nginx")
    certificate, key = folder / "ett.pem", folder / "ett.key"
    names = ("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST},DNS:localhost")
    made = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run([openssl, "req", *made, "-keyout", str(key), "-out", str(certificate), *names])
    database = f"sqlite:///{folder}/ett.db"
    with serving(database, folder, key="", ETT_PUBLIC_URL=f"https://{HOST}") as server:
        ports = free_port(), free_port()
        site = (ROOT / "deploy" / "nginx.conf").read_text()
        for given, ours in {
            "127.0.0.1:8080": server.url.removeprefix("http://"),
            "listen 80;": f"listen {ports[0]};",
            "listen 443 ssl;": f"listen {ports[1]} ssl;",
            "/etc/ssl/ett.pem": str(certificate),
            "/etc/ssl/ett.key": str(key),
        }.items():
            assert site.count(given) == 1, given
            site = site.replace(given, ours)
        (folder / "site.conf").write_text(site)
        (folder / "nginx.conf").write_text(MAIN.format(folder=folder, user=getpass.getuser()))
        program = Program([nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")], folder)
        try:
            running = Proxied(server, certificate, *ports)
            wait_for(lambda: _answers(running), program.logged)
            yield running
        finally:
            program.stop()


def _answers(proxied: Proxied) -> bool:
    try:
        with proxied.client() as client:
            return client.get("/healthz").status_code == 200
    except TransportError:
        return False


def test_events_come_in_and_are_answered(proxied: Proxied) -> None:
    with proxied.api() as client:
        answer = client.post("/v1/events", json={"events": failing_job("proxied")})
        assert (answer.status_code, answer.json()["rejected"]) == (200, 0)
        assert wait_for(lambda: client.get("/v1/jobs/proxied").status_code == 200)


def test_a_trainer_sends_to_it(proxied: Proxied, tmp_path: Path) -> None:
    environment = os.environ | {
        "ETT_URL": f"https://localhost:{proxied.https}",
        "ETT_API_KEY": proxied.server.key,
        "ETT_SPOOL_DIR": str(tmp_path),
        "SSL_CERT_FILE": str(proxied.certificate),
    }
    done = run_trainer("ett.init('trained')\nwith ett.phase('train_loop'): pass", environment)
    assert done.returncode == 0, done.stderr
    assert wait_for(lambda: proxied.server.knows("trained"), lambda: done.stderr)


def test_people_sign_in_write_and_see_a_page_move(proxied: Proxied) -> None:
    with proxied.client() as browser:
        browser.headers["Origin"] = f"https://{HOST}"
        answer = browser.post("/sign-in", data={"key": proxied.server.key})
        assert answer.status_code == 303
        assert answer.headers["set-cookie"].startswith("__Host-ett=")
        assert answer.headers["strict-transport-security"]
        cookie = answer.headers["set-cookie"].partition(";")[0]
        with browser.stream("GET", "/live?job=nobody", headers={"Cookie": cookie}) as stream:
            assert next(stream.iter_text()) == "retry: 3000\n\n"


def test_nothing_is_sent_in_the_clear(proxied: Proxied) -> None:
    with Client(
        base_url=f"http://localhost:{proxied.http}", headers={"Host": HOST}, timeout=60
    ) as plain:
        assert plain.post("/v1/events", json={"events": []}).status_code == 403
        page = plain.get("/jobs?q=x")
    assert page.status_code == 301
    assert page.headers["location"] == f"https://{HOST}/jobs?q=x"


def test_metrics_are_for_those_who_reach_the_service_itself(proxied: Proxied) -> None:
    with proxied.api() as client:
        assert client.get("/metrics").status_code == 403


def test_what_is_too_large_for_the_service_is_refused(proxied: Proxied) -> None:
    with proxied.api() as client:
        answer = client.post("/v1/events", content=b" " * ((8 << 20) + 1))
    assert answer.status_code == 413
