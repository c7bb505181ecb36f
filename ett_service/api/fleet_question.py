"""What every question about the fleet asks with: whose time, and which stretch of it."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query
from sqlalchemy import Connection

from ett_service.api.deps import AppParts, Reader, ReadingKey
from ett_service.api.parameters import At, Text
from ett_service.api.problems import Kind, Problem
from ett_service.core.dimensions import GROUPS
from ett_service.fleet import scope as scopes
from ett_service.fleet import scope as windows
from ett_service.fleet.scope import Exclusions, Scope, Window
from ett_service.storage.jobs.listing import project_id
from ett_service.storage.record.keys import Key

GroupBy = Annotated[
    str | None,
    Query(
        description=f"Dimensions, separated by commas: {', '.join(GROUPS)}.",
        max_length=200,
        examples=["team,model"],
    ),
]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Whose time, as it stands in the query."""

    project: Annotated[
        Text, Query(description="One project. A key of scope `fleet` reads all unless it is given.")
    ] = None
    where: Annotated[
        tuple[str, ...],
        Query(
            description="`DIMENSION:VALUE`, split at the first colon, empty for the unknown. Of "
            "several values of one dimension any will do; those of different ones must all hold.",
            examples=[["team:pretraining"]],
        ),
    ] = ()
    exclusions: Annotated[
        Exclusions, Query(description="Whether time that somebody excluded counts.")
    ] = "left_out"


def _scope(asked: Annotated[Asked, Depends()], key: ReadingKey, conn: Reader) -> Scope:
    return scope_of(asked, key, conn)


def scope_of(asked: Asked, key: Key, conn: Connection) -> Scope:
    """Read whose time a question is about, as far as the *key* may know.

    Raises:
        Problem: 404.
        BadQuestion: It cannot be read.
    """
    return Scope(
        project_ids=_projects(asked.project, key, conn),
        where=scopes.where(asked.where),
        exclusions=asked.exclusions,
    )


def _projects(name: str | None, key: Key, conn: Connection) -> tuple[int, ...] | None:
    if name is None:
        return None if "fleet" in key.scopes else (key.project_id,)
    if name == key.project:
        return (key.project_id,)
    found = project_id(conn, name) if "fleet" in key.scopes else None
    if found is None:
        raise Problem(Kind.NOT_FOUND, "No such project.")
    return (found,)


def _window(
    parts: AppParts,
    from_us: Annotated[
        At, Query(alias="from", description="Rounded down to an hour; a week before `to`.")
    ] = None,
    to_us: Annotated[
        At, Query(alias="to", description="Rounded up to an hour; by default now.")
    ] = None,
) -> Window:
    return windows.window(from_us, to_us, parts.now_us())


AskedScope = Annotated[Scope, Depends(_scope)]
"""Whose time, without groups. Raises Problem 404 and BadQuestion, which is answered by 422."""

AskedWindow = Annotated[Window, Depends(_window)]
"""The window asked for, on full hours. Raises BadQuestion."""
