"""The closed lists agree with each other."""

from ett_service.core.events import EVENT_TYPES
from ett_service.core.words import (
    ACTIVITIES,
    KNOWN_STAGES,
    ORIGIN_OF_CAUSE,
    STATIONS,
    WASTED,
    Category,
    Cause,
    Phase,
)


def test_a_phase_is_a_station_or_an_activity() -> None:
    assert {*STATIONS, *ACTIVITIES} == set(Phase)
    assert not set(STATIONS) & set(ACTIVITIES)


def test_each_cause_has_an_origin() -> None:
    assert set(ORIGIN_OF_CAUSE) == set(Cause)


def test_only_new_data_is_effective_and_it_is_not_wasted() -> None:
    assert Category.EFFECTIVE_TRAINING not in WASTED
    assert Category.REPEATED_TRAINING in WASTED


def test_known_stages_are_of_one_phase_each() -> None:
    stages = [stage for of_phase in KNOWN_STAGES.values() for stage in of_phase]
    assert len(stages) == len(set(stages))


def test_types_on_the_wire_name_their_classes() -> None:
    assert all(kind.type == name for name, kind in EVENT_TYPES.items())
    assert len(EVENT_TYPES) == 11
