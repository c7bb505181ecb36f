"""What every question about the fleet asks with: a scope and a window."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Depends, Query
from pydantic import AliasPath, Field
from sqlalchemy import Connection

from ett_service.api.answers import Answer, Instant, SortedValues
from ett_service.api.deps import At, ProjectName, Reader, ReadingKey, State, project_ids
from ett_service.core.dimensions import GROUPS, Dimension
from ett_service.fleet import scope as scopes
from ett_service.fleet import scope as windows
from ett_service.fleet.scope import Exclusions, Scope, Window
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
class ScopeQuery:
    """Which cohorts, as the query names them."""

    project: ProjectName = None
    where: Annotated[
        tuple[str, ...],
        Query(
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


def _scope(query: Annotated[ScopeQuery, Depends()], key: ReadingKey, conn: Reader) -> Scope:
    return scope_of(query, key, conn)


ScopeParameter = Annotated[Scope, Depends(_scope)]
"""The scope, without groups. Raises Problem 404 and BadQuestion, which is answered by 422."""


def _grouped(scope: ScopeParameter, group_by: GroupBy = None) -> Scope:
    return replace(scope, group_by=scopes.group_by(group_by))


GroupedScope = Annotated[Scope, Depends(_grouped)]


def _window(
    state: State,
    from_us: Annotated[
        At,
        Query(alias="from", description="Rounded down to an hour; by default a week before `to`."),
    ] = None,
    to_us: Annotated[
        At, Query(alias="to", description="Rounded up to an hour; by default now.")
    ] = None,
) -> Window:
    return windows.window(from_us, to_us, state.now_us())


WindowParameter = Annotated[Window, Depends(_window)]
"""The window of a question, on full hours. Raises BadQuestion."""


def start_of(window: str = "") -> Any:
    """Read the start of a window, of the source's own or of its attribute *window*."""
    path = AliasPath(window, "from_us") if window else "from_us"
    return Field(serialization_alias="from", validation_alias=path)


def end_of(window: str = "") -> Any:
    """Read the end of a window."""
    return Field(validation_alias=AliasPath(window, "to_us") if window else "to_us")


class AskedAnswer(Answer):
    """The question as it was understood. Windows are on full hours."""

    from_: Instant = start_of()
    to: Instant = end_of()
    as_of: Instant = Field(description="When the answer was computed.")
    group_by: list[Dimension]
    where: Annotated[dict[Dimension, list[str]], SortedValues] = Field(
        description="Empty text stands for unknown."
    )
    exclusions: Exclusions
