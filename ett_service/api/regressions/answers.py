"""Answers about regressions: the row of a list, and everything about one."""

import math
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from pydantic import AliasPath, Field

from ett_service.api.answers import (
    Answer,
    ComputedAnswer,
    EmptyIsNull,
    Finite,
    Instant,
    IntervalAnswer,
    KeyPrefix,
    NextCursor,
    Of,
    Ratio,
    Seconds,
    Sources,
    finite,
    seconds,
)
from ett_service.api.regressions.mutes import MuteAnswer, key_name
from ett_service.api.regressions.power import CohortLabels, PowerAnswer, SubjectPart
from ett_service.core.intervals import DAY_US, rfc3339
from ett_service.core.regressions.finding import Metric, Resolution, State, Triage, Unit, Verdict

_AROUND_US = 2 * DAY_US


def _finding(*path: str | int) -> AliasPath:
    return AliasPath("standing", "finding", *path)


def _in_unit(name: str) -> Of:
    def compute(side: Any) -> float | None:
        value = finite(getattr(side, name))
        return seconds(value) if value is not None and side.unit == "seconds" else value

    return Of(compute)


class ObservedAnswer(ComputedAnswer):
    """Values before or after the onset, in the regression's `unit`."""

    n: int = Field(description="The number of values; for a rate, of events; for ETT%, of days.")
    days: int = Field(description="Days with values.")
    median: Annotated[float | None, _in_unit("median")] = Field(
        description="For a rate or a ratio, the rate or ratio itself."
    )
    p90: Annotated[float | None, _in_unit("p90")]
    from_at: Instant = Field(serialization_alias="from")
    to_at: Instant = Field(serialization_alias="to")


class ImpactAnswer(Answer):
    """The cost of a regression. For an improvement, the numbers are negative."""

    gpu_hours_per_week: Finite = Field(description="Null while accelerators are unknown.")
    ett_points: Finite = Field(description="Of the cohort's ETT%; negative is worse.")
    cost_per_week: Finite = Field(description="Null without a price.")
    currency: Annotated[str | None, EmptyIsNull]


def _interval(row: Any) -> dict[str, float] | None:
    return _bounded(row.standing.finding)


def _bounded(finding: Any) -> dict[str, float] | None:
    if not (math.isfinite(finding.low) and math.isfinite(finding.high)):
        return None
    return {"low": finding.low, "high": finding.high}


def _observed(side: str) -> Of:
    return Of(lambda row: _side(row.standing.finding, side))


def _side(finding: Any, side: str) -> Sources:
    unit = finding.series.subject.metric.unit
    return Sources((getattr(finding, side),), {"unit": unit})


def _muted_until(row: Any) -> int | None:
    series = row.standing.finding.series
    covering = [each.until_us for each in row.muted if each.covers(series, each.from_us)]
    return max(covering, default=None)


class RegressionRow(ComputedAnswer):
    """A finding in one line. Only findings with the verdict `regression` alert."""

    id: str
    project: str
    fingerprint: str = Field(
        validation_alias=_finding("fingerprint"),
        description="Of the series; a regression that comes back has the same.",
    )
    metric: Metric = Field(validation_alias=_finding("series", "subject", "metric"))
    phase: SubjectPart = Field(validation_alias=_finding("series", "subject", "phase"))
    stage: SubjectPart = Field(validation_alias=_finding("series", "subject", "stage"))
    cause: SubjectPart = Field(
        validation_alias=_finding("series", "subject", "cause"),
        description="The cause of failures; null for all causes.",
    )
    cohort: CohortLabels = Field(
        validation_alias=_finding("series", "cohort"), description="Empty for the whole project."
    )
    verdict: Verdict = Field(validation_alias=AliasPath("standing", "verdict"))
    state: State = Field(validation_alias=AliasPath("standing", "state"))
    severity: str
    unit: Unit = Field(
        validation_alias=_finding("series", "subject", "metric", "unit"),
        description="Of the values before and after.",
    )
    ratio: Finite = Field(
        validation_alias=_finding("ratio"),
        description="After over before, estimated from all values of both sides: it is not the "
        "quotient of the two medians. Null where before is 0.",
    )
    interval: Annotated[IntervalAnswer | None, Of(_interval)] = Field(
        description="95% interval of the ratio."
    )
    mean_ratio: Finite = Field(
        validation_alias=_finding("mean_ratio"),
        description="Of durations the ratio of the means, which is what is paid for: a few long "
        "ones move it, and not `ratio`. Null of rates and shares, and where nobody recorded it.",
    )
    before: Annotated[ObservedAnswer, _observed("before")]
    after: Annotated[ObservedAnswer, _observed("after")]
    impact: ImpactAnswer = Field(validation_alias=_finding("impact"))
    onset_at: Instant = Field(
        validation_alias=AliasPath("standing", "onset_us"), description="The estimated onset."
    )
    pending_at: Instant = Field(
        validation_alias=AliasPath("standing", "pending_us"), description="When it was first found."
    )
    firing_at: Instant | None = Field(validation_alias=AliasPath("standing", "firing_us"))
    resolved_at: Instant | None = Field(validation_alias=AliasPath("standing", "resolved_us"))
    last_run_at: Instant = Field(
        validation_alias=AliasPath("standing", "last_run_us"),
        description="The last search with enough values. All numbers of the finding are those of "
        "the last one that found it, which is `after.to`.",
    )
    reopened: int = Field(
        validation_alias=AliasPath("standing", "reopened"),
        description="How often it came back within 72 hours.",
    )
    ended: Resolution | None = Field(
        validation_alias=AliasPath("standing", "ended"),
        description="Why it is resolved; null where it is not, or nobody recorded it.",
    )
    merged_into: str | None = Field(
        description="The finding that reports the same change; null for all but `merged` ones."
    )
    acknowledged_at: Instant | None
    acknowledged_by: KeyPrefix | None
    acknowledged_by_name: Annotated[str | None, key_name("acknowledged_by")]
    triage: Triage | None = Field(description="The verdict of a person.")
    triage_at: Instant | None
    triage_by: KeyPrefix | None
    triage_by_name: Annotated[str | None, key_name("triage_by")]
    muted_until: Annotated[Instant | None, Of(_muted_until)] = Field(
        description="Null where no mute is in force."
    )


class RegressionPage(Answer):
    """A page of findings."""

    regressions: list[RegressionRow]
    small: int = Field(
        description="Findings that cost less than `impact_floor`, and match otherwise. They are "
        "listed only by `verdict=small`."
    )
    next_cursor: NextCursor


class GateAnswer(Answer):
    """One condition of the verdict."""

    name: str
    value: Finite = Field(description="Null where it could not be computed.")
    limit: float
    passed: bool
    as_of_at: Instant = Field(
        validation_alias="as_of_us",
        serialization_alias="as_of",
        description="Those that the last search did not check are of the day on which it fired.",
    )


def _gates(regression: Any) -> list[Sources]:
    finding, fired = regression.standing.finding, regression.standing.fired
    earlier = () if fired is None else fired.gates
    return [
        Sources(
            (gate,), {"as_of_us": fired.after.to_us if gate in earlier else finding.after.to_us}
        )
        for gate in finding.gates
    ]


class SuspectAnswer(Answer):
    """A value that the change is associated with. It is not yet shown to be the cause."""

    dimension: str
    value: str
    explains: Ratio = Field(description="The part of the change that disappears without it.")
    attempts: int
    first_seen_at: Instant | None


def _bounds(compared: Any) -> dict[str, float] | None:
    if compared.low <= 0 or not math.isfinite(compared.high):
        return None
    return {"low": compared.low, "high": compared.high}


class SideBySideAnswer(ComputedAnswer):
    """Attempts with the first suspect and without it after the onset, compared directly."""

    dimension: str
    value: str
    against: str = Field(description="The value of the others; empty for all others.")
    attempts: int = Field(validation_alias="n")
    against_attempts: int = Field(validation_alias="against_n")
    ratio: float = Field(description="Without their difference before, if both ran then.")
    ratio_interval: Annotated[IntervalAnswer | None, Of(_bounds)] = Field(
        description="Null where it has no bounds."
    )
    p: float


class NearMarkerAnswer(Answer):
    """A marker near the onset."""

    id: str
    kind: str
    title: str
    at: Instant = Field(validation_alias="at_us")
    score: float


class ExampleAnswer(Answer):
    """An attempt that shows the change."""

    job: str
    number: int
    link: str


def _examples(attribution: Any) -> list[dict[str, Any]]:
    return [
        {"job": job, "number": number, "link": _job_link(job, attribution.project)}
        for job, number in attribution.examples
    ]


def _job_link(job: str, project: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}?{urlencode([('project', project)])}"


class AttributionAnswer(ComputedAnswer):
    """Where the change lies, and what it is associated with."""

    phase_shares: dict[str, float] = Field(
        description="Shares of the change of the time to start, or of ETT% by category."
    )
    cohort_shares: dict[str, float]
    suspects: list[SuspectAnswer] = Field(description="The one that explains most comes first.")
    markers: list[NearMarkerAnswer] = Field(description="The nearest comes first.")
    examples: Annotated[list[ExampleAnswer], Of(_examples)]
    within_points: float | None = Field(description="ETT points within cohorts.")
    mix_points: float | None = Field(description="ETT points of the mix of jobs.")
    as_of_at: Instant | None = Field(
        validation_alias="as_of_us",
        serialization_alias="as_of",
        description="The end of the time that was looked at for it.",
    )
    onset_at: Instant | None = Field(
        validation_alias="onset_us",
        description="The onset that was looked at. Where it is not that of the finding, somebody "
        "moved it since, and the next search looks again.",
    )
    side_by_side: SideBySideAnswer | None = Field(
        description="Null without a suspect, or if nothing ran beside it."
    )


class ClockAnswer(Answer):
    """The time that a step has taken, or has taken so far, against its limit in the settings."""

    seconds: Seconds = Field(validation_alias="us")
    limit_seconds: Seconds
    runs: bool = Field(description="Whether the step is not done yet.")
    breached: bool


class ClocksAnswer(Answer):
    """The clocks of a regression; null for a clock that has not started."""

    detect: ClockAnswer | None = Field(
        description="From the onset until it fired. Null where it began before the project was "
        "first searched: that time is not the search's."
    )
    acknowledge: ClockAnswer | None = Field(
        description="From firing until it was acknowledged or resolved."
    )
    resolve: ClockAnswer | None = Field(description="From firing until it was resolved.")


class HistoryAnswer(ComputedAnswer):
    """An event in the history of a regression: who did what and why."""

    at: Instant = Field(validation_alias="at_us")
    what: str
    by: str = Field(description="Prefix of a key, or `detector` for the search.")
    by_name: Annotated[str | None, key_name("by")]
    why: str
    version: int = Field(description="The version that receivers were notified of by then.")


class RegressionLinks(Answer):
    """Where to read on."""

    regression: str
    fleet: str = Field(description="The time of this cohort by day, before and after.")
    markers: str = Field(description="The markers in the days around the onset.")


def _links(regression: Any) -> dict[str, str]:
    finding, project = regression.standing.finding, ("project", regression.project)
    onset_us = regression.standing.onset_us
    around = [("from", rfc3339(onset_us - _AROUND_US)), ("to", rfc3339(onset_us + _AROUND_US))]
    both = [("from", rfc3339(finding.before.from_us)), ("to", rfc3339(finding.after.to_us))]
    where = [("where", f"{name}:{value}") for name, value in finding.series.cohort]
    return {
        "regression": f"/v1/regressions/{quote(regression.id, safe='')}?{urlencode([project])}",
        "fleet": f"/v1/fleet/series?{urlencode([project, *both, *where, ('step', '1d')])}",
        "markers": f"/v1/markers?{urlencode([project, *around])}",
    }


class FiredAnswer(ComputedAnswer):
    """The numbers of the day on which it fired; those of the finding itself are of its last day."""

    at: Instant = Field(validation_alias=AliasPath("after", "to_us"))
    cohort: Annotated[dict[str, str], Of(lambda fired: dict(fired.series.cohort))] = Field(
        description="In which it fired: somebody may have moved it since."
    )
    ratio: Finite
    interval: Annotated[IntervalAnswer | None, Of(_bounded)]
    before: Annotated[ObservedAnswer, Of(lambda fired: _side(fired, "before"))]
    after: Annotated[ObservedAnswer, Of(lambda fired: _side(fired, "after"))]
    impact: ImpactAnswer
    p: float
    q: float


def _fired(regression: Any) -> Sources | None:
    fired = regression.standing.fired
    return None if fired is None else Sources((fired,), {})


def _attribution(regression: Any) -> Sources:
    return Sources((regression.attribution,), {"project": regression.project})


class RegressionAnswer(RegressionRow):
    """Everything about a finding."""

    p: float = Field(validation_alias=_finding("p"), description="The p-value of the test.")
    q: float = Field(
        validation_alias=_finding("q"),
        description="The p-value corrected for the number of series.",
    )
    gates: Annotated[list[GateAnswer], Of(_gates)] = Field(
        description="The conditions of the verdict."
    )
    fired: Annotated[FiredAnswer | None, Of(_fired)] = Field(
        description="Null while it is pending, and where nobody recorded it."
    )
    attribution: Annotated[AttributionAnswer, Of(_attribution)]
    power: PowerAnswer | None = Field(
        description="What the last search could have found here; null if it did not search here."
    )
    sla: ClocksAnswer | None = Field(description="Null for a finding that does not alert.")
    mutes: list[MuteAnswer] = Field(description="The mutes in force that cover it.")
    history: list[HistoryAnswer] = Field(description="The earliest comes first.")
    links: Annotated[RegressionLinks, Of(_links)]
