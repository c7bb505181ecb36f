import json
import re
from pathlib import Path

import pytest

from ett_service.cli.main import main
from tests.builders.servers.ett import Server

pytestmark = pytest.mark.usefixtures("in_environment")


DAY = ["--from", "2026-03-01T00:00:00Z", "--to", "2026-03-02T00:00:00Z"]


@pytest.fixture
def deployed(served: Server) -> str:
    """A deploy on the day of the server's job, before it began."""
    deploy = {"at": "2026-03-01T01:00:00Z", "kind": "deploy", "title": "Cache", "id": "changes"}
    marker_id: str = served.ask("POST", "/v1/markers", deploy)["id"]
    return marker_id


def test_each_marker_is_listed_with_the_numbers_before_and_after_it(
    deployed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["changes", "--marker", deployed, *DAY]) == 0
    printed = capsys.readouterr().out
    assert "2026-03-01 01:00:00  deploy  Cache" in printed
    [start] = re.findall(r"^time_to_start +(.*)$", printed, re.MULTILINE)
    assert re.fullmatch(r"- +0 +\S.* +[1-9]\d* +- +-", start), start
    assert re.search(r"^2026-03-01 01:00:00 .* Cache$", printed, re.MULTILINE)
    assert "not shown to be caused" in printed


def test_the_way_of_the_time_to_start_is_drawn(
    deployed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawing = tmp_path / "changes.svg"
    assert main(["changes", "--marker", deployed, *DAY, "-o", str(drawing)]) == 0
    assert drawing.read_text("utf-8").startswith("<svg")
    assert "Cache" in capsys.readouterr().out


def test_without_jobs_there_is_nothing_to_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = ["--from", "2020-01-01T00:00:00Z", "--to", "2020-01-02T00:00:00Z"]
    assert main(["changes", *empty]) == 0
    assert "No markers" in capsys.readouterr().out
    assert main(["changes", *empty, "-o", str(tmp_path / "x.svg")]) == 1
    assert "nothing to draw" in capsys.readouterr().err


def test_json_is_the_answer_of_the_server(
    deployed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["changes", "--marker", deployed, *DAY, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"][0]["marker"]["id"] == deployed
