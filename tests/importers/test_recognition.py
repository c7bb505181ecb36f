"""What format files are of."""

import gzip
import json
import os
from pathlib import Path

import pytest

from ett_service.cli.record.import_ import FORMATS
from ett_service.importers.recognition import MARKS, UNKNOWN, by_format
from tests.builders.mllog import RUN, written

CORPUS = Path(os.environ.get("ETT_CORPUS", "../shared/corpus"))
NEED_MORE = {"csv", "log", "parquet"}
"""Formats that only a mapping or a profile tells."""


def test_every_format_has_a_mark() -> None:
    assert set(FORMATS) - NEED_MORE <= {name for name, _ in MARKS}


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ("slurm_gcm/sample-sacct-*.txt", "sacct"),
        ("megatron_out/*.out", "megatron"),
        ("torch_trace/*.log", "torch-trace"),
        ("torch_samples/torchelastic_agent_events*.jsonl", "torchelastic"),
        ("torch_samples/torchelastic_error_file.json", "torchelastic"),
        ("mlperf/runs/**/*.txt", "mlperf"),
    ],
)
def test_real_files_are_recognised(files: str, name: str) -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"the corpus is not at {CORPUS}")
    paths = list(CORPUS.glob(files))
    assert {found for path in paths for found in by_format([path])} == {name}


def test_a_file_is_recognised_by_what_it_holds(tmp_path: Path) -> None:
    entry = json.dumps({"job_name": "a", "job_start_time": 1.0})
    (plain := tmp_path / "a.txt").write_text("noise\n" + entry)
    (packed := tmp_path / "a.gz").write_bytes(gzip.compress(entry.encode()))

    assert by_format([plain, packed]) == {"goodput": [plain, packed]}
    assert [*by_format([written(tmp_path, *RUN)])] == ["mlperf"]


def test_a_folder_is_of_the_format_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"\x1f\x8bnothing")
    (tmp_path / "b.txt").write_text("hello")
    (tmp_path / "c").mkdir()
    written(tmp_path / "c", *RUN)

    assert [*by_format([tmp_path / "missing", tmp_path])] == ["mlperf"]
    assert by_format([tmp_path / "b.txt"]) == {}


def test_what_has_no_mark_is_the_spare_format(tmp_path: Path) -> None:
    (table := tmp_path / "a.csv").write_text("job,state\na,DONE\n")
    log = written(tmp_path, *RUN)

    assert by_format([table]) == {}
    assert by_format([table, log]) == {"mlperf": [table, log]}
    assert by_format([table, log], "csv") == {"csv": [table], "mlperf": [log]}


def test_a_folder_of_several_formats_is_taken_apart(tmp_path: Path) -> None:
    """Folders of one format stay whole, as a reader may find more in them than it is told."""
    logs = tmp_path / "logs"
    logs.mkdir()
    written(logs, *RUN)
    (logs / "notes").write_text("hello")
    (goodput := tmp_path / "b.jsonl").write_text('{"job_start_time": 1.0}')
    (table := tmp_path / "a.csv").write_text("job,state\na,DONE\n")

    parts = {"mlperf": [logs], "goodput": [goodput]}
    assert by_format([tmp_path]) == {**parts, UNKNOWN: [table]}
    assert by_format([tmp_path, table]) == {**parts, "goodput": [goodput, table], UNKNOWN: [table]}


@pytest.mark.parametrize(
    "text",
    [
        '{"apiVersion":"v1","items":[],"kind":"PodList"}',
        '{"type":"ADDED","object":{"apiVersion":"batch/v1","kind":"Job"}}',
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n",
    ],
)
def test_an_object_of_kubernetes_is_recognised_however_it_is_printed(
    tmp_path: Path, text: str
) -> None:
    (path := tmp_path / "a").write_text(text)
    assert by_format([path]) == {"k8s": [path]}
