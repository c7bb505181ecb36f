"""The containers of examples/kubernetes as processes, and an API server that knows their pod."""

import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from typing_extensions import override

from tests.builders.servers.ett import Server
from tests.builders.servers.threads import in_thread
from tests.builders.servers.waiting import wait_for
from tests.examples.conftest import EXAMPLES

KUBERNETES = EXAMPLES / "kubernetes"
TOKEN = "the-token-of-the-account"  # noqa: S105 -- of no account
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass
class Pod:
    """A pod of the example's Job, in a folder that stands for its volumes."""

    folder: Path
    uid: str
    created: datetime
    scheduled: datetime
    conditions: list[dict[str, Any]] = field(default_factory=list)
    reason: str = "Error"  #: of the trainer's container, once it is gone
    port: int = 0

    @property
    def shared(self) -> Path:
        """The folder that both containers see."""
        return self.folder / "run"

    def answer(self) -> dict[str, Any]:
        """Return what Kubernetes says about it, shortened."""
        bound = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": _stamp(self.scheduled),
        }
        state = {"terminated": {"exitCode": 137, "reason": self.reason}}
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": "llm-70b-x7k2p",
                "uid": self.uid,
                "creationTimestamp": _stamp(self.created),
                "ownerReferences": [{"kind": "Job", "name": "llm-70b"}],
            },
            "status": {
                "phase": "Running",
                "conditions": [*self.conditions, bound],
                "containerStatuses": [{"name": "trainer", "state": state}],
            },
        }

    def disrupted(self, reason: str) -> None:
        """Let Kubernetes say why it stops the pod."""
        condition = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None}
        instant = {"lastTransitionTime": _stamp(self.scheduled + timedelta(hours=1))}
        self.conditions.append({**condition, **instant, "reason": reason, "message": "..."})

    def mount(self, server: Server) -> None:
        """Fill its volumes."""
        self.shared.mkdir(parents=True)
        (self.folder / "token").write_text(TOKEN)
        text = (KUBERNETES / "ett.curl.example").read_text()
        text = text.replace("https://ett.example", server.url).replace("ett_...", server.key)
        (self.folder / "ett.curl").write_text(text)
        script = (KUBERNETES / "recorder.sh").read_text()
        (self.folder / "recorder.sh").write_text(self._placed(script))

    def start(self, container: dict[str, Any], *arguments: str) -> subprocess.Popen[bytes]:
        """Start a container as a process, other arguments in the place of its own.

        Returns once its startup probe succeeds, before which Kubernetes starts no other.
        """
        command = [*container["command"], *(arguments or container.get("args", []))]
        environment = {"PATH": "/usr/bin:/bin", **self._environment(container)}
        process = subprocess.Popen([self._placed(word) for word in command], env=environment)
        if probe := container.get("startupProbe"):
            wait_for(lambda: self._exec(probe).returncode == 0)
        return process

    def pre_stop(self, container: dict[str, Any]) -> None:
        """Run a container's hook."""
        self._exec(container["lifecycle"]["preStop"]).check_returncode()

    def _exec(self, hook: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
        """Run the command of a hook or of a probe in its container."""
        return subprocess.run([self._placed(word) for word in hook["exec"]["command"]], check=False)

    def _environment(self, container: dict[str, Any]) -> dict[str, str]:
        downward = {
            "metadata.labels['batch.kubernetes.io/job-name']": "llm-70b",
            "metadata.uid": self.uid,
            "metadata.name": "llm-70b-x7k2p",
            "metadata.namespace": "training",
            "spec.nodeName": "node-1",
        }
        values = {
            variable["name"]: variable.get("value")
            or downward[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            for variable in container.get("env", [])
        }
        service = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}
        return {**values, **service, "KUBERNETES_SERVICE_PORT": str(self.port)}

    def _placed(self, text: str) -> str:
        """Name the folders of this machine where the text names those of a container."""
        places = {"/run/ett": self.shared, "/etc/ett": self.folder, _ACCOUNT: self.folder}
        for inside, outside in places.items():
            text = text.replace(inside, str(outside))
        return text


def containers() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sidecar and the trainer of the example."""
    job = yaml.safe_load((KUBERNETES / "job.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    (sidecar,), (trainer,) = pod["initContainers"], pod["containers"]
    return sidecar, trainer


@contextmanager
def api_server(pod: Pod) -> Iterator[None]:
    """Serve the pod over TLS, to whoever has the token, until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = "/api/v1/namespaces/training/pods/llm-70b-x7k2p?pretty=true"
            may = self.headers["Authorization"] == f"Bearer {TOKEN}"
            self.send_response(200 if may and self.path == path else 403)
            self.end_headers()
            self.wfile.write(json.dumps(pod.answer(), indent=2).encode())

        @override
        def log_message(self, format: str, *args: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificate(pod.folder / "ca.crt"))
    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.socket = context.wrap_socket(listener.socket, server_side=True)
    pod.port = listener.server_port
    with in_thread(listener):
        yield


def _certificate(path: Path) -> Path:
    """Write a certificate for this machine, and return the file that has its key, too."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    path.write_bytes(public)
    both = path.with_name("both.pem")
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    both.write_bytes(public + secret)
    return both


def _stamp(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
