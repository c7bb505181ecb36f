"""Whatever becomes of a log on its way, the service takes what its importer makes of it."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import telemetry_lines
from ett_service.cli.record import otlp_files
from ett_service.importers.importer import Fact, ImportedRun, Report, identified
from ett_service.importers.telemetry import dlrover, goodput, nvrx, one_logger, wandb
from ett_service.ingest.decode import decode
from ett_service.ingest.wire import Limits
from tests.builders.imports import ledgers_of
from tests.builders.wandb import exit_of, framed, history, run, stats

Read = Callable[[Sequence[Path]], tuple[Iterator[ImportedRun], Report]]

START_S = telemetry_lines.START_S
NOW_US = (START_S + 86_400) * 1_000_000
WANDB = framed(
    run("a", "llm", "pre", START_S),
    *(history(START_S + 10.0 * n, _step=n, loss=0.5) for n in range(20)),
    stats(START_S + 500),
    exit_of(1, 600),
)
IN_UTC = partial(dlrover.read, zone=UTC)
LOGS: dict[str, tuple[str, Read, bytes]] = {
    name: (file, read, "".join(f"{line}\n" for line in lines).encode())
    for name, file, read, lines in (
        ("dlrover", "events_0.log", IN_UTC, telemetry_lines.dlrover_lines(40)),
        ("goodput", "a.jsonl", goodput.read, telemetry_lines.goodput_lines(40)),
        ("nvrx", "a.log", nvrx.read, telemetry_lines.nvrx_lines(400)),
        ("one-logger", "a.jsonl", one_logger.read, telemetry_lines.one_logger_lines(40)),
        ("otlp", "a.json", otlp_files.read, telemetry_lines.otlp_lines(10)),
    )
}  # fmt: skip
LOGS["wandb"] = "run-a.wandb", wandb.read, WANDB

damage = st.tuples(st.integers(0, 1 << 30), st.binary(max_size=4), st.booleans())


def damaged(content: bytes, blows: list[tuple[int, bytes, bool]]) -> bytes:
    """Overwrite bytes, or cut out lines and put them elsewhere."""
    for place, what, is_move in blows:
        lines = content.splitlines(keepends=True) or [b""]
        if is_move:
            line = lines.pop(place % len(lines))
            lines.insert(place // 7 % (len(lines) + 1), line + what)
            content = b"".join(lines)
        else:
            at = place % (len(content) + 1)
            content = content[:at] + what + content[at + len(what) :]
    return content


@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=25, deadline=None)
@given(blows=st.lists(damage, max_size=5))
def test_nothing_that_a_log_says_makes_an_event_that_is_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, blows: list[tuple[int, bytes, bool]]
) -> None:
    file, read, content = LOGS[name]
    path = tmp_path_factory.getbasetemp() / name
    path.mkdir(exist_ok=True)
    (path / file).write_bytes(damaged(content, blows))
    runs, report = read([path])
    events = [event for each in runs for event in each.events]

    body = json.dumps({"events": events, "history": True}).encode()
    headers = {"content-type": "application/json"}
    batch = decode(body, headers, now_us=NOW_US, limits=Limits(max_future_us=1 << 62))
    assert [(each.code, events[each.index or 0]) for each in batch.refusals] == []
    assert events or report.unread or report.refused
    for folded in ledgers_of(events).values():
        assert sum(segment.us for segment in folded.segments) == folded.e2e_us


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.text(max_size=9) | st.integers(-(2**53), 2**53) | st.booleans() | st.lists(st.none()),
    )
)
def test_ids_are_those_of_plain_json_with_sorted_keys(content: dict[str, object]) -> None:
    event = identified("log", [Fact(content)])[0].event
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]

    assert event.get("id") == content.get("id", f"log-{digest}")
