"""The names of the measures: each once, and one for each word of each list."""

from ett_service.core.fleet.measures import MEASURES, PLAIN, QUEUES, WEIGHTED
from ett_service.core.words import Category, Owner, Period


def test_each_measure_has_a_name_of_its_own() -> None:
    assert len(set(MEASURES)) == len(MEASURES)


def test_each_category_period_and_owner_is_summed_in_both_weights() -> None:
    for names in (PLAIN, WEIGHTED):
        assert set(names.categories) == set(Category)
        assert set(names.periods) == set(Period)
        assert set(names.owners) == set(Owner)
        assert {*names.categories.values(), *names.periods.values()} < set(MEASURES)
        assert {*names.owners.values(), names.wasted} < set(MEASURES)
    assert set(QUEUES) == set(Owner)
    assert set(QUEUES.values()) < set(MEASURES)
