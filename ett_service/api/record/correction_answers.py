"""Answers about what people corrected."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, ExclusionAnswer, Instant
from ett_service.api.rendering import maybe_instant
from ett_service.core.intervals import rfc3339
from ett_service.core.ledger.results import Exclusion
from ett_service.core.words import Cause, Origin
from ett_service.storage.record.corrections import Correction

VERDICT: dict[str, Any] = {
    "origin": "infra",
    "cause": "network",
    "why": "The switch of rack 5 was replaced.",
}
_EXAMPLE: dict[str, Any] = {
    "id": 1,
    "kind": "verdict",
    "launch": "8041",
    "attempt": 0,
    "cycle": 0,
    **VERDICT,
    "from": None,
    "to": None,
    "made_by": "ett_4Zk0Xw7b",
    "made_by_name": "on call",
    "made_at": "2026-03-01T11:00:00.000000Z",
    "taken_back_by": None,
    "taken_back_by_name": None,
    "taken_back_at": None,
}


class CorrectionAnswer(Answer):
    """What somebody corrected, when and why, and whether it was taken back or replaced."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    id: int = Field(description="Counts the job's corrections.")
    kind: Literal["verdict", "exclusion"]
    launch: str | None = Field(description="With the next two: the attempt that failed.")
    attempt: int | None
    cycle: int | None
    origin: Origin | None
    cause: Cause | None
    from_at: Instant | None = Field(alias="from", description="Of an exclusion's window.")
    to_at: Instant | None = Field(alias="to")
    why: str
    made_by: str = Field(description="Prefix of a key.")
    made_by_name: str | None
    made_at: Instant
    taken_back_by: str | None = Field(description="Prefix of the key that took it back.")
    taken_back_by_name: str | None
    taken_back_at: Instant | None = Field(description="Null while it stands.")


class CorrectionPage(Answer):
    """A page of a job's corrections, the earliest first."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"job": "llm-70b", "corrections": [_EXAMPLE], "next_cursor": None}
        }
    )

    job: str
    corrections: list[CorrectionAnswer]
    next_cursor: str | None = Field(description="Sent as `cursor` it gives the next page.")


class ExclusionsAnswer(Answer):
    """What of the job is left out of the fleet's numbers now."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "job": "llm-70b",
                "exclusions": [
                    {
                        "from": "2026-03-01T08:00:00.000000Z",
                        "to": None,
                        "why": VERDICT["why"],
                        "made_by": "ett_4Zk0Xw7b",
                        "made_by_name": "on call",
                        "made_at": "2026-03-01T11:00:00.000000Z",
                    }
                ],
            }
        }
    )

    job: str
    exclusions: list[ExclusionAnswer]


def correction_answer(one: Correction) -> CorrectionAnswer:
    """Answer one row of the history."""
    attempt, window = one.attempt, one.window or Exclusion()
    return CorrectionAnswer(
        id=one.id,
        kind="exclusion" if attempt is None else "verdict",
        launch=attempt and attempt.launch,
        attempt=attempt and attempt.attempt,
        cycle=attempt and attempt.cycle,
        origin=one.origin,
        cause=one.cause,
        **{"from": maybe_instant(window.from_at), "to": maybe_instant(window.to_at)},
        why=one.why,
        made_by=one.made_by.key,
        made_by_name=one.made_by.name,
        made_at=rfc3339(one.made_at),
        taken_back_by=one.taken_back_by.key if one.taken_back_by else None,
        taken_back_by_name=one.taken_back_by.name if one.taken_back_by else None,
        taken_back_at=maybe_instant(one.taken_back_at),
    )
