"""What a watcher of Kubernetes costs with 10,000 live jobs, and a dump of them.

The API server and the service are in another process; the watcher uses its client as it always
does. Between two polls a tenth of the pods change, and in every twentieth poll all jobs get a
heartbeat: with one poll in 30 s each pod changes every five minutes. The CPU time is set against
the time to the next poll. The floor is what it takes to split and parse the same changes.
"""

import argparse
import json
import sys
import time
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection

from kubernetes import client

from benchmarks.tracker_lines import objects, pod
from ett_service.cli.record.watch import Sender
from ett_service.importers.kubernetes.cluster import Cluster
from ett_service.watchers.kubernetes import ALIVE_EVERY_S, Feed, Kubernetes
from ett_service.watchers.kubernetes_api import Api, streams
from ett_service.watchers.watcher import Watcher
from tests.builders.kubernetes_api import TOKEN, api_server
from tests.builders.servers.web import serving

EVERY_S = 30.0
MOST_CPU = 0.05


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
    args = argparse.Namespace(url=service_url, key="ett_k", project=None, scheduler="kubernetes")
    return Watcher(source, Sender(args), print, EVERY_S)


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


def main() -> int:
    """Print what a watcher costs; 1 where that is too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--polls", type=int, default=20)
    args = parser.parse_args()
    first, spent, floor = watched(args.jobs, args.polls)
    cpu = spent / EVERY_S
    print(f"first look: {first:.1f} s of CPU")
    print(f"poll: {spent:.2f} s of CPU, {cpu:.1%} of a core; {floor:.2f} s to parse the changes")
    return 0 if cpu <= MOST_CPU else 1


if __name__ == "__main__":
    sys.exit(main())
