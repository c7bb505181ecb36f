"""The days before: sent as history, exported, and made into blocks that Prometheus reads."""

from collections.abc import Iterator
from pathlib import Path

from ett_service.core.intervals import rfc3339
from ett_service.demo.calendar import WireEvent
from ett_service.demo.generator import Fleet
from tests.builders.servers.ett import Server
from tests.builders.servers.processes import ETT
from tests.builders.servers.programs import needed, run
from tests.builders.servers.prometheus import SCRAPE_JOB, Prometheus, backfill
from tests.live.compressed import Clock
from tests.live.serving import send

_RULES = Path(__file__).parents[2] / "dashboards" / "rules" / "recording.yaml"
_STEP_S = 900
_SPAN_S = 2 * 86_400
_LEVELS = 4
"""How deep recording rules are built upon each other: so often they are computed."""


def events(fleet: Fleet, clock: Clock) -> Iterator[WireEvent]:
    """Yield the events of jobs that had ended by then, under names of their own."""
    for story in fleet.stories:
        if story.ended_at is not None and story.ended_at < clock.of_fleet_us:
            for event in story.events:
                yield {**clock.moved(event).event, "job": f"past-{story.job.name}"}


def export(server: Server, prometheus: Prometheus, until_us: int, step: str) -> None:
    """Make blocks of what the server was sent as history, as series of the live target."""
    samples = prometheus.folder / "past.om"
    instance = server.url.removeprefix("http://")
    labels = ["--label", f"job={SCRAPE_JOB}", "--label", f"instance={instance}"]
    scope = ["--to", rfc3339(until_us), "--step", step, *labels]
    run([ETT, "export", "openmetrics", *scope, "--output", str(samples)], server.environment)
    backfill(samples, prometheus.blocks)


def record(prometheus: Prometheus, until_s: int) -> None:
    """Compute recording rules for two days, each level from what the one below it left."""
    end = until_s // _STEP_S * _STEP_S
    start = end - _SPAN_S
    span = ["--start", str(start), "--end", str(end), "--eval-interval", f"{_STEP_S}s"]
    make = [needed("promtool", "prometheus"), "tsdb", "create-blocks-from", "rules", *span]
    for _ in range(_LEVELS):
        prometheus.start()
        run([*make, "--url", prometheus.url, "--output-dir", str(prometheus.blocks), str(_RULES)])
        prometheus.stop()


def send_all(server: Server, fleet: Fleet, clock: Clock) -> None:
    """Send what is past as history: it moves no counter."""
    send(server, list(events(fleet, clock)), history=True)
