"""What is kept of a run while its log is read."""

from pathlib import Path
from typing import Any

from ett_service.importers.logged_run import Count, Log, LogLine, Moment, Stop, count_of

LOG = Path("run.log")


def record(key: str, at_us: int | None, line: int, value: Any = None, **metadata: Any) -> LogLine:
    return LogLine(at_us, key, value, metadata, line)


def test_of_several_stops_the_latest_counts_and_of_edges_first_and_last() -> None:
    log = Log(LOG)
    for place, at_us in enumerate((30, 10, 20)):
        log.take(record("run_stop", at_us, place, status=f"status {place}"))

    assert log.stop == Stop(30, "status 0", None)
    assert log.begins["run_stop"] == Moment(10, 1)
    assert log.stopped_us == 30
    assert log.records == 3


def test_progress_is_in_order_of_time_whoever_wrote_first() -> None:
    log = Log(LOG)
    log.take(record("tracked_stats", 20, 1, samples_count=64.0))
    log.take(record("tracked_stats", 10, 2, step_num=1))

    assert log.progress() == [Count(10, -1, 1, 2), Count(20, 64, -1, 1)]


def test_a_long_run_keeps_a_bounded_number_of_counts() -> None:
    log = Log(LOG)
    for number in range(135_000):
        log.take(record("tracked_stats", number, number, samples_count=number))

    assert len(log.progress()) < 1 << 17
    assert log.progress()[-1].samples > 134_000
    assert log.records == 135_000


def test_remarks_add_to_the_run_before_and_replace_nothing() -> None:
    run, remarks = Log(LOG), Log(LOG)
    run.take(record("seed", 10, 1, 17))
    run.take(record("run_stop", 20, 2, status="success"))
    remarks.take(record("seed", 30, 3, 18))
    remarks.take(record("status", 40, 4, "aborted"))

    run.join(remarks)

    assert run.values == {"seed": 17, "status": "aborted"}
    assert run.ends[""] == Moment(40, 4)
    assert run.stop == Stop(20, "success", None)
    assert run.records == 4


def test_a_count_is_a_whole_number_that_is_not_negative() -> None:
    sent: tuple[object, ...] = (7, 1152.0, True, -1, 0.5, float("nan"), float("inf"), 1 << 60, "7")
    assert [count_of(each) for each in sent] == [7, 1152] + [None] * 7
