import json
import subprocess
from typing import Any

import pytest

from ett_service.cli.main import main
from tests.builders.compiles import compiling_job
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for

WINDOW = ["--from", "2026-03-11T00:00:00Z", "--to", "2026-03-12T00:00:00Z"]
TEN_DAYS_MINUTES = 10 * 1440  #: after what other tests sum up
JOB = "compiler"


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
    assert "recompiling           2m 00s in 1 recompiles" in printed
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
    assert main(["compile-advice", "--where", "team:compilers", *WINDOW]) == 0
    printed = capsys.readouterr().out.splitlines()

    assert printed[0].startswith("export TORCH_COMPILE_DYNAMIC_SOURCES=")
    assert printed[-1] == "Read: 1 of 1 jobs that compiled, those that compiled longest."


def test_cohorts_are_advised_in_a_row_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile-advice", "--by", "team", "--where", "team:compilers", *WINDOW]) == 0
    heading, row, *_ = capsys.readouterr().out.splitlines()

    assert heading.split()[:3] == ["team", "jobs", "read"]
    assert row.split()[:2] == ["compilers", "1"]
    assert row.endswith("L['tokens']")


def test_without_compiles_there_is_nothing_to_advise_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compile-advice", "--where", "team:nobody", *WINDOW]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("No compiles with stages: nothing to advise on.\n")


def test_a_window_of_one_job_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile-advice", JOB, *WINDOW]) == 1
    assert "covers all of its life" in capsys.readouterr().err


def test_the_answer_comes_as_json_too(served: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile-advice", JOB, "--json"]) == 0
    answer = served.ask("GET", f"/v1/jobs/{JOB}/compile-advice")
    assert json.loads(capsys.readouterr().out) == answer
