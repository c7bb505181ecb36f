"""Two sets of jobs compared from the command line, and the gate for pipelines."""

import json
from typing import Any

import pytest

from ett_service.cli.main import main
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for

SETS = ["--base", "code_version:1", "--with", "code_version:2"]


def events_of_job(version: str, index: int, compiling: int) -> list[dict[str, Any]]:
    """Return a job that compiles for so many minutes and trains for 20."""
    name = f"compared-{version}-{index}"
    hour = f"2026-01-20T{index:02}"
    facts = {"job": name, "at": f"{hour}:00:00Z", "code_version": version, "gpus": 8}
    ready = f"{hour}:{compiling:02}:0{index}Z"
    return [
        {**facts, "type": "job"},
        {**facts, "type": "attempt_started"},
        {"job": name, "type": "span", "phase": "pt2_compile", "start": facts["at"], "at": ready},
        {"job": name, "type": "span", "phase": "train_loop", "start": ready,
         "at": f"{hour}:{compiling + 20}:00Z"},
        {"job": name, "type": "attempt_ended", "at": f"{hour}:{compiling + 20}:00Z",
         "outcome": "completed"},
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def _two_versions(served: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETT_URL", served.url)
    monkeypatch.setenv("ETT_API_KEY", served.key)
    events = [
        event
        for index in range(8)
        for version, compiling in (("1", 5), ("2", 12))
        for event in events_of_job(version, index, compiling)
    ]
    served.ask("POST", "/v1/events", {"history": True, "events": events})
    wait_for(lambda: served.knows("compared-2-7"))


def test_what_got_worse_is_printed_figure_by_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regressions", "compare", *SETS]) == 0
    printed = capsys.readouterr().out
    assert "base  code_version:1: 8 attempts of 8 jobs" in printed
    (compiles,) = [line for line in printed.splitlines() if line.startswith("pt2_compile")]
    assert compiles.split()[1:8] == ["5m", "04s", "8", "12m", "04s", "8", "2.38x"]
    assert compiles.endswith("worse")
    assert "Of the change of attempt_start: pt2_compile 100.0%" in printed
    assert "The sets differ in code_version: 1 against 2 (100.0% of the attempts)" in printed


def test_a_gate_is_not_met_by_what_is_surely_worse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regressions", "compare", *SETS, "--fail-over", "1.1"]) == 3
    assert "pt2_compile is worse by 2.38x, over 1.1." in capsys.readouterr().err
    assert main(["regressions", "compare", *SETS, "--fail-over", "3"]) == 0
    back = ["--base", "code_version:2", "--with", "code_version:1"]
    assert main(["regressions", "compare", *back, "--fail-over", "1"]) == 0


def test_a_gate_on_a_figure_that_is_not_there_is_not_met(
    capsys: pytest.CaptureFixture[str],
) -> None:
    only = ["--only", "launcher_init", "--fail-over", "1.1"]
    assert main(["regressions", "compare", *SETS, *only]) == 3
    assert "Neither set has the figure launcher_init." in capsys.readouterr().err
    only = ["--only", "ett_ratio", "--fail-over", "2"]
    assert main(["regressions", "compare", *SETS, *only]) == 0


def test_a_gate_that_cannot_decide_is_not_met_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ["--with-from", "2026-01-20T07:00:00Z", "--with-to", "2026-01-20T08:00:00Z"]
    gate = ["--only", "pt2_compile", "--fail-over", "1.1"]
    assert main(["regressions", "compare", *SETS, *few, *gate]) == 6
    printed = capsys.readouterr()
    assert printed.err == "pt2_compile is undecided: 8 and 1 values are too few.\n"
    assert printed.out.endswith("Gate: undecided\n")

    assert main(["regressions", "compare", *SETS, *few, "--fail-over", "1.1"]) == 6
    capsys.readouterr()
    only = ["--only", "pt2_compile", "--only", "no_such", "--fail-over", "1.1", "--json"]
    assert main(["regressions", "compare", *SETS, *few, *only]) == 3
    assert json.loads(capsys.readouterr().out)["gate"] == "failed"


def test_a_gate_that_is_met_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regressions", "compare", *SETS, "--fail-over", "3"]) == 0
    assert capsys.readouterr().out.endswith("Gate: met\n")
    assert main(["regressions", "compare", *SETS]) == 0
    assert "Gate:" not in capsys.readouterr().out


def test_a_gate_on_a_set_without_attempts_is_not_met(capsys: pytest.CaptureFixture[str]) -> None:
    sets = ["--base", "code_version:1", "--with", "code_version:no-such"]
    assert main(["regressions", "compare", *sets]) == 0
    assert main(["regressions", "compare", *sets, "--fail-over", "1.1"]) == 3
    assert "The set with has no attempts." in capsys.readouterr().err


def test_json_is_the_answer_with_the_requested_figures(capsys: pytest.CaptureFixture[str]) -> None:
    window = ["--with-from", "2026-01-20T04:00:00Z", "--with-to", "2026-01-21T00:00:00Z"]
    assert main(["regressions", "compare", *SETS, *window, "--only", "pt2_compile", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (only,) = answer["compared"]
    assert (only["figure"], only["base"]["n"], only["with"]["n"]) == ("pt2_compile", 8, 4)


@pytest.mark.parametrize("factor", ["0.5", "much", "inf"])
def test_a_gate_is_a_factor_from_one(factor: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as usage:
        main(["regressions", "compare", "--fail-over", factor])
    assert usage.value.code == 2
    assert "is not a factor from 1" in capsys.readouterr().err
