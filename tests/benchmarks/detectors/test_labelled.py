"""Change points are scored as the labelled series' authors do, and ours come from the search."""

import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.detectors.labelled import (
    LabelledSeries,
    NoLabelledSeries,
    by_search,
    compare,
    f1,
    read_labelled,
)
from benchmarks.detectors.otava import Otava, OtavaMissing
from ett_service.detection.sample import Floats

ROOT = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus")) / "changepoints"
PAGE = ROOT / "docs" / "howto" / "bench-detectors.md"

surely = partial(by_search, q=0.001)


def _noise(length: int, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).normal(0, 1, length)


def test_the_beginning_always_counts_as_a_change_point() -> None:
    assert f1([frozenset(), frozenset()], []) == 1.0
    assert f1([frozenset({50})], []) == pytest.approx(2 * 1 * 0.5 / 1.5)
    assert f1([frozenset()], [50]) == pytest.approx(2 * 0.5 * 1 / 1.5)


def test_a_point_is_right_within_the_margin_and_counts_once() -> None:
    labels = [frozenset({50})]
    assert f1(labels, [55]) == 1.0
    assert f1(labels, [56]) == pytest.approx(0.5)
    assert f1(labels, [49, 51]) == pytest.approx(2 * (2 / 3) / (1 + 2 / 3))


def test_precision_is_of_all_annotators_and_recall_of_each() -> None:
    labels = [frozenset({20}), frozenset({60})]
    assert f1(labels, [20, 60]) == 1.0
    assert f1(labels, [20]) == pytest.approx(2 * 1 * 0.75 / 1.75)


def test_a_folder_is_read_and_an_empty_one_refused(tmp_path: Path) -> None:
    with pytest.raises(NoLabelledSeries):
        read_labelled(tmp_path)
    content = {"values": [1, None, 2], "annotations": {"6": [], "7": [2]}}
    (tmp_path / "one.json").write_text(json.dumps(content))
    (series,) = read_labelled(tmp_path)
    assert series == LabelledSeries("one", [1, None, 2], [frozenset(), frozenset({2})])


def test_a_step_is_found_where_it_is() -> None:
    series = _noise(120)
    series[70:] += 3
    (place,) = surely(series)
    assert abs(place - 70) <= 2


@pytest.mark.slow
def test_two_steps_back_and_forth_are_found() -> None:
    series = _noise(200)
    series[60:130] += 3
    places = surely(series)
    assert len(places) == 2
    assert all(abs(place - step) <= 2 for place, step in zip(places, (60, 130), strict=True))


@pytest.mark.slow
def test_noise_has_none() -> None:
    assert sum(len(surely(_noise(100, seed))) for seed in range(10)) <= 1


@pytest.mark.slow
def test_what_wanders_is_not_cut_to_pieces() -> None:
    wandering = _noise(400, 3)
    for place in range(1, 400):
        wandering[place] += 0.8 * wandering[place - 1]
    assert len(surely(wandering)) <= 2


@pytest.mark.slow
def test_lone_outliers_are_no_levels() -> None:
    series = _noise(150, 4)
    series[[20, 75, 76, 120]] += 40
    assert surely(series) == []


@pytest.mark.slow
def test_neither_unit_nor_origin_matters() -> None:
    series = _noise(120)
    series[70:] += 3
    assert surely(1e12 * series - 5e13) == surely(series)


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [3.0] * 50])
def test_too_little_to_judge_is_no_change(values: list[float]) -> None:
    assert by_search(np.array(values)) == []


def _page() -> dict[str, dict[str, float]]:
    """Return the table of the page: F1 by series, by finder."""
    lines = PAGE.read_text("utf-8").partition("| series |")[2].splitlines()
    finders = [cell.strip(" `") for cell in lines[0].strip("|").split("|")]
    rows = [
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in lines[2:]
        if line.startswith("|")
    ]
    return {row[0]: dict(zip(finders, map(float, row[1:]), strict=True)) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("longest", [130, pytest.param(10_000, marks=pytest.mark.long)])
def test_the_page_has_the_scores_of_the_search_and_of_the_others(longest: int) -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"the labelled series are not there: {CORPUS} (set ETT_CORPUS)")
    series = [each for each in read_labelled(CORPUS) if len(each.values) <= longest]
    assert series
    try:
        with Otava() as otava:
            scores = compare(series, otava)
    except OtavaMissing as missing:
        pytest.skip(f"{missing}: {missing.hint}")
    page = _page()
    measured = {
        (of_finder.finder, name): f1
        for of_finder in scores
        for name, f1 in of_finder.by_series.items()
    }
    written = {(finder, name): page[name][finder] for finder, name in measured}
    assert written == pytest.approx(measured, abs=0.006)


def test_the_means_of_the_page_are_those_of_its_rows_and_ours_is_not_behind_otava() -> None:
    page = _page()
    mean = page.pop("mean")
    rows = {finder: [row[finder] for row in page.values()] for finder in mean}
    assert mean == pytest.approx({f: sum(r) / len(r) for f, r in rows.items()}, abs=0.01)
    assert mean["ours"] >= mean["otava"]
    assert mean["ours 0.001"] >= mean["otava"]


def test_the_page_says_what_no_change_at_all_would_score() -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"the labelled series are not there: {CORPUS} (set ETT_CORPUS)")
    scores = [f1(series.annotations, []) for series in read_labelled(CORPUS)]
    mean = sum(scores) / len(scores)
    assert f"Reporting no change at all scores {mean:.2f}." in PAGE.read_text("utf-8")
