"""Which regressions receivers are to be notified of: changes they do not know, and reminders."""

from sqlalchemy import Connection, and_, bindparam, func, or_, update

from ett_service.core.regressions.finding import State, Triage, Verdict
from ett_service.core.regressions.state import is_firing_version
from ett_service.storage.regressions.findings import (
    BY_ID,
    SELECT,
    Regression,
    of_id,
    regression_of,
)
from ett_service.storage.schema import regression

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


def unnotified(conn: Connection) -> list[Regression]:
    """Read the regressions of all projects whose present version receivers do not know.

    Of what somebody called noise they are told that it is over, if they know that it fires, and
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
