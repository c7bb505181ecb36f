import pandas as pd
from pandas.testing import assert_frame_equal

from ett_service.frames.http import HttpSource
from ett_service.frames.sql import SqlSource


def test_jobs_are_the_same_over_http_and_sql(over_http: HttpSource, over_sql: SqlSource) -> None:
    found = over_http.jobs()
    assert list(found["job"]) == ["llm-70b", "vision-1"]
    assert_frame_equal(found, over_sql.jobs())
    assert_frame_equal(over_http.jobs(team="vision"), over_sql.jobs(team="vision"))


def test_a_job_is_the_same_over_http_and_sql(over_http: HttpSource, over_sql: SqlSource) -> None:
    for name in ("attempts", "ledger", "segments"):
        found: pd.DataFrame = getattr(over_http, name)("llm-70b")
        assert len(found) > 0
        assert_frame_equal(found, getattr(over_sql, name)("llm-70b"))
