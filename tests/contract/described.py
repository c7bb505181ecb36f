"""Answers of a running service, each checked against its own OpenAPI page."""

import copy
import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx2
import jsonschema  # type: ignore[import-untyped]

from tests.builders.servers.waiting import PATIENCE_S

Json = dict[str, Any]


@dataclass
class Described:
    """The description of a service: which answers it may give to which request."""

    page: Json
    _paths: list[tuple[re.Pattern[str], Json]] = field(default_factory=list)

    @classmethod
    def by(cls, url: str) -> Self:
        """Read the page of the service at *url*."""
        return cls(httpx2.get(f"{url}/openapi.json", timeout=PATIENCE_S).json())

    def __post_init__(self) -> None:
        self.page = copy.deepcopy(self.page)
        _close(self.page["components"]["schemas"])
        for path, operations in self.page["paths"].items():
            pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
            self._paths.append((re.compile(pattern), operations))

    def check(self, answer: httpx2.Response) -> None:
        """Fail if the page does not allow for *answer*, its status, type and every member."""
        request = answer.request
        path = request.url.raw_path.decode().partition("?")[0]
        operations = next((held for fits, held in self._paths if fits.fullmatch(path)), None)
        assert operations is not None, f"{path} is not described"
        operation = operations[request.method.lower()]
        answered = f"{request.method} {path} answered {answer.status_code}"
        declared = operation["responses"].get(str(answer.status_code))
        assert declared is not None, f"{answered}, which is not declared"
        content = declared.get("content")
        if content is None:
            assert answer.content == b"", answered
            return
        media = answer.headers["content-type"].partition(";")[0]
        assert media in content, f"{answered} as {media}"
        if media.endswith("json"):
            schema = {**content[media]["schema"], "components": self.page["components"]}
            jsonschema.Draft202012Validator(schema).validate(answer.json())


def _close(schemas: Mapping[str, Json]) -> None:
    """Let no object have members that its schema does not name, unless it says that it may."""
    for schema in schemas.values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)


class Service:
    """A running service with a key; every answer is checked before it is returned."""

    def __init__(self, url: str, key: str, described: Described) -> None:
        self.url = url
        self.key = key
        self.described = described
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._http.close()

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send one request with the key, or with the headers that are given."""
        answer = self._http.request(method, path, **options)
        self.described.check(answer)
        return answer

    def refuses_bodies(self, method: str, path: str) -> None:
        """Send every body that a route refuses; each refusal has to be declared."""
        json = {"Content-Type": "application/json"}
        for content, headers, status in (
            (b"{", json, 400),
            (b"{}", json, 422),
            (b"{}", {"Content-Type": "text/plain"}, 415),
            (b" " * 100_000, json, 413),
            (b"{}", {**json, "Authorization": ""}, 401),
        ):
            answer = self.ask(method, path, content=content, headers=headers)
            assert answer.status_code == status, (path, content[:9])

    def ingest(self, events: list[Json], **batch: Any) -> Json:
        """Send one batch, of which every event must stand."""
        answer = self.ask("POST", "/v1/events", json={**batch, "events": events})
        assert answer.status_code == 200, answer.text
        summary: Json = answer.json()
        assert summary["rejected"] == 0, answer.text
        return summary

    def read(self, path: str) -> Json:
        """Read what must be there."""
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        read: Json = answer.json()
        return read

    def project(self, name: str) -> "Service":
        """Return the same service with a key for a project of its own."""
        body = {"project": name, "name": "test", "scopes": ["read", "write"]}
        answer = self.ask("POST", "/v1/keys", json=body)
        assert answer.status_code < 300, answer.text
        return Service(self.url, answer.json()["key"], self.described)

    def knows(self, job: str) -> bool:
        """Tell whether the job has numbers."""
        return self.ask("GET", f"/v1/jobs/{quoted(job)}").status_code == 200


def quoted(job: str) -> str:
    """Write a job's name as one step of an address."""
    return urllib.parse.quote(job, safe="")


def lines(events: list[Json]) -> bytes:
    """Write events one a line."""
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)
