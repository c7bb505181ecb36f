"""Dumps of Kubernetes: what ``kubectl get -o json`` and ``-o yaml`` print, and saved watches.

All files together are one cluster, as a job's pods may lie in one file and the job in another.
Lists are read item by item, and never held whole. JSON may be pretty-printed, as kubectl does, or
have one document a line, as saved watches do.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from sys import getsizeof
from typing import Any, NamedTuple

import yaml

from ett_service.importers.files import Line, Unreadable, files_under, lines_of
from ett_service.importers.importer import Fact, ImportedRun, Report
from ett_service.importers.kubernetes.cluster import ADDED, DEFAULT_NAME, Cluster, Unusable
from ett_service.importers.kubernetes.templates import Json

_LONGEST_DOCUMENT = 32 << 20
_DEEPEST = 1000
_UNSUSPECTED = 10_000  #: levels that a text could have for all that is seen without parsing it
_MOST_BEFORE_ITEMS = 3  #: kind and apiVersion may stand before them
_ITEMS = ('"items": [', '"items":[')


class Piece(NamedTuple):
    """Text that is to be one document, and the line where it begins."""

    line: int
    text: str | None  #: None where it is too long


class _Text:
    """Text that grows; of one that is too long nothing is kept."""

    def __init__(self, begin: str = "") -> None:
        self._parts: list[str] = []
        self._bytes = 0
        self.add(begin)

    def add(self, part: str) -> None:
        self._bytes += getsizeof(part)  # many short lines take much more than their characters
        if self._bytes > _LONGEST_DOCUMENT:
            self._parts.clear()
        else:
            self._parts.append(part)

    def piece(self, line: int) -> Piece:
        """Return what there is, which began in *line*."""
        is_whole = self._bytes <= _LONGEST_DOCUMENT
        return Piece(line, "".join(self._parts) if is_whole else None)


def objects_of(path: Path, report: Report) -> Iterator[tuple[int, Json]]:
    """Yield each object of a file with its line; what is none is named in the report.

    Raises:
        Unreadable: where the file cannot be read to its end.
    """
    lines = lines_of(path)
    first = next((line for line in lines if line.text.strip()), None)
    if first is None:
        return
    lines = chain((first,), lines)
    is_json = first.text.lstrip().startswith("{")
    pieces = _pieces(lines) if is_json else _documents(lines)
    load = json.loads if is_json else _yaml
    for piece in pieces:
        if piece.text is None:
            report.skip(path, piece.line, "longer than 32 MiB: have JSON pretty-printed")
            continue
        try:
            document = load(piece.text)
        except (ValueError, RecursionError, yaml.YAMLError) as error:
            report.skip(path, piece.line, str(error).partition("\n")[0])
            continue
        for each in _unlisted(document):
            if isinstance(each, dict):
                yield piece.line, each
            else:
                report.skip(path, piece.line, "no object of Kubernetes")


def _yaml(text: str) -> Any:
    """Raises YAMLError for what is no YAML, or so deep that the parser in C would overflow."""
    deepest = text.count("[") + text.count("{") + max(map(len, text.splitlines()), default=0)
    if deepest > _UNSUSPECTED:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise yaml.YAMLError(f"nested deeper than {_DEEPEST}")
    return yaml.load(text, Loader=yaml.CSafeLoader)


def _unlisted(document: Any) -> Iterable[Any]:
    """Return the items of a list; those of a typed one get the kind that its name says."""
    if isinstance(document, list):
        return document
    if not isinstance(document, dict) or not isinstance(document.get("items"), list):
        return (document,)
    kind = str(document.get("kind", "")).removesuffix("List")
    common = {"kind": kind, "apiVersion": document.get("apiVersion")} if kind else {}
    return ({**common, **each} if isinstance(each, dict) else each for each in document["items"])


def _pieces(lines: Iterator[Line]) -> Iterator[Piece]:
    """Cut JSON where a document ends, and a pretty-printed list where an item of it ends.

    A string cannot have a line feed, so a brace alone on its line, as far in as the one that it
    closes, is the end of that object.
    """
    for line in lines:
        text = line.text.strip()
        if text == "{":
            yield from _pretty(line, lines)
        elif text:
            yield _long(line, lines)


def _long(first: Line, lines: Iterator[Line]) -> Piece:
    """Join the pieces of a line."""
    text, line = _Text(first.text), first
    while not line.is_whole and (line := next(lines, Line(0, "", is_whole=True))).text:
        text.add(line.text)
    return text.piece(first.number)


def _pretty(first: Line, lines: Iterator[Line]) -> Iterator[Piece]:
    indent, text = _indent(first), _Text(first.text)
    for place, line in enumerate(lines):
        stripped = line.text.strip()
        if stripped in _ITEMS and place < _MOST_BEFORE_ITEMS:
            yield from _items(_indent(line), lines)
            _skip_rest(indent, lines)
            return
        text.add(line.text)
        if stripped == "}" and _indent(line) == indent:
            break
    yield text.piece(first.number)


def _indent(line: Line) -> int:
    return len(line.text) - len(line.text.lstrip(" \t"))


def _items(indent: int, lines: Iterator[Line]) -> Iterator[Piece]:
    """Cut the items of a list whose own line is *indent* in."""
    for first in lines:
        start, text = first.number, first.text.strip()
        if text.startswith("]") and _indent(first) <= indent:
            return
        last = first.text[: _indent(first)] + "}"
        ends = {last, f"{last}\n", f"{last},\n"}
        item = _Text(first.text)
        if text[-1:] not in ("}", ","):
            for line in lines:
                item.add(line.text)
                if line.text in ends:
                    break
        piece = item.piece(start)
        yield piece._replace(text=piece.text and piece.text.rstrip().removesuffix(","))


def _skip_rest(indent: int, lines: Iterator[Line]) -> None:
    """Leave out what follows the items of a list: it says nothing of them."""
    for line in lines:
        if line.text.strip() == "}" and _indent(line) == indent:
            return


def _documents(lines: Iterator[Line]) -> Iterator[Piece]:
    """Cut YAML where a document ends."""
    text, start, is_empty = _Text(), 1, True
    for line in lines:
        if line.text.startswith("---"):
            if not is_empty:
                yield text.piece(start)
            text, start, is_empty = _Text(), line.number + 1, True
        else:
            text.add(line.text)
            is_empty = is_empty and not line.text.strip()
    if not is_empty:
        yield text.piece(start)


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
