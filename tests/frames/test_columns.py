import pandas as pd

from ett_service.frames.columns import (
    COUNT,
    FLAG,
    INSTANT,
    JOBS,
    SECONDS,
    TEXT,
    rollup_columns,
    typed,
)


def test_a_frame_without_rows_has_its_columns_and_their_types() -> None:
    empty = typed([], JOBS)
    assert {name: str(dtype) for name, dtype in empty.dtypes.items()} == dict(JOBS)


def test_what_is_unknown_is_missing_in_every_type() -> None:
    columns = {"text": TEXT, "count": COUNT, "seconds": SECONDS, "flag": FLAG, "at": INSTANT}
    (row,) = typed([{}], columns).isna().to_numpy().tolist()
    assert row == [True] * 5


def test_instants_keep_their_microseconds_and_are_utc() -> None:
    rows = [{"at": "2026-03-01T12:00:00.000001Z"}, {"at": "2026-03-01T13:00:00+01:00"}]
    at = typed(rows, {"at": INSTANT})["at"]
    assert at[0] - at[1] == pd.Timedelta(1, "us")


def test_a_flag_may_come_as_a_number() -> None:
    flags = typed([{"flag": 0}, {"flag": 1}, {"flag": True}], {"flag": FLAG})["flag"]
    assert flags.tolist() == [False, True, True]


def test_members_that_are_new_do_not_change_a_frame() -> None:
    assert list(typed([{"a": "x", "new": 1}], {"a": TEXT}).columns) == ["a"]


def test_a_rollup_begins_with_its_step_and_its_dimensions() -> None:
    assert list(rollup_columns(["team"], over_time=True))[:3] == ["start_at", "team", "other"]
    assert list(rollup_columns([], over_time=False))[:2] == ["other", "jobs"]
