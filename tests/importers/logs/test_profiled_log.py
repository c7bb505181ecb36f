"""Logs by a profile of patterns."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ett_service.importers.files import pieces_of
from ett_service.importers.importer import Report
from ett_service.importers.instants import zone
from ett_service.importers.logs.mapped_events import BadProfile
from ett_service.importers.logs.profiled_log import Profile, read
from tests.builders.imports import Wire, ledgers_of, seconds

pytest.importorskip("re2", reason="google-re2 is not installed")

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/import/python-logging.yaml"

HEAD = r"""
name: plain
path: '(?P<job>[^/]+)\.log$'
common: {job: $job}
patterns:
  - {name: loop, match: '^(?P<time>\S+) loop$', becomes: {type: phase_started, phase: train_loop}}
  - name: step
    match: '^(?P<time>\S+) step (?P<step>\d+)'
    becomes: [{type: progress, step: $step}, {type: heartbeat, host: $job}]
  - {name: any, match: 'tep 4', becomes: {type: heartbeat, at: "2026-03-01T09:00:00Z"}}
"""
CHECKS = """
check:
  - {line: 2026-03-01T08:00:00Z loop, pattern: loop, becomes: [{type: phase_started}]}
"""


def profile(folder: Path, text: str = HEAD + CHECKS) -> Profile:
    path = folder / "p.yaml"
    path.write_text(text)
    return Profile(path)


def imported(folder: Path, content: bytes, job: str | None = None) -> tuple[Wire, Report]:
    (folder / "llm.log").write_bytes(content)
    used = profile(folder)
    runs, report = read([folder / "llm.log"], job, profile=used, zone=zone("UTC"))
    return [sent for run in runs for sent in run.events], report


def test_the_first_pattern_of_a_line_makes_its_events(tmp_path: Path) -> None:
    content = b"2026-03-01T08:00:00 loop\nnothing\n2026-03-01T08:00:30 step 4\r\n\xff\x00tep 4\n"
    events, report = imported(tmp_path, content)

    assert [(sent["type"], sent["at"][11:19], sent["job"]) for sent in events] == [
        ("phase_started", "08:00:00", "llm"),
        ("progress", "08:00:30", "llm"),
        ("heartbeat", "08:00:30", "llm"),
        ("heartbeat", "09:00:00", "llm"),
    ]
    assert (report.files, report.records, report.skipped) == (1, 3, 0)
    assert {sent["job"] for sent in imported(tmp_path, content, "other")[0]} == {"other"}


def test_a_line_gives_all_of_its_events_or_none(tmp_path: Path) -> None:
    events, report = imported(tmp_path, b"2026-03-01T08:00:00 step 99999999999999999999\n")
    assert events == []
    assert report.first_skipped[0].startswith(f"{tmp_path}/llm.log:1: pattern step: ")


def test_a_name_that_is_no_text_is_no_job(tmp_path: Path) -> None:
    log = tmp_path / os.fsdecode(b"\xff.log")
    log.write_bytes(b"2026-03-01T08:00:00 loop\n")
    runs, report = read([log], profile=profile(tmp_path), zone=zone("UTC"))
    assert list(runs) == []
    assert "bytes of `job` are no text" in report.first_skipped[0]


def test_a_log_without_a_pattern_is_named(tmp_path: Path) -> None:
    _, report = imported(tmp_path, b"\x00junk" * 1000)
    assert report.unread == [f"{tmp_path}/llm.log: no line has a pattern of profile plain"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("^(?P<time>\\S+) loop", "^(?=x)", "pattern loop: invalid perl operator"),
        ("step: $step", "step: $stop", "pattern step: \\$stop is no group"),
        ("(?P<time>\\S+) loop", "loop", "pattern loop: \\$time is no group"),
        ("phase_started", "phase_begun", "is no type of events"),
        ("(?P<job>[^/]+)", "(", "path: missing"),
    ],
)
def test_a_profile_that_cannot_work_is_refused(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    assert old in HEAD
    with pytest.raises(BadProfile, match=why):
        profile(tmp_path, (HEAD + CHECKS).replace(old, new, 1))


@pytest.mark.parametrize(
    ("check", "why"),
    [
        ("{line: 2026-03-01T08:00:00Z loop}", "check 1: it has pattern loop, not None"),
        ("{line: loop, pattern: loop}", "check 1: it has pattern None, not loop"),
        ("{line: x loop, pattern: loop}", "check 1: 'x' is no time of format iso"),
        ("{line: 2026-03-01T08:00:00Z loop, pattern: loop}", "check 1: it becomes"),
    ],
)
def test_a_check_that_does_not_hold_says_why(tmp_path: Path, check: str, why: str) -> None:
    (failure,) = profile(tmp_path, f"{HEAD}\ncheck: [{check}]\n").failures()
    assert failure.startswith(why)


def test_a_pattern_that_others_would_never_finish_is_quick(tmp_path: Path) -> None:
    evil = HEAD.replace("^(?P<time>\\S+) loop", "^(?P<time>(a+)+)b$")
    used = profile(tmp_path, evil + CHECKS)
    assert used.kind_of(b"a" * 100_000 + b"!") is None


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.sampled_from(["T loop", "x", "", "tep 4", "T step 7", " ", "\r", "loop\rT"]), max_size=9
    ),
    st.sampled_from(["^(?P<time>[^x]+) loop$", r"\s*(?P<time>T)[^y]*$", r"\A(?P<time>T) loop"]),
    st.sampled_from(["", "\n", "x"]),
)
def test_lines_are_found_in_blocks_as_one_by_one(
    tmp_path: Path, lines: list[str], match: str, end: str
) -> None:
    text = (HEAD + CHECKS).replace("^(?P<time>\\S+) loop", match)
    used = profile(tmp_path, text)
    log = tmp_path / "a.log"
    log.write_bytes(("\n".join(lines) + end).encode())

    def kinds(numbered: Iterable[tuple[int, bytes]]) -> list[tuple[int, str]]:
        hits = [(number, used.kind_of(piece)) for number, piece in numbered]
        return [(number, kind[0].name) for number, kind in hits if kind is not None]

    assert kinds(used.lines_of(log)) == kinds(pieces_of(log))


def test_the_example_holds_its_own_test_and_makes_a_ledger(tmp_path: Path) -> None:
    used = Profile(EXAMPLE)
    assert list(used.failures()) == []
    log = tmp_path / "llm/attempt-0/rank0.log"
    log.parent.mkdir(parents=True)
    lines = (
        "00,000 INFO trainer: starting on 64 GPUs",
        "10,000 INFO trainer: first batch",
        "20,000 INFO trainer: step 10 loss 2 tokens 100",
        "25,000 INFO checkpoint: saved step 10 in 4.0 s",
        "40,000 INFO trainer: done",
    )
    log.write_text("".join(f"2026-03-01 08:00:{line}\n" for line in lines))
    runs, _ = read([tmp_path], profile=used, zone=zone("Europe/Paris"))
    (ledger,) = ledgers_of([sent for run in runs for sent in run.events]).values()

    assert seconds(ledger) == {
        "launcher_init": 10,
        "effective_training": 26,
        "checkpoint_blocking": 4,
    }
    assert ledger.attempts[0].outcome == "completed"
