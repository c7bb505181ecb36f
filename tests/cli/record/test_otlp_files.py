"""Files of OTLP traces."""

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from ett_service.cli.record.otlp_files import read
from ett_service.core.words import Category
from ett_service.importers.importer import Report
from ett_service.importers.recognition import by_format
from tests.builders.imports import Wire, ledgers_of, seconds
from tests.builders.otlp import Sent, Value, json_body, numbered, protobuf

JOB: dict[str, Value] = {"ett.job": "llm", "dl.world_size": 8}
SPANS = numbered(
    Sent("nv.dl.training.startup", 0, 60),
    Sent("nv.dl.training.iter_block", 60, 100, {"dl.iteration": 4}),
    Sent("nv.dl.training.checkpoint.exposed_save", 90, 95),
)


def imported(*paths: Path, job: str | None = None) -> tuple[Wire, Report]:
    runs, report = read(paths, job)
    return [sent for run in runs for sent in run.events], report


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def test_lines_become_what_the_same_request_would(tmp_path: Path) -> None:
    (path := tmp_path / "traces.json").write_bytes(json_body(JOB, SPANS) + b"\n")
    events, report = imported(path)
    ((name, job),) = ledgers_of(events).items()

    assert (name, report.records, report.files, report.skipped) == ("llm", 3, 1, 0)
    assert seconds(job) == {
        Category.LAUNCHER_INIT: 60,
        Category.EFFECTIVE_TRAINING: 35,
        Category.CHECKPOINT_BLOCKING: 5,
    }
    assert job.attempts[0].gpus == 8


def test_every_way_in_which_the_collector_writes_is_the_same(tmp_path: Path) -> None:
    body = protobuf(JOB, SPANS)
    halves = [protobuf(JOB, SPANS[:2]), protobuf(JOB, SPANS[2:])]
    pretty = json.dumps(json.loads(json_body(JOB, SPANS)))
    ways = {
        "lines.json": pretty.encode(),
        "indented.json": json.dumps(json.loads(pretty), indent=2).encode(),
        "indented.json.gz": gzip.compress(json.dumps(json.loads(pretty), indent=2).encode()),
        "packed.json.gz": gzip.compress(json_body(JOB, SPANS)),
        "whole.binpb": body,
        "framed.pb": framed(body),
        "zstd.pb": framed(zstandard.compress(body)),
        "zstd-json.pb": framed(zstandard.compress(json_body(JOB, SPANS))),
    }
    sent = []
    for name, content in ways.items():
        (path := tmp_path / name).write_bytes(content)
        assert [*by_format([path])] == ["otlp"], name
        sent.append(imported(path)[0])
    assert all(events == sent[0] for events in sent)
    (split := tmp_path / "split.pb").write_bytes(framed(*halves))
    assert ledgers_of(imported(split)[0]) == ledgers_of(sent[0])


def test_a_span_that_is_read_while_open_is_ended_by_its_whole(tmp_path: Path) -> None:
    begun = numbered(Sent("nv.dl.training.startup", 0, None))
    lines = [json_body(JOB, begun), json_body(JOB, SPANS)]
    (path := tmp_path / "traces.json").write_bytes(b"\n".join(lines))
    ((_, job),) = ledgers_of(imported(path)[0]).items()

    assert seconds(job)[Category.LAUNCHER_INIT] == 60
    assert job.quality.inferred_ends == 0


def test_a_named_job_takes_spans_that_name_none(tmp_path: Path) -> None:
    (path := tmp_path / "traces.json").write_bytes(json_body({}, SPANS))
    events, report = imported(path)
    assert (events, report.unread) == ([], [f"{path}: no span that names a job"])
    assert report.notes == [f"{path}: 3 spans name no job, the first on line 1"]

    events, _ = imported(path, job="mine")
    assert {sent["job"] for sent in events} == {"mine"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"resourceSpans": [', "1: The body is not an ExportTraceServiceRequest in JSON."),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}', "1: bad_id in a span"),
        (framed(b"\x0a\x05abc"), "1: The body is not an ExportTraceServiceRequest."),
        (framed(b"\x0a\x05abc")[:-1], "1: a message that is cut, or longer than 16 MiB"),
        (b'{"' + b"x" * (17 << 20), "1: a message that is cut, or longer than 16 MiB"),
    ],
)
def test_a_message_that_cannot_be_read_is_named_and_the_next_is_read(
    tmp_path: Path, content: bytes, why: str
) -> None:
    is_json = content.startswith(b"{")
    after = b"\n" + json_body(JOB, SPANS) if is_json else b""
    (path := tmp_path / "traces.json").write_bytes(content + after)
    events, report = imported(path)

    assert report.first_skipped == [f"{path}:{why}"]
    assert bool(events) is is_json


def test_a_span_that_the_service_would_refuse_is_left_out_alone(tmp_path: Path) -> None:
    odd = numbered(*SPANS, Sent("x", 0, 1, {"ett.phase": "resting"}))
    (path := tmp_path / "traces.json").write_bytes(json_body(JOB, odd))
    events, report = imported(path)

    assert report.first_skipped == [f"{path}:1: unknown_phase in phase"]
    assert ledgers_of(events) == ledgers_of(imported_of(tmp_path))


def imported_of(folder: Path) -> Wire:
    (path := folder / "whole.json").write_bytes(json_body(JOB, SPANS))
    return imported(path)[0]


def test_a_span_that_is_alike_but_for_a_wrong_instant_is_left_out_alone(tmp_path: Path) -> None:
    block = "nv.dl.training.iter_block"
    spans = numbered(*(Sent(block, at, at + 5) for at in (0, 5, 1e9, 10)))
    bodies = [json_body(JOB, spans[:2]), json_body(JOB, spans[2:])]
    (path := tmp_path / "traces.json").write_bytes(b"\n".join(bodies))
    events, report = imported(path)

    assert len([each for each in events if each["type"] == "span"]) == 3
    assert report.skipped > 0
    assert all("timestamp_out_of_range in " in why for why in report.first_skipped)
