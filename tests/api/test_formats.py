"""Every list as a file, read back by those who read such files."""

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from ett_service.api.bodies import as_file
from ett_service.api.fleet.series import PointAnswer, TopJobAnswer
from ett_service.api.fleet.summary import GroupAnswer
from ett_service.api.pagination import Column, ColumnKind, columns_of
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job, wire_event
from tests.builders.servers.application import Service

TEXT = Column(("text",), ColumnKind.TEXT)
NOON_AND_ONE = {
    "base_from": "2026-03-01T12:00:00Z",
    "base_to": "2026-03-01T13:00:00Z",
    "from": "2026-03-01T13:00:00Z",
    "to": "2026-03-01T14:00:00Z",
}
TOTALS = {"steps": 10, "loop_seconds": 2.5}
LISTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("/v1/jobs", "jobs", {}),
    ("/v1/jobs/llm-70b/ledger", "segments", {}),
    ("/v1/jobs/llm-70b/attempts", "attempts", {}),
    ("/v1/jobs/llm-70b/events", "events", {}),
    ("/v1/jobs/llm-70b/stages", "stages", {}),
    ("/v1/jobs/llm-70b/ranks", "ranks", {}),
    ("/v1/jobs/llm-70b/checkpoints", "checkpoints", {}),
    ("/v1/jobs/llm-70b/corrections", "corrections", {}),
    ("/v1/jobs/llm-70b/productivity", "points", {}),
    ("/v1/fleet/summary", "groups", {"group_by": "team"}),
    ("/v1/fleet/series", "points", {}),
    ("/v1/fleet/trend", "points", {}),
    ("/v1/fleet/jobs/top", "jobs", {}),
    ("/v1/fleet/explain", "parts", NOON_AND_ONE),
    ("/v1/fleet/changes", "changes", {}),
    ("/v1/fleet/checkpoint-advice", "groups", {"group_by": "team"}),
    ("/v1/fleet/compile-advice", "groups", {"group_by": "team"}),
    ("/v1/what-if", "gains", {"scenario": "halve infra failures"}),
    ("/v1/markers", "markers", {}),
    ("/v1/keys", "keys", {}),
)
"""Each list, the member of its answer that holds the rows, and its query."""


def _file(service: Service, path: str, form: str, **query: Any) -> Any:
    answer = service.client.get(path, params={"format": form, **query})
    assert answer.status_code == 200, answer.text
    name = answer.headers["content-disposition"]
    assert name.startswith('attachment; filename="')
    assert name.endswith(f'.{form}"')
    return answer


def _csv(service: Service, path: str, **query: Any) -> list[dict[str, str]]:
    answer = _file(service, path, "csv", **query)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    return list(csv.DictReader(io.StringIO(answer.content.decode(), newline=""), strict=True))


def _parquet(service: Service, path: str, **query: Any) -> pa.Table:
    answer = _file(service, path, "parquet", **query)
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    return parquet.read_table(io.BytesIO(answer.content))


def _at(row: Any, name: str) -> Any:
    for part in name.split("."):
        row = None if row is None else row.get(part)
    return row


@pytest.fixture
def filled_service(service: Service) -> Service:
    service.ingest(
        [
            *failing_job(),
            *failing_job("other"),
            wire_event("job", 1, labels={"=a": "+b"}),
            wire_event("heartbeat", 50, attempt=1, rank=0, attributes=TOTALS),
        ]
    )
    marker = {"at": "2026-03-01T12:10:00Z", "kind": "deploy", "title": "=cmd|' /C calc'!A0"}
    assert service.client.post("/v1/markers", json=marker).status_code == 201
    return service


def test_every_list_is_the_same_in_each_format(filled_service: Service) -> None:
    for path, member, query in LISTS:
        rows = filled_service.get(path, **query)[member]
        as_csv = _csv(filled_service, path, **query)
        as_parquet = _parquet(filled_service, path, **query)
        assert len(as_csv) == as_parquet.num_rows == len(rows), path
        assert rows or member == "corrections", path
        for row, cells, typed in zip(rows, as_csv, as_parquet.to_pylist(), strict=True):
            assert list(cells) == list(typed)
            for name, cell in cells.items():
                _assert_same(name, _at(row, name), cell, typed[name])


def _assert_same(name: str, value: Any, cell: str, typed: Any) -> None:
    match value:
        case None:
            assert (cell or "0", typed or 0) == ("0", 0), name
        case bool():
            assert (cell, typed) == (str(value).lower(), value), name
        case int() | float():
            assert (float(cell), typed) == (value, value), name
        case str() if isinstance(typed, datetime):
            assert cell == value, name
            assert typed == datetime.fromisoformat(value), name
            assert typed.tzinfo is not None, name
        case str():
            assert cell.removeprefix("'") == typed == value, name
        case _:
            assert json.loads(cell) == json.loads(typed) == value, name


@ON_ONE_ENGINE
def test_a_header_of_a_page_has_the_cursor_of_the_next(filled_service: Service) -> None:
    page = filled_service.get("/v1/jobs", limit=1)
    answer = _file(filled_service, "/v1/jobs", "csv", limit=1)
    assert answer.headers["ETT-Next-Cursor"] == page["next_cursor"]
    last = _file(filled_service, "/v1/jobs", "csv", limit=1, cursor=page["next_cursor"])
    assert "ETT-Next-Cursor" not in last.headers


@ON_ONE_ENGINE
def test_a_list_without_rows_has_the_columns_that_it_always_has(service: Service) -> None:
    for path in ("/v1/jobs", "/v1/fleet/jobs/top", "/v1/markers"):
        assert _csv(service, path) == []
        assert _parquet(service, path).num_rows == 0
    service.ingest(failing_job())
    for path in ("/v1/jobs", "/v1/fleet/series"):
        elsewhere = {"to": "2020-01-01T00:00:00Z", "from": "2019-12-31T00:00:00Z"}
        empty, full = (_parquet(service, path, **query) for query in (elsewhere, {}))
        assert empty.schema == full.schema


@ON_ONE_ENGINE
def test_instants_and_numbers_have_types_of_their_own(filled_service: Service) -> None:
    jobs = _parquet(filled_service, "/v1/jobs").schema
    assert jobs.field("started_at").type == pa.timestamp("us", tz="UTC")
    assert jobs.field("gpus").type == pa.int64()
    assert jobs.field("ett_ratio").type == pa.float64()
    assert jobs.field("provisional").type == pa.bool_()
    assert jobs.field("team").type == pa.string()


@ON_ONE_ENGINE
def test_a_title_that_is_a_formula_stays_text_in_a_spreadsheet(filled_service: Service) -> None:
    (marker,) = _csv(filled_service, "/v1/markers")
    assert marker["title"] == "'=cmd|' /C calc'!A0"
    assert marker["at"] == "2026-03-01T12:10:00.000000Z"
    (typed,) = _parquet(filled_service, "/v1/markers").to_pylist()
    assert typed["title"] == "=cmd|' /C calc'!A0"
    assert typed["at"] == datetime(2026, 3, 1, 12, 10, tzinfo=UTC)


@ON_ONE_ENGINE
def test_a_format_that_is_none_is_refused(service: Service) -> None:
    problem = service.get("/v1/jobs", 422, format="xlsx")
    (error,) = problem["errors"]
    assert (error["code"], error["pointer"]) == ("literal_error", "/query/format")
    assert "'parquet'" in error["allowed"]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00")), min_size=1))
def test_no_text_begins_a_formula_and_each_is_read_back(texts: list[str]) -> None:
    body = as_file("csv", [TEXT], [{"text": text} for text in texts], name="x").body
    read = csv.reader(io.StringIO(bytes(body).decode(), newline=""), strict=True)
    cells = [row[0] if row else "" for row in read][1:]
    assert [cell[1:] if cell[:2] in _GUARDED else cell for cell in cells] == texts
    assert not any(cell.startswith(_FORMULA_SIGNS) for cell in cells)


_FORMULA_SIGNS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b\u2212")
_GUARDED = tuple(f"'{sign}" for sign in _FORMULA_SIGNS)


@pytest.mark.parametrize("sign", _FORMULA_SIGNS)
def test_a_formula_of_any_sign_is_quoted(sign: str) -> None:
    body = as_file("csv", [TEXT], [{"text": f"{sign}1+1"}], name="x").body
    assert bytes(body).decode().splitlines(keepends=False)[1].lstrip('"').startswith("'")


def test_a_negative_number_is_a_number_and_no_formula() -> None:
    column = Column(("distance",), ColumnKind.NUMBER)
    body = as_file("csv", [column], [{"distance": -0.5}], name="x").body
    assert body == b"distance\r\n-0.5\r\n"


@pytest.mark.parametrize("model", [GroupAnswer, PointAnswer, TopJobAnswer])
def test_an_example_fills_the_columns_that_it_names(model: Any) -> None:
    assert len({column.name for column in columns_of(model)}) == len(columns_of(model))


def test_a_number_that_no_column_can_hold_is_the_largest_that_one_can() -> None:
    column = Column(("tokens",), ColumnKind.WHOLE)
    body = as_file("parquet", [column], [{"tokens": 1 << 80}], name="x").body
    assert parquet.read_table(io.BytesIO(bytes(body)))["tokens"].to_pylist() == [(1 << 63) - 1]
