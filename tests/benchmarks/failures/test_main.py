"""``python -m benchmarks.failures`` prints both halves, or one, for people and as JSON."""

import json

import pytest

from benchmarks.failures.__main__ import main
from benchmarks.failures.messages import Half, read_messages


def test_both_halves_are_printed_by_origin_and_by_cause(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 0

    lines = capsys.readouterr().out.splitlines()
    for half in Half:
        count = sum(message.half is half for message in read_messages())
        assert any(line.startswith(f"{half}: {count} messages, origin right") for line in lines)
    assert sum(line.startswith("origin ") for line in lines) == len(Half)
    assert sum(line.startswith("scheduler_timeout ") for line in lines) >= len(Half)


def test_the_misses_of_one_half_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--half", "fit", "--misses"]) == 0

    printed = capsys.readouterr().out
    assert "held_back" not in printed
    assert "infra dependency" in printed
    assert "cdn-29" in printed


def test_json_holds_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == 0

    halves = json.loads(capsys.readouterr().out)
    assert set(halves) == set(Half)
    for scores in halves.values():
        assert sum(word["labelled"] for word in scores["causes"]) == scores["messages"]
        assert sum(word["right"] for word in scores["origins"]) == scores["origin_right"]
