"""Asks the running server, and turns its refusals into failures that say what to try."""

import argparse
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from ett_service.cli.arguments import DEFAULT_URL
from ett_service.cli.exits import Failure, NotAllowed, OutOfReach
from ett_service.client.transport import Response, Unreachable, request

_ANSWER_LIMIT = 1 << 30
_TIMEOUT_S = 30.0

PATIENT_S = 300.0
"""How long to wait for an answer that is computed from the ledgers of many jobs."""

_NO_KEY = 401
_FORBIDDEN = 403
_NOT_FOUND = 404
_REFUSED = 400
_SERVER_FAILED = 500


def ask(
    args: argparse.Namespace,
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
    answer = fetch(args, path, query, method=method, body=body, timeout_s=timeout_s)
    if not answer.body:
        return None
    try:
        return json.loads(answer.body)
    except ValueError:
        raise Failure(
            f"{args.url or DEFAULT_URL} did not answer with JSON",
            "Is this the address of an ett server? Check --url and ETT_URL.",
        ) from None


def fetch(
    args: argparse.Namespace,
    path: str,
    query: Mapping[str, object] | None = None,
    *,
    method: str = "GET",
    body: object = None,
    timeout_s: float = _TIMEOUT_S,
) -> Response:
    """Send one request, as ``ask`` does, and return the answer as it came.

    Raises what ``ask`` raises.
    """
    url = (args.url or DEFAULT_URL).rstrip("/")
    asked = {name: value for name, value in (query or {}).items() if value is not None}
    written = urlencode(asked, doseq=True)
    address = url + path + (f"?{written}" if written else "")
    answer = _exchange(method, address, args, body, timeout_s)
    if answer.status >= _REFUSED:
        raise _refusal(answer, args)
    return answer


def _exchange(
    method: str, url: str, args: argparse.Namespace, body: object, timeout_s: float
) -> Response:
    sent = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        return request(
            method, url, args.key, sent, headers, timeout=timeout_s, answer_limit=_ANSWER_LIMIT
        )
    except Unreachable as error:
        raise OutOfReach(
            f"the server cannot be reached: {error}",
            "Start one with `ett serve`, or name it with --url or ETT_URL.",
        ) from error


def _refusal(answer: Response, args: argparse.Namespace) -> Failure:
    said = _said(answer)
    if answer.status == _NO_KEY:
        hint = "The server knows no such key; `ett keys list` shows those it has."
        if not args.key:
            hint = "Name a key with --key or ETT_API_KEY; `ett keys create` makes one."
        return NotAllowed(said, hint)
    if answer.status == _FORBIDDEN:
        return NotAllowed(said, "`ett keys create --scope ...` makes a key that may.")
    if answer.status == _NOT_FOUND:
        return Failure(
            said,
            "`ett jobs`, and `ett VERB list` as `ett keys list`, show what there is.",
        )
    if answer.status < _SERVER_FAILED:
        return Failure(said, "`ett VERB --help` tells what may be asked.")
    request_id = answer.headers.get("x-request-id", "unknown")
    return Failure(said, f"The server's log has more under request id {request_id}.")


def _said(answer: Response) -> str:
    try:
        problem = json.loads(answer.body)
        detail = problem.get("detail")
        faults = [_fault(one, is_explained=bool(detail)) for one in problem.get("errors", ())]
        return " ".join(filter(None, [f"{problem['title']}.", detail, *faults]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"the server answered with status {answer.status}"


def _fault(fault: Mapping[str, Any], *, is_explained: bool) -> str:
    said = f"{fault['pointer']}: {fault['code']}."
    allowed = fault.get("allowed")
    if is_explained or not allowed:
        return said
    words = allowed if isinstance(allowed, str) else f"It may be {', '.join(allowed)}"
    return f"{said} {words.removesuffix('.')}."
