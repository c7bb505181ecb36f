"""What ``sacct --json`` prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from ett_service.importers.importer import Report
from ett_service.importers.slurm import document
from ett_service.importers.slurm.record import Record
from tests.builders.sacct import record

HERE = Path("sacct.json")
OLD: dict[str, Any] = {
    "account": "research", "cluster": "alpha", "user": "ada", "name": "llm", "partition": "gpu",
    "qos": "normal", "job_id": 8041, "nodes": "n[1-2]", "allocation_nodes": 2,
    "array": {"job_id": 0, "task": None, "task_id": None},
    "het": {"job_id": 0, "job_offset": None},
    "exit_code": {"status": "SUCCESS", "return_code": 0},
    "state": {"current": "COMPLETED", "reason": "None"},
    "kill_request_user": None, "steps": [{"step": {"id": "batch"}}],
    "time": {"elapsed": 3600, "submission": 1772365800, "eligible": 1772366100,
             "start": 1772366400, "end": 1772370000},
    "tres": {"allocated": [{"type": "billing", "name": None, "count": 16},
                           {"type": "cpu", "name": None, "count": 16},
                           {"type": "gres", "name": "gpu:h100", "count": 16},
                           {"type": "gres", "name": "gpu", "count": 16},
                           {"type": "node", "name": None, "count": 2}]},
}  # fmt: skip


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


NEW: dict[str, Any] = OLD | {
    "array": {"job_id": 0, "task": "", "task_id": {"set": False, "number": 0}},
    "het": {"job_id": 0, "job_offset": {"set": False, "number": 0}},
    "exit_code": {"status": ["SUCCESS"], "return_code": number(0),
                  "signal": {"id": {"set": False, "number": 0}, "name": ""}},
    "state": {"current": ["COMPLETED"], "reason": "None"},
}  # fmt: skip


def read(text: str) -> tuple[list[Record], Report]:
    report = Report()
    lines = [(number, each.encode()) for number, each in enumerate(text.splitlines(True), 1)]
    return list(document.records(lines, HERE, report)), report


def printed(*jobs: dict[str, Any], indent: int | None = 2) -> str:
    return json.dumps({"meta": {"jobs": 3}, "jobs": jobs, "errors": []}, indent=indent)


@pytest.mark.parametrize("job", [OLD, NEW])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_job_is_the_record_that_the_table_has(job: dict[str, Any], indent: int | None) -> None:
    (life, again), report = read(printed(job, job, indent=indent))
    assert life._replace(line=2) == again._replace(line=2) == record()
    assert (report.records, report.skipped) == (4, 0)


@pytest.mark.parametrize(
    ("more", "job_id"),
    [
        ({"array": {"job_id": 5, "task_id": 0, "task": None}}, "5_0"),
        ({"array": {"job_id": 5, "task_id": number(7), "task": ""}}, "5_7"),
        ({"array": {"job_id": 5, "task_id": None, "task": "8-9"}}, "5_[8-9]"),
        ({"het": {"job_id": 6, "job_offset": number(1)}}, "6+1"),
    ],
)
def test_ids_are_written_as_in_the_table(more: dict[str, Any], job_id: str) -> None:
    (life,), _ = read(printed(NEW | more))
    assert life.job_id == job_id


def test_how_it_ended_is_written_as_in_the_table() -> None:
    killed = {"status": ["SIGNALED"], "return_code": number(0), "signal": {"id": number(9)}}
    old = {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9}}
    cancelled = {"state": {"current": ["CANCELLED"], "reason": "None"}, "kill_request_user": "ada"}
    lives, _ = read(printed(NEW | {"exit_code": killed}, OLD | {"exit_code": old}, NEW | cancelled))
    assert [life.exit_code for life in lives] == ["0:9", "0:9", "0:0"]
    assert lives[2].state == "CANCELLED by ada"


def test_restarts_are_read_where_slurm_says_them() -> None:
    (life,), _ = read(printed(NEW | {"restart_cnt": 2}))
    assert life.restarts == "2"


def test_a_job_that_is_odd_is_skipped_and_the_rest_is_read() -> None:
    lives, report = read(printed(NEW, {"job_id": 3}, NEW, indent=None))
    assert (len(lives), report.skipped) == (2, 1)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_that_breaks_off_names_its_line(indent: int | None) -> None:
    text = printed(NEW, NEW, indent=indent)
    lives, report = read(text[: len(text) - 400])
    assert len(lives) == 1
    assert report.skipped == 1
    assert report.first_skipped[0].endswith("no complete JSON of sacct from here on")
    line = int(report.first_skipped[0].split(":")[1])
    assert line == (1 if indent is None else text[: text.rindex('"account"')].count("\n"))
