"""An API server of Kubernetes as far as lists and watches go, over real HTTP.

It keeps objects and a history of their changes, answers lists in pages, and sends changes in
chunks as they happen. It can forget its history, break off what is being watched, and refuse.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.builders.kubernetes import Json
from tests.builders.servers.threads import in_thread
from tests.builders.servers.waiting import wait_for

TOKEN = "token-of-the-watcher"  # noqa: S105 -- the server is gone with the test
PATHS = {
    "/api/v1/pods": "Pod",
    "/api/v1/nodes": "Node",
    "/api/v1/events": "Event",
    "/apis/batch/v1/jobs": "Job",
    "/apis/jobset.x-k8s.io/v1alpha2/jobsets": "JobSet",
    "/apis/kueue.x-k8s.io/v1beta1/workloads": "Workload",
}
_NAMESPACE = re.compile("/namespaces/[^/]+")
_WAIT_S = 30.0


class ApiServer:
    """The state of a cluster, and what was asked of it."""

    def __init__(self) -> None:
        self.url = ""
        self.absent: set[str] = {"JobSet"}  #: kinds that the cluster does not have
        self.forbidden: set[str] = set()
        self.requests: list[str] = []
        self.is_over = False
        self.page = 500
        self._objects: dict[str, Json] = {}
        self._history: list[tuple[int, str, Json]] = []
        self._version = 1000
        self._oldest = 0
        self._breaks = 0
        self._changed = Condition()

    def put(self, *things: Json) -> None:
        """Make or change objects."""
        for thing in things:
            uid = thing["metadata"]["uid"]
            self._note("MODIFIED" if uid in self._objects else "ADDED", thing)

    def delete(self, thing: Json) -> None:
        """Delete an object; *thing* is how it was last."""
        self._note("DELETED", thing)

    def delete_unseen(self, thing: Json) -> None:
        """Delete an object so that no watch tells it: its history is forgotten, too."""
        self.delete(thing)
        self.forget()

    def _note(self, change: str, thing: Json) -> None:
        with self._changed:
            self._version += 1
            thing = json.loads(json.dumps(thing))
            thing["metadata"]["resourceVersion"] = str(self._version)
            if change == "DELETED":
                self._objects.pop(thing["metadata"]["uid"], None)
            else:
                self._objects[thing["metadata"]["uid"]] = thing
            self._history.append((self._version, change, thing))
            self._changed.notify_all()

    def forget(self) -> None:
        """Forget the history, as etcd is compacted, and break off all watches."""
        with self._changed:
            self._version += 1
            self._oldest = self._version
            self._history.clear()
        self.break_off()

    def break_off(self) -> None:
        """Close all connections of watches in the middle."""
        with self._changed:
            self._breaks += 1
            self._changed.notify_all()

    def listed(self, kind: str) -> int:
        """How often a kind was listed."""
        paths = [path for path, name in PATHS.items() if name == kind]
        return sum(
            urlsplit(each).path in paths and "watch" not in each and "continue" not in each
            for each in self.requests
        )

    def list_page(self, kind: str, start: int) -> Json:
        """Return a page of a kind from the *start*-th on."""
        with self._changed:
            things = [each for each in self._objects.values() if each["kind"] == kind]
            part = [
                {key: value for key, value in each.items() if key not in ("kind", "apiVersion")}
                for each in things[start : start + self.page]
            ]
            more = start + self.page < len(things)
            follows = {"continue": str(start + self.page)} if more else {}
            version = {"resourceVersion": str(self._version)}
            group = next((each["apiVersion"] for each in things), "v1")
            return {
                "kind": f"{kind}List",
                "apiVersion": group,
                "metadata": {**version, **follows},
                "items": part,
            }

    def changes(self, kind: str, version: int) -> Iterator[Json | None]:
        """Yield the changes of a kind after *version*; None where the connection is to break."""
        breaks = self._breaks
        if version < self._oldest:
            yield {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "old"}}
            return
        while not self.is_over:
            with self._changed:
                news = [each for each in self._history if each[0] > version]
                if not news and breaks == self._breaks:
                    self._changed.wait(_WAIT_S)
                    continue
                if breaks != self._breaks:
                    yield None
                    return
                version = news[-1][0]
            for _, change, thing in news:
                if thing["kind"] == kind:
                    yield {"type": change, "object": thing}
            metadata = {"resourceVersion": str(version)}
            yield {"type": "BOOKMARK", "object": {"kind": kind, "metadata": metadata}}

    def wake(self) -> None:
        """Let all watches end."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()


class _Requests(BaseHTTPRequestHandler):
    state: ApiServer
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        """Bear watchers that leave in the middle."""
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""

    def do_GET(self) -> None:
        self.state.requests.append(self.path)
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            self._answer(401, {"message": "who are you?"})
            return
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        kind = PATHS.get(_NAMESPACE.sub("", url.path), "")
        if kind in self.state.forbidden:
            self._answer(403, {"message": "not allowed"})
        elif kind and kind not in self.state.absent and query.get("watch"):
            self._watch(kind, int(query["resourceVersion"]))
        elif kind and kind not in self.state.absent:
            page = self.state.list_page(kind, int(query.get("continue", 0)))
            self._answer(200, {**page, "items": [self._as_wanted(each) for each in page["items"]]})
        else:
            self._discover(url.path)

    def _discover(self, path: str) -> None:
        _, _, group, *version = path.split("/")
        kinds = {
            place.split("/")[-1]: place.split("/")[3]
            for place, kind in PATHS.items()
            if f"/apis/{group}/" in place and kind not in self.state.absent
        }
        if not kinds:
            self._answer(404, {"message": "not found"})
        elif version:
            self._answer(200, {"resources": [{"name": name} for name in kinds]})
        else:
            preferred = f"{group}/{next(iter(kinds.values()))}"
            self._answer(200, {"preferredVersion": {"groupVersion": preferred}})

    def _answer(self, status: int, body: Json) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _as_wanted(self, thing: Json) -> Json:
        """Return an object, or its metadata only where a request asks for that."""
        is_wanted_whole = "as=PartialObjectMetadata" not in self.headers["accept"]
        if is_wanted_whole or thing.get("kind") == "Status":
            return thing
        return {"kind": "PartialObjectMetadata", "metadata": thing["metadata"]}

    def _watch(self, kind: str, version: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        for change in self.state.changes(kind, version):
            if change is None:
                return
            change["object"] = self._as_wanted(change["object"])
            line = json.dumps(change).encode() + b"\n"
            half = len(line) // 2
            for chunk in (line[:half], line[half:]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """Serve a cluster without objects on a free port."""
    state = ApiServer()

    requests = type("Requests", (_Requests,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), requests)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    with in_thread(server):
        try:
            yield state
        finally:
            state.wake()
            wait_for(lambda: not followers(), lambda: f"{followers()} go on")


def followers() -> list[str]:
    """The threads that follow a kind of object."""
    return [each.name for each in threading.enumerate() if each.name.startswith("watch ")]


def kubeconfig(url: str, token: str = TOKEN) -> Json:
    """Return a user's configuration for the server at *url*."""
    named: dict[str, Any] = {"name": "test"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{**named, "cluster": {"server": url}}],
        "users": [{**named, "user": {"token": token}}],
        "contexts": [{**named, "context": {"cluster": "test", "user": "test"}}],
    }
