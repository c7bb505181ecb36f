"""The events of one attempt, batch after batch."""

import pytest

from ett_service.core.events import (
    AttemptEnded,
    Event,
    Heartbeat,
    PhaseEnded,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.ledger.attempts.attempt_events import MOST_HOOKS, AttemptEvents, Placed
from ett_service.core.words import Outcome, Phase


def _placed(*events: Event) -> list[Placed]:
    return [
        (
            event.at,
            type(event) is not PhaseEnded,
            event.id,
            min(event.at, event.start) if isinstance(event, SpanOver) else event.at,
            event,
        )
        for event in events
    ]


def _attempt() -> AttemptEvents:
    return AttemptEvents(("", 0, 0))


def _begin(at: int, rank: int | None = 0, phase: Phase = Phase.LAUNCHER_INIT) -> Event:
    return PhaseStarted(id=f"b{at}-{rank}-{phase}", at=at, rank=rank, phase=phase)


def test_the_stream_is_the_lowest_working_rank_and_what_has_no_rank() -> None:
    attempt = _attempt()
    attempt.add(_placed(_begin(10, rank=3), _begin(12, rank=1), _begin(14, rank=None)))

    assert attempt.lead == 1
    assert [span.begin for span in attempt.spans] == [12, 14]


def test_a_rank_that_only_beats_does_not_lead() -> None:
    attempt = _attempt()
    attempt.add(_placed(Heartbeat(id="h", at=5, rank=0), _begin(10, rank=2)))

    assert (attempt.lead, attempt.first, attempt.heard) == (2, 5, 10)


def test_a_lower_rank_that_turns_up_later_cannot_follow() -> None:
    attempt = _attempt()

    assert attempt.add(_placed(_begin(10, rank=2)))
    assert not attempt.add(_placed(_begin(20, rank=1)))


def test_an_edge_at_or_before_the_last_one_cannot_follow() -> None:
    attempt = _attempt()

    assert attempt.add(_placed(_begin(10)))
    assert not attempt.add(_placed(PhaseEnded(id="e", at=10, rank=0, phase=Phase.LAUNCHER_INIT)))


def test_another_ranks_late_edge_can_follow() -> None:
    attempt = _attempt()

    assert attempt.add(_placed(_begin(10)))
    assert attempt.add(_placed(_begin(5, rank=7)))
    assert attempt.first == 5


def test_an_attempt_that_only_queued_has_not_begun() -> None:
    attempt = _attempt()
    attempt.add(_placed(_begin(10, phase=Phase.QUEUED)))

    assert (attempt.first, attempt.heard) == (None, 10)


def test_a_span_that_starts_after_its_end_has_length_0_and_is_counted() -> None:
    attempt = _attempt()
    attempt.add(_placed(SpanOver(id="s", at=10, start=12, phase=Phase.EVALUATION)))

    assert [(span.begin, span.end) for span in attempt.spans] == [(10, 10)]
    assert len(attempt.clamped) == 1


def test_an_end_of_another_rank_is_kept_as_evidence() -> None:
    attempt = _attempt()
    ended = AttemptEnded(id="e", at=30, rank=5, cycle=0, outcome=Outcome.FAILED)
    attempt.add(_placed(_begin(10), ended))

    assert attempt.ends == [(30, ended)]
    assert attempt.stream_heard == 10


def test_distinct_progress_instants_are_counted_over_batches() -> None:
    attempt = _attempt()
    for at in (10, 20, 30):
        assert attempt.add(_placed(*(Progress(id=f"{at}-{n}", at=at, step=n) for n in (1, 2))))

    assert attempt.progress_instants.count == 3
    assert attempt.top_step == 2


def _beat(at: int, rank: int | None = 0, **attributes: object) -> Event:
    return Heartbeat(id=f"h{at}-{rank}", at=at, rank=rank, attributes=attributes)


def test_totals_that_senders_report_are_the_largest_whatever_came_first() -> None:
    attempt = _attempt()
    attempt.add(_placed(_begin(0), _beat(30, data_wait_seconds=9.5, telemetry_seconds=0.25)))
    attempt.add(_placed(_beat(20, data_wait_seconds=4), _beat(40, rank=1, data_wait_seconds=99)))

    reported = attempt.attributes
    assert (reported.data_wait_us, reported.data_wait_at) == (9_500_000, 30)
    assert reported.telemetry_us == 250_000


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (["warm", "warm"], "warm"),
        (["cold", "warm"], "mixed"),
        (["disabled"], "disabled"),
        ([None, 1, {}, "lukewarm"], None),
    ],
)
def test_the_cache_of_compiles_is_mixed_where_they_differ(
    states: list[object], state: str | None
) -> None:
    attempt = _attempt()
    attempt.add(_placed(*(_beat(at, compile_cache=each) for at, each in enumerate(states))))

    assert attempt.attributes.compile_cache == state


def test_what_is_no_number_of_seconds_reports_nothing() -> None:
    attempt = _attempt()
    strange = [True, "3", None, -1, {}, [2]]
    attempt.add(_placed(*(_beat(at, telemetry_seconds=it) for at, it in enumerate(strange))))

    assert attempt.attributes.telemetry_us is None


def test_a_hook_has_the_worst_state_that_any_process_reports_and_its_sources_name() -> None:
    attempt = _attempt()
    attempt.add(_placed(_beat(10, hooks={"data": "missing", "compile": "waiting"})))
    attempt.add(_placed(_beat(5, rank=1, hooks={"data": "ok", "compile": "ok", "odd": "fine"})))
    attempt.add(_placed(_beat(15, source="ray", hooks={"report": "error"})))

    assert attempt.attributes.hooks == {
        "compile": "ok",
        "data": "missing",
        "ray.report": "error",
    }


def test_hooks_are_reported_up_to_a_limit_and_the_same_ones_whatever_came_first() -> None:
    names = [f"h{n:03}" for n in range(MOST_HOOKS + 6)]
    attempt = _attempt()
    attempt.add(_placed(_beat(10, hooks=dict.fromkeys(reversed(names), "ok"))))

    assert list(attempt.attributes.hooks) == names[:MOST_HOOKS]
