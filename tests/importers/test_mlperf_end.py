"""How a run ended."""

from pathlib import Path

import pytest

from ett_service.core.ledger.results import AttemptLedger
from tests.builders.imports import ledger
from tests.builders.mllog import RUN, START_S, line, without, written

KILLED = without("run_stop", "RUNANDTIME_STOP")
STOP = f"RUNANDTIME_STOP {START_S + 100}"
STEPD = "0: slurmstepd: error: *** STEP 9.1 ON n1 CANCELLED AT 2025-04-21T14:07:43"


def ended(folder: Path, *lines: str) -> AttemptLedger:
    (attempt,) = ledger(written(folder, *lines)).attempts
    return attempt


def judged(folder: Path, *lines: str) -> tuple[str, str | None, str | None]:
    attempt = ended(folder, *lines)
    return attempt.outcome, attempt.origin, attempt.cause


def test_a_run_that_stopped_by_itself_is_completed(tmp_path: Path) -> None:
    assert judged(tmp_path, *RUN) == ("completed", None, None)


def test_a_time_limit_after_the_run_has_stopped_harms_no_one(tmp_path: Path) -> None:
    killed = (*RUN[:-1], f"{STEPD} DUE TO TIME LIMIT ***", "srun: error: n1: task 0: Terminated")

    assert judged(tmp_path, *killed, RUN[-1]) == ("completed", None, None)


def test_a_time_limit_within_the_loop_is_the_sites(tmp_path: Path) -> None:
    attempt = ended(tmp_path, *KILLED, f"{STEPD} DUE TO TIME LIMIT ***", STOP)

    assert (attempt.outcome, attempt.origin, attempt.cause) == (
        "failed",
        "infra",
        "scheduler_timeout",
    )
    assert attempt.ended_at == (START_S + 100) * 1_000_000


def test_a_log_that_just_stops_is_lost_at_the_last_instant_heard(tmp_path: Path) -> None:
    attempt = ended(tmp_path, *KILLED)

    assert (attempt.outcome, attempt.origin, attempt.cause) == ("lost", "unknown", "lost_contact")
    assert attempt.ended_at == (START_S + 86) * 1_000_000


def test_a_missed_quality_target_is_a_failure_of_the_user(tmp_path: Path) -> None:
    attempt = ended(tmp_path, *without("run_stop"), line("run_stop", 90, status="aborted"))

    assert (attempt.outcome, attempt.reason) == ("failed", "missed its quality target")
    assert (attempt.origin, attempt.cause) == ("user", "unknown")


def test_abort_says_the_same_as_aborted(tmp_path: Path) -> None:
    for lines in (
        (line("run_stop", 90, status="abort"),),
        (line("run_stop", 90, "abort"),),
        (line("run_stop", 90), line("status", 91, "abort")),
    ):
        attempt = ended(tmp_path, *without("run_stop"), *lines)
        assert (attempt.outcome, attempt.reason) == ("failed", "missed its quality target")


def test_another_status_is_a_failure_with_that_reason(tmp_path: Path) -> None:
    attempt = ended(tmp_path, *without("run_stop"), line("run_stop", 90, status="Diverged\x07"))

    assert (attempt.outcome, attempt.reason) == ("failed", "run_stop with status diverged")


def test_a_status_beside_the_metadata_is_heard_too(tmp_path: Path) -> None:
    own_record = (line("run_stop", 90), line("status", 91, "aborted"))
    as_value = (line("run_stop", 90, "aborted"),)

    for lines in (own_record, as_value):
        attempt = ended(tmp_path, *without("run_stop"), *lines)
        assert attempt.reason == "missed its quality target"


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (f"{STEPD} DUE TO PREEMPTION ***", ("preempted", "preemption", "preemption")),
        (f"{STEPD} DUE TO NODE FAILURE ***", ("failed", "infra", "host")),
        (f"{STEPD} ***", ("cancelled", None, None)),
        ("srun: error: n1: task 3: Out Of Memory", ("failed", "user", "oom")),
        ("srun: error: n1: task 3: Segmentation fault", ("failed", "user", "user_code")),
        ("srun: error: n1: task 3: Killed", ("failed", "unknown", "unknown")),
        ("srun: error: n1: tasks 0-7: Exited with exit code 1", ("failed", "user", "user_code")),
        ("3: ValueError: expected 4 dimensions, got 3", ("failed", "user", "user_code")),
        ("3: torch.OutOfMemoryError: CUDA out of memory.", ("failed", "user", "oom")),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off", ("failed", "infra", "gpu_hardware")),
    ],
)
def test_the_last_words_of_a_log_show_what_broke(
    tmp_path: Path, line: str, verdict: tuple[str, str | None, str | None]
) -> None:
    terminated = "srun: error: n1: tasks 0-2: Terminated"

    assert judged(tmp_path, *KILLED, line, terminated, STOP) == verdict


def test_a_crash_without_a_launcher_is_a_failure_all_the_same(tmp_path: Path) -> None:
    bare = without("RUNANDTIME", "run_stop")

    assert judged(tmp_path, *bare, "RuntimeError: boom")[0] == "failed"
    assert judged(tmp_path, *bare[:4], "RuntimeError: caught", *bare[4:])[0] == "lost"


def test_a_launcher_that_saw_a_run_end_without_a_word_saw_it_fail(tmp_path: Path) -> None:
    assert judged(tmp_path, *KILLED, STOP) == ("failed", "unknown", "unknown")
