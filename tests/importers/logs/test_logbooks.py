"""Logbooks that people kept of two real runs, imported and folded, against what they say of them.

What is read in their prose becomes rows of a logbook; what a watchdog printed into it is read as a
log. The figures that these rows have to give were computed apart from them.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ett_service.core.intervals import SECOND_US
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category
from ett_service.importers.instants import zone
from ett_service.importers.logs import profiled_log, table
from tests.builders.imports import ledgers_of

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/import/training-logbook.yaml"
CORPUS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus"))
HOUR_US = 3600 * SECOND_US
DAY_US = 24 * HOUR_US
PARIS, PACIFIC = ZoneInfo("Europe/Paris"), ZoneInfo("America/Los_Angeles")

Row = tuple[datetime, str, Mapping[str, object]]
"""When, the entry, and its other columns."""


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    path = CORPUS / "numbers" / "reference.json"
    if not path.exists():
        pytest.skip(f"the published figures are not there: {path} (set ETT_CORPUS)")
    numbers: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return numbers


def prose(name: str) -> str:
    path = CORPUS / name
    if not path.exists():
        pytest.skip(f"the logbooks are not there: {path} (set ETT_CORPUS)")
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def bloom() -> str:
    return prose("logbooks_bloom/tr11-176B-ml_chronicles.md")


def found(pattern: str, text: str) -> Sequence[str]:
    match = re.search(pattern, text, re.DOTALL)
    assert match is not None, pattern
    return match.groups()


def numbers(pattern: str, text: str) -> Sequence[float]:
    return [float(each) for each in found(pattern, text)]


def kept(folder: Path, rows: Sequence[Row], **common: object) -> JobLedger:
    """Write rows as a logbook, import it by the example and fold it."""
    path = folder / "logbook.csv"
    columns = ("run", "step", "seconds", "gpus", "note")
    lines = ["when,entry," + ",".join(columns)]
    lines += [
        ",".join([at.isoformat(), entry, *(str({**common, **told}.get(c, "")) for c in columns)])
        for at, entry, told in rows
    ]
    path.write_text("\n".join(lines) + "\n")
    runs, report = table.read_csv([path], "llm", mapping=table.Mapping(EXAMPLE))
    events = [sent for run in runs for sent in run.events]
    assert (report.skipped, report.records) == (0, len(rows))
    (ledger,) = ledgers_of(events).values()
    return ledger


def spent_us(ledger: JobLedger, *categories: Category) -> int:
    return sum(share.us for share in ledger.shares if share.category in categories)


def test_the_example_holds_its_own_test() -> None:
    assert list(table.Mapping(EXAMPLE).failures()) == []


def test_a_crash_of_bloom_lost_what_its_logbook_says(
    tmp_path: Path, bloom: str, published: dict[str, Any]
) -> None:
    figure = published["bloom"]
    (crashed_at,) = found(r"GPUs crashed at (\S+) JZ time", bloom)
    quoted_h, short_by = numbers(r"we lost ([\d.]+)h of work, it failed (\d+) iterations", bloom)
    (step_s,) = numbers(r"single train iteration is about (\d+) secs", bloom)
    crash = datetime.strptime(crashed_at, "%Y-%m-%d_%H:%M:%S").replace(tzinfo=PARIS)
    lost = 250 - round(short_by)
    step = timedelta(seconds=step_s)
    again = crash + timedelta(minutes=30)
    ledger = kept(
        tmp_path,
        [
            (crash - (500 + lost) * step, "launched", {"run": 1}),
            (crash - (500 + lost) * step, "training", {"run": 1}),
            *(
                (crash - (lost + 250 * back) * step, "saved", {"run": 1, "step": 500 - 250 * back})
                for back in (1, 0)
            ),
            (crash - step, "step", {"run": 1, "step": 500 + lost - 1}),
            (crash, "crashed", {"run": 1, "note": "CUDA error: unknown error"}),
            (again, "launched", {"run": 2}),
            (again, "resumed", {"run": 2, "step": 500}),
            *(
                (again + steps * step, "step", {"run": 2, "step": 500 + steps})
                for steps in (100, lost - 1, 400)
            ),
            (again + 400 * step, "finished", {"run": 2}),
        ],
        seconds=0,
        gpus=384,
    )

    assert ledger.unsaved_us / HOUR_US == pytest.approx(figure["lost_250_h"], abs=5e-4)
    assert ledger.unsaved_us / HOUR_US == pytest.approx(quoted_h, abs=0.1)
    assert quoted_h == figure["lost_quoted_h"] == figure["lost_events_h"][f"{crash:%Y-%m-%d}"]
    failed, _ = ledger.attempts
    assert (failed.outcome, failed.ended_at) == ("failed", round(crash.timestamp()) * SECOND_US)
    repeated = spent_us(ledger, Category.REPEATED_TRAINING)
    assert repeated == (lost - 1) * round(step_s) * SECOND_US


@pytest.mark.parametrize("every", ["100", "200", "250"])
def test_saves_and_evaluations_cost_bloom_what_its_logbook_says(
    tmp_path: Path, bloom: str, published: dict[str, Any], every: str
) -> None:
    figure = published["bloom"]
    (step_s,) = numbers(r"single train iteration is about (\d+) secs", bloom)
    (save_s,) = numbers(r"checkpoint is saved in (\d+) secs", bloom)
    minutes, thousands, quoted = numbers(
        r"single eval iteration is about (\d+) min.*?every (\d)k iteration.*?or ([\d.]+)%", bloom
    )
    begin = at = datetime(2022, 3, 11, 11, 42, tzinfo=PACIFIC)
    rows: list[Row] = [(begin, "launched", {"run": 1}), (begin, "training", {"run": 1})]
    for step in range(int(every), round(1000 * thousands) + 1, int(every)):
        at += timedelta(seconds=int(every) * step_s + save_s)
        rows.append((at, "saved", {"run": 1, "step": step, "seconds": save_s}))
    at += timedelta(minutes=minutes)
    rows += [(at, "evaluated", {"run": 1, "seconds": 60 * minutes}), (at, "finished", {"run": 1})]
    ledger = kept(tmp_path, rows, gpus=384)

    trained = spent_us(ledger, Category.EFFECTIVE_TRAINING)
    blocking = spent_us(ledger, Category.CHECKPOINT_BLOCKING)
    evaluated = spent_us(ledger, Category.EVALUATION)
    assert trained == round(1000 * thousands * step_s) * SECOND_US
    assert 100 * blocking / trained == pytest.approx(figure["blocking_pct"][every], abs=5e-4)
    share = 100 * evaluated / (trained + evaluated)
    assert share == pytest.approx(figure["eval_pct"], abs=5e-4)
    assert round(share, 1) == quoted == figure["eval_pct_quoted"]
    assert evaluated / step_s / SECOND_US == pytest.approx(figure["eval_in_iters"], abs=5e-4)


def test_the_hours_that_bloom_lost_are_those_of_its_interruptions(
    tmp_path: Path, bloom: str, published: dict[str, Any]
) -> None:
    sections = [section.partition("\n") for section in bloom.split("\n### ")]
    told = {
        head[:10]: float(lost[1])
        for head, _, text in sections
        if (lost := re.search(r"(?i)lost (?:about |~)?(\d+)h", text)) is not None
    }
    expected = {
        day: hours
        for day, hours in published["bloom"]["lost_events_h"].items()
        if day != "2022-03-21"
    }
    assert told == expected

    rows: list[Row] = []
    for number, (day, hours) in enumerate(told.items(), 1):
        run = {"run": number}
        begin = datetime.fromisoformat(day).replace(tzinfo=PARIS)
        saved, end = begin + timedelta(hours=3), begin + timedelta(hours=3 + hours)
        rows += [(begin, "launched", run), (begin, "training", run)]
        rows += [(saved, "saved", {**run, "step": 1000 * number, "seconds": 0})]
        rows += [(end, "crashed", run)]
    ledger = kept(tmp_path, rows, gpus=384)

    assert [each.unsaved_us / HOUR_US for each in ledger.attempts] == list(expected.values())
    assert ledger.unsaved_us / HOUR_US == sum(expected.values())


WATCHDOG = r"""
name: watchdog
time: {zone: Europe/Paris}
common: {job: $job, launch: $launch}
patterns:
  - name: running
    match: '^\[(?P<time>[^\]]+)\] PULSE: (?P<job>\S+) .* since (?P<since>\S+) \((?P<launch>\d+)'
    becomes:
      - {type: attempt_started, at: $since}
      - {type: heartbeat}
  - name: waiting
    match: '^\[(?P<time>[^\]]+)\] PULSE: (?P<job>\S+) is waiting to be scheduled \((?P<launch>\d+)_'
    becomes: {type: phase_started, phase: queued}
check:
  - line: "a line of prose"
    pattern: null
"""


def test_what_a_watchdog_printed_into_a_logbook_is_read_as_a_log(
    tmp_path: Path, bloom: str
) -> None:
    pytest.importorskip("re2", reason="RE2, of the extra `logs`, is not installed")
    (tmp_path / "watchdog.yaml").write_text(WATCHDOG)
    profile = profiled_log.Profile(tmp_path / "watchdog.yaml")
    path = CORPUS / "logbooks_bloom" / "tr11-176B-ml_chronicles.md"
    runs, report = profiled_log.read([path], profile=profile, zone=zone("Europe/Paris"))
    (ledger,) = ledgers_of([sent for run in runs for sent in run.events]).values()

    days, hours, minutes, seconds = numbers(r".*is running for (\d+)-(\d+):(\d+):(\d+)", bloom)
    ran = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    assert (report.records, report.skipped) == (6, 0)
    (attempt,) = ledger.attempts
    assert (attempt.launch, attempt.outcome) == ("1528763", "lost")
    assert attempt.ended_at - attempt.started_at == round(ran.total_seconds()) * SECOND_US
    assert ledger.state == "queued"


def test_opts_wall_time_and_ratio_are_those_of_its_logbook(
    tmp_path: Path, published: dict[str, Any]
) -> None:
    figure = published["opt175"]
    done = prose("logbooks_opt/final_update.md")
    ten = prose("logbooks_opt/10_percent_update.md")
    hour, minute, day = numbers(r"at (\d+):(\d+)pm PST on January (\d+)", done)
    continuous_days, gpus = numbers(r"~(\d+) days of continuous training on (\d+) 80GB", done)
    (restarts,) = numbers(r"notes cover ~(\d+) restarts", done)
    (begun,) = found(r"Experiment 12\.xx Lineage - (\w+ \d+, \d+)", ten)
    begin = datetime.strptime(begun, "%B %d, %Y").replace(tzinfo=PACIFIC)
    end = datetime(2022, 1, round(day), round(hour), round(minute), tzinfo=PACIFIC)

    lives = round(restarts) + 1
    # The last life ends with the run; each other is followed by a wait of the same length.
    trained = timedelta(days=continuous_days) / lives
    pace = (end - begin - trained) / (lives - 1)
    rows: list[Row] = []
    for life in range(lives):
        at, run = begin + life * pace, {"run": f"12.{life:02}"}
        rows += [(at, "launched", run), (at, "training", run)]
        # Each save is the last thing before the life ends: nothing is done twice.
        until = at + trained if life < lives - 1 else end
        rows += [(until, "saved", {**run, "step": 1000 * (life + 1), "seconds": 0})]
        rows += [(until, "crashed" if life < lives - 1 else "finished", run)]
    ledger = kept(tmp_path, rows, gpus=round(gpus))

    assert ledger.e2e_us / DAY_US == pytest.approx(figure["wall_days"], abs=5e-3)
    assert (len(ledger.attempts), ledger.failures) == (lives, round(restarts))
    low, high = figure["implied_ettr_range"]
    ratio = spent_us(ledger, Category.EFFECTIVE_TRAINING) / ledger.e2e_us
    assert low <= ratio <= high
    assert round(gpus) == figure["gpus"]
    assert continuous_days == figure["continuous_days_claimed"]
    assert {attempt.gpus for attempt in ledger.attempts} == {round(gpus)}
