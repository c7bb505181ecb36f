"""Lines of a torch trace as records."""

from pathlib import Path

import pytest

from ett_service.importers.importer import Report
from ett_service.importers.logs.torch_records import (
    Edge,
    Metrics,
    Mispairing,
    Rank,
    Reason,
    TraceRecord,
    Windows,
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
        edge("B", "of no thread", 1).replace(" 7 torch/x.py:9]", "]"),
        edge("E", "dynamo", 9),
    )
    read, report = records(tmp_path, *lines)

    assert [each.name for each in read if isinstance(each, Edge)] == ["dynamo"]
    assert [line.split(":", 1)[1] for line in report.first_skipped] == [
        "1: no record of a torch trace",
        "2: the event in its payload is cut or damaged",
        "11: its JSON is cut or damaged",
        "12: its clock was not set: ts 0.0",
        "21: no record of a torch trace",
    ]


def test_an_endless_payload_is_not_kept(tmp_path: Path) -> None:
    lines = (edge("B", "a", 0), "\t" + " " * (9 << 20) + "\n", edge("E", "b", 1))
    read, report = records(tmp_path, *lines)

    assert [each.name for each in read if isinstance(each, Edge)] == ["a", "b"]
    assert report.skipped == 0


def paired(*edges: str) -> Windows:
    """Edges such as ``B a 10`` or ``E a 20 t2``, each on a line of its own."""
    windows = Windows()
    for line, text in enumerate(edges, 1):
        kind, name, at, *thread = text.split()
        windows.add(Edge(" ".join(thread).encode(), kind, name, float(at), "0/0", "", line))
    return windows


def spent(windows: Windows) -> list[dict[str, tuple[float, float]]]:
    return [
        {name: (each.inclusive_us, each.exclusive_us) for name, each in window.phases.items()}
        for window in windows.closed
    ]


NESTED = ("B a 0", "B b 10", "B c 12", "E c 15", "E b 20", "B b 30", "E b 31", "E a 40")


def test_exclusive_time_is_what_nothing_inside_had() -> None:
    assert spent(paired(*NESTED)) == [{"a": (40, 29), "b": (11, 8), "c": (3, 3)}]


def test_threads_are_paired_each_for_itself() -> None:
    windows = paired("B a 0 t1", "B a 5 t2", "B b 6 t1", "E a 20 t2", "E b 21 t1", "E a 30 t1")
    assert spent(windows) == [{"a": (15, 15)}, {"a": (30, 15), "b": (15, 15)}]
    assert windows.flaws == []


def test_what_is_written_twice_counts_once() -> None:
    doubled = [text for text in NESTED for _ in range(2)]
    assert spent(paired(*doubled)) == spent(paired(*NESTED, *NESTED)) == spent(paired(*NESTED))


def test_events_of_a_window_may_be_out_of_order() -> None:
    mixed = (NESTED[0], *NESTED[6:0:-1], NESTED[7])
    windows = paired(*mixed)
    assert (spent(windows), windows.flaws) == (spent(paired(*NESTED)), [])


@pytest.mark.parametrize(
    ("lost", "flaw"),
    [
        (0, Mispairing(7, "a", is_end=True)),
        (1, Mispairing(4, "b", is_end=True)),
        (3, Mispairing(3, "c", is_end=False)),
        (4, Mispairing(2, "b", is_end=False)),
    ],
)
def test_a_lost_event_is_named_and_the_rest_paired(lost: int, flaw: Mispairing) -> None:
    windows = paired(*NESTED[:lost], *NESTED[lost + 1 :])
    assert flaw in windows.flaws
    if lost:
        assert spent(windows)[0]["a"][0] == 40


def test_a_window_without_its_end_is_unfinished() -> None:
    windows = paired(*NESTED, "B a 50", "B b 51", "E b 58")
    assert [(begin.at_us, last.at_us) for begin, last in windows.unfinished()] == [(50, 58)]
    assert len(windows.closed) == 1
