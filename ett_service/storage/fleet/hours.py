"""The hours of the rollups: since when they are kept, and what pruning deletes of them.

Days are kept for ever. Hours before the horizon are gone: nobody reads, compares or adds to them,
whether or not rows of theirs are still there. So a merger that began before the horizon moved does
no harm where it adds one more: the next step of pruning deletes it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Table, bindparam, delete, func, select, tuple_

from ett_service.core.errors import EttError
from ett_service.core.intervals import DAY_US, HOUR_US, Interval, outside, rfc3339, whole_days
from ett_service.storage.engine.statements import replace_rows
from ett_service.storage.schema import cohort_day, project, rollup_hourly, store, tally_hourly
from ett_service.storage.schema.record import EVERY_HOUR, HOURLY_FROM

PRUNED_TABLES: tuple[Table, ...] = (rollup_hourly, tally_hourly)

_HORIZON = select(store.c.value).where(store.c.name == HOURLY_FROM)
#: Each cohort that keeps rollups of its own on a day has up to 24 hours of it.
_DAYS_OF_COHORTS = select(
    func.count().filter(cohort_day.c.day_us < bindparam("before_us")), func.count()
).where(cohort_day.c.kept.is_(True), cohort_day.c.day_us >= bindparam("horizon_us"))
_PROJECTS = select(project.c.id).order_by(project.c.id)


class HoursPruned(EttError):
    """A question needs hours of a window that are gone, or each of them where *step* is an hour.

    *hourly_from_us* is when the first hour begins that is kept.
    """

    def __init__(self, window: Interval, step: int | None, hourly_from_us: int) -> None:
        since = _written(hourly_from_us)
        super().__init__(f"Hours before {since} were pruned; whole days are kept.")
        self.hourly_from_us = hourly_from_us
        if step == HOUR_US:
            self.hint = f"Ask for steps of a day or a week, or for hours from {since} on."
        else:
            asked, days = _between(window), _between(widened(window, hourly_from_us))
            self.hint = f"Instead of {asked} ask for {days}, or for hours from {since} on."


class Cut(NamedTuple):
    """A window as the two grains of the rollups cover it."""

    days: Interval | None
    hours: Sequence[Interval]


def cut(window: Interval, step: int | None) -> Cut:
    """Cut a window of full hours into whole days, unless *step* is an hour, and what is left."""
    return Cut(None, outside(window, [])) if step == HOUR_US else Cut(*whole_days(window))


def kept_from(conn: Connection) -> int:
    """Return the horizon: the midnight (UTC) from which on hours are kept, or ``EVERY_HOUR``."""
    text = conn.scalar(_HORIZON)
    return EVERY_HOUR if text is None else int(text)


def require(conn: Connection, window: Interval, step: int | None) -> None:
    """Let none go on who needs hours of a window that are gone.

    Raises:
        HoursPruned: They are.
    """
    hours = cut(window, step).hours
    if not hours:
        return
    horizon_us = kept_from(conn)
    if hours[0][0] < horizon_us:
        raise HoursPruned(window, step, horizon_us)


def widened(window: Interval, horizon_us: int) -> Interval:
    """Return the window with the days whole of which the hours are gone."""
    from_us, to_us = window
    begin_us = _down(from_us) if from_us < horizon_us else from_us
    return begin_us, _up(to_us) if _down(to_us) < horizon_us else to_us


def narrowed(window: Interval, horizon_us: int) -> Interval:
    """Return the window without the days whose hours are gone and that it has only some of."""
    from_us, to_us = window
    begin_us = _up(from_us) if from_us < horizon_us else from_us
    return begin_us, _down(to_us) if to_us < horizon_us else to_us


def move_horizon(conn: Connection, before_us: int) -> int:
    """Let the hours of the days go that were over before an instant, and return the horizon.

    It never moves back, as nothing brings those hours back. One process at a time moves it.
    """
    horizon_us = max(kept_from(conn), _down(before_us))
    replace_rows(conn, store, [{"name": HOURLY_FROM, "value": str(horizon_us)}])
    return horizon_us


def prune(conn: Connection, most: int) -> int:
    """Delete up to *most* rows of hours before the horizon, and return how many.

    Those that a merger is at, which began before it moved, are left for the next time.
    """
    horizon_us = kept_from(conn)
    deleted = 0
    for project_id in conn.scalars(_PROJECTS).all():
        for table in PRUNED_TABLES:
            if deleted < most:
                key = tuple(table.primary_key)
                gone = (table.c.project_id == project_id, table.c.start_us < horizon_us)
                some = select(*key).where(*gone).order_by(*key).limit(most - deleted)
                some = some.with_for_update(skip_locked=True)
                deleted += conn.execute(delete(table).where(tuple_(*key).in_(some))).rowcount
    return deleted


def share_before(conn: Connection, before_us: int) -> tuple[int, int]:
    """Count the days of cohorts whose hours would go with those before an instant, and all."""
    of = {"before_us": _down(before_us), "horizon_us": kept_from(conn)}
    before, kept = conn.execute(_DAYS_OF_COHORTS, of).one()
    return before, kept


def _down(us: int) -> int:
    return us - us % DAY_US


def _up(us: int) -> int:
    return _down(us + DAY_US - 1)


def _between(window: Interval) -> str:
    return " to ".join(map(_written, window))


def _written(us: int) -> str:
    return rfc3339(us).replace(".000000", "")
