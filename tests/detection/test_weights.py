import numpy as np
import pytest

from ett_service.core.regressions.finding import Metric, Subject
from ett_service.detection.selection import prior, weights

SCORES = np.array([0.5, 3.0, 4.5, 12.0])


def test_weights_share_out_what_there_is() -> None:
    found = weights(np.repeat(SCORES, 20), np.ones(80), 0.05)
    assert found.mean() == pytest.approx(1.0)
    assert found.min() > 0


def test_what_may_be_missed_weighs_more_than_what_is_hopeless() -> None:
    hopeless, near, sure, surest = weights(np.repeat(SCORES, 20), np.ones(80), 0.05)[::20]
    assert near > hopeless
    assert sure == surest


def test_what_is_alike_weighs_the_same() -> None:
    assert weights(np.full(9, 3.3), np.ones(9), 0.05) == pytest.approx(np.ones(9))
    assert weights(np.zeros(0), np.zeros(0), 0.05).tolist() == []


def test_what_is_made_of_others_weighs_less() -> None:
    assert prior(Subject(Metric.ETT_RATIO)) < prior(Subject(Metric.PHASE_SECONDS, "shutdown"))
