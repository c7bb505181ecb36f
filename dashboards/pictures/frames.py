"""What a panel's queries answered, as Grafana hands it to what draws."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from dashboards.build.kit import Format, Panel, Query, Transformation
from tests.builders.servers.prometheus import Sample

_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Line:
    """A series: a name, and values at instants in seconds since the Unix epoch."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by the names of their columns."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]

    def is_number(self, column: str) -> bool:
        """Return whether a column holds numbers."""
        cells = [row.get(column) for row in self.rows]
        filled = [value for value in cells if value is not None]
        return bool(filled) and all(isinstance(value, int | float) for value in filled)


Frame = Line | Table


def of_samples(query: Query, samples: Sequence[Sample], letter: str) -> list[Frame]:
    """Return what PromQL answered; *letter* tells the columns of several tables apart."""
    match query.format:
        case Format.TABLE:
            return [_table(samples, f"Value{letter}")]
        case Format.TIME_SERIES:
            return [Line(named(query.legend, each.labels), each.points) for each in samples]
        case Format.HEATMAP:
            return list(_buckets(samples))
        case other:
            assert_never(other)


def of_rows(query: Query, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[Frame]:
    """Return what SQL answered."""
    records = [
        {name: _plain(value) for name, value in zip(columns, row, strict=True)} for row in rows
    ]
    table = Table(columns, records)
    if query.format is Format.TABLE:
        return [table]
    return list(_wide(table))


def transformed(panel: Panel, frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames after the panel's transformations."""
    current = list(frames)
    for each in panel.transformations:
        tables = [frame for frame in current if isinstance(frame, Table)]
        current = _after(each, tables)
    return current


def named(legend: str, labels: Mapping[str, str]) -> str:
    """Name a series as its legend says."""
    if not legend:
        return ", ".join(value for name, value in labels.items() if name != "__name__")
    return _LABEL.sub(lambda hit: labels.get(hit[1], ""), legend)


def _buckets(samples: Sequence[Sample]) -> Iterator[Line]:
    """Yield how many lie in each bucket alone, in the order of their bounds."""
    below: dict[float, float] = {}
    for each in sorted(samples, key=lambda sample: float(sample.labels["le"])):
        counts = dict(each.points)
        alone = [(at, max(value - below.get(at, 0.0), 0.0)) for at, value in counts.items()]
        yield Line(each.labels["le"], alone)
        below = counts


def _table(samples: Sequence[Sample], value: str) -> Table:
    labels = dict.fromkeys(name for each in samples for name in each.labels)
    rows = [{"Time": each.points[-1][0], **each.labels, value: each.value} for each in samples]
    return Table(["Time", *labels, value], rows)


def _wide(table: Table) -> Iterator[Line]:
    """Split rows by their words, as Grafana makes series of what is one row a point."""
    numbers = [name for name in table.columns if name != "time" and table.is_number(name)]
    words = [name for name in table.columns if name != "time" and name not in numbers]
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in table.rows:
        for name in numbers:
            labels = [*(str(row[word]) for word in words), *([name] if len(numbers) > 1 else [])]
            if row[name] is not None:
                line = lines.setdefault(" ".join(labels) or name, [])
                line.append((float(row["time"]), float(row[name])))
    return (Line(name, points) for name, points in lines.items())


def _after(step: Transformation, tables: Sequence[Table]) -> list[Frame]:
    match step.name:
        case "merge":
            return [_merged(tables)]
        case "organize":
            left_out = step.options["excludeByName"]
            assert isinstance(left_out, Mapping)
            return [
                Table([name for name in each.columns if not left_out.get(name)], each.rows)
                for each in tables
            ]
        case "groupingToMatrix":
            return [_matrix(each, step.options) for each in tables]
        case "partitionByValues":
            return list(tables)  # what draws a state timeline does it
        case other:
            raise ValueError(f"The transformation {other!r} is not known here.")


def _merged(tables: Sequence[Table]) -> Table:
    columns = list(dict.fromkeys(name for each in tables for name in each.columns))
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for each in tables:
        words = [name for name in each.columns if not name.startswith("Value")]
        for row in each.rows:
            key = tuple(row.get(name) for name in words if name != "Time")
            rows.setdefault(key, {}).update(row)
    return Table(columns, list(rows.values()))


def _matrix(table: Table, options: Mapping[str, object]) -> Table:
    row, column, value = (str(options[f"{name}Field"]) for name in ("row", "column", "value"))
    first = f"{row}\\{column}"
    rows: dict[Any, dict[str, Any]] = {}
    for each in table.rows:
        rows.setdefault(each[row], {first: each[row]})[str(each[column])] = each[value]
    columns = dict.fromkeys(str(each[column]) for each in table.rows)
    return Table([first, *columns], list(rows.values()))


def _plain(value: Any) -> Any:
    if hasattr(value, "timestamp"):
        return value.timestamp()
    if value is not None and not isinstance(value, int | float | str | bool):
        return float(value) if hasattr(value, "as_tuple") else str(value)
    return value
