import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.detectors.changepoints import changepoints
from benchmarks.detectors.labelled import f1, read_labelled

CORPUS = Path(os.environ.get("ETT_CORPUS", Path(__file__).parents[3] / "../shared/corpus"))


def _noise(length: int, seed: int = 1) -> np.typing.NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0, 1, length)


def test_a_step_is_found_where_it_is() -> None:
    series = _noise(120)
    series[70:] += 3
    (place,) = changepoints(series)
    assert abs(place - 70) <= 2


def test_two_steps_back_and_forth_are_found() -> None:
    series = _noise(200)
    series[60:130] += 3
    found = changepoints(series)
    assert len(found) == 2
    assert all(abs(place - true) <= 2 for place, true in zip(found, (60, 130), strict=True))


def test_noise_has_none() -> None:
    assert sum(len(changepoints(_noise(150, seed))) for seed in range(40)) <= 1


def test_what_wanders_is_not_cut_to_pieces() -> None:
    wandering = _noise(400, 3)
    for place in range(1, 400):
        wandering[place] += 0.8 * wandering[place - 1]
    assert len(changepoints(wandering)) <= 2


def test_lone_outliers_are_no_levels() -> None:
    series = _noise(150, 4)
    series[[20, 75, 76, 120]] += 40
    assert changepoints(series) == []


def test_neither_unit_nor_origin_matters() -> None:
    series = _noise(120)
    series[70:] += 3
    assert changepoints(1e12 * series - 5e13) == changepoints(series)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [3.0] * 50])
def test_too_little_to_tell_is_no_change(values: list[float]) -> None:
    assert changepoints(values) == []


def test_series_that_people_labelled_are_cut_as_they_cut_them() -> None:
    if not (CORPUS / "changepoints").is_dir():
        pytest.skip(f"the corpus is not there: {CORPUS} (set ETT_CORPUS)")
    told = [
        f1(one.annotations, changepoints([value for value in one.values if value is not None]))
        for one in read_labelled(CORPUS / "changepoints")
    ]
    assert sum(told) / len(told) > 0.75
