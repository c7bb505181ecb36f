"""Asks a server with a key, and turns its refusals into errors that say what to try."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from ett_service.client.transport import Unreachable, request
from ett_service.frames.source import FrameError, When

_ANSWER_LIMIT = 1 << 30
_TIMEOUT_S = 120.0
_REFUSED = 400
_JSON = {"Content-Type": "application/json"}

Answer = Mapping[str, Any]


class Asking:
    """A server, asked anew for every frame. What is asked of it is bounded by its key."""

    def __init__(self, url: str, key: str | None, project: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._key = key
        self._project = project

    def close(self) -> None:
        """Do nothing: no connection is kept."""

    def ask(self, path: str, *, body: object = None, **query: object) -> Any:
        """Return the JSON answer to any request; with a *body* it is a POST.

        Raises:
            FrameError: where the server cannot be reached, or refuses.
        """
        asked = {"project": self._project, **query}
        written = urlencode({k: v for k, v in asked.items() if v is not None}, doseq=True)
        url = f"{self._url}{path}" + (f"?{written}" if written else "")
        sent = None if body is None else json.dumps(body).encode()
        method, headers = ("GET", {}) if sent is None else ("POST", _JSON)
        try:
            answer = request(
                method,
                url,
                self._key,
                sent,
                headers,
                timeout=_TIMEOUT_S,
                answer_limit=_ANSWER_LIMIT,
            )
        except Unreachable as error:
            raise FrameError(str(error), "Start one with `ett serve`.") from None
        if answer.status >= _REFUSED:
            raise _refusal(answer.body, answer.status)
        return json.loads(answer.body)

    def pages(self, path: str, member: str, **query: object) -> Iterator[Any]:
        """Return the rows of every page of a list, of which *member* holds them."""
        cursor = None
        while True:
            page = self.ask(path, cursor=cursor, **query)
            yield from page[member]
            cursor = page["next_cursor"]
            if cursor is None:
                return


def window(begin: When, end: When) -> dict[str, object]:
    """Return a window as the API takes it.

    Raises:
        FrameError: where an instant has no zone.
    """
    return {"from": _instant(begin), "to": _instant(end)}


def _instant(when: When) -> str | None:
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise FrameError(f"{when} has no zone", "Name it: datetime(..., tzinfo=UTC).")
        return when.isoformat()
    return when


def _refusal(body: bytes, status: int) -> FrameError:
    try:
        problem = json.loads(body)
        faults = [f"{fault['pointer']}: {fault['code']}." for fault in problem.get("errors", ())]
        said = " ".join(filter(None, [f"{problem['title']}.", problem.get("detail"), *faults]))
    except (ValueError, KeyError, TypeError, AttributeError):
        said = f"the server answered with status {status}"
    return FrameError(said, "Is the key one that may read this? `ett keys list` shows them.")
