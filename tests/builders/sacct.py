"""What ``sacct`` prints, with a job of three steps unless it is said otherwise."""

from pathlib import Path

from ett_service.importers.slurm.clock import seconds_of, utc
from ett_service.importers.slurm.record import Record
from tests.builders.imports import Wire

COLUMNS = [
    "Cluster", "JobIDRaw", "JobID", "JobName", "User", "Account", "Partition", "QOS", "Submit",
    "Eligible", "Start", "End", "State", "Reason", "ExitCode", "NNodes", "AllocTRES", "NodeList",
    "ElapsedRaw",
]  # fmt: skip

_JOB = {
    "Cluster": "alpha",
    "JobIDRaw": "8041",
    "JobID": "8041",
    "JobName": "llm",
    "User": "ada",
    "Account": "research",
    "Partition": "gpu",
    "QOS": "normal",
    "Submit": "2026-03-01T11:50:00",
    "Eligible": "2026-03-01T11:55:00",
    "Start": "2026-03-01T12:00:00",
    "End": "2026-03-01T13:00:00",
    "State": "COMPLETED",
    "Reason": "None",
    "ExitCode": "0:0",
    "NNodes": "2",
    "AllocTRES": "billing=16,cpu=16,gres/gpu:h100=16,gres/gpu=16,node=2",
    "NodeList": "n[1-2]",
    "ElapsedRaw": "3600",
}


def fields(**texts: str) -> dict[str, str]:
    """The columns of a job; what a job's raw id is follows from its id."""
    if "JobID" in texts and texts["JobID"].isdigit():
        texts = {"JobIDRaw": texts["JobID"], **texts}
    return {**_JOB, **texts}


def row(**texts: str) -> str:
    """One row of the table."""
    return row_of(COLUMNS, "|", **texts)


def row_of(columns: list[str], delimiter: str, /, **texts: str) -> str:
    """One row of a table of these columns."""
    values = fields(**texts)
    return delimiter.join(values.get(column, "") for column in columns)


def table(*rows: str, columns: list[str] = COLUMNS, delimiter: str = "|") -> str:
    """A header and rows."""
    return "".join(f"{line}\n" for line in (delimiter.join(columns), *rows))


def written(folder: Path, *rows: str, name: str = "sacct.txt") -> Path:
    """Write a table into a folder."""
    path = folder / name
    path.write_text(table(*rows))
    return path


def record(**row_texts: str) -> Record:
    """The record that a row is."""
    values = fields(**row_texts)
    elapsed = seconds_of(values["ElapsedRaw"])
    instants = [values[name] for name in ("Submit", "Eligible", "Start", "End")]
    times = utc().times(instants, elapsed)
    before = ("JobID", "JobIDRaw", "Cluster", "JobName", "User", "Account", "Partition", "QOS")
    after = ("State", "Reason", "ExitCode", "NNodes", "AllocTRES", "NodeList", "Restarts")
    texts_before = [values[name] for name in before]
    texts_after = [values.get(name, "") for name in after]
    return Record._make((2, *texts_before, *times, *texts_after, elapsed))


def titles(events: Wire) -> list[tuple[str, str]]:
    """What events say and when, without the facts about the job."""
    return [(_title(event), event["at"][11:19]) for event in events if event["type"] != "job"]


def _title(event: dict[str, str]) -> str:
    words = (event["type"], event.get("phase"), event.get("stage"), event.get("outcome"))
    return " ".join(word for word in words if word)
