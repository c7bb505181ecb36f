"""What pages load and link to besides pages: style and script, files of numbers, live changes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ett_service.api.bodies import CSV, csv_of
from ett_service.api.problems import Problem, ProblemKind
from ett_service.pages.ask import Ask, Question, Reply
from ett_service.pages.links import quoted
from ett_service.pages.render import HEADERS, asset, asset_address, page, sent
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.pages.sessions import state_of

ROUTER = router()

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_KEPT = {"content-type", "content-disposition"}
_POLL_S = 2.0
_LONGEST_S = 300.0


@ROUTER.get("/assets/{version}/{name}")
def read_asset(
    request: Request, version: str, name: Literal["ett.css", "ett.js", "ett.svg"]
) -> Response:
    """Return a style, a script or the icon; another version has another address."""
    is_current = asset_address(name) == f"/assets/{version}/{name}"
    kept = "public, max-age=31536000, immutable" if is_current else "no-store"
    headers = {**HEADERS, "Cache-Control": kept}
    return sent(request, asset(name), _TYPES[name.rpartition(".")[2]], headers=headers)


@ROUTER.get("/data/{path:path}")
async def read_file(request: Request, path: str, ask: Asking) -> Response:
    """Return an answer of the API to whoever is signed in, such as a CSV."""
    if not path.startswith("v1/"):
        raise Problem(ProblemKind.NOT_FOUND)
    raw: bytes = request.scope["raw_path"]
    query = _query(request)
    (*_, rows) = query.pop("rows", [""])
    question = Question(raw.decode("ascii").removeprefix("/data"), query)
    if rows:
        return _rows_of(await ask(question), rows)
    reply = await ask.send("GET", question)
    headers = {name: text for name, text in reply.headers.items() if name in _KEPT}
    return Response(reply.body, reply.status, headers | HEADERS)


def _rows_of(answer: Any, members: str) -> Response:
    """Write a part of an answer as CSV: a list of objects, or values by name.

    Members that hold values by name become columns beside each other: ``categories,gpu_seconds``.

    Raises:
        Problem: 404 where the answer has no such member.
    """
    names = members.split(",")
    found = [_member(answer, name) for name in names]
    rows = found[0]
    if len(found) > 1 or isinstance(rows, dict):
        rows = _beside([name.rpartition(".")[2] for name in names], found)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Problem(ProblemKind.NOT_FOUND)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    named = f'attachment; filename="{names[0].rpartition(".")[2]}.csv"'
    headers = {"Content-Disposition": named} | HEADERS
    return Response(csv_of(columns, rows), 200, headers, CSV)


def _member(answer: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(answer, list) and name.isdecimal() and int(name) < len(answer):
            answer = answer[int(name)]
        elif isinstance(answer, dict) and name in answer:
            answer = answer[name]
        else:
            raise Problem(ProblemKind.NOT_FOUND)
    return answer


def _beside(names: list[str], found: list[Any]) -> list[dict[str, Any]]:
    """Make a row of each name that the objects *found* have a value of; None has none."""
    if not all(values is None or isinstance(values, dict) for values in found):
        raise Problem(ProblemKind.NOT_FOUND)
    held = [values or {} for values in found]
    columns = names if len(names) > 1 else ["value"]
    return [
        {"name": name, **{c: v.get(name) for c, v in zip(columns, held, strict=True)}}
        for name in dict.fromkeys(name for values in held for name in values)
    ]


def _query(request: Request) -> dict[str, list[str]]:
    query = request.query_params
    return {name: query.getlist(name) for name in query}


@ROUTER.get("/live")
async def follow(
    request: Request,
    ask: Asking,
    job: Annotated[str | None, Query(max_length=200)] = None,
    project: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Send an event when a job changes, or without a job when the first one comes."""
    question = Question("/v1/jobs", {"project": project, "limit": 1})
    if job is not None:
        question = _job_question(job, project)
    return StreamingResponse(
        _changes(request, ask, question),
        media_type="text/event-stream",
        headers={**HEADERS, "X-Accel-Buffering": "no"},
    )


def _job_question(job: str, project: str | None) -> Question:
    return Question(f"/v1/jobs/{quoted(job)}", {"project": project})


async def _changes(request: Request, ask: Ask, question: Question) -> AsyncIterator[str]:
    yield "retry: 3000\n\n"
    stopping, loop = state_of(request).stopping, asyncio.get_running_loop()
    end, before = loop.time() + _LONGEST_S, await ask.send("GET", question)
    while loop.time() < end and not stopping.is_set():
        await asyncio.sleep(_POLL_S)
        reply = await ask.send("GET", question)
        if _differs(before, reply):
            before = reply
            yield "data: changed\n\n"
        else:
            yield ": nothing new\n\n"


def _differs(before: Reply, after: Reply) -> bool:
    return (before.status, before.body) != (after.status, after.body)


@ROUTER.get("/definitions")
def show_definitions(request: Request, session: SignedIn) -> Response:
    """Show what the words on pages mean."""
    return page(request, "definitions.html", session)
