"""Sets of attempts, as people name them."""

import pytest

from ett_service.detection.comparison.job_sets import JobSet, job_set
from ett_service.fleet.scope import BadQuestion


def test_a_set_is_read_from_its_conditions() -> None:
    jobs = job_set(["model:a", "model:b", "job:x:*", "code_version:"], (1, 2), "base")

    assert jobs == JobSet(
        where={"model": frozenset("ab"), "code_version": frozenset({""})},
        jobs=("x:*",),
        from_us=1,
        to_us=2,
    )


@pytest.mark.parametrize(
    ("name", "values", "at", "inside"),
    [
        ("x:1", {"model": "a"}, 1, True),
        ("x:1", {"model": "a", "code_version": "4.2"}, 1, False),
        ("x:1", {"model": "c"}, 1, False),
        ("y:1", {"model": "a"}, 1, False),
        ("x:1", {"model": "a"}, 0, False),
        ("x:1", {"model": "a"}, 2, False),
    ],
)
def test_an_attempt_is_in_a_set_where_all_conditions_hold(
    name: str, values: dict[str, str], at: int, *, inside: bool
) -> None:
    jobs = job_set(["model:a", "model:b", "job:x:*", "code_version:"], (1, 2), "base")

    assert jobs.holds(name, values, at) is inside


@pytest.mark.parametrize(
    ("conditions", "window", "code"),
    [
        (["model"], (None, None), "no_colon"),
        (["colour:red"], (None, None), "unknown_dimension"),
        (["model:" + "x" * 301], (None, None), "bad_value"),
        (["job:\x00"], (None, None), "bad_value"),
        (["model:a"] * 101, (None, None), "too_many"),
        ([], (2, 2), "from_after_to"),
    ],
)
def test_what_cannot_be_read_is_refused(
    conditions: list[str], window: tuple[int | None, int | None], code: str
) -> None:
    with pytest.raises(BadQuestion) as refused:
        job_set(conditions, window, "with")
    assert refused.value.code == code
