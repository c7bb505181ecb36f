"""What people send: markers, corrections, triage and mutes."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.events import MarkerKind
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Metric, Triage
from ett_service.core.words import Category, Cause, Origin, Phase
from ett_service.ingest.members import Frame
from ett_service.ingest.wire import Id, Instant, Labels, Limits, Word

MOST_WINDOWS = 100

#: People plan: a maintenance window or its exclusion may lie in the next year.
_FURTHEST_US = 366 * DAY_US

Why = Annotated[str, Meta(min_length=1, max_length=500, extra={"reads": "text"})]


class NewMarker(Struct, kw_only=True, forbid_unknown_fields=True):
    """A marker to keep."""

    at: Instant
    kind: MarkerKind
    title: Word
    end: Instant | None = None
    labels: Labels | None = None
    id: Id | None = None


class NewVerdict(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a failure was. Without an origin it is the one that the cause commonly has."""

    cause: Cause
    why: Why
    origin: Origin | None = None


class NewWindow(
    Struct,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"from_at": "from", "to_at": "to"},
):
    """A stretch of time, up to and without ``to``; what is left out leaves that end open."""

    from_at: Instant | None = None
    to_at: Instant | None = None


class NewExclusion(NewWindow, kw_only=True, forbid_unknown_fields=True):
    """What to take out of the fleet's numbers: ``windows``, or one of them, or all of the job."""

    why: Why
    windows: Annotated[list[NewWindow], Meta(min_length=1, max_length=MOST_WINDOWS)] | None = None


_ABSENT = {"type": "null"}
_ONE_WINDOW_OR_SEVERAL = [
    {"properties": {"windows": _ABSENT}},
    {"properties": {"from": _ABSENT, "to": _ABSENT}},
]


def frame(now_us: int) -> Frame:
    """Return what the readers need: instants from 1970 to a year from now."""
    return Frame(Limits(max_future_us=_FURTHEST_US), now_us)


def remark_schema() -> dict[str, Any]:
    """Return the JSON schemas by name, for OpenAPI."""
    kinds = (NewMarker, NewVerdict, NewExclusion)
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schemas["NewExclusion"]["anyOf"] = _ONE_WINDOW_OR_SEVERAL
    return schemas


class NewTriage(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a finding is, and where it was found wrongly: its onset, its cohort."""

    verdict: Triage
    why: Why
    onset: Instant | None = None
    cohort: Labels | None = None


class NewConfirmation(Struct, kw_only=True, forbid_unknown_fields=True):
    """Two jobs that were launched to settle a finding, the first without its change."""

    base_job: Word
    job: Word


class NewReset(Struct, kw_only=True, forbid_unknown_fields=True):
    """Ignore the verdicts on a metric so far."""

    metric: Metric
    why: Why


class NewAcknowledgement(Struct, kw_only=True, forbid_unknown_fields=True):
    """Somebody looks after it."""

    why: Why | None = None


class NewBaseline(Struct, kw_only=True, forbid_unknown_fields=True):
    """Accept the change as the new baseline."""

    why: Why


class NewRegressionMute(Struct, kw_only=True, forbid_unknown_fields=True):
    """Mute the cohort and phase of a regression for a while: nobody is notified."""

    until: Instant
    why: Why


PHASES = tuple(sorted({*map(str, Phase), *map(str, Category)}))
"""What a mute may be of: phases, and the categories that they are put into."""

MutedPhase = Annotated[Word, Meta(extra_json_schema={"enum": PHASES})]
MutedCohort = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=128, extra_json_schema={"enum": DIMENSIONS})],
        Annotated[str, Meta(max_length=256)],
    ],
    Meta(max_length=16, extra={"reads": "labels"}),
]


class NewMute(
    NewRegressionMute, kw_only=True, forbid_unknown_fields=True, rename={"begin": "from"}
):
    """Mute a cohort and a phase, or any that is left out; without `from`, from now on."""

    cohort: MutedCohort | None = None
    phase: MutedPhase | None = None
    begin: Instant | None = None


def regression_remark_schema() -> dict[str, Any]:
    """Return the JSON schemas by name, for OpenAPI."""
    kinds = (
        NewTriage, NewConfirmation, NewReset, NewAcknowledgement, NewBaseline,
        NewRegressionMute, NewMute,
    )  # fmt: skip
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return schemas
