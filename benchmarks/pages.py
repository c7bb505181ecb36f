"""How long the server takes for each page of the demo fleet, and what goes over the wire.

The pages are served in this process on a port, and read by one reader, one after the other, as a
browser asks for them. The floor is the page of definitions, which asks the database for the
session alone. A job of 200 attempts and 5,000 checkpoints is read likewise, and where playwright
and chromium are there, drawn; MLflow's list of runs beside ours, with ``--mlflow URL``.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from httpx2 import Client

from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from tests.builders.servers.site import Site, served

GOAL_MS, GOAL_BYTES, GOAL_DRAWN_S = 100.0, 150_000, 1.0
FLOOR = "/definitions"
PROJECT = "default"  #: of the demo
ETT = str(Path(sys.executable).with_name("ett"))
PAGES = (
    "/",
    "/?window=28d&by=team",
    "/jobs",
    "/regressions",
    "/compare?base=model:llm-70b&with=model:moe-52b",
    "/changes",
    "/checkpoints",
    "/what-if",
    "/quality",
    "/settings",
)
_ATTEMPTS, _SAVES = 200, 25
_AT_ONCE = 500


def main() -> int:
    """Measure, print, and return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="of each page (default 30)")
    parser.add_argument("--demo", type=Path, help="where `ett demo --directory` kept a fleet")
    parser.add_argument("--mlflow", metavar="URL", help="an MLflow whose runs are listed, too")
    args = parser.parse_args()
    met = True
    with tempfile.TemporaryDirectory() as folder:
        with opened(
            (args.demo or made_demo(Path(folder))) / "ett.db", time.time_ns() // 1000
        ) as fleet:
            print(f"{'page':52} {'p50':>8} {'p99':>8} {'CPU':>8} {'bytes':>8} {'sent':>8}")
            timed(fleet, FLOOR, args.rounds)
            for path in (*PAGES, *pages_of(fleet)):
                met &= timed(fleet, path, args.rounds)
            print(f"goals: p99 of {GOAL_MS:.0f} ms; {GOAL_BYTES:,} bytes sent")
            drawn(fleet, "/jobs", args.mlflow)
        path = Path(folder) / "long.db"
        migrate(f"sqlite:///{path}")
        events, end_us = long_job()
        with opened(path, end_us) as long:
            take_in(long, events)
            timed(long, "/jobs/long", max(args.rounds // 5, 3))
            met &= drawn(long, "/jobs/long") <= GOAL_DRAWN_S
    return int(not met)


def made_demo(folder: Path) -> Path:
    """Make the demo fleet, which takes about a minute."""
    command = [ETT, "demo", "--no-serve", "--directory", str(folder / "demo")]
    subprocess.run(command, capture_output=True, check=True)  # noqa: S603 -- ours
    return folder / "demo"


@contextmanager
def opened(path: Path, now_us: int) -> Iterator[Site]:
    """Serve a store as of an instant."""
    with closing(open_store(f"sqlite:///{path}")) as store, served(store, now_us) as running:
        yield running


def take_in(long: Site, events: Sequence[dict[str, Any]]) -> None:
    """Send events and fold them."""
    sender = long.api(long.key(project=PROJECT))
    for start in range(0, len(events), _AT_ONCE):
        batch = {"events": events[start : start + _AT_ONCE]}
        sender.post("/v1/events", json=batch).raise_for_status()
    while long.worker.run_once():
        pass


def pages_of(fleet: Site) -> list[str]:
    """Return the pages of the job with most failures, of an attempt of it, and of a finding."""
    reader = fleet.api(fleet.key(project=PROJECT))
    jobs = reader.get("/v1/jobs", params={"sort": "-e2e_seconds", "limit": 50}).json()["jobs"]
    largest = max(jobs, key=lambda job: int(job["failures"]))["job"]
    path = f"/jobs/{quote(largest, safe='')}"
    findings = reader.get("/v1/regressions", params={"limit": 1}).json()["regressions"]
    return [
        path,
        f"{path}/attempts/1",
        f"{path}/compile",
        f"{path}/events",
        *(f"/regressions/{each['id']}" for each in findings),
    ]


def timed(fleet: Site, path: str, rounds: int) -> bool:
    """Print the times of a page; return whether it meets the goals."""
    reader = fleet.reader(fleet.key(project=PROJECT))
    reader.get(path).raise_for_status()
    cpu = time.process_time()
    times = sorted(one_time(reader, path) for _ in range(rounds))
    cpu = (time.process_time() - cpu) / rounds * 1000
    answer = reader.get(path)
    sent = int(answer.headers["content-length"])
    p50, p99 = statistics.median(times), times[min(int(len(times) * 0.99), len(times) - 1)]
    took = f"{p50:5.0f} ms {p99:5.0f} ms {cpu:5.0f} ms"
    print(f"{path[:52]:52} {took} {len(answer.content):8,} {sent:8,}")
    return p99 <= GOAL_MS and sent <= GOAL_BYTES


def one_time(reader: Client, path: str) -> float:
    """Return the milliseconds until the page was there."""
    began = time.perf_counter()
    reader.get(path)
    return (time.perf_counter() - began) * 1000


def drawn(fleet: Site, path: str, other: str | None = None) -> float:
    """Print how long a browser takes for a page, first load, and for *other* beside it.

    Returns seconds until the load event; 0 without a browser.
    """
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 -- it need not be there
    except ImportError:
        chromium = None
    if chromium is None:
        print(f"{path}: not drawn, for want of playwright and chromium")
        return 0.0
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        cookies = [
            {"name": each.name, "value": each.value or "", "url": fleet.url}
            for each in fleet.reader(fleet.key(project=PROJECT)).cookies.jar
        ]
        seconds = first_load(browser, f"{fleet.url}{path}", cookies)
        if other:
            first_load(browser, other, [])
        browser.close()
    return seconds


def first_load(browser: Any, address: str, cookies: list[Any]) -> float:
    """Print and return the seconds of a first load in a window of its own."""
    window = browser.new_context()
    window.add_cookies(cookies)
    page = window.new_page()
    page.goto(address, wait_until="networkidle")
    timing = page.evaluate("performance.getEntriesByType('navigation')[0].toJSON()")
    fetched = page.evaluate(
        "performance.getEntriesByType('resource').reduce((sum, each) => sum + each.transferSize, 0)"
    )
    painted = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
    )
    seconds = float(timing["loadEventEnd"]) / 1000
    print(
        f"{address}: first paint {painted:.0f} ms, loaded {seconds * 1000:.0f} ms, "
        f"{int(timing['transferSize'] + fetched):,} bytes"
    )
    window.close()
    return seconds


def long_job() -> tuple[list[dict[str, Any]], int]:
    """Return the events of a job of 200 attempts and 5,000 checkpoints, and when it is over."""
    at = datetime(2026, 3, 1, tzinfo=UTC)
    events: list[dict[str, Any]] = []

    def tell(kind: str, attempt: int, **members: Any) -> None:
        events.append(
            {"type": kind, "job": "long", "at": at.isoformat(), "attempt": attempt, **members}
        )

    for attempt in range(_ATTEMPTS):
        tell("attempt_started", attempt, gpus=256)
        tell("phase_started", attempt, phase="launcher_init")
        at += timedelta(minutes=5)
        tell("phase_ended", attempt, phase="launcher_init")
        tell("phase_started", attempt, phase="train_loop")
        for save in range(attempt * _SAVES + 1, (attempt + 1) * _SAVES + 1):
            at += timedelta(minutes=10)
            tell("progress", attempt, step=100 * save)
            tell("phase_started", attempt, phase="checkpoint_blocking")
            at += timedelta(seconds=20)
            tell("phase_ended", attempt, phase="checkpoint_blocking")
            tell("checkpoint_saved", attempt, step=100 * save)
        at += timedelta(minutes=7)
        tell("attempt_ended", attempt, outcome="failed", exit_code=1, message="uncorrectable ECC")
        at += timedelta(minutes=4)
    return events, int(at.timestamp() * 1_000_000)


if __name__ == "__main__":
    sys.exit(main())
