from contextlib import closing
from functools import partial

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from sqlalchemy import make_url

from ett_service.frames import FrameError, connect
from ett_service.frames.http import HttpSource
from ett_service.frames.sql import SqlSource
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from ett_service.storage.schema.views import READER
from tests.builders.clock import NOON
from tests.builders.ledgers import LATE_IN_IT, deliver, refreshed, running_job
from tests.frames.conftest import BEGIN, END, Deployment


def test_jobs_are_the_same_over_http_and_sql(over_http: HttpSource, over_sql: SqlSource) -> None:
    jobs = over_http.jobs()
    assert list(jobs["job"]) == ["llm-70b", "probe", "vision 1"]
    assert_frame_equal(jobs, over_sql.jobs())
    assert_frame_equal(over_http.jobs(team="vision"), over_sql.jobs(team="vision"))


@pytest.mark.parametrize("name", ["attempts", "ledger", "segments", "waits"])
def test_a_job_is_the_same_over_http_and_sql(
    name: str, over_http: HttpSource, over_sql: SqlSource
) -> None:
    frame: pd.DataFrame = getattr(over_http, name)("vision 1")
    assert len(frame) > 0
    assert_frame_equal(frame, getattr(over_sql, name)("vision 1"))


def test_markers_are_the_same_over_http_and_sql(over_http: HttpSource, over_sql: SqlSource) -> None:
    markers = over_http.markers(begin=BEGIN, end=END)
    assert markers["title"].tolist() == ["trainer 4.2"]
    assert_frame_equal(markers, over_sql.markers(begin=BEGIN, end=END))
    assert len(over_sql.markers(begin=END)) == 0


@pytest.mark.parametrize("step", [None, "1h", "1d", "1w"])
@pytest.mark.parametrize("group_by", [(), ("team", "code_version"), ("project",)])
def test_rollups_are_the_same_over_http_and_sql(
    step: str | None, group_by: tuple[str, ...], over_http: HttpSource, over_sql: SqlSource
) -> None:
    query = {"step": step, "group_by": group_by, "begin": BEGIN, "end": END}
    frame = over_http.rollups(**query)  # type: ignore[arg-type]
    assert frame["jobs"].max() > 0
    read = over_sql.rollups(**query)  # type: ignore[arg-type]
    by = [*(["start_at"] if step else []), *group_by]
    if by:
        frame, read = (frame.sort_values(by, ignore_index=True) for frame in (frame, read))
    assert_frame_equal(frame, read, rtol=1e-12)


def test_conditions_and_edges_are_the_same_over_http_and_sql(
    over_http: HttpSource, over_sql: SqlSource
) -> None:
    query = {"where": ["team:vision"], "begin": "2026-03-01T12:30:00Z", "end": END}
    frame = over_http.summary(**query)
    assert 0 < frame["e2e_seconds"][0] <= 3720
    assert_frame_equal(frame, over_sql.summary(**query), rtol=1e-12)


def test_nothing_can_be_written(over_sql: SqlSource) -> None:
    with pytest.raises(FrameError):
        over_sql.read("DELETE FROM job_ledger")
    assert len(over_sql.jobs()) == 3


def test_any_query_can_be_read_with_its_parameters(over_sql: SqlSource) -> None:
    sql = "SELECT count(*) AS jobs FROM ett_v_jobs WHERE team = :team"
    assert over_sql.read(sql, team="vision")["jobs"].tolist() == [1]


def test_a_job_that_is_not_there_is_named(over_sql: SqlSource) -> None:
    for name in ("attempts", "ledger", "segments"):
        with pytest.raises(FrameError, match="nobody"):
            getattr(over_sql, name)("nobody")


def test_a_filter_that_does_not_exist_is_refused(over_sql: SqlSource) -> None:
    with pytest.raises(FrameError, match="colour"):
        over_sql.jobs(colour="blue")


def test_an_instant_without_a_zone_is_refused(over_sql: SqlSource, over_http: HttpSource) -> None:
    naive = pd.Timestamp("2026-03-01").to_pydatetime()
    for source in (over_sql, over_http):
        with pytest.raises(FrameError, match="zone"):
            source.summary(begin=naive)


@pytest.mark.parametrize("deployment", ["postgresql"], indirect=True)
def test_a_role_that_may_read_nothing_but_the_views_suffices(deployment: Deployment) -> None:
    address = make_url(deployment.database_url).update_query_dict({"options": f"-crole={READER}"})
    with closing(connect(address.render_as_string(hide_password=False))) as source:
        assert len(source.jobs()) == 3
        assert len(source.segments("llm-70b")) > 0
        assert source.summary(begin=BEGIN, end=END)["jobs"].tolist() == [3]
        assert len(source.markers()) == 1
        assert isinstance(source, SqlSource)
        with pytest.raises(FrameError, match="permission denied"):
            source.read("SELECT * FROM job_ledger")


def test_a_project_is_read_alone(deployment: Deployment, over_sql: SqlSource) -> None:
    query = {"step": None, "begin": BEGIN, "end": END}
    for project, jobs in (("research", 3), ("nobody", 0)):
        with closing(SqlSource(deployment.database_url, project)) as source:
            assert len(source.jobs()) == jobs
            assert source.rollups(**query)["jobs"].tolist() == [jobs]  # type: ignore[arg-type]
            assert len(source.markers()) == bool(jobs)
    with closing(SqlSource(deployment.database_url, "nobody")) as source, pytest.raises(FrameError):
        source.attempts("llm-70b")
    assert len(over_sql.jobs(project="nobody")) == 0
    assert len(HttpSource(deployment.server.url, deployment.server.key, "research").jobs()) == 3
    with pytest.raises(FrameError, match="No such project"):
        HttpSource(deployment.server.url, deployment.server.key, "nobody").jobs()


def test_a_job_of_two_projects_has_to_be_told_apart(store: Store) -> None:
    for name in ("research", "zoo"):
        project_id = store.write(partial(create_project, name=name, now_us=NOON))
        key = JobKey(project_id, "llm-70b")
        deliver(store, key, running_job())
        refreshed(store, key, LATE_IN_IT)

    with closing(SqlSource(store.url)) as both:
        for frame in (both.attempts, both.ledger, both.segments):
            with pytest.raises(FrameError, match="research, zoo"):
                frame("llm-70b")
    with closing(SqlSource(store.url, "zoo")) as source:
        assert source.attempts("llm-70b")["number"].tolist() == [0]
