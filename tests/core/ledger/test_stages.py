"""The spans of every rank, and time by stage."""

from dataclasses import replace

from ett_service.core.events import Event, PhaseEnded, PhaseStarted
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.stages import RankSpan, StageTime, rank_spans, stage_times
from ett_service.core.words import Outcome, Phase
from tests.core.timeline import SECOND, ended, started

INIT = Phase.LAUNCHER_INIT


def _edge(kind: type[Event], at_s: int, stage: str | None = None, rank: int | None = 0) -> Event:
    return kind(
        id=f"{kind.type}-{at_s}-{stage}-{rank}", at=at_s * SECOND, rank=rank,
        phase=INIT, stage=stage,  # type: ignore[call-arg]
    )  # fmt: skip


def _stage_events(
    begin_s: int, end_s: int | None, stage: str | None = None, rank: int = 0
) -> list[Event]:
    begin = [_edge(PhaseStarted, begin_s, stage, rank)]
    return begin if end_s is None else [*begin, _edge(PhaseEnded, end_s, stage, rank)]


def _spans(*events: Event) -> tuple[list[RankSpan], list[StageTime]]:
    whole = [started(0), *events, ended(100, Outcome.COMPLETED)]
    ledger = fold(whole, {}, 100 * SECOND)
    spans = rank_spans(whole, {}, ledger)
    return spans, stage_times(spans, ledger)


def _seconds(times: list[StageTime]) -> dict[str | None, tuple[int, int]]:
    return {
        time.stage: (time.inclusive_us // SECOND, time.exclusive_us // SECOND) for time in times
    }


def test_a_stage_inside_another_takes_its_time_from_the_others_own() -> None:
    _, times = _spans(
        *_stage_events(0, 50),
        *_stage_events(10, 40, "pre_train"),
        *_stage_events(20, 25, "checkpoint_restore"),
    )

    assert _seconds(times) == {
        None: (50, 50),
        "pre_train": (30, 25),
        "checkpoint_restore": (5, 5),
    }


def test_of_stages_over_the_same_time_the_last_by_name_owns_it_whatever_their_ids() -> None:
    edges = [
        _edge(kind, at_s, name, rank)
        for kind, at_s in ((PhaseStarted, 10), (PhaseEnded, 30))
        for name, rank in (("pre_train", None), ("device_init", 0))
    ]
    for ids in (range(4), range(4)[::-1]):
        _, times = _spans(
            *(replace(edge, id=str(name)) for edge, name in zip(edges, ids, strict=True))
        )

        assert _seconds(times) == {"device_init": (20, 0), "pre_train": (20, 20)}


def test_a_stage_left_open_ends_with_the_phase_in_which_it_began() -> None:
    spans, times = _spans(*_stage_events(0, 50), *_stage_events(10, None, "pre_train"))

    assert _seconds(times)["pre_train"] == (40, 40)
    assert [span.ended for span in spans if span.stage] == [False]


def test_a_stage_outside_its_phase_ends_with_the_attempt() -> None:
    _, times = _spans(*_stage_events(0, 50), *_stage_events(60, None, "pre_train"))

    assert _seconds(times)["pre_train"] == (40, 40)


def test_skew_is_the_slowest_rank_less_the_median() -> None:
    events = [
        event for rank in range(3) for event in _stage_events(0, 10 * (rank + 1), "pre_train", rank)
    ]
    _, times = _spans(*events)

    assert [time.skew_us for time in times] == [10 * SECOND]
    assert _seconds(times)["pre_train"] == (10, 10)


def test_with_one_rank_there_is_no_skew() -> None:
    _, times = _spans(*_stage_events(0, 50))

    assert [time.skew_us for time in times] == [None]


def test_a_span_is_cut_at_the_end_of_its_attempt() -> None:
    spans, _ = _spans(*_stage_events(0, None))

    assert [(span.start_at, span.end_at) for span in spans] == [(0, 100 * SECOND)]
