import json
import subprocess
from typing import Any

import pytest

from ett_service.cli.main import main
from tests.builders.compiles import compiling_job
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for

BEGIN = "2026-02-10T08:00:00Z"
WINDOW = ["--from", "2026-02-10T00:00:00Z", "--to", "2026-02-11T00:00:00Z"]

COMPILING_DAY = ["--from", "2026-03-11T00:00:00Z", "--to", "2026-03-12T00:00:00Z"]
TEN_DAYS_MINUTES = 10 * 1440  #: after what other tests sum up
JOB = "compiler"


def at(minute: float) -> str:
    """Return an instant of the story, in minutes."""
    hours, rest = divmod(round(minute * 60), 3600)
    return f"2026-02-10T{8 + hours:02}:{rest // 60:02}:{rest % 60:02}Z"


@pytest.fixture(autouse=True)
def _server_with_saving_job(served: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send a job that saves every ten minutes for half a minute, and fails after two hours."""
    monkeypatch.setenv("ETT_URL", served.url)
    monkeypatch.setenv("ETT_API_KEY", served.key)
    facts: list[dict[str, Any]] = [
        {"type": "job", "at": BEGIN, "model": "saver", "gpus": 8},
        {"type": "attempt_started", "at": BEGIN, "gpus": 8},
        {"type": "phase_started", "phase": "train_loop", "at": BEGIN},
    ]
    for save in range(1, 13):
        stop = {"phase": "checkpoint_blocking", "start": at(10 * save - 0.5), "at": at(10 * save)}
        facts.append({"type": "span", **stop})
        facts.append({"type": "checkpoint_saved", "step": save, "at": at(10 * save)})
    facts.append({"type": "attempt_ended", "at": at(121), "outcome": "failed", "exit_code": 1})
    events = [{"job": "saver", **event} for event in facts]
    served.ask("POST", "/v1/events", {"history": True, "events": events})
    wait_for(lambda: served.knows("saver"))


def test_the_advice_has_the_interval_and_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint-advice", "saver"]) == 0
    printed = capsys.readouterr().out
    # One failure in 121 minutes, 30 s a save: sqrt(2 * 7260 * 30) s is 11 minutes.
    assert "save every             11m 00s" in printed
    assert "now                    10m 00s" in printed
    assert "1 failure, 0 of them of origin infra or preemption; 12 saves" in printed
    assert printed.startswith("saver: keep\n")
    assert "Assumed: " in printed


def test_cohorts_are_advised_in_a_row_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint-advice", "--by", "model", *WINDOW]) == 0
    lines = capsys.readouterr().out.splitlines()
    (row,) = [line for line in lines if line.startswith("saver")]
    assert row.split()[1:3] == ["1", "12"]
    assert "11m 00s" in row
    assert lines[-1].startswith("Assumed: ")


def test_missing_advice_has_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = ["--from", "2020-01-01T00:00:00Z", "--to", "2020-01-02T00:00:00Z"]
    assert main(["checkpoint-advice", *nowhere]) == 0
    assert capsys.readouterr().out.startswith("the fleet: Nothing trained.")


def test_a_job_has_no_window(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint-advice", "saver", *WINDOW]) == 1
    assert "all of its life" in capsys.readouterr().err


def test_json_is_the_answer_of_the_server(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoint-advice", "saver", "--json"]) == 0
    answer = served.ask("GET", "/v1/jobs/saver/checkpoint-advice")
    assert json.loads(capsys.readouterr().out) == answer


@pytest.fixture(autouse=True)
def _server_with_compiling_job(served: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETT_URL", served.url)
    monkeypatch.setenv("ETT_API_KEY", served.key)
    events: list[dict[str, Any]] = compiling_job(JOB, team="compilers", begin=TEN_DAYS_MINUTES)
    served.ask("POST", "/v1/events", {"history": True, "events": events})
    wait_for(lambda: served.knows(JOB))


def test_the_line_to_paste_comes_first_and_a_shell_reads_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compile-advice", JOB]) == 0
    line, *rest = capsys.readouterr().out.splitlines()

    assert line == """export TORCH_COMPILE_DYNAMIC_SOURCES="L['tokens']\""""
    command = f'{line}\necho "$TORCH_COMPILE_DYNAMIC_SOURCES"'
    shown = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert shown.stdout == "L['tokens']\n"
    printed = "\n".join(rest)
    rows = [line.split() for line in rest]
    assert ["recompiling", "2m", "00s", "in", "1", "recompiles"] in rows
    assert ["in", "attempt", "1,", "the", "last", "0.0s", "in", "0", "recompiles"] in rows
    assert "torch._dynamo.mark_dynamic(tokens, 1)" in printed
    for heading in (
        "Sources that vary:",
        "Compiles that MegaCache would have loaded:",
        "Compiles whose autotuning takes longest:",
    ):
        assert heading in rest
    assert "triton_mm_1, triton_sum_0" in printed
    assert "Recompiles that no dynamic source stops:" not in rest


def test_the_fleet_is_advised_as_one_with_how_many_jobs_were_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compile-advice", "--where", "team:compilers", *COMPILING_DAY]) == 0
    printed = capsys.readouterr().out.splitlines()

    assert printed[0].startswith("export TORCH_COMPILE_DYNAMIC_SOURCES=")
    assert printed[-1] == "Read: 1 of 1 jobs that compiled, those that compiled longest."


def test_compiles_of_cohorts_are_advised_in_a_row_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["compile-advice", "--by", "team", "--where", "team:compilers", *COMPILING_DAY]) == 0
    )
    heading, row, *_ = capsys.readouterr().out.splitlines()

    assert heading.split()[:3] == ["team", "jobs", "read"]
    assert row.split()[:2] == ["compilers", "1"]
    assert row.endswith("L['tokens']")


def test_without_compiles_there_is_nothing_to_advise_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compile-advice", "--where", "team:nobody", *COMPILING_DAY]) == 0
    sentence, empty, read = capsys.readouterr().out.splitlines()
    assert sentence.startswith("Nothing to advise on: no compile has the id and the function")
    assert empty == ""
    assert read.startswith("Read: 0 of 0 jobs")


def test_a_window_of_one_job_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile-advice", JOB, *COMPILING_DAY]) == 1
    assert "covers all of its life" in capsys.readouterr().err


def test_the_answer_comes_as_json_too(served: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile-advice", JOB, "--json"]) == 0
    answer = served.ask("GET", f"/v1/jobs/{JOB}/compile-advice")
    assert json.loads(capsys.readouterr().out) == answer
