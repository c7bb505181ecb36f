"""Objects of Kubernetes from its API server, by the official client: lists, then watches.

The client's own classes of objects are left out: reading a pod into them costs many times what the
mapping needs, and it has none for what comes from other projects.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from threading import Event, Thread
from typing import Any, Final, NamedTuple

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from ett_service.importers.kubernetes.templates import Json
from ett_service.watchers.kubernetes import Feed
from ett_service.watchers.watcher import Unavailable

_PAGE: Final = 500
_CONNECT_S: Final = 10.0
_LIST_S: Final = 120.0
_WATCH_S: Final = 300
_LONGEST_PAUSE_S: Final = 30.0
_ABSENT_PAUSE_S: Final = 600.0
_CHUNK: Final = 1 << 16
_JSON: Final = "application/json"
_METADATA: Final = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"

Say = Callable[[str], None]


class Kind(NamedTuple):
    """A kind of object, and where the API has it."""

    name: str
    group: str  #: empty for what the core of Kubernetes has
    plural: str
    is_whole: bool = True  #: whether more of it is read than its metadata; else it has no namespace


KINDS: Final = (
    Kind("Pod", "", "pods"),
    Kind("Node", "", "nodes", is_whole=False),
    Kind("Job", "batch", "jobs"),
    Kind("JobSet", "jobset.x-k8s.io", "jobsets"),
    Kind("TrainJob", "trainer.kubeflow.org", "trainjobs"),
    Kind("PyTorchJob", "kubeflow.org", "pytorchjobs"),
    Kind("Workload", "kueue.x-k8s.io", "workloads"),
    Kind("Event", "", "events"),
)


class Expired(Exception):
    """The API server does not know any more what came after a version: all is listed anew."""


class Absent(Exception):
    """The cluster has no such kind of object."""


def connected(context: str | None = None) -> client.ApiClient:
    """Return a client by the pod's service account, else by the user's configuration.

    Raises:
        Unavailable: where there is neither.
    """
    configuration = client.Configuration()
    try:
        if context is None:
            try:
                config.load_incluster_config(configuration)
            except ConfigException:
                config.load_kube_config(client_configuration=configuration)
        else:
            config.load_kube_config(context=context, client_configuration=configuration)
    except ConfigException as error:
        raise Unavailable(f"Kubernetes is not configured: {error}") from None
    return client.ApiClient(configuration)


@dataclass(slots=True)
class Api:
    """The objects of a cluster, or of one *namespace*."""

    client: client.ApiClient
    namespace: str | None = None

    def path(self, kind: Kind) -> str:
        """Return where a kind's objects are, in the version that the cluster prefers.

        Raises:
            Absent: where the cluster has no such kind, yet.
        """
        inside = f"/namespaces/{self.namespace}" if self.namespace else ""
        if not kind.group:
            return f"/api/v1{inside}/{kind.plural}"
        try:
            group = self._json(f"/apis/{kind.group}", {})
            version = group["preferredVersion"]["groupVersion"]
            resources = self._json(f"/apis/{version}", {})["resources"]
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise Absent from None
            raise
        if all(each["name"] != kind.plural for each in resources):
            raise Absent
        return f"/apis/{version}{inside}/{kind.plural}"

    def pages(self, path: str, *, is_whole: bool) -> Iterator[Json]:
        """Yield a list in parts of some hundred objects, whole or no more than their metadata."""
        accept = _JSON if is_whole else _METADATA.format("List")
        query: dict[str, Any] = {"limit": _PAGE}
        while True:
            page = self._json(path, query, accept)
            yield page
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return
            query = {"limit": _PAGE, "continue": following}

    def changes(self, path: str, version: str, *, is_whole: bool) -> Iterator[Json]:
        """Yield what happens after *version*, for some minutes at most."""
        accept = _JSON if is_whole else _METADATA.format("")
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": _WATCH_S,
        }
        response = self._get(path, query, accept, _WATCH_S + _CONNECT_S)
        try:
            for line in _lines(response.stream(_CHUNK)):
                yield json.loads(line)
        finally:
            response.close()

    def _json(self, path: str, query: dict[str, Any], accept: str = _JSON) -> Json:
        response = self._get(path, query, accept, _LIST_S)
        try:
            answer: Json = json.loads(response.read())
            return answer
        finally:
            response.release_conn()

    def _get(self, path: str, query: dict[str, Any], accept: str, patience_s: float) -> Any:
        request = self.client.param_serialize(
            "GET",
            path,
            query_params=list(query.items()),
            header_params={"Accept": accept},
            auth_settings=["BearerToken"],
        )
        response = self.client.call_api(
            *request, _request_timeout=(_CONNECT_S, patience_s)
        ).response
        if response.status != HTTPStatus.OK:
            response.drain_conn()
            raise ApiException(status=response.status, reason=response.reason)
        return response


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line)


class KindStream:
    """A kind of object, listed once and followed from there on; all is listed anew if it must."""

    def __init__(self, api: Api, kind: Kind, feed: Feed, say: Say, pause_s: float = 1.0) -> None:
        self.trouble = ""
        self.has_stopped = False
        self._api = api
        self._kind = kind
        self._feed = feed
        self._say = say
        self._shortest_pause_s = pause_s
        self._pause_s = pause_s
        self._path = ""
        self._version = ""
        self._is_absent = False
        self._was_listed = Event()
        self._is_stopping = Event()
        self._chance = Random()  # noqa: S311 -- no secret

    def start(self) -> None:
        """List and follow the kind in a thread of its own, until it is stopped."""
        Thread(target=self._until_stopped, name=f"watch {self._kind.plural}", daemon=True).start()

    def stop(self) -> None:
        """Follow no longer than to the next change, or to the end of the connection."""
        self._is_stopping.set()

    def wait(self, patience_s: float) -> bool:
        """Wait until all objects were listed once, or the kind is known to be absent."""
        return self._was_listed.wait(patience_s)

    def _until_stopped(self) -> None:
        try:
            self._run()
        finally:
            self.has_stopped = True
            self._was_listed.set()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self._follow()
            except Expired:
                self._version = ""
                continue
            except Absent:
                self._note_absent()
                self._is_stopping.wait(_ABSENT_PAUSE_S)
                continue
            except ApiException as error:
                self._note_refusal(error)
            except (HTTPError, OSError, ValueError, KeyError, TypeError) as error:
                self.trouble = f"Kubernetes does not answer for {self._kind.plural}: {error}"[:300]
            self._is_stopping.wait(self._pause_s * self._chance.uniform(0.5, 1.0))
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _follow(self) -> None:
        if not self._version:
            self._path = self._api.path(self._kind)
            self._list()
        while not self._is_stopping.is_set():
            whole = self._kind.is_whole
            for change in self._api.changes(self._path, self._version, is_whole=whole):
                self._take(change)
            self._note_well()

    def _list(self) -> None:
        present: set[str] = set()
        version = ""
        for page in self._api.pages(self._path, is_whole=self._kind.is_whole):
            version = page["metadata"]["resourceVersion"]
            items = page.get("items") or ()
            group = {"apiVersion": page.get("apiVersion")}
            present.update(each["metadata"]["uid"] for each in items)
            self._complain(
                self._feed.take([("ADDED", self._named({**group, **each})) for each in items])
            )
        self._feed.vanish(self._kind.name, present)
        self._version = version
        self._note_well()

    def _take(self, change: Json) -> None:
        kind, thing = change["type"], change["object"]
        if kind == "ERROR":
            if thing.get("code") == HTTPStatus.GONE:
                raise Expired
            raise ApiException(status=thing.get("code"), reason=thing.get("message"))
        if kind != "BOOKMARK":
            self._complain(self._feed.take([(kind, self._named(thing))]))
        self._version = thing["metadata"]["resourceVersion"]
        self._note_well()

    def _named(self, thing: Json) -> Json:
        """Return an object under its own kind: items of a list, and bare metadata, have it not."""
        return {**thing, "kind": self._kind.name}

    def _note_well(self) -> None:
        self.trouble = ""
        self._is_absent = False
        self._pause_s = self._shortest_pause_s
        self._was_listed.set()

    def _note_absent(self) -> None:
        self.trouble = ""
        if not self._is_absent:
            self._is_absent = True
            self._say(f"the cluster has no {self._kind.plural}: they are left out")
        self._was_listed.set()

    def _note_refusal(self, error: ApiException) -> None:
        if error.status == HTTPStatus.GONE:
            self._version = ""
        self.trouble = f"Kubernetes refuses {self._kind.plural}: {error.status} {error.reason}"
        if error.status == HTTPStatus.FORBIDDEN:
            self.trouble += "; the role in the guide allows what is needed"
            self._was_listed.set()

    def _complain(self, wrong: list[str]) -> None:
        for each in wrong[:1]:
            self._say(f"{self._kind.plural}: {len(wrong)} objects are not as expected: {each}")


def streams(api: Api, feed: Feed, say: Say) -> list[KindStream]:
    """Return a stream for each kind that says something of jobs, in what the API is bound to."""
    kinds = [kind for kind in KINDS if kind.is_whole or api.namespace is None]
    return [KindStream(api, kind, feed, say) for kind in kinds]
