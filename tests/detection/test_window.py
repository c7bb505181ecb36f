from ett_service.detection.window import groups
from tests.detection.samples import COHORTS


def test_each_cohort_each_value_and_the_whole_is_a_group() -> None:
    all_groups = groups(COHORTS)
    assert all_groups.names == (*COHORTS, (), (("cluster", "a"),), (("cluster", "b"),))
    assert all_groups.members.sum(axis=1).tolist() == [1, 1, 1, 1, 4, 2, 2]
    assert all_groups.single == (True, True, True, True, False, False, False)


def test_a_set_of_cohorts_is_there_once() -> None:
    alone = groups(COHORTS[:1])
    assert alone.names == (COHORTS[0],)
    assert groups(COHORTS[:2]).names == (*COHORTS[:2], ())


def test_a_project_without_dimensions_is_its_only_cohort() -> None:
    assert groups([()]).names == ((),)
