"""The demo's fleet behind a real PostgreSQL and a real Prometheus, for somebody to look at."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from sqlalchemy import make_url

from dashboards.build.kit import Dashboard, Source
from dashboards.build.macros import Chosen
from dashboards.pictures.asking import DashboardViewer, OfPostgres, OfPrometheus, Steps
from dashboards.pictures.blocks import import_text, levels, openmetrics, record
from dashboards.pictures.past import Page, pages
from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.demo.fleet import settings_text
from ett_service.demo.generator import generate
from ett_service.settings import load
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from tests.builders.clock import instant
from tests.builders.databases import postgres
from tests.builders.databases.engines import new_postgresql
from tests.builders.servers.prometheus import SCRAPE_JOB, Prometheus

END_US = instant("2026-03-16T12:00:00Z")
"""A fixed end, so that pictures change only with what they show."""

SEED = 7
DAYS = 30
SCRAPED_DAYS = 15  #: two weeks side by side, and a day for what is rated over one
STEPS = Steps(long_s=7200, short_s=600)

TWO_SETS: Mapping[str, Chosen] = {"a_cluster": ["alder"], "b_cluster": ["birch"]}

_RECENT_US = 6 * HOUR_US
_LOOKBACK = "--query.lookback-delta=1m"  #: every query is evaluated where samples lie
_LABELS = {"job": SCRAPE_JOB, "instance": "ett:8080"}
_STORY = """
    SELECT project, job FROM ett_v_attempts WHERE gpus >= 64
    GROUP BY project, job HAVING COUNT(*) BETWEEN 4 AND 8 AND MAX(ended_us) > %s
    ORDER BY COUNT(DISTINCT origin) DESC, COUNT(*) DESC, job LIMIT 1
"""


@dataclass(frozen=True)
class Scene:
    """The two, with the fleet in them."""

    prometheus: Prometheus
    conn: psycopg.Connection[Any]

    def look_at(self, dashboard: Dashboard) -> DashboardViewer:
        """Return somebody who looks at a dashboard at the fleet's end."""
        end_s = END_US / SECOND_US
        if dashboard.source is Source.PROMETHEUS:
            return OfPrometheus(self.prometheus, dashboard, end_s, STEPS)
        story = self.conn.execute(_STORY, (END_US - 7 * DAY_US,)).fetchone()
        assert story is not None, "The fleet has no job with several attempts."
        project, job = story
        chosen = {"project": project, "job": job} if dashboard.uid == "ett-sql-job" else TWO_SETS
        return OfPostgres(self.conn, dashboard, end_s, chosen)


@contextmanager
def scene() -> Iterator[Scene]:
    """Let the fleet happen, and keep both up until the block ends."""
    programs, promtool = postgres.binaries(), shutil.which("promtool")
    if programs is None:
        raise SystemExit(postgres.MISSING)
    if promtool is None:
        raise SystemExit("promtool is missing (Debian: apt install prometheus)")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ett-pictures-")))
        server = stack.enter_context(postgres.server(programs))
        url = stack.enter_context(new_postgresql(server))
        pages = run_fleet(url, folder)
        prometheus = Prometheus(folder, options=[_LOOKBACK])
        stack.callback(prometheus.stop)
        fill(prometheus, promtool, pages)
        plain = make_url(url).set(drivername="postgresql")
        conn = psycopg.connect(plain.render_as_string(hide_password=False), autocommit=True)
        yield Scene(prometheus, stack.enter_context(conn))


def run_fleet(url: str, folder: Path) -> list[Page]:
    """Let the fleet happen in the database at *url*, and return what was read meanwhile."""
    file = folder / "ett.toml"
    file.write_text(settings_text())
    economy = load({}, file).settings.economy
    recent_us = END_US - _RECENT_US
    begin_us = END_US - SCRAPED_DAYS * DAY_US
    at_us = [
        *range(begin_us, recent_us, STEPS.long_s * SECOND_US),
        *range(recent_us, END_US + 1, STEPS.short_s * SECOND_US),
    ]
    migrate(url)
    store = open_store(url)
    try:
        return list(pages(store, generate(seed=SEED, days=DAYS, end_us=END_US), economy, at_us))
    finally:
        store.close()


def fill(prometheus: Prometheus, promtool: str, pages: Sequence[Page]) -> None:
    """Start *prometheus* on blocks of *pages*, and of what the rules make of them."""
    prometheus.blocks.mkdir(parents=True)
    import_text(promtool, openmetrics(pages, _LABELS), prometheus.blocks)
    prometheus.start()
    end_s, recent_s = END_US // SECOND_US, (END_US - _RECENT_US) // SECOND_US
    spans = (
        (pages[0].at_us // SECOND_US, recent_s - STEPS.long_s, STEPS.long_s),
        (recent_s, end_s, STEPS.short_s),
    )
    for rules in levels():
        import_text(promtool, [record(prometheus, rules, spans)], prometheus.blocks)
        prometheus.stop()
        prometheus.start()
