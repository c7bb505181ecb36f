"""Options that some formats of ``ett import`` have."""

import json
from pathlib import Path

import pytest

from ett_service.cli.main import main
from ett_service.cli.record.import_ import FORMATS
from ett_service.cli.record.import_options import OPTIONS
from tests.builders.megatron import iteration, start_up, written

ROOT = Path(__file__).parents[3]
MAPPING = ROOT / "examples/import/job-table.yaml"
ROW = "job_name,job_id,nodes,gpus,start,first_step,end,state\na,1,1,8,2026-03-01 08:00:00,,,\n"


def test_every_option_of_a_format_is_offered() -> None:
    assert {option for form in FORMATS.values() for option in form.options} == set(OPTIONS)
    assert list(FORMATS) == sorted(FORMATS)


def test_local_times_are_read_in_the_zone_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(written(tmp_path / "a.out", *start_up(), iteration(1, 10)))
    assert main(["import", "megatron", log, "--timezone", "Asia/Tokyo", "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[0])["at"].startswith("2024-05-12T23:00:01")
    assert printed.err.splitlines() == [
        "1 files, 5 records read, 0 lines skipped, 1 jobs: 9 events, printed, 0 refused"
    ]

    assert main(["import", "megatron", log, "--dry-run"]) == 0
    assert "line 1: 2024-05-13 08:00:01 has no zone and is taken as UTC" in capsys.readouterr().err


def test_a_zone_that_there_is_none_of_is_a_mistake_of_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["import", "megatron", "a.out", "--timezone", "Middle/Earth"])
    assert "no time zone is named 'Middle/Earth'" in capsys.readouterr().err


def test_a_mapping_is_tried_without_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "csv", "--mapping", str(MAPPING), "--check"]) == 0
    assert "all checks hold" in capsys.readouterr().err

    broken = tmp_path / "m.yaml"
    broken.write_text(MAPPING.read_text().replace("outcome: failed,", "outcome: cancelled,", 1))
    assert main(["import", "csv", "--mapping", str(broken), "--check"]) == 1
    assert "check 2: it becomes" in capsys.readouterr().err


def test_rows_are_imported_by_a_mapping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "jobs.csv").write_text(ROW)
    args = ["import", "csv", "--mapping", str(MAPPING), str(tmp_path / "jobs.csv"), "--dry-run"]
    assert main(args) == 0
    types = [json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()]
    assert types == ["attempt_started", "phase_started"]


def test_an_import_of_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "mlperf"]) == 1
    assert "no file is named" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["import", "csv", "--mapping", "none.yaml", "--check"])
    assert "none.yaml: No such file" in capsys.readouterr().err
