"""The days before: sent as history, exported, and made into blocks that Prometheus reads."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

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
_NAME = re.compile(r"[a-zA-Z_:][\w:]*")
_EVALUATE_S = 300
"""As far back as rules look that have a sample every 15 minutes: ``promtool`` computes each file at
an instant of its own inside of the interval."""

_SPAN_S = 2 * 86_400

Rule: TypeAlias = dict[str, Any]
"""A recording rule as its file has it: ``record`` and ``expr``."""


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
    """Compute recording rules for two days, each from what those that it names have left."""
    span = ["--start", str(until_s - _SPAN_S), "--end", str(until_s)]
    span += ["--eval-interval", f"{_EVALUATE_S}s"]
    make = [needed("promtool", "prometheus"), "tsdb", "create-blocks-from", "rules", *span]
    groups = yaml.safe_load(_RULES.read_text())["groups"]
    for level, rules in enumerate(levels([rule for group in groups for rule in group["rules"]])):
        file = prometheus.folder / f"level-{level}.yaml"
        file.write_text(yaml.safe_dump({"groups": [{"name": file.stem, "rules": rules}]}))
        prometheus.start()
        run([*make, "--url", prometheus.url, "--output-dir", str(prometheus.blocks), str(file)])
        prometheus.stop()


def levels(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Group recording rules so that each names only those of groups before its own."""
    expressions = {rule["record"]: rule["expr"] for rule in rules}

    def depth(name: str) -> int:
        used = set(_NAME.findall(expressions[name])) & expressions.keys()
        return max(map(depth, used), default=-1) + 1

    grouped: defaultdict[int, list[Rule]] = defaultdict(list)
    for rule in rules:
        grouped[depth(rule["record"])].append(rule)
    return [grouped[level] for level in sorted(grouped)]


def send_all(server: Server, fleet: Fleet, clock: Clock) -> None:
    """Send what is past as history: it moves no counter."""
    send(server, list(events(fleet, clock)), history=True)
