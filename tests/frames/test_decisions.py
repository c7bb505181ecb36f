from collections.abc import Iterator

import pytest

from ett_service.frames.decisions import (
    advice_frame,
    compiles_frame,
    effects_frame,
    gains_frame,
    parts_frame,
    sources_frame,
)
from ett_service.frames.http import HttpSource
from tests.builders.compiles import compiling_job
from tests.builders.servers.ett import serving_new
from tests.frames.conftest import BEGIN, END

ONE_PM = "2026-03-01T13:00:00Z"
_WINDOWS = ((BEGIN, ONE_PM), (ONE_PM, END))


def test_parts_sum_to_the_change(over_http: HttpSource) -> None:
    parts = over_http.explain(
        group_by=["team"], base_begin=BEGIN, base_end=ONE_PM, begin=ONE_PM, end=END
    )
    before, now = (over_http.summary(begin=begin, end=end) for begin, end in _WINDOWS)
    change = now["ett_ratio"][0] - before["ett_ratio"][0]
    assert change != 0
    assert parts["change"].sum() == pytest.approx(change)
    assert list(parts.columns)[:3] == ["team", "other", "part"]


def test_gains_are_a_row_a_scenario(over_http: HttpSource) -> None:
    gains = over_http.what_if("halve all failures", "cut pt2_compile by 40%", begin=BEGIN, end=END)
    assert set(gains["scenario"]) == {"cut all failures by 50%", "cut pt2_compile by 40%"}
    assert (gains["change"] > 0).all()
    assert gains["change"].is_monotonic_decreasing
    assert gains["money"].isna().all()  # nobody gave a price


def test_changes_are_a_row_a_marker_and_measure(over_http: HttpSource) -> None:
    marked = over_http.markers(begin=BEGIN, end=END)
    changes = over_http.changes(begin=BEGIN, end=END)
    assert len(marked) > 0
    assert set(changes["marker"]) == set(marked["id"])
    assert len(changes) == 4 * len(marked)
    measured = changes.dropna(subset=["difference_seconds"])
    difference = measured["after_mean_seconds"] - measured["before_mean_seconds"]
    assert measured["difference_seconds"].tolist() == pytest.approx(difference.tolist())


def test_advice_is_a_row_a_group(over_http: HttpSource) -> None:
    whole = over_http.checkpoint_advice(begin=BEGIN, end=END)
    assert whole["failures"].tolist() == [3]
    by_team = over_http.checkpoint_advice(group_by=["team"], begin=BEGIN, end=END)
    assert by_team["failures"].sum() == 3
    assert list(by_team.columns)[1:] == list(whole.columns)


@pytest.fixture(scope="module")
def compilers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpSource]:
    """Return the source of a server with two jobs that compiled again, each of a team."""
    with serving_new(tmp_path_factory.mktemp("compilers")) as server:
        events = [*compiling_job("text 1"), *compiling_job("vision 1", team="blue")]
        assert server.send(events, history=True).status == 200
        server.reaches("/v1/jobs", lambda page: len(page["jobs"]) == 2)
        yield HttpSource(server.url, server.key)


def test_compile_advice_is_a_row_a_group(compilers: HttpSource) -> None:
    whole = compilers.compile_advice(begin=BEGIN, end=END)
    by_team = compilers.compile_advice(group_by=["team"], begin=BEGIN, end=END)

    assert whole["setting"].tolist() == ["L['tokens']"]
    assert whole["dynamic_seconds"].tolist() == [240.0]
    assert sorted(by_team["team"]) == ["blue", "red"]
    assert by_team["jobs_read"].tolist() == [1, 1]
    for sums in ("compiles", "compile_seconds", "recompiles", "dynamic_seconds"):
        assert by_team[sums].sum() == whole[sums][0], sums
    assert list(by_team.columns)[1:] == list(whole.columns)
    red = compilers.compile_advice(where=["team:red"], begin=BEGIN, end=END)
    assert red["recompiles"].tolist() == [1]


def test_the_inputs_of_a_job_that_varied_are_a_row_each(compilers: HttpSource) -> None:
    sources = compilers.varying_sources("vision 1")
    assert sources["source"].tolist() == ["L['tokens']"]
    assert sources["seconds"].tolist() == [120.0]
    assert sources["mark_dynamic"].tolist() == ["torch._dynamo.mark_dynamic(tokens, 1)"]
    assert sources.attrs["setting"] == "L['tokens']"
    assert sources.attrs["autotune_seconds"] == 60.0


def test_a_projection_is_a_row_a_scale(over_http: HttpSource) -> None:
    given = {"failures_per_node_day": 0.0065, "save_seconds": 15.0, "restart_seconds": 600.0}
    scales = over_http.projection([1024, 16384], **given, begin=BEGIN, end=END)  # type: ignore[arg-type]
    assert scales["accelerators"].tolist() == [1024, 16384]
    assert scales["ett_ratio"].is_monotonic_decreasing
    assert scales["mtbf_seconds"][0] == pytest.approx(86_400 / 0.0065 / 128)


def test_a_frame_says_what_was_measured_and_assumed(over_http: HttpSource) -> None:
    gains = over_http.what_if("halve infra failures", begin=BEGIN, end=END)
    advice = over_http.checkpoint_advice(begin=BEGIN, end=END)

    assert "same probability" in gains["assumption"][0]
    assert gains.attrs["additive"] is False
    assert "half an interval" in advice["assumption"][0]


def test_frames_of_no_decisions_have_their_columns() -> None:
    empty = {"parts": [], "gains": [], "groups": [], "changes": [], "currency": "USD"}
    assert "team" in parts_frame(empty, ["team"])
    assert len(gains_frame(empty)) == 0
    assert "difference_low_seconds" in effects_frame(empty)
    assert len(advice_frame(empty, ["team"])) == 0
    nothing = {"total": {}, "jobs_read": 0, "sources": [], **empty}
    assert list(compiles_frame(nothing, ["team"]).columns)[:2] == ["team", "other"]
    assert "mark_dynamic" in sources_frame(nothing)
