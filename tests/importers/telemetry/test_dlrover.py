"""DLRover's training events."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome
from ett_service.importers.importer import Report
from ett_service.importers.telemetry.dlrover import read
from tests.builders.imports import Wire, ledgers_of, seconds

START = datetime(2026, 5, 5, 10, tzinfo=UTC)


def line(
    name: str, kind: str, second: float, pid: int = 7, target: str = "T", **content: Any
) -> str:
    at = (START + timedelta(seconds=second)).replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"[{at}] [{pid}] [ab12] [{target}] [{name}] [{kind}] {json.dumps(content)}"


def both(name: str, begin: float, end: float, pid: int = 7, **content: Any) -> list[str]:
    return [line(name, "BEGIN", begin, pid), line(name, "END", end, pid, **content)]


def life(begin: float, first: int, pid: int = 7) -> list[str]:
    """30 s of starting and ten steps of 10 s, a save after the fifth."""
    loop = begin + 30
    steps = [
        both("#step", loop + 10 * n, loop + 10 * n + 10, pid, global_step=first + n)
        for n in range(5)
    ]
    after = [
        both("#step", loop + 60 + 10 * n, loop + 70 + 10 * n, pid, global_step=first + 5 + n)
        for n in range(5)
    ]
    return [
        line("#start", "INSTANT", begin, pid),
        *both("#init", begin, begin + 25, pid),
        line("#train", "BEGIN", begin + 25, pid),
        *(each for step in steps for each in step),
        *both("#save", loop + 50, loop + 60, pid, global_step=first + 4),
        *(each for step in after for each in step),
    ]


def written(folder: Path, *lines: str, name: str = "events_0.log") -> Path:
    (folder / "llm").mkdir(exist_ok=True)
    path = folder / "llm" / name
    path.write_text("\n".join(lines) + "\n")
    return path


def imported(*paths: Path, **options: Any) -> tuple[Wire, Report]:
    runs, report = read(paths, zone=options.get("zone", UTC))
    return [sent for run in runs for sent in run.events], report


def ledger(*paths: Path) -> JobLedger:
    ((name, job),) = ledgers_of(imported(*paths)[0]).items()
    assert name == "llm"
    return job


def test_a_life_is_starting_a_loop_of_steps_and_saves(tmp_path: Path) -> None:
    end = [line("#train", "END", 140), line("#finish", "INSTANT", 145)]
    job = ledger(written(tmp_path, *life(0, 1), *end))

    assert seconds(job) == {
        Category.LAUNCHER_INIT: 30,
        Category.EFFECTIVE_TRAINING: 100,
        Category.CHECKPOINT_BLOCKING: 10,
        Category.UNATTRIBUTED: 5,
    }
    assert job.attempts[0].outcome is Outcome.COMPLETED
    assert [checkpoint.step for checkpoint in job.checkpoints] == [5]


def test_a_new_process_is_a_new_life_also_under_its_old_number(tmp_path: Path) -> None:
    for pid in (7, 8):
        job = ledger(written(tmp_path, *life(0, 1), *life(200, 6, pid)))

        assert [attempt.cycle for attempt in job.attempts] == [0, 1]
        assert seconds(job)[Category.RESTART_WAIT] == 60
        assert seconds(job)[Category.REPEATED_TRAINING] == 50


def test_ranks_of_a_folder_are_one_attempt(tmp_path: Path) -> None:
    written(tmp_path, *life(0, 1))
    written(tmp_path, *life(0.5, 1), name="events_1.log")
    job = ledger(tmp_path)

    assert len(job.attempts) == 1
    assert job.attempts[0].lead_rank == 0


def test_what_is_persisted_in_the_background_is_durable_then_and_not_before(tmp_path: Path) -> None:
    persisted = both("#persist_ckpt", 90, 120, global_step=5)
    job = ledger(written(tmp_path, *life(0, 1), *persisted))

    assert [c.saved_at // 1_000_000 - int(START.timestamp()) for c in job.checkpoints] == [120]


def test_an_agent_reports_how_a_process_ended(tmp_path: Path) -> None:
    failed = line(
        "#process_fail", "INSTANT", 150, 3, "dlrover-agent", error_msg="CUDA error: Xid 79"
    )
    job = ledger(written(tmp_path, *life(0, 1), failed))

    assert (job.attempts[0].outcome, job.attempts[0].origin) == (Outcome.FAILED, "infra")


def test_json_lines_are_the_same_events(tmp_path: Path) -> None:
    lines = life(0, 1)
    plain, _ = imported(written(tmp_path, *lines))
    records = []
    for each in lines:
        at, pid, name, target, word, kind, content = (
            part.strip(" [") for part in each.split("]", 5)[:5] + each.rsplit("] ", 1)[-1:] * 2
        )
        kind = each.rsplit("] ", 1)[0].rsplit("[", 1)[1]
        members = {"event_time": at, "pid": int(pid), "event_id": name, "target": target}
        records.append(
            json.dumps(
                {**members, "name": word, "event_type": kind, "content": json.loads(content)}
            )
        )

    assert imported(written(tmp_path, *records))[0] == plain


def test_local_times_are_of_the_zone_that_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, *life(0, 1))
    events, report = imported(path, zone=ZoneInfo("Asia/Shanghai"))
    assert (events[0]["at"], report.notes) == ("2026-05-05T02:00:00.000000Z", [])

    _, report = imported(path, zone=None)
    assert "has no zone and is taken as UTC" in report.notes[0]


def test_damage_is_named_by_its_line_and_what_is_not_used_by_its_name(tmp_path: Path) -> None:
    bad = [line("#step", "END", 200)[:50], "noise", line("#step", "END", 1).replace("2026", "abcd")]
    path = written(tmp_path, *life(0, 1), line("#log", "INSTANT", 5), *bad)
    _, report = imported(path)

    assert [each.removeprefix(f"{path}:") for each in report.first_skipped] == [
        "28: no event",
        "29: no event",
        "30: no instant",
    ]
    assert report.notes == [f"{path}: not used: #log (1)"]
