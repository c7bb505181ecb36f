import json
import math
from typing import Any

import pytest

from ett_service.core.checkpointing import (
    best_interval_seconds,
    blocking_seconds,
    unsaved_seconds,
    wasted_ratio,
)
from tests.core.corpus import FOLDER

DAY = 86_400.0
SAVE = 15.0
FAILURES_A_DAY = 3.0


@pytest.mark.parametrize(
    ("interval", "percent"),
    [(60, 25.104), (300, 5.521), (600, 3.542), (1800, 3.958), (3600, 6.667)],
)
def test_wasted_time_at_an_interval_is_the_published_one(interval: float, percent: float) -> None:
    ratio = wasted_ratio(DAY, FAILURES_A_DAY, interval, SAVE)

    assert round(100 * ratio, 3) == percent


def test_the_best_interval_is_the_published_one() -> None:
    best = best_interval_seconds(DAY, FAILURES_A_DAY, SAVE)

    assert round(best, 3) == 929.516
    assert round(100 * wasted_ratio(DAY, FAILURES_A_DAY, best, SAVE), 4) == 3.2275


def test_at_the_best_interval_failures_cost_what_saves_cost() -> None:
    best = best_interval_seconds(DAY, FAILURES_A_DAY, SAVE)

    assert unsaved_seconds(FAILURES_A_DAY, best) == pytest.approx(
        blocking_seconds(DAY, best, SAVE), rel=1e-12
    )


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2.0])
def test_no_other_interval_wastes_less_than_the_best(factor: float) -> None:
    best = best_interval_seconds(DAY, FAILURES_A_DAY, SAVE)
    least = wasted_ratio(DAY, FAILURES_A_DAY, best, SAVE)

    assert wasted_ratio(DAY, FAILURES_A_DAY, factor * best, SAVE) > least


def test_the_published_curve_is_met_at_every_point() -> None:
    curve = reference()["table_by_interval_min"]

    for minutes, row in curve.items():
        interval = 60 * float(minutes)
        assert unsaved_seconds(FAILURES_A_DAY, interval) == pytest.approx(row["unsaved_s"])
        assert blocking_seconds(DAY, interval, SAVE) == pytest.approx(row["blocking_s"])
        ratio = wasted_ratio(DAY, FAILURES_A_DAY, interval, SAVE)
        assert 100 * ratio == pytest.approx(row["wtt_pct"], abs=1e-6)


def reference() -> dict[str, Any]:
    path = FOLDER.parent / "numbers" / "reference.json"
    if not path.exists():
        pytest.skip(f"the published figures are not there: {path} (set ETT_CORPUS)")
    curve: dict[str, Any] = json.loads(path.read_text())["fig7"]
    return curve


def test_where_nothing_fails_the_best_interval_is_endless() -> None:
    assert best_interval_seconds(DAY, failures=0, save_seconds=SAVE) == math.inf


@pytest.mark.parametrize(
    ("training", "failures", "interval", "save"),
    [
        (0.0, 3.0, 60.0, 15.0),
        (DAY, -1.0, 60.0, 15.0),
        (DAY, 3.0, 0.0, 15.0),
        (DAY, 3.0, 60.0, -15.0),
        (math.nan, 3.0, 60.0, 15.0),
    ],
)
def test_arguments_that_mean_nothing_are_refused(
    training: float, failures: float, interval: float, save: float
) -> None:
    with pytest.raises(ValueError, match="must"):
        wasted_ratio(training, failures, interval, save)
