"""Lines of a torch trace as records."""

from pathlib import Path

from ett_service.importers.importer import Report
from ett_service.importers.logs.torch_records import (
    Edge,
    Metrics,
    Rank,
    Reason,
    TraceRecord,
    records_of,
)
from tests.builders.torch_logs import BEGIN_US, edge, instant, metrics, record, written


def records(path: Path, *lines: str) -> tuple[list[TraceRecord], Report]:
    report = Report()
    return list(records_of(written(path / "a.log", *lines), report)), report


def test_what_times_a_compile_is_read_and_all_else_passed_over(tmp_path: Path) -> None:
    lines = (
        record({"str": ["a.py", 0]}),
        edge("B", "dynamo", 0.5, thread=8),
        record({"dynamo_output_graph": {}, "has_payload": "1"}, "class M:\n\n  x"),
        metrics(co_name="f", duration_us=5),
        record({"artifact": {"name": "other"}, "has_payload": "1"}, "text"),
    )
    (begin, measured), report = records(tmp_path, *lines)

    assert begin == Edge(b"8", "B", "dynamo", BEGIN_US + 0.5, "0/0", "", 2)
    assert measured == Metrics({"co_name": "f", "duration_us": 5}, "0/0", 15)
    assert (report.records, report.skipped) == (5, 0)


def test_the_rank_is_reported_once(tmp_path: Path) -> None:
    lines = [record({"str": ["a.py", n], "rank": 3}) for n in range(3)]
    assert records(tmp_path, *lines)[0] == [Rank(3, 1)]


def test_the_first_reason_of_a_recompile_is_read_from_text_and_from_lists(tmp_path: Path) -> None:
    header = {"artifact": {"name": "recompile_reasons"}, "frame_id": 2, "frame_compile_id": 1}
    lines = [
        record(header, "2/0: size mismatch"),
        record(header, '["2/0: the first", "2/0: another"]'),
        record(header, "[]"),
    ]
    read, _ = records(tmp_path, *lines)
    assert [each.text for each in read if isinstance(each, Reason)] == [
        "2/0: size mismatch",
        "2/0: the first",
        "[]",
    ]
    assert {each.compile_id for each in read if isinstance(each, Reason)} == {"2/1"}


def test_what_torch_has_seen_vary_is_named_as_its_settings_name_it(tmp_path: Path) -> None:
    lines = [
        instant("automatic_dynamic", 1, name="L['x']", dim_changed=0),
        instant("automatic_dynamic", 2, name="L['k']", dim_changed="scalar"),
        instant("automatic_dynamic", 3),
    ]
    read, _ = records(tmp_path, *lines)
    assert [each.varying for each in read if isinstance(each, Edge)] == ["L['x']:0", "L['k']", ""]


def test_damage_names_its_line_and_leaves_the_rest(tmp_path: Path) -> None:
    lines = (
        "Traceback of something else\n",
        edge("B", "dynamo", 0).replace('"ph"', "ph"),
        metrics(co_name="f")[:-9] + "\n",
        edge("B", "old", -BEGIN_US),
        edge("E", "dynamo", 9),
    )
    read, report = records(tmp_path, *lines)

    assert [each.name for each in read if isinstance(each, Edge)] == ["dynamo"]
    assert [line.split(":", 1)[1] for line in report.first_skipped] == [
        "1: no record of a torch trace",
        "2: the event in its payload is cut or damaged",
        "11: its JSON is cut or damaged",
        "12: its clock was not set: ts 0.0",
    ]


def test_an_endless_payload_is_not_kept(tmp_path: Path) -> None:
    lines = (edge("B", "a", 0), "\t" + " " * (9 << 20) + "\n", edge("E", "b", 1))
    read, report = records(tmp_path, *lines)

    assert [each.name for each in read if isinstance(each, Edge)] == ["a", "b"]
    assert report.skipped == 0
