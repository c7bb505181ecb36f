"""Pages of windows whose hours were pruned show whole days, and say which."""

import pytest
from starlette.requests import Request

from ett_service.core.intervals import DAY_US
from ett_service.ingest.members import parse_instant
from ett_service.pages.window import View, view_of, written
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import hours
from ett_service.storage.retention import Kept
from ett_service.storage.schema.record import EVERY_HOUR
from ett_service.worker.retention import Pruner
from tests.builders.clock import HOUR, NOON, RECEIVED_AT
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job
from tests.builders.servers.site import Document, Site, served

PAGES = ("/", "/changes", "/quality", "/checkpoints", "/what-if")


def prune(site: Site) -> None:
    pruner = Pruner(site.state.store, site.clock, Kept(None, 57 * DAY_US))
    while pruner.step():
        pass


def when(site: Site, address: str) -> str:
    """Return the window that a page says it shows."""
    page = Document.of(site.reader().get(address))
    return page.text_of("p", **{"class": "when"}).partition(",")[0].strip()


@ON_ONE_ENGINE
def test_windows_are_of_whole_days_where_hours_are_gone(store: Store) -> None:
    with served(store, RECEIVED_AT) as site:
        site.ingest(failing_job())
        site.clock.now_us += 60 * DAY_US
        named = {window: when(site, f"/?window={window}") for window in ("1d", "7d", "28d", "90d")}
        own = "from=2026-03-01T12:00:00Z&to=2026-03-01T13:00:00Z"
        assert when(site, f"/?{own}") == "2026-03-01 12:00 to 2026-03-01 13:00 UTC"
        job = Document.of(site.reader().get("/jobs/llm-70b"))

        prune(site)

        with store.reading() as conn:
            assert hours.kept_from(conn) > RECEIVED_AT
        for window in ("1d", "7d", "28d"):
            assert when(site, f"/?window={window}") == named[window]
        begin, end = when(site, "/?window=90d").removesuffix(" UTC").split(" to ")
        assert (begin, end) == (f"{named['90d'][:10]} 00:00", f"{named['90d'][20:30]} 00:00")
        for path in PAGES:
            assert when(site, f"{path}?window=90d") == f"{begin} to {end} UTC"
            assert when(site, f"{path}?{own}") == "2026-03-01 00:00 to 2026-03-02 00:00 UTC"
        assert Document.of(site.reader().get("/jobs/llm-70b")).text_of("dl") == job.text_of("dl")


def view(query: str, now_us: int, hourly_from_us: int) -> View:
    address = {"type": "http", "path": "/", "headers": [], "query_string": query.encode()}
    return view_of(Request(address), now_us, hourly_from_us)


@pytest.mark.parametrize(
    "query",
    [
        "window=90d",
        "window=28d",
        "from=2026-03-01T12:00:00Z&to=2026-03-01T13:00:00Z",
        "from=2026-03-01T12:00:00Z&to=2026-03-04T01:00:00Z",
        "from=2026-03-01T12:00:00Z",
        "from=2026-03-01&to=2026-03-03",
    ],
)
@pytest.mark.parametrize("kept_days", [0, 3, 30, 57])
def test_the_window_before_is_as_long_and_no_hour_that_is_gone_is_asked_for(
    query: str, kept_days: int
) -> None:
    now_us = NOON + 60 * DAY_US + 7 * HOUR + 5
    hourly_from_us = (now_us - kept_days * DAY_US) // DAY_US * DAY_US
    shown, plain = (view(query, now_us, since) for since in (hourly_from_us, EVERY_HOUR))

    begin, middle, to = (
        parse_instant(str(at))
        for at in (shown.before["from"], shown.before["to"], shown.window["to"])
    )
    assert middle - begin == to - middle > 0
    trend_us = parse_instant(str(shown.trend["from"]))
    for at_us in (begin, middle, to, trend_us):
        assert at_us % DAY_US == 0 or at_us // DAY_US * DAY_US >= hourly_from_us
    assert abs(shown.from_us - plain.from_us) < DAY_US
    assert abs(shown.to_us - plain.to_us) < DAY_US
    if plain.before["from"] >= written(hourly_from_us):  # type: ignore[operator]
        assert (shown.from_us, shown.to_us) == (plain.from_us, plain.to_us)
