import json
from pathlib import Path

import pytest

from ett_service.cli.main import main

pytestmark = pytest.mark.usefixtures("in_environment")


WEEK = ["report", "--week", "2026-W09", "--where", "model:llm"]


def test_a_week_is_written_up_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(WEEK) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(
        "# Fleet report, week 2026-W09\n\n23 February to 1 March 2026, UTC.\n"
    )
    assert "**ETT 50.0%" in printed
    assert "| effective_training | 50.0% |" in printed


def test_the_suffix_of_a_file_chooses_its_format(capsys: pytest.CaptureFixture[str]) -> None:
    for name, begin in (("week.html", "<!doctype html>"), ("week.md", "# Fleet report")):
        assert main([*WEEK, "-o", name]) == 0
        assert Path(name).read_text("utf-8").startswith(begin)
    output = capsys.readouterr()
    assert output.out == ""
    assert "week.html: ETT 50.0%" in output.err


def test_a_gate_that_is_not_met_is_exit_3_behind_the_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*WEEK, "--fail-under", "0.9"]) == 3
    output = capsys.readouterr()
    assert "# Fleet report" in output.out
    assert "ETT 50.0% of 2026-W09 is under 90.0%" in output.err
    assert main([*WEEK, "--fail-under", "0.5"]) == 0


def test_a_week_without_jobs_meets_no_gate(capsys: pytest.CaptureFixture[str]) -> None:
    empty = ["report", "--week", "2020-W01"]
    assert main(empty) == 0
    assert "No job ran in week 2020-W01." in capsys.readouterr().out
    assert main([*empty, "--fail-under", "0"]) == 3


def test_without_a_week_it_is_the_last_that_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["week"].startswith("20")
    assert report["sentence"]


@pytest.mark.parametrize(
    "wrong", [["--week", "47"], ["--week", "2026-W60"], ["--fail-under", "90"]]
)
def test_what_is_no_week_and_no_ratio_is_a_mistake_of_usage(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", *wrong])
    assert ended.value.code == 2
    assert wrong[0] in capsys.readouterr().err
