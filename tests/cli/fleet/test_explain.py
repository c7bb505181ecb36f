import json
import re

import pytest

from ett_service.cli.main import main
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("in_environment")


NOW = ["--from", "2026-03-01T08:00:00Z", "--to", "2026-03-01T09:00:00Z", "--where", "model:llm"]
BEFORE = ["--base-from", "2026-01-20T00:00:00Z", "--base-to", "2026-01-21T00:00:00Z"]


@pytest.fixture(autouse=True)
def _earlier(served: Server) -> None:
    """A job of January, before the story of `tests/cli`."""
    facts = {"job": "earlier", "at": "2026-01-20T08:00:00Z", "model": "llm", "gpus": 8}
    events = [
        {**facts, "type": "job"},
        {"job": "earlier", "type": "attempt_started", "at": "2026-01-20T08:00:00Z", "gpus": 8},
        {"job": "earlier", "type": "span", "phase": "train_loop", "start": "2026-01-20T08:10:00Z",
         "at": "2026-01-20T09:40:00Z"},
        {"job": "earlier", "type": "attempt_ended", "at": "2026-01-20T09:40:00Z",
         "outcome": "completed"},
    ]  # fmt: skip
    served.ask("POST", "/v1/events", {"history": True, "events": events})
    wait_for(lambda: served.knows("earlier"))


def test_a_change_is_split_into_parts_that_sum_to_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", *NOW, *BEFORE]) == 0
    printed = capsys.readouterr().out
    assert "2026-01-20 00:00:00 to 2026-01-21 00:00:00 (UTC): ETT 90.0%, 1 job\n" in printed
    # From 90 % to the 50 % that the story of `tests/cli` leaves.
    assert "Change -40.0 pt: 0.0 pt by mix, -40.0 pt within cohorts" in printed
    parts = [
        float(points) for points in re.findall(r"^llm .*? ([+-]?\d+\.\d) pt", printed, re.MULTILINE)
    ]
    assert len(parts) > 3
    assert sum(parts) == pytest.approx(-40.0, abs=0.05 * len(parts))
    assert "llm-7b" in printed


def test_by_owner_the_change_is_split_by_whose_wait_it_was(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", "--by", "owner", "--json", *NOW, *BEFORE]) == 0
    answer = json.loads(capsys.readouterr().out)

    assert (answer["split"], answer["group_by"]) == ("owner", [])
    assert {"scheduler", "training"} <= {part["part"] for part in answer["parts"]}
    assert sum(part["points"] for part in answer["parts"]) == pytest.approx(-40.0)
    assert main(["explain", "--by", "team,owner", *NOW, *BEFORE]) == 0
    assert re.search(r"^\(unknown\)|^pretraining", capsys.readouterr().out, re.MULTILINE)


def test_a_window_without_time_cannot_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    empty = ["--base-from", "2020-01-01T00:00:00Z", "--base-to", "2020-01-02T00:00:00Z"]
    assert main(["explain", *NOW, *empty]) == 0
    assert "cannot be compared" in capsys.readouterr().out


def test_parts_that_are_not_listed_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *NOW, *BEFORE, "--limit", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("llm")]) == 1
    assert re.match(r"\d+ smaller +[+-]", lines[-1])


def test_json_is_the_answer_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--by", "team", *NOW, *BEFORE, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["group_by"] == ["team"]
