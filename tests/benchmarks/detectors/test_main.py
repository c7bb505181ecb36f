"""``python -m benchmarks.detectors`` prints one table, goes on from a file, says what it lacks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

from benchmarks.detectors.__main__ import main
from benchmarks.detectors.otava import FOLDER
from ett_service.cli.verb import Exit
from tests.builders.servers.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
CELL = "cell-2.5@12"
QUICK = ("detect", "--engines", "cusum,threshold", "--cells", CELL, "--fleets", "1")


class Bench(Protocol):
    """Runs the program with these arguments."""

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Bench:
    """Return a function that runs the program in this process."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as refusal:
            code = refusal.code if isinstance(refusal.code, int) else Exit.FAILED
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


def checkout(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program from the root of the checkout, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.detectors", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


@pytest.mark.slow
def test_it_prints_a_table_with_intervals_and_seeds_and_goes_on(
    bench: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "trials.jsonl"
    done = checkout(*QUICK, "--resume", str(file))
    assert done.returncode == Exit.DONE, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines if line.startswith(CELL)] == [
        [CELL, f"{family}/{grain}", "2"]
        for family in ("cusum", "threshold")
        for grain in ("fleet", "cohort", "cell")
    ]
    assert "Seeds 1 to 2." in lines[-1]
    content = file.read_text()
    again = bench(*QUICK, "--resume", str(file), "--json")
    assert file.read_text() == content
    scores = json.loads(again.stdout)["scores"]
    assert {(score["cell"], score["fleets"]) for score in scores} == {(CELL, 2)}


@pytest.mark.slow
def test_a_frontier_has_five_thresholds(bench: Bench) -> None:
    done = bench(*QUICK, "--frontier", "--json")
    assert done.returncode == Exit.DONE, done.stderr
    names = [score["engine"] for score in json.loads(done.stdout)["scores"]]
    assert [name for name in names if name.startswith("cusum")] == sorted(
        f"cusum/cell {decision}" for decision in (4, 5, 8, 12, 20)
    )


@pytest.mark.parametrize(("flag", "value"), [("--cells", "none@60"), ("--fleets", "0")])
def test_what_it_cannot_try_is_refused(bench: Bench, flag: str, value: str) -> None:
    done = bench("detect", flag, value)
    assert done.returncode != Exit.DONE
    assert value in done.stderr or flag in done.stderr


def test_without_otava_it_says_how_to_get_it(bench: Bench, tmp_path: Path) -> None:
    done = bench(
        "detect", "--engines", "otava", "--cells", CELL, "--fleets", "1",
        "--otava", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == Exit.FAILED
    assert "pip install --no-deps --target" in done.stderr


def test_it_prints_how_surely_scores_tell_a_slowdown(bench: Bench) -> None:
    told = bench("told", "--shapes", "zipf", "--factor", "1.6")
    assert (told.returncode, told.stderr) == (Exit.DONE, "")
    words = told.stdout.split()
    assert words[0] == "zipf"
    assert 0.9 < float(words[words.index("scheduling") + 1]) < 1.05
    assert "over 1" in bench("told", "--factor", "1").stderr


@pytest.mark.slow
def test_series_that_people_labelled_are_scored(bench: Bench, tmp_path: Path) -> None:
    if not FOLDER.exists():
        pytest.skip(f"Apache Otava is not in {FOLDER}")
    values = [1.0, 1.1] * 16 + [9.0, 9.1] * 8
    series = {"values": values, "annotations": {"6": [32]}}
    (tmp_path / "step.json").write_text(json.dumps(series))
    done = bench("changepoints", str(tmp_path), "--json")
    assert done.returncode == Exit.DONE, done.stderr
    scores = {finder: of_finder["step"] for finder, of_finder in json.loads(done.stdout).items()}
    assert (scores["pelt"], scores["ours 0.001"]) == (1.0, 1.0)
