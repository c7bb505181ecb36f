import numpy as np
import pytest

from ett_service.detection.selection import adjusted, limit


def test_the_limit_is_that_of_benjamini_and_hochberg() -> None:
    chances = np.array([0.001, 0.008, 0.039, 0.041, 0.6])
    assert limit(chances, 0.05) == pytest.approx(0.02)


def test_with_nothing_to_tell_the_limit_is_that_of_one() -> None:
    assert limit(np.array([0.5, 0.9]), 0.05) == pytest.approx(0.025)
    assert limit(np.array([]), 0.05) == 0.05


def test_changes_count_among_themselves_and_series_as_they_were_tested() -> None:
    assert adjusted([0.001, 0.0001], 100) == pytest.approx([0.05, 0.01])


def test_a_surer_change_is_never_doubted_more() -> None:
    assert adjusted([0.0009, 0.001], 100) == pytest.approx([0.05, 0.05])
    assert adjusted([], 100) == []
