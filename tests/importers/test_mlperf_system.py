"""Where the description of a system is found, and what it says."""

import json
from pathlib import Path

import pytest

from ett_service.importers.importer import Report
from ett_service.importers.mlperf_system import description
from tests.builders.imports import imported
from tests.builders.mllog import RUN, written

BOX = {"number_of_nodes": "2", "accelerators_per_node": "8", "accelerator_model_name": "B200"}


def published(root: Path, **more: str) -> Path:
    """Return a folder of results as they are published, with the system described beside them."""
    results = root / "ORG" / "results" / "2xBOX" / "llama2"
    results.mkdir(parents=True)
    (root / "ORG" / "systems").mkdir()
    (root / "ORG" / "systems" / "2xBOX.json").write_text(json.dumps({**BOX, **more}))
    return results


def test_the_system_is_found_in_its_organisations_folder(tmp_path: Path) -> None:
    wire, report = imported(written(published(tmp_path), *RUN))

    assert (wire[0]["gpus"], wire[0]["hardware"], wire[1]["hosts"]) == (16, "B200", 2)
    assert report.notes == []


def test_a_path_from_within_finds_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(published(tmp_path))

    assert description(Path(), Report()) == BOX


def test_the_description_beside_the_log_goes_first(tmp_path: Path) -> None:
    results = published(tmp_path)
    (results / "system.json").write_text('{"number_of_nodes": 1}')

    assert description(results, Report()) == {"number_of_nodes": 1}


def test_a_system_of_another_name_is_not_taken(tmp_path: Path) -> None:
    results = published(tmp_path)
    other = results.parents[1] / "4xBOX" / "llama2"
    other.mkdir(parents=True)

    assert description(other, Report()) == {}
