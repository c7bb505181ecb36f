"""Counters and histograms: marks in, samples out, and one bad mark costs no other."""

from collections.abc import Callable
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.fleet.counters import DEDUCTIONS, PHASES
from ett_service.core.fleet.totals import DURATION_BOUNDS_US
from ett_service.metrics.families import COUNTERS, Kind, TextFormat
from ett_service.metrics.page import CountersWriter
from ett_service.storage.metrics.counters import Exemplar, HighWaterMarks, Labels, PublishedMetrics
from tests.builders.metrics import Page, families, labelled, parsed, published

A = ("a", "llm")
LAST = len(DURATION_BOUNDS_US)
WHOLE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def _written(
    of: PublishedMetrics, form: TextFormat = TextFormat.PLAIN, *, cohort_histograms: bool = True
) -> tuple[Page, int]:
    text, left_out = CountersWriter(form, cohort_histograms=cohort_histograms).write(of)
    return parsed(text, form), left_out


def _value(page: Page, name: str, **labels: str) -> float:
    return page[name][labelled(cluster="a", **labels)]


def test_a_cohort_that_counted_nothing_is_shown_at_0() -> None:
    page, left_out = _written(published({A: {}}))
    assert left_out == 0
    assert {dict(labels)["phase"] for labels in page["ett_phase_seconds_total"]} == set(PHASES)
    assert len(page["ett_deducted_weighted_seconds_total"]) == len(DEDUCTIONS)
    assert len(page["ett_time_to_start_seconds_bucket"]) == LAST + 1
    assert not any(value for samples in page.values() for value in samples.values())


def test_seconds_are_divided_and_counts_are_not() -> None:
    marks = {
        "phase_seconds:train_loop": 1_500_001,
        "phase_weighted_seconds:train_loop/true": 8 * 1_500_001,
        "attempts_started:first": 3,
    }
    page, _ = _written(published({A: marks}))
    assert _value(page, "ett_phase_seconds_total", cohort="llm", phase="train_loop") == 1.500001
    weighted = {"cohort": "llm", "phase": "train_loop", "held": "true"}
    assert _value(page, "ett_phase_weighted_seconds_total", **weighted) == 12.000008
    assert _value(page, "ett_attempts_started_total", cohort="llm", start="first") == 3


def test_what_nobody_knew_beforehand_is_shown_too() -> None:
    marks = {"failures:user/network": 2, "phase_duration_seconds:evaluation#0": 1}
    page, left_out = _written(published({("a", ""): marks}))
    assert left_out == 0
    assert _value(page, "ett_failures_total", origin="user", cause="network") == 2
    assert _value(page, "ett_failures_total", origin="infra", cause="network") == 0
    assert _value(page, "ett_phase_duration_seconds_count", phase="evaluation") == 1


def test_buckets_are_cumulative_and_the_last_is_the_count() -> None:
    marks = {"time_to_start_seconds#0": 2, "time_to_start_seconds#6": 3,
             f"time_to_start_seconds#{LAST}": 1, "time_to_start_seconds#us": 7_000_000}  # fmt: skip
    page, _ = _written(published({A: marks}))
    inside = {
        dict(labels)["le"]: count
        for labels, count in page["ett_time_to_start_seconds_bucket"].items()
    }
    assert list(inside)[:3] == ["1.0", "2.0", "5.0"]
    assert [inside[le] for le in ("1.0", "30.0", "60.0", "14400.0", "+Inf")] == [2, 2, 5, 5, 6]
    assert _value(page, "ett_time_to_start_seconds_count", cohort="llm") == 6
    assert _value(page, "ett_time_to_start_seconds_sum", cohort="llm") == 7


def test_exemplars_stand_behind_buckets_in_openmetrics_alone() -> None:
    seen = Exemplar(at_us=1_700_000_000_250_000, us=45_500_000, attempt_id="ab12-3")
    of = published(
        {A: {"time_to_start_seconds#6": 1}}, exemplars={A: {"time_to_start_seconds#6": seen}}
    )
    plain = CountersWriter(TextFormat.PLAIN, cohort_histograms=True).write(of).text
    assert "attempt_id" not in plain
    text = CountersWriter(TextFormat.OPENMETRICS, cohort_histograms=True).write(of).text
    (sample,) = [
        sample
        for family in families(text, TextFormat.OPENMETRICS)
        for sample in family.samples
        if sample.exemplar
    ]
    assert (sample.name, sample.labels["le"]) == ("ett_time_to_start_seconds_bucket", "60.0")
    assert sample.exemplar is not None
    assert sample.exemplar.labels == {"attempt_id": "ab12-3"}
    assert sample.exemplar.value == 45.5
    assert float(sample.exemplar.timestamp or 0) == 1_700_000_000.25


def test_an_exemplar_that_may_not_stand_there_is_left_out_and_counted() -> None:
    key = "time_to_start_seconds#0"
    for attempt_id in ("x" * 119, "\ud800"):
        of = published({A: {key: 1}}, exemplars={A: {key: Exemplar(1, 1, attempt_id)}})
        text, left_out = CountersWriter(TextFormat.OPENMETRICS, cohort_histograms=True).write(of)
        assert "attempt_id" not in text
        assert left_out == 1


def test_histograms_of_cohorts_can_be_left_out() -> None:
    marks = {"time_to_start_seconds#0": 2}
    page, left_out = _written(published({A: marks}), cohort_histograms=False)
    assert left_out == 0
    histograms = {name.removesuffix("_count") for name in page if name.endswith("_count")}
    assert histograms == {"ett_phase_duration_seconds"}


@pytest.mark.parametrize(
    ("labels", "odd"),
    [
        (A, {"made_up:x": 1}),
        (A, {"phase_seconds": 1}),
        (A, {"phase_seconds:a/b": 1}),
        (A, {"phase_seconds:train_loop#0": 1}),
        (A, {f"time_to_start_seconds#{LAST + 1}": 1}),
        (A, {"time_to_start_seconds#00": 1}),
        (A, {"time_to_start_seconds": 1}),
        (A, {"failures:infra/network": 1}),
        (A, {"phase_seconds:evaluation": -1}),
        (A, {"phase_seconds:evaluation": 1 << 1100}),
        (A, {"phase_seconds:\ud800": 1}),
        (("a", ""), {"phase_seconds:train_loop": 1}),
        (("a", "\ud800"), {"phase_seconds:train_loop": 1}),
        (("\ud800", ""), {"failures:infra/network": 1}),
    ],
)
@pytest.mark.parametrize("form", TextFormat)
def test_a_mark_that_cannot_be_shown_is_left_out_and_counted(
    labels: Labels, odd: HighWaterMarks, form: TextFormat
) -> None:
    good = {("a", "good"): {"phase_seconds:train_loop": 2_000_000}}
    writer = CountersWriter(form, cohort_histograms=True)
    for _ in range(2):  # with nothing known, and with what the first time left behind
        text, left_out = writer.write(published({**good, labels: odd}))
        page = parsed(text, form)
        assert _value(page, "ett_phase_seconds_total", cohort="good", phase="train_loop") == 2
        assert left_out == 1


@pytest.mark.parametrize("form", TextFormat)
@given(
    cluster=WHOLE,
    cohort=WHOLE,
    amounts=st.lists(st.integers(0, 1 << 80), min_size=40, max_size=40),
    cause=WHOLE.filter(lambda text: not set(text) & set("/#:")),
)
def test_any_label_and_mark_is_read_back_as_written(
    form: TextFormat, cluster: str, cohort: str, amounts: list[int], cause: str
) -> None:
    next_amount = iter(amounts).__next__
    counted = {f"phase_seconds:{phase}": next_amount() for phase in PHASES}
    buckets = {f"time_to_recover_seconds#{i}": next_amount() for i in range(LAST + 1)}
    of_cluster = {f"failures:infra/{cause}": next_amount()}
    page, left_out = _written(
        published({(cluster, cohort): {**counted, **buckets}, (cluster, ""): of_cluster}), form
    )
    assert left_out == 0
    both = {"cluster": cluster, "cohort": cohort}
    assert page["ett_phase_seconds_total"] == {
        labelled(**both, phase=phase): counted[f"phase_seconds:{phase}"] / 1_000_000
        for phase in PHASES
    }
    below = page["ett_time_to_recover_seconds_bucket"]
    assert below[labelled(**both, le="+Inf")] == sum(buckets.values())
    failures = page["ett_failures_total"]
    assert (
        failures[labelled(cluster=cluster, origin="infra", cause=cause)]
        == amounts[len(PHASES) + LAST + 1]
    )


def _grown(marks: dict[str, int]) -> None:
    marks["phase_seconds:train_loop"] += 1_000_000


def _joined(marks: dict[str, int]) -> None:
    marks["phase_seconds:not_known_before"] = 1_000_000


@pytest.mark.parametrize("change", [_grown, _joined])
def test_what_is_kept_from_one_time_to_the_next_changes_no_page(
    change: Callable[[dict[str, int]], None],
) -> None:
    key = "time_to_start_seconds#0"
    marks = {A: {"phase_seconds:train_loop": 1_000_000, key: 1}, ("b", "x"): {}}
    seen = {A: {key: Exemplar(1, 1, "first-0")}}
    used = CountersWriter(TextFormat.OPENMETRICS, cohort_histograms=True)
    used.write(published(deepcopy(marks), exemplars=deepcopy(seen)))
    change(marks[A])
    del marks["b", "x"]
    seen[A][key] = Exemplar(2, 2, "second-0")
    again = published(marks, exemplars=seen)
    fresh = CountersWriter(TextFormat.OPENMETRICS, cohort_histograms=True)
    assert used.write(again) == fresh.write(again)


def test_every_family_is_headed_once_and_a_percent_sign_is_no_place() -> None:
    text = (
        CountersWriter(TextFormat.PLAIN, cohort_histograms=True)
        .write(published({("%s", "%r"): {}}))
        .text
    )
    headed = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert headed == [family.name for family in COUNTERS]
    assert {family.kind for family in COUNTERS} == {Kind.COUNTER, Kind.HISTOGRAM}
    assert 'cluster="%s",cohort="%r"' in text
