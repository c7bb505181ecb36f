"""What is recorded of /metrics, of the views, of the schema of the API and of a report."""

import re
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path

from tests.golden.steady import Json, digest, steady

OF_THE_PROCESS = re.compile(
    r"process_|python_|ett_http_|ett_ingest_|ett_key_|ett_collector_duration|ett_publish_duration"
    r"|ett_detection_duration|ett_db_|ett_build|ett_schema"
)
"""Families whose values are a process's own, or measured: their names and labels are recorded."""

_SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)(?: [\d.]+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_TEXTS = frozenset({"description", "summary", "title", "example", "examples"})
_NAMED = frozenset({"properties", "schemas", "paths", "responses", "$defs", "patternProperties"})


def metrics(page: str) -> tuple[Json, str]:
    """Return the families of a page with their samples, and their help."""
    families: dict[str, _Family] = {}
    family = _Family("")
    helps = []
    for line in page.splitlines():
        _, _, rest = line.removeprefix("# ").partition(" ")
        name, _, text = rest.partition(" ")
        if line.startswith("# TYPE"):
            family = families[name] = _Family(text)
        elif line.startswith("# HELP"):
            helps.append(f"{name}: {text}")
        elif sample := _SAMPLE.fullmatch(line):
            family.add(**sample.groupdict(default=""))
    return {name: families[name].data(name) for name in sorted(families)}, "\n".join(helps)


@dataclass
class _Family:
    """A family as it is read from a page."""

    kind: str
    samples: dict[str, None] = field(default_factory=dict)
    bounds: dict[str, None] = field(default_factory=dict)
    series: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, labels: str, value: str) -> None:
        """Add a sample: a series has one value, or its buckets, count and sum."""
        self.samples[name] = None
        values = dict(_LABEL.findall(labels))
        if (bound := values.pop("le", None)) is not None:
            self.bounds[bound] = None
        label = ",".join(f"{label}={text}" for label, text in values.items())
        self.series.setdefault(label, []).append(steady(float(value)))

    def data(self, name: str) -> Json:
        """Return what is recorded."""
        shape = {"type": self.kind, "samples": [*self.samples], "bounds": [*self.bounds]}
        if OF_THE_PROCESS.match(name):
            return {
                **shape,
                "labels": sorted({re.sub(r"=[^,]*", "", label) for label in self.series}),
            }
        return {**shape, "series": self.series}


def views(database: Path, drawn: Mapping[str, str]) -> Json:
    """Return the columns and the rows of each public view."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as conn:
        names = conn.execute("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name")
        return {name: _view(conn, name, drawn) for (name,) in names.fetchall()}


def _view(conn: sqlite3.Connection, name: str, drawn: Mapping[str, str]) -> Json:
    cursor = conn.execute(f"SELECT * FROM {name}")  # noqa: S608 - a name of our own
    columns = [column for column, *_ in cursor.description]
    rows = [steady(dict(zip(columns, row, strict=True)), drawn) for row in cursor]
    rows.sort(key=str)
    by_column = {column: digest([row[column] for row in rows]) for column in columns}
    return {"rows": len(rows), "digests": by_column, "first": rows[:2]}


def schema(openapi: Json) -> Json:
    """Return the description of the API without its texts."""
    return _without_texts(openapi, is_named=False)


def _without_texts(value: Json, *, is_named: bool) -> Json:
    """Leave out what describes; the members of *is_named* objects are names, and stay."""
    if isinstance(value, list):
        return [_without_texts(item, is_named=False) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: _without_texts(item, is_named=name in _NAMED and not is_named)
        for name, item in value.items()
        if is_named or name not in _TEXTS
    }


def text_of(html: str) -> str:
    """Return what a page says, a line an element."""
    body = re.sub(r"(?s)<(style|script)\b.*?</\1>|<title>.*?</title>", "", html)
    lines = (unescape(line).strip() for line in re.sub(r"<[^>]+>", "\n", body).splitlines())
    return "\n".join(line for line in lines if line)


def shape_of(html: str) -> Json:
    """Return how often each element stands on a page."""
    return dict(sorted(Counter(re.findall(r"<([a-z][a-z0-9]*)", html)).items()))
