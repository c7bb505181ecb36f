"""Change points are scored as the labelled series' authors do, and ours is not behind."""

import json
import os
from pathlib import Path

import pytest

from benchmarks.detectors.labelled import Labelled, NoSeries, compare, f1, labelled
from benchmarks.detectors.otava import Otava, OtavaMissing

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus")) / "changepoints"


def test_the_beginning_always_counts_as_a_change_point() -> None:
    assert f1([frozenset(), frozenset()], []) == 1.0
    assert f1([frozenset({50})], []) == pytest.approx(2 * 1 * 0.5 / 1.5)
    assert f1([frozenset()], [50]) == pytest.approx(2 * 0.5 * 1 / 1.5)


def test_a_point_is_right_within_the_margin_and_counts_once() -> None:
    truth = [frozenset({50})]
    assert f1(truth, [55]) == 1.0
    assert f1(truth, [56]) == pytest.approx(0.5)
    assert f1(truth, [49, 51]) == pytest.approx(2 * (2 / 3) / (1 + 2 / 3))


def test_precision_is_of_all_annotators_and_recall_of_each() -> None:
    truth = [frozenset({20}), frozenset({60})]
    assert f1(truth, [20, 60]) == 1.0
    only = f1(truth, [20])
    assert only == pytest.approx(2 * 1 * 0.75 / 1.75)


def test_a_folder_is_read_and_an_empty_one_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSeries):
        labelled(tmp_path)
    told = {"values": [1, None, 2], "annotations": {"6": [], "7": [2]}}
    (tmp_path / "one.json").write_text(json.dumps(told))
    (one,) = labelled(tmp_path)
    assert one == Labelled("one", [1, None, 2], [frozenset(), frozenset({2})])


def test_ours_is_not_behind_otava_and_pelt_as_they_come() -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"the labelled series are not there: {CORPUS} (set ETT_CORPUS)")
    try:
        with Otava() as otava:
            found = {one.finder: one.mean for one in compare(labelled(CORPUS), otava)}
    except OtavaMissing as missing:
        pytest.skip(f"{missing}: {missing.hint}")
    assert found["ours"] >= max(found["otava"], found["pelt"]), found
