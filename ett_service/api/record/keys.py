"""Keys: who may do what in which project."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema
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
from ett_service.api.deps import AdminKey, At, ListingKey, Reader, State, only_declared_parameters
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.state import AppState
from ett_service.storage.record import keys
from ett_service.storage.record.keys import BadKey

router = APIRouter(
    prefix="/v1/keys", tags=["keys"], dependencies=[Depends(only_declared_parameters)]
)

KeyScope = Annotated[str, Words(keys.SCOPES)]


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


class KeyRequest(RequestBody):
    """The key to create."""

    model_config = ConfigDict(strict=True)

    project: _Name = Field(
        description="1 to 100 printable characters, no `/`. A new project is created."
    )
    name: _Name = Field(
        description="What the key is for; 1 to 100 printable characters, no `/`.",
    )
    scopes: list[KeyScope] = Field(min_length=1, max_length=len(keys.SCOPES))
    expires_at: At = Field(default=None, description="From then on it is refused; null: never.")


class KeyAnswer(Answer):
    """A key without its secret."""

    prefix: str = Field(description="The first characters of the key, which identify it.")
    project: str
    name: str
    scopes: Annotated[list[KeyScope], BeforeValidator(sorted)]
    created_at: Instant
    revoked_at: Instant | None
    expires_at: Instant | None = Field(description="Null: never.")


class MadeKey(KeyAnswer):
    """A new key."""

    key: str = Field(description="The key itself. It is shown only once.")


class KeyList(Answer):
    """Keys, the oldest first."""

    keys: list[KeyAnswer]


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


@router.post(
    "",
    operation_id="create_key",
    status_code=201,
    responses=declared(400, 401, 403, 408, 413, 415, 422, 503),
    openapi_extra=described(KeyRequest),
)
async def create_key(_: AdminKey, request: Request, state: State) -> MadeKey:
    """Create a key. The answer is the only place that shows it."""
    return await run_in_threadpool(_create, state, await read_model(request, state, KeyRequest))


@router.delete(
    "/{prefix}",
    operation_id="revoke_key",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 422, 503),
)
def revoke_key(prefix: str, _: AdminKey, state: State) -> None:
    """Revoke a key at once. This cannot be undone."""
    now_us = state.now_us()
    is_text = "\x00" not in prefix
    if not is_text or not state.store.write(lambda conn: keys.revoke_key(conn, prefix, now_us)):
        raise Problem(ProblemKind.NOT_FOUND, "No active key has this prefix.")


def _create(state: AppState, body: KeyRequest) -> MadeKey:
    now_us = state.now_us()

    def create(conn: Connection) -> str:
        return keys.create_key(
            conn,
            project=body.project,
            name=body.name,
            scopes=body.scopes,
            now_us=now_us,
            expires_us=body.expires_at,
        )

    try:
        key = state.store.write(create)
    except BadKey as error:
        raise Problem(ProblemKind.VALIDATION_FAILED, str(error)) from error
    return MadeKey.of(
        body,
        prefix=key[: keys.PREFIX_LENGTH],
        scopes=set(body.scopes),
        created_at=now_us,
        revoked_at=None,
        key=key,
    )
