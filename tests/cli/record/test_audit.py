"""``ett audit``, as people call it."""

import json
from pathlib import Path

import pytest

from ett_service.cli.main import main
from ett_service.cli.record.audit import TITLES
from ett_service.cli.record.import_ import FORMATS
from tests.builders.sacct import row, written
from tests.builders.samples import FILES, sample

START_S = 1_785_000_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    entries = [{"job_name": "llm", "job_start_time": START_S}]
    steps = [(n, 30 + 10 * n) for n in range(11)] + [(n, 750 + 10 * n) for n in range(8, 18)]
    entries += [{"step_count": n, "step_start_time": START_S + s} for n, s in steps[:11]]
    entries += [{"job_start_time": START_S + 800}]
    entries += [{"step_count": n, "step_start_time": START_S + s} for n, s in steps[11:]]
    entries += [{"job_end_time": START_S + 930}]
    path = tmp_path / "llm.jsonl"
    lines = [json.dumps({"job_name": "llm", **entry}) for entry in entries]
    path.write_text("\n".join([*lines, "junk"]))
    return path


def test_the_definitions_stand_side_by_side(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(log)]) == 0

    printed = capsys.readouterr()
    assert "llm: finished, 2 attempts, 1 failures, 930 s" in printed.out
    rows = [line.split() for line in printed.out.splitlines()]
    ours = next(row for row in rows if row[:1] == ["ETT%"])
    assert ours[1:6] == ["19.35%", "180", "s", "930", "s"]
    assert "1 files of goodput: 24 records read, 1 skipped, 0 runs refused" in printed.err
    assert f"{log}:25: no whole JSON object" in printed.err


def test_as_json_it_names_what_each_ignores_and_what_the_headline_rests_on(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--format", "goodput", "--job", "mine", "--json", str(log)]) == 0

    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert job["job"] == "mine"
    assert job["definitions"]["ett_ratio"]["ratio"] == pytest.approx(180 / 930)
    assert "train_loop" in job["definitions"]["one_logger_productive"]["ignores"]
    assert "train_loop" not in job["definitions"]["ett_ratio"]["ignores"]
    assert job["rests_on"][0]["record"].startswith(f"{log}:")
    assert job["records_tried"] <= job["records"] == 24


def test_logs_of_several_formats_are_audited_as_one_job(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = written(tmp_path, row(Start="2026-07-25T17:15:00", End="2026-07-25T17:40:00"))
    assert main(["audit", "--job", "llm", "--json", "--timezone", "UTC", str(log), str(table)]) == 0

    answer = json.loads(capsys.readouterr().out)
    (job,) = answer["jobs"]
    assert answer["format"] == "goodput, sacct"
    assert (answer["files"], answer["skipped"]) == (2, 1)
    assert job["attempts"] == 3
    assert {Path(kind["first"].rpartition(":")[0]) for kind in job["kinds"]} == {log, table}


def test_a_folder_of_several_formats_is_read_whole_and_what_is_of_none_is_named(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, row(Start="2026-07-25T17:15:00", End="2026-07-25T17:40:00"))
    (tmp_path / "notes.md").write_text("hello")
    assert log.parent == tmp_path
    assert main(["audit", "--job", "llm", "--json", "--timezone", "UTC", str(tmp_path)]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert (answer["format"], answer["files"]) == ("goodput, sacct", 2)
    (unread,) = answer["unread"]
    assert unread.startswith(f"{tmp_path / 'notes.md'}: is of no known format and is not read")


def test_a_file_of_no_format_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "a.txt").write_text("hello\n")

    assert main(["audit", str(path)]) == 1
    assert "Name it with --format." in capsys.readouterr().err
    assert main(["audit", "--format", "goodput", str(path)]) == 1
    assert f"{path}: no entry of goodput" in capsys.readouterr().err


def test_a_file_that_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(tmp_path / "none")]) == 1
    assert f"{tmp_path / 'none'}: there is no such file" in capsys.readouterr().err


def test_a_job_that_only_a_scheduler_reports_is_named_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], log: Path
) -> None:
    assert main(["audit", str(written(tmp_path, row())), "--timezone", "UTC"]) == 0
    assert "No record says that it trained" in capsys.readouterr().out
    assert main(["audit", str(log)]) == 0
    assert "No record says" not in capsys.readouterr().out


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_recognised_and_shown_by_every_definition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    told = [f"--{each}={FILES[each]}" for each in FORMATS[name].options if each in FILES]
    path = sample(name, tmp_path)
    assert main(["audit", "--json", "--job", "llm", *told, str(path)]) == 0

    answer = json.loads(capsys.readouterr().out)
    (job,) = answer["jobs"]
    assert (answer["format"], job["job"]) == (name, "llm")
    assert list(job["definitions"]) == list(TITLES)
    for each in job["definitions"].values():
        assert 0 <= each["numerator_seconds"] <= each["denominator_seconds"]
        assert set(each["ignores"]) <= {kind["kind"] for kind in job["kinds"]}
    assert {kind["first"].rpartition(":")[0] for kind in job["kinds"]} == {str(path)}
    assert 0 < job["records_tried"] <= job["records"]
