"""What format files are of."""

import gzip
import json
from pathlib import Path

from ett_service.cli.record.import_ import FORMATS
from ett_service.importers.recognition import MARKS, recognised
from tests.builders.mllog import RUN, written


def test_every_mark_is_of_a_format_that_can_be_imported() -> None:
    assert {name for name, _ in MARKS} <= set(FORMATS)


def test_a_file_is_recognised_by_what_it_holds(tmp_path: Path) -> None:
    entry = json.dumps({"job_name": "a", "job_start_time": 1.0})
    (plain := tmp_path / "a.txt").write_text("noise\n" + entry)
    (packed := tmp_path / "a.gz").write_bytes(gzip.compress(entry.encode()))

    assert recognised([plain]) == recognised([packed]) == "goodput"
    assert recognised([written(tmp_path, *RUN)]) == "mlperf"


def test_the_first_file_of_a_folder_that_is_of_a_format_decides(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"\x1f\x8bnothing")
    (tmp_path / "b.txt").write_text("hello")
    (tmp_path / "c").mkdir()
    written(tmp_path / "c", *RUN)

    assert recognised([tmp_path / "missing", tmp_path]) == "mlperf"
    assert recognised([tmp_path / "b.txt"]) is None
