from typing import Any

import pytest

from ett_service.report.document import Week
from ett_service.report.headline import sentence
from ett_service.report.inputs import Gathered

COMPILE = {
    "group": {"model": "llm-70b"}, "other": False, "part": "pt2_compile", "points": -0.6,
    "base": 0.02, "current": 0.03,
}  # fmt: skip
MIX = {
    "group": {"model": None}, "other": False, "part": "mix", "points": 0.4,
    "base": 0.1, "current": 0.2,
}  # fmt: skip


def sentence_of(
    now: float | None, before: float | None, target: float | None = None, *parts: Any
) -> str:
    """Write the sentence of a week, None where no job lived, with the parts of its change."""

    def total(ratio: float | None) -> dict[str, Any]:
        distance = target and {"ett_ratio": target, "distance": (ratio or 0) - target}
        return {
            "jobs": int(ratio is not None),
            "weighted_seconds": float(ratio is not None),
            "ett_ratio": ratio or 0.0,
            "target": distance,
        }

    change = {
        "change_points": 100 * ((now or 0) - (before or 0)),
        "parts": list(parts),
        "group_by": ["model"],
    }
    empty: dict[str, Any] = {}
    return sentence(
        Gathered(
            Week.parse("2026-W47"),
            ("model",),
            now={"total": total(now)},
            before={"total": total(before)},
            change=change,
            trend=empty,
            advice=empty,
            what_if=empty,
            jobs=empty,
            markers=empty,
            changes=empty,
            waterfall=empty,
            causes=empty,
            regressions=(),
        )
    )


@pytest.mark.parametrize(
    ("sentence", "written"),
    [
        (
            sentence_of(0.884, 0.893, 0.9, MIX, COMPILE),
            (
                "ETT 88.4%, 1.6 points under target, -0.9 vs last week; "
                "pt2_compile in llm-70b explains 0.6."
            ),
        ),
        (
            sentence_of(0.884, 0.884, 0.88, COMPILE),
            "ETT 88.4%, 0.4 points over target, as last week.",
        ),
        (
            sentence_of(0.9, 0.88, 0.9, COMPILE, MIX),
            "ETT 90.0%, on target, +2.0 vs last week; more of (unknown) (mix) explains 0.4.",
        ),
        (sentence_of(0.884, None), "ETT 88.4%."),
        (sentence_of(None, 0.9), "No job ran in week 2026-W47."),
        (sentence_of(0.0, 0.5), "ETT 0.0%, -50.0 vs last week."),
    ],
)
def test_the_week_is_reported_in_one_sentence(sentence: str, written: str) -> None:
    assert sentence == written
