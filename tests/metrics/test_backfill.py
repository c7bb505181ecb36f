"""The past as text: every sample where it belongs, and nothing twice."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

import pytest

from ett_service.core.fleet.counter_history import Moves, Steps
from ett_service.core.fleet.totals import DURATION_BOUNDS_US
from ett_service.core.intervals import HOUR_US, SECOND_US
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.metrics.backfill import Past, Scope
from ett_service.metrics.families import END, TextFormat
from ett_service.storage.metrics.labels import LabelLimits, ShownLabels
from tests.builders.clock import NOON
from tests.builders.metrics import families

TRAINED = "phase_seconds:train_loop"
PAID = "phase_weighted_seconds:train_loop/true"
STARTS = "time_to_start_seconds"
NONE = ShownLabels(frozenset(), frozenset())
HOURS = Steps(HOUR_US, NOON + 4 * HOUR_US)

Series = Mapping[tuple[str, frozenset[tuple[str, str]]], list[tuple[float, float]]]


def hour(number: int) -> int:
    """Return an instant so many hours after noon."""
    return NOON + number * HOUR_US


def read(past: Past, scope: Scope) -> Series:
    """Read the text back: points by the name and the labels of a series.

    Instant by instant: the parser takes the second point of a histogram for the first again.
    """
    lines = "".join(past.text(scope)).splitlines(keepends=True)
    assert lines[-1] == END
    series = defaultdict(list)
    for at in sorted({at for line in lines if (at := _at(line))}, key=int):
        page = "".join(line for line in lines if _at(line) in (None, at))
        for family in families(page, TextFormat.OPENMETRICS):
            for sample in family.samples:
                assert sample.timestamp is not None
                labels = frozenset(sample.labels.items())
                series[sample.name, labels].append((float(sample.timestamp), sample.value))
    return series


def _at(line: str) -> str | None:
    return None if line.startswith("#") else line.rpartition(" ")[2]


def points_of(series: Series, name: str, **labels: str) -> list[tuple[int, float]]:
    """Return the points of the only series that is so called, in hours after noon."""
    (points,) = [
        points
        for (family, own), points in series.items()
        if family == name and labels.items() <= dict(own).items()
    ]
    return [(round((at * SECOND_US - NOON) / HOUR_US), value) for at, value in points]


def whole(**labels: str) -> Scope:
    """Ask for all of it."""
    return Scope(HOURS, -NEVER, labels)


@pytest.fixture
def past() -> Past:
    """Return the past of two models on a cluster."""
    of_llm: Moves = {
        TRAINED: {hour(1): 1800 * SECOND_US, hour(3): 10 * SECOND_US + 1},
        PAID: {hour(1): 14_400 * SECOND_US},
        f"{STARTS}#2": {hour(1): 1},
        f"{STARTS}#us": {hour(1): 4 * SECOND_US},
        "failures:infra/network": {hour(3): 1},
    }
    past = Past()
    past.add(("a", 'llm "7b"'), of_llm)
    past.add(("a", "recsys"), {TRAINED: {hour(3): 60 * SECOND_US}})
    return past


def test_a_series_begins_at_0_one_step_before_anything_of_its_cohort(past: Past) -> None:
    series = read(past, whole())

    trained = points_of(series, "ett_phase_seconds_total", cohort='llm "7b"', phase="train_loop")
    assert trained == [(0, 0), (1, 1800), (2, 1800), (3, 1810.000001), (4, 1810.000001)]
    shutdown = points_of(series, "ett_phase_seconds_total", cohort="recsys", phase="shutdown")
    assert shutdown == [(2, 0), (3, 0), (4, 0)]


def test_what_a_cluster_counts_for_all_its_cohorts_is_one_series(past: Past) -> None:
    past.add(("a", "recsys"), {"failures:infra/network": {hour(3): 2}})
    failed = points_of(read(past, whole()), "ett_failures_total", origin="infra", cause="network")

    assert failed == [(2, 0), (3, 3), (4, 3)]


def test_buckets_add_up_to_the_count(past: Past) -> None:
    series = read(past, whole())

    started = {"cluster": "a", "cohort": 'llm "7b"'}
    below = points_of(series, "ett_time_to_start_seconds_bucket", **started, le="2.0")
    above = points_of(series, "ett_time_to_start_seconds_bucket", **started, le="5.0")
    assert {value for _, value in below} == {0}
    assert above == [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1)]
    assert points_of(series, "ett_time_to_start_seconds_count", **started) == above
    assert points_of(series, "ett_time_to_start_seconds_sum", **started)[-1] == (4, 4.0)
    bounds = {dict(own).get("le") for name, own in series if name == f"ett_{STARTS}_bucket"}
    assert len(bounds) == len(DURATION_BOUNDS_US) + 1


def test_the_last_sample_may_lie_between_two_steps(past: Past) -> None:
    half = Steps(HOUR_US, hour(3) + HOUR_US // 2)
    past.add(("a", "recsys"), {TRAINED: {half.last_at: 5 * SECOND_US}})
    series = read(past, Scope(half, -NEVER, {}))

    points = series[
        "ett_phase_seconds_total",
        frozenset({"cluster": "a", "cohort": "recsys", "phase": "train_loop"}.items()),
    ]
    assert points[-2:] == [(hour(3) / SECOND_US, 60), (half.last_at / SECOND_US, 65)]


def test_a_later_beginning_leaves_samples_out_and_their_sums_as_they_were(past: Past) -> None:
    late = read(past, Scope(HOURS, hour(2), {}))

    trained = points_of(late, "ett_phase_seconds_total", cohort='llm "7b"', phase="train_loop")
    assert trained == [(2, 1800), (3, 1810.000001), (4, 1810.000001)]


def test_the_clusters_and_cohorts_with_most_gpu_time_keep_their_names(past: Past) -> None:
    past.add(("b", "tiny"), {TRAINED: {hour(2): HOUR_US}})
    past.fold(LabelLimits(1, 1), NONE)
    series = read(past, whole())

    shown = {
        (own["cluster"], own["cohort"])
        for name, pairs in series
        if name == "ett_phase_seconds_total" and (own := dict(pairs))
    }
    assert shown == {("a", 'llm "7b"'), ("a", "other"), ("other", "other")}
    folded = {"cluster": "a", "cohort": "other", "phase": "train_loop"}
    assert points_of(series, "ett_phase_seconds_total", **folded)[-1] == (4, 60)


def test_what_the_live_page_shows_keeps_its_name_first(past: Past) -> None:
    past.fold(LabelLimits(1, 1), ShownLabels(frozenset(), frozenset({"recsys", "gone"})))
    cohorts = {dict(own).get("cohort") for _, own in read(past, whole())}

    assert cohorts == {None, "recsys", "other"}


def test_labels_that_were_asked_for_are_on_every_sample(past: Past) -> None:
    series = read(past, whole(job="ett", instance="past"))

    assert all({("job", "ett"), ("instance", "past")} <= own for _, own in series)


def test_histograms_of_cohorts_can_be_left_out(past: Past) -> None:
    past.add(("a", "recsys"), {"phase_duration_seconds:shutdown#3": {hour(2): 1}})
    names = {name for name, _ in read(past, Scope(HOURS, -NEVER, {}, cohort_histograms=False))}

    assert "ett_phase_duration_seconds_bucket" in names
    assert "ett_time_to_start_seconds_bucket" not in names


def test_points_are_an_hour_apart(past: Past) -> None:
    for points in read(past, whole()).values():
        assert {after - before for (before, _), (after, _) in pairwise(points)} == {3600}
