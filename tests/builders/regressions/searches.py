"""A search with scripted findings and instants."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Finding, RunFinding, Severity
from ett_service.core.regressions.state import StateRules
from ett_service.detection.run import RunResult
from ett_service.detection.sample import Memory, Plan
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import OF_SETTINGS, Receiver
from ett_service.notifications.routing import Directory
from ett_service.storage.engine.store import Store
from ett_service.storage.regressions import detection_runs
from ett_service.storage.regressions.detection_runs import DetectionRun
from ett_service.worker.notify import Audience
from ett_service.worker.regressions import DetectionOptions, DetectionThread, LeaseThread
from tests.builders.clock import NOON
from tests.builders.fleet import calm_job, store_job
from tests.builders.regressions.stored import ATTRIBUTION

RECEIVER = Receiver(OF_SETTINGS, "fleet", "https://example.org/hook", FORMATS["generic"])


@dataclass(slots=True)
class Script:
    """The findings of each run by the number of its day, and the current instant."""

    findings: Mapping[int, Sequence[Finding]] = field(default_factory=dict)
    now_us: int = NOON
    looked: list[tuple[int, int]] = field(default_factory=list)  #: project and day
    trouble: Callable[[int], None] = lambda _project_id: None

    def evaluate(
        self, _conn: Connection, project_id: int, as_of_us: int, _plan: Plan, _memory: Memory
    ) -> RunResult:
        """Return the findings of the day."""
        number = as_of_us // DAY_US - NOON // DAY_US
        self.looked.append((project_id, number))
        self.trouble(project_id)
        return evaluated(self.findings.get(number, ()))

    def clock(self, _conn: Connection) -> int:
        """Return the current instant."""
        return self.now_us


def evaluated(findings: Sequence[Finding]) -> RunResult:
    """Return the result of one run."""
    run_findings = tuple(RunFinding(finding, Severity.HIGH, ATTRIBUTION) for finding in findings)
    return RunResult(run_findings, (), series=7)


@dataclass(frozen=True, slots=True)
class Search:
    """An evaluator that leads, and advances when a test moves its clock."""

    script: Script
    thread: DetectionThread
    lease: LeaseThread

    def run_once(self, number: int | None = None, hours: int = 12) -> None:
        """Run once, so many hours into a day."""
        if number is not None:
            self.script.now_us = (NOON // DAY_US + number) * DAY_US + hours * 3_600_000_000
        self.lease.renew()
        epoch = self.lease.epoch
        assert epoch is not None
        self.thread.run_once(epoch)


def detecting(script: Script, **options: object) -> DetectionOptions:
    """Return options by which a thread finds what is scripted."""
    audience = Audience(Directory([RECEIVER]))
    defaults = DetectionOptions(
        rules=StateRules(), audience=audience, evaluate=script.evaluate, clock=script.clock
    )
    return replace(defaults, **options)  # type: ignore[arg-type]


def searched_before(
    store: Store, project_id: int, midnight_us: int = NOON // DAY_US * DAY_US
) -> None:
    """Give a project a job and a run of the day before."""
    store_job(store, project_id, "first", calm_job(midnight_us - DAY_US, training=10))
    run = DetectionRun(project_id, midnight_us - DAY_US, 0, 0, 0, "{}")
    store.write(partial(detection_runs.add, run=run, now_us=run.at_us))


@contextmanager
def searching(store: Store, script: Script, **options: object) -> Iterator[Search]:
    """Have an evaluator lead until the end of the block."""
    thread = DetectionThread(store, detecting(script, **options))
    yield Search(script, thread, thread.lease)
    thread.lease.resign()
