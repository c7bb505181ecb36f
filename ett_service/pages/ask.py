"""Questions of a page to the API in this process: the same routes, as its reader may ask them.

So no page computes a number, nobody sees more on a page than by the API, and each panel can name
the request that its numbers came from.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.types import Message

from ett_service.pages.links import encoded
from ett_service.storage.record.keys import Key

Answer = Mapping[str, Any]
"""A JSON object that the API answered with."""

Query = Mapping[str, object]


class Refusal(Exception):
    """The API refused a question: its status and its problem document."""

    def __init__(self, status: int, problem: Answer) -> None:
        super().__init__(problem.get("detail") or problem.get("title", ""))
        self.status = status
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Question:
    """A request that reads. Members of the query that are None or empty are left out."""

    path: str
    query: Query = field(default_factory=dict)
    is_list: bool = True  #: answered as CSV, too
    rows: str = ""  #: what is written as CSV: ``ett.parts``, or members beside each other: ``a,b``

    @property
    def query_text(self) -> str:
        """The query, encoded."""
        return encoded(self.query)

    @property
    def address(self) -> str:
        """The path and the query."""
        text = self.query_text
        return f"{self.path}?{text}" if text else self.path

    @property
    def file(self) -> str:
        """Where the reader of a page gets the answer as a file."""
        form = {"rows": self.rows} if self.rows else {"format": "csv"} if self.is_list else {}
        return f"/data{replace(self, query={**self.query, **form}).address}"

    @property
    def file_kind(self) -> str:
        """What that file is."""
        return "CSV" if self.is_list or self.rows else "JSON"

    def of(self, rows: str) -> "Question":
        """Return the same question, of whose answer the member *rows* is the CSV."""
        return replace(self, rows=rows)

    def curl(self, origin: str) -> str:
        """Return the command that asks the same."""
        return f"curl -H \"Authorization: Bearer $ETT_API_KEY\" '{origin}{self.address}'"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the API answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Ask:
    """Asks the API on behalf of a *key*."""

    def __init__(self, request: Request, key: Key) -> None:
        self._request = request
        self._key = key

    async def __call__(self, question: Question) -> Any:
        """Return the answer.

        Raises:
            Refusal: The API refuses.
        """
        return _read(await self.send("GET", question))

    async def all(self, *questions: Question) -> list[Any]:
        """Return the answers in the order of the questions, which are asked at once.

        Raises:
            Refusal: The API refuses one of them.
        """
        return await asyncio.gather(*(self(question) for question in questions))

    async def write(self, method: str, question: Question, body: object = None) -> Any:
        """Change something, and return the answer; None for an empty one.

        Raises:
            Refusal: The API refuses.
        """
        sent = b"" if body is None else json.dumps(body).encode()
        return _read(await self.send(method, question, sent))

    async def send(self, method: str, question: Question, body: bytes = b"") -> Reply:
        """Send one request to the routes, past the middleware: it is not one of a client."""
        status, headers, chunks = 500, {}, []

        sent = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Message:
            for message in sent:
                return message
            # An answer in pieces listens for the end of its client, which waits for the answer.
            return await asyncio.Future()

        async def take(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = {name.decode(): text.decode() for name, text in message["headers"]}
            else:
                chunks.append(message.get("body", b""))

        await self._request.app.router(self._scope(method, question), receive, take)
        return Reply(status, headers, b"".join(chunks))

    def _scope(self, method: str, question: Question) -> dict[str, Any]:
        kept = {
            name: value
            for name, value in self._request.scope.items()
            if name not in {"path_params", "route", "endpoint", "router"}
        }
        return kept | {
            "method": method,
            "path": unquote(question.path),
            "raw_path": question.path.encode(),
            "query_string": question.query_text.encode(),
            "headers": [(b"content-type", b"application/json")],
            "state": {**self._request.scope["state"], "reader": self._key},
        }


def _read(reply: Reply) -> Any:
    body = msgspec.json.decode(reply.body) if reply.body else None
    if reply.status >= 400:  # noqa: PLR2004 -- where refusals begin
        raise Refusal(reply.status, body or {})
    return body
