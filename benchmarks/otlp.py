"""How fast spans of OTLP are taken in, beside the same facts as events.

The body of each request holds as many spans as the exporter of OpenTelemetry sends at once. The
same spans are sent as one batch of the events that they become. Both go from the bytes of the body
to the commit in an SQLite file, in turns, and their processor time is taken. HTTP is left out: it
adds as much to both, so with it the ratios would be better.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection

from ett_service.core.intervals import rfc3339
from ett_service.ingest import accept as batches
from ett_service.ingest import decode as decoding
from ett_service.ingest.otlp import receive
from ett_service.ingest.otlp.events import convert
from ett_service.ingest.otlp.protobuf_spans import read_protobuf
from ett_service.ingest.wire import Limits
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.keys import create_key, find_key
from tests.builders.clock import RECEIVED_AT
from tests.builders.otlp import Sent, Value, json_body, protobuf

GOAL = 0.5
SPANS = 512
LIMITS = Limits()
RESOURCE: dict[str, Value] = {
    "ett.job": "",
    "service.name": "megatron-lm",
    "service.instance.id": "run-rank0",
    "slurm.job.id": "8041",
    "host.name": "n1",
    "host.gpu.count": 8,
    "slurm.nnodes": 4,
    "nv.dl.rank": 0,
    "nv.dl.world_size": 32,
}

Accept = Callable[[Connection], object]


def spans(first: int) -> list[Sent]:
    """Return what one export of a training loop holds: passes, and parts of them."""
    sent = []
    for number in range(SPANS):
        start = number / 10
        name = "nv.dl.training.iter_block" if number % 4 else "nv.dl.training.iteration.forward"
        attributes: dict[str, Value] = {
            "nv.dl.training.step": number,
            "lens.group": "megatron.train",
        }
        sent.append(Sent(name, start, start + 0.1, attributes, first + number + 1))
    return sent


def as_events(body: bytes) -> bytes:
    """Return the batch that says what an export in protobuf says."""
    conversion = convert(read_protobuf(body, SPANS))
    return json.dumps({"events": conversion.events, "sent_at": rfc3339(RECEIVED_AT)}).encode()


def of_events(body: bytes, project_id: int) -> Accept:
    """Read a batch; the rest is its transaction."""
    headers = {"content-type": "application/json"}
    batch = decoding.decode(body, headers, now_us=RECEIVED_AT, limits=LIMITS)
    return lambda conn: batches.accept(conn, batch, project_id=project_id, now_us=RECEIVED_AT)


def of_spans(body: bytes, project_id: int, media: str = receive.PROTOBUF) -> Accept:
    """Read an export; the rest is its transaction."""
    headers = {"content-type": media}
    request = receive.decode(body, headers, now_us=RECEIVED_AT, limits=LIMITS)
    return lambda conn: receive.accept(conn, request, project_id=project_id, now_us=RECEIVED_AT)


def of_json_spans(body: bytes, project_id: int) -> Accept:
    """Read an export in JSON."""
    return of_spans(body, project_id, receive.JSON)


Read = Callable[[bytes, int], Accept]


def seconds(store: Store, project_id: int, read: Read, body: bytes) -> float:
    """Return how long it takes until *body* is stored."""
    began = time.process_time()
    store.write(read(body, project_id))
    return time.process_time() - began


def rounds(store: Store, project_id: int, count: int) -> dict[str, list[float]]:
    """Store as much of each kind in each round, in jobs of their own."""
    taken: dict[str, list[float]] = {"events": [], "protobuf": [], "json": []}
    for number in range(count):
        sent = spans(number * SPANS)
        events = as_events(protobuf({**RESOURCE, "ett.job": "events"}, sent))
        bodies: tuple[tuple[str, Read, bytes], ...] = (
            ("events", of_events, events),
            ("protobuf", of_spans, protobuf({**RESOURCE, "ett.job": "protobuf"}, sent)),
            ("json", of_json_spans, json_body({**RESOURCE, "ett.job": "json"}, sent)),
        )
        for name, read, body in bodies:
            taken[name].append(seconds(store, project_id, read, body))
    return taken


def main() -> int:
    """Print spans a second of each kind, and their ratio to events; 1 where the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'ett.db'}"
        migrate(url)
        with closing(open_store(url)) as store:
            taken = rounds(store, _project(store), args.rounds)
    ratios = {name: _ratio(taken["events"], each) for name, each in taken.items()}
    for name, each in taken.items():
        rate = SPANS / statistics.median(each)
        print(f"{name:10} {rate:9,.0f} spans a second, {ratios[name]:.2f} of events")
    print(f"protobuf and json: at least {GOAL}")
    return int(min(ratios.values()) < GOAL)


def _ratio(events: list[float], spans: list[float]) -> float:
    """Return the middle of the rounds' ratios: what slows a round down slows both."""
    pairs = zip(events, spans, strict=True)
    return statistics.median(of_events / of_spans for of_events, of_spans in pairs)


def _project(store: Store) -> int:
    key = store.write(
        lambda conn: create_key(
            conn, project="research", name="benchmark", scopes={"write"}, now_us=RECEIVED_AT
        )
    )
    with store.reading() as conn:
        stored = find_key(conn, key, RECEIVED_AT)
    assert stored is not None
    return stored.project_id


if __name__ == "__main__":
    sys.exit(main())
