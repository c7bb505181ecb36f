"""What the address of a page says: the window, the filters, the grouping."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from ett_service.core.dimensions import GROUPS, JOB_DIMENSIONS
from ett_service.core.intervals import DAY_US, HOUR_US, rfc3339
from ett_service.core.words import Category
from ett_service.fleet import scope as scopes
from ett_service.fleet.scope import BadQuestion
from ett_service.ingest.members import parse_instant
from ett_service.ingest.refusals import Fault
from ett_service.pages.links import encoded
from ett_service.pages.sessions import state_of
from ett_service.storage.fleet.hours import kept_from
from ett_service.storage.schema.record import EVERY_HOUR

WINDOWS: Mapping[str, int] = {
    "1d": DAY_US,
    "7d": 7 * DAY_US,
    "28d": 28 * DAY_US,
    "90d": 90 * DAY_US,
}
_JOB_FILTERS = (*JOB_DIMENSIONS, "project")

DEFAULT_WINDOW = "7d"
DEFAULT_GROUP = "model"

# How far back a trend reaches, and in which steps.
_TRENDS: Mapping[str, tuple[int, str]] = {
    "1d": (14 * DAY_US, "1d"),
    "7d": (28 * DAY_US, "1d"),
    "28d": (84 * DAY_US, "1w"),
    "90d": (180 * DAY_US, "1w"),
}


@dataclass(frozen=True, slots=True)
class View:
    """A window of the fleet, the one before it, and whose time is meant."""

    name: str  #: of the window; empty for one of its own
    from_us: int
    to_us: int
    group_by: str
    where: tuple[str, ...]
    project: str
    path: str
    category: str = ""  #: of which the jobs are listed that have most; empty for what was lost
    hourly_from_us: int = EVERY_HOUR  #: since when hours are kept

    @property
    def scope(self) -> dict[str, object]:
        """Whose time, as the API takes it."""
        return {"project": self.project, "where": self.where}

    @property
    def window(self) -> dict[str, object]:
        """The window, as the API takes it."""
        return {**self.scope, "from": written(self.from_us), "to": written(self.to_us)}

    @property
    def before(self) -> dict[str, object]:
        """The window of the same length before."""
        begin = self.from_us - (self.to_us - self.from_us)
        return {**self.scope, "from": written(begin), "to": written(self.from_us)}

    @property
    def trend(self) -> dict[str, object]:
        """A longer window up to the same end, and its step."""
        length = self.to_us - self.from_us
        near = next((name for name, us in WINDOWS.items() if length <= us), "90d")
        reach, step = _TRENDS[near]
        begin = min(self.to_us - reach, self.from_us)
        if begin < self.hourly_from_us:
            begin -= begin % DAY_US
        return {**self.scope, "from": written(begin), "to": written(self.to_us), "step": step}

    @property
    def earlier(self) -> str:
        """What the window before is called."""
        return {"1d": "the day before", "7d": "last week"}.get(self.name, "the window before")

    @property
    def span(self) -> str:
        """The window in words."""
        return f"{_shown(self.from_us)} to {_shown(self.to_us)} UTC"

    def address(self, path: str | None = None, **changes: object) -> str:
        """Return the address of the same view, but for *changes*; None leaves a member out."""
        members: dict[str, object] = {
            "window": self.name if self.name != DEFAULT_WINDOW else None,
            "from": None if self.name else written(self.from_us),
            "to": None if self.name else written(self.to_us),
            "by": self.group_by if self.group_by != DEFAULT_GROUP else None,
            "where": self.where,
            "project": self.project,
            "category": self.category,
        }
        members |= {name.rstrip("_"): value for name, value in changes.items()}
        query = encoded(members)
        return (path or self.path) + (f"?{query}" if query else "")

    def without(self, condition: str) -> str:
        """Return the address of this view without one of its conditions."""
        return self.address(where=tuple(each for each in self.where if each != condition))

    @property
    def job_filters(self) -> dict[str, str]:
        """Whose time, as far as a list of jobs can say it: by one known value of a dimension."""
        wanted = scopes.where(self.where)
        filters = {
            name: value
            for name in _JOB_FILTERS
            for value in wanted.get(name, ())
            if value and len(wanted[name]) == 1
        }
        return filters | ({"project": self.project} if self.project else {})

    @property
    def jobs_alive(self) -> dict[str, object]:
        """The jobs of the view, as a list of jobs can ask for them."""
        return {**self.job_filters, "from": written(self.from_us), "to": written(self.to_us)}

    @property
    def beyond_jobs(self) -> list[str]:
        """The dimensions of conditions that a list of jobs cannot take."""
        return sorted(scopes.where(self.where).keys() - self.job_filters.keys())

    @property
    def from_day(self) -> str:
        """The first day, as a field for a date has it."""
        return "" if self.name else rfc3339(self.from_us)[:10]

    @property
    def to_day(self) -> str:
        """The last day, which the window has some of."""
        return "" if self.name else rfc3339(self.to_us - 1)[:10]

    def narrowed(self, dimension: str, value: str | None, path: str | None = None) -> str:
        """Return the address of the part of this view that has *value*."""
        condition = f"{dimension}:{value or ''}"
        return self.address(path, where=(*dict.fromkeys((*self.where, condition)),))

    def lost_to(self, category: str) -> str:
        """Return the address at which the jobs stand that have most of a category."""
        return self.address("/", category=category) + "#jobs"

    def during(self, begin: str, end: str) -> str:
        """Return the address of this view in another window, given as RFC 3339."""
        return self.address(window=None, from_=begin, to=end)


def view_of(request: Request, now_us: int, hourly_from_us: int) -> View:
    """Read the view that the address names.

    Where hours of it or of the window before were pruned, it is of whole days: the page says which.

    Raises:
        BadQuestion: It cannot be read.
    """
    query = request.query_params
    name = "" if query.get("from") else query.get("window") or DEFAULT_WINDOW
    end = _instant(day_end(query.get("to")), "to") or now_us
    end = -(-end // HOUR_US) * HOUR_US
    if name:
        if name not in WINDOWS:
            raise BadQuestion("window", "unknown_window", tuple(WINDOWS))
        begin = end - WINDOWS[name]
    else:
        begin = (_instant(query.get("from"), "from") or 0) // HOUR_US * HOUR_US
    if begin >= end:
        raise BadQuestion("from", "from_after_to", "It must lie before `to`: the window is empty.")
    if 2 * begin - end < hourly_from_us:
        begin, end = _whole_days(begin, end, now_us)
    category = query.get("category", "")
    if category and category not in tuple(Category):
        raise BadQuestion("category", "unknown_category", tuple(Category))
    group = query.get("by", DEFAULT_GROUP)
    if group not in GROUPS:
        raise BadQuestion("by", "unknown_dimension", GROUPS)
    return View(
        name=name if not query.get("to") else "",
        from_us=begin,
        to_us=end,
        group_by=group,
        where=tuple(query.getlist("where")),
        project=query.get("project", ""),
        path=request.url.path,
        category=category,
        hourly_from_us=hourly_from_us,
    )


def _whole_days(from_us: int, to_us: int, now_us: int) -> tuple[int, int]:
    """Widen a window to whole days, but for the present one, which is left out.

    So the window before is of as many, and both can be compared.
    """
    begin, end = from_us - from_us % DAY_US, to_us + -to_us % DAY_US
    return begin, end if end <= max(to_us, now_us) else end - DAY_US


def _viewed(request: Request) -> View:
    state = state_of(request)
    with state.store.reading() as conn:
        hourly_from_us = kept_from(conn)
    return view_of(request, state.now_us(), hourly_from_us)


Viewed = Annotated[View, Depends(_viewed)]
"""The view that the address of a page names."""


def day_begin(text: str) -> str:
    """Return the instant at which a day begins; other text is left as it is."""
    return f"{text}T00:00:00Z" if _is_day(text) else text


def day_end(text: str | None) -> str | None:
    """Return the instant at which a day is over; other text is left as it is."""
    if not text or not _is_day(text):
        return text
    return f"{date.fromisoformat(text) + timedelta(days=1)}T00:00:00Z"


def _is_day(text: str) -> bool:
    if len(text) != len("2026-03-01"):
        return False
    try:
        return date.fromisoformat(text) < date.max
    except ValueError:
        return False


def _instant(text: str | None, parameter: str) -> int | None:
    if not text:
        return None
    try:
        return parse_instant(day_begin(text))
    except Fault as fault:
        raise BadQuestion(
            parameter, fault.code.value, "It is a day, or an instant such as 2026-03-01T08:00:00Z."
        ) from fault


def written(us: int) -> str:
    """Write an instant as the API takes it."""
    return rfc3339(us).replace(".000000", "")


def _shown(us: int) -> str:
    return moment(rfc3339(us))


def moment(instant: str | None) -> str:
    """Show an instant of the API to the minute."""
    if instant is None:
        return "-"
    return f"{datetime.fromisoformat(instant).astimezone(UTC):%Y-%m-%d %H:%M}"
