"""Markers of a project: deploys, launches, maintenance windows."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    bindparam,
    delete,
    func,
    select,
    tuple_,
)

from ett_service.core.events import Marker, MarkerKind
from ett_service.storage.engine.statements import insert_new
from ett_service.storage.schema import api_key, marker, project
from ett_service.storage.schema.view_expressions import json_entry

_ID_LENGTH = 40


@dataclass(frozen=True, slots=True)
class KeptMarker:
    """A marker, whose it is, and the key that made it."""

    project_id: int
    project: str
    marker: Marker
    made_by: str
    made_by_name: str | None
    made_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerFilter:
    """Which markers; what is empty or None asks nothing."""

    from_us: int | None = None  #: that end at or after
    to_us: int | None = None  #: that begin before
    kind: MarkerKind | None = None
    contains: str | None = None  #: in the title, in any case
    labels: Mapping[str, str] = field(default_factory=dict)


_KEPT = (
    select(marker, project.c.name.label("project"), api_key.c.name.label("maker"))
    .join(project, project.c.id == marker.c.project_id)
    .outerjoin(api_key, api_key.c.prefix == marker.c.made_by)
)
_BY_ID = _KEPT.where(
    marker.c.project_id == bindparam("of_project"), marker.c.id == bindparam("name")
)


def derived_id(made: Marker) -> str:
    """Return the id that says what the marker says: the same content has the same one."""
    content = [made.at, made.end, made.kind, made.title, sorted(made.labels.items())]
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:_ID_LENGTH]


def add_marker(
    conn: Connection, project_id: int, made: Marker, *, made_by: str, now_us: int
) -> tuple[KeptMarker, bool]:
    """Keep *made* unless its id is known; return what is kept, and whether it is new."""
    row = {
        "project_id": project_id,
        "id": made.id,
        "at_us": made.at,
        "end_us": made.end,
        "kind": made.kind.value,
        "title": made.title,
        "labels": msgspec.json.encode(dict(sorted(made.labels.items()))).decode(),
        "made_by": made_by,
        "made_us": now_us,
    }
    is_new = insert_new(conn, marker, [row]) > 0
    stored = conn.execute(_BY_ID, {"of_project": project_id, "name": made.id}).one()
    return _kept(stored), is_new


def delete_marker(conn: Connection, project_id: int, marker_id: str) -> bool:
    """Forget a marker; False where there is none."""
    gone = delete(marker).where(marker.c.project_id == project_id, marker.c.id == marker_id)
    return conn.execute(gone).rowcount > 0


def markers(
    conn: Connection,
    project_ids: Collection[int] | None,
    marker_filter: MarkerFilter,
    *,
    limit: int,
    after: tuple[int, str] | None = None,
) -> list[KeptMarker]:
    """Read up to *limit* markers of these projects (None: of all), the latest first.

    *after* is the instant and the id of the last one of the page before.
    """
    statement = _KEPT.where(*_conditions(marker_filter))
    if project_ids is not None:
        statement = statement.where(marker.c.project_id.in_(project_ids))
    keys = (marker.c.at_us, marker.c.id)
    if after is not None:
        statement = statement.where(tuple_(*keys) < tuple_(*after))
    ordered = statement.order_by(*(key.desc() for key in keys)).limit(limit)
    return [_kept(row) for row in conn.execute(ordered)]


def _conditions(marker_filter: MarkerFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if marker_filter.from_us is not None:
        conditions.append(func.coalesce(marker.c.end_us, marker.c.at_us) >= marker_filter.from_us)
    if marker_filter.to_us is not None:
        conditions.append(marker.c.at_us < marker_filter.to_us)
    if marker_filter.kind is not None:
        conditions.append(marker.c.kind == marker_filter.kind.value)
    if marker_filter.contains is not None:
        conditions.append(marker.c.title.icontains(marker_filter.contains, autoescape=True))
    for name, value in marker_filter.labels.items():
        conditions.append(json_entry(marker.c.labels, name) == value)
    return conditions


def _kept(row: Row[*tuple[Any, ...]]) -> KeptMarker:
    return KeptMarker(
        project_id=row.project_id,
        project=row.project,
        marker=Marker(
            id=row.id,
            at=row.at_us,
            kind=MarkerKind(row.kind),
            title=row.title,
            end=row.end_us,
            labels=msgspec.json.decode(row.labels),
        ),
        made_by=row.made_by,
        made_by_name=row.maker,
        made_at=row.made_us,
    )
