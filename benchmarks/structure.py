"""How easy it is to find one's way in the code: sizes, type names, and files passed on a way.

A file is passed on a way if one of its functions runs, in a service on SQLite inside this process.
A way that goes on from another counts only the files that the first one did not pass. The files of
an addition are those that ``tests/test_additions.py`` changes or creates to really make it.
"""

import argparse
import ast
import re
import statistics
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

from starlette.testclient import TestClient

from ett_service.api.app import create_app
from ett_service.api.state import AppState
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.ingest.wire import Limits
from ett_service.notifications.routing import Directory
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.keys import SCOPES, create_key
from ett_service.storage.regressions import detection_runs
from ett_service.storage.regressions.detection_runs import DetectionRun
from ett_service.worker.ledgers import Worker
from ett_service.worker.metrics import MetricsThread
from ett_service.worker.notify import Audience, enqueue
from ett_service.worker.regressions import DetectionOptions, DetectionThread
from tests.builders.additions import ADDITIONS
from tests.builders.clock import Clock
from tests.builders.receivers.deliveries import delivering, named, run_once
from tests.builders.receivers.listening import receiving
from tests.builders.slowed_fleet import ONSET, slowed

_SPELLED_AS_TYPE = re.compile(r"[A-Z]\w*[a-z]\w*")

PACKAGE = Path(__file__).parents[1] / "ett_service"
NOW_US = 1_772_370_000_000_000

EVENTS: list[dict[str, Any]] = [
    {"type": "job", "at": "2026-03-01T11:00:00Z", "gpus": 8, "cluster": "a", "model": "m"},
    {"type": "attempt_started", "at": "2026-03-01T11:00:00Z", "gpus": 8},
    {"type": "phase_started", "at": "2026-03-01T11:00:00Z", "phase": "launcher_init"},
    {"type": "phase_started", "at": "2026-03-01T11:05:00Z", "phase": "train_loop"},
    {"type": "progress", "at": "2026-03-01T11:05:00Z", "step": 1},
    {"type": "progress", "at": "2026-03-01T11:25:00Z", "step": 100},
    {"type": "attempt_ended", "at": "2026-03-01T11:26:00Z", "outcome": "completed"},
]
DAY = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}


def modules() -> list[Path]:
    """Return every module of the package, in order."""
    return sorted(PACKAGE.rglob("*.py"))


def ambiguous_types() -> list[str]:
    """Return the names of classes and type aliases that mean several things in one layer."""
    names = Counter(
        (path.relative_to(PACKAGE).parts[0], name)
        for path in modules()
        for statement in ast.parse(path.read_text("utf-8")).body
        for name in _types_of(statement)
    )
    return sorted(f"{layer}: {name}" for (layer, name), count in names.items() if count > 1)


def _types_of(statement: ast.stmt) -> Iterator[str]:
    """Yield the types that a statement defines: a class, or an alias by its spelling."""
    match statement:
        case ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            if _SPELLED_AS_TYPE.fullmatch(name):
                yield name
        case _:
            pass


def sizes() -> dict[str, float]:
    """Return how many modules and lines there are, and how they are spread."""
    named = [path for path in modules() if path.name != "__init__.py"]
    lines = [len(path.read_text("utf-8").splitlines()) for path in named]
    return {
        "modules": len(named),
        "lines": sum(lines),
        "lines of the median module": statistics.median(lines),
        "lines of the longest module": max(lines),
        "modules of the fullest folder": max(Counter(path.parent for path in named).values()),
    }


class Trace:
    """The files of the package whose functions run, in any thread, while it is on."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.before_notices: set[str] = set()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record until the block ends; threads have to begin inside."""
        threading.setprofile(self._record)
        sys.setprofile(self._record)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _record(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            path = Path(code.co_filename)
            if path.is_relative_to(PACKAGE):
                if code is enqueue.__code__:
                    self.before_notices = set(self.passed)
                self.passed.add(str(path.relative_to(PACKAGE)))

    def taken(self) -> set[str]:
        """Return what was passed since the last call."""
        passed, self.passed = self.passed, set()
        return passed


@contextmanager
def migrated_store() -> Iterator[Store]:
    """Open an empty store in a file that goes with the block."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ett.db"
        migrate(url)
        with closing(open_store(url)) as store:
            yield store


def key_of_a_project(store: Store) -> str:
    """Create a key, and with it its project."""
    return store.write(
        lambda conn: create_key(conn, project="p", name="key", scopes=SCOPES, now_us=NOW_US)
    )


def ways_of_events() -> Iterator[tuple[str, set[str], int]]:
    """Follow events to an answer about the fleet, and on to ``/metrics``."""
    trace = Trace()
    with trace.recording(), migrated_store() as store:
        worker = Worker(store, lambda: NOW_US)
        state = AppState(store=store, now_us=lambda: NOW_US, limits=Limits(), worker=worker)
        with TestClient(create_app(lambda: nullcontext(state))) as client:
            client.headers["Authorization"] = f"Bearer {key_of_a_project(store)}"
            client.get("/healthz").raise_for_status()  # the first request builds all routes
            trace.taken()
            events = [{"job": "job", **event} for event in EVENTS]
            client.post("/v1/events", json={"events": events}).raise_for_status()
            while worker.run_once():
                pass
            client.get("/v1/fleet/summary", params=DAY).raise_for_status()
            to_answer = trace.taken()
            yield "from an event to an answer about the fleet", to_answer, 45
            MetricsThread(store, lambda: NOW_US).publish()
            client.get("/metrics").raise_for_status()
            yield "from there on to /metrics", trace.taken() - to_answer, 10


def ways_of_findings() -> Iterator[tuple[str, set[str], int]]:
    """Follow the daily search that makes a regression fire, and that on to a receiver."""
    trace = Trace()
    with receiving() as listening, trace.recording(), migrated_store() as store:
        key_of_a_project(store)
        slowed(store, project_id=1)
        searched = DetectionRun(1, ONSET, 0, 0, 0, "{}")
        store.write(lambda conn: detection_runs.add(conn, searched, ONSET))
        receiver = named("a", listening.url)
        clock = Clock(ONSET + DAY_US + HOUR_US)
        audience = Audience(Directory([receiver]))
        search = DetectionThread(
            store, DetectionOptions(audience=audience, clock=lambda _: clock())
        )
        search.lease.renew()
        with delivering(store, clock, [receiver]) as delivery:
            while True:
                search.lease.renew()
                assert search.lease.epoch is not None
                trace.taken()
                search.run_once(search.lease.epoch)
                if run_once(delivery):
                    break
                clock.now_us += DAY_US
        to_message, to_state = trace.taken(), trace.before_notices
        search.lease.resign()
    yield "from a search to the state of a finding", to_state, 30
    yield "from there on to a delivered message", to_message - to_state, 14


def main() -> int:
    """Print everything; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="print the files that are passed")
    args = parser.parse_args()
    for name, value in sizes().items():
        print(f"{name:48} {value:9,.0f}")
    missed = False
    for way, passed, goal in (*ways_of_events(), *ways_of_findings()):
        print(f"{f'files {way}':48} {len(passed):9} of {goal}")
        missed = missed or len(passed) > goal
        if args.files:
            print(*(f"    {name}" for name in sorted(passed)), sep="\n")
    for addition in ADDITIONS:
        touched = len(addition.touched)
        print(f"{f'files of a new {addition.name}':48} {touched:9} of {addition.goal}")
        missed = missed or touched > addition.goal
        if args.files:
            print(*(f"    {name}" for name in addition.touched), sep="\n")
    ambiguous = ambiguous_types()
    print(f"{'type names of several meanings in a layer':48} {len(ambiguous):9}", *ambiguous)
    return int(bool(ambiguous) or missed)


if __name__ == "__main__":
    sys.exit(main())
