"""Metrics that MLflow takes by ``log-batch``, beside the events that we take, in turns.

Both keep them in SQLite. MLflow's is the program of a virtual environment of its own, in which
``pip install mlflow`` was done. Its requests have as many metrics as it allows, which is a
thousand, from as many connections as ours, each of a run of its own.
"""

import http.client
import json
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.drain import CONNECTIONS
from benchmarks.freshness import serving
from benchmarks.ingest import Round, load_of, served
from benchmarks.job_lists import mlflow_served

_METRICS = 1000
_API = "/api/2.0/mlflow/runs/"


def rounds_of(python: str, url: str, rounds: int, batches: int) -> Iterator[Round]:
    """Serve both, and let them take turns; yield events and metrics a second."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as other:
        folder = Path(name)
        with (
            mlflow_served(python, Path(other)) as (tracker, _),
            serving(url, folder, ETT_EMBEDDED_WORKER="false") as server,
        ):
            logged(tracker, 1)  # the first requests of a process take longer
            served(server, load_of("first", 1))
            for number in range(rounds):
                events = served(server, load_of(f"job-{number}", batches))
                yield Round(events, logged(tracker, batches))


def logged(url: str, batches: int) -> float:
    """Log so many batches of metrics from each connection, and return metrics a second."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        runs = list(pool.map(_new_run, [url] * CONNECTIONS))
        began = time.perf_counter()
        metrics = sum(pool.map(_log, [url] * CONNECTIONS, runs, [batches] * CONNECTIONS))
        return metrics / (time.perf_counter() - began)


def _new_run(url: str) -> str:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        run = _post(connection, "create", {"experiment_id": "0", "start_time": _now_ms()})
    run_id: str = run["run"]["info"]["run_id"]
    return run_id


def _log(url: str, run_id: str, batches: int) -> int:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        for number in range(batches):
            steps = range(number * _METRICS, (number + 1) * _METRICS)
            at = _now_ms()
            metrics = [
                {"key": "loss", "value": 1 / (1 + step), "timestamp": at, "step": step}
                for step in steps
            ]
            _post(connection, "log-batch", {"run_id": run_id, "metrics": metrics})
    return batches * _METRICS


def _post(connection: http.client.HTTPConnection, what: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json"}
    connection.request("POST", f"{_API}{what}", json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{what}: {answer.status} {text.decode()}")
    return json.loads(text)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
