"""Importing and folding in one step."""

from pathlib import Path
from typing import Any

from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.importers.importer import Report
from ett_service.importers.mlperf import read
from tests.builders.timelines import event

DAY_US = 86_400_000_000

Wire = list[dict[str, Any]]


def imported(*paths: Path, job: str | None = None) -> tuple[Wire, Report]:
    """All events of the logs, each id once, and the report."""
    runs, report = read(paths, job)
    by_id = {sent["id"]: sent for run in runs for sent in run.events}
    return list(by_id.values()), report


def ledgers(*paths: Path, job: str | None = None) -> dict[str, JobLedger]:
    """The ledger of each job in the logs, a day after its last event."""
    return ledgers_of(imported(*paths, job=job)[0])


def ledgers_of(wire: Wire) -> dict[str, JobLedger]:
    """The ledger of each job of the events, whose copies count once, a day after its last."""
    jobs: dict[str, Wire] = {}
    for sent in {each["id"]: each for each in wire}.values():
        jobs.setdefault(sent["job"], []).append(sent)
    folded = {}
    for name, sent_of_job in jobs.items():
        events = [event(sent) for sent in sent_of_job]
        folded[name] = fold(events, {}, max(e.at for e in events) + DAY_US)
    return folded


def ledger(*paths: Path, job: str | None = None) -> JobLedger:
    """The ledger of the only job in the logs."""
    (only,) = ledgers(*paths, job=job).values()
    return only


def seconds(of: JobLedger) -> dict[str, float]:
    """The time of each category of the job."""
    spent: dict[str, float] = {}
    for share in of.shares:
        spent[share.category] = spent.get(share.category, 0) + share.us / 1e6
    return spent
