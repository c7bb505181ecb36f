"""Reads what ``sacct --json`` prints, one job after the other, in the shapes of its versions."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ett_service.importers.importer import Report
from ett_service.importers.slurm.clock import Times
from ett_service.importers.slurm.record import Record

_JOBS: Final = re.compile(r'"jobs"\s*:\s*\[')
_BETWEEN: Final = re.compile(r"[\s,]*")
_DECODER: Final = json.JSONDecoder()
_AT_ONCE: Final = 1 << 16
_LARGEST_JOB: Final = 1 << 23


class _Buffer:
    """The part of a document that has been read and not been decoded."""

    def __init__(self) -> None:
        self.text = ""
        self.number = 1  #: the line in which the text begins
        self.is_over = False  #: whether the list of jobs was
        self._is_in_jobs = False

    def jobs(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Take the complete jobs out of the text, each with its line."""
        at = 0 if self._is_in_jobs else self._begin_of_jobs()
        while self._is_in_jobs and not self.is_over:
            at = self._drop(at)
            if self.text.startswith("]"):
                self.is_over = True
                return
            try:
                job, at = _DECODER.raw_decode(self.text)
            except ValueError:
                return
            yield self.number, job if isinstance(job, dict) else {}

    def _begin_of_jobs(self) -> int:
        match = _JOBS.search(self.text)
        self._is_in_jobs = match is not None
        return match.end() if match else 0

    def _drop(self, at: int) -> int:
        between = _BETWEEN.match(self.text, at)
        end = between.end() if between else at
        self.number += self.text.count("\n", 0, end)
        self.text = self.text[end:]
        return 0


def records(lines: Iterable[tuple[int, bytes]], path: Path, report: Report) -> Iterator[Record]:
    """Yield the records of a document's jobs; where it breaks off, its line is skipped."""
    buffer, due = _Buffer(), _AT_ONCE
    for _, line in lines:
        buffer.text += line.decode("utf-8", "replace")
        if len(buffer.text) >= due:
            yield from _records(buffer, path, report)
            due = max(_AT_ONCE, 2 * len(buffer.text))
        if len(buffer.text) > _LARGEST_JOB or buffer.is_over:
            break
    yield from _records(buffer, path, report)
    if not buffer.is_over:
        report.skip(path, buffer.number, "no complete JSON of sacct from here on")


def _records(buffer: _Buffer, path: Path, report: Report) -> Iterator[Record]:
    for number, job in buffer.jobs():
        try:
            record = _record(number, job)
        except (KeyError, TypeError, ValueError, AttributeError):
            report.skip(path, number, "is no job as sacct --json prints it")
            continue
        report.records += 1 + len(job.get("steps") or ())
        yield record


def _record(number: int, job: Mapping[str, Any]) -> Record:
    time, state = job["time"], job["state"]
    current = state["current"]
    return Record(
        number,
        _job_id(job),
        str(job["job_id"]),
        job.get("cluster") or "",
        job.get("name") or "",
        job.get("user") or "",
        job.get("account") or "",
        job.get("partition") or "",
        job.get("qos") or "",
        *_times(time),
        _state(current if isinstance(current, str) else current[0], job),
        state.get("reason") or "",
        _exit_code(job.get("exit_code") or {}),
        str(job.get("allocation_nodes") or ""),
        ",".join(_tres(job)),
        job.get("nodes") or "",
        str(_number(job.get("restart_cnt"), "")),
        _number(time.get("elapsed"), None),
    )


def _number(value: Any, otherwise: Any) -> Any:
    """Return a number, which newer versions wrap to say whether it is set."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") else None
    return value if isinstance(value, int) else otherwise


def _times(time: Mapping[str, Any]) -> Times:
    submit, eligible, start, end = (
        _number(time.get(name), 0) or None for name in ("submission", "eligible", "start", "end")
    )
    return Times(submit, eligible, start, end)


def _state(word: str, job: Mapping[str, Any]) -> str:
    by = job.get("kill_request_user")
    return f"{word} by {by}" if word == "CANCELLED" and by else word


def _job_id(job: Mapping[str, Any]) -> str:
    array, het = job.get("array") or {}, job.get("het") or {}
    task = _number(array.get("task_id"), None)
    if array.get("task"):
        return f"{_number(array.get('job_id'), 0)}_[{array['task']}]"
    if _number(array.get("job_id"), 0) and task is not None:
        return f"{_number(array['job_id'], 0)}_{task}"
    if leader := _number(het.get("job_id"), 0):
        return f"{leader}+{_number(het.get('job_offset'), 0)}"
    return str(int(job["job_id"]))


def _exit_code(code: Mapping[str, Any]) -> str:
    signal = code.get("signal") or {}
    number = _number(signal.get("signal_id", signal.get("id")), 0)
    return f"{_number(code.get('return_code'), 0)}:{number}"


def _tres(job: Mapping[str, Any]) -> Iterator[str]:
    for resource in (job.get("tres") or {}).get("allocated") or ():
        name = f"/{resource['name']}" if resource.get("name") else ""
        yield f"{resource['type']}{name}={resource['count']}"
