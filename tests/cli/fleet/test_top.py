import json

import pytest

from ett_service.cli.main import main

pytestmark = pytest.mark.usefixtures("in_environment")

DAY = ["--where", "model:llm", "--from", "2026-03-01", "--to", "2026-03-02"]


def _top(capsys: pytest.CaptureFixture[str], what: str) -> list[str]:
    assert main(["fleet", "--top", what, *DAY]) == 0
    return capsys.readouterr().out.splitlines()


def test_jobs_are_ranked_by_what_they_lost(capsys: pytest.CaptureFixture[str]) -> None:
    window, _, row, _ = _top(capsys, "jobs")
    assert window == "2026-03-01 00:00:00 to 2026-03-02 00:00:00 (UTC)"
    assert row.split()[:4] == ["llm-7b", "finished", "50.0%", "0.6"]


def test_causes_are_ranked_by_the_training_that_was_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    *_, row, summary = _top(capsys, "causes")
    assert row.split()[2:4] == ["1", "100.0%"]
    assert summary.startswith("1 failures")


def test_releases_are_ranked_by_what_their_attempts_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _top(capsys, "releases")[2].split()[:3] == ["(unknown)", "1", "50.0%"]


def test_the_answer_is_that_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--top", "jobs", "--json", *DAY]) == 0
    assert [job["job"] for job in json.loads(capsys.readouterr().out)["jobs"]] == ["llm-7b"]
    assert main(["fleet", "--top", "jobs", "--csv", *DAY]) == 0
    assert "llm-7b" in capsys.readouterr().out


def test_a_ranking_is_neither_grouped_nor_over_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--top", "jobs", "--by", "team"]) == 1
    assert "Leave one of them out." in capsys.readouterr().err


@pytest.mark.parametrize("what", ["jobs", "causes", "releases"])
def test_a_window_without_jobs_suggests_what_to_try(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "--top", what, "--from", "2020-01-01", "--to", "2020-01-02"]) == 0
    assert "--from begins earlier" in capsys.readouterr().out
