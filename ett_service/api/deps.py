"""What routes ask for, as typed aliases: a connection, a key, a job, a scope and a window."""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Query, Request, params
from fastapi.concurrency import run_in_threadpool
from fastapi.dependencies.utils import get_flat_params
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError
from sqlalchemy import Connection

from ett_service.api.answers import Words
from ett_service.api.load.overload import Read, ReadTicket
from ett_service.api.problems import Problem, ProblemKind, fault_members
from ett_service.api.state import AppState
from ett_service.core.dimensions import GROUPS
from ett_service.fleet import scope as scopes
from ett_service.fleet.scope import (
    MOST_CHARACTERS,
    MOST_CONDITIONS,
    STEPS,
    Exclusions,
    Scope,
    Window,
)
from ett_service.ingest.members import parse_day_or_instant
from ett_service.ingest.refusals import Code, Fault
from ett_service.storage.jobs.listing import project_id
from ett_service.storage.record.keys import Key, RecentKeys, find_key

_NO_NUL = r"^[^\x00]*$"

Text = Annotated[str | None, Query(max_length=200, pattern=_NO_NUL)]


def _instant(value: object) -> int | None:
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            raise Fault(Code.BAD_TIMESTAMP)  # noqa: TRY301 -- as of a text
        return parse_day_or_instant(value)
    except Fault as fault:
        raise PydanticCustomError(
            fault.code.value,
            "It is an RFC 3339 instant with an offset, such as 2026-03-01T08:00:00Z, or a day such "
            "as 2026-03-01, which stands for its first instant in UTC.",
        ) from fault


At = Annotated[
    int | None,
    BeforeValidator(_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""An RFC 3339 instant with an offset, or the first of a day in UTC, read into microseconds."""

Step = Annotated[
    str,
    Words(tuple(STEPS)),
    Query(description="Hours and days of UTC, or ISO weeks, which start on Monday."),
]


T = TypeVar("T")


def at_once(made: Callable[..., T]) -> Callable[..., Coroutine[Any, Any, T]]:
    """Return a dependency that makes the same without a thread: for what only computes.

    FastAPI gives plain functions and classes a thread each, and takes longer over that than they.
    """

    async def make(**given: Any) -> T:
        return made(**given)

    make.__signature__ = inspect.signature(made)  # type: ignore[attr-defined]
    return make


async def _state(request: Request) -> AppState:
    state: AppState = request.state.app
    return state


State = Annotated[AppState, Depends(_state)]


def _reader(state: State, read: ReadTicket) -> Iterator[Connection]:
    with state.store.reading() as conn, read.interruptible(conn):
        yield conn


Reader = Annotated[Connection, Depends(_reader)]


async def only_declared_parameters(request: Request) -> None:
    """Refuse query parameters that the description does not name: a mistyped filter must not pass.

    Raises:
        Problem: 422.
    """
    if not request.query_params:
        return
    parameters = get_flat_params(request.scope["route"].dependant)
    declared = {each.alias for each in parameters if isinstance(each.field_info, params.Query)}
    unknown = [
        {"type": "unknown_parameter", "loc": ("query", name), "msg": sorted(declared)}
        for name in dict.fromkeys(request.query_params)
        if name not in declared
    ]
    if unknown:
        raise Problem(ProblemKind.VALIDATION_FAILED, errors=fault_members(unknown))


def key_of(request: Request, conn: Connection) -> Key:
    """Find the key that the request names, or that of the page's reader who asks through it.

    Raises:
        Problem: 401, alike for a missing, mistyped, unknown, revoked and expired key.
    """
    reader: Key | None = getattr(request.state, "reader", None)
    if reader is not None:
        return reader
    state: AppState = request.state.app
    key = find_key(conn, _sent_key(request), state.now_us())
    if key is None:
        raise Problem(
            ProblemKind.UNAUTHORIZED,
            "Send a key as `Authorization: Bearer ett_...`.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    request.state.key_prefix = key.prefix
    return key


def _sent_key(request: Request) -> str:
    """Return the text of the key that the request carries, empty if it carries none."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def require(key: Key, *scopes: str) -> Key:
    """Pass a *key* that has one of *scopes*.

    Raises:
        Problem: 403.
    """
    if key.scopes.isdisjoint(scopes):
        raise Problem(
            ProblemKind.FORBIDDEN,
            f"This needs a key of scope {' or '.join(scopes)}.",
            headers={"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scopes[0]}"'},
        )
    return key


async def _reading_key(request: Request, conn: Reader) -> Key:
    if getattr(request.state, "reader", None) is None:
        return require(await run_in_threadpool(key_of, request, conn), "read", "fleet")
    return require(key_of(request, conn), "read", "fleet")


def _listing_key(request: Request, conn: Reader) -> Key:
    return require(key_of(request, conn), "read", "admin")


class _Writing:
    """Asks for a key of one of some scopes.

    Its connection is given back before the body is read: a slow sender must not hold one.
    """

    def __init__(self, *scopes: str) -> None:
        self._scopes = scopes

    def __call__(self, request: Request, state: State) -> Key:
        with state.store.reading() as conn:
            return require(key_of(request, conn), *self._scopes)


async def sending_key(request: Request, state: State) -> Key:
    """Find the key that the request names; raises StorageUnavailable where there is no room."""
    text = _sent_key(request)
    recent: RecentKeys = request.state.recent_keys
    key = recent.get(text, state.now_us())
    if key is None:
        async with recent.turn(text):
            key = recent.get(text, state.now_us())
            if key is None:
                key = await run_in_threadpool(_Writing("write"), request, state)
                recent.keep(text, key)
    request.state.key_prefix = key.prefix
    state.store.require_room()
    return key


ReadingKey = Annotated[Key, Depends(_reading_key)]
ListingKey = Annotated[Key, Depends(_listing_key)]
WritingKey = Annotated[Key, Depends(sending_key)]
AdminKey = Annotated[Key, Depends(_Writing("admin"))]
CorrectingKey = Annotated[Key, Depends(_Writing("write", "admin"))]


async def _reading(_: ReadingKey, read: ReadTicket) -> Read:
    return read


Reading = Annotated[Read, Depends(_reading)]
"""Says how large an answer may become, before it is read, and whether it is still waited for."""


def _project(description: str) -> Any:
    return Query(description=description, max_length=200, pattern=_NO_NUL)


_OTHER = "Another project than the key's own. Needs the scope `{}`."
_OtherToRead = Annotated[str | None, _project(_OTHER.format("fleet"))]
_OtherToWrite = Annotated[str | None, _project(_OTHER.format("admin"))]
ProjectName = Annotated[
    str | None, _project("One project. By default all, for a key of scope `fleet`.")
]


async def _project_id(key: ReadingKey, conn: Reader, project: _OtherToRead = None) -> int:
    if project is None or project == key.project:
        return key.project_id
    return await run_in_threadpool(_id_of, key, conn, project, "fleet")


async def _project_ids(
    key: ReadingKey, conn: Reader, project: ProjectName = None
) -> tuple[int, ...] | None:
    if project is None:
        return project_ids(key, conn)
    return await run_in_threadpool(project_ids, key, conn, project)


def project_ids(key: Key, conn: Connection, project: str | None = None) -> tuple[int, ...] | None:
    """Return the projects that a question is about; None for all.

    Raises:
        Problem: 404.
    """
    if project is None and "fleet" in key.scopes:
        return None
    return (_id_of(key, conn, project, "fleet"),)


def _corrected_id(key: CorrectingKey, state: State, project: _OtherToWrite = None) -> int:
    with state.store.reading() as conn:
        return _id_of(key, conn, project, "admin")


def _administered_id(key: AdminKey, state: State, project: _OtherToWrite = None) -> int:
    with state.store.reading() as conn:
        return _id_of(key, conn, project, "admin")


def _listed_id(key: ListingKey, conn: Reader, project: _OtherToWrite = None) -> int:
    return _id_of(key, conn, project, "admin")


def _id_of(key: Key, conn: Connection, project: str | None, scope: str) -> int:
    if project is None or project == key.project:
        return key.project_id
    other = project_id(conn, project) if scope in key.scopes else None
    if other is None:
        raise Problem(ProblemKind.NOT_FOUND, "No such project.")
    return other


ProjectId = Annotated[int, Depends(_project_id)]
ProjectIds = Annotated[tuple[int, ...] | None, Depends(_project_ids)]
CorrectedProjectId = Annotated[int, Depends(_corrected_id)]
AdministeredId = Annotated[int, Depends(_administered_id)]
ListedProjectId = Annotated[int, Depends(_listed_id)]


async def _job(
    job: Annotated[str, Path(description="The job's name.", examples=["llm-70b"])],
) -> str:
    if "\x00" in job:
        raise Problem(ProblemKind.NOT_FOUND, "No such job.")
    return job


Job = Annotated[str, Depends(_job)]


_DIMENSION = f"(?:{'|'.join(GROUPS)})"
_NONE_TWICE = r"(?!(?:.*,)?([a-z_]+),(?:.*,)?\1(?:,|$))"


def condition(names: Iterable[str]) -> WithJsonSchema:
    """Describe `NAME:VALUE`, of one of these names."""
    pattern = rf"^(?:{'|'.join(names)}):[^\x00]{{0,{MOST_CHARACTERS}}}$"
    return WithJsonSchema({"type": "string", "pattern": pattern})


Condition = Annotated[str, condition(GROUPS)]
"""`DIMENSION:VALUE`, read by ``scope.where``."""

AT_MOST = {"maxItems": MOST_CONDITIONS}

GroupBy = Annotated[
    Annotated[
        str,
        WithJsonSchema(
            {
                "type": "string",
                "maxLength": 200,
                "pattern": f"^{_NONE_TWICE}(?:{_DIMENSION}(?:,{_DIMENSION})*)?$",
            }
        ),
    ]
    | None,
    Query(
        description=f"Dimensions, separated by commas: {', '.join(GROUPS)}.",
        max_length=200,
        examples=["team,model"],
    ),
]


@dataclass(frozen=True, kw_only=True)
class ScopeQuery:
    """Which cohorts, as the query names them."""

    project: ProjectName = None
    where: Annotated[
        tuple[Condition, ...],
        Query(
            json_schema_extra=AT_MOST,
            description="`DIMENSION:VALUE`, split at the first colon; empty for unknown. Several "
            "values of one dimension are alternatives. Different dimensions must all match.",
            examples=[["team:pretraining"]],
        ),
    ] = ()
    exclusions: Annotated[Exclusions, Query(description="Whether excluded time counts.")] = (
        "left_out"
    )


def scope_of(query: ScopeQuery, key: Key, conn: Connection) -> Scope:
    """Read the scope of a question, as far as the *key* may read.

    Raises:
        Problem: 404.
        BadQuestion: It cannot be read.
    """
    return Scope(
        project_ids=project_ids(key, conn, query.project),
        where=scopes.where(query.where),
        exclusions=query.exclusions,
    )


async def _scope(
    query: Annotated[ScopeQuery, Depends(at_once(ScopeQuery))], key: ReadingKey, conn: Reader
) -> Scope:
    if query.project is None:
        return scope_of(query, key, conn)
    return await run_in_threadpool(scope_of, query, key, conn)


ScopeParameter = Annotated[Scope, Depends(_scope)]
"""The scope, without groups. Raises Problem 404 and BadQuestion, which is answered by 422."""


async def _grouped(scope: ScopeParameter, group_by: GroupBy = None) -> Scope:
    return replace(scope, group_by=scopes.group_by(group_by))


GroupedScope = Annotated[Scope, Depends(_grouped)]


async def _window(
    state: State,
    from_us: Annotated[
        At,
        Query(
            alias="from",
            description="Rounded down to an hour; by default a week before `to`. A day, such as "
            "2026-03-01, stands for its first instant in UTC, here as everywhere.",
        ),
    ] = None,
    to_us: Annotated[
        At, Query(alias="to", description="Rounded up to an hour; by default now.")
    ] = None,
) -> Window:
    return scopes.window(from_us, to_us, state.now_us())


WindowParameter = Annotated[Window, Depends(_window)]
"""The window of a question, on full hours. Raises BadQuestion."""
