import json
import re

import pytest

from ett_service.cli.main import main

pytestmark = pytest.mark.usefixtures("in_environment")


DAY = ["--from", "2026-03-01T00:00:00Z", "--to", "2026-03-02T00:00:00Z", "--where", "model:llm"]


def test_gains_are_ranked_with_a_note_that_they_do_not_add_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenarios = ["cut pt2_compile by 50%", "cut all failures by 100%"]
    assert main(["what-if", *scenarios, *DAY]) == 0
    printed = capsys.readouterr().out
    rows = re.findall(r"^(cut .*?%|all together) +([+]\d+\.\d) pt", printed, re.MULTILINE)
    assert [name for name, _ in rows] == [*reversed(scenarios), "all together"]
    # A compile of 60 s in 560: 280 / 530 instead of 280 / 560.
    assert dict(rows)[scenarios[0]] == "+2.8"
    assert "not add up" in printed
    assert printed.count("Assumed:") == 2


def test_one_scenario_needs_no_sum(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["what-if", "halve pt2_compile", *DAY]) == 0
    assert "together" not in capsys.readouterr().out


def test_an_unreadable_scenario_is_refused_with_what_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["what-if", "make it faster"]) == 1
    assert "cut CATEGORY by N%" in capsys.readouterr().err


def test_json_is_the_answer_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["what-if", "halve pt2_compile", *DAY, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["additive"] is False
