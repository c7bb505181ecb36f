"""``ett bench`` prints one table, goes on from a file, and says what it lacks."""

import json
from pathlib import Path

import pytest

from ett_service.cli.verb import Exit
from ett_service.trials.otava import FOLDER
from tests.cli.conftest import Ett

CELL = "cell-2.5@12"
QUICK = ("bench", "detect", "--engines", "cusum,threshold", "--cells", CELL, "--fleets", "1")


def test_it_prints_a_table_with_intervals_and_seeds_and_goes_on(ett: Ett, tmp_path: Path) -> None:
    done = ett(*QUICK, "--resume", "trials.jsonl")
    assert done.returncode == Exit.DONE, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines if line.startswith(CELL)] == [
        [CELL, f"{family}/{grain}", "2"]
        for family in ("cusum", "threshold")
        for grain in ("fleet", "cohort", "cell")
    ]
    assert "Seeds 1 to 2." in lines[-1]
    whole = (tmp_path / "trials.jsonl").read_text()
    again = ett(*QUICK, "--resume", "trials.jsonl", "--json")
    assert (tmp_path / "trials.jsonl").read_text() == whole
    told = json.loads(again.stdout)
    assert {(one["cell"], one["fleets"]) for one in told["scores"]} == {(CELL, 2)}


def test_a_frontier_has_five_thresholds(ett: Ett) -> None:
    done = ett(*QUICK, "--frontier", "--json")
    assert done.returncode == Exit.DONE, done.stderr
    names = [one["engine"] for one in json.loads(done.stdout)["scores"]]
    assert [name for name in names if name.startswith("cusum")] == sorted(
        f"cusum/cell {decision}" for decision in (4, 5, 8, 12, 20)
    )


@pytest.mark.parametrize(("flag", "value"), [("--cells", "none@60"), ("--fleets", "0")])
def test_what_it_cannot_try_is_refused(ett: Ett, flag: str, value: str) -> None:
    done = ett("bench", "detect", flag, value)
    assert done.returncode != Exit.DONE
    assert value in done.stderr or flag in done.stderr


def test_without_otava_it_says_how_to_get_it(ett: Ett, tmp_path: Path) -> None:
    done = ett(
        "bench", "detect", "--engines", "otava", "--cells", CELL, "--fleets", "1",
        "--otava", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == Exit.FAILED
    assert "pip install --no-deps --target" in done.stderr


def test_series_that_people_labelled_are_scored(ett: Ett, tmp_path: Path) -> None:
    if not FOLDER.exists():
        pytest.skip(f"Apache Otava is not in {FOLDER}")
    values = [1.0, 1.1] * 20 + [9.0, 9.1] * 20
    told = {"values": values, "annotations": {"6": [40]}}
    (tmp_path / "step.json").write_text(json.dumps(told))
    done = ett("bench", "changepoints", ".", "--json")
    assert done.returncode == Exit.DONE, done.stderr
    assert {name: one["step"] for name, one in json.loads(done.stdout).items()}["pelt"] == 1.0
