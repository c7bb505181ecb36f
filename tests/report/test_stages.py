"""Own times of a phase and of its stages sum to the whole, whichever way they are reported."""

from ett_service.report.stages import own_seconds


def _stage(stage: str | None, exclusive_seconds: float, number: int = 0) -> dict[str, object]:
    return {
        "number": number,
        "phase": "pt2_compile",
        "stage": stage,
        "exclusive_seconds": exclusive_seconds,
    }


def test_a_whole_phase_owns_what_none_of_its_stages_has() -> None:
    stages = [_stage(None, 10.0), _stage("dynamo", 4.0), _stage("inductor", 5.0)]
    assert own_seconds(stages) == [1.0, 4.0, 5.0]


def test_a_phase_without_stages_owns_all_of_its_time() -> None:
    assert own_seconds([_stage(None, 10.0), _stage(None, 7.0, 1), _stage("save", 7.0, 1)]) == [
        10.0,
        0.0,
        7.0,
    ]


def test_stages_longer_than_their_phase_leave_it_nothing() -> None:
    assert own_seconds([_stage(None, 3.0), _stage("dynamo", 4.0)]) == [0.0, 4.0]
