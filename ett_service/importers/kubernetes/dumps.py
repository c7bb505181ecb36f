"""Dumps of Kubernetes: what ``kubectl get -o json`` and ``-o yaml`` print, and saved watches.

All files together are one cluster, as a job's pods may lie in one file and the job in another.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ett_service.importers.files import Unreadable, files_under
from ett_service.importers.importer import Fact, ImportedRun, Report, WireEvent
from ett_service.importers.kubernetes.cluster import ADDED, DEFAULT_NAME, Cluster, Unusable
from ett_service.importers.kubernetes.documents import objects_of
from ett_service.importers.kubernetes.templates import Json

_PATTERNS = ("*.json", "*.yaml", "*.yml", "*.jsonl", "*.ndjson", "*.json.gz", "*.yaml.gz")


def read(
    paths: Sequence[Path], job: str | None = None, template: str = DEFAULT_NAME
) -> tuple[Iterator[ImportedRun], Report]:
    """Return the jobs in dumps below *paths*, and the report that grows while they are consumed.

    With *job*, all are attempts of that one; else *template* says what each is called.
    """
    report = Report()
    return _runs(paths, Cluster(job=job, template=template), report), report


def _runs(paths: Sequence[Path], cluster: Cluster, report: Report) -> Iterator[ImportedRun]:
    first_path = None
    for path in files_under(paths, _PATTERNS, report):
        before = report.records
        _take(path, cluster, report)
        if report.records > before:
            report.files += 1
            first_path = first_path or path
    by_job: dict[str, list[WireEvent]] = {}
    for uid in cluster.versions():
        if first_path is not None and (why := cluster.refusal(uid)):
            report.refuse(first_path, 0, why)
            continue
        for event in cluster.events(uid):
            by_job.setdefault(event["job"], []).append(event)
    for name, events in by_job.items():
        if first_path is not None:
            yield ImportedRun(first_path, name, tuple(Fact(event) for event in events))


def _take(path: Path, cluster: Cluster, report: Report) -> None:
    others, before = 0, report.records
    try:
        for line, document in objects_of(path, report):
            change, thing = _change(document)
            try:
                is_used = cluster.take(change, thing)
            except Unusable as error:
                report.skip(path, line, str(error))
                continue
            report.records += is_used
            others += not is_used
            if thing is not document:
                cluster.settle()
    except Unreadable as error:
        report.miss(path, str(error))
        return
    if others:
        report.note(path, f"{others} objects are of kinds that say nothing of jobs")
    elif report.records == before:
        report.miss(path, "no object of Kubernetes")


def _change(document: Json) -> tuple[str, Json]:
    """Return the kind of change and the object; an object by itself is there."""
    thing = document.get("object")
    if "kind" not in document and isinstance(thing, dict):
        return str(document.get("type", ADDED)), thing
    return ADDED, document
