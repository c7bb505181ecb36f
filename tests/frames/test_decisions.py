import pytest

from ett_service.frames.decisions import advice_frame, gains_frame, parts_frame
from ett_service.frames.http import HttpSource
from tests.frames.conftest import BEGIN, END

BEFORE = "2026-02-27T00:00:00Z"


def test_parts_sum_to_the_change(over_http: HttpSource) -> None:
    asked = {"begin": "2026-03-01T12:30:00Z", "end": END}
    base = {"base_begin": BEFORE, "base_end": "2026-03-01T12:30:00Z"}
    parts = over_http.explain(group_by=["team"], **asked, **base)  # type: ignore[arg-type]
    before = over_http.summary(begin=base["base_begin"], end="2026-03-01T13:00:00Z")
    now = over_http.summary(begin="2026-03-01T12:00:00Z", end=END)
    assert set(parts["part"]) <= {*parts["part"], "mix"}
    assert parts["change"].sum() == pytest.approx(now["ett_ratio"][0] - before["ett_ratio"][0])
    assert {"team", "other", "base", "current", "jobs"} <= set(parts.columns)


def test_gains_are_a_row_a_scenario(over_http: HttpSource) -> None:
    gains = over_http.what_if("halve all failures", "cut pt2_compile by 40 %", begin=BEGIN, end=END)
    assert set(gains["scenario"]) == {"cut all failures by 50 %", "cut pt2_compile by 40 %"}
    assert (gains["change"] > 0).all()
    assert gains["change"].is_monotonic_decreasing
    assert gains["money"].isna().all()  # nobody gave a price


def test_advice_is_a_row_a_group(over_http: HttpSource) -> None:
    whole = over_http.checkpoint_advice(begin=BEGIN, end=END)
    assert whole["failures"].tolist() == [3]
    by_team = over_http.checkpoint_advice(group_by=["team"], begin=BEGIN, end=END)
    assert by_team["failures"].sum() == 3
    assert list(by_team.columns)[1:] == list(whole.columns)


def test_frames_of_no_decisions_have_their_columns() -> None:
    empty = {"parts": [], "gains": [], "groups": [], "currency": "USD"}
    assert list(parts_frame(empty, ["team"]).columns)[0] == "team"
    assert len(gains_frame(empty)) == 0
    assert len(advice_frame(empty, ["team"])) == 0
