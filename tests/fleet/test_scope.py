import pytest

from ett_service.core.dimensions import DIMENSIONS, GROUPS
from ett_service.fleet.scope import MOST_CONDITIONS, BadQuestion, Scope, group_by, where
from ett_service.storage.fleet.rollups import CohortFilter


def test_groups_are_the_project_and_the_dimensions_of_a_cohort() -> None:
    assert ("project", *DIMENSIONS) == GROUPS


def test_dimensions_are_read_in_the_order_in_which_they_stand() -> None:
    assert group_by("team, model") == ("team", "model")
    assert group_by(",".join(GROUPS)) == GROUPS
    assert group_by(None) == group_by("") == ()


def test_several_values_of_a_dimension_are_one_condition() -> None:
    read = where(["team:a", "team:b:c", "model:", "team:a"])
    assert read == {"team": frozenset({"a", "b:c"}), "model": frozenset({""})}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("colour", "unknown_dimension"),
        ("team,", "unknown_dimension"),
        ("Team", "unknown_dimension"),
        ("team,model,team", "repeated_dimension"),
    ],
)
def test_what_is_no_dimension_is_refused(text: str, code: str) -> None:
    with pytest.raises(BadQuestion) as refused:
        group_by(text)
    assert (refused.value.parameter, refused.value.code) == ("group_by", code)


def test_a_refusal_names_what_is_allowed() -> None:
    with pytest.raises(BadQuestion, match="It may be project, team, model"):
        group_by("colour")


@pytest.mark.parametrize(
    ("conditions", "code"),
    [
        (["team"], "no_colon"),
        (["colour:red"], "unknown_dimension"),
        ([":"], "unknown_dimension"),
        (["team:a\x00b"], "bad_value"),
        (["team:" + 301 * "a"], "bad_value"),
        (["team:a"] * (MOST_CONDITIONS + 1), "too_many"),
    ],
)
def test_what_is_no_condition_is_refused(conditions: list[str], code: str) -> None:
    with pytest.raises(BadQuestion) as refused:
        where(conditions)
    assert (refused.value.parameter, refused.value.code) == ("where", code)


def test_a_scope_says_which_cohorts_are_meant() -> None:
    conditions = {"team": frozenset({"a"})}
    assert Scope((3,), conditions, exclusions="included").cohorts == CohortFilter(
        (3,), conditions, exclusions=True
    )
    assert not Scope().cohorts.exclusions
