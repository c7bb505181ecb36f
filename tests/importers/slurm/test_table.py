"""What ``sacct -P`` and ``-p`` print."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from ett_service.importers.importer import Report
from ett_service.importers.slurm.clock import utc
from ett_service.importers.slurm.record import Record
from ett_service.importers.slurm.table import Header, Table
from tests.builders.sacct import COLUMNS, record, row, row_of, table

HERE = Path("sacct.txt")


def read(text: str) -> tuple[list[Record], Report]:
    report = Report()
    return list(Table(HERE, utc(), report).records(lines(text))), report


def lines(text: str) -> Iterable[tuple[int, bytes]]:
    return [(number, each.encode()) for number, each in enumerate(text.splitlines(True), 1)]


@pytest.mark.parametrize("delimiter", ["|", "|#", ",", "\t", "\x1f", "^"])
def test_any_delimiter_is_found_in_the_header(delimiter: str) -> None:
    wanted = record(AllocTRES="gres/gpu=8")
    text = table(row_of(COLUMNS, delimiter, AllocTRES="gres/gpu=8"), delimiter=delimiter)
    assert read(text)[0] == [wanted]


def test_a_delimiter_may_end_each_line() -> None:
    text = "".join(f"{line}|\n" for line in table(row()).splitlines())
    assert read(text)[0] == [record()]


def test_steps_are_counted_and_are_no_jobs() -> None:
    steps = [row(JobID=f"8041.{step}", JobName=step) for step in ("batch", "extern", "0")]
    records, report = read(table(row(), *steps))
    assert (records, report.records, report.skipped) == ([record()], 4, 0)


def test_columns_that_are_not_printed_are_empty() -> None:
    text = "JobID|State|Start|End\n7|FAILED|2026-03-01T12:00:00|2026-03-01T13:00:00\n"
    (life,), _ = read(text)
    assert (life.launch, life.name, life.submit, life.state) == ("7", "", None, "FAILED")
    assert (life.end or 0) - (life.start or 0) == 3600


def test_a_header_may_come_again_with_other_columns() -> None:
    text = table(row()) + "JobID|State|Start|End\n7|RUNNING|2026-03-01T12:00:00|Unknown\n"
    records, report = read(text)
    assert [life.launch for life in records] == ["8041", "7"]
    assert report.skipped == 0


def test_a_header_without_a_needed_column_is_named() -> None:
    _, report = read("JobID|State|Start\n7|RUNNING|2026-03-01T12:00:00\n")
    assert report.first_skipped[0] == "sacct.txt:1: there is no column End"
    assert Header.of("a line about JobID") is None


def test_a_comment_with_line_feeds_is_one_row() -> None:
    columns = [*COLUMNS, "SubmitLine", "WorkDir"]
    broken = row_of(columns, "|", SubmitLine="sbatch a\n \n\nb")
    text = table(row_of(columns, "|"), broken, row_of(columns, "|"), columns=columns)
    records, report = read(text)
    assert ([life.line for life in records], report.skipped) == ([2, 3, 7], 0)


def test_a_step_with_line_feeds_is_one_row() -> None:
    columns = [*COLUMNS, "SubmitLine", "WorkDir"]
    step = row_of(columns, "|", JobID="8041.0", SubmitLine="srun a\nb")
    records, report = read(table(step, row_of(columns, "|"), columns=columns))
    assert ([life.line for life in records], report.records, report.skipped) == ([4], 2, 0)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("llm|8041", "2 fields, not the 19 of the header"),
        (row() + "|more", "20 fields, not the 19 of the header"),
        (row(JobID="x1"), "'x1' is no id of a job"),
        (row(Start="soon"), "no times: '2026-03-01T11:50:00 2026-03-01T11:55:00 soon"),
        ("\x00\xff" * 30, "1 fields, not the 19 of the header"),
    ],
)
def test_what_cannot_be_read_is_skipped_and_named(bad: str, why: str) -> None:
    records, report = read(table(row(), bad, row(JobID="9")))
    assert [life.launch for life in records] == ["8041", "9"]
    assert report.skipped == 1
    assert report.first_skipped[0].startswith(f"sacct.txt:3: {why}")


def test_a_row_that_breaks_off_at_the_end_is_skipped() -> None:
    records, report = read(table(row()) + row(JobID="9")[:40])
    assert (len(records), report.skipped) == (1, 1)


def test_lines_before_a_header_are_skipped() -> None:
    _, report = read(row() + "\n" + table(row()))
    assert report.first_skipped == ["sacct.txt:1: is before the header of sacct -P"]


@pytest.mark.parametrize(
    ("job_id", "raw_id", "launch", "task"),
    [
        ("8041", "8041", "8041", ""),
        ("8041_7", "8050", "8050", "7"),
        ("8041_7", "", "8041_7", "7"),
        ("8041+1", "8042", "8041", ""),
    ],
)
def test_the_launch_is_the_id_that_the_job_sees(
    job_id: str, raw_id: str, launch: str, task: str
) -> None:
    (life,), _ = read(table(row(JobID=job_id, JobIDRaw=raw_id)))
    assert (life.launch, life.task) == (launch, task)
    (waiting,), _ = read(table(row(JobID="8041_[8-9%1]", State="PENDING")))
    assert waiting.is_unsplit
