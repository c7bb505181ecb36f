"""Dumps of Kubernetes: what ``kubectl get -o json`` and ``-o yaml`` print, and saved watches.

All files together are one cluster, as a job's pods may lie in one file and the job in another.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ett_service.importers.files import Unreadable, files_under
from ett_service.importers.importer import Fact, ImportedRun, Report
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
    if first_path is not None:
        yield from _of_jobs(first_path, cluster, report)


def _of_jobs(path: Path, cluster: Cluster, report: Report) -> Iterator[ImportedRun]:
    """Yield what objects of one name say; only these events are held."""
    by_name: dict[str, list[str]] = {}
    for uid in cluster.versions():
        if why := cluster.refusal(uid):
            report.refuse(path, 0, why)
        else:
            by_name.setdefault(cluster.name_of(uid), []).append(uid)
    for name, uids in by_name.items():
        events = (event for uid in uids for event in cluster.events(uid))
        yield ImportedRun(path, name, tuple(map(Fact, events)))


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
