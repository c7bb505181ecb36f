"""Regressions are the same frame over HTTP and SQL."""

import pytest
from pandas.testing import assert_frame_equal

from ett_service.frames import FrameError
from ett_service.frames.http import HttpSource
from ett_service.frames.sql import SqlSource

QUERIES: list[tuple[dict[str, str], int]] = [
    ({}, 2),
    ({"verdict": "regression"}, 1),
    ({"state": "inactive"}, 1),
    ({"phase": "shutdown"}, 0),
    ({"metric": "ett_ratio", "state": "firing"}, 1),
    ({"begin": "2026-02-28T12:00:00Z"}, 1),
    ({"end": "2026-02-01T00:00:00Z"}, 0),
]


def test_regressions_are_the_same_over_http_and_sql(
    over_http: HttpSource, over_sql: SqlSource
) -> None:
    for query, rows in QUERIES:
        frame = over_http.regressions(**query)
        assert len(frame) == rows, query
        assert_frame_equal(frame, over_sql.regressions(**query))


def test_numbers_and_instants_have_their_types(over_sql: SqlSource) -> None:
    frame = over_sql.regressions()
    assert frame["state"].tolist() == ["resolved", "firing"]
    assert frame["before_median"].tolist() == [486.0, 486e6]
    assert frame["before_n"].dtype == "Int64"
    assert frame["resolved_at"].isna().tolist() == [False, True]
    assert frame["phase"].isna().tolist() == [False, True]
    assert frame["gpu_hours_per_week"].isna().tolist() == [False, True]


def test_a_filter_that_does_not_exist_is_refused(
    over_http: HttpSource, over_sql: SqlSource
) -> None:
    for source in (over_http, over_sql):
        with pytest.raises(FrameError, match="colour"):
            source.regressions(colour="red")
