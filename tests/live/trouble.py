"""A service with its troubles: what each alert is to fire on, sent through ingest."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.demo.calendar import WireEvent
from ett_service.metrics.rules.files import files
from ett_service.metrics.rules.recording import FAILURES
from ett_service.metrics.rules.rule import COMPOSE, Objective, Scale
from tests.builders.servers.ett import Server
from tests.builders.servers.programs import free_port
from tests.builders.servers.prometheus import SCRAPE_JOB, Prometheus, backfill
from tests.live.compressed import FASTER, DueEvent
from tests.live.serving import send, serving, settled, shows

CLUSTER = "troubled"
SENT_FOR_S = 80
"""How long the troubled service is sent events: nearly a quarter of a window of 6 h."""

_MINUTE_US = 60 * SECOND_US
_CENTURY_US = 978_307_200 * SECOND_US  #: when it began
_GPUS = 512


@dataclass(frozen=True)
class Watch:
    """Has services watched, each by a Prometheus of its own, up to the end of *stack*."""

    folder: Path
    alertmanager: str
    stack: ExitStack

    def begin(self, name: str, server: Server) -> Prometheus:
        """Watch *server* with rules made shorter; its alerts say ``stack=name``."""
        folder = self.folder / name
        folder.mkdir()
        prometheus = Prometheus(
            folder,
            targets=[server.url],
            rules=rules(folder),
            alertmanager=self.alertmanager,
            labels={"stack": name},
        )
        _make_quiet_week(prometheus, time.time())
        self.stack.callback(prometheus.stop)
        prometheus.start()
        return prometheus


@contextmanager
def unreachable_receiver(folder: Path) -> Iterator[Server]:
    """Serve a fleet in which regressions are found, and a receiver that nothing reaches."""
    pager = {"name": "pager", "url": f"http://127.0.0.1:{free_port()}/"}
    with serving(
        folder,
        ETT_DETECTION=json.dumps({"every_seconds": 4, "settle_seconds": 2}),
        ETT_ALERTING=json.dumps({"retry_seconds": [0, 0.1]}),
        ETT_RECEIVERS=json.dumps([pager]),
    ) as server:
        yield server


@contextmanager
def without_worker(folder: Path) -> Iterator[Server]:
    """Serve what was published once, with nobody who publishes any more.

    Regressions were looked for at the beginning of the century.
    """
    detection = {"every_seconds": 1e9, "settle_seconds": 1}
    with serving(folder, ETT_DETECTION=json.dumps(detection)) as server:
        send(server, _preempted("before all", _CENTURY_US), history=True)
        settled(server)
        shows(server, "ett_detection_last_run_timestamp_seconds")
        server.stop()
        server.environment["ETT_EMBEDDED_WORKER"] = "false"
        server.start()
        yield server


def rules(folder: Path) -> list[Path]:
    """Write the rules for a clock that runs faster, and return where they lie."""
    texts = files(Objective(), COMPOSE, Scale(FASTER))
    written = []
    for name in ("recording.yaml", "alerts.yaml"):
        path = folder / name
        path.write_text(texts[name])
        written.append(path)
    return written


def before(now_us: int) -> list[WireEvent]:
    """Return jobs that left their launcher after a second: what a stuck one is held to."""
    return [
        event
        for number in range(20)
        for event in _trained(f"before-{number}", now_us - _MINUTE_US, "llm")
    ]


def tape(now_us: int) -> Iterator[DueEvent]:
    """Yield what is sent from now on, second by second.

    A job a second spends ten minutes on broken hardware and is preempted; another stays in its
    launcher and says that it lives; a third, of a cohort of its own, reports a loop once.
    """
    stuck = _started("stuck", now_us - 20 * SECOND_US, "llm", "launcher_init")
    mute = _trained("mute", now_us - SECOND_US, "mute")
    yield from (DueEvent(now_us, event) for event in [*stuck, *mute])
    for second in range(SENT_FOR_S):
        at = now_us + second * SECOND_US
        sign = {"type": "heartbeat", "at": rfc3339(at), "job": "stuck", "attempt": 0}
        yield from (DueEvent(at, event) for event in [sign, *_preempted(f"wasted-{second}", at)])


def send_with_refusal(server: Server, events: list[WireEvent]) -> None:
    """Send events, and one that no server may take."""
    send(server, events)
    answer = server.send([{"type": "no such type", "job": "stuck", "at": rfc3339(0)}])
    assert json.loads(answer.body)["rejected"] == 1, answer.body


def _started(job: str, at_us: int, model: str, phase: str) -> list[WireEvent]:
    at, named = rfc3339(at_us), {"job": job, "attempt": 0}
    return [
        {"type": "job", "at": at, "job": job, "cluster": CLUSTER, "model": model},
        {"type": "attempt_started", "at": at, "gpus": _GPUS, **named},
        {"type": "phase_started", "at": at, "phase": phase, **named},
    ]


def _trained(job: str, at_us: int, model: str) -> list[WireEvent]:
    loop = rfc3339(at_us + SECOND_US)
    begun = {"type": "phase_started", "at": loop, "phase": "train_loop", "job": job, "attempt": 0}
    return [*_started(job, at_us, model, "launcher_init"), begun]


def _preempted(job: str, at_us: int) -> list[WireEvent]:
    ending = {"type": "attempt_ended", "outcome": "preempted", "job": job, "attempt": 0}
    begun = _started(job, at_us - 10 * _MINUTE_US, "llm", "hardware_setup")
    return [*begun, {**ending, "at": rfc3339(at_us)}]


def _make_quiet_week(prometheus: Prometheus, now_s: float) -> None:
    """Make blocks of a week, made shorter, in which no attempt was preempted.

    How many failures are many depends on the week before.
    """
    labels = f'cluster="{CLUSTER}",origin="preemption",cause="preemption",job="{SCRAPE_JOB}"'
    week_s, day_s = 7 * 86_400 // FASTER, 86_400 // FASTER
    instants = range(int(now_s) - week_s - day_s, int(now_s) - 1)
    lines = [
        f"# TYPE {FAILURES} gauge",
        *(f"{FAILURES}{{{labels}}} 0 {at}" for at in instants),
        "# EOF\n",
    ]
    path = prometheus.folder / "week.om"
    path.write_text("\n".join(lines))
    backfill(path, prometheus.blocks)
