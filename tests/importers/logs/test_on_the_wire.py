"""What importers of logs make of any damage, the service takes, and nothing stops them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ett_service.importers.importer import ImportedRun, Report
from ett_service.importers.instants import zone
from ett_service.importers.logs import megatron, table, torch_trace, torchelastic
from ett_service.ingest.decode import decode
from ett_service.ingest.wire import Limits
from tests.builders.megatron import cancelled, iteration, mark, progress, saved, start_up
from tests.builders.torch_logs import FORWARD, instant, metrics, phases

Read = Callable[[Path], tuple[Iterator[ImportedRun], Report]]

ROOT = Path(__file__).parents[3]
LIMITS = Limits(1 << 40, 1 << 40, 1 << 40)
NOW_US = 2_000_000_000_000_000
PARIS = zone("Europe/Paris")
MAPPING = table.Mapping(ROOT / "examples/import/job-table.yaml")

OUTPUT = (
    *start_up(),
    iteration(10, 1000, "02:30:00"),
    *saved(10, 2500),
    iteration(20, 1000),
    "[rank1]: RuntimeError: CUDA error\n",
    cancelled("09:00:00", " DUE TO TIME LIMIT"),
    mark("after megatron is initialized", "10:00:00"),
    mark("exiting program at iteration 20", "10:05:00"),
)
PROGRESS = (
    progress("08:00:00", "Starting job"),
    progress("08:20:00", "Saved checkpoint", 100),
    progress("08:30:00", "Saving async checkpoint", 200),
)
TRACE = (
    *phases(*FORWARD, begin=0, length=1000),
    instant("automatic_dynamic", 30, name="L['x']", dim_changed=0),
    metrics(co_name="f", is_forward=True, start_time_us=1_733_527_100_000_010, duration_us=980),
    *phases("entire_backward_compile", begin=2000, length=500),
)
AGENT = (
    (
        '2024-05-13T08:00:00 {"name": "torchelastic.worker.status.RENDEZVOUS", "source": "AGENT", '
        '"metadata": {"agent_restarts": 0, "duration_ms": 1e300}}\n'
    ),
    (
        '2024-05-13T08:00:00 {"name": "torchelastic.worker.status.FAILED", "source": "AGENT", '
        '"metadata": {"agent_restarts": -1, "raw_error": "XError: \\ud800 bad"}}\n'
    ),
)
ROWS = (
    "job_name,job_id,nodes,gpus,start,first_step,end,state\n",
    "a/b,1,1,8,2026-03-01 08:00:00,2026-03-29 02:30:00,,RUNNING\n",
    "llm,2,1,8,0001-01-01 00:00:00,9999-12-31 23:59:59,,FAILED\n",
)

FORMATS: dict[str, tuple[str, tuple[str, ...], Read]] = {
    "megatron": ("a.out", OUTPUT, lambda path: megatron.read([path], None, PARIS)),
    "progress": ("progress.txt", PROGRESS, lambda path: megatron.read([path], None, PARIS)),
    "table": ("a.csv", ROWS, lambda path: table.read_csv([path], mapping=MAPPING, zone=PARIS)),
    "torch-trace": ("a.log", TRACE, lambda path: torch_trace.read([path])),
    "torchelastic": ("a.jsonl", AGENT, lambda path: torchelastic.read([path], None, PARIS)),
}


@st.composite
def damaged(draw: st.DrawFn, lines: tuple[str, ...]) -> bytes:
    """The lines, some of them lost, twice or elsewhere, and bytes of theirs changed."""
    chosen = draw(st.lists(st.sampled_from(lines), max_size=2 * len(lines)) | st.just(list(lines)))
    content = bytearray("".join(chosen).encode())
    for place, byte in draw(st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=6)):
        if content:
            content[place % len(content)] = byte
    return bytes(content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content)


def refusals(events: list[dict[str, Any]]) -> list[str]:
    body = json.dumps({"events": events, "history": True}).encode()
    headers = {"content-type": "application/json"}
    return [
        f"{each.code.value} {each.pointer}"
        for each in decode(body, headers, now_us=NOW_US, limits=LIMITS).refusals
    ]


@pytest.mark.parametrize("name", sorted(FORMATS))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_damage_stops_nothing_and_sends_nothing_that_is_refused(
    name: str, data: st.DataObject, tmp_path: Path
) -> None:
    file, lines, read = FORMATS[name]
    path = tmp_path / file
    path.write_bytes(data.draw(damaged(lines)))
    runs, report = read(path)
    events = [sent for run in runs for sent in run.events]

    # Names of jobs and instants of tables are the user's own; the import refuses them by line.
    assert [
        each for each in refusals(events) if "job" not in each and "timestamp" not in each
    ] == []
    assert events or report.unread
