"""What a watcher of Kubernetes costs with 10,000 live jobs, and a dump of them.

The API server and the service are in another process; the watcher uses its client as it always
does. Between two polls a tenth of the pods change, and in every twentieth poll all jobs are told to
be alive: with one poll in 30 s each pod changes every five minutes. The CPU time is set against the
time to the next poll. The floor is what it takes to split and parse the same changes.

A dump is read as `ett import k8s` does; its floors are a pass that splits its lines, and one that
only parses the JSON.
"""

import argparse
import json
import sys
import tempfile
import time
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

from kubernetes import client

from ett_service.cli.record.watch import _sender
from ett_service.importers.kubernetes.cluster import Cluster
from ett_service.importers.kubernetes.dumps import read
from ett_service.watchers.kubernetes import ALIVE_EVERY_S, Feed, Kubernetes
from ett_service.watchers.kubernetes_api import Api, streams
from ett_service.watchers.watcher import Watcher
from tests.builders import kubernetes as k8s
from tests.builders.kubernetes_api import TOKEN, api_server
from tests.builders.servers.web import serving

EVERY_S = 30.0
MOST_CPU = 0.05
LEAST_LINES = 50_000


def pod(number: int, restarts: int = 0) -> k8s.Json:
    """Return the pod of a job that runs; with each restart its status is another one."""
    of = k8s.owner("Job", f"job-{number}")
    last = k8s.life(20, 30, 1) if restarts else None
    container = k8s.running(20 + 20 * restarts, restarts, last)
    return k8s.pod(f"pod-{number}", of, 10, scheduled=15, container=container)


def objects(jobs: int) -> list[k8s.Json]:
    """Return what a cluster with Kueue has of so many jobs."""
    reserved = k8s.condition("QuotaReserved", 5)
    return [
        thing
        for number in range(jobs)
        for thing in (
            k8s.job(f"job-{number}"),
            k8s.workload(f"wl-{number}", k8s.owner("Job", f"job-{number}"), 0, reserved),
            pod(number),
        )
    ]


def serve(jobs: int, orders: Connection) -> None:
    """Serve a cluster and a service; each order is the pods that change."""
    with api_server() as server, serving() as web:
        server.put(*objects(jobs))
        orders.send((server.url, web.url))
        while (pods := orders.recv()) is not None:
            server.put(*(pod(number, restarts) for number, restarts in pods))
            web.received.clear()
            orders.send(len(pods))


def watcher_of(api_url: str, service_url: str, clock: list[float]) -> Watcher:
    """Return a watcher as the command makes it, but for its clock."""
    key = {"authorization": f"Bearer {TOKEN}"}
    api = Api(client.ApiClient(client.Configuration(host=api_url, api_key=key)))
    feed = Feed(Cluster(), lambda: clock[0])
    source = Kubernetes(feed, streams(api, feed, print), say=print, now=lambda: clock[0])
    args = argparse.Namespace(url=service_url, key="ett_k", project=None)
    return Watcher(source, _sender(args), print, EVERY_S)


def watched(jobs: int, polls: int) -> tuple[float, float, float]:
    """Return the seconds of CPU that the first look took, a later one, and its floor."""
    here, there = Pipe()
    process = Process(target=serve, args=(jobs, there), daemon=True)
    process.start()
    clock = [time.time()]
    api_url, service_url = here.recv()
    watcher = watcher_of(api_url, service_url, clock)
    began = time.process_time()
    watcher.poll()
    first = time.process_time() - began
    floor = 0.0
    spent = 0.0
    for number in range(1, polls + 1):
        pods = [(each, number) for each in range(number % 10, jobs, 10)]
        began = time.process_time()
        here.send(pods)
        here.recv()
        time.sleep(2)
        clock[0] += ALIVE_EVERY_S if number % 20 == 0 else EVERY_S
        watcher.poll()
        spent += time.process_time() - began
        floor += parsed(pods)
    here.send(None)
    process.join()
    return first, spent / polls, floor / polls


def parsed(pods: list[tuple[int, int]]) -> float:
    """Return the seconds that the bytes of these changes take to be split and parsed."""
    body = b"\n".join(
        json.dumps({"type": "MODIFIED", "object": pod(*each)}).encode() for each in pods
    )
    began = time.process_time()
    for line in body.split(b"\n"):
        json.loads(line)
    return time.process_time() - began


def dumped(jobs: int) -> tuple[float, float, float]:
    """Return the lines a second of an import, its ratio to splitting them, and to parsing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump.json"
        path.write_text(json.dumps(k8s.dump(*objects(jobs)), indent=4))
        began = time.process_time()
        with path.open(encoding="utf-8") as file:
            lines = sum(len(line.split()) > 0 for line in file)
        split = time.process_time() - began
        began = time.process_time()
        json.loads(path.read_bytes())
        parse = time.process_time() - began
        began = time.process_time()
        runs, _ = read([path])
        sum(len(run.facts) for run in runs)
        taken = time.process_time() - began
    return lines / taken, split / taken, parse / taken


def main() -> int:
    """Print what a watcher and an import cost; 1 where a claim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--polls", type=int, default=20)
    args = parser.parse_args()
    lines, of_split, of_parse = dumped(args.jobs // 10)
    print(
        f"dump: {lines:,.0f} lines a second, {of_split:.2f} of splitting, {of_parse:.2f} of parsing"
    )
    first, spent, floor = watched(args.jobs, args.polls)
    cpu = spent / EVERY_S
    print(f"first look: {first:.1f} s of CPU")
    print(f"poll: {spent:.2f} s of CPU, {cpu:.1%} of a core; {floor:.2f} s to parse the changes")
    return 0 if cpu <= MOST_CPU and lines >= LEAST_LINES else 1


if __name__ == "__main__":
    sys.exit(main())
