"""Which regressions receivers are notified of: changes they do not know, reminders, and no mutes.

A mute keeps the regressions of some series silent for a while, by people or by maintenance.
"""

import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, func, insert, or_, select, tuple_, update

from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.events import MarkerKind
from ett_service.core.regressions.finding import Series, State, Triage, Verdict
from ett_service.core.regressions.state import is_firing_version
from ett_service.storage.record import markers
from ett_service.storage.record.markers import MarkerFilter
from ett_service.storage.regressions.findings import (
    BY_ID,
    SELECT,
    Regression,
    of_id,
    regression_of,
)
from ett_service.storage.schema import mute, project, regression

_ALERTS = regression.c.verdict == Verdict.REGRESSION.value
_IS_LOUD = func.coalesce(regression.c.triage, "") != Triage.NOISE.value
_BELIEVED_FIRING = regression.c.told % 2 == 1
_UNNOTIFIED = SELECT.where(
    _ALERTS,
    or_(
        and_(_IS_LOUD, regression.c.version != regression.c.told),
        and_(~_IS_LOUD, _BELIEVED_FIRING),
    ),
).order_by(regression.c.project_id, regression.c.id)
_UNACKNOWLEDGED = SELECT.where(
    _ALERTS,
    regression.c.triage.is_(None),
    regression.c.state == State.FIRING.value,
    regression.c.version == regression.c.told,
    regression.c.acknowledged_us.is_(None),
    func.coalesce(regression.c.notified_us, regression.c.firing_us) <= bindparam("before_us"),
).order_by(regression.c.project_id, regression.c.id)
_NOTIFIED = (
    update(regression)
    .where(*BY_ID)
    .values(told=bindparam("notified_version"), notified_us=bindparam("at_us"))
)

_ID_BYTES = 9
_MOST_WINDOWS = 10_000


def unnotified(conn: Connection) -> list[Regression]:
    """Read the regressions of all projects whose present version receivers do not know.

    Of what somebody called noise they are notified that it is over, if they know that it fires, and
    nothing after that.
    """
    return [regression_of(row) for row in conn.execute(_UNNOTIFIED)]


def unacknowledged(conn: Connection, before_us: int) -> list[Regression]:
    """Read what fires, was last notified of before an instant, and nobody has looked at since."""
    rows = conn.execute(_UNACKNOWLEDGED, {"before_us": before_us})
    return [regression_of(row) for row in rows]


def version_to_notify(stored: Regression) -> int:
    """Return the version that receivers know next; that of noise is always one that is over."""
    notified, version = stored.notified_version, stored.standing.version
    return notified + is_firing_version(notified) if stored.is_quiet else version


def mark_notified(conn: Connection, stored: Regression, at_us: int) -> None:
    """Record that receivers were notified of the present version, or need not be."""
    version = version_to_notify(stored)
    of = of_id(stored.project_id, stored.id)
    conn.execute(_NOTIFIED, of | {"notified_version": version, "at_us": at_us})


@dataclass(frozen=True, slots=True)
class Muted:
    """The muted series of a project: of this phase, with these dimensions."""

    cohort: Mapping[str, str]  #: by dimension; empty for all
    phase: str  #: empty for all
    from_us: int
    until_us: int

    def covers(self, series: Series, at_us: int) -> bool:
        """Whether *series* is muted at that instant.

        A series of more than the muted cohort is not: a mute of one cluster does not mute the
        whole project.
        """
        if not self.from_us <= at_us < self.until_us:
            return False
        of_phase = self.phase in ("", series.subject.phase)
        return of_phase and self.cohort.items() <= dict(series.cohort).items()


@dataclass(frozen=True, slots=True)
class Mute:
    """A mute that somebody made."""

    project_id: int
    project: str
    id: str
    muted: Muted  #: until the mute was taken back, if it was
    why: str
    made_by: str
    made_us: int
    taken_back_by: str | None = None
    taken_back_us: int | None = None


_MUTES = select(mute, project.c.name.label("project")).join(
    project, project.c.id == mute.c.project_id
)
_BY_ID = (mute.c.project_id == bindparam("of_project"), mute.c.id == bindparam("of_id"))
_TAKE_BACK = (
    update(mute)
    .where(*_BY_ID, mute.c.taken_back_us.is_(None), mute.c.until_us > bindparam("now_us"))
    .values(taken_back_by=bindparam("of_by"), taken_back_us=bindparam("now_us"))
)


def add_mute(
    conn: Connection, project_id: int, muted: Muted, *, by: str, why: str, now_us: int
) -> Mute:
    """Mute from ``muted.from_us`` until ``muted.until_us``."""
    row = {
        "project_id": project_id,
        # A command line takes what begins with a dash for an option.
        "id": secrets.token_urlsafe(_ID_BYTES).replace("-", "_"),
        "cohort": json.dumps(dict(muted.cohort), ensure_ascii=False),
        "phase": muted.phase,
        "from_us": muted.from_us,
        "until_us": muted.until_us,
        "why": why,
        "made_by": by,
        "made_us": now_us,
    }
    conn.execute(insert(mute), row)
    return _get(conn, project_id, str(row["id"]))


def take_back_mute(
    conn: Connection, project_id: int, mute_id: str, *, by: str, now_us: int
) -> Mute | None:
    """End a mute now; None where no mute of that id is still in force."""
    of = {"of_project": project_id, "of_id": mute_id, "of_by": by, "now_us": now_us}
    if not conn.execute(_TAKE_BACK, of).rowcount:
        return None
    return _get(conn, project_id, mute_id)


def list_mutes(
    conn: Connection,
    project_ids: Collection[int] | None,
    *,
    at_us: int | None = None,
    limit: int = 1_000,
    after: tuple[int, str] | None = None,
) -> list[Mute]:
    """Read the mutes of these projects (None: of all), the latest first.

    *at_us* leaves those that hold then or later; *after* is ``made_us`` and id of the last mute
    of the page before.
    """
    statement = _MUTES
    if project_ids is not None:
        statement = statement.where(mute.c.project_id.in_(project_ids))
    if at_us is not None:
        statement = statement.where(mute.c.until_us > at_us, mute.c.taken_back_us.is_(None))
    keys = (mute.c.made_us, mute.c.id)
    if after is not None:
        statement = statement.where(tuple_(*keys) < tuple_(*after))
    ordered = statement.order_by(*(key.desc() for key in keys)).limit(limit)
    return [_read(row) for row in conn.execute(ordered)]


def muted(conn: Connection, project_id: int, at_us: int) -> list[Muted]:
    """Return what is muted in a project at that instant, by people or by maintenance.

    A maintenance marker mutes the dimensions that its labels name.
    """
    muted_series = [mute.muted for mute in list_mutes(conn, [project_id], at_us=at_us)]
    marker_filter = MarkerFilter(from_us=at_us, to_us=at_us + 1, kind=MarkerKind.MAINTENANCE)
    for stored in markers.markers(conn, [project_id], marker_filter, limit=_MOST_WINDOWS):
        marker = stored.marker
        if marker.end is not None:
            labels = {name: word for name, word in marker.labels.items() if name in DIMENSIONS}
            muted_series.append(Muted(labels, "", marker.at, marker.end))
    return [each for each in muted_series if each.from_us <= at_us < each.until_us]


def _get(conn: Connection, project_id: int, mute_id: str) -> Mute:
    of = {"of_project": project_id, "of_id": mute_id}
    return _read(conn.execute(_MUTES.where(*_BY_ID), of).one())


def _read(row: Row[*tuple[Any, ...]]) -> Mute:
    until_us = row.until_us if row.taken_back_us is None else row.taken_back_us
    return Mute(
        project_id=row.project_id,
        project=row.project,
        id=row.id,
        muted=Muted(json.loads(row.cohort), row.phase, row.from_us, until_us),
        why=row.why,
        made_by=row.made_by,
        made_us=row.made_us,
        taken_back_by=row.taken_back_by,
        taken_back_us=row.taken_back_us,
    )
