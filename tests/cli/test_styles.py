from collections.abc import Iterable
from enum import StrEnum

import pytest

from ett_service.cli import styles
from ett_service.core.regressions.finding import Severity, State, Verdict
from ett_service.core.words import JobState, Outcome


def test_what_went_wrong_is_red_and_what_went_well_green() -> None:
    assert {styles.outcome(word) for word in ("failed", "lost", "firing", "worse")} == {"red"}
    assert {styles.outcome(word) for word in ("completed", "resolved", "better")} == {"green"}
    assert styles.outcome("firing (muted)") == "red"
    assert styles.outcome("a word of its own") == ""


@pytest.mark.parametrize("words", [Outcome, State, JobState])
def test_every_outcome_and_state_but_the_usual_ones_has_a_style(words: Iterable[StrEnum]) -> None:
    plain = {word.value for word in words if not styles.outcome(word.value)}
    assert plain <= {"finished"}


def test_verdicts_and_severities_are_told_apart() -> None:
    assert styles.outcome(Verdict.REGRESSION) != styles.outcome(Verdict.IMPROVEMENT)
    assert len({styles.outcome(severity) for severity in Severity}) == len(Severity)


@pytest.mark.parametrize(
    ("cell", "style"),
    [
        ("+0.4 pt", "green"),
        ("-0.4 pt", "red"),
        ("+1m 43s", "red"),
        ("-2m 28s", "green"),
        ("0.0 pt", ""),
        ("-", ""),
    ],
)
def test_a_change_has_the_style_of_what_it_means(cell: str, style: str) -> None:
    assert styles.difference(cell) == style
