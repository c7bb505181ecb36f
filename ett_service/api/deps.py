"""What routes ask for, as typed aliases: a connection, a key that may, a project, a job."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, params
from fastapi.dependencies.utils import get_flat_params
from sqlalchemy import Connection

from ett_service.api.problems import Kind, Problem, faults
from ett_service.api.state import Parts
from ett_service.storage.jobs.listing import project_id
from ett_service.storage.record.keys import Key, find_key


def _parts(request: Request) -> Parts:
    parts: Parts = request.state.parts
    return parts


AppParts = Annotated[Parts, Depends(_parts)]


def _reader(parts: AppParts) -> Iterator[Connection]:
    with parts.store.reading() as conn:
        yield conn


Reader = Annotated[Connection, Depends(_reader)]


def only_declared_parameters(request: Request) -> None:
    """Refuse query parameters that the description does not name: a mistyped filter must not pass.

    Raises:
        Problem: 422.
    """
    declared = get_flat_params(request.scope["route"].dependant)
    known = {one.alias for one in declared if isinstance(one.field_info, params.Query)}
    unknown = [
        {"type": "unknown_parameter", "loc": ("query", name), "msg": sorted(known)}
        for name in dict.fromkeys(request.query_params)
        if name not in known
    ]
    if unknown:
        raise Problem(Kind.VALIDATION_FAILED, errors=faults(unknown))


def known_key(request: Request, conn: Connection) -> Key:
    """Find the key that the request names.

    Raises:
        Problem: 401, alike for a missing, mistyped, unknown and revoked key.
    """
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    key = find_key(conn, text.strip()) if scheme.lower() == "bearer" else None
    if key is None:
        raise Problem(
            Kind.UNAUTHORIZED,
            "Send a key as `Authorization: Bearer ett_...`.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    request.state.key_prefix = key.prefix
    return key


def require(key: Key, *scopes: str) -> Key:
    """Pass a *key* that has one of *scopes*.

    Raises:
        Problem: 403.
    """
    if key.scopes.isdisjoint(scopes):
        raise Problem(
            Kind.FORBIDDEN,
            f"This needs a key of scope {' or '.join(scopes)}.",
            headers={"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scopes[0]}"'},
        )
    return key


def _reading_key(request: Request, conn: Reader) -> Key:
    return require(known_key(request, conn), "read", "fleet")


def _listing_key(request: Request, conn: Reader) -> Key:
    return require(known_key(request, conn), "read", "admin")


def _writing_key(request: Request, parts: AppParts) -> Key:
    # Its own connection, given back before the body is read: a slow sender must not hold one.
    with parts.store.reading() as conn:
        return require(known_key(request, conn), "write")


def _admin_key(request: Request, parts: AppParts) -> Key:
    with parts.store.reading() as conn:
        return require(known_key(request, conn), "admin")


def _correcting_key(request: Request, parts: AppParts) -> Key:
    with parts.store.reading() as conn:
        return require(known_key(request, conn), "write", "admin")


ReadingKey = Annotated[Key, Depends(_reading_key)]
ListingKey = Annotated[Key, Depends(_listing_key)]
WritingKey = Annotated[Key, Depends(_writing_key)]
AdminKey = Annotated[Key, Depends(_admin_key)]
CorrectingKey = Annotated[Key, Depends(_correcting_key)]


def _named(scope: str) -> Any:
    return Query(
        description=f"Another project than the key's own; needs the scope `{scope}`.",
        max_length=200,
        pattern=r"^[^\x00]*$",
    )


def _project_id(
    key: ReadingKey, conn: Reader, project: Annotated[str | None, _named("fleet")] = None
) -> int:
    return _of_project(key, conn, project, "fleet")


def _project_ids(
    key: ReadingKey,
    conn: Reader,
    project: Annotated[
        str | None,
        Query(
            description="One project. A key of scope `fleet` reads all unless it is given.",
            max_length=200,
            pattern=r"^[^\x00]*$",
        ),
    ] = None,
) -> tuple[int, ...] | None:
    if project is None and "fleet" in key.scopes:
        return None
    return (_of_project(key, conn, project, "fleet"),)


def _corrected_project_id(
    key: CorrectingKey, parts: AppParts, project: Annotated[str | None, _named("admin")] = None
) -> int:
    with parts.store.reading() as conn:
        return _of_project(key, conn, project, "admin")


def _administered_id(
    key: AdminKey, parts: AppParts, project: Annotated[str | None, _named("admin")] = None
) -> int:
    with parts.store.reading() as conn:
        return _of_project(key, conn, project, "admin")


def _listed_project_id(
    key: ListingKey, conn: Reader, project: Annotated[str | None, _named("admin")] = None
) -> int:
    return _of_project(key, conn, project, "admin")


def _of_project(key: Key, conn: Connection, project: str | None, scope: str) -> int:
    if project is None or project == key.project:
        return key.project_id
    found = project_id(conn, project) if scope in key.scopes else None
    if found is None:
        raise Problem(Kind.NOT_FOUND, "No such project.")
    return found


ProjectId = Annotated[int, Depends(_project_id)]
ProjectIds = Annotated[tuple[int, ...] | None, Depends(_project_ids)]
"""Those that the question is about; None for all."""
CorrectedProjectId = Annotated[int, Depends(_corrected_project_id)]
AdministeredId = Annotated[int, Depends(_administered_id)]
ListedProjectId = Annotated[int, Depends(_listed_project_id)]


def _job(job: Annotated[str, Path(description="The job's name.", examples=["llm-70b"])]) -> str:
    if "\x00" in job:
        raise Problem(Kind.NOT_FOUND, "No such job.")
    return job


Job = Annotated[str, Depends(_job)]
