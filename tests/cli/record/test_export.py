import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from ett_service.cli.main import main
from ett_service.cli.record.export import LISTS
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for
from tests.cli.conftest import Ett

pytestmark = pytest.mark.usefixtures("in_environment")


DAY = ["--from", "2026-03-01T00:00:00Z", "--to", "2026-03-02T00:00:00Z"]


@pytest.fixture
def several(served: Server, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Send more jobs than fit on a page."""
    monkeypatch.setitem(LISTS, "jobs", replace(LISTS["jobs"], page=2))
    names = [f"=paged-{number}" for number in range(5)]
    begun = [
        {"job": name, "type": kind, "at": "2026-02-01T00:00:00Z", **members}
        for name in names
        for kind, members in (("attempt_started", {}), ("job", {"team": "paged"}))
    ]
    served.ask("POST", "/v1/events", {"history": True, "events": begun})
    wait_for(lambda: all(served.knows(name) for name in names))
    return names


def test_a_list_longer_than_a_page_is_one_file_in_every_format(several: list[str]) -> None:
    for form in ("csv", "json", "parquet"):
        target = Path(f"jobs.{form}")
        assert main(["export", "jobs", "--where", "team:paged", "-o", str(target)]) == 0
        assert _jobs(target) == several
        assert not target.with_name(f"{target.name}.part").exists()


def _jobs(target: Path) -> list[str]:
    if target.suffix == ".parquet":
        return pd.read_parquet(target)["job"].tolist()
    if target.suffix == ".json":
        return [row["job"] for row in json.loads(target.read_text())]
    # What a spreadsheet would take for a formula is quoted.
    return [row["job"].removeprefix("'") for row in _csv(target.read_bytes().decode())]


@pytest.mark.parametrize("what", ["attempts", "segments", "events"])
def test_what_belongs_to_a_job_is_written_for_it(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", what, "--job", "llm-7b"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) >= 2
    assert main(["export", what, "--job", "llm-7b", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(rows)


def test_the_fleet_is_written_in_all_by_group_and_over_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments, count in (
        (["summary", *DAY], 1),
        (["summary", "--by", "team", "--where", "model:llm", *DAY], 1),
        (["series", "--step", "1h", *DAY], 24),
    ):
        for form, read in (("json", json.loads), ("csv", _csv)):
            assert main(["export", *arguments, "--format", form]) == 0
            assert len(read(capsys.readouterr().out)) == count


def _csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_job_is_named_where_one_is_needed_and_only_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["export", "events"]) == 1
    assert "needs --job" in capsys.readouterr().err
    assert main(["export", "jobs", "--job", "llm-7b"]) == 1
    assert "takes no --job" in capsys.readouterr().err
    assert main(["export", "jobs", "--where", "team"]) == 1
    assert "team:a" in capsys.readouterr().err


def test_a_file_is_whole_or_not_there(ett: Ett, served: Server, tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text("as it was")
    done = ett(
        "export", "events", "--job", "nobody", "-o", str(file),
        ETT_URL=served.url, ETT_API_KEY=served.key,
    )  # fmt: skip
    assert done.returncode == 1
    assert file.read_text() == "as it was"
    assert list(tmp_path.glob("*.part")) == []
