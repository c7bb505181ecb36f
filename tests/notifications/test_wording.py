"""Numbers are written as people read them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.regressions.finding import (
    Attribution,
    Impact,
    Metric,
    Series,
    SideBySide,
    Subject,
)
from ett_service.notifications.notice import Notice
from ett_service.notifications.wording import cut, exact, fitted, shown, word
from tests.builders.receivers.notices import ATTRIBUTION, FINDING, NOTICE, RESOLVED, of_metric


def test_a_headline_is_read_on_a_lock_screen() -> None:
    assert word(NOTICE, 100).headline == (
        "pt2_compile +65% (mean +90%) in eu-1, llm-70b (8m 06s -> 13m 24s), 212 GPU-h/week"
    )
    assert word(NOTICE, 100).how_much == (
        "median 8m 06s -> 13m 24s, +65% (95% interval +48% to +84%), mean +90%, "
        "68 attempts against 140 before"
    )
    assert word(RESOLVED, 100).headline.startswith("Resolved: pt2_compile +65%")
    assert word(replace(NOTICE, is_test=True), 100).headline.startswith("Test: pt2_compile")


@pytest.mark.parametrize(
    ("notice", "how_much"),
    [
        (
            of_metric(Metric.ETT_RATIO, 0.912, 0.884, 0.97),
            "91.2% -> 88.4%, -2.8 pt (95% interval -2.7 pt to -2.7 pt), 68 days against 140 before",
        ),
        (
            of_metric(Metric.FAILURES_PER_GPU_HOUR, 0.001, 0.0025, 2.5),
            (
                "1.00 per 1,000 GPU-h -> 2.50 per 1,000 GPU-h, +150% (95% interval +150% to "
                "+150%), 68 failures against 140 before"
            ),
        ),
        (
            of_metric(Metric.CHECKPOINT_BLOCKING_SECONDS, 4.9e6, 12.25e6, 2.5),
            (
                "median 4.9s -> 12.2s, +150% (95% interval +150% to +150%), 68 saves against "
                "140 before"
            ),
        ),
        (
            of_metric(Metric.STEP_SECONDS, 0.1054e6, 0.1212e6, 1.15),
            (
                "median 0.105s -> 0.121s, +15% (95% interval +15% to +15%), 68 days of attempts "
                "against 140 before"
            ),
        ),
        (
            of_metric(Metric.CACHE_MISS_RATIO, 0.3, 0.7, 1.63),
            (
                "30.0% -> 70.0%, mean time +63% (95% interval +63% to +63%), 68 attempts "
                "against 140 before"
            ),
        ),
    ],
    ids=["ETT", "failures", "saves", "steps", "misses"],
)
def test_each_metric_is_reported_in_its_own_unit(notice: Notice, how_much: str) -> None:
    assert word(notice, 100).how_much == how_much


def test_misses_of_a_cache_are_shown_in_points_with_their_phase() -> None:
    notice = of_metric(Metric.CACHE_MISS_RATIO, 0.3, 0.7, 1.63)
    series = notice.finding.series._replace(subject=Subject(Metric.CACHE_MISS_RATIO, "pt2_compile"))
    notice = replace(notice, finding=replace(notice.finding, series=series))

    notice = replace(notice, finding=replace(notice.finding, mean_ratio=1.63))
    wording = word(notice, 100)
    assert wording.headline.startswith("cache misses of pt2_compile +40.0 pt in ")
    assert wording.how_much.count("mean") == 1


def test_what_was_nothing_before_has_no_percentage() -> None:
    notice = of_metric(Metric.FAILURES_PER_GPU_HOUR, 0.0, 0.0025, float("inf"))
    assert "from nothing" in word(notice, 100).how_much


def test_what_is_not_known_is_not_shown_as_nothing() -> None:
    unknown = replace(NOTICE, finding=replace(FINDING, impact=Impact(None)))
    assert word(unknown, 100).cost == "GPU-hours unknown"
    bare = replace(NOTICE, attribution=Attribution({}, {}))
    assert word(bare, 100).associated == (
        "no version, image, host or other value that explains half of it"
    )


def test_versions_that_ran_side_by_side_are_compared() -> None:
    beside = SideBySide("image", "trainer:2.14", "trainer:2.13", 40, 38, 1.62, 1.4, 1.9, 1e-6)
    wording = word(replace(NOTICE, attribution=replace(ATTRIBUTION, side_by_side=beside)), 100)
    assert "side by side image trainer:2.14 against trainer:2.13: +62%" in wording.associated


def test_what_has_no_value_in_a_cohort_is_unknown() -> None:
    finding = replace(FINDING, series=FINDING.series._replace(cohort=(("model", ""),)))
    wording = word(replace(NOTICE, finding=finding), 100)
    assert "in unknown model" in wording.headline
    assert "in model unknown, project research" in wording.what


def test_the_whole_project_is_named() -> None:
    subject = Subject(Metric.FAILURES_PER_GPU_HOUR, cause="infra")
    finding = replace(FINDING, series=Series(subject, ()))
    wording = word(replace(NOTICE, finding=finding), 100)
    assert "failures by infra" in wording.headline
    assert "in all of research" in wording.headline
    assert "in all cohorts, project research" in wording.what


def test_money_and_time_are_reported_with_their_units() -> None:
    assert word(NOTICE, 100).cost == "212 GPU-h/week, USD 742/week, -0.6 pt of ETT"
    assert word(RESOLVED, 100).since == (
        "about 2025-11-05 22:00 UTC, reported 2025-11-16 22:00 UTC, resolved 2025-11-19 22:00 UTC"
    )


def test_an_end_to_come_is_not_shown_as_one_that_was() -> None:
    lasting = replace(NOTICE, ends_us=NOTICE.starts_us + 1)
    assert "resolved" not in word(lasting, 100).since


def _escape(character: str) -> str:
    return {"&": "&amp;", "<": "&lt;"}.get(character, character)


def test_what_cannot_be_seen_is_made_visible() -> None:
    assert shown("a\u202eb\x1b[31m\ud800c", 50) == "a�b�[31m�c"
    assert shown("two\nlines\tand\u00a0more", 50) == "two lines and more"


def test_a_program_gets_the_name_as_it_is() -> None:
    assert exact("a\u202eb\n", 50) == "a\u202eb\n"
    assert exact("\ud800", 50) == "?"


def test_a_cut_is_marked() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


def test_a_cut_falls_beside_an_escape() -> None:
    assert fitted("a&b", 7, _escape) == "a&amp;b"
    assert [fitted("ab&cd", most, _escape) for most in (8, 9)] == ["ab&amp;…", "ab&amp;cd"]
    assert fitted("ab&cd", 7, _escape) == "ab…"


@given(text=st.text(), most=st.integers(1, 60))
def test_what_is_cut_is_short_enough_and_has_whole_escapes(text: str, most: int) -> None:
    escaped = fitted(text, most, _escape)
    assert len(escaped) <= most
    plain = escaped.replace("&amp;", "+").replace("&lt;", "+")
    assert "&" not in plain
    assert "<" not in plain
