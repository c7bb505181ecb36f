"""MLflow's list of runs beside our list of jobs: first load in the same browser, in turns.

``--mlflow PYTHON`` is that of a virtual environment of its own in which ``pip install mlflow`` was
done. MLflow has a run for each job of the demo fleet, with its name, begin, end, team, model and
ETT%, in SQLite as ours are. Each load has a browser of its own, so nothing is cached, and both
servers were asked once before. A list is drawn when the job that began last stands in it. Printed
are medians.
"""

import argparse
import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from httpx2 import Client, TransportError

from benchmarks.pages import (
    SLOWED,
    Load,
    Pages,
    cookies_of,
    end_as_by_exception,
    first_load,
    made_demo,
    opened,
)
from tests.builders.servers.waiting import wait_for

_AT_ONCE = 500  #: jobs of an answer
_PATIENCE_S = 600.0  #: MLflow starts slowly on a busy machine
_FILL = """
import json, sys
from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient
client = MlflowClient(sys.argv[1])
experiment = client.create_experiment("jobs")
for name, team, model, began, ended, ratio in json.load(sys.stdin):
    run = client.create_run(experiment, start_time=began, run_name=name).info.run_id
    params = [Param("team", team), Param("model", model)]
    client.log_batch(run, [Metric("ett_ratio", ratio, began, 0)], params)
    if ended is not None:
        client.set_terminated(run, end_time=ended)
print(experiment)
"""


def main() -> int:
    """Measure and print; return 1 if ours is not drawn sooner, or not in fewer bytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mlflow", metavar="PYTHON", help="of an environment with MLflow")
    parser.add_argument("--rounds", type=int, default=5, help="loads of each list (default 5)")
    parser.add_argument("--demo", type=Path, help="where `ett demo --directory` kept a fleet")
    args = parser.parse_args()
    if args.mlflow is None:
        print("This needs --mlflow, the Python of an environment with it.")
        return 0
    signal.signal(signal.SIGTERM, end_as_by_exception)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = args.demo or made_demo(folder)
        with opened(f"sqlite:///{demo / 'ett.db'}", folder) as fleet:
            jobs = _jobs_of(fleet)
            with mlflow_served(args.mlflow, folder, jobs) as (url, experiment):
                print(f"{len(jobs):,} jobs, and as many runs; medians of {args.rounds} loads")
                theirs = f"{url}/#/experiments/{experiment}/runs"
                slower = [
                    _compared(fleet, theirs, jobs[0]["job"], args.rounds, slowed)
                    for slowed in (1, SLOWED)
                ]
    return int(any(slower))


def _jobs_of(fleet: Pages) -> list[dict[str, Any]]:
    """Return all jobs, the one that began last first."""
    jobs: list[dict[str, Any]] = []
    query: dict[str, object] = {"limit": _AT_ONCE}
    while True:
        answer = fleet.ask("/v1/jobs", **query)
        jobs += answer["jobs"]
        if answer["next_cursor"] is None:
            return jobs
        query["cursor"] = answer["next_cursor"]


@contextmanager
def mlflow_served(
    python: str, folder: Path, jobs: Sequence[dict[str, Any]] = ()
) -> Iterator[tuple[str, str]]:
    """Serve MLflow on SQLite with a run for each job; yield its address and the experiment."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    url, store = f"http://127.0.0.1:{port}", f"sqlite:///{folder / 'mlflow.db'}"
    experiment = _filled(python, store, jobs)
    command = [python, "-m", "mlflow", "server", "--backend-store-uri", store]
    command += ["--port", port, "--workers", "1"]
    with (folder / "mlflow.log").open("w") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)  # noqa: S603 -- asked for
    try:
        wait_for(lambda: _answers(url), patience_s=_PATIENCE_S)
        yield url, experiment
    finally:
        server.terminate()
        server.wait()


def _filled(python: str, store: str, jobs: Sequence[dict[str, Any]]) -> str:
    """Write a run for each job and return the id of their experiment."""
    runs = [
        (
            job["job"], job["team"], job["model"],
            _ms(job["started_at"]), _ms(job["ended_at"]), job["ett_ratio"],
        )
        for job in reversed(jobs)
    ]  # fmt: skip
    made = subprocess.run(  # noqa: S603 -- asked for
        [python, "-c", _FILL, store],
        input=json.dumps(runs), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return made.stdout.split()[-1]


def _ms(instant: str | None) -> int | None:
    return None if instant is None else int(datetime.fromisoformat(instant).timestamp() * 1000)


def _answers(url: str) -> bool:
    with Client(base_url=url, timeout=5) as visitor:
        try:
            return visitor.get("/health").is_success
        except TransportError:
            return False


def _compared(fleet: Pages, theirs: str, shown: str, rounds: int, slowed: int) -> bool:
    """Load both lists in turns, print them; return whether ours is slower or larger."""
    cookies = cookies_of(fleet)
    loads: dict[str, list[Load]] = {"jobs": [], "MLflow": []}
    for number in range(rounds + 1):
        for name, address in (("jobs", f"{fleet.url}/jobs"), ("MLflow", theirs)):
            load = first_load(address, shown, cookies, slowed=slowed)
            if load is None:
                sys.exit("This needs playwright and chromium.")
            if number:  # the first asks the servers for the first time
                loads[name].append(load)
    print(f"CPU slowed {slowed} times: drawn, bytes and requests until then")
    ours, other = (_median(each) for each in loads.values())
    for name, (drawn, sent, requests) in zip(loads, (ours, other), strict=True):
        print(f"{name:8} {drawn:8,.0f} ms {sent:12,.0f} {requests:6.0f}")
    print("ratio    " + " ".join(f"{b / a:8.1f}" for a, b in zip(ours, other, strict=True)))
    return ours[0] >= other[0] or ours[1] >= other[1]


def _median(loads: Sequence[Load]) -> tuple[float, float, float]:
    return (
        statistics.median(load.shown for load in loads),
        statistics.median(load.sent for load in loads),
        statistics.median(load.requests for load in loads),
    )


if __name__ == "__main__":
    sys.exit(main())
