"""Keys: who may do what in which project."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AliasPath, BeforeValidator, Field, WithJsonSchema
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from ett_service.api.answers import Answer, Instant, Words
from ett_service.api.bodies import (
    FormatParameter,
    RequestBody,
    as_files,
    described,
    listed,
    read_model,
)
from ett_service.api.deps import At, ListingKey, Reader, State, only_declared_parameters
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.record.audit import Acts, AdminActs
from ett_service.core.intervals import SECOND_US
from ett_service.storage.record import keys
from ett_service.storage.record.audit import Action, AdminAct, made_key
from ett_service.storage.record.keys import AlreadyReplaced, BadKey, Key

router = APIRouter(
    prefix="/v1/keys", tags=["keys"], dependencies=[Depends(only_declared_parameters)]
)
usage_router = APIRouter(tags=["keys"], dependencies=[Depends(only_declared_parameters)])

KeyScope = Annotated[str, Words(keys.SCOPES)]

UsageWindow = Annotated[str, Words(tuple(keys.USAGE_WINDOWS))]

_LONGEST_OVERLAP_S = 90 * 86_400

_Name = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": keys.NAME_LENGTH,
            "pattern": r"^[^/\x00-\x1f\x7f-\xa0\xad]*$",
        }
    ),
]


AtOrNever = Annotated[At, WithJsonSchema({"type": ["string", "null"], "format": "date-time"})]


class KeyRequest(RequestBody):
    """The key to create."""

    project: _Name = Field(
        description="1 to 100 printable characters, no `/`. A new project is created."
    )
    name: _Name = Field(
        description="What the key is for; 1 to 100 printable characters, no `/`.",
    )
    scopes: list[KeyScope] = Field(min_length=1, max_length=len(keys.SCOPES))
    expires_at: AtOrNever = Field(
        default=None, description="From then on it is refused; null: never."
    )


class RotationRequest(RequestBody):
    """For how long the old key still works."""

    overlap_seconds: int = Field(
        default=86_400,
        ge=0,
        le=_LONGEST_OVERLAP_S,
        description="From then on the old key is refused, if it has not expired before.",
    )


class KeyAnswer(Answer):
    """A key without its secret."""

    prefix: str = Field(description="The first characters of the key, which identify it.")
    project: str
    name: str
    scopes: Annotated[list[KeyScope], BeforeValidator(sorted)]
    created_at: Instant
    revoked_at: Instant | None
    expires_at: Instant | None = Field(description="Null: never.")
    replaced_by: str | None = Field(description="Prefix of its successor, if it was rotated.")
    last_used_at: Instant | None = Field(
        description="Up to ten seconds behind. Null: not since this was recorded."
    )


class MadeKey(KeyAnswer):
    """A new key."""

    key: str = Field(description="The key itself. It is shown only once.")


class KeyList(Answer):
    """Keys, the oldest first."""

    keys: list[KeyAnswer]


class KeyUsageAnswer(Answer):
    """What a key sent in a window."""

    prefix: str = Field(validation_alias=AliasPath("key", "prefix"))
    project: str = Field(validation_alias=AliasPath("key", "project"))
    name: str = Field(validation_alias=AliasPath("key", "name"))
    requests: int = Field(validation_alias=AliasPath("usage", "requests"))
    refused: int = Field(
        validation_alias=AliasPath("usage", "refused"),
        description="Of them, by 429 or 503: it sends more than there is room for.",
    )
    events: int = Field(validation_alias=AliasPath("usage", "events"), description="Accepted.")
    bytes: int = Field(
        validation_alias=AliasPath("usage", "bytes"), description="Of bodies, as sent."
    )
    last_used_at: Instant | None = Field(validation_alias=AliasPath("key", "last_used_at"))


class KeyUsageList(Answer):
    """What each key sent in a window, most bytes first; keys that sent nothing are left out."""

    window: UsageWindow
    keys: list[KeyUsageAnswer]


Window = Annotated[UsageWindow, Query(description="The last hour, day or week.")]


@router.get(
    "", operation_id="list_keys", response_model=KeyList, responses=as_files((401, 403, 422, 503))
)
def list_keys(key: ListingKey, conn: Reader, form: FormatParameter = "json") -> KeyList | Response:
    """List the keys: all of them with `admin`, those of the key's own project with `read`."""
    shown = keys.list_keys(conn)
    if "admin" not in key.scopes:
        shown = [each for each in shown if each.project_id == key.project_id]
    answer = KeyList.of(keys=shown)
    return listed(form, answer, answer.keys, of=KeyAnswer, name="keys")


@usage_router.get(
    "/v1/key-usage",
    operation_id="list_key_usage",
    response_model=KeyUsageList,
    responses=as_files((401, 403, 422, 503)),
)
def list_key_usage(
    key: ListingKey,
    conn: Reader,
    state: State,
    window: Window = "day",
    form: FormatParameter = "json",
) -> KeyUsageList | Response:
    """List what each key sent: of all keys with `admin`, of those of its project with `read`.

    Sums are of ten minutes, and up to ten seconds behind.
    """
    project_ids = None if "admin" in key.scopes else (key.project_id,)
    sums = keys.usage_by_key(conn, keys.USAGE_WINDOWS[window], state.now_us(), project_ids)
    answer = KeyUsageList.of(window=window, keys=sums)
    return listed(form, answer, answer.keys, of=KeyUsageAnswer, name="key-usage")


@router.post(
    "",
    operation_id="create_key",
    status_code=201,
    responses=declared(400, 401, 403, 408, 413, 415, 422, 503),
    openapi_extra=described(KeyRequest),
)
async def create_key(acts: AdminActs, request: Request, state: State) -> MadeKey:
    """Create a key. The answer is the only place that shows it."""
    return await run_in_threadpool(_create, acts, await read_model(request, state, KeyRequest))


@router.post(
    "/{prefix}/rotate",
    operation_id="rotate_key",
    status_code=201,
    responses=declared(400, 401, 403, 404, 408, 409, 413, 415, 422, 503),
    openapi_extra=described(RotationRequest),
)
async def rotate_key(prefix: str, acts: AdminActs, request: Request, state: State) -> MadeKey:
    """Create a successor of a key, which itself expires after an overlap.

    The successor has its project, name, scopes and length of life. The answer is the only place
    that shows it. `last_used_at` of the old key says whether anybody still uses that. A key that
    was rotated before is refused with 409.
    """
    body = await read_model(request, state, RotationRequest)
    made = await run_in_threadpool(_rotate, acts, prefix, body.overlap_seconds)
    request.state.recent_keys.forget()
    return made


@router.delete(
    "/{prefix}",
    operation_id="revoke_key",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 422, 503),
)
def revoke_key(prefix: str, acts: AdminActs, request: Request, state: State) -> None:
    """Revoke a key at once. This cannot be undone."""
    now_us = state.now_us()

    def revoke(conn: Connection) -> Key | None:
        key = keys.revoke_key(conn, prefix, now_us)
        if key is not None:
            acts.record(conn, AdminAct(Action.KEY_REVOKED, prefix, key.project_id))
        return key

    if "\x00" in prefix or state.store.write(revoke) is None:
        raise _unknown()
    request.state.recent_keys.forget()


def _create(acts: Acts, body: KeyRequest) -> MadeKey:
    now_us = acts.state.now_us()

    def create(conn: Connection) -> MadeKey:
        text = keys.create_key(
            conn,
            project=body.project,
            name=body.name,
            scopes=body.scopes,
            now_us=now_us,
            expires_us=body.expires_at,
        )
        return _made(conn, acts, text, AdminAct(Action.KEY_CREATED))

    try:
        return acts.state.store.write(create)
    except BadKey as error:
        raise Problem(ProblemKind.VALIDATION_FAILED, str(error)) from error


def _rotate(acts: Acts, prefix: str, overlap_s: int) -> MadeKey:
    now_us, overlap_us = acts.state.now_us(), overlap_s * SECOND_US

    def rotate(conn: Connection) -> MadeKey | None:
        text = keys.rotate_key(conn, prefix, overlap_us=overlap_us, now_us=now_us)
        act = AdminAct(Action.KEY_ROTATED, prefix, details={"overlap_seconds": overlap_s})
        return None if text is None else _made(conn, acts, text, act)

    try:
        made = None if "\x00" in prefix else acts.state.store.write(rotate)
    except AlreadyReplaced as error:
        raise Problem(ProblemKind.CONFLICT, f"{error} {error.hint}") from error
    if made is None:
        raise _unknown()
    return made


def _made(conn: Connection, acts: Acts, text: str, act: AdminAct) -> MadeKey:
    """Record that the key *text* was made, and return it; a key that it replaces is the target."""
    key = keys.get_key(conn, text[: keys.PREFIX_LENGTH])
    assert key is not None
    acts.record(conn, made_key(key, act))
    return MadeKey.of(key, key=text)


def _unknown() -> Problem:
    return Problem(ProblemKind.NOT_FOUND, "No active key has this prefix.")
