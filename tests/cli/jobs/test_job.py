import json
import re
from typing import Any

import pytest

from ett_service.cli.main import main
from tests.builders.jobs import repeated_job
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("in_environment")


@pytest.fixture
def printed(served: Server, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what ``ett job`` prints."""
    assert main(["job", "llm-7b", "--url", served.url, "--key", served.key]) == 0
    return capsys.readouterr().out


def test_the_ledger_shows_the_length_and_share_of_each_category(printed: str) -> None:
    rows = re.findall(r"^(\w+) +(\d+m \d\ds|\d+\.\ds) +([\d.]+)%$", printed, re.MULTILINE)
    *parts, whole = rows
    assert whole == ("E2E", "9m 20s", "100.00")
    assert ("effective_training", "4m 40s", "50.00") in parts
    assert sum(float(share) for *_, share in parts) == pytest.approx(100, abs=0.05)


def test_the_head_has_the_numbers_of_the_job(printed: str) -> None:
    assert printed.startswith("llm-7b: finished\n")
    assert re.search(r"50\.00% +9m 20s +2m 00s +1 ", printed)
    assert "of infra or preemption" in printed.splitlines()[1]


def test_a_failure_is_shown_with_its_cause_and_the_evidence(printed: str) -> None:
    (row,) = re.findall(r"^ *0 +-/0/0 .*$", printed, re.MULTILINE)
    assert "failed" in row
    assert re.search(r"(infra|user|unknown): \w+ +\S+: .*(137|9)", row)


def test_a_recovery_is_shown_with_what_it_was_spent_on(printed: str) -> None:
    assert re.search(r"0 -> 1 +1m 30s +.*restart_wait 30\.0s", printed)


def test_waits_are_shown_by_owner_and_each_recovery_too(printed: str) -> None:
    waits = re.findall(r"^(starting|recovering) +(\w+) +(\d+\.\ds)$", printed, re.MULTILINE)
    assert {("recovering", "scheduler", "30.0s")} < set(waits)
    assert {part for part, *_ in waits} == {"starting", "recovering"}
    assert re.search(r"0 -> 1 +1m 30s .*scheduler 30\.0s", printed)


def test_the_gaps_that_the_numbers_rest_on_are_shown(printed: str) -> None:
    assert "quality" in printed
    assert re.search(r"inferred ends +\d", printed)
    assert re.search(r"inferred_end +0 ", printed)


def test_slow_steps_are_shown_where_steps_measure_them(
    served: Server, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    members = {"job": "slow", "attempt": 0}
    events: list[dict[str, Any]] = [
        {"type": "progress", "at": f"2026-03-02T00:{minute:02}:00Z", "step": 60 * place, **members}
        for place, minute in enumerate([0, 1, 2, 3, 4, 5, 7])
    ]
    loop = {"type": "span", "phase": "train_loop", "start": events[0]["at"], "at": events[-1]["at"]}
    end = {"type": "attempt_ended", "outcome": "completed", "at": events[-1]["at"]}
    events += [{**loop, **members}, {**end, **members}]
    served.ask("POST", "/v1/events", {"history": True, "events": events})
    wait_for(lambda: served.knows("slow"))

    assert "reference speed" not in printed
    assert main(["job", "slow"]) == 0
    row = r"6m 00s +85\.71% +1m 00s +0\.0s +1 s$"
    assert re.search(row, capsys.readouterr().out, re.MULTILINE)


def test_what_ranks_report_of_themselves_is_shown(
    served: Server, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hooks = {"data": "ok", "steps": "ok", "compile": "missing"}
    totals = {"steps": 100, "loop_seconds": 60.0, "telemetry_seconds": 0.25}
    events: list[dict[str, Any]] = [
        {"type": "span", "phase": "train_loop", "start": "2026-03-02T00:00:00Z", "rank": rank}
        | {"attributes": {**totals, "data_wait_seconds": wait, "hooks": hooks}}
        for rank, wait in enumerate([6.0, 30.0])
    ]
    end = {"type": "attempt_ended", "outcome": "completed"}
    placed = [{"job": "ranks", "at": "2026-03-02T00:01:00Z", **event} for event in (*events, end)]
    served.ask("POST", "/v1/events", {"history": True, "events": placed})
    wait_for(lambda: served.knows("ranks"))

    assert "slowest by" not in printed
    assert "waited for data" not in printed
    assert main(["job", "ranks"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^ +6\.0s +10\.00% +1$", shown, re.MULTILINE)
    assert re.search(r"^ +0 +0\.25 s +2 +0 +1 +0$", shown, re.MULTILINE)
    assert re.search(r"waits for data +1 +- +0\.3 s +0\.06 s +2 +1$", shown, re.MULTILINE)
    assert re.search(r"attempts missing hooks +1$", shown, re.MULTILINE)
    assert re.search(r"missing_hook +0 .* compile is missing", shown)


def test_what_a_job_made_of_its_training_is_shown(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    facts: list[tuple[str, str, dict[str, Any]]] = [
        ("08:00", "job", {"hardware": "A100", "precision": "bf16", "parameters": 10**9}),
        ("08:00", "attempt_started", {"gpus": 8}),
        ("08:00", "phase_started", {"phase": "train_loop"}),
        ("08:59", "progress", {"step": 1, "tokens": 36_000_000}),
        ("09:00", "phase_ended", {"phase": "train_loop"}),
        ("09:00", "attempt_ended", {"outcome": "completed"}),
    ]
    events = [
        {"job": "productive", "at": f"2026-02-01T{at}:00Z", "type": kind, **members}
        for at, kind, members in facts
    ]
    served.ask("POST", "/v1/events", {"history": True, "events": events})
    wait_for(lambda: served.knows("productive"))

    assert main(["job", "productive", "--url", served.url, "--key", served.key]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^tokens +36,000,000 +10,000 +1,250$", printed, re.MULTILINE)
    assert "MFU 2.40%; ETT% x MFU 2.40%" in printed


def test_the_runs_of_a_job_are_shown_where_there_are_several(
    served: Server, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    served.ask("POST", "/v1/events", {"history": True, "events": repeated_job("repeated")})
    wait_for(lambda: served.knows("repeated"))

    assert main(["job", "repeated", "--url", served.url, "--key", served.key]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^ *1 +\S+ \S+ +finished +80\.00% +10m 00s .* 3h 00m$", shown, re.MULTILINE)
    assert "Between runs: 3h 00m, in no E2E." in shown
    assert "idle before" not in printed
    assert "Between runs" not in printed


def test_where_start_up_went_is_shown_by_stage(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    launch: dict[str, Any] = {"phase": "launcher_init"}
    facts: list[tuple[str, str, dict[str, Any]]] = [
        ("08:00:00", "phase_started", launch),
        ("08:00:06", "span", launch | {"stage": "imports", "start": "2026-02-02T08:00:00Z"}),
        ("08:00:08", "span", launch | {"stage": "device_init", "start": "2026-02-02T08:00:06Z"}),
        ("08:00:10", "phase_ended", launch),
        ("08:00:10", "attempt_ended", {"outcome": "completed"}),
    ]
    events = [
        {"job": "staged", "at": f"2026-02-02T{at}Z", "type": kind, **members}
        for at, kind, members in facts
    ]
    served.ask("POST", "/v1/events", {"history": True, "events": events})
    wait_for(lambda: served.knows("staged"))

    assert main(["job", "staged", "--url", served.url, "--key", served.key]) == 0
    row = r"^launcher_init +(.+?)  +([\d.]+s) +(\S+%)$"
    shown = capsys.readouterr().out
    assert "Spans add up to 180.00% of E2E, the ledger to 100%." in shown
    rows = re.findall(row, shown, re.MULTILINE)
    assert rows == [
        ("imports", "6.0s", "60.00%"),
        ("device_init", "2.0s", "20.00%"),
        ("(no stage)", "2.0s", "20.00%"),
    ]


def test_json_is_the_answer_of_the_server(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["job", "llm-7b", "--url", served.url, "--key", served.key, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == served.ask("GET", "/v1/jobs/llm-7b")


def test_a_job_whose_name_needs_quoting_is_found(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "größe 7b?#%"
    event = {"job": name, "type": "attempt_started", "at": "2026-02-01T00:00:00Z"}
    served.ask("POST", "/v1/events", {"history": True, "events": [event]})
    wait_for(lambda: served.knows(name))
    assert main(["job", name, "--url", served.url, "--key", served.key]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith(f"{name}: ")
