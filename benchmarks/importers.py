"""How fast importers read, beside a bare pass that splits the same lines.

Both go over one file on one core, in turns; the file is written anew for each format.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ett_service.importers.importer import ImportedRun, Report
from ett_service.importers.instants import zone
from ett_service.importers.logs import megatron, profiled_log, table, torch_trace, torchelastic
from tests.builders.megatron import iteration, start_up
from tests.builders.torch_logs import FORWARD, metrics, phases, record

LINES_PER_SECOND = 50_000
SHARE = 0.3
ROUNDS = 3
EXAMPLES = Path(__file__).parents[1] / "examples/import"

Read = Callable[[Path], tuple[Iterator[ImportedRun], Report]]
Log = tuple[str, Callable[[], Iterator[str]], Read]
"""A file's name, its lines without end, and what reads it."""


def _trace() -> Iterator[str]:
    code = "\n".join(f"add_{n}: f32[4, 64] = torch.ops.aten.add(x, {n})" for n in range(100))
    number = 0
    while True:
        begin, compile_id = number * 1e6, f"{number}/0"
        edges = phases(
            *FORWARD, *map(str, range(30)), begin=begin, length=9e5, compile_id=compile_id
        )
        yield from edges
        for _ in range(10):
            yield record({"aot_forward_graph": {}, "has_payload": "0"}, code)
            yield record({"str": ["torch/nn/modules/module.py", number]})
        yield metrics(compile_id=compile_id, co_name="f", dynamo_config="x" * 8_000)
        number += 1


def _output() -> Iterator[str]:
    names = ("forward-compute", "forward-recv", "backward-compute", "backward-send", "optimizer")
    timers = "".join(f" | {name}-{n}: 1503.24" for name in names for n in range(4))
    rest = "global batch size:  1024 | loss scale: 12.0 | grad norm: 8.017 | number of skipped "
    yield from start_up()
    step = 0
    while True:
        step += 1
        yield f"{iteration(step, 900.5).rstrip()} {rest}iterations:   0 |\n"
        yield f"time (ms){timers}\n"


def _agent() -> Iterator[str]:
    place = '"metadata": {"hostname": "n1", "agent_restarts": 0, "duration_ms": 5.5}}'
    state = '"name": "torchelastic.worker.status.RENDEZVOUS", "source": "AGENT", "timestamp": 0'
    message = (
        "The node 'n1_30739_0' updated its keep-alive heartbeat time for the rendezvous 'none'."
    )
    place_of_node = '"hostname": "n1", "pid": 30739, "node_state": "RUNNING", "rank": null'
    name = '"name": "dynamic_rendezvous.py:_DistributedRendezvousOpExecutor._keep_alive"'
    other = (
        f'{{{name}, "run_id": "none", "message": "{message}", {place_of_node}, "local_id": 0}}\n'
    )
    number = 0
    while True:
        number += 1
        clock = f"2026-03-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        yield f"{clock} {{{state}, {place}\n" if number % 20 == 0 else f"{clock} {other}"


def _plain() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        clock = f"2026-03-01 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02},250"
        text = f"step {number} loss 2.31 tokens {number * 4096}"
        other = f"bucket {number} reduced in 0.25 s over 8 ranks, 1.5 GB"
        yield f"{clock} INFO trainer: {text if number % 20 == 0 else other}\n"


def _jobs() -> Iterator[str]:
    yield "job_name,job_id,nodes,gpus,start,first_step,end,state\n"
    number = 0
    while True:
        number += 1
        times = "2026-03-01 08:00:00,2026-03-01 08:04:00,2026-03-01 09:00:00"
        yield f"llm-{number // 8},{number},8,64,{times},COMPLETED\n"


UTC = zone("UTC")
LOGS: Mapping[str, Log] = {
    "csv": (
        "jobs.csv",
        _jobs,
        lambda path: table.read_csv([path], mapping=table.Mapping(EXAMPLES / "job-table.yaml")),
    ),
    "log": (
        "llm/attempt-0/rank0.log",
        _plain,
        lambda path: profiled_log.read(
            [path], profile=profiled_log.Profile(EXAMPLES / "python-logging.yaml"), zone=UTC
        ),
    ),
    "megatron": ("a.out", _output, lambda path: megatron.read([path], None, UTC)),
    "torch-trace": ("a.log", _trace, lambda path: torch_trace.read([path])),
    "torchelastic": ("a.jsonl", _agent, lambda path: torchelastic.read([path], None, UTC)),
}


def split_s(path: Path) -> float:
    """Return how long a bare pass takes."""
    begin = time.perf_counter()
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            line.split()
    return time.perf_counter() - begin


def import_s(path: Path, read: Read) -> tuple[float, int]:
    """Return how long an import takes, and its events."""
    begin = time.perf_counter()
    events = sum(len(run.facts) for run in read(path)[0])
    return time.perf_counter() - begin, events


def measure(folder: Path, log: Log, lines: int) -> tuple[float, float, int]:
    """Return lines a second, the share of the speed of a bare pass, and events."""
    name, written, read = log
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        count = 0
        for text in written():
            file.write(text)
            count += text.count("\n")
            if count >= lines:
                break
    rounds = [(split_s(path), *import_s(path, read)) for _ in range(ROUNDS)]
    share = statistics.median(bare / imported for bare, imported, _ in rounds)
    return count / min(imported for _, imported, _ in rounds), share, rounds[0][2]


def main() -> int:
    """Print a line a format; 1 if one is too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=400_000)
    parser.add_argument("formats", nargs="*", default=sorted(LOGS), metavar="FORMAT")
    args = parser.parse_args()
    slow = 0
    for name in args.formats:
        with tempfile.TemporaryDirectory() as folder:
            speed, share, events = measure(Path(folder), LOGS[name], args.lines)
        is_slow = speed < LINES_PER_SECOND or share < SHARE
        slow += is_slow
        verdict = "too slow" if is_slow else "well"
        speeds = f"{speed:12,.0f} lines/s {share:6.2f} of a bare pass"
        print(f"{name:14} {speeds} {events:9,} events  {verdict}")
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
