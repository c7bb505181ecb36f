"""Calls the running server, and turns its refusals into failures that say what to try."""

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from ett_service.cli.arguments import DEFAULT_URL
from ett_service.cli.verb import Failure, NotAllowed, OutOfReach
from ett_service.client.sending.transport import Response, Unreachable, request

PATIENT_S = 300.0
"""How long to wait for an answer that is computed from the ledgers of many jobs."""

_ANSWER_LIMIT = 1 << 30
_TIMEOUT_S = 30.0
_PAGE = 1000

_NO_KEY = 401
_FORBIDDEN = 403
_NOT_FOUND = 404
_REFUSED = 400
_SERVER_FAILED = 500


def ask(
    args: Namespace,
    path: str,
    query: Mapping[str, object] | None = None,
    *,
    method: str = "GET",
    body: object = None,
    timeout_s: float = _TIMEOUT_S,
) -> Any:
    """Send one request to the server that *args* names and return its JSON answer.

    A member of *query* that is None is left out, one that is a list is sent once for each.

    Raises:
        OutOfReach: where no answer came.
        NotAllowed: where the key is missing, unknown or may not do this.
        Failure: where the server refused for any other reason.
    """
    response = fetch(args, path, query, method=method, body=body, timeout_s=timeout_s)
    if not response.body:
        return None
    try:
        return json.loads(response.body)
    except ValueError:
        raise Failure(
            f"{args.url or DEFAULT_URL} did not answer with JSON",
            "Is this the address of an ett server? Check --url and ETT_URL.",
        ) from None


def fetch(
    args: Namespace,
    path: str,
    query: Mapping[str, object] | None = None,
    *,
    method: str = "GET",
    body: object = None,
    timeout_s: float = _TIMEOUT_S,
) -> Response:
    """Send one request, as ``ask`` does, and return the response as it came.

    Raises what ``ask`` raises.
    """
    written = urlencode(without_none(query or {}), doseq=True)
    place = path + (f"?{written}" if written else "")
    response = exchange(args, method, place, body, timeout_s=timeout_s)
    if response.status >= _REFUSED:
        raise refusal(response, args)
    return response


def pages(
    args: Namespace,
    path: str,
    member: str,
    query: Mapping[str, object],
    limit: int | None = None,
) -> Iterator[Any]:
    """Yield the pages of a list, whose rows are in *member*: *limit* rows together at most."""
    cursor, left = None, limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        page = ask(args, path, {**query, "limit": size, "cursor": cursor})
        yield page
        cursor = page["next_cursor"]
        if cursor is None:
            return
        left = None if left is None else left - len(page[member])


def listed(
    args: Namespace,
    path: str,
    member: str,
    query: Mapping[str, object],
    limit: int | None = None,
) -> list[Any]:
    """Return the rows of all pages of a list."""
    return [row for page in pages(args, path, member, query, limit) for row in page[member]]


def place(template: str, *names: str) -> str:
    """Fill a path's braces with names, whatever characters they have."""
    return template.format(*(quote(name, safe="") for name in names))


def of_project(args: Namespace, **more: object) -> dict[str, object]:
    """Return a query for the project that *args* name."""
    return {"project": args.project, **more}


def without_none(members: Mapping[str, object]) -> dict[str, object]:
    """Leave out what is None."""
    return {name: value for name, value in members.items() if value is not None}


def exchange(
    args: Namespace, method: str, path: str, body: object = None, *, timeout_s: float = _TIMEOUT_S
) -> Response:
    """Send one request and return the response, whatever its status.

    Raises:
        OutOfReach: where no answer came.
    """
    url = (args.url or DEFAULT_URL).rstrip("/") + path
    content = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        return request(
            method, url, args.key, content, headers, timeout=timeout_s, answer_limit=_ANSWER_LIMIT
        )
    except Unreachable as error:
        raise OutOfReach(
            f"the server cannot be reached: {error}",
            "Start one with `ett serve`, or name it with --url or ETT_URL.",
        ) from error


def refusal(response: Response, args: Namespace) -> Failure:
    """Return the failure that a response of status 400 or more is, with what to try."""
    message = response.problem
    if response.status == _NO_KEY:
        hint = "The server does not know this key. `ett keys list` shows the keys it has."
        if not args.key:
            hint = "Name a key with --key or ETT_API_KEY; `ett keys create` makes one."
        return NotAllowed(message, hint)
    if response.status == _FORBIDDEN:
        return NotAllowed(message, "`ett keys create --scope ...` makes a key that may.")
    if response.status == _NOT_FOUND:
        return Failure(
            message, "`ett jobs`, and `ett VERB list` as `ett keys list`, show what there is."
        )
    if response.status < _SERVER_FAILED:
        verb = vars(args).get("verb", "VERB")  # an assistant's question has none
        return Failure(message, f"`ett {verb} --help` explains the arguments.")
    request_id = response.headers.get("x-request-id", "unknown")
    return Failure(message, f"The server's log has more under request id {request_id}.")
