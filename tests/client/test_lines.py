"""The line of an event."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ett_service.client.clock import mono_us, rfc3339
from ett_service.client.identity import Identity
from ett_service.client.lines import Lines, new_producer
from ett_service.client.recorder import Steps, edge_writer
from ett_service.client.sending.spool import Spool

IDENTITY = Identity('50%b %d "quoted"', "8041", 1, 2, 3, "node-é")


def test_a_line_names_producer_instant_and_event() -> None:
    lines = Lines(IDENTITY, "P")
    event = json.loads(lines.line({"type": "heartbeat"}, 1_234_567))

    assert event == {
        "crc": event["crc"],
        "type": "heartbeat",
        "job": '50%b %d "quoted"',
        "launch": "8041",
        "attempt": 1,
        "cycle": 2,
        "rank": 3,
        "host": "node-é",
        "producer": "P",
        "id": "P-1",
        "seq": 1,
        "mono_us": 1_234_567,
        "at": rfc3339(1_234_567 + lines.base_us),
    }


def test_the_template_of_an_edge_writes_the_same_line(tmp_path: Path) -> None:
    lines, spool = Lines(IDENTITY, "P"), Spool(tmp_path / "p", {})
    template = lines.template(type="phase_started", phase="evaluation")
    before = mono_us()
    at = edge_writer(lines, spool, Steps(), lambda: None, template)()
    spool.close()

    event = json.loads((tmp_path / "p" / "000001.jsonl").read_text("utf-8"))
    assert before <= at <= mono_us()
    assert event == json.loads(
        Lines(IDENTITY, "P").line({"type": "phase_started", "phase": "evaluation"}, at)
    ) | {"at": rfc3339(at + lines.base_us)}


def test_a_member_that_is_none_is_left_out_and_cycle_may_be() -> None:
    event = json.loads(Lines(IDENTITY, "P").line({"type": "x", "cycle": None, "gpus": None}))
    assert "cycle" not in event
    assert "gpus" not in event


def test_what_no_encoding_can_say_is_replaced() -> None:
    event = json.loads(Lines(IDENTITY, "P").line({"type": "x", "message": "a\ud800b"}))
    assert event["message"] == "a?b"


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        Lines(IDENTITY, "P").line({"type": "progress", "flops": float("nan")})


def test_every_edge_of_a_second_and_of_the_next_names_its_own_instant(tmp_path: Path) -> None:
    lines, spool = Lines(IDENTITY, "P"), Spool(tmp_path / "p", {})
    template = lines.template(type="phase_ended", phase="evaluation")
    edge = edge_writer(lines, spool, Steps(), lambda: None, template)
    for _ in range(6):
        edge()
        time.sleep(0.21)
    spool.close()

    written = (tmp_path / "p" / "000001.jsonl").read_bytes()
    events = [json.loads(line) for line in written.splitlines()]
    assert [event["at"] for event in events] == [lines.at(event["mono_us"]) for event in events]
    assert len({event["at"][:19] for event in events}) >= 2


@pytest.mark.parametrize("at", [0, 999_999, 1_000_000, 1_795_205_987_776_635])
def test_an_instant_is_written_to_the_microsecond(at: int) -> None:
    instant = datetime.fromisoformat(rfc3339(at))
    assert instant - datetime.fromtimestamp(0, UTC) == timedelta(microseconds=at)


def test_every_life_of_a_process_has_its_own_name() -> None:
    names = [new_producer() for _ in range(1000)]
    assert len(set(names)) == 1000
    assert {len(name) for name in names} == {26}
