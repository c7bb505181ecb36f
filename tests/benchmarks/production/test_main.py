"""``python -m benchmarks.production`` prints a row a claim, and fails where one is missed."""

import json

import pytest

from benchmarks.production.__main__ import PARTS, Row, main


def test_a_row_that_cannot_be_measured_says_why_and_misses_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--only", "mlflow", "--only", "citus"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-3:] for line in lines] == [
        ["environment", "with", "it"],
        ["and", "its", "nodes"],
    ]


def test_a_row_is_held_against_its_goal() -> None:
    assert Row("work", 0.22, 0.22, "").met
    assert not Row("work", 0.21, 0.22, "").met
    assert Row("trips", 4.0, 4.0, "", at_most=True).met
    missed = Row("trips", 4.1, 4.0, "beside", at_most=True)
    assert not missed.met
    assert missed.line().split() == ["trips", "4.1", "at", "most", "4", "missed", "beside"]


@pytest.mark.long
@pytest.mark.parametrize("part", sorted(PARTS.keys() - {"workers", "mlflow", "citus"}))
def test_each_part_measures_what_it_claims(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--rounds=1", "--batches=1", "--seconds=0.5", "--minutes=0.05", "--rows=10000"]
    quick += ["--jobs=20", "--upkeep-rounds=2"]
    main(["--json", "--only", part, *quick])

    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert all(row["value"] is None or row["value"] > 0 for row in rows if part != "rollups")
