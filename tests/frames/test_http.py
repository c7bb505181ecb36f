import pytest

from ett_service.frames import FrameError, connect
from ett_service.frames.http import HttpSource, ledger_frame
from tests.frames.conftest import Deployment


def test_events_are_a_column_for_every_member(over_http: HttpSource) -> None:
    events = over_http.events("llm-70b")
    assert {"type", "at", "received_at", "step", "phase"} <= set(events.columns)
    assert events["at"].is_monotonic_increasing
    assert str(events["at"].dtype) == "datetime64[us, UTC]"


def test_a_ledger_sums_to_its_e2e(over_http: HttpSource) -> None:
    ledger = over_http.ledger("llm-70b")
    assert ledger["seconds"].sum() == 62 * 60
    assert ledger["ratio"].sum() == pytest.approx(1.0)
    assert ledger_frame({})["ratio"].sum() == 0.0


def test_a_refusal_says_why(deployment: Deployment, over_http: HttpSource) -> None:
    with pytest.raises(FrameError, match="job"):
        over_http.attempts("nobody")
    with pytest.raises(FrameError, match=r"(?i)key"):
        connect(deployment.server.url, "ett_wrong").jobs()


def test_what_a_question_may_be_is_said_and_keys_are_not_blamed(over_http: HttpSource) -> None:
    with pytest.raises(FrameError, match=r"/query/step: .*'1h', '1d' or '1w'") as failed:
        over_http.rollups(step="2h")
    assert failed.value.hint == ""
    with pytest.raises(FrameError, match=r"`group_by`: .* may be project, team, model"):
        over_http.summary(group_by=["teem"])


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(FrameError, match=r"127\.0\.0\.1:1") as failed:
        connect("http://127.0.0.1:1", "key").jobs()
    assert "ett serve" in failed.value.hint
