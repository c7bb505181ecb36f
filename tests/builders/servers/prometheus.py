"""A real Prometheus that scrapes often, stores its own data and is queried in PromQL."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ett_service.client.sending.transport import request
from tests.builders.servers.programs import Program, free_port, needed, run
from tests.builders.servers.waiting import wait_for

SCRAPE_JOB = "ett"
SCRAPE_EVERY = "1s"

_RETENTION = "400d"
_MOST_BYTES = 1 << 26


class Sample(NamedTuple):
    """One series of an answer, with its points: instant in seconds and value."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]

    @property
    def value(self) -> float:
        """The last value."""
        return self.points[-1][1]


@dataclass
class Prometheus:
    """One server. *targets* are addresses with ``http://``, that of *alertmanager* is without."""

    folder: Path
    targets: Sequence[str] = ()
    rules: Sequence[Path] = ()
    alertmanager: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()
    url: str = ""
    _program: Program | None = None

    @property
    def blocks(self) -> Path:
        """Where its blocks lie; it reads new ones when it starts."""
        return self.folder / "blocks"

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        address = f"127.0.0.1:{free_port()}"
        self.blocks.mkdir(parents=True, exist_ok=True)
        (self.folder / "prometheus.yml").write_text(json.dumps(self._config()))
        self._program = Program(
            [
                needed("prometheus", "prometheus"),
                f"--config.file={self.folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self.blocks}",
                f"--storage.tsdb.retention.time={_RETENTION}",
                f"--web.listen-address={address}",
                "--rules.alert.resend-delay=1s",
                "--enable-feature=exemplar-storage",
                *self.options,
            ],
            self.folder,
        )
        self.url = f"http://{address}"
        self._program.ready(f"{self.url}/-/ready")

    def stop(self) -> None:
        """End it."""
        if self._program is not None:
            self._program.stop()

    def logged(self) -> str:
        """Return the end of its log."""
        return "" if self._program is None else self._program.logged()

    def query(self, expression: str, at: float | None = None) -> list[Sample]:
        """Evaluate *expression* at one instant, in seconds since the Unix epoch."""
        moment = {} if at is None else {"time": f"{at:.3f}"}
        answer = self.ask("query", query=expression, **moment)
        if answer["resultType"] == "scalar":
            return [Sample({}, [_point(answer["result"])])]
        return [_sample(series) for series in answer["result"]]

    def over(self, expression: str, start: float, end: float, step_s: float) -> list[Sample]:
        """Evaluate *expression* at every step from *start* to *end*."""
        answer = self.ask(
            "query_range", query=expression, start=f"{start:.3f}", end=f"{end:.3f}", step=step_s
        )
        return [_sample(series) for series in answer["result"]]

    def ask(self, what: str, **parameters: Any) -> Any:
        """Read one answer of its API, which must be a success."""
        form = urlencode(parameters).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = request(
            "POST", f"{self.url}/api/v1/{what}", None, form, kind, answer_limit=_MOST_BYTES
        )
        parsed = json.loads(answer.body)
        assert parsed["status"] == "success", f"{parsed.get('error')}: {parameters.get('query')}"
        return parsed["data"]

    def has_scraped(self, since: float | None = None) -> None:
        """Wait for a scrape that began after *since*, in seconds since the Unix epoch."""
        after = time.time() if since is None else since
        scraped = f'count(timestamp(up{{job="{SCRAPE_JOB}"}}) > {after})'
        wait_for(
            lambda: any(sample.value >= len(self.targets) for sample in self.query(scraped)),
            self.logged,
        )

    def _config(self) -> dict[str, Any]:
        alerting = {}
        if self.alertmanager is not None:
            alerting = {"alertmanagers": [{"static_configs": [{"targets": [self.alertmanager]}]}]}
        scrape = {
            "job_name": SCRAPE_JOB,
            "static_configs": [
                {"targets": [target.removeprefix("http://") for target in self.targets]}
            ],
        }
        return {
            "global": {
                "scrape_interval": SCRAPE_EVERY,
                "scrape_timeout": SCRAPE_EVERY,
                "evaluation_interval": SCRAPE_EVERY,
                "external_labels": dict(self.labels),
            },
            "rule_files": [str(path) for path in self.rules],
            "alerting": alerting,
            "scrape_configs": [scrape],
        }


def backfill(samples: Path, blocks: Path) -> None:
    """Make blocks of a file in the OpenMetrics text format; it is read once a block."""
    longest = "--max-block-duration=2000h"
    make = [needed("promtool", "prometheus"), "tsdb", "create-blocks-from", longest]
    run([*make, "openmetrics", str(samples), str(blocks)])


def _sample(series: Mapping[str, Any]) -> Sample:
    points = series.get("values") or [series["value"]]
    return Sample(series["metric"], [_point(point) for point in points])


def _point(point: Sequence[Any]) -> tuple[float, float]:
    at, value = point
    return float(at), float(value)
