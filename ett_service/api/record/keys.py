"""Keys: who may do what in which project."""

from typing import Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ConfigDict, Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from ett_service.api.answers import Answer, Instant
from ett_service.api.asked import described, read_asked
from ett_service.api.deps import AdminKey, AppParts, ListingKey, Reader, only_declared_parameters
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.problems import Kind, Problem, declared
from ett_service.api.rendering import maybe_instant
from ett_service.api.state import Parts
from ett_service.core.intervals import rfc3339
from ett_service.storage.record import keys
from ett_service.storage.record.keys import BadKey, Key

router = APIRouter(
    prefix="/v1/keys", tags=["keys"], dependencies=[Depends(only_declared_parameters)]
)

Scope = Literal["write", "read", "fleet", "admin"]

_EXAMPLE: dict[str, Any] = {
    "prefix": "ett_4Zk0Xw7b",
    "project": "research",
    "name": "cluster a",
    "scopes": ["read", "write"],
    "created_at": "2026-03-01T08:00:00.000000Z",
    "revoked_at": None,
}
_ASKED: dict[str, Any] = {"project": "research", "name": "cluster a", "scopes": ["write"]}


class NewKey(Answer):
    """The key to make."""

    model_config = ConfigDict(strict=True, json_schema_extra={"example": _ASKED})

    project: str = Field(description="1 to 100 printable characters, no `/`; made if it is new.")
    name: str = Field(description="What the key is for; likewise.")
    scopes: list[Scope] = Field(min_length=1, max_length=len(keys.SCOPES))


class KeyAnswer(Answer):
    """A key without its secret."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    prefix: str = Field(description="The first characters of the key; they name it.")
    project: str
    name: str
    scopes: list[Scope]
    created_at: Instant
    revoked_at: Instant | None


class MadeKey(KeyAnswer):
    """A new key."""

    model_config = ConfigDict(
        json_schema_extra={"example": {**_EXAMPLE, "key": "ett_4Zk0Xw7b…"}},
    )

    key: str = Field(description="The key itself, shown only now.")


class KeyList(Answer):
    """Keys, the oldest first."""

    model_config = ConfigDict(json_schema_extra={"example": {"keys": [_EXAMPLE]}})

    keys: list[KeyAnswer]


@router.get(
    "",
    operation_id="list_keys",
    response_model=KeyList,
    responses={**as_files(), **declared(401, 403, 422, 503)},
)
def list_keys(key: ListingKey, conn: Reader, form: FormatParameter = "json") -> KeyList | Response:
    """List the keys: with `admin` all of them, with `read` those of the key's own project."""
    found = keys.list_keys(conn)
    if "admin" not in key.scopes:
        found = [each for each in found if each.project_id == key.project_id]
    answer = KeyList(keys=[KeyAnswer(**_members(each)) for each in found])
    return listed(form, answer, answer.keys, of=KeyAnswer, name="keys")


@router.post(
    "",
    operation_id="create_key",
    status_code=201,
    responses=declared(400, 401, 403, 408, 413, 415, 422, 503),
    openapi_extra=described(NewKey, _ASKED),
)
async def create_key(_: AdminKey, request: Request, parts: AppParts) -> MadeKey:
    """Make a key. Its text is in the answer, and nowhere else."""
    return await run_in_threadpool(_create, parts, await read_asked(request, parts, NewKey))


@router.delete(
    "/{prefix}",
    operation_id="revoke_key",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 422, 503),
)
def revoke_key(prefix: str, _: AdminKey, parts: AppParts) -> None:
    """Revoke a key, from now on and for good."""
    now_us = parts.now_us()
    known = "\x00" not in prefix
    if not known or not parts.store.write(lambda conn: keys.revoke_key(conn, prefix, now_us)):
        raise Problem(Kind.NOT_FOUND, "No key that stands begins so.")


def _create(parts: Parts, asked: NewKey) -> MadeKey:
    now_us = parts.now_us()

    def create(conn: Connection) -> str:
        return keys.create_key(
            conn, project=asked.project, name=asked.name, scopes=asked.scopes, now_us=now_us
        )

    try:
        key = parts.store.write(create)
    except BadKey as error:
        raise Problem(Kind.VALIDATION_FAILED, str(error)) from error
    return MadeKey(
        prefix=key[: keys.PREFIX_LENGTH],
        project=asked.project,
        name=asked.name,
        scopes=sorted(set(asked.scopes)),
        created_at=rfc3339(now_us),
        revoked_at=None,
        key=key,
    )


def _members(key: Key) -> dict[str, Any]:
    return {
        "prefix": key.prefix,
        "project": key.project,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "created_at": rfc3339(key.created_at),
        "revoked_at": maybe_instant(key.revoked_at),
    }
