"""How easy it is to find one's way in the code: sizes, type names, and files passed by an event.

A file is passed on the way from ``POST /v1/events`` to an answer about the fleet if one of its
functions runs, in a service on SQLite inside this process.
"""

import argparse
import ast
import statistics
import sys
import tempfile
import threading
from collections import Counter
from contextlib import closing, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

from starlette.testclient import TestClient

from ett_service.api.app import create_app
from ett_service.api.state import AppState
from ett_service.ingest.wire import Limits
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from ett_service.storage.record.keys import SCOPES, create_key
from ett_service.worker.ledgers import Worker

PACKAGE = Path(__file__).parents[1] / "ett_service"
FILES_GOAL = 45
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
    """Return the names of classes that mean several things in one layer."""
    names = Counter(
        (path.relative_to(PACKAGE).parts[0], node.name)
        for path in modules()
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    return sorted(f"{layer}: {name}" for (layer, name), count in names.items() if count > 1)


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


def files_passed() -> set[str]:
    """Send events, fold them, ask for the fleet; return the files whose functions ran."""
    passed: set[str] = set()

    def record(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            path = Path(code.co_filename)
            if path.is_relative_to(PACKAGE):
                passed.add(str(path.relative_to(PACKAGE)))

    threading.setprofile(record)
    sys.setprofile(record)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ett.db"
        migrate(url)
        with closing(open_store(url)) as store:
            worker = Worker(store, lambda: NOW_US)
            state = AppState(store=store, now_us=lambda: NOW_US, limits=Limits(), worker=worker)
            with TestClient(create_app(lambda: nullcontext(state))) as client:
                key = store.write(
                    lambda conn: create_key(
                        conn, project="p", name="key", scopes=SCOPES, now_us=NOW_US
                    )
                )
                client.headers["Authorization"] = f"Bearer {key}"
                passed.clear()
                events = [{"job": "job", **event} for event in EVENTS]
                client.post("/v1/events", json={"events": events}).raise_for_status()
                while worker.run_once():
                    pass
                client.get("/v1/fleet/summary", params=DAY).raise_for_status()
                sys.setprofile(None)
                threading.setprofile(None)
                return set(passed)


def main() -> int:
    """Print everything; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="print the files that are passed")
    args = parser.parse_args()
    for name, value in sizes().items():
        print(f"{name:48} {value:9,.0f}")
    passed, ambiguous = files_passed(), ambiguous_types()
    print(
        f"{'files from an event to an answer about the fleet':48} {len(passed):9} of {FILES_GOAL}"
    )
    if args.files:
        print(*(f"    {name}" for name in sorted(passed)), sep="\n")
    print(f"{'type names of several meanings in a layer':48} {len(ambiguous):9}", *ambiguous)
    return int(bool(ambiguous) or len(passed) > FILES_GOAL)


if __name__ == "__main__":
    sys.exit(main())
