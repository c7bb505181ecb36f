"""Change points are scored as the labelled series' authors do, and ours is not behind."""

import json
import os
from pathlib import Path

import pytest

from benchmarks.detectors.labelled import (
    LabelledSeries,
    NoLabelledSeries,
    compare,
    f1,
    read_labelled,
)
from benchmarks.detectors.otava import Otava, OtavaMissing

ROOT = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus")) / "changepoints"


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


def test_ours_is_not_behind_otava_and_pelt_as_they_come() -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"the labelled series are not there: {CORPUS} (set ETT_CORPUS)")
    try:
        with Otava() as otava:
            scores = compare(read_labelled(CORPUS), otava)
    except OtavaMissing as missing:
        pytest.skip(f"{missing}: {missing.hint}")
    mean = {of_finder.finder: of_finder.mean for of_finder in scores}
    assert mean["ours"] >= max(mean["otava"], mean["pelt"]), mean
