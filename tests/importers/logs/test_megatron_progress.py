"""``progress.txt`` as attempts."""

from pathlib import Path

from ett_service.importers.importer import Report
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.logs.megatron_progress import Progress, Start
from tests.builders.megatron import progress, written

FILE = (
    progress("08:00:00", "Starting job"),
    progress("08:20:00", "Saved checkpoint", 100),
    progress("08:30:00", "Saved checkpoint", 200),
    progress("09:00:00", "Starting job"),
    progress("09:15:00", "Saving async checkpoint", 300),
    progress("09:15:40", "Saved async checkpoint", 300),
    progress("12:00:00", "Starting job", launch="514"),
)


def attempts(path: Path, *lines: str) -> tuple[list[Start], Report]:
    report = Report()
    path = written(path / "progress.txt", *lines)
    read = Progress(path, LocalTimes(path, None, report), report)
    read.read()
    return read.attempts, report


def test_each_start_is_an_attempt_of_its_slurm_job(tmp_path: Path) -> None:
    read, report = attempts(tmp_path, *FILE)

    assert [(each.launch, each.cycle, each.gpus) for each in read] == [
        ("513", 0, 64),
        ("513", 1, 64),
        ("514", 0, 64),
    ]
    assert (report.records, report.skipped) == (7, 0)


def test_a_save_is_progress_and_an_asynchronous_one_is_durable_later(tmp_path: Path) -> None:
    read, _ = attempts(tmp_path, *FILE)
    events = [
        [(fact.event["type"], fact.event["at"][11:19]) for fact in each.facts if fact.line > 4]
        for each in read
    ]
    assert events == [[], [("progress", "09:15:00"), ("checkpoint_saved", "09:15:40")], []]
    assert read[0].facts[0].event["tokens"] == 500_000_000


def test_training_begins_where_the_pace_of_two_saves_leads_back_to(tmp_path: Path) -> None:
    first, second, _ = attempts(tmp_path, *FILE)[0]
    begins = [
        (fact.event["phase"], fact.event["at"][11:19])
        for fact in first.facts
        if fact.event["type"] == "phase_started"
    ]
    assert begins == [("launcher_init", "08:00:00"), ("train_loop", "08:10:00")]
    assert second.points  # one save has no pace
    assert all(fact.event["type"] != "phase_started" for fact in second.facts)


def test_training_never_begins_before_the_job_does(tmp_path: Path) -> None:
    lines = (FILE[0], progress("08:05:00", "Saved checkpoint", 100), FILE[2])
    (only,), _ = attempts(tmp_path, *lines)
    begins = [fact.event["at"] for fact in only.facts if fact.event["type"] == "phase_started"]
    assert [at[11:19] for at in begins] == ["08:00:00", "08:00:00"]


def test_a_damaged_line_is_named_and_a_file_without_its_head_read(tmp_path: Path) -> None:
    read, report = attempts(tmp_path, FILE[1], FILE[2][:50] + "\n", "\n", "junk\n", FILE[5])

    assert [each.is_started for each in read] == [False]
    assert [line.split(":")[1] for line in report.first_skipped] == ["2", "4"]
